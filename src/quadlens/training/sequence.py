"""Networks on sequences: what is trained, on which words, and by which step.

Gradients are by automatic differentiation.

`add:N` is asked for the sum of two numbers of N digits in base p, lowest digit first; `max:K` for
the largest of K tokens out of p. Words are drawn anew for every step, from the run's seed and the
step's index: a resumed run takes the steps that it would have taken.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Int

from quadlens.network.weights import Weights
from quadlens.training.config import NORM_EPS, TrainConfig
from quadlens.training.device import adamw
from quadlens.training.engine import Measure, OptimiserState, StepMeasures
from quadlens.training.kinds import parse_task, sequence_config
from quadlens.training.layout import ALIGNMENT, SequenceLayout, position_rows

if TYPE_CHECKING:
    from torch import Tensor

# As many as those who publish adders try: what "100 %" means of an adder that nobody has proved.
SAMPLES = 10_010
VALIDATION = 1_000
# What the words of a run are drawn for, beside its seed.
START, STEP, VALIDATE, JUDGE = range(4)


class Words(NamedTuple):
    """Words to train on: inputs [word, position fed], right tokens [word, step].

    Steps are read at the last positions.
    """

    tokens: Int[np.ndarray, "n t"]
    right: Int[np.ndarray, "n steps"]


def draw(
    config: TrainConfig, rng: np.random.Generator, n: int, full_of_carries: bool = False
) -> Words:
    """So many words, drawn evenly; or, of an addition, half of them full of carries.

    Half of the digits of such a word have y_i = p - 1 - x_i, which passes a carry on.
    """
    kind, size = parse_task(config.task)
    p = config.p
    if kind == "max":
        tokens = rng.integers(0, p, (n, size))
        return Words(tokens, tokens.max(axis=1, keepdims=True))
    x, y = rng.integers(0, p, (2, n, size))
    if full_of_carries:
        y = np.where((rng.random((n, size)) < 0.5) & (np.arange(n) < n // 2)[:, None], p - 1 - x, y)
    carry, answer = np.zeros(n, dtype=np.int64), np.empty((n, size + 1), dtype=np.int64)
    for i in range(size):
        carry, answer[:, i] = np.divmod(x[:, i] + y[:, i] + carry, p)
    answer[:, size] = carry
    plus, equals = np.full((n, 1), p), np.full((n, 1), p + 1)
    return Words(np.concatenate([x, plus, y, equals, answer[:, :size]], axis=1), answer)


def initial_weights(config: TrainConfig) -> Weights:
    """Weights drawn from N(0, initial_scale²/d_model), norms at 1."""
    layout, rng = (
        SequenceLayout.of(sequence_config(config)),
        np.random.default_rng([config.seed, START]),
    )
    scale, flat = (
        config.initial_scale / math.sqrt(config.d_model),
        np.zeros(layout.size, dtype=config.precision),
    )
    for name, shape in layout.shapes.items():
        start, size = layout.offsets[name], math.prod(shape)
        flat[start : start + size] = (
            1.0 if name.endswith("_w") else scale * rng.standard_normal(size)
        )
    return layout.params(flat)


def tried(config: TrainConfig, theta: np.ndarray) -> tuple[int, int, float, float]:
    """Try 10,010 words drawn evenly: right at every step, all, smallest margin, loss."""
    import torch

    words = draw(config, np.random.default_rng([config.seed, JUDGE]), SAMPLES)
    with torch.no_grad():
        loss, right, margins = answer(
            torch.from_numpy(theta).double(), SequenceLayout.of(sequence_config(config)), words
        )
    return int(right.sum()), SAMPLES, margins.min().item(), loss.item()


class SequenceEngine:
    """AdamW steps on words drawn anew for each, of one or more seeds in turn."""

    def __init__(
        self,
        config: TrainConfig,
        seeds: list[int],
        state: OptimiserState,
        device: str,
        threads: int,
    ) -> None:
        import torch

        if device == "cpu":
            torch.set_num_threads(threads)
        self._seeds, self._layout, self._device = (
            seeds,
            SequenceLayout.of(sequence_config(config)),
            device,
        )
        self._theta = [torch.tensor(row, device=device, requires_grad=True) for row in state.theta]
        self._first, self._second = (
            [torch.tensor(row, device=device) for row in x] for x in (state.first, state.second)
        )

    def step(self, epoch: int, config: TrainConfig, validate: bool) -> list[StepMeasures]:
        """Take the step with index `epoch` for every seed; returns what was measured before it."""
        import torch

        measures = []
        for seed, theta, first, second in zip(
            self._seeds, self._theta, self._first, self._second, strict=True
        ):
            words = draw(
                config,
                np.random.default_rng([seed, STEP, epoch]),
                config.batch,
                full_of_carries=True,
            )
            loss, right, _ = answer(theta, self._layout, words)
            (gradient,) = torch.autograd.grad(loss, theta)
            validation = None
            with torch.no_grad():
                if validate:
                    unseen = draw(config, np.random.default_rng([seed, VALIDATE]), VALIDATION)
                    mean, share, _ = answer(theta, self._layout, unseen)
                    validation = Measure(mean.item(), share.double().mean().item())
                adamw(theta, first, second, gradient, epoch + 1, config)
            measures.append(
                StepMeasures(Measure(loss.item(), right.double().mean().item()), validation)
            )
        return measures

    def state(self) -> OptimiserState:
        """A copy of where AdamW stands."""
        flat = (self._theta, self._first, self._second)
        return OptimiserState(
            *(np.stack([row.detach().cpu().numpy() for row in rows]) for rows in flat)
        )

    def close(self) -> None:
        """Nothing to let go of: memory goes with the value."""


def answer(
    theta: "Tensor", layout: SequenceLayout, words: Words
) -> tuple["Tensor", "Tensor", "Tensor"]:
    """Measure mean cross-entropy, which words are right, and their smallest margins.

    A word is right if it is right at every step.
    """
    import torch

    tokens, right = (torch.from_numpy(array).to(theta.device) for array in words)
    scores = _logits(theta, layout, tokens, right.shape[1]).double()
    loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), right.flatten())
    of_right = scores.gather(-1, right[..., None])
    others = scores.scatter(-1, right[..., None], -math.inf).amax(dim=-1)
    margins = (of_right[..., 0] - others).amin(dim=1)
    return loss, margins > 0, margins


def _logits(theta: "Tensor", layout: SequenceLayout, tokens: "Tensor", steps: int) -> "Tensor":
    """Logits at the last `steps` positions, [word, step, token] (docs/sequences.md §1)."""
    import torch

    config, positions = layout.config, tokens.shape[1]
    sizes = [-(-math.prod(shape) // ALIGNMENT) * ALIGNMENT for shape in layout.shapes.values()]
    parts = zip(layout.shapes.items(), torch.split(theta, sizes), strict=True)
    w = {name: part[: math.prod(shape)].view(shape) for (name, shape), part in parts}
    x = w["W_E"][tokens] + w["W_pos"][position_rows(config)[:positions]]
    n, queries = _normed(x, w.get("ln1_w")), slice(positions - steps, positions)
    q, k, v = (
        torch.einsum("ntd,hdk->nhtk", rows, w[name])
        for rows, name in ((n[:, queries], "W_Q"), (n, "W_K"), (n, "W_V"))
    )
    unseen = torch.arange(positions) > torch.arange(positions)[queries, None]
    scores = (q @ k.transpose(-1, -2) / config.divisor).masked_fill(unseen, -math.inf)
    out = x[:, queries] + torch.einsum("nhtv,hvd->ntd", torch.softmax(scores, dim=-1) @ v, w["W_O"])
    if config.d_mlp:
        out = out + torch.relu(_normed(out, w.get("ln2_w")) @ w["W_in"]) @ w["W_out"]
    return _normed(out, w.get("ln_final_w")) @ w["W_U"]


def _normed(x: "Tensor", weight: "Tensor | None") -> "Tensor":
    return (
        x
        if weight is None
        else x * (x.square().mean(dim=-1, keepdim=True) + NORM_EPS).rsqrt() * weight
    )
