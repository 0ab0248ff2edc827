"""What counts as key: a frequency or an irrep that holds at least one per cent of the whole.

Of what, is said where it is asked: a cluster of neurons that read and write k counts by Σ ρ_i ω_i,
the size of what it adds to the logits; where no neuron reads waves (a layer behind others, a group
without frequencies), a frequency or an irrep counts by its share of W_L. A stray faint neuron makes
no key.
"""

from typing import Any

KEY_SHARE = 0.01


def is_key(size: Any, total: float = 1.0) -> Any:
    """Whether a size, or each of several, is at least 1 % of the total."""
    return size >= KEY_SHARE * total
