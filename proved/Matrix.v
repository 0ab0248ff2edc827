(** Sums, lists and matrices of integers.

    Two views of the same thing live here. A reader thinks of a matrix as a function [f i j] and of a product as
    [sum m (fun k => f i k * g k j)]; a program has lists of lists. [is M r c f] says that the program's [M] has [r]
    rows and [c] columns and holds the entries of [f]; there is one lemma for each operation.

    Weights are floating-point numbers of very different sizes. A [scaled] matrix is a list of rows of short integers
    with one exponent: its entries are the integers times [2^up]. So every number of the proof is an integer, and the
    program multiplies only what is short. *)

Require Export ZArith List Lia Bool Morphisms.
Export ListNotations.
Open Scope Z_scope.

(** * Sums *)

(** [sum n f] is f 0 + f 1 + ... + f (n - 1). *)
Fixpoint sum (n : nat) (f : nat -> Z) : Z :=
  match n with
  | O => 0
  | S m => sum m f + f m
  end.

Lemma sum_ext n f g : (forall i, (i < n)%nat -> f i = g i) -> sum n f = sum n g.
Proof.
  induction n as [|n IH]; intros same; simpl; trivial.
  rewrite (same n) by lia. f_equal. apply IH. intros. apply same. lia.
Qed.

Lemma sum_add n f g : sum n (fun i => f i + g i) = sum n f + sum n g.
Proof. induction n; simpl; lia. Qed.

Lemma sum_sub n f g : sum n (fun i => f i - g i) = sum n f - sum n g.
Proof. induction n; simpl; lia. Qed.

Lemma sum_scale n k f : sum n (fun i => k * f i) = k * sum n f.
Proof. induction n; simpl; [ring|rewrite IHn; ring]. Qed.

Lemma sum_scale_r n k f : sum n (fun i => f i * k) = sum n f * k.
Proof. induction n; simpl; [ring|rewrite IHn; ring]. Qed.

Lemma sum_zero n : sum n (fun _ => 0) = 0.
Proof. induction n; simpl; lia. Qed.

Lemma sum_swap n m (f : nat -> nat -> Z) :
  sum n (fun i => sum m (fun j => f i j)) = sum m (fun j => sum n (fun i => f i j)).
Proof.
  induction n as [|n IH]; simpl; [symmetry; apply sum_zero|]. rewrite IH. symmetry.
  exact (sum_add m (fun j => sum n (fun i => f i j)) (f n)).
Qed.

Lemma sum_le n f g : (forall i, (i < n)%nat -> f i <= g i) -> sum n f <= sum n g.
Proof.
  induction n as [|n IH]; intros below; simpl; [lia|].
  apply Z.add_le_mono; [apply IH; intros; apply below|apply below]; lia.
Qed.

Lemma sum_first n f : sum (S n) f = f 0%nat + sum n (fun i => f (S i)).
Proof. induction n as [|n IH]; [simpl; lia|]. change (sum (S n) f + f (S n) = f 0%nat + sum (S n) (fun i => f (S i))).
  rewrite IH. simpl. lia. Qed.

(** * Powers of two *)

Definition pow2 (k : N) : Z := 2 ^ Z.of_N k.

Lemma pow2_add k l : pow2 (k + l) = pow2 k * pow2 l.
Proof. unfold pow2. rewrite N2Z.inj_add. apply Z.pow_add_r; lia. Qed.

Lemma pow2_pos k : 0 < pow2 k.
Proof. apply Z.pow_pos_nonneg; lia. Qed.

Lemma pow2_split k l : (l <= k)%N -> pow2 k = pow2 (k - l) * pow2 l.
Proof. intros. rewrite <- pow2_add. f_equal. lia. Qed.

(** * Lists *)

Fixpoint map2 {A B C} (f : A -> B -> C) (xs : list A) (ys : list B) : list C :=
  match xs, ys with
  | x :: xs, y :: ys => f x y :: map2 f xs ys
  | _, _ => []
  end.

