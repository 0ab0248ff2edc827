(** Where attention leads from a cell of words.

    From position t, with its own token, a coordinate of what a head writes is r = sum w u / sum w over the positions
    seen, and r >= tau exactly when sum w (u - tau) >= 0. Nothing is divided: the sum has one term per letter, and its
    least value over the words of a cell is a shortest path (Cells.v). *)

Require Export Proved.Tables Proved.Cells.
Open Scope R_scope.

(** * The lemma on ratios *)

Lemma ratio_at_least k (w u : nat -> R) tau : (forall j, (j < k)%nat -> 0 < w j) -> (0 < k)%nat ->
  0 <= rsum k (fun j => w j * (u j - tau)) -> tau <= rsum k (fun j => w j * u j) / rsum k w.
Proof.
  intros pos Hk H. pose proof (rsum_pos k w pos Hk) as W. apply Rmult_le_reg_r with (rsum k w); trivial.
  unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
  rewrite (rsum_ext k _ (fun j => w j * u j - w j * tau)) in H by (intros; ring).
  rewrite rsum_sub, rsum_scale_r in H. lra.
Qed.

(** * Weights of attention *)

(** The largest number of a list. *)
Definition largest (xs : list Z) : Z := match xs with [] => 0%Z | x :: xs => fold_left Z.max xs x end.

Lemma largest_ge xs x : In x xs -> (x <= largest xs)%Z.
Proof.
  destruct xs as [|y xs]; [intros []|]. simpl.
  assert (general : forall xs acc, (acc <= fold_left Z.max xs acc)%Z
    /\ forall x, In x xs -> (x <= fold_left Z.max xs acc)%Z).
  { clear. induction xs as [|y xs IH]; intros acc; simpl; [split; [lia|intros x []]|].
    destruct (IH (Z.max acc y)) as [G1 G2]. split; [lia|]. intros x [->|Hx]; [lia|auto]. }
  destruct (general xs y) as [G1 G2]. intros [->|Hx]; auto.
Qed.

