(** Affine forms: numbers that depend on the place in a box.

    The places in a box are given by numbers e_0, ..., e_(k-1) between -1 and 1. A form, in integers over 2^tail_bits,
    stands for all numbers within [err] of mid + sum_q slope_q e_q. Sums keep what forms share; what a product or a curve
    cannot share is added to [err]. *)

Require Export Proved.Vectors.
Open Scope R_scope.

Definition tail_bits : Z := 62.
Definition tail_unit : Z := 2 ^ 62.
Definition G : R := IZR tail_unit.

Lemma G_bits : IZR (2 ^ tail_bits) = G.
Proof. reflexivity. Qed.
Lemma G_pos : 0 < G.
Proof. apply IZR_lt. reflexivity. Qed.
Lemma tail_bits_nonneg : (0 <= tail_bits)%Z.
Proof. unfold tail_bits. lia. Qed.

Record form := { mid : Z; slopes : list Z; err : Z }.

(** A coefficient: an integer over 2^tail_bits, and how far it may be from the truth. *)
Definition coefficient : Set := Z * Z.
Definition known_as (c : coefficient) (x : R) : Prop := Rabs (x * G - IZR (fst c)) <= IZR (snd c).

Definition of_interval (a : interval) : coefficient :=
  let lo := floor2 (depth - tail_bits) (fst a) in
  let hi := ceil2 (depth - tail_bits) (snd a) in
  let c := Z.shiftr (lo + hi) 1 in (c, hi - c)%Z.

