"""What one item of the paper yields: claims beside our numbers, tables, figures and raw traces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from .._core.result import Trace


def readable(value: float, form: str = ".4g") -> str:
    """Write a number for a reader, with a proper minus sign.

    Examples
    --------
    >>> readable(-0.125), readable(1e-7, ".0e"), readable(0.0, ".0e")
    ('−0.125', '1e−07', '0')
    """
    text = f"{value:{form}}".replace("-", "−")
    return "0" if value == 0 and "e" in text else text


Basis = Literal["printed", "recovered", "chosen", "alt text"]
Known = Literal["limit"]


@dataclass(frozen=True)
class Claim:
    """One statement of the paper, its figure and ours.

    Parameters
    ----------
    text : what is claimed, in a few words
    paper, ours : both figures, as they are to be read
    agrees : whether they agree
    basis : what the comparison rests on: what the paper prints (or a statement about all functions),
        settings "recovered" from its numbers, or settings "chosen" by us to show what it describes; or only
        the "alt text" of a figure in the paper's source, which is not printed
    known : why they are known not to agree: a "limit" that we found

    Examples
    --------
    >>> Claim("Branin, first step of GD, %", "37.53", "37.53", agrees=True, basis="recovered").holds
    True
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
        """The paper's figure, marked if it stands in the alternative text of a figure alone."""
        return f"{self.paper} (alt text)" if self.basis == "alt text" else self.paper


def resting_on(basis: Basis, claims: Iterable[Claim]) -> list[Claim]:
    """Return the claims with this basis, but for those that an alternative text alone makes.

    Examples
    --------
    >>> [claim.basis for claim in resting_on("chosen", [Claim("t", "1", "1", agrees=True)])]
    ['chosen']
    """
    return [claim if claim.basis == "alt text" else replace(claim, basis=basis) for claim in claims]


@dataclass(frozen=True)
class Table:
    """A table, ready for CSV and for the page.

    Examples
    --------
    >>> Table(("function", "GD"), [("Branin", 37.53)]).columns
    ('function', 'GD')
    """

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    caption: str = ""


@dataclass
class Outcome:
    """Everything an item yields; every name in it starts with the name of the item.

    `figures` maps a name to a matplotlib Figure and `captions` to the sentence under it. `found` is what the
    page says that we found, the most important first; `notes` are for who looks closer. In both, «guillemets»
    are around a term where it is defined.

    Examples
    --------
    >>> Outcome().claims
    []
    """

    claims: list[Claim] = field(default_factory=list[Claim])
    tables: dict[str, Table] = field(default_factory=dict[str, Table])
    figures: dict[str, Any] = field(default_factory=dict[str, Any])
    captions: dict[str, str] = field(default_factory=dict[str, str])
    traces: dict[str, Trace] = field(default_factory=dict[str, Trace])
    found: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
