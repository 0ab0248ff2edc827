"""The paper's last appendix: a trained network written with few numbers, and what that leaves out, term by term."""

from quadlens.parameterisation.network import Numbers, Parameterised, parameterise
from quadlens.parameterisation.noise import Expansion, Term, expand

__all__ = ["Expansion", "Numbers", "Parameterised", "Term", "expand", "parameterise"]
