(** Sums of real numbers, and vectors of intervals: [vec d xs f] says that the list xs encloses f 0, ..., f (d - 1). *)

Require Export Proved.Enclosure.
Open Scope R_scope.

(** * Sums *)

Lemma rsum_ext n f g : (forall i, (i < n)%nat -> f i = g i) -> rsum n f = rsum n g.
Proof.
  induction n as [|n IH]; intros same; simpl; trivial. rewrite (same n) by lia. f_equal. apply IH. intros. apply same. lia.
Qed.

Lemma rsum_le n f g : (forall i, (i < n)%nat -> f i <= g i) -> rsum n f <= rsum n g.
Proof.
  induction n as [|n IH]; intros le; simpl; [lra|]. apply Rplus_le_compat; [apply IH; intros|]; apply le; lia.
Qed.

Lemma rsum_add n f g : rsum n (fun i => f i + g i) = rsum n f + rsum n g.
Proof. induction n; simpl; lra. Qed.

Lemma rsum_sub n f g : rsum n (fun i => f i - g i) = rsum n f - rsum n g.
Proof. induction n; simpl; lra. Qed.

Lemma rsum_scale n k f : rsum n (fun i => k * f i) = k * rsum n f.
Proof. induction n; simpl; [ring|rewrite IHn; ring]. Qed.

Lemma rsum_scale_r n k f : rsum n (fun i => f i * k) = rsum n f * k.
Proof. induction n; simpl; [ring|rewrite IHn; ring]. Qed.

Lemma rsum_zero n : rsum n (fun _ => 0) = 0.
Proof. induction n; simpl; lra. Qed.

Lemma rsum_swap n m (f : nat -> nat -> R) :
  rsum n (fun i => rsum m (fun j => f i j)) = rsum m (fun j => rsum n (fun i => f i j)).
Proof.
  induction n as [|n IH]; simpl; [symmetry; apply rsum_zero|]. rewrite IH. symmetry.
  exact (rsum_add m (fun j => rsum n (fun i => f i j)) (f n)).
Qed.

Lemma rsum_first n f : rsum (S n) f = f 0%nat + rsum n (fun i => f (S i)).
Proof.
  induction n as [|n IH]; [simpl; lra|]. change (rsum (S n) f + f (S n) = f 0%nat + rsum (S n) (fun i => f (S i))).
  rewrite IH. simpl. lra.
Qed.

Lemma rsum_pos n f : (forall i, (i < n)%nat -> 0 < f i) -> (0 < n)%nat -> 0 < rsum n f.
Proof.
  intros pos Hn. destruct n as [|n]; [lia|]. simpl. assert (0 <= rsum n f).
  { rewrite <- (rsum_zero n). apply rsum_le. intros. left. apply pos. lia. }
  pose proof (pos n). assert (n < S n)%nat by lia. specialize (H0 H1). lra.
Qed.

Lemma rsum_nonneg n f : (forall i, (i < n)%nat -> 0 <= f i) -> 0 <= rsum n f.
Proof. intros. rewrite <- (rsum_zero n). apply rsum_le. trivial. Qed.

(** * Vectors *)

Definition vec (d : nat) (xs : list interval) (f : nat -> R) : Prop :=
  length xs = d /\ forall i, (i < d)%nat -> inside (nth i xs zero) (f i).

Definition tab {A} (d : nat) (g : nat -> A) : list A := map g (seq 0 d).

Lemma tab_length {A} d (g : nat -> A) : length (tab d g) = d.
Proof. unfold tab. rewrite map_length, seq_length. trivial. Qed.

Lemma nth_tab {A} d (g : nat -> A) i x : (i < d)%nat -> nth i (tab d g) x = g i.
Proof.
  intros. unfold tab. rewrite (nth_map g (seq 0 d) i 0%nat) by (rewrite seq_length; trivial). rewrite seq_nth; trivial.
Qed.

Lemma vec_tab d g f : (forall i, (i < d)%nat -> inside (g i) (f i)) -> vec d (tab d g) f.
Proof. intros all. split; [apply tab_length|]. intros. rewrite nth_tab; auto. Qed.

