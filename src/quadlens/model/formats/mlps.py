"""Two-layer MLPs: on one-hot tokens He et al. and `fc1`, `fc2`, on embeddings Zhong et al. and Chughtai et al."""

import re
from pathlib import Path

import numpy as np

from quadlens.errors import BadConfig, BadFile, QuadlensError
from quadlens.model.config import Config
from quadlens.model.formats.checkpoint import Checkpoint, Tensors, check_ranks, take
from quadlens.model.formats.facts import Missing, known_activation
from quadlens.model.formats.protocol import Hints, Imported, Sniff
from quadlens.model.weights import Weights, check_tensors

HE_NAMES = {"W_in": "mlp.W_in", "W_out": "mlp.W_out", "W_E": "embed.W_E"}
FC_NAMES = {"fc1": "fc1.weight", "fc2": "fc2.weight"}


# He et al. name the directory of a run by its settings.
HE_RUN = re.compile(r"p_(\d+)_dmlp_(\d+)_(ReLU|Quad)_.*")


def two_layers(
    source: str, hints: Hints, weights: Tensors, by_file: str | None, format_name: str, where: str, inputs: str
) -> Imported:
    """The model from W_a, W_b [p, m] and W_out [m, p].

    Args:
        source: The file, for messages.
        hints: What the user says.
        weights: By our names.
        by_file: The activation by something in or beside the file, None when that is silent.
        format_name: The reader's name.
        where: What says `by_file`.
        inputs: How a and b are fed, and what says so.
    """
    missing = Missing(source)
    activation = known_activation(source, hints, by_file, where, missing)
    p, d_mlp = weights["W_a"].shape
    try:
        _check_flags(hints, p)
        if activation is None:
            raise missing.error()
        config = Config.mlp(p, d_mlp, activation[0])
        check_tensors(dict(weights), config.shapes)
        model = Weights(config, **weights)
    except QuadlensError as error:
        raise (error if str(error).startswith(source) else error.about(source)) from None
    notes = (f"p = {p}: the shapes", f"inputs {inputs}", f"activation {activation[0]}: {activation[1]}")
    return Imported(model, format_name, notes)


def _check_flags(hints: Hints, p: int) -> None:
    """Refuse what cannot be said of an MLP for this p."""
    if hints.attention is not None:
        words = "constant attention was given, but a two-layer MLP has no attention; leave it out"
        raise BadConfig(words, settings=("attention",))
    if hints.p not in (None, p):
        raise BadConfig(f"p is {hints.p} by the setting p, but the weights are for p = {p}", settings=("p",))


class He:
    """f = W_out σ(W_in (x_a + x_b)): both operands share one input matrix; σ is ReLU or x².

    x is one-hot, or a column of W_E where a run has an embedding.
    """

    name = "he"

    def sniff(self, checkpoint: Checkpoint, hints: Hints) -> Sniff:
        """`mlp.basis` or `mlp.W_in` alone."""
        marks = [name for name in ("mlp.basis", "mlp.W_in") if name in checkpoint.tensors]
        return Sniff(1.0, tuple(f"has {m}" for m in marks)) if marks else Sniff(0.0, ("no mlp.basis and no mlp.W_in",))

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """`mlp.W_in` [m, p] serves a and b; `mlp.basis` is a Fourier matrix kept for plots and plays no part."""
        tensors = take(checkpoint, HE_NAMES, optional=("W_E",), dropped=("mlp.basis",))
        check_ranks(checkpoint, tensors, dict.fromkeys(HE_NAMES, 2))
        W_in = tensors["W_in"]
        if "W_E" in tensors:
            W_E = tensors["W_E"].astype(np.float64)
            if len(W_E) != W_in.shape[1]:
                raise BadFile(f"{checkpoint.source}: W_E {W_E.shape} and W_in {W_in.shape} do not fit together")
            W_in = W_in.astype(np.float64) @ W_E
        weights = {"W_a": W_in.T, "W_b": W_in.T, "W_out": tensors["W_out"].T.astype(W_in.dtype)}
        run = HE_RUN.fullmatch(Path(checkpoint.source).parent.name)
        if run and (int(run[1]), int(run[2])) != weights["W_a"].shape:
            raise BadConfig(f"{checkpoint.source}: W_in has shape {W_in.shape}, but the run is {run[0][:80]}")
        said = run[3] if run else None
        inputs = "a and b through one matrix, added up: W_in has p columns"
        return two_layers(checkpoint.source, hints, weights, said, self.name, "the name of the run's directory", inputs)


