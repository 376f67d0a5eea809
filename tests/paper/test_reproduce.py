"""The runner: files, page and bad input, on two small items; and the whole paper once."""

import base64
import csv
import importlib
import re
import signal
import sys
import xml.etree.ElementTree as ET
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

import steepen as st
from steepen.cli import main
from steepen.paper import reproduce
from steepen.paper._items import Claim, Item, Outcome, Picture, Table
from steepen.paper._runs import minimize

RUNNER = importlib.import_module("steepen.paper._reproduce")
REPORT = importlib.import_module("steepen.paper.report")


def picture(k):
    figure = Figure((2, 1))
    figure.add_axes((0, 0, 1, 1)).plot([0, k], [0, 1])
    return figure


def first():
    given = {"step": 0.05, "trace": "x", "budget": st.Budget(grads=6)}
    runs = {m: st.minimize(st.functions["booth"], [0.0, 0.0], method=m, **given) for m in ("gd", "cgd-fd")}
    rows = [('a, "b" <c>', np.float64(1) / 3, 2, True), ("ü", np.inf, 3, None)]
    return Outcome(
        claims=[
            Claim("first step of GD, %", "37.53", "37.53", True),
            Claim("κ(B) is positive", "> 0", "> 1", agrees=False, known="limit"),
        ],
        tables={"first-table": Table(("function", "x<y", "n", "ok"), rows, "A table")},
        pictures={
            "first-paths": Picture(picture(1), "Paths with 'quotes' & a <tag>"),
            "first-again": Picture(picture(2), "Again"),
        },
        traces={f"first-{name}": run.trace for name, run in runs.items()},
        found=["We saw <it>.", "And more."],
        notes=["Mind the gap."],
        settings={"start": np.zeros(2), "α": 0.05, "all": {"booth": {"r": -0.1234567890123}}},
    )


@pytest.fixture
def items(monkeypatch):
    """Put two small items in place of the paper's; `calls` are those that ran."""
    made = SimpleNamespace(calls=[], hook=lambda: None, agrees=True, known=None)

    def run(name):
        made.calls.append(name)
        if name == "first":
            return first()
        made.hook()
        claims = [Claim("second", "1", "1", made.agrees, known=made.known)]
        return Outcome(claims=claims, tables={"second-t": Table(("k",), [(1,), (2,)])})

    words = {
        "first": ("A first <item> & more", "Section 1", "A < B & C.", "It is the «key» to it."),
        "second": ("A second item", "Section 2", "D.", "E."),
    }
    two = {name: Item(name, *said, run=partial(run, name)) for name, said in words.items()}
    monkeypatch.setattr(RUNNER, "ITEMS", two)
    return made


class Page(HTMLParser):
    """What is in a page: pictures by figure, tables by id, every attribute, all text."""

    def __init__(self, path):
        super().__init__()
        self.pictures, self.tables, self.tags, self.open, self.text = {}, {}, [], [], ""
        self.feed(path.read_text("utf-8"))
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        values = {name: value or "" for name, value in attrs}
        self.tags.append((tag, values))
        if tag not in {"meta", "link", "img", "source", "li"}:
            self.open.append(tag)
        if tag == "figure":
            self.picture = self.pictures[values["id"]] = {}
        elif tag in {"source", "img"}:
            self.picture.update(values)
        elif tag == "table":
            self.rows = self.tables[values.get("id", values.get("class", ""))] = []
        elif tag == "tr":
            self.rows.append([])
        elif tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data.replace("\xa0", " ")  # numbers stay with their signs
        if self.open and self.open[-1] in {"td", "th", "span", "a"} and "tr" in self.open:
            self.rows[-1][-1] += data


def drawn(svg):
    """Return what a picture shows: every element that is drawn, with its text."""
    elements = (e for e in ET.fromstring(svg).iter() if "svg" in e.tag and "metadata" not in e.tag)
    return [(element.tag, (element.text or "").strip()) for element in elements]


def check_rows(columns, rows, lines, shown):
    """Hold a table of the page, and its file, against the values: the file has every digit."""
    assert shown[0] == lines[0] == list(columns)
    words = {"None": "–", "True": "yes", "False": "no"}
    for line, row, seen in zip(lines[1:], rows, shown[1:], strict=True):
        for text, value, cell in zip(line, row, seen, strict=True):
            if isinstance(value, float):
                assert float(text) == value
                assert float(cell.replace("−", "-")) == pytest.approx(value, rel=1e-4, abs=1e-13)
            else:
                assert text == ("" if value is None else str(value))
                assert cell == (value if isinstance(value, str) else words.get(str(value), str(value)))


