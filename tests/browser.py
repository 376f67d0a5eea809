"""Headless Chromium, for tests that look at pages: they are slow, and skipped where there is none."""

import shutil

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MARKS = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine's PATH"),
]


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND"]
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield chromium
        chromium.close()


def visited(browser, file, fragment="", **context):
    """Open a page in a tab of its own; `troubles` are its errors, and all it asks for beyond itself."""
    page = browser.new_context(**context).new_page()
    page.set_default_timeout(120_000)  # a busy machine is slow, and not wrong
    page.troubles = []

    def asked(request):
        if not request.url.startswith("data:") and request.url.partition("#")[0] != file.as_uri():
            page.troubles.append(request.url)

    page.on("pageerror", lambda error: page.troubles.append(str(error)))
    page.on("console", lambda message: page.troubles.append(message.text))
    page.on("request", asked)
    page.goto(f"{file.as_uri()}{fragment}")
    return page