Section Attention.
  Variables (n : words_network) (m : nat) (next : list (list (list nat))) (fed : list source) (T : tables).
  Let V_ := vocabulary n.
  Let source_at (j : nat) : source := nth j fed (Constant 0).

  Definition one_float : Z := one 1.
  Definition divisor_ : Z := value F64 (divisor n).

  Definition iscore (h t own : nat) (j v : nat) : interval :=
    iadd (iratio one_float divisor_ (idot (at_ (nth h (of_queries T) []) t own []) (at_ (nth h (of_keys T) []) j v [])))
         (iweight (score_bias n) (h * context n + t) j).

  (** (w, e) with w <= e^score 2^weight_bits / e^top <= w + e. *)
  Definition weight_of (top : Z) (s : interval) : Z * Z :=
    let e := iexp (fst s - top, Z.min most_exponent (snd s - top))%Z in
    let w := floor2 (depth - weight_bits) (fst e) in
    (w, ceil2 (depth - weight_bits) (snd e) - w)%Z.

  (** What weights are compared with: about the largest score that every word has, if others are not too far above. *)
  Definition top_of (scores : list (list interval)) (t : nat) : Z :=
    let above j := map (fun v => snd (at_ scores j v zero)) (feeds (source_at j)) in
    Z.max (largest (map (fun j => - largest (map Z.opp (above j))) (seq 0 (S t)))%Z)
          (largest (flat_map above (seq 0 (S t))) - most_exponent).

  Definition weights_from (h t own : nat) : list (list (Z * Z)) :=
    let scores := grid_of (S t) V_ (iscore h t own) in
    let top := top_of scores t in
    grid_of (S t) V_ (fun j v => weight_of top (at_ scores j v zero)).

  (** What token v at position j brings to N and E, where the coordinate is u: w u, less what is not known, and w. *)
  Definition bring (most : Z) (weights : list (Z * Z)) (u : nat -> Z) (v : nat) : Z * Z :=
    let (w, e) := nth v weights (0, 0)%Z in (w * u v - 2 * most * e, w)%Z.

  Definition known_of (W : list (list (Z * Z))) (most : Z) (u : nat -> nat -> Z) (t : nat) : (Z * Z) * terms :=
    fold_left (fun known j =>
        let brought := tab V_ (bring most (nth j W []) (u j)) in
        with_source (fun v => nth v brought (0, 0)%Z) (source_at j) known)
      (seq 0 (S t)) ((0, 0)%Z, without_terms next).

  Hypothesis Hdivisor : (0 < divisor_)%Z.
  Hypothesis Hqueries : forall h j v, (h < heads n)%nat -> (j < m)%nat -> (v < V_)%nat ->
    vec (key_width n) (at_ (nth h (of_queries T) []) j v []) (query n h j v).
  Hypothesis Hkeys : forall h j v, (h < heads n)%nat -> (j < m)%nat -> (v < V_)%nat ->
    vec (key_width n) (at_ (nth h (of_keys T) []) j v []) (key n h j v).

  Lemma score_inside h t own j v : (h < heads n)%nat -> (t < m)%nat -> (own < V_)%nat -> (j < m)%nat -> (v < V_)%nat ->
    inside (iscore h t own j v) (score n h t own j v).
  Proof.
    intros. unfold iscore, score. apply inside_add; [|apply inside_weight].
    assert (D : 0 < IZR divisor_) by (apply IZR_lt; trivial).
    assert (O1 : 0 < IZR (one 1)) by (apply IZR_lt; reflexivity).
    replace (rsum (key_width n) (fun k => query n h t own k * key n h j v k) / float F64 (divisor n))
      with (rsum (key_width n) (fun k => query n h t own k * key n h j v k) * IZR (one 1) / IZR divisor_).
    - unfold one_float. apply inside_ratio; [reflexivity|trivial|apply inside_dot; auto].
    - unfold float. fold divisor_. field. lra.
  Qed.

  Lemma split_bits b : (0 <= b <= depth)%Z -> F = IZR (2 ^ b) * IZR (2 ^ (depth - b)).
  Proof. intros. rewrite <- mult_IZR, <- Z.pow_add_r by lia. replace (b + (depth - b))%Z with depth by lia. reflexivity. Qed.

  Lemma weight_inside top s x : inside s x -> (snd s - top <= most_exponent)%Z ->
    let (w, e) := weight_of top s in
    IZR w <= exp x * exp (- (IZR top / F)) * one_weight <= IZR (w + e).
  Proof.
    intros [L H] Htop. pose proof F_pos as HF. unfold weight_of. cbn [fst snd].
    set (e := iexp (fst s - top, Z.min most_exponent (snd s - top))%Z).
    assert (G : inside e (exp (x - IZR top / F))).
    { apply inside_exp; cbn [fst snd]; [lia|]. unfold inside; cbn [fst snd].
      rewrite Z.min_r by lia. rewrite !minus_IZR. replace ((x - IZR top / F) * F) with (x * F - IZR top) by (field; lra). lra. }
    unfold Rminus in G. rewrite exp_plus in G. destruct G as [G1 G2].
    set (k := exp (- (IZR top / F))) in *. rewrite (split_bits weight_bits) in G1, G2 by (unfold weight_bits, depth; lia). fold one_weight in G1, G2.
    rewrite <- Rmult_assoc in G1, G2. split.
    - apply down_le; [unfold depth, weight_bits; lia|trivial].
    - replace (floor2 (depth - weight_bits) (fst e) + (ceil2 (depth - weight_bits) (snd e) - floor2 (depth - weight_bits) (fst e)))%Z
        with (ceil2 (depth - weight_bits) (snd e)) by lia.
      apply up_ge; [unfold depth, weight_bits; lia|trivial].
  Qed.

  Section Word.
    Variable a : nat -> nat.
    Hypothesis Ha : word next a.
    Let token (j : nat) : nat := fed_token next (source_at j) a.
    Variable t : nat.
    Hypothesis Ht : (t < m)%nat.
    Hypothesis Hshape : forall j, (j <= t)%nat -> same_shape next (source_at j) = true.
    Hypothesis Hvocabulary : forall j, (j <= t)%nat -> (token j < V_)%nat.

    Lemma known_total W most u tau : let known := known_of W most u t in
      over next (snd known) /\ total next a tau known
      = sum (S t) (fun j => fst (bring most (nth j W []) (u j) (token j))
                            - tau * snd (bring most (nth j W []) (u j) (token j)))%Z.
    Proof.
      cbv zeta. unfold known_of.
      assert (general : forall k, (k <= S t)%nat ->
        let known := fold_left (fun known j =>
          let brought := tab V_ (bring most (nth j W []) (u j)) in
          with_source (fun v => nth v brought (0, 0)%Z) (source_at j) known)
          (seq 0 k) ((0, 0)%Z, without_terms next) in
        over next (snd known) /\ total next a tau known
        = sum k (fun j => fst (bring most (nth j W []) (u j) (token j))
                          - tau * snd (bring most (nth j W []) (u j) (token j)))%Z).
      2: { apply general. lia. }
      induction k as [|k IH]; intros Hk; [split; [apply over_without|apply total_without; trivial]|].
      rewrite seq_S, fold_left_app. cbn [fold_left]. destruct (IH ltac:(lia)) as [O_ Eq]. change (0 + k)%nat with k.
      destruct (with_source_total next a tau Ha
        (fun v => nth v (tab V_ (bring most (nth k W []) (u k))) (0, 0)%Z) (source_at k) _ O_ (Hshape k ltac:(lia))) as [O' Eq'].
      split; [exact O'|]. eapply eq_trans; [exact Eq'|]. rewrite Eq. cbn [sum]. fold (token k).
      rewrite nth_tab by (apply Hvocabulary; lia). trivial.
    Qed.

    (** Weights of the word, and the average of u under them. *)
    Variable h : nat.
    Hypothesis Hh : (h < heads n)%nat.
    Let w (j : nat) : R := exp (score n h t (token t) j (token j)).

    Lemma ratio_sound low high most u tau c :
      (low <= length next)%nat -> (high <= length next)%nat ->
      in_cell next a c -> (lowest c <= low)%nat -> (high <= highest c <= length next)%nat ->
      (forall j, (j <= t)%nat -> (Z.abs (u j (token j)) <= most)%Z) -> (Z.abs tau <= most)%Z ->
      least_fits high (prepare low high tau (with_pruned most (known_of (weights_from h t (token t)) most u t))) c = true ->
      IZR tau <= rsum (S t) (fun j => w j * IZR (u j (token j))) / rsum (S t) w.
    Proof.
      intros Hlow Hhigh Hc Hl Hhc Hu Htau H.
      set (W := weights_from h t (token t)) in *. destruct (known_total W most u tau) as [O_ Eq].
      pose proof (least_sound next a low high tau most _ Htau Ha O_ Hlow Hhigh c Hc Hl Hhc H) as least. rewrite Eq in least.
      apply ratio_at_least; [intros; apply exp_pos|lia|].
      set (scores := grid_of (S t) V_ (iscore h t (token t))).
      set (top := top_of scores t). set (k := exp (- (IZR top / F)) * one_weight).
      assert (Hk : 0 < k) by (apply Rmult_lt_0_compat; [apply exp_pos|apply one_weight_pos]).
      assert (bound : forall i, (i <= S t)%nat ->
        IZR (sum i (fun j => fst (bring most (nth j W []) (u j) (token j))
                            - tau * snd (bring most (nth j W []) (u j) (token j)))%Z)
        <= k * rsum i (fun j => w j * (IZR (u j (token j)) - IZR tau))).
      2: { specialize (bound (S t) (le_n _)). apply IZR_le in least.
           destruct (Rle_dec 0 (rsum (S t) (fun j => w j * (IZR (u j (token j)) - IZR tau)))); [trivial|exfalso; nra]. }
      induction i as [|i IH]; intros Hi; [simpl; lra|]. cbn [sum rsum]. rewrite plus_IZR, Rmult_plus_distr_l.
      apply Rplus_le_compat; [apply IH; lia|].
      assert (Hv : (token i < V_)%nat) by (apply Hvocabulary; lia).
      assert (Hw : nth (token i) (nth i W []) (0, 0)%Z = weight_of top (iscore h t (token t) i (token i))).
      { fold (at_ W i (token i) (0, 0)%Z). unfold W, weights_from. fold scores. fold top. rewrite at_grid by (trivial; lia).
        unfold scores. rewrite at_grid by (trivial; lia). trivial. }
      unfold bring. rewrite Hw.
      assert (Hs : inside (iscore h t (token t) i (token i)) (score n h t (token t) i (token i))).
      { apply score_inside; trivial; [apply Hvocabulary|]; lia. }
      assert (Hle : (snd (iscore h t (token t) i (token i)) - top <= most_exponent)%Z).
      { unfold top, top_of. cbv zeta. set (all := flat_map _ _).
        assert (snd (iscore h t (token t) i (token i)) <= largest all)%Z; [|lia]. apply largest_ge. apply in_flat_map. exists i. split; [apply in_seq; lia|].
        apply in_map_iff. exists (token i). split; [unfold scores; rewrite at_grid by (trivial; lia); trivial|].
        apply fed_feeds; trivial. apply Hshape. lia. }
      pose proof (weight_inside top _ _ Hs Hle) as B. fold (w i) in B. fold k in B.
      replace (w i * exp (- (IZR top / F)) * one_weight) with (k * w i) in B by (unfold k; ring).
      destruct (weight_of top (iscore h t (token t) i (token i))) as [wl e]. cbn [fst snd].
      rewrite !minus_IZR, !mult_IZR. rewrite plus_IZR in B. specialize (Hu i ltac:(lia)).
      assert (D : -2 * IZR most <= IZR (u i (token i)) - IZR tau).
      { rewrite <- minus_IZR, <- mult_IZR. apply IZR_le. lia. }
      assert (M : 0 <= IZR most) by (apply IZR_le; lia).
      set (x := IZR (u i (token i)) - IZR tau) in *. 
      replace (IZR wl * IZR (u i (token i)) - 2 * IZR most * IZR e - IZR tau * IZR wl)
        with (IZR wl * x - 2 * IZR most * IZR e) by (unfold x; ring).
      replace (k * (w i * x)) with (k * w i * x) by ring. set (y := k * w i) in *.
      assert (0 <= y - IZR wl <= IZR e) by lra. nra.
    Qed.
  End Word.
