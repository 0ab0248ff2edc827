(** Cells: the words that have one state before a letter, and these letters from there on.

    A certificate names cells by trees: a cell is a leaf, or it is cut into the cells that fix one more letter, above or
    below those that it fixes. [walk_sound]: where a tree is accepted, every word of the cell is in an accepted leaf. *)

Require Export Proved.Paths.
Open Scope Z_scope.

(** The letters number lowest, lowest + 1, ... are fixed, each with the state before it. *)
Record cell := { lowest : nat; entered : nat; fixed : list (nat * nat); left_in : nat }.

Definition highest (c : cell) : nat := (lowest c + length (fixed c))%nat.

Inductive tree := Leaf (number : nat) | Nobody | Above (parts : list tree) | Below (parts : list tree).

Section Cells.
  Variable next : list (list (list nat)).

  Definition numbered {A} (xs : list A) : list (nat * A) := combine (seq 0 (length xs)) xs.

  Definition above_cells (c : cell) : list cell :=
    map (fun xs => {| lowest := lowest c; entered := entered c;
                      fixed := fixed c ++ [(left_in c, fst xs)]; left_in := snd xs |})
        (numbered (nth (left_in c) (nth (highest c) next []) [])).

  Definition below_cells (c : cell) : list cell :=
    flat_map (fun sr => flat_map (fun xs =>
        if Nat.eqb (snd xs) (entered c)
        then [{| lowest := lowest c - 1; entered := fst sr; fixed := (fst sr, fst xs) :: fixed c; left_in := left_in c |}]
        else [])
      (numbered (snd sr))) (numbered (nth (lowest c - 1) next [])).

  Section Walk.
    Variables (leaf : nat -> cell -> bool) (nobody : cell -> bool).

    Fixpoint walk (t : tree) (c : cell) : bool :=
      let all := fix all (ts : list tree) (cs : list cell) : bool :=
        match ts, cs with
        | t :: ts, c :: cs => walk t c && all ts cs
        | [], [] => true
        | _, _ => false
        end in
      match t with
      | Leaf k => leaf k c
      | Nobody => nobody c
      | Above ts => Nat.ltb (highest c) (length next) && all ts (above_cells c)
      | Below ts => Nat.ltb 0 (lowest c) && all ts (below_cells c)
      end.

    Definition walk_all := fix all (ts : list tree) (cs : list cell) : bool :=
      match ts, cs with
      | t :: ts, c :: cs => walk t c && all ts cs
      | [], [] => true
      | _, _ => false
      end.
  End Walk.

  Variable a : nat -> nat.
  Hypothesis Ha : word next a.
  Let st := state next a.

  Definition in_cell (c : cell) : Prop :=
    st (lowest c) = entered c /\ fixed c = map (fun l => (st l, a l)) (seq (lowest c) (length (fixed c)))
    /\ st (highest c) = left_in c.

  Lemma in_numbered {A} (xs : list A) i d : (i < length xs)%nat -> In (i, nth i xs d) (numbered xs).
  Proof.
    intros H. unfold numbered.
    replace (i, nth i xs d) with (nth i (combine (seq 0 (length xs)) xs) (O, d)).
    - apply nth_In. rewrite combine_length, seq_length. lia.
    - rewrite combine_nth by (apply seq_length). rewrite seq_nth; trivial.
  Qed.

  Lemma next_state l : st (S l) = nth (a l) (nth (st l) (nth l next []) []) O.
  Proof. reflexivity. Qed.

  Lemma above_covers c : (highest c < length next)%nat -> in_cell c -> exists c', In c' (above_cells c) /\ in_cell c'.
  Proof.
    intros H (I1 & I2 & I3). set (l := highest c) in *.
    exists {| lowest := lowest c; entered := entered c; fixed := fixed c ++ [(left_in c, a l)]; left_in := st (S l) |}.
    split.
    - unfold above_cells. apply in_map_iff. exists (a l, st (S l)). split; [reflexivity|].
      rewrite next_state. fold l. rewrite <- I3. apply in_numbered. apply (Ha l H).
    - assert (L : length (fixed c ++ [(left_in c, a l)]) = S (length (fixed c))) by (rewrite app_length; simpl; lia).
      unfold in_cell, highest; cbn [lowest entered fixed left_in]. rewrite L. split; [trivial|]. split.
      + rewrite seq_S, map_app, <- I2. simpl. fold (highest c). fold l. rewrite I3. trivial.
      + f_equal. unfold l, highest. lia.
  Qed.

  Lemma below_covers c : (0 < lowest c <= length next)%nat -> in_cell c ->
    exists c', In c' (below_cells c) /\ in_cell c'.
  Proof.
    intros H (I1 & I2 & I3). set (l := (lowest c - 1)%nat). assert (E : lowest c = S l) by (unfold l; lia).
    exists {| lowest := l; entered := st l; fixed := (st l, a l) :: fixed c; left_in := left_in c |}.
    split.
    - unfold below_cells. fold l. apply in_flat_map. exists (st l, nth (st l) (nth l next []) []). split.
      + apply in_numbered. apply (in_range next a Ha). lia.
      + apply in_flat_map. exists (a l, st (S l)). rewrite next_state. cbn [fst snd]. split.
        * apply in_numbered. apply (Ha l). lia.
        * rewrite <- next_state, <- E, I1, Nat.eqb_refl. left. trivial.
    - unfold in_cell, highest; cbn [lowest entered fixed left_in]. cbn [length seq map]. split; [trivial|]. split.
      + f_equal. rewrite <- E. exact I2.
      + rewrite <- I3. unfold highest. f_equal. lia.
  Qed.

  Section WalkSound.
    Variables (leaf : nat -> cell -> bool) (nobody : cell -> bool).
    Hypothesis Hnobody : forall c, nobody c = true -> (lowest c <= length next)%nat -> in_cell c -> False.

    Lemma walk_all_pick ts : forall cs c, walk_all leaf nobody ts cs = true -> In c cs ->
      exists t, In t ts /\ walk leaf nobody t c = true.
    Proof.
      induction ts as [|t ts IH]; intros [|c' cs] c H Hin; try discriminate; [destruct Hin|]. simpl in H.
      apply andb_true_iff in H as [H1 H2]. destruct Hin as [->|Hin].
      - exists t. split; [left|]; trivial.
      - destruct (IH cs c H2 Hin) as (t' & Ht & Hw). exists t'. split; [right|]; trivial.
    Qed.

    Definition found : Prop := exists k c, leaf k c = true /\ in_cell c.

    Lemma walk_sound : forall t c, walk leaf nobody t c = true -> (lowest c <= length next)%nat -> in_cell c -> found.
    Proof.
      fix IH 1. intros [k| |ts|ts] c H Hl Hc.
      - exists k, c. split; trivial.
      - exfalso. apply (Hnobody c); trivial.
      - cbn [walk] in H. apply andb_true_iff in H as [Hlt Hall]. apply Nat.ltb_lt in Hlt.
        destruct (above_covers c Hlt Hc) as (c' & Hin & Hc').
        assert (Hl' : (lowest c' <= length next)%nat).
        { unfold above_cells in Hin. apply in_map_iff in Hin as (x & <- & _). trivial. }
        revert Hall Hin. generalize (above_cells c). induction ts as [|t ts IHts]; intros [|c1 cs] Hall Hin;
          try discriminate; [destruct Hin|]. apply andb_true_iff in Hall as [H1 H2]. destruct Hin as [->|Hin].
        + exact (IH t c' H1 Hl' Hc').
        + exact (IHts cs H2 Hin).
      - cbn [walk] in H. apply andb_true_iff in H as [Hlt Hall]. apply Nat.ltb_lt in Hlt.
        destruct (below_covers c ltac:(lia) Hc) as (c' & Hin & Hc').
        assert (Hl' : (lowest c' <= length next)%nat).
        { unfold below_cells in Hin. apply in_flat_map in Hin as (x & _ & Hin). apply in_flat_map in Hin as (y & _ & Hin).
          destruct (Nat.eqb _ _); [|destruct Hin]. destruct Hin as [<-|[]]. cbn [lowest]. lia. }
        revert Hall Hin. generalize (below_cells c). induction ts as [|t ts IHts]; intros [|c1 cs] Hall Hin;
          try discriminate; [destruct Hin|]. apply andb_true_iff in Hall as [H1 H2]. destruct Hin as [->|Hin].
        + exact (IH t c' H1 Hl' Hc').
        + exact (IHts cs H2 Hin).
    Qed.

    (** All states before letter number l, each with a tree. *)
    Definition start_cells (l : nat) : list cell :=
      map (fun s => {| lowest := l; entered := s; fixed := []; left_in := s |}) (seq 0 (length (nth l next []))).

    Lemma walk_all_sound l ts : (l < length next)%nat -> walk_all leaf nobody ts (start_cells l) = true -> found.
    Proof.
      intros Hl H. set (c := {| lowest := l; entered := st l; fixed := []; left_in := st l |}).
      assert (Hin : In c (start_cells l)).
      { unfold start_cells. apply in_map_iff. exists (st l). split; [trivial|]. apply in_seq.
        pose proof (in_range next a Ha l Hl) as S. fold st in S. lia. }
      destruct (walk_all_pick ts _ c H Hin) as (t & _ & Hw). apply (walk_sound t c); trivial; [simpl; lia|].
      unfold in_cell, highest; simpl. rewrite Nat.add_0_r. auto.
    Qed.
  End WalkSound.
End Cells.

(** * Least sums over the words of a cell *)

Record paths := { at_tau : Z; of_terms : terms; from_low : list reached; to_high : list (list Z) }.

(** Cells fix the letters [low] ... [high] - 1 at least, so that these are not needed in the shortest paths. *)
Record sums := { of_constants : Z * Z; of_letters : terms; of_pruned : terms }.
Definition with_pruned (most : Z) (known : (Z * Z) * terms) : sums :=
  {| of_constants := fst known; of_letters := snd known; of_pruned := pruned_terms most (snd known) |}.

Definition prepare (low high : nat) (tau : Z) (s : sums) : paths :=
  {| at_tau := tau; of_terms := of_letters s;
     from_low := lows tau [Some (fst (of_constants s) - tau * snd (of_constants s))] (firstn low (of_pruned s));
     to_high := ups tau (skipn high (of_pruned s)) |}.

Fixpoint path_cost (tau : Z) (T : terms) (letters : list (nat * nat)) : Z :=
  match T, letters with
  | rows :: T, (s, x) :: letters => cost tau (look rows s x nothing) + path_cost tau T letters
  | _, _ => 0
  end.

Definition least_fits (high : nat) (p : paths) (c : cell) : bool :=
  match nth (entered c) (nth (lowest c) (from_low p) []) None with
  | None => true
  | Some start => 0 <=? start + path_cost (at_tau p) (skipn (lowest c) (of_terms p)) (fixed c)
                        + nth (left_in c) (nth (highest c - high) (to_high p) []) 0
  end.

(** No beginning leads to the cell. *)
Definition nobody_in (low : nat) (beginnings : list reached) (c : cell) : bool :=
  Nat.leb (lowest c) low && match nth (entered c) (nth (lowest c) beginnings []) None with None => true | Some _ => false end.
Definition beginnings (next : list (list (list nat))) (low : nat) : list reached :=
  lows 0 [Some 0] (firstn low (pruned_terms 0 (without_terms next))).

Section LeastOfCell.
  Variables (next : list (list (list nat))) (a : nat -> nat) (low high : nat) (tau most : Z) (known : (Z * Z) * terms).
  Hypothesis Htau : Z.abs tau <= most.
  Hypothesis Ha : word next a.
  Hypothesis HT : over next (snd known).
  Hypothesis Hlow : (low <= length next)%nat.
  Hypothesis Hhigh : (high <= length next)%nat.
  Let T := snd known.
  Let f := term next T tau a.

  Lemma path_cost_sum : forall letters l, (l + length letters <= length next)%nat ->
    letters = map (fun l => (state next a l, a l)) (seq l (length letters)) ->
    path_cost tau (skipn l T) letters = sum (length letters) (fun k => f (l + k)%nat).
  Proof.
    induction letters as [|[s x] letters IH]; intros l Hl E; [simpl; destruct (skipn l T); trivial|].
    assert (Hs : (l < length T)%nat) by (unfold T; rewrite (over_length next _ HT); simpl in Hl; lia).
    rewrite (skipn_nth T l [] Hs). cbn [path_cost length]. rewrite sum_first, Nat.add_0_r. simpl in E. injection E as -> -> E.
    rewrite (IH (S l)) by (trivial; simpl in Hl; lia). unfold f at 2. unfold term. f_equal.
    apply sum_ext. intros. f_equal. lia.
  Qed.

  Lemma least_sound c : in_cell next a c -> (lowest c <= low)%nat -> (high <= highest c <= length next)%nat ->
    least_fits high (prepare low high tau (with_pruned most known)) c = true -> 0 <= total next a tau known.
  Proof.
    intros (I1 & I2 & I3) Hl Hh H. unfold least_fits, prepare, with_pruned in H.
    cbn [at_tau of_terms from_low to_high of_constants of_letters of_pruned] in H.
    fold T in H. set (c0 := fst (fst known) - tau * snd (fst known)) in *.
    pose proof (lows_sound next a tau most T Ha HT Htau low O [Some c0] c0 (lowest c) ltac:(lia) Hl) as L.
    assert (start : at_most [Some c0] (state next a 0) c0) by (exists c0; split; [trivial|lia]).
    specialize (L start). destruct L as (e & He & le). change (0 + lowest c)%nat with (lowest c) in He; cbn [skipn] in He, le. rewrite I1 in He. rewrite He in H.
    apply Z.leb_le in H.
    pose proof (ups_sound next a tau most T Ha HT Htau (length next - high) high (highest c - high) ltac:(lia) ltac:(lia)) as Up.
    replace (high + (highest c - high))%nat with (highest c) in Up by lia. rewrite I3 in Up.
    pose proof (path_cost_sum (fixed c) (lowest c)) as P. unfold highest in Hh, Up. specialize (P ltac:(lia) I2).
    fold T in P. rewrite P in H. unfold total. fold T. fold f in Up |- *.
    replace (length next) with (lowest c + (length (fixed c) + (length next - highest c)))%nat by (unfold highest; lia).
    rewrite !sum_split. unfold highest in *. fold c0.
    rewrite (sum_ext (length next - high - (lowest c + length (fixed c) - high)) _
      (fun i => f (lowest c + (length (fixed c) + i))%nat)) in Up by (intros; f_equal; lia).
    replace (length next - high - (lowest c + length (fixed c) - high))%nat
      with (length next - (lowest c + length (fixed c)))%nat in Up by lia.
    assert (le' : e <= c0 + sum (lowest c) f) by exact le. lia.
  Qed.
End LeastOfCell.

Lemma nobody_sound next a low c : word next a -> (low <= length next)%nat ->
  nobody_in low (beginnings next low) c = true -> in_cell next a c -> False.
Proof.
  intros Ha Hlow H (I1 & _). unfold nobody_in in H. apply andb_true_iff in H as [Hl H]. apply Nat.leb_le in Hl.
  assert (start : at_most [Some 0] (state next a 0) 0) by (exists 0; split; [trivial|lia]).
  destruct (lows_sound next a 0 0 (without_terms next) Ha (over_without next) (Z.le_refl 0) low O [Some 0] 0 (lowest c) ltac:(lia) Hl start)
    as (e & He & _).
  change (0 + lowest c)%nat with (lowest c) in He; cbn [skipn] in He. rewrite I1 in He. fold (beginnings next low) in He. rewrite He in H. discriminate.
Qed.
