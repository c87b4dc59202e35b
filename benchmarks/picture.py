"""The interactive picture in headless Chromium: seconds to open, frames a second while it moves, size of the page.

usage: python benchmarks/picture.py [--sizes 500 2000 10000] [--repeats N]

The net has blocks with lines that pass them, and branches, in random order; its export is beside it.
"made in" is processor time of Python, "open" from the navigation to the first drawing, "whole" until all is laid out;
behind the slash is the processor time of the page's thread, which other work on the machine does not change much.
Frames are those of a view that moves all the time: as it opens, with all of the net in view, and with all of it
unfolded. The peer is a page with an empty canvas of the same size, cleared in every frame, in the same browser.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import numpy as np
from _measure import Spread
from support.browser import CHROMIUM, Browser, opened_browser

from caffe2_backend import picture_html
from caffe2_bridge import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

SECONDS: Final = 1.5  # of a movement
PANES: Final = "document.querySelector('[data-picture]').app.panes"
EMPTY: Final = (
    "<!doctype html><body data-ready=0><canvas width=1440 height=800></canvas><script>"
    "const context = document.querySelector('canvas').getContext('2d');</script>"
)


def net(length: int) -> Model:
    """Return a net of so many operators: blocks with lines that pass them, branches and chains, in random order."""
    random = np.random.default_rng(length)
    ops: list[OperatorDef] = []

    def add(kind: str, *inputs: str) -> str:
        ops.append(
            OperatorDef(type=kind, input=inputs, output=[f"{kind.lower()}_{len(ops)}{'x' * random.integers(9)}"])
        )
        return str(ops[-1].output[0])

    blob = "data"
    while len(ops) < length:
        branches = [blob] * int(random.choice((1, 2, 2, 4)))
        for _ in range(random.integers(1, 4)):
            branches = [add(str(random.choice(("Relu", "Sigmoid", "Tanh", "Exp"))), branch) for branch in branches]
        if len(branches) == 1:
            branches.append(blob)
        blob = add("Sum", *branches)
    return Model.of(NetDef(name="net", op=ops, external_output=[blob]))


def frames(browser: Browser, step: str) -> float:
    """Return how many frames a second are drawn while ``step``, in JavaScript, runs before each."""
    counted = browser.js(
        "new Promise(done => { let count = 0; const start = performance.now(); const next = now => {"
        f" if (now - start > {1000 * SECONDS}) done(1000 * count / (now - start));"
        f" else {{ {step}; count += 1; requestAnimationFrame(next); }} }}; requestAnimationFrame(next); }})"
    )
    return float(counted)


def pan(browser: Browser) -> float:
    """Return the frames a second of all panes of the picture while they move down and up."""
    return frames(browser, f"{PANES}.forEach(pane => pane.pan(0, count % 40 < 20 ? -9 : 9))")


def elapsed(browser: Browser) -> list[float]:
    """Return the seconds since the navigation: of the clock, and of processor time."""
    metrics = {each["name"]: each["value"] for each in browser.call("Performance.getMetrics")["metrics"]}
    return [browser.js("performance.now()") / 1000, metrics["TaskDuration"]]


def measure(browser: Browser, path: Path) -> tuple[list[float], list[float]]:
    """Open a page; return the seconds until it is drawn and is whole, and the frames a second of three views."""
    browser.open(path, 1440, dark=False)  # waits until it is drawn
    seconds = elapsed(browser)
    browser.wait(f"{PANES}.every(pane => !pane.scene.partial)")
    seconds += elapsed(browser)
    rates = [pan(browser)]
    browser.js(f"{PANES}.forEach(pane => pane.fit())")
    rates.append(pan(browser))
    browser.js("[...document.querySelectorAll('button')].find(b => b.textContent === 'Unfold').click()")
    browser.wait(f"{PANES}.every(pane => !pane.scene.partial)")
    rates.append(pan(browser))
    return seconds, rates


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[500, 2000, 10_000], help="operators; default %(default)s"
    )
    parser.add_argument("--repeats", type=int, default=3, help="times that a page is opened; default %(default)s")
    options = parser.parse_args()
    if CHROMIUM is None:
        sys.exit("chromium is not installed")
    print(
        "operators     page  made in      open in       whole in   frames a second: opened  all in view  unfolded  peer"
    )
    with tempfile.TemporaryDirectory() as folder, opened_browser(Path(folder, "profile")) as browser:
        browser.call("Performance.enable", timeDomain="threadTicks")
        peer = Path(folder, "empty.html")
        peer.write_text(EMPTY, encoding="utf-8")
        for size in options.sizes:
            path = Path(folder, f"{size}.html")
            start = time.process_time()
            path.write_text(picture_html(net(size), inputs={"data": ("float32", ["N", 8])}), encoding="utf-8")
            made = time.process_time() - start
            runs = [measure(browser, path) for _ in range(options.repeats)]
            browser.open(peer, 1440, dark=False)
            empty = frames(browser, "context.clearRect(0, 0, 1440, 800)")
            opened, open_cpu, whole, whole_cpu = (
                Spread.of(each).median for each in zip(*(seconds for seconds, _ in runs), strict=True)
            )
            rates = [Spread.of(each).median for each in zip(*(rates for _, rates in runs), strict=True)]
            print(
                f"{size:9,} {path.stat().st_size / 1e6:5.2f} MB {made:6.2f} s {opened:5.2f}/{open_cpu:.2f} s"
                f" {whole:6.2f}/{whole_cpu:.2f} s {rates[0]:25.0f} {rates[1]:12.0f} {rates[2]:9.0f} {empty:5.0f}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
