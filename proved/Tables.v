(** What attention sees, as tables: before attention a position is a function of its place and token alone.

    Queries, keys and what values write are enclosed for every position and token. What head h writes is a combination
    of the certificate's basis with integer coordinates, and a rest that is enclosed, whatever the basis is. *)

Require Export Proved.Vectors Proved.Paths.
Open Scope R_scope.

(** * Grids: an entry for each position j and token v *)

Definition grid_of {A} (m k : nat) (g : nat -> nat -> A) : list (list A) := tab m (fun j => tab k (g j)).
Definition at_ {A} (T : list (list A)) (j v : nat) (default : A) : A := nth v (nth j T []) default.

Lemma at_grid {A} m k (g : nat -> nat -> A) j v x : (j < m)%nat -> (v < k)%nat -> at_ (grid_of m k g) j v x = g j v.
Proof. intros. unfold at_, grid_of. rewrite !nth_tab; trivial. Qed.

(** The product of a vector with columns. *)
Definition iproduct (columns : list (list interval)) (xs : list interval) : list interval := map (idot xs) columns.

Lemma vec_product d k t first xs x : vec d xs x ->
  vec k (iproduct (icolumns t first d k) xs) (fun j => rsum d (fun i => x i * entry_of t (first + i) j)).
Proof.
  intros Hx. unfold iproduct, icolumns. split; [rewrite map_length; apply tab_length|]. intros j Hj.
  rewrite (nth_map _ _ j [] zero) by (rewrite tab_length; trivial). rewrite nth_tab by trivial.
  apply inside_dot; trivial. apply vec_tab. intros. apply inside_weight.
Qed.

(** An integer over 2^b, as an interval. *)
Definition ipoint (b z : Z) : interval := iratio 1 (2 ^ b) (z * fineness, z * fineness)%Z.

Lemma inside_point b z : (0 <= b)%Z -> inside (ipoint b z) (IZR z / IZR (2 ^ b)).
Proof.
  intros. unfold ipoint. replace (IZR z / IZR (2 ^ b)) with (IZR z * IZR 1 / IZR (2 ^ b)) by (rewrite Rmult_1_r; trivial).
  apply inside_ratio; [lia|apply Z.pow_pos_nonneg; lia|]. unfold inside; cbn [fst snd]. rewrite mult_IZR. fold F. lra.
Qed.

(** The smallest vector of intervals with all of some in it. *)
Definition hull (all : list (list interval)) : list interval :=
  match all with [] => [] | x :: all => fold_left (map2 ijoin) all x end.

Definition holds_vec (d : nat) (big small : list interval) : Prop :=
  length big = d /\ forall i, (i < d)%nat ->
    (fst (nth i big zero) <= fst (nth i small zero) /\ snd (nth i small zero) <= snd (nth i big zero))%Z.

Lemma ijoin_wide a b : (fst (ijoin a b) <= fst a /\ fst (ijoin a b) <= fst b
  /\ snd a <= snd (ijoin a b) /\ snd b <= snd (ijoin a b))%Z.
Proof. unfold ijoin; cbn [fst snd]. lia. Qed.

Lemma hull_holds d all x : (forall y, In y all -> length y = d) -> In x all -> holds_vec d (hull all) x.
Proof.
  destruct all as [|y all]; intros lengths Hin; [destruct Hin|]. simpl.
  assert (general : forall all acc, length acc = d -> (forall y, In y all -> length y = d) ->
    holds_vec d (fold_left (map2 ijoin) all acc) acc /\ forall x, In x all -> holds_vec d (fold_left (map2 ijoin) all acc) x).
  { clear. induction all as [|y all IH]; intros acc Hl lengths; simpl.
    - split; [|intros x []]. split; trivial. intros. lia.
    - assert (Ly : length y = d) by (apply lengths; left; trivial).
      destruct (IH (map2 ijoin acc y)) as [[L H] Hall]; [apply length_map2; trivial|intros; apply lengths; right; trivial|].
      split; [|intros x [<-|Hx]; [|apply Hall; trivial]]; split; trivial; intros i Hi; specialize (H i Hi);
        rewrite (nth_map2 ijoin d acc y i zero zero zero) in H by trivial;
        pose proof (ijoin_wide (nth i acc zero) (nth i y zero)); lia. }
  destruct (general all y) as [G1 G2]; [apply lengths; left; trivial|intros; apply lengths; right; trivial|].
  destruct Hin as [->|Hin]; auto.
Qed.

(** * Bits of coordinates and of weights *)

Definition coordinate_bits : Z := 42.
Definition weight_bits : Z := 64.
Definition one_coordinate : R := IZR (2 ^ coordinate_bits).
Definition one_weight : R := IZR (2 ^ weight_bits).

Lemma one_coordinate_pos : 0 < one_coordinate.
Proof. apply (power_pos coordinate_bits). unfold coordinate_bits. lia. Qed.
Lemma one_weight_pos : 0 < one_weight.
Proof. apply (power_pos weight_bits). unfold weight_bits. lia. Qed.

(** A basis: for each coordinate the head whose values it describes, and a direction in the stream. *)
Record direction := { owner : nat; along : list interval }.

Definition basis_of (d : nat) (bits : Z) (rows : list (nat * list Z)) : list direction :=
  map (fun r => {| owner := fst r; along := tab d (fun i => ipoint bits (nth i (snd r) 0%Z)) |}) rows.

Section Tables.
  Variables (n : words_network) (m : nat) (fed : list source) (basis : list direction).
  Let d := width n.
  Let V_ := vocabulary n.
  Let count := length basis.

  Definition read_table : list (list (list interval)) :=
    let norm_ := inormed d (before_attention n) in
    let embedded := tab V_ (fun v => irow (E n) v d) in
    let places := tab m (fun j => irow (pos n) j d) in
    grid_of m V_ (fun j v => norm_ (map2 iadd (nth v embedded []) (nth j places []))).

  Definition projected (reads : list (list (list interval))) (W b : tensor) (h k : nat) : list (list (list interval)) :=
    let columns := icolumns W (h * d) d k in
    let bias := irow b h k in
    grid_of m V_ (fun j v => iaffine columns bias (at_ reads j v [])).

  Definition written_table (reads : list (list (list interval))) (h : nat) : list (list (list interval)) :=
    let values := projected reads (V n) (b_V_ n) h (value_width n) in
    let columns := icolumns (O_ n) (h * value_width n) (value_width n) d in
    grid_of m V_ (fun j v => iproduct columns (at_ values j v [])).

  (** The coordinate of what a head writes: an integer over 2^coordinate_bits. *)
  Definition coordinate_table (written : list (list (list (list interval)))) (q : direction) : list (list Z) :=
    let w := nth (owner q) written [] in
    grid_of m V_ (fun j v => floor2 (depth - coordinate_bits) (fst (idot (at_ w j v []) (along q)))).

  Definition nowhere : direction := {| owner := O; along := [] |}.

  (** What coordinates leave out of what head h writes. *)
  Definition left_out (coordinates : list (list (list Z))) (w : list (list (list interval))) (h j v : nat) : list interval :=
    let us := tab count (fun q => if Nat.eqb (owner (nth q basis nowhere)) h
                                  then ipoint coordinate_bits (at_ (nth q coordinates []) j v 0%Z) else zero) in
    tab d (fun i => iadd (nth i (at_ w j v []) zero)
                         (iopp (idot us (tab count (fun q => nth i (along (nth q basis nowhere)) zero))))).

  Definition left_out_hull (coordinates : list (list (list Z))) (w : list (list (list interval))) (h : nat) : list interval :=
    hull (flat_map (fun j => map (left_out coordinates w h j) (feeds (nth j fed (Constant 0)))) (seq 0 m)).

  Record tables := {
    of_queries : list (list (list (list interval)));
    of_keys : list (list (list (list interval)));
    of_coordinates : list (list (list Z));
    of_rest : list interval }.

  Definition make_tables : tables :=
    let reads := read_table in
    let written := tab (heads n) (written_table reads) in
    let coordinates := map (coordinate_table written) basis in
    {| of_queries := tab (heads n) (fun h => projected reads (Q n) (b_Q n) h (key_width n));
       of_keys := tab (heads n) (fun h => projected reads (K n) (b_K n) h (key_width n));
       of_coordinates := coordinates;
       of_rest := fold_right (fun h => map2 iadd (left_out_hull coordinates (nth h written []) h))
                             (tab d (fun _ => zero)) (seq 0 (heads n)) |}.

  Hypothesis Hd : (0 < d)%nat.
  Hypothesis Hnorm : norm_ok (before_attention n) = true.

  Lemma read_ok j v : (j < m)%nat -> (v < V_)%nat -> vec d (at_ read_table j v []) (read n j v).
  Proof.
    intros Hj Hv. unfold read_table. rewrite at_grid by trivial. rewrite !nth_tab by trivial. apply vec_normed; trivial.
    refine (vec_map2 d iadd Rplus _ _ _ _ inside_add _ _); apply vec_row.
  Qed.

  Lemma projected_ok W b h k j v : (j < m)%nat -> (v < V_)%nat ->
    vec k (at_ (projected read_table W b h k) j v [])
      (fun c => rsum d (fun i => read n j v i * entry_of W (h * d + i) c) + entry_of b h c).
  Proof.
    intros Hj Hv. unfold projected. rewrite at_grid by trivial. apply vec_affine; [apply read_ok; trivial|apply vec_row].
  Qed.

  Lemma written_ok h j v : (j < m)%nat -> (v < V_)%nat ->
    vec d (at_ (written_table read_table h) j v []) (written n h j v).
  Proof.
    intros Hj Hv. unfold written_table. rewrite at_grid by trivial. apply vec_product.
    apply (projected_ok (V n) (b_V_ n) h); trivial.
  Qed.

  Let T := make_tables.

  Lemma queries_ok h j v : (h < heads n)%nat -> (j < m)%nat -> (v < V_)%nat ->
    vec (key_width n) (at_ (nth h (of_queries T) []) j v []) (query n h j v).
  Proof.
    intros. unfold T, make_tables; cbn [of_queries]. rewrite nth_tab by trivial. apply projected_ok; trivial.
  Qed.

  Lemma keys_ok h j v : (h < heads n)%nat -> (j < m)%nat -> (v < V_)%nat ->
    vec (key_width n) (at_ (nth h (of_keys T) []) j v []) (key n h j v).
  Proof.
    intros. unfold T, make_tables; cbn [of_keys]. rewrite nth_tab by trivial. apply projected_ok; trivial.
  Qed.

  (** * What a head writes is what its coordinates say, and a rest *)

  Variable bases : nat -> nat -> R.
  Hypothesis Hbases : forall q, (q < count)%nat -> vec d (along (nth q basis nowhere)) (bases q).

  (** Coordinate number q, and the same as a number of head h. *)
  Definition coordinate (q j v : nat) : Z := at_ (nth q (of_coordinates T) []) j v 0%Z.
  Definition part (h q j v : nat) : R :=
    if Nat.eqb (owner (nth q basis nowhere)) h then IZR (coordinate q j v) / one_coordinate else 0.
  Definition rest (h j v i : nat) : R := written n h j v i - rsum count (fun q => part h q j v * bases q i).

  Lemma rest_inside h j v : (h < heads n)%nat -> (j < m)%nat -> (v < V_)%nat ->
    vec d (left_out (of_coordinates T) (nth h (tab (heads n) (written_table read_table)) []) h j v) (rest h j v).
  Proof.
    intros Hh Hj Hv. rewrite nth_tab by trivial. unfold left_out. apply vec_tab. intros i Hi. unfold rest, Rminus.
    apply inside_add; [apply written_ok; trivial|]. apply inside_opp. apply inside_dot.
    - apply vec_tab. intros q Hq. unfold part. destruct (Nat.eqb _ h); [|apply inside_zero].
      apply inside_point. unfold coordinate_bits; lia.
    - apply vec_tab. intros q Hq. apply Hbases; trivial.
  Qed.

  Lemma left_out_length cs w h j v : length (left_out cs w h j v) = d.
  Proof. unfold left_out. apply tab_length. Qed.

  (** The average of numbers in an interval is in it. *)
  Lemma inside_average I k (w x : nat -> R) : (forall j, (j < k)%nat -> 0 < w j) -> (0 < k)%nat ->
    (forall j, (j < k)%nat -> inside I (x j)) -> inside I (rsum k (fun j => w j * x j) / rsum k w).
  Proof.
    intros pos Hk all. pose proof (rsum_pos k w pos Hk) as W. pose proof F_pos as HF. unfold inside in *.
    assert (E : rsum k (fun j => w j * x j) / rsum k w * F * rsum k w = rsum k (fun j => w j * (x j * F))).
    { rewrite (rsum_ext k (fun j => w j * (x j * F)) (fun j => w j * x j * F)) by (intros; ring). rewrite rsum_scale_r.
      field. lra. }
    split; apply Rmult_le_reg_r with (rsum k w); trivial; rewrite E.
    - rewrite Rmult_comm, <- rsum_scale_r. apply rsum_le. intros j Hj. apply Rmult_le_compat_l; [left; auto|apply all; trivial].
    - rewrite (Rmult_comm (IZR _)), <- rsum_scale_r. apply rsum_le. intros j Hj.
      apply Rmult_le_compat_l; [left; auto|apply all; trivial].
  Qed.

  (** The rests of all heads, each averaged with weights of its own, in [of_rest]. *)
  Lemma rest_average (k : nat) (w : nat -> nat -> R) (tokens : nat -> nat) :
    (0 < k <= m)%nat -> (forall h j, (j < k)%nat -> 0 < w h j) ->
    (forall j, (j < k)%nat -> (tokens j < V_)%nat /\ In (tokens j) (feeds (nth j fed (Constant 0)))) ->
    vec d (of_rest T) (fun i => rsum (heads n) (fun h =>
      rsum k (fun j => w h j * rest h j (tokens j) i) / rsum k (w h))).
  Proof.
    intros Hk pos fits. unfold T, make_tables; cbn [of_rest].
    set (term := fun h i => rsum k (fun j => w h j * rest h j (tokens j) i) / rsum k (w h)).
    assert (general : forall many first, (first + many <= heads n)%nat ->
      vec d (fold_right (fun h => map2 iadd (left_out_hull (of_coordinates T)
               (nth h (tab (heads n) (written_table read_table)) []) h)) (tab d (fun _ => zero)) (seq first many))
            (fun i => rsum many (fun h => term (first + h)%nat i))).
    2: { exact (general (heads n) O (le_n _)). }
    induction many as [|many IH]; intros first Hf; [apply vec_tab; intros; apply inside_zero|]. cbn [seq fold_right].
    apply vec_ext with (fun i => term first i + rsum many (fun h => term (S first + h)%nat i)).
    { intros i _. rewrite rsum_first, Nat.add_0_r. f_equal. apply rsum_ext. intros. f_equal. lia. }
    refine (vec_map2 d iadd Rplus _ _ _ _ inside_add _ (IH (S first) ltac:(lia))). clear IH.
    set (w_h := nth first (tab (heads n) (written_table read_table)) []).
    assert (lengths : forall y, In y (flat_map (fun j => map (left_out (of_coordinates T) w_h first j)
        (feeds (nth j fed (Constant 0)))) (seq 0 m)) -> length y = d).
    { intros y Hy. apply in_flat_map in Hy as (j & _ & Hy). apply in_map_iff in Hy as (v & <- & _).
      apply left_out_length. }
    assert (each : forall j, (j < k)%nat ->
      holds_vec d (left_out_hull (of_coordinates T) w_h first) (left_out (of_coordinates T) w_h first j (tokens j))).
    { intros j Hj. apply hull_holds; trivial. apply in_flat_map. exists j. split; [apply in_seq; lia|].
      apply in_map. apply fits. trivial. }
    split; [apply (each O); lia|]. intros i Hi. apply inside_average; [intros; apply pos; trivial|lia|].
    intros j Hj. destruct (each j Hj) as [_ wide]. specialize (wide i Hi).
    apply inside_wider with (nth i (left_out (of_coordinates T) w_h first j (tokens j)) zero); [|lia|lia].
    apply rest_inside; [lia|lia|apply fits; trivial|trivial].
  Qed.
End Tables.
