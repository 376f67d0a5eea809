"""The command `steepen bench`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from .._tools.optional import load
from ..bench import pictures
from ..bench._run import BUDGET, run
from ..bench.results import Line, Results
from ..bench.solvers import SOLVERS, available
from ..problems import suite as problems_of
from ._options import prepare, words
from ._tables import Column, Page, count, finite, short

__all__ = ["register", "show"]

_SUITES = ("mgh", "large", "nist", "learning")


def register(app: typer.Typer) -> None:
    """Add the command to an application.

    Examples
    --------
    >>> app = typer.Typer()
    >>> register(app)
    >>> [command.name for command in app.registered_commands]
    ['bench']
    """
    codes = "0, the run is complete; 1, an interrupt; 2, wrong usage, or a missing dependency"
    app.command("bench", epilog=f"Exit codes: {codes}.")(_command)


def _command(
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("out/bench"),
    suite: Annotated[str, typer.Option(metavar="NAME,...", help="Which problems.")] = ",".join(_SUITES),
    solvers: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Which solvers; all by default, see --list.")
    ] = None,
    reference: Annotated[str, typer.Option(help="The solver to compare with.")] = "L-BFGS-B",
    budget: Annotated[int, typer.Option(min=1, help="Evaluations for each solver on each problem.")] = BUDGET,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="How many processes; by default one a core.")
    ] = None,
    list_solvers: Annotated[bool, typer.Option("--list", help="List the solvers and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no text and no progress bar.")] = False,
) -> int:
    """Count the evaluations that solvers need on the test problems; f with its gradient counts one.

    The first solver named, cgd-auto by default, is compared with each of the others. The folder then holds
    results.csv, summary.csv, and a picture of each suite.
    """
    if list_solvers:
        for name in SOLVERS:
            typer.echo(name)
        return 0
    names = available() if solvers is None else words(solvers)
    missing = [name for name in SOLVERS if name not in names] if solvers is None else []
    if missing:
        typer.echo(f"steepen: nlopt is not installed; left out: {', '.join(missing)}", err=True)
    if reference not in names and reference == "L-BFGS-B":
        reference = names[0] if names else reference  # nobody asked for it
    if reference not in names and set(names) <= set(SOLVERS):
        raise ValueError(f"--reference: expected one of {', '.join(names)}; got {reference!r}")
    suites = words(suite)
    if not suites or not set(suites) <= set(_SUITES):
        raise ValueError(f"--suite: expected names out of {', '.join(_SUITES)}; got {suite!r}")
    load("matplotlib", "steepen bench", extra="plot")
    prepare(out)
    problems = [problem for name in dict.fromkeys(suites) for problem in problems_of(name)]
    try:
        results = run(problems, names, budget=budget, jobs=jobs or -1, progress=not quiet)
    except ValueError as error:
        raise ValueError(f"--{error}") from error
    results.save(out, reference)
    pictures.save(results, out, reference)
    failed = [row for row in results.rows if row.failed]
    if failed:
        which = ", ".join(dict.fromkeys(row.solver for row in failed))
        sentence = f"{count(len(failed), 'run')} ended by an error of the solver ({which})"
        typer.echo(f"steepen: {sentence}; the last column of results.csv has it", err=True)
    lines = results.summary(reference)
    if as_json:
        about = {"budget": budget, "reference": reference, "subject": names[0], "out": str(out)}
        document = about | {"summary": [line._asdict() for line in lines]}
        typer.echo(json.dumps(finite(document), allow_nan=False, indent=2, ensure_ascii=False))
    elif not quiet:
        show(results, reference)
        typer.echo(f"\nThe rows, the summary and the pictures: {out}")
    return 0


def show(results: Results, reference: str = "L-BFGS-B") -> None:
    """Write the summary: a table for each group, the accuracies side by side if there is room.

    Examples
    --------
    >>> import steepen as st
    >>> from steepen import bench
    >>> show(bench.run([st.problems["misra1a-1"]], ["BB"], budget=9, accuracies=[1e-3], jobs=1), "BB")
    solved: how many problems. ratio: evaluations over those of BB, the geometric mean over what both solve.
    w/l/t: won, lost and tied against BB. BB/: evaluations of BB over those of this solver.
    <BLANKLINE>
    nist (1)  1e-3: solved  ratio  w/l/t  BB/
    BB                   1      1  0/0/1    1
    """
    page = Page()
    subject = results.solvers[0]
    page.note(
        f"solved: how many problems. ratio: evaluations over those of {reference}, the geometric mean over "
        f"what both solve. w/l/t: won, lost and tied against {reference}. {subject}/: evaluations of "
        f"{subject} over those of this solver."
    )
    for group, lines in groupby(results.summary(reference), lambda line: line.group):
        tables = [list(part) for _, part in groupby(lines, lambda line: line.accuracy)]
        names = Column(f"{group} ({tables[0][0].problems})", [line.solver for line in tables[0]], right=False)
        blocks = [_columns(table, subject) for table in tables]
        width = names.width + sum(column.width + 2 for block in blocks for column in block)
        styles = ["bold" if name == subject else "" for name in names.cells]
        for block in [_joined(blocks)] if width <= page.width else blocks:
            page.line()
            page.table([names, *block], styles)


def _columns(lines: Sequence[Line], subject: str) -> list[Column]:
    accuracy = f"{lines[0].accuracy:.0e}".replace("e-0", "e-")
    return [
        Column(f"{accuracy}: solved", [str(line.solved) for line in lines]),
        Column("ratio", [short(line.ratio) for line in lines]),
        Column("w/l/t", [f"{line.wins}/{line.losses}/{line.ties}" for line in lines]),
        Column(f"{subject}/", [short(line.subject_ratio) for line in lines]),
    ]


def _joined(blocks: Iterable[Sequence[Column]]) -> list[Column]:
    return [column for block in blocks for column in block]
