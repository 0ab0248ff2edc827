"""Time a dragged phase and the first interactive frame of the explorer, in Chromium.

python benchmarks/explorer.py [MODEL] [--moves 200]
"""

import argparse
import json
import shutil
import statistics
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from quadlens.network import load
from quadlens.show.explorer import build_page

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
READY = "html[data-ready=true][data-settled=true]"
# A drag of the heaviest neuron around the circle, one pointer move a frame, as a mouse would give
# them.
DRAG = """async (moves) => {
  const next = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  const i = Q.app.frame().chosen;
  Q.app.timings.length = 0;
  for (let j = 0; j < moves; j++) {
    Q.app.move(i, -3 + (6 * j) / moves);
    await next();
  }
  const inside = [...Q.app.timings];
  Q.app.settle();
  return inside;
}"""


def measure(page: Page, moves: int) -> dict[str, float]:
    """Drag, and read both the page's own clock and Chromium's count of script time."""
    session = page.context.new_cdp_session(page)
    # Thread ticks count the page's own processor time, so that a busy machine does not blur the
    # figure.
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def script_seconds() -> float:
        return {x["name"]: x["value"] for x in session.send("Performance.getMetrics")["metrics"]}[
            "ScriptDuration"
        ]

    page.evaluate(DRAG, 30)  # Let the compiler warm up, as a first touch of the mouse does.
    before = script_seconds()
    frames = sorted(page.evaluate(DRAG, moves))
    total = script_seconds() - before
    return {
        "frames": len(frames),
        "script_ms_median": statistics.median(frames),
        "script_ms_p95": frames[int(0.95 * len(frames))],
        "script_ms_worst": frames[-1],
        "script_cpu_ms_mean": 1000 * total / len(frames),
    }


def main() -> None:
    """Print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", default="pizza")
    parser.add_argument("--moves", type=int, default=200)
    options = parser.parse_args()
    model = load(options.model)
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "page.html"
        path.write_text(build_page(model, options.model), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS, headless=True)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        opened = []
        for _ in range(5):
            page.goto(path.as_uri())
            page.wait_for_selector(READY)
            opened.append(
                page.evaluate("performance.getEntriesByName('quadlens-ready')[0].startTime")
            )
        result = {
            "p": model.config.p,
            "neurons": model.config.d_mlp,
            "page_bytes": path.stat().st_size,
            "interactive_ms_median": statistics.median(opened),
            **measure(page, options.moves),
        }
        browser.close()
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
