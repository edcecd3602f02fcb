"""Chromium, which tests of pages drive over its debugging pipe."""

import itertools
import json
import os
import shutil
import subprocess
import time

import pytest

from processes import patience

NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """Chromium without a window, driven over its debugging pipe; `flags` are more of its own."""

    def __init__(self, profile, *flags):
        self._in, self._to = os.pipe()
        self._back, self._out = os.pipe()
        self._numbers = itertools.count(1)
        self._rest = b""
        command = [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--no-first-run", "--disable-background-networking", "--remote-debugging-pipe",
            f"--user-data-dir={profile}", *flags, "about:blank",
        ]  # fmt: skip

        def ends():  # where Chromium expects them
            os.dup2(os.dup(self._in), 3)
            os.dup2(os.dup(self._out), 4)

        self._process = subprocess.Popen(
            command, close_fds=False, preexec_fn=ends, stderr=subprocess.DEVNULL
        )
        targets = self._call("Target.getTargets", {})["targetInfos"]
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        attach = {"targetId": page, "flatten": True}
        self._session = {"sessionId": self._call("Target.attachToTarget", attach)["sessionId"]}
        self.errors = []  # of scripts, and what the console or the log of the browser says of them
        for domain in ("Runtime", "Log"):
            self.call(f"{domain}.enable")

    def _call(self, method, params, **more):
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params, **more}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._rest:
                self._rest += os.read(self._back, 1 << 20)
            line, self._rest = self._rest.split(b"\0", 1)
            answer = json.loads(line)
            event = answer.get("params", {})
            levels = (event.get("type"), event.get("entry", {}).get("level"))
            if answer.get("method") == "Runtime.exceptionThrown" or "error" in levels:
                self.errors.append(event)
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def call(self, method, **params):
        return self._call(method, params, **self._session)

    def evaluate(self, text):
        answer = self.call(
            "Runtime.evaluate", expression=text, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, text):
        """Wait until an expression is true, and return its value."""
        end = time.monotonic() + patience(60)
        value = self.evaluate(text)
        while not value:
            assert time.monotonic() < end, self.evaluate("document.body.innerText")
            time.sleep(0.02)
            value = self.evaluate(text)
        return value

    def go(self, address, *, width=1280, height=900, scheme="light"):
        """Load a page of that size anew, also where only what follows the # is another."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=address)

    def open(self, address, *, width=1280, scheme="light"):
        """Load a page of `maxatk view`, and wait until it shows something."""
        self.go(address, width=width, scheme=scheme)
        self.until("document.getElementById('place')?.dataset.page")

    def data_of(self, page, **settings):
        """Load a file, and return what its script writes into the data `found` of the body."""
        self.go(page, **settings)
        return json.loads(self.until("document.body?.dataset.found"))

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)

    def close(self):
        self._process.kill()
        self._process.wait()
        for end in (self._in, self._out, self._to, self._back):
            os.close(end)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    yield from opened(tmp_path_factory)


@pytest.fixture(scope="module")
def lone_browser(tmp_path_factory):
    """A browser for which no name of a host has an address."""
    yield from opened(tmp_path_factory, "--host-resolver-rules=MAP * ~NOTFOUND")


def opened(tmp_path_factory, *flags):
    if BROWSER is None:
        pytest.skip("no Chromium on this machine")
    browser = Browser(tmp_path_factory.mktemp("profile"), *flags)
    yield browser
    browser.close()
