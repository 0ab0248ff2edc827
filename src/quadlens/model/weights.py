"""The weights of a network as one frozen value that checks itself when built."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from quadlens.display import Displayed
from quadlens.errors import BadWeights, WrongArgument, kind_of
from quadlens.model.config import Config
from quadlens.model.norm import Norms
from quadlens.model.sequence import SequenceConfig
from quadlens.model.tables import Tables
from quadlens.model.task import Task

Pairs = Int[np.ndarray, "n 2"]
Array = Float[np.ndarray, "..."]
QUERY_KEY = ("W_Q", "b_Q", "W_K", "b_K")
# The weights that all blocks share.
OUTER = ("W_E", "W_pos", "W_U", "b_U", "ln_final_w", "ln_final_b")


class Weights(Displayed):
    """A network: its config and its tensors, by TransformerLens' names, in row-vector mathematics.

    A transformer has W_E, W_pos, W_U, b_U and, for each block, W_V, b_V, W_O, b_O, W_in, b_in, W_out, b_out, with
    W_Q, b_Q, W_K, b_K where there is softmax; where there are several blocks a number stands before a block's names, as
    `1.W_in`. Norms add ln1_w, ln1_b (before attention), ln2_w, ln2_b (before the MLP) to each block, and ln_final_w,
    ln_final_b (before the unembedding), all of shape [d_model]. An MLP on one-hot tokens has W_a, W_b [p, width] and
    W_out [d_mlp, p]; with `bias` also b_in [width] and b_out [p]. Its hidden layers after the first, l = 1, 2, …, have
    `l.W_in` [width before, width], `l.b_in` and, after a norm, `l.ln2_w`, `l.ln2_b` [width before]; a norm before W_out
    is ln_final_w, ln_final_b [d_mlp]. Biases that a checkpoint does not have are zero. A network on sequences has a
    `SequenceConfig`, which says what tensors it may have.

    >>> model = Weights.mlp(Config.mlp(3, 1), *(np.ones(s) for s in ((3, 1), (3, 1), (1, 3))))
    >>> model.W_a.shape, sorted(model.tensors)
    ((3, 1), ['W_a', 'W_b', 'W_out'])

    Attributes:
        config: What the network is, without its weights.
        tensors: Every weight by its name; neither the mapping nor an array of it can be written to.
    """

    config: Config
    tensors: Mapping[str, Array]

    def __init__(self, config: Config | SequenceConfig, **tensors: np.ndarray) -> None:
        """Check and freeze the tensors.

        Raises:
            BadWeights: when one is missing, of no use, of another shape, or not finite.
        """
        shapes = self.shapes(config)
        if isinstance(config, SequenceConfig):
            shapes = {name: shape for name, shape in shapes.items() if name in tensors or name not in config.optional}
        missing, needless = sorted(shapes.keys() - tensors.keys()), sorted(tensors.keys() - shapes.keys())
        if missing or needless:
            raise BadWeights(
                f"{_kind(config)}: missing weights "
                f"{', '.join(missing) or 'none'}, weights without use {', '.join(needless) or 'none'}"
            )
        check_arrays(tensors)
        check_tensors(tensors, shapes)
        self.__dict__.update(config=config, tensors=MappingProxyType({name: _frozen(tensors[name]) for name in shapes}))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"the weights of a network do not change; build another with Weights (setting {name})")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"the weights of a network do not change; build another with Weights (deleting {name})")

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, deep or from a pickle, is built again: checked, and as frozen."""
        return _rebuilt, (self.config, dict(self.tensors))

    def __getattr__(self, name: str) -> Array:
        tensors = self.__dict__.get("tensors", {})
        if name not in tensors:
            raise AttributeError(f"this network has no {name}; it has {', '.join(tensors)}")
        return tensors[name]

    @staticmethod
    def shapes(config: Config | SequenceConfig) -> dict[str, tuple[int, ...]]:
        """The shape every weight must have."""
        if isinstance(config, SequenceConfig):
            return config.shapes
        if not config.has_stream:
            return _mlp_shapes(config)
        d, m, h, dh = config.d_model, config.d_mlp, config.n_heads, config.d_head
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
        more = {"W_Q": (h, d, dh), "b_Q": (h, dh), "W_K": (h, d, dh), "b_K": (h, dh)} if config.softmax else {}
        norms = dict.fromkeys(norm_names(config.norms), (d,))
        more |= {name: shape for name, shape in norms.items() if name not in OUTER}
        names = layered({name: name for name in block | more}, config.n_layers)
        before = {"W_E": (config.d_vocab, d), "W_pos": (config.n_ctx, d)}
        after = {"W_U": (d, config.d_vocab_out), "b_U": (config.d_vocab_out,)}
        after |= {name: shape for name, shape in norms.items() if name in OUTER}
        inner = {name: (block | more)[own_name(name)] for name in names}
        if config.n_layers > 1:
            return before | after | inner
        return before | {n: inner[n] for n in block} | after | {n: x for n, x in inner.items() if n not in block}

    @classmethod
    def mlp(cls, config: Config, W_a: Array, W_b: Array, W_out: Array) -> "Weights":
        """A two-layer MLP, logits = W_out σ(W_a[a] + W_b[b]): the networks of He et al. and of Gromov."""
        return cls(config, W_a=W_a, W_b=W_b, W_out=W_out)

    @classmethod
    def with_zero_biases(cls, config: Config, **tensors: np.ndarray) -> "Weights":
        """The network with these tensors; a bias left out is zero, a weight left out is an error."""
        check_arrays(tensors)
        dtype = next(iter(tensors.values())).dtype if tensors else np.float64
        shapes = {name: (own_name(name), shape) for name, shape in cls.shapes(config).items()}
        zeros = {n: np.zeros(s, dtype) for n, (own, s) in shapes.items() if own.startswith("b_") or own.endswith("_b")}
        # W_b is an MLP's weight, the only one whose name ends like a norm's bias.
        zeros.pop("W_b", None)
        return cls(config, **(zeros | tensors))

    @cached_property
    def blocks(self) -> tuple[Mapping[str, Array], ...]:
        """The tensors of each block, or of each hidden layer of an MLP, by their own names, in float64, as frozen."""
        inner = {name: _frozen(x.astype(np.float64)) for name, x in self.tensors.items() if name not in OUTER}
        found: list[dict[str, Array]] = [{} for _ in range(self.config.depth)]
        for name, array in inner.items():
            # Names without a number are those of the only block, or of an MLP's first hidden layer.
            found[int(name.partition(".")[0]) if "." in name else 0][own_name(name)] = array
        return tuple(map(MappingProxyType, found))

    def replace(self, config: Config | SequenceConfig | None = None, **tensors: np.ndarray) -> "Weights":
        """The network with another config, or with some other tensors."""
        return Weights(config or self.config, **{**self.tensors, **tensors})

    def asked(self, task: Task) -> "Weights":
        """The same weights, asked another task."""
        return self.replace(replace(self.config, task=task))

    def forward(self, pairs: Pairs) -> Float[np.ndarray, "n p"]:
        """Logits of each pair (a, b), computed the obvious way in float64: the oracle of every faster path."""
        from quadlens.model.forward import forward
        from quadlens.model.ring import FLOATS

        return forward(self, pairs, FLOATS)

    def collapse(self) -> Tables[Array]:
        """What the last hidden layer reads and writes, as tables in float64 (`math.md` §1, `networks.md` §2)."""
        from quadlens.model.collapse import collapse
        from quadlens.model.ring import FLOATS

        return collapse(self, FLOATS)

    def _facts(self) -> dict[str, object]:
        config = self.config
        count = f"{sum(array.size for array in self.tensors.values()):,}"
        if isinstance(config, SequenceConfig):
            return {**config._facts(), "weights": count}
        special = [] if config.task.name == "add" else [config.task.words]
        special += [config.attention_kind] if config.softmax is not None else []
        special += [f"{config.depth} layers"] if config.depth > 1 else []
        special += [config.norms.words] if config.norms else []
        return {
            "p": config.p,
            "d_mlp": config.d_mlp,
            "": ", ".join([config.activation, *special]),
            "weights": count,
        }


