"""Headless Chromium for tests of pages, over its debugging pipe."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

CHROMIUM: Final = shutil.which("chromium") or shutil.which("google-chrome")


@contextmanager
def opened_browser(profile: Path) -> Iterator[Browser]:
    """Start Chromium with an empty profile; without it the test is skipped."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    found = Browser(profile)
    try:
        yield found
    finally:
        found.close()


class Browser:
    """Chromium over its debugging pipe: messages are JSON, each ended by a zero byte."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        command = [
            "bash", "-c", f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}', CHROMIUM, "--headless=new", "--no-sandbox",
            "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank",
        ]  # fmt: skip
        self.process = subprocess.Popen(  # noqa: S603 - the browser of this machine
            command, pass_fds=(theirs_in, theirs_out), stderr=subprocess.DEVNULL
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._rest, self._id, self._session = b"", 0, ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def call(self, method: str, **params: Any) -> Any:
        self._id += 1
        message = {"id": self._id, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._rest:
                part = os.read(self._in, 1 << 16)
                assert part, "chromium ended"
                self._rest += part
            text, _, self._rest = self._rest.partition(b"\0")
            answer = json.loads(text)
            if answer.get("id") == self._id:
                assert "error" not in answer, answer
                return answer["result"]

    def js(self, code: str) -> Any:
        result = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def open(self, page: Path | str, width: int, *, dark: bool) -> None:
        """Open a file or an address, and wait until the page is ready."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Page.enable")
        self.call("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        self.js("new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', done))")
        self.wait("document.querySelector('#verdict, #models, [data-ready]')")

    @contextmanager
    def inside_frame(self, url: str = "") -> Iterator[None]:
        """Speak to the page in a frame of another origin, which is a target of its own: the only one, or a URL's."""
        outer, self._session = self._session, ""
        try:
            targets = self.call("Target.getTargets")["targetInfos"]
            (frame,) = [
                target["targetId"]
                for target in targets
                if (target["url"] == url if url else target["type"] == "iframe")
            ]
            self._session = self.call("Target.attachToTarget", targetId=frame, flatten=True)["sessionId"]
            yield
        finally:
            self._session = outer

    def picture(self) -> bytes:
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()
        os.close(self._in)
        os.close(self._out)

    def click(self, x: float, y: float, count: int = 1) -> None:
        """Press and release the mouse at a point of the page."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for number in range(1, count + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=number)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Move the pressed mouse from one point to another, in steps."""
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=start[0], y=start[1], button="left", clickCount=1)
        for i in range(1, 5):
            x, y = (a + (b - a) * i / 4 for a, b in zip(start, end, strict=True))
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, button="left", buttons=1)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=end[0], y=end[1], button="left", clickCount=1)

    def key(self, key: str, modifiers: int = 0) -> None:
        """Press and release a key; 8 is Shift."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, modifiers=modifiers)

    def wait(self, condition: str, seconds: int = 10) -> None:
        """Wait until a condition in JavaScript holds; after so many seconds it is an error."""
        self.js(
            f"new Promise((done, fail) => {{ const end = Date.now() + {1000 * seconds}; const wait = () =>"
            f" ({condition}) ? done() : Date.now() > end ? fail(Error('in vain')) : setTimeout(wait, 10); wait(); }})"
        )
