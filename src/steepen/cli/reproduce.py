"""The command `steepen reproduce`."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..paper._record import Item, Report, tally, verdict
from ..paper.reproduce import ITEMS, reproduce

_STYLES = {
    "agrees": "green",
    "DIFFERS": "bold red",
    "limit": "yellow",
    "AGREES?": "bold red",
}
_WIDEST = max(map(len, _STYLES))


EXIT_CODES = (
    "0, all claims came out as expected; 1, one did not, or an interrupt; "
    "2, wrong usage, or a missing dependency"
)


def command(
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("out"),
    only: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Only these items; see --list.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Redo what is there, and write into any folder.")
    ] = False,
    home: Annotated[
        str | None, typer.Option(metavar="URL", help="Where the documentation lies, for links to it.")
    ] = None,
    list_items: Annotated[bool, typer.Option("--list", help="List the items and stop.")] = False,
) -> int:
    """Run the paper again: its table, figures and theory, and a page about them."""
    if list_items:
        width = max(map(len, ITEMS)) + 2
        for name, module in ITEMS.items():
            typer.echo(name.ljust(width) + importlib.import_module(module).TITLE)
        return 0
    try:
        report = reproduce(out, only, force=force, progress=True, home=home)
    except ValueError as error:
        raise ValueError(f"--{error}".replace("force=True", "--force")) from error
    except KeyboardInterrupt:
        command = "the same command without --force" if force else "the same command"
        sentence = f"interrupted; {out} keeps what was done; {command} goes on from there"
        typer.echo(f"steepen: {sentence}", err=True)
        return 1
    try:
        show(report)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has had enough; the page is there
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
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
    kept = [f"Kept from an earlier run: {', '.join(report.kept)}"] if report.kept else []
    last = ["", *kept, f"The page: {report.page}", tally(report.claims)]
    if console.is_terminal:
        _show_to_people(console, report.items)
        for line in last[:-1]:
            console.print(line, soft_wrap=line.startswith("The page"))
        console.print(last[-1], style="bold")
    else:
        _write_lines(report.items)
        sys.stdout.writelines(f"{line}\n" for line in last)


def _show_to_people(console: Console, items: Sequence[Item]) -> None:
    """Write each claim beside its verdict; both figures follow, on a line of their own if they do not fit."""
    room = console.width - _WIDEST - 2
    for item in items:
        table = Table.grid(padding=(0, 2, 0, 0))
        for claim in item.claims:
            word = verdict(claim)
            figures = f"paper: {claim.said}  ours: {claim.ours}"
            fits = len(claim.text) + 2 + len(figures) <= room
            text = Text.assemble(claim.text, "  " if fits else "\n", (figures, "dim"))
            table.add_row(Text(word.ljust(_WIDEST), _STYLES[word]), text)
        console.print()
        console.print(item.title, style="bold")
        console.print(table)


def _write_lines(items: Sequence[Item]) -> None:
    """Write one line per claim, in columns, for other programs to read."""
    rows = [(c.text, c.said, c.ours, verdict(c)) for item in items for c in item.claims]
    head = ("claim", "paper", "ours", "verdict")
    widths = [max(map(len, cells)) for cells in zip(head, *rows, strict=True)]

    def write(row: Sequence[str]) -> None:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write(line.rstrip() + "\n")

    write(head)
    for item in items:
        sys.stdout.write(f"\n{item.title}\n")
        for claim in item.claims:
            write((claim.text, claim.said, claim.ours, verdict(claim)))
