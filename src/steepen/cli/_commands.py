"""The commands themselves. Each returns its exit code to `steepen.cli.main`."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from .. import __version__, plot
from .._core.records import State
from .._core.result import Result, Status
from .._minimize import minimize
from .._tools.files import write_whole
from .._tools.optional import load
from ..budget import Budget
from ..directions import METHODS
from ..functions import functions as all_functions
from . import _options, _tables, explore, reproduce, sweep, train, tune
from ._options import AsJson, Quiet
from ._tables import print_json

EXIT_CODES = (
    "Exit codes: 0, a tolerance was met or the budget that was asked for is spent; 1, a run failed "
    "(no finite value or gradient, no descent, an artificial stationary point, an interrupt, or no "
    "convergence within the default limit); "
    "2, wrong usage or input, or a missing dependency."
)

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Gradient-regularised optimisation: descend f + λ‖∇f‖², guarded by f itself.",
    epilog=EXIT_CODES,
)

Name = Annotated[str, typer.Argument(metavar="FUNCTION", help="A name from `steepen functions`.")]
Dimension = Annotated[int | None, typer.Option("--n", min=1, help="The dimension, where it is free.")]
Start = Annotated[
    str | None,
    typer.Option(
        "--x0",
        metavar="a,b,...",
        help="The start point. By default, or with the word random, a draw inside the bounds, "
        "always the same for the same --seed.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="The seed of random start points.")]
StepOption = Annotated[
    str | None,
    typer.Option(
        "--step", metavar="α", help="A number, L(a,b), cosine(a,b), quadratic, or armijo (the default)."
    ),
]
Lam = Annotated[
    str | None,
    typer.Option(
        "--lam", metavar="λ", help="Of the cgd methods: a number, L(a,b), cosine(a,b), or auto (the default)."
    ),
]
Probe = Annotated[float | None, typer.Option("--r", help="Of cgd-fd: the second gradient is at x + r∇f.")]
Until = Annotated[int | None, typer.Option("--b", help="Of the cgd methods: the last penalised iteration.")]
PenaltyOption = Annotated[
    str | None,
    typer.Option(
        "--penalty",
        metavar="h",
        help="Of the cgd methods: squared-l2 (the default), l2, l1, huber, p-norm; also huber(0.5).",
    ),
]
Grads = Annotated[int | None, typer.Option(help="At most this many gradients.")]
Evals = Annotated[int | None, typer.Option(help="At most this many values of f.")]
Iters = Annotated[int | None, typer.Option(help="At most this many iterations.")]
Seconds = Annotated[float | None, typer.Option(help="At most this much time.")]
Gtol = Annotated[float | None, typer.Option(help="Converged once ‖∇f‖ is at most this; 1e-5 by default.")]
GtolRel = Annotated[
    float, typer.Option(help="Converged, too, once ‖∇f‖ is at most this part of the largest one seen.")
]
Scale = Annotated[
    str | None,
    typer.Option("--x-scale", metavar="s", help="Sizes of the variables: a number, or one each, or auto."),
]
PlotFile = Annotated[Path | None, typer.Option("--plot", help="Draw the run: .png, .svg or .pdf.")]


@app.callback(invoke_without_command=True)
def _start(  # pyright: ignore[reportUnusedFunction]
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(f"steepen {__version__}")
        raise typer.Exit(0)
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


@app.command()
def functions(
    name: Annotated[str | None, typer.Argument(help="Describe this one.")] = None,
    n: Dimension = None,
    as_json: AsJson = False,
) -> int:
    """List the test functions, or describe one."""
    if name is None:
        if n is not None:
            raise ValueError("--n: give the name of a function with it")
        chosen = list(all_functions.values())
    else:
        chosen = [_options.function(name, n)]
    if as_json:
        rows = [
            {key: getattr(f, key) for key in ("name", "title", "group", "n", "any_n", "fmin")}
            | {"bounds": f.bounds.tolist(), "minima": f.minima.tolist()}
            for f in chosen
        ]
        print_json(rows if name is None else rows[0])
    elif name is None:
        _tables.show_functions(_tables.Page(), chosen)
    else:
        _tables.show_function(_tables.Page(), chosen[0])
    return 0


@app.command(epilog=EXIT_CODES)
def run(
    name: Name,
    method: Annotated[str, typer.Option(help=", ".join(METHODS))] = "cgd-auto",
    n: Dimension = None,
    x0: Start = None,
    seed: Seed = 0,
    step: StepOption = None,
    lam: Lam = None,
    r: Probe = None,
    b: Until = None,
    penalty: PenaltyOption = None,
    grads: Grads = None,
    evals: Evals = None,
    iters: Iters = None,
    seconds: Seconds = None,
    gtol: Gtol = None,
    gtol_rel: GtolRel = 0.0,
    x_scale: Scale = None,
    trace: Annotated[Path | None, typer.Option(help="Write the trace: .csv or .npz.")] = None,
    plot_file: PlotFile = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Save the run there, and go on from there if the file exists.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Minimise a test function with one method."""
    _options.one_of("--method", method, METHODS)
    fun, start = _options.problem(name, n, x0, seed)
    options, sizes = _method_options(step, lam, r, b, penalty), _options.sizes(x_scale)
    budget = _budget(grads, evals, iters, seconds)
    _options.check_spread(options, budget)
    _check_files(plot_file, ("--trace", trace, (".csv", ".npz")), ("--checkpoint", checkpoint, ()))
    with np.errstate(all="ignore"):  # what is not finite is a status
        result = minimize(
            fun, start, method=method, budget=budget, gtol=gtol, gtol_rel=gtol_rel, x_scale=sizes,
            progress=not quiet, trace="x" if fun.n <= 100 else True, checkpoint=checkpoint,
            **options,
        )  # fmt: skip
    if trace is not None and result.trace is not None:
        result.trace.save(trace)
    if plot_file is not None:
        plot.save(plot.overview(fun, {result.method: result}), plot_file)
    record = _tables.record(fun, result)
    if as_json:
        about = {"function": fun.name, "n": fun.n, "fmin": fun.fmin, "x0": start.tolist()}
        print_json(about | record | {"seconds": result.seconds})
    elif not quiet:
        _tables.show_run(_tables.Page(), fun, start, result, record)
    return _exit_code({method: [record]}, limited=budget is not None)


