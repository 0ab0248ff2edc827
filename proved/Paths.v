(** Words read by an automaton, and the least sum over all words of a cell.

    A word is a sequence of letters; a state runs along. A sum has one term N - tau E for each letter, which depends on
    the letter and the state before it. Over all beginnings that lead to a state, and over all ends that follow one, the
    least sum is a shortest path: it is found letter by letter. *)

Require Export Proved.Matrix.
Open Scope Z_scope.

(** * Automata *)

(** What a position is fed: always the same token, or by letter number l and the state before it. Tables are
    [state][letter]. *)
Inductive source := Constant (v : nat) | Letter (l : nat) (table : list (list nat)).

Definition look {A} (table : list (list A)) (s x : nat) (default : A) : A := nth x (nth s table []) default.

(** Words are functions: [a l] is letter number l. The first state is 0. *)
Fixpoint state (next : list (list (list nat))) (a : nat -> nat) (l : nat) : nat :=
  match l with
  | O => O
  | S m => look (nth m next []) (state next a m) (a m) O
  end.

(** Every letter is one that the state before it allows. *)
Definition word (next : list (list (list nat))) (a : nat -> nat) : Prop :=
  forall l, (l < length next)%nat -> (a l < length (nth (state next a l) (nth l next []) []))%nat.

Definition fed_token (next : list (list (list nat))) (from : source) (a : nat -> nat) : nat :=
  match from with
  | Constant v => v
  | Letter l table => look table (state next a l) (a l) O
  end.

(** A table has an entry wherever the automaton has one. *)
Definition same_shape (next : list (list (list nat))) (from : source) : bool :=
  match from with
  | Constant _ => true
  | Letter l table =>
      if list_eq_dec Nat.eq_dec (map (@length nat) table) (map (@length nat) (nth l next [])) then Nat.ltb l (length next)
      else false
  end.

Definition feeds (from : source) : list nat :=
  match from with Constant v => [v] | Letter _ table => nodup Nat.eq_dec (concat table) end.

Lemma row_length {A B} (xs : list (list A)) (ys : list (list B)) s :
  map (@length A) xs = map (@length B) ys -> length (nth s xs []) = length (nth s ys []).
Proof.
  revert ys s. induction xs as [|x xs IH]; intros [|y ys] s H; try discriminate; [destruct s; trivial|].
  simpl in H. injection H as H0 H1. destruct s; simpl; auto.
Qed.

Section Words.
  Variables (next : list (list (list nat))) (a : nat -> nat).
  Hypothesis Ha : word next a.
  Let st := state next a.

  Lemma in_range l : (l < length next)%nat -> (st l < length (nth l next []))%nat.
  Proof.
    intros H. pose proof (Ha l H) as B. fold st in B. destruct (Nat.lt_ge_cases (st l) (length (nth l next []))); trivial.
    rewrite (nth_overflow (nth l next [])) in B by trivial. simpl in B. lia.
  Qed.

  Lemma fed_feeds from : same_shape next from = true -> In (fed_token next from a) (feeds from).
  Proof.
    destruct from as [v|l table]; simpl; [auto|]. destruct (list_eq_dec _ _ _) as [same|]; [|discriminate].
    intros Hl. apply Nat.ltb_lt in Hl. pose proof (Ha l Hl) as B. pose proof (in_range l Hl) as S.
    fold st in B. apply nodup_In, in_concat. exists (nth (st l) table []). split.
    - apply nth_In. rewrite <- (map_length (@length nat)), same, map_length. trivial.
    - unfold look. apply nth_In. rewrite (row_length _ _ _ same). trivial.
  Qed.
End Words.

(** * Tables of terms *)

(** For each letter, state and symbol: the state after it, N and E. *)
Definition entry_ : Set := nat * (Z * Z).
Definition terms : Set := list (list (list entry_)).
Definition cost (tau : Z) (e : entry_) : Z := fst (snd e) - tau * snd (snd e).
Definition nothing : entry_ := (O, (0, 0)).
Definition term (next : list (list (list nat))) (T : terms) (tau : Z) (a : nat -> nat) (l : nat) : Z :=
  cost tau (look (nth l T []) (state next a l) (a l) nothing).

