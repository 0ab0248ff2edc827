"""Describe any network: attention, norms, irreps, answers.

Attention may depend on the tokens; the task may have no frequencies, or be any table.
"""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from quadlens.analysis.columns import Column, as_dict, as_table
from quadlens.analysis.logits.algorithm import (
    AlgorithmMeasures,
    algorithm_measures,
    embedding,
    right_logits,
)
from quadlens.analysis.spectrum.anatomy import Anatomy
from quadlens.analysis.spectrum.cluster import find_clusters, key_frequencies, neuron_spectra
from quadlens.analysis.spectrum.irreps import Irrep, Irreps, find_irreps
from quadlens.analysis.spectrum.key import is_key
from quadlens.base.display import short
from quadlens.base.numbers import decimals
from quadlens.base.table import Table
from quadlens.network.config import AttentionKind
from quadlens.network.evaluate import AttentionRange, Evaluation, attention_ranges, evaluate
from quadlens.network.tables import FloatTables, Tables
from quadlens.network.weights import Weights

# The rank of W_L is how many directions hold this share of it; an irrep is key from 1 % on.
RANK_SHARE = 0.999
# All n³ logits are looked at a second time up to this many elements.
LARGEST_N = 257


@short
@dataclass(frozen=True)
class IrrepShare:
    """Shares of a model that are in one irrep, each around its mean.

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


ten_thousandths = partial(decimals, digits=4)
IRREPS = (
    Column("dimension", "irrep.dimension", "dimension"),
    Column("name", "irrep.name", "irrep"),
    Column("", "irrep.rank", "rank"),
    Column("share_W_L", "", "share of W_L", ten_thousandths),
    Column("share_embedding", "", "of the embedding", ten_thousandths),
    Column("share_logits", "", "of the logits", ten_thousandths),
)
IRREP_ORDER = ("irrep", "dimension", "rank", "share of W_L", "of the embedding", "of the logits")


@dataclass(frozen=True)
class NormFactors:
    """The factors by which norms multiply what the last MLP and the unembedding read.

    They are taken over all inputs; 1 without a norm.

    Attributes:
        mlp: The smallest and the largest factor before the MLP.
        final: The same before the unembedding.
        correct: How many inputs the network answers right with both factors at their means, so that
            what reaches a neuron has no factor that depends on the input; None of several layers.
    """

    mlp: tuple[float, float]
    final: tuple[float, float]
    correct: int | None

    def sentence(self, inputs: int) -> str:
        """Say how far the factors vary, and how many inputs are right without that.

        >>> NormFactors((0.5, 0.7), (1.0, 1.0), 24).sentence(25)
        'A norm multiplies what neurons read by 0.500 to 0.700; with its mean for every input, 24 of
        25 are right.'
        """
        read = {"what neurons read": self.mlp, "what the unembedding reads": self.final}
        ranges = [
            f"{what} by {decimals(low)} to {decimals(high)}"
            for what, (low, high) in read.items()
            if low < high
        ]
        words = f"A norm multiplies {' and another '.join(ranges) or 'by one factor'}"
        if self.correct is None:
            return f"{words}."
        which = "their means" if len(ranges) > 1 else "its mean"
        return f"{words}; with {which} for every input, {self.correct:,} of {inputs:,} are right."


@short
@dataclass(frozen=True, eq=False)
class Overview:
    """A description of any network; of several layers, the neurons are the last layer's.

    Attributes:
        attention: Kind of attention; None for an MLP.
        attention_ranges: What each head puts on each position.
        evaluation: How it answers.
        additive_share: Share of the pre-activations' variance over all inputs that is a part of a
            plus a part of b.
        rank: How many directions hold 99.9 % of W_L around its mean over c.
        key_frequencies: From what neurons read, over a and over b, and write; of several layers,
            those with at least 1 % of W_L, for the last need not read waves of a and b. None
            without a cyclic relabelling.
        key_neurons: How many neurons read and write each of them; of several layers, write it most.
        irreps: Shares of every irrep in W_L, largest first; None where the table is no group's.
        layers: Number of layers.
        neuron_layers: Number of those that have neurons.
        algorithm: The measures of Zhong et al.; None without a cyclic relabelling, with norms, and
            where n is too large to look.
        norms: What the norms before the last MLP and before the unembedding multiply by; None where
            there is none.
    """

    attention: AttentionKind | None
    attention_ranges: tuple[AttentionRange, ...]
    evaluation: Evaluation
    additive_share: float
    rank: int
    key_frequencies: tuple[int, ...] | None
    key_neurons: tuple[int, ...]
    irreps: tuple[IrrepShare, ...] | None
    layers: int
    neuron_layers: int
    algorithm: AlgorithmMeasures | None
    norms: NormFactors | None

    @property
    def key_irreps(self) -> tuple[IrrepShare, ...]:
        """The irreps with at least 1 % of W_L."""
        return tuple(share for share in self.irreps or () if is_key(share.share_W_L))

    @property
    def key_irreps_rank(self) -> int:
        """Number of directions that the key irreps have room for."""
        return sum(share.irrep.rank for share in self.key_irreps)

    def facts(self) -> dict[str, object]:
        """In a few words."""
        return {
            "attention": self.attention,
            "right": f"{self.evaluation.correct} of {self.evaluation.pairs}",
            "key_frequencies": self.key_frequencies,
            "key_irreps": None
            if self.irreps is None
            else ", ".join(share.irrep.name for share in self.key_irreps),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the overview's part of `quadlens explain --json`."""
        no_group = self.irreps is None
        return {
            "n_layers": self.layers,
            "key_frequencies": None if self.key_frequencies is None else list(self.key_frequencies),
            "key_neurons": list(self.key_neurons),
            "key_irreps": None
            if no_group
            else [as_dict(IRREPS, share) for share in self.key_irreps],
            "key_irreps_rank": None if no_group else self.key_irreps_rank,
            "rank_W_L": self.rank,
            "additive_share": self.additive_share,
            "attention_ranges": [dataclasses.asdict(ranges) for ranges in self.attention_ranges],
            "correct": self.evaluation.correct,
            "accuracy": self.evaluation.accuracy,
            "algorithm": None if self.algorithm is None else self.algorithm.to_dict(),
            "min_margin": self.evaluation.min_margin,
            **({} if self.norms is None else {"norms": dataclasses.asdict(self.norms)}),
        }

    def tables(self) -> Iterator[Table]:
        """The key irreps, where there are any."""
        if self.key_irreps:
            yield as_table("Key irreps: at least 1 % of W_L", IRREPS, self.key_irreps, IRREP_ORDER)


