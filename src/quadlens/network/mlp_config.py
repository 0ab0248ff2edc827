"""The config of an MLP on a pair of one-hot tokens, without its weights."""

from dataclasses import Field, dataclass, fields
from itertools import pairwise
from typing import Any

from quadlens.base.errors import BadConfig
from quadlens.base.schema import parse_dataclass
from quadlens.network.activation import Activation
from quadlens.network.config import MAX_HIDDEN, Config, Hidden
from quadlens.network.norm import NO_NORMS, Norms, norm_shapes


@dataclass(frozen=True, repr=False)
class MLPConfig(Config):
    """An MLP: no residual stream, no attention, no positions, and a d_model of 0.

    Its layers, `hidden` and then the one of d_mlp neurons, are

        x_0 = σ_0(W_a[a] + W_b[b] + b_in)
        x_l = σ_l(norm_l(x_(l-1)) W_in + b_in)
        logits = norm(x) W_out + b_out
    """

    _main = ("p", "d_mlp", "activation")

    @property
    def has_stream(self) -> bool:
        """Tokens are read as they are."""
        return False

    @property
    def attends(self) -> None:
        """There is no attention."""

    @property
    def adds_by(self) -> str:
        """What adds the part of a and the part of b, in words."""
        return "the first layer"

    @property
    def embedding(self) -> str:
        """The first layer embeds one-hot tokens: its rows are a's vectors."""
        return "W_a"

    @property
    def is_collapsed(self) -> bool:
        """With one hidden layer, without biases and norms."""
        return not (self.hidden or self.bias or self.norms)

    def need_stream(self, why: str, settings: tuple[str, ...] = ()) -> None:
        """Raise BadConfig with `why`: an MLP has no residual stream."""
        raise BadConfig(why, settings=settings)

    @property
    def _widths(self) -> list[int]:
        return [*(layer.width for layer in self.hidden), self.d_mlp]

    def _size(self) -> int:
        widths = self._widths
        return sum(x * y for x, y in pairwise(widths)) + self.p * (2 * widths[0] + self.d_mlp)

    def _check(self) -> None:
        if self.softmax is not None or self.n_layers != 1 or self.read_position or self.n_heads:
            raise BadConfig(
                "d_model = 0 and no attention weights: an MLP has no softmax, no heads and one "
                "layer"
            )
        if self.hidden and not self.bias:
            raise BadConfig(
                "several hidden layers without biases; expected bias = True, with zeros where "
                "there are none"
            )
        if len(self.hidden) >= MAX_HIDDEN:
            raise BadConfig(f"{len(self.hidden) + 1} hidden layers; expected at most {MAX_HIDDEN}")
        if self.norms.attention is not None or (self.norms.mlp is not None and not self.hidden):
            raise BadConfig(
                "a norm before attention, or before an MLP's first layer, which reads tokens; "
                "expected none"
            )
        if self.hidden and self.hidden[0].norm is not None:
            raise BadConfig("the first hidden layer reads tokens; expected hidden[0].norm = None")

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every tensor, by its short name."""
        p, widths = self.p, self._widths
        norms = [*(layer.norm for layer in self.hidden), self.norms.mlp]
        shapes: dict[str, tuple[int, ...]] = {"W_a": (p, widths[0]), "W_b": (p, widths[0])}
        shapes |= {"b_in": (widths[0],)} if self.bias else {}
        for number, (before, width) in enumerate(pairwise(widths), 1):
            shapes |= norm_shapes(norms[number], f"{number}.ln2", before)
            shapes |= {f"{number}.W_in": (before, width), f"{number}.b_in": (width,)}
        shapes |= norm_shapes(self.norms.final, "ln_final", self.d_mlp)
        return shapes | {"W_out": (self.d_mlp, p)} | ({"b_out": (p,)} if self.bias else {})

    @property
    def names(self) -> dict[str, str]:
        """Our short names and the names in the file."""
        return {name: f"mlp.{name}" for name in self.shapes}

    @property
    def kind_words(self) -> str:
        """What kind of network it is, in a few words."""
        return "an MLP"

    def _as_json(self, fields_: dict[str, Any]) -> dict[str, Any]:
        keys = {field.name for field in fields(_Keys)}
        return {
            "architecture": "mlp",
            **{name: value for name, value in fields_.items() if name in keys},
        }

    @classmethod
    def file_fields(cls) -> tuple["Field[Any]", ...]:
        """The fields that the config in a file may have beside its architecture."""
        task = next(field for field in fields(Config) if field.name == "task")
        return (*fields(_Keys), task)

    @classmethod
    def _parsed(cls, fields_: dict[str, Any], where: str) -> Config:
        keys = parse_dataclass(_Keys, fields_, where)
        try:
            return Config.mlp(**vars(keys))
        except BadConfig as error:
            raise BadConfig(f"{where}: {error}") from None


@dataclass(frozen=True)
class _Keys:
    """An MLP's config as files have it."""

    p: int
    d_mlp: int
    activation: Activation = "relu"
    hidden: tuple[Hidden, ...] = ()
    bias: bool = False
    norms: Norms = NO_NORMS
