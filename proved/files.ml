(* Files, SHA-256, JSON and safetensors for the programs around the proved checker. These lines are outside the proof: they
   must be read, not believed. *)

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
