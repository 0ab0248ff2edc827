"""Tasks as people have them: names, tables in every form, paths.

And modules whose feed is not told.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quadlens
from quadlens.base.errors import BadConfig, QuadlensError, WrongArgument

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

N = 5
TABLE = (2 * np.arange(N)[:, None] + np.arange(N)) % N


def module() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2 * N, 6), nn.ReLU(), nn.Linear(6, N))


def as_csv(directory: Path) -> Path:
    path = directory / "table.csv"
    path.write_text("\n".join(",".join(map(str, row)) for row in TABLE.tolist()))
    return path


FORMS: dict[str, Callable[[Path], Any]] = {
    "array": lambda directory: TABLE,
    "small integers": lambda directory: TABLE.astype(np.uint8),
    "lists": lambda directory: TABLE.tolist(),
    "tuples": lambda directory: tuple(map(tuple, TABLE.tolist())),
    "tensor": lambda directory: torch.from_numpy(TABLE),
    "path": as_csv,
    "task": lambda directory: quadlens.task(TABLE),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_table_in_every_form(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = FORMS[form](tmp_path)
    state = {"fc1.weight": np.ones((8, 2 * N)), "fc2.weight": np.ones((N, 8))}
    torch.save({name: torch.from_numpy(x) for name, x in state.items()}, tmp_path / "m.pt")
    ways: list[Callable[[], Any]] = [
        lambda: quadlens.from_module(module(), inputs="one-hot", task=given).model,
        lambda: quadlens.from_state_dict(state, activation="relu", task=given).model,
        lambda: quadlens.import_file(tmp_path / "m.pt", activation="relu", task=given).model,
    ]
    for way in ways:
        np.testing.assert_array_equal(way().config.task.answers, TABLE)


def test_a_transformer_takes_them_too() -> None:
    from readers.test_memory import StandIn

    table = np.zeros((7, 7), dtype=np.int64)
    for given in (table, table.tolist(), torch.from_numpy(table)):
        assert quadlens.study(StandIn(), task=given).config.task.name == "table"
    with pytest.raises(WrongArgument, match="inputs, p and task are for TransformerLens' object"):
        quadlens.study("pizza", task=table)


@pytest.mark.parametrize("given", [lambda a, b: a, 3, object(), [[0, 1], [1]]])
def test_what_is_no_task(given: Any) -> None:
    state = {"fc1.weight": np.ones((8, 2 * N)), "fc2.weight": np.ones((N, 8))}
    for way in (
        lambda: quadlens.from_module(module(), inputs="one-hot", task=given),
        lambda: quadlens.from_state_dict(state, activation="relu", task=given),
        lambda: quadlens.study("pizza", task=given),
    ):
        with pytest.raises(
            WrongArgument, match="expected a name, as 'add' or 'S5', a table of n rows"
        ):
            way()


def test_a_table_that_is_none() -> None:
    for given, words in (
        (TABLE + 1, r"^Sequential: the table has 5 at \[0, 3?4?\]|the table has 5 at"),
        (TABLE / 2, "a table of float64"),
        (TABLE[:2], r"a table of int64, \(2, 5\); expected n rows of n integers"),
    ):
        with pytest.raises(BadConfig, match=words):
            quadlens.from_module(module(), inputs="one-hot", task=given)


def test_a_module_whose_feed_is_not_told() -> None:
    """One-hot tokens where two of n are read for n answers; else the four ways are listed."""
    told = quadlens.from_module(module(), inputs="one-hot")
    assert quadlens.from_module(module()).logits(1).tolist() == told.logits(1).tolist()
    embedded = nn.Sequential(
        nn.Embedding(N, 4), nn.Flatten(), nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, N)
    )
    wide = nn.Sequential(nn.Linear(2 * N, 6), nn.ReLU(), nn.Linear(6, N + 1))
    for network in (embedded, wide):
        with pytest.raises(WrongArgument) as error:
            quadlens.from_module(network)
        for way in ("'one-hot'", "'concat'", "'sum'", "'pair'"):
            assert way in str(error.value)


def test_multiplication_with_zero_is_named() -> None:
    with pytest.raises(BadConfig, match="with 0 … 22 as elements it is multiply0"):
        quadlens.task("multiply", 23)
    with pytest.raises(BadConfig) as error:
        quadlens.task("multiply", 8)  # nor is 8 a prime
    assert "multiply0" not in str(error.value)


def test_words_about_tables_and_logits() -> None:
    with pytest.raises(BadConfig, match=r"^the table has 99 at \[0, 0\]; expected 0 … 4"):
        quadlens.task(np.full((5, 5), 99))
    one = nn.Sequential(nn.Linear(2 * N, 6), nn.ReLU(), nn.Linear(6, 1))
    with pytest.raises(
        QuadlensError, match=r"1 logit for n = 5 elements; expected at least 5, one for each answer"
    ):
        quadlens.from_module(one, inputs="one-hot")
