"""Networks of one layer on sequences: tasks as automata, and proofs over more inputs than could be tried."""

from quadlens.sequences.forward import forward
from quadlens.sequences.task import SequenceTask, expand

__all__ = ["SequenceTask", "expand", "forward"]