def norm_names(norms: Norms) -> list[str]:
    """The tensors of a transformer's norms, by the names of one block.

    >>> from quadlens.model.norm import Norm
    >>> norm_names(Norms(mlp=Norm("rms", 1e-6)))
    ['ln2_w', 'ln2_b']
    """
    stems = {"attention": "ln1", "mlp": "ln2", "final": "ln_final"}
    return [f"{stem}_{kind}" for place, stem in stems.items() if place in norms.places for kind in "wb"]


def _mlp_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    p, widths = config.p, [*(layer.width for layer in config.hidden), config.d_mlp]
    norms = [*(layer.norm for layer in config.hidden), config.norms.mlp]
    found: dict[str, tuple[int, ...]] = {"W_a": (p, widths[0]), "W_b": (p, widths[0])}
    found |= {"b_in": (widths[0],)} if config.bias else {}
    for number, (before, width) in enumerate(pairwise(widths), 1):
        found |= {f"{number}.{name}": (before,) for name in ("ln2_w", "ln2_b") if norms[number] is not None}
        found |= {f"{number}.W_in": (before, width), f"{number}.b_in": (width,)}
    found |= {name: (config.d_mlp,) for name in ("ln_final_w", "ln_final_b") if config.norms.final is not None}
    return found | {"W_out": (config.d_mlp, p)} | ({"b_out": (p,)} if config.bias else {})