Lemma length_map2 {A B C} (f : A -> B -> C) n xs ys : length xs = n -> length ys = n -> length (map2 f xs ys) = n.
Proof. revert n ys. induction xs; destruct ys; simpl; intros; try lia. destruct n; [lia|]. f_equal. apply IHxs; lia. Qed.

Lemma nth_map2 {A B C} (f : A -> B -> C) n xs ys i dx dy dz :
  length xs = n -> length ys = n -> (i < n)%nat -> nth i (map2 f xs ys) dz = f (nth i xs dx) (nth i ys dy).
Proof.
  revert n ys i. induction xs as [|x xs IH]; intros n ys i Hx Hy Hi; destruct ys; simpl in *; try lia.
  destruct i; trivial. destruct n; [lia|]. apply (IH n); lia.
Qed.

Lemma nth_map {A B} (f : A -> B) xs i dx dy : (i < length xs)%nat -> nth i (map f xs) dy = f (nth i xs dx).
Proof. intros. rewrite (nth_indep _ dy (f dx)) by (rewrite map_length; lia). apply map_nth. Qed.

(** The sum of products, with an accumulator: a machine runs it as a loop. *)
Fixpoint dot_onto (total : Z) (xs ys : list Z) : Z :=
  match xs, ys with
  | x :: xs, y :: ys => dot_onto (total + x * y) xs ys
  | _, _ => total
  end.
Definition dot := dot_onto 0.

Lemma dot_onto_sum n xs ys total : length xs = n -> length ys = n ->
  dot_onto total xs ys = total + sum n (fun i => nth i xs 0 * nth i ys 0).
Proof.
  revert n ys total. induction xs as [|x xs IH]; intros n [|y ys] total Hx Hy; simpl in *; subst; try discriminate.
  - simpl. lia.
  - rewrite (IH (length xs)) by lia. rewrite sum_first. simpl. lia.
Qed.

Lemma dot_sum n xs ys : length xs = n -> length ys = n -> dot xs ys = sum n (fun i => nth i xs 0 * nth i ys 0).
Proof. intros. unfold dot. rewrite (dot_onto_sum n); trivial. Qed.

(** * Matrices as lists of rows *)

Definition rows_of := list (list Z).
Definition entry (m : rows_of) (i j : nat) : Z := nth j (nth i m []) 0.

Definition shape (r c : nat) (m : rows_of) : Prop := length m = r /\ Forall (fun row => length row = c) m.
Definition shapeb (r c : nat) (m : rows_of) : bool :=
  Nat.eqb (length m) r && forallb (fun row => Nat.eqb (length row) c) m.

Lemma shapeb_shape r c m : shapeb r c m = true -> shape r c m.
Proof.
  unfold shapeb. rewrite andb_true_iff, Nat.eqb_eq, forallb_forall. intros [H all]. split; trivial.
  apply Forall_forall. intros row Hin. apply Nat.eqb_eq, all, Hin.
Qed.

Lemma shape_row r c m i : shape r c m -> (i < r)%nat -> length (nth i m []) = c.
Proof. intros [Hl all] Hi. rewrite Forall_forall in all. apply all, nth_In. lia. Qed.

Lemma shape_intro r c m : length m = r -> (forall i, (i < r)%nat -> length (nth i m []) = c) -> shape r c m.
Proof.
  intros Hl all. split; trivial. apply Forall_forall. intros row Hin.
  destruct (In_nth _ _ [] Hin) as (i & Hi & <-). apply all. lia.
Qed.

