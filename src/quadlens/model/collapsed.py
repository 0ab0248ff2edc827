"""The collapsed model: what a constant-attention transformer computes, with one hidden layer and a skip term."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from quadlens.display import Displayed
from quadlens.errors import BadConfig, BadWeights
from quadlens.model.activation import Activation, apply_activation
from quadlens.model.task import Task, task_by_name


@dataclass(frozen=True, eq=False, repr=False)
class Collapsed(Displayed):
    """logit(a,b,c) = Σ_i W_L[c,i] σ(U_a[a,i] + U_b[b,i]) + S_a[a,c] + S_b[b,c]   (`math.md` §1).

    Attributes:
        p: Number of elements.
        activation: σ.
        U_a: What token a adds to the pre-activation of neuron i.
        U_b: What token b adds, with every bias folded in.
        W_L: Neuron-to-logit map.
        S_a: What the skip connection around the MLP adds to the logits for a.
        S_b: The same for b, with the constants.
        task: What the model is asked; addition when left out.
    """

    p: int
    activation: Activation
    U_a: Float[np.ndarray, "p d_mlp"]
    U_b: Float[np.ndarray, "p d_mlp"]
    W_L: Float[np.ndarray, "p d_mlp"]
    S_a: Float[np.ndarray, "p p"]
    S_b: Float[np.ndarray, "p p"]
    task: Task = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.task is None:
            object.__setattr__(self, "task", task_by_name("add", self.p))
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

    def skip(self, a: int) -> Float[np.ndarray, "p p"]:
        """What passes by the neurons on its way to the logits, for one a and all b, [b, c]."""
        return self.S_a[a] + self.S_b

    def pair_logits(self, pairs: Int[np.ndarray, "n 2"]) -> Float[np.ndarray, "n p"]:
        """Logits of the pairs given."""
        a, b = pairs[:, 0], pairs[:, 1]
        hidden = apply_activation(self.activation, self.U_a[a] + self.U_b[b])
        return hidden @ self.W_L.T + self.S_a[a] + self.S_b[b]

    def as_addition(self) -> "Collapsed":
        """The same model with its elements renamed so that its task is addition (`networks.md` §1).

        Raises:
            BadConfig: when the task has no cyclic relabelling.
        """
        if self.task.is_addition:
            return self
        new = self.task.cyclic
        if new is None:
            raise BadConfig(
                f"the task {self.task.name} ({self.task.words}) has no cyclic relabelling: no renaming of its elements "
                "makes it addition, so there are no frequencies to speak of; `quadlens explain`, `certify` and "
                "`report` work"
            )
        old_a, old_b, old_c = (np.argsort(x) for x in (new.of_a, new.of_b, new.of_c))
        return Collapsed(
            p=self.p,
            activation=self.activation,
            U_a=self.U_a[old_a],
            U_b=self.U_b[old_b],
            W_L=self.W_L[old_c],
            S_a=self.S_a[np.ix_(old_a, old_c)],
            S_b=self.S_b[np.ix_(old_b, old_c)],
        )
