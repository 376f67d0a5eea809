"""The commands, under one name. Each returns its exit code to `steepen.cli.main`."""

from __future__ import annotations

from typing import Annotated

import typer

from .._tools.version import version as installed
from . import explore, reproduce, sweep, train

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="The CGD paper run again, its landscapes, sweeps, and trials of sharpness-aware training.",
    epilog="Exit codes: 0, done; 1, a claim, a run or an interrupt says so; 2, wrong usage or input, or a "
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


for _name, _module in {"explore": explore, "sweep": sweep, "reproduce": reproduce, "train": train}.items():
    app.command(_name, epilog=f"Exit codes: {_module.EXIT_CODES}.")(_module.command)