(** T has an entry for each entry of the automaton, with the same next state. *)
Definition over (next : list (list (list nat))) (T : terms) : Prop :=
  map (map (map fst)) T = next.

Fixpoint change {A} (i : nat) (f : A -> A) (xs : list A) : list A :=
  match xs, i with
  | [], _ => []
  | x :: xs, O => f x :: xs
  | x :: xs, S i => x :: change i f xs
  end.

Lemma nth_change {A} i (f : A -> A) xs j d : (i < length xs)%nat ->
  nth j (change i f xs) d = if Nat.eqb j i then f (nth j xs d) else nth j xs d.
Proof.
  revert i j. induction xs as [|x xs IH]; intros i j H; simpl in *; [lia|].
  destruct i, j; simpl; trivial. apply IH. lia.
Qed.

Lemma change_length {A} i (f : A -> A) xs : length (change i f xs) = length xs.
Proof. revert i. induction xs; destruct i; simpl; auto. Qed.

Definition without_terms (next : list (list (list nat))) : terms := map (map (map (fun s => (s, (0, 0))))) next.

(** What a token brings, added to the entries of one letter. *)
Definition raised (bring : nat -> Z * Z) (e : entry_) (token : nat) : entry_ :=
  let (n, m) := bring token in (fst e, (fst (snd e) + n, snd (snd e) + m)).
Definition brought (bring : nat -> Z * Z) (table : list (list nat)) (rows : list (list entry_)) : list (list entry_) :=
  map2 (map2 (raised bring)) rows table.
Definition with_source (bring : nat -> Z * Z) (from : source) (known : (Z * Z) * terms) : (Z * Z) * terms :=
  let (c, T) := known in
  match from with
  | Constant v => let (n, m) := bring v in ((fst c + n, snd c + m), T)
  | Letter l table => (c, change l (brought bring table) T)
  end.

Lemma map2_fst bring : forall row tokens, length row = length tokens ->
  map fst (map2 (raised bring) row tokens) = map fst row.
Proof.
  induction row as [|e row IH]; intros [|x tokens] H; try discriminate; trivial. simpl. rewrite IH by (simpl in H; lia).
  unfold raised. destruct (bring x). trivial.
Qed.

Lemma brought_fst bring : forall rows table, map (@length nat) table = map (@length entry_) rows ->
  map (map fst) (brought bring table rows) = map (map fst) rows.
Proof.
  unfold brought. induction rows as [|r rows IH]; intros [|x table] H; try discriminate; trivial. simpl in *.
  injection H as H0 H1. rewrite IH by trivial. rewrite map2_fst by lia. trivial.
Qed.

Lemma over_row next T l : over next T -> map (@length entry_) (nth l T []) = map (@length nat) (nth l next []).
Proof.
  unfold over. intros <-. revert l. induction T as [|rows T IH]; intros l; [destruct l; trivial|].
  destruct l as [|l]; simpl; [|apply IH]. rewrite map_map. apply map_ext. intros. rewrite map_length. trivial.
Qed.

Lemma over_length next T : over next T -> length T = length next.
Proof. unfold over. intros <-. rewrite map_length. trivial. Qed.

Lemma change_over next T l bring table :
  over next T -> map (@length nat) table = map (@length nat) (nth l next []) ->
  over next (change l (brought bring table) T).
Proof.
  unfold over. intros H same. pose proof (over_row next T l H) as R. rewrite <- same in R. clear same. revert R.
  revert next H l. induction T as [|rows T IH]; intros next H l R; [destruct l; trivial|].
  destruct l as [|l]; simpl in *; subst next.
  - rewrite brought_fst by auto. trivial.
  - f_equal. apply IH; trivial.
Qed.

