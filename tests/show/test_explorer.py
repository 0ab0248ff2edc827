"""The explorer's page as text, and its command."""

import html
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from any_model import any_model, usual_weights
from examples import examples
from explorer_chromium import small_model
from places import ROOT
from quadlens.analysis.spectrum.anatomy import Anatomy
from quadlens.base.errors import BadConfig
from quadlens.network.activation import ACTIVATIONS, NONLINEARITIES, Activation
from quadlens.network.bundled import bundled_names, load
from quadlens.network.config import Config
from quadlens.network.native import save
from quadlens.network.weights import Weights
from quadlens.show.explorer import LARGEST_P, build_page
from quadlens.show.explorer.page import SCRIPTS, asset
from quadlens.show.explorer.words import VIEWS
from quadlens.show.figures.style import FREQUENCY_COLOURS
from strategies import mlps, transformers

pytestmark = pytest.mark.slow

TWO_MEGABYTES = 2_000_000


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "quadlens", *words], capture_output=True, text=True, check=False
    )


def test_page_is_one_file_of_at_most_two_megabytes_and_the_same_every_time() -> None:
    model = load("pizza")
    page = build_page(model, "pizza")
    assert len(page.encode()) < TWO_MEGABYTES
    assert page == build_page(model, "pizza")
    # Nothing is fetched: no address of another file in any attribute, and the policy forbids it.
    assert "default-src 'none'" in page
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", page)
    assert "{{" not in page


def test_every_view_has_a_line_on_how_to_read_it() -> None:
    page = build_page(small_model(), "small")
    assert '<figure id="view-gates" hidden>' in page
    for view in [one for one in VIEWS if one.name not in ("gates", "shared")]:
        card = page[page.index(f'<figure id="view-{view.name}">') :].split("</figure>")[0]
        assert view.how_to_read("relu") in html.unescape(card)
        assert f'id="data-{view.name}"' in card
        assert f'id="link-{view.name}"' in card


def test_without_script_the_page_leads_to_the_report() -> None:
    alone, beside = (
        build_page(small_model(), "small", report=report) for report in (None, "index.html")
    )
    said = [re.findall("<noscript>(.*?)</noscript>", page)[0] for page in (alone, beside)]
    assert all("This page needs JavaScript, which is off here" in one for one in said)
    assert "<code>quadlens report</code>" in said[0]
    assert '<a href="index.html">The report shows the same model without it.</a>' in said[1]


def test_colours_are_the_reports() -> None:
    page = build_page(small_model(), "small")
    for at, colour in enumerate(FREQUENCY_COLOURS):
        assert f"--k{at}: {colour};" in page


def test_name_cannot_break_the_page() -> None:
    page = build_page(small_model(), '"><script>alert(1)</script>')
    assert "<script>alert(1)" not in page


@examples(25)
@given(model=mlps() | transformers())
def test_any_model_gets_a_page(model: Weights) -> None:
    assert "</html>" in build_page(model, "any")


@pytest.mark.parametrize("seed", range(60))
def test_views_that_do_not_apply_are_absent_with_one_line_why(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = any_model(rng, usual_weights())
    task, page, layer = model.config.task, build_page(model, "any"), model.collapse()
    waves = layer.is_additive and task.cyclic is not None
    for view, applies in {
        "circle": waves,
        "rectangles": waves,
        "gates": bool(layer.gated),
        "shared": bool(layer.gated) and task.cyclic is not None,
    }.items():
        assert (f'<figure id="view-{view}" hidden>' in page) == (not applies)
    why = page.split('<p id="absent">')[1].split("</p>")[0]
    assert ("No circle of phases" in why) == (not waves)
    assert ("rectangles" in why) == (not waves)
    assert ("No map of attention" in why) == layer.is_additive
    assert html.escape(task.words) in page
    assert re.findall(r"\bnan\b", page.split("<script")[0]) == []


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_page_speaks_of_the_activation(activation: Activation) -> None:
    small = small_model()
    model = Weights(Config.mlp(small.config.p, small.config.d_mlp, activation), **small.tensors)
    page = build_page(Anatomy(model), "any")
    body = page[page.index('<div id="views">') : page.index("<footer>")]
    assert ("ReLU" in body) == (activation == "relu")
    drawn = NONLINEARITIES[activation].degree is not None
    assert ("is drawn as one rectangle" in page[: page.index("<noscript>")]) == drawn
    assert ("watch the integral</h1>" in page) == drawn


def test_scripts_are_all_the_assets() -> None:
    folder = ROOT / "src" / "quadlens" / "show" / "explorer" / "assets"
    assert sorted(path.stem for path in folder.glob("*.js")) == sorted(SCRIPTS)
    # A closing tag inside the script would end it.
    assert all("</script" not in asset(f"{name}.js") for name in SCRIPTS)


def test_too_large_a_modulus_is_refused() -> None:
    p = LARGEST_P + 2
    zeros = np.zeros((p, 1), dtype=np.float32)
    model = Weights.mlp(Config.mlp(p, 1), zeros, zeros, zeros.T)
    with pytest.raises(
        BadConfig,
        match=f"p = {p}; the explorer holds all p³ logits in the browser: at most p = 257",
    ):
        build_page(model, "large")


def test_command_writes_the_page(tmp_path: Path) -> None:
    model, output = tmp_path / "hand.safetensors", tmp_path / "page.html"
    save(small_model(), model)
    done = run("explore", str(model), "-o", str(output), "--json")
    assert done.returncode == 0
    value = json.loads(done.stdout)
    assert value == {
        "file": str(output),
        "bytes": output.stat().st_size,
        "model": str(model),
        "p": 23,
        "neurons": 90,
        "snapshots": 0,
    }
    assert "<title>quadlens explorer: hand</title>" in output.read_text(encoding="utf-8")


def test_command_refuses_bad_input(tmp_path: Path) -> None:
    missing = run("explore", "nothing.safetensors", "-o", str(tmp_path / "page.html"))
    assert missing.returncode == 2
    assert (
        f"nothing.safetensors: no such file; bundled models are: {', '.join(bundled_names())}"
        in missing.stderr
    )
    nowhere = run("explore", "pizza", "-o", str(tmp_path / "no" / "page.html"))
    assert nowhere.returncode == 2
    assert "cannot write" in nowhere.stderr
    assert "quadlens explore pizza -o explorer.html" in run("explore", "--help").stdout
