"""The weights of a network as one frozen value that checks itself when built."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from quadlens.base.display import Displayed
from quadlens.base.errors import BadWeights, WrongArgument, kind_of
from quadlens.network.config import Config
from quadlens.network.ring import Array
from quadlens.network.sequence import SequenceConfig
from quadlens.network.tables import Tables
from quadlens.network.task import Task
from quadlens.network.tensor_names import OUTER, unnumbered

Pairs = Int[np.ndarray, "n 2"]


class Weights(Displayed):
    """A network: its config and its tensors, by TransformerLens' names.

    Vectors are rows.

    A transformer has W_E, W_pos, W_U, b_U and, for each block, W_V, b_V, W_O, b_O, W_in, b_in,
    W_out, b_out, with W_Q, b_Q, W_K, b_K where there is softmax; where there are several blocks a
    number stands before a block's names, as `1.W_in`. Norms add ln1_w, ln1_b (before attention),
    ln2_w, ln2_b (before the MLP) to each block, and ln_final_w, ln_final_b (before the
    unembedding), all of shape [d_model]. An MLP on one-hot tokens has W_a, W_b [p, width] and W_out
    [d_mlp, p]; with `bias` also b_in [width] and b_out [p]. Its hidden layers after the first, l =
    1, 2, …, have `l.W_in` [width before, width], `l.b_in` and, after a norm, `l.ln2_w`, `l.ln2_b`
    [width before]; a norm before W_out is ln_final_w, ln_final_b [d_mlp]. Biases that a checkpoint
    does not have are zero. A network on sequences has a `SequenceConfig`, which says what tensors
    it may have.

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
        shapes = {
            n: shape
            for n, shape in config.shapes.items()
            if n in tensors or n not in config.optional
        }
        missing, needless = (
            sorted(shapes.keys() - tensors.keys()),
            sorted(tensors.keys() - shapes.keys()),
        )
        if missing or needless:
            raise BadWeights(
                f"{config.kind_words}: missing weights "
                f"{', '.join(missing) or 'none'}, weights without use "
                f"{', '.join(needless) or 'none'}"
            )
        check_arrays(tensors)
        check_tensors(tensors, shapes)
        self.__dict__.update(
            config=config,
            tensors=MappingProxyType({name: _frozen(tensors[name]) for name in shapes}),
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"the weights of a network do not change; build another with Weights (setting {name})"
        )

    def __delattr__(self, name: str) -> None:
        raise AttributeError(
            f"the weights of a network do not change; build another with Weights (deleting {name})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Build a copy again, deep or from a pickle: checked, and as frozen."""
        return _rebuilt, (self.config, dict(self.tensors))

    def __getattr__(self, name: str) -> Array:
        tensors = self.__dict__.get("tensors", {})
        if name not in tensors:
            raise AttributeError(f"this network has no {name}; it has {', '.join(tensors)}")
        return tensors[name]

    @classmethod
    def mlp(cls, config: Config, W_a: Array, W_b: Array, W_out: Array) -> "Weights":
        """Return a two-layer MLP, logits = W_out σ(W_a[a] + W_b[b]).

        These are the networks of He et al. and of Gromov.
        """
        return cls(config, W_a=W_a, W_b=W_b, W_out=W_out)

    @classmethod
    def with_zero_biases(cls, config: Config, **tensors: np.ndarray) -> "Weights":
        """Return the network with these tensors, its other biases zero.

        A weight left out is an error.
        """
        check_arrays(tensors)
        dtype = next(iter(tensors.values())).dtype if tensors else np.float64
        shapes = {name: (unnumbered(name), shape) for name, shape in config.shapes.items()}
        zeros = {
            n: np.zeros(s, dtype)
            for n, (short, s) in shapes.items()
            if short.startswith("b_") or short.endswith("_b")
        }
        # W_b is an MLP's weight, the only one whose name ends like a norm's bias.
        zeros.pop("W_b", None)
        return cls(config, **(zeros | tensors))

    @cached_property
    def blocks(self) -> tuple[Mapping[str, Array], ...]:
        """The tensors of each block, by their names in it, in float64, as frozen.

        The blocks of an MLP are its hidden layers.
        """
        inner = {
            name: _frozen(x.astype(np.float64))
            for name, x in self.tensors.items()
            if name not in OUTER
        }
        blocks: list[dict[str, Array]] = [{} for _ in range(self.config.depth)]
        for name, array in inner.items():
            # Names without a number are those of the only block, or of an MLP's first hidden layer.
            blocks[int(name.partition(".")[0]) if "." in name else 0][unnumbered(name)] = array
        return tuple(map(MappingProxyType, blocks))

    def replace(
        self, config: Config | SequenceConfig | None = None, **tensors: np.ndarray
    ) -> "Weights":
        """Return the network with another config, or with some other tensors."""
        return Weights(config or self.config, **{**self.tensors, **tensors})

    def asked(self, task: Any) -> "Weights":
        """Return the same weights, asked another `Task`."""
        if not isinstance(task, Task):
            raise WrongArgument(
                f"task: got {kind_of(task)}; expected a Task, as quadlens.task('add', 59) is one"
            )
        return self.replace(replace(self.config.need_pairs(), task=task))

    def forward(self, pairs: Pairs) -> Float[np.ndarray, "n p"]:
        """Return the logits of each pair (a, b), in float64.

        They are computed the obvious way: the oracle of every faster path.
        """
        from quadlens.network.forward import forward
        from quadlens.network.ring import FLOATS

        return forward(self, pairs, FLOATS)

    def collapse(self) -> Tables[Array]:
        """Return what the last hidden layer reads and writes, as tables in float64.

        The page `math` of the documentation, §1, has the formulas.
        """
        from quadlens.network.collapse import collapse
        from quadlens.network.ring import FLOATS

        return collapse(self, FLOATS)

    def _facts(self) -> dict[str, object]:
        return {
            **self.config.brief,
            "weights": f"{sum(array.size for array in self.tensors.values()):,}",
        }


def check_arrays(arrays: Mapping[str, Any]) -> None:
    """Refuse weights that are no NumPy arrays, or that hide numbers behind a mask."""
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray) or hasattr(
            array, "mask"
        ):  # naming numpy.ma would import it
            raise WrongArgument(
                f"{name}: got {kind_of(array)}; expected a NumPy array, as "
                "tensor.detach().cpu().numpy() gives it; "
                "a whole state dict, of tensors or arrays, goes to quadlens.from_state_dict(state, "
                "…)"
            )


def check_tensors(arrays: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse wrong shapes, dtypes other than float32/float64, NaN and infinity.

    The message lists all problems at once.
    """
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
    """Return `array`, contiguous, over bytes that nobody can write to.

    A flag alone can be set again, or not be its base's.
    """
    if isinstance(array.base, bytes) and array.flags.c_contiguous and type(array) is np.ndarray:
        return array
    return np.ndarray(array.shape, array.dtype, array.tobytes())


def _rebuilt(config: Config | SequenceConfig, tensors: dict[str, np.ndarray]) -> Weights:
    return Weights(config, **tensors)
