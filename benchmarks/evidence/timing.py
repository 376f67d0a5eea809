"""The time of a step of each row, alone on the device, beside the base's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.evidence.jobs import Job, choice, short
from benchmarks.evidence.methods import CLOSED, ROWS
from benchmarks.evidence.runner import Study
from benchmarks.evidence.tasks import SPECS, trials

from steepen.train.training import fit

TURNS = 2


def timing(
    study: Study, task: str, rows: Sequence[str], data: Path, out: Path, device: str, *, toy: bool
) -> None:
    """Time whole runs of the base and GapSAM, 200 steps of the others.

    They take turns, and the shortest of so many turns is kept; the base's own is beside it.
    """
    timed = {name: ROWS[name] for name in rows if ROWS[name].method.length == 1} | {"closed": CLOSED}
    bench, done, file = study.bench(task, data, device, toy), study.read(out), study.store(task, out)
    found: dict[str, Any] = {}
    for turn in range(TURNS):
        for name, row in timed.items():
            like = row.like or name
            values = trials(bench.spec, like)[choice(SPECS[task], task, like, done) or 0]
            whole = row.method.by_gap or name == "base"
            grads = bench.grads("final") if whole else 24 if toy else 200
            given = bench.at("final", row, values.strength), name, row.method, values
            if turn == 0:
                fit(*given, seed=0, grads=24, evaluations=1)  # to warm up
            run = fit(*given, seed=0, grads=grads, evaluations=1)
            print(task, name, turn, run.steps, run.seconds, flush=True)
            found[name] = min(found.get(name, run), run, key=lambda one: one.seconds)
    for name, run in found.items():
        each = {"gradients": short(run.gradients), "steps": run.steps, "seconds": short(run.seconds)}
        if name != "base" and "base" in found:
            each["base"] = [found["base"].steps, short(found["base"].seconds)]
        file.add(Job(task, name, "timing", -1, 0), each)
