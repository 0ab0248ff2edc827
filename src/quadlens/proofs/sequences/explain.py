"""What each step of a network on sequences reads, how much, and what that number means.

Weights of attention are bounded over all inputs: with E_l what the positions of letter l add to the
denominator, the share of l is E_l / Σ E, at least min E_l / (min E_l + Σ_{others} max E), and at
most the same with min and max swapped. The others are added up by themselves: to take E_l off the
whole would cancel where it is nearly all of it.
"""

from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from quadlens.base.display import Displayed, short
from quadlens.base.numbers import at_least, at_most, fit, percent
from quadlens.network.sequence_forward import after_attention
from quadlens.network.weights import Weights
from quadlens.proofs.sequences.axis_controls import AxisControls, axis_controls, digits_of_tokens
from quadlens.proofs.sequences.cells import MOST_AT_FIRST, Cells, all_cells, places_of, window
from quadlens.proofs.sequences.interval import Interval, down, up
from quadlens.proofs.sequences.reach import search
from quadlens.proofs.sequences.tables import Network

if TYPE_CHECKING:
    from rich.console import Console

# What a step puts less on than this, on every input, is not listed.
LISTED = 0.05
DIGITS = 3


@dataclass(frozen=True)
class Share:
    """How much of a head's attention is on the positions of one letter, over all inputs.

    Attributes:
        names: The positions, as `x3 y3`; of constant tokens, all of them.
        low: Nowhere less.
        high: Nowhere more.
    """

    names: str
    low: float
    high: float


@short
@dataclass(frozen=True)
class StepReading:
    """What one step reads.

    Attributes:
        step: Its number, from 0.
        asked: What it answers, as `z3`.
        read_at: The position whose stream it reads, as `z2`.
        shares: Of each head, the letters that get most, largest first, and what is left for all
            others together.
    """

    step: int
    asked: str
    read_at: str
    shares: tuple[tuple[Share, ...], ...]

    def words(self) -> str:
        parts = []
        for head, shares in enumerate(self.shares):
            who = f"head {head} " if len(self.shares) > 1 else ""
            parts.append(f"{who}{_shares_in_words(shares)}")
        return f"The answer {self.asked} is read at {self.read_at}: attention {'; '.join(parts)}."


def _shares_in_words(shares: tuple[Share, ...]) -> str:
    """Say how a head's attention is shared; shares without a useful bound count as the rest."""
    if not shares:
        return "reads everything a little"
    bounds = [(share, at_least(share.low, DIGITS), at_most(share.high, DIGITS)) for share in shares]
    told = [of for of in bounds if of[1:] != (at_least(0.0, DIGITS), at_most(1.0, DIGITS))]
    if not told:
        return "has no bound of its weights over all inputs that says anything"
    listed = ", ".join(f"{low} to {high} on {share.names}" for share, low, high in told)
    rest = max(Fraction(0), 1 - sum(Fraction(share.low) for share, _, _ in told))
    return f"puts {listed}, at most {at_most(rest, DIGITS)} on all else"


