"""Exact ground truth: every logit of a model with float weights, with no rounding at all."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from jaxtyping import Float

from quadlens.errors import BadConfig
from quadlens.model.activation import NONLINEARITIES, Activation
from quadlens.model.config import Config
from quadlens.model.dyadic import Dyadic
from quadlens.model.params import MLPParams, Model, Params
from quadlens.model.task import Task


def exact_activation(activation: Activation) -> tuple[Callable[[Any], Any], int]:
    """σ of integers, and its degree d: σ(n/2^s) = σ(n)/2^(d s).

    Raises:
        BadConfig: when σ of a rational is not rational.
    """
    sigma = NONLINEARITIES[activation]
    if sigma.exact is None or sigma.degree is None:
        raise BadConfig(
            f"this model's activation is {activation!r}, which exact arithmetic cannot express; "
            f"expected one of {', '.join(name for name, one in NONLINEARITIES.items() if one.exact)}"
        )
    return sigma.exact, sigma.degree


@dataclass(frozen=True, eq=False)
class ExactCollapsed:
    """U_a, U_b, W_L, S_a, S_b of `math.md` §1 as dyadic matrices: real arithmetic on the stored weights."""

    task: Task
    activation: Activation
    U_a: Dyadic
    U_b: Dyadic
    W_L: Dyadic
    S_a: Dyadic
    S_b: Dyadic

    @property
    def p(self) -> int:
        """Number of elements."""
        return self.task.n


def collapse_exactly(model: Model) -> ExactCollapsed:
    """The collapse of `Params.collapse`, in exact arithmetic; attention weights are taken as the doubles they are."""
    if isinstance(model, Params):
        if model.config.softmax is not None:
            raise BadConfig(
                f"this model's attention is a {model.config.attention_kind}, and e^x is not rational: exact arithmetic "
                "cannot express it; `quadlens evaluate`, `explain` and `certify` work"
            )
        return _ungated(model)
    if isinstance(model, MLPParams):
        p = model.config.p
        zero = Dyadic.from_floats(np.zeros((p, p)))
        return ExactCollapsed(
            task=model.config.task,
            activation=model.config.activation,
            U_a=Dyadic.from_floats(model.W_a),
            U_b=Dyadic.from_floats(model.W_b),
            W_L=Dyadic.from_floats(model.W_out).transposed(),
            S_a=zero,
            S_b=zero,
        )
    model.collapse()  # which says why there is none
    raise TypeError(f"no exact collapse for {type(model).__name__}")


def _ungated(model: Params) -> ExactCollapsed:
    """All that no softmax multiplies; with constant attention, the whole model."""
    config, p = model.config, model.config.p
    W_in = Dyadic.from_floats(model.W_in)
    W_U = Dyadic.from_floats(model.W_U[:, :p])
    heads = [
        (Dyadic.from_floats(model.W_V[h]), Dyadic.from_floats(model.b_V[h][None]), Dyadic.from_floats(model.W_O[h]))
        for h in range(config.n_heads)
    ]
    OV = _sum(W_V @ W_O for W_V, _, W_O in heads) if config.softmax is None or any(config.attention) else None
    attended_bias = _sum(b_V @ W_O for _, b_V, W_O in heads)
    parts = []
    for position, (alpha, x) in enumerate(zip(config.attention, _streams(model, config), strict=True)):
        # Pure softmax attends to nothing without a gate.
        attended = Dyadic.from_floats(np.zeros(x.shape)) if OV is None else (x @ OV).scaled(alpha)
        parts.append(attended + x if position == config.read_position else attended)
    constant = Dyadic.from_floats(model.b_O[None]) + _sum(attended_bias.scaled(alpha) for alpha in config.attention)
    from_a, from_b = parts[0], _sum([parts[1], constant.repeated(p), *(part.repeated(p) for part in parts[2:])])
    if config.softmax is not None:
        # Softmax adds up to 1, so that it brings every head's value bias `scale` times.
        from_b = from_b + attended_bias.scaled(config.softmax.scale).repeated(p)
    return ExactCollapsed(
        task=config.task,
        activation=config.activation,
        U_a=from_a @ W_in,
        U_b=from_b @ W_in + Dyadic.from_floats(model.b_in[None]).repeated(p),
        W_L=(Dyadic.from_floats(model.W_out) @ W_U).transposed(),
        S_a=from_a @ W_U,
        S_b=(from_b + Dyadic.from_floats(model.b_out[None]).repeated(p)) @ W_U
        + Dyadic.from_floats(model.b_U[None, :p]).repeated(p),
    )


@dataclass(frozen=True, eq=False)
class ExactGated:
    """One position that attention weighs, one matrix per head (compare `GatedTable`).

    Attributes:
        position: 0 for a, 1 for b, 2 for '='.
        scores: Query · key, not yet divided, [a, b]; one row or one column where they do not depend on a or b.
        U: What the position's token adds to pre-activations at full attention, [token, neuron].
        S: What it adds to the logits past the MLP, [token, c].
    """

    position: int
    scores: tuple[Dyadic, ...]
    U: tuple[Dyadic, ...]
    S: tuple[Dyadic, ...]


@dataclass(frozen=True, eq=False)
class ExactTables:
    """The collapse for any attention, without rounding up to softmax itself, which is left to the reader.

    Attributes:
        rest: What no gate multiplies.
        gated: One per position that attention sees; none where attention is constant.
        scale: What softmax is multiplied by.
        divisor: What scores are divided by.
    """

    rest: ExactCollapsed
    gated: tuple[ExactGated, ...]
    scale: float
    divisor: float


def exact_tables(model: Model) -> ExactTables:
    """The collapse of `Params.token_tables`, in exact arithmetic."""
    if not isinstance(model, Params) or model.config.softmax is None:
        return ExactTables(collapse_exactly(model), (), 0.0, 1.0)
    config, softmax = model.config, model.config.softmax
    streams, read = _streams(model, config), config.read_position
    W_in, W_U = Dyadic.from_floats(model.W_in), Dyadic.from_floats(model.W_U[:, : config.p])
    weights = {name: _by_head(getattr(model, name)) for name in ("W_Q", "b_Q", "W_K", "b_K", "W_V", "W_O")}
    queries = _heads(streams[read], weights["W_Q"], weights["b_Q"])
    # A head is narrow: what it writes goes through W_in and W_U once, before any token does.
    read_out, write_out = ([W_O @ out for W_O in weights["W_O"]] for out in (W_in, W_U))
    through: dict[int, list[tuple[Dyadic, ...]]] = {}
    gated = []
    for position, (start, stop) in enumerate(config.token_rows[: config.positions_seen]):
        if start not in through:
            through[start] = _keys_and_tables(Dyadic.from_floats(model.W_E[start:stop]), weights, read_out, write_out)
        place = _keys_and_tables(Dyadic.from_floats(model.W_pos[position : position + 1]), weights, read_out, write_out)
        # Everything is linear in the stream, W_E + W_pos: where a and b share their tokens, only the row differs.
        keys, U, S = (
            tuple(x + y.repeated(stop - start) for x, y in zip(tokens, row, strict=True))
            for tokens, row in zip(through[start], place, strict=True)
        )
        keys = tuple(k + b.repeated(stop - start) for k, b in zip(keys, weights["b_K"], strict=True))
        scores = tuple(_scores(q, read, k, position) for q, k in zip(queries, keys, strict=True))
        gated.append(ExactGated(position, scores, U, S))
    return ExactTables(_ungated(model), tuple(gated), softmax.scale, softmax.divisor)


def _by_head(weights: Float[np.ndarray, "..."] | None) -> list[Dyadic]:
    """One matrix per head; a bias is a matrix of one row."""
    if weights is None:
        raise ValueError("a model with softmax attention has queries and keys")
    return [Dyadic.from_floats(np.atleast_2d(head)) for head in weights]


def _heads(x: Dyadic, weights: list[Dyadic], biases: list[Dyadic]) -> list[Dyadic]:
    """Queries or keys of all tokens, head by head."""
    return [x @ W + b.repeated(x.shape[0]) for W, b in zip(weights, biases, strict=True)]


def _keys_and_tables(
    x: Dyadic, weights: dict[str, list[Dyadic]], read_out: list[Dyadic], write_out: list[Dyadic]
) -> list[tuple[Dyadic, ...]]:
    """Keys without their bias, and what the values add to neurons and to logits, head by head."""
    values = [x @ W_V for W_V in weights["W_V"]]
    return [
        tuple(x @ W_K for W_K in weights["W_K"]),
        tuple(v @ out for v, out in zip(values, read_out, strict=True)),
        tuple(v @ out for v, out in zip(values, write_out, strict=True)),
    ]


def _scores(query: Dyadic, read: int, key: Dyadic, position: int) -> Dyadic:
    """Query · key as [a, b], of one row or column where it does not depend on a or b."""
    product = key @ query.transposed()
    if read == position:
        # The same token on both sides: the diagonal, along a or along b.
        n = product.shape[0]
        entries = [product.numerators[i, i] for i in range(n)]
        rows, columns = (n, 1) if position == 0 else (1, n)
        return Dyadic.from_entries(rows, columns, entries, product.shift)
    # So far it is [token of the position, token read]; '=' has one token only.
    return product if position == 0 or (position, read) == (2, 1) else product.transposed()


def _streams(model: Params, config: Config) -> list[Dyadic]:
    """Residual streams of all a, all b and the '=' before attention."""
    return [
        Dyadic.from_floats(model.W_E[start:stop])
        + Dyadic.from_floats(model.W_pos[position : position + 1]).repeated(stop - start)
        for position, (start, stop) in enumerate(config.token_rows)
    ]


def _sum(terms: Any) -> Dyadic:
    total: Dyadic | None = None
    for term in terms:
        total = term if total is None else total + term
    if total is None:
        raise ValueError("nothing to add")
    return total


@dataclass(frozen=True, eq=False)
class ExactLogits:
    """All p³ logits as integers over 2^shift.

    Attributes:
        p: Number of elements.
        shift: logit(a,b,c) = slices[a][b,c] · 2^-shift.
        slices: One fmpz_mat [b, c] for each a.
        task: What the right answers are.
    """

    p: int
    shift: int
    slices: tuple[Any, ...]
    task: Task

    def logit(self, a: int, b: int, c: int) -> Fraction:
        """One logit, exactly."""
        return Fraction(int(self.slices[a][b, c]), 1 << self.shift)

    def margin(self, a: int, b: int) -> Fraction:
        """Right answer's logit minus the largest other; positive exactly when the model answers (a, b) right."""
        row = [int(self.slices[a][b, c]) for c in range(self.p)]
        right = row.pop(int(self.task.answers[a, b]))
        return Fraction(right - max(row), 1 << self.shift)

    def to_floats(self) -> Float[np.ndarray, "p p p"]:
        """Every logit rounded once, to the nearest double."""
        scale = 1 << self.shift
        values = [int(n) / scale for block in self.slices for n in block.entries()]
        return np.array(values).reshape(self.p, self.p, self.p)


