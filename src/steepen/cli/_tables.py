"""What the command shows: plain aligned text, fitted to the terminal if there is one."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import typer
from rich.console import Console


class Column(NamedTuple):
    """One column of a table: numbers are aligned to the right, words to the left."""

    title: str
    cells: Sequence[str]
    right: bool = True

    @property
    def width(self) -> int:
        """How many characters the column takes."""
        return max(map(len, (self.title, *self.cells)))

    def fit(self, text: str) -> str:
        """Pad a cell to the width of the column."""
        return text.rjust(self.width) if self.right else text.ljust(self.width)


def _width(columns: Sequence[Column]) -> int:
    return sum(c.width + 2 for c in columns) - 2


class Page:
    """Standard output: as wide as the terminal, or of unlimited width if it is not one."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, markup=False, emoji=False)
        self.terminal = self._console.is_terminal
        self.width = self._console.width if self.terminal else 10**9

    def line(self, text: str = "", style: str = "") -> None:
        """Write a line."""
        self._console.print(text.rstrip(), style=style, soft_wrap=True)

    def note(self, text: str, style: str = "dim") -> None:
        """Write a sentence, on as many lines as it needs."""
        for line in textwrap.wrap(text, min(self.width, 10**6)):
            self.line(line, style)

    def table(
        self, columns: Sequence[Column], styles: Sequence[str] = (), groups: Sequence[str] = ()
    ) -> None:
        """Write columns; those that do not fit follow below, beside the first one repeated.

        `styles` and `groups` have one entry per row; the name of a group is written above its first row.
        """
        key, block, rest = columns[0], [columns[0]], list(columns[1:])
        # the second one is taken in any case, and wrapped by a terminal that has no room for it
        while rest and (len(block) == 1 or _width([*block, rest[0]]) <= self.width):
            block.append(rest.pop(0))
        self.line("  ".join(c.fit(c.title) for c in block), "bold")
        for i in range(len(key.cells)):
            if groups and (i == 0 or groups[i] != groups[i - 1]):
                self.line()
                self.line(groups[i], "bold")
            self.line("  ".join(c.fit(c.cells[i]) for c in block), styles[i] if styles else "")
        if rest:
            self.line()
            self.table([key, *rest], styles, groups)


def short(value: float, digits: int = 3) -> str:
    """Write a number to this many digits; a dash stands for NaN.

    Examples
    --------
    >>> short(0.000123456), short(1.0), short(float("nan"))
    ('0.000123', '1', '–')
    """
    if math.isnan(value):
        return "–"
    if digits >= 17:
        return repr(value + 0.0).removesuffix(".0")
    return f"{value + 0.0:.{digits}g}"


def count(number: int, noun: str) -> str:
    """Write a number of things."""
    return f"{number} {noun}" + "s" * (number != 1)


def print_json(document: Any) -> None:
    """Print a document: null for what is not a finite number, and ASCII, which every terminal can show."""
    typer.echo(json.dumps(_finite(document), allow_nan=False, indent=2))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return None if isinstance(value, float) and not math.isfinite(value) else value