@dataclass(frozen=True, eq=False)
class Axis:
    """One step of an adder along s, the coordinate of its attention output that varies most.

    Attributes:
        step: Its number.
        share: Share of the variance of what attention brings, over cells, that is along s.
        per_sum: By how much s changes per unit of x_i + y_i, by least squares over cells.
        per_sum_before: The same per unit of x_{i-1} + y_{i-1}; None at the first digit.
        r2: Of that fit.
        own: The tokens that the own position may have, one row of the tables below each.
        low: Where s begins for each value of x_i + y_i + carry, [own, value]; infinite where there
            is none.
        high: Where it ends.
        points: s along the axis.
        winner: The digit with the largest logit there, [own, point]; the other coordinates follow s
            from the mean of one value's cells to the next's.
        coordinate: Which coordinate of what attention brings s is.
    """

    step: int
    share: float
    per_sum: float
    per_sum_before: float | None
    r2: float
    own: tuple[int, ...]
    low: Float[np.ndarray, "own value"]
    high: Float[np.ndarray, "own value"]
    points: Float[np.ndarray, " point"]
    winner: Int[np.ndarray, "own point"]
    coordinate: int

    @property
    def overlapping(self) -> int:
        """Count pairs of overlapping intervals: the same own token, different right digits."""
        right = np.arange(self.low.shape[1]) % ((self.low.shape[1]) // 2)
        meet = (self.low[:, :, None] <= self.high[:, None]) & (
            self.low[:, None] <= self.high[:, :, None]
        )
        return int((meet & (right[:, None] < right)).sum())

    def words(self) -> str:
        """Describe the axis in words."""
        i = self.step
        before = (
            ""
            if self.per_sum_before is None
            else f" and by {self.per_sum_before:.3g} per unit of x{i - 1} + y{i - 1}"
        )
        pairs = (
            "no two intervals" if not self.overlapping else f"{self.overlapping} pairs of intervals"
        )
        return (
            f"Of the answer z{i}, {percent(self.share, 1, 'down')} of the variance of what "
            "attention brings lies along "
            f"one axis, s. There s changes by {self.per_sum:.3g} per unit of x{i} + "
            f"y{i}{before} (least squares over "
            f"cells, R² {fit(self.r2)}). For each token that it is read at, every value of "
            f"x{i} + y{i} + carry has an "
            f"interval on the axis that holds s on all inputs; {pairs} of "
            "different right digits overlap."
        )


@dataclass(frozen=True, eq=False, repr=False)
class SequenceExplanation(Displayed):
    """An explanation of a network on sequences, step by step.

    Attributes:
        network: The network with its task.
        steps: What each step reads.
    """

    network: Network
    steps: tuple[StepReading, ...]

    @cached_property
    def axis(self) -> Axis | None:
        """Return the middle step along s; None unless the task adds, lowest digit first."""
        return axis_of(self.network, len(self.steps) // 2)

    @cached_property
    def axis_controls(self) -> AxisControls | None:
        """How much of the answer s carries, on random inputs; None where there is no axis."""
        return None if self.axis is None else axis_controls(self.network, self.axis)

    def sentences(self) -> list[str]:
        """Return the explanation's sentences, each with its values."""
        task, config = self.network.task, self.network.config
        heads = "one head" if config.n_heads == 1 else f"{config.n_heads} heads"
        numbers = len(self.network.rows)
        first = (
            f"One layer, {heads}, {config.d_mlp} neurons answer {task.name}: {len(task.steps)} "
            f"{'step' if len(task.steps) == 1 else 'steps'}, {task.inputs:,} inputs. "
            f"What attention brings to a step has {numbers} "
            f"{'coordinate' if numbers == 1 else 'coordinates'}."
        )
        of_the_axis = [part.words() for part in (self.axis, self.axis_controls) if part is not None]
        return [first, *(step.words() for step in self.steps), *of_the_axis]

    def summary(self) -> str:
        """All sentences in one paragraph."""
        return " ".join(self.sentences())

    @property
    def key_frequencies(self) -> None:
        """Return None: only networks that answer pairs have key frequencies."""

    def _facts(self) -> dict[str, object]:
        return {
            "task": self.network.task.name,
            "inputs": f"{self.network.task.inputs:,}",
            "steps": len(self.steps),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation in JSON's types."""
        steps = [
            {
                "step": step.step,
                "asked": step.asked,
                "read_at": step.read_at,
                "shares": [
                    [{"positions": s.names, "low": s.low, "high": s.high} for s in head]
                    for head in step.shares
                ],
            }
            for step in self.steps
        ]
        return {
            "task": self.network.task.name,
            "inputs": self.network.task.inputs,
            "steps": steps,
            "axis_controls": None if self.axis_controls is None else asdict(self.axis_controls),
            "words": self.sentences(),
        }

    def render(self, console: "Console") -> None:
        """One sentence after the other."""
        for sentence in self.sentences():
            console.print(sentence, markup=False, soft_wrap=True)


def explain_sequence(weights: Weights) -> SequenceExplanation:
    """Explain what each step of a network on sequences reads, and what that means."""
    network = Network(weights)
    with np.errstate(all="ignore"):  # a bound that is no number is the widest there is
        return SequenceExplanation(
            network, tuple(_reading(network, step) for step in range(len(network.task.steps)))
        )


def _reading(network: Network, step: int) -> StepReading:
    tables, task = network.step(step), network.task
    query, letter, _ = task.steps[step]
    names: list[list[str]] = [[] for _ in range(task.letters + 1)]
    for j, fed in enumerate(task.positions[: query + 1]):
        names[-1 if isinstance(fed, int) else fed[0]].append(position_name(network, j))
    shares = []
    for head in range(network.config.n_heads):
        parts = [*(table[..., head] for table in tables.E), tables.E_constant[:, None, None, head]]
        bounds = shares_of_parts(Interval.stack([_over_words(part) for part in parts]))
        low, high = bounds.lo.min(axis=1), bounds.hi.max(axis=1)
        listed = [
            Share(" ".join(words), float(a), float(b))
            for words, a, b in zip(names, low, high, strict=True)
            if words and b >= LISTED
        ]
        shares.append(tuple(sorted(listed, key=lambda share: -share.high)))
    asked = (
        position_name(network, query + 1)
        if query + 1 < len(task.positions)
        else f"of letter {letter}"
    )
    return StepReading(step, asked, position_name(network, query), tuple(shares))


def _over_words(part: Interval) -> Interval:
    """Return what a part adds to the denominator over all states and letters, [own token].

    Weights are not negative.
    """
    return Interval(np.maximum(part.lo.min(axis=(1, 2)), 0.0), part.hi.max(axis=(1, 2)))


def shares_of_parts(parts: Interval) -> Interval:
    """Bounds of each part's share of their sum, [part, …]: 0 … 1 where a number is none."""
    with np.errstate(all="ignore"):
        others = _sums_before(parts) + _sums_before(parts[::-1])[::-1]
        least, most = (
            np.maximum(down(parts.hi + np.maximum(others.lo, 0.0)), 0.0),
            up(parts.lo + others.hi),
        )
        low = np.maximum(down(parts.lo / most), 0.0)
        high = np.where(least > 0, np.minimum(up(parts.hi / least), 1.0), 1.0)
    return Interval(np.where(np.isnan(low), 0.0, low), np.where(np.isnan(high), 1.0, high))


def _sums_before(parts: Interval) -> Interval:
    """For each part, add up the parts before it."""
    sums = [Interval.zeros(*parts.shape[1:])]
    for i in range(len(parts.lo) - 1):
        sums.append(sums[-1] + parts[i])
    return Interval.stack(sums)


def position_name(network: Network, position: int) -> str:
    """Name a position as the task's template does; a constant token by its number."""
    template = network.config.task.template
    if position >= len(template):
        return f"position {position}"
    named = template[position]
    return named if isinstance(named, str) else f"token {named}"


def axis_of(network: Network, step: int, points: int = 1200) -> Axis | None:
    """Return a step of an adder along the axis of s.

    The result is None for other tasks, and where attention brings nothing that differs.
    """
    task, spec = network.task, network.config.task
    letter = task.steps[step][1]
    if (
        not spec.digits
        or spec.stop is not None
        or letter != step
        or letter >= task.letters - 1
        or prod(places_of(task, step)) > MOST_AT_FIRST
        or not len(network.rows)
    ):
        return None
    base, tables = len(spec.digits), network.step(step)
    first, _ = window(task, step)
    groups, _ = all_cells(task, tables, step)
    ends = [search(task, tables, cells, network.heads) for cells in groups]
    middles = np.concatenate([(low + high) / 2 for low, high in ends])
    spread = middles.var(axis=0)
    widest = int(spread.argmax())
    sums = np.concatenate([_digit_sums(cells, letter - first, base) for cells in groups])
    columns = [sums[:, letter - first], *([sums[:, 0]] if first < letter else [])]
    design = np.stack([*columns, np.ones(len(sums))], axis=1).astype(float)
    slope, *_ = np.linalg.lstsq(design, middles[:, widest])
    residual = middles[:, widest] - design @ slope
    values = 2 * base
    low, high = np.full((len(groups), values), np.inf), np.full((len(groups), values), -np.inf)
    by_cell = [_values(task, cells, letter, base) for cells in groups]
    for row, (value, (below, above)) in enumerate(zip(by_cell, ends, strict=True)):
        np.minimum.at(low[row], value, below[:, widest])
        np.maximum.at(high[row], value, above[:, widest])
    edge = 0.04 * (high.max() - low.min())
    line = np.linspace(low.min() - edge, high.max() + edge, points)
    winner = []
    for cells, value, (below, above) in zip(groups, by_cell, ends, strict=True):
        means = np.stack(
            [
                ((below + above) / 2)[value == digit_sum].mean(axis=0)
                for digit_sum in np.unique(value)
            ]
        )
        at = _along(line, means[means[:, widest].argsort()], widest)
        winner.append(
            after_attention(
                network.weights, tables.stream.middle[cells.own] + at @ network.rows
            ).argmax(axis=1)
        )
    return Axis(
        step=step,
        share=float(spread[widest] / spread.sum()),
        per_sum=float(slope[0]),
        per_sum_before=float(slope[1]) if first < letter else None,
        r2=float(1 - residual.var() / middles[:, widest].var()),
        own=tuple(tables.own[cells.own] for cells in groups),
        low=low,
        high=high,
        points=line,
        winner=np.array(digits_of_tokens(network))[np.stack(winner)],
        coordinate=widest,
    )


def _digit_sums(cells: Cells, last: int, base: int) -> Int[np.ndarray, "n w"]:
    x, y = np.divmod(cells.letters[:, : last + 1], base)
    return x + y


def _values(task: Any, cells: Cells, letter: int, base: int) -> Int[np.ndarray, " n"]:
    """The digits x and y that are asked for and the carry into them, added up."""
    carry = cells.state
    for n in range(cells.first, letter):
        carry = task.next[n][carry, cells.letters[:, n - cells.first]]
    return _digit_sums(cells, letter - cells.first, base)[:, -1] + carry


def _along(
    line: Float[np.ndarray, " point"], nodes: Float[np.ndarray, "node k"], widest: int
) -> np.ndarray:
    """Return the points of the polyline through the nodes where s is on `line`.

    Beyond the first and the last node it goes straight on.
    """
    after = np.clip(np.searchsorted(nodes[:, widest], line), 1, len(nodes) - 1)
    left, right = nodes[after - 1], nodes[after]
    share = (line - left[:, widest]) / (right - left)[:, widest]
    return left + share[:, None] * (right - left)
