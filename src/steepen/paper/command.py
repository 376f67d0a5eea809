"""The command `steepen reproduce`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ._record import Report, tally, verdict
from .reproduce import ITEMS, reproduce

_STYLES = {"agrees": "green", "DIFFERS": "bold red", "known slip": "yellow", "AGREES?": "bold red"}


def register(app: typer.Typer) -> None:
    """Add the command to an application.

    Examples
    --------
    >>> app = typer.Typer()
    >>> register(app)
    >>> [command.name for command in app.registered_commands]
    ['reproduce']
    """
    app.command("reproduce")(command)


def command(
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("out"),
    only: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Only these items; see --list.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Redo what is there, and write into any folder.")
    ] = False,
    list_items: Annotated[bool, typer.Option("--list", help="List the items and stop.")] = False,
) -> int:
    """Run the paper again: its table, figures and theory, and a page about them.

    Exit codes: 0, all claims came out as expected; 1, one did not, or the run was interrupted; 2, wrong
    usage.
    """
    if list_items:
        width = max(map(len, ITEMS)) + 2
        for name, module in ITEMS.items():
            typer.echo(name.ljust(width) + importlib.import_module(module).TITLE)
        return 0
    try:
        report = reproduce(out, only, force=force, progress=True)
    except ValueError as error:
        raise ValueError(f"--{error}") from error
    except KeyboardInterrupt:
        sentence = f"interrupted; {out} keeps what was done; the same command goes on from there"
        typer.echo(f"steepen: {sentence}", err=True)
        return 1
    show(report)
    return 0 if report.holds else 1


def show(report: Report) -> None:
    """Write each claim with the paper's figure, ours, and the verdict; then the count.

    Examples
    --------
    >>> show(Report(Path("out"), [], []))
    claim  paper  ours  verdict
    <BLANKLINE>
    The page: out/report.html
    0 of 0 claims agree
    """
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 10_000  # whole lines for whatever reads them
    rows = [("claim", "paper", "ours"), *((c.text, c.paper, c.ours) for c in report.claims)]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    widths[1:] = [min(width, max(12, console.width // 4)) for width in widths[1:]]
    widths[0] = min(widths[0], console.width - sum(widths[1:]) - len("known slip") - 6)
    _print(console, widths, [(*rows[0], Text("verdict"))])
    for item in report.items:
        console.print()
        console.print(item.title, style="bold")
        words = map(verdict, item.claims)
        lines = [
            (c.text, c.paper, c.ours, Text(w, _STYLES[w])) for c, w in zip(item.claims, words, strict=True)
        ]
        _print(console, widths, lines)
    console.print()
    if report.kept:
        console.print(f"Kept from an earlier run: {', '.join(report.kept)}")
    console.print(f"The page: {report.page}", soft_wrap=True)
    console.print(tally(report.claims), style="bold")


def _print(console: Console, widths: Sequence[int], rows: Iterable[tuple[str, str, str, Text]]) -> None:
    """Write rows, each cell on as many lines as it needs, without blanks at the end of a line."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    for width in widths:
        table.add_column(width=width, overflow="fold")
    table.add_column(no_wrap=True)
    for row in rows:
        table.add_row(*row)
    with console.capture() as text:
        console.print(table)
    console.file.write("".join(f"{line.rstrip()}\n" for line in text.get().splitlines()))
