"""What a model is, without its weights: its task, widths and attention."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from jaxtyping import Int

from quadlens.arguments import check_argument, check_fields
from quadlens.display import Displayed
from quadlens.errors import BadConfig
from quadlens.model.activation import Activation, parse_activation
from quadlens.model.norm import NO_NORMS, Norm, Norms
from quadlens.model.task import Task, task_by_name, task_from_json
from quadlens.schema import parse_dataclass

EOS_POSITIONS = 3
MAX_LAYERS = 4
MAX_HIDDEN = 16
MAX_P = 1 << 14
MAX_WEIGHTS = 1 << 30

WHOLE = (
    "p", "d_model", "d_mlp", "n_heads", "d_head", "d_vocab", "d_vocab_out", "n_ctx", "read_position", "b_token_offset",
    "n_layers",
)  # fmt: skip

AttentionKind = Literal["constant", "softmax", "mixture"]


def check_modulus(p: int) -> None:
    """Refuse a modulus that is not an odd integer of at least 3; for mathematics that needs an odd one.

    >>> check_modulus(58)
    Traceback (most recent call last):
        ...
    quadlens.errors.BadConfig: p = 58 is not supported; expected an odd modulus of at least 3
    """
    if p < 3 or p % 2 == 0:
        raise BadConfig(f"p = {p} is not supported; expected an odd modulus of at least 3")


def _check_positive(name: str, value: int) -> None:
    if value < 1:
        raise BadConfig(f"{name} = {value} is not supported; expected at least 1")


def _double(name: str, value: float) -> float:
    """A number as the double that files have of it: exact proofs are about this one, not about what was given."""
    try:
        return float(value)
    except OverflowError:
        raise BadConfig(f"{name} is beyond float64; expected a finite number") from None


def check_size(p: int, weights: int) -> None:
    """Refuse a model too large to be looked at, before anything is allocated for it.

    Args:
        p: Number of elements; tables of all p² answers are made.
        weights: Number of weights.
    """
    if p > MAX_P:
        raise BadConfig(f"p = {p} is too large; expected at most {MAX_P} elements")
    if weights > MAX_WEIGHTS:
        raise BadConfig(f"the model would have {weights} weights; expected at most {MAX_WEIGHTS}: make it smaller")


@dataclass(frozen=True)
class Softmax:
    """Attention that depends on the tokens: the weight on position t is attention[t] + scale · softmax_t(scores).

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
        object.__setattr__(self, "scale", _double("the scale of softmax", self.scale))
        object.__setattr__(self, "divisor", _double("the divisor of attention scores", self.divisor))
        if not math.isfinite(self.scale) or self.scale == 0:
            raise BadConfig(f"softmax times {self.scale}; expected a finite number other than 0")
        if not (math.isfinite(self.divisor) and self.divisor > 0):
            raise BadConfig(f"attention scores divided by {self.divisor}; expected a finite number above 0")


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
    """A transformer of one layer (`math.md` §1, `networks.md` §2) or up to four, reading one position; or an MLP.

    An MLP on a pair of one-hot tokens is a network without a residual stream, and so without attention: it has no
    positions, no heads and a d_model of 0. Its layers, `hidden` and then the one of d_mlp neurons, are

        x_0 = σ_0(W_a[a] + W_b[b] + b_in),   x_l = σ_l(norm_l(x_(l-1)) W_in + b_in),   logits = norm(x) W_out + b_out.

    Attributes:
        p: Number of elements; inputs and answers are tokens 0 … p-1.
        d_model: Width of the residual stream.
        d_mlp: Number of neurons.
        n_heads: Number of attention heads.
        d_head: Width of a head.
        d_vocab: Rows of W_E (at least p; one more with '=', 2p when b has tokens of its own).
        d_vocab_out: Columns of W_U (at least p; the answer is the largest of the first p logits).
        n_ctx: Rows of W_pos (at least the number of positions fed).
        attention: The constant part of the attention weight on each position that is fed: (a, b) or (a, b, '='). With
            several layers it is the same in every head, from every position, whatever softmax masks.
        read_position: Which position's residual stream is read: 0 (a), 1 (b) or 2 ('=').
        activation: The nonlinearity of the MLP.
        b_token_offset: Token of b minus b (p when the second operand has its own tokens, else 0).
        softmax: What is added to the constant part; None where attention is constant.
        task: What the model is asked; addition when left out.
        n_layers: Number of layers.
        norms: Where a transformer has norms, the same in every block. Of an MLP, `mlp` is the norm of what its last
            hidden layer reads.
        hidden: The hidden layers of an MLP before its last.
        bias: Whether an MLP has biases, b_in and b_out; a transformer always has, and an MLP with `hidden` must.
    """

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
        for name in WHOLE:
            object.__setattr__(self, name, int(getattr(self, name)))
        object.__setattr__(self, "attention", tuple(_double("an attention weight", x) for x in self.attention))
        heads = 4 * self.n_heads * self.d_model * self.d_head
        outer = (self.d_vocab + self.d_vocab_out + self.n_ctx) * self.d_model
        layers = self.n_layers * (heads + 2 * self.d_model * self.d_mlp)
        widths = [*(layer.width for layer in self.hidden), self.d_mlp]
        between = sum(x * y for x, y in pairwise(widths))
        own = between + self.p * (2 * widths[0] + self.d_mlp)
        check_size(self.p, outer + layers if self.has_stream else own)
        if self.task is None:
            object.__setattr__(self, "task", task_by_name("add", self.p))
        elif self.task.n != self.p:
            raise BadConfig(f"the task {self.task.name} has {self.task.n} elements, but the model has p = {self.p}")
        _check_positive("d_mlp", self.d_mlp)
        parse_activation(self.activation)
        if self.has_stream:
            self._check_stream()
        elif self.softmax is not None or self.n_layers != 1 or self.read_position or self.n_heads:
            raise BadConfig("d_model = 0 and no attention weights: an MLP has no softmax, no heads and one layer")
        else:
            self._check_hidden()
        if self.norms.query_key is not None:
            raise BadConfig("a norm of queries and keys is not supported here; expected norms.query_key = None")

    def _check_hidden(self) -> None:
        if self.hidden and not self.bias:
            raise BadConfig(
                "several hidden layers without biases; expected bias = True, with zeros where there are none"
            )
        if len(self.hidden) >= MAX_HIDDEN:
            raise BadConfig(f"{len(self.hidden) + 1} hidden layers; expected at most {MAX_HIDDEN}")
        if self.norms.attention is not None or (self.norms.mlp is not None and not self.hidden):
            raise BadConfig(
                "a norm before attention, or before an MLP's first layer, which reads tokens; expected none"
            )
        if self.hidden and self.hidden[0].norm is not None:
            raise BadConfig("the first hidden layer reads tokens; expected hidden[0].norm = None")

    def _check_stream(self) -> None:
        if self.hidden or self.bias:
            raise BadConfig("hidden layers and biases of their own are an MLP's; expected hidden = () and bias = False")
        if not 1 <= self.n_layers <= MAX_LAYERS:
            raise BadConfig(f"n_layers = {self.n_layers} is not supported; expected 1 … {MAX_LAYERS}")
        for name in ("d_model", "n_heads", "d_head"):
            _check_positive(name, getattr(self, name))
        if len(self.attention) not in (2, EOS_POSITIONS):
            raise BadConfig(
                f"attention has {len(self.attention)} weights; expected one for each of (a, b) or (a, b, '=')"
            )
        if not all(math.isfinite(x) for x in self.attention):
            raise BadConfig(f"attention weights {self.attention} are not all finite")
        if not 0 <= self.read_position < len(self.attention):
            raise BadConfig(f"read_position = {self.read_position} is not fed; expected 0 … {len(self.attention) - 1}")
        if self.n_ctx < len(self.attention):
            raise BadConfig(f"n_ctx = {self.n_ctx} is less than the {len(self.attention)} positions fed")
        if self.b_token_offset not in (0, self.p):
            raise BadConfig(f"b_token_offset = {self.b_token_offset}; expected 0 or p = {self.p}")
        if self.d_vocab < self.tokens_used:
            raise BadConfig(f"d_vocab = {self.d_vocab} is less than the {self.tokens_used} tokens used")
        if self.d_vocab_out < self.p:
            raise BadConfig(f"d_vocab_out = {self.d_vocab_out} is less than p = {self.p}")

    @classmethod
    def mlp(
        cls,
        p: int,
        d_mlp: int,
        activation: Activation = "relu",
        task: Task | None = None,
        hidden: tuple[Hidden, ...] = (),
        bias: bool = False,
        norms: Norms = NO_NORMS,
    ) -> "Config":
        """An MLP on a pair of one-hot tokens; with one hidden layer the collapsed model itself, without a skip."""
        check_argument("p", p, int)
        asked = task_by_name("add", p) if task is None else task
        more = {"norms": norms, "hidden": hidden, "bias": bias or bool(hidden)}
        return cls(p, 0, d_mlp, 0, 0, p, p, 0, (), 0, activation, task=asked, **more)  # type: ignore[arg-type]

    @property
    def has_stream(self) -> bool:
        """Whether there is a residual stream, and attention that writes to it; an MLP has none."""
        return bool(self.d_model or self.attention)

    def _facts(self) -> dict[str, object]:
        stream = ("p", "d_model", "d_mlp", "n_heads", "d_head", "attention", "read_position", "activation")
        names = stream if self.has_stream else MLP_KEYS
        layers = {"n_layers": self.depth} if self.depth > 1 else {}
        norms = {"norms": self.norms.words} if self.norms else {}
        return {name: getattr(self, name) for name in names} | layers | norms | {"task": self.task.words}

    @property
    def depth(self) -> int:
        """Number of layers of a transformer, of hidden layers of an MLP."""
        return self.n_layers + len(self.hidden)

    @property
    def no_tables(self) -> str | None:
        """Why tables and softmax alone do not say what the network computes, so that all of it is run; else None."""
        if self.depth > 1:
            return f"the model has {self.depth} layers, and the last reads what the neurons before it computed"
        return (
            f"the model has {self.norms.words}, which divides by a size that depends on a and b" if self.norms else None
        )

    @property
    def no_collapse(self) -> str | None:
        """Why what reaches a neuron is not a part of a plus a part of b; None where it is."""
        attention = f"attention is a {self.attention_kind}, which depends on the tokens" if self.softmax else None
        return self.no_tables or attention

    @property
    def attention_kind(self) -> AttentionKind:
        """`constant`; `softmax` alone; or a `mixture` of both."""
        if self.softmax is None:
            return "constant"
        return "mixture" if any(self.attention) or self.softmax.scale != 1.0 else "softmax"

    @property
    def positions_seen(self) -> int:
        """How many positions softmax sees from the one that is read: the first so many; 0 where there is none."""
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
        """First row of W_E and the one after the last, for the tokens of each position fed."""
        p, offset, equals = self.p, self.b_token_offset, self.equals_token
        return ((0, p), (offset, offset + p), (equals, equals + 1))[: len(self.attention)]

    @property
    def tokens_used(self) -> int:
        """How many rows of W_E the inputs can name."""
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
        """The paper's architecture (appendix `sec:training-details`, erratum 2 of `math.md`)."""
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


