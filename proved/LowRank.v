(** What is proved of the logits of one input: scores of the answers and a loss, such that the difference of any two
    logits is that of their scores, but for the loss at most.

    [exact_scores] are the logits themselves, with no loss: one sum over all neurons for each answer. [low_scores] needs
    only a few sums: W_L c i = sum over f of (B f c * M f i) + R c i for any functions B and weights M, so that

      logit c = sum over f of (B f c * h f) + S c + sum over i of (R c i * sigma i),   h f = sum over i of (M f i * sigma i).

    The last sum differs between two answers by at most sum over i of (r i * |sigma i|), r i being the largest less the
    smallest of R . i. B and M are hints: whatever they are, the bound holds. *)

Require Import Proved.Matrix Proved.Network Proved.Collapse.

Definition bounded (q : nat) (truth : nat -> Z) (scores : list Z) (loss : Z) : Prop :=
  length scores = q /\ forall c o, (c < q)%nat -> (o < q)%nat ->
    nth c scores 0 - nth o scores 0 - loss <= truth c - truth o.

(** The hidden layer of one input. *)
Definition layer (f : activation) (k : collapsed) (a b : nat) : list Z :=
  map2 (fun x y => sigma f (x + y)) (nth a (U_a k) []) (nth b (U_b k) []).

(** What passes by it, for each answer. *)
Definition skips (k : collapsed) (a b : nat) : list Z := map2 Z.add (nth a (S_a k) []) (nth b (S_b k) []).

Definition exact_scores (k : collapsed) (sigmas skips : list Z) : list Z :=
  map2 (fun w s => dot_onto s w sigmas) (W_L k) skips.

Section Layer.
  Variables (q m : nat) (f : activation) (k : collapsed) (a b : nat).
  Hypotheses (sizes : tables q m k) (Ha : (a < q)%nat) (Hb : (b < q)%nat).

  Lemma layer_length : length (layer f k a b) = m.
  Proof. destruct sizes as (HA & HB & _). apply length_map2; eapply shape_row; eauto. Qed.

  Lemma layer_nth i : (i < m)%nat ->
    nth i (layer f k a b) 0 = sigma f (entry (U_a k) a i + entry (U_b k) b i).
  Proof.
    intros. destruct sizes as (HA & HB & _). unfold layer.
    rewrite (nth_map2 _ m _ _ i 0 0); trivial; eapply shape_row; eauto.
  Qed.

  Lemma skips_length : length (skips k a b) = q.
  Proof. destruct sizes as (_ & _ & _ & HA & HB). apply length_map2; eapply shape_row; eauto. Qed.

  Lemma skips_nth c : (c < q)%nat -> nth c (skips k a b) 0 = entry (S_a k) a c + entry (S_b k) b c.
  Proof.
    intros. destruct sizes as (_ & _ & _ & HA & HB). unfold skips.
    rewrite (nth_map2 _ q _ _ c 0 0); trivial; eapply shape_row; eauto.
  Qed.

  Lemma exact_bounded : bounded q (form f m k a b) (exact_scores k (layer f k a b) (skips k a b)) 0.
  Proof.
    destruct sizes as (_ & _ & HW & _). pose proof (proj1 HW) as Hl. unfold exact_scores. split.
    - apply length_map2; trivial. apply skips_length.
    - assert (same : forall c, (c < q)%nat -> nth c (exact_scores k (layer f k a b) (skips k a b)) 0 = form f m k a b c).
      { intros c Hc. unfold exact_scores. rewrite (nth_map2 _ q _ _ c [] 0); trivial; [|apply skips_length].
        rewrite (dot_onto_sum m); [|eapply shape_row; eauto|apply layer_length].
        rewrite skips_nth by trivial. unfold form. rewrite (sum_ext m _ (fun i => entry (W_L k) c i
          * sigma f (entry (U_a k) a i + entry (U_b k) b i))); [lia|].
        intros i Hi. rewrite layer_nth by trivial. trivial. }
      intros c o Hc Ho. fold (exact_scores k (layer f k a b) (skips k a b)). rewrite !same by trivial. lia.
  Qed.