class TwoLayerMLP:
    """f = W_2 σ(W_1 (e_a ⊕ e_b)): `fc1.weight` [m, 2p], `fc2.weight` [p, m], no biases.

    Gromov's and Doshi's, where σ is x², and anybody's who writes a PyTorch module the usual way: σ is never assumed.
    """

    name = "mlp"

    def sniff(self, checkpoint: Checkpoint, hints: Hints) -> Sniff:
        """`fc1.weight`."""
        if "fc1.weight" not in checkpoint.tensors:
            return Sniff(0.0, ("no fc1.weight",))
        if "z_hi_pos" in checkpoint.tensors:
            return Sniff(0.5, ("has fc1.weight", "but z_hi_pos lies beside it"))
        return Sniff(1.0, ("has fc1.weight",))

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """The first p columns of fc1 are a's, the others b's."""
        tensors = take(checkpoint, FC_NAMES)
        check_ranks(checkpoint, tensors, {"fc1": 2, "fc2": 2})
        fc1, p = tensors["fc1"], tensors["fc2"].shape[0]
        if fc1.shape[1] != 2 * p:
            raise BadFile(f"{checkpoint.source}: fc1.weight has {fc1.shape[1]} columns, expected 2p = {2 * p}")
        weights = {"W_a": fc1[:, :p].T, "W_b": fc1[:, p:].T, "W_out": tensors["fc2"].T}
        inputs = "one-hot a, then one-hot b: fc1.weight has 2p columns"
        return two_layers(checkpoint.source, hints, weights, None, self.name, "the file's config", inputs)