Lemma sum_change n f g i delta : (i < n)%nat -> (forall j, (j < n)%nat -> j <> i -> g j = f j) -> g i = f i + delta ->
  sum n g = sum n f + delta.
Proof.
  induction n as [|n IH]; intros Hi same at_i; simpl; [lia|]. destruct (Nat.eq_dec i n) as [->|ne].
  - rewrite at_i, (sum_ext n g f); [lia|]. intros. apply same; lia.
  - rewrite IH by (try apply same; try lia; trivial; intros; apply same; lia). rewrite (same n) by lia. lia.
Qed.

Section Terms.
  Variables (next : list (list (list nat))) (a : nat -> nat) (tau : Z).
  Hypothesis Ha : word next a.
  Let st := state next a.

  (** The constant's sum and that of a word. *)
  Definition total (known : (Z * Z) * terms) : Z :=
    fst (fst known) - tau * snd (fst known) + sum (length next) (term next (snd known) tau a).

  Lemma total_without : total ((0, 0), without_terms next) = 0.
  Proof.
    unfold total; simpl. rewrite (sum_ext _ _ (fun _ => 0)); [rewrite sum_zero; lia|]. intros l Hl. unfold term, without_terms.
    pose proof (Ha l Hl) as B. pose proof (in_range next a Ha l Hl) as S. unfold look.
    rewrite (nth_map _ next l [] []) by trivial. rewrite (nth_map _ (nth l next []) _ [] []) by trivial.
    rewrite (nth_map _ _ _ O nothing) by trivial. unfold cost. simpl. lia.
  Qed.

  Lemma over_without : over next (without_terms next).
  Proof.
    unfold over, without_terms. rewrite map_map. rewrite <- (map_id next) at 2. apply map_ext. intros rows.
    rewrite map_map. rewrite <- (map_id rows) at 2. apply map_ext. intros row. rewrite map_map. apply map_id.
  Qed.

  Lemma with_source_total bring from known : over next (snd known) -> same_shape next from = true ->
    over next (snd (with_source bring from known))
    /\ total (with_source bring from known)
       = total known + (fst (bring (fed_token next from a)) - tau * snd (bring (fed_token next from a))).
  Proof.
    destruct known as [c T]. intros H fits. cbn [snd] in H. unfold with_source. destruct from as [v|l table].
    - cbn [fed_token]. unfold total. destruct (bring v) as [n m]. cbn [fst snd]. split; [trivial|lia].
    - cbn [same_shape] in fits. destruct (list_eq_dec _ _ _) as [same|]; [|discriminate]. apply Nat.ltb_lt in fits.
      cbn [snd fed_token]. split; [apply change_over; trivial|]. unfold total; cbn [fst snd]. rewrite <- Z.add_assoc. f_equal.
      apply sum_change with l; trivial.
      + intros j Hj ne. unfold term. rewrite nth_change by (rewrite (over_length next T); trivial).
        rewrite (proj2 (Nat.eqb_neq j l) ne). trivial.
      + unfold term. rewrite nth_change by (rewrite (over_length next T); trivial). rewrite Nat.eqb_refl.
        pose proof (Ha l fits) as B. pose proof (in_range next a Ha l fits) as S. fold st in B, S.
        pose proof (over_row next T l H) as R. assert (lengths : length (nth l T []) = length (nth l next [])).
        { rewrite <- (map_length (@length entry_)), R, map_length. trivial. }
        assert (lengths' : length table = length (nth l next [])).
        { rewrite <- (map_length (@length nat)), same, map_length. trivial. }
        unfold look, brought. rewrite (nth_map2 _ (length (nth l next [])) _ _ _ [] [] []) by trivial.
        rewrite (nth_map2 _ (length (nth (st l) (nth l next []) [])) _ _ _ nothing O nothing);
          [|apply row_length; trivial|apply row_length; trivial|trivial].
        unfold raised, st. destruct (bring (nth (a l) (nth (state next a l) table []) O)) as [n m].
        unfold cost; cbn [fst snd]. lia.
  Qed.
End Terms.

(** * Least sums over beginnings *)

(** For each state a number, or none where no beginning leads. *)
Definition reached : Set := list (option Z).

Fixpoint put (s : nat) (v : Z) (d : reached) : reached :=
  match s, d with
  | O, Some e :: r => Some (Z.min v e) :: r
  | O, None :: r => Some v :: r
  | O, [] => [Some v]
  | S s, e :: r => e :: put s v r
  | S s, [] => None :: put s v []
  end.

Definition at_most (d : reached) (s : nat) (v : Z) : Prop := exists e, nth s d None = Some e /\ e <= v.

Lemma put_here s v d : at_most (put s v d) s v.
Proof.
  revert d. induction s as [|s IH]; intros [|[e|] d]; simpl; unfold at_most; simpl; try (eexists; split; [reflexivity|lia]);
    try apply IH.
Qed.

Lemma put_keeps s v d s' u : at_most d s' u -> at_most (put s v d) s' u.
Proof.
  unfold at_most. revert d s'. induction s as [|s IH]; intros d s' (e & H & le).
  - destruct d as [|x d]; [destruct s'; discriminate|]. destruct s' as [|s']; simpl in *; subst.
    + exists (Z.min v e). split; [trivial|lia].
    + exists e. destruct x; split; trivial.
  - destruct d as [|x d]; [destruct s'; discriminate|]. destruct s' as [|s']; simpl in *.
    + exists e. split; trivial.
    + apply IH. exists e. split; trivial.
Qed.

Definition follow (tau start : Z) (d : reached) (e : entry_) : reached := put (fst e) (start + cost tau e) d.

Lemma follow_keeps tau start row : forall d s u, at_most d s u -> at_most (fold_left (follow tau start) row d) s u.
Proof. induction row as [|e row IH]; intros d s u H; simpl; trivial. apply IH. apply put_keeps. trivial. Qed.

Lemma follow_all tau start row : forall d e, In e row ->
  at_most (fold_left (follow tau start) row d) (fst e) (start + cost tau e).
Proof.
  induction row as [|x row IH]; intros d e H; [destruct H|]. destruct H as [->|H]; simpl; [|apply IH; trivial].
  apply follow_keeps. apply put_here.
Qed.

(** All rows, each from what its state costs. *)
Fixpoint relax (tau : Z) (from : reached) (rows : list (list entry_)) (d : reached) : reached :=
  match from, rows with
  | Some start :: from, row :: rows => relax tau from rows (fold_left (follow tau start) row d)
  | None :: from, _ :: rows => relax tau from rows d
  | _, _ => d
  end.

Lemma relax_keeps tau from : forall rows d s u, at_most d s u -> at_most (relax tau from rows d) s u.
Proof.
  induction from as [|[start|] from IH]; intros [|row rows] d s u H; simpl; trivial; apply IH; trivial.
  apply follow_keeps. trivial.
Qed.

Lemma relax_all tau from : forall rows d s start e, nth s from None = Some start -> In e (nth s rows []) ->
  at_most (relax tau from rows d) (fst e) (start + cost tau e).
Proof.
  induction from as [|x from IH]; intros rows d s start e H Hin; [destruct s; discriminate|].
  destruct rows as [|row rows]; [destruct s; destruct Hin|]. destruct s as [|s]; simpl in H, Hin.
  - subst x. simpl. apply relax_keeps. apply follow_all. trivial.
  - destruct x; simpl; apply (IH rows _ s); trivial.
Qed.

Fixpoint lows (tau : Z) (d : reached) (T : terms) : list reached :=
  d :: match T with [] => [] | rows :: T => lows tau (relax tau d rows []) T end.

(** * Least sums over ends *)

Definition ahead (tau : Z) (behind : list Z) (e : entry_) : Z := cost tau e + nth (fst e) behind 0.

Definition row_least (tau : Z) (behind : list Z) (row : list entry_) : Z :=
  match row with
  | [] => 0
  | e :: row => fold_left (fun m x => Z.min m (ahead tau behind x)) row (ahead tau behind e)
  end.

Lemma fold_min_le (f : entry_ -> Z) row : forall m, fold_left (fun m x => Z.min m (f x)) row m <= m.
Proof. induction row as [|e row IH]; intros m; simpl; [lia|]. specialize (IH (Z.min m (f e))). lia. Qed.

Lemma fold_min_all (f : entry_ -> Z) row : forall m e, In e row -> fold_left (fun m x => Z.min m (f x)) row m <= f e.
Proof.
  induction row as [|x row IH]; intros m e H; [destruct H|]. destruct H as [->|H]; simpl; [|apply IH; trivial].
  pose proof (fold_min_le f row (Z.min m (f e))). lia.
Qed.

Lemma row_least_le tau behind row e : In e row -> row_least tau behind row <= ahead tau behind e.
Proof.
  destruct row as [|x row]; intros H; [destruct H|]. destruct H as [->|H]; simpl.
  - apply fold_min_le.
  - apply (fold_min_all (ahead tau behind)). trivial.
Qed.

Fixpoint ups (tau : Z) (T : terms) : list (list Z) :=
  match T with
  | [] => [[]]
  | rows :: T =>
      match ups tau T with
      | [] => []
      | behind :: rest => map (row_least tau behind) rows :: behind :: rest
      end
  end.

(** * Entries that are least nowhere between -most and most are left out *)

Definition better (most : Z) (f e : entry_) : Prop :=
  fst f = fst e /\ forall tau, Z.abs tau <= most -> cost tau f <= cost tau e.
Definition beats (most : Z) (e f : entry_) : bool :=
  Nat.eqb (fst f) (fst e) && (cost most f <=? cost most e) && (cost (- most) f <=? cost (- most) e).

Fixpoint pruned (most : Z) (kept row : list entry_) : list entry_ :=
  match row with
  | [] => kept
  | e :: row => if existsb (beats most e) kept then pruned most kept row
                else pruned most (e :: filter (fun f => negb (beats most f e)) kept) row
  end.
Definition pruned_terms (most : Z) (T : terms) : terms := map (map (pruned most [])) T.

Lemma better_refl most e : better most e e.
Proof. split; [trivial|]. intros. lia. Qed.

Lemma better_trans most e f g : better most f e -> better most g f -> better most g e.
Proof.
  intros [H1 H2] [H3 H4]. split; [congruence|]. intros tau Ht. specialize (H2 tau Ht). specialize (H4 tau Ht). lia.
Qed.

(** A line that is not above another at both ends is not above it between them. *)
Lemma beats_better most e f : beats most e f = true -> better most f e.
Proof.
  unfold beats. rewrite !andb_true_iff. intros [[H1 H2] H3]. apply Nat.eqb_eq in H1. apply Z.leb_le in H2, H3.
  split; [trivial|]. intros tau Ht. unfold cost in *. set (n := fst (snd e) - fst (snd f)) in *.
  set (m := snd (snd e) - snd (snd f)) in *. assert (0 <= n - most * m) by (unfold n, m; lia).
  assert (0 <= n + most * m) by (unfold n, m; lia). assert (0 <= n - tau * m); [|unfold n, m in *; lia].
  destruct (Z_le_gt_dec 0 m); nia.
Qed.

Lemma pruned_keeps most row : forall kept e, (exists f, In f (kept ++ row) /\ better most f e) ->
  exists f, In f (pruned most kept row) /\ better most f e.
Proof.
  induction row as [|x row IH]; intros kept e (f & Hf & B); simpl.
  - exists f. rewrite app_nil_r in Hf. auto.
  - destruct (existsb (beats most x) kept) eqn:beaten; apply IH.
    + apply in_app_or in Hf as [Hf|[<-|Hf]].
      * exists f. split; [apply in_or_app; left|]; trivial.
      * apply existsb_exists in beaten as (g & Hg & beaten). exists g. split; [apply in_or_app; left; trivial|].
        apply (better_trans _ _ x); trivial. apply beats_better. trivial.
      * exists f. split; [apply in_or_app; right|]; trivial.
    + apply in_app_or in Hf as [Hf|[<-|Hf]].
      * destruct (beats most f x) eqn:lost.
        -- exists x. split; [left; trivial|]. apply (better_trans _ _ f); trivial. apply beats_better. trivial.
        -- exists f. split; [|trivial]. right. apply in_or_app. left. apply filter_In. rewrite lost. auto.
      * exists x. split; [left|]; trivial.
      * exists f. split; [|trivial]. right. apply in_or_app. right. trivial.
Qed.

Lemma sum_split n m (g : nat -> Z) : sum (n + m) g = sum n g + sum m (fun i => g (n + i)%nat).
Proof. induction m as [|m IH]; simpl; [rewrite Nat.add_0_r; lia|]. rewrite Nat.add_succ_r. simpl. lia. Qed.

Lemma skipn_nth {A} (xs : list A) i d : (i < length xs)%nat -> skipn i xs = nth i xs d :: skipn (S i) xs.
Proof.
  revert i. induction xs as [|x xs IH]; intros i H; simpl in H; [lia|]. destruct i; [trivial|].
  cbn [skipn nth]. rewrite (IH i) by lia. trivial.
Qed.

Section Least.
  Variables (next : list (list (list nat))) (a : nat -> nat) (tau most : Z) (T : terms).
  Hypothesis Ha : word next a.
  Hypothesis HT : over next T.
  Hypothesis Htau : Z.abs tau <= most.
  Let P := pruned_terms most T.
  Let st := state next a.
  Let f := term next T tau a.

  (** The entry that a word meets at letter l is one of T's, and leads to the word's next state. *)
  Lemma met l : (l < length next)%nat ->
    In (look (nth l T []) (st l) (a l) nothing) (nth (st l) (nth l T []) [])
    /\ fst (look (nth l T []) (st l) (a l) nothing) = st (S l).
  Proof.
    intros Hl. pose proof (Ha l Hl) as B. pose proof (in_range next a Ha l Hl) as S0. fold st in B, S0.
    pose proof (over_row next T l HT) as R.
    assert (rows : length (nth l T []) = length (nth l next [])).
    { rewrite <- (map_length (@length entry_)), R, map_length. trivial. }
    assert (row : length (nth (st l) (nth l T []) []) = length (nth (st l) (nth l next []) [])).
    { apply row_length. trivial. }
    unfold look. split; [apply nth_In; lia|].
    unfold st. simpl. fold st. unfold look. pose proof HT as E. unfold over in E. rewrite <- E.
    rewrite (nth_map _ T l [] []) by (rewrite (over_length next T); trivial).
    rewrite (nth_map _ (nth l T []) _ [] []) by lia. rewrite (nth_map _ _ _ nothing O) by lia. trivial.
  Qed.

  Lemma pruned_length : length P = length next.
  Proof. unfold P, pruned_terms. rewrite map_length. apply over_length. trivial. Qed.

  (** So does an entry of the pruned table, which costs no more. *)
  Lemma met_pruned l : (l < length next)%nat -> exists e, In e (nth (st l) (nth l P []) [])
    /\ fst e = st (S l) /\ cost tau e <= f l.
  Proof.
    intros Hl. destruct (met l Hl) as [Hin Hst]. set (e := look (nth l T []) (st l) (a l) nothing) in *.
    assert (L : (l < length T)%nat) by (rewrite (over_length next T); trivial).
    assert (S0 : (st l < length (nth l T []))%nat).
    { destruct (Nat.lt_ge_cases (st l) (length (nth l T []))) as [|ge]; trivial.
      rewrite (nth_overflow _ _ ge) in Hin. destruct Hin. }
    destruct (pruned_keeps most (nth (st l) (nth l T []) []) [] e) as (g & Hg & B1 & B2).
    { exists e. split; [trivial|apply better_refl]. }
    exists g. unfold P, pruned_terms. rewrite (nth_map _ T l []) by trivial. rewrite (nth_map _ _ _ []) by trivial.
    split; [trivial|]. split; [congruence|]. apply (B2 tau Htau).
  Qed.

  Lemma lows_sound : forall many start d c i, (start + many <= length next)%nat -> (i <= many)%nat ->
    at_most d (st start) c ->
    at_most (nth i (lows tau d (firstn many (skipn start P))) []) (st (start + i)) (c + sum i (fun k => f (start + k)%nat)).
  Proof.
    induction many as [|many IH]; intros start d c i Hm Hi H.
    - assert (i = O) by lia. subst i. simpl. rewrite Nat.add_0_r, Z.add_0_r. trivial.
    - destruct i as [|i].
      + destruct (firstn (S many) (skipn start P)); simpl; rewrite Nat.add_0_r, Z.add_0_r; trivial.
      + rewrite (skipn_nth P start []) by (rewrite pruned_length; lia). cbn [firstn lows nth]. rewrite sum_first, Nat.add_0_r, Z.add_assoc.
        replace (start + S i)%nat with (S start + i)%nat by lia.
        rewrite (sum_ext i (fun k => f (start + S k)%nat) (fun k => f (S start + k)%nat)) by (intros; f_equal; lia).
        apply IH; [lia|lia|]. destruct H as (e & He & le). destruct (met_pruned start ltac:(lia)) as (g & Hin & Hst & less).
        destruct (relax_all tau d (nth start P []) [] (st start) e _ He Hin) as (e' & He' & le').
        rewrite Hst in He'. exists e'. split; [trivial|]. lia.
  Qed.

  Lemma ups_not_empty X : ups tau X <> [].
  Proof. induction X as [|rows X IH]; simpl; [discriminate|]. destruct (ups tau X); [trivial|discriminate]. Qed.

  Lemma ups_sound : forall many start i, (start + many = length next)%nat -> (i <= many)%nat ->
    nth (st (start + i)) (nth i (ups tau (skipn start P)) []) 0 <= sum (many - i) (fun k => f (start + i + k)%nat).
  Proof.
    induction many as [|many IH]; intros start i Hm Hi.
    - assert (i = O) by lia. subst i. rewrite skipn_all2 by (rewrite pruned_length; lia). simpl.
      destruct (st (start + 0)); simpl; lia.
    - rewrite (skipn_nth P start []) by (rewrite pruned_length; lia). cbn [ups]. pose proof (ups_not_empty (skipn (S start) P)) as some.
      destruct (ups tau (skipn (S start) P)) as [|behind rest] eqn:U; [contradiction|].
      destruct i as [|i].
      + cbn [nth]. rewrite Nat.add_0_r, Nat.sub_0_r, sum_first, Nat.add_0_r.
        destruct (met_pruned start ltac:(lia)) as (g & Hin & Hst & less).
        assert (S0 : (st start < length (nth start P []))%nat).
        { destruct (Nat.lt_ge_cases (st start) (length (nth start P []))) as [|ge]; trivial.
          rewrite (nth_overflow _ _ ge) in Hin. destruct Hin. }
        rewrite (nth_map _ (nth start P []) _ [] 0) by trivial.
        pose proof (row_least_le tau behind _ _ Hin) as le. unfold ahead in le. rewrite Hst in le.
        specialize (IH (S start) O ltac:(lia) ltac:(lia)). rewrite U in IH. cbn [nth] in IH.
        rewrite Nat.add_0_r, Nat.sub_0_r in IH.
        rewrite (sum_ext many (fun i => f (start + S i)%nat) (fun k => f (S start + k)%nat)) by (intros; f_equal; lia).
        lia.
      + specialize (IH (S start) i ltac:(lia) ltac:(lia)). rewrite U in IH.
        replace (start + S i)%nat with (S start + i)%nat by lia. cbn [nth] in *. exact IH.
  Qed.
End Least.
