(** Networks on sequences over the real numbers, addition, and greedy decoding: the definitions a reader must agree with.

    A network of one layer reads a sequence of tokens. Everything is a real number: a stored weight is a float, so an
    integer over 2^1074 (Network.v), and [exp] and [sqrt] are those of Coq's real numbers. *)

Require Export Reals Proved.Matrix Proved.Network.
Open Scope R_scope.

(** [rsum n f] is f 0 + f 1 + ... + f (n - 1). *)
Fixpoint rsum (n : nat) (f : nat -> R) : R :=
  match n with
  | O => 0
  | S m => rsum m f + f m
  end.

(** * Networks *)

(** The real number that a float's bits stand for, and the weight in row i, column j of a tensor. *)
Definition float (kind : number) (bits : Z) : R := IZR (value kind bits) / IZR (one 1).
Definition entry_of (t : tensor) (i j : nat) : R := float (kind t) (entry (content t) i j).

(** A norm divides by the root of the mean square plus epsilon (a double), multiplies by its gain and adds its offset. *)
Record norm := { epsilon : Z; gain : tensor; offset : tensor }.

(** Of tensors with an index for the head (or for the head and a position), the rows of all heads follow each other. *)
Record words_network := {
  width : nat; heads : nat; key_width : nat; value_width : nat; neurons : nat;
  vocabulary : nat; outputs : nat; context : nat; divisor : Z;
  before_attention : option norm; before_neurons : option norm; before_logits : option norm;
  E : tensor; pos : tensor; Q : tensor; b_Q : tensor; K : tensor; b_K : tensor; V : tensor; b_V_ : tensor;
  O_ : tensor; b_O_ : tensor; score_bias : tensor;
  W_in_ : tensor; b_in_ : tensor; W_out_ : tensor; b_out_ : tensor; U : tensor; b_U_ : tensor }.

(** * The forward pass *)

Section Forward.
  Variable n : words_network.

  Definition normed (which : option norm) (x : nat -> R) (i : nat) : R :=
    match which with
    | None => x i
    | Some m => x i / sqrt (rsum (width n) (fun k => x k * x k) / INR (width n) + float F64 (epsilon m))
                * entry_of (gain m) 0 i + entry_of (offset m) 0 i
    end.

  (** What stands at position j, where the token is v, and what attention reads of it. *)
  Definition stream (j v i : nat) : R := entry_of (E n) v i + entry_of (pos n) j i.
  Definition read (j v : nat) : nat -> R := normed (before_attention n) (stream j v).

  (** Queries, keys, and what the values of head h write into the stream. *)
  Definition query (h j v k : nat) : R :=
    rsum (width n) (fun i => read j v i * entry_of (Q n) (h * width n + i) k) + entry_of (b_Q n) h k.
  Definition key (h j v k : nat) : R :=
    rsum (width n) (fun i => read j v i * entry_of (K n) (h * width n + i) k) + entry_of (b_K n) h k.
  Definition val (h j v k : nat) : R :=
    rsum (width n) (fun i => read j v i * entry_of (V n) (h * width n + i) k) + entry_of (b_V_ n) h k.
  Definition written (h j v i : nat) : R :=
    rsum (value_width n) (fun k => val h j v k * entry_of (O_ n) (h * value_width n + k) i).

  (** What position t, where the token is w, makes of position j, where it is v. *)
  Definition score (h t w j v : nat) : R :=
    rsum (key_width n) (fun k => query h t w k * key h j v k) / float F64 (divisor n)
    + entry_of (score_bias n) (h * context n + t) j.

  (** After attention the stream is a vector x. What follows is a function of it. *)
  Definition neuron (x : nat -> R) (m : nat) : R :=
    Rmax 0 (rsum (width n) (fun i => normed (before_neurons n) x i * entry_of (W_in_ n) i m) + entry_of (b_in_ n) 0 m).
  Definition after_neurons (x : nat -> R) (i : nat) : R :=
    x i + rsum (neurons n) (fun m => neuron x m * entry_of (W_out_ n) m i) + entry_of (b_out_ n) 0 i.
  Definition unembedded (x : nat -> R) (c : nat) : R :=
    rsum (width n) (fun i => normed (before_logits n) (after_neurons x) i * entry_of (U n) i c) + entry_of (b_U_ n) 0 c.

  (** Attention of position t to all positions up to it, the logits there. *)
  Variables (tokens : nat -> nat) (t : nat).
  Definition attended (h : nat) : R := rsum (S t) (fun j => exp (score h t (tokens t) j (tokens j))).
  Definition attention (h i : nat) : R :=
    rsum (S t) (fun j => exp (score h t (tokens t) j (tokens j)) * written h j (tokens j) i) / attended h.
  Definition residual (i : nat) : R :=
    stream t (tokens t) i + entry_of (b_O_ n) 0 i + rsum (heads n) (fun h => attention h i).
  Definition logit (c : nat) : R := unembedded residual c.
End Forward.

(** * Addition *)

(** What a position holds: always the same token, or the i-th lowest digit of one of the two numbers or of their sum. *)
Inductive place := Always (v : nat) | First (i : nat) | Second (i : nat) | Sum (i : nat).

(** Numbers below base^size, where the base is the number of [digits], their tokens; a sum has size + 1 digits, which
    are the last positions. [stops]: what one more token may be, if there is one more. *)
Record addition := { size : nat; digits : list nat; template : list place; stops : option (list nat) }.

Definition base (a : addition) : nat := length (digits a).
Definition digit (b x i : nat) : nat := ((x / b ^ i) mod b)%nat.

(** The right token at position j where x and y are added. *)
Definition sum_token (a : addition) (x y j : nat) : nat :=
  match nth j (template a) (Always 0) with
  | Always v => v
  | First i => nth (digit (base a) x i) (digits a) 0%nat
  | Second i => nth (digit (base a) y i) (digits a) 0%nat
  | Sum i => nth (digit (base a) (x + y) i) (digits a) 0%nat
  end.

(** The positions that are given; the others are decoded, one after the other. *)
Definition given (a : addition) : nat := (length (template a) - (size a + 1))%nat.

(** The token w is read off at position t: no other has a larger logit. *)
Definition read_off (n : words_network) (tokens : nat -> nat) (t w : nat) : Prop :=
  (w < outputs n)%nat /\ forall c, (c < outputs n)%nat -> logit n tokens t c <= logit n tokens t w.

(** [tokens] are what greedy decoding makes of x and y. *)
Definition greedy (n : words_network) (a : addition) (x y : nat) (tokens : nat -> nat) : Prop :=
  (forall j, (j < given a)%nat -> tokens j = sum_token a x y j)
  /\ forall j, (given a <= j < length (template a) + match stops a with None => 0 | Some _ => 1 end)%nat ->
       read_off n tokens (j - 1) (tokens j).
