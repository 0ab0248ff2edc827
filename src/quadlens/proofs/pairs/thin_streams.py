"""What the tokens bring to the residual stream along a few directions, and a bound on the rest.

With E the tokens' rows of W_E less some row, V and O the heads' matrices side by side, α the
attention to the position, [E] for the position that is read and nothing for the other, δ one
constant row, and m any row,

    X - m = α E V O + [E] + δ,      A = (X - m) P,      Y = (X - m) Π,   Π = 1 - PPᵀ.

A is multiplied from the right, E (V (O P)), which takes r columns through attention and not p rows.
For Y let Q be any q columns, the tokens' plane, with C = E Q, T = Qᵀ V O, Π_Q = 1 - QQᵀ, D_Q = 1 -
QᵀQ. Then

    |Y[a]| ≤ |C[a] (α T + [Qᵀ]) Π| + rest[a] + [|E[a] Π_Q|] |Π| + |δ| |Π|,
    rest[a] = |α| (|C[a]| |D_Q| |QᵀV| + |E[a] Π_Q| |Π_Q V|) |O Π|.

Proof. E = C Qᵀ + E Π_Q, so α E V O Π = α C T Π + α (E Π_Q V)(O Π); and E Π_Q V = E Π_Q (QQᵀ + Π_Q)
V, where E Π_Q Q = C D_Q. ∎

What the skip connection brings along P', (X - m) P', is, but for a row of length rest[a] times P',

    (A - [E P] - δ P)(PᵀP') + α C (T P' - (T P)(PᵀP')) + [E P'] + δ P'.

Proof. Z = α E V O = Z P Pᵀ + Z Π, and Z Π = α C T Π + a row of length rest[a] at most. ∎
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Float

from quadlens.network.collapse import attended_streams
from quadlens.network.dyadic import DYADICS, Dyadic
from quadlens.network.weights import Weights
from quadlens.proofs.pairs.dyadic_norms import (
    defect,
    left_out,
    left_out_of_all,
    lengths,
    norm,
    squares,
    up_root,
)
from quadlens.proofs.pairs.low_rank import hint, token_mean

# Singular values of the tokens below this share of the largest are left out of their plane.
TOKENS_TAIL = 0.06


@dataclass(frozen=True, eq=False)
class Streams:
    """X_a and X_b exactly, and what they are made of; pairs are a's and b's.

    Attributes:
        X: What the tokens bring to the MLP's input.
        means: m, a hint.
        E: The tokens' rows of W_E less a row that is nearly their mean.
        alpha: Attention to the position.
        read: Whether the output is read at the position.
        V: The heads' W_V side by side.
        O: The heads' W_O below each other.
    """

    X: tuple[Dyadic, Dyadic]
    means: tuple[Dyadic, Dyadic]
    E: tuple[Dyadic, Dyadic]
    alpha: tuple[float, float]
    read: tuple[bool, bool]
    V: Dyadic
    O: Dyadic  # noqa: E741

    @property
    def centred(self) -> Float[np.ndarray, "rows d"]:
        """X - m of a and b in float64: what directions are chosen by."""
        return np.vstack(
            [x.to_floats() - mean.to_floats() for x, mean in zip(self.X, self.means, strict=True)]
        )

    def token_plane(self) -> Dyadic:
        """Q: where the tokens are large, as a hint."""
        _, values, vectors = np.linalg.svd(
            np.vstack([x.to_floats() for x in self.E]), full_matrices=False
        )
        return hint(vectors[: max(1, int(np.count_nonzero(values > TOKENS_TAIL * values[0])))].T)


def streams_of(model: Weights) -> Streams:
    """The streams of a transformer with constant attention."""
    config, X = model.config, attended_streams(model, DYADICS, thrifty=True)
    tokens = [Dyadic.from_floats(model.W_E[start:stop]) for start, stop in config.token_rows[:2]]
    E = [x - token_mean(x).repeated(config.p) for x in tokens]
    return Streams(
        X=X,
        means=(token_mean(X[0]), token_mean(X[1])),
        E=(E[0], E[1]),
        alpha=(config.attention[0], config.attention[1]),
        read=(config.read_position == 0, config.read_position == 1),
        V=Dyadic.from_floats(np.concatenate(list(model.W_V), axis=1)),
        O=Dyadic.from_floats(np.concatenate(list(model.W_O), axis=0)),
    )


@dataclass(frozen=True, eq=False)
class Side:
    """The tokens of a, or those of b, along directions; norms are rounded up.

    Attributes:
        A: (X - m) P.
        lengths: |A[a]|.
        Y: At least |Y[a]|.
        skip: (X - m) P', but for a row of length `rest` times P'.
        rest: rest[a].
    """

    A: Dyadic
    lengths: list[Fraction]
    Y: list[Fraction]
    skip: Dyadic
    rest: list[Fraction]


def sides(streams: Streams, P: Dyadic, P_out: Dyadic, Q: Dyadic) -> tuple[Side, Side]:
    """Both, by the theorem; any P, P' and Q will do."""
    V_Q, off = Q.transposed() @ streams.V, defect(P)
    D, D_Q, T = norm(off), norm(defect(Q)), V_Q @ streams.O
    left_of_O = left_out_of_all(streams.O, streams.O @ P, D)
    left_of_V = left_out_of_all(streams.V, V_Q, D_Q)
    longer, tilted = max(Fraction(1), D), P.transposed() @ P_out
    one_more = Dyadic.from_floats(2 * np.eye(P.shape[1])) - P.transposed() @ P
    beyond = T @ P_out - (T @ P) @ tilted
    both = []
    for X, mean, E, alpha, read in zip(
        streams.X, streams.means, streams.E, streams.alpha, streams.read, strict=True
    ):
        p, _ = X.shape
        centred, C = X - mean.repeated(p), E @ Q
        direct = centred - (E @ streams.V @ streams.O).scaled(alpha)
        delta = (direct - E if read else direct)[:1]
        of_C = squares(C)
        left_of_E = left_out(squares(E), of_C, D_Q)
        size_V, factor = norm(V_Q), abs(Fraction(alpha)) * left_of_O
        rest = [
            factor * (up_root(c) * D_Q * size_V + e * left_of_V)
            for c, e in zip(of_C, left_of_E, strict=True)
        ]
        plane = T.scaled(alpha) + Q.transposed() if read else T.scaled(alpha)
        along = plane @ P
        gram = plane @ plane.transposed() - along @ one_more @ along.transposed()
        (constant,) = lengths(delta)
        A, apart = centred @ P, delta.repeated(p)
        through = A - apart @ P
        skip = (C @ beyond).scaled(alpha) + apart @ P_out
        if read:
            through, skip = through - E @ P, skip + E @ P_out
        Y = [
            near + x + ((e if read else 0) + constant) * longer
            for near, x, e in zip(_within(C, gram), rest, left_of_E, strict=True)
        ]
        both.append(Side(A, lengths(A), Y, skip + through @ tilted, rest))
    return both[0], both[1]


def _within(C: Dyadic, gram: Dyadic) -> list[Fraction]:
    """|C[a] M|, rounded up, from M Mᵀ."""
    product = C @ gram
    unit, rows = 1 << product.shift + C.shift, zip(product.integers(), C.integers(), strict=True)
    return [up_root(max(Fraction(int(x @ y), unit), Fraction(0))) for x, y in rows]