Lemma vec_ext d xs f g : (forall i, (i < d)%nat -> f i = g i) -> vec d xs f -> vec d xs g.
Proof. intros same [L all]. split; trivial. intros. rewrite <- same by trivial. auto. Qed.

Lemma vec_map2 d op (rop : R -> R -> R) xs ys f g :
  (forall a b x y, inside a x -> inside b y -> inside (op a b) (rop x y)) ->
  vec d xs f -> vec d ys g -> vec d (map2 op xs ys) (fun i => rop (f i) (g i)).
Proof.
  intros sound [Lx Hx] [Ly Hy]. split; [apply length_map2; trivial|]. intros i Hi.
  rewrite (nth_map2 op d xs ys i zero zero zero); auto.
Qed.

Lemma vec_map d op (rop : R -> R) xs f : (forall a x, inside a x -> inside (op a) (rop x)) ->
  vec d xs f -> vec d (map op xs) (fun i => rop (f i)).
Proof.
  intros sound [Lx Hx]. split; [rewrite map_length; trivial|]. intros i Hi.
  rewrite (nth_map op xs i zero) by lia. auto.
Qed.

(** The product of two vectors, rounded once. *)
Fixpoint idot_onto (lo hi : Z) (xs ys : list interval) : Z * Z :=
  match xs, ys with
  | x :: xs, y :: ys => let (p, q) := corners x y in idot_onto (lo + p) (hi + q) xs ys
  | _, _ => (lo, hi)
  end.
Definition idot (xs ys : list interval) : interval := rounded (idot_onto 0 0 xs ys).

Lemma idot_onto_sum : forall d xs ys f g lo hi x, vec d xs f -> vec d ys g -> IZR lo <= x <= IZR hi ->
  let ends := idot_onto lo hi xs ys in
  IZR (fst ends) <= x + rsum d (fun i => f i * g i) * F * F <= IZR (snd ends).
Proof.
  induction d as [|d IH]; intros [|a xs] [|b ys] f g lo hi x [Lx Hx] [Ly Hy] H; try discriminate.
  - simpl. replace (x + 0 * F * F) with x by ring. trivial.
  - cbn [idot_onto]. pose proof (corners_hold a b _ _ (Hx 0%nat ltac:(lia)) (Hy 0%nat ltac:(lia))) as C.
    destruct (corners a b) as [p q]. cbn [fst snd] in C. rewrite rsum_first.
    replace (x + (f 0%nat * g 0%nat + rsum d (fun i => f (S i) * g (S i))) * F * F)
      with (x + f 0%nat * F * (g 0%nat * F) + rsum d (fun i => f (S i) * g (S i)) * F * F) by ring.
    apply (IH xs ys (fun i => f (S i)) (fun i => g (S i))).
    + split; [simpl in Lx; lia|]. intros i Hi. apply (Hx (S i)). lia.
    + split; [simpl in Ly; lia|]. intros i Hi. apply (Hy (S i)). lia.
    + rewrite !plus_IZR. lra.
Qed.

Lemma inside_dot d xs ys f g : vec d xs f -> vec d ys g -> inside (idot xs ys) (rsum d (fun i => f i * g i)).
Proof.
  intros Hx Hy. apply inside_rounded. pose proof (idot_onto_sum d xs ys f g 0 0 0 Hx Hy ltac:(lra)) as H.
  cbv zeta in H. lra.
Qed.

(** * Weights *)

Definition iweight (t : tensor) (i j : nat) : interval := ifloat (kind t) (entry (content t) i j).

Lemma inside_weight t i j : inside (iweight t i j) (entry_of t i j).
Proof. apply inside_float. Qed.

(** Row i, columns 0 ... d - 1; and columns 0 ... k - 1, each with the rows from [first] on. *)
Definition irow (t : tensor) (i d : nat) : list interval := tab d (iweight t i).
Definition icolumns (t : tensor) (first d k : nat) : list (list interval) :=
  tab k (fun j => tab d (fun i => iweight t (first + i) j)).

Lemma vec_row t i d : vec d (irow t i d) (entry_of t i).
Proof. apply vec_tab. intros. apply inside_weight. Qed.

