"""The explorer as a person meets it: controls, links between views, drags, keys, files, addresses,
the tour.
"""

import csv
import hashlib
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer_chromium import (  # noqa: F401
    PATIENCE,
    Opened,
    drop_file,
    pages,
    small_model,
    softmax_model,
    visit,
)
from quadlens.network.activation import NONLINEARITIES
from quadlens.network.bundled import load
from quadlens.network.config import Config
from quadlens.network.evaluate import evaluate
from quadlens.network.handmade import Recipe, build_mlp
from quadlens.network.native import save, to_bytes
from quadlens.network.task import task_by_name
from quadlens.network.weights import Weights
from quadlens.show.explorer.words import VIEWS, WORDS
from quadlens.training.over_time import history as quadlens_history

pytestmark = pytest.mark.slow

# ruff: noqa: F811
# The views of a model with constant attention.
NAMES = [view.name for view in VIEWS if view.name not in ("gates", "shared")]


def words(page: Opened) -> dict[str, str]:
    """The numbers every view states, in one question to the page."""
    page.settle()
    said: dict[str, str] = page.page.evaluate(
        "(names) => Object.fromEntries(names.map((n) => [n, "
        "document.getElementById(`words-${n}`).textContent]))",
        NAMES,
    )
    return said


def centre(page: Opened, selector: str) -> tuple[float, float]:
    page.page.locator(selector).first.scroll_into_view_if_needed()
    box = page.page.locator(selector).first.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def heaviest(page: Opened) -> int:
    return int(page.page.evaluate("Q.app.frame().chosen"))


@pytest.mark.parametrize("name", ["pizza", "mismatched"])
def test_opens_with_pythons_answers(visit: Any, name: str) -> None:
    page, answers = visit(name), evaluate(load(name).collapse())
    assert page.text("status-wrong") == f"{answers.pairs - answers.correct} of 3,481"
    assert page.text("status-smallest") == f"smallest margin {answers.min_margin:.3g}"
    a, b = answers.min_margin_pair
    assert f"margins from {answers.min_margin:.3g} (a = {a}, b = {b})" in page.text("words-grid")
    assert len(page.page.locator("#stage-circle .dot").all()) == 512


def test_without_script_the_page_says_so_and_shows_no_empty_views(visit: Any) -> None:
    page = visit("mismatched", script=False, color_scheme="dark").page
    assert "This page needs JavaScript" in page.locator("noscript, .note").first.inner_text()
    assert "Its hidden layer computes integrals" in page.locator("#intro").inner_text()
    for name in ("#panel", "#views", ".status"):
        assert not page.locator(name).is_visible()


SLIDERS: dict[str, tuple[float, set[str]]] = {
    "in-a": (3, {"rectangles", "logits", "pre", "grid"}),
    "in-b": (4, {"rectangles", "logits", "pre", "grid"}),
    "in-c": (5, {"rectangles", "logits", "column"}),
    "in-jitter": (0.4, set(NAMES)),
    "in-drop": (0.6, {"circle", "rectangles", "logits", "grid"}),
    "in-arc": (0.3, {"circle", "rectangles", "logits", "grid"}),
    "in-uneven": (1, {"circle", "rectangles", "logits", "column", "grid"}),
    "in-phi": (1.5, set(NAMES)),
    "in-gain": (3, {"circle", "rectangles", "logits", "column", "grid"}),
}


def test_a_word_says_its_meaning(visit: Any) -> None:
    page = visit("pizza").page
    page.click("#view-circle button[popovertarget=word-phi-psi]")
    said = page.locator("#word-phi-psi")
    assert said.is_visible()
    assert "input and output phase of neuron i" in said.inner_text()
    page.keyboard.press("Escape")
    assert not said.is_visible()
    assert page.locator("#word-margin").count() == 1


def test_sliders_change_their_views_and_reset_brings_all_back(visit: Any) -> None:
    page = visit("small")
    before = words(page)
    for control, (value, changes) in SLIDERS.items():
        page.set_range(control, value)
        after = words(page)
        assert {name for name in changes if before[name] != after[name]} == changes, control
        assert page.page.locator("#reset").is_enabled()
        page.page.locator("#reset").click()
        assert words(page) == before, control
        assert page.page.locator("#reset").is_disabled()


def test_choices_change_what_is_shown(visit: Any) -> None:
    page = visit("small")
    before = words(page)
    expected = {
        "part": ("abs", "identity", "relu"),
        "period": ("half", "full"),
        "keep": ("primary", "secondary", "all"),
        "show": ("interpretation", "difference", "model"),
        "scope": ("k", "all"),
    }
    for name, values in expected.items():
        seen = set()
        for value in values:
            page.page.locator(f"input[name={name}][value={value}]").check()
            assert page.state()[name] == value
            seen.add(tuple(words(page).values()))
        # Interpretation and difference share their words (the pictures differ); scope needs a dial
        # to matter.
        assert len(seen) == {"show": 2, "scope": 1}.get(name, len(values))
        assert words(page) == before
    page.page.locator("#in-k").select_option("5")
    assert page.state()["k"] == 5
    assert "k = 5" in page.text("words-rectangles")
    page.page.locator("#in-follow").uncheck()
    page.set_range("in-a", 1)
    assert page.state()["c"] == page.page.evaluate("Q.app.frame().c") == 10
    page.page.locator("#in-follow").check()
    assert (1 + page.state()["b"]) % 23 == page.page.evaluate("Q.app.frame().c")


