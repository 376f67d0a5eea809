"""The command `steepen sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .. import plot
from .._sweep import sweep
from .._tools.files import make_folder, write_whole
from .._tools.optional import load
from ..plot._sweeps import SETTINGS, cells
from ._options import Quiet
from ._sweep_file import located, read

__all__ = ["show"]


def command(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.toml", help="Functions, starts, methods and settings; docs/many.md has an example."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="The output folder; by default the one named in the file.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="The number of processes; 1 by default.")] = None,
    quiet: Quiet = False,
) -> int:
    """Run the sweep that a TOML file describes; if interrupted, the same command resumes it.

    The output folder gets results.jsonl (all runs), settings.csv (one line per setting) and plots.
    """
    load("matplotlib", "steepen sweep", extra="plot")
    if not file.is_file():
        raise ValueError(f"FILE.toml: file {str(file)!r} does not exist")
    given, folder = read(file)
    folder = out or folder
    make_folder("out", folder)
    with located(file):
        table: Any = sweep(**given, out=folder / "results.jsonl", jobs=jobs, progress=not quiet)
    found = cells(table)
    found["best"] = found.groupby(["function", "method"], observed=True).f.transform("min") == found.f
    write_whole(folder / "settings.csv", lambda stream: stream.write(found.to_csv(index=False).encode()))
    save_plots(table, given, folder)
    if not quiet:
        show(found)
        typer.echo(f"\n{len(table)} runs, in {folder}")
    return 0


def show(found: Any) -> None:
    """Print the best setting of each method on each function: the lowest median f over the starts.

    Examples
    --------
    >>> import steepen as st
    >>> from steepen.plot._sweeps import cells
    >>> found = cells(st.sweep("booth", 5, method="gd", step=[0.01, 0.1], budget=st.Budget(grads=60)))
    >>> show(found.assign(best=found.f == found.f.min()))
    function method  step  median f diverged  settings
       booth     gd   0.1 ...             0%         2
    """
    each = ["function", "method"]
    found = found.assign(settings=found.groupby(each, observed=True).f.transform("size"))
    best = found[found.best].drop_duplicates(each).rename(columns={"f": "median f"})
    names = [name for name in SETTINGS[1:] if name in found]
    forms = {"na_rep": "–", "float_format": "{:.3g}".format, "formatters": {"diverged": "{:.0%}".format}}
    typer.echo(best[[*each, *names, "median f", "diverged", "settings"]].to_string(index=False, **forms))


def save_plots(table: Any, given: dict[str, Any], folder: Path) -> None:
    """Save the plots that the table allows: maps and profiles."""
    fmin = {name: getattr(one, "fmin", None) for name, one in given["fun"].items()}
    for (name, method), part in table.groupby(["function", "method"], observed=True, sort=False):
        numbers = [axis for axis in ("lam", "step") if axis in part and part[axis].dtype.kind == "f"]
        if len(numbers) == 2 and all(part[axis].nunique() > 1 for axis in numbers):
            plot.save(plot.settings_map(part, fmin=fmin[name]), folder / f"map-{name}-{method}.png")
    if any(name.startswith("f_") for name in table):
        known: Any = fmin if all(value is not None for value in fmin.values()) else None
        plot.save(plot.profiles(table, fmin=known), folder / "profiles.png")
