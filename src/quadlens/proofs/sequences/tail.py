"""Margins over boxes of attention's coordinates, by intervals with derivatives.

Every number on the way is a `CentredForm`: its value at the box's centre, its derivatives over the
box, and its range, which is what interval arithmetic gives met with centre ± Σ_k |derivative_k| ·
radius_k (the mean value theorem).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from quadlens.network.norm import Norm
from quadlens.network.sequence_forward import tensor
from quadlens.proofs.sequences.interval import Interval, down, up
from quadlens.proofs.sequences.sigma import sigma
from quadlens.proofs.sequences.tables import Network

Radius = Float[np.ndarray, "n k"]
# Boxes at a time.
CHUNK = 2048


@dataclass(frozen=True, eq=False)
class CentredForm:
    """Numbers as functions of a point in a box.

    Attributes:
        at: At the centre, [box, i].
        slope: Derivatives by each coordinate, over the box, [box, coordinate, i].
        range: Over the box, [box, i].
        radius: Of the box, [box, coordinate].
    """

    at: Interval
    slope: Interval
    range: Interval
    radius: Radius

    @classmethod
    def of(cls, at: Interval, slope: Interval, natural: Interval, radius: Radius) -> "CentredForm":
        """Intersect the natural range with the centred one."""
        size = np.maximum(np.abs(slope.lo), np.abs(slope.hi))
        reach = (size * radius[:, :, None]).sum(axis=1) * (1 + 2.0**-40)
        return cls(
            at, slope, natural.meet(Interval(down(at.lo - reach), up(at.hi + reach))), radius
        )

    def of_boxes(self, at: Int[np.ndarray, " m"]) -> "CentredForm":
        """Return the form on the boxes at these indices."""
        return CentredForm(self.at[at], self.slope[at], self.range[at], self.radius[at])

    def linear(self, W: Float[np.ndarray, "i j"], b: Interval | None = None) -> "CentredForm":
        """The rows x W + b."""
        at, natural = self.at @ W, self.range @ W
        return CentredForm.of(
            at if b is None else at + b,
            self.slope @ W,
            natural if b is None else natural + b,
            self.radius,
        )

    def __add__(self, other: "CentredForm") -> "CentredForm":
        return CentredForm.of(
            self.at + other.at, self.slope + other.slope, self.range + other.range, self.radius
        )

    def __mul__(self, other: "CentredForm") -> "CentredForm":
        slope = self.slope * other.range[:, None] + other.slope * self.range[:, None]
        return CentredForm.of(self.at * other.at, slope, self.range * other.range, self.radius)

    def centred(self) -> "CentredForm":
        """The rows less their means."""
        parts = (
            self.at - self.at.mean(),
            self.slope - self.slope.mean(),
            self.range - self.range.mean(),
        )
        return CentredForm.of(*parts, self.radius)

    def inverse_size(self, norm: Norm) -> "CentredForm":
        """1/√(mean x² + eps), one number per row."""
        eps, over = norm.eps, norm.over(self.at.shape[-1])
        at, natural = (
            x.square().mean(over) + Interval.exactly(np.array(eps)) for x in (self.at, self.range)
        )
        slope = (self.range[:, None] * self.slope).mean(over).scaled(2.0)
        square = CentredForm.of(at, slope, natural, self.radius)
        small = Interval(np.maximum(square.range.lo, eps * (1 - 2.0**-50)), square.range.hi)
        at, natural = (x.root().reciprocal() for x in (square.at, small))
        cube = (natural * natural * natural)[:, None].scaled(0.5)
        return CentredForm.of(at, -(slope * cube), natural, self.radius)

    def activated(self, name: str) -> "CentredForm":
        """Apply the activation σ."""
        natural, slopes = sigma(name, self.range)  # type: ignore[arg-type]
        centre, _ = sigma(name, self.at)  # type: ignore[arg-type]
        return CentredForm.of(centre, self.slope * slopes[:, None], natural, self.radius)


@dataclass(frozen=True, eq=False)
class Margins:
    """The right logit less the best other one, over boxes.

    Attributes:
        low: Nowhere on the box is the margin below.
        high: Everywhere on the box it is at most this.
        influence: By how much each coordinate can move the worst one, [box, coordinate].
        slope: About its derivative by each coordinate, which no proof uses.
    """

    low: Float[np.ndarray, " n"]
    high: Float[np.ndarray, " n"]
    influence: Float[np.ndarray, "n k"]
    slope: Float[np.ndarray, "n k"]


class Tail:
    """The network from attention's output to the logits."""

    def __init__(self, network: Network) -> None:
        self.network, self.config = network, network.config
        self.answers: Bool[np.ndarray, "answer token"] = network.task.answers

    def _of(self, name: str) -> Float[np.ndarray, "..."]:
        return tensor(self.network.weights, name)

    @cached_property
    def _differences(self) -> dict[int, tuple[Float[np.ndarray, "d c"], Interval]]:
        """For each token r, return w ⊙ (W_U[:, r] - W_U[:, c]) and its bias term, for every c.

        The matrix is rounded at most twice.
        """
        W, b_U = self._of("W_U"), Interval.exactly(self._of("b_U"))
        final = self.config.norms.final is not None
        scale = self._of("ln_final_w") if final else np.ones(len(W))
        bias = Interval.exactly(self._of("ln_final_b")[None] if final else np.zeros((1, len(W))))
        by_token = {}
        for r in np.flatnonzero(self.answers.any(axis=0)).tolist():
            D = W[:, r : r + 1] - W
            by_token[r] = (scale[:, None] * D, (bias @ D)[0] + (b_U[r] - b_U))
        return by_token

    def stream(self, start: Interval, boxes: Interval) -> CentredForm:
        """Return the residual stream after the MLP, over boxes.

        `start` is the query's own stream, [box, d_model].
        """
        rows, config = self.network.rows, self.config
        centre = boxes.middle
        radius = up(np.maximum(boxes.hi - centre, centre - boxes.lo))
        slope = Interval.exactly(np.broadcast_to(rows, (len(centre), *rows.shape)))
        x = CentredForm.of(
            start + Interval.exactly(centre) @ rows, slope, start + boxes @ rows, radius
        )
        if not config.d_mlp:
            return x
        n = self._normalised(x, config.norms.mlp, "ln2")
        hidden = n.linear(self._of("W_in"), Interval.exactly(self._of("b_in")))
        if config.gated:
            gate = n.linear(self._of("W_gate"), Interval.exactly(self._of("b_gate")))
            hidden = gate.activated(config.activation) * hidden
        else:
            hidden = hidden.activated(config.activation)
        return x + hidden.linear(self._of("W_out"), Interval.exactly(self._of("b_out")))

    def _normalised(self, x: CentredForm, norm: Norm | None, name: str) -> CentredForm:
        if norm is None:
            return x
        x = x.centred() if norm.takes_mean else x
        weight, bias = (Interval.exactly(self._of(f"{name}_{end}")) for end in "wb")
        n = x * x.inverse_size(norm)
        return CentredForm.of(
            n.at * weight + bias, n.slope * weight, n.range * weight + bias, n.radius
        )

    def margins(
        self,
        start: Interval,
        boxes: Interval,
        answers: Int[np.ndarray, " n"],
        tilt: Float[np.ndarray, "n k"] | None = None,
    ) -> Margins:
        """Bound the margins over boxes with given right answers.

        With `tilt`, bound the margin less Σ_k tilt_k r_k instead.
        """
        n, k = boxes.shape
        margins = Margins(
            np.full(n, -np.inf), np.full(n, np.inf), np.zeros((n, k)), np.zeros((n, k))
        )
        for i in range(0, n, CHUNK):
            chunk = slice(i, i + CHUNK)
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                x, inverse = self._final(start[chunk], boxes[chunk])
                plane = None if tilt is None else _plane(tilt[chunk], boxes[chunk], x.radius)
                for answer in np.unique(answers[chunk]).tolist():
                    at = np.flatnonzero(answers[chunk] == answer)
                    parts = (
                        x.of_boxes(at),
                        inverse and inverse.of_boxes(at),
                        plane and plane.of_boxes(at),
                    )
                    of_answer = self._margins(*parts, answer)
                    margins.low[i + at], margins.high[i + at] = of_answer.low, of_answer.high
                    margins.influence[i + at], margins.slope[i + at] = (
                        of_answer.influence,
                        of_answer.slope,
                    )
        return margins

    def _final(self, start: Interval, boxes: Interval) -> tuple[CentredForm, CentredForm | None]:
        """Return the stream that the final norm scales, and its scale; None without a norm."""
        x, norm = self.stream(start, boxes), self.config.norms.final
        if norm is None:
            return x, None
        x = x.centred() if norm.takes_mean else x
        return x, x.inverse_size(norm)

    def _margins(
        self, x: CentredForm, inverse: CentredForm | None, plane: CentredForm | None, answer: int
    ) -> Margins:
        right = self.answers[answer]
        rivals = np.flatnonzero(~right)
        n, k = x.radius.shape
        low, high = np.full(n, -np.inf), np.full((n, len(rivals)), -np.inf)
        influence, steepness = np.zeros((n, k)), np.zeros((n, k))
        for r in np.flatnonzero(right).tolist():
            matrix, every = self._differences[r]
            bias, top = every[rivals], x.linear(matrix[:, rivals])
            if inverse is None:
                below, above, slope = top.range.lo, top.range.hi, top.slope
            else:
                ends = top.range * inverse.range
                whole = top * inverse
                # The sign needs the numerator alone; the quotient may be sharper.
                below, above = (
                    np.maximum(ends.lo, whole.range.lo),
                    np.minimum(ends.hi, whole.range.hi),
                )
                slope = whole.slope
            if plane is not None:
                less = top if inverse is None else whole
                less = CentredForm.of(
                    less.at - plane.at, less.slope - plane.slope, less.range - plane.range, x.radius
                )
                below, above, slope = less.range.lo, less.range.hi, less.slope
            below, above = down(below + bias.lo), up(above + bias.hi)
            high = np.maximum(high, above)
            least = np.nan_to_num(below, nan=-np.inf)
            worst = least.argmin(axis=1) if len(rivals) else np.zeros(n, dtype=np.int64)
            this = least.min(axis=1, initial=np.inf)
            better = (this > low) | np.isneginf(low)
            if len(rivals):
                pick = worst[:, None, None]
                of = Interval(
                    *(
                        np.take_along_axis(end, pick, axis=2)[:, :, 0]
                        for end in (slope.lo, slope.hi)
                    )
                )
                moved = np.maximum(np.abs(of.lo), np.abs(of.hi)) * x.radius
                influence = np.where(better[:, None], np.nan_to_num(moved, nan=np.inf), influence)
                steepness = np.where(better[:, None], np.nan_to_num(of.middle), steepness)
            low = np.where(better, this, low)
        return Margins(
            low, np.nan_to_num(high, nan=np.inf).min(axis=1, initial=np.inf), influence, steepness
        )


def _plane(tilt: Float[np.ndarray, "n k"], boxes: Interval, radius: Radius) -> CentredForm:
    """Σ_k tilt_k r_k over boxes, one number per box."""
    slopes = Interval.exactly(tilt)
    at, natural = ((slopes * points).sum(1) for points in (Interval.exactly(boxes.middle), boxes))
    return CentredForm.of(at, slopes[:, :, None], natural, radius)
