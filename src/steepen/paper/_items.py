"""What each item returns, for `reproduce` and the page: claims, tables, pictures, traces; reads page.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter
from typing import Any, Literal, NamedTuple

from ..trace import Trace

Agrees = bool | Literal["part"]
Basis = Literal["printed", "recovered", "chosen", "alt text", "ours"]

EXPLORER = "explore.html"  # the file of the explorer, beside the page
WORDS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("page.toml").read_text("utf-8"))
"""The text of the page: its lead, its parts, the errata, and of each item what it is about, its claims,
findings and captions."""


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, or about it, and what our runs say.

    Parameters
    ----------
    text : the claim in a few words
    paper, ours : the paper's words, “quoted”, or its figure; and ours
    agrees : whether they agree: True, False, or "part" where only a part of what is quoted holds
    basis : what the comparison rests on: the paper as "printed", settings "recovered" from its numbers,
        settings "chosen" by us, or the "alt text" of a figure, which is in the paper's source only; "ours"
        if the paper does not make the claim
    known : "limit" if it is known not to hold, "part" if it is known to hold in part

    Examples
    --------
    >>> claim = Claim("Branin, first step of GD, %", "37.53", "37.52", agrees=False, basis="recovered")
    >>> claim.holds, claim.verdict
    (False, 'DIFFERS')
    """

    text: str
    paper: str
    ours: str
    agrees: Agrees
    basis: Basis = "printed"
    known: Literal["limit", "part"] | None = None

    @property
    def holds(self) -> bool:
        """Whether it came out as expected: agreement, or as much of it as is known to hold."""
        return self._found == self._expected

    @property
    def _found(self) -> int:
        return 1 if self.agrees == "part" else 2 * int(self.agrees)

    @property
    def _expected(self) -> int:
        return {"limit": 0, "part": 1, None: 2}[self.known]

    @property
    def said(self) -> str:
        """The paper's words or figure, marked if they are an alternative text's or ours."""
        mark = {"alt text": "(alt text)", "ours": "(ours)"}.get(self.basis, "")
        return f"{self.paper} {mark}".strip()

    @property
    def verdict(self) -> str:
        """The outcome in a word or two; in capitals if it was not expected."""
        if self.holds:
            return ("does not hold", "in part", "agrees")[self._found]
        return "DIFFERS" if self._found < self._expected else "AGREES?"


class Link(str):
    """A cell of a table that the page links; a link to a part of the page that is not there is left out."""

    href: str

    def __new__(cls, text: str, href: str) -> Link:
        made = super().__new__(cls, text)
        made.href = href
        return made


