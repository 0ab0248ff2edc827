(** The theorem about networks that add. *)

Require Export Proved.CheckWords.
Require Import FunctionalExtensionality.
Open Scope R_scope.

(** * The program *)

Definition is_sum (i : nat) (p : place) : bool := match p with Sum k => Nat.eqb i k | _ => false end.

(** Two digits at least, which are different tokens; places that exist; and every digit of the sum is decoded. *)
Definition addition_ok (a : addition) : bool :=
  Nat.leb 2 (base a) && Nat.leb 1 (size a) && Nat.eqb (length (nodup Nat.eq_dec (digits a))) (base a)
  && forallb (place_ok a) (template a) && Nat.ltb (size a + 1) (length (template a))
  && forallb (fun i => existsb (is_sum i) (skipn (given a) (template a))) (seq 0 (size a + 1)).

Definition sum_steps (a : addition) : list step :=
  map (fun j => {| asked_at := j - 1; asks := sum_source a (nth j (template a) (Always 0)); rights_of := fun w => [w] |})
      (seq (given a) (size a + 1))
  ++ match stops a with
     | None => []
     | Some ends => [{| asked_at := length (template a) - 1; asks := Constant 0; rights_of := fun _ => ends |}]
     end.

Definition check_words (n : words_network) (a : addition) (c : words_certificate) : bool :=
  addition_ok a && check_automaton n (sum_next a) (map (sum_source a) (template a)) (sum_steps a) c.

(** * Soundness *)

(** What is read at position t depends on the tokens up to t alone. *)
Lemma logit_same n t u v o : (forall j, (j <= t)%nat -> u j = v j) -> logit n u t o = logit n v t o.
Proof.
  intros same. unfold logit. f_equal. apply functional_extensionality. intros i. unfold residual.
  rewrite (same t) by lia. f_equal. apply rsum_ext. intros h _. unfold attention, attended. rewrite (same t) by lia.
  f_equal; apply rsum_ext; intros j Hj; rewrite (same j) by lia; trivial.
Qed.