(** The vector x W + b; columns and b are enclosed. *)
Definition iaffine (columns : list (list interval)) (b xs : list interval) : list interval :=
  map2 (fun column c => iadd (idot xs column) c) columns b.

Lemma vec_affine d k t first b xs x bias : vec d xs x -> vec k b bias ->
  vec k (iaffine (icolumns t first d k) b xs) (fun j => rsum d (fun i => x i * entry_of t (first + i) j) + bias j).
Proof.
  intros Hx [Lb Hb]. unfold iaffine, icolumns. split; [apply length_map2; [apply tab_length|trivial]|]. intros j Hj.
  rewrite (nth_map2 _ k _ _ j [] zero zero) by (trivial; apply tab_length). rewrite nth_tab by trivial.
  apply inside_add; [|auto]. apply inside_dot; trivial. apply vec_tab. intros. apply inside_weight.
Qed.

(** * Norms *)

Definition ieps (m : norm) : interval := ifloat F64 (epsilon m).

(** The mean square is not negative, so that with epsilon it is at least epsilon, which must be positive. *)
Definition imean_square (d : nat) (m : norm) (xs : list interval) : interval :=
  let y := iadd (iratio 1 (Z.of_nat d) (idot xs xs)) (ieps m) in
  (Z.max (fst y) (fst (ieps m)), snd y).
Definition inormed (d : nat) (which : option norm) : list interval -> list interval :=
  match which with
  | None => fun xs => xs
  | Some m =>
      let gains := irow (gain m) 0 d in
      let offsets := irow (offset m) 0 d in
      fun xs => let root := iroot (imean_square d m xs) in map2 iadd (map2 imul (map (imul root) xs) gains) offsets
  end.
Definition norm_ok (which : option norm) : bool :=
  match which with None => true | Some m => (0 <? fst (ieps m))%Z end.

Lemma INR_IZR n : INR n = IZR (Z.of_nat n).
Proof. apply INR_IZR_INZ. Qed.

Lemma inside_mean_square d m xs x : (0 < d)%nat -> vec d xs x ->
  inside (imean_square d m xs) (rsum d (fun k => x k * x k) / INR d + float F64 (epsilon m)).
Proof.
  intros Hd Hx. pose proof (inside_dot d xs xs x x Hx Hx) as D. pose proof (inside_float F64 (epsilon m)) as HE.
  fold (ieps m) in HE.
  apply (inside_ratio 1 (Z.of_nat d)) in D; [|lia|lia]. rewrite Rmult_1_r, <- INR_IZR in D.
  pose proof (inside_add _ _ _ _ D HE) as [L H]. unfold inside, imean_square; cbn [fst snd]. split; [|trivial].
  assert (0 <= rsum d (fun k => x k * x k) / INR d).
  { unfold Rdiv. apply Rmult_le_pos; [apply rsum_nonneg; intros; nra|]. left. apply Rinv_0_lt_compat. apply lt_0_INR. lia. }
  destruct (Z.max_spec (fst (iadd (iratio 1 (Z.of_nat d) (idot xs xs)) (ieps m))) (fst (ieps m))) as [[_ ->]|[_ ->]].
  - destruct HE. pose proof F_pos. nra.
  - trivial.
Qed.

Lemma vec_normed n which xs x : (0 < width n)%nat -> norm_ok which = true -> vec (width n) xs x ->
  vec (width n) (inormed (width n) which xs) (normed n which x).
Proof.
  intros Hd Hok Hx. unfold inormed, normed. destruct which as [m|]; [|trivial]. apply Z.ltb_lt in Hok.
  apply vec_map2; [apply inside_add| |apply vec_row]. apply vec_map2; [apply inside_mul| |apply vec_row].
  unfold Rdiv at 1. apply vec_ext with (fun i => / sqrt (rsum (width n) (fun k => x k * x k) / INR (width n)
    + float F64 (epsilon m)) * x i); [intros; ring|].
  refine (vec_map (width n) _ (fun z => _ * z) xs x _ Hx). intros a z Ha. apply inside_mul; [|trivial].
  apply inside_root; [|apply inside_mean_square; trivial]. unfold imean_square; cbn [fst]. lia.
Qed.
