(** A box is decided: at every point of it one right token leads all that are not right by the margin.

    The stream at a point r of the box is x = beta + sum_q r_q B_q. With y the stream behind the neurons and a final norm,
    a lead is (c . y) / sqrt Y + bias with Y the mean square of y plus epsilon; it is at least the margin where
    c . y >= (margin - bias) sqrt Y, so that no quotient is needed there. *)

Require Export Proved.Tables Proved.Tail.
Open Scope R_scope.

(** * Boxes: for each coordinate a middle and a radius, over 2^tail_bits *)

Definition box : Set := list (Z * Z).
Definition side (b : box) (q : nat) : Z * Z := nth q b (0, 0)%Z.
Definition in_box (b : box) (r : nat -> R) : Prop :=
  forall q, (q < length b)%nat -> Rabs (r q * G - IZR (fst (side b q))) <= IZR (snd (side b q)).

Lemma box_point b r : in_box b r -> exists e, forall q, (q < length b)%nat ->
  Rabs (e q) <= 1 /\ r q * G = IZR (fst (side b q)) + IZR (snd (side b q)) * e q.
Proof.
  intros H. exists (fun q => (r q * G - IZR (fst (side b q))) / IZR (snd (side b q))). intros q Hq. specialize (H q Hq).
  set (u := r q * G - IZR (fst (side b q))) in *. set (v := IZR (snd (side b q))) in *.
  destruct (Req_dec v 0) as [zero_v|ne].
  - assert (u = 0) by (rewrite zero_v in H; pose proof (Rabs_pos u); destruct (Req_dec u 0); trivial;
      pose proof (Rabs_pos_lt u); lra).
    rewrite H0, zero_v. unfold Rdiv. rewrite Rmult_0_l, Rabs_R0. split; [lra|]. unfold u in H0. lra.
  - pose proof (Rabs_pos u). assert (0 < v) by lra. split; [|unfold u; field; trivial].
    unfold Rdiv. rewrite Rabs_mult, Rabs_inv, (Rabs_pos_eq v) by lra.
    apply Rmult_le_reg_r with v; trivial. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by trivial. lra.
Qed.

Definition half_side (upper : bool) (s : Z * Z) : Z * Z :=
  let h := ((snd s + 1) / 2)%Z in
  ((if upper then fst s + (snd s - h) else fst s - (snd s - h))%Z, h).
Definition half_box (upper : bool) (q : nat) (b : box) : box := change q (half_side upper) b.

Lemma in_half b r q : in_box b r -> in_box (half_box true q b) r \/ in_box (half_box false q b) r.
Proof.
  intros H. destruct (Nat.lt_ge_cases q (length b)) as [Hq|Hq].
  - pose proof (H q Hq) as Hs. destruct (side b q) as [c v] eqn:E. cbn [fst snd] in Hs.
    set (h := ((v + 1) / 2)%Z).
    assert (Hh : (v <= 2 * h)%Z).
    { unfold h. pose proof (Z.div_mod (v + 1) 2). pose proof (Z.mod_pos_bound (v + 1) 2). lia. }
    apply IZR_le in Hh. rewrite mult_IZR in Hh.
    assert (choose : Rabs (r q * G - IZR (c + (v - h))) <= IZR h \/ Rabs (r q * G - IZR (c - (v - h))) <= IZR h).
    { rewrite plus_IZR, (minus_IZR c), minus_IZR. set (u := r q * G) in *.
      assert (- IZR v <= u - IZR c <= IZR v) by (unfold Rabs in Hs; destruct (Rcase_abs _); lra).
      destruct (Rle_dec 0 (u - IZR c)); [left|right]; apply Rabs_le; lra. }
    destruct choose as [up_|down_]; [left|right]; intros i Hi; unfold half_box in *; rewrite change_length in Hi;
      unfold side; rewrite nth_change by trivial; destruct (Nat.eqb_spec i q) as [->|ne]; try (apply H; trivial);
      fold (side b q); rewrite E; cbn [half_side fst snd]; trivial.
  - left. assert (same : half_box true q b = b).
    { unfold half_box. clear H. revert q Hq. induction b as [|s b IH]; intros q Hq; [destruct q; trivial|].
      destruct q as [|q]; simpl in *; [lia|]. f_equal. apply IH. lia. }
    rewrite same. trivial.
Qed.

