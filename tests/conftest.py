"""Shapes and types of every function are checked while testing; tests are repeatable."""

import contextlib
import functools
import inspect
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ForwardRef, Literal, get_args, get_origin

import jaxtyping
import pytest
from beartype import beartype
from hypothesis import HealthCheck, settings
from jaxtyping import AbstractArray, install_import_hook, jaxtyped


def checked(**how: Any) -> Callable[[Any], Any]:
    """Return a decorator that checks types like `jaxtyped`, with less work per call.

    Functions without shapes are checked by beartype alone, and shapes are checked once.

    Annotations that are text may name what is not known yet, or only to type checkers; those
    `jaxtyped` knows to read.
    """

    def decorate(function: Any) -> Any:
        parts = [
            part
            for hint in getattr(function, "__annotations__", {}).values()
            for part in _parts(hint)
        ]
        if not inspect.isfunction(function) or any(
            isinstance(part, (str, ForwardRef)) for part in parts
        ):
            return jaxtyped(function, **how)
        alone = beartype(function)
        if not any(isinstance(part, type) and issubclass(part, AbstractArray) for part in parts):
            return alone

        @functools.wraps(function)
        def tied(*args: Any, **kwargs: Any) -> Any:
            with jaxtyped("context"):  # in which one name is one length
                return alone(*args, **kwargs)

        return tied

    return decorate


def _parts(hint: Any) -> Iterator[Any]:
    """An annotation, what stands in its brackets, and so on."""
    yield hint
    if get_origin(hint) is not Literal:
        for one in get_args(hint):
            yield from _parts(one)


# Workers share the cores: threads of BLAS would mostly wait for each other, busily, here and in
# processes started here.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
with contextlib.suppress(ImportError):  # it is of the extra `train`
    from threadpoolctl import threadpool_limits

    threadpool_limits(int(os.environ["OPENBLAS_NUM_THREADS"]), "blas")

# Tests start some hundred processes: where nothing compiled is kept, each compiles the package
# again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Before any room is imported: from here on every annotated type and shape is checked at run time.
jaxtyping.jaxtyped = checked  # type: ignore[assignment]
IN_EXPERIMENTS = ("noise_terms", "noise_norms", "noise_bounds", "lens_exact_error", "lens_swap")
install_import_hook(["quadlens", *IN_EXPERIMENTS], "beartype.beartype")

settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile(
    "long", settings.get_profile("default"), max_examples=5000, derandomize=False
)
settings.register_profile("quick", settings.get_profile("default"), max_examples=5)
settings.load_profile(os.environ.get("QUADLENS_HYPOTHESIS", "default"))


SLOW_FILE = re.compile(r"^pytestmark = \[?pytest\.mark\.slow\b", re.MULTILINE)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--quick`: the tests of the working day."""
    parser.addoption(
        "--quick",
        action="store_true",
        help="Leave out what is slow; few examples of each property.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Few examples when it has to be quick."""
    if config.getoption("--quick"):
        settings.load_profile("quick")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore files that are slow as a whole when it has to be quick.

    They are not even read, because they load PyTorch, Ray or browsers.
    """
    if config.getoption("--quick") and collection_path.suffix == ".py":
        return True if SLOW_FILE.search(collection_path.read_text(encoding="utf-8")) else None
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Searches do not count for coverage, which doubles their time; leave out what is not quick."""
    for one in items:
        if getattr(getattr(one, "obj", None), "is_hypothesis_test", False):
            one.add_marker("no_cover")
    if config.getoption("--quick"):
        slow = [one for one in items if one.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [one for one in items if not one.get_closest_marker("slow")]


BROWSER_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Yield one browser for all tests of a process.

    Playwright runs only once in each process. Tests are skipped where there is no browser.
    """
    playwright_api = pytest.importorskip(
        "playwright.sync_api", reason="the package playwright is not installed"
    )
    path = next(
        (found for name in ("chromium", "google-chrome") if (found := shutil.which(name))), None
    )
    if path is None:
        pytest.skip(
            "no chromium on this machine; tools/install-browser installs it on Debian as root"
        )
    with playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=BROWSER_FLAGS, headless=True
        )
        yield browser
        browser.close()
