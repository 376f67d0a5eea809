"""The commands as one app. Each returns its exit code to `steepen.cli.main`."""

from __future__ import annotations

from typing import Annotated

import typer

from .._tools.version import version as installed
from . import explore, reproduce, sweep

EXIT_CODES = (
    "Exit codes: 0, success; 1, a claim that did not come out as expected, or an interrupt; "
    "2, invalid usage or input, or something missing."
)

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Reproduce the CGD paper, explore its landscapes, and run sweeps.",
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


for _name, _module in {"explore": explore, "sweep": sweep, "reproduce": reproduce}.items():
    app.command(_name, epilog=EXIT_CODES)(_module.command)
