"""The site as `make docs` has built it: whole, without a network, and usable on a phone.

Not part of `make test`: run by `make docs`, or as `pytest tests/site.py` once out/site is there.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from steepen._tools.optional import load

ROOT = Path(__file__).parent.parent
SITE = Path(os.environ.get("SITE", ROOT / "out" / "site"))
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Page(HTMLParser):
    """What a page loads, where its links lead, and which anchors it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value)
            elif name == "href" and tag == "a":
                self.links.append(value)
            elif name == "src" or (name == "href" and tag == "link"):
                self.loads.append(value)


@pytest.fixture(scope="module")
def pages() -> dict[Path, Page]:
    found = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in SITE.rglob("*.html")}
    assert SITE.resolve() / "index.html" in found, f"there is no site in {SITE}: make docs builds it"
    return found


def broken(pages: dict[Path, Page]) -> Iterator[str]:
    """Yield each link within the site that leads to no file, or to no anchor of it."""
    for path, page in pages.items():
        for link in page.links + page.loads:
            url = urlsplit(link)
            if url.scheme or url.netloc:
                continue
            target = (path.parent / unquote(url.path)).resolve() if url.path else path
            known = pages[target].anchors if target in pages else {unquote(url.fragment)}
            if not target.is_file() or (url.fragment and unquote(url.fragment) not in known):
                yield f"{path.name}: {link}"


def test_every_link_leads_somewhere(pages):
    assert list(broken(pages)) == []


@pytest.mark.parametrize("link", ["missing.html", "index.html#missing", "#missing", "_static/missing.css"])
def test_a_broken_link_is_found(pages, link):
    page = Page(f'<a href="{link}">x</a>')
    assert len(list(broken(pages | {SITE.resolve() / "planted.html": page}))) == 1


def test_no_page_loads_anything_from_elsewhere(pages):
    away = {link for page in pages.values() for link in page.loads if urlsplit(link).netloc}
    assert away == set()


def test_every_public_name_is_in_the_reference(pages):
    inventory = importlib.import_module("sphinx.util.inventory").InventoryFile
    entries = inventory.loads((SITE / "objects.inv").read_bytes(), uri="").data
    listed = {name for kind in entries if kind.startswith("py:") for name in entries[kind]}
    names = importlib.import_module("tests.test_public").NAMES
    listed_objects = {id(value) for name, value in names.items() if name in listed}
    assert len(listed_objects) > 200
    assert [name for name, value in names.items() if id(value) not in listed_objects] == []


def test_the_file_for_language_models_names_pages_that_exist():
    links = re.findall(r"\]\(([^)]+)\)", (SITE / "llms.txt").read_text(encoding="utf-8"))
    assert len(links) > 10
    assert [link for link in links if not (SITE / link).is_file()] == []


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine's PATH")
    playwright = load("playwright.sync_api", "the tests of the site", extra="docs")
    with playwright.sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def tab(browser):
    tab = browser.new_page(viewport={"width": 1200, "height": 900})
    tab.troubles = []
    tab.on("pageerror", lambda error: tab.troubles.append(str(error)))
    tab.on("console", lambda line: line.type == "error" and tab.troubles.append(line.text))
    tab.on("request", lambda request: tab.troubles.append(request.url) if "://" in request.url and
           not request.url.startswith("file:") else None)  # fmt: skip
    yield tab
    assert tab.troubles == []
    tab.close()


def test_a_word_is_found_and_its_page_opens(tab):
    tab.goto((SITE / "index.html").resolve().as_uri())
    tab.fill(".sidebar-search", "artificial")
    tab.press(".sidebar-search", "Enter")
    tab.locator("#search-results li a", has_text="Look at your landscape").first.click()
    assert tab.locator("h1").inner_text().startswith("Look at your landscape")


def test_the_doors_open(tab):
    for door, title in (("Minimise", "From SciPy"), ("Train", "Train a network"), ("Read", "The paper")):
        tab.goto((SITE / "index.html").resolve().as_uri())
        tab.locator(".doors a", has_text=door).click()
        assert tab.locator("h1").inner_text().startswith(title)


def test_the_picture_and_a_door_are_on_the_first_screen(tab):
    for width, height in ((1200, 900), (390, 844)):
        tab.set_viewport_size({"width": width, "height": height})
        tab.goto((SITE / "index.html").resolve().as_uri())
        assert tab.locator("article img").first.evaluate("e => e.complete && e.naturalWidth > 0")
        for part in ("article img", ".doors a"):
            box = tab.locator(part).first.bounding_box()
            assert box["y"] + box["height"] < height, f"{part} at {width} px"


def test_no_page_scrolls_sideways_on_a_phone(tab, pages):
    tab.set_viewport_size({"width": 390, "height": 844})
    wide = []
    for path in pages:
        if path.name != "report.html":  # tests/paper looks at that one
            tab.goto(path.as_uri(), wait_until="domcontentloaded")
            if tab.evaluate("document.documentElement.scrollWidth") > 390:
                wide.append(path.name)
    assert wide == []


def test_dark_and_light_follow_the_system(tab):
    grounds = []
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        tab.goto((SITE / "index.html").resolve().as_uri())
        red, green, blue = re.findall(
            r"\d+", tab.evaluate("getComputedStyle(document.body).backgroundColor")
        )[:3]
        grounds.append(int(red) + int(green) + int(blue))
    assert grounds[0] > 700
    assert grounds[1] < 150
