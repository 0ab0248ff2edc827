"""Other projects' networks for users: a file or a module in, a file out."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from quadlens.base.arguments import checked
from quadlens.base.errors import a_path
from quadlens.network.study import Study, study_of
from quadlens.readers.protocol import Imported
from quadlens.readers.registry import export_file as write
from quadlens.readers.registry import hints_of
from quadlens.readers.registry import import_file as read

if TYPE_CHECKING:
    from quadlens.network.named import ModelLike
    from quadlens.network.task import TaskLike


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
) -> Imported:
    """Read another project's checkpoint; nothing in it is executed and nothing about it is guessed.

    Args:
        path: A .pt, .pth, .npz or .safetensors file.
        format: Which project's, or auto to recognise it by its keys.
        config: Its config file; without one, `config_<id>.json` beside it is used when it is there.
        attention: The constant attention on each position, or "softmax" to compute it, where the
            file does not say.
        activation: The activation, where the file does not say.
        p: The modulus, where the file does not say.
        task: What the model was trained for, as "add" or "S5", or its table (rows, array, tensor),
            where the file does not say.
        answers: A file with the task's table (CSV, .npy), or "model" for the model's own answers.
        checkpoint: Which of several state dicts in one file, from 0.
        map: Which weight is which in an MLP with names of its own, as {"embed": "emb.weight",
            "hidden": "fc1", "out": "fc2"}; as in `from_module`.

    Returns:
        The model with notes on how each fact was settled, and how many inputs it answers right;
        every verb takes it.

    >>> import quadlens, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = f"{directory}/model.safetensors"
    ...     files = quadlens.export_file("pizza", "transformer-lens", path)
    ...     imported = quadlens.import_file(files[0])
    >>> quadlens.evaluate(imported).correct
    3481
    """
    known = {
        "activation": activation,
        "p": p,
        "task": task,
        "answers": answers,
        "checkpoint": checkpoint,
    }
    hints = hints_of(attention, map=map, **known)
    return read(a_path(path), format, hints, None if config is None else a_path(config))


@checked
def export_file(model: "ModelLike", format: str, path: str | Path) -> tuple[Path, ...]:
    """Write a model as another program's file; returns the files written.

    >>> import quadlens, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = f"{directory}/model.safetensors"
    ...     files = quadlens.export_file("pizza", "transformer-lens", path)
    >>> [file.name for file in files]
    ['model.safetensors', 'config_model.json']
    """
    network = study_of(model)
    return write(network.model, format, path, network.file)[0]


def from_module(
    module: Any,
    *,
    inputs: Literal["one-hot", "concat", "sum", "pair"] | None = None,
    map: Mapping[str, str] | None = None,
    activation: str | None = None,
    task: "TaskLike | None" = None,
) -> Study:
    """A study of a plain PyTorch module that maps a and b to logits, by the modules it holds.

    It may be an `nn.Sequential` or any module of Embedding, Linear, an activation, LayerNorm,
    RMSNorm and Dropout (in evaluation), with as many hidden layers and biases as it likes. What was
    read is compared with `module(…)` on every input, and refused where they differ; how many inputs
    are answered right is printed first.

    Args:
        module: The module; it is not changed.
        inputs: How it is fed: `one-hot`, floats [n², 2n]; `concat` or `sum`, integers [n², 2] whose
            embeddings it joins or adds up; `pair`, two vectors of n² integers. `one-hot` when left
            out, if the first layer reads 2n numbers for n answers.
        map: Which weight is which where the order of its parts does not say, as {"embed":
            "emb.weight", "hidden": "fc1", "out": "fc2"}; also `embed_b` of b's own embedding,
            `hidden2`, …, and `hidden_bias`, ….
        activation: Its name where the module holds none, as relu called in its code.
        task: What it was trained for, as "add" or "S5", its table (rows, array, tensor), or a
            `quadlens.task(…)`; addition when left out.

    Raises:
        QuadlensError: with what came, what was expected and what to do.
    """
    from quadlens.readers.modules import from_module as read_module

    imported = read_module(module, inputs=inputs, map=map, activation=activation, task=task)
    print(imported.summary())
    return study_of(imported, type(module).__name__)
