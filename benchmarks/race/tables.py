"""`python -m benchmarks table`: the tables of the pages, from the race to the page.

    python -m benchmarks table held-out      # run what is missing, write results/held-out.csv and the page
    python -m benchmarks table --all         # every table
    python -m benchmarks table --print       # no runs: the pages again from the rows in benchmarks/results
    python -m benchmarks table --list        # what there is, with minutes on two cores

Runs are kept in out/race, so that a command that was interrupted goes on, and only solvers that have
changed since are run again. The rows of a table, one for each solver, problem and feature, are
`results/NAME.csv`; a page has the table between two comments, and a test holds it to these rows.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from . import ACCURACIES, LIMIT, pictures, race, store_path
from .profiles import geometric_mean
from .results import Results, Row, confidence
from .solvers import SOLVERS

HERE = Path(__file__).parents[1]
RESULTS = HERE / "results"
PAGES = HERE.parent / "docs"

NAMES = {
    "L-BFGS-B": "SciPy L-BFGS-B, m = 10", "L-BFGS-B-200": "SciPy L-BFGS-B, m = 200", "BFGS": "SciPy BFGS",
    "CG": "SciPy CG", "Newton-CG": "SciPy Newton-CG", "TNC": "SciPy TNC", "NLopt-LBFGS": "NLopt LBFGS",
    "NLopt-VAR2": "NLopt VAR2", "NLopt-TNEWTON": "NLopt TNEWTON", "BB": "Barzilai–Borwein",
    "GD-Armijo": "GD with Armijo's search", "cgd-fd": "`cgd-fd`, default λ", "COBYQA": "SciPy COBYQA",
    "Nelder-Mead": "SciPy Nelder–Mead", "COBYLA": "SciPy COBYLA", "regularized-QN": "regularised QN",
    "regularized-QN-told": "regularised QN, told the noise",
}  # fmt: skip
PEERS = [
    "L-BFGS-B", "L-BFGS-B-200", "BFGS", "CG", "Newton-CG", "TNC", "NLopt-LBFGS", "NLopt-VAR2",
    "NLopt-TNEWTON", "BB", "GD-Armijo", "cgd-fd",
]  # fmt: skip
BY_VALUES = ["cgd-auto", "BFGS", "L-BFGS-B", "NLopt-LBFGS"]
FREE = ["cgd-auto", "COBYQA", "Py-BOBYQA", "L-BFGS-B", "BFGS", "COBYLA", "Nelder-Mead"]
RIVALS = ["cgd-auto", "regularized-QN", "regularized-QN-told", "L-BFGS-B", "BFGS", "COBYQA", "Nelder-Mead"]
NOISES = tuple(f"1e-{digit}" for digit in range(1, 9))
SPOILT = {
    f"{'values' if values else 'gradients'}-{'absolute' if kind else 'relative'}": f"{values}noise{kind}"
    for values in ("", "values+")
    for kind in ("", "-abs")
}
"""The features of the table of noise, without the number: with or without ∇f, relative or absolute."""
SHOWN = (1e-1, 1e-3)
FIVE = ("1e-12", "1e-10", "1e-8", "1e-6")


def called(solver: str) -> str:
    """Return the name of a solver on a page."""
    return NAMES.get(solver, solver)


def markdown(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines).replace(
        "| --- |", "|---|"
    ).replace("--- |", "---|").replace("| ---", "|---")  # fmt: skip


def figure(value: float) -> str:
    """Return a ratio with two digits behind the point, or one if it is large."""
    return "–" if np.isnan(value) else f"{value:.2f}" if value < 9.95 else f"{value:.0f}"


# --- what tables show ----------------------------------------------------------------------------------


def ratios(found: Results, reference: str) -> str:
    """Show the evaluations over the reference's with an interval of 95 %, and the problems solved."""
    rows = []
    for solver in found.solvers:
        cells = []
        for accuracy in found.accuracies:
            costs = dict(zip(found.solvers, found.costs(accuracy).T, strict=True))
            mean = figure(geometric_mean(costs[solver], costs[reference])[0])
            low, high = confidence(costs[solver], costs[reference])
            interval = "" if np.isnan(low) else f" [{figure(low)}, {figure(high)}]"
            cells.append(f"{mean}{interval} ({np.isfinite(costs[solver]).sum()})")
        rows.append([called(solver), *cells])
    return markdown(["solver", *(f"to {level(accuracy)}" for accuracy in found.accuracies)], rows)


