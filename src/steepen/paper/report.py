"""The page that `reproduce` writes: HTML without script, returned as text; reads the figures' files."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, cast

import numpy as np

from ._items import EXPLORER, WORDS, Claim, Item, Link, Outcome, Report, Table, tally

NARROW = "-narrow"
"""The suffix of a figure's version for narrow screens."""

REPORT = "report.html"
OPENING = "fig-surfaces-cut"  # the figure at the top of the page

_TEMPLATE, _STYLE = (Path(__file__).with_name(f"page.{kind}").read_text("utf-8") for kind in ("html", "css"))
_CELLS = "".join(f"td:nth-child({i}){{--name:var(--c{i})}}" for i in range(1, 25))
_EXPLORE = f"<p class=lead><a href='{EXPLORER}'>Drag λ yourself</a>, and watch the iterates move.</p>"
_HOME = (
    "<p class=home><a href='{0}/index.html'>steepen's documentation</a> "
    "<a href='{0}/paper.html'>The paper, and what we found</a> "
    "<a href='{0}/paper.html#against-a-tuned-step-size'>Against a tuned step</a></p>"
)
_MARKS = {"agrees": "✓", "DIFFERS": "✗", "does not hold": "≠", "in part": "≈", "AGREES?": "?"}
_ZERO = 1e-13  # smaller numbers are shown as 0 in tables


def page(report: Report, missing: Sequence[str], versions: Mapping[str, str], home: str | None = None) -> str:
    """Return the page as HTML; the figures are read from `figures/` in the report's folder.

    With a home, the URL of the documentation, the page links there.

    Examples
    --------
    >>> text = page(Report(Path("out"), {}), ["table1"], {"steepen": "0.1.0"})
    >>> "no claims" in text, "Not run: table1" in text
    (True, True)
    """
    folder, made = report.folder, report.made
    opening = [outcome.pictures[OPENING] for outcome in made.values() if OPENING in outcome.pictures]
    times = {item.name: f"{outcome.seconds:.1f} s" for item, outcome in made.items()}
    text = _TEMPLATE.format(
        style=_STYLE + _CELLS,
        home="" if home is None else _HOME.format(escape(home.rstrip("/"))),
        **{name: _prose(WORDS[name]) for name in ("paper", "authors", "lead", "recovered", "settings")},
        opening="".join(_figure(folder, OPENING, picture.caption) for picture in opening),
        explore=_EXPLORE if (folder / EXPLORER).is_file() else "",
        findings=_findings(made, home),
        tally=tally(report.claims),
        remainder=escape(_remainder(report.claims, missing)),
        seconds=sum(outcome.seconds for outcome in made.values()),
        version=escape(versions["steepen"]),
        contents=_contents(made),
        parts="\n".join(_part(folder, part, made) for part in _story(made)),
        errata=_table(Table(("where", "printed", "should read"), WORDS["errata"])),
        claims="".join(_claims(item, outcome) for item, outcome in made.items()),
        versions=_settings(versions),
        times=_settings(times),
    )
    return _linked(text)


def _linked(page: str) -> str:
    """Take links to what is not on the page, the items that were not run, out of its tables.

    Examples
    --------
    >>> _linked("<td><a href='#a'>A</a></td><td><a href='#b'>B</a></td><p id='a'>")
    "<td><a href='#a'>A</a></td><td>B</td><p id='a'>"
    """
    there = set(re.findall(r"\bid='?([\w-]+)", page))
    cell = re.compile(r"(<td[^>]*>)<a href='#([\w-]+)'>([^<]*)</a>")
    return cell.sub(lambda found: found[0] if found[2] in there else found[1] + found[3], page)


def _prose(text: str) -> str:
    """Return HTML: terms in «guillemets» are definitions, and 12 % and λ > 0 are kept on one line."""
    text = re.sub(r"(?<=\d) (?=%)|(?<=[λα]) (?=[<>=])|(?<=[λα] [<>=]) ", "\u00a0", text)
    return re.sub("«(.+?)»", r"<dfn>\1</dfn>", escape(text))