(** The form of sum_q w_q r_q. *)
Fixpoint placed (cs : list coefficient) (b : box) : Z * list Z * Z :=
  match cs, b with
  | c :: cs, s :: b =>
      let '(m, a, r) := placed cs b in
      (m + fst c * fst s, fst c * snd s :: a, r + snd c * (Z.abs (fst s) + snd s))%Z
  | _, _ => (0%Z, [], 0%Z)
  end.
Definition fplace (cs : list coefficient) (b : box) : form := let '(m, a, r) := placed cs b in settle m a r.

Lemma placed_ok : forall k cs b w r e, known_list k cs w -> length b = k ->
  (forall q, (q < k)%nat -> Rabs (e q) <= 1 /\ r q * G = IZR (fst (side b q)) + IZR (snd (side b q)) * e q) ->
  in_box b r ->
  let '(m, a, u) := placed cs b in
  length a = k /\ Rabs (rsum k (fun q => w q * r q) * G * G - IZR m - linear a e) <= IZR u.
Proof.
  induction k as [|k IH]; intros [|c cs] [|s b] w r e [Lc Hc] Lb He Hb; try discriminate.
  - simpl. split; [trivial|]. replace (0 * G * G - 0 - 0) with 0 by ring. rewrite Rabs_R0. lra.
  - cbn [placed]. specialize (IH cs b (fun q => w (S q)) (fun q => r (S q)) (fun q => e (S q))).
    destruct (placed cs b) as [[m a] u].
    destruct IH as [La Ha].
    { split; [simpl in Lc; lia|]. intros i Hi. apply (Hc (S i)). lia. }
    { simpl in Lb; lia. }
    { intros q Hq. apply (He (S q)). lia. }
    { intros q Hq. apply (Hb (S q)). simpl. lia. }
    split; [simpl; lia|]. rewrite rsum_first. cbn [linear].
    destruct (He O ltac:(lia)) as [_ E]. pose proof (Hc O ltac:(lia)) as K. pose proof (Hb O ltac:(simpl; lia)) as B.
    unfold side in E, B. simpl in E, K, B. unfold known_as in K.
    rewrite !plus_IZR, !mult_IZR, plus_IZR, abs_IZR.
    set (rest_ := rsum k (fun i => w (S i) * r (S i))) in *.
    replace ((w 0%nat * r 0%nat + rest_) * G * G - (IZR m + IZR (fst c) * IZR (fst s))
             - (IZR (fst c) * IZR (snd s) * e 0%nat + linear a (fun i => e (S i))))
      with ((rest_ * G * G - IZR m - linear a (fun i => e (S i))) + (w 0%nat * G - IZR (fst c)) * (r 0%nat * G)).
    + eapply Rle_trans; [apply Rabs_triang|]. apply Rplus_le_compat; [trivial|]. rewrite Rabs_mult.
      apply Rmult_le_compat; try apply Rabs_pos; trivial.
      replace (r 0%nat * G) with (IZR (fst s) + (r 0%nat * G - IZR (fst s))) by ring.
      eapply Rle_trans; [apply Rabs_triang|]. lra.
    + transitivity (w 0%nat * G * (r 0%nat * G) + rest_ * G * G - (IZR m + IZR (fst c) * IZR (fst s))
                    - (IZR (fst c) * IZR (snd s) * e 0%nat + linear a (fun i => e (S i)))); [rewrite E; ring|ring].
Qed.

(** * The parts of a network that do not depend on the box *)

(** Points with sum_q normal_q r_q >= level; over 2^coordinate_bits and over its square. *)
Record plane := { normal : list Z; level : Z }.

