(* Networks that add numbers, and their certificates by cells: reads both files for [Words.check_words]. These lines are
   outside the proof: they must be read, not believed. *)

open Files
module W = Words

let small = Array.make 1024 W.O
let () = for n = 1 to 1023 do small.(n) <- W.S small.(n - 1) done
let nat n =
  let found = ref small.(min n 1023) in
  for _ = 1024 to n do found := W.S !found done; !found

let most_entries = 4_000_000
let coordinate_bits = 42   (* of Tables.v *)
(* Boxes are taken larger, for what the program rounds: by 2^-30, and 2^-30 of their largest end. *)
let wider ends =
  let most = List.fold_left (fun m (low, high) -> Z.max m (Z.max (Z.abs low) (Z.abs high))) Z.zero ends in
  Z.add (Z.shift_left Z.one (coordinate_bits - 30)) (Z.shift_right most 30)

let rec in_order = function   (* the same object, whatever the order of its keys *)
  | Object members -> Object (List.sort compare (List.map (fun (key, value) -> key, in_order value) members))
  | List values -> List (List.map in_order values)
  | value -> value
let same_keys what names value =
  if List.sort compare (List.map fst (members what value)) <> List.sort compare names
  then reject "%s has other keys than %s" what (String.concat ", " names)
let double what = function
  | Number s -> (match float_of_string_opt s with Some x -> Z.extract (Z.of_int64 (Int64.bits_of_float x)) 0 64, x
                                              | None -> bad "%s is no number" what)
  | _ -> bad "%s is no number" what
let whole what = function   (* an integer of any size *)
  | Number s when String.length s <= 40 && digits (if s.[0] = '-' then String.sub s 1 (String.length s - 1) else s) ->
    Z.of_string s
  | _ -> reject "%s is, or has, something other than an integer" what

(* ---- The model ---- *)