def _findings(made: Mapping[Item, Outcome], home: str | None) -> str:
    found = {item.name: outcome.found[0] for item, outcome in made.items() if outcome.found}
    rows = [
        f"<li><strong>{_prose(short)}</strong> {_prose(found[name])} <a href='#{escape(name)}'>More</a>"
        for short, name in WORDS["findings"]
        if name in found
    ]
    training = WORDS["training"]
    source = training["document"]
    if home is not None:
        source = f"<a href='{escape(home.rstrip('/'))}/{Path(source).stem}.html'>{source}</a>"
    rows.append(
        f"<li><strong>{_prose(training['short'])}</strong> {_prose(training['words'])} (From "
        f"{source}; made by <code>{training['command']}</code>.)"
    )
    return "".join(rows)


def _remainder(claims: Sequence[Claim], missing: Sequence[str]) -> str:
    verdicts = [claim.verdict for claim in claims]
    sentences: list[str] = []
    if limits := verdicts.count("does not hold"):
        sentences.append(f"{limits} do{'es' * (limits == 1)} not hold, and the table says why.")
    if parts := verdicts.count("in part"):
        sentences.append(f"{parts} hold{'s' * (parts == 1)} in part.")
    if failures := verdicts.count("DIFFERS") + verdicts.count("AGREES?"):
        sentences.append(f"{failures} came out otherwise than expected.")
    if missing:
        sentences.append(f"Not run: {', '.join(missing)}.")
    return " ".join(sentences)


def _claims(item: Item, outcome: Outcome) -> str:
    link = f"<a href='#{escape(item.name)}'>{escape(item.title)}</a>"
    head = f"<tbody><tr class=group><th colspan=4 scope=rowgroup>{link}</th></tr>"
    return head + "".join(map(_claim, outcome.claims)) + "</tbody>"


def _claim(claim: Claim) -> str:
    word = claim.verdict
    kind = "good" if word == "agrees" else "slip" if claim.holds else "bad"
    return (
        f"<tr><td>{escape(claim.text)}</td><td>{escape(claim.said)}</td><td>{escape(claim.ours)}</td>"
        f"<td class='verdict {kind}'><span aria-hidden=true>{_MARKS[word]}</span> {word}</td></tr>"
    )


def _story(made: Mapping[Item, Outcome]) -> list[dict[str, Any]]:
    """Return the parts of the page; items that no part names are in one more, at the end."""
    named = {name for part in WORDS["parts"] for name in (*part["items"], *part["minor"])}
    others = [item.name for item in made if item.name not in named]
    last: dict[str, Any] = {"name": "others", "title": "And", "words": "", "items": others, "minor": []}
    return [*WORDS["parts"], *([last] if others else [])]


def _contents(made: Mapping[Item, Outcome]) -> str:
    titles = {item.name: item.title for item in made}
    rows: list[str] = []
    for part in _story(made):
        names = [name for name in (*part["items"], *part["minor"]) if name in titles]
        links = ", ".join(f"<a href='#{escape(name)}'>{escape(titles[name])}</a>" for name in names)
        rows.append(
            f"<li><a href='#{part['name']}'><b>{escape(part['title'])}</b></a>{': ' * bool(links)}{links}"
        )
    return "".join(rows)


def _part(folder: Path, part: Mapping[str, Any], made: Mapping[Item, Outcome]) -> str:
    present = {item.name: (item, outcome) for item, outcome in made.items()}
    sections = [_section(folder, *present[name]) for name in part["items"] if name in present]
    for item, outcome in (present[name] for name in part["minor"] if name in present):
        first = f"<span class=first>{_prose(outcome.found[0])}</span>" if outcome.found else ""
        sections.append(
            f"<details class=minor><summary><b>{escape(item.title)}</b> {first}</summary>"
            f"{_section(folder, item, outcome)}</details>"
        )
    words = f"<p class=lead>{_prose(part['words'])}</p>" if part["words"] else ""
    head = f"<div class=part id={part['name']}><h2 class=part>{escape(part['title'])}</h2>{words}"
    return head + "\n".join(sections) + "</div>"


