"""The page: one self-contained HTML file, with the pictures inside and no script."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, cast

from ._claims import Claim, Table
from ._record import Item, tally, verdict
from .errata import ERRATA
from .experiments import RECOVERED

PAPER = "CGD: Modifying the Loss Landscape by Gradient Regularization"
AUTHORS = "Shikhar Saxena, Tejas Bodas and Arti Yardi"

SETTINGS = (
    f"{RECOVERED} Chosen, not published: the start of Fig. 1, the functions of Figs. 2 and 5, and α, λ "
    "and starts of Fig. 4, each to show what the text describes. Agreement therefore shows that what is "
    "printed can be had, not that these are the authors' settings."
)
"""What the reader must know of the settings."""

_CSS = Path(__file__).with_name("page.css").read_text("utf-8")
_MARKS = {"agrees": "✓", "DIFFERS": "✗", "limit": "≠", "inconsistent": "≠", "AGREES?": "?"}


def page(folder: Path, items: Sequence[Item], missing: Sequence[str], versions: Mapping[str, str]) -> str:
    """Write the page about the items in a folder; their pictures are read from its `figures/`.

    Examples
    --------
    >>> text = page(Path("out"), [], ["table1"], {"steepen": "0.1.0"})
    >>> "0 of 0 claims agree" in text, "Not run: table1" in text
    (True, True)
    """
    parts = [
        f"<h1>{escape(PAPER)}</h1>",
        f"<p class=lead>The paper by {AUTHORS}, run again with steepen {escape(versions['steepen'])}: its "
        "table, its figures and its theory, with our numbers beside the printed ones. It took "
        f"<code>steepen reproduce</code> {sum(item.seconds for item in items):.0f} seconds.</p>",
        f"<p class=tally><strong>{tally(claim for item in items for claim in item.claims)}.</strong> "
        f"{escape(_remainder(items, missing))}</p>",
        f"<p class=note>{escape(SETTINGS)}</p>",
        "<nav><h2>Contents</h2><ol>",
        "<li><a href='#claims'>The claims</a>",
        *(f"<li><a href='#{escape(item.name)}'>{escape(item.title)}</a>" for item in items),
        "<li><a href='#errata'>Slips found in the paper</a>",
        "<li><a href='#versions'>Versions and files</a></ol></nav>",
        _claims(items),
        *(_section(folder, item) for item in items),
        _errata(),
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


def _remainder(items: Sequence[Item], missing: Sequence[str]) -> str:
    verdicts = [verdict(claim) for item in items for claim in item.claims]
    sentences: list[str] = []
    if limits := verdicts.count("limit"):
        sentences.append(f"{limits} do{'es' * (limits == 1)} not: a limit that we found.")
    if torn := verdicts.count("inconsistent"):
        sentences.append(f"{torn} cannot: what is printed contradicts itself there.")
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
    return f"<section id=claims><h2>The claims</h2><div class=wide>{table}</div></section>"


def _claim(claim: Claim) -> str:
    word = verdict(claim)
    kind = "good" if word == "agrees" else "slip" if claim.holds else "bad"
    return (
        f"<tr><td>{escape(claim.text)}</td><td>{escape(claim.paper)}</td><td>{escape(claim.ours)}</td>"
        f"<td class='verdict {kind}'><span aria-hidden=true>{_MARKS[word]}</span> {word}</td></tr>"
    )


def _section(folder: Path, item: Item) -> str:
    parts = [
        f"<section id='{escape(item.name)}'><p class=where>{escape(item.section)}</p>",
        f"<h2>{escape(item.title)}</h2>",
        *(_figure(folder, name, caption) for name, caption in item.captions.items()),
        *(_table(name, table) for name, table in item.tables.items()),
        *(f"<p>{escape(note)}</p>" for note in item.notes),
    ]
    if item.settings:
        parts.append(f"<h3>Settings</h3><dl>{_settings(item.settings)}</dl>")
    if item.traces:
        links = ", ".join(f"<a href='traces/{escape(name)}.csv'>{escape(name)}</a>" for name in item.traces)
        parts.append(f"<p class=files>Raw traces: {links}</p>")
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
    svg = (folder / "figures" / f"{name}.svg").read_bytes()
    source = "data:image/svg+xml;base64," + base64.b64encode(svg).decode()
    files = " ".join(f"<a href='figures/{escape(name)}.{kind}'>{kind.upper()}</a>" for kind in ("png", "svg"))
    picture = f"<img alt='{escape(caption or name)}' src='{source}'>"
    return (
        f"<figure id='{escape(name)}'><div class=wide>{picture}</div>"
        f"<figcaption>{escape(caption)} <span class=files>{files}</span></figcaption></figure>"
    )


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
    if isinstance(value, float):
        return (repr(value).removesuffix(".0") if digits >= 17 else f"{value:.{digits}g}").replace("-", "−")
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
        f"<section id=versions><h2>Versions and files</h2><dl>{rows}</dl><h3>Time</h3><dl>{times}</dl>"
        "<p>Beside this page: <a href='results.json'>results.json</a> with versions, settings, claims and "
        "tables; the figures in <code>figures/</code>, the tables in <code>tables/</code>, the raw traces in "
        "<code>traces/</code>.</p></section>"
    )
