"""How a network learned: a row for every snapshot, also of other checkpoints.

Restricted and excluded loss are Nanda et al.'s (arXiv 2301.05217), with the key frequencies of the
last snapshot. With L(a, b, c) the logits, the waves of frequency k are the components of L along
cos(kw(a+b)) and sin(kw(a+b)). Restricted loss keeps the mean over all inputs and the waves of key
frequencies, on all inputs; excluded loss takes those waves away from L, on the training pairs.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int

from quadlens.analysis.explanation.of_study import outline_of
from quadlens.analysis.infinite_width.inputs import inputs_of
from quadlens.analysis.infinite_width.parts import lens_parts
from quadlens.analysis.quadrature.of_study import bounds_if_any
from quadlens.analysis.spectrum.fourier import sequences_of, waves_of
from quadlens.analysis.spectrum.of_study import keys_of, layer_of, no_waves, study_anatomy
from quadlens.base.arguments import checked
from quadlens.base.display import Displayed, short
from quadlens.base.door import DOOR
from quadlens.base.errors import BadConfig, BadFile, BadWeights, within_float64
from quadlens.base.numbers import Direction, decimals, percent, significant
from quadlens.base.reading import read_limited
from quadlens.base.schema import from_json
from quadlens.base.table import Table
from quadlens.network.bundled import is_bundled, resolve
from quadlens.network.evaluate import all_pairs
from quadlens.network.margins import cross_entropy, leads
from quadlens.network.native import load_file
from quadlens.network.study import Study, study_of
from quadlens.network.tables import FloatTables
from quadlens.network.weights import Weights
from quadlens.proofs.pairs.brute import brute_force_cost
from quadlens.proofs.pairs.low_rank import LowRank, arcs_spectrum, low_rank
from quadlens.proofs.pairs.moments import SMALLEST_CAP, MomentsStrategy
from quadlens.proofs.pairs.of_study import made_proofs
from quadlens.proofs.pairs.proof import attempt
from quadlens.training.machines import start_of
from quadlens.training.outputs import MAX_MANIFEST_BYTES, RunFiles, TrainingManifest

if TYPE_CHECKING:
    import polars
    from rich.console import Console

CHECKPOINTS = (".pth", ".pt", ".safetensors")
# A run in one file (`played_run.py`), where its snapshots are not at hand.
PLAYED = ".run"


class NoSnapshots(BadFile):
    """A model without the snapshots of its training.

    Attributes:
        command: What trained it, None where that is not known.
    """

    command: str | None = None


@short
@dataclass(frozen=True)
class Snapshot:
    """What one snapshot says.

    None stands where a number has no meaning for the model, or was not asked for.

    Attributes:
        epoch: Steps taken before, or what the file's name says.
        train_loss: Mean cross-entropy over the training pairs; over all pairs where the split is
            not known.
        test_loss: Over the others.
        accuracy: Share of all inputs that are answered right.
        restricted_loss: With nothing but the mean and the waves of key frequencies, all inputs.
        excluded_loss: Without the waves of key frequencies, training pairs.
        frequencies: Size of the wave of each key frequency in the logits: its amplitude, root mean
            square over c.
        clusters: How many key frequencies it has then.
        clustered: Share of the neurons that read and write one of the last snapshot's key
            frequencies.
        lens_r2: The lens's `shared`: how much of the logits the integrals of the shared functions
            are.
        symmetric_part: The lens's: how much of the logits every neuron keeps when it is spread over
            its rotations.
        exact_error: The largest exact error of the clusters of the last snapshot's key frequencies,
            as quadrature rules, over the integral's mean size; None where one of them has fewer
            than two neurons.
        min_margin: Smallest margin.
        certified_share: Share of the inputs whose answer `moments` proves.
        rank: m of that proof; None where it proves nothing.
        operations: What it costs, the collapse included; None where it proves nothing.
        cost_share: The same over brute force.
    """

    epoch: int
    train_loss: float
    test_loss: float | None
    accuracy: float
    restricted_loss: float | None
    excluded_loss: float | None
    frequencies: tuple[float, ...]
    clusters: int | None
    clustered: float | None
    lens_r2: float | None
    symmetric_part: float | None
    exact_error: float | None
    min_margin: float
    certified_share: float | None
    rank: int | None
    operations: int | None
    cost_share: float | None


@dataclass(frozen=True, eq=False, repr=False)
class RunHistory(Displayed):
    """All snapshots of a run.

    Attributes:
        name: The model's or directory's name.
        keys: The key frequencies of the last snapshot, in the order of `Snapshot.frequencies`; none
            without any.
        snapshots: In order of epochs.
    """

    name: str
    keys: tuple[int, ...]
    snapshots: tuple[Snapshot, ...]

    def _facts(self) -> dict[str, object]:
        return {"name": self.name, "snapshots": len(self.snapshots), "keys": self.keys}

    def to_dict(self) -> dict[str, Any]:
        """The JSON view."""
        names = [str(k) for k in self.keys]
        rows = [
            {**vars(row), "frequencies": dict(zip(names, row.frequencies, strict=True))}
            for row in self.snapshots
        ]
        return {"name": self.name, "key_frequencies": list(self.keys), "snapshots": rows}

    def frame(self) -> "polars.DataFrame":
        """One row per snapshot, and a column `frequency_K` per key frequency."""
        import polars as pl

        plain = [field.name for field in fields(Snapshot) if field.name != "frequencies"]
        columns = {name: [getattr(x, name) for x in self.snapshots] for name in plain}
        columns |= {
            f"frequency_{k}": [x.frequencies[i] for x in self.snapshots]
            for i, k in enumerate(self.keys)
        }
        return pl.DataFrame(columns)

    def table(self) -> Table:
        """The rows for a reader."""
        header = ("epoch", "train", "held out", "right", "restricted", "excluded",
                  *(f"wave {k}" for k in self.keys), "clusters", "neurons", "lens R²", "quadrature",
                  "margin", "proved", "m", "cost")  # fmt: skip
        rows = [
            (str(x.epoch), _short(x.train_loss), _short(x.test_loss), percent(x.accuracy),
             _short(x.restricted_loss), _short(x.excluded_loss),
             *(_short(size) for size in x.frequencies),
             _whole(x.clusters), _share(x.clustered), decimals(x.lens_r2), _short(x.exact_error),
             _short(x.min_margin), _share(x.certified_share, "down"), _whole(x.rank),
             _share(x.cost_share, "up"))
            for x in self.snapshots
        ]  # fmt: skip
        return Table(f"{self.name}: {len(rows)} snapshots", header, rows, labels=1, left=())

    def render(self, console: "Console") -> None:
        """Print the table."""
        self.table().print(console)


def _short(value: float | None) -> str:
    return significant(value, digits=3)


def _share(value: float | None, towards: Direction = "nearest") -> str:
    return "–" if value is None else percent(value, 1, towards)


def _whole(value: int | None) -> str:
    return "–" if value is None else str(value)


@checked
def history(
    run: str | Path,
    *,
    activation: str | None = None,
    proofs: bool = True,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> RunHistory:
    """Say of every snapshot of a run losses, frequencies, lens, margin and proof.

    Args:
        run: A model's file with its snapshots beside it (`quadlens train --snapshots`), the
            directory of snapshots, or a directory of checkpoints whose names have a number, in any
            format that `quadlens import` reads. Where NAME.run is beside the model instead, as for
            the bundled `pizza`, its rows.
        activation: σ of other people's checkpoints, where the files do not say it.
        proofs: Also prove what can be proved at every snapshot, which takes most of the time.
        progress: Called before each snapshot with how many are done and how many there are.

    >>> import quadlens
    >>> quadlens.history("pizza")
    RunHistory(name=pizza, snapshots=60, keys=(5, 9, 11))
    """
    path = resolve(run) if is_bundled(run) else Path(run)
    if (
        not path.is_dir()
        and not RunFiles(path).snapshots.is_dir()
        and path.with_suffix(PLAYED).is_file()
    ):
        from quadlens.training.played_run import read_run

        return read_run(path.with_suffix(PLAYED)).history
    files = files_of(path)
    last = model_in(files[-1][1], activation)
    last.config.need_pairs(
        "these are snapshots of a network on sequences; expected one that answers pairs"
    )
    train, keys = _training_pairs(path, last.config.p), _keys(study_of(last))
    snapshots = []
    for done, (epoch, file) in enumerate(files):
        progress(done, len(files))
        model = model_in(file, activation)
        if model.config.p != last.config.p:
            raise BadFile(
                f"{file} is a model of {model.config.p} elements, "
                f"and the last one has {last.config.p}; "
                "keep one run per directory"
            )
        snapshots.append(_snapshot(epoch, study_of(model), keys, train, proofs))
    return RunHistory(path.name.removesuffix(".safetensors"), keys, tuple(snapshots))


def files_of(path: Path) -> list[tuple[int, Path]]:
    """List epochs and their files: snapshots, or checkpoints.

    A checkpoint's epoch is the last number in its name.
    """
    directory = path if path.is_dir() else RunFiles(path).snapshots
    if not directory.is_dir():
        manifest = _manifest(path)
        error = NoSnapshots(
            f"{directory}: no such directory; snapshots are kept while a model is trained"
        )
        error.command = None if manifest is None else manifest.command
        raise error
    files = [file for file in directory.iterdir() if file.suffix in CHECKPOINTS]
    numbered = [
        (int(numbers[-1]), file) for file in files if (numbers := re.findall(r"\d+", file.stem))
    ]
    if not numbered:
        raise BadFile(f"{directory} holds no checkpoint with a number in its name")
    epochs = [epoch for epoch, _ in numbered]
    if len(set(epochs)) < len(epochs):
        raise BadFile(
            f"{directory} holds two checkpoints with the same number; keep one run per directory"
        )
    return sorted(numbered)


def model_in(file: Path, activation: str | None = None) -> Weights:
    """The model of one snapshot."""
    if file.suffix == ".safetensors":
        return load_file(file)
    model: Weights = DOOR.read(file, activation)
    return model


def _training_pairs(path: Path, p: int) -> Int[np.ndarray, "n 2"] | None:
    """Find the pairs a run was trained on; None where its manifest is missing."""
    model = (
        path.with_name(path.name.removesuffix(".snapshots") + ".safetensors")
        if path.is_dir()
        else path
    )
    manifest = _manifest(model)
    if manifest is None:
        return None
    if manifest.config.p != p:
        raise BadFile(
            f"{RunFiles(model).manifest} is of a run with p = {manifest.config.p}, "
            "but the snapshots beside it have "
            f"p = {p}; keep one run per directory"
        )
    return start_of(manifest.config).train


def _manifest(model: Path) -> TrainingManifest | None:
    """What the run that trained this model says of itself; None where that is not beside it."""
    file = RunFiles(model).manifest
    if not file.is_file():
        return None
    return from_json(TrainingManifest, read_limited(file, MAX_MANIFEST_BYTES), str(file))


def _keys(study: Study) -> tuple[int, ...]:
    outline = study.once(outline_of)
    return study.once(keys_of) if outline is None else outline.key_frequencies or ()


def _snapshot(
    epoch: int,
    study: Study,
    keys: tuple[int, ...],
    train: Int[np.ndarray, "m 2"] | None,
    proofs: bool,
) -> Snapshot:
    layer, n, cyclic = layer_of(study), study.p, study.config.task.cyclic
    logits = np.stack([layer.logits(a) for a in range(n)])
    right = study.config.task.answers
    losses, (margins, _) = cross_entropy(logits, right), leads(logits, right)
    trained = np.zeros((n, n), dtype=bool)
    a, b = (all_pairs(n) if train is None else train).T
    trained[a, b] = True
    restricted = excluded = None
    sizes: tuple[float, ...] = ()
    if keys and cyclic is not None:
        ordered = np.ix_(np.argsort(cyclic.of_a), np.argsort(cyclic.of_b))
        by_sum = logits[ordered]
        waves = key_waves(by_sum, keys)
        sizes = tuple(float(np.sqrt(2 * np.square(wave).mean())) for wave in waves)
        sums = np.add.outer(np.arange(n), np.arange(n)) % n
        all_waves, answers = waves.sum(axis=0)[sums], right[ordered]
        restricted = float(cross_entropy(by_sum.mean(axis=(0, 1)) + all_waves, answers).mean())
        excluded = float(cross_entropy(by_sum - all_waves, answers)[trained[ordered]].mean())
    proof = _proof(study) if proofs else None
    lens_r2, symmetric_part = _lens_r2(study)
    bounds = study.once(bounds_if_any)
    bounded = () if bounds is None else bounds.bounded
    errors = {rule.k: rule.relative_exact_psi.upper for rule in bounded if rule.k in keys}
    return Snapshot(
        epoch=epoch,
        train_loss=float(losses[trained].mean()),
        test_loss=float(losses[~trained].mean()) if not trained.all() else None,
        accuracy=float((margins > 0).mean()),
        restricted_loss=restricted,
        excluded_loss=excluded,
        frequencies=sizes,
        clusters=None if cyclic is None else len(_keys(study)),
        clustered=_clustered(study, keys),
        lens_r2=lens_r2,
        symmetric_part=symmetric_part,
        exact_error=max(errors.values()) if keys and len(errors) == len(keys) else None,
        min_margin=float(margins.min()),
        **(proof or dict.fromkeys(("certified_share", "rank", "operations", "cost_share"))),
    )


def _clustered(study: Study, keys: tuple[int, ...]) -> float | None:
    """Share of the neurons in clusters of these frequencies; None where neurons have none."""
    if study.once(no_waves) is not None:
        return None
    clusters = study.once(study_anatomy).clusters
    return (
        sum(len(cluster.neurons) for cluster in clusters if cluster.k in keys) / study.config.d_mlp
    )


def _lens_r2(study: Study) -> tuple[float | None, float | None]:
    """R² of the shared integrals and of the symmetric part, without the rest of the lens."""
    try:
        with within_float64("the lens"):
            parts = lens_parts(inputs_of(layer_of(study)))
            return (
                (parts.r2(parts.shared), parts.r2(parts.integral))
                if parts.readings
                else (None, None)
            )
    except (BadConfig, BadWeights):
        return None, None


def key_waves(
    logits: Float[np.ndarray, "n n c"], keys: tuple[int, ...]
) -> Float[np.ndarray, "k n c"]:
    """Split L into its components along cos(kw(a+b)) and sin(kw(a+b)).

    They are functions of a + b and c, one per key frequency.
    """
    n, a = len(logits), np.arange(len(logits))
    of_sum = np.stack([logits[a, (s - a) % n].mean(axis=0) for s in range(n)])
    spectrum = waves_of(of_sum)
    waves = []
    for k in keys:
        alone = np.zeros_like(spectrum)
        alone[k] = spectrum[k]
        waves.append(sequences_of(alone, n))
    return np.stack(waves)


def _proof(study: Study) -> dict[str, Any] | None:
    """What `moments` proves; None where it does not apply."""
    if study.config.no_tables is not None:
        return None
    nothing = {"certified_share": 0.0, "rank": None, "operations": None, "cost_share": None}
    if _hopeless(layer_of(study)):
        return nothing
    proof = attempt(MomentsStrategy(), study.once(study_anatomy))
    if not proof.certified.any():
        return nothing
    basis = None if proof.hints is None else proof.hints.to_json().get("basis")
    collapse = study.once(made_proofs).prover.collapse_flops
    operations = proof.operations + (0 if proof.own_collapse else collapse)
    return {
        "certified_share": float(proof.certified.mean()),
        "rank": None if basis is None else len(basis),
        "operations": operations,
        "cost_share": operations / (brute_force_cost(study.config) + collapse),
    }


def _hopeless(layer: FloatTables) -> bool:
    """Whether `moments` cannot prove an input of a ReLU model, judged in float64.

    This is so if even the largest rank that it would try proves none.

    Most snapshots of a young network are like that, and exact integers take seconds to say so.
    """
    if not (layer.is_additive and layer.activation == "relu"):
        return False
    try:
        spectrum = arcs_spectrum(layer)
        form = low_rank(spectrum, min(spectrum.vectors.shape[1], max(SMALLEST_CAP, layer.p // 4)))
    except (ValueError, np.linalg.LinAlgError):
        return False  # left to the proof itself, which says why
    return not covered(layer, form).any()


def covered(layer: FloatTables, form: LowRank) -> Bool[np.ndarray, "p p"]:
    """Find inputs of a ReLU model that the theorem of `moments` covers with a form.

    This is float64, no proof.
    """
    W = np.ldexp(form.basis.T.astype(float) @ form.coefficients, -form.shift)
    spread = np.ptp(layer.W_L - W, axis=0)
    hidden = [np.maximum(layer.pre(a), 0) for a in range(layer.p)]
    scores = np.stack([row @ W.T + layer.skip(a) for a, row in enumerate(hidden)])
    return np.asarray(
        leads(scores, layer.task.answers)[0] > np.stack([row @ spread for row in hidden])
    )
