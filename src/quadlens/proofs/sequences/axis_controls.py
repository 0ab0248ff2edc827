"""How much of an adder's answer the axis of s carries, on random inputs, beside what carries less.

The controls are shares of right answers at the step of the axis. Means and the linear fit are of
inputs that are not counted.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from quadlens.base.display import short
from quadlens.base.numbers import percent
from quadlens.network.sequence_forward import after_attention, attended
from quadlens.proofs.sequences.tables import Network

if TYPE_CHECKING:
    from quadlens.proofs.sequences.explain import Axis

INPUTS = 10_000
# Seeds of the inputs that means and the linear fit are of, and of those that are counted.
FITTED, TRIED = 1, 2


@short
@dataclass(frozen=True)
class AxisControls:
    """Shares of random inputs with the right digit at the step of the axis.

    Attributes:
        step: Its number.
        inputs: How many inputs are counted.
        s_alone: Right when the other coordinates of the attention output are at their means.
        without_s: Right when s is at its mean and the others are as they are.
        as_drawn: Right when the answer is the digit that `Axis.winner` has at s.
        linear: Right when the attention output is replaced by a linear function of x_i + y_i,
            x_{i-1} + y_{i-1} and the token before the answer.
        lower_sum_shuffled: The same with x_{i-1} + y_{i-1} of another input; None at the first
            digit.
    """

    step: int
    inputs: int
    s_alone: float
    without_s: float
    as_drawn: float
    linear: float
    lower_sum_shuffled: float | None

    def words(self) -> str:
        """Return the controls as sentences."""
        i = self.step
        read = (
            f"x{i} + y{i}"
            if self.lower_sum_shuffled is None
            else f"x{i} + y{i}, x{i - 1} + y{i - 1}"
        )
        told = (
            f"With the other coordinates at their means, s alone gives the right z{i} for "
            f"{percent(self.s_alone)} of {self.inputs:,} random inputs; without s "
            f"{percent(self.without_s)} are right. The digit drawn at s is right for "
            f"{percent(self.as_drawn, 2)}. A linear function of {read} and "
            f"the token before z{i} in "
            f"place of what attention brings is right for {percent(self.linear)}"
        )
        if self.lower_sum_shuffled is None:
            return f"{told}."
        return (
            f"{told}, and for {percent(self.lower_sum_shuffled)} with x{i - 1} + "
            f"y{i - 1} of another input."
        )


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Random inputs at one step.

    Attributes:
        sums: x_i + y_i, and x_{i-1} + y_{i-1} where there is a lower digit, [input, sum].
        own: The token at the position that is read.
        right: The right digit.
        stream: The residual stream behind attention.
        brought: The coordinates of what attention brings.
    """

    sums: Int[np.ndarray, "n s"]
    own: Int[np.ndarray, " n"]
    right: Int[np.ndarray, " n"]
    stream: Float[np.ndarray, "n d"]
    brought: Float[np.ndarray, "n k"]


def axis_controls(network: Network, axis: "Axis", inputs: int = INPUTS) -> AxisControls:
    """Count the answers that s alone, all but s, and each control get right."""
    fitted, tried = (_drawn(network, axis, inputs, seed) for seed in (FITTED, TRIED))
    mean, brought = fitted.brought.mean(axis=0), tried.brought
    on_axis = np.arange(len(mean)) == axis.coordinate
    digits = np.array(digits_of_tokens(network))

    def right(coordinates: Float[np.ndarray, "n k"]) -> float:
        stream = tried.stream + (coordinates - brought) @ network.rows
        answers = digits[after_attention(network.weights, stream).argmax(axis=1)]
        return float((answers == tried.right).mean())

    slopes, *_ = np.linalg.lstsq(_design(network, fitted, fitted.sums), fitted.brought)
    shuffled = tried.sums.copy()
    shuffled[:, 1:] = np.random.default_rng(TRIED).permutation(shuffled[:, 1:])
    return AxisControls(
        step=axis.step,
        inputs=inputs,
        s_alone=right(np.where(on_axis, brought, mean)),
        without_s=right(np.where(on_axis, mean, brought)),
        as_drawn=float((_band(axis, tried) == tried.right).mean()),
        linear=right(_design(network, tried, tried.sums) @ slopes),
        lower_sum_shuffled=(
            right(_design(network, tried, shuffled) @ slopes) if shuffled.shape[1] > 1 else None
        ),
    )


def digits_of_tokens(network: Network) -> list[int]:
    """Return the digit of each token; the base for tokens that are none."""
    digits = network.config.task.digits
    return [
        digits.index(t) if t in digits else len(digits) for t in range(network.config.d_vocab_out)
    ]


def _drawn(network: Network, axis: "Axis", inputs: int, seed: int) -> _Drawn:
    task, step = network.task, axis.step
    words, query = task.random_words(inputs, seed), task.steps[step][0]
    tokens, base = task.tokens(words), len(network.config.task.digits)
    stream, written = attended(network.weights, tokens, query)
    x, y = np.divmod(words[:, [step, step - 1] if step else [step]], base)
    return _Drawn(
        sums=x + y,
        own=tokens[:, query],
        right=(x[:, 0] + y[:, 0] + task.trace(words)[:, step]) % base,
        stream=stream + sum(written),
        brought=np.concatenate(
            [out @ network.rows[network.heads == head].T for head, out in enumerate(written)],
            axis=1,
        ),
    )


def _design(
    network: Network, drawn: _Drawn, sums: Int[np.ndarray, "n s"]
) -> Float[np.ndarray, "n f"]:
    """The sums beside one column per own token."""
    return np.concatenate([sums, np.eye(network.config.d_vocab)[drawn.own]], axis=1)


def _band(axis: "Axis", drawn: _Drawn) -> Int[np.ndarray, " n"]:
    """The digit that is drawn where s is."""
    row = np.full(max(axis.own) + 1, -1)
    row[list(axis.own)] = np.arange(len(axis.own))
    first, last = axis.points[0], axis.points[-1]
    place = (drawn.brought[:, axis.coordinate] - first) / (last - first) * (len(axis.points) - 1)
    point = np.clip(np.rint(place).astype(int), 0, len(axis.points) - 1)
    return axis.winner[row[drawn.own], point]