def test_scope_seed_carry_drop_and_neuron(visit: Any) -> None:
    page = visit("small", "#jitter=0.3")
    everything = page.page.evaluate("[...Q.app.engine().delta]")
    page.page.locator("input[name=scope][value=k]").check()
    page.settle()
    k_in, delta = page.page.evaluate("[[...Q.app.info().kIn], [...Q.app.engine().delta]]")
    k = page.state()["k"]
    assert [d != 0 for d in delta] == [mine == k for mine in k_in]
    page.page.locator("#redraw-seed").click()
    assert page.state()["seed"] == 2
    assert page.page.evaluate("[...Q.app.engine().delta]") != everything
    page.page.locator("#in-n").fill("7")
    assert page.state()["n"] == 7
    page.page.locator("#in-off").check()
    assert page.state()["off"] == [7]
    assert "Neuron 7 is dropped" in page.text("words-column")
    angle = page.text("words-rectangles")
    page.page.locator("#in-carry").uncheck()
    assert page.state()["carry"] is False
    assert page.text("words-rectangles") != angle


def test_pointing_at_a_dot_highlights_it_everywhere_and_the_other_way_round(visit: Any) -> None:
    page = visit("small")
    dot = page.page.evaluate("Q.app.frame().rule.neurons[11]")
    page.page.mouse.move(*centre(page, f".dot[data-i='{dot}']"))
    page.settle()
    assert page.page.locator(".mark").get_attribute("data-i") == str(dot)
    for name in ("pre", "column", "circle"):
        assert f"Neuron {dot}" in page.text(f"words-{name}")
    assert f"Neuron {dot} adds" in page.text("words-logits")
    # A rectangle back to its dot.
    box = page.page.locator("#stage-rectangles canvas").bounding_box()
    page.page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + box["height"] / 2)
    page.settle()
    other = int(page.page.locator(".mark").get_attribute("data-i"))
    assert other != dot
    assert other in page.page.evaluate("Q.app.frame().rule.neurons")
    assert f"Neuron {other}" in page.text("words-column")
    # A logit to the neurons that make it, and to the same c in the column.
    box = page.page.locator("#stage-logits canvas").bounding_box()
    page.page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + box["height"] / 3)
    page.settle()
    c = page.page.evaluate("Q.app.frame().hoverC")
    assert f"Logit at c = {c}:" in page.text("words-logits")
    assert f"W_L at c = {c}:" in page.text("words-column")
    rings = page.page.eval_on_selector_all(
        ".top", "all => all.filter((x) => x.style.display !== 'none').map((x) => x.dataset.i)"
    )
    assert len(rings) == 12
    page.page.mouse.move(2, 2)
    page.settle()
    assert int(page.page.locator(".mark").get_attribute("data-i")) == heaviest(page)


def test_click_in_the_grid_chooses_a_and_b(visit: Any) -> None:
    page = visit("small")
    canvas = page.page.locator("#stage-grid canvas")
    canvas.scroll_into_view_if_needed()
    x0, y0, cell = page.page.evaluate(
        "(() => { const m = document.querySelector('#stage-grid canvas').map; return [m.x0, m.y0, "
        "m.cell]; })()"
    )
    canvas.click(position={"x": x0 + 3.5 * cell, "y": y0 + (22 - 20 + 0.5) * cell})
    state = page.state()
    assert (state["a"], state["b"]) == (3, 20)
    assert page.text("status-answer") == "3 + 20 ≡ 0 ✓"


def test_drag_moves_the_neuron_and_leaves_no_rounding(visit: Any) -> None:
    page = visit("small")
    i, before = heaviest(page), page.text("status-exact")
    x, y = centre(page, f".dot[data-i='{i}']")
    page.page.mouse.move(x, y)
    page.page.mouse.down()
    i = page.state()["n"]
    circle = centre(page, "#stage-circle svg")
    for turn in range(12):
        angle = 0.5 * turn
        page.page.mouse.move(circle[0] + 60 * np.cos(angle), circle[1] - 60 * np.sin(angle))
        page.settle()
    phi = page.page.evaluate("(i) => Q.app.info().phi[i] + Q.app.engine().delta[i]", i)
    assert np.cos(phi - 5.5) > 0.999
    assert page.text("status-exact") != before
    dragged = page.page.evaluate("[...Q.app.engine().margin]")
    page.page.mouse.up()
    page.settle()
    summed = page.page.evaluate("[...Q.app.engine().margin]")
    np.testing.assert_allclose(dragged, summed, atol=1e-9)
    assert list(page.state()["moves"]) == [str(i)]


def test_a_finger_drags_a_dot_and_scrolls_elsewhere(visit: Any) -> None:
    page = visit("small", viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True)
    dots, i = centre(page, "#stage-circle svg"), heaviest(page)
    x, y = centre(page, f".dot[data-i='{i}']")
    session = page.page.context.new_cdp_session(page.page)

    def touch(kind: str, *point: float) -> None:
        points = [{"x": point[0], "y": point[1]}] if point else []
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", x, y)
    chosen = page.state()["n"]
    for turn in range(1, 8):
        touch("touchMove", dots[0] + 70 * np.cos(0.3 * turn), dots[1] - 70 * np.sin(0.3 * turn))
    touch("touchEnd")
    assert list(page.state()["moves"]) == [str(chosen)]
    phi = page.page.evaluate("(i) => Q.app.info().phi[i] + Q.app.engine().delta[i]", chosen)
    assert np.cos(phi - 2.1) > 0.99


