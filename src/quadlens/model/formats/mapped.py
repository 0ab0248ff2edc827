"""An MLP whose weights have names of their own: a map says which is which, as embed=emb.weight,hidden=fc1,out=fc2."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from quadlens.errors import BadConfig, BadFile
from quadlens.model.formats.checkpoint import Checkpoint
from quadlens.model.formats.facts import Missing, known_activation
from quadlens.model.formats.layers import Linear, Part, Sigma, embedded, mlp_of, multiplied_out
from quadlens.model.formats.protocol import Hints, Imported
from quadlens.model.native import told_names

ROLES = re.compile(r"embed|embed_b|(hidden\d{0,2}|out)(_bias)?")
EXPECTED = "embed, embed_b, hidden, hidden2, …, out, and hidden_bias, …, out_bias where a bias has another name"


def parse_map(text: str) -> dict[str, str]:
    """A map as typed.

    >>> parse_map("hidden=fc1,out=fc2")
    {'hidden': 'fc1', 'out': 'fc2'}
    """
    pairs = [part.partition("=") for part in text.split(",")]
    if any(not (role.strip() and name.strip()) for role, _, name in pairs):
        raise BadConfig(f"map {text[:80]!r} is not understood; expected as in embed=emb.weight,hidden=fc1,out=fc2")
    return {role.strip(): name.strip() for role, _, name in pairs}


def mapped_parts(
    state: Mapping[str, Any], names: Mapping[str, str], source: str, joined: bool | None = None
) -> tuple[list[Any], list[Linear], set[str]]:
    """Embeddings and linear layers by their names, without activations; and the tensors that were used.

    A weight is [out, in], as nn.Linear has it, unless only its transpose fits to its bias and to what is before it, or
    its name ends with `.T`. `joined` says whether two embeddings are side by side; None leaves that to the shapes.
    """
    odd = [str(role)[:40] for role in names if not ROLES.fullmatch(str(role))]
    if odd or not {"hidden", "out"} <= names.keys():
        raise BadConfig(f"map has {', '.join(map(str, names))[:120]}; expected {EXPECTED}", settings=("map",))
    used: set[str] = set()

    def tensor(name: str) -> Any:
        key = next((key for key in (name, f"{name}.weight") if key in state), None)
        if key is None:
            words = f"{source} has no {name[:80]}; {told_names('its', sorted(state))}"
            raise BadFile(words, settings=("map",))
        used.add(key)
        if state[key].dtype.kind != "f":
            raise BadFile(f"{source}: {key[:80]} is of {state[key].dtype}; expected floats", settings=("map",))
        # Half precision widens exactly.
        return state[key].astype(np.promote_types(state[key].dtype, np.float32))

    tables = [tensor(names[role]) for role in ("embed", "embed_b") if role in names]
    wide = tables[0].shape[-1] if tables else 0
    widths = {wide, 2 * wide} if joined is None else {2 * wide if joined else wide}
    layers: list[Linear] = []
    hidden = sorted((x for x in names if re.fullmatch(r"hidden\d*", x)), key=lambda x: int(x[6:] or 1))
    for role in (*hidden, "out"):
        name, turned = names[role].removesuffix(".T"), names[role].endswith(".T")
        W = tensor(name)
        if W.ndim != 2 or any(table.ndim != 2 for table in tables):
            raise BadFile(f"{source}: {name} and the embeddings must be matrices; got {W.shape}", settings=("map",))
        stem = name.removesuffix(".weight")
        of_bias = names.get(f"{role}_bias", f"{stem}.bias" if f"{stem}.bias" in state else None)
        bias = None if of_bias is None else tensor(of_bias)
        takes = widths if not layers else {layers[-1].W.shape[1]}
        fits = [x for x in (W.T, W) if len(x) in takes and (bias is None or bias.shape == x.shape[1:])]
        layers.append(Linear(name, W if turned else (*fits, W.T)[0], bias))
    return tables, layers, used


def read_mapped(checkpoint: Checkpoint, names: Mapping[str, str], hints: Hints) -> Imported:
    """The MLP in a file, by a map; nothing of the file may be left over, because nothing could be compared with.

    Raises:
        BadConfig, BadFile: when names, shapes or the activation are missing or do not fit.
    """
    source, missing = checkpoint.source, Missing(checkpoint.source)
    tables, layers, used = mapped_parts(checkpoint.tensors, names, source)
    left = sorted(checkpoint.tensors.keys() - used)
    if left:
        raise BadFile(f"{source}: map leaves out {', '.join(x[:80] for x in left[:6])}", settings=("map",))
    activation = known_activation(source, hints, None, "the file's config", missing)
    if activation is None:
        raise missing.error()
    n, first, fed = _tokens(tables, layers, source)
    parts = [*first, *(part for layer in layers for part in (layer, Sigma(activation[0])))][:-1]
    told = ", ".join(f"{role} {name}" for role, name in names.items())
    notes = (f"p = {n}: the shapes", f"inputs {fed}: the shapes", f"{told}: the setting map")
    model = mlp_of(parts, n, source)
    said = (f"activation {activation[0]}: {activation[1]}", *multiplied_out(parts, model))
    return Imported(model, "map", (*notes, *said))


def _tokens(tables: Sequence[Any], layers: Sequence[Linear], source: str) -> tuple[int, list[Part], str]:
    """How many elements there are, the layer of the tokens where they do not enter as a one-hot pair, and in words."""
    (read, _), (_, answers) = layers[0].W.shape, layers[-1].W.shape
    if tables:
        n = min(*(len(table) for table in tables), answers)
        joined = read != tables[0].shape[1]
        return n, [embedded(tables, n, joined)], f"embedded, {'side by side' if joined else 'added up'}"
    if read == 2 * answers:
        return answers, [], "one-hot a, then one-hot b"
    if read == answers:
        return answers, [embedded([np.eye(answers)], answers, joined=False)], "one-hot a and b, added up"
    raise BadFile(f"{source}: the first layer reads {read} numbers for {answers} answers; expected 2p or p columns")
