"""The command `steepen train`: `steepen.train.compare` on the user's script."""

from __future__ import annotations

import inspect
import runpy
from pathlib import Path
from typing import Annotated, Any

import typer

from .._tools.files import make_folder
from ._options import AsJson, Quiet, print_json


def command(
    script: Annotated[
        Path,
        typer.Argument(
            metavar="SCRIPT.py",
            help="A Python file that defines make_model, loss, train and test, and optionally other "
            "arguments of `compare` in steepen.train.",
        ),
    ],
    methods: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="The methods; by default sam, share16-late and gap."),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Runs per method; 3 by default.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or mps.")] = "cpu",
    out: Annotated[Path | None, typer.Option(help="The results file; by default in the folder out.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Train your model with several methods, all with the same number of gradients and of trials.

    For each seed, all methods start from the same weights and see the same minibatches.

    If interrupted, the same command makes only the missing runs.
    """
    from ..train import compare

    task = _read(script, set(inspect.signature(compare).parameters) - {"out", "progress", "device"})
    task |= {} if methods is None else {"methods": [name.strip() for name in methods.split(",")]}
    task |= {} if seeds is None else {"seeds": seeds}
    file = Path("out", f"{script.stem}.jsonl") if out is None else out
    make_folder("--out", file.parent)
    found = compare(**task, device=device, out=file, progress=not quiet)
    if as_json:
        rows = [line._asdict() for line in found.summary()]
        print_json({"settings": found.settings, "summary": rows, "failures": found.failures})
    elif not quiet:
        typer.echo(f"{found}\n\n±: standard error over seeds. Results: {file}")
    return 0


def _read(script: Path, known: set[str]) -> dict[str, Any]:
    """Run a Python file, and return its variables that are arguments of `compare`."""
    if not script.is_file():
        raise ValueError(f"SCRIPT.py: file {str(script)!r} does not exist")
    names = runpy.run_path(str(script))
    missing = [name for name in ("make_model", "loss", "train", "test") if name not in names]
    if missing:
        raise ValueError(f"SCRIPT.py: {str(script)!r} does not define {', '.join(missing)}")
    return {name: value for name, value in names.items() if name in known}
