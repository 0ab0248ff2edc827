(** What follows attention, on a box of coordinates: which logit leads.

    The stream after attention is x = beta + sum_q r_q B_q, with r in a box. All that follows is enclosed by affine forms.
    Of roots only lines are used: for any s > 0, with y > 0,
      s (3 - s^2 y) / 2 <= 1 / sqrt y <= that + s (s^2 y - 1)^2 / (2 s^2 y)    and    sqrt y <= (s y + 1 / s) / 2,
    so that a guess for s needs no proof. A box that does not show which logit leads is cut in two. *)

Require Export Proved.Forms.
Open Scope R_scope.

(** * Lines for roots *)

Lemma root_line s y : 0 < s -> 0 < y ->
  s * (3 - s * (s * y)) / 2 <= / sqrt y
  <= s * (3 - s * (s * y)) / 2 + s * ((s * (s * y) - 1) * (s * (s * y) - 1)) / (2 * (s * (s * y))).
Proof.
  intros Hs Hy. pose proof (sqrt_lt_R0 y Hy) as Hr. pose proof (sqrt_sqrt y ltac:(lra)) as Hyy.
  set (r := sqrt y) in *. rewrite <- Hyy. assert (Hv : 0 < s * r) by (apply Rmult_lt_0_compat; trivial).
  set (v := s * r) in *. replace (s * (s * (r * r))) with (v * v) by (unfold v; ring).
  replace (/ r) with (s / v) by (unfold v; field; lra). split.
  - apply Rmult_le_reg_r with (2 * v); [lra|]. replace (s / v * (2 * v)) with (s * 2) by (field; lra).
    replace (s * (3 - v * v) / 2 * (2 * v)) with (s * ((3 - v * v) * v)) by field.
    apply Rmult_le_compat_l; [lra|]. assert (0 <= (v - 1) * (v - 1) * (v + 2)) by (apply Rmult_le_pos; [apply Rle_0_sqr|lra]).
    nra.
  - apply Rmult_le_reg_r with (2 * (v * v)); [nra|]. replace (s / v * (2 * (v * v))) with (s * (2 * v)) by (field; lra).
    replace ((s * (3 - v * v) / 2 + s * ((v * v - 1) * (v * v - 1)) / (2 * (v * v))) * (2 * (v * v)))
      with (s * ((3 - v * v) * (v * v) + (v * v - 1) * (v * v - 1))) by (field; lra).
    apply Rmult_le_compat_l; [lra|]. pose proof (Rle_0_sqr (v - 1)) as Q. unfold Rsqr in Q. nra.
Qed.

Lemma root_above s y : 0 < s -> 0 <= y -> sqrt y <= s / 2 * y + / s / 2.
Proof.
  intros Hs Hy. pose proof (sqrt_pos y). pose proof (sqrt_sqrt y Hy) as Hyy. set (r := sqrt y) in *. rewrite <- Hyy.
  apply Rmult_le_reg_r with (2 * s); [lra|].
  replace ((s / 2 * (r * r) + / s / 2) * (2 * s)) with (s * r * (s * r) + 1) by (field; lra).
  pose proof (Rle_0_sqr (s * r - 1)) as Q. unfold Rsqr in Q. nra.
Qed.

Lemma root_below s y : 0 < s -> 0 <= y -> y * (s * (3 - s * (s * y)) / 2) <= sqrt y.
Proof.
  intros Hs [Hy|<-]; [|rewrite sqrt_0; lra]. destruct (root_line s y Hs Hy) as [L _].
  pose proof (sqrt_lt_R0 y Hy) as Hr. pose proof (sqrt_sqrt y ltac:(lra)) as Hyy.
  apply Rle_trans with (y * / sqrt y); [apply Rmult_le_compat_l; lra|].
  rewrite <- Hyy at 1. right. field. lra.
Qed.

