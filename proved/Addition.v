(** Addition as an automaton: letter l is the pair of l-th lowest digits, the state is the carry, and a last letter of one
    symbol stands for the digit that the last carry is. That it is addition of numbers is proved here. *)

Require Export Proved.Vectors Proved.Paths.
Open Scope nat_scope.

(** * Digits and carries *)

Definition carry (b x y l : nat) : nat := (x mod b ^ l + y mod b ^ l) / b ^ l.

Section Digits.
  Variables (b x y : nat).
  Hypothesis Hb : 2 <= b.

  Lemma power_not_0 l : b ^ l <> 0.
  Proof. apply Nat.pow_nonzero. lia. Qed.

  Lemma carry_0 : carry b x y 0 = 0.
  Proof. unfold carry. simpl. reflexivity. Qed.

  Lemma carry_small l : carry b x y l < 2.
  Proof.
    unfold carry. pose proof (power_not_0 l) as P. apply Nat.div_lt_upper_bound; trivial.
    pose proof (Nat.mod_upper_bound x (b ^ l) P). pose proof (Nat.mod_upper_bound y (b ^ l) P). lia.
  Qed.

  Lemma carry_next l : carry b x y (S l) = (digit b x l + digit b y l + carry b x y l) / b.
  Proof.
    unfold carry, digit. pose proof (power_not_0 l) as P. set (B := b ^ l) in *.
    replace (b ^ S l) with (B * b) by (unfold B; simpl; lia).
    rewrite !Nat.mod_mul_r by lia. rewrite <- Nat.div_div by lia. f_equal.
    replace (x mod B + B * ((x / B) mod b) + (y mod B + B * ((y / B) mod b)))
      with (x mod B + y mod B + ((x / B) mod b + (y / B) mod b) * B) by lia.
    rewrite Nat.div_add by trivial. lia.
  Qed.

  Lemma digit_sum l : digit b (x + y) l = (digit b x l + digit b y l + carry b x y l) mod b.
  Proof.
    unfold carry, digit. pose proof (power_not_0 l) as P. set (B := b ^ l) in *.
    assert (E : (x + y) / B = x / B + y / B + (x mod B + y mod B) / B).
    { pose proof (Nat.div_mod x B P). pose proof (Nat.div_mod y B P).
      replace (x + y) with (x mod B + y mod B + (x / B + y / B) * B) by nia. rewrite Nat.div_add by trivial. lia. }
    rewrite E. set (c := (x mod B + y mod B) / B).
    rewrite (Nat.add_mod (x / B + y / B)), (Nat.add_mod (x / B)) by lia.
    rewrite <- (Nat.add_mod_idemp_l ((x / B) mod b + (y / B) mod b)) by lia.
    rewrite (Nat.add_mod (((x / B) mod b + (y / B) mod b) mod b) c) by lia. rewrite Nat.mod_mod by lia. trivial.
  Qed.

  Lemma digit_small l z : digit b z l < b.
  Proof. unfold digit. apply Nat.mod_upper_bound. lia. Qed.

  (** Numbers below b^l have no digit there, and the sum's digit is the carry. *)
  Lemma digit_last l : x < b ^ l -> y < b ^ l -> digit b (x + y) l = carry b x y l.
  Proof.
    intros Hx Hy. rewrite digit_sum. unfold digit. rewrite !Nat.div_small by trivial. rewrite Nat.mod_0_l by lia.
    simpl. apply Nat.mod_small. pose proof (carry_small l). lia.
  Qed.
End Digits.

(** * The automaton *)

Section Automaton.
  Variable task : addition.
  Let b := base task.
  Let N := size task.

  Definition carries (l : nat) : nat := match l with O => 1 | _ => 2 end.

  (** A letter x b + y, and a table over carries and letters. *)
  Definition over_letters {A} (l : nat) (f : nat -> nat -> nat -> A) : list (list A) :=
    tab (carries l) (fun s => tab (b * b) (fun k => f (k / b) (k mod b) s)).

  Definition sum_next : list (list (list nat)) :=
    map (fun l => over_letters l (fun x y s => (x + y + s) / b)) (seq 0 N) ++ [[[0]; [0]]].

  Definition token_of (digit_ : nat) : nat := nth digit_ (digits task) 0.

  Definition sum_source (p : place) : source :=
    match p with
    | Always v => Constant v
    | First i => Letter i (over_letters i (fun x _ _ => token_of x))
    | Second i => Letter i (over_letters i (fun _ y _ => token_of y))
    | Sum i => if Nat.ltb i N then Letter i (over_letters i (fun x y s => token_of ((x + y + s) mod b)))
               else Letter N [[token_of 0]; [token_of 1]]
    end.

  Definition place_ok (p : place) : bool :=
    match p with Always _ => true | First i => Nat.ltb i N | Second i => Nat.ltb i N | Sum i => Nat.leb i N end.

  Hypothesis Hb : 2 <= b.
  Hypothesis HN : 1 <= N.
  Variables (x y : nat).
  Hypothesis Hx : x < b ^ N.
  Hypothesis Hy : y < b ^ N.

  Definition sum_word (l : nat) : nat := if Nat.ltb l N then digit b x l * b + digit b y l else 0.

  Lemma sum_next_length : length sum_next = S N.
  Proof. unfold sum_next. rewrite app_length, map_length, seq_length. simpl. lia. Qed.

  Lemma sum_next_nth l : l < N -> nth l sum_next [] = over_letters l (fun x y s => (x + y + s) / b).
  Proof.
    intros. unfold sum_next. rewrite app_nth1 by (rewrite map_length, seq_length; trivial).
    rewrite (nth_map _ _ l 0) by (rewrite seq_length; trivial). rewrite seq_nth by trivial. trivial.
  Qed.

  Lemma sum_next_last : nth N sum_next [] = [[0]; [0]].
  Proof.
    unfold sum_next. rewrite app_nth2 by (rewrite map_length, seq_length; apply le_n).
    rewrite map_length, seq_length, Nat.sub_diag. trivial.
  Qed.

  Lemma look_over {A} l (f : nat -> nat -> nat -> A) s default : s < carries l ->
    look (over_letters l f) s (digit b x l * b + digit b y l) default = f (digit b x l) (digit b y l) s.
  Proof.
    intros Hs. unfold look, over_letters. pose proof (digit_small b Hb l x) as Dx. pose proof (digit_small b Hb l y) as Dy.
    rewrite nth_tab by trivial. rewrite nth_tab by nia.
    rewrite Nat.div_add_l by lia. rewrite (Nat.div_small (digit b y l)) by trivial.
    rewrite Nat.add_0_r, (Nat.add_comm (_ * b)), Nat.mod_add by lia. rewrite Nat.mod_small by trivial. trivial.
  Qed.

  Lemma carry_ok l : carry b x y l < carries l.
  Proof. destruct l as [|l]; [rewrite carry_0; simpl; lia|]. apply (carry_small b x y Hb). Qed.

  Lemma state_is_carry l : l <= N -> state sum_next sum_word l = carry b x y l.
  Proof.
    induction l as [|l IH]; intros Hl; [rewrite carry_0; trivial|]. simpl. rewrite IH by lia.
    rewrite sum_next_nth by lia. unfold sum_word. rewrite (proj2 (Nat.ltb_lt l N)) by lia.
    rewrite look_over by apply carry_ok. symmetry. apply carry_next; trivial.
  Qed.

  Lemma sum_word_ok : word sum_next sum_word.
  Proof.
    intros l Hl. rewrite sum_next_length in Hl. rewrite state_is_carry by lia.
    destruct (Nat.eq_dec l N) as [->|ne].
    - rewrite sum_next_last. unfold sum_word. rewrite Nat.ltb_irrefl. pose proof (carry_small b x y Hb N) as C.
      destruct (carry b x y N) as [|[|c]]; simpl; lia.
    - rewrite sum_next_nth by lia. unfold sum_word. rewrite (proj2 (Nat.ltb_lt l N)) by lia. unfold over_letters.
      rewrite nth_tab by apply carry_ok. rewrite tab_length.
      pose proof (digit_small b Hb l x). pose proof (digit_small b Hb l y). nia.
  Qed.

  (** What the automaton feeds at a position is the token of x + y there. *)
  Lemma sum_fed j : place_ok (nth j (template task) (Always 0)) = true ->
    fed_token sum_next (sum_source (nth j (template task) (Always 0))) sum_word = sum_token task x y j.
  Proof.
    unfold sum_token. destruct (nth j (template task) (Always 0)) as [v|i|i|i]; cbn [place_ok]; intros H; trivial;
      try (first [apply Nat.ltb_lt in H|apply Nat.leb_le in H]); cbn [sum_source].
    - cbn [fed_token]. rewrite state_is_carry by lia. unfold sum_word. rewrite (proj2 (Nat.ltb_lt i N)) by lia.
      rewrite look_over by apply carry_ok. trivial.
    - cbn [fed_token]. rewrite state_is_carry by lia. unfold sum_word. rewrite (proj2 (Nat.ltb_lt i N)) by lia.
      rewrite look_over by apply carry_ok. trivial.
    - fold b. destruct (Nat.ltb_spec i N) as [lt|ge]; cbn [fed_token].
      + rewrite state_is_carry by lia. unfold sum_word. rewrite (proj2 (Nat.ltb_lt i N)) by lia.
        rewrite look_over by apply carry_ok. rewrite (digit_sum b x y Hb). trivial.
      + assert (i = N) by lia. subst i. rewrite state_is_carry by lia. rewrite (digit_last b x y Hb) by trivial.
        unfold sum_word. rewrite Nat.ltb_irrefl. pose proof (carry_small b x y Hb N) as C.
        unfold look, token_of. destruct (carry b x y N) as [|[|c]]; simpl; trivial; lia.
  Qed.
End Automaton.