let names = "d_vocab d_vocab_out n_ctx d_model n_heads d_head d_value d_mlp"
let model content =
  let found, about = tensors content in
  let config = find "config" about in
  if find "format" about <> Number "1" then bad "the model file has a format other than 1";
  if find "architecture" config <> Text "sequence" then bad "the certificate is about sequences, and the model is not";
  same_keys "the config"
    (String.split_on_char ' ' (names ^ " architecture activation gated divisor norms rope mask task")) config;
  let size ?(low = 1) key = between key low most_entries (find key config) in
  let d = size "d_model" and h = size "n_heads" and q = size "d_head" and v = size "d_value" and t = size "n_ctx" in
  let m = size "d_mlp" ~low:0 and vocabulary = size "d_vocab" and outputs = size "d_vocab_out" in
  let only key expected word = if find key config <> expected then outside "%s" word in
  only "activation" (Text "relu") "an activation other than ReLU"; only "gated" (Bool false) "neurons with gates";
  only "rope" Null "rotated queries and keys"; only "mask" (Text "causal") "a mask of one's own";
  let norms = find "norms" config in
  same_keys "norms" ["attention"; "query_key"; "mlp"; "final"] norms;
  if find "query_key" norms <> Null then outside "norms of queries and keys";
  let used = ref 0 in
  let tensor ?(fill = 0.) ?(required = false) name shape =
    let columns = List.nth shape (List.length shape - 1) and count = List.fold_left ( * ) 1 shape in
    if count > most_entries then bad "%s is too large" name;
    match List.assoc_opt name found with
    | Some (Text ("F32" | "F64") as kind, s, _, _ as tensor) when s = shape ->
      incr used; { W.kind = (if kind = Text "F32" then W.F32 else W.F64); content = rows content tensor }
    | Some _ -> bad "%s is not what the config says" name
    | None ->
      if required then bad "%s is missing" name;
      let number = Z.extract (Z.of_int64 (Int64.bits_of_float fill)) 0 64 in
      let rows = if columns = 0 then List.nth shape 0 else count / columns in
      { W.kind = W.F64; content = List.init rows (fun _ -> List.init columns (fun _ -> number)) } in
  let norm place home = match find place norms with
    | Null -> None
    | value ->
      same_keys "a norm" ["kind"; "eps"] value;
      if find "kind" value <> Text "rms" then outside "norms other than RMSNorm";
      let epsilon, x = double "eps" (find "eps" value) in
      if not (x >= 0.) then bad "eps is negative";
      Some { W.epsilon; gain = tensor (home ^ "w") [d] ~fill:1.; offset = tensor (home ^ "b") [d] } in
  let attn ?required name shape = tensor ?required ("blocks.0.attn." ^ name) shape in
  let divisor, x = double "divisor" (find "divisor" config) in
  if not (x > 0.) then bad "divisor is not positive";
  let neurons ?required name shape =   (* without neurons there are no such tensors *)
    if m > 0 then tensor ?required ("blocks.0.mlp." ^ name) shape else { W.kind = W.F64; content = (if List.length shape = 1 then
      [List.init (List.hd shape) (fun _ -> Z.zero)] else List.init (List.hd shape) (fun _ -> [])) } in
  let required = true in
  let network = { W.width = nat d; heads = nat h; key_width = nat q; value_width = nat v; neurons = nat m;
    vocabulary = nat vocabulary; outputs = nat outputs; context = nat t; divisor;
    before_attention = norm "attention" "blocks.0.ln1.";
    before_neurons = (if m > 0 then norm "mlp" "blocks.0.ln2." else None); before_logits = norm "final" "ln_final.";
    e = tensor "embed.W_E" [vocabulary; d] ~required; pos = tensor "pos_embed.W_pos" [t; d];
    q = attn "W_Q" [h; d; q] ~required; b_Q = attn "b_Q" [h; q]; k = attn "W_K" [h; d; q] ~required;
    b_K = attn "b_K" [h; q]; v = attn "W_V" [h; d; v] ~required; b_V_ = attn "b_V" [h; v];
    o_ = attn "W_O" [h; v; d] ~required; b_O_ = attn "b_O" [d]; score_bias = attn "score_bias" [h; t; t];
    w_in_ = neurons "W_in" [d; m] ~required; b_in_ = neurons "b_in" [m]; w_out_ = neurons "W_out" [m; d] ~required;
    b_out_ = neurons "b_out" [d]; u = tensor "unembed.W_U" [d; outputs] ~required; b_U_ = tensor "unembed.b_U" [outputs] } in
  if !used <> List.length found then bad "the model has tensors of no use";
  List.iter (fun (name, (_, shape, _, bytes)) ->
      Printf.printf "read %s: %s, %d bytes\n" name (String.concat " x " (List.map string_of_int shape)) bytes) found;
  network, find "task" config, d, h, outputs

(* What a position holds; and the letter that feeds it. *)
type place = Always of int | Digit of char * int
let addition task outputs =
  let length = match find "name" task with
    | Text name -> (try Scanf.sscanf name "add:%u%!" Fun.id with _ -> outside "the task %s" name)
    | _ -> bad "the task has no name" in
  if length < 1 || length > 999 || find "name" task <> Text (Printf.sprintf "add:%d" length) then bad "the task's name";
  same_keys "the task" (["name"; "template"; "digits"] @ if optional "stop" task = None then [] else ["stop"]) task;
  let tokens = List.map (between "digits" 0 (outputs - 1)) (list "digits" (find "digits" task)) in
  let place = function
    | Text s -> (try Scanf.sscanf s "%c%u%!" (fun c i ->
        if String.contains "xyz" c && s = Printf.sprintf "%c%d" c i then Digit (c, i) else bad "%s in the template" s)
        with Scanf.Scan_failure _ | End_of_file -> bad "%s in the template" s)
    | other -> Always (between "the template" 0 most_entries other) in
  let template = List.map place (list "template" (find "template" task)) in
  let ends but = List.filter (fun v -> not (List.mem v but)) (List.init outputs Fun.id) in
  let stops, said = match optional "stop" task with
    | None -> None, ""
    | Some (Text "nondigit") -> Some (ends tokens), ", then a token that is no digit"
    | Some (Text "zero") -> Some (ends (List.tl tokens)), ", then a token that is no digit, or the digit 0"
    | Some _ -> bad "unknown stop" in
  let to_coq = function
    | Always v -> W.Always (nat v) | Digit ('x', i) -> W.First (nat i) | Digit ('y', i) -> W.Second (nat i)
    | Digit (_, i) -> W.Sum (nat i) in
  let words = Printf.sprintf "adding two numbers of %d digits in base %d, %d digits of the sum%s" length
    (List.length tokens) (length + 1) said in
  { W.size = nat length; digits = List.map nat tokens; template = List.map to_coq template;
    stops = Option.map (List.map nat) stops }, length, tokens, Array.of_list template, words

