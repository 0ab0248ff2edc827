(** Real numbers between integers: an interval is a pair of integers over 2^128, its ends.

    [inside a x] says that x is between the ends of a. Each operation on intervals has one lemma: what it gives contains
    the result. Rounding is downwards at the lower end and upwards at the upper end. Roots are integer roots. For
    exponentials only two facts are used, 1 + x <= e^x and e^(2x) = (e^x)^2. *)

Require Export Proved.Words Lra Psatz.
Open Scope R_scope.

(** * Rounding *)

(** z / 2^b, rounded down and rounded up. *)
Definition floor2 (b z : Z) : Z := Z.shiftr z b.
Definition ceil2 (b z : Z) : Z := (- Z.shiftr (- z) b)%Z.

Lemma power_pos b : (0 <= b)%Z -> 0 < IZR (2 ^ b).
Proof. intros. apply IZR_lt. apply Z.pow_pos_nonneg; lia. Qed.

Lemma div_le z q r : (0 < q)%Z -> IZR z <= r * IZR q -> IZR (z / q) <= r.
Proof.
  intros Hq H. assert (0 < IZR q) by (apply IZR_lt; trivial). apply Rmult_le_reg_r with (IZR q); trivial.
  apply Rle_trans with (IZR z); trivial. rewrite <- mult_IZR. apply IZR_le. rewrite Z.mul_comm. apply Z.mul_div_le. lia.
Qed.

Lemma div_ge z q r : (0 < q)%Z -> r * IZR q <= IZR z -> r <= IZR (- (- z / q)).
Proof.
  intros Hq H. rewrite opp_IZR. assert (IZR (- z / q) <= - r); [|lra]. apply div_le; trivial. rewrite opp_IZR. lra.
Qed.

Lemma down_le b z r : (0 <= b)%Z -> IZR z <= r * IZR (2 ^ b) -> IZR (floor2 b z) <= r.
Proof. intros. unfold floor2. rewrite Z.shiftr_div_pow2 by trivial. apply div_le; trivial. apply Z.pow_pos_nonneg; lia. Qed.

Lemma up_ge b z r : (0 <= b)%Z -> r * IZR (2 ^ b) <= IZR z -> r <= IZR (ceil2 b z).
Proof.
  intros. unfold ceil2. rewrite Z.shiftr_div_pow2 by trivial. apply div_ge; trivial. apply Z.pow_pos_nonneg; lia.
Qed.

Lemma down_le_self b z : (0 <= b)%Z -> IZR (floor2 b z) * IZR (2 ^ b) <= IZR z.
Proof.
  intros H. pose proof (power_pos b H). apply Rle_trans with (IZR z / IZR (2 ^ b) * IZR (2 ^ b)); [|right; field; lra].
  apply Rmult_le_compat_r; [lra|]. apply down_le; trivial. right. field. lra.
Qed.

Lemma up_ge_self b z : (0 <= b)%Z -> IZR z <= IZR (ceil2 b z) * IZR (2 ^ b).
Proof. intros. unfold ceil2. pose proof (down_le_self b (- z) H) as D. unfold floor2 in D. rewrite !opp_IZR in *. lra. Qed.

Lemma down_nonneg b z : (0 <= b)%Z -> (0 <= z)%Z -> (0 <= floor2 b z)%Z.
Proof. intros. unfold floor2. apply Z.shiftr_nonneg. trivial. Qed.

(** * Intervals *)

Definition interval : Set := Z * Z.
Definition depth : Z := 128.
Definition fineness : Z := 2 ^ 128.
Definition F : R := IZR fineness.
Definition inside (a : interval) (x : R) : Prop := IZR (fst a) <= x * F <= IZR (snd a).

Lemma F_depth : IZR (2 ^ depth) = F.
Proof. reflexivity. Qed.

Lemma F_pos : 0 < F.
Proof. apply IZR_lt. reflexivity. Qed.

Definition zero : interval := (0, 0)%Z.

