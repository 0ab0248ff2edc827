"""The elementwise work of a training step, fused and compiled: each array is read and written once.

The matrix products stay with the BLAS; what is here would otherwise be a dozen passes over
(training pairs × d_mlp) floats, and memory traffic is what costs. All kernels are serial and sum in
a fixed order, so that their results depend on nothing but their arguments.
"""

import inspect
import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

# exp(r) on |r| ≤ ln2/2 by its Taylor polynomial up to r^13/13!: the first term left out is below
# 2^-56.
_C2, _C3, _C4, _C5, _C6, _C7, _C8 = (1 / math.factorial(n) for n in range(2, 9))
_C9, _C10, _C11, _C12, _C13 = (1 / math.factorial(n) for n in range(9, 14))
_LOG2E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01  # ln 2 with its last bits zero, so that n·_LN2_HIGH is exact
_LN2_LOW = 1.90821492927058770002e-10
_EXP_UNDERFLOW = -700.0
_SMALLEST_NORMAL = 2.0**-126  # of float32
# n + this, for an integer n, is a double whose lowest bits are n + 1023, the exponent field of 2^n:
# shifting the bits left by 52 gives 2^n. Converting n to an integer instead would keep the loop
# from being vectorised.
_EXPONENT_IN_LOW_BITS = 1.5 * 2.0**52 + 1023


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile with numba.

    Shape checks that the tests put around every function are unwrapped first.

    Sums may be reassociated (they become vector sums, in an order fixed at compile time) and NaN is
    ruled out.
    """
    compile_it = numba.njit(
        cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "nnan", "nsz", "contract"}
    )
    kernel: Callable[..., Any] = compile_it(inspect.unwrap(function))
    return kernel


@compiled
def hidden(U, a, b, p, out):  # type: ignore[no-untyped-def]
    """out[r] = ReLU(U[a[r]] + U[p + b[r]])."""
    zero = out.dtype.type(0)
    for r in range(a.shape[0]):
        x, y, h = U[a[r]], U[p + b[r]], out[r]
        for i in range(h.shape[0]):
            pre = x[i] + y[i]
            h[i] = pre if pre > 0 else zero


@compiled
def loss_gradient(logits, S, a, b, right, p, gradient, count):  # type: ignore[no-untyped-def]
    """Cross-entropy in float64, and its gradient; returns (summed loss, correct answers).

    gradient[r, c] = (softmax(Σ_t logits[t, r] + S[a] + S[p + b])[c] - [c = right[r]]) / count, for
    c < p, where t runs over the parts of the logits. Entries that float32 would store as denormal
    numbers are 0.
    """
    scores, powers = np.empty(p), np.empty(p)
    exponents = powers.view(np.int64)  # the same memory: 2^n is written by its bits
    # Once the model is sure, many entries are denormal in float32, and products with them take four
    # times as long.
    smallest = _SMALLEST_NORMAL if gradient.itemsize == 4 else 0.0
    total, correct = 0.0, 0
    for r in range(a.shape[0]):
        row, skip_a, skip_b = logits[0, r], S[a[r]], S[p + b[r]]
        for c in range(p):
            scores[c] = np.float64(row[c]) + (np.float64(skip_a[c]) + np.float64(skip_b[c]))
        for t in range(1, logits.shape[0]):
            share = logits[t, r]
            for c in range(p):
                scores[c] += np.float64(share[c])
        top = scores[0]
        for c in range(p):
            top = max(top, scores[c])
        of_right = scores[right[r]]
        for c in range(p):
            x = max(scores[c] - top, _EXP_UNDERFLOW)
            n = np.floor(x * _LOG2E + 0.5)
            powers[c] = n + _EXPONENT_IN_LOW_BITS
            rest = (x - n * _LN2_HIGH) - n * _LN2_LOW
            high = _C9 + rest * (_C10 + rest * (_C11 + rest * (_C12 + rest * _C13)))
            low = _C4 + rest * (_C5 + rest * (_C6 + rest * (_C7 + rest * (_C8 + rest * high))))
            scores[c] = 1.0 + rest * (1.0 + rest * (_C2 + rest * (_C3 + rest * low)))
        for c in range(p):
            exponents[c] <<= 52
        mass = 0.0
        for c in range(p):
            value = scores[c] * powers[c]
            scores[c] = value
            mass += value
        total += np.log(mass) + top - of_right
        correct += of_right == top
        out, weight = gradient[r], 1.0 / (mass * count)
        for c in range(p):
            value = scores[c] * weight
            out[c] = value if value > smallest else 0.0
        # Written from the loss itself: 1 - softmax would lose every digit once the model is sure.
        out[right[r]] = (scores[right[r]] - mass) * weight
    return total, correct


@compiled
def scatter(d_hidden, h, a, b, p, d_U):  # type: ignore[no-untyped-def]
    """Add the rows of d_hidden to d_U[a] and d_U[p + b], where the neuron was active.

    Rows are sorted by a, so that the row being summed into stays in cache.
    """
    zero = d_U.dtype.type(0)
    for r in range(a.shape[0]):
        to_a, to_b, gradient, active = d_U[a[r]], d_U[p + b[r]], d_hidden[r], h[r]
        for i in range(gradient.shape[0]):
            g = gradient[i] if active[i] > 0 else zero
            to_a[i] += g
            to_b[i] += g


@compiled
def scatter_all(gradient, a, b, p, d_S):  # type: ignore[no-untyped-def]
    """Add the rows of `gradient` to d_S[a] and d_S[p + b]."""
    for r in range(a.shape[0]):
        to_a, to_b, row = d_S[a[r]], d_S[p + b[r]], gradient[r]
        for c in range(row.shape[0]):
            to_a[c] += row[c]
            to_b[c] += row[c]


@compiled
def gated(tables, gates, a, b, p, relu, out):  # type: ignore[no-untyped-def]
    """Set each row of `out` to its tables' rows, weighed by gates, or to its ReLU.

    out[r] = T[a] + T[p + b] + Σ_h (gates[0,h,a,b] T_h[a] + gates[1,h,a,b] T_h[p + b]).

    T is `tables`: it has 2p rows that no gate multiplies, then the 2p rows T_h of each head h.
    """
    zero = out.dtype.type(0)
    for r in range(a.shape[0]):
        of_a, of_b = a[r], p + b[r]
        row, x, y = out[r], tables[of_a], tables[of_b]
        for i in range(row.shape[0]):
            row[i] = x[i] + y[i]
        for h in range(gates.shape[1]):
            g, k = gates[0, h, a[r], b[r]], gates[1, h, a[r], b[r]]
            x, y = tables[2 * p * (h + 1) + of_a], tables[2 * p * (h + 1) + of_b]
            for i in range(row.shape[0]):
                row[i] += g * x[i] + k * y[i]
        if relu:
            for i in range(row.shape[0]):
                row[i] = row[i] if row[i] > 0 else zero


@compiled
def gated_scatter(gradient, h, relu, tables, gates, a, b, p, d_tables, d_gates):  # type: ignore[no-untyped-def]
    """Turn the gradient of `gated`'s result h into those of tables and gates.

    Those of tables are added, those of gates set.

    `gradient` is set to 0 where ReLU was.
    """
    zero = gradient.dtype.type(0)
    for r in range(a.shape[0]):
        of_a, of_b = a[r], p + b[r]
        row, active, to_a, to_b = gradient[r], h[r], d_tables[of_a], d_tables[of_b]
        if relu:
            for i in range(row.shape[0]):
                row[i] = row[i] if active[i] > 0 else zero
        for i in range(row.shape[0]):
            to_a[i] += row[i]
            to_b[i] += row[i]
        for head in range(gates.shape[1]):
            g, k = gates[0, head, a[r], b[r]], gates[1, head, a[r], b[r]]
            first = 2 * p * (head + 1)
            x, y, to_a, to_b = (
                tables[first + of_a],
                tables[first + of_b],
                d_tables[first + of_a],
                d_tables[first + of_b],
            )
            dot_a, dot_b = zero, zero
            for i in range(row.shape[0]):
                dot_a += row[i] * x[i]
                dot_b += row[i] * y[i]
                to_a[i] += g * row[i]
                to_b[i] += k * row[i]
            d_gates[0, head, a[r], b[r]] = dot_a
            d_gates[1, head, a[r], b[r]] = dot_b


@compiled
def gated_sum(gate_a, table_a, gate_b, table_b, a, b, out):  # type: ignore[no-untyped-def]
    """out[r] = Σ_h gate_a[r, h] table_a[a[r], h] + Σ_h gate_b[r, h] table_b[b[r], h]."""
    for r in range(a.shape[0]):
        row, of_a, of_b = out[r], table_a[a[r]], table_b[b[r]]
        row[:] = row.dtype.type(0)
        for h in range(of_a.shape[0]):
            g, x = gate_a[r, h], of_a[h]
            for i in range(row.shape[0]):
                row[i] += g * x[i]
        for h in range(of_b.shape[0]):
            g, x = gate_b[r, h], of_b[h]
            for i in range(row.shape[0]):
                row[i] += g * x[i]


@compiled
def gated_sum_gradient(gradient, gate, table, token, d_gate, d_table):  # type: ignore[no-untyped-def]
    """Turn the gradient of `gated_sum`'s result into that of one operand.

    The gradient of the gate is a dot product, that of the table a weighted sum.
    """
    d_table[:] = d_table.dtype.type(0)
    for r in range(token.shape[0]):
        row, x, to = gradient[r], table[token[r]], d_table[token[r]]
        for h in range(x.shape[0]):
            g, dot, of_head, to_head = gate[r, h], row.dtype.type(0), x[h], to[h]
            for i in range(row.shape[0]):
                dot += row[i] * of_head[i]
                to_head[i] += g * row[i]
            d_gate[r, h] = dot


@compiled
def adamw(theta, gradient, first, second, step, lr, beta_1, beta_2, epsilon, weight_decay):  # type: ignore[no-untyped-def]
    """Take one step of AdamW (decoupled weight decay) in place; `step` counts from 1."""
    number = theta.dtype.type
    keep_1, add_1 = number(beta_1), number(1.0 - beta_1)
    keep_2, add_2 = number(beta_2), number(1.0 - beta_2)
    keep, rate = number(1.0 - lr * weight_decay), number(lr / (1.0 - beta_1**step))
    root, small = number(1.0 / np.sqrt(1.0 - beta_2**step)), number(epsilon)
    for i in range(theta.shape[0]):
        g = gradient[i]
        m = keep_1 * first[i] + add_1 * g
        v = keep_2 * second[i] + add_2 * (g * g)
        first[i] = m
        second[i] = v
        theta[i] = keep * theta[i] - rate * m / (np.sqrt(v) * root + small)