class Table(NamedTuple):
    """A table for CSV and for the page."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    caption: str = ""


class Picture(NamedTuple):
    """A matplotlib Figure and its caption."""

    figure: Any
    caption: str = ""


@dataclass
class Outcome:
    """What the run of an item returns; every name in it starts with the item's.

    `found` is shown on the page, the most important first; `notes` are in its folded part.
    """

    claims: list[Claim] = field(default_factory=list[Claim])
    tables: dict[str, Table] = field(default_factory=dict[str, Table])
    pictures: dict[str, Picture] = field(default_factory=dict[str, Picture])
    traces: dict[str, Trace] = field(default_factory=dict[str, Trace])
    found: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    seconds: float = 0.0


class Item(NamedTuple):
    """An item of the paper: what the paper says, why it matters, and the function that runs it."""

    name: str
    title: str
    section: str
    says: str
    matters: str
    run: Callable[[], Outcome]


@dataclass(frozen=True)
class Report:
    """The result of `reproduce`: the folder, and the outcome of each item in the paper's order.

    Examples
    --------
    >>> Report(Path("out"), {}).holds
    True
    """

    folder: Path
    made: Mapping[Item, Outcome]

    @property
    def page(self) -> Path:
        """The page to open."""
        return self.folder / "report.html"

    @property
    def claims(self) -> list[Claim]:
        """All claims of the items."""
        return [claim for outcome in self.made.values() for claim in outcome.claims]

    @property
    def holds(self) -> bool:
        """Whether every claim came out as expected."""
        return all(claim.holds for claim in self.claims)


def readable(value: float, form: str = ".4g") -> str:
    """Return a number as text, with a proper minus sign."""
    text = f"{value:{form}}".replace("-", "−")
    return "0" if value == 0 and "e" in text else text


class _Readable(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        number = isinstance(value, int | float)  # NumPy's float64 is a float
        return readable(value, format_spec) if number else format(value, format_spec)


def _fill(text: str, values: Mapping[str, Any]) -> str:
    return _Readable().vformat(text, (), values)


def claim(item: str, name: str, agrees: Any, **values: Any) -> Claim:
    """Return a claim with page.toml's text, with these values filled in.

    Its `otherwise`, if it has one, takes the place of `ours` where the claim does not agree.
    """
    words = WORDS["items"][item]
    said: dict[str, Any] = {"paper": "", "known": None, "basis": words.get("basis", "printed")}
    said |= words["claims"][name]
    ours = said["ours"] if agrees else said.get("otherwise", said["ours"])
    text, paper, ours = (_fill(part, values) for part in (said["text"], said["paper"], ours))
    return Claim(
        text, paper, ours, agrees if agrees == "part" else bool(agrees), said["basis"], said["known"]
    )


def in_part(cases: Iterable[object]) -> Agrees:
    """Return whether what a claim says holds in all cases or in none, or "part" for some of them.

    Examples
    --------
    >>> in_part([True, True]), in_part([True, False]), in_part([False])
    (True, 'part', False)
    """
    held = [bool(case) for case in cases]
    return "part" if any(held) and not all(held) else all(held)


def outcome(
    item: str,
    *,
    claims: list[Claim],
    tables: Mapping[str, Table | list[Any]],
    pictures: Mapping[str, Any] | None = None,
    traces: Mapping[str, Trace] | None = None,
    settings: Mapping[str, Any],
    **values: Any,
) -> Outcome:
    """Return an outcome with page.toml's text for the item, with the settings and these values filled in.

    A table is given by its rows if page.toml has its columns; a picture by its figure.
    """
    words, values = WORDS["items"][item], {"recovered": WORDS["recovered"], **settings, **values}
    made = Outcome(claims, traces=dict(traces or {}), settings=dict(settings))
    made.found, made.notes = (
        [_fill(text, values) for text in words.get(part, ())] for part in ("found", "notes")
    )
    for name, given in tables.items():
        columns, rows = given[:2] if isinstance(given, Table) else (words["columns"][name], given)
        columns = tuple(_fill(column, values) for column in columns)
        made.tables[name] = Table(columns, rows, _fill(words["tables"][name], values))
    for name, figure in (pictures or {}).items():
        made.pictures[name] = Picture(figure, _fill(words["pictures"][name], values))
    return made


_BASES = {
    "printed": "",
    "recovered": "with settings that we had to recover",
    "chosen": "with settings that we chose",
    "alt text": "that only a figure's alternative text makes",
    "ours": "that are ours",
}


def tally(claims: Iterable[Claim]) -> str:
    """Count the claims that agree, by basis, and those that agree in part."""
    groups: dict[str, list[Agrees]] = {basis: [] for basis in _BASES}
    for claim in claims:
        groups[claim.basis].append(claim.agrees)
    parts: list[str] = []
    for basis, agree in groups.items():
        if agree:
            said = " claims agree" * (not parts) + f" {_BASES[basis]}" * bool(_BASES[basis])
            some = f" ({agree.count('part')} more in part)" * ("part" in agree)
            parts.append(f"{agree.count(True)} of {len(agree)}{said}{some}")
    return "; ".join(parts) or "no claims"