def check_files(report):
    """Hold the folder against the items: every figure, table and trace, in its file and in the page."""
    folder, page = report.folder, Page(report.page)
    listed = set()
    assert set(page.pictures) == {name for outcome in report.made.values() for name in outcome.pictures}
    for item, outcome in report.made.items():
        for name, (_, caption) in outcome.pictures.items():
            for place, file in (("src", name), ("srcset", f"{name}-narrow")):
                kind, _, data = page.pictures[name][place].partition(";base64,")
                assert kind == "data:image/svg+xml"
                svg = (folder / "figures" / f"{file}.svg").read_text("utf-8")
                assert drawn(base64.b64decode(data).decode()) == drawn(svg)
            assert (folder / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
            listed |= {f"figures/{name}{end}" for end in (".png", ".svg", "-narrow.svg")}
            assert page.pictures[name]["alt"] == caption
            assert caption in page.text
        for text in (*item[1:5], *outcome.found, *outcome.notes):
            assert re.sub("[«»]", "", text) in page.text
        for name in outcome.traces:
            listed.add(f"traces/{name}.csv")
            assert (folder / "traces" / f"{name}.csv").read_text().startswith("k,f,gnorm,")
        for name, table in outcome.tables.items():
            listed.add(f"tables/{name}.csv")
            with (folder / "tables" / f"{name}.csv").open(newline="", encoding="utf-8") as file:
                check_rows(table.columns, table.rows, list(csv.reader(file)), page.tables[name])
    claims = [row for row in page.tables["claims"][1:] if len(row) == 4]
    assert [row[:3] for row in claims] == [[c.text, c.said, c.ours] for c in report.claims]
    for row, claim in zip(claims, report.claims, strict=True):
        assert row[3].endswith(claim.verdict)
    made = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert made == {"report.html", "explore.html", "results.jsonl", *listed}


def check_alone(page):
    """See that the page loads nothing: no script, no style sheet, no address outside it."""
    assert not {"script", "iframe", "object", "embed", "base"} & {tag for tag, _ in page.tags}
    for tag, attrs in page.tags:
        for name in ("src", "srcset", "data", "poster"):
            assert attrs.get(name, "data:").startswith("data:")
        assert "url(" not in attrs.get("style", "")
        if tag == "link":
            assert attrs["href"] == "data:,"
        assert "//" not in attrs.get("href", "")
    style = page.text.partition("@media print")[0]
    assert "url(" not in style
    assert "@import" not in style


def test_every_picture_and_table_is_in_its_file_and_in_the_page(items, tmp_path):
    report = reproduce(tmp_path / "out")
    check_files(report)
    check_alone(Page(report.page))
    assert items.calls == ["first", "second"]
    assert report.holds
    text = Page(report.page).text
    for words in ("start(0, 0)", "α0.05", "boothr = −0.1234567890123", "numpy" + np.__version__):
        assert words in text
    assert "2 of 3 claims agree." in text
    assert "Recovered, not published" in text
    for slip in ("κ(B) > 1", "c + its cost ≤ T", "b + 1"):
        assert slip in text


def test_only_and_order(items, tmp_path):
    report = reproduce(tmp_path / "out", only=["second"])
    assert items.calls == ["second"]
    assert "Not run: first." in Page(report.page).text
    both = reproduce(tmp_path / "out", only=" second, first ")
    assert [item.name for item in both.made] == ["first", "second"]
    assert items.calls == ["second", "first", "second"]
    check_files(both)


def _press_ctrl_c_inside_minimize():
    """Press it where `minimize` would make a result of it."""
    booth, calls = st.functions["booth"], []

    def fun(x):
        calls.append(x)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return booth(x)

    minimize(fun, [0.0, 0.0], method="gd", jac=booth.grad, step=0.05)


def test_an_interrupt_ends_all_and_what_was_there_can_be_replaced(items, tmp_path, capsys):
    out = tmp_path / "out"
    items.hook = _press_ctrl_c_inside_minimize
    with pytest.raises(KeyboardInterrupt):
        reproduce(out)
    assert items.calls == ["first", "second"]
    assert main(["reproduce", "--out", str(out)]) == 1
    assert capsys.readouterr().err.endswith("steepen: interrupted\n")
    items.hook = lambda: 1 // 0
    with pytest.raises(RuntimeError, match="the item second failed: integer division"):
        reproduce(out)
    items.hook = lambda: None
    check_files(reproduce(out))


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("out", "mine", "is a file"),
        ("out/thesis.tex", "mine", "holds something else"),
        ("out/results.jsonl", '{"my": "training log"}', "holds something else"),
        ("out/results.json", '{"made_by": "steepen reproduce"}', "holds something else"),  # before 0.1.0
    ],
)
def test_folders_that_cannot_be_used(name, text, words, items, tmp_path, capsys):
    out = tmp_path / "out"
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=f"^out: .*{words}"):
        reproduce(out)
    assert main(["reproduce", "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("steepen: --out: ")
    assert ("use --force" in said, said.count("\n")) == ("something else" in words, 1)
    assert items.calls == []
    assert (tmp_path / name).read_text() == text
    if name == "out/thesis.tex":
        assert reproduce(out, force=True).page.is_file()
        assert (tmp_path / name).read_text() == text
        assert reproduce(out).holds  # from now on it is ours


@pytest.mark.parametrize(
    ("agrees", "known", "code", "verdict"),
    [
        (True, None, 0, "agrees"), ("part", None, 1, "DIFFERS"), (False, None, 1, "DIFFERS"),
        (True, "part", 1, "AGREES?"), ("part", "part", 0, "in part"), (False, "part", 1, "DIFFERS"),
        (True, "limit", 1, "AGREES?"), ("part", "limit", 1, "AGREES?"), (False, "limit", 0, "does not hold"),
    ],
)  # fmt: skip
def test_exit_codes(agrees, known, code, verdict, items, tmp_path, capsys):
    items.agrees, items.known = agrees, known
    assert main(["reproduce", "--out", str(tmp_path / "out")]) == code
    said = capsys.readouterr()
    some = " (1 more in part)" if agrees == "part" else ""
    assert (said.err, said.out.splitlines()[-1]) == ("", f"{1 + (agrees is True)} of 3 claims agree{some}")
    assert re.search(rf"^{re.escape(verdict)} +second", said.out, re.MULTILINE)
    page = Page(tmp_path / "out" / "report.html").text
    assert ("1 came out otherwise than expected." in page) == bool(code)
    assert main(["reproduce", "--out", str(tmp_path / "out"), "--only", "first"]) == 0
    assert main(["reproduce", "--out", str(tmp_path / "out"), "--only", "zzz"]) == 2
    assert capsys.readouterr().err == "steepen: --only: 'zzz' is not known; there are first, second\n"
    assert main(["reproduce", "--list"]) == 0
    assert capsys.readouterr().out == "first   A first <item> & more\nsecond  A second item\n"


@pytest.mark.slow
def test_the_whole_paper_is_in_its_files_and_its_page_is_small(paper):
    check_files(paper)
    check_alone(Page(paper.page))
    assert [item.name for item in paper.made] == list(RUNNER.ITEMS)
    assert paper.page.stat().st_size < 3_000_000


def test_the_finding_on_training_is_quoted_from_the_document():
    _, words, document, command = REPORT.WORDS["training"].values()
    source = (Path(__file__).parents[2] / document).read_text("utf-8")
    numbers = re.findall(r"\d+\.\d+", words)
    assert len(numbers) >= 6
    assert [number for number in numbers if number not in source] == []
    assert command in " ".join(source.split())
    names = (
        "CGD-FD, first quarter (the paper)",
        "SAM, 1/16 of the batch, last half",
        "GapSAM, settings of the base",
    )
    measures = {5: -1, 4: 1}  # the columns of loss and accuracy, and the sign that is better
    tasks = source.partition("<!-- tables")[2].partition(" labels changed")[0]  # the ten
    counts = [counted(tasks, name, *measure) for measure in measures.items() for name in names]
    said = re.findall(r"\b(\d+), (\d+) and (\d+)\b", words)
    assert [tuple(map(int, three)) for three in said] == counts


def counted(source, name, column, better):
    """On how many tasks a method is better than the base, worse, and within two standard errors."""
    rows = re.findall(rf"^\| {re.escape(name)} \(.*", source, re.MULTILINE)
    cells = [row.split("|")[column].replace("−", "-").split(" ± ") for row in rows]
    gains = [(better * float(gain), 2 * float(error)) for gain, error in cells]
    assert len(gains) == 10
    ahead, behind = (sum(sign * gain > error for gain, error in gains) for sign in (1, -1))
    return ahead, behind, 10 - ahead - behind


def test_pages_lead_back_to_each_other_and_home(items, tmp_path):
    def links(name):
        text = (tmp_path / "out" / name).read_text("utf-8")
        return set(re.findall(r"href=[\"']([^\"'#]+\.html)", text))

    reproduce(tmp_path / "out")
    assert links("report.html") == {"explore.html"}
    assert links("explore.html") == {"report.html"}
    assert main(["reproduce", "--out", str(tmp_path / "out"), "--home", "../site"]) == 0
    for name, other in (("report.html", "explore.html"), ("explore.html", "report.html")):
        assert {"../site/index.html", "../site/paper.html", other} <= links(name)
    assert "../site/evidence.html" in links("report.html")


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("matplotlib", "reproduce needs matplotlib: pip install 'steepen[paper]'"),
        ("pandas", "reproduce needs pandas: pip install 'steepen[paper]'"),
        ("rich.progress", "progress=True needs rich: pip install 'steepen[cli]'"),
    ],
)
def test_missing_dependencies(module, words, items, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=re.escape(words)):
        reproduce(tmp_path / "out", progress=True)
    assert items.calls == []
    assert not (tmp_path / "out").exists()
