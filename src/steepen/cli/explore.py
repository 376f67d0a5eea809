"""The command `steepen explore`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from ..explorer import explore
from ._options import Home


def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="FUNCTION",
            help="The function to show first, of one or two variables: a name from `steepen.functions`, "
            "with the suffix -1d for its one-variable form.",
        ),
    ] = "branin",
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("explore.html"),
    home: Home = None,
) -> int:
    """Write an interactive page: drag λ, choose a start, and compare the steps of GD and CGD."""
    if out.suffix.lower() != ".html":
        raise ValueError(f"--out: expected a file name ending in .html, got {str(out)!r}")
    try:
        page = explore(name, out=out, home=home)
    except ValueError as error:
        raise ValueError(re.sub("^out:", "--out:", re.sub("^fun:", "FUNCTION:", str(error)))) from error
    typer.echo(f"The page: {page}")
    return 0
