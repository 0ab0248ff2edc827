"""The short explanation: attention that depends on the tokens, groups without frequencies, tables that are no group."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from quadlens.display import Displayed, short
from quadlens.logits.algorithm import AlgorithmMeasures, algorithm_measures, embedding, right_logits
from quadlens.model.config import AttentionKind
from quadlens.model.evaluate import AttentionRange, Evaluation, attention_ranges, evaluate
from quadlens.model.tables import FloatTables, Tables
from quadlens.model.task import Task
from quadlens.model.weights import Weights
from quadlens.numbers import at_least, decimals, neglected
from quadlens.spectrum.anatomy import Anatomy, anatomy_of
from quadlens.spectrum.cluster import find_clusters, key_frequencies, neuron_spectra
from quadlens.spectrum.irreps import Irrep, Irreps, find_irreps
from quadlens.spectrum.key import is_key
from quadlens.table import Table

if TYPE_CHECKING:
    from rich.console import Console

# The rank of W_L is how many directions hold this share of it; an irrep is key from 1 % on.
RANK_SHARE = 0.999
# All n³ logits are looked at a second time up to this many elements.
LARGEST_N = 257


@short
@dataclass(frozen=True)
class IrrepShare:
    """How much of a model is in one irrep, each around its mean.

    Attributes:
        irrep: The irrep.
        share_W_L: Share of the neuron-to-logit map, over c.
        share_embedding: Share of the vectors of a.
        share_logits: Share of the logits, over c; None where n is too large to look.
    """

    irrep: Irrep
    share_W_L: float
    share_embedding: float
    share_logits: float | None


@dataclass(frozen=True)
class NormFactors:
    """What norms multiply what the last MLP, and what the unembedding reads by, over all inputs; 1 without a norm.

    Attributes:
        mlp: The smallest and the largest factor before the MLP.
        final: The same before the unembedding.
        correct: How many inputs the network answers right with both factors at their means, so that what reaches a
            neuron has no factor that depends on the input; None of several layers.
    """

    mlp: tuple[float, float]
    final: tuple[float, float]
    correct: int | None

    def sentence(self, inputs: int) -> str:
        """How far the factors vary, and what is left without that.

        >>> NormFactors((0.5, 0.7), (1.0, 1.0), 24).sentence(25)
        'A norm multiplies what neurons read by 0.500 to 0.700; with its mean for every input, 24 of 25 are right.'
        """
        read = {"what neurons read": self.mlp, "what the unembedding reads": self.final}
        ranges = [f"{what} by {decimals(low)} to {decimals(high)}" for what, (low, high) in read.items() if low < high]
        words = f"A norm multiplies {' and another '.join(ranges) or 'by one factor'}"
        if self.correct is None:
            return f"{words}."
        which = "their means" if len(ranges) > 1 else "its mean"
        return f"{words}; with {which} for every input, {self.correct:,} of {inputs:,} are right."


def norm_factors(layer: FloatTables) -> NormFactors | None:
    """The factors of a network's norms; None where it has none."""
    if layer.sizes is None:
        return None
    low, high = layer.size_table.min(axis=(1, 2)), layer.size_table.max(axis=(1, 2))
    correct = None if layer.before is not None else evaluate(layer.with_mean_gates()).correct
    return NormFactors((float(low[0]), float(high[0])), (float(low[1]), float(high[1])), correct)


