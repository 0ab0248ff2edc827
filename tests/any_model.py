"""Draw random models of every family that the package reads.

Models differ in architecture, task, activation, attention and the size of their weights.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from quadlens.network.activation import ACTIVATIONS, parse_activation
from quadlens.network.config import Config, Softmax
from quadlens.network.groups import group_table
from quadlens.network.task import Task, task_by_name, task_from_table
from quadlens.network.weights import Weights

GROUPS = ("C4", "C7", "D3", "S3", "D4", "A4", "C2xC2", "C2xC3", "C3xC3", "C2xD3")
PRIMES = (3, 5, 7, 11, 13, 29, 47, 59, 71, 83, 97, 113)
LARGER_GROUPS = ("D12", "A4xC2", "S4", "C5xC5", "D20", "A5", "D59", "S5")
# Makes one weight of the shape given.
Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def any_task(rng: np.random.Generator, largest: int = 15, smallest: int = 2) -> Task:
    """Draw a task of any kind.

    A task is a formula with an odd, even or composite n, a group, or a table with or without a
    group.
    """
    n = int(rng.integers(smallest, largest + 1))
    units = [u for u in range(1, n) if np.gcd(u, n) == 1]
    prime = int(rng.choice([p for p in PRIMES if smallest <= p <= largest]))
    groups = GROUPS if smallest == 2 else LARGER_GROUPS
    elements = np.arange(n)
    makers: list[Callable[[], Task]] = [
        lambda: task_by_name("add", n),
        lambda: task_by_name("add", n | 1),
        lambda: task_by_name("subtract", n),
        lambda: task_by_name(f"linear:{rng.choice(units)},{rng.choice(units)}", n),
        lambda: task_by_name(str(rng.choice(["multiply", "divide"])), prime - 1),
        lambda: task_by_name("multiply0", prime),
        lambda: task_by_name(str(rng.choice(groups))),
        lambda: _renamed("D3", rng),
        # Addition under other numbers, which only a search finds; and any table, which is no group.
        lambda: task_from_table(
            rng.permutation(n)[np.add.outer(rng.permutation(n), rng.permutation(n)) % n]
        ),
        lambda: task_from_table(rng.integers(0, n, (n, n))),
        lambda: task_from_table(np.maximum.outer(elements, elements)),
    ]
    return makers[int(rng.integers(len(makers)))]()


def _renamed(name: str, rng: np.random.Generator) -> Task:
    """A group with its elements in another order."""
    table = group_table(name)
    new = rng.permutation(len(table))
    answers = np.empty_like(table)
    answers[np.ix_(new, new)] = new[table]
    return task_from_table(answers, name)


def any_model(
    rng: np.random.Generator, draw: Draw, largest: int = 15, smallest: int = 2
) -> Weights:
    """Draw a model of any family.

    Its n is from `smallest` to `largest`, or that of a group; `draw` makes each weight.
    """
    task, d, dtype = (
        any_task(rng, largest, smallest),
        int(rng.integers(1, 13)),
        str(rng.choice(["float32", "float64"])),
    )
    activation, p = parse_activation(str(rng.choice(ACTIVATIONS))), task.n

    def weights(shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
        largest = np.finfo(dtype).max
        return {
            name: np.clip(draw(rng, shape), -largest, largest).astype(dtype)
            for name, shape in shapes.items()
        }

    if rng.random() < 0.4:
        mlp = Config.mlp(p, d, activation, task, bias=bool(rng.random() < 0.5))
        return Weights(mlp, **weights(mlp.shapes))
    positions, offset, heads = (
        int(rng.integers(2, 4)),
        int(rng.choice([0, p])),
        int(rng.integers(1, 4)),
    )
    softmax, attention = None, rng.uniform(-1, 1, positions)
    if rng.random() < 0.5:
        scale = float(rng.choice([1.0, 0.5, -0.7]))
        softmax = Softmax(scale, float(rng.choice([1.0, 2.0**0.5])), bool(rng.random() < 0.5))
        attention = attention if rng.random() < 0.5 else np.zeros(positions)
    config = Config(
        p=p,
        d_model=int(rng.integers(1, 8)),
        d_mlp=d,
        n_heads=heads,
        d_head=int(rng.integers(1, 4)),
        d_vocab=p + offset + positions - 2 + int(rng.integers(0, 3)),
        d_vocab_out=p + int(rng.integers(0, 3)),
        n_ctx=positions + int(rng.integers(0, 2)),
        attention=tuple(attention.tolist()),
        read_position=int(rng.integers(0, positions)),
        activation=activation,
        b_token_offset=offset,
        softmax=softmax,
        task=task,
    )
    return Weights(config=config, **weights(config.shapes))


def usual_weights(scale: float = 1.0) -> Draw:
    """Weights of an ordinary size."""
    return lambda rng, shape: scale * rng.standard_normal(shape)


def extreme_weights(rng: np.random.Generator) -> Draw:
    """Return what draws the weights of one model, from denormal to overflow.

    All tensors have one size or each has its own; some tensors are degenerate.
    """
    kind = str(
        rng.choice(["usual", "one size", "own sizes", "every size", "degenerate", "some huge"])
    )
    size = float(rng.uniform(-323, 308))

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        normal, none = rng.standard_normal(shape), np.zeros(shape)
        with np.errstate(over="ignore", under="ignore"):
            if kind == "one size":
                return np.nan_to_num(normal * 10.0**size)
            if kind == "own sizes":
                return np.nan_to_num(
                    normal * 10.0 ** float(rng.choice([size / 4, rng.uniform(-323, 308)]))
                )
            if kind == "every size":
                return np.nan_to_num(normal * 10.0 ** rng.uniform(-323, 308, shape))
            if kind == "some huge":
                return np.nan_to_num(
                    np.where(
                        rng.random(shape) < 0.1, normal * 10.0 ** min(abs(size), 308.0), normal
                    )
                )
            if kind == "degenerate":
                return (none, none + 1.0, np.rint(normal), none + 10.0 ** (size / 3))[
                    int(rng.integers(4))
                ]
        return normal

    return draw


def extreme_model(rng: np.random.Generator) -> Weights:
    """Draw a small model beyond what training leaves.

    Its softmax is multiplied by 10^-8 to 10^9, or divided by next to nothing. Its values and
    pre-activations have any size up to 10^18. Some models have weights from denormal to overflow.
    """
    draw = (
        usual_weights(float(rng.choice([0.1, 1.0, 10.0, 1e3])))
        if rng.random() < 0.7
        else extreme_weights(rng)
    )
    model = any_model(rng, draw, largest=7)
    config, tensors = model.config, dict(model.tensors)
    if config.softmax is not None:
        divisor = 10.0 ** rng.uniform(-19, 3) if rng.random() < 0.3 else config.softmax.divisor
        scale = float(rng.choice([-1, 1])) * 10.0 ** rng.uniform(-8, 9)
        config = replace(config, softmax=replace(config.softmax, scale=scale, divisor=divisor))
    resized = (
        {"W_in", "W_a", "W_b"}
        if rng.random() < 0.4
        else {"W_V", "b_V"}
        if rng.random() < 0.3
        else set()
    )
    factor = 10.0 ** rng.uniform(-20, 18)
    with np.errstate(over="ignore", under="ignore"):
        tensors |= {
            name: np.nan_to_num(tensors[name] * factor) for name in resized & tensors.keys()
        }
    return type(model)(config, **tensors)


def network(rng: np.random.Generator, largest: int = 6, smallest: int = 2) -> Weights:
    """Draw a model of any kind.

    Half of the models have their own answers for their task, so that every input is to be proved.
    """
    kind = str(rng.choice(["usual", "usual", "integers"]))
    draw = usual_weights(float(rng.choice([0.3, 1.0, 3.0])))
    if kind == "integers":
        size = int(rng.integers(1, 3))
        draw = lambda rng, shape: rng.integers(-size, size + 1, shape).astype(float)  # noqa: E731
    model = any_model(rng, draw, largest, smallest)
    return own_answers(model) if rng.random() < 0.5 else model


def own_answers(model: Weights) -> Weights:
    """The model with its own answers for its task."""
    n = model.config.p
    pairs = np.stack(np.meshgrid(np.arange(n), np.arange(n), indexing="ij"), axis=2).reshape(-1, 2)
    own = task_from_table(model.forward(pairs)[:, :n].argmax(axis=1).reshape(n, n))
    return model.asked(own)


# For hypothesis, which then shows the model's number when a test fails.
networks = st.integers(0, 2**32 - 1).map(lambda seed: network(np.random.default_rng(seed)))