Lemma inside_zero : inside zero 0.
Proof. unfold inside, zero; simpl. lra. Qed.

Definition iadd (a b : interval) : interval := (fst a + fst b, snd a + snd b)%Z.

Lemma inside_add a b x y : inside a x -> inside b y -> inside (iadd a b) (x + y).
Proof. unfold inside, iadd; simpl. rewrite !plus_IZR. lra. Qed.

Definition iopp (a : interval) : interval := (- snd a, - fst a)%Z.

Lemma inside_opp a x : inside a x -> inside (iopp a) (- x).
Proof. unfold inside, iopp; simpl. rewrite !opp_IZR. lra. Qed.

(** The smallest interval with two others in it. *)
Definition ijoin (a b : interval) : interval := (Z.min (fst a) (fst b), Z.max (snd a) (snd b)).

Lemma inside_wider a b x : inside a x -> (fst b <= fst a)%Z -> (snd a <= snd b)%Z -> inside b x.
Proof. unfold inside. intros H L M. apply IZR_le in L, M. lra. Qed.

(** The product x y of x in a and y in b is between the products of their ends. *)
Definition corners (a b : interval) : Z * Z :=
  let p := (fst a * fst b)%Z in let q := (fst a * snd b)%Z in
  let r := (snd a * fst b)%Z in let s := (snd a * snd b)%Z in
  (Z.min (Z.min p q) (Z.min r s), Z.max (Z.max p q) (Z.max r s)).

Lemma between k l z h m : l <= z <= h -> m <= k * l -> m <= k * h -> m <= k * z.
Proof. intros. destruct (Rle_dec 0 k); nra. Qed.

Lemma between' k l z h m : l <= z <= h -> k * l <= m -> k * h <= m -> k * z <= m.
Proof. intros. destruct (Rle_dec 0 k); nra. Qed.

Lemma corners_hold a b X Y : IZR (fst a) <= X <= IZR (snd a) -> IZR (fst b) <= Y <= IZR (snd b) ->
  IZR (fst (corners a b)) <= X * Y <= IZR (snd (corners a b)).
Proof.
  intros HX HY. unfold corners; cbn [fst snd]. destruct a as [a1 a2], b as [b1 b2]; cbn [fst snd] in *.
  set (p := (a1 * b1)%Z). set (q := (a1 * b2)%Z). set (r := (a2 * b1)%Z). set (s := (a2 * b2)%Z).
  set (lo := Z.min (Z.min p q) (Z.min r s)). set (hi := Z.max (Z.max p q) (Z.max r s)).
  assert (L : (lo <= p /\ lo <= q /\ lo <= r /\ lo <= s)%Z) by (unfold lo; lia).
  assert (H : (p <= hi /\ q <= hi /\ r <= hi /\ s <= hi)%Z) by (unfold hi; lia).
  destruct L as (L1 & L2 & L3 & L4), H as (H1 & H2 & H3 & H4).
  apply IZR_le in L1, L2, L3, L4, H1, H2, H3, H4. unfold p, q, r, s in *. rewrite mult_IZR in *.
  split; rewrite Rmult_comm.
  - apply (between Y (IZR a1) X (IZR a2)); trivial; rewrite Rmult_comm; apply (between _ (IZR b1) Y (IZR b2)); trivial.
  - apply (between' Y (IZR a1) X (IZR a2)); trivial; rewrite Rmult_comm; apply (between' _ (IZR b1) Y (IZR b2)); trivial.
Qed.

Definition rounded (ends : Z * Z) : interval := (floor2 depth (fst ends), ceil2 depth (snd ends)).

Lemma inside_rounded ends x : IZR (fst ends) <= x * F * F <= IZR (snd ends) -> inside (rounded ends) x.
Proof.
  intros. unfold inside, rounded; cbn [fst snd].
  split; [apply down_le|apply up_ge]; try (unfold depth; lia); rewrite F_depth; lra.
Qed.