class ZhongLinear:
    """The models of Zhong et al.'s `train-linear.py`: embeddings, a linear layer with bias, ReLU, an unembedding.

    A adds the two embeddings, D lays them side by side, X has an embedding for each operand. B and C are A with a
    second hidden layer, and become the two-layer transformer that is the same function.
    """

    name = "zhong-linear"

    def sniff(self, checkpoint: Checkpoint, hints: Hints) -> Sniff:
        """`l1.weight` beside `unembed.weight`."""
        found = all(name in checkpoint.tensors for name in ("l1.weight", "unembed.weight"))
        return Sniff(1.0, ("has l1.weight",)) if found else Sniff(0.0, ("no l1.weight with unembed.weight",))

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """Embedding and linear layer multiplied out in float64; the bias goes to b's part."""
        source = checkpoint.source
        if "l2.weight" in checkpoint.tensors:
            return _two_hidden_layers(checkpoint, hints, self.name)
        both = "embed1.weight" in checkpoint.tensors
        embeds = {"E_a": "embed1.weight", "E_b": "embed2.weight"} if both else {"E_a": "embed.weight"}
        names = {**embeds, "W_1": "l1.weight", "b_1": "l1.bias", "W_U": "unembed.weight"}
        t = {name: array.astype(np.float64) for name, array in take(checkpoint, names).items()}
        check_ranks(checkpoint, t, {name: 1 if name == "b_1" else 2 for name in names})
        E_a, E_b, width = t["E_a"], t.get("E_b", t["E_a"]), t["W_1"].shape[1]
        if E_a.shape != E_b.shape or E_a.shape[1] not in (width, width // 2) or t["b_1"].shape != t["W_1"].shape[:1]:
            raise BadFile(f"{source}: embeddings {E_a.shape}, l1.weight {t['W_1'].shape} and l1.bias do not fit")
        side_by_side = E_a.shape[1] != width
        of_a = t["W_1"][:, : E_a.shape[1]]
        of_b = t["W_1"][:, E_a.shape[1] :] if side_by_side else of_a
        if of_b.shape != of_a.shape:
            raise BadFile(f"{source}: l1.weight has {width} columns, expected {2 * E_a.shape[1]}")
        weights = {"W_a": E_a @ of_a.T, "W_b": E_b @ of_b.T + t["b_1"], "W_out": t["W_U"].T}
        kind = "X" if both else "D" if side_by_side else "A"
        said = hints.of("model_type")
        if said not in (None, kind):
            raise BadConfig(f"{source}: model_type is {str(said)[:40]!r}, but the weights are those of {kind}")
        how = {"A": "embedded and added up", "D": "embedded, side by side", "X": "embedded apart and added up"}[kind]
        relu, inputs = "relu" if said else None, f"a and b {how}: the shapes, model {kind} of Zhong et al."
        return two_layers(source, hints, weights, relu, self.name, f"model_type {kind} in the config", inputs)


def _two_hidden_layers(checkpoint: Checkpoint, hints: Hints, format_name: str) -> Imported:
    """U ReLU(W_2 ReLU(W_1 (E[a] + E[b]) + b_1) + b_2), as the two-layer transformer that is the same function.

    Its residual stream has three parts: E[a] + E[b], which the one head of layer 0 adds up at b, the first hidden
    layer, and the logits. Layer 0 reads the first part and writes the second, layer 1 reads that and writes the third;
    what else there is to a transformer is zero. (C applies W_1 and b_1 to each operand, so that b_1 counts twice.)
    """
    source, kind, missing = checkpoint.source, hints.of("model_type"), Missing(checkpoint.source)
    if kind not in ("B", "C", None):
        raise BadConfig(f"{source}: model_type {str(kind)[:40]!r} has two hidden layers; expected a config with B or C")
    if kind is None:
        missing.add("how a and b are added up", "give a config that has model_type, B or C (Zhong et al.)")
    names = {"E": "embed.weight", "U": "unembed.weight"}
    names |= {f"{x}_{i}": f"l{i}.{long}" for i in (1, 2) for x, long in (("W", "weight"), ("b", "bias"))}
    t = take(checkpoint, names)
    check_ranks(checkpoint, t, {name: 1 if name.startswith("b") else 2 for name in names})
    (p, e), (m, _) = t["E"].shape, t["W_1"].shape
    shapes = {"E": (p, e), "U": (p, m), "W_1": (m, e), "b_1": (m,), "W_2": (m, m), "b_2": (m,)}
    check_tensors(t, shapes)
    if hints.attention is not None or hints.p not in (None, p):
        words = f"{source}: it has no attention, and p = {p}; leave attention out, and correct p"
        raise BadConfig(words, settings=("attention", "p"))
    relu = None if kind is None else "relu"
    found = known_activation(source, hints, relu, f"model_type {kind} in the config", missing)
    if found is None or missing:
        raise missing.error()
    activation, said = found
    d, dtype = e + m + p, t["E"].dtype
    first, hidden, logits = slice(0, e), slice(e, e + m), slice(e + m, d)
    weights = {"W_E": np.zeros((p, d), dtype), "W_pos": np.zeros((2, d), dtype), "W_U": np.zeros((d, p), dtype)}
    for i in (0, 1):
        weights |= {f"{i}.W_V": np.zeros((1, d, e), dtype), f"{i}.W_O": np.zeros((1, e, d), dtype)}
        weights |= {f"{i}.W_in": np.zeros((d, m), dtype), f"{i}.W_out": np.zeros((m, d), dtype)}
    weights["W_E"][:, first] = t["E"]
    weights["0.W_V"][0, first] = weights["0.W_O"][0, :, first] = np.eye(e)
    weights["0.W_in"][first], weights["0.W_out"][:, hidden] = t["W_1"].T, np.eye(m)
    weights["1.W_in"][hidden], weights["1.W_out"][:, logits] = t["W_2"].T, t["U"].T
    weights["W_U"][logits] = np.eye(p)
    weights |= {"0.b_in": t["b_1"] * (2 if kind == "C" else 1), "1.b_in": t["b_2"]}
    # At b the stream has E[b] itself; attention adds a's.
    config = Config(p, d, m, 1, e, p, p, 2, (1.0, 0.0), 1, activation, n_layers=2)
    notes = (
        f"p = {p}: the shapes",
        f"model_type {kind} in the config: two hidden layers, as two layers of a transformer",
        f"activation {activation}: {said}",
    )
    return Imported(Weights.with_zero_biases(config, **weights), format_name, notes)
