"""Steps on an accelerator: many seeds at once along a leading axis, through PyTorch's automatic differentiation."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from quadlens.errors import BadConfig
from quadlens.model.config import Config
from quadlens.training.config import TrainConfig
from quadlens.training.engine import Measure, OptimiserState, StepMeasures
from quadlens.training.layout import Layout

if TYPE_CHECKING:
    from torch import Tensor

DEVICES = ("auto", "cpu", "cuda", "mps")


def choose_device(name: str) -> str:
    """`auto` is the best that is there; a device that is not there is refused."""
    import torch

    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return next(device for device in ("cuda", "mps", "cpu") if available[device])
    if name not in available:
        raise BadConfig(f"device {name!r}; expected one of {', '.join(DEVICES)}")
    if not available[name]:
        here = ", ".join(device for device, there in available.items() if there)
        raise BadConfig(f"device {name!r} is not available; here there is: {here}")
    return name


class DeviceEngine:
    """The same steps as `CpuEngine`, batched over seeds: every product is one batched product."""

    def __init__(
        self,
        config: Config,
        state: OptimiserState,
        train: Int[np.ndarray, "seeds n 2"],
        validation: Int[np.ndarray, "seeds m 2"],
        device: str,
    ) -> None:
        import torch

        self._config, self._layout, self._device = config, Layout.of(config), device
        self._theta = torch.tensor(state.theta, device=device, requires_grad=True)
        self._first, self._second = torch.tensor(state.first, device=device), torch.tensor(state.second, device=device)
        self._train, self._validation = torch.tensor(train, device=device), torch.tensor(validation, device=device)

    def step(self, epoch: int, config: TrainConfig, validate: bool) -> list[StepMeasures]:
        """Take the step with index `epoch` for every seed; returns what was measured before it."""
        import torch

        losses, correct = self._answer(self._train)
        # Seeds do not meet: the gradient of the sum is each seed's own gradient.
        (gradient,) = torch.autograd.grad(losses.sum(), self._theta)
        validation = None
        with torch.no_grad():
            if validate and self._validation.shape[1]:
                validation = self._answer(self._validation)
            self._update(gradient, epoch + 1, config)
        trained = _measures(losses, correct)
        if validation is None:
            return [StepMeasures(measure, None) for measure in trained]
        return [StepMeasures(t, v) for t, v in zip(trained, _measures(*validation), strict=True)]

    def state(self) -> OptimiserState:
        """A copy of weights and moments."""
        flat = (self._theta.detach(), self._first, self._second)
        return OptimiserState(*(tensor.cpu().numpy().copy() for tensor in flat))

    def close(self) -> None:
        """Nothing to let go of: memory goes with the value."""

    def _update(self, gradient: "Tensor", step: int, config: TrainConfig) -> None:
        """AdamW, as `kernels.adamw`."""
        rate = config.learning_rate(step - 1)
        self._first.mul_(config.beta_1).add_(gradient, alpha=1 - config.beta_1)
        self._second.mul_(config.beta_2).addcmul_(gradient, gradient, value=1 - config.beta_2)
        root = (self._second.sqrt() / (1 - config.beta_2**step) ** 0.5).add_(config.epsilon)
        self._theta.mul_(1 - rate * config.weight_decay)
        self._theta.addcdiv_(self._first, root, value=-rate / (1 - config.beta_1**step))

    def _answer(self, pairs: "Tensor") -> tuple["Tensor", "Tensor"]:
        """Mean loss and share of right answers of each seed on its pairs."""
        import torch

        config, p = self._config, self._config.p
        w = self._weights()
        streams = [w["W_E"][:, :p] + w["W_pos"][:, :1], w["W_E"][:, :p] + w["W_pos"][:, 1:2]]
        if config.has_equals:
            equals = config.equals_token
            streams.append(w["W_E"][:, equals : equals + 1] + w["W_pos"][:, 2:3])
        parts = []
        for position, (alpha, stream) in enumerate(zip(config.attention, streams, strict=True)):
            attended = alpha * torch.bmm(torch.bmm(stream, w["W_V"]), w["W_O"])
            parts.append(attended + stream if position == config.read_position else attended)
        from_a, from_b = parts[0], sum(parts[2:], start=parts[1])
        U_a = torch.bmm(from_a, w["W_in"])
        U_b = torch.bmm(from_b, w["W_in"]) + w["b_in"][:, None]
        S_a = torch.bmm(from_a, w["W_U"])
        S_b = torch.bmm(from_b + w["b_out"][:, None], w["W_U"])
        W_L = torch.bmm(w["W_out"], w["W_U"])
        seed = torch.arange(len(pairs), device=self._device)[:, None]
        a, b = pairs[..., 0], pairs[..., 1]
        hidden = torch.relu(U_a[seed, a] + U_b[seed, b])
        logits = torch.bmm(hidden, W_L) + S_a[seed, a] + S_b[seed, b]
        right = (a + b) % p
        # Metal has no float64; its stable log-softmax in float32 is the nearest there is.
        scores = logits if self._device == "mps" else logits.double()
        losses = -torch.log_softmax(scores, dim=-1).gather(-1, right[..., None])[..., 0].mean(dim=1)
        return losses, (logits.argmax(dim=-1) == right).double().mean(dim=1)

    def _weights(self) -> dict[str, "Tensor"]:
        seeds, weights = len(self._theta), {}
        for name, shape in self._layout.shapes.items():
            start = self._layout.offsets[name]
            weights[name] = self._theta[:, start : start + int(np.prod(shape))].view(seeds, *shape)
        return weights


def _measures(losses: "Tensor", correct: "Tensor") -> list[Measure]:
    return [Measure(loss, share) for loss, share in zip(losses.tolist(), correct.tolist(), strict=True)]
