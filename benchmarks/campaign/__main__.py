"""Run the campaign: `make campaign`, or `python -m benchmarks.campaign --runs 5000 --out out/campaign`.

Blocks of runs are saved as they end; a campaign that was stopped goes on from there (remove the folder to
begin anew). `--case 17` runs one case and says what came of it. `--hard 3000` is how many cases follow of
the table of kinks, few digits and resumed runs; with `--case`, the case is of that table.
"""

import argparse
import os
import time
from collections import Counter
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is loaded

from steepen._tools.jobs import JobFile, run

from . import peers, report, trial
from .cases import HARD, case, hard

BLOCK = 500
HARD_RUNS = 3000


def run_block(first, last, method=None):
    """Run the cases of a block, or those of one method; return the counts and the faults."""
    began, runs, faults = time.process_time(), 0, []
    statuses, verdicts = Counter(), Counter()
    others = {name: Counter() for name in ("steepen", *peers.METHODS)}
    for one in map(case, range(first, last)):
        if method not in (None, one.method):
            continue
        runs += 1
        outcome = trial.run(one)
        statuses.update(outcome.statuses)
        verdicts.update(verdict.partition(":")[0] for verdict in outcome.verdicts)
        faults += [fault._asdict() | {"case": one.number} for fault in outcome.faults]
        for name, said in peers.run(one).items():
            others[name].update(said)
        if peers.takes(one):
            said = {fault.kind for fault in outcome.faults} | set(outcome.verdicts)
            others["steepen"].update(["runs", *said, *["success"] * len(outcome.verdicts)])
    found = {"first": first, "last": last, "runs": runs, "seconds": time.process_time() - began}
    return found | {"statuses": statuses, "verdicts": verdicts, "faults": faults, "peers": others}


def run_hard(first, last):
    """Run the cases of a block of the other table; return the counts by kind, and the faults."""
    counts, faults = {kind: Counter() for kind in HARD}, []
    for one in map(hard, range(first, last)):
        said, outcome = counts[HARD[one.number % len(HARD)]], trial.run(one)
        said.update(["runs", *["success"] * len(outcome.verdicts), *["missed"] * len(outcome.missed)])
        said.update({fault.kind for fault in outcome.faults})
        faults += [fault._asdict() | {"case": one.number} for fault in outcome.faults]
    return {"first": first, "last": last, "runs": last - first, "counts": counts, "faults": faults}


def main():
    """Run what is not yet run, then write the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.campaign", description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("out/campaign"))
    parser.add_argument("--page", type=Path, help="also write the figures into this page")
    parser.add_argument("--method", help="the cases of this method only")
    parser.add_argument("--case", type=int, help="run this one only")
    parser.add_argument("--hard", type=int, nargs="?", const=HARD_RUNS, help="cases of the other table")
    given = parser.parse_args()
    if given.case is not None:
        one = case(given.case) if given.hard is None else hard(given.case)
        print(one, trial.run(one), peers.run(one), sep="\n")
        return
    given.out.mkdir(parents=True, exist_ok=True)
    name = f"blocks-{given.method or 'all'}.sqlite"
    found = _blocks(given, run_block, given.runs, name, given.method or "all methods", (given.method,))
    few = given.hard if given.hard is not None else 0 if given.method else HARD_RUNS
    others = _blocks(given, run_hard, few, "blocks-hard.sqlite", "hard", ())
    (given.out / "failures.md").write_text(report.failures(found))
    (given.out / "failures-hard.md").write_text(report.failures(others))
    made = ((report.table, found), (report.hard, others))
    figures = "\n\n".join(write(blocks) for write, blocks in made if blocks)
    print("\n" + figures)
    if given.page is not None:
        given.page.write_text(report.insert(figures, given.page.read_text()))


def _blocks(given, work, runs, name, campaign, more):
    """Run the blocks of a table that are not yet in the file; return all."""
    last = given.first + runs
    blocks = [(first, min(first + BLOCK, last)) for first in range(given.first, last, BLOCK)]
    file = JobFile(given.out / name, ("first", "last"), {"campaign": campaign})
    found = []
    for done in run(work, blocks, send=lambda key: (*key, *more), file=file, workers=given.jobs):
        if done.error is not None:
            raise SystemExit(f"\nblock {done.key}: {done.error}")
        found.append(done.value)
        print(f"\r{len(found)} of {len(blocks)} blocks", end="", flush=True)
    return sorted(found, key=lambda block: block["first"])


if __name__ == "__main__":
    main()
