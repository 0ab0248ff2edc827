"""The collapsed model: what a constant-attention transformer computes, with one hidden layer and a skip term."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from quadlens.display import Displayed
from quadlens.errors import BadWeights
from quadlens.model.activation import Activation, apply_activation


@dataclass(frozen=True, eq=False, repr=False)
class Collapsed(Displayed):
    """logit(a,b,c) = Σ_i W_L[c,i] σ(U_a[a,i] + U_b[b,i]) + S_a[a,c] + S_b[b,c]   (`math.md` §1).

    Attributes:
        p: Modulus.
        activation: σ.
        U_a: What token a adds to the pre-activation of neuron i.
        U_b: What token b adds, with every bias folded in.
        W_L: Neuron-to-logit map.
        S_a: What the skip connection around the MLP adds to the logits for a.
        S_b: The same for b, with the constants.
    """

    p: int
    activation: Activation
    U_a: Float[np.ndarray, "p d_mlp"]
    U_b: Float[np.ndarray, "p d_mlp"]
    W_L: Float[np.ndarray, "p d_mlp"]
    S_a: Float[np.ndarray, "p p"]
    S_b: Float[np.ndarray, "p p"]

    def __post_init__(self) -> None:
        wide, square = (self.p, self.U_a.shape[-1]), (self.p, self.p)
        for name, shape in {"U_a": wide, "U_b": wide, "W_L": wide, "S_a": square, "S_b": square}.items():
            array = getattr(self, name)
            if array.shape != shape:
                raise BadWeights(f"{name} of the collapsed model has shape {array.shape}, expected {shape}")
            if not np.isfinite(array).all():
                raise BadWeights(f"{name} of the collapsed model overflows: the weights are too large for float64")
            array.flags.writeable = False

    def _facts(self) -> dict[str, object]:
        return {"p": self.p, "d_mlp": self.d_mlp, "": self.activation}

    @property
    def d_mlp(self) -> int:
        """Number of neurons."""
        return int(self.U_a.shape[1])

    def pre(self, a: int) -> Float[np.ndarray, "p d_mlp"]:
        """Pre-activations of every neuron for one a and all b, [b, i]."""
        return self.U_a[a] + self.U_b

    def logits(self, a: int) -> Float[np.ndarray, "p p"]:
        """Logits for one a and all b, [b, c]: a slice at a time keeps memory at p·(p + d_mlp)."""
        return apply_activation(self.activation, self.pre(a)) @ self.W_L.T + self.S_a[a] + self.S_b