End Attention.

(** * The stream after attention: what its coordinates say, and what is left *)

Section Stream.
  Variables (n : words_network) (m : nat) (fed : list source) (basis : list direction) (bases : nat -> nat -> R).
  Let d := width n.
  Let count := length basis.
  Let T := make_tables n m fed basis.

  Definition base_of (rest : list interval) (t own : nat) : list interval :=
    map2 iadd (map2 iadd (map2 iadd (irow (E n) own d) (irow (pos n) t d)) (irow (b_O_ n) 0 d)) rest.

  Hypothesis Hd : (0 < d)%nat.
  Hypothesis Hnorm : norm_ok (before_attention n) = true.
  Hypothesis Hbases : forall q, (q < count)%nat -> vec d (along (nth q basis nowhere)) (bases q).
  Hypothesis Howners : forall q, (q < count)%nat -> (owner (nth q basis nowhere) < heads n)%nat.

  Variables (tokens : nat -> nat) (t : nat).
  Hypothesis Ht : (t < m)%nat.
  Hypothesis Htokens : forall j, (j <= t)%nat ->
    (tokens j < vocabulary n)%nat /\ In (tokens j) (feeds (nth j fed (Constant 0))).

  Let w (h j : nat) : R := exp (score n h t (tokens t) j (tokens j)).

  (** Coordinate q, averaged by its head. *)
  Definition averaged (q : nat) : R :=
    let h := owner (nth q basis nowhere) in
    rsum (S t) (fun j => w h j * IZR (coordinate n m fed basis q j (tokens j))) / rsum (S t) (w h) / one_coordinate.

  Lemma sum_of_one k i (x : R) : (i < k)%nat -> rsum k (fun h => if Nat.eqb i h then x else 0) = x.
  Proof.
    induction k as [|k IH]; intros H; [lia|]. simpl. destruct (Nat.eqb_spec i k) as [->|ne].
    - rewrite (rsum_ext k _ (fun _ => 0)); [rewrite rsum_zero; ring|]. intros j Hj.
      destruct (Nat.eqb_spec k j); [lia|trivial].
    - rewrite IH by lia. ring.
  Qed.

  Lemma stream_after : exists beta, vec d (base_of (of_rest T) t (tokens t)) beta
    /\ forall i, (i < d)%nat -> residual n tokens t i = beta i + rsum count (fun q => averaged q * bases q i).
  Proof.
    exists (fun i => stream n t (tokens t) i + entry_of (b_O_ n) 0 i + rsum (heads n) (fun h =>
      rsum (S t) (fun j => w h j * rest n m fed basis bases h j (tokens j) i) / rsum (S t) (w h))). split.
    - unfold base_of. refine (vec_map2 d iadd Rplus _ _ _ _ inside_add _ _).
      + refine (vec_map2 d iadd Rplus _ _ _ _ inside_add _ _); [|apply vec_row].
        refine (vec_map2 d iadd Rplus _ _ _ _ inside_add _ _); apply vec_row.
      + apply (rest_average n m fed basis Hd Hnorm bases Hbases (S t) w tokens); [lia| |].
        * intros. apply exp_pos.
        * intros j Hj. apply Htokens. lia.
    - intros i Hi. unfold residual. rewrite (Rplus_assoc (stream n t (tokens t) i + _)). f_equal.
      assert (each : forall h, (h < heads n)%nat -> attention n tokens t h i
        = rsum count (fun q => (if Nat.eqb (owner (nth q basis nowhere)) h then averaged q else 0) * bases q i)
          + rsum (S t) (fun j => w h j * rest n m fed basis bases h j (tokens j) i) / rsum (S t) (w h)).
      { intros h Hh. unfold attention, attended. fold (w h).
        pose proof (rsum_pos (S t) (w h) (fun j _ => exp_pos _) ltac:(lia)) as W.
        rewrite (rsum_ext (S t) (fun j => exp _ * written n h j (tokens j) i)
          (fun j => w h j * rsum count (fun q => part n m fed basis h q j (tokens j) * bases q i)
                    + w h j * rest n m fed basis bases h j (tokens j) i)).
        2: { intros j Hj. unfold rest, w, count. ring. }
        rewrite rsum_add. unfold Rdiv. rewrite Rmult_plus_distr_r. f_equal.
        rewrite (rsum_ext (S t) _ (fun j => rsum count (fun q => w h j * (part n m fed basis h q j (tokens j) * bases q i))))
          by (intros; rewrite rsum_scale; trivial).
        rewrite rsum_swap, <- rsum_scale_r. apply rsum_ext. intros q Hq. unfold part.
        destruct (Nat.eqb_spec (owner (nth q basis nowhere)) h) as [same|ne].
        - unfold averaged. rewrite same. fold (w h). pose proof one_coordinate_pos.
          rewrite (rsum_ext (S t) (fun j => w h j * (IZR (coordinate n m fed basis q j (tokens j)) / one_coordinate * bases q i))
            (fun j => w h j * IZR (coordinate n m fed basis q j (tokens j)) * (bases q i / one_coordinate)))
            by (intros; field; lra).
          rewrite rsum_scale_r. field. lra.
        - rewrite (rsum_ext (S t) _ (fun _ => 0)) by (intros; ring). rewrite rsum_zero. ring. }
      rewrite (rsum_ext (heads n) _ _ each), rsum_add, Rplus_comm. f_equal.
      rewrite rsum_swap. apply rsum_ext. intros q Hq. rewrite rsum_scale_r. f_equal. apply sum_of_one. auto.
  Qed.
End Stream.
