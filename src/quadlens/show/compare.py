"""Two models side by side: answers, frequencies, lens, bounds and proofs, as tables and as JSON."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from quadlens.analysis.explanation.of_study import explanation_of
from quadlens.analysis.infinite_width.of_study import lens_if_any
from quadlens.analysis.quadrature.of_study import bounds_if_any
from quadlens.analysis.spectrum.of_study import evaluation_of, keys_of, layer_of
from quadlens.base.display import Displayed
from quadlens.base.numbers import NONE, at_least, at_most, cost, decimals, listed, margin, percent
from quadlens.base.schema import plain
from quadlens.base.table import Table
from quadlens.network.evaluate import model_facts
from quadlens.network.study import Study, study_of
from quadlens.proofs.pairs.certificate import summary
from quadlens.proofs.pairs.of_study import made_proofs

if TYPE_CHECKING:
    from rich.console import Console

    from quadlens.network.named import ModelLike


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Displayed):
    """Two models.

    Attributes:
        a: The first.
        b: The second.
    """

    a: Study
    b: Study

    def _facts(self) -> dict[str, object]:
        return {
            "a": self.a.name,
            "b": self.b.name,
            "answers alike": percent(self.agreement) if self.agreement is not None else NONE,
        }

    def _repr_html_(self) -> str:
        """The tables, for a notebook."""
        return "".join(table._repr_html_() for table in self.tables)

    @cached_property
    def agreement(self) -> float | None:
        """Share of inputs to which both models give the same answer.

        None where they have different numbers of elements.
        """
        if self.a.p != self.b.p:
            return None
        layers = layer_of(self.a), layer_of(self.b)
        same = sum(
            int((layers[0].logits(a).argmax(1) == layers[1].logits(a).argmax(1)).sum())
            for a in range(self.a.p)
        )
        return same / self.a.p**2

    @property
    def names(self) -> tuple[str, str]:
        """What the two are called; numbered where that is the same."""
        same = self.a.name == self.b.name
        return (f"{self.a.name} (1)", f"{self.b.name} (2)") if same else (self.a.name, self.b.name)

    def prepare(self, progress: Callable[[str], None] = lambda step: None) -> "Comparison":
        """Compute what the tables show; return the comparison itself.

        Each step is passed to `progress` before it is taken.
        """
        for step, _, facts in SECTIONS:
            for study, name in zip(self._both, self.names, strict=True):
                progress(f"{step} of {name}")
                facts(study)
        return self

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """One row per fact, one column per model; then one row per key frequency of either."""
        tables = []
        for _, title, facts in SECTIONS:
            of_a, of_b = facts(self.a), facts(self.b)
            rows = [[name, of_a.get(name, NONE), of_b.get(name, NONE)] for name in {**of_a, **of_b}]
            tables.append(Table(title, ["", *self.names], rows))
        if self.agreement is not None:
            tables[1] = replace(
                tables[1], caption=f"the same answer to {percent(self.agreement)} of the inputs"
            )
        clusters = [self._cluster_row(k) for k in sorted({*_keys(self.a), *_keys(self.b)})]
        header = ["k", *(f"{measure}, {name}" for measure in MEASURES for name in self.names)]
        if clusters:
            tables.append(Table("frequency by frequency", header, clusters, left=()))
        return tuple(tables)

    def _cluster_row(self, k: int) -> list[str]:
        """Return one row: each measure of the first model, then of the second."""
        cells = [_cluster_facts(study, k) for study in self._both]
        return [str(k), *(cell for measure in zip(*cells, strict=True) for cell in measure)]

    @property
    def _both(self) -> tuple[Study, Study]:
        return self.a, self.b

    def to_dict(self) -> dict[str, Any]:
        """Return both models and their differences as JSON.

        `a` and `b` have the keys of `explain`, `lens` and `certify` that apply.
        """
        a, b = (plain(_everything(study)) for study in self._both)
        flat = dict(_leaves(a)), dict(_leaves(b))
        keys = [key for key in {**flat[0], **flat[1]} if flat[0].get(key) != flat[1].get(key)]
        differences = [{"key": key, "a": flat[0].get(key), "b": flat[1].get(key)} for key in keys]
        return {"a": a, "b": b, "answers_alike": self.agreement, "differences": differences}

    def render(self, console: "Console") -> None:
        """The tables, for a terminal."""
        for number, table in enumerate(self.tables):
            if number:
                console.print()
            table.print(console)


def compare(a: "ModelLike", b: "ModelLike") -> Comparison:
    """Two models side by side: answers, frequencies, lens, bounds and proofs.

    >>> import quadlens
    >>> quadlens.compare("pizza", quadlens.edit.ablate("pizza", keep="abs"))
    Comparison(a=pizza, b=model, answers alike=100.0 %)
    """
    return Comparison(study_of(a), study_of(b))


def _keys(study: Study) -> tuple[int, ...]:
    lens = study.once(lens_if_any)
    return tuple(cluster.k for cluster in lens.clusters) if lens else study.once(keys_of)


# Columns of the table of frequencies.
MEASURES = ("neurons", "sum waves", "exact error", "R² of angles")


def _cluster_facts(study: Study, k: int) -> list[str]:
    """Return what `MEASURES` are of one frequency of a model."""
    lens, bounds = study.once(lens_if_any), study.once(bounds_if_any)
    reading = next((part for part in lens.clusters if part.k == k), None) if lens else None
    rule = next((part for part in bounds.bounded if part.k == k), None) if bounds else None
    return [
        NONE if reading is None else str(reading.neurons),
        NONE if reading is None else percent(reading.reading.cluster.fourier["sum_waves"]),
        NONE if rule is None else at_most(rule.relative_exact_psi.upper, 4),
        NONE if reading is None else decimals(reading.r2_angles, 4, "down"),
    ]


def _config_facts(study: Study) -> dict[str, str]:
    config = study.config.need_pairs()
    return {
        "task": config.task.words,
        "elements": str(config.p),
        "attention": getattr(config, "attention_kind", "none"),
        "activation": config.activation,
        "neurons": str(config.d_mlp),
        "weights": f"{sum(array.size for array in study.model.tensors.values()):,}",
        "SHA-256": study.sha256[:16],
    }


def _answer_facts(study: Study) -> dict[str, str]:
    answers = study.once(evaluation_of)
    return {
        "right": f"{answers.correct:,} of {answers.pairs:,}",
        "loss": f"{answers.loss:.3g}",
        "smallest margin": at_least(answers.min_margin, 3),
        "median margin": decimals(answers.median_margin),
    }


def _layer_facts(study: Study) -> dict[str, str]:
    lens = study.once(lens_if_any)
    if lens is None:
        overview = study.once(explanation_of).overview
        shares = () if overview is None else overview.key_irreps[:6]
        return {
            "key irreps": ", ".join(
                f"{share.irrep.name} ({percent(share.share_W_L)})" for share in shares
            )
            or NONE
        }
    return {
        "key frequencies": listed(tuple(cluster.k for cluster in lens.clusters)) or "none",
        "integrates": {True: "yes", False: "not shown", None: NONE}[lens.integrates],
        "R² of the shared functions": decimals(lens.r2.shared, 4, "down"),
        "with output phases permuted": decimals(lens.controls.shared_permuted, 4),
        "symmetric part": decimals(lens.r2.symmetric_part, 4, "down"),
        "R² of the finite sum": decimals(lens.r2.finite_sum, 4, "down"),
        "answered right by the shared functions": percent(lens.answers_right),
    }


def _proof_facts(study: Study) -> dict[str, str]:
    certificate = study.once(made_proofs).certify()
    return {
        "verdict": certificate.verdict,
        "strategy": certificate.proof.strategy,
        "inputs proved": f"{certificate.certified_inputs:,} of {certificate.p**2:,}",
        "margin at least": margin(certificate.proof.margin),
        "cost over brute force": cost(certificate.cost_share),
        "the same beyond the collapse": cost(certificate.cost_share_beyond_collapse),
    }


# The tables of facts: the step that computes one, its title, and what it says of one model.
SECTIONS: tuple[tuple[str, str, Callable[[Study], dict[str, str]]], ...] = (
    ("settings", "what they are", _config_facts),
    ("answers", "what they answer", _answer_facts),
    ("hidden layer", "what the hidden layer does", _layer_facts),
    ("proofs", "what is proved", _proof_facts),
)


def _everything(study: Study) -> dict[str, Any]:
    """What `evaluate`, `explain`, `lens`, `bounds` and `certify` say of one model."""
    lens = study.once(lens_if_any)
    return {
        "name": study.name,
        **model_facts(study.model, layer_of(study)),
        **asdict(study.once(evaluation_of)),
        **study.once(explanation_of).to_dict(),
        "lens": lens.to_dict() if lens else None,
        "certify": summary(study.once(made_proofs).certify()),
    }


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every number and word with its path.

    Entries of a list that have a `k` go by it; other lists stay whole.
    """
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(item, f"{key}.{name}" if key else str(name))
    elif (
        isinstance(value, list)
        and value
        and all(isinstance(item, dict) and "k" in item for item in value)
    ):
        for item in value:
            yield from _leaves(item, f"{key}.{item['k']}")
    else:
        yield key, value