def test_a_drag_costs_less_than_a_frame(visit: Any) -> None:
    """Processor time of the page's thread, which a busy machine does not change
    (benchmarks/explorer.py has more).
    """
    page = visit("pizza")
    session = page.page.context.new_cdp_session(page.page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def drag(moves: int) -> float:
        page.page.evaluate(
            """async (moves) => {
              for (let j = 0; j < moves; j++) {
                Q.app.move(Q.app.chosen(), -3 + (6 * j) / moves);
                await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
              }
            }""",
            moves,
        )
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(float(one["value"]) for one in metrics if one["name"] == "ScriptDuration")

    warm = drag(40)
    assert (drag(60) - warm) / 60 < 0.016


def test_breaking_it_makes_wrong_answers(visit: Any) -> None:
    page = visit("pizza")
    page.set_range("in-arc", 0.4)
    wrong = int(page.text("status-wrong").split(" of ")[0].replace(",", ""))
    assert wrong > 1000
    assert page.page.locator("#status-wrong").get_attribute("class") == "bad"


def test_keyboard_reaches_and_drives_everything(visit: Any) -> None:
    page = visit("small")
    press = page.page.keyboard.press
    wanted = page.page.evaluate(
        """[...document.querySelectorAll('button, input, select, canvas, #stage-circle svg')]
        .filter((e) => !e.disabled && e.offsetParent !== null || e.tagName === 'svg').length"""
    )
    reached = set()
    for _ in range(120):
        press("Tab")
        reached.add(
            page.page.evaluate(
                "(() => { const e = document.activeElement; return e.id || e.name || "
                "e.parentElement.id; })()"
            )
        )
    assert {f"stage-{name}" for name in NAMES} <= reached
    assert {
        "in-a",
        "in-k",
        "part",
        "period",
        "keep",
        "show",
        "scope",
        "in-jitter",
        "in-phi",
        "open-file",
    } <= reached
    assert {f"data-{name}" for name in NAMES} | {f"link-{name}" for name in NAMES} <= reached
    # Radio buttons of one group share one stop.
    assert len(reached) >= wanted - 10
    page.page.locator("#stage-circle svg").focus()
    first = heaviest(page)
    press("ArrowRight")
    chosen = page.state()["n"]
    assert chosen != first
    press("ArrowLeft")
    assert page.state()["n"] == first
    press("Shift+ArrowUp")
    assert page.state()["moves"] == {str(first): pytest.approx(0.2, abs=1e-4)}
    press("+")
    assert page.state()["gains"] == {str(first): 1.1}
    press("Delete")
    assert page.state()["off"] == [first]
    press("Delete")
    assert page.state()["off"] == []
    page.page.locator("#stage-grid canvas").focus()
    before = page.state()
    press("ArrowRight")
    press("ArrowUp")
    assert (page.state()["a"], page.state()["b"]) == (
        (before["a"] + 1) % 23,
        (before["b"] + 1) % 23,
    )
    page.page.locator("#stage-logits canvas").focus()
    c = page.page.evaluate("Q.app.frame().c")
    press("ArrowRight")
    assert page.state()["c"] == (c + 1) % 23
    page.page.locator("#stage-rectangles canvas").focus()
    press("ArrowRight")
    assert page.state()["n"] != first


def test_tour_has_seven_steps_each_a_saved_view(visit: Any) -> None:
    page = visit("small")
    page.page.locator("#tour-start").click()
    seen = set()
    for step in range(1, 8):
        assert page.text("tour-title").startswith(f"{step} of 7: ")
        said = page.text("tour-words")
        assert re.search(r"\d", said)
        assert "undefined" not in said
        assert "NaN" not in said
        seen.add(said)
        assert page.page.locator("figure.spot").count() >= 1
        assert page.page.locator("figure.spot").first.is_visible()
        if step == 6:
            assert not page.text("status-wrong").startswith("0 of")
        if step == 7:
            # The step's address alone brings the same view back.
            again = visit("small", "#tour=7")
            assert again.text("tour-words") == said
            assert again.state() == page.state()
        page.page.locator("#tour-next").click()
    assert len(seen) == 7
    assert page.state()["tour"] == 0
    assert page.text("status-wrong") == "0 of 529"


def test_esc_closes_the_tour(visit: Any) -> None:
    page = visit("small")
    page.page.locator("#tour-start").click()
    page.page.locator("#tour-next").click()
    assert page.page.locator("#tour").is_visible()
    page.page.keyboard.press("Escape")
    assert page.state()["tour"] == 0
    assert not page.page.locator("#tour").is_visible()
    page.page.wait_for_function("document.activeElement.id === 'tour-start'")
    # Without a tour, Esc does nothing.
    before = page.state()
    page.page.keyboard.press("Escape")
    assert page.state() == before


EDITED = (
    "moves",
    "gains",
    "off",
    "jitter",
    "drop",
    "arc",
    "uneven",
    "scope",
    "seed",
    "carry",
    "keep",
    "part",
)


def edits(page: Opened) -> list[Any]:
    state = page.state()
    return [state[key] for key in EDITED]


def test_every_edit_can_be_undone_and_done_again(visit: Any) -> None:
    page = visit("small")
    undo, redo = page.page.locator("#undo"), page.page.locator("#redo")
    assert undo.is_disabled()
    assert redo.is_disabled()
    seen, said = [edits(page)], [words(page)]

    def note() -> None:
        seen.append(edits(page))
        said.append(words(page))

    page.page.locator("#in-off").check()
    note()
    for control, value in (
        ("in-jitter", 0.3),
        ("in-drop", 0.4),
        ("in-uneven", 0.5),
        ("in-phi", 1.5),
        ("in-gain", 2.0),
    ):
        page.set_range(control, value)
        note()
    page.page.locator("#redraw-seed").click()
    note()
    page.page.locator("input[name=keep][value=primary]").check()
    note()
    page.page.locator("#reset").click()
    note()
    assert len({str(one) for one in seen}) == len(seen) - 1  # Reset brings the start back.
    for at in range(len(seen) - 2, -1, -1):
        undo.click()
        assert edits(page) == seen[at]
        assert words(page) == said[at]
    assert undo.is_disabled()
    for at in range(1, len(seen)):
        page.page.keyboard.press("Control+Shift+Z" if at % 2 else "Control+y")
        assert edits(page) == seen[at]
    assert redo.is_disabled()
    page.page.keyboard.press("Control+z")
    assert edits(page) == seen[-2]
    # A new edit after an undo: nothing is left to do again. What is no edit stays as it is.
    page.set_range("in-a", 3)
    page.set_range("in-arc", 0.2)
    assert redo.is_disabled()
    page.page.keyboard.press("Control+z")
    assert (page.state()["arc"], page.state()["a"]) == (0, 3)


def test_a_drag_is_one_step_and_a_field_keeps_its_own_undo(visit: Any) -> None:
    page = visit("small")
    x, y = centre(page, f".dot[data-i='{heaviest(page)}']")
    circle = centre(page, "#stage-circle svg")
    page.page.mouse.move(x, y)
    page.page.mouse.down()
    for turn in range(6):
        page.page.mouse.move(
            circle[0] + 60 * np.cos(0.5 * turn), circle[1] - 60 * np.sin(0.5 * turn)
        )
        page.settle()
    page.page.mouse.up()
    assert len(page.state()["moves"]) == 1
    page.page.locator("#stage-circle svg").focus()
    page.page.keyboard.press("ArrowUp")
    page.page.keyboard.press("ArrowUp")
    assert page.page.evaluate("Q.app.steps()") == {"done": 3, "undone": 0}
    page.page.locator("#in-n").focus()
    page.page.keyboard.press("Control+z")
    assert page.page.evaluate("Q.app.steps()") == {"done": 3, "undone": 0}
    for _ in range(3):
        page.page.locator("#undo").click()
    assert page.state()["moves"] == {}
    margins = page.page.evaluate("[...Q.app.engine().margin]")
    fresh = visit("small").page.evaluate("[...Q.app.engine().margin]")
    assert margins == fresh


def test_another_model_is_named_everywhere_and_brings_its_own_past(visit: Any) -> None:
    page = visit("small")
    own, content = (
        to_bytes(small_model()),
        to_bytes(build_mlp(Recipe(p=13, keys=(2, 3), neurons=40))),
    )
    assert page.text("footer-sha") == hashlib.sha256(own).hexdigest()
    page.page.wait_for_selector("#spoken:has-text('small: ')", state="attached")
    page.set_range("in-jitter", 0.3)
    drop_file(page, "other.safetensors", content)
    page.page.wait_for_selector("html[data-model='other.safetensors']", state="attached")
    assert page.text("footer-name") == "other.safetensors"
    assert page.text("footer-sha") == hashlib.sha256(content).hexdigest()
    assert page.page.title() == "quadlens explorer: other.safetensors"
    assert "small" not in page.text("spoken")
    page.page.wait_for_selector("#spoken:has-text('other.safetensors: ')", state="attached")
    assert "Wrong inputs: 0 of 169." in page.text("spoken")
    assert page.page.locator("#undo").is_disabled()


def test_counts_of_neurons_add_up_whatever_is_dropped(visit: Any) -> None:
    page = visit("mismatched")
    for fragment in (
        "",
        "#drop=0.4",
        "#arc=0.3",
        "#off=1,2,3&gains=7:0",
        "#drop=0.9&scope=k",
        "#drop=1",
    ):
        page.page.evaluate("(to) => Q.app.set(Q.app.read(to))", fragment)
        said = page.text("words-circle").split(". ")[0].replace(",", "")
        used, everyone, *parts = [int(x) for x in re.findall(r"(\d+) (?:of|neurons|at)", said)]
        gains = page.page.evaluate("[...Q.app.engine().gain]")
        assert (used, everyone) == (sum(gain != 0 for gain in gains), 512), fragment
        assert sum(parts) == used, fragment
        # The list of frequencies and the rule agree with the circle.
        for count, k in re.findall(r"(\d+) at k = (\d+)", said):
            option = page.page.locator(f"#in-k option[value='{k}']").text_content()
            assert re.match(rf"{k} \({count} (of|neuron)", option), (fragment, option)
        k, rule = page.page.evaluate(
            "[Q.app.state().k, (Q.app.frame().rule || { neurons: [] }).neurons.length]"
        )
        mine = next(
            int(count) for count, key in re.findall(r"(\d+) at k = (\d+)", said) if int(key) == k
        )
        assert rule == (mine if mine > 1 else 0)


def test_a_neuron_that_a_dial_dropped_is_shown_as_dropped(visit: Any) -> None:
    page = visit("small", "#drop=1")
    box = page.page.locator("#in-off")
    assert box.is_checked()
    assert box.is_disabled()
    assert page.text("off-label") == "dropped by a dial"
    assert ", dropped." in page.text("words-pre")
    page.page.locator("#reset").click()
    page.settle()
    assert not box.is_checked()
    assert box.is_enabled()


def test_words_follow_the_activation(visit: Any) -> None:
    page = visit("small")
    assert "ReLU" in page.text("how-pre")
    rng = np.random.default_rng(4)
    for activation, words_of in WORDS.items():
        config = Config.mlp(7, 6, activation)
        model = Weights(config, **{n: rng.standard_normal(s) for n, s in config.shapes.items()})
        drop_file(page, f"{activation}.safetensors", to_bytes(model))
        page.page.wait_for_selector(
            f"html[data-model='{activation}.safetensors']", state="attached"
        )
        for view in VIEWS:
            assert page.text(f"how-{view.name}") == view.how_to_read(activation)
        said = [*words(page).values()]
        for step in range(1, 8):
            page.page.evaluate("(step) => Q.app.goTo(step)", step)
            said += [*words(page).values(), page.text("tour-words")]
        everything = " ".join(said)
        assert "NaN" not in everything
        assert "undefined" not in everything
        if activation != "relu":
            for phrase in (
                everything.replace("Bounds are about ReLU", "")
                .replace("bound is about ReLU", "")
                .split(". ")
            ):
                assert "ReLU" not in phrase
        assert page.page.locator("#part-choice").is_visible() == (
            not NONLINEARITIES[activation].is_even
        )
        assert page.text("part-relu-label") == words_of.name
        page.page.evaluate("Q.app.goTo(0)")


def test_good_files_are_read_here(visit: Any, tmp_path: Path) -> None:
    page = visit("small", "#jitter=0.2")
    model = build_mlp(Recipe(p=13, keys=(2, 3), neurons=40))
    drop_file(page, "other.safetensors", to_bytes(model))
    page.page.wait_for_selector("html[data-model='other.safetensors']", state="attached")
    assert page.text("model-name") == "other.safetensors: p = 13, 40 neurons"
    assert "read on this computer only" in page.text("message")
    assert page.text("status-wrong") == "0 of 169"
    assert page.state()["jitter"] == 0
    save(load("mismatched"), tmp_path / "second.safetensors")
    page.page.locator("#open-file").set_input_files(str(tmp_path / "second.safetensors"))
    page.page.wait_for_selector("html[data-model='second.safetensors']", state="attached")
    assert page.text("status-wrong") == "0 of 3,481"


def test_bad_files_get_a_clear_message_and_change_nothing(visit: Any) -> None:
    page = visit("small")
    before, good = words(page), to_bytes(small_model())
    flipped = bytearray(good)
    flipped[-5] ^= 1
    foreign = (
        b"\x45\0\0\0\0\0\0\0"
        + b'{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'.ljust(0x45)
        + b"\0" * 4
    )
    cases = {
        b"": "not a safetensors file, or it is cut short",
        b"hello, this is a text file": "not a safetensors file, or it is cut short",
        good[: len(good) // 2]: "cut short or damaged at",
        bytes(flipped): "do not match its checksum",
        foreign: "has no quadlens config in its metadata",
        to_bytes(large()): "p = 259; this page holds all p³ logits and takes at most p = 257",
    }
    for at, (content, message) in enumerate(cases.items()):
        drop_file(page, f"bad{at}.safetensors", content)
        page.page.wait_for_selector(f"#message.bad:has-text('bad{at}.safetensors')")
        assert message in page.text("message")
        assert "The page still shows small." in page.text("message")
        assert words(page) == before
    page.set_range("in-a", 2)
    assert page.text("status-answer").startswith("2 + ")


def large() -> Weights:
    zeros = np.zeros((259, 1), dtype=np.float32)
    return Weights.mlp(Config.mlp(259, 1), zeros, zeros, zeros.T)


def test_address_round_trip(visit: Any) -> None:
    page = visit("small")
    page.set_range("in-jitter", 0.25)
    page.set_range("in-gain", 2.5)
    page.set_range("in-c", 6)
    page.page.locator("input[name=part][value=abs]").check()
    page.page.locator("#in-off").check()
    page.page.locator("#in-carry").uncheck()
    state, said = page.state(), words(page)
    page.page.locator("#copy-link").click()
    page.page.wait_for_selector("#message:has-text('#')")
    link = page.text("message").removeprefix("Link copied: ").removeprefix("Copy this link: ")
    fragment = "#" + link.split("#")[1]
    again = visit("small", fragment)
    assert again.state() == state
    assert words(again) == said
    # The address itself follows, so that reloading keeps the view.
    page.page.wait_for_url(f"**{fragment}", timeout=PATIENCE)
    page.page.reload()
    assert page.state() == state
    same = page.page.evaluate(
        """() => {
          const info = Q.app.info(), random = Q.edits.generator(4),
            pick = (x) => x[Math.floor(random() * x.length)];
          for (let j = 0; j < 300; j++) {
            const s = Q.state.defaults(info), at = () => Math.floor(random() * info.d),
              r = Q.state.rounded;
            Object.assign(s, {
              a: pick([0, 22]), b: at() % 23, c: pick([null, 0, 22]), k: pick([2, 5, 9]),
                n: pick([null, 0, at()]),
              part: pick(['relu', 'abs', 'identity']), period: pick(['full', 'half']),
                carry: pick([true, false]),
              keep: pick(['all', 'primary']), show: pick(['model', 'difference']),
                scope: pick(['all', 'k']),
              jitter: r(random()), drop: r(random()), arc: r(random()), uneven: r(random()),
                seed: at(),
              moves: { [at()]: r(random()), [at()]: -1.5 }, gains: { [at()]: 0 }, off: [at()],
                tour: at() % 8,
            });
            const back = Q.state.fromFragment(Q.state.toFragment(s, info), info);
            const flat = (x) => JSON.stringify(x, Object.keys(Q.state.defaults(info)));
            const deep = (x) => flat(x) + JSON.stringify([x.moves, x.gains]);
            if (deep(back) !== deep(s)) return [deep(s), deep(back)];
          }
          return null;
        }"""
    )
    assert same is None


@pytest.mark.parametrize(
    "fragment",
    [
        "#a=99&b=-1&k=4&part=cube&jitter=x&moves=1:,:2,9999:1&off=,z&seed=&tour=9&view=<b>",
        "#%E0%A4%A",
        "#==&&",
    ],
)
def test_nonsense_in_the_address_is_ignored(visit: Any, fragment: str) -> None:
    page, plain = visit("small", fragment), visit("small")
    assert page.state() == plain.state()


def test_link_of_a_view_leads_to_it(visit: Any) -> None:
    page = visit("small")
    page.page.locator("#link-grid").click()
    page.page.wait_for_selector("#message:has-text('#')")
    link = page.text("message")
    assert "view=grid" in link
    again = visit("small", "#" + link.split("#")[1], viewport={"width": 900, "height": 500})
    assert again.page.locator("#view-grid.spot").count() == 1
    assert again.page.evaluate(
        "document.getElementById('view-grid').getBoundingClientRect().top < innerHeight"
    )


def visible(page: Opened) -> set[str]:
    return {view.name for view in VIEWS if page.page.locator(f"#view-{view.name}").is_visible()}


def test_softmax_model_shows_its_gates_and_no_phases(visit: Any) -> None:
    page = visit("softmax", "#jitter=0.5&arc=0.2&show=difference&tour=3")
    assert visible(page) == {"logits", "pre", "column", "grid", "gates", "shared"}
    assert "attention depends on the tokens" in page.text("absent")
    state = page.state()
    assert (state["jitter"], state["arc"], state["show"], state["tour"]) == (0, 0, "model", 0)
    for hidden in (
        "in-k",
        "in-jitter",
        "in-arc",
        "in-phi",
        "in-carry",
        "status-exact",
        "tour-start",
    ):
        assert not page.page.locator(f"#{hidden}").is_visible()
    assert page.page.locator("#stage-gates canvas").count() == 2 * 3
    model = softmax_model()
    layer = model.collapse()
    assert layer.gated
    with page.page.expect_download() as waiting:
        page.page.locator("#data-gates").click()
    rows = list(csv.DictReader(io.StringIO(Path(waiting.value.path()).read_text(encoding="utf-8"))))
    a, b = np.divmod(np.arange(layer.p**2), layer.p)
    found = np.array(
        [[float(row[f"head_1_on_{name}"]) for row in rows] for name in ("a", "b", "equals")]
    )
    np.testing.assert_allclose(found, layer.gates(a, b)[:, 1] + 0.1, atol=1e-12)
    assert f"{evaluate(layer).pairs - evaluate(layer).correct} of {layer.p**2}" in page.text(
        "status-wrong"
    )
    # The dial between constant and softmax attention: gates, logits and answers follow, and come
    # back.
    before = page.text("words-grid"), page.text("words-gates"), page.text("words-shared")
    page.set_range("in-attention", 0)
    assert "attention=0" in page.page.evaluate("Q.app.linkTo(null)")
    assert all(
        page.text(f"words-{view}") != was
        for view, was in zip(("grid", "gates", "shared"), before, strict=True)
    )
    flat = layer.with_mean_gates()
    assert f"{evaluate(flat).pairs - evaluate(flat).correct} of {layer.p**2}" in page.text(
        "status-wrong"
    )
    page.page.locator("#undo").click()
    assert (page.text("words-grid"), page.text("words-gates"), page.text("words-shared")) == before
    # A map of gates is linked to a and b, as every map.
    page.page.locator("#stage-gates canvas").nth(4).focus()
    page.page.keyboard.press("ArrowRight")
    assert page.state()["a"] == (state["a"] + 1) % layer.p
    margin = page.text("words-grid")
    page.page.locator("#in-off").check()
    assert page.text("words-grid") != margin
    page.page.locator("#undo").click()
    assert page.text("words-grid") == margin


def test_group_speaks_its_own_words_and_a_page_changes_with_the_model(
    visit: Any, tmp_path: Path
) -> None:
    page = visit("group")
    assert visible(page) == {"logits", "pre", "column", "grid"}
    assert "σ·τ in S3 has no cyclic relabelling" in page.text("absent")
    assert "A network for σ·τ in S3" in page.text("intro")
    state = page.state()
    assert page.text("status-answer").startswith(f"{state['a']}·{state['b']} = ")
    assert page.text("status-margin").startswith("in S3, ")
    drop_file(page, "other.safetensors", to_bytes(small_model()))
    page.page.wait_for_selector("html[data-model='other.safetensors']", state="attached")
    assert visible(page) == set(NAMES)
    assert "A network for a + b mod 23" in page.text("intro")
    assert page.page.locator("#tour-start").is_visible()


def test_subtraction_has_phases_and_rectangles_of_renamed_elements(
    visit: Any, tmp_path: Path
) -> None:
    small = small_model().tensors
    back = -np.arange(23) % 23
    config = Config.mlp(23, 90, task=task_by_name("subtract", 23))
    page = visit("small")
    before = page.text("words-circle")
    drop_file(
        page, "minus.safetensors", to_bytes(Weights(config, **{**small, "W_b": small["W_b"][back]}))
    )
    page.page.wait_for_selector("html[data-model='minus.safetensors']", state="attached")
    # The same neurons, the same phases; only the name of b is another.
    assert page.text("words-circle") == before
    assert visible(page) == set(NAMES)
    state = page.state()
    assert (
        page.text("status-answer")
        == f"{state['a']} − {state['b']} ≡ {(state['a'] - state['b']) % 23} ✓"
    )
    assert (
        "Frequencies and phases are those of the elements renamed so that a − b becomes a sum"
        in page.text("intro")
    )
    page.page.locator("input[name=show][value=difference]").check()
    assert "model and interpretation differ by at most" in page.text("words-grid")


def test_every_view_gives_its_data(visit: Any) -> None:
    page = visit("small", "#show=interpretation")
    model = small_model().collapse()
    rows = {}
    for name in NAMES:
        with page.page.expect_download() as waiting:
            page.page.locator(f"#data-{name}").click()
        rows[name] = list(
            csv.DictReader(io.StringIO(Path(waiting.value.path()).read_text(encoding="utf-8")))
        )
        assert waiting.value.suggested_filename == f"quadlens-{name}.csv"
    assert len(rows["circle"]) == 90
    assert len(rows["rectangles"]) == int(page.page.evaluate("Q.app.frame().rule.neurons.length"))
    i, state = heaviest(page), page.state()
    np.testing.assert_allclose(
        [float(row["W_L"]) for row in rows["column"]], model.W_L[:, i], atol=1e-9
    )
    pre = np.array([float(row["pre_activation"]) for row in rows["pre"]]).reshape(23, 23)
    np.testing.assert_allclose(pre, model.U_a[:, i, None] + model.U_b[None, :, i], atol=1e-9)
    logits = model.logits(state["a"])[state["b"]]
    np.testing.assert_allclose([float(row["logit"]) for row in rows["logits"]], logits, atol=1e-9)
    assert min(float(row["margin"]) for row in rows["grid"]) == pytest.approx(
        evaluate(model).min_margin, abs=1e-9
    )


# Whether a click on the middle of an element reaches it, or something that lies above it.
REACHED = """(name) => {
  const one = document.getElementById(name), { x, y, width, height } = one.getBoundingClientRect();
  const hit = document.elementFromPoint(x + width / 2, y + height / 2);
  return hit !== null && (one.contains(hit) || hit.contains(one));
}"""


@pytest.mark.parametrize("fragment", ["", "#tour=4"])
@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_dials_are_in_reach_from_the_lowest_view(
    visit: Any, size: tuple[int, int], fragment: str
) -> None:
    page = visit("pizza", fragment, viewport={"width": size[0], "height": size[1]})
    page.page.evaluate("document.getElementById('view-grid').scrollIntoView({ block: 'center' })")
    if size[0] < 820:
        page.page.locator("#controls > summary").click()
    where = page.page.evaluate("scrollY")
    assert where > 300
    for dial in ("in-a", "in-jitter", "in-uneven", "in-gain", "in-off", "reset"):
        # The controls are scrolled, the page is not.
        page.page.evaluate(
            "(name) => document.getElementById(name).scrollIntoView({ block: 'nearest' })", dial
        )
        assert page.page.evaluate(REACHED, dial), dial
        assert abs(page.page.evaluate("scrollY") - where) < 2, dial
    page.set_range("in-drop", 0.8)
    assert "0 of 3,481" not in page.text("status-wrong")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone_width_has_no_sideways_scroll(visit: Any, scheme: str) -> None:
    page = visit(
        "small",
        viewport={"width": 360, "height": 740},
        color_scheme=scheme,
        has_touch=True,
        is_mobile=True,
    )
    assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not page.page.locator("#in-a").is_visible()
    page.page.locator("#controls > summary").click()
    assert page.page.locator("#in-a").is_visible()
    page.page.locator("#tour-start").tap()
    assert page.text("tour-title").startswith("1 of 7")
    assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_dark_follows_the_system_at_once(visit: Any) -> None:
    page = visit("small", color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.page.evaluate(ground)
    page.page.emulate_media(color_scheme="dark")
    # A browser tells a page of the change when it renders the next frame, before the callbacks of
    # that frame.
    page.page.evaluate(
        "new Promise((seen) => requestAnimationFrame(() => requestAnimationFrame(seen)))"
    )
    page.settle()
    assert page.page.evaluate(ground) != light
    assert page.page.evaluate("Q.draw.colour('fg')") == "#f1f3f5"


def test_large_and_odd_models(visit: Any) -> None:
    page = visit("wide")
    assert page.text("status-wrong") == "0 of 12,769"
    rng = np.random.default_rng(1)
    square = Config.mlp(9, 6, "square")
    odd = {
        "square": Weights(square, **{n: rng.standard_normal(s) for n, s in square.shapes.items()}),
        "zero": Weights.mlp(Config.mlp(3, 1), np.zeros((3, 1)), np.zeros((3, 1)), np.zeros((1, 3))),
        "one": build_mlp(Recipe(p=7, keys=(2,), neurons=1)),
    }
    for name, model in odd.items():
        drop_file(page, f"{name}.safetensors", to_bytes(model))
        page.page.wait_for_selector(f"html[data-model='{name}.safetensors']", state="attached")
        answers = evaluate(model.collapse())
        assert page.text("status-wrong") == f"{answers.pairs - answers.correct} of {answers.pairs}"
        for step in range(1, 8):
            page.page.evaluate("(step) => Q.app.goTo(step)", step)
            assert "NaN" not in "".join(words(page).values()) + page.text("tour-words")


def test_a_run_plays_and_every_snapshot_is_a_network(visit: Any) -> None:
    page = visit("pizza")
    press, read = page.page.keyboard.press, page.page.evaluate
    assert page.text("out-time") == "the model itself"
    page.page.locator("#in-time").focus()
    press("Home")
    assert (page.state()["epoch"], page.text("out-time")) == (0, "epoch 0 of 10,000")
    rows = {one.epoch: one for one in quadlens_history("pizza").snapshots}
    wrong = [int(page.text("status-wrong").split(" of ")[0].replace(",", ""))]
    # Rounded weights answer nearly as the snapshot did, and what the panel says is of the snapshot
    # itself. Not between epochs 60 and 110, where answers turn right fastest: there the counts
    # differ by up to 87.
    for epoch in (125, 601):
        read(f"location.hash = 'epoch={epoch}'")
        page.page.locator("#out-time", has_text=f"epoch {epoch} of").wait_for()
        wrong.append(int(page.text("status-wrong").split(" of ")[0].replace(",", "")))
        assert abs(wrong[-1] - 3481 * (1 - rows[epoch].accuracy)) <= 10
        assert f"{round(3481 * (rows[epoch].certified_share or 0)):,} of 3,481" in page.text(
            "words-time"
        )
    assert wrong[0] > 3400
    assert wrong[-1] == 0
    # The dials bend the snapshot on show, and a step in time puts them back.
    page.set_range("in-arc", 0.4)
    assert not page.text("status-wrong").startswith("0 of")
    page.page.locator("#reset").click()
    assert (page.state()["epoch"], page.state()["arc"]) == (601, 0)
    page.set_range("in-arc", 0.4)
    page.page.locator("#play").focus()
    press("ArrowRight")
    assert (page.state()["epoch"], page.state()["arc"]) == (703, 0)
    press("End")
    assert page.state()["epoch"] is None
    assert (
        page.text("status-smallest")
        == f"smallest margin {evaluate(load('pizza').collapse()).min_margin:.3g}"
    )
    # Where the reader wants no motion, space still plays, from snapshot to snapshot.
    page.page.locator("#play").blur()
    press("Space")
    page.page.wait_for_selector("#play[aria-pressed=true]")
    page.page.locator("#out-time", has_text="epoch 2 of").wait_for()
    press("Space")
    page.page.wait_for_selector("#play[aria-pressed=false]")
    assert page.state()["epoch"] in rows


def test_playing_leaves_time_for_thirty_pictures_a_second(visit: Any) -> None:
    """Processor time of scripts, styles and layout, which a busy machine hardly changes."""
    page = visit("pizza", reduced_motion="no-preference")
    session = page.page.context.new_cdp_session(page.page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def seconds() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        wanted = ("ScriptDuration", "RecalcStyleDuration", "LayoutDuration")
        return sum(float(one["value"]) for one in metrics if one["name"] in wanted)

    # Each snapshot is unpacked once, when it is first shown.
    page.page.evaluate("Q.app.run().epochs.forEach((_, j) => Q.app.run().model(j))")
    before = seconds()
    frames = page.page.evaluate(
        """async () => {
          Q.app.play();
          let frames = 0;
          for (; Q.app.playing() && frames < 60; frames++)
            await new Promise((done) => requestAnimationFrame(done));
          return frames;
        }"""
    )
    assert (seconds() - before) / frames < 1 / 30


def test_a_model_without_a_run_has_no_time(visit: Any) -> None:
    page = visit("small", "#epoch=107")
    assert not page.page.locator("#time").is_visible()
    assert page.state()["epoch"] is None
    page = visit("pizza", "#epoch=107")
    assert page.text("out-time") == "epoch 107 of 10,000"
    drop_file(page, "small.safetensors", to_bytes(small_model()))
    page.page.wait_for_selector("html[data-model='small.safetensors']")
    assert not page.page.locator("#time").is_visible()
    page.page.keyboard.press("Space")
    assert page.state()["epoch"] is None
