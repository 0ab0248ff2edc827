"""Shapes and types of every function are checked while testing; tests are repeatable."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

# Before any room is imported: from here on every annotated shape is checked at run time.
install_import_hook("quadlens", "beartype.beartype")

settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("long", settings.get_profile("default"), max_examples=5000, derandomize=False)
settings.register_profile("quick", settings.get_profile("default"), max_examples=5)
settings.load_profile(os.environ.get("QUADLENS_HYPOTHESIS", "default"))

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
    """One browser for all tests of a process (Playwright runs only once in each); skipped where there is none."""
    playwright_api = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    path = next((found for name in ("chromium", "google-chrome") if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("no chromium on this machine; tools/install-browser installs it on Debian as root")
    with playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=BROWSER_FLAGS, headless=True)
        yield browser
        browser.close()
