"""The page: one self-contained HTML file, with the pictures inside and no script."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any, NamedTuple, cast

from ._claims import Claim, Table
from ._record import Item, tally, verdict
from .errata import ERRATA
from .experiments import RECOVERED

PAPER = "CGD: Modifying the Loss Landscape by Gradient Regularization"
AUTHORS = "Shikhar Saxena, Tejas Bodas and Arti Yardi"

SETTINGS = (
    f"{RECOVERED} Chosen, not published: the start of Fig. 1, the functions of Figs. 2 and 5, and α, λ "
    "and starts of Fig. 4, each to show what the text describes. Agreement therefore shows that the printed "
    "results are attainable, not that these are the authors' settings. Alternative texts stand in the source "
    "of the paper's figures and are not printed; a claim that only such a text makes is marked (alt text)."
)
"""What the reader must know of the settings."""


class Part(NamedTuple):
    """A part of the page: its name and title, a sentence or two, its items, and those that are folded."""

    name: str
    title: str
    words: str
    items: tuple[str, ...]
    minor: tuple[str, ...] = ()


PARTS = (
    Part(
        "promises",
        "What the paper promises",
        "One idea, drawn in one figure, and twelve percentages.",
        ("fig-surfaces", "table1"),
    ),
    Part(
        "holds",
        "What holds",
        "The numbers come back, the lemma and the theorem are right, and with the paper's α CGD-FD is ahead "
        "of GD gradient for gradient.",
        ("fig-convergence", "theorem1"),
        ("algorithms", "lemma1", "fig-ascent", "quadratic"),
    ),
    Part(
        "question",
        "The question that is left open",
        "All of this is at an α that suits CGD. Is it still so if both methods choose theirs?",
        ("tuned",),
        ("equal-cost", "lam-schedules", "fig-quasi-newton", "fig-quasi-newton-sweep"),
    ),
    Part(
        "fails",
        "What does not hold",
        "The guard is no cure for every trap, and helps less the more variables there are.",
        ("fig-egr",),
        ("artificial-points",),
    ),
    Part(
        "use",
        "What one can use",
        "To minimise: cgd-auto, whose λ follows the curvature and is negative where f is convex; with "
        "nothing to tune it is ahead of tuned GD far more often than behind (the last rows of the table "
        "above). To train networks: a probe late in the run, from a part of the batch (docs/when.md). To "
        "look: the explorer, and theory's tests for artificial points.",
        (),
        ("flat-minima", "negative-lam", "other-penalties"),
    ),
)
"""The story: what is promised, what holds, the question, what does not hold, what one can use."""

SHOWN = ("tuned",)
"""The tables that are not folded."""

NARROW = "-narrow"
"""How the picture of a figure for narrow screens is named."""

REPORT, EXPLORER = "report.html", "explore.html"
"""This page, and the explorer beside it."""

OPENING = "fig-surfaces-cut"
"""The figure that the page opens with."""

LEAD = (
    "«CGD» (constrained gradient descent) minimises a function f by walking down a steeper one that keeps "
    "its minima: f + λ‖∇f‖², which is f plus λ times the square of its slope. Steeper means longer steps, "
    "so it helps a gradient descent («GD») whose step size α is too short; against one that is tuned it is "
    "behind on more problems than it is ahead."
)
"""What CGD does and when it helps, for a reader who has not seen the paper."""

FINDINGS = (
    ("The printed numbers come back.", "table1"),
    ("Against a tuned α, λ > 0 loses more often than it wins.", "tuned"),
    ("The safeguard does not catch everything.", "fig-egr"),
)
"""The findings at the top of the page: each in a few words, and the item whose first finding says more."""

TRAINING = (
    "In training it helps where a network overfits, late rather than early.",
    "At equal numbers of gradients, and all tuned alike, the paper's plan (CGD-FD in the first quarter of "
    "a run) was less accurate than plain training on 8 of the 10 tasks: 74.36 % against 76.62 % on "
    "MNIST-1D. In the last half, with the second gradient from a sixteenth of the batch, it "
    "took a ResNet-18 on CIFAR-100 from 75.04 % to 76.23 %, and its test loss from 0.920 to 0.833. A "
    "network that does not overfit gained nothing.",
    "docs/evidence.md",
    "python benchmarks/evidence/report.py",
)
"""The finding on training: in short, at length, the document it is quoted from, and the command behind it."""

_CSS = Path(__file__).with_name("page.css").read_text("utf-8")
_DOOR = f"<p class=door><a href='{EXPLORER}'>Drag λ yourself</a>, and watch the methods walk.</p>"
_HOME = (
    "<p class=home><a href='{0}/index.html'>steepen's documentation</a> "
    "<a href='{0}/paper.html'>The paper, section by section</a> "
    "<a href='{0}/tuned.html'>Against a tuned step</a></p>"
)
_MARKS = {"agrees": "✓", "DIFFERS": "✗", "limit": "≠", "AGREES?": "?"}
_ZERO = 1e-13  # in a table, what is smaller is what rounding has left of 0


def page(
    folder: Path,
    items: Sequence[Item],
    missing: Sequence[str],
    versions: Mapping[str, str],
    home: str | None = None,
) -> str:
    """Write the page about the items in a folder; their pictures are read from its `figures/`.

    With a home, where the documentation lies, the page links there.

    Examples
    --------
    >>> text = page(Path("out"), [], ["table1"], {"steepen": "0.1.0"})
    >>> "0 of 0 claims agree" in text, "Not run: table1" in text
    (True, True)
    """
    parts = [
        "" if home is None else _HOME.format(escape(home.rstrip("/"))),
        f"<header><p class=where>{escape(PAPER)}, a paper by {AUTHORS}, explained and re-run</p>",
        "<h1>CGD: walk down a steeper landscape</h1>",
        f"<p class=lead>{_prose(LEAD)}</p>",
        *(_figure(folder, OPENING, item.captions[OPENING]) for item in items if OPENING in item.captions),
        *([_DOOR] if (folder / EXPLORER).is_file() else []),
        "</header>",
        _findings(items, missing, versions),
        _contents(items),
        *(_part(folder, part, items) for part in _story(items)),
        _errata(),
        _claims(items),
        _versions(items, versions),
    ]
    return (
        "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        "<link rel=icon href='data:,'>"  # else a browser asks for one
        f"<title>{escape(PAPER)}, run again</title><style>{_CSS}</style></head>\n<body><main>\n"
        + "\n".join(parts)
        + "\n</main></body></html>\n"
    )


def _prose(text: str) -> str:
    """Escape a text; «guillemets» mark a term where it is defined."""
    return re.sub("«(.+?)»", r"<dfn>\1</dfn>", escape(text))


def _findings(items: Sequence[Item], missing: Sequence[str], versions: Mapping[str, str]) -> str:
    found = {item.name: item.found[0] for item in items if item.found}
    rows = [
        f"<li><strong>{_prose(short)}</strong> {_prose(found[name])} <a href='#{escape(name)}'>More</a>"
        for short, name in FINDINGS
        if name in found
    ]
    short, words, document, command = TRAINING
    rows.append(
        f"<li><strong>{_prose(short)}</strong> {_prose(words)} (From {document}; made by "
        f"<code>{command}</code>.)"
    )
    return (
        f"<section id=findings><h2>What we found</h2><ol class=findings>{''.join(rows)}</ol>"
        f"<p><strong>{tally(claim for item in items for claim in item.claims)}.</strong> "
        f"{escape(_remainder(items, missing))} <a href='#claims'>All of them</a> are at the end. It took "
        f"<code>steepen reproduce</code> {sum(item.seconds for item in items):.0f} seconds, with steepen "
        f"{escape(versions['steepen'])}.</p><p class=note>{escape(SETTINGS)}</p></section>"
    )


def _remainder(items: Sequence[Item], missing: Sequence[str]) -> str:
    verdicts = [verdict(claim) for item in items for claim in item.claims]
    sentences: list[str] = []
    if limits := verdicts.count("limit"):
        one = limits == 1
        sentences.append(
            f"{limits} fail{'s' * one} in general: {'a limit' if one else 'limits'} that we found."
        )
    if failures := verdicts.count("DIFFERS") + verdicts.count("AGREES?"):
        sentences.append(f"{failures} came out otherwise than expected.")
    if missing:
        sentences.append(f"Not run: {', '.join(missing)}.")
    return " ".join(sentences)


def _claims(items: Iterable[Item]) -> str:
    rows: list[str] = []
    for item in items:
        if item.claims:
            link = f"<a href='#{escape(item.name)}'>{escape(item.title)}</a>"
            rows.append(f"<tbody><tr class=group><th colspan=4 scope=rowgroup>{link}</th></tr>")
            rows += [_claim(claim) for claim in item.claims]
            rows.append("</tbody>")
    head = "".join(f"<th scope=col>{column}</th>" for column in ("claim", "paper", "ours", "verdict"))
    table = f"<table class=claims><thead><tr>{head}</tr></thead>{''.join(rows)}</table>"
    return (
        "<section id=claims><h2>Every claim, one by one</h2><p>What the paper says, its figure and ours.</p>"
        f"<details><summary>Open the table</summary><div class=wide>{table}</div></details></section>"
    )


def _claim(claim: Claim) -> str:
    word = verdict(claim)
    kind = "good" if word == "agrees" else "slip" if claim.holds else "bad"
    return (
        f"<tr><td>{escape(claim.text)}</td><td>{escape(claim.said)}</td><td>{escape(claim.ours)}</td>"
        f"<td class='verdict {kind}'><span aria-hidden=true>{_MARKS[word]}</span> {word}</td></tr>"
    )


def _story(items: Sequence[Item]) -> list[Part]:
    """Return the parts of the page; what no part names has one of its own, at the end."""
    named = {name for part in PARTS for name in (*part.items, *part.minor)}
    others = tuple(item.name for item in items if item.name not in named)
    return [*PARTS, *([Part("others", "And", "", others)] if others else [])]


def _contents(items: Sequence[Item]) -> str:
    present = {item.name: item for item in items}
    rows: list[str] = []
    for part in _story(items):
        names = [name for name in (*part.items, *part.minor) if name in present]
        links = ", ".join(f"<a href='#{escape(name)}'>{escape(present[name].title)}</a>" for name in names)
        rows.append(f"<li><a href='#{part.name}'><b>{escape(part.title)}</b></a>{': ' * bool(links)}{links}")
    rows += [
        "<li><a href='#errata'>Slips found in the paper</a>",
        "<li><a href='#claims'>Every claim, one by one</a>",
        "<li><a href='#versions'>Versions and files</a>",
    ]
    return f"<nav><h2>On this page</h2><ol>{''.join(rows)}</ol></nav>"


def _part(folder: Path, part: Part, items: Sequence[Item]) -> str:
    present = {item.name: item for item in items}
    sections = [_section(folder, present[name]) for name in part.items if name in present]
    for item in (present[name] for name in part.minor if name in present):
        first = f"<span class=first>{_prose(item.found[0])}</span>" if item.found else ""
        sections.append(
            f"<details class=minor><summary><b>{escape(item.title)}</b> {first}</summary>"
            f"{_section(folder, item)}</details>"
        )
    words = f"<p class=lead>{_prose(part.words)}</p>" if part.words else ""
    return (
        f"<div class=part id={part.name}><h2 class=part>{escape(part.title)}</h2>{words}"
        + "\n".join(sections)
        + "</div>"
    )


def _section(folder: Path, item: Item) -> str:
    shown = [_figure(folder, name, text) for name, text in item.captions.items() if name != OPENING]
    # without a picture a table has to show it
    top = [name for i, name in enumerate(item.tables) if name in SHOWN or (i == 0 and not shown)]
    shown = [_table(name, item.tables[name]) for name in top] + shown
    tables = [_table(name, table) for name, table in item.tables.items() if name not in top]
    more = [
        *tables,
        *(f"<p>{_prose(note)}</p>" for note in item.notes),
    ]
    if item.settings:
        more.append(f"<h4>Settings</h4><dl>{_settings(item.settings)}</dl>")
    if item.traces:
        links = ", ".join(f"<a href='traces/{escape(name)}.csv'>{escape(name)}</a>" for name in item.traces)
        more.append(f"<p class=files>Raw traces: {links}</p>")
    parts = [
        f"<section id='{escape(item.name)}'><p class=where>{escape(item.section)} of the paper</p>",
        f"<h3 class=title>{escape(item.title)}</h3>",
        f"<p><b>The paper says.</b> {_prose(item.says)}</p>",
        f"<p><b>Why it matters.</b> {_prose(item.matters)}</p>",
        *shown,
        "<h4>What we found</h4>",
        *(f"<p>{_prose(sentence)}</p>" for sentence in item.found),
        f"<details><summary>Tables, settings and files</summary>{''.join(more)}</details>" if more else "",
    ]
    return "\n".join([*parts, "</section>"])


def _settings(settings: Mapping[str, Any]) -> str:
    """Write names and values, to the last digit; a group of groups is written group by group."""
    rows: list[str] = []
    for name, value in settings.items():
        if isinstance(value, Mapping) and all(
            isinstance(v, Mapping) for v in cast(Mapping[str, Any], value).values()
        ):
            rows.append(_settings(cast(Mapping[str, Any], value)))
        else:
            rows.append(f"<dt>{escape(name)}</dt><dd>{escape(_text(value, 17))}</dd>")
    return "".join(rows)


def _figure(folder: Path, name: str, caption: str) -> str:
    files = " ".join(f"<a href='figures/{escape(name)}.{kind}'>{kind.upper()}</a>" for kind in ("png", "svg"))
    return (
        f"<figure id='{escape(name)}'><picture><source media='screen and (max-width: 40rem)' "
        f"srcset='{_inside(folder, name + NARROW)}'>"
        f"<img alt='{escape(caption or name)}' src='{_inside(folder, name)}'></picture>"
        f"<figcaption>{escape(caption)} <span class=files>{files}</span></figcaption></figure>"
    )


def _inside(folder: Path, name: str) -> str:
    """Return a picture as an address that holds all of it."""
    return _address((folder / "figures" / f"{name}.svg").read_text("utf-8"))


@lru_cache(128)  # the page is written after every item, with the pictures of those before
def _address(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(_shorter(svg).encode()).decode()


def _shorter(svg: str) -> str:
    """Leave out of a picture what nobody sees: half of matplotlib's bytes.

    Examples
    --------
    >>> _shorter('<g id="a"><!-- a --><path id="b" d="M 1.234567 0.015625"/><use href="#b"/></g>')
    '<g><path id="b" d="M 1.23 0.015625"/><use href="#b"/></g>'
    """
    used = set(re.findall(r"#([\w.-]+)", svg))
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' id="([^"]*)"', lambda found: found[0] * (found[1] in used), svg)
    svg = re.sub(r"([1-9]\d*\.\d\d)\d+", r"\1", svg)  # a hundredth of a point; below 1 there are scales
    return re.sub(r"\s*\n\s*", " ", svg)


def _table(name: str, table: Table) -> str:
    return (
        f"<div class=wide><table id='{escape(name)}'><caption>{escape(table.caption)} "
        f"<span class=files><a href='tables/{escape(name)}.csv'>CSV</a></span></caption>"
        f"{_grid(table.columns, table.rows)}</table></div>"
    )


def _grid(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Write the head and the body of a table; columns of numbers are aligned to the right."""
    kinds = [" class=number" * all(map(_is_number, cells)) for _, *cells in zip(columns, *rows, strict=True)]
    head = "".join(f"<th scope=col{kind}>{escape(c)}</th>" for c, kind in zip(columns, kinds, strict=True))
    body = [
        "".join(f"<td{kind}>{escape(_text(v))}</td>" for v, kind in zip(row, kinds, strict=True))
        for row in rows
    ]
    return f"<thead><tr>{head}</tr></thead><tbody><tr>{'</tr><tr>'.join(body)}</tr></tbody>"


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _text(value: Any, digits: int = 5) -> str:
    """Write a value for a reader: a number to this many digits, a list or a mapping item by item."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        if digits >= 17 or isinstance(value, int):
            return repr(value).removesuffix(".0").replace("-", "−")
        return "0" if abs(value) < _ZERO else f"{value:.{digits}g}".replace("-", "−")
    if isinstance(value, list | tuple):
        return f"({', '.join(_text(item, digits) for item in cast(list[Any], value))})"
    if isinstance(value, Mapping):
        pairs = cast(Mapping[str, Any], value).items()
        return "; ".join(f"{key} = {_text(item, digits)}" for key, item in pairs)
    return "–" if value is None else str(value)


def _errata() -> str:
    table = _grid(("where", "printed", "should read"), ERRATA)
    return (
        "<section id=errata><h2>Slips found in the paper</h2>"
        "<p>None of them touches a printed number.</p>"
        f"<div class=wide><table>{table}</table></div></section>"
    )


def _versions(items: Iterable[Item], versions: Mapping[str, str]) -> str:
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(version)}</dd>" for name, version in versions.items())
    times = "".join(f"<dt>{escape(item.name)}</dt><dd>{item.seconds:.1f} s</dd>" for item in items)
    return (
        f"<section id=versions><h2>Versions and files</h2><dl>{rows}</dl><h4>Time</h4><dl>{times}</dl>"
        "<p>Beside this page: <a href='results.json'>results.json</a> with versions, settings, claims and "
        "tables; the figures in <code>figures/</code>, the tables in <code>tables/</code>, the raw traces in "
        "<code>traces/</code>.</p></section>"
    )