def level(accuracy: float) -> str:
    return f"{accuracy:.0e}".replace("e-0", "e-")


def against(found: Results, subject: str, titles: Mapping[str, str]) -> str:
    """Show the subject's evaluations over those of each peer, set by set; in bold where it needs more."""

    def of(set_: str, accuracy: float) -> dict[str, Any]:
        part = found.of(set=set_)
        return dict(zip(found.solvers, part.costs(accuracy).T, strict=True))

    def solved(set_: str, solver: str) -> str:
        return " / ".join(str(int(np.isfinite(of(set_, one)[solver]).sum())) for one in found.accuracies)

    rows = [[f"({subject} itself solves)", *(f"({solved(one, subject)})" for one in found.sets)]]
    for solver in found.solvers:
        if solver == subject:
            continue
        cells = []
        for one in found.sets:
            means = [geometric_mean(of(one, a)[subject], of(one, a)[solver])[0] for a in found.accuracies]
            text = " / ".join(map(figure, means))
            text = f"**{text}**" if max(means) > 1 else text
            cells.append(f"{text} ({solved(one, solver)})")
        rows.append([called(solver), *cells])
    return markdown([f"{subject} against", *(titles[one] for one in found.sets)], rows)


def ends(found: Results, reference: str, title: str) -> str:
    """Show evaluations over the reference's, problems solved, and how runs end."""
    rows = []
    for solver in found.solvers:
        own = found.of(solver=solver)
        costs = {a: dict(zip(found.solvers, found.costs(a).T, strict=True)) for a in found.accuracies}
        means = " / ".join(figure(geometric_mean(one[solver], one[reference])[0]) for one in costs.values())
        solved = " / ".join(str(int(np.isfinite(one[solver]).sum())) for one in costs.values())
        failures = sum(row.there and not row.success for row in own.rows)
        elsewhere = sum(row.success and not np.isfinite(row.costs[0]) for row in own.rows)
        idle = np.nanmedian([row.idle for row in own.rows])
        rows.append([solver, means, solved, failures, elsewhere, f"{idle:.2f}"])
    return markdown(
        [title, f"evaluations over {reference}'s", "solved", "failures", "elsewhere", "after the last gain"],
        rows,
    )


def profiles(found: Results, accuracies: Sequence[float], at: Sequence[int], feature: str) -> str:
    """Show the parts solved within so many evaluations for each variable."""
    part = found.of(feature=feature)
    rows = []
    for solver in part.solvers:
        own = part.of(solver=solver)
        cells: list[str] = []
        for accuracy in accuracies:
            per = own.costs(accuracy)[:, 0] / own.sizes
            cells += [f"{(per <= k).mean():.2f}" for k in at]
        rows.append([called(solver).removeprefix("SciPy "), *cells])
    heads = [f"to {level(accuracy)}: {k}n" if k == at[0] else f"{k}n" for accuracy in accuracies for k in at]
    return markdown(["solver", *heads], rows)


