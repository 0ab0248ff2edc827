"""Enclose what a model of any kind answers, as the judge of proofs.

Arb evaluates the plain forward pass to 200 bits.
"""

from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb, ctx, fmpq

from quadlens.network.activation import NONLINEARITIES
from quadlens.network.exact import exact_logits
from quadlens.network.weights import Weights
from quadlens.proofs.pairs.brute import is_exact
from quadlens.proofs.pairs.proof import Proof

BITS = 200
Truth = list[list[tuple[Fraction, Fraction]]]


def _exact(value: float) -> Any:
    over, under = float(value).as_integer_ratio()
    return arb(fmpq(over, under))


def _rows(array: Any) -> list[list[Any]]:
    return _converted(array.astype(np.float64).tobytes(), array.shape, ctx.prec)


@lru_cache(maxsize=1 << 10)
def _converted(content: bytes, shape: tuple[int, ...], precision: int) -> list[list[Any]]:
    """Once for each weight, not for each input; `precision` is that of the balls."""
    return [[_exact(x) for x in row] for row in np.frombuffer(content).reshape(shape).tolist()]


def _times(row: list[Any], table: list[list[Any]]) -> list[Any]:
    return [
        sum((x * column for x, column in zip(row, line, strict=True)), arb(0))
        for line in zip(*table, strict=True)
    ]


def _plus(*rows: list[Any]) -> list[Any]:
    return [sum(column, arb(0)) for column in zip(*rows, strict=True)]


def enclosed_logits(model: Weights) -> list[list[list[Any]]]:
    """Every logit as a ball, [a][b][c]."""
    with ctx.workprec(BITS):
        sigma = NONLINEARITIES[model.config.activation].enclose
        p = model.config.p
        if not model.config.has_stream:
            W_a, W_b, W_out = (_rows(x) for x in (model.W_a, model.W_b, model.W_out))
            inner, outer = ([_rows(x[None])[0] for x in some] for some in _biases(model))
            return [
                [
                    _plus(_times([sigma(x) for x in _plus(W_a[a], W_b[b], *inner)], W_out), *outer)
                    for b in range(p)
                ]
                for a in range(p)
            ]
        return [[_transformer(model, a, b, sigma) for b in range(p)] for a in range(p)]


def _biases(model: Weights) -> tuple[list[Any], list[Any]]:
    """An MLP's, inside and outside; none where it has none."""
    return ([model.b_in], [model.b_out]) if model.config.bias else ([], [])


def _transformer(model: Weights, a: int, b: int, sigma: Any) -> list[Any]:
    config, softmax = model.config, model.config.softmax
    tokens = [a, b + config.b_token_offset, config.equals_token][: len(config.attention)]
    streams = [
        _plus(*_rows(model.W_E[t : t + 1]), *_rows(model.W_pos[i : i + 1]))
        for i, t in enumerate(tokens)
    ]
    total = _plus(streams[config.read_position], *_rows(model.b_O[None]))
    for h in range(config.n_heads):
        weights = [_exact(x) for x in config.attention]
        if softmax is not None:
            assert model.W_Q is not None
            assert model.W_K is not None
            assert model.b_Q is not None
            assert model.b_K is not None
            query = _plus(
                _times(streams[config.read_position], _rows(model.W_Q[h])),
                *_rows(model.b_Q[h][None]),
            )
            seen = config.read_position + 1 if softmax.causal else len(streams)
            powers = []
            for stream in streams[:seen]:
                key = _plus(_times(stream, _rows(model.W_K[h])), *_rows(model.b_K[h][None]))
                powers.append(
                    (_times(query, [[k] for k in key])[0] / _exact(softmax.divisor)).exp()
                )
            for t, power in enumerate(powers):
                weights[t] += _exact(softmax.scale) * power / sum(powers, arb(0))
        for weight, stream in zip(weights, streams, strict=True):
            value = _plus(_times(stream, _rows(model.W_V[h])), *_rows(model.b_V[h][None]))
            total = _plus(total, [weight * x for x in _times(value, _rows(model.W_O[h]))])
    hidden = [sigma(x) for x in _plus(_times(total, _rows(model.W_in)), *_rows(model.b_in[None]))]
    final = _plus(total, _times(hidden, _rows(model.W_out)), *_rows(model.b_out[None]))
    return _plus(_times(final, _rows(model.W_U)), *_rows(model.b_U[None]))[: config.p]


def _fraction(x: Any) -> Fraction:
    """A ball of radius 0, exactly."""
    mantissa, exponent = x.mid().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def enclosed_margins(model: Weights) -> Truth:
    """Right logit less the largest other: (lowest possible, highest possible), for every input.

    Where logits are rational both are the exact margin, which must be in what Arb says.
    """
    answers, exact = (
        model.config.task.answers,
        exact_logits(model) if is_exact(model.config) else None,
    )
    rows: Truth = []
    with ctx.workprec(BITS):
        for a, line in enumerate(enclosed_logits(model)):
            rows.append([])
            for b, logits in enumerate(line):
                right = int(answers[a, b])
                leads = [logits[right] - x for c, x in enumerate(logits) if c != right]
                low, high = (
                    min(_fraction(x) for x in ends)
                    for ends in ([x.lower() for x in leads], [x.upper() for x in leads])
                )
                if exact is not None:
                    assert low <= exact.margin(a, b) <= high
                    low = high = exact.margin(a, b)
                rows[-1].append((low, high))
    return rows


def check_enclosed(proof: Proof, truth: Truth, answers: Any) -> int:
    """Assert that no claim is above what the truth can be.

    No witness is answered right. Return how many inputs were certified.
    """
    for a, row in enumerate(truth):
        for b, (low, high) in enumerate(row):
            if proof.certified[a, b]:
                assert proof.margin is not None
                assert low >= proof.margin > 0, (
                    f"({a}, {b}): {proof.margin} claimed, {low} … {high} is true"
                )
    for a, b, answered in proof.witnesses:
        assert truth[a][b][1] <= 0
        assert answered != answers[a, b]
    return int(proof.certified.sum())
