"""Tables for a terminal: every number whole at every width."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from cli_runner import quadlens
from quadlens.model import Recipe, build_mlp, save
from quadlens.terminal_table import print_table


def printed(width: int, **options: object) -> list[str]:
    out = io.StringIO()
    rows = [[f"row {n}", *(f"{n}.{k:04d}" for k in range(12))] for n in range(3)]
    header = ["what it is", *(f"a long name {k}" for k in range(12))]
    print_table(Console(file=out, width=width), "Title", header, rows, **options)  # type: ignore[arg-type]
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [10, 20, 40, 80, 200])
def test_every_cell_is_whole_and_lines_fit(width: int) -> None:
    lines = printed(width)
    words = [word for line in lines for word in line.split()]
    for n in range(3):
        assert [word for word in words if word.startswith(f"{n}.")] == [f"{n}.{k:04d}" for k in range(12)]
    assert not any("…" in line for line in lines)
    if width >= 20:
        assert max(map(len, lines)) <= width
    parts = sum(line.startswith("Title") for line in lines)
    assert parts == sum("row 0" in line for line in lines)
    assert (parts == 1) == (width == 200 or width > 12 * 7 + 5)


def test_columns_stand_closer_where_that_keeps_the_table_whole() -> None:
    whole = max(map(len, printed(200)))
    assert sum(line.startswith("Title") for line in printed(whole - 1)) == 1
    assert sum(line.startswith("Title") for line in printed(whole - 13)) > 1


def test_caption_once() -> None:
    assert sum("more with --json" in line for line in printed(30, caption="2 more with --json")) == 1


def test_bounds_of_many_clusters_at_80_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    keys = (2, 3, 5, 7, 11, 13, 17, 19)
    save(build_mlp(Recipe(p=41, keys=keys, neurons=64)), tmp_path / "m.safetensors")
    run = quadlens("bounds", tmp_path / "m.safetensors")
    assert run.code == 0, run.err
    assert "…" not in run.out
    assert max(map(len, run.out.splitlines())) <= 80
    document = quadlens("bounds", tmp_path / "m.safetensors", "--json").document
    beyond = run.out.split("Beyond the paper", 1)[1]
    shown = [word for line in beyond.splitlines() if line.startswith(" relative_exact ") for word in line.split()[2:]]
    assert shown == [f"{cluster['relative_exact']:.4f}" for cluster in document["clusters"]]
