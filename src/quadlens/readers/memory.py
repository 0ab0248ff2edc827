"""A transformer that is in memory: TransformerLens' object, or a state dict with its config.

Its config says what a file would have to be asked for. Where there is an object, its own forward
pass is the judge: what was read is compared with it on every input.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from jaxtyping import Int

from quadlens.base.errors import BadConfig, QuadlensError, WrongArgument
from quadlens.network.config import check_size
from quadlens.network.task import task_given
from quadlens.network.tensor_names import PAIR_NAMES
from quadlens.network.weights import Pairs
from quadlens.readers.agreement import check_agreement
from quadlens.readers.checkpoint import Checkpoint, checkpoint_in_memory
from quadlens.readers.protocol import Hints, Imported
from quadlens.readers.registry import recognise
from quadlens.readers.tasks import with_task
from quadlens.readers.transformer_lens import BRIDGE_NAMES, RAW_NAMES

# What our networks are; a config that says otherwise of one of these is refused by its name.
HELD: Mapping[str, tuple[Any, ...]] = {
    "attn_only": (False,),
    "gated_mlp": (False,),
    "parallel_attn_mlp": (False,),
    "positional_embedding_type": ("standard",),
    "scale_attn_by_inverse_layer_idx": (False,),
    "use_local_attn": (False,),
    "use_qk_norm": (False,),
    "use_normalization_before_and_after": (False,),
    "post_embedding_ln": (False,),
    "final_rms": (False,),
    "attn_scores_soft_cap": (-1, 0),
    "output_logits_soft_cap": (-1, 0),
}
EMBEDDINGS = [names["W_E"] for names in (PAIR_NAMES, BRIDGE_NAMES, RAW_NAMES)]

Fed = tuple[str | int, ...]


class TransformerLensObject(Protocol):
    """What is known of TransformerLens' objects: weights by name, and a config."""

    cfg: Any

    def state_dict(self) -> Any:
        """Return the tensors by their names."""


@dataclasses.dataclass(frozen=True)
class Feed:
    """Which tokens stand for an input (a, b).

    Attributes:
        n: How many elements a and b have; the answer is the largest of the first n logits.
        b_offset: Token of b minus b.
        equals: The token after b; None where b is the last.
    """

    n: int
    b_offset: int = 0
    equals: int | None = None

    @classmethod
    def from_setting(cls, inputs: Sequence[str | int], n: int) -> "Feed":
        """What a user says: ("a", "b"), ("a", "b", 113), ("a", "b+113")."""
        tokens = tuple(inputs)
        b = (
            re.fullmatch(r"b(?:\+([0-9]{1,9}))?", str(tokens[1]))
            if len(tokens) in (2, 3) and tokens[0] == "a"
            else None
        )
        last = tokens[2] if len(tokens) == 3 else None
        if isinstance(inputs, str) or b is None or not (last is None or type(last) is int):
            raise WrongArgument(
                f"inputs = {str(inputs)[:80]}; expected the tokens fed in their order: ('a', 'b'), "
                "with a last token ('a', 'b', 113), or with tokens of b's own ('a', 'b+113')"
            )
        return cls(n, int(b[1] or 0), last)

    @property
    def setting(self) -> Fed:
        """The setting `inputs` that a user would give."""
        b = f"b+{self.b_offset}" if self.b_offset else "b"
        return ("a", b) if self.equals is None else ("a", b, self.equals)

    @property
    def rows(self) -> list[int]:
        """The tokens that inputs name: those of a, those of b where they are others, the last."""
        tokens_of_b = range(self.b_offset, self.b_offset + self.n) if self.b_offset else ()
        return [*range(self.n), *tokens_of_b, *([] if self.equals is None else [self.equals])]

    def tokens(self, pairs: Pairs) -> Int[np.ndarray, "n positions"]:
        """What the network is fed for these pairs."""
        columns = [pairs[:, 0], pairs[:, 1] + self.b_offset]
        return np.stack(
            [*columns, *([] if self.equals is None else [np.full(len(pairs), self.equals)])], axis=1
        )