Section Sums.
  Variables (n : words_network) (a : addition) (c : words_certificate).
  Hypothesis Hok : check_words n a c = true.
  Variables (x y : nat).
  Hypothesis Hx : (x < base a ^ size a)%nat.
  Hypothesis Hy : (y < base a ^ size a)%nat.
  Let right := sum_token a x y.
  Let margin : R := IZR (margin_num c) / IZR (margin_den c).

  Lemma facts : (2 <= base a)%nat /\ (1 <= size a)%nat /\ (size a + 1 < length (template a))%nat
    /\ (forall p, In p (template a) -> place_ok a p = true)
    /\ (forall i, (i <= size a)%nat -> exists j, (given a <= j < length (template a))%nat /\ nth j (template a) (Always 0) = Sum i)
    /\ check_automaton n (sum_next a) (map (sum_source a) (template a)) (sum_steps a) c = true.
  Proof using Hok.
    clear right x y Hx Hy. unfold check_words, addition_ok in Hok. rewrite !andb_true_iff in Hok.
    destruct Hok as [[[[[[H1 H2] H3] H4] H5] H6] H7]. apply Nat.leb_le in H1, H2. apply Nat.ltb_lt in H5.
    rewrite forallb_forall in H4, H6. do 4 (split; [trivial|]). split; [|trivial].
    intros i Hi. specialize (H6 i ltac:(apply in_seq; lia)). apply existsb_exists in H6 as (p & Hp & is).
    apply (In_nth _ _ (Always 0)) in Hp as (k & Hk & Ek). rewrite skipn_length in Hk. rewrite nth_skipn in Ek.
    exists (given a + k)%nat. split; [unfold given in *; lia|]. rewrite Ek. destruct p; try discriminate. simpl in is.
    apply Nat.eqb_eq in is. subst. trivial.
  Qed.

  Lemma fed_is_right j : (j < length (template a))%nat ->
    fed_tokens (sum_next a) (map (sum_source a) (template a)) (sum_word a x y) j = right j.
  Proof.
    intros Hj. destruct facts as (F1 & F2 & F3 & F4 & _). unfold fed_tokens.
    rewrite (nth_map (sum_source a) (template a) j (Always 0)) by trivial.
    apply (sum_fed a F1 F2 x y Hx Hy). apply F4. apply nth_In. trivial.
  Qed.

  (** The right tokens being before it, a right token leads at every step. *)
  Lemma step_leads st : In st (sum_steps a) -> (asked_at st < length (template a))%nat ->
    let rights := rights_of st (fed_token (sum_next a) (asks st) (sum_word a x y)) in
    exists p, In p rights /\ (p < outputs n)%nat /\ forall o, (o < outputs n)%nat -> ~ In o rights ->
      margin <= logit n right (asked_at st) p - logit n right (asked_at st) o.
  Proof.
    intros Hst Hat. destruct facts as (F1 & F2 & F3 & F4 & F5 & F6).
    destruct (check_automaton_sound _ _ _ _ _ F6) as [_ sound].
    destruct (sound (sum_word a x y) (sum_word_ok a F1 F2 x y Hx Hy) st Hst) as (p & Hp & Hpo & lead).
    exists p. split; [trivial|]. split; [trivial|]. intros o Ho Hnot. specialize (lead o Ho Hnot).
    rewrite (logit_same n _ _ right p), (logit_same n _ _ right o) in lead; [trivial| |]; intros j Hj; apply fed_is_right; lia.
  Qed.

  Lemma digit_leads j : (given a <= j < length (template a))%nat ->
    (right j < outputs n)%nat /\ forall o, (o < outputs n)%nat -> o <> right j ->
      margin <= logit n right (j - 1) (right j) - logit n right (j - 1) o.
  Proof.
    intros Hj. destruct facts as (F1 & F2 & F3 & F4 & F5 & F6).
    set (st := {| asked_at := j - 1; asks := sum_source a (nth j (template a) (Always 0)); rights_of := fun w => [w] |}).
    assert (Hst : In st (sum_steps a)).
    { apply in_or_app. left. apply in_map_iff. exists j. split; [trivial|]. apply in_seq. unfold given in *. lia. }
    assert (E : fed_token (sum_next a) (asks st) (sum_word a x y) = right j).
    { rewrite <- (fed_is_right j) by lia. unfold fed_tokens.
      rewrite (nth_map (sum_source a) (template a) j (Always 0)) by lia. trivial. }
    destruct (step_leads st Hst) as (p & Hp & Hpo & lead); [cbn [st asked_at]; lia|].
    cbn [st rights_of] in Hp, lead. fold st in Hp, lead. rewrite E in Hp, lead. destruct Hp as [<-|[]].
    split; [trivial|]. intros o Ho ne. apply lead; trivial. intros [same|[]]. apply ne. symmetry. trivial.
  Qed.

  Lemma margin_positive : 0 < margin.
  Proof using Hok. destruct facts as (_ & _ & _ & _ & _ & F6). apply (check_automaton_sound _ _ _ _ _ F6). Qed.

  (** Induction over the steps of decoding. *)
  Lemma decoded_right tokens : greedy n a x y tokens -> forall j, (j < length (template a))%nat -> tokens j = right j.
  Proof.
    intros [Hgiven Hread]. intros j. induction j as [j IH] using lt_wf_ind. intros Hj.
    destruct (Nat.lt_ge_cases j (given a)) as [before|decoded]; [apply Hgiven; trivial|].
    destruct facts as (F1 & F2 & F3 & F4 & F5 & F6).
    destruct (Hread j ltac:(lia)) as [Ht best]. destruct (digit_leads j ltac:(lia)) as [Hr lead].
    destruct (Nat.eq_dec (tokens j) (right j)) as [|ne]; [trivial|exfalso].
    specialize (lead (tokens j) Ht ne). specialize (best (right j) Hr). pose proof margin_positive.
    assert (J : (1 <= j)%nat) by (unfold given in decoded; lia).
    rewrite !(logit_same n (j - 1) tokens right) in best by (intros; apply IH; lia). lra.
  Qed.

  Lemma decoded_stop tokens ends : greedy n a x y tokens -> stops a = Some ends -> In (tokens (length (template a))) ends.
  Proof.
    intros Hg Hs. pose proof (decoded_right tokens Hg) as same. destruct Hg as [_ Hread].
    destruct facts as (F1 & F2 & F3 & F4 & F5 & F6). set (L := length (template a)) in *.
    destruct (Hread L) as [Ht best]; [rewrite Hs; unfold given; fold L; lia|].
    set (st := {| asked_at := L - 1; asks := Constant 0; rights_of := fun _ : nat => ends |}).
    assert (Hst : In st (sum_steps a)).
    { apply in_or_app. right. rewrite Hs. left. trivial. }
    destruct (step_leads st Hst) as (p & Hp & Hpo & lead); [cbn [st asked_at]; fold L; lia|].
    cbn [st rights_of asked_at] in Hp, lead. destruct (in_dec Nat.eq_dec (tokens L) ends) as [|out]; [trivial|exfalso].
    specialize (lead (tokens L) Ht out). specialize (best p Hpo). pose proof margin_positive.
    rewrite !(logit_same n (L - 1) tokens right) in best by (intros; apply same; lia). lra.
  Qed.
End Sums.

(** If the program accepts a certificate, then the margin is positive; every digit of the sum is decoded somewhere; and
    for all numbers x and y of the task's size: the tokens before it being those of x + y, the right token's logit exceeds
    that of every other one by at least the margin, at each position that is decoded; and whatever greedy decoding makes
    of x and y are the tokens of x + y, followed, where the task says what may follow, by a token that may. *)
Theorem check_words_sound : forall n a c, check_words n a c = true ->
  0 < IZR (margin_num c) / IZR (margin_den c)
  /\ (forall i, (i <= size a)%nat ->
        exists j, (given a <= j < length (template a))%nat /\ nth j (template a) (Always 0) = Sum i)
  /\ forall x y, (x < base a ^ size a)%nat -> (y < base a ^ size a)%nat ->
     (forall j o, (given a <= j < length (template a))%nat -> (o < outputs n)%nat -> o <> sum_token a x y j ->
        logit n (sum_token a x y) (j - 1) (sum_token a x y j) - logit n (sum_token a x y) (j - 1) o
        >= IZR (margin_num c) / IZR (margin_den c))
     /\ forall tokens, greedy n a x y tokens ->
          (forall j, (j < length (template a))%nat -> tokens j = sum_token a x y j)
          /\ forall ends, stops a = Some ends -> In (tokens (length (template a))) ends.
Proof.
  intros n a c H. split; [apply (margin_positive n a c H)|]. split; [apply (facts n a c H)|].
  intros x y Hx Hy. split.
  - intros j o Hj Ho ne. apply Rle_ge. apply (digit_leads n a c H x y Hx Hy j Hj); trivial.
  - intros tokens Hg. split; [apply (decoded_right n a c H x y Hx Hy tokens Hg)|].
    intros ends Hs. apply (decoded_stop n a c H x y Hx Hy tokens ends Hg Hs).
Qed.
