"""The paper's last appendix: a trained network written with few numbers."""

from quadlens.analysis.parameterisation.network import Numbers, Parameterised, parameterise

__all__ = ["Numbers", "Parameterised", "parameterise"]
