"""The verbs of the package: plain functions that take a model, a study, a path or the name of a bundled model.

Each is one call into the package that does the work, imported when it is first needed.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from quadlens.arguments import checked

if TYPE_CHECKING:
    import numpy as np

    from quadlens.explanation import Explanation
    from quadlens.infinite_width import Lens
    from quadlens.long_work import Progress
    from quadlens.model import Tables, Weights
    from quadlens.model.evaluate import Evaluation
    from quadlens.model.formats import Imported
    from quadlens.model.formats.memory import TransformerLensObject
    from quadlens.model.task import TaskLike
    from quadlens.parameterisation import Parameterised
    from quadlens.proofs import Certificate
    from quadlens.quadrature import Bounds
    from quadlens.sequences.certificate import SequenceCertificate
    from quadlens.sequences.evaluate import SequenceEvaluation
    from quadlens.sequences.explain import SequenceExplanation
    from quadlens.spectrum import Anatomy
    from quadlens.studies import Study
    from quadlens.training.config import TrainConfig
    from quadlens.training.engine import StepMeasures
    from quadlens.training.train import TrainingResult
    from quadlens_checker import CheckReport

    ModelLike = (
        Weights | Study | Anatomy | Imported | Parameterised | TrainingResult | TransformerLensObject | str | Path
    )


@checked
def save(model: "ModelLike", path: str | Path) -> Path:
    """Write a model as a quadlens file (safetensors), whole or not at all; returns the path.

    >>> import quadlens, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     quadlens.load(quadlens.save("pizza", f"{directory}/copy.safetensors")).config.p
    59
    """
    from quadlens.model.native import save as save_model
    from quadlens.reading import keeping_inputs

    network = study(model)
    with keeping_inputs(network.file):
        save_model(network.model, Path(path))
    return Path(path)


@checked
def build(
    p: int = 59,
    keys: Sequence[int] | None = None,
    neurons: int = 512,
    *,
    jitter: float = 0.0,
    noise: float = 0.0,
    missing: float = 0.0,
    scale: float = 10.0,
    seed: int = 0,
    architecture: Literal["transformer", "mlp"] = "transformer",
) -> "Weights":
    """Write down a pizza model by hand, without training; the arguments are those of `Recipe`.

    >>> import quadlens
    >>> quadlens.evaluate(quadlens.build(p=13, keys=(2, 5), neurons=60)).correct
    169
    """
    from quadlens.errors import BadConfig
    from quadlens.model import Recipe, build_mlp, build_transformer
    from quadlens.model.handmade import default_keys

    builders: dict[str, Callable[[Recipe], Weights]] = {"transformer": build_transformer, "mlp": build_mlp}
    if architecture not in builders:
        raise BadConfig(f"architecture {architecture!r}; expected one of {', '.join(builders)}")
    chosen = default_keys(p) if keys is None else tuple(keys)
    return builders[architecture](Recipe(p, chosen, neurons, jitter, noise, missing, scale, seed))


@checked
def train(
    config: "TrainConfig | None" = None,
    *,
    preset: str = "paper",
    device: str = "auto",
    threads: int | None = None,
    on_step: "Callable[[int, StepMeasures], None] | None" = None,
    **settings: Any,
) -> "TrainingResult":
    """Train one model; needs the extra `train`.

    Args:
        config: All settings; or leave it out and give a preset and single settings by name (p=…, seed=…, epochs=…).
        preset: paper, original, text, eos, zhong, nanda, gromov, he, multiply, s5, adder or max.
        device: auto, cpu, cuda or mps.
        threads: CPU threads; all that help when None.
        on_step: Called after every step with its index and its losses, for a progress bar or a logger.
        settings: Fields of `TrainConfig` that differ from the preset.

    >>> import quadlens
    >>> result = quadlens.train(p=5, d_model=8, d_mlp=16, d_head=2, epochs=3, threads=1)
    >>> quadlens.evaluate(result).pairs
    25
    """
    from quadlens.errors import WrongArgument
    from quadlens.training.config import load_config
    from quadlens.training.train import Hooks
    from quadlens.training.train import train as run

    if config is not None and settings:
        raise WrongArgument(f"got a config and also {', '.join(settings)}; give one or the other")
    hooks = Hooks() if on_step is None else Hooks(on_step=lambda epoch, all_seeds: on_step(epoch, all_seeds[0]))
    return run(config or load_config(preset, flags=settings), device=device, threads=threads, hooks=hooks)


def import_file(
    path: str | Path,
    format: str = "auto",
    *,
    config: str | Path | None = None,
    attention: Sequence[float] | str | None = None,
    activation: str | None = None,
    p: int | None = None,
    task: "TaskLike | None" = None,
    answers: str | None = None,
    checkpoint: int | None = None,
    map: Mapping[str, str] | None = None,
) -> "Imported":
    """Read another project's checkpoint; nothing in it is executed and nothing about it is guessed.

    Args:
        path: A .pt, .pth, .npz or .safetensors file.
        format: Which project's, or auto to recognise it by its keys.
        config: Its config file; without one, `config_<id>.json` beside it is used when it is there.
        attention: The constant attention on each position, or "softmax" to compute it, where the file does not say.
        activation: The activation, where the file does not say.
        p: The modulus, where the file does not say.
        task: What the model was trained for, as "add" or "S5", or its table (rows, array, tensor), where the file does
            not say.
        answers: A file with the task's table (CSV, .npy), or "model" for the model's own answers.
        checkpoint: Which of several state dicts in one file, from 0.
        map: Which weight is which in an MLP with names of its own, as {"embed": "emb.weight", "hidden": "fc1", "out":
            "fc2"}; as in `from_module`.

    Returns:
        The model with notes on how each fact was settled, and how many inputs it answers right; every verb takes it.

    >>> import quadlens, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     files = quadlens.export_file("pizza", "transformer-lens", f"{directory}/model.safetensors")
    ...     imported = quadlens.import_file(files[0])
    >>> quadlens.evaluate(imported).correct
    3481
    """
    from quadlens.errors import a_path
    from quadlens.model.formats import import_file as read
    from quadlens.model.formats.registry import hints_of

    known = {"activation": activation, "p": p, "task": task, "answers": answers, "checkpoint": checkpoint}
    hints = hints_of(attention, map=map, **known)
    return read(a_path(path), format, hints, None if config is None else a_path(config))


@checked
def export_file(model: "ModelLike", format: str, path: str | Path) -> tuple[Path, ...]:
    """Write a model as another program's file; returns the files written.

    >>> import quadlens, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     files = quadlens.export_file("pizza", "transformer-lens", f"{directory}/model.safetensors")
    >>> [file.name for file in files]
    ['model.safetensors', 'config_model.json']
    """
    from quadlens.model.formats import export_file as write

    network = study(model)
    return write(network.model, format, path, network.file)[0]


def study(
    model: "ModelLike" = "pizza",
    *,
    inputs: Sequence[str | int] | None = None,
    config: Any = None,
    p: int | None = None,
    task: "TaskLike | None" = None,
) -> "Study":
    """Everything about one model, each thing computed when it is first asked for, and only once.

    Pass it to the other verbs and to `quadlens.figures`: they share what is computed.

    Every verb also takes TransformerLens' own object, a `HookedTransformer` or a bridge. What was read is printed, how
    many inputs are answered right first, and has been compared with the object's own forward pass on every input.

    Args:
        model: A model, a study, a path, the name of a bundled model; TransformerLens' object, or a state dict of one.
        inputs: Which tokens TransformerLens' object is fed, as ("a", "b", 113); when None, a, b and the last token
            where there is one beyond the answers and a third position, else a and b.
        config: The config of a state dict, as a dictionary or as TransformerLens' own.
        p: How many elements a and b have, where they are fewer than the object's answers.
        task: What the object was trained for, as "add" or "S5", its table (rows, array, tensor), or a
            `quadlens.task(…)`; addition when None.

    >>> import quadlens
    >>> study = quadlens.study("pizza")
    >>> quadlens.explain(study) is quadlens.explain(study)
    True
    """
    from quadlens.errors import WrongArgument
    from quadlens.model.formats.memory import from_transformer, is_transformer_lens
    from quadlens.model.task import task_given
    from quadlens.studies import study_of

    task = task_given(task)
    if (is_transformer_lens(model) and (inputs, p, task) != (None, None, None)) or config is not None:
        imported = from_transformer(model, config, inputs=inputs, p=p, task=task)
        print(imported.summary())
        return study_of(imported, type(model).__name__ if config is None else None)
    if (inputs, p, task) != (None, None, None):
        raise WrongArgument("inputs, p and task are for TransformerLens' object, or a state dict with config=…")
    return study_of(model)


def from_module(
    module: Any,
    *,
    inputs: Literal["one-hot", "concat", "sum", "pair"] | None = None,
    map: Mapping[str, str] | None = None,
    activation: str | None = None,
    task: "TaskLike | None" = None,
) -> "Study":
    """A study of a plain PyTorch module that maps a and b to logits, by the modules it holds.

    It may be an `nn.Sequential` or any module of Embedding, Linear, an activation, LayerNorm, RMSNorm and Dropout (in
    evaluation), with as many hidden layers and biases as it likes. What was read is compared with `module(…)` on every
    input, and refused where they differ; how many inputs are answered right is printed first.

    Args:
        module: The module; it is not changed.
        inputs: How it is fed: `one-hot`, floats [n², 2n]; `concat` or `sum`, integers [n², 2] whose embeddings it
            joins or adds up; `pair`, two vectors of n² integers. `one-hot` when left out, if the first layer reads
            2n numbers for n answers.
        map: Which weight is which where the order of its parts does not say, as {"embed": "emb.weight", "hidden":
            "fc1", "out": "fc2"}; also `embed_b` of b's own embedding, `hidden2`, …, and `hidden_bias`, ….
        activation: Its name where the module holds none, as relu called in its code.
        task: What it was trained for, as "add" or "S5", its table (rows, array, tensor), or a `quadlens.task(…)`;
            addition when left out.

    Raises:
        QuadlensError: with what came, what was expected and what to do.
    """
    from quadlens.model.formats.modules import from_module as read
    from quadlens.studies import study_of

    imported = read(module, inputs=inputs, map=map, activation=activation, task=task)
    print(imported.summary())
    return study_of(imported, type(module).__name__)


@overload
def evaluate(model: "Tables[Any]") -> "Evaluation": ...
@overload
def evaluate(model: "ModelLike" = "pizza") -> "Evaluation | SequenceEvaluation": ...
def evaluate(model: "ModelLike | Tables[Any]" = "pizza") -> "Evaluation | SequenceEvaluation":
    """Accuracy, margins and loss over all inputs, in float64: an `Evaluation`.

    A network on sequences is tried on a sample, for a `SequenceEvaluation`.

    >>> import quadlens
    >>> quadlens.evaluate("pizza").correct
    3481
    """
    from quadlens.model.evaluate import evaluate as evaluate_collapsed
    from quadlens.model.tables import Tables

    if isinstance(model, Tables):
        return evaluate_collapsed(model)
    return study(model).evaluate()


@checked
def explain(
    model: "ModelLike" = "pizza", *, logits: bool = True, rng: "np.random.Generator | None" = None
) -> "Explanation | SequenceExplanation":
    """What every neuron does and what the logits are made of.

    A model whose attention depends on the tokens, or whose task has no frequencies, has an `overview` in place of
    `neurons` and `logits`: answers, attention, key frequencies or key irreps, rank of W_L. A network on sequences gets
    what each step reads, with which weight, and what the number that it reads means.

    Args:
        model: A model, a study, a path or the name of a bundled model.
        logits: Also look at all p³ logits.
        rng: Draws the triples of the gradient symmetricity; when None they are the 100 that Zhong et al. take.

    >>> import quadlens
    >>> quadlens.explain("pizza").key_frequencies
    (5, 9, 11)
    """
    explanation: Explanation | SequenceExplanation = study(model).explain(logits, rng)
    return explanation


@checked
def bounds(
    model: "ModelLike" = "pizza",
    moments: int | None = None,
    brute_force_limit: int | None = None,
    phases: str | None = None,
) -> "Bounds":
    """The error of each cluster as a quadrature rule: the paper's bounds, moment bounds and the exact value.

    Args:
        model: A model, a study, a path or the name of a bundled model.
        moments: How many moments the moment bounds use; 20 when None.
        brute_force_limit: Skip brute force for clusters with more than this many p · neurons; 10⁹ when None.
        phases: Of "all" that a neuron reads (when None), or of what "attention" alone brings, as the paper seems to.

    >>> import quadlens
    >>> [f"{cluster.relative_exact_psi.middle:.3f}" for cluster in quadlens.bounds("pizza").bounded]
    ['0.029', '0.041', '0.026']
    """
    from quadlens.quadrature import bounds as bound_anatomy

    network = study(model)
    chosen: dict[str, Any] = {"moments": moments, "brute_force_limit": brute_force_limit, "phases": phases}
    options = {name: value for name, value in chosen.items() if value is not None}
    if not options and network.bounds is not None:
        return network.bounds
    return bound_anatomy(network.anatomy, **options)


def lens(model: "ModelLike" = "pizza") -> "Lens":
    """The hidden layer read as integrals, one per frequency, in the limit of infinitely many neurons.

    Works for every activation, every attention, and every task that is addition under other names. Page `lens` of the
    documentation says what is measured.

    >>> import quadlens
    >>> quadlens.lens("pizza")
    Lens(n=59, relu, keys=[5, 9, 11], shared=0.9967, integrates=True, answers_right=100.0 %)
    """
    return study(model).lens


@checked
def parameterise(
    model: "ModelLike" = "pizza", *, constant: bool = True, double: bool = True, embedding: bool = True
) -> "Parameterised":
    """A network of few numbers, fitted to a trained one's weights: the explanation as a network for every verb.

    Each neuron has a frequency, an angle φ and two sizes ρ and ω; each frequency a function that its neurons share, and
    planes of the residual stream. Everything is least squares on the weights, and no logit is looked at
    (`quadlens.parameterisation` has the formulas). `numbers` counts all that the network is a function of.

    Args:
        model: A model of one layer with constant attention, a study, a path or the name of a bundled model.
        constant: Whether the neurons of a frequency share a constant.
        double: Whether they share a double wave.
        embedding: Whether a and b have amplitudes of their own.

    >>> import quadlens
    >>> small = quadlens.parameterise("pizza")
    >>> small
    Parameterised(keys=(5, 9, 11), numbers=8,210, of weights=180,411)
    >>> quadlens.evaluate(small).correct
    3481
    """
    from quadlens.parameterisation import parameterise as fit

    return fit(study(model).anatomy, constant, double, embedding)


@checked
def certify(
    model: "ModelLike" = "pizza",
    strategy: str = "auto",
    *,
    checkable: bool = False,
    time_limit: float | None = None,
    progress: "Progress | None" = None,
) -> "Certificate | SequenceCertificate":
    """Prove what can be proved about a model's answers, for every input at once: a `Certificate`.

    A network on sequences is decided over all words of its task, for a `SequenceCertificate`.

    Args:
        model: A model, a study, a path or the name of a bundled model.
        strategy: As in `quadlens certify --strategy`; auto is the cheapest that proves all it can.
        checkable: Only strategies whose proofs the checker can follow, for a certificate that is to be saved.
        time_limit: Seconds after which the certificate has what is proved so far, with the reason "time limit".
        progress: Called with a few words before each part of the work, as `print`.

    >>> import quadlens
    >>> quadlens.certify("pizza").verdict
    'CERTIFIED'
    """
    from quadlens.long_work import watched

    network = study(model)
    with watched(None if time_limit is None else float(time_limit), progress):
        return network.certify(strategy, checkable)


@checked
def check(
    certificate: "Certificate | SequenceCertificate | str | Path",
    model: "ModelLike",
    *,
    max_seconds: float = 600.0,
    proved: bool = False,
    progress: "Progress | None" = None,
) -> "CheckReport":
    """Prove a certificate again, from scratch, by a program that imports nothing of the one that wrote it.

    Args:
        certificate: What `certify` returned, or a file.
        model: The model it is about.
        max_seconds: Give up after this, with the verdict TIMEOUT.
        proved: By the checker that Coq proved sound, which `make proved` builds (page `trust` of the
            documentation).
        progress: Called about once a second with how long the check has taken, as `print`.

    >>> import quadlens
    >>> quadlens.check(quadlens.certify("pizza"), "pizza").verdict
    'VERIFIED'
    """
    import tempfile

    import quadlens_checker
    from quadlens.errors import WrongArgument, kind_of, refusals_of_a_check
    from quadlens.proofs import Certificate
    from quadlens.proved import check_proved
    from quadlens.sequences.certificate import SequenceCertificate

    if not isinstance(certificate, Certificate | SequenceCertificate | str | Path):
        raise WrongArgument(f"got {kind_of(certificate)}; expected a certificate of certify(), or its file")
    network = study(model)
    with tempfile.TemporaryDirectory() as directory:
        weights, proof = network.file, certificate
        if weights is None:
            weights = save(network, Path(directory) / "model.safetensors")
        if isinstance(proof, Certificate | SequenceCertificate):
            proof.save(Path(directory) / "certificate.json")
            proof = Path(directory) / "certificate.json"
        run = check_proved if proved else quadlens_checker.check
        with refusals_of_a_check(str(weights)):
            return run(str(proof), str(weights), max_seconds, progress=progress)


@checked
def explore(model: "ModelLike", output: str | Path, *, history: str | Path | bool = True) -> Path:
    """Write one offline page in which neurons can be dragged and everything follows; returns its path.

    Args:
        model: A model, a study, a path or the name of a bundled model.
        output: The page.
        history: The run to be played on it: a model's file with snapshots or NAME.run beside it. True is what lies
            beside `model`, if anything; False is a page without time.

    >>> import quadlens, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     quadlens.explore("pizza", f"{directory}/explorer.html").name
    'explorer.html'
    """
    from quadlens.explorer import build_page
    from quadlens.model.atomic import write_atomic
    from quadlens.reading import keeping_inputs
    from quadlens.studies.played_run import run_to_play

    network = study(model)
    with keeping_inputs(network.file):
        write_atomic(Path(output), build_page(network, network.name, run_to_play(network, history)).encode())
    return Path(output)