@dataclass(frozen=True, eq=False, repr=False)
class Outline(Displayed):
    """The short explanation of any model; where it has several layers, its neurons are those of the last.

    Attributes:
        task: What the model is asked.
        d_mlp: Number of neurons.
        activation: σ.
        attention: Kind of attention; None for an MLP.
        attention_ranges: What each head puts on each position.
        evaluation: How it answers.
        additive_share: Share of the pre-activations' variance over all inputs that is a part of a plus a part of b.
        rank: How many directions hold 99.9 % of W_L around its mean over c.
        key_frequencies: From what neurons read, over a and over b, and write; of several layers, those with at least
            1 % of W_L, for the last need not read waves of a and b. None without a cyclic relabelling.
        key_neurons: How many neurons read and write each of them; of several layers, write it most.
        irreps: Shares of every irrep in W_L, largest first; None where the table is no group's.
        layers: Number of layers.
        algorithm: The measures of Zhong et al.; None without a cyclic relabelling, with norms or several hidden layers
            of an MLP, and where n is too large to look.
        norms: What the norms before the last MLP and before the unembedding multiply by; None where there is none.
    """

    task: Task
    d_mlp: int
    activation: str
    attention: AttentionKind | None
    attention_ranges: tuple[AttentionRange, ...]
    evaluation: Evaluation
    additive_share: float
    rank: int
    key_frequencies: tuple[int, ...] | None
    key_neurons: tuple[int, ...]
    irreps: tuple[IrrepShare, ...] | None
    layers: int = 1
    algorithm: AlgorithmMeasures | None = None
    norms: NormFactors | None = None

    @property
    def key_irreps(self) -> tuple[IrrepShare, ...]:
        """Those with at least 1 % of W_L."""
        return tuple(one for one in self.irreps or () if is_key(one.share_W_L))

    def _facts(self) -> dict[str, object]:
        return {
            "task": self.task.words,
            "attention": self.attention,
            "right": f"{self.evaluation.correct} of {self.evaluation.pairs}",
            "key_frequencies": self.key_frequencies,
            "key_irreps": None if self.irreps is None else ", ".join(one.irrep.name for one in self.key_irreps),
        }

    def to_dict(self) -> dict[str, Any]:
        """The JSON view."""
        return {
            "p": self.task.n,
            "d_mlp": self.d_mlp,
            "activation": self.activation,
            "n_layers": self.layers,
            "key_frequencies": None if self.key_frequencies is None else list(self.key_frequencies),
            "key_neurons": list(self.key_neurons),
            "key_irreps": None
            if self.irreps is None
            else [
                {
                    "dimension": one.irrep.dimension,
                    "name": one.irrep.name,
                    "share_W_L": one.share_W_L,
                    "share_embedding": one.share_embedding,
                    "share_logits": one.share_logits,
                }
                for one in self.key_irreps
            ],
            "key_irreps_rank": None if self.irreps is None else sum(one.irrep.rank for one in self.key_irreps),
            "rank_W_L": self.rank,
            "additive_share": self.additive_share,
            "attention_ranges": [dataclasses.asdict(one) for one in self.attention_ranges],
            "correct": self.evaluation.correct,
            "accuracy": self.evaluation.accuracy,
            "algorithm": None if self.algorithm is None else self.algorithm.to_dict(),
            "min_margin": self.evaluation.min_margin,
            **({} if self.norms is None else {"norms": dataclasses.asdict(self.norms)}),
            "summary": self.summary(),
        }

    def summary(self) -> str:
        """One paragraph in plain language."""
        found = self.evaluation
        last = f" of the last of {self.layers} layers" if self.layers > 1 else ""
        sentences = [
            f"{self.d_mlp} neurons{last} answer {self.task.words}: {found.correct:,} of {found.pairs:,} inputs are "
            f"right, with a smallest margin of {at_least(found.min_margin, 3)}."
        ]
        if self.attention in ("softmax", "mixture"):
            widest = max(self.attention_ranges, key=lambda one: one.high - one.low)
            place = f" of layer {widest.layer}" if self.layers > 1 else ""
            sentences.append(
                f"Attention is a {self.attention}; the weight that varies most, of head {widest.head}{place} on "
                f"{('a', 'b', 'the = sign')[widest.position]}, {_range(widest.low, widest.high)}."
            )
        if self.norms is not None:
            sentences.append(self.norms.sentence(found.pairs))
        if self.attention in ("softmax", "mixture") or self.layers > 1 or self.norms is not None:
            sentences.append(
                f"Of what neurons read, {neglected(1 - self.additive_share)} is not a part of a plus a part of b."
            )
        if self.key_frequencies is not None:
            named = ", ".join(map(str, self.key_frequencies)) or "none"
            do = "write" if self.layers > 1 else "read and write"
            sentences.append(f"Key frequencies: {named} ({sum(self.key_neurons)} neurons {do} one of them).")
        else:
            sentences.append("No renaming of the elements makes the task addition, so there are no frequencies.")
        if self.irreps is None:
            sentences.append("Its table is not a group's, so there are no irreps.")
        else:
            named = ", ".join(f"{one.irrep.name} {decimals(100 * one.share_W_L, 1)} %" for one in self.key_irreps)
            total = sum(one.irrep.rank for one in self.key_irreps)
            sentences.append(
                f"W_L is made of {named or 'no irrep in particular'} (those with at least 1 % each), which have room "
                f"for {total} directions; to hold 99.9 % of W_L takes {self.rank}"
                + (", so that the rest is spread over fainter ones." if self.rank > total else ".")
            )
        if self.algorithm is not None and self.algorithm.sentence():
            sentences.append(self.algorithm.sentence())
        return " ".join(sentences)

    def render(self, console: "Console") -> None:
        """The summary, and a table of the key irreps."""
        console.print(self.summary(), markup=False)
        if self.key_irreps:
            header = ("irrep", "dimension", "rank", "share of W_L", "of the embedding", "of the logits")
            rows = [
                (
                    one.irrep.name,
                    str(one.irrep.dimension),
                    str(one.irrep.rank),
                    decimals(one.share_W_L, 4),
                    decimals(one.share_embedding, 4),
                    decimals(one.share_logits, 4),
                )
                for one in self.key_irreps
            ]
            Table("Key irreps: at least 1 % of W_L", header, rows).print(console)


def _range(low: float, high: float) -> str:
    """From where to where a weight goes, or that it stays where it is as far as printed digits show.

    >>> _range(0.1, 0.9), _range(0.9966, 0.9974)
    ('goes from 0.100 to 0.900', 'stays at 0.997, varying by at most 0.00080')
    """
    ends = decimals(low), decimals(high)
    if ends[0] != ends[1]:
        return f"goes from {ends[0]} to {ends[1]}"
    return (
        f"stays at {ends[0]}"
        if low == high
        else f"stays at {ends[0]}, varying by at most {decimals(high - low, 5, 'up')}"
    )


