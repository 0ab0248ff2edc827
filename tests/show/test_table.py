"""One table, its views; in a terminal every number whole at every width."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from cli_runner import quadlens
from quadlens.base.table import Table
from quadlens.network import Recipe, build_mlp, save


def printed(width: int, **options: object) -> list[str]:
    out = io.StringIO()
    rows = [[f"row {n}", *(f"{n}.{k:04d}" for k in range(12))] for n in range(3)]
    header = ["what it is", *(f"a long name {k}" for k in range(12))]
    table = Table("Title", header, rows, **options)  # type: ignore[arg-type]
    table.print(Console(file=out, width=width))
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [10, 20, 40, 80, 200])
def test_every_cell_is_whole_and_lines_fit(width: int) -> None:
    lines = printed(width)
    words = [word for line in lines for word in line.split()]
    for n in range(3):
        assert [word for word in words if word.startswith(f"{n}.")] == [
            f"{n}.{k:04d}" for k in range(12)
        ]
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
    assert (
        sum("more with --json" in line for line in printed(30, caption="2 more with --json")) == 1
    )


def test_bounds_of_many_clusters_at_80_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    keys = (2, 3, 5, 7, 11, 13, 17, 19)
    save(build_mlp(Recipe(p=41, keys=keys, neurons=64)), tmp_path / "m.safetensors")
    run = quadlens("bounds", tmp_path / "m.safetensors")
    assert run.code == 0, run.err
    assert "…" not in run.out
    assert max(map(len, run.out.splitlines())) <= 80
    document = quadlens("bounds", tmp_path / "m.safetensors", "--json").document
    beyond = run.out.split("Beyond the paper", 1)[1]
    assert "psi: with the model's own output phases ψ" in " ".join(beyond.split())
    shown = [
        word
        for line in beyond.splitlines()
        if line.startswith(" relative_exact ")
        for word in line.split()[2:]
    ]
    assert shown == [f"{cluster['relative_exact']:.4f}" for cluster in document["clusters"]]


TABLE = Table(
    "A 50 % table",
    ("row", "k = 5", "paper 12"),
    (("ψ_max", "0.25", "a|b"), ("$x$", "<1", "")),
    dim=(2,),
    groups=(("", 1), ("this model", 1), ("the paper", 1)),
)


def test_csv_and_markdown() -> None:
    assert TABLE.to_csv().splitlines() == ["row,k = 5,paper 12", "ψ_max,0.25,a|b", "$x$,<1,"]
    assert TABLE.to_markdown().splitlines() == [
        "| row | k = 5 | paper 12 |",
        "| --- | --- | --- |",
        "| ψ_max | 0.25 | a\\|b |",
        "| $x$ | <1 |  |",
    ]


def test_latex_escapes_words_and_leaves_mathematics() -> None:
    latex = TABLE.to_latex("table:one")
    assert latex.splitlines()[:3] == [
        r"\begin{table}",
        r"    \centering",
        r"    \begin{tabular}{lc|c}",
    ]
    assert (
        r"\multicolumn{1}{c}{} & \multicolumn{1}{c}{this model} & \multicolumn{1}{c}{the paper} \\"
        in latex
    )
    assert r"\cmidrule(lr){2-2} \cmidrule(lr){3-3}" in latex
    assert r"$\psi$\_max & 0.25 & a|b \\" in latex
    assert r"$x$ & <1 &  \\" in latex
    assert r"\caption{\label{table:one}A 50 \% table}" in latex
    assert TABLE.to_latex().startswith(r"\begin{tabular}")


def test_html_escapes_cells_and_marks_the_papers() -> None:
    text = TABLE.to_html()
    assert '<th scope="row">ψ_max</th><td>0.25</td><td class="dim">a|b</td>' in text
    assert "<td>&lt;1</td>" in text
    assert '<th scope="colgroup" colspan="1" class="dim">the paper</th>' in text
    assert '<tr><td colspan="1"></td>' in text