def is_transformer_lens(model: Any) -> bool:
    """Return whether this is TransformerLens' own object.

    It is a HookedTransformer, or the bridge of version 4.
    """
    config = getattr(model, "cfg", None)
    return callable(getattr(model, "state_dict", None)) and all(
        hasattr(config, x) for x in ("n_ctx", "d_vocab")
    )


def from_transformer(
    model: Any,
    config: Any = None,
    *,
    inputs: Sequence[str | int] | None = None,
    p: int | None = None,
    task: Any = None,
) -> Imported:
    """A transformer in memory, as a model that every verb takes.

    Args:
        model: A `HookedTransformer` (TransformerLens 2 and 3), a bridge (4), or a state dict of
            one.
        config: The config of a state dict, as a dictionary or TransformerLens' own; an object has
            it itself.
        inputs: The tokens fed, as ("a", "b", 113); when None, a, b and the last token where there
            is one beyond the answers and a third position, else a and b.
        p: How many elements a and b have; when None, as many as there are answers.
        task: What the model was trained for, as "add" or "S5", its table, or a `quadlens.task(…)`;
            addition when None.

    Raises:
        QuadlensError: with what came, what was expected and what to do; or where its own forward
            pass says otherwise.
    """
    alive, task = is_transformer_lens(model), task_given(task)
    source = type(model).__name__ if alive else "the state dict"
    facts = _plain(model.cfg if alive and config is None else config, source)
    vocabulary, n_ctx = _size(facts, "d_vocab", source), _size(facts, "n_ctx", source)
    out = facts.get("d_vocab_out")
    answers = out if isinstance(out, int) and out > 0 else vocabulary
    n = answers if p is None else p
    check_size(n, 0)
    checkpoint = checkpoint_in_memory(dict(model.state_dict()) if alive else model, source)
    feed = _default(n, vocabulary, n_ctx) if inputs is None else Feed.from_setting(inputs, n)
    third = "" if n_ctx > 2 else f", n_ctx is {n_ctx}"
    why = (
        f"by default, {vocabulary} tokens for {n} answers{third}"
        if inputs is None
        else "the setting inputs"
    )
    hints = Hints(task=task, sidecar_name="cfg" if alive else "the config")

    def read(fed: Feed) -> Imported:
        imported = _read(checkpoint, facts, fed, hints, vocabulary, why)
        words = f"{source}: {task} is a task on sequences; save the state dict and import the file"
        imported.model.config.need_pairs(words)
        return with_task(imported, hints, source)

    imported = read(feed)
    by_parts, compared = imported, "not compared with a forward pass: a state dict has none"
    if alive:
        agreement = check_agreement(imported.model, _runs(model, feed), model, source)
        imported, compared = agreement.counted(imported), agreement.note
    notes = (*imported.notes, compared)
    if inputs is None and by_parts.correct != by_parts.pairs:
        ns = [n] if p is not None or answers < vocabulary else [n, n - 1, n // 2, (n - 1) // 2]
        notes += _better(read, feed, _others(feed, ns, vocabulary, n_ctx), by_parts)
    return dataclasses.replace(imported, notes=notes)


def _plain(config: Any, source: str) -> dict[str, Any]:
    """The config's plain values by their names; what our networks are not is refused."""
    if config is None:
        raise BadConfig(
            f"{source} comes without a config; give it with config=…", settings=("config",)
        )
    if not isinstance(config, Mapping):
        config = {name: value for name, value in vars(config).items() if not name.startswith("_")}
    values = {name: x.item() if isinstance(x, np.generic) else x for name, x in config.items()}
    plain = {name: x for name, x in values.items() if isinstance(x, (bool, int, float, str))}
    for name, expected in HELD.items():
        if plain.get(name, expected[0]) not in expected:
            raise BadConfig(
                f"{source}: {name} is {str(plain[name])[:40]} in its config; quadlens reads models "
                f"where it is {expected[0]}"
            )
    return plain


def _size(facts: Mapping[str, Any], name: str, source: str) -> int:
    value = facts.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadConfig(
            f"{source}: its config says {name} = {str(value)[:40]}; expected a whole number above 0"
        )
    return value


def _default(n: int, vocabulary: int, n_ctx: int) -> Feed:
    return Feed(n, equals=vocabulary - 1 if n_ctx > 2 and vocabulary > n else None)


def _others(feed: Feed, ns: Sequence[int], vocabulary: int, n_ctx: int) -> Iterator[Feed]:
    """Other feeds that a network of these sizes may have been trained with."""
    for n in dict.fromkeys(x for x in ns if x > 1):
        for offset in (0, n):
            beyond = offset + n
            last = dict.fromkeys(
                [None, *([beyond, vocabulary - 1] if n_ctx > 2 and vocabulary > beyond else [])]
            )
            if beyond <= vocabulary:
                yield from (other for t in last if (other := Feed(n, offset, t)) != feed)


def _better(
    read: Callable[[Feed], Imported], feed: Feed, others: Iterator[Feed], imported: Imported
) -> tuple[str, ...]:
    """A note if another feed answers more inputs right, and a larger share of them."""
    best, share = None, (imported.correct or 0) / (imported.pairs or 1)
    for other in others:
        try:
            reading = read(other)
        except (
            QuadlensError
        ):  # no such task of so many elements, or the like: not what the network was fed
            continue
        of_all = (reading.correct or 0) / (reading.pairs or 1)
        if of_all > share and (reading.correct or 0) > (imported.correct or 0):
            best, share = (other, reading), of_all
    if best is None:
        return ()
    other, reading = best
    settings = f"inputs={other.setting}" + (f", p={other.n}" if other.n != feed.n else "")
    return (
        f"another feed answers more inputs right, {reading.correct} of {reading.pairs}: give "
        f"{settings}",
    )


def _read(
    checkpoint: Checkpoint,
    facts: Mapping[str, Any],
    feed: Feed,
    hints: Hints,
    vocabulary: int,
    why: str,
) -> Imported:
    """The model with this feed; tokens are numbered anew where ours would be others."""
    if max(feed.rows) >= vocabulary:
        raise BadConfig(
            f"{checkpoint.source}: fed {feed.setting}, token {max(feed.rows)} is not among its "
            f"{vocabulary}; correct inputs or p",
            settings=("p",),
        )
    offset = feed.n if feed.b_offset else 0
    if feed.b_offset != offset or feed.equals not in (None, offset + feed.n):
        name = next((name for name in EMBEDDINGS if name in checkpoint.tensors), None)
        if name is None:
            raise BadConfig(
                f"{checkpoint.source} has no embedding; expected one of {', '.join(EMBEDDINGS)}"
            )
        tensors = {**checkpoint.tensors, name: checkpoint.tensors[name][feed.rows]}
        checkpoint = dataclasses.replace(checkpoint, tensors=tensors)
    positions = 2 if feed.equals is None else 3
    by_feed = {"p": feed.n, "attention": f"softmax:{positions}", "b_token_offset": offset}
    by_feed |= {} if feed.equals is None else {"equals_token": offset + feed.n}
    hints = dataclasses.replace(hints, sidecar={**facts, **by_feed})
    imported = recognise(checkpoint, hints).read(checkpoint, hints)
    tokens = ", ".join(map(str, feed.setting))
    notes = tuple(
        f"fed ({tokens}): {why}" if x.startswith("inputs ") else x for x in imported.notes
    )
    return dataclasses.replace(imported, notes=notes)


def _runs(model: Any, feed: Feed) -> Callable[[Any, Pairs], Any]:
    """The object's own forward pass: its logits of pairs at the last position."""

    def run(network: Any, pairs: Pairs) -> Any:
        import torch

        device = next(iter(network.parameters())).device
        return network(torch.from_numpy(feed.tokens(pairs)).to(device))[:, -1]

    return run