def look_over(anatomy: Anatomy, progress: Callable[[str], None]) -> Overview:
    """Look at all inputs; `progress` is told each step that passes over them."""
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
    # Gradients go back through blocks and layers, not through norms.
    normed = bool(config.norms) or any(hidden.norm for hidden in config.hidden)
    measured = config.task.cyclic is not None and layer.p <= LARGEST_N and not normed
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
    return Overview(
        attention=config.attends,
        attention_ranges=ranges,
        evaluation=evaluation,
        additive_share=share,
        rank=int((energy < RANK_SHARE * energy[-1]).sum()) + 1 if energy[-1] > 0 else 0,
        key_frequencies=keys,
        key_neurons=counts,
        irreps=irreps,
        layers=config.depth,
        neuron_layers=config.neuron_layers,
        algorithm=algorithm_measures(anatomy.model, right_logits(layer)) if measured else None,
        norms=norm_factors(layer),
    )


def norm_factors(layer: FloatTables) -> NormFactors | None:
    """The factors of a network's norms; None where it has none."""
    if layer.sizes is None:
        return None
    low, high = layer.size_table.min(axis=(1, 2)), layer.size_table.max(axis=(1, 2))
    correct = None if layer.before is not None else evaluate(layer.with_mean_gates()).correct
    return NormFactors((float(low[0]), float(high[0])), (float(low[1]), float(high[1])), correct)


def additive_part(layer: FloatTables) -> tuple[FloatTables, float]:
    """Return the sum f(a) + g(b) nearest to the pre-activations, and its share of their variance.

    It is the mean over b plus the mean over a less the mean over both: exactly the waves of the
    plane (a, b) that lie on its two axes.
    """
    n = layer.p
    of_a, of_b, squares = (
        np.empty((n, layer.d_mlp)),
        np.zeros((n, layer.d_mlp)),
        np.zeros(layer.d_mlp),
    )
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
    shares = [
        IrrepShare(
            irrep, float(W_L[i]), float(embedded[i]), None if logits is None else float(logits[i])
        )
        for i, irrep in enumerate(irreps.parts)
    ]
    return tuple(sorted(shares, key=lambda share: -share.share_W_L))


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
