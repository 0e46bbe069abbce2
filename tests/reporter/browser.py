"""A headless Chromium, spoken to over pipes in its own protocol (https://chromedevtools.github.io/devtools-protocol/): no driver is needed."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE_S = 60

_WITH_PIPES = """
import fcntl, os, sys
pipes = [fcntl.fcntl(int(number), fcntl.F_DUPFD_CLOEXEC, 10) for number in sys.argv[1:3]]
os.dup2(pipes[0], 3)
os.dup2(pipes[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Chromium expects to be spoken to on descriptor 3 and speaks on 4, whatever numbers they have here."""


def find_browser() -> str | None:
    """The program named by TFCNN_BROWSER, or the first Chromium on the path; None also where its pipes can't be handed over (Windows)."""
    return None if os.name == "nt" else os.environ.get("TFCNN_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page of one browser."""

    def __init__(self, program: str) -> None:
        (theirs_in, self._out), (self._in, theirs_out) = os.pipe(), os.pipe()
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        flags += [f"--user-data-dir={self._profile.name}", "--remote-debugging-pipe"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _WITH_PIPES, str(theirs_in), str(theirs_out), program, *flags],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.console: list[str] = []
        """Errors and violations of the page's policy, since the last `open`."""
        self.requests: list[str] = []
        """Addresses asked for since the last `open`."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; events that come before it are noted."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters} | ({"sessionId": self._session} if self._session else {})
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def open(self, path: Path, *, width: int = 820, dark: bool = False) -> None:
        """Load a file and wait until it has loaded."""
        self.console, self.requests = [], []
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=path.as_uri())
        while self.run("document.readyState") != "complete" or self.run("location.href") != path.as_uri():
            pass

    def run(self, script: str) -> Any:
        """Evaluate an expression in the page, outside of its policy; promises are waited for."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, allowUnsafeEvalBlockedByCSP=True)
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"]))
        return result["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """A key, by its name and its Windows key code."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, text=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def screenshot(self, path: Path) -> None:
        """The whole page, as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]))

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE_S)
        os.close(self._in)
        os.close(self._out)
        self._profile.cleanup()

    def _receive(self) -> dict[str, Any]:
        hang = threading.Timer(PATIENCE_S, self._process.kill)  # a hung browser must not hang the tests: its end closes the pipe
        hang.start()
        try:
            while b"\0" not in self._buffer:
                piece = os.read(self._in, 1 << 20)
                if not piece:
                    raise RuntimeError("the browser ended")
                self._buffer += piece
        finally:
            hang.cancel()
        message, _, self._buffer = self._buffer.partition(b"\0")
        event: dict[str, Any] = json.loads(message)
        if event.get("method") == "Log.entryAdded":
            self.console.append(event["params"]["entry"]["text"])
        elif event.get("method") == "Runtime.exceptionThrown":
            self.console.append(str(event["params"]["exceptionDetails"]))
        elif event.get("method") == "Network.requestWillBeSent":
            self.requests.append(event["params"]["request"]["url"])
        return event
