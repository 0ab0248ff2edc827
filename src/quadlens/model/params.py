"""The weights of a model as frozen values that check themselves when built."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from quadlens.display import Displayed
from quadlens.errors import BadConfig, BadWeights, WrongArgument
from quadlens.model.activation import apply_activation
from quadlens.model.collapsed import Collapsed
from quadlens.model.config import Config, MLPConfig
from quadlens.model.task import Task
from quadlens.model.token_tables import GatedTable, HiddenLayer, TokenTables, attention_scores

Pairs = Int[np.ndarray, "n 2"]
QUERY_KEY = ("W_Q", "b_Q", "W_K", "b_K")


@runtime_checkable
class Model(Protocol):
    """What every architecture offers: its config, a forward pass written the obvious way, and its collapse."""

    @property
    def config(self) -> Config | MLPConfig:
        """The config the weights belong to."""

    def tensors(self) -> dict[str, Float[np.ndarray, "..."]]:
        """Every weight by the name it has in our files."""

    def forward(self, pairs: Pairs) -> Float[np.ndarray, "n p"]:
        """Logits of each pair (a, b), computed the obvious way in float64: the oracle of every faster path."""

    def collapse(self) -> Collapsed:
        """The equivalent one-hidden-layer model U_a, U_b, W_L, S_a, S_b (`math.md` §1).

        Raises:
            BadConfig: when attention depends on the tokens, so that there is none; `hidden_layer` always works.
        """

    def hidden_layer(self) -> HiddenLayer:
        """The collapsed model, or token tables where attention depends on the tokens (`networks.md` §2)."""


ModelT = TypeVar("ModelT", bound=Model)


def asked(model: ModelT, task: Task) -> ModelT:
    """The same weights, asked another task."""
    return replace(model, config=replace(model.config, task=task))  # type: ignore[type-var]


def check_arrays(arrays: Mapping[str, Any]) -> None:
    """Refuse weights that are no NumPy arrays, as tensors of other libraries."""
    other = {name: type(array) for name, array in arrays.items() if not isinstance(array, np.ndarray)}
    for name, kind in other.items():
        raise WrongArgument(
            f"{name} is a {kind.__module__}.{kind.__name__}; expected a NumPy array, as tensor.detach().cpu().numpy() "
            "gives it; a whole state dict, of tensors or arrays, goes to quadlens.from_state_dict(state, …)"
        )


def check_tensors(arrays: dict[str, np.ndarray], shapes: dict[str, tuple[int, ...]]) -> None:
    """Refuse wrong shapes, dtypes other than float32/float64, NaN and infinity: all problems at once."""
    check_arrays(arrays)
    problems = []
    for name, shape in shapes.items():
        array = arrays[name]
        if array.shape != shape:
            problems.append(f"{name} has shape {array.shape}, expected {shape}")
        elif array.dtype not in (np.float32, np.float64):
            problems.append(f"{name} has dtype {array.dtype}, expected float32 or float64")
        elif not np.isfinite(array).all():
            bad = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
            problems.append(f"{name}{list(bad)} is {array[bad]}, expected finite weights")
    if problems:
        raise BadWeights("; ".join(problems))


def freeze(array: np.ndarray) -> np.ndarray:
    """`array` contiguous and read-only; a copy while anyone could still write to it, so that it cannot change."""
    if not array.flags.writeable and array.flags.c_contiguous:
        return array
    frozen = np.array(array, order="C")
    frozen.flags.writeable = False
    return frozen


@dataclass(frozen=True, eq=False, repr=False)
class Weighted(Displayed):
    """What the architectures have in common: weights by name, as a config says, checked and frozen when built."""

    config: Any

    @staticmethod
    @abstractmethod
    def shapes(config: Any) -> dict[str, tuple[int, ...]]:
        """The shape every weight must have."""

    def __post_init__(self) -> None:
        arrays = self.tensors()
        check_tensors(arrays, self.shapes(self.config))
        for name, array in arrays.items():
            object.__setattr__(self, name, freeze(array))

    def tensors(self) -> dict[str, Float[np.ndarray, "..."]]:
        """Every weight by the name it has in our files."""
        return {name: getattr(self, name) for name in self.shapes(self.config)}

    def _facts(self) -> dict[str, object]:
        weights = sum(array.size for array in self.tensors().values())
        config, task = self.config, self.config.task
        special = [] if task.name == "add" else [task.words]
        if isinstance(config, Config):
            special += [config.attention_kind] if config.softmax is not None else []
            special += [f"{config.n_layers} layers"] if config.n_layers > 1 else []
        return {
            "p": config.p,
            "d_mlp": config.d_mlp,
            "": ", ".join([config.activation, *special]),
            "weights": f"{weights:,}",
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class Layer:
    """One layer's weights; queries and keys exactly where there is softmax."""

    W_V: Float[np.ndarray, "n_heads d_model d_head"]
    b_V: Float[np.ndarray, "n_heads d_head"]
    W_O: Float[np.ndarray, "n_heads d_head d_model"]
    b_O: Float[np.ndarray, " d_model"]
    W_in: Float[np.ndarray, "d_model d_mlp"]
    b_in: Float[np.ndarray, " d_mlp"]
    W_out: Float[np.ndarray, "d_mlp d_model"]
    b_out: Float[np.ndarray, " d_model"]
    W_Q: Float[np.ndarray, "n_heads d_model d_head"] | None = None
    b_Q: Float[np.ndarray, "n_heads d_head"] | None = None
    W_K: Float[np.ndarray, "n_heads d_model d_head"] | None = None
    b_K: Float[np.ndarray, "n_heads d_head"] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Params(Weighted, Layer):
    """A one-layer transformer: its layer's weights, and those before and after it.

    Row-vector mathematics, TransformerLens' names. Biases that a checkpoint does not have are zero.
    """

    config: Config
    W_E: Float[np.ndarray, "d_vocab d_model"]
    W_pos: Float[np.ndarray, "n_ctx d_model"]
    W_U: Float[np.ndarray, "d_model d_vocab_out"]
    b_U: Float[np.ndarray, " d_vocab_out"]

    def __post_init__(self) -> None:
        if self.config.n_layers != 1:
            raise BadConfig(f"n_layers is {self.config.n_layers}; these are the weights of one layer, expected 1")
        arrays: dict[str, np.ndarray | None] = {name: getattr(self, name) for name in self.shapes(self.config)}
        missing = [name for name, array in arrays.items() if array is None]
        needless = [name for name in QUERY_KEY if name not in arrays and getattr(self, name) is not None]
        if missing or needless:
            raise BadWeights(
                f"attention is {self.config.attention_kind}: missing weights {missing}, weights without use {needless}"
            )
        super().__post_init__()

    @staticmethod
    def shapes(config: Config) -> dict[str, tuple[int, ...]]:
        """The shape every weight must have."""
        d, m, h, dh = config.d_model, config.d_mlp, config.n_heads, config.d_head
        query_key = {"W_Q": (h, d, dh), "b_Q": (h, dh), "W_K": (h, d, dh), "b_K": (h, dh)}
        return {
            "W_E": (config.d_vocab, d),
            "W_pos": (config.n_ctx, d),
            "W_V": (h, d, dh),
            "b_V": (h, dh),
            "W_O": (h, dh, d),
            "b_O": (d,),
            "W_in": (d, m),
            "b_in": (m,),
            "W_out": (m, d),
            "b_out": (d,),
            "W_U": (d, config.d_vocab_out),
            "b_U": (config.d_vocab_out,),
            **(query_key if config.softmax is not None else {}),
        }

    @classmethod
    def with_zero_biases(cls, config: Config, **weights: np.ndarray) -> "Params":
        """Build from the weights given by name; a bias left out is zero, a weight left out is an error."""
        shapes = cls.shapes(config)
        missing = [name for name in shapes if name.startswith("W_") and name not in weights]
        unknown = sorted(set(weights) - set(shapes))
        if missing or unknown:
            raise BadWeights(f"missing weights {missing}, unknown weights {unknown}")
        check_arrays(weights)
        dtype = weights["W_in"].dtype
        filled = {name: weights.get(name, np.zeros(shape, dtype=dtype)) for name, shape in shapes.items()}
        check_tensors(filled, shapes)
        return cls(config=config, **filled)

    def forward(self, pairs: Pairs) -> Float[np.ndarray, "n p"]:
        """The full transformer, step by step as the paper lists it (§2.2), in float64."""
        config = self.config
        w = {name: array.astype(np.float64) for name, array in self.tensors().items()}
        tokens = [pairs[:, 0], pairs[:, 1] + config.b_token_offset]
        if config.has_equals:
            tokens.append(np.full(len(pairs), config.equals_token))
        streams = [w["W_E"][token] + w["W_pos"][position] for position, token in enumerate(tokens)]
        attended = w["b_O"]
        for head in range(config.n_heads):
            for weight, stream in zip(self._attention(w, head, streams), streams, strict=True):
                attended = attended + weight * (stream @ w["W_V"][head] + w["b_V"][head]) @ w["W_O"][head]
        middle = streams[config.read_position] + attended
        neurons = apply_activation(config.activation, middle @ w["W_in"] + w["b_in"])
        final = middle + neurons @ w["W_out"] + w["b_out"]
        return (final @ w["W_U"] + w["b_U"])[:, : config.p]

    def _attention(
        self, w: dict[str, Float[np.ndarray, "..."]], head: int, streams: list[Float[np.ndarray, "n d_model"]]
    ) -> list[float] | list[Float[np.ndarray, "n 1"]]:
        """The weight of one head on each position, for each input, the obvious way."""
        config, softmax = self.config, self.config.softmax
        if softmax is None:
            return list(config.attention)
        query = streams[config.read_position] @ w["W_Q"][head] + w["b_Q"][head]
        keys = [stream @ w["W_K"][head] + w["b_K"][head] for stream in streams]
        scores = np.stack([(query * key).sum(axis=1) / softmax.divisor for key in keys], axis=1)
        if softmax.causal:
            scores[:, config.read_position + 1 :] = -np.inf
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares = softmax.scale * powers / powers.sum(axis=1, keepdims=True)
        return [constant + shares[:, t : t + 1] for t, constant in enumerate(config.attention)]

    def attended_streams(self) -> tuple[Float[np.ndarray, "p d_model"], Float[np.ndarray, "p d_model"]]:
        """The residual stream after attention at the position read, as one part a token: from_a[a] + from_b[b].

        Constants (biases, the '=' token) belong to b's part, as `math.md` §1 folds all biases into U_b.
        """
        if self.config.softmax is not None:
            self._refuse_gates()
        return self._ungated_streams()

    def token_streams(self) -> list[Float[np.ndarray, "_ d_model"]]:
        """The residual stream before attention, of all a, all b and, where it is fed, the one '='."""
        config, p = self.config, self.config.p
        W_E, W_pos = self.W_E.astype(np.float64), self.W_pos.astype(np.float64)
        streams = [W_E[:p] + W_pos[0], W_E[config.b_token_offset : config.b_token_offset + p] + W_pos[1]]
        if config.has_equals:
            streams.append((W_E[config.equals_token] + W_pos[2])[None, :])
        return streams

    def _ungated_streams(self) -> tuple[Float[np.ndarray, "p d_model"], Float[np.ndarray, "p d_model"]]:
        """`attended_streams` without what softmax adds."""
        config, streams = self.config, self.token_streams()
        w = {name: array.astype(np.float64) for name, array in self.tensors().items()}
        OV = np.einsum("hdk,hke->de", w["W_V"], w["W_O"])
        attended_bias = np.einsum("hk,hke->e", w["b_V"], w["W_O"])
        # What each position adds to the residual stream that is read: its attended part, and itself if it is read.
        parts = [
            alpha * x @ OV + (x if position == config.read_position else 0.0)
            for position, (alpha, x) in enumerate(zip(config.attention, streams, strict=True))
        ]
        return parts[0], sum(parts[2:], start=parts[1]) + w["b_O"] + sum(config.attention) * attended_bias

    def collapse(self) -> Collapsed:
        """The equivalent one-hidden-layer model, exactly as `math.md` §1, in float64."""
        if self.config.softmax is not None:
            self._refuse_gates()
        return self._ungated(*self._ungated_streams())

    def _ungated(self, from_a: Float[np.ndarray, "p d_model"], from_b: Float[np.ndarray, "p d_model"]) -> Collapsed:
        """Both streams through W_in and W_U."""
        p = self.config.p
        w = {name: getattr(self, name).astype(np.float64) for name in ("W_in", "b_in", "W_out", "b_out", "W_U", "b_U")}
        return Collapsed(
            p=p,
            activation=self.config.activation,
            U_a=from_a @ w["W_in"],
            U_b=from_b @ w["W_in"] + w["b_in"],
            W_L=(w["W_out"] @ w["W_U"][:, :p]).T,
            S_a=from_a @ w["W_U"][:, :p],
            S_b=(from_b + w["b_out"]) @ w["W_U"][:, :p] + w["b_U"][:p],
            task=self.config.task,
        )

    def _refuse_gates(self) -> None:
        raise BadConfig(
            f"this model's attention is a {self.config.attention_kind}, which depends on the tokens: what reaches a "
            "neuron is not a part of a plus a part of b, which this needs; `quadlens explain`, `lens`, `certify` and "
            "`report` work"
        )

    def hidden_layer(self) -> HiddenLayer:
        """The collapsed model, or token tables where attention depends on the tokens."""
        return self.collapse() if self.config.softmax is None else self.token_tables()

    def token_tables(self) -> TokenTables:
        """The exact collapse with softmax attention (`networks.md` §2).

        Raises:
            BadConfig: when attention is constant, so that there are no gates.
        """
        config, softmax = self.config, self.config.softmax
        if softmax is None:
            raise BadConfig("this model's attention is constant; there are no gates")
        w = {name: array.astype(np.float64) for name, array in self.tensors().items()}
        streams, read = self.token_streams(), config.read_position
        seen = read + 1 if softmax.causal else len(streams)
        queries = np.einsum("td,hdk->htk", streams[read], w["W_Q"]) + w["b_Q"][:, None]
        gated = []
        for position, x in enumerate(streams[:seen]):
            keys = np.einsum("td,hdk->htk", x, w["W_K"]) + w["b_K"][:, None]
            scores = attention_scores(queries, read, keys, position) / softmax.divisor
            written = np.einsum("td,hdk,hke->hte", x, w["W_V"], w["W_O"], optimize=True)
            gated.append(GatedTable(position, scores, written @ w["W_in"], written @ w["W_U"][:, : config.p]))
        # Softmax adds up to 1, so that it brings every head's value bias `scale` times.
        bias = softmax.scale * np.einsum("hk,hke->e", w["b_V"], w["W_O"])
        from_a, from_b = self._ungated_streams()
        rest = self._ungated(from_a, from_b + bias)
        return TokenTables(
            task=config.task,
            activation=config.activation,
            scale=softmax.scale,
            U_a=rest.U_a,
            U_b=rest.U_b,
            W_L=rest.W_L,
            S_a=rest.S_a,
            S_b=rest.S_b,
            gated=tuple(gated),
        )