# What there is to say of an MLP, in files too.
MLP_KEYS = ("p", "d_mlp", "activation")
# What goes without saying where it is as by default, so that older files stay the same bytes.
UNSAID = ("n_layers", "softmax", "norms", "hidden", "bias")


@dataclass(frozen=True)
class _MLPKeys:
    """An MLP's config as files have it."""

    p: int
    d_mlp: int
    activation: Activation = "relu"
    hidden: tuple[Hidden, ...] = ()
    bias: bool = False
    norms: Norms = NO_NORMS


def config_to_dict(config: Config) -> dict[str, Any]:
    """The config as plain JSON types, with the architecture named.

    Addition, constant attention, one layer, no norm and no bias of an MLP go without saying, so that files of such
    models stay the same bytes.
    """
    said = {
        field.name: getattr(config, field.name)
        for field in dataclasses.fields(config)
        if field.name != "task" and (field.name not in UNSAID or getattr(config, field.name) != field.default)
    }
    said |= {name: dataclasses.asdict(said[name]) for name in ("softmax", "norms") if name in said}
    said |= {"hidden": [dataclasses.asdict(layer) for layer in config.hidden]} if config.hidden else {}
    if config.has_stream:
        data = {"architecture": "transformer", **said}
    else:
        keys = {field.name for field in dataclasses.fields(_MLPKeys)}
        data = {"architecture": "mlp", **{name: value for name, value in said.items() if name in keys}}
    return data if config.task.name == "add" else {**data, "task": config.task.to_json()}


def config_from_dict(data: Any, where: str, table: Int[np.ndarray, "..."] | None = None) -> Config:
    """The inverse of `config_to_dict`; `where` names the source in messages, `table` is the task's, if it has one."""
    if not isinstance(data, Mapping):
        raise BadConfig(f"{where}: the config is a {type(data).__name__}; expected names with values")
    architecture = data.get("architecture")
    if architecture not in ("transformer", "mlp"):
        raise BadConfig(f"{where}: architecture {architecture!r}; expected one of transformer, mlp")
    rest = {key: value for key, value in data.items() if key not in ("architecture", "task")}
    if architecture == "transformer":
        config = parse_dataclass(Config, rest, where)
        if not config.has_stream:
            raise BadConfig(f"{where}: d_model = 0 and no attention; expected a transformer's")
    else:
        try:
            config = Config.mlp(**vars(parse_dataclass(_MLPKeys, rest, where)))
        except BadConfig as error:
            raise BadConfig(str(error) if str(error).startswith(where) else f"{where}: {error}") from None
    if "task" not in data:
        return config
    return dataclasses.replace(config, task=task_from_json(data["task"], config.p, table, where))
