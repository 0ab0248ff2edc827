"""Whatever `report` links as a page to play with works there, and `explore` writes no page that
cannot start.
"""

import base64
import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import quadlens
from any_model import any_model, extreme_model, extreme_weights, usual_weights
from explorer_chromium import PATIENCE, READY, Opened, pages, visit  # noqa: F401
from quadlens.base.errors import BadConfig, QuadlensError
from quadlens.network.config import Config, Hidden, Softmax
from quadlens.network.evaluate import evaluate
from quadlens.network.native import to_bytes
from quadlens.network.norm import Norm, Norms
from quadlens.network.study import study_of
from quadlens.network.weights import Weights
from quadlens.show.explorer import build_page
from quadlens.show.explorer.layout import (
    FIELDS,
    LARGEST_NEURONS,
    PLAIN,
    file_layout,
    why_not_playable,
)
from quadlens.show.pages.write import _explorer

pytestmark = pytest.mark.slow

# ruff: noqa: F811


def architecture_of(config: Config) -> str:
    return str(config.to_dict()["architecture"])


def random_models(count: int, seed: int = 21) -> list[Weights]:
    rngs = [np.random.default_rng([seed, number]) for number in range(count)]
    return [any_model(rng, usual_weights(float(rng.choice([0.1, 1.0, 2.0])))) for rng in rngs]


def with_random_weights(config: Config, seed: int = 0) -> Weights:
    rng = np.random.default_rng(seed)
    return Weights(
        config, **{name: rng.standard_normal(shape) for name, shape in config.shapes.items()}
    )


def test_the_layout_has_the_tensors_of_every_config() -> None:
    layout = file_layout()["architectures"]
    for model in random_models(200):
        config = model.config
        tensors = [
            one
            for one in layout[architecture_of(config)]["tensors"]
            if one["option"] is None or getattr(config, one["option"])
        ]
        assert {one["name"]: one["file"] for one in tensors} == config.names
        assert {
            one["name"]: tuple(getattr(config, size) for size in one["shape"]) for one in tensors
        } == config.shapes


def test_random_models_differ_in_every_field_that_the_page_computes_with() -> None:
    """A field that the page is taught is one that the random models of the tests vary, too."""
    models = random_models(200)
    for architecture, names in FIELDS.items():
        configs = [
            model.config for model in models if architecture_of(model.config) == architecture
        ]
        for name in names:
            assert len({repr(getattr(config, name)) for config in configs}) > 1, (
                architecture,
                name,
            )


# A model with a field that the page does not compute with, for each such field; a new one needs its
# own here.
NORM = Norms(final=Norm("layer", 1e-5))
UNPLAYABLE: dict[tuple[str, str], Config] = {
    ("transformer", "n_layers"): dataclasses.replace(PLAIN["transformer"], n_layers=2),
    ("transformer", "norms"): dataclasses.replace(PLAIN["transformer"], norms=NORM),
    ("mlp", "hidden"): Config.mlp(7, 5, hidden=(Hidden(4),)),
    ("mlp", "norms"): Config.mlp(7, 5, norms=NORM),
}
# A transformer always has biases, and no hidden layers beside its blocks.
IMPOSSIBLE = {("transformer", "hidden"), ("transformer", "bias")}


def test_a_field_that_the_page_does_not_know_is_refused_by_both() -> None:
    for architecture, fields in FIELDS.items():
        others = {(architecture, field.name) for field in PLAIN[architecture].file_fields()}
        others -= {(architecture, name) for name in fields}
        assert others == {key for key in UNPLAYABLE.keys() | IMPOSSIBLE if key[0] == architecture}
    for config in UNPLAYABLE.values():
        with pytest.raises(BadConfig, match="`quadlens report` works"):
            build_page(with_random_weights(config), "other")


def test_the_page_says_in_words_what_it_does_not_run(visit: Any) -> None:
    page: Opened = visit("small")
    for (_, name), config in UNPLAYABLE.items():
        message = page.page.evaluate(
            """(text) => {
              try { Q.safetensors.read(Uint8Array.from(atob(text), (x) => x.charCodeAt(0))); }
              catch (error) { return `${error instanceof Q.safetensors.BadFile} ${error.message}`; }
            }""",
            base64.b64encode(to_bytes(with_random_weights(config))).decode(),
        )
        assert re.match(
            rf"true The config has {name} = .*; this page runs one layer without norms", message
        ), message


def test_no_page_with_too_many_neurons() -> None:
    with pytest.raises(
        BadConfig, match="the model has 8193 neurons; the explorer takes at most 8192"
    ):
        build_page(with_random_weights(Config.mlp(3, LARGEST_NEURONS + 1)), "wide")


