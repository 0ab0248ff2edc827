"""What a proof costs: one operation per number produced, by a formula per strategy.

A multiplication, an addition, a comparison each count 1, on integers of any length as on floats:
the measure in which brute force costs 2 p³ d_mlp. Copies, look-ups and negations that only relabel
a sign count 0, and so does sorting, but in `thin`, which counts it. The formulas are
`brute_force_operations`, `arcs_operations`, `moments_operations`, `moments_large_operations`,
`thin_items`, `direct_operations` and `deep_operations`; those of the first three are compared in
the tests with what arrays that count do on small models.
"""

from quadlens.network.config import Config


def product(rows: int, inner: int, columns: int) -> int:
    """A product of matrices of these sizes: one multiplication and one addition per term."""
    return 2 * rows * inner * columns


def collapse_operations(config: Config) -> int:
    """Multiplications and additions of the matrix products of a collapse without tricks.

    OV = Σ_h W_V W_O, the two token streams times OV, then times W_in and W_U, and W_out W_U; the
    products with one row (biases, '=') are counted too. An MLP, of d_model = 0, is its own collapse
    and costs nothing. With softmax, `softmax_operations` come on top; what no gate multiplies has
    OV in it only where attention is constant in part.
    """
    p, d, d_mlp = config.p, config.d_model, config.d_mlp
    out = product(d_mlp, d, p) + softmax_operations(config)
    if config.softmax is not None and not any(config.attention):
        # Only the residual stream of the position read, and the heads' value biases.
        rows = 1 if config.read_position == 2 else p
        return product(config.n_heads, config.d_head, d) + product(rows, d, d_mlp + p) + out
    heads = config.n_heads * (product(d, config.d_head, d) + product(1, config.d_head, d))
    streams = sum(product(rows, d, d) for rows in (p, p, 1)[: len(config.attention)])
    return heads + streams + 2 * product(p, d, d_mlp + p) + out


def score_count(config: Config) -> int:
    """Count a head's scores: one per token of a position and token of the one read."""
    tokens = (config.p, config.p, 1)
    read = config.read_position
    return sum(tokens[t] * (1 if t == read else tokens[read]) for t in range(config.positions_seen))


def softmax_operations(config: Config) -> int:
    """The products of `collapse.gated_tables` beyond the collapse without gates.

    A head: W_O W_in and W_O W_U; for the tokens of each position seen, keys, values, and values
    times both; queries of the position read; one product of d_head terms for each score. Where a
    and b share their tokens, what W_E brings is the same for both, and each position adds one row.
    """
    if config.softmax is None:
        return 0
    p, d, dh, out = config.p, config.d_model, config.d_head, config.d_mlp + config.p
    seen = config.positions_seen
    rows = p * (1 if config.b_token_offset == 0 else min(seen, 2)) + seen
    head = product(dh, d, out) + product(rows, d, 2 * dh) + product(rows, dh, out)
    head += product(1 if config.read_position == 2 else p, d, dh) + product(
        score_count(config), dh, 1
    )
    # Each position's row joins: keys, values through W_in and W_U.
    return config.n_heads * (head + min(seen, 2) * p * (dh + out))
