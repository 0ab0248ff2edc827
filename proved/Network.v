(** The network and what it computes: the definitions a reader must agree with.

    Everything is an integer. A stored weight is a float, and every float is a whole multiple of 2^-1074, the smallest
    positive double; so a weight w is the integer [w * 2^1074], a product of two weights an integer over 2^(2 * 1074),
    and so on. [one k] is the number 1 over 2^(1074 k): what is added to a product of k weights is multiplied by it
    first. No number is ever rounded. *)

Require Import Proved.Matrix.

(** * Floats *)

(** A float as the file has it: 32 or 64 bits, read as one integer. *)
Inductive number := F32 | F64.

(** Constants have names, so that the program makes each of them once. *)
Definition two23 := 8388608.
Definition two31 := 2147483648.
Definition two52 := 4503599627370496.
Definition two63 := 9223372036854775808.
Definition c256 := 256.
Definition c2048 := 2048.
Definition c925 := 925%N.
Definition c1 := 1%N.

(** The fraction's bits come last, then the exponent's, then the sign (IEEE 754). *)
Definition exponent_bits (kind : number) (bits : Z) : Z :=
  match kind with
  | F32 => bits / two23 mod c256
  | F64 => bits / two52 mod c2048
  end.

(** Infinities and NaN have the largest exponent. *)
Definition finite (kind : number) (bits : Z) : bool :=
  exponent_bits kind bits <? (match kind with F32 => c256 - 1 | F64 => c2048 - 1 end).

