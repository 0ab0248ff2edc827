"""Read a plain PyTorch module by the modules that it holds, in their order.

None of its code is followed.

Code may use its parts in another order, or do something between them. So a few readings are tried,
and the module's own forward pass on every input is the judge.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from quadlens.base.errors import BadConfig, BadWeights, QuadlensError, WrongArgument, kind_of
from quadlens.network.activation import Activation, recognise_activation
from quadlens.network.config import check_size
from quadlens.network.norm import Norm
from quadlens.network.task import task_given
from quadlens.network.weights import Pairs
from quadlens.readers.agreement import check_agreement
from quadlens.readers.layers import (
    LayerPart,
    Linear,
    Normed,
    Sigma,
    embedded,
    in_words,
    mlp_of,
    multiplied_out,
)
from quadlens.readers.mlps import mapped_parts
from quadlens.readers.protocol import Hints, Imported
from quadlens.readers.tasks import with_task

Inputs = Literal["one-hot", "concat", "sum", "pair"]
FED = {
    "one-hot": "one-hot a, then one-hot b",
    "concat": "(a, b), their embeddings side by side",
    "sum": "(a, b), their embeddings added up",
    "pair": "a and b, one after the other",
}
# What changes nothing in evaluation, or the shape alone.
SILENT = ("Identity", "Flatten", "Unflatten", "Dropout", "AlphaDropout", "FeatureAlphaDropout")
NO_ACTIVATION = (
    "{} holds no activation that is known; say which it is with activation=NAME, as relu"
)


def from_module(
    module: Any,
    *,
    inputs: Inputs | None = None,
    map: Mapping[str, str] | None = None,
    activation: str | None = None,
    task: Any = None,
) -> Imported:
    """Read a plain PyTorch module; the arguments are those of `quadlens.from_module`.

    Raises:
        QuadlensError: with what came, what was expected and what to do; or where module(…) says
            otherwise.
    """
    source = type(module).__name__
    if not callable(module) or not hasattr(module, "_modules"):
        raise WrongArgument(f"got {kind_of(module)}; expected a PyTorch module, an nn.Module")
    if inputs is not None and inputs not in get_args(Inputs):
        raise WrongArgument(f"inputs = {inputs!r}; expected one of {', '.join(get_args(Inputs))}")
    task = task_given(task)
    given = None if activation is None else recognise_activation(activation)
    if map is None:
        tables, parts = _held(module, source, given)
        inputs = inputs or _fed(tables, parts, source)
    elif inputs is None:
        raise WrongArgument(_which_inputs(source))
    joined = {"concat": True, "sum": False}.get(inputs)
    if map is None:
        readings = list(_readings(parts, given, source))
    else:
        state = {name: _array(x, f"{source}: {name}") for name, x in module.state_dict().items()}
        sigma = given or next((x.activation for x in _known_activations(module)), None)
        if sigma is None:
            raise BadConfig(NO_ACTIVATION.format(source), settings=("activation",))
        tables, linear, _ = mapped_parts(state, map, source, joined)
        readings = [_between(linear, sigma, True)]
    if (inputs == "one-hot") == bool(tables):
        raise BadConfig(
            f"{source}: inputs = {inputs!r}, but it holds {len(tables)} embeddings; expected "
            f"{'none with one-hot' if tables else 'one or two'}",
            settings=("inputs",),
        )
    errors: list[QuadlensError] = []
    for reading in readings:
        try:
            n = _elements(tables, reading, source)
            check_size(n, 0)
            whole = _with_tokens(tables, reading, n, joined, source)
            model = mlp_of(whole, n, source)
            agreement = check_agreement(model, _runs(inputs, n), module, source)
        except QuadlensError as error:
            errors.append(error)
            continue
        notes = (
            f"n = {n}: the shapes",
            f"fed {FED[inputs]}: inputs={inputs!r}",
            f"layers {in_words(reading)}",
        )
        read = Imported(model, "module", (*notes, *multiplied_out(whole, model), agreement.note))
        return agreement.counted(with_task(read, Hints(task=task), source))
    raise min(errors, key=lambda error: getattr(error, "gap", np.inf))


def _fed(tables: Sequence[Any], parts: Sequence[LayerPart], source: str) -> Inputs:
    """Return "one-hot" where no embedding is held and the first layer reads a one-hot pair.

    It then has two columns for each answer.
    """
    linear = [part for part in parts if isinstance(part, Linear)]
    if tables or not linear or linear[0].takes != 2 * linear[-1].W.shape[1]:
        raise WrongArgument(_which_inputs(source))
    return "one-hot"


def _which_inputs(source: str) -> str:
    """What to pass where the modules do not say how they are fed."""
    ways = "; ".join(f"{name!r}, {words}" for name, words in FED.items())
    return f"{source}: it does not say how it is fed; give inputs=…: {ways}"


def _array(tensor: Any, what: str) -> Any:
    """A tensor as float32 or float64, copied."""
    try:
        value = tensor.detach().cpu()
        value = value if str(value.dtype) in ("torch.float32", "torch.float64") else value.float()
        return value.numpy().copy()
    except Exception as error:  # lazy, meta or quantised: torch says what
        raise BadWeights(
            f"{what} cannot be read: {type(error).__name__}: {str(error)[:120]}"
        ) from None


def _held(module: Any, source: str, given: Activation | None) -> tuple[list[Any], list[LayerPart]]:
    """Embeddings, then everything else, in the order in which the module holds them."""
    tables: list[Any] = []
    parts: list[LayerPart] = []
    for name, leaf in _leaves(module, ""):
        part = _part(name or source, leaf, given, source)
        if isinstance(part, np.ndarray):
            tables.append(part)
        elif part is not None:
            parts.append(part)
    return tables, parts


def _leaves(module: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the modules that compute, by their names.

    Containers are opened; a shared module comes as often as it is held.
    """
    from torch import nn

    known = (nn.Linear, nn.Embedding, nn.LayerNorm)
    if isinstance(module, known) or not module._modules:
        yield name, module
        return
    own = [f"{name}.{x}".lstrip(".") for x, _ in module.named_parameters(recurse=False)]
    if own:
        raise BadConfig(
            f"{name or type(module).__name__} holds weights of its own, {', '.join(own[:5])}, and "
            "its code alone says "
            "what they do; say which is which with map={'embed': …, 'hidden': …, 'out': …}",
            settings=("map",),
        )
    for key, child in module._modules.items():
        if child is not None:
            yield from _leaves(child, f"{name}.{key}".lstrip("."))


