"""Two-layer MLPs on one-hot tokens: He et al., and Gromov / Doshi."""

from quadlens.errors import BadConfig, BadFile, QuadlensError
from quadlens.model.config import MLPConfig
from quadlens.model.formats.checkpoint import Checkpoint
from quadlens.model.formats.facts import known_activation
from quadlens.model.formats.protocol import Hints, Imported, Sniff
from quadlens.model.formats.weights import Weights, check_ranks, take
from quadlens.model.params import MLPParams, check_tensors

HE_NAMES = {"W_in": "mlp.W_in", "W_out": "mlp.W_out"}
GROMOV_NAMES = {"fc1": "fc1.weight", "fc2": "fc2.weight"}


def _build(source: str, hints: Hints, weights: Weights, by_format: str | None, format_name: str) -> Imported:
    """The model from W_a, W_b [p, m] and W_out [m, p]."""
    activation, said = known_activation(source, hints, by_format, "the format")
    p, d_mlp = weights["W_a"].shape
    try:
        if hints.attention is not None or hints.replace_attention is not None:
            raise BadConfig("constant attention was given, but a two-layer MLP has no attention; leave it out")
        if hints.p not in (None, p):
            raise BadConfig(f"--p is {hints.p}, but the weights are for p = {p}")
        config = MLPConfig(p, d_mlp, activation)
        check_tensors(dict(weights), MLPParams.shapes(config))
        model = MLPParams(config, **weights)
    except QuadlensError as error:
        raise type(error)(f"{source}: {error}") from None
    return Imported(model, format_name, (f"p = {p}: the width of the input", f"activation {activation}: {said}"))


class He:
    """f = W_out σ(W_in (e_a + e_b)): both operands share one input matrix; σ is ReLU or x²."""

    name = "he"

    def sniff(self, checkpoint: Checkpoint, hints: Hints) -> Sniff:
        """`mlp.basis` or `mlp.W_in` alone."""
        marks = [name for name in ("mlp.basis", "mlp.W_in") if name in checkpoint.tensors]
        return Sniff(1.0, tuple(f"has {m}" for m in marks)) if marks else Sniff(0.0, ("no mlp.basis and no mlp.W_in",))

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """`mlp.W_in` [m, p] serves a and b; `mlp.basis` is a Fourier matrix kept for plots and plays no part."""
        tensors = take(checkpoint, HE_NAMES, dropped=("mlp.basis",))
        check_ranks(checkpoint, tensors, {"W_in": 2, "W_out": 2})
        weights = {"W_a": tensors["W_in"].T, "W_b": tensors["W_in"].T, "W_out": tensors["W_out"].T}
        return _build(checkpoint.source, hints, weights, None, self.name)


class Gromov:
    """f = W_2 (W_1 (e_a ⊕ e_b))²: `fc1.weight` [m, 2p], `fc2.weight` [p, m], no biases."""

    name = "gromov"

    def sniff(self, checkpoint: Checkpoint, hints: Hints) -> Sniff:
        """`fc1.weight`."""
        found = "fc1.weight" in checkpoint.tensors
        return Sniff(1.0, ("has fc1.weight",)) if found else Sniff(0.0, ("no fc1.weight",))

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """The first p columns of fc1 are a's, the others b's."""
        tensors = take(checkpoint, GROMOV_NAMES)
        check_ranks(checkpoint, tensors, {"fc1": 2, "fc2": 2})
        fc1, p = tensors["fc1"], tensors["fc2"].shape[0]
        if fc1.shape[1] != 2 * p:
            raise BadFile(f"{checkpoint.source}: fc1.weight has {fc1.shape[1]} columns, expected 2p = {2 * p}")
        weights = {"W_a": fc1[:, :p].T, "W_b": fc1[:, p:].T, "W_out": tensors["fc2"].T}
        return _build(checkpoint.source, hints, weights, "square", self.name)
