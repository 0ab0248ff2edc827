(** The collapse: a network with constant attention is one hidden layer,

      logit a b c = (sum over neurons i of W_L c i * sigma (U_a a i + U_b b i)) + S_a a c + S_b b c,

    up to a power of two. Everything before the activation is linear, so it can be done once for each token instead of
    once for each input; everything after it likewise. [collapse] forms these five tables, and [collapse_correct]
    proves that they give [logit], the forward pass of [Network]. *)

Require Import Proved.Matrix Proved.Network.

(** * From stored bits to scaled matrices *)

Definition c2 := 2.
Definition most_bits := 60%nat.

(** The same number with an odd integer, or nearly so: fewer bits to multiply. *)
Fixpoint strip (fuel : nat) (m : Z) (e : N) : Z * N :=
  match fuel with
  | O => (m, e)
  | S fuel => if m =? 0 then (m, e) else if m mod c2 =? 0 then strip fuel (m / c2) (e + c1) else (m, e)
  end.

Definition number_of (x : Z * N) : Z := fst x * pow2 (snd x).

Lemma strip_number fuel m e : number_of (strip fuel m e) = m * pow2 e.
Proof.
  revert m e. induction fuel as [|fuel IH]; intros; simpl; trivial.
  destruct (m =? 0); trivial. destruct (m mod c2 =? 0) eqn:even; trivial.
  rewrite IH, pow2_add. apply Z.eqb_eq in even. pose proof (Z.div_mod m c2 ltac:(discriminate)) as split.
  rewrite even in split. rewrite split at 2. change (pow2 c1) with c2. ring.
Qed.

Definition short (kind : number) (bits : Z) : Z * N := let (m, e) := decode kind bits in strip most_bits m e.

Lemma short_value kind bits : number_of (short kind bits) = value kind bits.
Proof. unfold short, value. destruct (decode kind bits). apply strip_number. Qed.

(** The smallest exponent of a row of floats other than 0, or k. *)
Definition lowest_of_row (kind : number) (k : N) (row : list Z) : N :=
  fold_left (fun k bits => let (m, e) := short kind bits in if m =? 0 then k else N.min k e) row k.
Definition highest_exponent := 4096%N.
Definition lowest (kind : number) (m : list (list Z)) : N := fold_left (lowest_of_row kind) m highest_exponent.

Definition above (kind : number) (k : N) (bits : Z) : Prop := fst (short kind bits) = 0 \/ (k <= snd (short kind bits))%N.

Lemma lowest_of_row_spec kind row k :
  (lowest_of_row kind k row <= k)%N /\ Forall (above kind (lowest_of_row kind k row)) row.
Proof.
  revert k. induction row as [|x row IH]; intros k; simpl; [split; [lia|constructor]|].
  unfold lowest_of_row in *. simpl.
  destruct (short kind x) as [m e] eqn:Hx.
  set (k' := if m =? 0 then k else N.min k e). destruct (IH k') as [le all].
  assert (k' <= k)%N by (unfold k'; destruct (m =? 0); lia). split; [lia|]. constructor; trivial.
  unfold above. rewrite Hx. simpl. unfold k' in *. destruct (m =? 0) eqn:zero; [left; lia|right; lia].
Qed.

Lemma above_le kind k l bits : above kind k bits -> (l <= k)%N -> above kind l bits.
Proof. unfold above. intros [|]; [left|right]; trivial. lia. Qed.

Lemma lowest_onto kind m k : (fold_left (lowest_of_row kind) m k <= k)%N
  /\ Forall (Forall (above kind (fold_left (lowest_of_row kind) m k))) m.
