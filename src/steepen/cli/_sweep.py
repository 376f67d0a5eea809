"""The command `steepen sweep`, part of the app: imports what the TOML file names, writes to --out, prints."""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from traceback import walk_tb
from typing import Annotated, Any, cast
from urllib.parse import quote

import numpy as np
import typer

from .. import plot
from .._sweep.grid import AXES
from .._sweep.sweep import named, sweep
from .._tools.files import make_folder, write_whole
from .._tools.optional import load
from ..budget import Budget
from ..plot._sweeps import SETTINGS, cells, mapped
from ._width import columns


def command(
    file: Annotated[Path, typer.Argument(
        metavar="FILE.toml", exists=True, dir_okay=False,
        help="The arguments of `steepen.sweep`; docs/many.md has an example.",
    )],
    out: Annotated[Path | None, typer.Option(help="The output folder; by default `out/FILE`.")] = None,
    workers: Annotated[int, typer.Option(
        help="The number of processes, or -1 for one per core."
    )] = 1,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no text and no progress bar.")] = False,
) -> int:  # fmt: skip
    """Run the sweep that a TOML file describes; if interrupted, the same command resumes it.

    The output folder gets results.sqlite (all runs), settings.csv (one line per setting) and plots.
    """
    load("matplotlib", "steepen sweep", extra="plot")
    if not (workers > 0 or workers == -1):
        raise ValueError(f"--workers: expected 1 or more, or -1 for one per core, got {workers}")
    folder = out or Path("out", file.stem)
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        given = read(file)
        make_folder("--out", folder)
        table = sweep(**given, out=folder / "results.sqlite", workers=workers, progress=not quiet)
    except (ValueError, TypeError, RuntimeError, OSError, ImportError) as error:
        _remove_empty(made)
        modules = {frame.f_globals["__name__"].partition(".")[0] for frame, _ in walk_tb(error.__traceback__)}
        theirs = modules - {"steepen", "loky", "numpy", "pandas", *sys.stdlib_module_names}
        raise (RuntimeError if theirs else ValueError)(f"{file}: {error}") from error  # the first is traced
    found = cells(table)
    found["best"] = found.groupby(["function", "method"], observed=True).f.transform("min") == found.f
    write_whole(folder / "settings.csv", lambda part: part.write(found.to_csv(index=False).encode()))
    save_plots(table, named(given["fun"]), folder)
    if not quiet:
        show(found)
        typer.echo(f"\n{len(table)} runs, in {folder}")
    return 0


def read(path: Path) -> dict[str, Any]:
    """Return the arguments of `sweep`: text such as "mine:loss" is imported, tables are ranges and limits."""
    given = {name: _imported(name, value) for name, value in tomllib.loads(path.read_text("utf-8")).items()}
    for name in ("fun", "starts"):
        if name not in given:
            raise ValueError(
                f'{name}: missing; a file needs fun and starts, such as fun = "branin", starts = 20'
            )
    for name in ("workers", "out", "progress"):
        if name in given:
            raise ValueError(
                f"{name}: expected none in the file; the command has --workers, --out and --quiet"
            )
    for name in (*AXES, "budget"):
        if isinstance(given.get(name), dict):
            keys = Budget.__annotations__ if name == "budget" else ("start", "stop", "num")
            try:
                given[name] = Budget(**given[name]) if name == "budget" else np.geomspace(**given[name])
            except (TypeError, ValueError) as error:
                raise ValueError(f"{name}: {error}; the keys are {', '.join(keys)}") from error
    return given


def _remove_empty(folders: Sequence[Path]) -> None:
    """Remove folders that were made for nothing, the innermost first."""
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:  # it holds results, or was not made
            return


def _imported(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_imported(name, one) for one in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _imported(name, one) for key, one in cast("dict[str, Any]", value).items()}
    if not (isinstance(value, str) and ":" in value):
        return value
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
    module, _, attribute = value.partition(":")
    try:
        return attrgetter(attribute)(importlib.import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{name}: {value!r} could not be imported: {error}") from error


def show(found: Any) -> None:
    """Print the best setting of each method on each function: the lowest median f over the starts."""
    each = ["function", "method"]
    found = found.assign(settings=found.groupby(each, observed=True).f.transform("size"))
    best = found[found.best].drop_duplicates(each).rename(columns={"f": "median f"})
    names = [name for name in SETTINGS[1:] if name in found]
    forms = {"na_rep": "–", "float_format": "{:.3g}".format, "formatters": {"diverged": "{:.0%}".format}}
    shown = best[[*each, *names, "median f", "diverged", "settings"]]
    typer.echo(shown.to_string(index=False, line_width=columns(), **forms))


def save_plots(table: Any, functions: dict[str, Any], folder: Path) -> None:
    """Save the plots that the table allows: maps of λ and α, and profiles."""
    fmin = {name: getattr(one, "fmin", None) for name, one in functions.items()}
    for (name, method), part in table.groupby(["function", "method"], observed=True, sort=False):
        part = mapped(part)
        if any(axis not in part or part[axis].nunique() < 2 for axis in ("lam", "step")):
            continue
        others = [one for one in SETTINGS if one not in ("lam", "step") and one in part]
        for setting, cell in part.groupby(others, dropna=False, observed=True, sort=False):
            pairs = zip(others, setting, strict=True)
            varied = [f"{one}={value}" for one, value in pairs if part[one].nunique() > 1]
            file = quote("-".join(["map", str(name), str(method), *varied]), safe=" ()=,")
            plot.save(plot.settings_map(cell, fmin=fmin[name]), folder / f"{file}.png")
    if any(name.startswith("f_") for name in table):
        known: Any = fmin if all(value is not None for value in fmin.values()) else None
        plot.save(plot.profiles(table, fmin=known), folder / "profiles.png")
