"""The study of the tasks of `tasks.py`: trials, then the runs that they choose for."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from benchmarks.evidence.bench import Bench, plain
from benchmarks.evidence.methods import ROWS
from benchmarks.evidence.runner import Study
from benchmarks.evidence.sharpness import sharpness
from benchmarks.evidence.tasks import SPECS, Spec, trials

from steepen.train.results import Choice, best
from steepen.train.training import fit

POINTS = 10  # looks at the test part in a run
TRIAL_SEED = 1000  # and up: no run has it
SHARP = ("base", "gate", "gap", "share16-late", "sam-late", "sam")  # measured on the GPU


class Job(NamedTuple):
    """One run."""

    task: str
    method: str
    stage: str  # "trial" or "final"
    trial: int
    seed: int


Records = dict[Job, dict[str, Any]]


class Networks(Study):
    """The rows of the tables beside each other: ten tasks, and those with noisy labels."""

    name = "networks"
    fields = Job._fields
    tasks = tuple(SPECS)
    job = Job

    def rows(self, task: str) -> Sequence[str]:
        return SPECS[task].rows

    def jobs(self, task: str, rows: Sequence[str], seeds: int | None = None) -> Iterator[Job]:
        """Return trials, then runs seed by seed, so that an early end leaves pairs."""
        spec = SPECS[task]
        for name in rows:
            own = ROWS[name].like or name
            for i in range(len(trials(spec, own))):
                yield from (Job(task, own, "trial", i, seed) for seed in range(spec.tuning_seeds))
        for seed in range(seeds or spec.seeds):
            yield from (Job(task, name, "final", -1, seed) for name in rows)

    def values(self, job: Job, done: Records) -> Choice | None:
        spec = SPECS[job.task]
        trial = job.trial if job.stage == "trial" else choice(spec, job.task, job.method, done)
        return None if trial is None else trials(spec, ROWS[job.method].like or job.method)[trial]

    def bench(self, task: str, data: Path, device: str, toy: bool) -> Bench:
        torch.set_num_threads(1)
        torch.backends.cudnn.benchmark = True
        torch.set_float32_matmul_precision("high")
        return Bench(task, None if toy else data, device, toy)

    def make(self, job: Job, values: Choice, bench: Bench) -> dict[str, Any]:
        return make(job, values, bench)

    def timing(self, task: str, rows: Sequence[str], data: Path, out: Path, device: str, toy: bool) -> None:
        from benchmarks.evidence.timing import timing

        timing(self, task, rows or self.rows(task), data, out, device, toy=toy)


NETWORKS = Networks()


def choice(spec: Spec, task: str, row: str, done: Records) -> int | None:
    """Return the best trial by held-out data, the mean over seeds; None while trials are missing."""
    scores, own = list[float](), ROWS[row].like or row
    for i in range(len(trials(spec, own))):
        jobs = [Job(task, own, "trial", i, seed) for seed in range(spec.tuning_seeds)]
        if any(job not in done for job in jobs):
            return None
        scores.append(sum(_score(spec, done[job]) for job in jobs) / len(jobs))
    return best(scores)


def _score(spec: Spec, record: dict[str, Any]) -> float:
    if "error" in record or record["loss"] is None:
        return -math.inf
    return -record["loss"] if spec.by_loss else record["accuracy"]


def make(job: Job, values: Choice, bench: Bench) -> dict[str, Any]:
    """Make one run."""
    spec, row = bench.spec, ROWS[job.method]
    begun, shown = time.perf_counter(), list[Any]()
    run = fit(
        bench.at(job.stage, row, values.strength), job.method, row.method, values,
        seed=job.seed + TRIAL_SEED * (job.stage == "trial"), grads=bench.grads(job.stage),
        evaluations=POINTS if job.stage == "final" else 1, watch=shown.append,
    )  # fmt: skip
    look = not bench.toy and job.stage == "final" and job.seed < spec.sharp_seeds and job.method in SHARP
    sharp = _sharpness(shown[-1], bench) if look else {}
    record: dict[str, Any] = {
        "lr": values.lr, "decay": values.decay, "strength": values.strength,
        "steps": run.steps, "probed": run.perturbed,
        "epochs": round(run.gradients * spec.batch / len(bench.data.x), 3),
        "accuracy": short(run.accuracy), "loss": short(run.loss), "seconds": round(run.seconds, 3),
        "all_seconds": round(time.perf_counter() - begun, 1),
    }  # fmt: skip
    if job.stage == "final":
        record |= {
            "at": [short(one, 2) for one in run.at], "accuracies": [short(one, 4) for one in run.accuracies],
            "losses": [short(one, 4) for one in run.losses],
            "held_out": [short(one, 4) for one in run.held_out],
            "held_out_accuracies": [short(one, 4) for one in run.held_out_accuracies],
            "times": [short(one, 2) for one in run.times],
        }  # fmt: skip
    return record | ({"sharpness": sharp} if sharp else {})


def short(value: float, digits: int = 5) -> float | None:
    return round(value, digits) if math.isfinite(value) else None


def _sharpness(model: Any, bench: Bench) -> dict[str, Any]:
    """Measure the flatness at the end, on training data without augmentation and in full precision."""
    n = min(bench.spec.sharp, len(bench.data.x))
    x, y = bench.data.x[:n], bench.data.y[:n]
    training = model.training
    model.eval()
    try:
        part = x.float() if x.is_floating_point() else x, y
        found = sharpness(model, plain, part, tol=0.02, most=30, draws=8)
    except Exception as error:  # a run is not lost for it
        return {"error": f"{type(error).__name__}: {error}"[:200]}
    finally:
        model.train(training)
    names = ("largest", "largest_error", "trace", "trace_error", "rise")
    return {name: short(float(getattr(found, name))) for name in names}
