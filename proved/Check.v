(** The checker and the theorem about it.

    [check n c] is what runs, extracted to OCaml; [check_sound] says what is true of the network [n] whenever it
    answers [true], in the words of [Network]: [logit], [scale], [answer], [in_range]. Nothing is assumed about the
    certificate: its hints may be anything. *)

Require Import Proved.Matrix Proved.Network Proved.Collapse Proved.LowRank.

(** * Certificates *)

Inductive strategy :=
  | Brute                                                    (* every logit *)
  | Moments (as_relu : bool) (basis coefficients : rows_of)  (* a low-rank form of W_L, over 2^shift; |x| first written *)
            (shift : Z) (settled : list (nat * nat)).        (* as ReLU or not; every logit only of settled inputs *)

Record certificate := {
  num : Z; den : Z;                        (* the margin claimed is num / den *)
  certified_inputs : Z;                    (* how many inputs have it *)
  uncertified : list (nat * nat);          (* the others *)
  witnesses : list (nat * nat * nat);      (* (a, b, o): the input a, b is answered o, which is wrong *)
  by_strategy : strategy }.

(** * Lists of inputs as p times p cells *)

Definition grid (A : Type) := list (list (list A)).
Definition cell {A} (g : grid A) (a b : nat) : list A := nth b (nth a g []) [].

Fixpoint update {A} (i : nat) (f : A -> option A) (xs : list A) : option (list A) :=
  match xs, i with
  | [], _ => None
  | x :: xs, O => match f x with Some y => Some (y :: xs) | None => None end
  | x :: xs, S i => match update i f xs with Some ys => Some (x :: ys) | None => None end
  end.

(** [once]: a cell that holds something takes nothing more. *)
Definition put {A} (once : bool) (x : A) (held : list A) : option (list A) :=
  match once, held with
  | true, _ :: _ => None
  | _, _ => Some (x :: held)
  end.

Fixpoint place {A} (once : bool) (items : list (nat * nat * A)) (g : grid A) : option (grid A) :=
  match items with
  | [] => Some g
  | (a, b, x) :: items => match update a (update b (put once x)) g with
                          | Some g => place once items g
                          | None => None
                          end
  end.

Definition empty {A} (q : nat) : grid A := repeat (repeat [] q) q.

Lemma update_spec {A} (d : A) i f xs ys : update i f xs = Some ys ->
  (i < length xs)%nat /\ length ys = length xs /\ f (nth i xs d) = Some (nth i ys d)
  /\ forall j, j <> i -> nth j ys d = nth j xs d.
Proof.
  revert i ys. induction xs as [|x xs IH]; intros [|i] ys H; simpl in H; try discriminate.
  - destruct (f x) eqn:Hf; [|discriminate]. injection H as <-. simpl. repeat split; trivial; [lia|].
    intros [|j] ne; trivial. lia.
  - destruct (update i f xs) eqn:Hu; [|discriminate]. injection H as <-. destruct (IH _ _ Hu) as (lt & len & at_i & rest).
    simpl. repeat split; [lia|lia|trivial|]. intros [|j] ne; trivial. apply rest. lia.
Qed.

Definition square {A} (q : nat) (g : grid A) : Prop := length g = q /\ forall a, (a < q)%nat -> length (nth a g []) = q.

Lemma empty_square {A} q : @square A q (empty q).
Proof.
  split; [apply repeat_length|]. intros a Ha. unfold empty.
  rewrite (nth_indep _ _ (repeat [] q)), nth_repeat by (rewrite repeat_length; trivial). apply repeat_length.
Qed.

Lemma empty_cell {A} q a b : @cell A (empty q) a b = [].
Proof.
  unfold cell, empty. destruct (Nat.lt_ge_cases a q).
  - rewrite (nth_indep _ _ (repeat [] q)), nth_repeat by (rewrite repeat_length; trivial). apply nth_repeat.
  - rewrite (nth_overflow (repeat _ q)) by (rewrite repeat_length; trivial). destruct b; trivial.
Qed.

