(** The programs that run: [judge] and [check_words], in OCaml, with zarith's integers for [positive], [N] and [Z].

    [ExtrOcamlZBigInt] is Coq's own table of which zarith function stands for which function of Coq, [ExtrOcamlBasic] makes
    booleans, pairs, options and lists OCaml's; both must be trusted, as docs/trust.md says. [nat] stays what it is,
    S (S (... O)). Nothing is replaced by hand. *)

Require Import Proved.Network Proved.Check Proved.Sums.
Require Import ExtrOcamlBasic ExtrOcamlZBigInt.

Print Assumptions check_sound.
Print Assumptions check_words_sound.

Extraction "checker.ml" judge check finite.
Extraction "words.ml" check_words.
