"""Open the explorer in a real browser and keep all its complaints.

The browser is Debian's Chromium, through Playwright.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quadlens.network.bundled import data_directory, load
from quadlens.network.config import Config, Softmax
from quadlens.network.handmade import Recipe, build_mlp
from quadlens.network.task import task_by_name
from quadlens.network.weights import Weights
from quadlens.show.explorer import build_page
from quadlens.training.played_run import read_run

READY = "html[data-ready=true][data-settled=true]"
# Generous: the machine that runs the tests may be busy, and conditions are waited for, not times.
PATIENCE = 60_000


def small_model() -> Weights:
    """A hand-built model that needs no time: p = 23, 90 neurons, a little noise."""
    return build_mlp(Recipe(p=23, keys=(2, 5, 9), neurons=90, jitter=0.05, noise=0.02, seed=3))


def softmax_model() -> Weights:
    """Random weights, two heads that look at three tokens, a mixture of softmax and a constant."""
    config = Config(
        p=11,
        d_model=8,
        d_mlp=12,
        n_heads=2,
        d_head=4,
        d_vocab=12,
        d_vocab_out=11,
        n_ctx=3,
        attention=(0.1, 0.1, 0.1),
        read_position=2,
        softmax=Softmax(scale=0.7, divisor=2.0),
    )
    rng = np.random.default_rng(5)
    return Weights(
        config, **{name: rng.standard_normal(shape) for name, shape in config.shapes.items()}
    )


def group_model() -> Weights:
    """Random weights, asked for products of permutations."""
    config, rng = Config.mlp(6, 14, task=task_by_name("S3")), np.random.default_rng(6)
    return Weights(
        config, **{name: rng.standard_normal(shape) for name, shape in config.shapes.items()}
    )


@dataclass
class Opened:
    """A page with what it printed and asked for.

    Attributes:
        page: Playwright's page.
        complaints: Console messages and uncaught errors.
        requests: Addresses asked for, other than the page itself.
    """

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def settle(self) -> None:
        """Wait until every view shows the present state."""
        self.page.wait_for_selector(READY, state="attached", timeout=PATIENCE)

    def text(self, name: str) -> str:
        """Text of an element by id."""
        self.settle()
        return str(self.page.locator(f"#{name}").text_content())

    def state(self) -> dict[str, Any]:
        """The page's state."""
        self.settle()
        found: dict[str, Any] = self.page.evaluate("Q.app.state()")
        return found

    def set_range(self, name: str, value: float) -> None:
        """Move a slider as a person does: the value, then its input event."""
        self.page.locator(f"#{name}").evaluate(
            """(e, v) => {
              e.value = v;
              for (const name of ["input", "change"]) """
            """e.dispatchEvent(new Event(name, { bubbles: true }));
            }""",
            value,
        )
        self.settle()


def drop_file(page: Opened, name: str, content: bytes) -> None:
    """Drop a file on the page."""
    page.page.evaluate(
        """([name, bytes]) => {
          const transfer = new DataTransfer();
          transfer.items.add(new File([new Uint8Array(bytes)], name));
          for (const kind of ['dragover', 'drop'])
            dispatchEvent(new DragEvent(kind, """
        """{ dataTransfer: transfer, cancelable: true, bubbles: true }));
        }""",
        [name, list(content)],
    )


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of the bundled models and of small ones, by name."""
    folder = tmp_path_factory.mktemp("explorer")
    models: dict[str, Weights] = {
        "pizza": load("pizza"),
        "mismatched": load("mismatched"),
        "small": small_model(),
        "softmax": softmax_model(),
        "group": group_model(),
        "wide": build_mlp(Recipe(p=113, keys=(3, 17, 40, 52), neurons=256)),
    }
    paths = {}
    for name, model in models.items():
        paths[name] = folder / f"{name}.html"
        run = read_run(data_directory() / "pizza.run") if name == "pizza" else None
        paths[name].write_text(build_page(model, name, run), encoding="utf-8")
    return paths


@pytest.fixture
def visit(chromium: Any, pages: dict[str, Path]) -> Iterator[Any]:
    """Yield visit(name or file, fragment, **context options), which opens a page.

    It waits until the page is ready. At the end nothing may have gone wrong.

    A page that is not to get ready (`ready=False`) is opened, and the test reads and clears its
    complaints.
    """
    opened: list[tuple[Any, Opened]] = []

    def go(
        name: str | Path = "small", fragment: str = "", script: bool = True, **options: Any
    ) -> Opened:
        ready = options.pop("ready", script)
        context = chromium.new_context(
            viewport=options.pop("viewport", {"width": 1440, "height": 900}),
            java_script_enabled=script,
            reduced_motion=options.pop("reduced_motion", "reduce"),
            **options,
        )
        found = Opened(context.new_page())
        opened.append((context, found))
        found.page.set_default_timeout(PATIENCE)
        found.page.on("console", lambda message: found.complaints.append(message.text))
        found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
        found.page.on("request", lambda request: found.requests.append(request.url))
        found.page.goto((name if isinstance(name, Path) else pages[name]).as_uri() + fragment)
        if ready:
            found.page.wait_for_selector(READY, timeout=PATIENCE)
        return found

    yield go
    complaints = [words for _, one in opened for words in one.complaints]
    network = [
        url
        for _, one in opened
        for url in one.requests
        if not url.startswith(("file:", "data:", "blob:"))
    ]
    for context, _ in opened:
        context.close()
    assert complaints == []
    assert network == []
