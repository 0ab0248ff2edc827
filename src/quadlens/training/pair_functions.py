"""The two steps that have a row per pair, with gradients of their own.

On a CPU each is one compiled pass where eager PyTorch would make a dozen. This module needs PyTorch
to be imported.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from quadlens.training import kernels


class GatedSum(torch.autograd.Function):
    """Rows r of Σ_h gate_a[r,h] table_a[a[r],h] + Σ_h gate_b[r,h] table_b[b[r],h]."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        """Tables have the shape [token, head, column], gates [pair, head]; a and b name tokens."""
        gate_a, table_a, gate_b, table_b, a, b = (tensor.contiguous() for tensor in inputs)
        ctx.save_for_backward(gate_a, table_a, gate_b, table_b, a, b)
        out = table_a.new_empty(len(a), table_a.shape[2])
        kernels.gated_sum(
            *(tensor.detach().numpy() for tensor in (gate_a, table_a, gate_b, table_b, a, b, out))
        )
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """Gradients of gates and tables."""
        gate_a, table_a, gate_b, table_b, a, b = ctx.saved_tensors
        by_inputs: list[Tensor | None] = []
        for gate, table, token in ((gate_a, table_a, a), (gate_b, table_b, b)):
            d_gate, d_table = torch.empty_like(gate), torch.empty_like(table)
            tensors = (gradients[0].contiguous(), gate, table, token, d_gate, d_table)
            kernels.gated_sum_gradient(*(tensor.detach().numpy() for tensor in tensors))
            by_inputs += [d_gate, d_table]
        return (*by_inputs, None, None)


class CrossEntropy(torch.autograd.Function):
    """Mean cross-entropy of logits, in float64, and the share of right answers."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        """From logits [pair, c] and right answers [pair]; the gradient is computed at once."""
        logits, right = (tensor.detach().contiguous() for tensor in inputs)
        count, p = logits.shape
        gradient, nothing = torch.empty_like(logits), np.zeros(count, dtype=np.int64)
        no_skip = np.zeros((p + 1, p), dtype=gradient.numpy().dtype)
        loss, correct = kernels.loss_gradient(
            logits.numpy()[None],
            no_skip,
            nothing,
            nothing,
            right.numpy(),
            p,
            gradient.numpy(),
            count,
        )
        ctx.save_for_backward(gradient)
        share = torch.tensor(correct / count, dtype=torch.float64)
        ctx.mark_non_differentiable(share)
        return torch.tensor(loss / count, dtype=torch.float64), share

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """The gradient by the logits, times that of the loss."""
        return ctx.saved_tensors[0] * gradients[0].to(ctx.saved_tensors[0].dtype), None