@app.command(epilog=EXIT_CODES)
def compare(
    name: Name,
    methods: Annotated[str, typer.Option(help="Names, separated by commas.")] = "gd,cgd-fd,cgd-auto",
    n: Dimension = None,
    x0: Start = None,
    seed: Seed = 0,
    starts: Annotated[int, typer.Option(min=1, help="This many random starts, as one batch.")] = 1,
    step: StepOption = None,
    lam: Lam = None,
    r: Probe = None,
    b: Until = None,
    penalty: PenaltyOption = None,
    grads: Annotated[
        int | None, typer.Option(help="At most this many gradients; 40 if no limit is given.")
    ] = None,
    evals: Evals = None,
    iters: Iters = None,
    seconds: Seconds = None,
    gtol: Gtol = None,
    gtol_rel: GtolRel = 0.0,
    x_scale: Scale = None,
    plot_file: PlotFile = None,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", help="Write a line for each method and start.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Compare methods from the same start points, each with the options that apply to it."""
    names = _options.methods(methods)
    fun, start = _options.problem(name, n, x0, seed, starts)
    options, sizes = _method_options(step, lam, r, b, penalty), _options.sizes(x_scale)
    budget = _budget(grads, evals, iters, seconds) or Budget(grads=40)
    _options.check_spread(options, budget)
    _check_files(plot_file, ("--csv", csv_file, (".csv",)))
    results: dict[str, Result] = {}
    with _progress(names, budget, quiet) as watch, np.errstate(all="ignore"):
        for method in names:
            results[method] = minimize(
                fun, start, method=method, budget=budget, gtol=gtol, gtol_rel=gtol_rel, x_scale=sizes,
                callback=watch(method),
                trace="x" if plot_file and fun.n == 2 else True, **_options.applicable(method, options),
            )  # fmt: skip
            if np.any(results[method].status == Status.INTERRUPTED):
                break
    summaries = [_tables.summary(fun, result) for result in results.values()]
    best = _tables.best(summaries)
    if csv_file is not None:
        _write_csv(csv_file, summaries)
    if plot_file is not None:
        plot.save(plot.overview(fun, results), plot_file)
    limits = {key: value for key, value in vars(budget).items() if value is not None}
    if as_json:
        about = {"function": fun.name, "n": fun.n, "fmin": fun.fmin, "x0": start.tolist(), "budget": limits}
        print_json(about | {"best": best["method"], "methods": summaries})
    elif not quiet:
        text = ", ".join(f"{key} ≤ {value:g}" for key, value in limits.items())
        _tables.show_comparison(_tables.Page(), fun, start, summaries, text)
    return _exit_code({item["method"]: item["runs"] for item in summaries}, limited=True)


_OTHERS = {"sweep": sweep, "tune": tune, "explore": explore, "reproduce": reproduce, "train": train}
for _name, _module in _OTHERS.items():
    app.command(_name, epilog=f"Exit codes: {_module.EXIT_CODES}.")(_module.command)


def _method_options(
    step: str | None, lam: str | None, r: float | None, b: int | None, penalty: str | None
) -> dict[str, Any]:
    return {
        "step": _options.step_or_lam("--step", step),
        "lam": _options.step_or_lam("--lam", lam),
        "r": r,
        "b": b,
        "penalty": _options.penalty(penalty),
    }


def _budget(grads: int | None, evals: int | None, iters: int | None, seconds: float | None) -> Budget | None:
    budget = Budget(grads=grads, evals=evals, iters=iters, seconds=seconds)
    return None if budget == Budget() else budget


def _check_files(plot_file: Path | None, *others: tuple[str, Path | None, Sequence[str]]) -> None:
    """Check before the run that its files can be written."""
    for option, path, suffixes in (("--plot", plot_file, plot.SUFFIXES), *others):
        _options.target(option, path, suffixes)
    if plot_file is not None:
        load("matplotlib", "--plot", extra="plot")


def _exit_code(runs: dict[str, list[_tables.Record]], limited: bool) -> int:
    code = 0
    for method, records in runs.items():
        for sentence in _tables.failures(records, limited):
            typer.echo(f"steepen: {method}: {sentence}", err=True)
            code = 1
    return code


def _write_csv(path: Path, summaries: Sequence[_tables.Record]) -> None:
    """Write a line for each run, with the number of its start, and x last."""
    lines: list[_tables.Record] = []
    for item in summaries:
        for i, run in enumerate(item["runs"]):
            flat = {"method": item["method"], "start": i} | {k: v for k, v in run.items() if k != "x"}
            lines.append(flat | {f"x{j}": value for j, value in enumerate(run["x"])})
    text = io.StringIO()
    writer = csv.DictWriter(text, lines[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    write_whole(path, lambda file: file.write(text.getvalue().encode()))


@contextmanager
def _progress(
    names: Sequence[str], budget: Budget, quiet: bool
) -> Iterator[Callable[[str], Callable[[State], None] | None]]:
    """Yield a function that returns the callback for a method: it moves a bar, if stderr is a terminal."""
    console = Console(file=sys.stderr)
    if quiet or not console.is_terminal:
        yield lambda method: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=len(names))

        def watch(method: str) -> Callable[[State], None]:
            done = names.index(method)
            bar.update(task, completed=done, description=method)

            def show(state: State) -> None:
                spent = {"grads": state.njev, "evals": state.nfev, "iters": state.k, "seconds": state.seconds}
                limits = ((spent[key], limit) for key, limit in vars(budget).items() if limit)
                bar.update(task, completed=done + max(float(np.max(s)) / limit for s, limit in limits))

            return show

        yield watch