End Layer.

(** * The low-rank form *)

(** B by answer (a row of [rank] numbers for each), M by function (a row of neurons for each), and r. *)
Record low_rank := { of_answer : rows_of; weights : rows_of; spread : list Z }.

(** The largest and the smallest of each column. *)
Definition ends (pick : Z -> Z -> Z) (m : rows_of) : list Z :=
  match m with
  | [] => []
  | row :: m => fold_left (map2 pick) m row
  end.

(** What the form leaves out of W_L, a row for each answer. *)
Definition remainder (m : nat) (W B M : rows_of) : rows_of :=
  let of_neuron := transpose m M in
  map2 (fun w b => map2 (fun x column => x - dot b column) w of_neuron) W B.

Definition low_rank_form (q m : nat) (W basis coefficients : rows_of) : low_rank :=
  let B := transpose q basis in
  let R := remainder m W B coefficients in
  {| of_answer := B; weights := coefficients; spread := map2 Z.sub (ends Z.max R) (ends Z.min R) |}.

Definition low_scores (l : low_rank) (sigmas skips : list Z) : list Z * Z :=
  let h := map (fun w => dot w sigmas) (weights l) in
  (map2 (fun b s => dot_onto s b h) (of_answer l) skips, dot (spread l) (map Z.abs sigmas)).

(** A bound that [pick] keeps for both of its arguments holds for every entry of every row. *)
Lemma ends_from (pick : Z -> Z -> Z) (le : Z -> Z -> Prop) :
  (forall x, le x x) -> (forall x y z, le x y -> le y z -> le x z) ->
  (forall x y, le x (pick x y) /\ le y (pick x y)) ->
  forall r c m row i, shape r c m -> length row = c -> (i < c)%nat ->
    length (fold_left (map2 pick) m row) = c
    /\ le (nth i row 0) (nth i (fold_left (map2 pick) m row) 0)
    /\ forall j, (j < r)%nat -> le (entry m j i) (nth i (fold_left (map2 pick) m row) 0).
Proof.
  intros refl trans picks r c m. revert r. induction m as [|next m IH]; intros r row i [Hl all] Hrow Hi; simpl.
  - split; [trivial|]. split; [apply refl|]. intros j Hj. simpl in Hl. lia.
  - inversion all as [|? ? Hnext Hall]; subst.
    destruct (IH (length m) (map2 pick row next) i) as (len & here & rest);
      [split; trivial|apply length_map2; trivial|trivial|].
    rewrite (nth_map2 pick (length row) row next i 0 0) in here by trivial.
    destruct (picks (nth i row 0) (nth i next 0)) as [left right].
    split; [trivial|]. split; [eapply trans; eauto|]. intros [|j] Hj; [eapply trans; eauto|].
    apply rest. simpl in Hj. lia.
Qed.

Lemma ends_spec (pick : Z -> Z -> Z) (le : Z -> Z -> Prop) :
  (forall x, le x x) -> (forall x y z, le x y -> le y z -> le x z) ->
  (forall x y, le x (pick x y) /\ le y (pick x y)) ->
  forall r c m, shape r c m -> (0 < r)%nat -> (0 < c)%nat ->
    length (ends pick m) = c /\ forall i j, (j < r)%nat -> (i < c)%nat -> le (entry m j i) (nth i (ends pick m) 0).
Proof.
  intros refl trans picks r c m [Hl all] Hr Hc. destruct m as [|row m]; [simpl in Hl; lia|].
  inversion all as [|? ? Hrow Hall]; subst. simpl.
  assert (from := fun i => ends_from pick le refl trans picks (length m) (length row) m row i (conj eq_refl Hall) eq_refl).
  split; [apply (from 0%nat Hc)|]. intros i [|j] Hj Hi; destruct (from i Hi) as (_ & first & others); [exact first|].
  apply others. simpl in Hj. lia.
Qed.

