"""Run the campaign: `make campaign`, or `python -m tests.campaign --runs 5000 --out out/campaign`.

Blocks of runs are saved as they end; a campaign that was stopped goes on from there (remove the folder to
begin anew). `--case 17` runs one case and says what came of it.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is loaded

from steepen._jobs import JobFile, run

from . import peers, report, trial
from .cases import case

BLOCK = 500


def run_block(first: int, last: int, method: str | None = None) -> dict[str, Any]:
    """Run the cases of a block, or those of one method; return the counts and the faults."""
    began = time.process_time()
    statuses, verdicts = Counter[str](), Counter[str]()
    faults: list[dict[str, Any]] = []
    others: dict[str, Counter[str]] = {name: Counter() for name in ("steepen", *peers.METHODS)}
    runs = 0
    for number in range(first, last):
        one = case(number)
        if method not in (None, one.method):
            continue
        runs += 1
        outcome = trial.run(one)
        statuses.update(outcome.statuses)
        verdicts.update(verdict.partition(":")[0] for verdict in outcome.verdicts)
        faults += [fault._asdict() | {"case": number, "call": one.call()} for fault in outcome.faults]
        for name, said in peers.run(one).items():
            others[name].update(said)
        if peers.takes(one):
            said = {fault.kind for fault in outcome.faults} | set(outcome.verdicts)
            others["steepen"].update(["runs", *said, *["success"] * len(outcome.verdicts)])
    seconds = time.process_time() - began
    return {
        "first": first,
        "last": last,
        "runs": runs,
        "statuses": statuses,
        "verdicts": verdicts,
        "faults": faults,
        "peers": others,
        "seconds": seconds,
    }


def main() -> None:
    """Run what is not yet run, then write the report."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("out/campaign"))
    parser.add_argument("--page", type=Path, help="also write the figures into this page")
    parser.add_argument("--method", help="the cases of this method only")
    parser.add_argument("--case", type=int, help="run this one only")
    given = parser.parse_args()
    if given.case is not None:
        one = case(given.case)
        print(one.call(), trial.run(one), peers.run(one), sep="\n")
        return
    given.out.mkdir(parents=True, exist_ok=True)
    last = given.first + given.runs
    blocks = [(first, min(first + BLOCK, last)) for first in range(given.first, last, BLOCK)]
    name = f"blocks-{given.method or 'all'}.jsonl"
    file = JobFile(given.out / name, ("first", "last"), {"campaign": given.method or "all methods"})
    found: list[dict[str, Any]] = []
    for done in run(run_block, blocks, send=lambda key: (*key, given.method), file=file, jobs=given.jobs):
        if done.error is not None:
            raise SystemExit(f"\nblock {done.key}: {done.error}")
        found.append(done.value)
        print(f"\r{len(found)} of {len(blocks)} blocks", end="", flush=True)
    found.sort(key=lambda block: block["first"])
    (given.out / "failures.md").write_text(report.failures(found))
    figures = report.table(found)
    print("\n" + figures)
    if given.page is not None:
        given.page.write_text(report.insert(figures, given.page.read_text()))


if __name__ == "__main__":
    main()
