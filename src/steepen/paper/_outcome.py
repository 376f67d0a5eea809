"""What one item of the paper gives: claims held against ours, tables, figures and raw traces."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .._core.result import Trace


def number(value: float, form: str = ".4g") -> str:
    """Write a number to be read, with a minus sign that is one.

    Examples
    --------
    >>> number(-0.125), number(1e-7, ".0e")
    ('−0.125', '1e−07')
    """
    return f"{value:{form}}".replace("-", "−")


@dataclass(frozen=True)
class Claim:
    """One statement of the paper, its figure and ours.

    Parameters
    ----------
    text : what is claimed, in a few words
    paper, ours : both figures, as they are to be read
    agrees : whether they agree
    expected : whether they should; False for a known slip of the paper, which is shown but fails nothing

    Examples
    --------
    >>> Claim("Branin, first step of GD, %", "37.53", "37.53", agrees=True).holds
    True
    """

    text: str
    paper: str
    ours: str
    agrees: bool
    expected: bool = True

    @property
    def holds(self) -> bool:
        """Whether this is what we expect: agreement, or a slip that is known.

        Examples
        --------
        >>> Claim("κ(B) > 0 gives κ > κ(Q)", "> 0", "> 1", agrees=False, expected=False).holds
        True
        """
        return self.agrees == self.expected


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
    """All that an item gives; every name in it starts with the item's name.

    `figures` maps a name to a matplotlib Figure and `captions` to the sentence under it.

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
    notes: list[str] = field(default_factory=list[str])
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