Section Low.
  Variables (q m rank : nat) (f : activation) (k : collapsed) (basis coefficients : rows_of) (a b : nat).
  Hypotheses (sizes : tables q m k) (Ha : (a < q)%nat) (Hb : (b < q)%nat) (Hm : (0 < m)%nat).
  Hypotheses (HB : shape rank q basis) (HM : shape rank m coefficients).
  Notation B := (transpose q basis).
  Notation R := (remainder m (W_L k) B coefficients).

  Lemma remainder_spec : shape q m R /\ forall c i, (c < q)%nat -> (i < m)%nat ->
    entry R c i = entry (W_L k) c i - sum rank (fun g => entry B c g * entry coefficients g i).
  Proof.
    destruct sizes as (_ & _ & HW & _). pose proof (transpose_shape _ _ _ HB) as HBt.
    pose proof (transpose_shape _ _ _ HM) as HMt. unfold remainder.
    assert (row : forall c, (c < q)%nat -> nth c R [] =
      map2 (fun x column => x - dot (nth c B []) column) (nth c (W_L k) []) (transpose m coefficients)).
    { intros c Hc. unfold remainder. rewrite (nth_map2 _ q _ _ c [] []); trivial; [apply HW|apply HBt]. }
    unfold remainder in row. split.
    - apply shape_intro; [apply length_map2; [apply HW|apply HBt]|]. intros c Hc. rewrite row by trivial.
      apply length_map2; [eapply shape_row; eauto|apply HMt].
    - intros c i Hc Hi. unfold entry at 1. rewrite row by trivial.
      rewrite (nth_map2 _ m _ _ i 0 []); [|eapply shape_row; eauto|apply HMt|trivial].
      rewrite (dot_sum rank); [|eapply shape_row; eauto|eapply shape_row; eauto]. f_equal.
      apply sum_ext. intros g Hg. f_equal. apply (transpose_entry rank m); trivial.
  Qed.

  Notation l := (low_rank_form q m (W_L k) basis coefficients).
  Notation sigmas := (layer f k a b).

  Lemma low_bounded :
    let (scores, loss) := low_scores l sigmas (skips k a b) in bounded q (form f m k a b) scores loss.
  Proof.
    destruct remainder_spec as [HR Rentry]. pose proof (transpose_shape _ _ _ HB) as HBt.
    assert (0 < q)%nat as Hq by lia.
    destruct (ends_spec Z.max Z.le Z.le_refl Z.le_trans (fun x y => conj (Z.le_max_l x y) (Z.le_max_r x y)) q m R HR Hq Hm)
      as [Lmax Hmax].
    assert (trans : forall x y z, x >= y -> y >= z -> x >= z) by lia.
    assert (picks : forall x y, x >= Z.min x y /\ y >= Z.min x y) by lia.
    assert (refl : forall x, x >= x) by lia.
    destruct (ends_spec Z.min Z.ge refl trans picks q m R HR Hq Hm) as [Lmin Hmin].
    unfold low_scores. cbn [weights of_answer spread low_rank_form].
    set (h := map (fun w => dot w sigmas) coefficients).
    pose proof (layer_length q m f k a b sizes Ha Hb) as Hlayer.
    pose proof (skips_length q m k a b sizes Ha Hb) as Hskips.
    assert (Hh : length h = rank) by (unfold h; rewrite map_length; apply HM).
    assert (hnth : forall g, (g < rank)%nat -> nth g h 0 = sum m (fun i => entry coefficients g i * nth i sigmas 0)).
    { intros g Hg. unfold h. rewrite (nth_map _ _ g []) by (destruct HM; lia).
      rewrite (dot_sum m); [trivial|eapply shape_row; eauto|trivial]. }
    set (scores := map2 _ B (skips k a b)).
    assert (Hscore : forall c, (c < q)%nat -> form f m k a b c = nth c scores 0 + sum m (fun i => entry R c i * nth i sigmas 0)).
    { intros c Hc. unfold scores. rewrite (nth_map2 _ q _ _ c [] 0); trivial; [|apply HBt].
      rewrite (dot_onto_sum rank); [|eapply shape_row; eauto|trivial].
      rewrite (skips_nth q m) by trivial. unfold form.
      rewrite (sum_ext rank _ (fun g => sum m (fun i => entry B c g * entry coefficients g i * nth i sigmas 0))).
      2:{ intros g Hg. rewrite hnth by trivial. rewrite <- sum_scale. apply sum_ext. intros. unfold entry. ring. }
      rewrite sum_swap.
      rewrite (sum_ext m (fun i => entry (W_L k) c i * _) (fun i =>
        sum rank (fun g => entry B c g * entry coefficients g i * nth i sigmas 0) + entry R c i * nth i sigmas 0)).
      2:{ intros i Hi. rewrite Rentry by trivial. rewrite <- (layer_nth q m) by trivial. rewrite sum_scale_r. ring. }
      rewrite sum_add. ring. }
    split; [apply length_map2; trivial; apply HBt|].
    intros c o Hc Ho. rewrite (Hscore c), (Hscore o) by trivial.
    rewrite (dot_sum m); [|apply length_map2; trivial|rewrite map_length; trivial].
    assert (- sum m (fun i => nth i (map2 Z.sub (ends Z.max R) (ends Z.min R)) 0 * nth i (map Z.abs sigmas) 0)
      <= sum m (fun i => entry R c i * nth i sigmas 0) - sum m (fun i => entry R o i * nth i sigmas 0)); [|lia].
    rewrite <- sum_sub. replace (- sum m _) with (-1 * sum m (fun i =>
      nth i (map2 Z.sub (ends Z.max R) (ends Z.min R)) 0 * nth i (map Z.abs sigmas) 0)) by ring.
    rewrite <- sum_scale. apply sum_le. intros i Hi.
    rewrite (nth_map2 Z.sub m _ _ i 0 0) by trivial. rewrite (nth_map Z.abs _ i 0) by lia.
    specialize (Hmax i) as Mx. specialize (Hmin i) as Mn.
    pose proof (Mx c Hc Hi). pose proof (Mx o Ho Hi). pose proof (Mn c Hc Hi). pose proof (Mn o Ho Hi).
    set (x := nth i sigmas 0). set (hi := nth i (ends Z.max R) 0) in *. set (lo := nth i (ends Z.min R) 0) in *.
    destruct (Z.abs_spec x) as [[? ->]|[? ->]]; nia.
  Qed.