@dataclass(frozen=True, eq=False, repr=False)
class MLPParams(Weighted):
    """A two-layer MLP: logits = W_out σ(W_a[a] + W_b[b]), the networks of He et al. and of Gromov."""

    config: MLPConfig
    W_a: Float[np.ndarray, "p d_mlp"]
    W_b: Float[np.ndarray, "p d_mlp"]
    W_out: Float[np.ndarray, "d_mlp p"]

    @staticmethod
    def shapes(config: MLPConfig) -> dict[str, tuple[int, ...]]:
        """The shape every weight must have."""
        p, m = config.p, config.d_mlp
        return {"W_a": (p, m), "W_b": (p, m), "W_out": (m, p)}

    def forward(self, pairs: Pairs) -> Float[np.ndarray, "n p"]:
        """One-hot vectors through two layers, in float64."""
        one_hot = np.eye(self.config.p)
        pre = one_hot[pairs[:, 0]] @ self.W_a + one_hot[pairs[:, 1]] @ self.W_b
        return apply_activation(self.config.activation, pre) @ self.W_out.astype(np.float64)

    def collapse(self) -> Collapsed:
        """The model itself, in float64; there is no skip connection."""
        p = self.config.p
        return Collapsed(
            p=p,
            activation=self.config.activation,
            U_a=self.W_a.astype(np.float64),
            U_b=self.W_b.astype(np.float64),
            W_L=self.W_out.T.astype(np.float64),
            S_a=np.zeros((p, p)),
            S_b=np.zeros((p, p)),
            task=self.config.task,
        )

    def hidden_layer(self) -> HiddenLayer:
        """The collapsed model."""
        return self.collapse()
