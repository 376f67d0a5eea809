"""Count the evaluations that solvers need on the test problems; f with its gradient counts one.

    python -m benchmarks.bench [--suite mgh,nist] [--solvers cgd-auto,L-BFGS-B] [--reference L-BFGS-B]

The first solver named, cgd-auto by default, is compared with each of the others. The folder then holds
results.jsonl (for `steepen.load_results`), summary.csv, and a picture of each suite.
"""

import argparse
import sys
from itertools import groupby
from pathlib import Path

from benchmarks.problems import suite as problems_of

from . import pictures
from ._run import BUDGET, run
from .results import Results
from .solvers import SOLVERS, available

SUITES = ("mgh", "large", "nist", "learning")


def main(argv: list[str] | None = None) -> None:
    """Run the solvers, write the folder, and print the summary."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="the folder to write")
    parser.add_argument("--suite", default=",".join(SUITES), help="which problems, with commas between")
    parser.add_argument("--solvers", help="which solvers, with commas between; all by default")
    parser.add_argument("--reference", default="L-BFGS-B", help="the solver to compare with")
    parser.add_argument(
        "--budget", type=int, default=BUDGET, help="evaluations for each solver on each problem"
    )
    parser.add_argument("--jobs", type=int, default=-1, help="how many processes; by default one a core")
    parser.add_argument("--list", action="store_true", help="list the solvers and stop")
    given = parser.parse_args(argv)
    if given.list:
        print("\n".join(SOLVERS))
        return
    names = available() if given.solvers is None else [name.strip() for name in given.solvers.split(",")]
    if given.solvers is None and len(names) < len(SOLVERS):
        print("nlopt is not installed; its solvers are left out", file=sys.stderr)
    if given.reference not in names:
        parser.error(f"--reference: expected one of {', '.join(names)}; got {given.reference!r}")
    problems = [problem for name in given.suite.split(",") for problem in problems_of(name.strip())]
    given.out.mkdir(parents=True, exist_ok=True)
    results = run(problems, names, budget=given.budget, jobs=given.jobs, progress=sys.stderr.isatty())
    results.save(given.out, given.reference)
    pictures.save(results, given.out, given.reference)
    for row in results.rows:
        if row.failed:
            print(f"{row.solver} on {row.problem} ended by an error: {row.message}", file=sys.stderr)
    show(results, given.reference)
    print(f"\nThe rows, the summary and the pictures: {given.out}")


def show(results: Results, reference: str) -> None:
    """Print the summary: for each group and accuracy a row for each solver."""
    subject = results.solvers[0]
    print(f"ratio: evaluations over those of {reference}, the geometric mean over what both solve.")
    print(f"w/l/t: won, lost and tied against {reference}. {subject}/: {subject}'s over this one's.")
    for (group, accuracy), part in groupby(results.summary(reference), lambda line: line[:2]):
        lines = list(part)
        head = f"{group} ({lines[0].problems}), {accuracy:g}"
        print(f"\n{head:<32}{'solved':>8}{'ratio':>8}{'w/l/t':>12}{subject + '/':>12}")
        for line in lines:
            score = f"{line.wins}/{line.losses}/{line.ties}"
            print(
                f"{line.solver:<32}{line.solved:>8}{line.ratio:>8.3g}{score:>12}{line.subject_ratio:>12.3g}"
            )


if __name__ == "__main__":
    main()