Definition imul (a b : interval) : interval := rounded (corners a b).

Lemma inside_mul a b x y : inside a x -> inside b y -> inside (imul a b) (x * y).
Proof.
  intros Ha Hb. apply inside_rounded. pose proof (corners_hold a b _ _ Ha Hb).
  replace (x * y * F * F) with (x * F * (y * F)) by ring. trivial.
Qed.

(** x times num / den. *)
Definition iratio (num den : Z) (a : interval) : interval := (fst a * num / den, - (- (snd a * num) / den))%Z.

Lemma inside_ratio num den a x : (0 < num)%Z -> (0 < den)%Z -> inside a x ->
  inside (iratio num den a) (x * IZR num / IZR den).
Proof.
  intros Hn Hd [L H]. assert (0 < IZR den) by (apply IZR_lt; trivial). assert (0 < IZR num) by (apply IZR_lt; trivial).
  unfold inside, iratio; cbn [fst snd].
  assert (E : x * IZR num / IZR den * F * IZR den = x * F * IZR num) by (field; lra).
  split; [apply div_le|apply div_ge]; trivial; rewrite mult_IZR, E; apply Rmult_le_compat_r; lra.
Qed.

(** A stored weight: value over 2^1074. *)
Definition below1074 : Z := 1074 - 128.
Definition ifloat (kind : number) (bits : Z) : interval :=
  if (bits =? 0)%Z then zero else let v := value kind bits in (floor2 below1074 v, ceil2 below1074 v).

Lemma one_1 : IZR (one 1) = F * IZR (2 ^ below1074).
Proof. unfold F. rewrite <- mult_IZR. reflexivity. Qed.

Lemma inside_float kind bits : inside (ifloat kind bits) (float kind bits).
Proof.
  unfold ifloat. destruct (Z.eqb_spec bits 0) as [->|_].
  { replace (float kind 0) with 0; [apply inside_zero|]. destruct kind; unfold float, value, Rdiv; simpl; ring. }
  unfold inside, float; cbn [fst snd]. rewrite one_1. pose proof F_pos as HF.
  assert (HP : 0 < IZR (2 ^ below1074)) by (apply power_pos; unfold below1074; lia).
  split; [apply down_le|apply up_ge]; try (unfold below1074; lia); right; field; lra.
Qed.

(** * Roots *)

(** 1 / sqrt x for x > 0. *)
Definition cube : Z := fineness * fineness * fineness.
Definition iroot (a : interval) : interval := (Z.sqrt (cube / snd a), Z.sqrt (cube / fst a) + 1)%Z.

Lemma F3 : IZR cube = F * F * F.
Proof. unfold cube. rewrite !mult_IZR. reflexivity. Qed.