def own_name(name: str) -> str:
    """The name of a weight without its block's number.

    >>> own_name("1.W_in"), own_name("W_in")
    ('W_in', 'W_in')
    """
    return name.rpartition(".")[2]


def layered(names: Mapping[str, str], blocks: int) -> dict[str, str]:
    """Names of one block's weights for each of several; a block's number stands before our short names.

    >>> layered({"W_E": "embed.W_E", "W_in": "blocks.0.mlp.W_in"}, 2)
    {'W_E': 'embed.W_E', '0.W_in': 'blocks.0.mlp.W_in', '1.W_in': 'blocks.1.mlp.W_in'}
    """
    if blocks == 1:
        return dict(names)
    inner = {short: long for short, long in names.items() if short not in OUTER}
    return {short: long for short, long in names.items() if short in OUTER} | {
        f"{i}.{short}": long.replace(".0.", f".{i}.") for i in range(blocks) for short, long in inner.items()
    }


def check_arrays(arrays: Mapping[str, Any]) -> None:
    """Refuse weights that are no NumPy arrays, as tensors of other libraries, or that hide numbers behind a mask."""
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
            raise WrongArgument(
                f"{name}: got {kind_of(array)}; expected a NumPy array, as tensor.detach().cpu().numpy() gives it; "
                "a whole state dict, of tensors or arrays, goes to quadlens.from_state_dict(state, …)"
            )


def check_tensors(arrays: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse wrong shapes, dtypes other than float32/float64, NaN and infinity: all problems at once."""
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


def _frozen(array: Array) -> Array:
    """`array`, contiguous, over bytes that nobody can write to: a flag alone can be set again, or not be its base's."""
    if isinstance(array.base, bytes) and array.flags.c_contiguous and type(array) is np.ndarray:
        return array
    return np.ndarray(array.shape, array.dtype, array.tobytes())


def _rebuilt(config: Config | SequenceConfig, tensors: dict[str, np.ndarray]) -> Weights:
    return Weights(config, **tensors)


def _kind(config: Config | SequenceConfig) -> str:
    if isinstance(config, SequenceConfig):
        return "a network on sequences"
    layers = f"{config.n_layers} layers" if config.n_layers > 1 else "one layer"
    return f"attention is {config.attention_kind}, {layers}" if config.has_stream else "an MLP"