# Opens a model as its own page does at its start, and waits until everything is drawn.
OPEN = """async (text) => {
  Q.app.open(Uint8Array.from(atob(text), (x) => x.charCodeAt(0)), "another", "");
  const page = document.documentElement.dataset, next = () => new Promise(requestAnimationFrame);
  await next();
  while (page.settled !== "true") await next();
  await next();
  return { wrong: document.getElementById("status-wrong").textContent,
    margin: [...Q.app.engine().margin],
    words: Q.app.shown().map((id) => document.getElementById(`words-${id}`).textContent) };
}"""


def test_every_view_of_any_model_is_drawn_and_counts_pythons_wrong_inputs(visit: Any) -> None:
    page: Opened = visit("small")
    for number, model in enumerate(random_models(120, 22)):
        assert why_not_playable(model.config) is None
        found = page.page.evaluate(OPEN, base64.b64encode(to_bytes(model)).decode())
        answers = evaluate(model.collapse())
        wrong = f"{answers.pairs - answers.correct} of {answers.pairs}"
        margins = np.array(found["margin"])
        # A tie up to rounding may be called either way.
        if np.abs(margins).min() > 1e-9 * max(1.0, np.abs(margins).max()):
            assert found["wrong"] == wrong, (number, model)
        assert all(found["words"]), (number, model)
        assert not re.search(r"NaN|undefined|null", " ".join(found["words"])), (
            number,
            model,
            found["words"],
        )
        assert page.complaints == [], (number, model)


def test_models_of_any_size_of_weights_get_a_page_that_starts_or_none(visit: Any) -> None:
    page: Opened = visit("small")
    opened = 0
    for number in range(120):
        rng = np.random.default_rng([23, number])
        model = (
            extreme_model(rng) if number % 2 else any_model(rng, extreme_weights(rng), largest=7)
        )
        try:
            linked = _explorer(study_of(model).without_proofs(), lambda step: None)
        except QuadlensError:
            continue  # The whole report is refused, in words.
        if linked is None:
            continue
        opened += 1
        page.page.evaluate(OPEN, base64.b64encode(to_bytes(model)).decode())
        assert page.complaints == [], (number, model)
    assert opened > 40


def one_hot(n: int, biases: tuple[bool, bool], task: Any = "add", activation: str = "ReLU") -> Any:
    from torch import nn

    layers = [
        nn.Linear(2 * n, 20, bias=biases[0]),
        getattr(nn, activation)(),
        nn.Linear(20, n, bias=biases[1]),
    ]
    return quadlens.from_module(nn.Sequential(*layers), inputs="one-hot", task=task)


def embedded(inputs: str, n: int = 11) -> Any:
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.fc1 = (
                nn.Embedding(n, 6),
                nn.Linear(12 if inputs == "concat" else 6, 20),
            )
            self.fc2 = nn.Linear(20, n)

        def forward(self, pairs: Any) -> Any:
            x = self.embed(pairs)
            return self.fc2(self.fc1(x.flatten(1) if inputs == "concat" else x.sum(1)).relu())

    return quadlens.from_module(Net(), inputs=cast(Any, inputs), activation="relu")


def asked(name: str, **settings: Any) -> Weights:
    """Random weights of a small transformer, asked this task."""
    task = quadlens.task(name) if "p" not in settings else quadlens.task(name, settings.pop("p"))
    sizes = {
        "d_model": 6,
        "d_mlp": 9,
        "n_heads": 2,
        "d_head": 3,
        "n_ctx": 3,
        "read_position": 1,
        "attention": (0.5, 0.5),
    }
    return with_random_weights(
        Config(p=task.n, d_vocab=task.n + 1, d_vocab_out=task.n, task=task, **{**sizes, **settings})
    )


SOFTMAX, MAXIMUM = Softmax(1.0, 3.0**0.5), np.maximum.outer(np.arange(9), np.arange(9))
KINDS: dict[str, Callable[[], Any]] = {
    "one-hot": lambda: one_hot(13, (True, True)),
    "one-hot, a bias inside": lambda: one_hot(13, (True, False)),
    "one-hot, a bias outside": lambda: one_hot(13, (False, True)),
    "one-hot without biases": lambda: one_hot(13, (False, False)),
    "one-hot, n even": lambda: one_hot(12, (True, True)),
    "concat": lambda: embedded("concat"),
    "sum": lambda: embedded("sum"),
    "multiply": lambda: one_hot(12, (True, True), "multiply"),
    "multiply0": lambda: one_hot(13, (True, True), "multiply0"),
    "S4": lambda: one_hot(24, (True, True), quadlens.task("S4")),
    "a table": lambda: quadlens.study(
        with_random_weights(Config.mlp(9, 8, task=quadlens.task(MAXIMUM), bias=True))
    ),
    "GELU": lambda: one_hot(13, (True, True), activation="GELU"),
    "constant attention": lambda: asked("subtract", p=13),
    "softmax": lambda: asked("add", p=13, softmax=SOFTMAX, attention=(0.0, 0.0)),
    "a mixture": lambda: asked(
        "add", p=13, softmax=SOFTMAX, attention=(0.2, 0.2, 0.2), read_position=2
    ),
    "softmax on a group": lambda: asked("S3", softmax=SOFTMAX, attention=(0.0, 0.0)),
}