End Low.

(** * The same network written otherwise *)

(** |x| = 2 max(0, x) - x: a network with |x| is one with ReLU, whose W_L is doubled; what -x adds is a skip term. *)
Definition with_relu (k : collapsed) : collapsed :=
  let less S U := map2 (fun s u => map2 (fun x w => x - dot w u) s (W_L k)) S U in
  {| U_a := U_a k; U_b := U_b k; W_L := map (map (Z.mul 2)) (W_L k);
     S_a := less (S_a k) (U_a k); S_b := less (S_b k) (U_b k); lift := lift k; w_shift := w_shift k |}.

Lemma less_spec q m W S U : shape q m W -> shape q q S -> shape q m U ->
  let T := map2 (fun s u => map2 (fun x w => x - dot w u) s W) S U in
  shape q q T /\ forall a c, (a < q)%nat -> (c < q)%nat ->
    entry T a c = entry S a c - sum m (fun i => entry W c i * entry U a i).
Proof.
  intros HW HS HU T.
  assert (row : forall a, (a < q)%nat -> nth a T [] =
    map2 (fun x w => x - dot w (nth a U [])) (nth a S []) W).
  { intros a Ha. unfold T. rewrite (nth_map2 _ q _ _ a [] []); trivial; [apply HS|apply HU]. }
  split.
  - apply shape_intro; [apply length_map2; [apply HS|apply HU]|]. intros a Ha. rewrite row by trivial.
    apply length_map2; [eapply shape_row; eauto|apply HW].
  - intros a c Ha Hc. unfold entry at 1. rewrite row by trivial.
    rewrite (nth_map2 _ q _ _ c 0 []); [|eapply shape_row; eauto|apply HW|trivial].
    rewrite (dot_sum m); [trivial|eapply shape_row; eauto|eapply shape_row; eauto].
