"""Small models of every kind: any task, attention and activation; from random ones to ones that answer right."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from quadlens.model.activation import ACTIVATIONS
from quadlens.model.config import Config, MLPConfig, Softmax
from quadlens.model.params import MLPParams, Model, Params
from quadlens.model.task import Task, task_by_name, task_from_table
from strategies import seeds

TASKS = (
    "add:2",
    "add:4",
    "add:5",
    "subtract:5",
    "linear:2,3:5",
    "multiply:4",
    "divide:4",
    "multiply0:3",
    "S3",
    "C2xC2",
)


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    """A named one, or the model's own answers, which a table stands for here until `any_models` fills it in."""
    name, _, n = draw(st.sampled_from(TASKS)).rpartition(":")
    return task_by_name(name, int(n)) if name else task_by_name(n)


@st.composite
def any_models(draw: st.DrawFn) -> Model:
    """Gaussian weights; half of the models are asked for what they answer themselves, so that all is to be proved."""
    task, activation, rng = draw(tasks()), draw(st.sampled_from(ACTIVATIONS)), np.random.default_rng(draw(seeds))
    n, size = task.n, draw(st.sampled_from([0.3, 1.0, 3.0]))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    kind = draw(st.sampled_from(["mlp", "constant", "softmax", "softmax", "mixture"]))
    model: Model
    if kind == "mlp":
        mlp = MLPConfig(n, draw(st.integers(1, 8)), activation, task)
        model = MLPParams(mlp, **_gaussian(rng, MLPParams.shapes(mlp), size, dtype))
    else:
        config = _transformer(draw, task, kind)
        config = replace(config, activation=activation)
        model = Params(config, **_gaussian(rng, Params.shapes(config), size, dtype))
    if draw(st.booleans()):
        pairs = np.stack(np.meshgrid(np.arange(n), np.arange(n), indexing="ij"), axis=2).reshape(-1, 2)
        own = task_from_table(model.forward(pairs).argmax(axis=1).reshape(n, n))
        if isinstance(model, MLPParams):
            return replace(model, config=replace(model.config, task=own))
        assert isinstance(model, Params)
        return replace(model, config=replace(model.config, task=own))
    return model


def _transformer(draw: st.DrawFn, task: Task, kind: str) -> Config:
    n, equals, offset = task.n, draw(st.booleans()), draw(st.sampled_from([0, task.n]))
    positions = 3 if equals else 2
    constant = tuple(draw(st.sampled_from([0.0, 0.25, 1 / 3])) for _ in range(positions))
    softmax = Softmax(draw(st.sampled_from([1.0, 0.7])), draw(st.sampled_from([1.0, 1.4142135])), draw(st.booleans()))
    return Config(
        p=n,
        d_model=draw(st.integers(1, 3)),
        d_mlp=draw(st.integers(1, 6)),
        n_heads=draw(st.integers(1, 2)),
        d_head=draw(st.integers(1, 2)),
        d_vocab=n + offset + 1,
        d_vocab_out=n,
        n_ctx=3,
        attention=(0.0,) * positions if kind == "softmax" else constant,
        read_position=draw(st.integers(0, positions - 1)),
        b_token_offset=offset,
        softmax=None if kind == "constant" else softmax,
        task=task,
    )


def _gaussian(
    rng: np.random.Generator, shapes: dict[str, tuple[int, ...]], size: float, dtype: type
) -> dict[str, np.ndarray]:
    return {name: (size * rng.standard_normal(shape)).astype(dtype) for name, shape in shapes.items()}