(** An integer over 2^tail_bits, exactly. *)
Lemma known_exactly z : known_as (z, 0%Z) (IZR z / G).
Proof.
  pose proof G_pos. unfold known_as; cbn [fst snd]. replace (IZR z / G * G - IZR z) with 0 by (field; lra).
  rewrite Rabs_R0. lra.
Qed.

Definition three : coefficient := (3 * tail_unit, 0)%Z.

Lemma known_three : known_as three 3.
Proof.
  unfold known_as, three; cbn [fst snd]. rewrite mult_IZR. fold G. replace (3 * G - 3 * G) with 0 by ring.
  rewrite Rabs_R0. lra.
Qed.

Lemma some_same {A} (x y : A) : Some x = Some y -> x = y.
Proof. congruence. Qed.

Section Roots.
  Variables (k : nat) (e : nat -> R).
  Hypothesis He : forall i, (i < k)%nat -> Rabs (e i) <= 1.
  Notation holds := (holds k e).

  (** s^2 y, and s (3 - s^2 y) / 2, for s = 2 half over 2^tail_bits. *)
  Definition scaled_square (half : Z) (y : form) : form := fscale k (2 * half, 0)%Z (fscale k (2 * half, 0)%Z y).
  Definition tangent (half : Z) (z : form) : form := fscale k (half, 0)%Z (fadd (fconstant k three) (fopp z)).

  Definition finverse_root (half : Z) (y : form) : option form :=
    let z := scaled_square half y in
    let lo := (mid z - radius z)%Z in
    let far := Z.max (Z.abs (lo - tail_unit)) (Z.abs (mid z + radius z - tail_unit)) in
    let t := tangent half z in
    if ((0 <? lo) && (0 <? half))%Z then
      let gap := (2 * half * far * far / (4 * lo * tail_unit) + 1)%Z in
      Some {| mid := mid t + gap; slopes := slopes t; err := err t + gap |}
    else None.

  Definition froot_above (half : Z) (y : form) : form :=
    fadd (fscale k (half, 0)%Z y) (fconstant k (tail_unit * tail_unit / (4 * half) + 1, 0)%Z).
  Definition froot_below (half : Z) (y : form) : form := ftimes y (tangent half (scaled_square half y)).

  Lemma square_holds half y Y : holds y Y ->
    holds (scaled_square half y) (IZR (2 * half) / G * (IZR (2 * half) / G * Y)).
  Proof. intros H. unfold scaled_square. apply holds_scale; trivial; [apply known_exactly|]. apply holds_scale; trivial; apply known_exactly. Qed.

  Lemma tangent_holds half z Z : holds z Z -> holds (tangent half z) (IZR (2 * half) / G * (3 - Z) / 2).
  Proof.
    intros H. unfold tangent. replace (IZR (2 * half) / G * (3 - Z) / 2) with (IZR half / G * (3 + - Z)).
    - apply holds_scale; trivial; [apply known_exactly|]. apply holds_add; trivial; [apply holds_constant; apply known_three|].
      apply holds_opp; trivial.
    - rewrite mult_IZR. pose proof G_pos. field. lra.
  Qed.

  Lemma inverse_root_holds half y Y f : holds y Y -> finverse_root half y = Some f -> holds f (/ sqrt Y).
  Proof.
    intros Hy. unfold finverse_root. set (z := scaled_square half y). set (lo := (mid z - radius z)%Z).
    set (hi := (mid z + radius z)%Z). set (far := Z.max _ _).
    destruct ((0 <? lo) && (0 <? half))%Z eqn:ok; [|discriminate]. apply andb_true_iff in ok as [Hlo Hhalf].
    apply Z.ltb_lt in Hlo, Hhalf. set (gap := (_ + 1)%Z). intros H. apply some_same in H. subst f.
    pose proof G_pos as HG. set (s := IZR (2 * half) / G).
    assert (Hs : 0 < s) by (apply Rmult_lt_0_compat; [apply IZR_lt; lia|apply Rinv_0_lt_compat; lra]).
    pose proof (square_holds half y Y Hy) as Hz. fold s in Hz. fold z in Hz.
    pose proof (holds_range k e He z _ Hz) as range. fold lo in range. fold hi in range.
    pose proof (tangent_holds half z _ Hz) as [Lt Ht]. fold s in Ht.
    set (Z_ := s * (s * Y)) in *. assert (Plo : 0 < IZR lo) by (apply IZR_lt; trivial).
    assert (PZ : 0 < Z_) by (apply Rmult_lt_reg_r with G; lra).
    assert (PY : 0 < Y).
    { apply Rmult_lt_reg_l with (s * s); [nra|]. replace (s * s * Y) with Z_ by (unfold Z_; ring). lra. }
    destruct (root_line s Y Hs PY) as [below above]. fold Z_ in below, above.
    assert (small : s * ((Z_ - 1) * (Z_ - 1)) / (2 * Z_) * G <= 2 * IZR gap).
    { set (a := (Z_ - 1) * G).
      assert (sq : a * a <= IZR far * IZR far).
      { assert (A' : (- far <= lo - tail_unit)%Z) by (unfold far; lia).
        assert (B' : (hi - tail_unit <= far)%Z) by (unfold far, hi; lia).
        apply IZR_le in A', B'. rewrite opp_IZR, minus_IZR in A'. rewrite minus_IZR in B'. fold G in A', B'.
        assert (A : - IZR far <= a <= IZR far) by (unfold a; lra).
        assert (0 <= (IZR far - a) * (IZR far + a)) by (apply Rmult_le_pos; lra). lra. }
      assert (quotient : (2 * half * far * far < gap * (4 * lo * tail_unit))%Z).
      { unfold gap. pose proof (Z.mul_succ_div_gt (2 * half * far * far) (4 * lo * tail_unit)).
        assert (0 < 4 * lo * tail_unit)%Z by (unfold tail_unit; lia). unfold Z.succ in *. nia. }
      apply IZR_lt in quotient. rewrite (mult_IZR gap), !mult_IZR in quotient. rewrite <- mult_IZR in quotient.
      fold G in quotient.
      apply Rmult_le_reg_r with (2 * Z_ * (G * G)); [nra|].
      replace (s * ((Z_ - 1) * (Z_ - 1)) / (2 * Z_) * G * (2 * Z_ * (G * G)))
        with (IZR (2 * half) * (a * a)) by (unfold a, s; field; lra).
      apply Rle_trans with (IZR (2 * half) * (IZR far * IZR far)).
      - apply Rmult_le_compat_l; [left; apply IZR_lt; lia|trivial].
      - assert (0 < IZR gap).
        { apply IZR_lt. unfold gap. assert (0 <= 2 * half * far * far / (4 * lo * tail_unit))%Z; [|lia].
          apply Z.div_pos; unfold tail_unit; nia. }
        apply Rle_trans with (IZR gap * (4 * IZR lo * G)); [lra|].
        replace (2 * IZR gap * (2 * Z_ * (G * G))) with (IZR gap * (4 * (Z_ * G) * G)) by ring.
        apply Rmult_le_compat_l; [lra|]. apply Rmult_le_compat_r; lra. }
    split; [trivial|]. cbn [mid slopes err]. rewrite !plus_IZR.
    set (T := s * (3 - Z_) / 2) in *. set (D := s * ((Z_ - 1) * (Z_ - 1)) / (2 * Z_)) in *.
    replace (/ sqrt Y * G - (IZR (mid (tangent half z)) + IZR gap) - linear (slopes (tangent half z)) e)
      with (T * G - IZR (mid (tangent half z)) - linear (slopes (tangent half z)) e + ((/ sqrt Y - T) * G - IZR gap)) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. apply Rplus_le_compat; [trivial|]. apply Rabs_le.
    assert (0 <= (/ sqrt Y - T) * G <= D * G) by (split; [apply Rmult_le_pos; lra|apply Rmult_le_compat_r; lra]). lra.
  Qed.

  Lemma root_above_holds half y Y : (0 < half)%Z -> 0 <= Y -> holds y Y ->
    exists S, sqrt Y <= S /\ holds (froot_above half y) S.
  Proof.
    intros Hhalf HY Hy. pose proof G_pos as HG. assert (Ph : 0 < IZR half) by (apply IZR_lt; trivial).
    set (c := (tail_unit * tail_unit / (4 * half) + 1)%Z).
    exists (IZR half / G * Y + IZR c / G). split.
    - eapply Rle_trans; [apply (root_above (2 * (IZR half / G)) Y)|]; trivial.
      + apply Rmult_lt_0_compat; [lra|]. apply Rmult_lt_0_compat; [lra|apply Rinv_0_lt_compat; lra].
      + apply Rplus_le_compat; [right; field; lra|].
        assert (Hc : (tail_unit * tail_unit < c * (4 * half))%Z).
        { unfold c. pose proof (Z.mul_succ_div_gt (tail_unit * tail_unit) (4 * half) ltac:(lia)). unfold Z.succ in *. nia. }
        apply IZR_lt in Hc. rewrite !mult_IZR in Hc. fold G in Hc.
        apply Rmult_le_reg_r with (4 * IZR half * G); [nra|].
        replace (/ (2 * (IZR half / G)) / 2 * (4 * IZR half * G)) with (G * G) by (field; lra).
        replace (IZR c / G * (4 * IZR half * G)) with (IZR c * (4 * IZR half)) by (field; lra). lra.
    - unfold froot_above. apply holds_add; trivial; [apply holds_scale; trivial|apply holds_constant]; apply known_exactly.
  Qed.

  Lemma root_below_holds half y Y : (0 < half)%Z -> 0 <= Y -> holds y Y ->
    exists S, S <= sqrt Y /\ holds (froot_below half y) S.
  Proof.
    intros Hhalf HY Hy. pose proof G_pos as HG. set (s := IZR (2 * half) / G).
    assert (Hs : 0 < s) by (apply Rmult_lt_0_compat; [apply IZR_lt; lia|apply Rinv_0_lt_compat; lra]).
    exists (Y * (s * (3 - s * (s * Y)) / 2)). split; [apply root_below; trivial|].
    unfold froot_below. apply holds_times; trivial. apply tangent_holds. apply square_holds. trivial.
  Qed.
End Roots.

(** * Norms as one factor *)

Section Norms.
  Variable n : words_network.
  Let d := width n.

  Definition square_and_epsilon (m : norm) (x : nat -> R) : R :=
    rsum d (fun k => x k * x k) / INR d + float F64 (epsilon m).
  Definition factor (which : option norm) (x : nat -> R) : R :=
    match which with None => 1 | Some m => / sqrt (square_and_epsilon m x) end.

  (** A column W and an entry b, read behind a norm: directions of the stream, and a constant. *)
  Definition reader : Set := list coefficient * interval.
  Definition reads_by (which : option norm) (W : list interval) (b : interval) : reader :=
    match which with
    | None => (map of_interval W, b)
    | Some m => (map of_interval (map2 imul (irow (gain m) 0 d) W), iadd (idot (irow (offset m) 0 d) W) b)
    end.

  Lemma known_vec dd xs x : vec dd xs x -> known_list dd (map of_interval xs) x.
  Proof.
    intros [L H]. split; [rewrite map_length; trivial|]. intros i Hi.
    rewrite (nth_map of_interval xs i zero) by lia. apply known_interval. auto.
  Qed.

  Lemma reads_by_ok which Ws bs W b : vec d Ws W -> inside bs b -> exists c bias,
    known_list d (fst (reads_by which Ws bs)) c /\ inside (snd (reads_by which Ws bs)) bias
    /\ forall x, rsum d (fun i => normed n which x i * W i) + b = rsum d (fun i => c i * x i) * factor which x + bias.
  Proof.
    intros HW Hb. destruct which as [m|]; cbn [reads_by fst snd factor normed].
    - exists (fun i => entry_of (gain m) 0 i * W i), (rsum d (fun i => entry_of (offset m) 0 i * W i) + b). split; [|split].
      + apply known_vec. refine (vec_map2 d imul Rmult _ _ _ _ inside_mul _ HW). apply vec_row.
      + apply inside_add; trivial. apply inside_dot; trivial. apply vec_row.
      + intros x. rewrite <- rsum_scale_r, <- Rplus_assoc. f_equal. rewrite <- rsum_add. apply rsum_ext. intros i Hi.
        unfold square_and_epsilon, d, Rdiv. ring.
    - exists W, b. split; [apply known_vec; trivial|]. split; [trivial|]. intros x. rewrite Rmult_1_r. f_equal.
      apply rsum_ext. intros. ring.
  Qed.

  Variables (k : nat) (e : nat -> R).
  Hypothesis He : forall i, (i < k)%nat -> Rabs (e i) <= 1.
  Notation holds := (holds k e).

  Definition one_over_d : coefficient := of_interval (iratio 1 (Z.of_nat d) (fineness, fineness)).

  Definition fmean_square (m : norm) (xs : list form) : form :=
    fadd (fscale k one_over_d (fold_right (fun f => fadd (fsquare f)) (fconstant k (0, 0)%Z) xs))
         (fconstant k (of_interval (ieps m))).

  Hypothesis Hd : (0 < d)%nat.

  Lemma known_zero : known_as (0, 0)%Z 0.
  Proof. unfold known_as; simpl. rewrite Rmult_0_l, Rminus_0_r, Rabs_R0. lra. Qed.

  Lemma mean_square_holds m xs x : hold_list k e d xs x -> holds (fmean_square m xs) (square_and_epsilon m x).
  Proof.
    intros [L H]. unfold fmean_square, square_and_epsilon. apply holds_add; trivial.
    2: { apply holds_constant. apply known_interval. unfold ieps. apply inside_float. }
    unfold Rdiv. rewrite Rmult_comm. apply holds_scale; trivial.
    - apply known_interval. replace (/ INR d) with (1 * IZR 1 / IZR (Z.of_nat d)) by (rewrite <- INR_IZR; field; apply not_0_INR; lia).
      apply inside_ratio; [lia|lia|]. unfold inside; cbn [fst snd]. fold F. lra.
    - revert xs x L H. generalize d. intros dd. 
      induction dd as [|dd IH]; intros [|f xs] x L H; try discriminate; [simpl; apply holds_constant; apply known_zero|].
      cbn [fold_right]. rewrite rsum_first. apply holds_add; trivial.
      + apply holds_square; trivial. apply (H O). lia.
      + apply (IH xs (fun i => x (S i))); [simpl in L; lia|]. intros i Hi. apply (H (S i)). lia.
  Qed.

  Lemma square_nonneg m x : norm_ok (Some m) = true -> 0 < square_and_epsilon m x.
  Proof.
    intros ok. unfold norm_ok in ok. apply Z.ltb_lt in ok. unfold square_and_epsilon.
    pose proof (inside_float F64 (epsilon m)) as [L _]. fold (ieps m) in L. apply IZR_lt in ok. pose proof F_pos as HF.
    assert (0 < float F64 (epsilon m)) by (apply Rmult_lt_reg_r with F; lra).
    assert (0 <= rsum d (fun k => x k * x k) / INR d); [|lra].
    unfold Rdiv. apply Rmult_le_pos; [apply rsum_nonneg; intros; nra|]. left. apply Rinv_0_lt_compat. apply lt_0_INR. lia.
  Qed.
End Norms.
