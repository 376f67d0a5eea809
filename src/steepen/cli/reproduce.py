"""The command `steepen reproduce`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .._tools.aligned import aligned
from ..paper import ITEMS, Report, reproduce
from ..paper._items import tally

_STYLES = {"agrees": "green", "DIFFERS": "bold red", "does not hold": "yellow", "AGREES?": "bold red"}
_WIDEST = max(map(len, _STYLES))

EXIT_CODES = (
    "0, all claims came out as expected; 1, one did not, or an interrupt; "
    "2, invalid usage, or a missing dependency"
)


def command(
    out: Annotated[Path, typer.Option(help="The output folder.")] = Path("out"),
    only: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Run only these items; see --list.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write even if the folder contains other files.")
    ] = False,
    home: Annotated[
        str | None, typer.Option(metavar="URL", help="URL of the documentation to link to.")
    ] = None,
    list_items: Annotated[bool, typer.Option("--list", help="List the items and exit.")] = False,
) -> int:
    """Reproduce the paper (table, figures and theory), and write a page that compares the results."""
    if list_items:
        width = max(map(len, ITEMS)) + 2
        for name, item in ITEMS.items():
            typer.echo(name.ljust(width) + item.title)
        return 0
    try:
        report = reproduce(out, only, force=force, progress=True, home=home)
    except ValueError as error:
        raise ValueError(f"--{error}".replace("force=True", "--force")) from error
    try:
        show(report)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has had enough; the page is there
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0 if report.holds else 1


def show(report: Report) -> None:
    """Print each claim with the paper's figure, ours and the verdict, and then the count.

    Examples
    --------
    >>> show(Report(Path("out"), {}))
    claim  paper  ours  verdict
    <BLANKLINE>
    The page: out/report.html
    0 of 0 claims agree
    """
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    if console.is_terminal:
        _show_to_people(console, report)
    else:
        _write_lines(report)
    console.print(f"\nThe page: {report.page}", soft_wrap=True)
    console.print(tally(report.claims), style="bold")


def _show_to_people(console: Console, report: Report) -> None:
    """Print each claim with its verdict and both figures, which wrap to a new line if they do not fit."""
    room = console.width - _WIDEST - 2
    for item, outcome in report.made.items():
        table = Table.grid(padding=(0, 2, 0, 0))
        for claim in outcome.claims:
            figures = f"paper: {claim.said}  ours: {claim.ours}"
            fits = len(claim.text) + 2 + len(figures) <= room
            text = Text.assemble(claim.text, "  " if fits else "\n", (figures, "dim"))
            table.add_row(Text(claim.verdict.ljust(_WIDEST), _STYLES[claim.verdict]), text)
        console.print()
        console.print(item.title, style="bold")
        console.print(table)


def _write_lines(report: Report) -> None:
    """Print one line per claim, in columns, for other programs to read."""
    claims = [(claim.text, claim.said, claim.ours, claim.verdict) for claim in report.claims]
    head, *lines = aligned([("claim", "paper", "ours", "verdict"), *claims], 4)
    typer.echo(head)
    for item, outcome in report.made.items():
        typer.echo(f"\n{item.title}")
        for _ in outcome.claims:
            typer.echo(lines.pop(0))
