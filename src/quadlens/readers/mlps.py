"""Read MLPs in files, on one-hot tokens and on embeddings.

On one-hot tokens they are He et al.'s and `fc1`, `fc2`; on embeddings Zhong et al.'s and Chughtai
et al.'s.

One whose weights have names of their own comes with a map that says which is which, as
embed=emb.weight,hidden=fc1,out=fc2.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from quadlens.base.errors import BadConfig, BadFile, QuadlensError
from quadlens.network.activation import Activation
from quadlens.network.config import Config, Hidden
from quadlens.network.native import tensor_list
from quadlens.network.weights import Weights
from quadlens.readers.checkpoint import Checkpoint, Tensors, check_ranks, take
from quadlens.readers.facts import Claim, Missing, known_activation
from quadlens.readers.layers import LayerPart, Linear, Sigma, embedded, mlp_of, multiplied_out
from quadlens.readers.protocol import Hints, Imported, Marked

HE_NAMES = {"W_in": "mlp.W_in", "W_out": "mlp.W_out", "W_E": "embed.W_E"}
FC_NAMES = {"fc1": "fc1.weight", "fc2": "fc2.weight"}


# He et al. name the directory of a run by its settings.
HE_RUN = re.compile(r"p_(\d+)_dmlp_(\d+)_(ReLU|Quad)_.*")

# What a map may name.
ROLES = re.compile(r"embed|embed_b|(hidden\d{0,2}|out)(_bias)?")
EXPECTED = (
    "embed, embed_b, hidden, hidden2, …, out, and hidden_bias, …, out_bias where a bias has "
    "another name"
)


def two_layers(
    source: str, hints: Hints, weights: Tensors, by_file: Claim[str], format_name: str, inputs: str
) -> Imported:
    """The model from W_a, W_b [p, m] and W_out [m, p].

    Args:
        source: The file, for messages.
        hints: What the user says.
        weights: By our names.
        by_file: The activation by something in or beside the file.
        format_name: The reader's name.
        inputs: How a and b are fed, and what says so.
    """
    p, d_mlp = weights["W_a"].shape
    activation, said = _activation(source, hints, by_file, p, Missing(source))
    try:
        model = Weights(Config.mlp(p, d_mlp, activation), **weights)
    except QuadlensError as error:
        raise error.about(source) from None
    notes = (f"p = {p}: the shapes", f"inputs {inputs}", f"activation {activation}: {said}")
    return Imported(model, format_name, notes)


def _activation(
    source: str, hints: Hints, by_file: Claim[str], p: int, missing: Missing
) -> tuple[Activation, str]:
    """Return σ and its source; refuse settings that no MLP for this p has."""
    if hints.attention is not None:
        words = f"{source}: constant attention was given, but an MLP has no attention; leave it out"
        raise BadConfig(words, settings=("attention",))
    if hints.p not in (None, p):
        raise BadConfig(
            f"{source}: p is {hints.p} by the setting p, but the weights are for p = {p}",
            settings=("p",),
        )
    activation = known_activation(source, hints, by_file, missing)
    if activation is None or missing:
        raise missing.error()
    return activation


class He(Marked):
    """f = W_out σ(W_in (x_a + x_b)): both operands share one input matrix; σ is ReLU or x².

    x is one-hot, or a column of W_E where a run has an embedding.
    """

    name = "he"
    marks = (("mlp.basis",), ("mlp.W_in",))

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """Read the model: `mlp.W_in` [m, p] serves a and b.

        `mlp.basis` is a Fourier matrix kept for plots and plays no part.
        """
        tensors = take(checkpoint, HE_NAMES, optional=("W_E",), dropped=("mlp.basis",))
        check_ranks(checkpoint, tensors, dict.fromkeys(HE_NAMES, 2))
        W_in = tensors["W_in"]
        if "W_E" in tensors:
            W_E = tensors["W_E"].astype(np.float64)
            if len(W_E) != W_in.shape[1]:
                raise BadFile(
                    f"{checkpoint.source}: W_E {W_E.shape} and W_in {W_in.shape} do not fit "
                    "together"
                )
            W_in = W_in.astype(np.float64) @ W_E
        weights = {"W_a": W_in.T, "W_b": W_in.T, "W_out": tensors["W_out"].T.astype(W_in.dtype)}
        run = HE_RUN.fullmatch(Path(checkpoint.source).parent.name)
        if run and (int(run[1]), int(run[2])) != weights["W_a"].shape:
            raise BadConfig(
                f"{checkpoint.source}: W_in has shape {W_in.shape}, but the run is {run[0][:80]}"
            )
        by_name = ("the name of the run's directory", run[3] if run else None)
        inputs = "a and b through one matrix, added up: W_in has p columns"
        return two_layers(checkpoint.source, hints, weights, by_name, self.name, inputs)


class TwoLayerMLP(Marked):
    """f = W_2 σ(W_1 (e_a ⊕ e_b)): `fc1.weight` [m, 2p], `fc2.weight` [p, m], no biases.

    Gromov's and Doshi's, where σ is x², and anybody's who writes a PyTorch module the usual way: σ
    is never assumed.
    """

    name = "mlp"
    marks = (("fc1.weight",),)
    # The position of the last digit, in MicroAdder.
    others = ("z_hi_pos",)

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """The first p columns of fc1 are a's, the others b's."""
        tensors = take(checkpoint, FC_NAMES)
        check_ranks(checkpoint, tensors, {"fc1": 2, "fc2": 2})
        fc1, p = tensors["fc1"], tensors["fc2"].shape[0]
        if fc1.shape[1] != 2 * p:
            raise BadFile(
                f"{checkpoint.source}: fc1.weight has {fc1.shape[1]} columns, expected 2p = {2 * p}"
            )
        weights = {"W_a": fc1[:, :p].T, "W_b": fc1[:, p:].T, "W_out": tensors["fc2"].T}
        inputs = "one-hot a, then one-hot b: fc1.weight has 2p columns"
        return two_layers(
            checkpoint.source, hints, weights, ("the file's config", None), self.name, inputs
        )


class ZhongLinear(Marked):
    """Read Zhong et al.'s `train-linear.py`: embeddings, linear layers with bias, ReLU.

    A adds the two embeddings, D lays them side by side, X has an embedding for each operand. B and
    C are A with a second hidden layer.
    """

    name = "zhong-linear"
    marks = (("l1.weight", "unembed.weight"),)

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """Embedding and linear layer multiplied out in float64; the bias goes to b's part."""
        source = checkpoint.source
        if "l2.weight" in checkpoint.tensors:
            return _two_hidden_layers(checkpoint, hints, self.name)
        both = "embed1.weight" in checkpoint.tensors
        embeds = (
            {"E_a": "embed1.weight", "E_b": "embed2.weight"} if both else {"E_a": "embed.weight"}
        )
        names = {**embeds, "W_1": "l1.weight", "b_1": "l1.bias", "W_U": "unembed.weight"}
        t = {name: array.astype(np.float64) for name, array in take(checkpoint, names).items()}
        check_ranks(checkpoint, t, {name: 1 if name == "b_1" else 2 for name in names})
        E_a, E_b, width = t["E_a"], t.get("E_b", t["E_a"]), t["W_1"].shape[1]
        if (
            E_a.shape != E_b.shape
            or E_a.shape[1] not in (width, width // 2)
            or t["b_1"].shape != t["W_1"].shape[:1]
        ):
            raise BadFile(
                f"{source}: embeddings {E_a.shape}, l1.weight {t['W_1'].shape} and l1.bias do not "
                "fit"
            )
        side_by_side = E_a.shape[1] != width
        of_a = t["W_1"][:, : E_a.shape[1]]
        of_b = t["W_1"][:, E_a.shape[1] :] if side_by_side else of_a
        if of_b.shape != of_a.shape:
            raise BadFile(f"{source}: l1.weight has {width} columns, expected {2 * E_a.shape[1]}")
        weights = {"W_a": E_a @ of_a.T, "W_b": E_b @ of_b.T + t["b_1"], "W_out": t["W_U"].T}
        kind = "X" if both else "D" if side_by_side else "A"
        written = hints.in_config("model_type")
        if written not in (None, kind):
            raise BadConfig(
                f"{source}: model_type is {str(written)[:40]!r}, but the weights are those of "
                f"{kind}"
            )
        how = {
            "A": "embedded and added up",
            "D": "embedded, side by side",
            "X": "embedded apart and added up",
        }[kind]
        relu = (f"model_type {kind} in the config", "relu" if written else None)
        inputs = f"a and b {how}: the shapes, model {kind} of Zhong et al."
        return two_layers(source, hints, weights, relu, self.name, inputs)


def _two_hidden_layers(checkpoint: Checkpoint, hints: Hints, format_name: str) -> Imported:
    """Read U ReLU(W_2 ReLU(W_1 (E[a] + E[b]) + b_1) + b_2).

    The embedding is a linear layer of its own.

    (C applies W_1 and b_1 to each operand, so that b_1 counts twice.)
    """
    source, kind, missing = (
        checkpoint.source,
        hints.in_config("model_type"),
        Missing(checkpoint.source),
    )
    if kind not in ("B", "C", None):
        raise BadConfig(
            f"{source}: model_type {str(kind)[:40]!r} has two hidden layers; expected a config "
            "with B or C"
        )
    if kind is None:
        missing.add(
            "how a and b are added up", "give a config that has model_type, B or C (Zhong et al.)"
        )
    names = {"W_a": "embed.weight", "W_out": "unembed.weight"}
    names |= {
        f"{x}_{i}": f"l{i}.{long}" for i in (1, 2) for x, long in (("W", "weight"), ("b", "bias"))
    }
    t = take(checkpoint, names)
    check_ranks(checkpoint, t, {name: 1 if name.startswith("b") else 2 for name in names})
    (p, width), d_mlp = t["W_a"].shape, len(t["W_1"])
    by_config = f"model_type {kind} in the config"
    activation, said = _activation(source, hints, (by_config, kind and "relu"), p, missing)
    weights = {"W_a": t["W_a"], "W_b": t["W_a"], "W_out": t["W_out"].T}
    weights |= {"1.W_in": t["W_1"].T, "1.b_in": t["b_1"] * (2 if kind == "C" else 1)}
    weights |= {"2.W_in": t["W_2"].T, "2.b_in": t["b_2"]}
    hidden = (Hidden(width, None), Hidden(d_mlp, activation))
    try:
        model = Weights.with_zero_biases(Config.mlp(p, d_mlp, activation, hidden=hidden), **weights)
    except QuadlensError as error:
        raise error.about(source) from None
    notes = (
        f"p = {p}: the shapes",
        f"{by_config}: a linear embedding, then two hidden layers",
        f"activation {activation}: {said}",
    )
    return Imported(model, format_name, notes)


def parse_map(text: str) -> dict[str, str]:
    """A map as typed.

    >>> parse_map("hidden=fc1,out=fc2")
    {'hidden': 'fc1', 'out': 'fc2'}
    """
    pairs = [part.partition("=") for part in text.split(",")]
    if any(not (role.strip() and name.strip()) for role, _, name in pairs):
        raise BadConfig(
            f"map {text[:80]!r} is not understood; expected as in "
            "embed=emb.weight,hidden=fc1,out=fc2"
        )
    return {role.strip(): name.strip() for role, _, name in pairs}


def mapped_parts(
    state: Mapping[str, Any], names: Mapping[str, str], source: str, joined: bool | None = None
) -> tuple[list[Any], list[Linear], set[str]]:
    """Return embeddings and linear layers by their names, and the tensors used.

    A weight is [out, in], as nn.Linear has it, unless only its transpose fits to its bias and to
    what is before it, or its name ends with `.T`. `joined` says whether two embeddings are side by
    side; None leaves that to the shapes.
    """
    odd = [str(role)[:40] for role in names if not ROLES.fullmatch(str(role))]
    if odd or not {"hidden", "out"} <= names.keys():
        raise BadConfig(
            f"map has {', '.join(map(str, names))[:120]}; expected {EXPECTED}", settings=("map",)
        )
    used: set[str] = set()

    def tensor(name: str) -> Any:
        key = next((key for key in (name, f"{name}.weight") if key in state), None)
        if key is None:
            words = f"{source} has no {name[:80]}; {tensor_list('its', sorted(state))}"
            raise BadFile(words, settings=("map",))
        used.add(key)
        if state[key].dtype.kind != "f":
            raise BadFile(
                f"{source}: {key[:80]} is of {state[key].dtype}; expected floats", settings=("map",)
            )
        # Half precision widens exactly.
        return state[key].astype(np.promote_types(state[key].dtype, np.float32))

    tables = [tensor(names[role]) for role in ("embed", "embed_b") if role in names]
    wide = tables[0].shape[-1] if tables else 0
    widths = {wide, 2 * wide} if joined is None else {2 * wide if joined else wide}
    layers: list[Linear] = []
    hidden = sorted(
        (x for x in names if re.fullmatch(r"hidden\d*", x)), key=lambda x: int(x[6:] or 1)
    )
    for role in (*hidden, "out"):
        name, turned = names[role].removesuffix(".T"), names[role].endswith(".T")
        W = tensor(name)
        if W.ndim != 2 or any(table.ndim != 2 for table in tables):
            raise BadFile(
                f"{source}: {name} and the embeddings must be matrices; got {W.shape}",
                settings=("map",),
            )
        stem = name.removesuffix(".weight")
        of_bias = names.get(f"{role}_bias", f"{stem}.bias" if f"{stem}.bias" in state else None)
        bias = None if of_bias is None else tensor(of_bias)
        takes = widths if not layers else {layers[-1].W.shape[1]}
        fits = [
            x for x in (W.T, W) if len(x) in takes and (bias is None or bias.shape == x.shape[1:])
        ]
        layers.append(Linear(name, W if turned else (*fits, W.T)[0], bias))
    return tables, layers, used


def read_mapped(checkpoint: Checkpoint, names: Mapping[str, str], hints: Hints) -> Imported:
    """Read the MLP in a file by a map; no tensor may be left over.

    There is no forward pass to compare the model with.

    Raises:
        BadConfig, BadFile: when names, shapes or the activation are missing or do not fit.
    """
    source = checkpoint.source
    tables, layers, used = mapped_parts(checkpoint.tensors, names, source)
    left = sorted(checkpoint.tensors.keys() - used)
    if left:
        raise BadFile(
            f"{source}: map leaves out {', '.join(x[:80] for x in left[:6])}", settings=("map",)
        )
    n, first, fed = _tokens(tables, layers, source)
    activation, said = _activation(source, hints, ("the file's config", None), n, Missing(source))
    parts = [*first, *(part for layer in layers for part in (layer, Sigma(activation)))][:-1]
    roles = ", ".join(f"{role} {name}" for role, name in names.items())
    notes = (f"p = {n}: the shapes", f"inputs {fed}: the shapes", f"{roles}: the setting map")
    model = mlp_of(parts, n, source)
    return Imported(
        model, "map", (*notes, f"activation {activation}: {said}", *multiplied_out(parts, model))
    )


def _tokens(
    tables: Sequence[Any], layers: Sequence[Linear], source: str
) -> tuple[int, list[LayerPart], str]:
    """Return the number of elements, the layer of the tokens, and the inputs in words.

    There is no such layer where a one-hot pair is fed.
    """
    (read, _), (_, answers) = layers[0].W.shape, layers[-1].W.shape
    if tables:
        n = min(*(len(table) for table in tables), answers)
        joined = read != tables[0].shape[1]
        return (
            n,
            [embedded(tables, n, joined)],
            f"embedded, {'side by side' if joined else 'added up'}",
        )
    if read == 2 * answers:
        return answers, [], "one-hot a, then one-hot b"
    if read == answers:
        return (
            answers,
            [embedded([np.eye(answers)], answers, joined=False)],
            "one-hot a and b, added up",
        )
    raise BadFile(
        f"{source}: the first layer reads {read} numbers for {answers} answers; expected 2p or p "
        "columns"
    )
