"""What the collapse costs: every strategy needs U_a, U_b, W_L, S_a and S_b before it can begin."""

from quadlens.model.config import Config
from quadlens.model.params import Model
from quadlens.proofs.operations import Operations


def collapse_operations(model: Model) -> int:
    """Multiplications and additions of the matrix products of `quadlens.model.exact.collapse_exactly`.

    OV = Σ_h W_V W_O, the two token streams times OV, then times W_in and W_U, and W_out W_U; the products with one row
    (biases, '=') are counted too. An MLP is its own collapse and costs nothing.
    """
    config = model.config
    if not isinstance(config, Config):
        return 0
    ops, p, d, d_mlp = Operations(), config.p, config.d_model, config.d_mlp
    for _ in range(config.n_heads):
        ops.count_product(d, config.d_head, d)
        ops.count_product(1, config.d_head, d)
    for rows in (p, p, 1)[: len(config.attention)]:
        ops.count_product(rows, d, d)
    for _ in ("a", "b"):
        ops.count_product(p, d, d_mlp)
        ops.count_product(p, d, p)
    ops.count_product(d_mlp, d, p)
    return ops.total