def by_noise(found: Results, feature: str, accuracies: Sequence[float], at: Sequence[int]) -> str:
    """Show for each accuracy and noise how many problems are solved within so many times n + 1 evaluations.

    Bold is the largest number within the most evaluations.
    """
    rows: list[list[str]] = []
    for accuracy in accuracies:
        counts = [[solved(found, f"{feature}={noise}", one, accuracy, at) for noise in NOISES]
                  for one in found.solvers]  # fmt: skip
        most = [max(cell[-1] for cell in column) for column in zip(*counts, strict=True)]
        for solver, own in zip(found.solvers, counts, strict=True):
            cells = [" / ".join(map(str, cell)) for cell in own]
            cells = [f"**{text}**" if cell[-1] == top else text
                     for text, cell, top in zip(cells, own, most, strict=True)]  # fmt: skip
            rows.append([level(accuracy), called(solver), *cells])
    return markdown(["to", "solver", f"noise {NOISES[0]}", *NOISES[1:]], rows)


def solved(found: Results, feature: str, solver: str, accuracy: float, at: Sequence[int]) -> list[int]:
    """Return how many problems a solver solves within so many times n + 1 evaluations."""
    part = found.of(feature=feature, solver=solver)
    return [round(share * len(part.rows)) for share in part.shares(solver, accuracy, at)]


def root(noise: str) -> str:
    return f"{float(noise) ** 0.5:.0e}"


def good_ends(found: Results) -> str:
    """Show for each noise the runs that end as successes near the minimum in twice the evaluations at most.

    Near is within ten times the noise of f0 − f*. The evaluations are over those of the run without noise.
    """
    kinds = {"plain": "noise={}", "gradient": "noise={}+gradient-noise={}", "values": "values+noise={}"}
    quiet = {row.case: row.used for row in found.of(feature="plain").rows}
    quiet_values = {row.case: row.used for row in found.of(feature="values").rows}
    rows = []
    for noise in FIVE:
        cells: list[str] = []
        ratios_: list[float] = []
        for kind, text in kinds.items():
            runs = found.of(feature=text.format(noise, f"{root(noise)}")).rows
            base = quiet_values if kind == "values" else quiet
            ratios_ = [row.used / base[row.case] for row in runs]
            pairs = zip(runs, ratios_, strict=True)
            near = max(10 * float(noise), 1e-7)
            cells.append(str(sum(row.success and row.gap <= near and ratio <= 2 for row, ratio in pairs)))
        power = noise.partition("e-")[2].lstrip("0").translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
        rows.append([f"10⁻{power}", *cells, f"{np.median(ratios_):.2f}, {max(ratios_):.1f}"])
    return markdown(
        [
            "noise of a value",
            "∇f exact",
            "∇f wrong by √noise",
            "by differences",
            "their evaluations, median and most",
        ],
        rows,
    )


def false_ends(found: Results, above: float) -> str:
    """Show how runs end: successes, which of them are false, and evaluations over the second solver's.

    At the minimum is what the case says, or a gap of `above` at most; −∞ where the case alone says.
    """
    base = {(row.case, row.feature): row.used for row in found.of(solver=found.solvers[1]).rows}
    rows = []
    for solver in found.solvers:
        own = found.of(solver=solver).rows
        false = sum(row.success and not row.there and not row.gap <= above for row in own)
        used = [row.used / base[row.case, row.feature] for row in own]
        words = Counter(row.word for row in own).most_common(3)
        rows.append([
            called(solver), sum(row.there or row.gap <= above for row in own),
            sum(row.success for row in own), false, f"{np.median(used):.2f}, {max(used):.1f}",
            sum(one > 3 for one in used), ", ".join(f"`{word}` {count}" for word, count in words),
        ])  # fmt: skip
    over = f"evaluations over {called(found.solvers[1])}'s, median and most"
    return markdown(
        ["solver", "at the minimum", "successes", "false", over, "above 3", "most frequent ends"], rows
    )