def _part(name: str, leaf: Any, given: Activation | None, source: str) -> Any:
    """One module as a table (an embedding), a part, or None for one that changes nothing."""
    from torch import nn

    kind, what = type(leaf).__name__, f"{source}: {name}"
    if isinstance(leaf, nn.Embedding):
        return _array(leaf.weight, what)
    if isinstance(leaf, nn.Linear):
        return Linear(
            name,
            _array(leaf.weight, what).T,
            None if leaf.bias is None else _array(leaf.bias, what),
        )
    if isinstance(leaf, nn.LayerNorm) or kind == "RMSNorm":
        return _norm(name, leaf, what)
    if kind in SILENT:
        if leaf.training and getattr(leaf, "p", 0) > 0:
            raise BadConfig(
                f"{what} is {leaf} in training mode, where it is random; call module.eval() first"
            )
        return None
    if any(True for _ in leaf.parameters()):
        raise BadConfig(
            f"{what} is {kind_of(leaf)} with weights of its own; expected Embedding, Linear, "
            "LayerNorm, RMSNorm. If it is all linear layers, say which weight is which with "
            "map={'embed': …, 'hidden': …, 'out': …}",
            settings=("map",),
        )
    if getattr(leaf, "approximate", "none") != "none" or getattr(leaf, "beta", 1) != 1:
        raise BadConfig(f"{what} is {leaf}; quadlens has gelu with erf, and softplus with beta 1")
    try:
        return Sigma(recognise_activation(kind))
    except BadConfig as error:
        if given is None:
            raise error.about(
                f"{what} is {kind_of(leaf)}; say what it does with activation=NAME"
            ) from None
        return Sigma(given)


