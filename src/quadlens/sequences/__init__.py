"""Networks of one layer on sequences: tasks as automata, and proofs over more inputs than could be tried."""

from quadlens.model.sequence_forward import forward
from quadlens.model.sequence_task import SequenceTask, expand

__all__ = ["SequenceTask", "expand", "forward"]