Lemma known_interval a x : inside a x -> known_as (of_interval a) x.
Proof.
  intros [L H]. unfold known_as, of_interval; cbn [fst snd].
  assert (E : F = G * IZR (2 ^ (depth - tail_bits))) by (unfold F, G; rewrite <- mult_IZR; reflexivity).
  rewrite E, <- Rmult_assoc in L, H. apply down_le in L; [|unfold depth, tail_bits; lia].
  assert (H' : x * G <= IZR (ceil2 (depth - tail_bits) (snd a))) by (apply up_ge; [unfold depth, tail_bits; lia|trivial]).
  change (floor2 (depth - tail_bits) (fst a)) with (floor2 (depth - tail_bits) (fst a)) in L.
  set (lo := floor2 (depth - tail_bits) (fst a)) in *. set (hi := ceil2 (depth - tail_bits) (snd a)) in *.
  rewrite Z.shiftr_div_pow2 by lia. change (2 ^ 1)%Z with 2%Z. set (c := ((lo + hi) / 2)%Z).
  assert (C : (2 * c <= lo + hi < 2 * c + 2)%Z) by (unfold c; pose proof (Z.div_mod (lo + hi) 2); pose proof (Z.mod_pos_bound (lo + hi) 2); lia).
  destruct C as [C1 _]. apply IZR_le in C1. rewrite mult_IZR, plus_IZR in C1. rewrite minus_IZR. apply Rabs_le. lra.
Qed.

(** * Linear parts *)

Fixpoint linear (a : list Z) (e : nat -> R) : R :=
  match a with [] => 0 | x :: a => IZR x * e 0%nat + linear a (fun i => e (S i)) end.
Fixpoint size_of (a : list Z) : Z := match a with [] => 0%Z | x :: a => (Z.abs x + size_of a)%Z end.

Lemma linear_small a : forall e, (forall i, (i < length a)%nat -> Rabs (e i) <= 1) -> Rabs (linear a e) <= IZR (size_of a).
Proof.
  induction a as [|x a IH]; intros e He; cbn [linear size_of]; [rewrite Rabs_R0; lra|].
  eapply Rle_trans; [apply Rabs_triang|]. rewrite plus_IZR. apply Rplus_le_compat.
  - rewrite Rabs_mult, <- abs_IZR. rewrite <- (Rmult_1_r (IZR (Z.abs x))) at 2. rewrite abs_IZR.
    apply Rmult_le_compat_l; [apply Rabs_pos|]. apply He. simpl. lia.
  - apply IH. intros i Hi. apply He. simpl. lia.
Qed.

Lemma linear_map k a : forall e, linear (map (Z.mul k) a) e = IZR k * linear a e.
Proof. induction a as [|x a IH]; intros e; simpl; [ring|]. rewrite IH, mult_IZR. ring. Qed.

Lemma linear_opp a : forall e, linear (map Z.opp a) e = - linear a e.
Proof. induction a as [|x a IH]; intros e; simpl; [ring|]. rewrite IH, opp_IZR. ring. Qed.

Lemma linear_add a : forall b e, length a = length b -> linear (map2 Z.add a b) e = linear a e + linear b e.
Proof.
  induction a as [|x a IH]; intros [|y b] e H; try discriminate; simpl; [ring|].
  rewrite IH by (simpl in H; lia). rewrite plus_IZR. ring.
Qed.

Lemma linear_combination p q a : forall b e, length a = length b ->
  linear (map2 (fun x y => p * x + q * y)%Z a b) e = IZR p * linear a e + IZR q * linear b e.
Proof.
  induction a as [|x a IH]; intros [|y b] e H; try discriminate; simpl; [ring|].
  rewrite IH by (simpl in H; lia). rewrite plus_IZR, !mult_IZR. ring.
Qed.

Lemma linear_rounded a : forall e, (forall i, (i < length a)%nat -> Rabs (e i) <= 1) ->
  Rabs (linear a e - G * linear (map (floor2 tail_bits) a) e) <= G * INR (length a).
Proof.
  induction a as [|x a IH]; intros e He; [simpl; rewrite Rmult_0_r, Rminus_0_r, Rabs_R0; lra|].
  cbn [map linear length]. rewrite S_INR.
  replace (IZR x * e 0%nat + linear a (fun i => e (S i))
           - G * (IZR (floor2 tail_bits x) * e 0%nat + linear (map (floor2 tail_bits) a) (fun i => e (S i))))
    with ((IZR x - G * IZR (floor2 tail_bits x)) * e 0%nat
          + (linear a (fun i => e (S i)) - G * linear (map (floor2 tail_bits) a) (fun i => e (S i)))) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. rewrite Rmult_plus_distr_l, Rmult_1_r, (Rplus_comm (G * _)).
  apply Rplus_le_compat; [|apply IH; intros i Hi; apply He; simpl; lia].
  rewrite Rabs_mult. pose proof (He O ltac:(simpl; lia)) as E. pose proof G_pos as HG.
  assert (D : 0 <= IZR x - G * IZR (floor2 tail_bits x) <= G).
  { pose proof (down_le_self tail_bits x tail_bits_nonneg) as L. rewrite G_bits in L.
    assert (U : IZR x <= G * (IZR (floor2 tail_bits x) + 1)).
    { unfold floor2. rewrite Z.shiftr_div_pow2 by (apply tail_bits_nonneg). rewrite <- plus_IZR.
      change G with (IZR (2 ^ tail_bits)). rewrite <- mult_IZR. apply IZR_le.
      pose proof (Z.mul_succ_div_gt x (2 ^ tail_bits) ltac:(reflexivity)). unfold Z.succ in *. lia. }
    lra. }
  rewrite (Rabs_pos_eq (IZR x - _)) by lra. pose proof (Rabs_pos (e 0%nat)). nra.
Qed.

Section Box.
  Variables (k : nat) (e : nat -> R).
  Hypothesis He : forall i, (i < k)%nat -> Rabs (e i) <= 1.

  Definition holds (f : form) (x : R) : Prop :=
    length (slopes f) = k /\ Rabs (x * G - IZR (mid f) - linear (slopes f) e) <= IZR (err f).

  Definition radius (f : form) : Z := (size_of (slopes f) + err f)%Z.

  (** How far x is from the middle. *)
  Lemma holds_radius f x : holds f x -> Rabs (x * G - IZR (mid f)) <= IZR (radius f).
  Proof.
    intros [L H]. unfold radius. rewrite plus_IZR.
    replace (x * G - IZR (mid f)) with (linear (slopes f) e + (x * G - IZR (mid f) - linear (slopes f) e)) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. apply Rplus_le_compat; trivial. apply linear_small. rewrite L. trivial.
  Qed.

  Lemma holds_range f x : holds f x -> IZR (mid f - radius f) <= x * G <= IZR (mid f + radius f).
  Proof.
    intros H. apply holds_radius in H. rewrite minus_IZR, plus_IZR. unfold Rabs in H. destruct (Rcase_abs _); lra.
  Qed.

  (** * Rounding: from a scale of 2^(2 tail_bits) *)

  Definition settle (m : Z) (a : list Z) (r : Z) : form :=
    {| mid := floor2 tail_bits m; slopes := map (floor2 tail_bits) a;
       err := ceil2 tail_bits r + Z.of_nat (length a) + 1 |}.

  Lemma settle_holds m a r x : length a = k -> Rabs (x * G * G - IZR m - linear a e) <= IZR r -> holds (settle m a r) x.
  Proof.
    intros L H. split; [cbn [settle slopes]; rewrite map_length; trivial|]. cbn [settle mid slopes err].
    pose proof G_pos as HG. pose proof (linear_rounded a e) as A. rewrite L in A. specialize (A He).
    assert (M : 0 <= IZR m - G * IZR (floor2 tail_bits m) <= G).
    { pose proof (linear_rounded [m] (fun _ => 1)) as B. simpl in B. specialize (B (fun _ _ => ltac:(rewrite Rabs_R1; lra))).
      pose proof (down_le_self tail_bits m tail_bits_nonneg) as D. rewrite G_bits in D.
      unfold Rabs in B. destruct (Rcase_abs _); lra. }
    assert (R1 : IZR r <= IZR (ceil2 tail_bits r) * G) by (rewrite <- G_bits; apply up_ge_self; apply tail_bits_nonneg).
    rewrite !plus_IZR, L, <- INR_IZR_INZ. 
    apply Rmult_le_reg_r with G; trivial. rewrite <- (Rabs_pos_eq G) at 2 by lra. rewrite <- Rabs_mult.
    replace ((x * G - IZR (floor2 tail_bits m) - linear (map (floor2 tail_bits) a) e) * G)
      with ((x * G * G - IZR m - linear a e) + ((IZR m - G * IZR (floor2 tail_bits m))
            + (linear a e - G * linear (map (floor2 tail_bits) a) e))) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. eapply Rle_trans; [apply Rplus_le_compat_l; apply Rabs_triang|].
    rewrite (Rabs_pos_eq (IZR m - _)) by lra. lra.
  Qed.

  (** * Operations *)

  Definition fconstant (c : coefficient) : form := {| mid := fst c; slopes := repeat 0%Z k; err := snd c |}.

  Lemma linear_zeros j : forall u, linear (repeat 0%Z j) u = 0.
  Proof. induction j as [|j IH]; intros u; simpl; [trivial|]. rewrite IH. ring. Qed.

  Lemma holds_constant c x : known_as c x -> holds (fconstant c) x.
  Proof.
    intros H. split; [apply repeat_length|]. unfold fconstant; cbn [mid slopes err]. rewrite linear_zeros, Rminus_0_r. trivial.
  Qed.

  Definition fadd (f g : form) : form :=
    {| mid := mid f + mid g; slopes := map2 Z.add (slopes f) (slopes g); err := err f + err g |}.

  Lemma holds_add f g x y : holds f x -> holds g y -> holds (fadd f g) (x + y).
  Proof.
    intros [Lf Hf] [Lg Hg]. split; [cbn [fadd slopes]; apply length_map2; trivial|]. cbn [fadd mid slopes err].
    rewrite linear_add by lia. rewrite !plus_IZR.
    replace ((x + y) * G - (IZR (mid f) + IZR (mid g)) - (linear (slopes f) e + linear (slopes g) e))
      with ((x * G - IZR (mid f) - linear (slopes f) e) + (y * G - IZR (mid g) - linear (slopes g) e)) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. lra.
  Qed.

  Definition fopp (f : form) : form := {| mid := - mid f; slopes := map Z.opp (slopes f); err := err f |}.

  Lemma holds_opp f x : holds f x -> holds (fopp f) (- x).
  Proof.
    intros [Lf Hf]. split; [cbn [fopp slopes]; rewrite map_length; trivial|]. cbn [fopp mid slopes err].
    rewrite linear_opp, opp_IZR.
    replace (- x * G - - IZR (mid f) - - linear (slopes f) e) with (- (x * G - IZR (mid f) - linear (slopes f) e)) by ring.
    rewrite Rabs_Ropp. trivial.
  Qed.

  (** The sum of products of coefficients and forms, rounded once. *)
  Fixpoint fdot_onto (m : Z) (a : list Z) (r : Z) (cs : list coefficient) (fs : list form) : form :=
    match cs, fs with
    | c :: cs, f :: fs =>
        let w := fst c in
        fdot_onto (m + w * mid f) (map2 (fun x y => x + w * y) a (slopes f))
                  (r + Z.abs w * err f + snd c * (Z.abs (mid f) + radius f)) cs fs
    | _, _ => settle m a r
    end%Z.
  Definition fdot (cs : list coefficient) (fs : list form) : form := fdot_onto 0 (repeat 0%Z k) 0 cs fs.

  Lemma product_close c f w x : known_as c w -> holds f x ->
    Rabs (w * x * G * G - IZR (fst c) * IZR (mid f) - IZR (fst c) * linear (slopes f) e)
    <= IZR (Z.abs (fst c) * err f + snd c * (Z.abs (mid f) + radius f)).
  Proof.
    intros Hw Hx. pose proof (holds_radius f x Hx) as Hr. destruct Hx as [L H]. unfold known_as in Hw.
    replace (w * x * G * G - IZR (fst c) * IZR (mid f) - IZR (fst c) * linear (slopes f) e)
      with (IZR (fst c) * (x * G - IZR (mid f) - linear (slopes f) e) + (w * G - IZR (fst c)) * (x * G)) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. rewrite !Rabs_mult, plus_IZR, !mult_IZR, plus_IZR, !abs_IZR.
    apply Rplus_le_compat.
    - apply Rmult_le_compat_l; [apply Rabs_pos|trivial].
    - rewrite <- Rabs_mult. apply Rmult_le_compat; try apply Rabs_pos; trivial.
      replace (x * G) with (IZR (mid f) + (x * G - IZR (mid f))) by ring.
      eapply Rle_trans; [apply Rabs_triang|]. lra.
  Qed.

  Lemma linear_plus_scaled w a : forall b u, length a = length b ->
    linear (map2 (fun x y => x + w * y)%Z a b) u = linear a u + IZR w * linear b u.
  Proof.
    induction a as [|x a IH]; intros [|y b] u H; try discriminate; simpl; [ring|].
    rewrite IH by (simpl in H; lia). rewrite plus_IZR, mult_IZR. ring.
  Qed.

  Definition known_list (d : nat) (cs : list coefficient) (w : nat -> R) : Prop :=
    length cs = d /\ forall i, (i < d)%nat -> known_as (nth i cs (0, 0)%Z) (w i).
  Definition nil_form : form := {| mid := 0; slopes := []; err := 0 |}.
  Definition hold_list (d : nat) (fs : list form) (x : nat -> R) : Prop :=
    length fs = d /\ forall i, (i < d)%nat -> holds (nth i fs nil_form) (x i).

  Lemma holds_dot_onto : forall d cs fs w x m a r z, known_list d cs w -> hold_list d fs x -> length a = k ->
    Rabs (z * G * G - IZR m - linear a e) <= IZR r ->
    holds (fdot_onto m a r cs fs) (z + rsum d (fun i => w i * x i)).
  Proof.
    induction d as [|d IH]; intros [|c cs] [|f fs] w x m a r z [Lc Hc] [Lf Hf] La Hz; try discriminate.
    - simpl. rewrite Rplus_0_r. apply settle_holds; trivial.
    - cbn [fdot_onto]. rewrite rsum_first, <- Rplus_assoc.
      pose proof (Hc O ltac:(lia)) as H1. pose proof (Hf O ltac:(lia)) as H2. simpl in H1, H2.
      apply (IH cs fs (fun i => w (S i)) (fun i => x (S i))).
      + split; [simpl in Lc; lia|]. intros i Hi. apply (Hc (S i)). lia.
      + split; [simpl in Lf; lia|]. intros i Hi. apply (Hf (S i)). lia.
      + apply length_map2; [trivial|apply H2].
      + pose proof (product_close c f _ _ H1 H2) as P. rewrite linear_plus_scaled by (destruct H2; lia).
        rewrite <- Z.add_assoc. rewrite (plus_IZR r). rewrite (plus_IZR m), mult_IZR.
        replace ((z + w 0%nat * x 0%nat) * G * G - (IZR m + IZR (fst c) * IZR (mid f))
                 - (linear a e + IZR (fst c) * linear (slopes f) e))
          with ((z * G * G - IZR m - linear a e)
                + (w 0%nat * x 0%nat * G * G - IZR (fst c) * IZR (mid f) - IZR (fst c) * linear (slopes f) e)) by ring.
        eapply Rle_trans; [apply Rabs_triang|]. lra.
  Qed.

  Lemma holds_dot d cs fs w x : known_list d cs w -> hold_list d fs x -> holds (fdot cs fs) (rsum d (fun i => w i * x i)).
  Proof.
    intros Hc Hf. rewrite <- (Rplus_0_l (rsum _ _)). apply holds_dot_onto; trivial; [apply repeat_length|].
    rewrite linear_zeros. replace (0 * G * G - 0 - 0) with 0 by ring. rewrite Rabs_R0. lra.
  Qed.

  (** One product with a coefficient, of two forms, and of a form with itself, whose square is not negative. *)
  Definition fscale (c : coefficient) (f : form) : form := fdot [c] [f].

  Lemma holds_scale c f w x : known_as c w -> holds f x -> holds (fscale c f) (w * x).
  Proof.
    intros Hc Hf. unfold fscale. replace (w * x) with (rsum 1 (fun _ => w * x)) by (simpl; ring).
    apply (holds_dot 1 [c] [f] (fun _ => w) (fun _ => x)); split; trivial; intros [|i] Hi; trivial; lia.
  Qed.

  Definition ftimes (f g : form) : form :=
    settle (mid f * mid g) (map2 (fun x y => mid g * x + mid f * y)%Z (slopes f) (slopes g))
           (Z.abs (mid f) * err g + Z.abs (mid g) * err f + radius f * radius g)%Z.

  Lemma holds_times f g x y : holds f x -> holds g y -> holds (ftimes f g) (x * y).
  Proof.
    intros Hx Hy. pose proof (holds_radius f x Hx) as Rx. pose proof (holds_radius g y Hy) as Ry.
    destruct Hx as [Lf Hf], Hy as [Lg Hg]. unfold ftimes. apply settle_holds; [apply length_map2; assumption|].
    rewrite linear_combination by lia. rewrite !plus_IZR, !mult_IZR, !abs_IZR.
    set (u := x * G - IZR (mid f)) in *. set (v := y * G - IZR (mid g)) in *.
    replace (x * y * G * G - IZR (mid f) * IZR (mid g)
             - (IZR (mid g) * linear (slopes f) e + IZR (mid f) * linear (slopes g) e))
      with (IZR (mid f) * (v - linear (slopes g) e) + IZR (mid g) * (u - linear (slopes f) e) + u * v) by (unfold u, v; ring).
    eapply Rle_trans; [apply Rabs_triang|]. eapply Rle_trans; [apply Rplus_le_compat_r; apply Rabs_triang|].
    rewrite !Rabs_mult. apply Rplus_le_compat; [apply Rplus_le_compat|]; apply Rmult_le_compat; try apply Rabs_pos; trivial; lra.
  Qed.

  Definition fsquare (f : form) : form :=
    let r := radius f in
    let half := (Z.shiftr (r * r) 1 + 1)%Z in
    settle (mid f * mid f + half) (map (Z.mul (2 * mid f)) (slopes f)) (2 * Z.abs (mid f) * err f + half)%Z.

  Lemma holds_square f x : holds f x -> holds (fsquare f) (x * x).
  Proof.
    intros Hx. pose proof (holds_radius f x Hx) as Rx. destruct Hx as [Lf Hf].
    unfold fsquare. apply settle_holds; [rewrite map_length; trivial|].
    rewrite linear_map. set (r := radius f) in *. set (half := (Z.shiftr (r * r) 1 + 1)%Z).
    assert (Hh : IZR r * IZR r <= 2 * IZR half).
    { rewrite <- !mult_IZR. apply IZR_le. unfold half. rewrite Z.shiftr_div_pow2 by lia. change (2 ^ 1)%Z with 2%Z.
      pose proof (Z.div_mod (r * r) 2). pose proof (Z.mod_pos_bound (r * r) 2). lia. }
    rewrite !plus_IZR, !mult_IZR, abs_IZR. set (u := x * G - IZR (mid f)) in *.
    replace (x * x * G * G - (IZR (mid f) * IZR (mid f) + IZR half) - 2 * IZR (mid f) * linear (slopes f) e)
      with (2 * IZR (mid f) * (u - linear (slopes f) e) + (u * u - IZR half)) by (unfold u; ring).
    eapply Rle_trans; [apply Rabs_triang|]. apply Rplus_le_compat.
    - rewrite !Rabs_mult, (Rabs_pos_eq 2) by lra. apply Rmult_le_compat_l; [|trivial].
      apply Rmult_le_pos; [lra|apply Rabs_pos].
    - assert (0 <= u * u <= IZR r * IZR r).
      { split; [nra|]. rewrite <- (Rabs_pos_eq (u * u)) by nra. rewrite Rabs_mult.
        apply Rmult_le_compat; try apply Rabs_pos; trivial. }
      apply Rabs_le. lra.
  Qed.

  (** * max(0, x): by itself, by 0, or by a line between its ends *)

  Definition frelu (f : form) : form :=
    let r := radius f in
    let lo := (mid f - r)%Z in
    let hi := (mid f + r)%Z in
    if (0 <=? lo)%Z then f else
    if (hi <=? 0)%Z then fconstant (0, 0)%Z else
    let slope := (hi * tail_unit / (hi - lo))%Z in
    let most := Z.max (- slope * lo) ((tail_unit - slope) * hi) in
    let half := (Z.shiftr most 1 + 1)%Z in
    settle (slope * mid f + half) (map (Z.mul slope) (slopes f)) (slope * err f + half)%Z.

  Lemma holds_relu f x : holds f x -> holds (frelu f) (Rmax 0 x).
  Proof.
    intros Hx. pose proof (holds_range f x Hx) as range. unfold frelu. set (r := radius f) in *.
    set (lo := (mid f - r)%Z) in *. set (hi := (mid f + r)%Z) in *. pose proof G_pos as HG.
    destruct (Z.leb_spec 0 lo) as [Hlo|Hlo].
    { apply IZR_le in Hlo. rewrite Rmax_right; [trivial|]. apply Rmult_le_reg_r with G; lra. }
    destruct (Z.leb_spec hi 0) as [Hhi|Hhi].
    { apply IZR_le in Hhi. rewrite Rmax_left; [apply holds_constant|].
      - unfold known_as; simpl. rewrite Rmult_0_l, Rminus_0_r, Rabs_R0. lra.
      - apply Rmult_le_reg_r with G; lra. }
    set (slope := (hi * tail_unit / (hi - lo))%Z).
    assert (S0 : (0 <= slope)%Z) by (apply Z.div_pos; unfold tail_unit; nia).
    assert (S1 : (slope <= tail_unit)%Z).
    { unfold slope. apply Z.div_le_upper_bound; [lia|]. unfold tail_unit. nia. }
    set (most := Z.max (- slope * lo) ((tail_unit - slope) * hi)).
    assert (M1 : (- slope * lo <= most)%Z) by (unfold most; lia).
    assert (M2 : ((tail_unit - slope) * hi <= most)%Z) by (unfold most; lia).
    destruct Hx as [L H]. apply settle_holds; [rewrite map_length; trivial|]. rewrite linear_map.
    set (half := (Z.shiftr most 1 + 1)%Z).
    assert (Hh : (most <= 2 * half)%Z).
    { unfold half. rewrite Z.shiftr_div_pow2 by lia. change (2 ^ 1)%Z with 2%Z.
      pose proof (Z.div_mod most 2). pose proof (Z.mod_pos_bound most 2). lia. }
    apply IZR_le in S0, S1, M1, M2, Hh. apply IZR_lt in Hlo, Hhi.
    rewrite !plus_IZR, !mult_IZR. rewrite !mult_IZR, opp_IZR in M1. rewrite mult_IZR, minus_IZR in M2. rewrite mult_IZR in Hh.
    fold G in S1, M2. set (s := IZR slope) in *. set (u := x * G) in *.
    assert (between : 0 <= Rmax 0 x * G * G - s * u <= IZR most).
    { destruct (Rle_dec 0 x) as [pos|neg].
      - rewrite Rmax_right by trivial. fold u. assert (0 <= u) by (unfold u; nra). nra.
      - rewrite Rmax_left by lra. assert (u <= 0) by (unfold u; nra). nra. }
    replace (Rmax 0 x * G * G - (s * IZR (mid f) + IZR half) - s * linear (slopes f) e)
      with (s * (u - IZR (mid f) - linear (slopes f) e) + (Rmax 0 x * G * G - s * u - IZR half)) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. apply Rplus_le_compat.
    - rewrite Rabs_mult, (Rabs_pos_eq s) by lra. apply Rmult_le_compat_l; trivial.
    - apply Rabs_le. lra.
  Qed.
End Box.
