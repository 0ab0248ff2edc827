(* The program around the proved checker: reads a certificate (JSON) and a model file (safetensors), says what it read,
   and prints the verdict of [Checker.judge]. These lines are outside the proof: they must be read, not believed.

   quadlens-proved CERTIFICATE MODEL     exit 0 verified for all inputs, 1 rejected or inputs left open, 2 cannot tell *)

module C = Checker

exception Stop of int * string   (* exit code and last line *)
let stop code word fmt = Printf.ksprintf (fun why -> raise (Stop (code, word ^ why))) fmt
let bad fmt = stop 2 "BAD: " fmt                                      (* a file that is not what it should be *)
let outside fmt = stop 2 "OUTSIDE: not in the proved checker: " fmt   (* what the theorem is not about *)
let reject fmt = stop 1 "REJECTED: " fmt                              (* a claim that does not hold, or is none *)
let most_bytes = 64_000_000

(* ---- Files and their SHA-256 (FIPS 180-4) ---- *)

let read_file path =
  try
    if (Unix.stat path).Unix.st_kind <> Unix.S_REG then bad "%s is not a regular file" path;
    let file = open_in_bin path in
    if in_channel_length file > most_bytes then bad "%s has more than %d bytes" path most_bytes;
    really_input_string file (in_channel_length file)
  with Unix.Unix_error _ | Sys_error _ | End_of_file -> bad "%s cannot be read" path

