"""The page in headless Chromium: no error in its console, no request, every picture drawn, and readable.

Chromium is driven through its debugging pipe (JSON between zero bytes), which needs no other package.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from steepen.paper import Report

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine's PATH")

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--remote-debugging-pipe", "about:blank",
)  # fmt: skip
# Chromium reads from descriptor 3 and writes to 4
LAUNCH = (
    "import fcntl, os, sys\n"
    "ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]\n"
    "os.dup2(ends[0], 3); os.dup2(ends[1], 4)\n"
    "os.execv(sys.argv[3], sys.argv[3:])"
)


class Browser:
    """A headless Chromium with one open tab."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        words = [CHROMIUM, *FLAGS[:-1], f"--user-data-dir={profile}", FLAGS[-1]]
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(theirs_in), str(theirs_out), *words],
            pass_fds=(theirs_in, theirs_out), stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._rest = b""
        self._number = 0
        self._session: dict[str, str] = {}
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        for part in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{part}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params, **self._session}
        os.write(self._out, json.dumps(message).encode() + b"\0")
        answer = self._wait(lambda reply: reply.get("id") == self._number)
        assert "error" not in answer, answer
        return answer["result"]

    def _wait(self, wanted: Callable[[dict[str, Any]], bool], seconds: float = 300) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while True:
            while b"\0" in self._rest:
                message, _, self._rest = self._rest.partition(b"\0")
                reply = json.loads(message)
                self.events.append(reply)
                if wanted(reply):
                    return reply
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            chunk = os.read(self._in, 1 << 20) if ready else b""
            if not chunk:
                raise TimeoutError(f"Chromium gave no answer in {seconds} s, or ended")
            self._rest += chunk

    def visit(self, page: Path) -> list[str]:
        """Open a page and say what went wrong: errors in the console, requests beyond the page itself."""
        self.events.clear()
        address = page.as_uri()
        self.call("Page.navigate", url=address)
        if not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self._wait(lambda event: event.get("method") == "Page.loadEventFired")
        # a turn of the event loop, for what was started late
        self.value("new Promise(done => setTimeout(done, 100))")
        return [trouble for event in self.events for trouble in _troubles(event, address)]

    def value(self, script: str) -> Any:
        """Evaluate a script in the page."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def close(self) -> None:
        """End the process, with all it has started."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(10)
        os.close(self._in)
        os.close(self._out)


def _troubles(event: dict[str, Any], address: str) -> Iterator[str]:
    method, params = event.get("method"), event.get("params", {})
    if method == "Runtime.exceptionThrown":
        yield f"exception: {params['exceptionDetails'].get('text')}"
    elif method == "Runtime.consoleAPICalled":
        yield f"console: {params['type']}"
    elif method == "Log.entryAdded":
        yield f"log: {params['entry']['text']}"
    elif method == "Network.requestWillBeSent":
        url = params["request"]["url"]
        if not url.startswith("data:") and url != address:
            yield f"request: {url}"
    elif method == "Network.loadingFailed":
        yield f"failed: {params['errorText']}"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    chromium = Browser(tmp_path_factory.mktemp("profile"))
    yield chromium
    chromium.close()


@pytest.mark.parametrize(
    ("body", "trouble"),
    [
        ("<script>undefinedName()</script>", "exception: Uncaught"),
        ("<script>setTimeout(() => undefinedName())</script>", "exception: Uncaught"),
        ("<script>console.error('no')</script>", "console: error"),
        ("<img src='https://example.org/a.png'>", "request: https://example.org/a.png"),
        ("<link rel=stylesheet href='//example.org/a.css'>", "request: file://example.org/a.css"),
        (
            "<div style='background: url(http://example.org/b.png)'>x</div>",
            "request: http://example.org/b.png",
        ),
        ("<script>fetch('http://example.org/c')</script>", "request: http://example.org/c"),
    ],
)
def test_trouble_is_seen(body: str, trouble: str, browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(f"<!DOCTYPE html><html><head><title>t</title></head><body>{body}</body></html>")
    assert trouble in browser.visit(page)


def test_a_file_beside_the_page_is_seen(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "a.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (tmp_path / "page.html").write_text("<!DOCTYPE html><img src='a.svg'>")
    assert browser.visit(tmp_path / "page.html") == [f"request: {(tmp_path / 'a.svg').as_uri()}"]


def test_the_page_opens_alone_and_without_error(paper: Report, browser: Browser) -> None:
    assert browser.visit(paper.page) == []
    figures = [name for item in paper.items for name in item.captions]
    # decode() fails for a picture that cannot be drawn
    widths = browser.value(
        "Promise.all([...document.images].map(i => i.decode().then(() => i.naturalWidth)))"
    )
    assert len(widths) == len(figures)
    assert min(widths) > 0
    broken = (
        "[...document.querySelectorAll('a[href^=\"#\"]')].filter(a => !document.querySelector(a.hash)).length"
    )
    assert browser.value(broken) == 0


@pytest.fixture
def screen(browser: Browser) -> Iterator[Callable[[int], None]]:
    """Set the width of the screen; it is taken back in the end."""

    def set_width(width: int) -> None:
        browser.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )

    yield set_width
    browser.call("Emulation.clearDeviceMetricsOverride")


@pytest.mark.parametrize("width", [390, 1200])
def test_the_first_picture_is_on_the_first_screen(
    width: int, paper: Report, browser: Browser, screen: Callable[[int], None]
) -> None:
    screen(width)
    browser.visit(paper.page)
    assert browser.value("document.querySelector('figure img').getBoundingClientRect().bottom") <= 900


@pytest.mark.parametrize("width", [390, 1200])
def test_letters_in_pictures_are_readable(
    width: int, paper: Report, browser: Browser, screen: Callable[[int], None]
) -> None:
    """They are ten points in the file, and small ones eight; a pixel is three quarters of a point."""
    screen(width)
    browser.visit(paper.page)
    script = """Promise.all([...document.images].map(i => i.decode()
        .then(() => [i.closest('figure').id, 10 / 0.75 * i.clientWidth / i.naturalWidth])))"""
    sizes = dict(browser.value(script))
    assert min(sizes.values()) >= 9.5, sizes
    assert max(sizes.values()) <= 24, sizes


def test_the_page_is_small(paper: Report) -> None:
    assert paper.page.stat().st_size < 3_000_000


@pytest.mark.parametrize("width", [360, 1200])
def test_the_page_fits_the_screen(
    width: int, paper: Report, browser: Browser, screen: Callable[[int], None]
) -> None:
    screen(width)
    browser.visit(paper.page)
    browser.value("document.querySelectorAll('details').forEach(part => part.open = true)")
    assert browser.value("document.documentElement.scrollWidth") <= width


# the contrast of WCAG, for the text, the links and the verdicts against the ground
CONTRAST = """(() => {
  const light = colour => {
    const [r, g, b] = colour.match(/[0-9.]+/g).map(c => c / 255)
      .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = light(getComputedStyle(document.documentElement).backgroundColor);
  const texts = [...document.querySelectorAll('p, a, b, li, td, th, dt, dd, summary, figcaption, h1, h2')];
  return Math.min(...texts.map(text => {
    const ink = light(getComputedStyle(text).color);
    return (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
  }));
})()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_readable_by_day_and_night(scheme: str, paper: Report, browser: Browser) -> None:
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.call("Emulation.setEmulatedMedia", features=[feature])
    browser.visit(paper.page)
    assert browser.value("matchMedia('(prefers-color-scheme: dark)').matches") == (scheme == "dark")
    assert browser.value(CONTRAST) >= 4.5
    browser.call("Emulation.setEmulatedMedia", features=[])