# --- the tables ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A race and what is shown of it.

    Parameters
    ----------
    title : str
        What it answers.
    sets, solvers, features, limit, tight, accuracies, keep
        The race; `keep` are the rows that are compared, all by default.
    shown : mapping of str to callable
        Tables by their names on the page.
    minutes : str
        How long it takes on two cores.
    page : str
        The page, in `docs/`.
    picture : callable, optional
        What writes pictures of the rows into the folder of the page.
    """

    title: str
    sets: Sequence[str]
    solvers: Sequence[str]
    shown: Mapping[str, Callable[[Results], str]]
    minutes: str
    features: Sequence[str] = ("plain",)
    limit: int = LIMIT
    tight: bool = True
    accuracies: Sequence[float] = ACCURACIES
    page: str = "benchmarks.md"
    picture: Callable[[Results, Path], Any] | None = None
    keep: Callable[[Row], bool] = field(default=lambda row: True)


SETS = {
    "mgh": "Moré–Garbow–Hillstrom, 59 problems, n 2–500", "large": "larger, 39 problems, n 50–1000",
    "nist": "NIST regressions, 54 problems, n 2–9",
}  # fmt: skip
_NOISY = [f"{feature}={noise}" for feature in SPOILT.values() for noise in NOISES]
_FIVE = [
    "plain", "values",
    *(
        text
        for noise in FIVE
        for text in (f"noise={noise}", f"noise={noise}+gradient-noise={root(noise)}", f"values+noise={noise}")
    ),
]  # fmt: skip

_BY_N = partial(profiles, accuracies=(1e-3, 1e-5), at=(10, 20, 50, 100))

TABLES: dict[str, Table] = {
    "held-out": Table(
        "evaluations with gradients, on held-out problems", ["held-out"], ["cgd-auto", "L-BFGS-B", "BFGS"],
        {"held-out": partial(ratios, reference="L-BFGS-B")}, "2",
    ),
    "chosen-on": Table(
        "evaluations with gradients, on the problems that constants were chosen on", ["mgh", "large", "nist"],
        ["cgd-auto", *PEERS], {"chosen-on": partial(against, subject="cgd-auto", titles=SETS)}, "15",
        picture=partial(pictures.save, prefix="bench-", kinds=["svg"]),
    ),
    "values-held-out": Table(
        "evaluations without a gradient, on held-out problems", ["others"], BY_VALUES,
        {"values-held-out": partial(ends, reference="BFGS", title="70 others, n 2–20")}, "1",
        limit=20_000, tight=False,
    ),
    "values-chosen-on": Table(
        "the same on problems that constants were chosen on", ["mgh-20", "nist"], BY_VALUES,
        {"values-chosen-on": partial(
            ends, reference="BFGS", title="95 problems of the first and third set, n ≤ 20"
        )},
        "2", ["values"], limit=20_000, tight=False,
    ),
    "values-noise": Table(
        "how runs end where values are noisy", ["five"], ["cgd-auto"], {"values-noise": good_ends}, "1",
        _FIVE, limit=20_000, tight=False, accuracies=(1e-3, 1e-5),
    ),
    "derivative-free": Table(
        "data profiles beside derivative-free methods, and under random errors of 1e-3", ["more-wild"], FREE,
        {
            "derivative-free": partial(_BY_N, feature="plain"),
            "derivative-free-noise": partial(_BY_N, feature="noise=1e-3"),
        },
        "30", ["plain", "noise=1e-3"], limit=20_000, tight=False,
    ),
    "noise": Table(
        "data profiles under noise of 1e-1 to 1e-8, with and without gradients, beside the rival of 2026",
        ["mgh-6"], RIVALS,
        {
            f"noise-{name}": partial(by_noise, feature=feature, accuracies=SHOWN, at=(20, 100))
            for name, feature in SPOILT.items()
        },
        "8", _NOISY, limit=1000, tight=False, accuracies=(1e-1, 1e-3, 1e-5),
        picture=partial(pictures.save_by_noise, features=SPOILT, noises=NOISES, accuracies=SHOWN, at=100),
    ),
    "kinks": Table(
        "how runs end at a kink", ["kinks"], ["cgd-auto", "BFGS"],
        {"kinks": partial(false_ends, above=1e-6)}, "4", limit=20_000, tight=False, page="reliability.md",
    ),
    "few-digits": Table(
        "how runs end where x is rounded to 2 … 10 digits", ["few-digits"], ["cgd-auto", "Nelder-Mead"],
        {"few-digits": partial(false_ends, above=-np.inf)}, "1",
        limit=20_000, tight=False, page="reliability.md",
    ),
    "processes": Table(
        "fits of Gaussian processes with gradients", ["processes"], ["cgd-auto", "L-BFGS-B"],
        {"processes": partial(false_ends, above=1e-5)}, "1", tight=False, page="reliability.md",
    ),
}  # fmt: skip
"""The tables by name."""


def rows_path(name: str) -> Path:
    """Return where the rows of a table are."""
    return RESULTS / f"{name}.csv"


def run(name: str, workers: Any, progress: bool) -> Results:
    """Run what is missing of a table, and write its rows."""
    table = TABLES[name]
    left_out = [solver for solver in table.solvers if not SOLVERS[solver].is_installed]
    if left_out:
        print(f"{name}: not installed, left out: {', '.join(left_out)}", file=sys.stderr)
    store = store_path(name)
    store.parent.mkdir(parents=True, exist_ok=True)
    found = race(
        table.sets, [solver for solver in table.solvers if solver not in left_out], table.features,
        limit=table.limit, tight=table.tight, accuracies=table.accuracies, store=store, workers=workers,
        progress=progress,
    )  # fmt: skip
    found.of(table.keep).save(rows_path(name))
    return found


def shown(name: str) -> dict[str, str]:
    """Return the tables that the rows of a race give, by their names on the page."""
    found = Results.load(rows_path(name))
    return {part: show(found) for part, show in TABLES[name].shown.items()}


def insert(page: str, name: str, text: str) -> str:
    """Return a page with a table between its two comments."""
    begun, ended = marks(name)
    if page.count(begun) != 1 or page.count(ended) != 1:
        raise ValueError(f"the page has no place for {name}: {begun} … {ended}")
    before, _, rest = page.partition(begun)
    return f"{before}{begun}\n{text}\n{ended}{rest.partition(ended)[2]}"


def marks(name: str) -> tuple[str, str]:
    """Return the comments before and after a table."""
    return f"<!-- {name}: written by python -m benchmarks table -->", f"<!-- /{name} -->"


def write(name: str) -> None:
    """Print the tables of a race, and write them into the page."""
    path = PAGES / TABLES[name].page
    page = path.read_text("utf-8")
    for part, text in shown(name).items():
        print(f"\n{part}\n{text}")
        page = insert(page, part, text)
    path.write_text(page, "utf-8")
    draw = TABLES[name].picture
    if draw is not None:
        draw(Results.load(rows_path(name)), PAGES)


def main(argv: list[str] | None = None) -> None:
    """Run and write the tables that are named."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks table",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", help="tables")
    parser.add_argument("--all", action="store_true", help="every table")
    parser.add_argument(
        "--print", action="store_true", dest="only", help="from the rows that there are, without runs"
    )
    parser.add_argument("--list", action="store_true", help="list the tables, and stop")
    parser.add_argument("--workers", type=int, default=-1, help="processes; by default one a core")
    given = parser.parse_args(argv)
    if given.list:
        for name, table in TABLES.items():
            print(f"{name:18}{table.minutes:>4} min  {table.title}")
        return
    names = list(TABLES) if given.all or (given.only and not given.names) else given.names
    if unknown := [name for name in names if name not in TABLES]:
        parser.error(f"expected some of {', '.join(TABLES)}; got {unknown[0]!r}")
    if not names:
        parser.error("expected the names of tables, or --all")
    for name in names:
        if not given.only:
            try:
                run(name, given.workers, sys.stderr.isatty())
            except KeyboardInterrupt:
                raise SystemExit("interrupted; the same command goes on") from None
        write(name)