(* The standard's constants: the first 32 bits after the point of the square or cube roots of the first primes. *)
let roots count power =
  let prime k = List.for_all (fun q -> k mod q > 0) (List.init (k - 2) (fun q -> q + 2)) in
  let primes = Array.of_list (List.filter prime (List.init 310 (fun k -> k + 2))) in
  Array.init count (fun n -> Z.(to_int (extract (root (of_int primes.(n) lsl Stdlib.( * ) 32 power) power) 0 32)))

let sha256 text =
  let k = roots 64 3 and h = roots 8 2 and w = Array.make 64 0 and mask = 0xffffffff and length = String.length text in
  let padded = Bytes.make ((length + 72) / 64 * 64) '\000' in
  Bytes.blit_string text 0 padded 0 length; Bytes.set padded length '\128';
  Bytes.set_int64_be padded (Bytes.length padded - 8) (Int64.of_int (8 * length));
  let turn x n = ((x lsr n) lor (x lsl (32 - n))) land mask in
  for block = 0 to (Bytes.length padded / 64) - 1 do
    for t = 0 to 15 do w.(t) <- Int32.to_int (Bytes.get_int32_be padded ((64 * block) + (4 * t))) land mask done;
    for t = 16 to 63 do
      let x = w.(t - 15) and y = w.(t - 2) in
      let s0 = turn x 7 lxor turn x 18 lxor (x lsr 3) and s1 = turn y 17 lxor turn y 19 lxor (y lsr 10) in
      w.(t) <- (w.(t - 16) + s0 + w.(t - 7) + s1) land mask
    done;
    let v = Array.copy h in
    for t = 0 to 63 do
      let a = v.(0) and b = v.(1) and c = v.(2) and e = v.(4) in
      let s1 = turn e 6 lxor turn e 11 lxor turn e 25 and s0 = turn a 2 lxor turn a 13 lxor turn a 22 in
      let first = v.(7) + s1 + ((e land v.(5)) lxor (lnot e land v.(6))) + k.(t) + w.(t) in
      Array.blit v 0 v 1 7;
      v.(4) <- (v.(4) + first) land mask; v.(0) <- (first + s0 + ((a land b) lxor (a land c) lxor (b land c))) land mask
    done;
    Array.iteri (fun i x -> h.(i) <- (h.(i) + x) land mask) v
  done;
  String.concat "" (List.map (Printf.sprintf "%08x") (Array.to_list h))

(* ---- JSON; numbers stay text, and a key may stand only once in an object ---- *)

type json = Null | Bool of bool | Number of string | Text of string | List of json list | Object of (string * json) list

let parse what text =
  let at = ref 0 in
  let fail () = bad "%s is not well-formed JSON (byte %d)" what !at in
  let peek () = if !at < String.length text then text.[!at] else '\000' in
  let next () = let c = peek () in if c = '\000' then fail () else (incr at; c) in
  let rec blank () = match peek () with ' ' | '\n' | '\t' | '\r' -> incr at; blank () | _ -> () in
  let expect word = String.iter (fun c -> if next () <> c then fail ()) word in
  let rec quoted found = match next () with   (* escapes other than of quotation marks and slashes stay as they are *)
    | '"' -> Buffer.contents found
    | '\\' ->
      let c = next () in
      if not (String.contains "\"\\/" c) then Buffer.add_char found '\\'; Buffer.add_char found c; quoted found
    | c -> Buffer.add_char found c; quoted found in
  let several stop one =
    let rec more found = match next () with
      | ',' -> more (one () :: found) | c when c = stop -> List.rev found | _ -> fail () in
    blank (); if peek () = stop then (incr at; []) else more [one ()] in
  let rec value depth =
    blank (); if depth > 50 then fail ();
    let found = match next () with
      | '{' -> Object (unique (several '}' (fun () -> member depth)))
      | '[' -> List (several ']' (fun () -> value (depth + 1)))
      | '"' -> Text (quoted (Buffer.create 16))
      | 't' -> expect "rue"; Bool true | 'f' -> expect "alse"; Bool false | 'n' -> expect "ull"; Null
      | '-' | '0' .. '9' ->
        let start = !at - 1 in
        while (match peek () with '0' .. '9' | '.' | 'e' | 'E' | '+' | '-' -> true | _ -> false) do incr at done;
        Number (String.sub text start (!at - start))
      | _ -> fail () in
    blank (); found
  and member depth = match value (depth + 1) with
    | Text key when not (String.contains key '\\') -> expect ":"; key, value (depth + 1)
    | _ -> fail ()
  and unique found =
    let keys = List.sort_uniq compare (List.map fst found) in
    if List.length keys < List.length found then bad "%s has a key twice" what else found in
  let found = value 0 in
  if !at < String.length text then fail () else found

let members what = function Object found -> found | _ -> bad "%s is not an object" what
let optional key value = List.assoc_opt key (members ("what should hold " ^ key) value)
let find key value = match optional key value with Some found -> found | None -> bad "%s is missing" key
let list what = function List found -> found | _ -> reject "%s is not a list" what
let digits s = s <> "" && String.for_all (fun c -> c >= '0' && c <= '9') s
let integer what = function   (* of at most 18 characters, as the Python checker has it *)
  | Number s when String.length s <= 18 && int_of_string_opt s <> None -> int_of_string s
  | _ -> reject "%s is, or has, something other than a short integer" what
let between what low high value =
  let n = integer what value in
  if n < low || n > high then reject "%s is, or has, %d, which is not in %d ... %d" what n low high else n

(* Peano's numbers; small ones share their memory. *)
let small = Array.make 1024 C.O
let () = for n = 1 to 1023 do small.(n) <- C.S small.(n - 1) done
let nat n =
  let found = ref small.(min n 1023) in
  for _ = 1024 to n do found := C.S !found done; !found
let rec int_of_nat = function C.O -> 0 | C.S n -> 1 + int_of_nat n

(* ---- The model file ---- *)

(* Name, type of numbers, shape, first byte and number of bytes of each tensor; and the metadata. *)
let tensors content =
  let most = min 1_000_000 (String.length content - 8) in
  let length = if most < 0 then -1L else String.get_int64_le content 0 in
  if length < 0L || length > Int64.of_int most then bad "the model is no safetensors file, or is cut";
  let header = Int64.to_int length in
  let entries = parse "the model's header" (String.sub content 8 header) in
  let read (name, entry) =
    let numbers key = List.map (between name 0 most_bytes) (list name (find key entry)) in
    let kind, shape = find "dtype" entry, numbers "shape" in
    let width = match kind with Text ("F32" | "I32") -> 4 | Text "F64" -> 8 | _ -> bad "%s has an unknown dtype" name in
    let bytes = List.fold_left (fun n k -> if n * k > most_bytes then bad "%s is too large" name else n * k) width shape in
    match numbers "data_offsets" with
    | [start; stop] when stop - start = bytes && bytes > 0 && shape <> [] -> name, (kind, shape, 8 + header + start, bytes)
    | _ -> bad "%s has a shape and offsets that do not fit" name in
  let found = List.map read (List.filter (fun (name, _) -> name <> "__metadata__") (members "the header" entries)) in
  let places = List.sort compare (List.map (fun (_, (_, _, start, bytes)) -> start, bytes) found) in
  let follow at (start, bytes) = if start <> at then bad "the model's tensors overlap or leave gaps" else at + bytes in
  if List.fold_left follow (8 + header) places <> String.length content then bad "the model is cut, or too long";
  match find "quadlens" (find "__metadata__" entries) with
  | Text about -> found, parse "the model's metadata" about
  | _ -> bad "the model's metadata is not quadlens'"

(* The rows of a tensor, all its indices but the last being one; bits are read as an integer that is not negative. *)
let rows content (kind, shape, start, bytes) =
  let columns = List.nth shape (List.length shape - 1) and width = if kind = Text "F64" then 8 else 4 in
  let number i =
    if width = 8 then Z.extract (Z.of_int64 (String.get_int64_le content (start + (8 * i)))) 0 64
    else Z.of_int (Int32.to_int (String.get_int32_le content (start + (4 * i))) land 0xffffffff) in
  List.init (bytes / width / columns) (fun r -> List.init columns (fun c -> number ((r * columns) + c)))

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
