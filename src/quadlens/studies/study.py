"""`Study`: everything that is known about one model, each thing computed when it is first asked for, and only once."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Float

from quadlens.arguments import check_argument
from quadlens.display import Displayed
from quadlens.errors import BadConfig, BadWeights, WrongArgument, kind_of, within_float64
from quadlens.explanation import Explanation, explain
from quadlens.infinite_width import Lens, lens
from quadlens.integration import Integration
from quadlens.logits.parts import has_skip_connection, skip_shares
from quadlens.long_work import TIME_LIMIT
from quadlens.model.activation import NONLINEARITIES
from quadlens.model.bundled import SUFFIX, bundled_names, resolve
from quadlens.model.config import Config
from quadlens.model.evaluate import MAX_OPERATIONS, Evaluation, about, evaluate, margins
from quadlens.model.native import load_with_sha256, sha256
from quadlens.model.sequence import SequenceConfig
from quadlens.model.tables import FloatTables, Tables
from quadlens.model.weights import Weights
from quadlens.proofs import Certificate, Prover, best_certificate
from quadlens.proofs.produce import strategies
from quadlens.published import PopulationSummary, Published, read_population, read_published
from quadlens.quadrature import Bounds, ClusterBounds, bounds
from quadlens.spectrum import Anatomy
from quadlens.spectrum.irreps import Irreps, find_irreps
from quadlens.studies.rules import RuleErrors, rule_errors
from quadlens.training.history import History, read_history
from quadlens.training.outputs import RunFiles

if TYPE_CHECKING:
    from quadlens.sequences.evaluate import SequenceEvaluation
    from quadlens.sequences.explain import Axis

# Frequencies that get pictures of their own; a model without structure has dozens of faint clusters.
MAX_FREQUENCIES = 8
# Past this many of brute force's operations, proofs in exact integers take minutes and are left out.
EXACT_LIMIT = 10**9
IN_MEMORY = "model"


@dataclass(frozen=True, eq=False, repr=False)
class Study(Displayed):
    """One model and what is known about it; nothing is computed before it is asked for, nothing twice.

    >>> import quadlens
    >>> study = quadlens.study("pizza")
    >>> study.explanation.key_frequencies, study.evaluation.correct
    ((5, 9, 11), 3481)

    Attributes:
        anatomy: The weights, collapsed, exact, decomposed.
        name: Bundled name, or file name without suffix, or "model".
        file: The model's file; None for a model in memory.
        file_sha256: Its SHA-256.
        with_proofs: Whether proofs are part of the study; without them `certificates` is empty.
        on_sequences: Whether it is of a network on sequences, which has figures of its own.
    """

    on_sequences: ClassVar[bool] = False

    anatomy: Anatomy
    name: str = IN_MEMORY
    file: Path | None = None
    file_sha256: str | None = None
    with_proofs: bool = True

    @property
    def is_bundled(self) -> bool:
        """Whether the name alone is enough to find the model."""
        return self.file is not None and self.name in bundled_names() and self.file == resolve(self.name)

    @property
    def model(self) -> Weights:
        """The weights."""
        return self.anatomy.model

    @property
    def config(self) -> Config:
        """The model's config."""
        return self.anatomy.config

    @property
    def p(self) -> int:
        """Modulus."""
        return self.anatomy.config.p

    @property
    def collapsed(self) -> FloatTables:
        """U_a, U_b, W_L, S_a, S_b in float64."""
        return self.anatomy.collapsed

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the model's file, or of the file that `save` would write."""
        return self.file_sha256 or sha256(self.model)

    @cached_property
    def evaluation(self) -> Evaluation:
        """Answers over all inputs."""
        self._check_size("looks at all inputs")
        return evaluate(self.anatomy.layer)

    @cached_property
    def margins(self) -> Float[np.ndarray, "p p"]:
        """Right logit minus the largest other, for every (a, b)."""
        self._check_size("looks at all inputs")
        return margins(self.anatomy.layer)

    def logits(self, a: int) -> Float[np.ndarray, "p p"]:
        """Logits in float64 of one a and all b, [b, c]; for every model.

        >>> import quadlens
        >>> study = quadlens.study("pizza")
        >>> study.logits(12)[30].argmax()  # 12 + 30
        np.int64(42)
        """
        return self.anatomy.layer.logits(self._element(a))

    def preactivations(self, a: int) -> Float[np.ndarray, "p d_mlp"]:
        """What every neuron of the last hidden layer reads in float64, before σ, for one a and all b, [b, neuron]."""
        return self.anatomy.layer.pre(self._element(a))

    def _element(self, a: int) -> int:
        check_argument("a", a, int)
        if not 0 <= a < self.p:
            raise BadConfig(f"a = {a}; expected an element, 0 … {self.p - 1}")
        return int(a)

    @cached_property
    def no_waves(self) -> str | None:
        """Why nothing can be said in terms of frequencies, as the end of a sentence; None where it can."""
        config = self.anatomy.config
        if config.task.cyclic is None:
            return f"no renaming of its elements turns {config.task.words} into addition, so it has no frequencies"
        if config.no_collapse is not None:
            return f"{config.no_collapse}, so that what reaches a neuron is not a part of a plus a part of b"
        return None

    @property
    def no_proofs(self) -> str | None:
        """Why nothing is proved, as the end of a sentence; None where something is."""
        return self._unprovable if self.with_proofs else "the proofs were left out"

    @cached_property
    def _unprovable(self) -> str | None:
        try:
            return None if self.proofs else "no strategy applies"
        except BadConfig as error:
            return str(error)

    @cached_property
    def skip_shares(self) -> Float[np.ndarray, "p p"] | None:
        """Variance over c of what the skip connection adds, over that of the logits.

        None where attention is gated, and where nothing goes past the neurons: an MLP has no skip connection,
        and an output bias is none.
        """
        layer = self.anatomy.layer
        return skip_shares(layer) if layer.is_additive and has_skip_connection(layer) else None

    @cached_property
    def irreps(self) -> Irreps | None:
        """The irreducible parts of the task's group; None for a cyclic one, which has frequencies, and for no group."""
        task = self.anatomy.config.task
        return find_irreps(task) if task.cyclic is None and task.is_group else None

    @property
    def sizes(self) -> dict[str, Any]:
        """Modulus and width, as reports have them in their manifest."""
        return {"p": self.p, "d_mlp": self.anatomy.config.d_mlp}

    @property
    def shown(self) -> dict[str, Any]:
        """What the JSON of a report says of the model."""
        return {"p": self.p, "key_frequencies": list(self.keys) if self.no_waves is None else None}

    @property
    def about(self) -> dict[str, Any]:
        """What the JSON of several commands says of a model."""
        return about(self.model, self.anatomy.layer)

    @property
    def axis(self) -> "Axis | None":
        """What is drawn of networks on sequences."""
        return None

    def evaluate(self) -> "Evaluation | SequenceEvaluation":
        """Accuracy, margins and loss: `evaluation`, or of a network on sequences a `SequenceEvaluation`."""
        return self.evaluation

    def explain(self, logits: bool = True, rng: np.random.Generator | None = None) -> Any:
        """`explanation`, or as much of it as is asked for; parameters as for `quadlens.explain`."""
        return self.explanation if logits and rng is None else explain(self.anatomy, logits, rng)

    @cached_property
    def explanation(self) -> Explanation:
        """Neurons and logits, or what can be said of the model."""
        return explain(self.anatomy)

    @property
    def outline(self) -> Explanation | None:
        """The explanation of a model without waves, which has an overview alone; None where it says more."""
        return None if self.no_waves is None else self.explanation

    @property
    def keys(self) -> tuple[int, ...]:
        """Key frequencies, in order; none for a model without frequencies."""
        return self.anatomy.key_frequencies if self.no_waves is None else ()

    @cached_property
    def strongest_keys(self) -> tuple[int, ...]:
        """The key frequencies whose clusters weigh most (Σ ρω), in order of k: those that pictures are drawn of."""
        clusters = self.explanation.clusters if self.keys else ()
        weights = {cluster.k: float((cluster.rho * cluster.omega).sum()) for cluster in clusters}
        return tuple(sorted(sorted(self.keys, key=lambda k: -weights.get(k, 0.0))[:MAX_FREQUENCIES]))

    @cached_property
    def bounds(self) -> Bounds | None:
        """The clusters as quadrature rules; None where the activation has none, or the model has no frequencies."""
        rules = self.no_waves is None and NONLINEARITIES[self.anatomy.config.activation].is_piecewise_linear
        return bounds(self.anatomy) if rules else None

    @cached_property
    def lens(self) -> Lens:
        """The hidden layer read as integrals."""
        with within_float64("the lens"):
            return lens(self.anatomy.layer, sum(tensor.size for tensor in self.model.tensors.values()))

    @cached_property
    def lens_if_any(self) -> Lens | None:
        """The same; None for a task that is not cyclic, a model with too many inputs, or numbers beyond float64."""
        return self.lens if self.no_lens is None else None

    @cached_property
    def no_lens(self) -> str | None:
        """Why there is no integral, as the end of a sentence; None where there is one."""
        try:
            return None if self.lens.clusters else "no neuron reads and writes the same frequency"
        except (BadConfig, BadWeights) as error:
            return str(error)

    @property
    def _key_rules(self) -> tuple[ClusterBounds, ...]:
        """Key frequencies that are quadrature rules, in order of k."""
        return tuple(rule for rule in self.bounds.bounded if rule.k in self.keys) if self.bounds else ()

    @cached_property
    def rules(self) -> RuleErrors | None:
        """Their worst errors; None where there is none."""
        return rule_errors(self._key_rules, self.anatomy.config.activation)

    @cached_property
    def integration(self) -> Integration:
        """Whether the hidden layer computes integrals: report, explorer and captions speak by it."""
        return Integration() if self.lens_if_any is None else self.lens_if_any.integration

    @cached_property
    def clusters(self) -> tuple[ClusterBounds, ...]:
        """Key frequencies that are quadrature rules, in order of k; the largest few where there are many."""
        largest = sorted(self._key_rules, key=lambda rule: -float((rule.scheme.rho * rule.scheme.omega).sum()))
        return tuple(sorted(largest[:MAX_FREQUENCIES], key=lambda rule: rule.k))

    @cached_property
    def prover(self) -> Prover:
        """What all proofs of this model share."""
        return Prover(self.anatomy, self.sha256)

    @cached_property
    def _proved(self) -> dict[tuple[str, bool], Certificate]:
        return {}

    def certify(self, strategy: str = "auto", checkable: bool = False) -> Certificate:
        """The proof by one strategy, made once; parameters and errors as for `quadlens.certify`."""
        if (strategy, checkable) in self._proved:
            return self._proved[strategy, checkable]
        certificate = self.prover.certify(strategy, checkable)
        if certificate.proof.reason != TIME_LIMIT:
            self._proved[strategy, checkable] = certificate
        return certificate

    @cached_property
    def proofs(self) -> tuple[Certificate, ...]:
        """One certificate per strategy, cheapest first; brute force only where no cheaper strategy is exact."""
        tried = strategies(self.anatomy.config, EXACT_LIMIT)
        certificates = [self.certify(name) for name in tried if name != "brute"]
        if "brute" in tried and not any(certificate.proof.exact for certificate in certificates):
            certificates.append(self.certify("brute"))
        return tuple(sorted(certificates, key=lambda certificate: certificate.total_flops))

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """The proofs that are part of the study, by the strategies that apply to the model."""
        return tuple(made for made in self.proofs if made.proof.applies) if self.no_proofs is None else ()

    @property
    def certificate(self) -> Certificate | None:
        """The one to show, by the rule of `best_certificate`."""
        return best_certificate(self.certificates)

    @cached_property
    def history(self) -> History | None:
        """How the model was trained; None where the run's files are not beside it."""
        if self.file is None:
            return None
        files = RunFiles(self.file)
        kept = files.history.exists() and files.spectrum.exists()
        return read_history(files.history, files.spectrum) if kept else None

    @cached_property
    def published(self) -> Published:
        """The paper's numbers."""
        return read_published()

    @cached_property
    def population(self) -> PopulationSummary:
        """Our own, over many models."""
        return read_population()

    def __getstate__(self) -> dict[str, object]:
        """For another process, such as one that draws: all that is computed but what proofs are made with."""
        return {name: value for name, value in vars(self).items() if name not in ("prover", "_proved")}

    def without_proofs(self) -> "Study":
        """The same study, what it has computed included, that leaves out proofs."""
        return self.given(with_proofs=False)

    def given(self, **values: object) -> "Study":
        """A copy, what has been computed included, in which some values are given instead of computed."""
        other = replace(self)
        vars(other).update({**vars(self), **values})
        return other

    def prepare(self, progress: Callable[[str], None] = lambda step: None, proofs: bool = True) -> "Study":
        """Compute all that pages and figures need, saying each step before it is taken; returns the study itself.

        Args:
            progress: Called with each step that has something left to compute.
            proofs: Also the proofs, if they are part of the study.

        Raises:
            BadConfig: for a model with too many logits to look at.
        """
        self._check_size("a report looks at all inputs")
        waves = self.no_waves is None
        steps: tuple[tuple[str, tuple[str, ...]], ...] = (
            ("answers", ("evaluation", "margins", "skip_shares", "history", "irreps")),
            ("neurons and logits", ("explanation",)),
            ("bounds", ("bounds", "clusters") if waves else ()),
            ("the lens", ("lens_if_any", "integration")),
            ("proofs", ("_unprovable", "proofs") if self.with_proofs and proofs else ()),
            ("the paper's numbers", ("published", "population")),
        )
        for step, names in steps:
            left = [name for name in names if name not in vars(self)]
            if left:
                progress(step)
            for name in left:
                getattr(self, name)
        return self

    def _check_size(self, what: str) -> None:
        p, d_mlp = self.anatomy.config.p, self.anatomy.config.d_mlp
        if float(p) ** 3 * d_mlp > MAX_OPERATIONS:
            raise BadConfig(
                f"{what}, and p = {p} with {d_mlp} neurons has too many; use explain without logits, and bounds"
            )

    def _facts(self) -> dict[str, object]:
        computed = [name for name in ("evaluation", "explanation", "bounds", "proofs") if name in vars(self)]
        return {"name": self.name, **self.model.config.brief, "computed": ", ".join(computed) or "nothing yet"}

    def _repr_html_(self) -> str:
        """What has been computed so far, for a notebook: showing a study computes nothing."""
        parts = [super()._repr_html_()]
        for name in ("evaluation", "explanation", "bounds"):
            if vars(self).get(name) is not None:
                parts.append(vars(self)[name]._repr_html_())
        if "proofs" in vars(self) and self.certificate is not None:
            parts.append(self.certificate._repr_html_())
        return "".join(parts)


