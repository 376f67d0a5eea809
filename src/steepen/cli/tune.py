"""The command `steepen tune`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from .. import plot
from .._sweep.tune import TOP, Task, tune
from .._tools.files import make_folder, write_whole
from .._tools.optional import load
from ..directions import METHODS
from ..plot._sweeps import cells
from ._options import AsJson, Quiet, function_or_own, one_of, parsed
from ._tables import Column, Page, print_json, short
from .sweep import Jobs

EXIT_CODES = "0, the study is complete; 1, an interrupt; 2, wrong usage or input, or a missing dependency"


def command(
    name: Annotated[
        str, typer.Argument(metavar="FUNCTION", help="A name from `steepen functions`, or module:name.")
    ],
    method: Annotated[str, typer.Option(help=", ".join(METHODS))] = "cgd-fd",
    n: Annotated[int | None, typer.Option("--n", min=1, help="The dimension, where it is free.")] = None,
    box: Annotated[
        str | None,
        typer.Option(metavar="LOW,HIGH", help="Where starts are drawn, if the function has no bounds."),
    ] = None,
    grads: Annotated[int, typer.Option(min=2, help="Gradients of a run.")] = 40,
    trials: Annotated[int, typer.Option(min=1, help="Settings to try.")] = 100,
    starts: Annotated[int, typer.Option(min=1, help="Starts to tune on.")] = 40,
    judge: Annotated[int, typer.Option(min=1, help="Other starts, to judge on.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="The seed of starts and of proposals.")] = 0,
    jobs: Jobs = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder to write; by default out/tune-FUNCTION.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Tune α, λ, r and b of a method with Optuna, and judge the best on starts that were not tuned on.

    A setting is as good as the median of f at the end of its runs; one that overflows, or ends above its
    start, counts as infinite. The five best run from other starts, and the lowest median there is the choice.
    The same command goes on where it stopped; with more --trials it adds to them. With one process the
    result follows from the seed, with several also from who is first.
    """
    one_of("--method", method, METHODS)
    load("optuna", "steepen tune", extra="tune")
    load("matplotlib", "steepen tune", extra="plot")
    label, fun = function_or_own(name, n)
    folder = out or Path("out", f"tune-{label}")
    task = Task(fun, label, _box(fun, label, box, n), method, grads, starts, judge, seed)
    make_folder("--out", folder)
    try:
        best, every = tune(task, trials, folder / "journal.log", jobs=jobs, progress=not quiet)
    except ValueError as error:
        raise ValueError(f"--{error}" if str(error).startswith("out:") else str(error)) from error
    write_whole(folder / "best.csv", lambda stream: stream.write(best.to_csv(index=False).encode()))
    write_whole(folder / "trials.csv", lambda stream: stream.write(cells(every).to_csv(index=False).encode()))
    if "lam" in every and every.lam.nunique() > 1:
        plot.save(plot.settings_map(every, fmin=getattr(fun, "fmin", None)), folder / "trials.png")
    if as_json:
        rows = best.to_dict("records")
        print_json({"function": label, "method": method, "trials": trials, "out": str(folder), "best": rows})
    elif not quiet:
        show(best)
        typer.echo(f"\n{trials} trials on {starts} starts; the best {TOP} judged on {judge} others: {folder}")
    return 0


def show(best: Any) -> None:
    """Write the best settings, the choice first."""
    names = [name for name in best if name not in ("method", "tuned", "judged", "diverged")]
    columns = [Column("method", [f"{m}{'*' * (i == 0)}" for i, m in enumerate(best.method)], right=False)]
    columns += [Column(name, [short(value) for value in best[name]]) for name in names]
    columns += [
        Column(f"{name}: median f", [short(v, 6) for v in best[name]]) for name in ("tuned", "judged")
    ]
    columns.append(Column("diverged", [f"{value:.0%}" for value in best.diverged]))
    page = Page()
    page.table(columns)
    page.note("*: the choice. tuned: on the starts that settings were chosen by; judged: on others.")


def _box(fun: Any, label: str, text: str | None, n: int | None) -> Any:
    if text is None:
        own = getattr(fun, "bounds", None)
        if own is None:
            raise ValueError(f"--box: expected LOW,HIGH with --n, since {label!r} has no bounds")
        return np.asarray(own, dtype=float)
    values: Any = [parsed(word) for word in text.split(",")]
    size = getattr(fun, "n", n)
    if size is None:
        raise ValueError("--n: expected the dimension, with --box")
    if len(values) != 2 or None in values or not values[0] < values[1]:
        raise ValueError(f"--box: expected two rising numbers with a comma between, got {text!r}")
    return np.array([values] * size, dtype=float)
