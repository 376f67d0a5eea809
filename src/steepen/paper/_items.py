"""What an item of the paper is, and what it yields: claims beside our numbers, tables, pictures, traces."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from .._core.trace import Trace

Basis = Literal["printed", "recovered", "chosen", "alt text", "ours"]
Known = Literal["limit"]

WORDS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("page.toml").read_text("utf-8"))
"""The words of the page: its lead, its parts, what each item is about and found, captions, the errata."""


@dataclass(frozen=True)
class Claim:
    """One statement, of the paper or about it, and what our runs make of it.

    Parameters
    ----------
    text : what is claimed, in a few words
    paper, ours : the paper's words, “quoted”, or its figure; and ours
    agrees : whether they agree
    basis : what the comparison rests on: what the paper prints (or a statement about all functions),
        settings "recovered" from its numbers, or settings "chosen" by us to show what it describes; or only
        the "alt text" of a figure in the paper's source, which is not printed. What the paper does not say
        is "ours": a question about it that we add
    known : why they are known not to agree: a "limit" that we found

    Examples
    --------
    >>> claim = Claim("Branin, first step of GD, %", "37.53", "37.52", agrees=False, basis="recovered")
    >>> claim.holds, claim.verdict
    (False, 'DIFFERS')
    """

    text: str
    paper: str
    ours: str
    agrees: bool
    basis: Basis = "printed"
    known: Known | None = None

    @property
    def holds(self) -> bool:
        """Whether this is what we expect: agreement, or a disagreement that is known."""
        return self.agrees == (self.known is None)

    @property
    def said(self) -> str:
        """The paper's words or figure; marked where only an alternative text has them, or we do."""
        mark = {"alt text": "(alt text)", "ours": "(ours)"}.get(self.basis, "")
        return f"{self.paper} {mark}".strip()

    @property
    def verdict(self) -> str:
        """How it came out, in a word; in capitals if it should have come out otherwise."""
        if self.agrees:
            return "agrees" if self.known is None else "AGREES?"
        return "DIFFERS" if self.known is None else "does not hold"


class Table(NamedTuple):
    """A table, ready for CSV and for the page."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    caption: str = ""


class Picture(NamedTuple):
    """A matplotlib Figure and the sentence under it."""

    figure: Any
    caption: str = ""


@dataclass
class Outcome:
    """Everything an item yields; every name in it starts with the name of the item.

    `found` is what the page says that we found, the most important first; `notes` are for who looks closer.
    In both, «guillemets» are around a term where it is defined.
    """

    claims: list[Claim] = field(default_factory=list[Claim])
    tables: dict[str, Table] = field(default_factory=dict[str, Table])
    pictures: dict[str, Picture] = field(default_factory=dict[str, Picture])
    traces: dict[str, Trace] = field(default_factory=dict[str, Trace])
    found: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    seconds: float = 0.0

    def told(self, item: str, **values: Any) -> Outcome:
        """Return it with page.toml's words about the item, the settings and these values filled in."""
        words, values = WORDS["items"][item], {"recovered": WORDS["recovered"], **self.settings, **values}

        def fill(text: str) -> str:
            return text.format_map(values)

        return replace(
            self,
            found=[fill(text) for text in words["found"]],
            notes=[fill(text) for text in words.get("notes", ())],
            tables={n: t._replace(caption=fill(words["tables"][n])) for n, t in self.tables.items()},
            pictures={n: p._replace(caption=fill(words["pictures"][n])) for n, p in self.pictures.items()},
        )


class Item(NamedTuple):
    """One item of the paper: what it says there, why that matters, and what runs it."""

    name: str
    title: str
    section: str
    says: str
    matters: str
    run: Callable[[], Outcome]


@dataclass(frozen=True)
class Report:
    """What `reproduce` returns: the folder, and what each item yielded, in the paper's order.

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
    """Write a number for a reader, with a proper minus sign."""
    text = f"{value:{form}}".replace("-", "−")
    return "0" if value == 0 and "e" in text else text


def resting_on(basis: Basis, claims: Iterable[Claim]) -> list[Claim]:
    """Return the claims with this basis, but for those that are ours or an alternative text's alone."""
    return [replace(claim, basis=basis) if claim.basis == "printed" else claim for claim in claims]


_BASES = {
    "printed": "claims agree",
    "recovered": "with settings that we had to recover",
    "chosen": "with settings that we chose",
    "alt text": "that only a figure's alternative text makes",
    "ours": "that are ours",
}


def tally(claims: Iterable[Claim]) -> str:
    """Count the claims that agree, those that rest on settings of ours apart."""
    groups: dict[str, list[bool]] = {basis: [] for basis in _BASES}
    for claim in claims:
        groups[claim.basis].append(claim.agrees)
    return "; ".join(
        f"{sum(agree)} of {len(agree)} {_BASES[basis]}"
        for basis, agree in groups.items()
        if agree or basis == "printed"
    )