Proof.
  revert k. induction m as [|row m IH]; intros k; simpl; [split; [lia|constructor]|].
  destruct (lowest_of_row_spec kind row k) as [le here]. destruct (IH (lowest_of_row kind k row)) as [le' there].
  split; [lia|]. constructor; trivial. eapply Forall_impl; [|exact here]. intros bits Habove. eapply above_le; eauto.
Qed.

(** The first r rows and c columns of a tensor. *)
Definition load (r c : nat) (t : tensor) : scaled :=
  let m := cut r c (content t) in
  let k := lowest (kind t) m in
  {| rows := map (map (fun bits => let (m, e) := short (kind t) bits in m * pow2 (e - k))) m; up := k |}.

Definition fits (r c : nat) (t : tensor) : bool :=
  shapeb r c (cut r c (content t)) && forallb (forallb (finite (kind t))) (content t).

Lemma is_load r c t : fits r c t = true -> is (load r c t) r c (weight t).
Proof.
  unfold fits. rewrite andb_true_iff. intros [Hs _]. apply shapeb_shape in Hs. unfold load.
  set (m := cut r c (content t)) in *. set (k := lowest (kind t) m). split; cbn [rows up].
  - apply (shape_map r c); trivial. intros. rewrite map_length. trivial.
  - intros i j Hi Hj. rewrite (entry_map r c) by trivial.
    pose proof (shape_row r c m i Hs Hi) as Hrow. rewrite (nth_map _ _ j 0) by lia.
    unfold weight. rewrite <- (entry_cut r c) by trivial. fold m. unfold entry. set (bits := nth j (nth i m []) 0).
    assert (above (kind t) k bits) as Habove.
    { pose proof (proj2 (lowest_onto (kind t) m highest_exponent)) as all. rewrite Forall_forall in all.
      assert (In (nth i m []) m) as Hin by (apply nth_In; destruct Hs; lia). apply all in Hin.
      rewrite Forall_forall in Hin. apply Hin, nth_In. lia. }
    rewrite <- short_value. unfold above, number_of in *. destruct (short (kind t) bits) as [x e]. simpl in *.
    destruct Habove as [-> | le]; [ring|]. rewrite (pow2_split e k) by trivial. ring.
Qed.

(** * The residual stream *)

(** The sum of one matrix for each head. *)
Fixpoint over_heads (heads : nat) (f : nat -> scaled) (start : scaled) : scaled :=
  match heads with
  | O => start
  | S h => plus (over_heads h f start) (f h)
  end.

Lemma is_over_heads heads f start r c g :
  is start r c (fun _ _ => 0) -> (forall h, (h < heads)%nat -> is (f h) r c (g h)) ->
  is (over_heads heads f start) r c (fun i j => sum heads (fun h => g h i j)).
Proof.
  intros Hs. induction heads as [|heads IH]; intros all; simpl; trivial.
  apply is_plus; [apply IH; intros; apply all; lia|apply all; lia].
Qed.

Definition ones (k : N) : N := (c1074 * k)%N.

Lemma is_ones k m r c f : is m r c f -> is (raise (ones k) m) r c (fun i j => f i j * one k).
Proof. apply is_raise. Qed.

Section Transformer.
  Variables (n : network) (t : transformer).
  Notation d := (d_model t).
  Notation dh := (d_head t).
  Notation positions := (length (attention t)).
  Notation tokens := (b_offset t + p n + (positions - 2))%nat.

  (** Sizes are as the config says, every weight is finite, and there are two or three positions. *)
  Definition transformer_fits : bool :=
    (Nat.eqb positions 2 || Nat.eqb positions 3) && Nat.ltb (read_position t) positions
    && forallb (finite F64) (attention t)
    && fits tokens d (W_E t) && fits positions d (W_pos t)
    && fits (n_heads t * d) dh (W_V t) && fits (n_heads t) dh (b_V t)
    && fits (n_heads t * dh) d (W_O t) && fits 1 d (b_O t)
    && fits d (d_mlp n) (W_in t) && fits 1 (d_mlp n) (b_in t)
    && fits (d_mlp n) d (W_out t) && fits 1 d (b_out t)
    && fits d (p n) (W_U t) && fits 1 (p n) (b_U t).

  Definition alpha (pos : nat) : Z * N := short F64 (nth pos (attention t) 0).

  (** What position [pos] brings to the residual stream: x through values and outputs of all heads, and x itself where
      the output is read. [x] has one row for each token that may stand there. *)
  Definition part (OV : scaled) (pos : nat) (x : scaled) : scaled :=
    let seen := scale_by (alpha pos) (times d x OV) in
    if Nat.eqb (read_position t) pos then plus seen (raise (ones 3) x) else seen.

  (** What a brings to the residual stream, and what b brings with all that is constant. *)
  Definition streams : scaled * scaled :=
    let WE := load tokens d (W_E t) in
    let Wpos := load positions d (W_pos t) in
    let WV := load (n_heads t * d) dh (W_V t) in
    let bV := load (n_heads t) dh (b_V t) in
    let WO := load (n_heads t * dh) d (W_O t) in
    let bO := load 1 d (b_O t) in
    let x start count pos := plus_row (some_rows start count WE) (some_rows pos 1 Wpos) in
    let out h := some_rows (h * dh) dh WO in
    let OV := over_heads (n_heads t) (fun h => times d (some_rows (h * d) d WV) (out h)) (zeros d d (up WV + up WO)) in
    let bias :=
      raise (ones 1) (over_heads (n_heads t) (fun h => times d (some_rows h 1 bV) (out h)) (zeros 1 d (up bV + up WO))) in
    let constant := plus (raise (ones 3) bO) (plus (scale_by (alpha 0) bias) (scale_by (alpha 1) bias)) in
    let third := plus (scale_by (alpha 2) bias) (part OV 2 (x (b_offset t + p n)%nat 1%nat 2%nat)) in
    (part OV 0 (x 0%nat (p n) 0%nat),
     plus_row (part OV 1 (x (b_offset t) (p n) 1%nat)) (if Nat.eqb positions 3 then plus constant third else constant)).

  (** The same as functions. *)
  Definition ov (j o : nat) : Z :=
    sum (n_heads t) (fun h => sum dh (fun k => W_V t (h * d + j)%nat k * W_O t (h * dh + k)%nat o)).
  Definition bv (o : nat) : Z := sum (n_heads t) (fun h => sum dh (fun k => b_V t h k * W_O t (h * dh + k)%nat o)).
  Definition brought (pos : nat) (x : nat -> Z) (o : nat) : Z :=
    attention_weight t pos * sum d (fun j => x j * ov j o)
    + (if Nat.eqb (read_position t) pos then x o * one 3 else 0).

  Lemma mixed_out a b o :
    sum (n_heads t) (fun h => sum dh (fun k => mixed n t a b h k * W_O t (h * dh + k)%nat o))
    = sum positions (fun pos => attention_weight t pos * sum d (fun j => stream n t a b pos j * ov j o)
                                + attention_weight t pos * (bv o * one 1)).
  Proof.
    unfold mixed.
    transitivity (sum (n_heads t) (fun h => sum positions (fun pos => sum dh (fun k =>
      attention_weight t pos * reading n t a b h pos k * W_O t (h * dh + k)%nat o)))).
    { apply sum_ext. intros h _. rewrite sum_swap. apply sum_ext. intros k _. rewrite <- sum_scale_r. trivial. }
    rewrite sum_swap. apply sum_ext. intros pos _. unfold reading.
    transitivity (sum (n_heads t) (fun h => sum dh (fun k =>
      attention_weight t pos * sum d (fun j => stream n t a b pos j * (W_V t (h * d + j)%nat k * W_O t (h * dh + k)%nat o))
      + attention_weight t pos * one 1 * (b_V t h k * W_O t (h * dh + k)%nat o)))).
    { apply sum_ext. intros h _. apply sum_ext. intros k _.
      rewrite Z.mul_add_distr_l, Z.mul_add_distr_r. f_equal; [|ring].
      rewrite <- Z.mul_assoc. f_equal. rewrite <- sum_scale_r. apply sum_ext. intros. ring. }
    transitivity (sum (n_heads t) (fun h =>
      attention_weight t pos * sum d (fun j => stream n t a b pos j
          * sum dh (fun k => W_V t (h * d + j)%nat k * W_O t (h * dh + k)%nat o))
      + attention_weight t pos * one 1 * sum dh (fun k => b_V t h k * W_O t (h * dh + k)%nat o))).
    { apply sum_ext. intros h _. rewrite sum_add, !sum_scale. f_equal. f_equal.
      rewrite sum_swap. apply sum_ext. intros j _. apply sum_scale. }
    rewrite sum_add, !sum_scale. f_equal; [|unfold bv; ring]. f_equal. rewrite sum_swap.
    apply sum_ext. intros j _. unfold ov. apply sum_scale.
  Qed.

  Hypothesis Hfits : transformer_fits = true.

  Lemma streams_correct : exists fa fb, is (fst streams) (p n) d fa /\ is (snd streams) (p n) d fb
    /\ forall a b j, (a < p n)%nat -> (b < p n)%nat -> (j < d)%nat -> residual n t a b j = fa a j + fb b j.
  Proof.
    pose proof Hfits as H. unfold transformer_fits in H. rewrite !andb_true_iff in H.
    destruct H as ((((((((((((((Hpos & Hread) & _) & HWE) & HWpos) & HWV) & HbV) & HWO) & HbO) & _) & _) & _) & _) & _) & _).
    apply Nat.ltb_lt in Hread.
    unfold streams.
    apply is_load in HWE, HWpos, HWV, HbV, HWO, HbO.
    set (WE := load _ _ (W_E t)) in *. set (Wpos := load _ _ (W_pos t)) in *. set (WV := load _ _ (W_V t)) in *.
    set (bV := load _ _ (b_V t)) in *. set (WO := load _ _ (W_O t)) in *. set (bO := load _ _ (b_O t)) in *.
    assert (Hout : forall h, (h < n_heads t)%nat -> is (some_rows (h * dh) dh WO) dh d (fun k o => W_O t (h * dh + k)%nat o)).
    { intros h Hh. apply (is_some_rows _ _ _ (n_heads t * dh)); trivial. nia. }
    cbv zeta.
    set (OV := over_heads _ _ (zeros d d _)). set (bias0 := over_heads _ _ (zeros 1 d _)).
    assert (HOV : is OV d d ov).
    { apply (is_over_heads _ _ _ d d (fun h j o => sum dh (fun k => W_V t (h * d + j)%nat k * W_O t (h * dh + k)%nat o)));
        [apply is_zeros|]. intros h Hh.
      apply (is_times _ _ d dh d (fun j k => W_V t (h * d + j)%nat k) (fun k o => W_O t (h * dh + k)%nat o)); [|auto].
      apply (is_some_rows _ _ _ (n_heads t * d)); trivial. nia. }
    assert (Hbias : is (raise (ones 1) bias0) 1 d (fun _ o => bv o * one 1)).
    { apply (is_ones 1 bias0 1 d (fun _ o => bv o)). unfold bias0.
      eapply is_ext; [apply (is_over_heads _ _ _ 1 d
        (fun h i o => sum dh (fun k => b_V t (h + i)%nat k * W_O t (h * dh + k)%nat o))); [apply is_zeros|]|].
      - intros h Hh.
        apply (is_times _ _ 1 dh d (fun i k => b_V t (h + i)%nat k) (fun k o => W_O t (h * dh + k)%nat o)); [|auto].
        apply (is_some_rows _ _ _ (n_heads t)); trivial. lia.
      - intros i o Hi _. unfold bv. apply sum_ext. intros h _. apply sum_ext. intros k _.
        replace (h + i)%nat with h by lia. trivial. }
    set (bias := raise (ones 1) bias0) in *.
    assert (Halpha : forall pos, fst (alpha pos) * pow2 (snd (alpha pos)) = attention_weight t pos).
    { intros. apply short_value. }
    assert (Hx : forall start count pos, (start + count <= tokens)%nat -> (pos < positions)%nat ->
      is (plus_row (some_rows start count WE) (some_rows pos 1 Wpos)) count d
         (fun i j => W_E t (start + i)%nat j + W_pos t pos j)).
    { intros start count pos Hcount Hp.
      eapply is_ext; [apply (is_plus_row _ _ count d (fun i j => W_E t (start + i)%nat j) (fun i j => W_pos t (pos + i)%nat j))|].
      - apply (is_some_rows _ _ _ tokens); trivial.
      - apply (is_some_rows _ _ _ positions); trivial. lia.
      - intros. simpl. rewrite Nat.add_0_r. trivial. }
    assert (Hpart : forall pos count x f, is x count d f -> is (part OV pos x) count d (fun i o => brought pos (f i) o)).
    { intros pos count x f H. unfold part, brought.
      assert (Hseen : is (scale_by (alpha pos) (times d x OV)) count d
        (fun i o => attention_weight t pos * sum d (fun j => f i j * ov j o))).
      { rewrite <- Halpha. apply (is_scale_by _ _ count d (fun i o => sum d (fun j => f i j * ov j o))).
        apply is_times; trivial. }
      destruct (Nat.eqb (read_position t) pos).
      - apply is_plus; trivial. apply is_ones. trivial.
      - eapply is_ext; [exact Hseen|]. intros. simpl. ring. }
    assert (Htwo : (2 <= positions)%nat).
    { apply orb_true_iff in Hpos. rewrite !Nat.eqb_eq in Hpos. lia. }
    assert (HA := Hpart 0%nat (p n) _ _ (Hx 0%nat (p n) 0%nat ltac:(lia) ltac:(lia))).
    assert (HB := Hpart 1%nat (p n) _ _ (Hx (b_offset t) (p n) 1%nat ltac:(lia) ltac:(lia))).
    assert (Hscaled : forall pos, is (scale_by (alpha pos) bias) 1 d (fun _ o => attention_weight t pos * (bv o * one 1))).
    { intros pos. rewrite <- Halpha. apply (is_scale_by _ _ 1 d (fun _ o => bv o * one 1)). trivial. }
    set (constant := plus (raise (ones 3) bO) (plus (scale_by (alpha 0) bias) (scale_by (alpha 1) bias))).
    assert (Hconstant : is constant 1 d (fun i o => b_O t i o * one 3
      + (attention_weight t 0 * (bv o * one 1) + attention_weight t 1 * (bv o * one 1)))).
    { apply is_plus; [apply is_ones; trivial|]. apply is_plus; apply Hscaled. }
    assert (Hresidual : forall a b o, residual n t a b o =
      sum positions (fun pos => brought pos (stream n t a b pos) o + attention_weight t pos * (bv o * one 1))
      + b_O t 0%nat o * one 3).
    { intros a b o. unfold residual. rewrite mixed_out, Z.mul_add_distr_r, Z.add_assoc. f_equal.
      unfold brought.
      assert (Hsum : forall m, sum m (fun pos => if Nat.eqb (read_position t) pos then stream n t a b pos o * one 3 else 0)
        = if Nat.ltb (read_position t) m then stream n t a b (read_position t) o * one 3 else 0).
      { induction m as [|m IH]; [reflexivity|]. cbn [sum]. rewrite IH. destruct (Nat.eqb_spec (read_position t) m) as [<-|ne].
        - rewrite Nat.ltb_irrefl. destruct (Nat.ltb_spec (read_position t) (S (read_position t))); lia.
        - destruct (Nat.ltb_spec (read_position t) m), (Nat.ltb_spec (read_position t) (S m)); lia. }
      pose proof (Hsum positions) as Hone. destruct (Nat.ltb_spec (read_position t) positions); [|lia].
      rewrite <- Hone, <- sum_add. apply sum_ext. intros pos _. ring. }
    assert (Hsame : forall pos f g o, (o < d)%nat -> (forall j, (j < d)%nat -> f j = g j) -> brought pos f o = brought pos g o).
    { intros pos f g o Ho same. unfold brought. rewrite same by trivial. f_equal. f_equal. apply sum_ext. intros.
      rewrite same; trivial. }
    destruct (Nat.eqb_spec positions 3) as [three|not_three].
    - assert (HC := Hpart 2%nat 1%nat _ _ (Hx (b_offset t + p n)%nat 1%nat 2%nat ltac:(lia) ltac:(lia))).
      assert (Hthird := is_plus _ _ _ _ _ _ (Hscaled 2%nat) HC).
      eexists. eexists. split; [exact HA|]. split;
        [exact (is_plus_row _ _ _ _ _ _ HB (is_plus _ _ _ _ _ _ Hconstant Hthird))|].
      intros a b o Ha Hb Ho. rewrite Hresidual, three. cbn [sum]. unfold stream, token. simpl.
      rewrite Nat.add_0_r. ring.
    - assert (two : positions = 2%nat).
      { apply orb_true_iff in Hpos. rewrite !Nat.eqb_eq in Hpos. lia. }
      eexists. eexists. split; [exact HA|]. split; [exact (is_plus_row _ _ _ _ _ _ HB Hconstant)|].
      intros a b o Ha Hb Ho. rewrite Hresidual, two. cbn [sum]. unfold stream, token. simpl. ring.
  Qed.
End Transformer.

(** * The five tables *)

(** In integers: the real logit is [form] times [2^lift], over [scale]. [w_shift] is what W_L is over, as an exponent of
    two; hints are brought to it, and nothing is proved about it. *)
Record collapsed := { U_a : rows_of; U_b : rows_of; W_L : rows_of; S_a : rows_of; S_b : rows_of;
                      lift : N; w_shift : Z }.

Definition form (f : activation) (m : nat) (k : collapsed) (a b c : nat) : Z :=
  sum m (fun i => entry (W_L k) c i * sigma f (entry (U_a k) a i + entry (U_b k) b i))
  + entry (S_a k) a c + entry (S_b k) b c.

(** Every table has the size it should have: W_L has a row for each answer. *)
Definition tables (q m : nat) (k : collapsed) : Prop :=
  shape q m (U_a k) /\ shape q m (U_b k) /\ shape q m (W_L k) /\ shape q q (S_a k) /\ shape q q (S_b k).

(** [out] has a row for each neuron; it is a product of [weights] weights. *)
Definition assemble (f : activation) (q : nat) (weights : N) (Ua Ub out Sa Sb : scaled) : collapsed :=
  let u := N.min (up Ua) (up Ub) in
  let hidden := (degree f * u)%N in
  let total := N.min (hidden + up out) (N.min (up Sa) (up Sb)) in
  {| U_a := rows (lower u Ua); U_b := rows (lower u Ub);
     W_L := transpose q (rows (lower total (raise hidden out)));
     S_a := rows (lower total Sa); S_b := rows (lower total Sb);
     lift := total; w_shift := Z.of_N hidden - Z.of_N total + Z.of_N (ones weights) |}.

Lemma sigma_pow2 f u x : sigma f (x * pow2 u) = sigma f x * pow2 (degree f * u).
Proof.
  pose proof (pow2_pos u). destruct f; cbn [sigma degree]; rewrite ?N.mul_1_l.
  - destruct (Z.max_spec 0 x) as [[? ->]|[? ->]]; [rewrite Z.max_r|rewrite Z.max_l]; nia.
  - rewrite Z.abs_mul, (Z.abs_eq (pow2 u)); lia.
  - replace (2 * u)%N with (u + u)%N by lia. rewrite pow2_add. ring.
  - replace (4 * u)%N with (u + u + (u + u))%N by lia. rewrite !pow2_add. ring.
Qed.

Lemma assemble_correct f q m weights Ua Ub out Sa Sb ua ub w sa sb :
  is Ua q m ua -> is Ub q m ub -> is out m q w -> is Sa q q sa -> is Sb q q sb ->
  let k := assemble f q weights Ua Ub out Sa Sb in
  tables q m k /\ forall a b c, (a < q)%nat -> (b < q)%nat -> (c < q)%nat ->
    sum m (fun i => sigma f (ua a i + ub b i) * w i c) + sa a c + sb b c = form f m k a b c * pow2 (lift k).
Proof.
  intros HUa HUb Hout HSa HSb k. set (u := N.min (up Ua) (up Ub)). set (hidden := (degree f * u)%N).
  set (total := N.min (hidden + up out) (N.min (up Sa) (up Sb))).
  apply (is_lower u) in HUa, HUb; try lia. apply (is_raise hidden) in Hout.
  apply (is_lower total) in HSa, HSb, Hout; try (simpl; lia).
  destruct HUa as [shape_a Ha], HUb as [shape_b Hb], Hout as [shape_w Hw], HSa as [shape_sa Hsa], HSb as [shape_sb Hsb].
  split.
  - repeat split; try apply shape_a; try apply shape_b; try apply shape_sa; try apply shape_sb;
      apply (transpose_shape m q); trivial.
  - intros a b c Hla Hlb Hlc. unfold form, k, assemble. cbn [U_a U_b W_L S_a S_b lift]. fold u hidden total.
    rewrite !Z.mul_add_distr_r, <- sum_scale_r. rewrite <- (Hsa a c), <- (Hsb b c) by trivial. f_equal. f_equal.
    apply sum_ext. intros i Hi. rewrite <- (Ha a i), <- (Hb b i) by trivial. cbn [up lower].
    rewrite <- Z.mul_add_distr_r, sigma_pow2. fold hidden. rewrite (transpose_entry m q) by trivial.
    specialize (Hw i c Hi Hlc). cbn beta in Hw. change (up (lower total (raise hidden out))) with total in Hw.
    set (x := entry (rows (lower total (raise hidden out))) i c) in *.
    set (s := sigma f _). transitivity (s * (w i c * pow2 hidden)); [ring|]. rewrite <- Hw. ring.
Qed.

Definition network_fits (n : network) : bool :=
  match body n with
  | Mlp W_a W_b W_c => fits (p n) (d_mlp n) W_a && fits (p n) (d_mlp n) W_b && fits (d_mlp n) (p n) W_c
  | Transformer t => transformer_fits n t
  end.

Definition collapse (n : network) : collapsed :=
  let f := act n in
  match body n with
  | Mlp W_a W_b W_c =>
      let Ua := load (p n) (d_mlp n) W_a in
      let Ub := load (p n) (d_mlp n) W_b in
      let out := load (d_mlp n) (p n) W_c in
      let none := zeros (p n) (p n) (degree f * N.min (up Ua) (up Ub) + up out) in
      assemble f (p n) 1 Ua Ub out none none
  | Transformer t =>
      let (from_a, from_b) := streams n t in
      let d := d_model t in
      let W_in := load d (d_mlp n) (W_in t) in
      let b_in := load 1 (d_mlp n) (b_in t) in
      let W_out := load (d_mlp n) d (W_out t) in
      let b_out := load 1 d (b_out t) in
      let W_U := load d (p n) (W_U t) in
      let b_U := load 1 (p n) (b_U t) in
      let past := ones (5 * degree f - 3) in
      let constant := plus (raise (ones (5 * degree f)) (times (p n) b_out W_U)) (raise (ones (5 * degree f + 1)) b_U) in
      assemble f (p n) 2
        (times (d_mlp n) from_a W_in)
        (plus_row (times (d_mlp n) from_b W_in) (raise (ones 4) b_in))
        (times (p n) W_out W_U)
        (raise past (times (p n) from_a W_U))
        (plus_row (raise past (times (p n) from_b W_U)) constant)
  end.

(** The tables give every logit of the forward pass. *)
Theorem collapse_correct n : network_fits n = true ->
  tables (p n) (d_mlp n) (collapse n) /\ forall a b c, in_range n a b c ->
    logit n a b c = form (act n) (d_mlp n) (collapse n) a b c * pow2 (lift (collapse n)).
Proof.
  unfold network_fits, logit, collapse, in_range. destruct (body n) as [W_a W_b W_c|t].
  - rewrite !andb_true_iff. intros [[HA HB] HC]. apply is_load in HA, HB, HC.
    set (k := N.add _ _). destruct (assemble_correct (act n) (p n) (d_mlp n) 1 _ _ _ _ _ _ _ _ _ _ HA HB HC
      (is_zeros (p n) (p n) k) (is_zeros (p n) (p n) k)) as [sizes same].
    split; trivial. intros a b c (Ha & Hb & Hc). rewrite <- same by trivial. ring.
  - intros Hfits. destruct (streams_correct n t Hfits) as (fa & fb & HA & HB & Hresidual).
    unfold transformer_fits in Hfits. rewrite !andb_true_iff in Hfits.
    destruct Hfits as [[[[[[_ HWin] Hbin] HWout] Hbout] HWU] HbU].
    apply is_load in HWin, Hbin, HWout, Hbout, HWU, HbU.
    destruct (streams n t) as [from_a from_b]. simpl in HA, HB.
    set (D := degree (act n)).
    pose proof (is_times _ _ _ _ _ _ _ HA HWin) as HUa.
    pose proof (is_plus_row _ _ _ _ _ _ (is_times _ _ _ _ _ _ _ HB HWin) (is_ones 4 _ _ _ _ Hbin)) as HUb.
    pose proof (is_times _ _ _ _ _ _ _ HWout HWU) as Hout.
    pose proof (is_ones (5 * D - 3) _ _ _ _ (is_times _ _ _ _ _ _ _ HA HWU)) as HSa.
    pose proof (is_plus _ _ _ _ _ _ (is_ones (5 * D) _ _ _ _ (is_times _ _ _ _ _ _ _ Hbout HWU))
      (is_ones (5 * D + 1) _ _ _ _ HbU)) as Hconstant.
    pose proof (is_plus_row _ _ _ _ _ _ (is_ones (5 * D - 3) _ _ _ _ (is_times _ _ _ _ _ _ _ HB HWU)) Hconstant) as HSb.
    destruct (assemble_correct (act n) (p n) (d_mlp n) 2 _ _ _ _ _ _ _ _ _ _ HUa HUb Hout HSa HSb) as [sizes same].
    split; [exact sizes|]. intros a b c (Ha & Hb & Hc). etransitivity; [|apply same; trivial]. clear same sizes.
    unfold transformer_logit, after, hidden, pre. fold D.
    set (h := fun i => sigma (act n) (sum (d_model t) (fun j => residual n t a b j * W_in t j i) + b_in t 0%nat i * one 4)).
    transitivity (sum (d_mlp n) (fun i => h i * sum (d_model t) (fun j => W_out t i j * W_U t j c))
      + sum (d_model t) (fun j => residual n t a b j * W_U t j c) * one (5 * D - 3)
      + sum (d_model t) (fun j => b_out t 0%nat j * W_U t j c) * one (5 * D) + b_U t 0%nat c * one (5 * D + 1)).
    { f_equal.
      transitivity (sum (d_model t) (fun j => sum (d_mlp n) (fun i => h i * W_out t i j * W_U t j c)
        + residual n t a b j * W_U t j c * one (5 * D - 3) + b_out t 0%nat j * W_U t j c * one (5 * D))).
      { apply sum_ext. intros j _. rewrite sum_scale_r. unfold h. ring. }
      rewrite !sum_add, !sum_scale_r. f_equal. f_equal. rewrite sum_swap. apply sum_ext. intros i _.
      rewrite <- sum_scale. apply sum_ext. intros. ring. }
    assert (Hsplit : forall g : nat -> Z, sum (d_model t) (fun j => residual n t a b j * g j)
      = sum (d_model t) (fun j => fa a j * g j) + sum (d_model t) (fun j => fb b j * g j)).
    { intros g. rewrite <- sum_add. apply sum_ext. intros j Hj. rewrite Hresidual by trivial. ring. }
    rewrite (Hsplit (fun j => W_U t j c)).
    rewrite (sum_ext (d_mlp n) (fun i => h i * _) (fun i => sigma (act n) (sum (d_model t) (fun j => fa a j * W_in t j i)
      + (sum (d_model t) (fun j => fb b j * W_in t j i) + b_in t 0%nat i * one 4))
      * sum (d_model t) (fun j => W_out t i j * W_U t j c))).
    + ring.
    + intros i Hi. unfold h. rewrite (Hsplit (fun j => W_in t j i)). rewrite Z.add_assoc. trivial.
Qed.