def _norm(name: str, leaf: Any, what: str) -> Normed:
    """A LayerNorm or an RMSNorm over one axis; RMSNorm's eps is the type's own where it is None."""
    if len(leaf.normalized_shape) != 1:
        raise BadConfig(f"{what} is {leaf}; expected a norm over one axis")
    (width,) = leaf.normalized_shape
    layer = type(leaf).__name__ != "RMSNorm"
    weight = np.ones(width) if leaf.weight is None else _array(leaf.weight, what)
    bias = getattr(leaf, "bias", None)
    eps = leaf.eps if leaf.eps is not None else float(np.finfo(weight.dtype).eps)
    zeros = np.zeros(width, weight.dtype)
    return Normed(
        name,
        Norm("layer" if layer else "rms", eps),
        weight,
        zeros if bias is None else _array(bias, what),
    )


def _known_activations(module: Any) -> Iterator[Sigma]:
    for leaf in module.modules():
        if not leaf._modules and not any(True for _ in leaf.parameters()):
            try:
                yield Sigma(recognise_activation(type(leaf).__name__))
            except BadConfig:
                continue


def _readings(
    parts: Sequence[LayerPart], given: Activation | None, source: str
) -> Iterator[list[LayerPart]]:
    """Yield the parts in their order, and with the activation between all linear layers.

    Code that calls one activation does the latter.
    """
    held = [x.activation for x in parts if isinstance(x, Sigma)]
    if given is not None and any(x != given for x in held):
        raise BadConfig(
            f"{source} holds {', '.join(held)}, but activation is {given}", settings=("activation",)
        )
    if not held and given is None:
        raise BadConfig(NO_ACTIVATION.format(source), settings=("activation",))
    if held:
        yield list(parts)
    if len(set(held)) <= 1:
        sigma = given or held[0]
        bare = [x for x in parts if not isinstance(x, Sigma)]
        several = [_between(bare, sigma, after_norm) for after_norm in (True, False)]
        yield from several[: 1 + any(isinstance(x, Normed) for x in bare)]


def _between(parts: Sequence[LayerPart], sigma: Activation, after_norm: bool) -> list[LayerPart]:
    """Put the activation behind each linear layer but the last.

    With `after_norm` it stands behind the layer's norm.
    """
    last = max((i for i, x in enumerate(parts) if isinstance(x, Linear)), default=0)
    reading: list[LayerPart] = []
    for i, part in enumerate(parts):
        reading.append(part)
        normed = after_norm and i + 1 < len(parts) and isinstance(parts[i + 1], Normed)
        behind = (
            isinstance(part, Normed) and after_norm and i > 0 and isinstance(parts[i - 1], Linear)
        )
        if i < last and ((isinstance(part, Linear) and not normed) or behind):
            reading.append(Sigma(sigma))
    return reading


def _elements(tables: Sequence[Any], parts: Sequence[LayerPart], source: str) -> int:
    """Return how many elements a and b have.

    They are the embedding's rows, at most as many as answers, or half the columns of the first
    layer.
    """
    linear = [x for x in parts if isinstance(x, Linear)]
    if not linear:
        raise BadConfig(f"{source} holds no linear layer")
    if tables:
        return min([len(table) for table in tables] + [linear[-1].W.shape[1]])
    return len(linear[0].W) // 2


def _with_tokens(
    tables: Sequence[Any], parts: Sequence[LayerPart], n: int, joined: bool | None, source: str
) -> list[LayerPart]:
    """The parts behind the tokens' own layer; one of 2n columns takes tokens itself."""
    if len(tables) > 2 or len({table.shape[1] for table in tables}) > 1:
        raise BadConfig(
            f"{source} holds {len(tables)} embeddings; expected one, or two of the same width, for "
            "a and b"
        )
    if not tables:
        return list(parts)
    first = next(x for x in parts if not isinstance(x, Sigma))
    side_by_side = first.takes == 2 * tables[0].shape[1] if joined is None else joined
    return [embedded(tables, n, side_by_side), *parts]


def _runs(inputs: Inputs, n: int) -> Any:
    """A module and pairs to its own logits."""

    def run(module: Any, pairs: Pairs) -> Any:
        import torch

        some = next(module.parameters(), torch.zeros(()))
        tokens = torch.from_numpy(np.array(pairs)).to(some.device)
        if inputs == "pair":
            return module(tokens[:, 0], tokens[:, 1])
        if inputs == "one-hot":
            return module(torch.nn.functional.one_hot(tokens, n).flatten(1).to(some.dtype))
        return module(tokens)

    return run