Lemma inside_root a x : (0 < fst a)%Z -> inside a x -> inside (iroot a) (/ sqrt x).
Proof.
  intros Ha [L H]. assert (A : 0 < IZR (fst a)) by (apply IZR_lt; trivial). pose proof F_pos as HF.
  assert (B : 0 < IZR (snd a)) by lra. assert (B' : (0 < snd a)%Z) by (apply lt_IZR; trivial).
  assert (Hx : 0 < x) by (apply Rmult_lt_reg_r with F; lra).
  assert (Hs : 0 < sqrt x) by (apply sqrt_lt_R0; trivial). pose proof (sqrt_sqrt x ltac:(lra)) as Hss.
  assert (HC : (0 <= cube)%Z) by (unfold cube, fineness; lia).
  unfold inside, iroot; cbn [fst snd]. split.
  - pose proof (Z.sqrt_spec (cube / snd a) (Z.div_pos _ _ HC B')) as [S _].
    pose proof (Z.sqrt_nonneg (cube / snd a)) as N. set (r := Z.sqrt (cube / snd a)) in *.
    assert (Hr : (r * r * snd a <= cube)%Z) by (pose proof (Z.mul_div_le cube (snd a) B'); nia).
    apply IZR_le in Hr, N. rewrite !mult_IZR, F3 in Hr.
    apply Rmult_le_reg_r with (sqrt x); trivial. rewrite Rmult_assoc, (Rmult_comm F), <- Rmult_assoc.
    rewrite Rinv_l, Rmult_1_l by lra. apply Rsqr_incr_0_var; [|lra]. unfold Rsqr.
    apply Rmult_le_reg_r with F; trivial.
    replace (IZR r * sqrt x * (IZR r * sqrt x) * F) with (IZR r * IZR r * ((sqrt x * sqrt x) * F)) by ring.
    rewrite Hss. apply Rle_trans with (IZR r * IZR r * IZR (snd a)); [|lra]. apply Rmult_le_compat_l; [nra|trivial].
  - pose proof (Z.sqrt_spec (cube / fst a) (Z.div_pos _ _ HC Ha)) as [_ S].
    pose proof (Z.sqrt_nonneg (cube / fst a)) as N. set (r := Z.sqrt (cube / fst a)) in *.
    assert (Hr : (cube <= (r + 1) * (r + 1) * fst a)%Z).
    { pose proof (Z.mul_succ_div_gt cube (fst a) Ha). unfold Z.succ in *. nia. }
    apply IZR_le in Hr, N. rewrite !mult_IZR, F3, !plus_IZR in Hr. rewrite plus_IZR.
    apply Rmult_le_reg_r with (sqrt x); trivial. rewrite (Rmult_comm (/ sqrt x)), Rmult_assoc.
    rewrite Rinv_l, Rmult_1_r by lra. apply Rsqr_incr_0_var; [|nra]. unfold Rsqr.
    apply Rmult_le_reg_r with F; trivial.
    replace ((IZR r + 1) * sqrt x * ((IZR r + 1) * sqrt x) * F) with ((IZR r + 1) * (IZR r + 1) * ((sqrt x * sqrt x) * F)) by ring.
    rewrite Hss. apply Rle_trans with ((IZR r + 1) * (IZR r + 1) * IZR (fst a)); [lra|].
    apply Rmult_le_compat_l; [nra|trivial].
Qed.

(** * Exponentials of numbers up to [most_exponent] *)

Definition most_exponent : Z := 256 * fineness.

(** e^x = (e^(x / 2^k))^(2^k): k squarings. *)
Definition halvings : nat := 62.
Definition halved : Z := 62.

Fixpoint squared_down (k : nat) (y : Z) : Z :=
  match k with O => y | S l => squared_down l (floor2 depth (y * y)) end.
Fixpoint squared_up (k : nat) (y : Z) : Z :=
  match k with O => y | S l => squared_up l (ceil2 depth (y * y)) end.

Definition exp_below (x : Z) : Z := squared_down halvings (Z.max 0 (fineness + floor2 halved x)).
Definition exp_above (x : Z) : Z :=
  let t := ceil2 halved x in squared_up halvings (fineness + t + ceil2 depth (2 * t * t)).
Definition iexp (a : interval) : interval := (exp_below (fst a), exp_above (snd a)).

Lemma squared_down_le k : forall y u, (0 <= y)%Z -> IZR y <= exp u * F ->
  IZR (squared_down k y) <= exp (u * IZR (2 ^ Z.of_nat k)) * F.
Proof.
  induction k as [|k IH]; intros y u N H; simpl squared_down.
  - replace (u * IZR (2 ^ Z.of_nat 0)) with u by (simpl; ring). trivial.
  - replace (u * IZR (2 ^ Z.of_nat (S k))) with ((u + u) * IZR (2 ^ Z.of_nat k)).
    + apply IH; [apply down_nonneg; [unfold depth; lia|nia]|]. apply down_le; [unfold depth; lia|].
      rewrite F_depth, exp_plus, mult_IZR. apply IZR_le in N.
      replace (exp u * exp u * F * F) with (exp u * F * (exp u * F)) by ring. apply Rmult_le_compat; lra.
    + rewrite Nat2Z.inj_succ, Z.pow_succ_r, mult_IZR by lia. ring.
Qed.

Lemma squared_up_ge k : forall y u, exp u * F <= IZR y ->
  exp (u * IZR (2 ^ Z.of_nat k)) * F <= IZR (squared_up k y).
Proof.
  induction k as [|k IH]; intros y u H; simpl squared_up.
  - replace (u * IZR (2 ^ Z.of_nat 0)) with u by (simpl; ring). trivial.
  - replace (u * IZR (2 ^ Z.of_nat (S k))) with ((u + u) * IZR (2 ^ Z.of_nat k)).
    + apply IH. apply up_ge; [unfold depth; lia|]. rewrite F_depth, exp_plus, mult_IZR.
      pose proof (exp_pos u). pose proof F_pos.
      replace (exp u * exp u * F * F) with (exp u * F * (exp u * F)) by ring. apply Rmult_le_compat; nra.
    + rewrite Nat2Z.inj_succ, Z.pow_succ_r, mult_IZR by lia. ring.
Qed.

Lemma one_plus_le x : 1 + x <= exp x.
Proof. destruct (Req_dec x 0) as [->|ne]; [rewrite exp_0; lra|]. left. apply exp_ineq1. trivial. Qed.

Definition two_k : R := IZR (2 ^ halved).

Lemma two_k_pos : 0 < two_k.
Proof. apply power_pos. unfold halved; lia. Qed.

Lemma exp_below_le x : IZR (exp_below x) <= exp (IZR x / F) * F.
Proof.
  pose proof F_pos as HF. pose proof two_k_pos as HK. unfold exp_below.
  replace (IZR x / F) with (IZR x / F / two_k * IZR (2 ^ Z.of_nat halvings)).
  2: { change (Z.of_nat halvings) with halved. fold two_k. field. lra. }
  apply squared_down_le; [lia|]. pose proof (exp_pos (IZR x / F / two_k)).
  destruct (Z.max_spec 0 (fineness + floor2 halved x)) as [[_ ->]|[_ ->]]; [|nra].
  rewrite plus_IZR. fold F.
  assert (IZR (floor2 halved x) <= IZR x / two_k).
  { apply down_le; [unfold halved; lia|]. fold two_k. right. field. lra. }
  pose proof (one_plus_le (IZR x / F / two_k)). apply Rle_trans with ((1 + IZR x / F / two_k) * F).
  - replace ((1 + IZR x / F / two_k) * F) with (F + IZR x / two_k) by (field; lra). lra.
  - apply Rmult_le_compat_r; lra.
Qed.

Lemma exp_above_ge x : (x <= most_exponent)%Z -> exp (IZR x / F) * F <= IZR (exp_above x).
Proof.
  intros Hx. pose proof F_pos as HF. pose proof two_k_pos as HK. unfold exp_above. set (t := ceil2 halved x).
  replace (IZR x / F) with (IZR x / F / two_k * IZR (2 ^ Z.of_nat halvings)).
  2: { change (Z.of_nat halvings) with halved. fold two_k. field. lra. }
  apply squared_up_ge. set (T := IZR t / F).
  assert (Ht : IZR x / two_k <= IZR t).
  { apply up_ge; [unfold halved; lia|]. fold two_k. right. field. lra. }
  assert (HT : T <= / 2).
  { assert (Nt : (2 * t <= fineness)%Z).
    { assert (IZR t <= IZR x / two_k + 1).
      { pose proof (down_le_self halved (- x)) as D. unfold floor2 in D.
        assert (E : IZR (- x) < (IZR (Z.shiftr (- x) halved) + 1) * two_k).
        { rewrite <- plus_IZR. unfold two_k. rewrite <- mult_IZR. apply IZR_lt. rewrite Z.shiftr_div_pow2 by (unfold halved; lia).
          pose proof (Z.mul_succ_div_gt (- x) (2 ^ halved) ltac:(reflexivity)). unfold Z.succ in *. lia. }
        unfold t, ceil2. rewrite opp_IZR in *. apply Rmult_le_reg_r with two_k; trivial.
        replace ((IZR x / two_k + 1) * two_k) with (IZR x + two_k) by (field; lra). lra. }
      assert (IZR x / two_k + 1 <= IZR fineness / 2).
      { apply IZR_le in Hx. unfold most_exponent in Hx. rewrite mult_IZR in Hx. fold F in Hx |- *.
        assert (big : 1024 <= two_k) by (apply IZR_le; unfold halved; lia).
        assert (big' : 4 <= F) by (apply IZR_le; unfold fineness; lia).
        apply Rmult_le_reg_r with two_k; trivial.
        replace ((IZR x / two_k + 1) * two_k) with (IZR x + two_k) by (field; lra). nra. }
      apply le_IZR. rewrite mult_IZR. lra. }
    apply IZR_le in Nt. rewrite mult_IZR in Nt. fold F in Nt. unfold T. apply Rmult_le_reg_r with F; trivial.
    replace (IZR t / F * F) with (IZR t) by (field; lra). lra. }
  assert (below : exp (IZR x / F / two_k) <= exp T).
  { assert (le : IZR x / F / two_k <= T).
    { unfold T. replace (IZR x / F / two_k) with (IZR x / two_k / F) by (field; lra).
      unfold Rdiv at 1 3. apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat; lra|trivial]. }
    destruct le as [lt| ->]; [left; apply exp_increasing; trivial|lra]. }
  assert (above : exp T <= 1 + T + 2 * T * T).
  { pose proof (one_plus_le (- T)) as I. pose proof (exp_pos T) as P. pose proof (exp_pos (- T)).
    assert (E : exp T * exp (- T) = 1) by (rewrite <- exp_plus, Rplus_opp_r; apply exp_0).
    assert (exp T * (1 - T) <= 1) by nra.
    apply Rmult_le_reg_r with (1 - T); [lra|]. apply Rle_trans with 1; trivial.
    replace ((1 + T + 2 * T * T) * (1 - T)) with (1 + (T * T) * (1 - 2 * T)) by ring.
    assert (0 <= (T * T) * (1 - 2 * T)) by (apply Rmult_le_pos; nra). lra. }
  rewrite !plus_IZR. fold F. assert (2 * IZR t * IZR t / F <= IZR (ceil2 depth (2 * t * t))).
  { apply up_ge; [unfold depth; lia|]. rewrite F_depth, !mult_IZR. right. field. lra. }
  apply Rle_trans with ((1 + T + 2 * T * T) * F); [apply Rmult_le_compat_r; lra|].
  replace ((1 + T + 2 * T * T) * F) with (F + IZR t + 2 * IZR t * IZR t / F) by (unfold T; field; lra). lra.
Qed.

Lemma exp_mono x y : x <= y -> exp x <= exp y.
Proof. intros [H| ->]; [left; apply exp_increasing; trivial|lra]. Qed.

Lemma inside_exp a x : (snd a <= most_exponent)%Z -> inside a x -> inside (iexp a) (exp x).
Proof.
  intros Ha [L H]. pose proof F_pos as HF. unfold inside, iexp; cbn [fst snd].
  assert (step : forall u v, u <= v * F -> exp (u / F) <= exp v).
  { intros u v le. apply exp_mono. apply Rmult_le_reg_r with F; trivial. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra. }
  split.
  - apply Rle_trans with (exp (IZR (fst a) / F) * F); [apply exp_below_le|].
    apply Rmult_le_compat_r; [lra|]. apply step. trivial.
  - apply Rle_trans with (exp (IZR (snd a) / F) * F); [|apply exp_above_ge; trivial].
    apply Rmult_le_compat_r; [lra|]. apply exp_mono. apply Rmult_le_reg_r with F; trivial.
    unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
Qed.