Lemma put_in_cell {A} once (x : A) a b g g' q : square q g -> update a (update b (put once x)) g = Some g' ->
  (a < q)%nat /\ (b < q)%nat /\ square q g' /\ cell g' a b = x :: cell g a b /\ (once = true -> cell g a b = [])
  /\ forall a' b', (a', b') <> (a, b) -> cell g' a' b' = cell g a' b'.
Proof.
  intros [Hl Hrows] H. destruct (update_spec [] _ _ _ _ H) as (Ha & Hlen & Hrow & Hother).
  destruct (update_spec [] _ _ _ _ Hrow) as (Hb & Hlen' & Hput & Hother'). rewrite Hl in Ha.
  assert (Hput' : put once x (cell g a b) = Some (cell g' a b)) by exact Hput.
  split; [trivial|]. split; [rewrite Hrows in Hb; trivial|]. split; [|split; [|split]].
  - split; [lia|]. intros a' Ha'. destruct (Nat.eq_dec a' a) as [->|ne]; [rewrite Hlen'; auto|].
    rewrite Hother by trivial. auto.
  - unfold put in Hput'. destruct once, (cell g a b); congruence.
  - unfold put in Hput'. intros ->. destruct (cell g a b); congruence.
  - intros a' b' ne. unfold cell. destruct (Nat.eq_dec a' a) as [->|ne']; [|rewrite Hother; trivial].
    apply Hother'. congruence.
Qed.