def exact_logits(model: Model) -> ExactLogits:
    """All p³ logits of `model`, exactly, at the cost of p³·d_mlp big-integer operations."""
    collapsed = collapse_exactly(model)
    blocks = list(_logit_blocks(collapsed))
    shift = max(block.shift for block in blocks)
    return ExactLogits(
        collapsed.p, shift, tuple(block.at_shift(shift).numerators for block in blocks), model.config.task
    )


def _logit_blocks(collapsed: ExactCollapsed) -> Iterator[Dyadic]:
    """Logits [b, c] for each a in turn."""
    from flint import fmpz_mat

    p, (sigma, degree) = collapsed.p, exact_activation(collapsed.activation)
    shift = max(collapsed.U_a.shift, collapsed.U_b.shift)
    U_a, U_b = collapsed.U_a.at_shift(shift).numerators, collapsed.U_b.at_shift(shift).numerators
    d_mlp = U_a.ncols()
    W_out = collapsed.W_L.transposed()
    rows_b = [[U_b[b, i] for i in range(d_mlp)] for b in range(p)]
    for a in range(p):
        row_a = [U_a[a, i] for i in range(d_mlp)]
        neurons = [sigma(x + y) for row_b in rows_b for x, y in zip(row_a, row_b, strict=True)]
        hidden = Dyadic(fmpz_mat(p, d_mlp, neurons), degree * shift)
        skip_a = Dyadic(fmpz_mat(1, p, [collapsed.S_a.numerators[a, c] for c in range(p)]), collapsed.S_a.shift)
        yield hidden @ W_out + skip_a.repeated(p) + collapsed.S_b


@dataclass(frozen=True)
class Agreement:
    """How far float64 is from the exact logits.

    Attributes:
        max_error: Largest |float64 logit - exact logit|.
        largest_logit: Largest |exact logit|, to read the error against.
        correct: Inputs that exact arithmetic answers right, of all p².
        min_margin: The smallest exact margin, rounded once.
    """

    max_error: float
    largest_logit: float
    correct: int
    min_margin: float


def agreement(model: Model) -> Agreement:
    """Compare the float64 collapsed model with exact arithmetic on all p³ logits."""
    # First the float64 model: it says so when the weights overflow float64, where `to_floats` could not round.
    collapsed = model.collapse()
    exact = exact_logits(model)
    rounded = exact.to_floats()
    floats = np.stack([collapsed.logits(a) for a in range(exact.p)])
    margins = [exact.margin(a, b) for a in range(exact.p) for b in range(exact.p)]
    return Agreement(
        max_error=float(np.abs(floats - rounded).max()),
        largest_logit=float(np.abs(rounded).max()),
        correct=sum(margin > 0 for margin in margins),
        min_margin=float(min(margins)),
    )
