"""The config of a model: its task, widths and attention, without its weights."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from jaxtyping import Int

from quadlens.base.arguments import above_zero, as_double, check_argument, check_fields
from quadlens.base.display import Displayed
from quadlens.base.errors import BadConfig
from quadlens.base.schema import parse_dataclass
from quadlens.network.activation import Activation, parse_activation
from quadlens.network.norm import NO_NORMS, Norm, Norms, norm_shapes
from quadlens.network.task import Task, task_by_name, task_from_json
from quadlens.network.tensor_names import PAIR_NAMES, TASK_TABLE, layered

if TYPE_CHECKING:
    from quadlens.network.sequence import SequenceConfig

EOS_POSITIONS = 3
MAX_LAYERS = 4
MAX_HIDDEN = 16
MAX_P = 1 << 14
MAX_WEIGHTS = 1 << 30

# What goes without saying where it is as by default, so that older files stay the same bytes.
UNSAID = ("n_layers", "softmax", "norms", "hidden", "bias")

AttentionKind = Literal["constant", "softmax", "mixture"]


def check_modulus(p: int) -> None:
    """Refuse a modulus that is not an odd integer of at least 3.

    >>> check_modulus(58)
    Traceback (most recent call last):
        ...
    quadlens.base.errors.BadConfig: p = 58 is not supported; expected an odd modulus of at least 3
    """
    if p < 3 or p % 2 == 0:
        raise BadConfig(f"p = {p} is not supported; expected an odd modulus of at least 3")


def _check_positive(name: str, value: int) -> None:
    if value < 1:
        raise BadConfig(f"{name} = {value} is not supported; expected at least 1")


def check_size(p: int, weights: int) -> None:
    """Refuse a model too large to be looked at, before anything is allocated for it.

    Args:
        p: Number of elements; tables of all p² answers are made.
        weights: Number of weights.
    """
    if p > MAX_P:
        raise BadConfig(f"p = {p} is too large; expected at most {MAX_P} elements")
    if weights > MAX_WEIGHTS:
        raise BadConfig(
            f"the model would have {weights} weights; expected at most {MAX_WEIGHTS}: make it "
            "smaller"
        )


@dataclass(frozen=True)
class Softmax:
    """Attention that depends on the tokens.

    The weight on position t is attention[t] + scale · softmax_t(scores).

    Attributes:
        scale: What softmax is multiplied by.
        divisor: What scores (query · key) are divided by, usually √d_head.
        causal: Whether a position sees only itself and those before it.
    """

    scale: float
    divisor: float
    causal: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "scale", as_double("the scale of softmax", self.scale))
        object.__setattr__(self, "divisor", above_zero("attention scores divided by", self.divisor))
        if not math.isfinite(self.scale) or self.scale == 0:
            raise BadConfig(f"softmax times {self.scale}; expected a finite number other than 0")


@dataclass(frozen=True)
class Hidden:
    """A hidden layer of an MLP that is not its last.

    Attributes:
        width: Number of neurons.
        activation: Their nonlinearity; None for a linear layer, as an embedding is.
        norm: Of what the layer reads; None without one, and of the first layer, which reads tokens.
    """

    width: int
    activation: Activation | None = "relu"
    norm: Norm | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "width", int(self.width))
        _check_positive("the width of a hidden layer", self.width)
        if self.activation is not None:
            parse_activation(self.activation)


@dataclass(frozen=True, repr=False)
class Config(Displayed):
    """A transformer of one to four layers that answers pairs (a, b).

    Its answer is read at one position.

    `Config.mlp` is the config of an MLP on a pair of one-hot tokens (an `MLPConfig`).

    Attributes:
        p: Number of elements; inputs and answers are tokens 0 … p-1.
        d_model: Width of the residual stream.
        d_mlp: Number of neurons.
        n_heads: Number of attention heads.
        d_head: Width of a head.
        d_vocab: Rows of W_E (at least p; one more with '=', 2p when b has tokens of its own).
        d_vocab_out: Columns of W_U (at least p; the answer is the largest of the first p logits).
        n_ctx: Rows of W_pos (at least the number of positions fed).
        attention: The constant part of the attention weight on each position that is fed: (a, b) or
            (a, b, '='). With several layers it is the same in every head, from every position,
            whatever softmax masks.
        read_position: Which position's residual stream is read: 0 (a), 1 (b) or 2 ('=').
        activation: The nonlinearity of the MLP.
        b_token_offset: Token of b minus b (p when the second operand has its own tokens, else 0).
        softmax: What is added to the constant part; None where attention is constant.
        task: What the model is asked; addition when left out.
        n_layers: Number of layers.
        norms: Where a transformer has norms, the same in every block. Of an MLP, `mlp` is the norm
            of what its last hidden layer reads.
        hidden: The hidden layers of an MLP before its last.
        bias: Whether an MLP has biases, b_in and b_out; a transformer always has, and an MLP with
            `hidden` must.
    """

    on_sequences: ClassVar[bool] = False
    # The fields that the printed config shows.
    _main: ClassVar[tuple[str, ...]] = (
        "p", "d_model", "d_mlp", "n_heads", "d_head", "attention", "read_position", "activation",
    )  # fmt: skip

    p: int
    d_model: int
    d_mlp: int
    n_heads: int
    d_head: int
    d_vocab: int
    d_vocab_out: int
    n_ctx: int
    attention: tuple[float, ...]
    read_position: int
    activation: Activation = "relu"
    b_token_offset: int = 0
    softmax: Softmax | None = None
    task: Task = None  # type: ignore[assignment]
    n_layers: int = 1
    norms: Norms = NO_NORMS
    hidden: tuple[Hidden, ...] = ()
    bias: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        for field in dataclasses.fields(self):
            if field.type is int:
                object.__setattr__(self, field.name, int(getattr(self, field.name)))
        object.__setattr__(
            self, "attention", tuple(as_double("an attention weight", x) for x in self.attention)
        )
        check_size(self.p, self._size())
        if self.task is None:
            object.__setattr__(self, "task", task_by_name("add", self.p))
        elif self.task.n != self.p:
            raise BadConfig(
                f"the task {self.task.name} has {self.task.n} elements, but the model has p = "
                f"{self.p}"
            )
        _check_positive("d_mlp", self.d_mlp)
        parse_activation(self.activation)
        self._check()
        if self.norms.query_key is not None:
            raise BadConfig(
                "a norm of queries and keys is not supported here; expected norms.query_key = None"
            )

    def _size(self) -> int:
        """Estimate the number of weights of a config that is not checked yet."""
        heads = 4 * self.n_heads * self.d_model * self.d_head
        outer = (self.d_vocab + self.d_vocab_out + self.n_ctx) * self.d_model
        return outer + self.n_layers * (heads + 2 * self.d_model * self.d_mlp)

    def _check(self) -> None:
        """Refuse what is wrong with this kind of network."""
        if not (self.d_model or self.attention):
            raise BadConfig(
                "d_model = 0 and no attention weights: an MLP has no softmax, no heads and one "
                "layer; "
                "Config.mlp builds its config"
            )
        if self.hidden or self.bias:
            raise BadConfig(
                "hidden layers and biases of their own are an MLP's; expected hidden = () and bias "
                "= False"
            )
        if not 1 <= self.n_layers <= MAX_LAYERS:
            raise BadConfig(
                f"n_layers = {self.n_layers} is not supported; expected 1 … {MAX_LAYERS}"
            )
        for name in ("d_model", "n_heads", "d_head"):
            _check_positive(name, getattr(self, name))
        if len(self.attention) not in (2, EOS_POSITIONS):
            raise BadConfig(
                f"attention has {len(self.attention)} weights; expected one for each of (a, b) or "
                "(a, b, '=')"
            )
        if not all(math.isfinite(x) for x in self.attention):
            raise BadConfig(f"attention weights {self.attention} are not all finite")
        if not 0 <= self.read_position < len(self.attention):
            raise BadConfig(
                f"read_position = {self.read_position} is not fed; expected 0 … "
                f"{len(self.attention) - 1}"
            )
        if self.n_ctx < len(self.attention):
            raise BadConfig(
                f"n_ctx = {self.n_ctx} is less than the {len(self.attention)} positions fed"
            )
        if self.b_token_offset not in (0, self.p):
            raise BadConfig(f"b_token_offset = {self.b_token_offset}; expected 0 or p = {self.p}")
        if self.d_vocab < self.tokens_used:
            raise BadConfig(
                f"d_vocab = {self.d_vocab} is less than the {self.tokens_used} tokens used"
            )
        if self.d_vocab_out < self.p:
            raise BadConfig(f"d_vocab_out = {self.d_vocab_out} is less than p = {self.p}")

    @staticmethod
    def mlp(
        p: int,
        d_mlp: int,
        activation: Activation = "relu",
        task: Task | None = None,
        hidden: tuple[Hidden, ...] = (),
        bias: bool = False,
        norms: Norms = NO_NORMS,
    ) -> "Config":
        """Return the config of an MLP on a pair of one-hot tokens.

        With one hidden layer it is the collapsed model itself, without a skip.

        One with `hidden` has biases.
        """
        from quadlens.network.mlp_config import MLPConfig

        check_argument("p", p, int)
        task = task_by_name("add", p) if task is None else task
        more: Any = {"task": task, "norms": norms, "hidden": hidden, "bias": bias or bool(hidden)}
        return MLPConfig(p, 0, d_mlp, 0, 0, p, p, 0, (), 0, activation, **more)

    @property
    def has_stream(self) -> bool:
        """Whether the network has a residual stream that attention writes to.

        An MLP has none.
        """
        return True

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every tensor, by its short name.

        Trained weights are laid out and drawn in this order.
        """
        d, m, h, dh = self.d_model, self.d_mlp, self.n_heads, self.d_head
        block = {
            "W_V": (h, d, dh),
            "b_V": (h, dh),
            "W_O": (h, dh, d),
            "b_O": (d,),
            "W_in": (d, m),
            "b_in": (m,),
            "W_out": (m, d),
            "b_out": (d,),
        }
        more = (
            {"W_Q": (h, d, dh), "b_Q": (h, dh), "W_K": (h, d, dh), "b_K": (h, dh)}
            if self.softmax
            else {}
        )
        more |= norm_shapes(self.norms.attention, "ln1", d) | norm_shapes(self.norms.mlp, "ln2", d)
        before = {"W_E": (self.d_vocab, d), "W_pos": (self.n_ctx, d)}
        after = {"W_U": (d, self.d_vocab_out), "b_U": (self.d_vocab_out,)}
        final = norm_shapes(self.norms.final, "ln_final", d)
        if self.n_layers == 1:
            return before | block | after | more | final
        inner = {
            f"{i}.{name}": shape
            for i in range(self.n_layers)
            for name, shape in (block | more).items()
        }
        return before | after | final | inner

    @property
    def optional(self) -> frozenset[str]:
        """The tensors that may be left out."""
        return frozenset()

    @property
    def names(self) -> dict[str, str]:
        """Our short names and the names in the file."""
        shapes = self.shapes
        return {
            short: long
            for short, long in layered(PAIR_NAMES, self.n_layers).items()
            if short in shapes
        }

    @property
    def task_tensors(self) -> dict[str, Int[np.ndarray, "n n"]]:
        """The tensors that a file adds to the task's name.

        They are the answers, where no formula gives them.
        """
        answers = np.ascontiguousarray(self.task.answers, dtype=np.int32)
        return {} if self.task.by_formula else {TASK_TABLE: answers}

    @property
    def kind_words(self) -> str:
        """What kind of network it is, in a few words."""
        layers = f"{self.n_layers} layers" if self.depth > 1 else "one layer"
        return f"attention is {self.attention_kind}, {layers}"

    def to_dict(self) -> dict[str, Any]:
        """Return the config as plain JSON types, with the architecture named.

        Addition, constant attention, one layer, no norm and no bias of an MLP go without saying, so
        that files of such models stay the same bytes.
        """
        fields = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name != "task"
            and (field.name not in UNSAID or getattr(self, field.name) != field.default)
        }
        fields |= {
            name: dataclasses.asdict(fields[name])
            for name in ("softmax", "norms")
            if name in fields
        }
        fields |= (
            {"hidden": [dataclasses.asdict(layer) for layer in self.hidden]} if self.hidden else {}
        )
        data = self._as_json(fields)
        return data if self.task.name == "add" else {**data, "task": self.task.to_json()}

    def _as_json(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {"architecture": "transformer", **fields}

    @classmethod
    def file_fields(cls) -> tuple["dataclasses.Field[Any]", ...]:
        """The fields that the config in a file may have beside its architecture."""
        return dataclasses.fields(Config)

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], where: str, table: Int[np.ndarray, "..."] | None
    ) -> "Config":
        """Read what `to_dict` wrote.

        `where` names the source in messages; `table` is the task's, if it has one.
        """
        config = cls._parsed(
            {key: value for key, value in data.items() if key not in ("architecture", "task")},
            where,
        )
        if "task" not in data:
            return config
        return dataclasses.replace(
            config, task=task_from_json(data["task"], config.p, table, where)
        )

    @classmethod
    def _parsed(cls, fields: dict[str, Any], where: str) -> "Config":
        return parse_dataclass(Config, fields, where)

    @property
    def brief(self) -> dict[str, object]:
        """The facts that a line about the network's weights begins with."""
        special = [] if self.task.name == "add" else [self.task.words]
        special += [self.attention_kind] if self.softmax is not None else []
        special += [f"{self.depth} layers"] if self.neuron_layers > 1 else []
        special += [self.norms.words] if self.norms else []
        return {"p": self.p, "d_mlp": self.d_mlp, "": ", ".join([self.activation, *special])}

    def _facts(self) -> dict[str, object]:
        layers = {"n_layers": self.depth} if self.neuron_layers > 1 else {}
        norms = {"norms": self.norms.words} if self.norms else {}
        return (
            {name: getattr(self, name) for name in self._main}
            | layers
            | norms
            | {"task": self.task.words}
        )

    @property
    def depth(self) -> int:
        """Number of layers of a transformer, of hidden layers of an MLP."""
        return self.n_layers + len(self.hidden)

    @property
    def neuron_layers(self) -> int:
        """Number of layers that have neurons.

        A linear layer before a norm, as an embedding is, has none.
        """
        return self.n_layers + sum(layer.activation is not None for layer in self.hidden)

    @property
    def no_tables(self) -> str | None:
        """Why tables and softmax alone do not determine the answers; None where they do.

        The whole network is run where they do not.
        """
        if self.neuron_layers > 1 or (self.depth > 1 and not self.norms):
            why = "and the last reads what those before it compute"
            return f"the model has {self.depth} layers, {why}"
        return (
            f"the model has {self.norms.words}, which divides by a size that depends on a and b"
            if self.norms
            else None
        )

    @property
    def no_collapse(self) -> str | None:
        """Why pre-activations are not a part of a plus a part of b; None where they are."""
        attention = (
            f"attention is a {self.attention_kind}, which depends on the tokens"
            if self.softmax
            else None
        )
        return self.no_tables or attention

    @property
    def settings(self) -> dict[str, object]:
        """The config's value of each setting of an import; None where any is right."""
        softmax = (
            "a mixture" if self.attention_kind == "mixture" else f"softmax:{len(self.attention)}"
        )
        attention = softmax if self.softmax else self.attention or "none"
        facts = {"p": self.p, "activation": self.activation, "read_position": self.read_position}
        return {**facts, "attention": attention, "answers": None}

    @property
    def attention_kind(self) -> AttentionKind:
        """`constant`; `softmax` alone; or a `mixture` of both."""
        if self.softmax is None:
            return "constant"
        return "mixture" if any(self.attention) or self.softmax.scale != 1.0 else "softmax"

    @property
    def attends(self) -> AttentionKind | None:
        """The kind of attention; None for a network without attention."""
        return self.attention_kind

    @property
    def adds_by(self) -> str:
        """What adds the part of a and the part of b, in words."""
        return "attention"

    @property
    def embedding(self) -> str:
        """The tensor that has the vectors of tokens as rows."""
        return "W_E"

    @property
    def is_collapsed(self) -> bool:
        """Whether the weights are the collapsed tables U_a, U_b and W_L themselves."""
        return False

    def need_sequences(self) -> "SequenceConfig":
        """Return the config of a network on sequences.

        Raises:
            BadConfig: of any other network.
        """
        raise BadConfig(
            "this network answers pairs; expected one on sequences, with a SequenceConfig"
        )

    def need_pairs(self, why: str = "", settings: tuple[str, ...] = ()) -> "Config":
        """Return this config, which is that of a network on pairs.

        A network on sequences raises BadConfig, with `why` or a sentence of its own.
        """
        return self

    def need_stream(self, why: str, settings: tuple[str, ...] = ()) -> None:
        """Raise BadConfig with `why` where no residual stream exists."""

    @property
    def positions_seen(self) -> int:
        """Number of positions that softmax sees from the position read; 0 without softmax.

        These are the first positions.
        """
        if self.softmax is None:
            return 0
        return self.read_position + 1 if self.softmax.causal else len(self.attention)

    @property
    def has_equals(self) -> bool:
        """Whether an '=' token follows b."""
        return len(self.attention) == EOS_POSITIONS

    @property
    def equals_token(self) -> int:
        """The token of '=', the first one after the operands'."""
        return self.b_token_offset + self.p

    @property
    def token_rows(self) -> tuple[tuple[int, int], ...]:
        """The first row of W_E and the one after the last, for each position's tokens."""
        p, offset, equals = self.p, self.b_token_offset, self.equals_token
        return ((0, p), (offset, offset + p), (equals, equals + 1))[: len(self.attention)]

    @property
    def tokens_used(self) -> int:
        """Number of rows of W_E that inputs can name."""
        return self.equals_token + (1 if self.has_equals else 0)

    @classmethod
    def paper(
        cls,
        p: int = 59,
        d_model: int = 128,
        d_mlp: int = 512,
        n_heads: int = 4,
        d_head: int | None = None,
        equals: bool = False,
    ) -> "Config":
        """Return the paper's architecture, with erratum 2 of the page `math`."""
        return cls(
            p=p,
            d_model=d_model,
            d_mlp=d_mlp,
            n_heads=n_heads,
            d_head=d_head if d_head is not None else max(1, d_model // n_heads),
            d_vocab=p + 1,
            d_vocab_out=p,
            n_ctx=3,
            attention=(1 / 3, 1 / 3, 1 / 3) if equals else (0.5, 0.5),
            read_position=2 if equals else 1,
        )