(* ---- The certificate ---- *)

let certificate value digest task (d, heads) (length, tokens, template, stops) =
  same_keys "the certificate" (String.split_on_char ' '
    "format version strategy statement verdict model claims hints counter_example") value;
  if find "format" value <> Text "quadlens-certificate" then bad "the certificate's format is not quadlens-certificate";
  (match find "version" value with Number ("3" | "4") -> () | _ -> bad "the certificate's version is not 3 or 4");
  let about = find "model" value and claims = find "claims" value and hints = find "hints" value in
  same_keys "model" ["sha256"; "task"] about;
  if find "sha256" about <> Text digest then reject "the certificate's sha256 is not the model's";
  if in_order (find "task" about) <> in_order task then reject "the certificate's task is not the model's";
  same_keys "claims" ["inputs"; "certified_inputs"; "wrong_inputs"; "margin"] claims;
  let base = List.length tokens in
  let inputs = Z.pow (Z.of_int base) (2 * length) in
  if find "counter_example" value <> Null || find "certified_inputs" claims <> Number (Z.to_string inputs)
  then outside "a certificate that leaves inputs open, or says that some are answered wrongly";
  if find "inputs" claims <> Number (Z.to_string inputs) || find "wrong_inputs" claims <> List [Number "0"; Number "0"]
  then reject "the inputs are not counted right";
  let margin_num, margin_den = match find "margin" claims with
    | Text s when String.length s <= 4000 ->
      let part x = if digits x then Z.of_string x else reject "the margin is no rational" in
      (match String.split_on_char '/' s with [num; den] -> part num, part den | _ -> reject "the margin is no rational")
    | _ -> reject "the certificate claims no margin" in
  same_keys "hints" ["bits"; "basis"; "steps"] hints;
  let bits = between "bits" 1 96 (find "bits" hints) in
  let at_bits up x to_bits =   (* an integer over 2^bits, over 2^to_bits, rounded down or up *)
    if to_bits >= bits then Z.shift_left x (to_bits - bits)
    else if up then Z.neg (Z.shift_right (Z.neg x) (bits - to_bits)) else Z.shift_right x (bits - to_bits) in
  let bases = list "basis" (find "basis" hints) in
  if List.length bases <> heads then reject "not one basis per head";
  let row head r =
    let r = List.map (whole "basis") (list "basis" r) in
    if List.length r <> d then reject "a row of the basis has a wrong length" else nat head, r in
  let basis_rows = List.concat (List.mapi (fun head rows -> List.map (row head) (list "basis" rows)) bases) in
  let leaf stop value =
    let counted = match find "kind" value with
      | Text "right" -> same_keys "a leaf" ["kind"; "own"; "answer"; "box"] value; false
      | Text "counted" when find "words" value = List [Number "0"; Number "0"] -> true
      | Text other -> outside "leaves of kind %s" other | _ -> reject "a leaf without a kind" in
    let answer = between "answer" 0 base (find "answer" value) in
    if stop <> (answer = base) then reject "a leaf's answer is none of its step";
    let ends x = match list "box" x with
      | [low; high] -> at_bits false (whole "box" low) coordinate_bits, at_bits true (whole "box" high) coordinate_bits
      | _ -> reject "a box that has no two ends" in
    let box = List.map ends (list "box" (find "box" value)) in
    let more = wider box in
    let plane () =
      { W.normal = List.map (fun x -> at_bits false (whole "slope" x) coordinate_bits) (list "slope" (find "slope" value));
        level = Z.sub (at_bits false (whole "right" (find "right" value)) (2 * coordinate_bits))
                      (Z.shift_left more (coordinate_bits + 4)) } in
    { W.own = nat (between "own" 0 most_entries (find "own" value));
      answered = nat (if stop then 0 else List.nth tokens answer);
      leaf_box = List.map (fun (low, high) -> Z.sub low more, Z.add high more) box; planes = if counted then [plane ()] else [] } in
  let rec tree = function
    | Null -> W.Nobody
    | Number _ as n -> W.Leaf (nat (between "a leaf's number" 0 most_entries n))
    | List [Text "+"; parts] -> W.Above (List.map tree (list "cells" parts))
    | List [Text "-"; parts] -> W.Below (List.map tree (list "cells" parts))
    | _ -> reject "an entry that is no cell" in
  let states letter = if letter = 0 then 1 else 2 and symbols letter = if letter < length then base * base else 1 in
  let step query asked stop value =
    same_keys "a step" ["leaves"; "cells"] value;
    let low, high = match template.(query) with
      | Always _ -> asked, asked | Digit (_, i) -> min asked i, max asked i in
    if high > length then bad "the template has a letter that is none";
    let entries = ref (list "cells" (find "cells" value)) in
    let rec fixed letter =   (* cells are listed by state, then by letters from the lowest *)
      if letter > high then (match !entries with
        | entry :: rest -> entries := rest; tree entry | [] -> reject "a step lacks cells")
      else W.Above (List.map (fun _ -> fixed (letter + 1)) (List.init (symbols letter) Fun.id)) in
    let trees = List.map (fun _ -> fixed low) (List.init (states low) Fun.id) in
    if !entries <> [] then reject "a step has too many cells";
    { W.fixed_from = nat low; fixed_to = nat (high + 1);
      leaves = List.map (leaf stop) (list "leaves" (find "leaves" value)); trees } in
  let count = Array.length template in
  let first = count - length - 1 in
  if first < 1 then bad "the template has nothing that is given";
  let asked j = match template.(j) with Digit ('z', i) -> i | _ -> bad "the template does not end with the answer" in
  let decoded = List.init (length + 1) (fun k -> first + k - 1, asked (first + k), false) in
  let all = decoded @ if stops then [count - 1, length, true] else [] in
  let steps = list "steps" (find "steps" hints) in
  if List.length steps <> List.length all then reject "not one list of leaves per step";
  let hints = List.map2 (fun (query, asked, stop) value -> step query asked stop value) all steps in
  { W.margin_num; margin_den; basis_bits = Z.of_int bits; basis_rows; hints }, inputs

let run value content digest =
  let network, task, d, heads, outputs = model content in
  let added, length, tokens, template, words = addition task outputs in
  let c, inputs = certificate value digest task (d, heads) (length, tokens, template, added.W.stops <> None) in
  Printf.printf "task: %s\nmargin: %s/%s\ninputs: %s\ncertified: %s\n%!" words (Z.to_string c.W.margin_num)
    (Z.to_string c.W.margin_den) (Z.to_string inputs) (Z.to_string inputs);
  if W.check_words network added c then (print_endline "VERIFIED"; 0)
  else reject "a cell is not in the box of its leaf, or a box is not proved"
