(* The program around the proved checker: reads a certificate (JSON) and a model file (safetensors), says what it read,
   and prints the verdict of [Checker.judge]. These lines are outside the proof: they must be read, not believed.

   quadlens-proved CERTIFICATE MODEL     exit 0 verified for all inputs, 1 rejected or inputs left open, 2 cannot tell *)

open Files
module C = Checker

(* Peano's numbers; small ones share their memory. *)
let small = Array.make 1024 C.O
let () = for n = 1 to 1023 do small.(n) <- C.S small.(n - 1) done
let nat n =
  let found = ref small.(min n 1023) in
  for _ = 1024 to n do found := C.S !found done; !found
let rec int_of_nat = function C.O -> 0 | C.S n -> 1 + int_of_nat n

(* ---- The model ---- *)

let network content =
  let found, about = tensors content in
  let config = find "config" about in
  if find "format" about <> Number "1" then bad "the model file has a format other than 1";
  let known = String.split_on_char ' ' "architecture p d_mlp activation task d_model n_heads d_head d_vocab d_vocab_out \
    n_ctx attention read_position b_token_offset" in   (* another key could change what the network computes *)
  List.iter (fun (key, _) -> if not (List.mem key known) then outside "%s" key) (members "config" config);
  let size ?(low = 1) ?(high = most_bytes) key = between key low high (find key config) in
  let p = size "p" ~low:2 ~high:720 and d_mlp = size "d_mlp" in
  let tensor name shape = match List.assoc_opt name found with
    | Some (Text ("F32" | "F64") as kind, s, _, _ as t) when s = shape ->
      { C.kind = (if kind = Text "F32" then C.F32 else C.F64); content = rows content t }
    | _ -> bad "%s is missing, or is not what the config says" name in
  let act = match find "activation" config with
    | Text "relu" -> C.Relu | Text "abs" -> C.Abs | Text "square" -> C.Square | Text "quartic" -> C.Quartic
    | Text other -> outside "the activation %s" other | _ -> bad "the activation has no name" in
  let table, digest = match List.assoc_opt "task.answers" found with
    | Some (Text "I32", [_; _], start, bytes as t) ->
      let answers = List.map (List.map (fun x -> nat (min p (Z.to_int x)))) (rows content t) in
      Some answers, sha256 (String.sub content start bytes)
    | Some _ -> bad "task.answers is not a table of 32-bit integers" | None -> None, "" in
  let linear x y = C.Linear (Z.of_int x, Z.of_int y) in
  let task = Option.value (optional "task" config) ~default:(Text "add") in
  let asked, words = match task, table with
    | Text "add", None -> linear 1 1, "add" | Text "subtract", None -> linear 1 (-1), "subtract"
    | Text ("multiply" as s), None -> C.Multiply, s | Text ("divide" as s), None -> C.Divide, s
    | Text ("multiply0" as s), None -> C.Multiply0, s
    | Text s, None -> (try Scanf.sscanf s "linear:%d,%d%!" linear, s with _ -> bad "the task %s is unknown" s)
    | Object _, Some answers when find "sha256" task = Text digest -> C.Table answers, "table with SHA-256 " ^ digest
    | _ -> bad "the task and its table do not fit" in
  let transformer () =
    let d = size "d_model" and h = size "n_heads" and dh = size "d_head" and offset = size "b_token_offset" ~low:0 in
    if offset <> 0 && offset <> p then bad "b_token_offset is neither 0 nor p";
    let double = function Number s -> Int64.bits_of_float (float_of_string s) | _ -> bad "attention is not numbers" in
    let attention = List.map (fun x -> Z.extract (Z.of_int64 (double x)) 0 64) (list "attention" (find "attention" config)) in
    let attn name = tensor ("blocks.0.attn." ^ name) and mlp name = tensor ("blocks.0.mlp." ^ name) in
    { C.d_model = nat d; n_heads = nat h; d_head = nat dh; attention; b_offset = nat offset;
      read_position = nat (size "read_position" ~low:0 ~high:2); w_E = tensor "embed.W_E" [size "d_vocab"; d];
      w_pos = tensor "pos_embed.W_pos" [size "n_ctx"; d]; w_V = attn "W_V" [h; d; dh]; b_V = attn "b_V" [h; dh];
      w_O = attn "W_O" [h; dh; d]; b_O = attn "b_O" [d]; w_in = mlp "W_in" [d; d_mlp]; b_in = mlp "b_in" [d_mlp];
      w_out = mlp "W_out" [d_mlp; d]; b_out = mlp "b_out" [d]; w_U = tensor "unembed.W_U" [d; size "d_vocab_out"];
      b_U = tensor "unembed.b_U" [size "d_vocab_out"] } in
  let body, count = match find "architecture" config with
    | Text "mlp" -> C.Mlp (tensor "mlp.W_a" [p; d_mlp], tensor "mlp.W_b" [p; d_mlp], tensor "mlp.W_out" [d_mlp; p]), 3
    | Text "transformer" -> C.Transformer (transformer ()), 12 | _ -> bad "the architecture is no mlp and no transformer" in
  if List.length found <> (if table = None then count else count + 1) then bad "the model has tensors too many";
  List.iter (fun (name, (_, shape, _, bytes)) ->
      Printf.printf "read %s: %s, %d bytes\n" name (String.concat " x " (List.map string_of_int shape)) bytes) found;
  { C.p = nat p; d_mlp = nat d_mlp; act; asked; body }, config, table, task, words

(* ---- The certificate ---- *)

let certificate value digest (config, table, task) =
  if find "format" value <> Text "quadlens-certificate" then bad "the certificate's format is not quadlens-certificate";
  (match find "version" value with Number ("1" | "2" | "3") -> () | _ -> bad "the certificate's version is not 1, 2 or 3");
  let about = find "model" value and claims = find "claims" value and hints = find "hints" value in
  let p = integer "p" (find "p" config) and d_mlp = integer "d_mlp" (find "d_mlp" config) in
  let same key expected found = if found <> expected then reject "the certificate's %s is not the model's" key in
  same "sha256" (Text digest) (find "sha256" about);
  List.iter (fun key -> same key (find key config) (find key about)) ["p"; "d_mlp"; "activation"];
  same "task" task (Option.value (optional "task" about) ~default:(Text "add"));
  same "attention" (Text "constant") (Option.value (optional "attention" about) ~default:(Text "constant"));
  let numbers n what value = match List.map (fun x -> nat (between what 0 (p - 1) x)) (list what value) with
    | found when List.length found = n -> found | _ -> reject "%s has an entry that is not %d numbers" what n in
  let pair what x = match numbers 2 what x with [a; b] -> a, b | _ -> reject "%s" what in
  let witness x = match numbers 3 "witnesses" x with [a; b; o] -> (a, b), o | _ -> reject "witnesses" in
  let answers = Option.map (fun rows -> List.map (numbers p "answers") (list "answers" rows)) (optional "answers" about) in
  let named = match task with Object _ -> find "name" task <> Text "table" | _ -> true in
  if answers <> table && not (answers = None && named) then reject "the certificate's table of answers is not the model's";
  let num, den = match find "margin" claims with
    | Text s when String.length s <= 4000 ->
      let part x = if digits x then Z.of_string x else reject "the margin is no rational" in
      (match String.split_on_char '/' s with [num; den] -> part num, part den | _ -> reject "the margin is no rational")
    | _ -> reject "the certificate claims no margin" in
  same "inputs" (Number (string_of_int (p * p))) (find "inputs" claims);
  let row key value = List.map (fun x -> Z.of_int (integer key x)) (list key value) in
  let matrix key = List.map (row key) (list key (find key hints)) in
  (* With arcs, coefficients come in the order of the clusters: they are put back. A hint, as everything here. *)
  let back row =
    let neurons cluster = List.map (between "neurons" 0 (d_mlp - 1)) (list "neurons" (find "neurons" cluster)) in
    let order = List.concat_map neurons (list "clusters" (find "clusters" hints)) in
    if List.sort compare order <> List.init d_mlp Fun.id then reject "the clusters do not hold every neuron once";
    if List.length row <> d_mlp then reject "coefficients has a row of a wrong length";
    List.map snd (List.sort (fun x y -> compare (fst x) (fst y)) (List.combine order row)) in
  let linear = p <= 257 && List.mem (find "activation" config) [Text "relu"; Text "abs"] in
  let by_strategy = match find "strategy" value with
    | Text "brute" -> if hints = Object [] then C.Brute else reject "brute force has hints"
    | Text "arcs" -> if linear then C.Brute else reject "arcs do not suit this model"   (* claims do not depend on arcs *)
    | Text "moments" ->
      let settled = List.map (pair "exact") (list "exact" (Option.value (optional "exact" hints) ~default:(List []))) in
      let arcs = optional "arcs" hints <> None and coefficients = matrix "coefficients" in
      if arcs && not (linear && List.length (List.sort_uniq compare settled) <= p) then reject "arcs do not suit this model";
      C.Moments (arcs, matrix "basis", (if arcs then List.map back coefficients else coefficients),
                 Z.of_int (between "shift" 0 1000 (find "shift" hints)), settled)
    | Text other -> outside "the strategy %s" other | _ -> bad "the strategy has no name" in
  { C.num; den; certified_inputs = Z.of_int (integer "certified_inputs" (find "certified_inputs" claims)); by_strategy;
    uncertified = List.map (pair "uncertified") (list "uncertified" (find "uncertified" value));
    witnesses = List.map witness (list "witnesses" (find "witnesses" value)) }

(* ---- The verdict ---- *)

let reason = function
  | C.Verified -> "" | C.Bad_network -> "the network's tensors do not fit, or are not finite"
  | C.Bad_task -> "no task on p elements" | C.Bad_claims -> "margin or counts are not positive, or do not fit"
  | C.Bad_uncertified -> "uncertified inputs are not distinct inputs" | C.Bad_witnesses -> "a witness is no input"
  | C.Bad_hints -> "the hints do not fit the network"
  | C.Not_proved (a, b) -> Printf.sprintf "not proved for a = %d, b = %d" (int_of_nat a) (int_of_nat b)

let run certificate_path model_path =
  let text = read_file certificate_path and content = read_file model_path in
  let digest = sha256 content in   (* of the very bytes that are read below *)
  Printf.printf "model SHA-256: %s\ncertificate SHA-256: %s\n%!" digest (sha256 text);
  let value = parse "the certificate" text in
  if optional "strategy" value = Some (Text "cells") then Sequences.run value content digest else
  let n, config, table, task, words = network content in
  let c = certificate value digest (config, table, task) in
  let inputs = Z.of_int (int_of_nat n.C.p * int_of_nat n.C.p) in
  Printf.printf "task: %s\nmargin: %s/%s\ninputs: %s\ncertified: %s\n%!" words (Z.to_string c.C.num)
    (Z.to_string c.C.den) (Z.to_string inputs) (Z.to_string c.C.certified_inputs);
  match C.judge n c with
  | C.Verified -> print_endline "VERIFIED"; if Z.equal c.C.certified_inputs inputs then 0 else 1
  | why -> reject "%s" (reason why)

let () =
  let last code line = print_endline line; exit code in
  match Sys.argv with
  | [| _; certificate; model |] ->
    (match run certificate model with
     | code -> exit code
     | exception Stop (code, line) -> last code line
     | exception (Stack_overflow | Out_of_memory) -> last 2 "BAD: the files need more memory than there is"
     | exception (Failure why | Invalid_argument why) -> last 2 ("BAD: a file is malformed: " ^ why))
  | _ -> last 2 "BAD: give a certificate and a model file"
