"""Networks of one layer on sequences, and proofs over more inputs than could be tried."""

from quadlens.network.sequence_forward import forward
from quadlens.network.sequence_task import SequenceTask, expand

__all__ = ["SequenceTask", "expand", "forward"]
