"""The typer app that `steepen.cli.main` runs: `explore` and `reproduce`; prints, and writes to --out."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import fill, wrap
from typing import TYPE_CHECKING, Annotated

import typer

from .._tools.version import version as installed
from . import _sweep
from ._width import columns

if TYPE_CHECKING:
    from ..paper import Report

EXIT_CODES = (
    "Exit codes: 0, success; 1, a claim that did not come out as expected, an interrupt, or an error in a "
    "function of yours; 2, invalid usage or input, or something missing."
)
COLOURS = {
    "agrees": "green",
    "DIFFERS": "red",
    "does not hold": "yellow",
    "in part": "yellow",
    "AGREES?": "red",
}

Home = Annotated[str | None, typer.Option(metavar="URL", help="URL of the documentation to link to.")]

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    help="Constrained gradient descent (CGD): reproduce the paper, explore its landscapes, and run sweeps.",
    epilog=EXIT_CODES,
)


@app.callback(invoke_without_command=True)
def _start(  # pyright: ignore[reportUnusedFunction]
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(f"steepen {installed()}")
        raise typer.Exit(0)
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


@app.command(epilog=EXIT_CODES)
def explore(
    name: Annotated[str, typer.Argument(
        metavar="FUNCTION",
        help="The function to show first, of one or two variables: a name from `steepen.functions`, "
        "with the suffix -1d for its one-variable form.",
    )] = "branin",
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("explore.html"),
    home: Home = None,
) -> int:  # fmt: skip
    """Write an interactive page: drag λ, choose a start, and compare the steps of GD and CGD."""
    from ..paper import explorer

    if out.is_dir():
        raise ValueError(f"--out: expected a file, got the folder {str(out)!r}")
    if out.suffix.lower() != ".html":
        raise ValueError(f"--out: expected a file name ending in .html, got {str(out)!r}")
    try:
        page = explorer.explore(name, out=out, home=home)
    except ValueError as error:
        raise ValueError(re.sub("^out:", "--out:", re.sub("^fun:", "FUNCTION:", str(error)))) from error
    typer.echo(f"The page: {page}")
    return 0


app.command("sweep", epilog=EXIT_CODES)(_sweep.command)


@app.command(epilog=EXIT_CODES)
def reproduce(
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

    It takes one to three minutes.
    """
    from ..paper import _reproduce as paper  # pyright: ignore[reportPrivateUsage]

    if list_items:
        width = max(map(len, paper.ITEMS)) + 2
        for name, item in paper.ITEMS.items():
            typer.echo(name.ljust(width) + item.title)
        return 0
    try:
        report = paper.reproduce(out, only, force=force, progress=True, home=home)
    except ValueError as error:
        raise ValueError(f"--{error}".replace("force=True", "--force")) from error
    show(report)
    return 0 if report.holds else 1


def show(report: Report) -> None:
    """Print each claim with its verdict, the paper's figure and ours, within the width of the terminal."""
    from ..paper._items import tally

    head = max(map(len, COLOURS)) + 2
    width = columns() - head
    for item, outcome in report.made.items():
        typer.secho(f"\n{fill(item.title, columns())}", bold=True)
        for claim in outcome.claims:
            paper = "not a claim of the paper" if claim.basis == "ours" else f"paper: {claim.said}"
            first, *rest = [*wrap(claim.text, width), *_both(paper, f"ours: {claim.ours}", width)]
            typer.secho(claim.verdict.ljust(head), fg=COLOURS[claim.verdict], nl=False)
            typer.echo("\n".join([first, *(" " * head + line for line in rest)]))
    typer.echo(f"\nThe page: {report.page}")
    typer.secho(fill(tally(report.claims), columns()), bold=True)


def _both(paper: str, ours: str, width: int) -> list[str]:
    """Return both on one line if they fit, and else one below the other."""
    line = f"{paper}  {ours}"
    if len(line) <= width:
        return [line]
    return [part for text in (paper, ours) for part in wrap(text, width, subsequent_indent="  ")]
