"""The site as `make docs` has built it: whole, without a network, and usable on a phone.

Not part of `make test`: run by `make docs`, or as `pytest tests/site.py` once out/site is there.
"""

import importlib
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from steepen import Status, functions

from .browser import CHROMIUM, browser

__all__ = ["browser"]  # a fixture
ROOT = Path(__file__).parent.parent
SITE = Path(os.environ.get("SITE", ROOT / "out" / "site"))


class Page(HTMLParser):
    """What a page loads, where its links lead, and which anchors it has."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = [(name, value) for name, value in attrs if value is not None]
        self.anchors |= {value for name, value in given if name == "id" or (name, tag) == ("name", "a")}
        self.links += [value for name, value in given if (name, tag) == ("href", "a")]
        self.loads += [value for name, value in given if name == "src" or (name, tag) == ("href", "link")]


def article(path):
    return path.read_text(encoding="utf-8").partition("<article")[2].partition("</article>")[0]


@pytest.fixture(scope="module")
def pages():
    found = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in SITE.rglob("*.html")}
    assert SITE.resolve() / "index.html" in found, f"there is no site in {SITE}: make docs builds it"
    return found


def broken(pages):
    for path, page in pages.items():
        for link in page.links + page.loads:
            url = urlsplit(link)
            if url.scheme or url.netloc:
                continue
            target = (path.parent / unquote(url.path)).resolve() if url.path else path
            known = pages[target].anchors if target in pages else {unquote(url.fragment)}
            if target.name in ("explore.html", "explorer.html"):  # settings of the explorer
                known = {f"function={name}" for name in functions}
            if not target.is_file() or (url.fragment and unquote(url.fragment) not in known):
                yield f"{path.name}: {link}"


def test_every_link_leads_somewhere_nothing_is_loaded_and_a_broken_one_is_found(pages):
    assert list(broken(pages)) == []
    for link in (
        "missing.html",
        "explorer.html#function=missing",
        "index.html#missing",
        "#missing",
        "_static/missing.css",
    ):
        page = Page(f'<a href="{link}">x</a>')
        assert len(list(broken(pages | {SITE.resolve() / "planted.html": page}))) == 1
    assert {link for page in pages.values() for link in page.loads if urlsplit(link).netloc} == set()
    links = re.findall(r"\]\(([^)]+)\)", (SITE / "llms.txt").read_text(encoding="utf-8"))
    assert len(links) > 10
    assert [link for link in links if not (SITE / link).is_file()] == []


def test_every_public_name_is_in_the_reference(pages):
    inventory = importlib.import_module("sphinx.util.inventory").InventoryFile
    entries = inventory.loads((SITE / "objects.inv").read_bytes(), uri="").data
    listed = {name for kind in entries if kind.startswith("py:") for name in entries[kind]}
    names = importlib.import_module("tests.public").names()
    listed_objects = {id(value) for name, value in names.items() if name in listed}
    assert len(listed_objects) > 100  # 110 since benchmarks, and what only they use, are no part of it
    assert [name for name, value in names.items() if id(value) not in listed_objects] == []


@pytest.fixture
def tab(request):
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine's PATH")
    tab = request.getfixturevalue("browser").new_page(viewport={"width": 1200, "height": 900})
    tab.troubles = []
    tab.on("pageerror", lambda error: tab.troubles.append(str(error)))
    tab.on("console", lambda line: line.type == "error" and tab.troubles.append(line.text))
    tab.on("request", lambda request: tab.troubles.append(request.url) if "://" in request.url and
           not request.url.startswith("file:") else None)  # fmt: skip
    yield tab
    assert tab.troubles == []
    tab.close()


def test_a_word_is_found_and_its_page_opens_and_so_do_the_parts(tab):
    tab.goto((SITE / "index.html").resolve().as_uri())
    tab.fill(".sidebar-search", "artificial")
    tab.press(".sidebar-search", "Enter")
    tab.locator("#search-results li a", has_text="CGD step by step").first.click()
    assert tab.locator("h1").inner_text().startswith("CGD step by step")
    for part, title in (("Run", "CGD step"), ("Minimise", "Minimise a"), ("Train", "Train a")):
        tab.goto((SITE / "index.html").resolve().as_uri())
        tab.locator(".choices a", has_text=part).click()
        assert tab.locator("h1").inner_text().startswith(title)


def test_the_picture_and_a_part_are_on_the_first_screen(tab):
    for width, height in ((1200, 900), (390, 844)):
        tab.set_viewport_size({"width": width, "height": height})
        tab.goto((SITE / "index.html").resolve().as_uri())
        assert tab.locator("article img").first.evaluate("e => e.complete && e.naturalWidth > 0")
        for part in ("article img", ".choices a"):
            box = tab.locator(part).first.bounding_box()
            assert box["y"] + box["height"] < height, f"{part} at {width} px"


def test_a_picture_leads_to_its_file_and_the_widest_table_stays_one_on_a_desk(tab):
    tab.goto((SITE / "cgd.html").resolve().as_uri())
    pictures = tab.locator("article img:not(.shape)")
    links = pictures.evaluate_all("all => all.map((one) => one.parentElement.href)")
    assert len(links) > 3
    assert links == pictures.evaluate_all("all => all.map((one) => one.src)")
    for width, cards in ((1300, False), (390, True)):
        tab.set_viewport_size({"width": width, "height": 900})
        tab.goto((SITE / "when.html").resolve().as_uri())
        assert bool(tab.locator("article table.cards").count()) == cards


# What is wrong with a page, also inside what scrolls; code may be wider than its box. All details are opened.
LOOK = """() => {
  document.querySelectorAll("details").forEach((one) => (one.open = true));
  window.fitTables?.(); // which the page does when it is told of its new size
  const wrong = [], page = document.documentElement, range = document.createRange();
  const add = (what, one) => wrong.push(`${what}: ${one.textContent.trim().slice(0, 40)}`);
  if (page.scrollWidth > innerWidth) add("the page pans", page);
  for (const one of (document.querySelector("article, main") ?? document.body).querySelectorAll("*")) {
    const { filter, overflowX } = getComputedStyle(one);
    if (/invert|hue-rotate/.test(filter)) add("inverted", one);
    if (!one.clientWidth || one.closest("pre, svg, input, select, .away, .highlight")) continue;
    if (overflowX !== "visible" && one.scrollWidth > one.clientWidth + 1) add("too wide", one);
    if (!one.matches("td, th")) continue;
    for (const walker = document.createTreeWalker(one, NodeFilter.SHOW_TEXT); walker.nextNode(); ) {
      for (const { 0: word, index } of walker.currentNode.data.matchAll(/[\\p{L}\\d.,%±−]+/gu)) {
        range.setStart(walker.currentNode, index);
        range.setEnd(walker.currentNode, index + word.length);
        const lines = [...range.getClientRects()].filter((box) => box.width);
        if (new Set(lines.map((box) => Math.round(box.top))).size > 1) add(`${word} is split`, one);
      }
    }
  }
  return wrong;
}"""


def looked_at(tab, address):
    """Yield what is wrong with a page on a phone and on a desk, by day and by night."""
    tab.goto(address, wait_until="domcontentloaded")
    for width, scheme in ((390, "light"), (390, "dark"), (1300, "light"), (1300, "dark")):
        tab.set_viewport_size({"width": width, "height": 844})
        tab.emulate_media(color_scheme=scheme)
        yield from (f"{width} px, {scheme}: {wrong}" for wrong in tab.evaluate(LOOK))


def test_every_page_fits_splits_no_word_and_means_the_same_in_the_dark(tab, pages):
    assert [(path.name, wrong) for path in pages for wrong in looked_at(tab, path.as_uri())] == []
    cells = (
        "<td style='max-width: 2ch; overflow-wrap: anywhere'>12345<td style='white-space: pre'>" + 999 * "x"
    )
    table = f"<table><tr>{cells}</table><img src='data:,'>"
    for planted, seen in (
        (f"<div style='overflow-x: auto'>{table}</div>", "too wide"),
        (table, "the page pans"),
        (table, "12345 is split"),
        (
            "<style>@media (prefers-color-scheme: dark) { img { filter: invert(1) } }</style>" + table,
            "inverted",
        ),
    ):
        assert any(seen in wrong for wrong in looked_at(tab, f"data:text/html,<main>{planted}</main>"))


def test_the_report_and_the_explorer_are_one_click_away_and_lead_back(tab, pages):
    for path in pages:
        if path.parent.name not in ("paper", "_static") and path.name != "explorer.html":
            for end in ("explorer.html", "paper/report.html"):
                assert any(link.endswith(end) for link in pages[path].links), path.name
    for page, *links in (
        ("explorer.html", "./index.html", "./paper/report.html"),
        ("paper/explore.html", "../index.html", "report.html"),
        ("paper/report.html", "../index.html", "explore.html"),
    ):
        assert set(links) <= set(pages[SITE.resolve() / page].links)


@pytest.mark.parametrize("name", ["many", "integrations"])
def test_a_notebook_can_be_downloaded(pages, name):
    path = SITE / f"{name}.html"
    (link,) = {link for link in pages[path.resolve()].links if link.endswith(".ipynb")}
    cells = json.loads((path.parent / link).read_text(encoding="utf-8"))["cells"]
    assert sum(cell["cell_type"] == "code" for cell in cells) > 3


def test_pictures_say_what_they_show(pages):
    made = [path for path in pages if path.name != "py-modindex.html"]  # whose picture is Sphinx's
    pictures = [words for path in made for words in re.findall(r"<img[^>]*alt=\"([^\"]*)\"", article(path))]
    assert len(pictures) > 5
    assert [words for words in pictures if len(words.split()) < 4] == []


def test_every_page_is_two_clicks_away_and_every_status_has_its_section(pages):
    home = (root := SITE.resolve()) / "index.html"

    def reached(path, links):
        return {(path.parent / unquote(urlsplit(link).path)).resolve() for link in links}

    once = reached(home, pages[home].links) & set(pages)
    twice = once.union(*(reached(path, Page(article(path)).links) for path in once))
    docs = ROOT / "docs"
    made = {root / f"{path.relative_to(docs).with_suffix('')}.html" for path in docs.rglob("*.md")}
    assert made - twice == {home, root / "decisions.html"}
    assert {status.name.lower().replace("_", "-") for status in Status} <= pages[root / "status.html"].anchors