(** What is in the cells is what was listed, and everything listed is an input. With [once] nothing is listed twice. *)
Lemma place_spec {A} once (items : list (nat * nat * A)) g g' q : square q g -> place once items g = Some g' ->
  (forall a b x, In x (cell g' a b) <-> In x (cell g a b) \/ In (a, b, x) items)
  /\ (forall a b x, In (a, b, x) items -> (a < q)%nat /\ (b < q)%nat)
  /\ (once = true -> NoDup (map fst items) /\ forall a b, In (a, b) (map fst items) -> cell g a b = []).
Proof.
  revert g. induction items as [|[[a b] x] items IH]; intros g Hg H; simpl in H.
  - injection H as <-. split; [simpl; tauto|]. split; [simpl; tauto|]. intros _. split; [constructor|simpl; tauto].
  - destruct (update a (update b (put once x)) g) as [h|] eqn:Hu; [|discriminate].
    destruct (put_in_cell _ _ _ _ _ _ q Hg Hu) as (Ha & Hb & Hh & Hcell & Hempty & Hrest).
    destruct (IH h Hh H) as (Hin & Hrange & Honce). split; [|split].
    + intros a' b' x'. rewrite Hin. destruct (Nat.eq_dec a' a) as [->|ne].
      * destruct (Nat.eq_dec b' b) as [->|ne].
        -- rewrite Hcell. simpl. split; intros; [|tauto || idtac].
           ++ destruct H0 as [[->|]|]; tauto.
           ++ destruct H0 as [|[E|]]; [tauto|injection E; tauto|tauto].
        -- rewrite Hrest by congruence. simpl. split; intros [|]; try tauto. destruct H0 as [E|]; [congruence|tauto].
      * rewrite Hrest by congruence. simpl. split; intros [|]; try tauto. destruct H0 as [E|]; [congruence|tauto].
    + simpl. intros a' b' x' [E|E]; [injection E as <- <- <-; tauto|eauto].
    + intros ->. destruct (Honce eq_refl) as [Hdup Hfree]. simpl.
      assert (fresh : ~ In (a, b) (map fst items)).
      { intros E. apply Hfree in E. rewrite Hcell in E. discriminate. }
      split; [constructor; trivial|]. intros a' b' [E|E]; [injection E as <- <-; auto|].
      rewrite <- Hrest; [auto|]. intros same. rewrite same in E. contradiction.
Qed.

(** * One input *)

(** Every score but that of c is at most [top]. *)
Fixpoint others_at_most (c : nat) (top : Z) (scores : list Z) : bool :=
  match scores, c with
  | [], _ => true
  | _ :: scores, O => forallb (fun x => x <=? top) scores
  | x :: scores, S c => (x <=? top) && others_at_most c top scores
  end.

(** The score of c exceeds every other one by [gap]. *)
Definition leads (c : nat) (gap : Z) (scores : list Z) : bool :=
  match nth_error scores c with
  | Some x => others_at_most c (x - gap) scores
  | None => false
  end.

Lemma others_at_most_spec c top scores : others_at_most c top scores = true ->
  forall o, (o < length scores)%nat -> o <> c -> nth o scores 0 <= top.
Proof.
  revert c. induction scores as [|x scores IH]; intros c H o Ho ne; [simpl in Ho; lia|].
  destruct c; simpl in H.
  - destruct o; [lia|]. rewrite forallb_forall in H. simpl in *. apply Z.leb_le, H, nth_In. lia.
  - apply andb_true_iff in H as [Hx H]. destruct o; [simpl; lia|]. simpl in *. apply (IH c); trivial; lia.
Qed.

Lemma leads_spec c gap scores : leads c gap scores = true -> (c < length scores)%nat
  /\ forall o, (o < length scores)%nat -> o <> c -> nth o scores 0 + gap <= nth c scores 0.
Proof.
  unfold leads. destruct (nth_error scores c) as [x|] eqn:Hx; [|discriminate]. intros H.
  assert (Hc : (c < length scores)%nat) by (apply nth_error_Some; congruence). split; trivial. intros o Ho ne.
  pose proof (others_at_most_spec _ _ _ H o Ho ne). rewrite (nth_error_nth scores c 0 Hx). lia.
Qed.

(** One score is above another by more than the loss. *)
Definition ahead (c o : nat) (loss : Z) (scores : list Z) : bool :=
  match nth_error scores c, nth_error scores o with Some x, Some y => Z.ltb (y + loss) x | _, _ => false end.

Lemma ahead_spec c o loss scores : ahead c o loss scores = true ->
  (o < length scores)%nat /\ nth c scores 0 - nth o scores 0 > loss.
Proof.
  unfold ahead. destruct (nth_error scores c) as [x|] eqn:Hx; [|discriminate].
  destruct (nth_error scores o) as [y|] eqn:Hy; [|discriminate]. intros H. apply Z.ltb_lt in H.
  split; [apply nth_error_Some; congruence|].
  rewrite (nth_error_nth scores c 0 Hx), (nth_error_nth scores o 0 Hy). lia.
Qed.

(** The margin is proved, unless the input is left out, and each witness is shown. *)
Definition input_ok (right : nat) (bar : Z) (skipped : list unit) (answered : list nat) (bound : list Z * Z) : bool :=
  let (scores, loss) := bound in
  match skipped with [] => leads right (bar + loss) scores | _ => true end
  && forallb (fun o => negb (Nat.eqb o right) && leads o loss scores && ahead o right loss scores) answered.

(** * All inputs *)

Definition first_failing (n : network) (bar : Z) (skipped : grid unit) (answered : grid nat)
    (bound : nat -> nat -> list Z * Z) : option (nat * nat) :=
  find (fun ab => let (a, b) := ab : nat * nat in
                  negb (input_ok (answer n a b) bar (cell skipped a b) (cell answered a b) (bound a b)))
       (list_prod (seq 0 (p n)) (seq 0 (p n))).

Definition brute_bound (f : activation) (k : collapsed) (a b : nat) : list Z * Z :=
  (exact_scores k (layer f k a b) (skips k a b), 0).

(** No logit is formed unless the input is settled. *)
Definition moments_bound (f : activation) (k : collapsed) (l : low_rank) (settled : grid unit) (a b : nat) : list Z * Z :=
  match cell settled a b with
  | [] => low_scores l (layer f k a b) (skips k a b)
  | _ => brute_bound f k a b
  end.

(** [scale n] is 2^(scale_bits n). *)
Definition scale_bits (n : network) : N :=
  match body n with
  | Mlp _ _ _ => ones (degree (act n) + 1)
  | Transformer _ => ones (5 * degree (act n) + 2)
  end.

(** The margin num / den in the units of the tables, rounded up; logits are finer by 2^more. *)
Definition bar_of (n : network) (k : collapsed) (more : N) (num den : Z) : Z :=
  let m := N.min (lift k) (scale_bits n) in
  - ((- (num * pow2 (more + scale_bits n - m))) / (den * pow2 (lift k - m))).

(** * The verdict *)

(** Tasks that are formulas are about units, or about a prime modulus; a table has an answer for each input. *)
Definition is_prime (m : Z) : bool :=
  (1 <? m) && forallb (fun d => negb (m mod (Z.of_nat d) =? 0)) (seq 2 (Z.to_nat m - 2)).
Definition task_fits (n : network) : bool :=
  let m := Z.of_nat (p n) in
  match asked n with
  | Linear alpha beta => (Z.gcd alpha m =? 1) && (Z.gcd beta m =? 1)
  | Multiply0 => is_prime m
  | Multiply | Divide => is_prime (m + 1)
  | Table answers => Nat.eqb (length answers) (p n)
      && forallb (fun row => Nat.eqb (length row) (p n) && forallb (fun x => Nat.ltb x (p n)) row) answers
  end.

Inductive outcome :=
  | Verified
  | Bad_network | Bad_task | Bad_claims | Bad_uncertified | Bad_witnesses | Bad_hints
  | Not_proved (a b : nat).

Definition concluded (failing : option (nat * nat)) : outcome :=
  match failing with
  | None => Verified
  | Some (a, b) => Not_proved a b
  end.

Definition judge_brute (n : network) (c : certificate) (skipped : grid unit) (answered : grid nat) (k : collapsed) : outcome :=
  concluded (first_failing n (bar_of n k 0 (num c) (den c)) skipped answered (brute_bound (act n) k)).

Definition rewritten (n : network) (as_relu : bool) (k : collapsed) : activation * collapsed :=
  match as_relu, act n with
  | true, Abs => (Relu, with_relu k)
  | _, f => (f, k)
  end.

Definition judge_moments (n : network) (c : certificate) (skipped : grid unit) (answered : grid nat) (settled : grid unit)
    (basis coefficients : rows_of) (shift : Z) (fk : activation * collapsed) : outcome :=
  let (f, k) := fk in
  let more := Z.to_N (shift - w_shift k) in
  let fine := finer (pow2 more) k in
  let lifted := map (map (Z.mul (pow2 (Z.to_N (w_shift k - shift))))) coefficients in
  concluded (first_failing n (bar_of n k more (num c) (den c)) skipped answered
    (moments_bound f fine (low_rank_form (p n) (d_mlp n) (W_L fine) basis lifted) settled)).

Definition with_unit (ab : nat * nat) : nat * nat * unit := (ab, tt).

Definition judge (n : network) (c : certificate) : outcome :=
  if negb (Nat.leb 2 (p n) && Nat.leb 1 (d_mlp n) && network_fits n) then Bad_network else
  if negb (task_fits n) then Bad_task else
  if negb ((0 <? num c) && (0 <? den c) && (0 <? certified_inputs c)
           && (Z.of_nat (length (uncertified c)) + certified_inputs c =? Z.of_nat (p n) * Z.of_nat (p n)))
  then Bad_claims else
  match place true (map with_unit (uncertified c)) (empty (p n)), place false (witnesses c) (empty (p n)) with
  | None, _ => Bad_uncertified
  | _, None => Bad_witnesses
  | Some skipped, Some answered =>
      match by_strategy c with
      | Brute => judge_brute n c skipped answered (collapse n)
      | Moments as_relu basis coefficients shift settled =>
          let rank := length basis in
          if negb (Nat.leb rank (p n) && shapeb rank (p n) basis && shapeb rank (d_mlp n) coefficients) then Bad_hints else
          match place false (map with_unit settled) (empty (p n)) with
          | None => Bad_hints
          | Some settled =>
              judge_moments n c skipped answered settled basis coefficients shift (rewritten n as_relu (collapse n))
          end
      end
  end.

Definition check (n : network) (c : certificate) : bool := match judge n c with Verified => true | _ => false end.

(** * Soundness *)

Lemma scale_pow2 n : scale n = pow2 (scale_bits n).
Proof. unfold scale, scale_bits. destruct (body n); trivial. Qed.

Lemma bar_spec n k more num den x : 0 < den -> bar_of n k more num den <= x ->
  num * pow2 more * scale n <= den * x * pow2 (lift k).
Proof.
  intros Hden. rewrite scale_pow2. unfold bar_of. set (s := scale_bits n). set (m := N.min (lift k) s). intros Hx.
  pose proof (pow2_pos (lift k - m)) as Hp. set (D := den * pow2 (lift k - m)) in *.
  set (A := num * pow2 (more + s - m)) in *. assert (0 < D) by (unfold D; nia).
  assert (A <= D * x).
  { pose proof (Z.mul_div_le (- A) D ltac:(lia)). nia. }
  rewrite (pow2_split (lift k) m) by lia.
  replace (num * pow2 more * pow2 s) with (A * pow2 m).
  - unfold D in *. pose proof (pow2_pos m). nia.
  - unfold A. rewrite <- Z.mul_assoc, <- pow2_add, <- Z.mul_assoc, <- pow2_add. f_equal. f_equal. lia.
Qed.

Section Sound.
  Variables (n : network) (c : certificate) (skipped : grid unit) (answered : grid nat).
  Variables (f : activation) (k : collapsed) (more : N) (bound : nat -> nat -> list Z * Z).
  Hypothesis Hden : 0 < den c.
  (** The tables give the logits, [bound] is a bound of them, and no input fails. *)
  Hypothesis Hlogit : forall a b o, in_range n a b o ->
    pow2 more * logit n a b o = form f (d_mlp n) k a b o * pow2 (lift k).
  Hypothesis Hbound : forall a b, (a < p n)%nat -> (b < p n)%nat ->
    let (scores, loss) := bound a b in bounded (p n) (form f (d_mlp n) k a b) scores loss.
  Hypothesis Hnone : first_failing n (bar_of n k more (num c) (den c)) skipped answered bound = None.

  Lemma every_input a b : (a < p n)%nat -> (b < p n)%nat ->
    input_ok (answer n a b) (bar_of n k more (num c) (den c)) (cell skipped a b) (cell answered a b) (bound a b) = true.
  Proof.
    intros Ha Hb. apply negb_false_iff. apply (find_none _ _ Hnone (a, b)). apply in_prod; apply in_seq; lia.
  Qed.

  Lemma margin_sound a b o : in_range n a b o -> cell skipped a b = [] -> o <> answer n a b ->
    den c * (logit n a b (answer n a b) - logit n a b o) >= num c * scale n.
  Proof.
    intros (Ha & Hb & Ho) Hleft ne. pose proof (every_input a b Ha Hb) as ok. pose proof (Hbound a b Ha Hb) as bounds.
    unfold input_ok in ok. destruct (bound a b) as [scores loss]. rewrite Hleft in ok.
    apply andb_true_iff in ok as [ok _]. destruct bounds as [Hlen bounds].
    destruct (leads_spec _ _ _ ok) as [Hr lead]. rewrite Hlen in *. specialize (lead o Ho ne).
    specialize (bounds _ o Hr Ho).
    assert (high : bar_of n k more (num c) (den c)
      <= form f (d_mlp n) k a b (answer n a b) - form f (d_mlp n) k a b o) by lia.
    apply bar_spec in high; trivial.
    pose proof (Hlogit a b o ltac:(repeat split; trivial)). pose proof (Hlogit a b (answer n a b) ltac:(repeat split; trivial)).
    pose proof (pow2_pos more). nia.
  Qed.

  Lemma answer_sound a b : (a < p n)%nat -> (b < p n)%nat -> cell skipped a b = [] -> (answer n a b < p n)%nat.
  Proof.
    intros Ha Hb Hleft. pose proof (every_input a b Ha Hb) as ok. pose proof (Hbound a b Ha Hb) as bounds.
    unfold input_ok in ok. destruct (bound a b) as [scores loss]. rewrite Hleft in ok.
    apply andb_true_iff in ok as [ok _]. destruct (leads_spec _ _ _ ok) as [Hr _]. destruct bounds as [<- _]. trivial.
  Qed.

  Lemma witness_sound a b o : In o (cell answered a b) -> (a < p n)%nat -> (b < p n)%nat ->
    in_range n a b o /\ logit n a b o > logit n a b (answer n a b)
    /\ forall o', in_range n a b o' -> logit n a b o >= logit n a b o'.
  Proof.
    intros Hin Ha Hb. pose proof (every_input a b Ha Hb) as ok. pose proof (Hbound a b Ha Hb) as bounds.
    unfold input_ok in ok. destruct (bound a b) as [scores loss]. apply andb_true_iff in ok as [_ ok].
    rewrite forallb_forall in ok. specialize (ok o Hin). apply andb_true_iff in ok as [ok strict].
    apply andb_true_iff in ok as [ne ok]. destruct (ahead_spec _ _ _ _ strict) as [Hright gap].
    destruct bounds as [Hlen bounds]. destruct (leads_spec _ _ _ ok) as [Ho lead]. rewrite Hlen in *.
    apply negb_true_iff, Nat.eqb_neq in ne. assert (range : in_range n a b o) by (repeat split; trivial).
    split; [trivial|]. split.
    { specialize (bounds o (answer n a b) Ho Hright). pose proof (Hlogit a b o range).
      pose proof (Hlogit a b (answer n a b) ltac:(repeat split; trivial)).
      pose proof (pow2_pos more). pose proof (pow2_pos (lift k)). nia. }
    intros o' range'. destruct (Nat.eq_dec o' o) as [->|other]; [lia|].
    destruct range' as (_ & _ & Ho'). specialize (lead o' Ho' other). specialize (bounds o o' Ho Ho').
    pose proof (Hlogit a b o range). pose proof (Hlogit a b o' ltac:(repeat split; trivial)).
    pose proof (pow2_pos more). pose proof (pow2_pos (lift k)). nia.
  Qed.
End Sound.

(** What a strategy's verdict gives, whatever the strategy. *)
Definition proved (n : network) (c : certificate) (skipped : grid unit) (answered : grid nat) : Prop :=
  (forall a b o, in_range n a b o -> cell skipped a b = [] -> o <> answer n a b ->
     den c * (logit n a b (answer n a b) - logit n a b o) >= num c * scale n)
  /\ (forall a b, (a < p n)%nat -> (b < p n)%nat -> cell skipped a b = [] -> (answer n a b < p n)%nat)
  /\ (forall a b o, In o (cell answered a b) -> (a < p n)%nat -> (b < p n)%nat ->
     in_range n a b o /\ logit n a b o > logit n a b (answer n a b)
    /\ forall o', in_range n a b o' -> logit n a b o >= logit n a b o').

Lemma concluded_none failing : concluded failing = Verified -> failing = None.
Proof. destruct failing as [[a b]|]; [discriminate|trivial]. Qed.

Lemma brute_sound n c skipped answered : network_fits n = true -> 0 < den c ->
  judge_brute n c skipped answered (collapse n) = Verified -> proved n c skipped answered.
Proof.
  intros Hfits Hden H. apply concluded_none in H. destruct (collapse_correct n Hfits) as [sizes same].
  assert (Hlogit : forall a b o, in_range n a b o ->
    pow2 0 * logit n a b o = form (act n) (d_mlp n) (collapse n) a b o * pow2 (lift (collapse n))).
  { intros. change (pow2 0) with 1. rewrite same by trivial. ring. }
  assert (Hbound : forall a b, (a < p n)%nat -> (b < p n)%nat ->
    let (scores, loss) := brute_bound (act n) (collapse n) a b in
    bounded (p n) (form (act n) (d_mlp n) (collapse n) a b) scores loss).
  { intros. apply exact_bounded; trivial. }
  split; [|split]; intros.
  - eapply margin_sound; eauto.
  - eapply answer_sound; eauto.
  - eapply witness_sound; eauto.
Qed.

Lemma moments_sound n c skipped answered settled as_relu basis coefficients shift :
  network_fits n = true -> (1 <= d_mlp n)%nat -> 0 < den c ->
  shape (length basis) (p n) basis -> shape (length basis) (d_mlp n) coefficients ->
  judge_moments n c skipped answered settled basis coefficients shift (rewritten n as_relu (collapse n)) = Verified ->
  proved n c skipped answered.
Proof.
  intros Hfits Hm Hden HB HM H. destruct (collapse_correct n Hfits) as [sizes same].
  assert (Hrewritten : let (f, k) := rewritten n as_relu (collapse n) in tables (p n) (d_mlp n) k
    /\ lift k = lift (collapse n) /\ forall a b o, in_range n a b o ->
       form f (d_mlp n) k a b o = form (act n) (d_mlp n) (collapse n) a b o).
  { destruct (with_relu_correct _ _ _ sizes) as [sizes' same']. unfold rewritten.
    destruct as_relu, (act n) eqn:Hact; try (split; [|split]; solve [trivial]).
    split; [trivial|]. split; [trivial|]. intros a b o (Ha & Hb & Ho). apply same'; trivial. }
  unfold judge_moments in H. destruct (rewritten n as_relu (collapse n)) as [f k].
  destruct Hrewritten as (sizes' & Hlift & same'). apply concluded_none in H.
  set (more := Z.to_N (shift - w_shift k)) in *. destruct (finer_correct _ _ f k (pow2 more) sizes') as [sizes'' same''].
  set (fine := finer (pow2 more) k) in *.
  change (bar_of n k more (num c) (den c)) with (bar_of n fine more (num c) (den c)) in H.
  assert (Hlogit : forall a b o, in_range n a b o ->
    pow2 more * logit n a b o = form f (d_mlp n) fine a b o * pow2 (lift fine)).
  { intros a b o range. change (lift fine) with (lift k). rewrite same, Hlift by trivial.
    destruct range as (Ha & Hb & Ho). rewrite same'' by trivial. rewrite same' by (repeat split; trivial). ring. }
  set (lifted := map (map (Z.mul (pow2 (Z.to_N (w_shift k - shift))))) coefficients) in *.
  assert (HL : shape (length basis) (d_mlp n) lifted) by (apply more_spec; trivial).
  assert (Hbound : forall a b, (a < p n)%nat -> (b < p n)%nat ->
    let (scores, loss) :=
      moments_bound f fine (low_rank_form (p n) (d_mlp n) (W_L fine) basis lifted) settled a b in
    bounded (p n) (form f (d_mlp n) fine a b) scores loss).
  { intros a b Ha Hb. unfold moments_bound. destruct (cell settled a b).
    - apply (low_bounded (p n) (d_mlp n) (length basis)); trivial.
    - apply exact_bounded; trivial. }
  split; [|split]; intros.
  - eapply margin_sound; eauto.
  - eapply answer_sound; eauto.
  - eapply witness_sound; eauto.
Qed.

(** All that a verdict gives, with the cells of the inputs that are left out and of the witnesses. *)
Lemma check_inside n c : check n c = true ->
  0 < num c /\ 0 < den c /\ NoDup (uncertified c)
  /\ Z.of_nat (length (uncertified c)) + certified_inputs c = Z.of_nat (p n) * Z.of_nat (p n)
  /\ exists skipped answered, proved n c skipped answered
    /\ (forall a b, ~ In (a, b) (uncertified c) -> cell skipped a b = [])
    /\ (forall a b o, In (a, b, o) (witnesses c) -> (a < p n)%nat /\ (b < p n)%nat /\ In o (cell answered a b)).
Proof.
  intros H. unfold check in H. destruct (judge n c) eqn:judged; try discriminate. clear H. unfold judge in judged.
  destruct (Nat.leb 2 (p n) && Nat.leb 1 (d_mlp n) && network_fits n) eqn:Hnet; [|discriminate].
  rewrite !andb_true_iff in Hnet. destruct Hnet as [[Hp Hm] Hfits]. apply Nat.leb_le in Hm.
  destruct (task_fits n); [|discriminate]. cbn [negb] in judged.
  destruct ((0 <? num c) && (0 <? den c) && (0 <? certified_inputs c) && _) eqn:Hclaims; [|discriminate].
  rewrite !andb_true_iff in Hclaims. destruct Hclaims as [[[Hnum Hden] Hsome] Hcount].
  apply Z.ltb_lt in Hnum, Hden. apply Z.eqb_eq in Hcount. cbn [negb] in judged.
  destruct (place true (map with_unit (uncertified c)) (empty (p n))) as [skipped|] eqn:Hskipped; [|discriminate].
  destruct (place false (witnesses c) (empty (p n))) as [answered|] eqn:Hanswered; [|discriminate].
  destruct (place_spec _ _ _ _ (p n) (empty_square _) Hskipped) as (Hin & _ & Honce).
  destruct (place_spec _ _ _ _ (p n) (empty_square _) Hanswered) as (Hwitness & Hrange & _).
  destruct (Honce eq_refl) as [Hdup _]. rewrite map_map, map_id in Hdup.
  split; [trivial|]. split; [trivial|]. split; [trivial|]. split; [trivial|]. exists skipped, answered.
  split; [|split].
  - destruct (by_strategy c) as [|as_relu basis coefficients shift settled].
    + apply brute_sound; trivial.
    + destruct (Nat.leb (length basis) (p n) && shapeb (length basis) (p n) basis
                && shapeb (length basis) (d_mlp n) coefficients) eqn:Hshapes; [|discriminate].
      rewrite !andb_true_iff in Hshapes. destruct Hshapes as [[_ HB] HM]. apply shapeb_shape in HB, HM.
      cbn [negb] in judged. destruct (place false (map with_unit settled) (empty (p n))) as [grid_|]; [|discriminate].
      eapply moments_sound; eauto.
  - intros a b listed. destruct (cell skipped a b) as [|u rest] eqn:Hcell; [trivial|].
    exfalso. apply listed. assert (In u (cell skipped a b)) as held by (rewrite Hcell; left; trivial).
    apply Hin in held. rewrite empty_cell in held. destruct held as [[]|held].
    apply in_map_iff in held as (ab & E & held). injection E as -> _. trivial.
  - intros a b o listed. destruct (Hrange a b o listed) as [Ha Hb]. split; [trivial|]. split; [trivial|].
    apply Hwitness. right. trivial.
Qed.

(** If the checker accepts a certificate, then the margin num / den is positive; no input is left out twice, and all
    others are counted; for every input that is not left out, the logit of the right answer exceeds that of every other
    one by at least num / den; and every witness is an input that the network answers wrongly. *)
Theorem check_sound : forall n c, check n c = true ->
  0 < num c /\ 0 < den c /\ NoDup (uncertified c)
  /\ Z.of_nat (length (uncertified c)) + certified_inputs c = Z.of_nat (p n) * Z.of_nat (p n)
  /\ (forall a b o, in_range n a b o -> ~ In (a, b) (uncertified c) -> o <> answer n a b ->
        den c * (logit n a b (answer n a b) - logit n a b o) >= num c * scale n)
  /\ (forall a b o, In (a, b, o) (witnesses c) -> in_range n a b o /\ logit n a b o > logit n a b (answer n a b)
        /\ forall o', in_range n a b o' -> logit n a b o >= logit n a b o').
Proof.
  intros n c H. destruct (check_inside n c H) as (Hnum & Hden & Hdup & Hcount & skipped & answered & inside).
  destruct inside as ((Hmargin & _ & Hwrong) & Hskipped & Hanswered). do 4 (split; [trivial|]). split.
  - intros a b o range listed ne. apply Hmargin; auto.
  - intros a b o listed. destruct (Hanswered a b o listed) as (Ha & Hb & held). auto.
Qed.

(** The right answer of every input that is not left out is one of the p answers, so that its logit is one. *)
Theorem answer_in_range : forall n c, check n c = true ->
  forall a b, (a < p n)%nat -> (b < p n)%nat -> ~ In (a, b) (uncertified c) -> (answer n a b < p n)%nat.
Proof.
  intros n c H a b Ha Hb listed. destruct (check_inside n c H) as (_ & _ & _ & _ & skipped & answered & inside).
  destruct inside as ((_ & Hright & _) & Hskipped & _). auto.
Qed.