def _section(folder: Path, item: Item, made: Outcome) -> str:
    shown = [_figure(folder, name, text) for name, (_, text) in made.pictures.items() if name != OPENING]
    # without a figure, the first table is shown
    top = WORDS["items"].get(item.name, {}).get("open", [] if shown else list(made.tables)[:1])
    shown += [_wide(name, made.tables[name]) for name in top]
    more = [_wide(name, table) for name, table in made.tables.items() if name not in top]
    more += [f"<p>{_prose(note)}</p>" for note in made.notes]
    if made.settings:
        more.append(f"<h4>Settings</h4><dl>{_settings(made.settings)}</dl>")
    if made.traces:
        links = ", ".join(f"<a href='traces/{escape(name)}.csv'>{escape(name)}</a>" for name in made.traces)
        more.append(f"<p class=files>Raw traces: {links}</p>")
    parts = [
        f"<section id='{escape(item.name)}'><p class=where>{escape(item.section)} of the paper</p>",
        f"<h3 class=title>{escape(item.title)}</h3>",
        f"<p><b>The paper says.</b> {_prose(item.says)}</p>",
        f"<p><b>Why it matters.</b> {_prose(item.matters)}</p>",
        *(f"<p><b>What we found.</b> {_prose(sentence)}</p>" for sentence in made.found[:1]),
        *shown,
        *(f"<p>{_prose(sentence)}</p>" for sentence in made.found[1:]),
        f"<details><summary>Tables, settings and files</summary>{''.join(more)}</details>" if more else "",
    ]
    return "\n".join([*parts, "</section>"])


def _settings(settings: Mapping[str, Any]) -> str:
    """Write names and values, to the last digit; a mapping of mappings is written item by item."""
    rows: list[str] = []
    for name, value in settings.items():
        inner = cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {"": value}
        if all(isinstance(one, Mapping) for one in inner.values()):
            rows.append(_settings(inner))
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
    """Return a figure as a data URL."""
    svg = _shorter((folder / "figures" / f"{name}.svg").read_text("utf-8"))
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def _shorter(svg: str) -> str:
    """Remove what is invisible from an SVG, half of matplotlib's bytes.

    Examples
    --------
    >>> _shorter('<g id="a"><!-- a --><path id="b" d="M 1.234567 0.015625"/><use href="#b"/></g>')
    '<g><path id="b" d="M 1.23 0.015625"/><use href="#b"/></g>'
    """
    used = set(re.findall(r"#([\w.-]+)", svg))
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' id="([^"]*)"', lambda found: found[0] * (found[1] in used), svg)
    svg = re.sub(
        r"([1-9]\d*\.\d\d)\d+", r"\1", svg
    )  # to a hundredth of a point; numbers below 1 may be scales
    return re.sub(r"\s*\n\s*", " ", svg)


def _wide(name: str, table: Table) -> str:
    caption = (
        f"<caption>{escape(table.caption)} "
        f"<span class=files><a href='tables/{escape(name)}.csv'>CSV</a></span></caption>"
    )
    about = f" id='{escape(name)}'" + " class=many" * (len(table.columns) > 10)
    return f"<div class=wide>{_table(table, about, caption)}</div>"


def _table(table: Table, about: str = "", caption: str = "") -> str:
    """Write a table, with columns of numbers aligned to the right."""
    columns, rows, _ = table
    kinds = [" class=number" * all(map(_is_number, cells)) for _, *cells in zip(columns, *rows, strict=True)]
    head = "".join(f"<th scope=col{kind}>{escape(c)}</th>" for c, kind in zip(columns, kinds, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{_cell(v)}</td>" for v, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in rows
    )
    # on a phone the style makes a row a card with labelled cells
    labels = ";".join(f"--c{i}:{json.dumps(c, ensure_ascii=False)}" for i, c in enumerate(columns, 1))
    return (
        f"<table{about} style='{escape(labels)}'>{caption}<thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def _cell(value: Any) -> str:
    text = escape(_text(value))
    return f"<a href='{escape(value.href)}'>{text}</a>" if isinstance(value, Link) else text


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float | np.number) and not isinstance(value, bool))


def _text(value: Any, digits: int = 5) -> str:
    """Write a value for a reader: a number to this many digits, a list or a mapping item by item."""
    if isinstance(value, np.ndarray | np.generic):
        value = cast(Any, value).tolist()
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
