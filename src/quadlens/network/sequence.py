"""The config of a one-layer network on sequences, without its weights."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Literal, NoReturn, get_args

import numpy as np

from quadlens.base.arguments import above_zero, check_fields
from quadlens.base.display import Displayed
from quadlens.base.errors import BadConfig
from quadlens.base.schema import parse_dataclass
from quadlens.network.norm import Norms, norm_shapes
from quadlens.network.tensor_names import SEQUENCE_NAMES

SequenceActivation = Literal["relu", "gelu", "gelu_tanh", "silu"]

# Without these there is no network; a bias left out is 0, and so are positions; a norm's weight
# left out is 1.
REQUIRED = {
    "W_E", "W_Q", "W_K", "W_V", "W_O", "W_gate", "W_in", "W_out",
    "rope_cos", "rope_sin", "mask", "W_U",
}  # fmt: skip
MAX_WIDTH = 1 << 14
NO_PAIRS = (
    "this network reads sequences of tokens, and what is asked is for networks that answer pairs; "
    "`evaluate`, "
    "`explain`, `certify` and `report` are for both"
)
MAX_SEQUENCE_WEIGHTS = 1 << 24


@dataclass(frozen=True)
class Fed:
    """A position whose token depends on the input.

    tokens[s][a] is the token for state s before `letter` and the letter a.
    """

    letter: int
    tokens: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Step:
    """One answer, read at position `query`.

    right[s][a] is the number of the right answer, among the automaton's.
    """

    query: int
    letter: int
    right: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Automaton:
    """A task as tables: every word of letters is an input (docs/sequences.md).

    Attributes:
        next: next[l][s][a] is the state after letter l, for state s before it and letter a; state 0
            comes first.
        positions: What each position is fed: a constant token, or what a letter and the state
            before it say.
        steps: In the order of decoding.
        answers: The sets of tokens that steps call right.
    """

    next: tuple[tuple[tuple[int, ...], ...], ...]
    positions: tuple[int | Fed, ...]
    steps: tuple[Step, ...]
    answers: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class TaskSpec:
    """A task as a file has it: a name with its settings, or a name with an automaton.

    Attributes:
        name: `add:10`, `cumsum-sign:20`, `max:4`, or one's own.
        template: For `add`: what each position is fed, `x0` being the units of the first number,
            `z0` of the answer.
        digits: For `add`: the token of each digit.
        stop: For `add`: `nondigit` where one more token is asked for, which may be no digit; `zero`
            where it may be digit 0 too, which changes no number; None where decoding stops by
            itself.
        tokens: For `max`: the number of tokens.
        largest: For `cumsum-sign`: numbers are -largest … largest, and their tokens 0 … 2 largest.
        automaton: For a task of one's own.
    """

    name: str
    template: tuple[str | int, ...] = ()
    digits: tuple[int, ...] = ()
    stop: Literal["nondigit", "zero"] | None = None
    tokens: int | None = None
    largest: int | None = None
    automaton: Automaton | None = None
    # No renaming of elements makes a task on sequences addition.
    cyclic: ClassVar[None] = None

    def to_json(self) -> dict[str, Any]:
        """Return the task as files have it: what is left out is not written."""
        return {key: value for key, value in asdict(self).items() if value not in (None, ())}


@dataclass(frozen=True, repr=False)
class SequenceConfig(Displayed):
    """A decoder of one layer on sequences (docs/sequences.md has its forward pass).

    Attributes:
        d_vocab: Rows of W_E.
        d_vocab_out: Columns of W_U.
        n_ctx: Positions.
        d_model: Width of the residual stream.
        n_heads: Number of heads.
        d_head: Width of a query and of a key.
        d_value: Width of a value.
        d_mlp: Number of neurons; 0 for a network of attention only.
        task: What it is asked.
        activation: Of the MLP.
        gated: Whether the MLP is σ(n W_gate + b_gate) ⊙ (n W_in + b_in), and not σ(n W_in + b_in).
        divisor: What scores (query · key) are divided by.
        norms: Where it normalises.
        rope: How queries and keys are rotated by position: pairs of the first and the second half,
            or neighbours.
        mask: `causal`, or a tensor of 0 and 1 for each head (rows are queries, columns keys).
    """

    on_sequences: ClassVar[bool] = True

    d_vocab: int
    d_vocab_out: int
    n_ctx: int
    d_model: int
    n_heads: int
    d_head: int
    d_value: int
    d_mlp: int
    task: TaskSpec
    activation: SequenceActivation = "relu"
    gated: bool = False
    divisor: float = 1.0
    norms: Norms = field(default_factory=Norms)
    rope: Literal["halves", "pairs"] | None = None
    mask: Literal["causal", "tensor"] = "causal"

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "divisor", above_zero("attention scores divided by", self.divisor))
        for name in (width.name for width in fields(self) if width.type is int):
            value = getattr(self, name)
            if not (0 if name == "d_mlp" else 1) <= value <= MAX_WIDTH:
                raise BadConfig(f"{name} = {value} is not supported; expected 1 … {MAX_WIDTH}")
        if self.activation not in get_args(SequenceActivation):
            known = ", ".join(get_args(SequenceActivation))
            raise BadConfig(
                f"activation {self.activation!r} of a network on sequences; expected one of {known}"
            )
        if self.rope not in ("halves", "pairs", None) or self.mask not in ("causal", "tensor"):
            raise BadConfig(
                f"rope {self.rope!r}, mask {self.mask!r}; expected halves, pairs or none; causal "
                "or tensor"
            )
        if self.rope and self.d_head % 2:
            raise BadConfig(
                f"d_head = {self.d_head} with rotated queries and keys; expected an even width"
            )
        if self.gated and not self.d_mlp:
            raise BadConfig("a gate without an MLP (d_mlp = 0); leave gated out")
        weights = sum(math.prod(shape) for shape in self.shapes.values())
        if weights > MAX_SEQUENCE_WEIGHTS:
            raise BadConfig(
                f"the network would have {weights} weights; expected at most {MAX_SEQUENCE_WEIGHTS}"
            )

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every tensor that the network may have, by its short name."""
        d, h, t, norms = self.d_model, self.n_heads, self.n_ctx, self.norms
        m, q, v = self.d_mlp, self.d_head, self.d_value
        shapes: dict[str, tuple[int, ...]] = {"W_E": (self.d_vocab, d), "W_pos": (t, d)}
        shapes |= norm_shapes(norms.attention, "ln1", d)
        shapes |= {"W_Q": (h, d, q), "b_Q": (h, q), "W_K": (h, d, q), "b_K": (h, q)}
        shapes |= {"q_norm_w": (q,), "k_norm_w": (q,)} if norms.query_key else {}
        shapes |= {
            "W_V": (h, d, v),
            "b_V": (h, v),
            "W_O": (h, v, d),
            "b_O": (d,),
            "score_bias": (h, t, t),
        }
        shapes |= {"rope_cos": (t, q // 2), "rope_sin": (t, q // 2)} if self.rope else {}
        shapes |= {"mask": (h, t, t)} if self.mask == "tensor" else {}
        if m:
            shapes |= norm_shapes(norms.mlp, "ln2", d)
            shapes |= {"W_gate": (d, m), "b_gate": (m,)} if self.gated else {}
            shapes |= {"W_in": (d, m), "b_in": (m,), "W_out": (m, d), "b_out": (d,)}
        shapes |= norm_shapes(norms.final, "ln_final", d)
        return shapes | {"W_U": (d, self.d_vocab_out), "b_U": (self.d_vocab_out,)}

    @property
    def optional(self) -> frozenset[str]:
        """The tensors that may be left out."""
        return frozenset(self.shapes.keys() - REQUIRED)

    @property
    def names(self) -> dict[str, str]:
        """Our short names and the names in the file."""
        return {short: SEQUENCE_NAMES[short] for short in self.shapes}

    def need_sequences(self) -> "SequenceConfig":
        """Return this config, which is that of a network on sequences."""
        return self

    def need_pairs(self, why: str = NO_PAIRS, settings: tuple[str, ...] = ()) -> NoReturn:
        """Raise BadConfig with this sentence: the network reads more than a pair."""
        raise BadConfig(why, settings=settings)

    @property
    def settings(self) -> dict[str, object]:
        """The config's value of each setting of an import that it has."""
        return {"activation": self.activation}

    @property
    def task_tensors(self) -> dict[str, np.ndarray]:
        """The tensors that a file adds to the task's JSON: none."""
        return {}

    @property
    def kind_words(self) -> str:
        """What kind of network it is, in a few words."""
        return "a network on sequences"

    def to_dict(self) -> dict[str, Any]:
        """Return the config as plain JSON types, with the architecture named."""
        return {"architecture": "sequence", **asdict(self), "task": self.task.to_json()}

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], where: str, _table: np.ndarray | None = None
    ) -> "SequenceConfig":
        """Read what `to_dict` wrote; `where` names the source in messages."""
        return parse_dataclass(
            SequenceConfig, {k: v for k, v in data.items() if k != "architecture"}, where
        )

    @property
    def brief(self) -> dict[str, object]:
        """The facts that a line about the network's weights begins with."""
        return self._facts()

    def _facts(self) -> dict[str, object]:
        widths = ("d_model", "n_heads", "d_head", "d_value", "d_mlp", "activation")
        return {"task": self.task.name, **{name: getattr(self, name) for name in widths}}