(** (m, e) with value m * 2^e over 2^1074: the fraction with its leading one (without, if the exponent's bits are 0),
    and what the smallest float of this kind is (2^-149 = 2^925 over 2^1074) times two for each further exponent. *)
Definition decode (kind : number) (bits : Z) : Z * N :=
  let e := exponent_bits kind bits in
  let above := (Z.to_N e - c1)%N in
  match kind with
  | F32 => let m := (bits mod two23) + (if e =? 0 then 0 else two23) in
           (if two31 <=? bits then - m else m, (c925 + above)%N)
  | F64 => let m := (bits mod two52) + (if e =? 0 then 0 else two52) in
           (if two63 <=? bits then - m else m, above)
  end.

Definition value (kind : number) (bits : Z) : Z := let (m, e) := decode kind bits in m * pow2 e.

(** 1, over 2^(1074 k). *)
Definition c1074 := 1074%N.
Definition one (k : N) : Z := pow2 (c1074 * k).

(** * Tensors: rows of floats; a tensor with three indices is a stack of matrices, one with one index a single row *)

Record tensor := { kind : number; content : list (list Z) }.

(** The weight in row i, column j, over 2^1074. *)
Definition weight (t : tensor) (i j : nat) : Z := value (kind t) (entry (content t) i j).
Coercion weight : tensor >-> Funclass.

(** * Networks *)

Inductive activation := Relu | Abs | Square | Quartic.

Definition sigma (f : activation) (x : Z) : Z :=
  match f with
  | Relu => Z.max 0 x
  | Abs => Z.abs x
  | Square => x * x
  | Quartic => x * x * (x * x)
  end.

(** sigma (k x) = k^degree * sigma x for k > 0. *)
Definition degree (f : activation) : N :=
  match f with Relu => 1 | Abs => 1 | Square => 2 | Quartic => 4 end.

Inductive task :=
  | Linear (alpha beta : Z)             (* alpha a + beta b modulo p; addition is 1, 1 and subtraction 1, -1 *)
  | Multiply0                           (* a b modulo p *)
  | Multiply                            (* a b modulo p + 1, element i being the residue i + 1 *)
  | Divide                              (* a / b modulo p + 1, likewise *)
  | Table (answers : list (list nat)).

(** Layer sizes, constant attention weights (as doubles) and the position whose output is read. Position 0 holds the
    token a, position 1 the token b_offset + b, position 2, if there is one, the token b_offset + p. *)
Record transformer := {
  d_model : nat; n_heads : nat; d_head : nat; attention : list Z; read_position : nat; b_offset : nat;
  W_E : tensor; W_pos : tensor; W_V : tensor; b_V : tensor; W_O : tensor; b_O : tensor;
  W_in : tensor; b_in : tensor; W_out : tensor; b_out : tensor; W_U : tensor; b_U : tensor }.

Inductive architecture :=
  | Mlp (W_a W_b W_c : tensor)          (* two layers: W_a and W_b read the tokens, W_c writes the answers *)
  | Transformer (t : transformer).

Record network := { p : nat; d_mlp : nat; act : activation; asked : task; body : architecture }.

(** * The forward pass of a transformer on the tokens a and b *)

Section Forward.
  Variables (n : network) (t : transformer) (a b : nat).

  Definition token (pos : nat) : nat :=
    match pos with O => a | 1%nat => (b_offset t + b)%nat | _ => (b_offset t + p n)%nat end.

  (** The residual stream at a position, over one 1. *)
  Definition stream (pos j : nat) : Z := W_E t (token pos) j + W_pos t pos j.

  (** What head h reads there, over one 2. *)
  Definition reading (h pos k : nat) : Z :=
    sum (d_model t) (fun j => stream pos j * W_V t (h * d_model t + j)%nat k) + b_V t h k * one 1.

  (** The same, averaged over positions with the attention's weights, over one 3. *)
  Definition attention_weight (pos : nat) : Z := value F64 (nth pos (attention t) 0).
  Definition mixed (h k : nat) : Z :=
    sum (length (attention t)) (fun pos => attention_weight pos * reading h pos k).

  (** The residual stream after attention where the output is read, over one 4. *)
  Definition residual (j : nat) : Z :=
    sum (n_heads t) (fun h => sum (d_head t) (fun k => mixed h k * W_O t (h * d_head t + k)%nat j))
    + (stream (read_position t) j + b_O t 0%nat j) * one 3.

  (** Pre-activations, over one 5, and the hidden layer, over one (5 degree). *)
  Definition pre (i : nat) : Z := sum (d_model t) (fun j => residual j * W_in t j i) + b_in t 0%nat i * one 4.
  Definition hidden (i : nat) : Z := sigma (act n) (pre i).

  (** The residual stream after the MLP, over one (5 degree + 1). *)
  Definition after (j : nat) : Z :=
    sum (d_mlp n) (fun i => hidden i * W_out t i j)
    + residual j * one (5 * degree (act n) - 3) + b_out t 0%nat j * one (5 * degree (act n)).

  (** The logit of the answer c, over one (5 degree + 2). *)
  Definition transformer_logit (c : nat) : Z :=
    sum (d_model t) (fun j => after j * W_U t j c) + b_U t 0%nat c * one (5 * degree (act n) + 1).
End Forward.

(** * Logits and answers *)

Definition logit (n : network) (a b c : nat) : Z :=
  match body n with
  | Mlp W_a W_b W_c => sum (d_mlp n) (fun i => sigma (act n) (W_a a i + W_b b i) * W_c i c)
  | Transformer t => transformer_logit n t a b c
  end.

(** What the integer [logit] is over: the real logit is [logit / scale]. *)
Definition scale (n : network) : Z :=
  match body n with
  | Mlp _ _ _ => one (degree (act n) + 1)
  | Transformer _ => one (5 * degree (act n) + 2)
  end.

(** The right answer. *)
Definition answer (n : network) (a b : nat) : nat :=
  let m := Z.of_nat (p n) in
  let x := Z.of_nat a in
  let y := Z.of_nat b in
  match asked n with
  | Linear alpha beta => Z.to_nat ((alpha * x + beta * y) mod m)
  | Multiply0 => Z.to_nat ((x * y) mod m)
  | Multiply => Z.to_nat (((x + 1) * (y + 1)) mod (m + 1) - 1)
  | Divide => match find (fun c => ((Z.of_nat c + 1) * (y + 1)) mod (m + 1) =? x + 1) (seq 0 (p n)) with
              | Some c => c
              | None => p n
              end
  | Table answers => nth b (nth a answers []) (p n)
  end.

Definition in_range (n : network) (a b o : nat) : Prop := (a < p n /\ b < p n /\ o < p n)%nat.
