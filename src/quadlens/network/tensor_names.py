"""Names of tensors: our short ones, and those in files.

Where there are several blocks, a block's number stands before the short name.
"""

from collections.abc import Mapping

QUERY_KEY = ("W_Q", "b_Q", "W_K", "b_K")
# The weights that all blocks share.
OUTER = ("W_E", "W_pos", "W_U", "b_U", "ln_final_w", "ln_final_b")
# Our short names → the names in the file.
TRANSFORMER_NAMES = {
    "W_E": "embed.W_E",
    "W_pos": "pos_embed.W_pos",
    "W_V": "blocks.0.attn.W_V",
    "b_V": "blocks.0.attn.b_V",
    "W_O": "blocks.0.attn.W_O",
    "b_O": "blocks.0.attn.b_O",
    "W_in": "blocks.0.mlp.W_in",
    "b_in": "blocks.0.mlp.b_in",
    "W_out": "blocks.0.mlp.W_out",
    "b_out": "blocks.0.mlp.b_out",
    "W_U": "unembed.W_U",
    "b_U": "unembed.b_U",
}
NORM_NAMES = {
    "ln1_w": "blocks.0.ln1.w",
    "ln1_b": "blocks.0.ln1.b",
    "ln2_w": "blocks.0.ln2.w",
    "ln2_b": "blocks.0.ln2.b",
    "ln_final_w": "ln_final.w",
    "ln_final_b": "ln_final.b",
}
QUERY_KEY_NAMES = {name: f"blocks.0.attn.{name}" for name in QUERY_KEY}
PAIR_NAMES = TRANSFORMER_NAMES | QUERY_KEY_NAMES | NORM_NAMES
SEQUENCE_NAMES = {
    **PAIR_NAMES,
    **{
        name: f"blocks.0.attn.{name}"
        for name in ("q_norm_w", "k_norm_w", "rope_cos", "rope_sin", "mask", "score_bias")
    },
    **{name: f"blocks.0.mlp.{name}" for name in ("W_gate", "b_gate")},
}
# The answers of a task that is not given by a formula, as 32-bit integers.
TASK_TABLE = "task.answers"


def unnumbered(name: str) -> str:
    """Return the name of a weight without its block's number.

    >>> unnumbered("1.W_in"), unnumbered("W_in")
    ('W_in', 'W_in')
    """
    return name.rpartition(".")[2]


def layered(names: Mapping[str, str], blocks: int) -> dict[str, str]:
    """Return the names of one block's weights for each of several blocks.

    A block's number stands before our short names.

    >>> layered({"W_E": "embed.W_E", "W_in": "blocks.0.mlp.W_in"}, 2)
    {'W_E': 'embed.W_E', '0.W_in': 'blocks.0.mlp.W_in', '1.W_in': 'blocks.1.mlp.W_in'}
    """
    if blocks == 1:
        return dict(names)
    inner = {short: long for short, long in names.items() if short not in OUTER}
    return {short: long for short, long in names.items() if short in OUTER} | {
        f"{i}.{short}": long.replace(".0.", f".{i}.")
        for i in range(blocks)
        for short, long in inner.items()
    }