def study_of(model: Any, name: str | None = None) -> Study:
    """A study of anything that stands for a model: a study, a model, an anatomy, a training result, a path, a name.

    What was read of TransformerLens' own object is printed: its default feed is nobody's word.

    Raises:
        WrongArgument: for anything else; the message says what to pass.
    """
    if isinstance(model, Study):
        return model
    if isinstance(model, str | Path):
        path = resolve(model)
        loaded, digest = load_with_sha256(path)
        return _study(Anatomy(loaded), name or path.name.removesuffix(SUFFIX), path, digest)
    if isinstance(model, Anatomy | Weights):
        return _study(model if isinstance(model, Anatomy) else Anatomy(model), name or IN_MEMORY)
    from quadlens.model.formats.memory import from_transformer, is_transformer_lens

    if is_transformer_lens(model):
        name, model = name or type(model).__name__, from_transformer(model)
        print(model.summary())
    if isinstance(getattr(model, "model", None), Weights):  # what import_file returns
        return _study(Anatomy(model.model), name or IN_MEMORY)
    if isinstance(getattr(model, "params", None), Weights):  # what training returns
        return _study(Anatomy(model.params), name or IN_MEMORY).given(history=model.history)
    raise WrongArgument(_what_to_pass(model))


def _study(anatomy: Anatomy, name: str, file: Path | None = None, file_sha256: str | None = None) -> Study:
    """The study of this kind of network."""
    from quadlens.studies.sequence_study import SequenceStudy

    of_config: dict[type, type[Study]] = {SequenceConfig: SequenceStudy}
    return of_config.get(type(anatomy.model.config), Study)(anatomy, name, file, file_sha256)


def _what_to_pass(model: object) -> str:
    """A sentence for somebody who passed something else."""
    kind = kind_of(model)
    expected = "expected a model, a study, a path to a quadlens file, or the name of a bundled model"
    if isinstance(model, dict):
        return (
            f"got a dict; {expected}: a state dict of TransformerLens goes with its config, as quadlens.study(state, "
            "config=…); any other to quadlens.from_state_dict(state, …)"
        )
    if hasattr(model, "state_dict"):
        return f"got {kind} with a state_dict; {expected}: quadlens.from_module(module, inputs=…) makes one"
    if isinstance(model, Tables):
        return f"got the collapsed model, which has no weights to prove anything about; {expected}"
    return f"got {kind}; {expected}"
