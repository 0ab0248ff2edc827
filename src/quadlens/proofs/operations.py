"""Counted arithmetic: what a proof costs, one operation for each number produced.

Proofs by enclosure and of several layers have one formula each, from sizes (`direct_operations`, `deep_operations`).
The others are counted in two ways. The methods `multiply`, `add`, `greater`, … do the work and count it. Where other
code does the work (matrix products by FLINT, enclosures, norms, the largest of a row), the step that asks for it adds a
formula in the sizes of its operands; so it is for most of `lipschitz` and `thin`. Each strategy's total is compared, in
the tests, with a closed formula: `brute_force_operations`, `arcs_operations`, `moments_operations`,
`moments_large_operations`, `thin_operations`, `lipschitz_operations`.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Shaped

from quadlens.model.config import Config


@dataclass
class Operations:
    """A tally of scalar operations: kept by the methods below, or added to by formula.

    A multiplication, an addition, a comparison each count 1, on integers of any length as on floats: the measure
    in which brute force costs 2 p³ d_mlp. Copies, look-ups and negations that only relabel a sign count 0.

    Attributes:
        multiplications: Products formed.
        additions: Sums and differences formed.
        comparisons: Orders decided (a maximum is a comparison).
    """

    multiplications: int = 0
    additions: int = 0
    comparisons: int = 0

    @property
    def total(self) -> int:
        """All operations."""
        return self.multiplications + self.additions + self.comparisons

    def include(self, other: "Operations") -> None:
        """Add what another tally counted."""
        self.multiplications += other.multiplications
        self.additions += other.additions
        self.comparisons += other.comparisons

    def multiply(self, x: Shaped[np.ndarray, "..."], y: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "..."]:
        """The product x · y, elementwise."""
        product = x * y
        self.multiplications += product.size
        return product

    def add(self, x: Shaped[np.ndarray, "..."], y: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "..."]:
        """The sum x + y, elementwise."""
        result = x + y
        self.additions += result.size
        return result

    def subtract(self, x: Shaped[np.ndarray, "..."], y: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "..."]:
        """The difference x - y, elementwise."""
        result = x - y
        self.additions += result.size
        return result

    def greater(self, x: Shaped[np.ndarray, "..."], y: Shaped[np.ndarray, "..."]) -> Bool[np.ndarray, "..."]:
        """Whether x > y, elementwise, exact also for Python integers."""
        result = np.asarray(x > y, dtype=bool)
        self.comparisons += result.size
        return result

    def maximum(self, x: Shaped[np.ndarray, "..."], y: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "..."]:
        """The larger, max(x, y), elementwise."""
        result = np.maximum(x, y)
        self.comparisons += result.size
        return result

    def running_sum(self, x: Shaped[np.ndarray, "rows n"]) -> Shaped[np.ndarray, "rows n_plus_1"]:
        """Sums of the first 0, 1, …, n entries of each row: n additions per row."""
        sums = np.zeros((x.shape[0], x.shape[1] + 1), dtype=x.dtype)
        np.add.accumulate(x, axis=1, out=sums[:, 1:])
        self.additions += x.size
        return sums

    def sum_groups(
        self, x: Shaped[np.ndarray, " n"], group: Shaped[np.ndarray, " n"], groups: int
    ) -> Shaped[np.ndarray, " groups"]:
        """Sums of the entries of each group, for group numbers in ascending order: one addition per entry."""
        sums = np.zeros(groups, dtype=x.dtype)
        if len(x):
            starts = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))
            sums[group[starts]] = np.add.reduceat(x, starts)
        self.additions += len(x)
        return sums

    def count_product(self, rows: int, inner: int, columns: int) -> None:
        """Record a matrix product of these sizes, done elsewhere: one multiplication and one addition per term."""
        self.multiplications += rows * inner * columns
        self.additions += rows * inner * columns


def collapse_operations(config: Config) -> int:
    """Multiplications and additions of the matrix products of `quadlens.model.exact.collapse_exactly`.

    OV = Σ_h W_V W_O, the two token streams times OV, then times W_in and W_U, and W_out W_U; the products with one row
    (biases, '=') are counted too. An MLP is its own collapse and costs nothing. With softmax, `softmax_operations` come
    on top; what no gate multiplies then has OV in it only where attention has a constant part.
    """
    if not config.has_stream:
        return 0
    ops, p, d, d_mlp = Operations(), config.p, config.d_model, config.d_mlp
    if config.softmax is not None and not any(config.attention):
        # Only the residual stream of the position read, and the heads' value biases.
        rows = 1 if config.read_position == 2 else p
        ops.count_product(config.n_heads, config.d_head, d)
        ops.count_product(rows, d, d_mlp + p)
        ops.count_product(d_mlp, d, p)
        return ops.total + softmax_operations(config)
    for _ in range(config.n_heads):
        ops.count_product(d, config.d_head, d)
        ops.count_product(1, config.d_head, d)
    for rows in (p, p, 1)[: len(config.attention)]:
        ops.count_product(rows, d, d)
    for _ in ("a", "b"):
        ops.count_product(p, d, d_mlp)
        ops.count_product(p, d, p)
    ops.count_product(d_mlp, d, p)
    return ops.total + softmax_operations(config)


def score_count(config: Config) -> int:
    """How many scores a head has: one for each token of a position and each token of the one read."""
    tokens = (config.p, config.p, 1)
    read = config.read_position
    return sum(tokens[t] * (1 if t == read else tokens[read]) for t in range(config.positions_seen))


def softmax_operations(config: Config) -> int:
    """The products of `exact_tables` beyond the collapse without gates.

    A head: W_O W_in and W_O W_U; for the tokens of each position seen, keys, values, and values times both; queries of
    the position read; one product of d_head terms for each score. Where a and b share their tokens, what W_E brings is
    the same for both, and each position adds one row.
    """
    if config.softmax is None:
        return 0
    ops, p, d, dh, out = Operations(), config.p, config.d_model, config.d_head, config.d_mlp + config.p
    seen = config.positions_seen
    rows = p * (1 if config.b_token_offset == 0 else min(seen, 2)) + seen
    ops.count_product(dh, d, out)
    ops.count_product(rows, d, 2 * dh)
    ops.count_product(rows, dh, out)
    ops.count_product(1 if config.read_position == 2 else p, d, dh)
    ops.count_product(score_count(config), dh, 1)
    # Each position's row joins: keys, values through W_in and W_U.
    ops.additions += min(seen, 2) * p * (dh + out)
    return config.n_heads * ops.total