def needs_outline(model: Weights) -> bool:
    """Whether `explain` cannot speak of this model: it has no collapse, or no renaming makes the task addition."""
    config = model.config
    return config.no_collapse is not None or config.task.cyclic is None


def outline(model: Weights | Anatomy, progress: Callable[[str], None] = lambda step: None) -> Outline:
    """The short explanation of any model; `progress` is told each step that passes over all inputs."""
    anatomy = anatomy_of(model)
    config, layer = anatomy.config, anatomy.layer
    progress("what neurons read")
    additive, share = additive_part(layer)
    keys: tuple[int, ...] | None = None
    counts: tuple[int, ...] = ()
    if config.task.cyclic is not None:
        spectra = neuron_spectra(additive.as_addition())
        if layer.before is not None:
            power = spectra.output.power
            keys = tuple((1 + np.flatnonzero(is_key(power.sum(axis=1), power.sum()))).tolist())
            counts = tuple(int((power.argmax(axis=0) == k - 1).sum()) for k in keys)
        else:
            clusters = find_clusters(spectra)
            keys = key_frequencies(clusters)
            counts = tuple(len(cluster.neurons) for cluster in clusters if cluster.k in keys)
    # Gradients go back through blocks of a transformer, not through norms.
    measured = config.task.cyclic is not None and layer.p <= LARGEST_N and not config.norms and not config.hidden
    W_L = layer.W_L - layer.W_L.mean(axis=0)
    energy = np.cumsum(np.square(np.linalg.svd(W_L, compute_uv=False)))
    progress("attention")
    ranges = attention_ranges(anatomy.model, layer)
    progress("answers")
    evaluation = evaluate(layer)
    if config.task.is_group:
        progress("irreps")
    irreps = _irrep_shares(anatomy.model, layer) if config.task.is_group else None
    if measured:
        progress("measures of the algorithm")
    return Outline(
        task=config.task,
        d_mlp=config.d_mlp,
        activation=config.activation,
        attention=config.attends,
        attention_ranges=ranges,
        evaluation=evaluation,
        additive_share=share,
        rank=int((energy < RANK_SHARE * energy[-1]).sum()) + 1 if energy[-1] > 0 else 0,
        key_frequencies=keys,
        key_neurons=counts,
        irreps=irreps,
        layers=config.depth,
        algorithm=algorithm_measures(anatomy.model, layer, right_logits(layer)) if measured else None,
        norms=norm_factors(layer),
    )


def additive_part(layer: FloatTables) -> tuple[FloatTables, float]:
    """The sum of a part of a and a part of b closest to the pre-activations, and its share of their variance.

    It is the mean over b plus the mean over a less the mean over both: exactly the waves of the plane (a, b) that lie
    on its two axes.
    """
    n = layer.p
    of_a, of_b, squares = np.empty((n, layer.d_mlp)), np.zeros((n, layer.d_mlp)), np.zeros(layer.d_mlp)
    for a in range(n):
        pre = layer.pre(a)
        of_a[a] = pre.mean(axis=0)
        of_b += pre / n
        squares += np.square(pre).sum(axis=0) / n**2
    mean = of_a.mean(axis=0)
    total = float((squares - np.square(mean)).sum())
    additive = float(of_a.var(axis=0).sum() + of_b.var(axis=0).sum())
    nothing = np.zeros((n, n))
    W_L = np.array(layer.W_L)
    part = Tables(layer.task, layer.activation, of_a, of_b - mean, W_L, nothing, nothing.copy())
    return part, min(1.0, additive / total) if total > 0 else 1.0


def _irrep_shares(model: Weights, layer: FloatTables) -> tuple[IrrepShare, ...]:
    irreps = find_irreps(model.config.task)
    W_L, embedded = irreps.shares(layer.W_L), irreps.shares(_token_vectors(model))
    logits = _logit_shares(layer, irreps) if layer.p <= LARGEST_N else None
    found = [
        IrrepShare(irrep, float(W_L[i]), float(embedded[i]), None if logits is None else float(logits[i]))
        for i, irrep in enumerate(irreps.parts)
    ]
    return tuple(sorted(found, key=lambda one: -one.share_W_L))


def _token_vectors(model: Weights) -> Float[np.ndarray, "n d"]:
    """The vectors of the tokens a, in the order of the task's own elements."""
    rows, cyclic = embedding(model), model.config.task.cyclic
    return rows if cyclic is None else rows[cyclic.of_a]


def _logit_shares(layer: FloatTables, irreps: Irreps) -> Float[np.ndarray, " parts"]:
    gram = np.zeros((layer.p, layer.p))
    for a in range(layer.p):
        logits = layer.logits(a)
        gram += logits.T @ logits
    return irreps.shares_of_gram(gram)
