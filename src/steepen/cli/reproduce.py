"""The command `steepen reproduce`."""

from __future__ import annotations

import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from ._options import Home

if TYPE_CHECKING:
    from ..paper import Report

_STYLES = {"agrees": "green", "DIFFERS": "bold red", "does not hold": "yellow", "AGREES?": "bold red"}


def command(
    out: Annotated[Path, typer.Option(help="The output folder.")] = Path("out"),
    only: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Run only these items; see --list.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write even if the folder contains other files.")
    ] = False,
    home: Home = None,
    list_items: Annotated[bool, typer.Option("--list", help="List the items and exit.")] = False,
) -> int:
    """Reproduce the paper (table, figures and theory), and write a page that compares the results.

    This needs the source tree: in a clone, `make reproduce` installs what it needs and runs it.
    """
    if find_spec("steepen.paper") is None:
        raise ValueError(
            "reproduce: the paper's studies are in the source tree of steepen, not in the installed package; "
            "run `make reproduce` in a clone"
        )
    from ..paper._reproduce import ITEMS, reproduce

    if list_items:
        width = max(map(len, ITEMS)) + 2
        for name, item in ITEMS.items():
            typer.echo(name.ljust(width) + item.title)
        return 0
    try:
        report = reproduce(out, only, force=force, progress=True, home=home)
    except ValueError as error:
        raise ValueError(f"--{error}".replace("force=True", "--force")) from error
    show(report)
    return 0 if report.holds else 1


def show(report: Report) -> None:
    """Print each claim with its verdict, the paper's figure and ours; wrapped on a terminal, else one line.

    Examples
    --------
    >>> from steepen.paper import Report
    >>> show(Report(Path("out"), {}))
    <BLANKLINE>
    The page: out/report.html
    0 of 0 claims agree
    """
    from ..paper._items import tally

    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    console.soft_wrap = not console.is_terminal
    indent = max(map(len, _STYLES)) + 2
    width = console.width if console.is_terminal else sys.maxsize
    for item, outcome in report.made.items():
        console.print(f"\n{item.title}", style="bold")
        for claim in outcome.claims:
            line = f"{claim.verdict:{indent}}{claim.text}  paper: {claim.said}  ours: {claim.ours}"
            text = Text(textwrap.fill(line, width, subsequent_indent=" " * indent))
            text.stylize(_STYLES[claim.verdict], 0, len(claim.verdict))
            console.print(text)
    console.print(f"\nThe page: {report.page}", soft_wrap=True)
    console.print(tally(report.claims), style="bold")