def check_opened(page: Opened, answers: Any) -> None:
    """The page is that of this model, says nothing is wrong with itself, and counts its wrong
    inputs.
    """
    page.page.wait_for_selector(READY, state="attached", timeout=PATIENCE)
    assert page.text("status-wrong") == f"{answers.pairs - answers.correct:,} of {answers.pairs:,}"
    assert not page.page.locator("#message").is_visible()
    assert page.page.locator("#panel").is_visible()


@pytest.mark.parametrize("kind", list(KINDS))
def test_explore_writes_a_page_that_starts(visit: Any, tmp_path: Path, kind: str) -> None:
    study = quadlens.study(KINDS[kind]())
    check_opened(visit(quadlens.explore(study, tmp_path / "page.html")), study.evaluation)


@pytest.mark.parametrize("kind", ["one-hot", "S4", "a mixture"])
def test_the_link_of_a_report_leads_to_a_page_that_starts(
    visit: Any, tmp_path: Path, kind: str
) -> None:
    study = quadlens.study(KINDS[kind]())
    made = quadlens.report(study, tmp_path / "report", proofs=False)
    page: Opened = visit(made.page, ready=False)
    page.page.get_by_text("Play with this model").click()
    page.page.wait_for_url("**/explorer.html*")
    check_opened(page, study.evaluation)


def test_a_report_without_such_a_page_has_no_link_to_one(tmp_path: Path) -> None:
    made = quadlens.report(
        with_random_weights(UNPLAYABLE["mlp", "hidden"]), tmp_path / "report", proofs=False
    )
    assert "explorer.html" not in made.files
    assert "Play with this model" not in made.page.read_text(encoding="utf-8")


def broken(page: str, what: str) -> str:
    """The page with something wrong in it."""
    changes = {
        "an unknown key": ('"name": "bias", "reader": "flag"', '"name": "Bias", "reader": "flag"'),
        "an error in a script": ("Q.app.open(bytes", "Q.app.opens(bytes"),
        "a script that does not parse": ("Q.clusters = (() => {", "Q.clusters = (() => {{"),
        "no weights": (
            '<script id="model" type="text/plain"',
            '<script id="models" type="text/plain"',
        ),
    }
    old, new = changes[what]
    assert page.count(old) == 1, what
    return page.replace(old, new)


# What the page says, by what is wrong with it; what the browser says of its own script is its own.
SAID = {
    "an unknown key": r"The config has the unknown key bias; known keys: p, d_mlp, .*, task\.",
    "an error in a script": r"Q\.app\.opens is not a function\.",
    "a script that does not parse": r"Unexpected token .*\.",
    "no weights": r"Cannot read properties of null .*\.",
}


@pytest.mark.parametrize("what", list(SAID))
def test_an_error_while_the_page_starts_is_said_on_the_page(
    visit: Any, tmp_path: Path, what: str
) -> None:
    model, path = with_random_weights(Config.mlp(7, 5, bias=True)), tmp_path / "page.html"
    path.write_text(broken(build_page(model, "mine", report="index.html"), what), encoding="utf-8")
    page: Opened = visit(path, ready=False)
    page.page.wait_for_selector("#message.bad", timeout=PATIENCE)
    said = page.page.locator("#message").inner_text()
    fault = f"This is a fault of quadlens {quadlens.__version__}; "
    expected = rf"This page could not start: {SAID[what]} {fault}"
    assert re.fullmatch(
        expected + r"please report this sentence\. The report shows the same model\.", said
    ), said
    assert page.page.locator("#message a").get_attribute("href") == "index.html"
    # No empty views, and no dials that move nothing.
    for name in ("#panel", "#views", ".status"):
        assert not page.page.locator(name).is_visible()
    assert page.complaints
    page.complaints.clear()


def test_an_error_later_on_is_said_on_the_page_which_stays(visit: Any) -> None:
    page: Opened = visit("small")
    page.page.evaluate("setTimeout(() => { throw new Error('no such neuron'); })")
    page.page.wait_for_selector("#message.bad", timeout=PATIENCE)
    assert page.text("message").startswith(
        "Something in this page failed: no such neuron. This is a fault of quadlens"
    )
    assert page.page.locator("#panel").is_visible()
    assert page.complaints == ["no such neuron"]
    page.complaints.clear()
