(** Certificates about sequences, the program that checks them, and the theorem.

    A certificate has leaves: boxes of coordinates, each for one token at the position that reads and for one answer; and
    trees, which put every cell of words into a leaf. The program shows that the words of every cell are in its leaf's
    box (shortest paths), and that a right token leads on the whole box (affine forms). *)

Require Export Proved.Attention Proved.Box Proved.Addition.
Open Scope R_scope.

(** * Certificates *)

(** [leaf_box]: the ends of each coordinate, over 2^coordinate_bits. Only points beyond all planes matter. *)
Record leaf := { own : nat; answered : nat; leaf_box : list (Z * Z); planes : list plane }.

(** A step's cells fix the letters [fixed_from] ... [fixed_to] - 1 at least; a tree for each state before the first. *)
Record step_hints := { fixed_from : nat; fixed_to : nat; leaves : list leaf; trees : list tree }.

Record words_certificate := {
  margin_num : Z; margin_den : Z; basis_bits : Z; basis_rows : list (nat * list Z); hints : list step_hints }.

(** * Steps of a task: what is read at a position, and which tokens are right *)

Record step := { asked_at : nat; asks : source; rights_of : nat -> list nat }.

(** * The program *)

Section Program.
  Variables (n : words_network) (next : list (list (list nat))) (fed : list source).
  Variables (num den : Z) (basis : list direction) (T : tables).
  Let count := length basis.
  Let source_at (j : nat) : source := nth j fed (Constant 0).
  Let m := length fed.

  Definition coordinate_at (q j : nat) : list Z := nth j (nth q (of_coordinates T) []) [].

  (** No coordinate of a token that is fed is larger. *)
  Definition most_over (u : nat -> nat -> Z) : Z :=
    largest (flat_map (fun j => map (fun v => Z.abs (u j v)) (feeds (source_at j))) (seq 0 m)).

  Definition signed (s : Z) (q j : nat) : nat -> Z :=
    let row := coordinate_at q j in fun v => (s * nth v row 0)%Z.

  (** A position with its own token: the stream there, and the sums of each coordinate and of its negative. *)
  Record sight := {
    sight_own : nat; sight_base : list coefficient; sight_weights : list (list (list (Z * Z)));
    sight_sums : list (Z * (sums * sums)) }.

  Definition sums_of (W : list (list (Z * Z))) (most : Z) (u : nat -> nat -> Z) (t : nat) : sums :=
    with_pruned most (known_of n next fed W most u t).

  Definition sight_of (t w : nat) : sight :=
    let weights := tab (heads n) (fun h => weights_from n fed T h t w) in
    {| sight_own := w;
       sight_base := map of_interval (base_of n (of_rest T) t w);
       sight_weights := weights;
       sight_sums := tab count (fun q =>
         let W := nth (owner (nth q basis nowhere)) weights [] in
         let most := (most_over (signed 1 q) + 1)%Z in
         (most, (sums_of W most (signed 1 q) t, sums_of W most (signed (-1) q) t))) |}.

  (** The coordinate along a plane's normal. *)
  Definition along_plane (p : plane) (j v : nat) : Z :=
    fold_right Z.add 0%Z (tab count (fun q => (nth q (normal p) 0 * nth v (coordinate_at q j) 0)%Z)).

  Definition box_of (l : leaf) : box :=
    map (fun s => let lo := (fst s * 2 ^ (tail_bits - coordinate_bits))%Z in
                  let hi := (snd s * 2 ^ (tail_bits - coordinate_bits))%Z in
                  let c := ((lo + hi) / 2)%Z in (c, hi - c)%Z) (leaf_box l).

  (** A leaf with all that its cells are compared with; and whether its box is decided. *)
  Record prepared := { prepared_own : nat; prepared_answer : nat; in_bounds : list paths; is_decided : bool }.

  Definition coordinate_paths (low high : nat) (both : Z * (sums * sums)) (ends : Z * Z)
    : list paths :=
    [prepare low high (Z.max (fst ends) (- fst both)) (fst (snd both));
     prepare low high (Z.max (- snd ends) (- fst both)) (snd (snd both))].

  Definition plane_paths (low high t : nat) (s : sight) (p : plane) : paths :=
    let u := along_plane p in
    let most := (Z.max (most_over u) (Z.abs (level p)) + 1)%Z in
    prepare low high (level p) (sums_of (nth (owner (nth 0 basis nowhere)) (sight_weights s) []) most u t).

  Definition one_head : bool := forallb (fun q => Nat.eqb (owner q) (owner (nth 0 basis nowhere))) basis.

  Definition tau_ok (most : Z) (ends : Z * Z) : bool := ((fst ends <=? most) && (- most <=? snd ends))%Z.

  Definition cuts : nat := 60.

  Definition prepare_leaf (P : parts) (st : step) (low high : nat) (sights : list sight) (l : leaf) : prepared :=
    match find (fun s => Nat.eqb (sight_own s) (own l)) sights with
    | None => {| prepared_own := own l; prepared_answer := answered l; in_bounds := []; is_decided := false |}
    | Some s =>
        {| prepared_own := own l; prepared_answer := answered l;
           in_bounds := concat (map2 (coordinate_paths low high) (sight_sums s) (leaf_box l))
                        ++ map (plane_paths low high (asked_at st) s) (planes l);
           is_decided :=
             Nat.eqb (length (leaf_box l)) count
             && forallb (fun b => b) (map2 (fun x e => tau_ok (fst x) e) (sight_sums s) (leaf_box l))
             && (match planes l with [] => true | _ => one_head end)
             && Nat.ltb 0 count
             && forallb (fun p => Nat.eqb (length (normal p)) count) (planes l)
             && decided n basis num den P (sight_base s) cuts (rights_of st (answered l)) (planes l) (box_of l) |}
    end.

  (** The token that all words of a cell are fed, if the cell fixes its letter. *)
  Definition fixed_token (from : source) (c : cell) : option nat :=
    match from with
    | Constant v => Some v
    | Letter l table =>
        if Nat.leb (lowest c) l then
          match nth_error (fixed c) (l - lowest c) with Some (s, x) => Some (look table s x O) | None => None end
        else None
    end.

  Definition is_token (o : option nat) (v : nat) : bool := match o with Some w => Nat.eqb w v | None => false end.

  Definition cell_fits (st : step) (low high : nat) (all : list prepared) (k : nat) (c : cell) : bool :=
    match nth_error all k with
    | None => false
    | Some p =>
        is_decided p && Nat.leb (lowest c) low && Nat.leb high (highest c) && Nat.leb (highest c) (length next)
        && is_token (fixed_token (source_at (asked_at st)) c) (prepared_own p)
        && is_token (fixed_token (asks st) c) (prepared_answer p)
        && forallb (fun t => least_fits high t c) (in_bounds p)
    end.

  Definition check_step (P : parts) (st : step) (s : step_hints) : bool :=
    let low := fixed_from s in
    let high := fixed_to s in
    let t := asked_at st in
    let sights := map (sight_of t) (feeds (source_at t)) in
    let all := map (prepare_leaf P st low high sights) (leaves s) in
    Nat.ltb low (length next) && Nat.leb high (length next) && Nat.ltb t m && same_shape next (source_at t)
    && same_shape next (asks st)
    && walk_all next (cell_fits st low high all) (nobody_in low (beginnings next low)) (trees s) (start_cells next low).
End Program.

(** The answers that a step may have are those that its source brings. *)
Definition rights_in (st : step) : list nat := flat_map (rights_of st) (feeds (asks st)).

(** Shapes, and no infinity or NaN. *)
Definition tensor_ok (rows columns_ : nat) (t : tensor) : bool :=
  shapeb rows columns_ (content t) && forallb (forallb (finite (kind t))) (content t).
Definition optional_norm_ok (d : nat) (which : option norm) : bool :=
  match which with
  | None => true
  | Some m => finite F64 (epsilon m) && tensor_ok 1 d (gain m) && tensor_ok 1 d (offset m)
  end.
Definition shapes_ok (n : words_network) : bool :=
  let d := width n in
  let h := heads n in
  tensor_ok (vocabulary n) d (E n) && tensor_ok (context n) d (pos n)
  && tensor_ok (h * d) (key_width n) (Q n) && tensor_ok h (key_width n) (b_Q n)
  && tensor_ok (h * d) (key_width n) (K n) && tensor_ok h (key_width n) (b_K n)
  && tensor_ok (h * d) (value_width n) (V n) && tensor_ok h (value_width n) (b_V_ n)
  && tensor_ok (h * value_width n) d (O_ n) && tensor_ok 1 d (b_O_ n)
  && tensor_ok (h * context n) (context n) (score_bias n) && finite F64 (divisor n)
  && tensor_ok d (neurons n) (W_in_ n) && tensor_ok 1 (neurons n) (b_in_ n)
  && tensor_ok (neurons n) d (W_out_ n) && tensor_ok 1 d (b_out_ n)
  && tensor_ok d (outputs n) (U n) && tensor_ok 1 (outputs n) (b_U_ n)
  && optional_norm_ok d (before_attention n) && optional_norm_ok d (before_neurons n) && optional_norm_ok d (before_logits n).

Definition network_ok (n : words_network) : bool :=
  shapes_ok n && Nat.ltb 0 (width n) && norm_ok (before_attention n) && norm_ok (before_neurons n) && norm_ok (before_logits n)
  && (0 <? divisor_ n)%Z.

Definition check_automaton (n : words_network) (next : list (list (list nat))) (fed : list source) (steps : list step)
  (c : words_certificate) : bool :=
  let basis := basis_of (width n) (basis_bits c) (basis_rows c) in
  let T := make_tables n (length fed) fed basis in
  let all_rights := flat_map rights_in steps in
  let P := make_parts n basis all_rights in
  network_ok n && (0 <? margin_num c)%Z && (0 <? margin_den c)%Z && (0 <=? basis_bits c)%Z
  && forallb (fun q => Nat.ltb (owner q) (heads n)) basis
  && forallb (same_shape next) fed
  && forallb (fun from => forallb (fun v => Nat.ltb v (vocabulary n)) (feeds from)) fed
  && forallb (fun w => Nat.ltb w (outputs n)) all_rights
  && forallb (fun st => Nat.ltb (asked_at st) (context n)) steps
  && Nat.eqb (length steps) (length (hints c))
  && forallb (fun sh => check_step n next fed (margin_num c) (margin_den c) basis T P (fst sh) (snd sh))
       (combine steps (hints c)).

(** * Soundness for an automaton *)

Definition no_sum : sums := {| of_constants := (0, 0)%Z; of_letters := []; of_pruned := [] |}.
Definition no_sums : Z * (sums * sums) := (0%Z, (no_sum, no_sum)).

Section Sound.
  Variables (n : words_network) (next : list (list (list nat))) (fed : list source) (steps : list step).
  Variable c : words_certificate.
  Let basis := basis_of (width n) (basis_bits c) (basis_rows c).
  Let count := length basis.
  Let T := make_tables n (length fed) fed basis.
  Let all_rights := flat_map rights_in steps.
  Let P := make_parts n basis all_rights.
  Let num := margin_num c.
  Let den := margin_den c.
  Let source_at (j : nat) : source := nth j fed (Constant 0).
  Let bases (q i : nat) : R := IZR (nth i (snd (nth q (basis_rows c) (O, []))) 0%Z) / IZR (2 ^ basis_bits c).

  Hypothesis Hwidth : (0 < width n)%nat.
  Hypothesis Hnorm1 : norm_ok (before_attention n) = true.
  Hypothesis Hnorm2 : norm_ok (before_neurons n) = true.
  Hypothesis Hnorm3 : norm_ok (before_logits n) = true.
  Hypothesis Hdivisor : (0 < divisor_ n)%Z.
  Hypothesis Hnum : (0 < num)%Z.
  Hypothesis Hden : (0 < den)%Z.
  Hypothesis Hbits : (0 <= basis_bits c)%Z.
  Hypothesis Howners : forall q, In q basis -> (owner q < heads n)%nat.
  Hypothesis Hshapes : forall from, In from fed -> same_shape next from = true.
  Hypothesis Hvocabulary : forall from v, In from fed -> In v (feeds from) -> (v < vocabulary n)%nat.
  Hypothesis Houtputs : forall w, In w all_rights -> (w < outputs n)%nat.

  Lemma bases_ok q : (q < count)%nat -> vec (width n) (along (nth q basis nowhere)) (bases q).
  Proof.
    intros Hq. unfold count, basis, basis_of in *. rewrite map_length in Hq. rewrite (nth_map _ _ q (O, [])) by trivial.
    cbn [along]. apply vec_tab. intros i Hi. unfold bases. apply inside_point. trivial.
  Qed.

  Lemma owner_ok q : (q < count)%nat -> (owner (nth q basis nowhere) < heads n)%nat.
  Proof. intros. apply Howners. apply nth_In. trivial. Qed.

  Variable a : nat -> nat.
  Hypothesis Ha : word next a.
  Definition fed_tokens (j : nat) : nat := fed_token next (nth j fed (Constant 0)) a.
  Let token := fed_tokens.

  Lemma fixed_token_ok from cell_ v : in_cell next a cell_ -> fixed_token from cell_ = Some v ->
    fed_token next from a = v.
  Proof.
    intros (_ & I & _) H. destruct from as [w|l table]; cbn [fixed_token fed_token] in *; [congruence|].
    destruct (Nat.leb_spec (lowest cell_) l) as [le|]; [|discriminate].
    destruct (nth_error (fixed cell_) (l - lowest cell_)) as [[s x]|] eqn:E; [|discriminate].
    assert (Hl : (l - lowest cell_ < length (fixed cell_))%nat) by (apply nth_error_Some; congruence).
    apply (nth_error_nth _ _ (O, O)) in E. rewrite I in E.
    rewrite (nth_map _ _ _ O) in E by (rewrite seq_length; trivial). rewrite seq_nth in E by trivial.
    replace (lowest cell_ + (l - lowest cell_))%nat with l in E by lia. injection E as -> ->. injection H as <-. trivial.
  Qed.

  Section Step.
    Variables (st : step) (s : step_hints).
    Let t := asked_at st.
    Hypothesis Hst : In st steps.
    Hypothesis Hok : check_step n next fed num den basis T P st s = true.

    Lemma token_facts j : (j < length fed)%nat -> same_shape next (source_at j) = true
      /\ In (token j) (feeds (source_at j)) /\ (token j < vocabulary n)%nat.
    Proof.
      intros Hj. assert (Hin : In (source_at j) fed) by (apply nth_In; trivial).
      assert (S : same_shape next (source_at j) = true) by (apply Hshapes; trivial).
      assert (I : In (token j) (feeds (source_at j))) by (apply fed_feeds; trivial).
      split; [trivial|]. split; [trivial|]. apply (Hvocabulary (source_at j)); trivial.
    Qed.

    Lemma most_over_ge u j : (j < length fed)%nat -> (Z.abs (u j (token j)) <= most_over fed u)%Z.
    Proof.
      intros Hj. unfold most_over. apply largest_ge. apply in_flat_map. exists j. split; [apply in_seq; lia|].
      apply in_map_iff. exists (token j). split; [trivial|]. apply token_facts. trivial.
    Qed.

    Let w (h j : nat) : R := exp (score n h t (token t) j (token j)).
    Let r (q : nat) : R := averaged n (length fed) fed basis token t q.

    Lemma signed_is sg q j v : signed T sg q j v = (sg * coordinate n (length fed) fed basis q j v)%Z.
    Proof. reflexivity. Qed.

    Lemma step_sound : exists p, In p (rights_of st (fed_token next (asks st) a))
      /\ forall o, (o < outputs n)%nat -> ~ In o (rights_of st (fed_token next (asks st) a)) ->
           IZR num / IZR den <= logit n token t p - logit n token t o.
    Proof.
      unfold check_step in Hok. fold t in Hok. set (low := fixed_from s) in *. set (high := fixed_to s) in *.
      set (sights := map _ (feeds _)) in *. set (all := map _ (leaves s)) in *.
      rewrite !andb_true_iff in Hok. destruct Hok as [[[[[H1 H2] H3] H4] H5] Hwalk].
      apply Nat.ltb_lt in H1, H3. apply Nat.leb_le in H2.
      destruct (walk_all_sound next a Ha _ _ (fun c0 Hn Hl Hc => nobody_sound next a low c0 Ha (Nat.lt_le_incl _ _ H1) Hn Hc)
        low (trees s) H1 Hwalk) as (k & cell_ & Hfits & Hcell).
      unfold cell_fits in Hfits. destruct (nth_error all k) as [p|] eqn:Hp; [|discriminate].
      rewrite !andb_true_iff in Hfits. destruct Hfits as [[[[[[F1 F2] F3] F4] F5] F6] F7].
      apply Nat.leb_le in F2, F3, F4.
      apply nth_error_In in Hp. unfold all in Hp. apply in_map_iff in Hp as (l & <- & Hl).
      unfold prepare_leaf in *. destruct (find _ sights) as [sg|] eqn:Hfind; [|discriminate].
      cbn [is_decided prepared_own prepared_answer in_bounds] in *.
      apply find_some in Hfind as [Hin Hown]. apply Nat.eqb_eq in Hown. unfold sights in Hin.
      apply in_map_iff in Hin as (w0 & <- & Hw0). cbn [sight_of sight_own] in Hown. subst w0.
      (* The leaf's token and answer are the word's. *)
      fold t in F5. destruct (fixed_token (nth t fed (Constant 0)) cell_) as [v|] eqn:E5; [|discriminate].
      cbn [is_token] in F5. apply Nat.eqb_eq in F5. subst v. apply (fixed_token_ok _ _ _ Hcell) in E5.
      destruct (fixed_token (asks st) cell_) as [v|] eqn:E6; [|discriminate].
      cbn [is_token] in F6. apply Nat.eqb_eq in F6. subst v. apply (fixed_token_ok _ _ _ Hcell) in E6. rewrite E6.
      assert (Etoken : token t = own l) by exact E5.
      rewrite !andb_true_iff in F1. destruct F1 as [[[[[D1 D2] D3] D4] D5] D6].
      apply Nat.eqb_eq in D1. apply Nat.ltb_lt in D4. cbn [sight_of sight_sums sight_base sight_weights] in *.
      rewrite forallb_forall in F7.
      assert (Hvoc : forall j, (j <= t)%nat -> (token j < vocabulary n)%nat) by (intros; apply token_facts; lia).
      assert (Hsh : forall j, (j <= t)%nat -> same_shape next (nth j fed (Constant 0)) = true)
        by (intros j Hj; apply (token_facts j); lia).
      (* Every average of coordinates is at least what a shortest path shows. *)
      assert (ratio : forall h u most tau, (h < heads n)%nat ->
        (forall j, (j <= t)%nat -> (Z.abs (u j (token j)) <= most)%Z) -> (Z.abs tau <= most)%Z ->
        least_fits high (prepare low high tau (sums_of n next fed (weights_from n fed T h t (own l)) most u t)) cell_ = true ->
        IZR tau <= rsum (S t) (fun j => w h j * IZR (u j (token j))) / rsum (S t) (w h)).
      { intros h u most tau Hh Hu Htau Hf. rewrite <- Etoken in Hf.
        apply (ratio_sound n (length fed) next fed T Hdivisor) with (a := a) (low := low) (high := high) (most := most) (c := cell_);
          trivial; try lia.
        - intros. apply queries_ok; trivial.
        - intros. apply keys_ok; trivial. }
      set (all_sums := tab _ _) in *.
      assert (Hbox : forall q, (q < count)%nat ->
        IZR (fst (nth q (leaf_box l) (0, 0)%Z)) <= r q * one_coordinate <= IZR (snd (nth q (leaf_box l) (0, 0)%Z))).
      { intros q Hq. set (ends := nth q (leaf_box l) (0, 0)%Z). set (h := owner (nth q basis nowhere)).
        pose proof (owner_ok q Hq) as Hh. fold h in Hh.
        set (most := (most_over fed (signed T 1 q) + 1)%Z).
        set (W := weights_from n fed T h t (own l)).
        set (item := (most, (sums_of n next fed W most (signed T 1 q) t, sums_of n next fed W most (signed T (-1) q) t))).
        assert (Ls : length all_sums = count) by apply tab_length.
        assert (Esum : nth q all_sums no_sums = item).
        { unfold all_sums. rewrite nth_tab by trivial. fold h. rewrite nth_tab by trivial. fold W. reflexivity. }
        assert (Htau : tau_ok most ends = true).
        { rewrite forallb_forall in D2. apply D2.
          replace (tau_ok most ends) with (nth q (map2 (fun x e => tau_ok (fst x) e) all_sums (leaf_box l)) true).
          - apply nth_In. rewrite (length_map2 _ count); trivial.
          - rewrite (nth_map2 _ count _ _ q no_sums (0, 0)%Z) by trivial. rewrite Esum. trivial. }
        apply andb_true_iff in Htau as [T1 T2]. apply Z.leb_le in T1, T2.
        assert (both : forall p0, In p0 (coordinate_paths low high item ends) -> least_fits high p0 cell_ = true).
        { intros p0 Hp0. apply F7. apply in_or_app. left. apply in_concat.
          exists (coordinate_paths low high item ends). split; [|trivial].
          replace (coordinate_paths low high item ends)
            with (nth q (map2 (coordinate_paths low high) all_sums (leaf_box l)) []).
          - apply nth_In. rewrite (length_map2 _ count); trivial.
          - rewrite (nth_map2 _ count _ _ q no_sums (0, 0)%Z) by trivial. rewrite Esum. trivial. }
        assert (bound : forall j, (j <= t)%nat -> (Z.abs (coordinate n (length fed) fed basis q j (token j)) < most)%Z).
        { intros j Hj. pose proof (most_over_ge (signed T 1 q) j ltac:(lia)) as B. rewrite signed_is in B. unfold most. lia. }
        pose proof one_coordinate_pos as pos.
        assert (Er : r q * one_coordinate
          = rsum (S t) (fun j => w h j * IZR (coordinate n (length fed) fed basis q j (token j))) / rsum (S t) (w h)).
        { unfold r, averaged. fold h. fold (w h). unfold Rdiv. rewrite (Rmult_assoc _ (/ one_coordinate)), Rinv_l, Rmult_1_r by lra.
          reflexivity. }
        assert (M0 : (0 <= most)%Z) by (pose proof (bound O ltac:(lia)); lia).
        split.
        - pose proof (ratio h (signed T 1 q) most (Z.max (fst ends) (- most)) Hh) as X.
          eapply Rle_trans; [|rewrite Er; eapply Rle_trans; [apply X|]].
          + apply IZR_le. lia.
          + intros j Hj. rewrite signed_is. pose proof (bound j Hj). lia.
          + lia.
          + apply both. left. reflexivity.
          + right. f_equal. apply rsum_ext. intros j Hj. rewrite signed_is, Z.mul_1_l. trivial.
        - pose proof (ratio h (signed T (-1) q) most (Z.max (- snd ends) (- most)) Hh) as X.
          assert (Y : IZR (- snd ends) <= - (r q * one_coordinate)); [|rewrite opp_IZR in Y; lra].
          eapply Rle_trans; [|rewrite Er; eapply Rle_trans; [apply X|]].
          + apply IZR_le. lia.
          + intros j Hj. rewrite signed_is. pose proof (bound j Hj). lia.
          + lia.
          + apply both. right. left. reflexivity.
          + right. rewrite Ropp_div_distr_l_reverse || idtac.
            rewrite (rsum_ext (S t) (fun j => w h j * IZR (signed T (-1) q j (token j)))
              (fun j => - 1 * (w h j * IZR (coordinate n (length fed) fed basis q j (token j)))))
              by (intros j Hj; rewrite signed_is, mult_IZR; ring).
            rewrite rsum_scale. unfold Rdiv. ring. }
      assert (Hplanes : Forall (beyond basis r) (planes l)).
      { apply Forall_forall. intros p0 Hp0. rewrite forallb_forall in D5. pose proof (D5 p0 Hp0) as Lp. apply Nat.eqb_eq in Lp.
        split; [trivial|]. set (h := owner (nth 0 basis nowhere)).
        assert (one : forall q, (q < count)%nat -> owner (nth q basis nowhere) = h).
        { destruct (planes l) as [|p1 ps]; [destruct Hp0|]. unfold one_head in D3. rewrite forallb_forall in D3.
          intros q Hq. apply Nat.eqb_eq. apply D3. apply nth_In. trivial. }
        pose proof (owner_ok O D4) as Hh. fold h in Hh.
        assert (fits : least_fits high (plane_paths n next fed basis T low high t (sight_of n next fed basis T t (own l)) p0) cell_ = true).
        { apply F7. apply in_or_app. right. apply (in_map (plane_paths n next fed basis T low high t _)). trivial. }
        unfold plane_paths in fits. fold h in fits. cbn [sight_of sight_weights] in fits.
        rewrite (nth_tab (heads n) (fun h => weights_from n fed T h t (own l)) h []) in fits by trivial.
        set (u := along_plane basis T p0) in *. set (most := (Z.max (most_over fed u) (Z.abs (level p0)) + 1)%Z) in *.
        pose proof (ratio h u most (level p0) Hh) as X.
        assert (Y : IZR (level p0) <= rsum (S t) (fun j => w h j * IZR (u j (token j))) / rsum (S t) (w h)).
        { apply X; [|unfold most; lia|exact fits]. intros j Hj. pose proof (most_over_ge u j ltac:(lia)). unfold most. lia. }
        assert (Eu : forall j, IZR (u j (token j))
          = rsum count (fun q => IZR (nth q (normal p0) 0%Z) * IZR (coordinate n (length fed) fed basis q j (token j)))).
        { intros j. unfold u, along_plane. fold count.
          assert (general : forall many first, IZR (fold_right Z.add 0%Z (map (fun q =>
              (nth q (normal p0) 0 * nth (token j) (coordinate_at T q j) 0)%Z) (seq first many)))
            = rsum many (fun q => IZR (nth (first + q) (normal p0) 0%Z)
                * IZR (coordinate n (length fed) fed basis (first + q) j (token j)))).
          { induction many as [|many IH]; intros first; [trivial|]. cbn [seq map fold_right].
            rewrite plus_IZR, IH, mult_IZR, rsum_first, Nat.add_0_r. f_equal. apply rsum_ext. intros q _.
            replace (S first + q)%nat with (first + S q)%nat by lia. trivial. }
          exact (general count O). }
        pose proof (rsum_pos (S t) (w h) (fun j _ => exp_pos _) ltac:(lia)) as Wpos. pose proof one_coordinate_pos as pos.
        assert (Er : rsum (S t) (fun j => w h j * IZR (u j (token j))) / rsum (S t) (w h)
          = one_coordinate * rsum count (fun q => IZR (nth q (normal p0) 0%Z) * r q)).
        { rewrite (rsum_ext (S t) _ (fun j => rsum count (fun q =>
            w h j * (IZR (nth q (normal p0) 0%Z) * IZR (coordinate n (length fed) fed basis q j (token j))))))
            by (intros j Hj; rewrite Eu, rsum_scale; trivial).
          rewrite rsum_swap. unfold Rdiv. rewrite <- rsum_scale_r, <- rsum_scale. apply rsum_ext. intros q Hq.
          assert (rq : r q = rsum (S t) (fun j => w h j * IZR (coordinate n (length fed) fed basis q j (token j)))
            / rsum (S t) (w h) / one_coordinate) by (unfold r, averaged; rewrite (one q Hq); reflexivity).
          rewrite rq.
          rewrite (rsum_ext (S t) (fun i => w h i * (IZR (nth q (normal p0) 0%Z) * IZR (coordinate n (length fed) fed basis q i (token i))))
            (fun i => IZR (nth q (normal p0) 0%Z) * (w h i * IZR (coordinate n (length fed) fed basis q i (token i)))))
            by (intros; ring).
          rewrite rsum_scale. field. split; lra. }
        rewrite Er in Y.
        change (0 <= rsum count (fun q => IZR (nth q (normal p0) 0%Z) / one_coordinate * r q)
                     + - (IZR (level p0) / IZR (2 ^ (2 * coordinate_bits)))).
        replace (IZR (2 ^ (2 * coordinate_bits))) with (one_coordinate * one_coordinate)
          by (unfold one_coordinate; rewrite <- mult_IZR; reflexivity).
        rewrite (rsum_ext count (fun q => IZR (nth q (normal p0) 0%Z) / one_coordinate * r q)
          (fun q => / one_coordinate * (IZR (nth q (normal p0) 0%Z) * r q))) by (intros; field; lra).
        rewrite rsum_scale. set (X0 := rsum count _) in *.
        apply Rmult_le_reg_r with (one_coordinate * one_coordinate); [nra|].
        replace ((/ one_coordinate * X0 + - (IZR (level p0) / (one_coordinate * one_coordinate))) * (one_coordinate * one_coordinate))
          with (one_coordinate * X0 - IZR (level p0)) by (field; lra). lra. }
      (* The box is decided, and the stream is at a point of it. *)
      assert (Hst' : forall j, (j <= t)%nat -> (token j < vocabulary n)%nat /\ In (token j) (feeds (nth j fed (Constant 0)))).
      { intros j Hj. destruct (token_facts j ltac:(lia)) as (_ & G1 & G2). split; trivial. }
      destruct (stream_after n (length fed) fed basis bases Hwidth Hnorm1 bases_ok owner_ok token t H3 Hst')
        as (beta & Hbeta & Hx).
      rewrite Etoken in Hbeta.
      pose proof (decided_ok n basis num den bases bases_ok Hwidth Hnum Hden Hnorm2 Hnorm3
        (rights_of st (answered l)) all_rights (map of_interval (base_of n (of_rest T) t (own l))) beta r (residual n token t)) as Dec.
      assert (Hrights : forall w0, In w0 (rights_of st (answered l)) -> (w0 < outputs n)%nat /\ In w0 all_rights).
      { intros w0 Hw. assert (In w0 all_rights); [|split; [apply Houtputs|]; trivial].
        apply in_flat_map. exists st. split; [trivial|]. apply in_flat_map. exists (answered l). split; [|trivial].
        rewrite <- E6. apply fed_feeds; trivial. }
      specialize (Dec Hrights (known_vec n _ _ _ Hbeta)).
      assert (Hx' : forall i, (i < width n)%nat ->
        residual n token t i = beta i + rsum (length basis) (fun q => r q * bases q i)) by exact Hx.
      specialize (Dec Hx' cuts (planes l) (box_of l)).
      assert (Lb : length (box_of l) = length basis) by (unfold box_of; rewrite map_length; exact D1).
      assert (Hin : in_box (box_of l) r).
      { intros q Hq. rewrite Lb in Hq. specialize (Hbox q Hq). unfold side, box_of.
        rewrite (nth_map _ (leaf_box l) q (0, 0)%Z) by (rewrite D1; trivial).
        set (ends := nth q (leaf_box l) (0, 0)%Z) in *. set (k2 := (2 ^ (tail_bits - coordinate_bits))%Z).
        cbv zeta. cbn [fst snd]. set (lo := (fst ends * k2)%Z). set (hi := (snd ends * k2)%Z).
        assert (EG : G = one_coordinate * IZR k2).
        { unfold G, one_coordinate, k2. rewrite <- mult_IZR. reflexivity. }
        assert (Pk : 0 < IZR k2) by (apply IZR_lt; reflexivity).
        assert (B : IZR lo <= r q * G <= IZR hi).
        { unfold lo, hi. rewrite !mult_IZR, EG, <- Rmult_assoc.
          split; (apply Rmult_le_compat_r; [lra|]); apply Hbox. }
        assert (C : (2 * ((lo + hi) / 2) <= lo + hi)%Z) by (pose proof (Z.mul_div_le (lo + hi) 2); lia).
        apply IZR_le in C. rewrite mult_IZR, plus_IZR in C. rewrite minus_IZR. apply Rabs_le. lra. }
      destruct (Dec Lb Hin Hplanes D6) as (w0 & Hw & Hlead). exists w0. split; [trivial|]. intros o Ho Hnot.
      apply (Hlead o Ho Hnot).
    Qed.
  End Step.
End Sound.

Theorem check_automaton_sound : forall n next fed steps c, check_automaton n next fed steps c = true ->
  0 < IZR (margin_num c) / IZR (margin_den c)
  /\ forall a, word next a -> forall st, In st steps ->
     let tokens := fed_tokens next fed a in
     exists p, In p (rights_of st (fed_token next (asks st) a)) /\ (p < outputs n)%nat
       /\ forall o, (o < outputs n)%nat -> ~ In o (rights_of st (fed_token next (asks st) a)) ->
            IZR (margin_num c) / IZR (margin_den c) <= logit n tokens (asked_at st) p - logit n tokens (asked_at st) o.
Proof.
  intros n next fed steps c H. unfold check_automaton in H. rewrite !andb_true_iff in H.
  destruct H as [[[[[[[[[[N1 N2] N3] N4] N5] N6] N7] N8] _] N9] N10].
  unfold network_ok in N1. rewrite !andb_true_iff in N1. destruct N1 as [[[[[_ K1] K2] K3] K4] K5].
  apply Nat.ltb_lt in K1. apply Z.ltb_lt in K5, N2, N3. apply Z.leb_le in N4. apply Nat.eqb_eq in N9.
  rewrite forallb_forall in N5, N6, N7, N8, N10.
  split.
  { apply IZR_lt in N2, N3. unfold Rdiv. apply Rmult_lt_0_compat; [trivial|apply Rinv_0_lt_compat; trivial]. }
  intros a Ha st Hst. cbv zeta. destruct (In_nth _ _ {| asked_at := O; asks := Constant 0; rights_of := fun _ => [] |} Hst) as (i & Hi & E).
  set (basis := basis_of (width n) (basis_bits c) (basis_rows c)) in *.
  set (T := make_tables n (length fed) fed basis) in *.
  assert (Hok : check_step n next fed (margin_num c) (margin_den c) basis T (make_parts n basis (flat_map rights_in steps)) st
    (nth i (hints c) {| fixed_from := O; fixed_to := O; leaves := []; trees := [] |}) = true).
  { set (s0 := {| fixed_from := O; fixed_to := O; leaves := []; trees := [] |}).
    apply (N10 (st, nth i (hints c) s0)). rewrite <- E, <- combine_nth by trivial. apply nth_In.
    rewrite combine_length. lia. }
  assert (Howners : forall q, In q basis -> (owner q < heads n)%nat) by (intros q Hq; apply Nat.ltb_lt; apply N5; trivial).
  assert (Hvoc : forall from v, In from fed -> In v (feeds from) -> (v < vocabulary n)%nat).
  { intros from v Hf Hv. apply Nat.ltb_lt. specialize (N7 from Hf). rewrite forallb_forall in N7. apply N7. trivial. }
  assert (Hout : forall w, In w (flat_map rights_in steps) -> (w < outputs n)%nat)
    by (intros w Hw; apply Nat.ltb_lt; apply N8; trivial).
  destruct (step_sound n next fed steps c K1 K2 K3 K4 K5 N2 N3 N4 Howners N6 Hvoc Hout a Ha st _ Hst Hok) as (p & Hp & Hlead).
  exists p. split; [trivial|]. split; [|exact Hlead]. apply Hout. apply in_flat_map. exists st. split; [trivial|].
  apply in_flat_map. exists (fed_token next (asks st) a). split; [|trivial]. apply fed_feeds; trivial.
  unfold check_step in Hok. rewrite !andb_true_iff in Hok. apply Hok.
Qed.