Section Decide.
  Variables (n : words_network) (basis : list direction).
  Let d := width n.
  Let count := length basis.
  Variables (num den : Z).   (* the margin *)

  Record parts := {
    columns : list (list coefficient);                    (* of the basis: for each entry of the stream *)
    into_neurons : list reader;
    out_of_neurons : list (list coefficient * coefficient);  (* for each entry: over the neurons, and the bias *)
    leading : list (list reader) }.                       (* for a right token and another *)

  Definition lead_column (r c : nat) : list interval := tab d (fun i => iadd (iweight (U n) i r) (iopp (iweight (U n) i c))).
  Definition lead_bias (r c : nat) : interval := iadd (iweight (b_U_ n) 0 r) (iopp (iweight (b_U_ n) 0 c)).

  Definition make_parts (rights : list nat) : parts :=
    {| columns := tab d (fun i => tab count (fun q => of_interval (nth i (along (nth q basis nowhere)) zero)));
       into_neurons := tab (neurons n) (fun m =>
         reads_by n (before_neurons n) (tab d (fun i => iweight (W_in_ n) i m)) (iweight (b_in_ n) 0 m));
       out_of_neurons := tab d (fun i =>
         (tab (neurons n) (fun m => of_interval (iweight (W_out_ n) m i)), of_interval (iweight (b_out_ n) 0 i)));
       leading := tab (outputs n) (fun r =>
         if existsb (Nat.eqb r) rights
         then tab (outputs n) (fun c => reads_by n (before_logits n) (lead_column r c) (lead_bias r c)) else []) |}.

  Section OnBox.
    Variables (P : parts) (base : list coefficient).

    Definition stream_forms (b : box) : list form :=
      map2 (fun cs c => fadd (fplace cs b) (fconstant count c)) (columns P) base.

    (** A guess for half of 1 / sqrt y. *)
    Definition half_for (y : form) : Z := Z.sqrt (tail_unit * tail_unit * tail_unit / (4 * Z.max 1 (mid y))).

    Definition read_form (xs : list form) (scale : option form) (r : reader) : form :=
      let f := fdot count (fst r) xs in
      fadd (match scale with None => f | Some s => ftimes f s end) (fconstant count (of_interval (snd r))).

    (** None where the box is too large to divide by a norm. *)
    Definition neuron_forms (xs : list form) : option (list form) :=
      match before_neurons n with
      | None => Some (map (fun r => frelu count (read_form xs None r)) (into_neurons P))
      | Some m =>
          let y := fmean_square n count m xs in
          match finverse_root count (half_for y) y with
          | None => None
          | Some s => Some (map (fun r => frelu count (read_form xs (Some s) r)) (into_neurons P))
          end
      end.

    Definition after_forms (xs hidden : list form) : list form :=
      map2 (fun x cb => fadd (fadd x (fdot count (fst cb) hidden)) (fconstant count (snd cb))) xs (out_of_neurons P).

    (** Of the final norm: half of 1 / sqrt Y, and forms that are above and below sqrt Y. *)
    Definition root_forms (ys : list form) : option (Z * (form * form)) :=
      match before_logits n with
      | None => None
      | Some m => let y := fmean_square n count m ys in
                  let half := half_for y in
                  Some (half, (froot_above count half y, froot_below count half y))
      end.

    Definition margin_interval : interval := iratio num den (fineness, fineness).

    Definition lead_form (ys : list form) (roots : option (Z * (form * form))) (r c : nat) : form :=
      let rd := nth c (nth r (leading P) []) ([], zero) in
      let f := fdot count (fst rd) ys in
      let short := iadd margin_interval (iopp (snd rd)) in
      match roots with
      | None => fadd f (fconstant count (of_interval (iopp short)))
      | Some (_, (above, below)) =>
          let mu := ceil2 (depth - tail_bits) (snd short) in
          fadd f (fscale count (- mu, 0)%Z (if (0 <=? mu)%Z then above else below))
      end.

    Definition roots_ok (roots : option (Z * (form * form))) : bool :=
      match roots with None => true | Some (half, _) => (0 <? half)%Z end.
    (** What a plane is multiplied by, to be compared with a lead: any number that is not negative is sound. *)
    Definition plane_scale (roots : option (Z * (form * form))) : Z :=
      match roots with None => tail_unit | Some (half, _) => (tail_unit * tail_unit / (2 * half))%Z end.

    Definition plane_form (b : box) (p : plane) : form :=
      fadd (fplace (map (fun g => of_interval (ipoint coordinate_bits g)) (normal p)) b)
           (fconstant count (of_interval (iopp (ipoint (2 * coordinate_bits) (level p))))).

    Definition not_negative (f : form) : bool := (0 <=? mid f - radius f)%Z.
    Definition leads (planes : list form) (scale : Z) (f : form) : bool :=
      not_negative f
      || ((0 <=? scale)%Z && existsb (fun p => not_negative (fadd f (fscale count (- scale, 0)%Z p))) planes).

    (** The place of the largest number. *)
    Fixpoint place_of_largest (xs : list Z) (here best_place : nat) (best : Z) : nat :=
      match xs with
      | [] => best_place
      | x :: xs => if (best <? Z.abs x)%Z then place_of_largest xs (S here) here (Z.abs x)
                   else place_of_largest xs (S here) best_place best
      end.

    (** None where the box is decided; else the coordinate to cut. *)
    Definition attempt (rights : list nat) (planes : list plane) (b : box) : option nat :=
      let cut_here := place_of_largest (map snd b) 0 0 (-1) in
      let ps := map (plane_form b) planes in
      if existsb (fun p => mid p + radius p <? 0)%Z ps then None else
      let xs := stream_forms b in
      match neuron_forms xs with
      | None => Some cut_here
      | Some hidden =>
          let ys := after_forms xs hidden in
          let roots := root_forms ys in
          if negb (roots_ok roots) then Some cut_here else
          let scale := plane_scale roots in
          let others := filter (fun c => negb (existsb (Nat.eqb c) rights)) (seq 0 (outputs n)) in
          let failing r := find (fun f => negb (leads ps scale f)) (map (lead_form ys roots r) others) in
          if existsb (fun r => match failing r with None => true | Some _ => false end) rights then None else
          match rights with
          | [] => Some cut_here
          | r :: _ => match failing r with None => None | Some f => Some (place_of_largest (slopes f) 0 0 (-1)) end
          end
      end.

    Fixpoint decided (fuel : nat) (rights : list nat) (planes : list plane) (b : box) : bool :=
      match attempt rights planes b with
      | None => true
      | Some q =>
          match fuel with
          | O => false
          | S fuel => (1 <? snd (side b q))%Z && decided fuel rights planes (half_box false q b)
                      && decided fuel rights planes (half_box true q b)
          end
      end.
  End OnBox.

  (** * Soundness *)

  Variable bases : nat -> nat -> R.
  Hypothesis Hbases : forall q, (q < count)%nat -> vec d (along (nth q basis nowhere)) (bases q).
  Hypothesis Hd : (0 < d)%nat.
  Hypothesis Hnum : (0 < num)%Z.
  Hypothesis Hden : (0 < den)%Z.
  Hypothesis Hneurons : norm_ok (before_neurons n) = true.
  Hypothesis Hlogits : norm_ok (before_logits n) = true.

  Variables (rights all_rights : list nat) (base : list coefficient) (beta r x : nat -> R).
  Hypothesis Hrights : forall w, In w rights -> (w < outputs n)%nat /\ In w all_rights.
  Let P := make_parts all_rights.
  Hypothesis Hbase : known_list d base beta.
  Hypothesis Hx : forall i, (i < d)%nat -> x i = beta i + rsum count (fun q => r q * bases q i).

  Definition margin : R := IZR num / IZR den.
  Definition won : Prop := exists w, In w rights
    /\ forall c, (c < outputs n)%nat -> ~ In c rights -> margin <= unembedded n x w - unembedded n x c.

  Definition beyond (p : plane) : Prop :=
    length (normal p) = count
    /\ 0 <= rsum count (fun q => IZR (nth q (normal p) 0%Z) / IZR (2 ^ coordinate_bits) * r q)
            + - (IZR (level p) / IZR (2 ^ (2 * coordinate_bits))).

  Section AtPoint.
    Variables (b : box) (e : nat -> R).
    Hypothesis Hb : length b = count.
    Hypothesis Hin : in_box b r.
    Hypothesis He : forall q, (q < count)%nat -> Rabs (e q) <= 1
      /\ r q * G = IZR (fst (side b q)) + IZR (snd (side b q)) * e q.
    Let small : forall q, (q < count)%nat -> Rabs (e q) <= 1 := fun q Hq => proj1 (He q Hq).

    Lemma place_holds cs w : known_list count cs w -> holds count e (fplace cs b) (rsum count (fun q => w q * r q)).
    Proof.
      intros H. pose proof (placed_ok count cs b w r e H Hb He Hin) as ok. unfold fplace.
      destruct (placed cs b) as [[m a] u]. destruct ok as [L ok]. apply settle_holds; trivial.
    Qed.

    Lemma stream_holds : hold_list count e d (stream_forms P base b) x.
    Proof.
      destruct Hbase as [Lb Kb]. unfold stream_forms, P, make_parts; cbn [columns].
      split; [apply length_map2; [apply tab_length|trivial]|]. intros i Hi. rewrite Hx by trivial.
      rewrite (nth_map2 _ d _ _ i [] (0, 0)%Z nil_form) by (trivial; apply tab_length). rewrite nth_tab by trivial.
      rewrite Rplus_comm. apply holds_add; [|apply holds_constant; apply Kb; trivial].
      rewrite (rsum_ext count _ (fun q => bases q i * r q)) by (intros; ring).
      apply place_holds. split; [apply tab_length|]. intros q Hq. rewrite nth_tab by trivial.
      apply known_interval. apply Hbases; trivial.
    Qed.

    Lemma read_holds which Ws bs W bb xs z scale : vec d Ws W -> inside bs bb -> hold_list count e d xs z ->
      match which with None => scale = None | Some _ => exists s, scale = Some s /\ holds count e s (factor n which z) end ->
      holds count e (read_form xs scale (reads_by n which Ws bs)) (rsum d (fun i => normed n which z i * W i) + bb).
    Proof.
      intros HW Hbb Hz Hs. destruct (reads_by_ok n which Ws bs W bb HW Hbb) as (c & bias & Hc & Hbias & E).
      fold d in E. rewrite E. unfold read_form.
      apply holds_add; [|apply holds_constant; apply known_interval; trivial].
      pose proof (holds_dot count e small d _ _ c z Hc Hz) as D.
      destruct which as [m|].
      - destruct Hs as (s & -> & Hs). apply holds_times; trivial.
      - rewrite Hs. cbn [factor]. rewrite Rmult_1_r. trivial.
    Qed.

    Lemma neurons_hold hidden : neuron_forms P (stream_forms P base b) = Some hidden ->
      hold_list count e (neurons n) hidden (neuron n x).
    Proof.
      intros H. pose proof stream_holds as Hxs. set (xs := stream_forms P base b) in *.
      assert (each : exists scale, hidden = map (fun rd => frelu count (read_form xs scale rd)) (into_neurons P)
        /\ match before_neurons n with None => scale = None
           | Some _ => exists s, scale = Some s /\ holds count e s (factor n (before_neurons n) x) end).
      { unfold neuron_forms in H. destruct (before_neurons n) as [m|].
        - set (y := fmean_square n count m xs) in *.
          destruct (finverse_root count (half_for y) y) as [s|] eqn:Hroot; [|discriminate]. exists (Some s).
          apply some_same in H. split; [symmetry; trivial|]. exists s. split; [trivial|].
          apply (inverse_root_holds count e small (half_for y) y (square_and_epsilon n m x)); trivial.
          apply mean_square_holds; trivial.
        - exists None. apply some_same in H. split; [symmetry; trivial|trivial]. }
      destruct each as (scale & -> & Hs). unfold P, make_parts; cbn [into_neurons].
      split; [rewrite map_length; apply tab_length|]. intros m Hm.
      set (nothing_ := reads_by n (before_neurons n) [] zero).
      rewrite (nth_map _ _ m nothing_) by (rewrite tab_length; trivial). rewrite nth_tab by trivial.
      unfold neuron. apply holds_relu; trivial. apply read_holds; trivial; [|apply inside_weight].
      apply vec_tab. intros. apply inside_weight.
    Qed.

    Lemma after_holds hidden : hold_list count e (neurons n) hidden (neuron n x) ->
      hold_list count e d (after_forms P (stream_forms P base b) hidden) (after_neurons n x).
    Proof.
      intros Hh. destruct stream_holds as [Lx Hxs]. unfold after_forms.
      assert (Lo : length (out_of_neurons P) = d) by apply tab_length.
      split; [apply length_map2; trivial|]. intros i Hi.
      rewrite (nth_map2 _ d _ _ i nil_form ([], (0, 0)%Z) nil_form) by trivial.
      unfold P, make_parts; cbn [out_of_neurons]. rewrite nth_tab by trivial. cbn [fst snd]. unfold after_neurons.
      apply holds_add; [|apply holds_constant; apply known_interval; apply inside_weight].
      apply holds_add; [apply Hxs; trivial|].
      rewrite (rsum_ext (neurons n) _ (fun m => entry_of (W_out_ n) m i * neuron n x m)) by (intros; ring).
      apply holds_dot with (d := neurons n); trivial. split; [apply tab_length|]. intros m Hm. rewrite nth_tab by trivial.
      apply known_interval. apply inside_weight.
    Qed.

    Definition roots_hold (roots : option (Z * (form * form))) (y : nat -> R) : Prop :=
      match before_logits n, roots with
      | None, None => True
      | Some m, Some (_, (above, below)) => exists lo hi, lo <= sqrt (square_and_epsilon n m y) <= hi
          /\ holds count e above hi /\ holds count e below lo
      | _, _ => False
      end.

    Lemma root_forms_hold ys y : hold_list count e d ys y -> roots_ok (root_forms ys) = true ->
      roots_hold (root_forms ys) y.
    Proof.
      intros Hy ok. unfold roots_hold, root_forms in *. destruct (before_logits n) as [m|]; [|trivial].
      cbn [roots_ok] in ok. apply Z.ltb_lt in ok.
      pose proof (mean_square_holds n count e small Hd m ys y Hy) as HY. set (f := fmean_square n count m ys) in *.
      pose proof (square_nonneg n Hd m y Hlogits) as pos.
      destruct (root_above_holds count e small (half_for f) f _ ok (Rlt_le _ _ pos) HY) as (hi & H1 & H2).
      destruct (root_below_holds count e small (half_for f) f _ ok (Rlt_le _ _ pos) HY) as (lo & H3 & H4).
      exists lo, hi. auto.
    Qed.

    (** The lead of w over c is at least the margin where a number that the form holds is not negative. *)
    Lemma lead_holds ys roots w c : hold_list count e d ys (after_neurons n x) -> roots_hold roots (after_neurons n x) ->
      In w rights -> (c < outputs n)%nat ->
      exists z, holds count e (lead_form P ys roots w c) z /\ (0 <= z -> margin <= unembedded n x w - unembedded n x c).
    Proof.
      intros Hys Hroots Hw Hc. destruct (Hrights w Hw) as [Ww Aw]. set (y := after_neurons n x) in *.
      assert (rd : nth c (nth w (leading P) []) ([], zero) = reads_by n (before_logits n) (lead_column w c) (lead_bias w c)).
      { unfold P, make_parts; cbn [leading]. rewrite nth_tab by trivial.
        assert (mem : existsb (Nat.eqb w) all_rights = true) by (apply existsb_exists; exists w; split; [trivial|apply Nat.eqb_refl]).
        rewrite mem. rewrite nth_tab by trivial. trivial. }
      set (W := fun i => entry_of (U n) i w + - entry_of (U n) i c).
      set (bb := entry_of (b_U_ n) 0 w + - entry_of (b_U_ n) 0 c).
      destruct (reads_by_ok n (before_logits n) (lead_column w c) (lead_bias w c) W bb) as (k & bias & Hk & Hbias & E).
      { apply vec_tab. intros. apply inside_add; [|apply inside_opp]; apply inside_weight. }
      { apply inside_add; [|apply inside_opp]; apply inside_weight. }
      assert (lead : unembedded n x w - unembedded n x c = rsum d (fun i => k i * y i) * factor n (before_logits n) y + bias).
      { fold d in E. rewrite <- E. unfold unembedded. fold y. fold d. unfold W, bb.
        rewrite (rsum_ext d (fun i => normed n (before_logits n) y i * (entry_of (U n) i w + - entry_of (U n) i c))
          (fun i => normed n (before_logits n) y i * entry_of (U n) i w - normed n (before_logits n) y i * entry_of (U n) i c))
          by (intros; ring).
        rewrite rsum_sub. ring. }
      rewrite lead. pose proof (holds_dot count e small d _ _ k y Hk Hys) as D.
      assert (M : inside margin_interval margin).
      { unfold margin_interval, margin. replace (IZR num / IZR den) with (1 * IZR num / IZR den) by (unfold Rdiv; ring).
        apply inside_ratio; trivial. unfold inside; cbn [fst snd]. fold F. lra. }
      set (A := rsum d (fun i => k i * y i)) in *. set (rd_ := reads_by n (before_logits n) (lead_column w c) (lead_bias w c)) in *.
      pose proof (inside_add _ _ _ _ M (inside_opp _ _ Hbias)) as Sh.
      unfold lead_form. rewrite rd. fold rd_. set (short := iadd margin_interval (iopp (snd rd_))) in *.
      unfold roots_hold in Hroots. destruct (before_logits n) as [m|] eqn:norm_.
      - destruct roots as [[half [above below]]|]; [|contradiction].
        destruct Hroots as (lo & hi & [H1 H2] & H3 & H4). set (Y := square_and_epsilon n m y) in *.
        pose proof (square_nonneg n Hd m y Hlogits) as pos. fold Y in pos.
        pose proof (sqrt_lt_R0 Y pos) as Hs. set (mu := ceil2 (depth - tail_bits) (snd short)).
        assert (Hmu : margin + - bias <= IZR mu / G).
        { pose proof G_pos as HG. apply Rmult_le_reg_r with G; trivial. replace (IZR mu / G * G) with (IZR mu) by (field; lra).
          apply up_ge; [unfold depth, tail_bits; lia|]. destruct Sh as [_ Sh].
          replace ((margin + - bias) * G * IZR (2 ^ (depth - tail_bits))) with ((margin + - bias) * F); [trivial|].
          rewrite Rmult_assoc. f_equal. unfold F, G. rewrite <- mult_IZR. reflexivity. }
        assert (finish : forall S, sqrt Y * (IZR mu / G) <= S * (IZR mu / G) ->
          0 <= A + IZR (- mu) / G * S -> margin <= A * factor n (Some m) y + bias).
        { intros S HS nonneg. cbn [factor]. fold Y. rewrite opp_IZR in nonneg.
          assert (A >= sqrt Y * (IZR mu / G)) by (unfold Rdiv in *; lra).
          apply Rplus_le_reg_r with (- bias). replace (A * / sqrt Y + bias + - bias) with (A * / sqrt Y) by ring.
          apply Rle_trans with (IZR mu / G); [trivial|]. apply Rmult_le_reg_r with (sqrt Y); trivial.
          rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra. lra. }
        pose proof G_pos as HG. destruct (Z.leb_spec 0 mu) as [pm|nm].
        + exists (A + IZR (- mu) / G * hi). split.
          * apply holds_add; trivial. apply holds_scale; trivial. apply known_exactly.
          * apply finish. apply Rmult_le_compat_r; [|trivial]. apply IZR_le in pm.
            unfold Rdiv. apply Rmult_le_pos; [trivial|left; apply Rinv_0_lt_compat; trivial].
        + exists (A + IZR (- mu) / G * lo). split.
          * apply holds_add; trivial. apply holds_scale; trivial. apply known_exactly.
          * apply finish. assert (IZR mu / G <= 0); [|nra]. apply IZR_lt in nm. pose proof (Rinv_0_lt_compat G HG). unfold Rdiv. nra.
      - destruct roots as [[half [above below]]|]; [contradiction|]. exists (A + - (margin + - bias)). split.
        + apply holds_add; trivial. apply holds_constant. apply known_interval. apply inside_opp. trivial.
        + intros nonneg. cbn [factor]. lra.
    Qed.

    Lemma not_negative_ok f z : holds count e f z -> not_negative f = true -> 0 <= z.
    Proof.
      intros Hf H. apply Z.leb_le, IZR_le in H. pose proof (holds_range count e small f z Hf) as R0.
      pose proof G_pos. apply Rmult_le_reg_r with G; trivial. lra.
    Qed.

    Lemma plane_holds p : beyond p -> exists z, 0 <= z /\ holds count e (plane_form b p) z.
    Proof.
      intros [L H]. eexists. split; [exact H|]. unfold plane_form.
      apply holds_add; [|apply holds_constant; apply known_interval; apply inside_opp; apply inside_point; unfold coordinate_bits; lia].
      apply (place_holds _ (fun q => IZR (nth q (normal p) 0%Z) / IZR (2 ^ coordinate_bits))).
      split; [rewrite map_length; trivial|]. intros q Hq. rewrite (nth_map _ (normal p) q 0%Z) by lia.
      apply known_interval. apply inside_point. unfold coordinate_bits; lia.
    Qed.

    Lemma leads_ok planes scale f z : Forall beyond planes -> holds count e f z ->
      leads (map (plane_form b) planes) scale f = true -> 0 <= z.
    Proof.
      intros Hp Hf H. unfold leads in H. apply orb_true_iff in H as [H|H]; [apply (not_negative_ok f); trivial|].
      apply andb_true_iff in H as [Hs H]. apply existsb_exists in H as (g & Hg & H). apply in_map_iff in Hg as (p & <- & Hin_p).
      rewrite Forall_forall in Hp. destruct (plane_holds p (Hp p Hin_p)) as (u & Hu & Hpu).
      apply Z.leb_le, IZR_le in Hs. pose proof G_pos as HG.
      assert (0 <= z + IZR (- scale) / G * u).
      { apply (not_negative_ok (fadd f (fscale count (- scale, 0)%Z (plane_form b p)))); trivial.
        apply holds_add; trivial. apply holds_scale; trivial. apply known_exactly. }
      rewrite opp_IZR in H0. assert (0 <= IZR scale / G * u).
      { apply Rmult_le_pos; [|trivial]. unfold Rdiv. apply Rmult_le_pos; [trivial|left; apply Rinv_0_lt_compat; trivial]. }
      unfold Rdiv in *. lra.
    Qed.

    Lemma attempt_ok planes : Forall beyond planes -> attempt P base rights planes b = None -> won.
    Proof.
      intros Hp H. unfold attempt in H. set (ps := map (plane_form b) planes) in *.
      destruct (existsb (fun p => mid p + radius p <? 0)%Z ps) eqn:empty.
      { exfalso. apply existsb_exists in empty as (g & Hg & neg). apply in_map_iff in Hg as (p & <- & Hin_p).
        rewrite Forall_forall in Hp. destruct (plane_holds p (Hp p Hin_p)) as (u & Hu & Hpu).
        apply Z.ltb_lt, IZR_lt in neg. pose proof (holds_range count e small _ u Hpu). pose proof G_pos. nra. }
      destruct (neuron_forms P (stream_forms P base b)) as [hidden|] eqn:Hneu; [|discriminate].
      set (ys := after_forms P (stream_forms P base b) hidden) in *.
      pose proof (after_holds hidden (neurons_hold hidden Hneu)) as Hys. fold ys in Hys.
      set (roots := root_forms ys) in *. destruct (roots_ok roots) eqn:Hok; [|discriminate]. cbn [negb] in H.
      pose proof (root_forms_hold ys _ Hys Hok) as Hroots. fold roots in Hroots.
      set (others := filter _ (seq 0 (outputs n))) in *.
      set (failing := fun r => find (fun f => negb (leads ps (plane_scale roots) f)) (map (lead_form P ys roots r) others)) in *.
      assert (one_wins : exists w, In w rights /\ failing w = None).
      { destruct (existsb _ rights) eqn:some_win.
        - apply existsb_exists in some_win as (w & Hw & win). exists w.
          change (match failing w with None => true | Some _ => false end = true) in win.
          destruct (failing w); [discriminate|auto].
        - destruct rights as [|w ws]; [discriminate|]. exists w. split; [left; trivial|].
          change (match failing w with None => None | Some f => Some (place_of_largest (slopes f) 0 0 (-1)) end = None) in H.
          destruct (failing w); [discriminate|trivial]. }
      destruct one_wins as (w & Hw & none). exists w. split; [trivial|]. intros c Hc other.
      destruct (lead_holds ys roots w c Hys Hroots Hw Hc) as (z & Hz & enough). apply enough.
      apply (leads_ok planes (plane_scale roots) (lead_form P ys roots w c)); trivial.
      apply negb_false_iff. apply (find_none _ _ none). apply in_map. apply filter_In. split; [apply in_seq; lia|].
      apply negb_true_iff. destruct (existsb (Nat.eqb c) rights) eqn:mem; [|trivial].
      apply existsb_exists in mem as (c' & Hc' & same). apply Nat.eqb_eq in same. subst c'. contradiction.
    Qed.
  End AtPoint.

  Lemma decided_ok fuel : forall planes b, length b = count -> in_box b r -> Forall beyond planes ->
    decided P base fuel rights planes b = true -> won.
  Proof.
    assert (here : forall planes b, length b = count -> in_box b r -> Forall beyond planes ->
      attempt P base rights planes b = None -> won).
    { intros planes b Lb Hb Hp H. destruct (box_point b r Hb) as (e & He). rewrite Lb in He.
      apply (attempt_ok b e Lb Hb He planes Hp H). }
    induction fuel as [|fuel IH]; intros planes b Lb Hb Hp H; cbn [decided] in H;
      destruct (attempt P base rights planes b) as [q|] eqn:tried; try discriminate; try (apply (here planes b); trivial; fail).
    apply andb_true_iff in H as [H H2]. apply andb_true_iff in H as [_ H1].
    destruct (in_half b r q Hb) as [up_|down_].
    - apply (IH planes (half_box true q b)); trivial. unfold half_box. rewrite change_length. trivial.
    - apply (IH planes (half_box false q b)); trivial. unfold half_box. rewrite change_length. trivial.
  Qed.
End Decide.