Qed.

Lemma with_relu_correct q m k : tables q m k -> tables q m (with_relu k)
  /\ forall a b c, (a < q)%nat -> (b < q)%nat -> (c < q)%nat ->
       form Relu m (with_relu k) a b c = form Abs m k a b c.
Proof.
  intros (HA & HB & HW & HSa & HSb).
  destruct (less_spec q m _ _ _ HW HSa HA) as [shape_a less_a].
  destruct (less_spec q m _ _ _ HW HSb HB) as [shape_b less_b]. split.
  - unfold tables, with_relu. cbn [U_a U_b W_L S_a S_b]. split; [trivial|]. split; [trivial|]. split; [|split; trivial].
    apply (shape_map q m); trivial. intros. rewrite map_length. trivial.
  - intros a b c Ha Hb Hc. unfold form, with_relu. cbn [U_a U_b W_L S_a S_b].
    rewrite less_a, less_b by trivial.
    rewrite (sum_ext m (fun i => entry (map _ _) c i * _) (fun i =>
      entry (W_L k) c i * sigma Abs (entry (U_a k) a i + entry (U_b k) b i)
      + entry (W_L k) c i * entry (U_a k) a i + entry (W_L k) c i * entry (U_b k) b i)).
    + rewrite !sum_add. ring.
    + intros i Hi. rewrite (entry_map q m) by trivial.
      rewrite (nth_map _ _ i 0) by (rewrite (shape_row q m); trivial).
      change (nth i (nth c (W_L k) []) 0) with (entry (W_L k) c i).
      set (w := entry (W_L k) c i). set (x := entry (U_a k) a i). set (y := entry (U_b k) b i). cbn [sigma].
      replace (Z.abs (x + y)) with (2 * Z.max 0 (x + y) - (x + y)) by lia. ring.
Qed.

(** All logits times a positive factor. *)
Definition finer (factor : Z) (k : collapsed) : collapsed :=
  let more := map (map (Z.mul factor)) in
  {| U_a := U_a k; U_b := U_b k; W_L := more (W_L k); S_a := more (S_a k); S_b := more (S_b k);
     lift := lift k; w_shift := w_shift k |}.

Lemma more_spec r c m factor : shape r c m -> shape r c (map (map (Z.mul factor)) m)
  /\ forall i j, (i < r)%nat -> (j < c)%nat -> entry (map (map (Z.mul factor)) m) i j = factor * entry m i j.
Proof.
  intros H. split.
  - apply (shape_map r c); trivial. intros. rewrite map_length. trivial.
  - intros. rewrite (entry_map r c) by trivial. rewrite (nth_map _ _ j 0) by (rewrite (shape_row r c); trivial). trivial.
Qed.

Lemma finer_correct q m f k factor : tables q m k -> tables q m (finer factor k)
  /\ forall a b c, (a < q)%nat -> (b < q)%nat -> (c < q)%nat ->
       form f m (finer factor k) a b c = factor * form f m k a b c.
Proof.
  intros (HA & HB & HW & HSa & HSb).
  destruct (more_spec _ _ _ factor HW) as [shape_w more_w]. destruct (more_spec _ _ _ factor HSa) as [shape_a more_a].
  destruct (more_spec _ _ _ factor HSb) as [shape_b more_b]. split.
  - unfold tables, finer. cbn [U_a U_b W_L S_a S_b]. tauto.
  - intros a b c Ha Hb Hc. unfold form, finer. cbn [U_a U_b W_L S_a S_b]. rewrite more_a, more_b by trivial.
    rewrite (sum_ext m (fun i => entry (map _ (W_L k)) c i * _) (fun i => factor * (entry (W_L k) c i
      * sigma f (entry (U_a k) a i + entry (U_b k) b i)))).
    + rewrite sum_scale. ring.
    + intros i Hi. rewrite more_w by trivial. ring.
Qed.
