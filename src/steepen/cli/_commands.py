"""The commands as one app. Each returns its exit code to `steepen.cli.main`."""

from __future__ import annotations

from typing import Annotated

import typer

from .._tools.version import version as installed
from . import explore, reproduce, sweep

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Reproduce the CGD paper, explore its landscapes, and run sweeps.",
    epilog="Exit codes: 0, success; 1, failed claim or run, or interrupt; 2, invalid usage or input, or a "
    "missing dependency.",
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
    app.command(_name, epilog=f"Exit codes: {_module.EXIT_CODES}.")(_module.command)