Lemma shape_map r c c' m (f : list Z -> list Z) :
  shape r c m -> (forall row, length row = c -> length (f row) = c') -> shape r c' (map f m).
Proof.
  intros [Hl all] keeps. split; [rewrite map_length; trivial|].
  rewrite Forall_forall in *. intros row. rewrite in_map_iff. intros (x & <- & Hx). auto.
Qed.

Lemma entry_map r c m f i j :
  shape r c m -> (i < r)%nat -> entry (map f m) i j = nth j (f (nth i m [])) 0.
Proof. intros [Hl _] Hi. unfold entry. rewrite (nth_map f m i []) by lia. trivial. Qed.

(** The first r rows and c columns. *)
Definition cut {A} (r c : nat) (m : list (list A)) : list (list A) := map (firstn c) (firstn r m).

Lemma nth_firstn {A} (xs : list A) n i d : (i < n)%nat -> nth i (firstn n xs) d = nth i xs d.
Proof. revert n i. induction xs; destruct n, i; simpl; intros; trivial; try lia. apply IHxs. lia. Qed.

Lemma entry_cut r c m i j : shape r c (cut r c m) -> (i < r)%nat -> (j < c)%nat -> entry (cut r c m) i j = entry m i j.
Proof.
  intros [Hl _] Hi Hj. unfold cut in *. rewrite map_length in Hl. unfold entry.
  rewrite (nth_map _ _ i []) by lia. rewrite !nth_firstn; trivial.
Qed.

Lemma nth_skipn {A} (xs : list A) n i d : nth i (skipn n xs) d = nth (n + i) xs d.
Proof. revert n. induction xs; destruct n; simpl; trivial. destruct i; trivial. Qed.

(** [count] rows from [start] on. *)
Definition slice (start count : nat) (m : rows_of) : rows_of := firstn count (skipn start m).

Lemma slice_entry start count m i j : (i < count)%nat -> entry (slice start count m) i j = entry m (start + i) j.
Proof. intros. unfold slice, entry. rewrite nth_firstn, nth_skipn; trivial. Qed.

Lemma slice_shape r c start count m : shape r c m -> (start + count <= r)%nat -> shape count c (slice start count m).
Proof.
  intros Hm Hle. assert (length (slice start count m) = count) as Hl.
  { unfold slice. rewrite firstn_length, skipn_length. destruct Hm. lia. }
  apply shape_intro; trivial. intros i Hi. unfold slice. rewrite nth_firstn, nth_skipn by trivial.
  apply (shape_row r c); trivial. lia.
Qed.

(** Columns as rows; [c] is the number of columns. *)
Fixpoint transpose (c : nat) (m : rows_of) : rows_of :=
  match m with
  | [] => repeat [] c
  | row :: m => map2 cons row (transpose c m)
  end.

Lemma transpose_length r c m : shape r c m -> length (transpose c m) = c.
Proof.
  revert r. induction m as [|row m IH]; simpl; intros r [Hl all]; [apply repeat_length|].
  inversion all; subst. apply length_map2; trivial. apply (IH (length m)). split; trivial.
Qed.

Lemma transpose_row r c m j : shape r c m -> (j < c)%nat -> length (nth j (transpose c m) []) = r.
Proof.
  revert r. induction m as [|row m IH]; simpl; intros r [Hl all] Hj.
  - rewrite nth_repeat. trivial.
  - inversion all as [|? ? Hrow Hall]; subst.
    assert (Hm : shape (length m) (length row) m) by (split; trivial).
    rewrite (nth_map2 _ (length row) _ _ j 0 []); trivial.
    + simpl. f_equal. apply IH; trivial.
    + apply (transpose_length (length m)); trivial.
Qed.

Lemma transpose_shape r c m : shape r c m -> shape c r (transpose c m).
Proof.
  intros. apply shape_intro; [apply (transpose_length r); trivial|]. intros. apply (transpose_row r c); trivial.
Qed.

Lemma transpose_entry r c m i j :
  shape r c m -> (i < r)%nat -> (j < c)%nat -> entry (transpose c m) j i = entry m i j.
Proof.
  revert r i. induction m as [|row m IH]; simpl; intros r i [Hl all] Hi Hj; [simpl in Hl; lia|].
  inversion all as [|? ? Hrow Hall]; subst. unfold entry at 1.
  assert (Hm : shape (length m) (length row) m) by (split; trivial).
  rewrite (nth_map2 _ (length row) _ _ j 0 []); trivial.
  - destruct i; simpl; trivial. apply (IH (length m)); trivial. simpl in Hi. lia.
  - apply (transpose_length (length m)); trivial.
Qed.

(** * Scaled matrices: integers times a power of two *)

Record scaled := { rows : rows_of; up : N }.

Definition is (m : scaled) (r c : nat) (f : nat -> nat -> Z) : Prop :=
  shape r c (rows m) /\ forall i j, (i < r)%nat -> (j < c)%nat -> entry (rows m) i j * pow2 (up m) = f i j.

Lemma is_ext m r c f g : is m r c f -> (forall i j, (i < r)%nat -> (j < c)%nat -> f i j = g i j) -> is m r c g.
Proof. intros [H same] ext. split; trivial. intros. rewrite same; auto. Qed.

(** The same numbers with the smaller exponent k. *)
Definition lower (k : N) (m : scaled) : scaled :=
  let factor := pow2 (up m - k) in {| rows := map (map (Z.mul factor)) (rows m); up := k |}.

Lemma is_lower k m r c f : is m r c f -> (k <= up m)%N -> is (lower k m) r c f.
Proof.
  intros [H same] Hk. split; simpl.
  - apply (shape_map r c); trivial. intros. rewrite map_length. trivial.
  - intros. rewrite <- same by trivial. rewrite (entry_map r c) by trivial.
    rewrite (nth_map _ _ j 0) by (rewrite (shape_row r c); trivial).
    rewrite (pow2_split (up m) k) by trivial. unfold entry. ring.
Qed.

(** Times a power of two: only the exponent changes. *)
Definition raise (k : N) (m : scaled) : scaled := {| rows := rows m; up := up m + k |}.

Lemma is_raise k m r c f : is m r c f -> is (raise k m) r c (fun i j => f i j * pow2 k).
Proof. intros [H same]. split; trivial. intros. simpl. rewrite <- same by trivial. rewrite pow2_add. ring. Qed.

(** Times a number m * 2^e. *)
Definition scale_by (x : Z * N) (m : scaled) : scaled :=
  {| rows := map (map (Z.mul (fst x))) (rows m); up := up m + snd x |}.

Lemma is_scale_by x m r c f : is m r c f -> is (scale_by x m) r c (fun i j => fst x * pow2 (snd x) * f i j).
Proof.
  intros [H same]. split; simpl.
  - apply (shape_map r c); trivial. intros. rewrite map_length. trivial.
  - intros. rewrite <- same by trivial. rewrite (entry_map r c) by trivial.
    rewrite (nth_map _ _ j 0) by (rewrite (shape_row r c); trivial). rewrite pow2_add. unfold entry. ring.
Qed.

Definition plus (x y : scaled) : scaled :=
  let k := N.min (up x) (up y) in
  {| rows := map2 (map2 Z.add) (rows (lower k x)) (rows (lower k y)); up := k |}.

Lemma is_plus x y r c f g : is x r c f -> is y r c g -> is (plus x y) r c (fun i j => f i j + g i j).
Proof.
  intros Hx Hy. set (k := N.min (up x) (up y)).
  apply (is_lower k) in Hx; [|lia]. apply (is_lower k) in Hy; [|lia]. unfold plus. fold k.
  destruct Hx as [Sx same_x], Hy as [Sy same_y]. split; cbn [rows up].
  - apply shape_intro; [apply length_map2; [apply Sx|apply Sy]|]. intros i Hi.
    rewrite (nth_map2 _ r _ _ i [] []); [|apply Sx|apply Sy|trivial].
    apply length_map2; apply (shape_row r c); trivial.
  - intros i j Hi Hj. rewrite <- same_x, <- same_y by trivial. unfold entry at 1.
    rewrite (nth_map2 _ r _ _ i [] []); [|apply Sx|apply Sy|trivial].
    rewrite (nth_map2 _ c _ _ j 0 0); [|apply (shape_row r c); trivial|apply (shape_row r c); trivial|trivial].
    cbn [up lower]. unfold entry. ring.
Qed.

(** A matrix plus the same row everywhere. *)
Definition plus_row (x y : scaled) : scaled :=
  plus x {| rows := repeat (nth 0 (rows y) []) (length (rows x)); up := up y |}.

Lemma is_plus_row x y r c f g : is x r c f -> is y 1 c g -> is (plus_row x y) r c (fun i j => f i j + g 0%nat j).
Proof.
  intros Hx [Sy same]. apply (is_plus _ _ r c f (fun _ j => g 0%nat j)); trivial. destruct Hx as [[Hl _] _]. rewrite Hl.
  split; cbn [rows up].
  - apply shape_intro; [apply repeat_length|]. intros. rewrite (nth_indep _ _ (nth 0 (rows y) [])), nth_repeat
      by (rewrite repeat_length; trivial). apply (shape_row 1 c); [trivial|lia].
  - intros i j Hi Hj. rewrite <- same by (trivial; lia). unfold entry. f_equal. f_equal.
    rewrite (nth_indep _ _ (nth 0 (rows y) [])), nth_repeat by (rewrite repeat_length; trivial). trivial.
Qed.

(** The matrix product; c is the number of columns of y. *)
Definition times (c : nat) (x y : scaled) : scaled :=
  let columns := transpose c (rows y) in
  {| rows := map (fun row => map (dot row) columns) (rows x); up := up x + up y |}.

Lemma is_times x y r m c f g :
  is x r m f -> is y m c g -> is (times c x y) r c (fun i j => sum m (fun k => f i k * g k j)).
Proof.
  intros [Sx same_x] [Sy same_y]. pose proof (transpose_shape _ _ _ Sy) as St. split; cbn [rows up times].
  - apply (shape_map r m); trivial. intros. rewrite map_length. apply St.
  - intros i j Hi Hj. rewrite (entry_map r m) by trivial.
    rewrite (nth_map _ _ j []) by (destruct St; lia).
    rewrite (dot_sum m) by (eapply shape_row; eauto). rewrite pow2_add, <- sum_scale_r. apply sum_ext. intros k Hk.
    rewrite <- same_x, <- same_y by trivial. rewrite <- (transpose_entry m c (rows y) k j) by trivial. unfold entry. ring.
Qed.

Definition some_rows (start count : nat) (m : scaled) : scaled :=
  {| rows := slice start count (rows m); up := up m |}.

Lemma is_some_rows start count m r c f : is m r c f -> (start + count <= r)%nat ->
  is (some_rows start count m) count c (fun i j => f (start + i)%nat j).
Proof.
  intros [Sm same] Hle. split; cbn [rows up some_rows].
  - apply (slice_shape r); trivial.
  - intros i j Hi Hj. rewrite slice_entry by trivial. apply same; trivial. lia.
Qed.

Definition zeros (r c : nat) (k : N) : scaled := {| rows := repeat (repeat 0 c) r; up := k |}.

Lemma is_zeros r c k : is (zeros r c k) r c (fun _ _ => 0).
Proof.
  split; cbn [rows up zeros].
  - apply shape_intro; [apply repeat_length|]. intros. rewrite (nth_indep _ _ (repeat 0 c)), nth_repeat
      by (rewrite repeat_length; trivial). apply repeat_length.
  - intros i j Hi Hj. unfold entry. rewrite (nth_indep _ _ (repeat 0 c)), nth_repeat by (rewrite repeat_length; trivial).
    rewrite nth_repeat. trivial.
Qed.
