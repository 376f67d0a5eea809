"""The explorer in headless Chromium, for all that look at it."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import steepen as st

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NEEDS_CHROMIUM = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine's PATH")

BOX = np.array([(-2.0, 2.0), (-1.5, 2.0)])


def mine(x):
    return np.sin(2 * x[0]) + x[0] ** 2 * x[1] ** 2 / 4 + (x[1] - 0.3) ** 2


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    return st.explore(mine, BOX, out=tmp_path_factory.mktemp("explorer") / "page.html", samples=21)


def opened(browser: Any, file: Path, settings: str = "function=branin", **context: Any) -> Any:
    """Open the page with these settings; it must log no error and ask for nothing but itself."""
    page = browser.new_context(**context).new_page()
    page.set_default_timeout(120_000)  # a busy machine is slow, and not wrong
    page.troubles = []
    page.on("pageerror", lambda error: page.troubles.append(str(error)))
    page.on("console", lambda message: page.troubles.append(message.text))
    page.on("request", lambda request: request.url == file.as_uri() or page.troubles.append(request.url))
    page.goto(f"{file.as_uri()}#{settings}")
    page.wait_for_function("document.getElementById('news').textContent !== ''")
    return page


@pytest.fixture(scope="module")
def page(browser, file) -> Iterator[Any]:
    page = opened(browser, file)
    yield page
    assert page.troubles == []
    page.context.close()
