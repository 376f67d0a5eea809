"""The study of where data is short: language models on few books, and MiniLM fine-tuned on few examples.

`corpus.py` makes the data, once; the tasks lm-toy and authors-2-whole show whether the programs run. Trials
come before the runs that they choose for; all are judged by the validation's books, never by the test's.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from benchmarks.evidence.runner import Study
from benchmarks.evidence.short import finetune, lm

from steepen.train.results import Choice, best, square

MAIN = ("base", "base-less", "gate", "dropout", "ema", "gap", "share16-late", "sam-late", "early")
REST = ("gap-base", "gap-ema", "shorter", "sam-tenth", "le-sam", "gap-inner", "sam-late-inner")
LARGE = ("base", "base-less", "gate", "gap", "ema", "gap-ema", "sam-late", "dropout", "share16-late")
BOOKS = ("base", "base-less", "gate", "gap", "ema", "sam-late")
HALF = [
    ("lm-small", "adamw"),
    ("lm-small", "muon"),
    *((f"lm-{size}", "adamw") for size in ("mild", "large", "books")),
]
NO_TRIALS = ("lm-large", "lm-books")  # they take what was chosen for the small one
SEEDS, FINE_SEEDS, BOOKS_SEEDS = 3, 10, 8
TASKS = [
    f"{task}-{each}-{kind}"
    for kind in ("whole", "lora")
    for each in (16, 64, 256)
    for task in ("authors", "manual")
]


class Job(NamedTuple):
    """One run."""

    task: str  # "lm-small", "lm-large", or a setting of the fine-tuning such as "authors-16-whole"
    base: str
    method: str
    stage: str  # "trial" or "final"
    trial: int
    seed: int


Records = dict[Job, dict[str, Any]]


def is_lm(task: str) -> bool:
    return task.startswith("lm-")


def _rows(task: str) -> dict[str, Any]:
    return lm.ROWS if is_lm(task) else finetune.ROWS


def _block(task: str, base: str, methods: Sequence[str], seeds: range) -> Iterator[Job]:
    """Return the trials of some rows, then their runs, seed by seed, so that an early end leaves pairs."""
    rows = _rows(task)
    for method in methods:
        if not rows[method].like and task not in NO_TRIALS:
            many = len(trials(Job(task, base, method, "trial", 0, 0)))
            yield from (Job(task, base, method, "trial", i, 0) for i in range(many))
    yield from (Job(task, base, method, "final", -1, seed) for seed in seeds for method in methods)


def every_job() -> Iterator[Job]:
    """Return all jobs, the most wanted first."""
    blocks = [
        _block("lm-small", "adamw", MAIN, range(SEEDS)),
        *(_block(task, "adamw", finetune.rows_of(task), range(3)) for task in TASKS[:4]),
        _block("lm-small", "adamw", REST, range(SEEDS)),
        _block("lm-small", "muon", LARGE, range(SEEDS)),
        *(_block(task, "adamw", finetune.rows_of(task), range(FINE_SEEDS)) for task in TASKS),
        _block("lm-small", "muon", (*MAIN, *REST), range(SEEDS)),
        _block("lm-large", "adamw", LARGE, range(SEEDS)),
        _block("lm-mild", "adamw", ("base", "base-less", "gate", "gap"), range(2)),
        _block("lm-mild", "adamw", ("base", "gate"), range(4)),
        _block("lm-books", "adamw", BOOKS, range(2)),
        _block("lm-books", "adamw", ("base", "gate", "base-less"), range(BOOKS_SEEDS)),
        *(_block(size, base, ("gate-half",), range(SEEDS)) for size, base in HALF),
        _block("lm-toy", "adamw", tuple(lm.ROWS), range(1)),
        _block("lm-toy", "muon", ("base", "gap"), range(1)),
        _block("authors-2-whole", "adamw", tuple(finetune.ROWS), range(1)),
    ]
    seen: set[Job] = set()
    for block in blocks:
        for job in block:
            if job not in seen:
                seen.add(job)
                yield job


def is_toy(task: str) -> bool:
    return task == "lm-toy" or "-2-" in task


def trials(job: Job) -> list[Choice]:
    """Return lr, decay and strength of each trial of a row."""
    row = _rows(job.task)[job.method]
    if is_lm(job.task):
        return square(lm.LR[job.base], lm.DECAY, row.strengths)
    return finetune.trials(row, finetune.Setting.of(job.task).lora)


def source(job: Job) -> Job:
    """Return the row whose trials choose for a job: its own, another's, or those of the small network."""
    row = _rows(job.task)[job.method]
    return job._replace(
        task="lm-small" if job.task in NO_TRIALS else job.task,
        method=row.like or job.method,
        stage="trial",
        seed=0,
    )


def score(job: Job, record: dict[str, Any]) -> float:
    """Return how good a trial was, by held-out data: at its end, or at its lowest where a row stops early."""
    if is_lm(job.task):
        losses = [loss for loss in record.get("validations", ()) if loss is not None]
        ended = record.get("validation") is not None
        loss = min(losses, default=None) if lm.ROWS[job.method].stopped else losses[-1] if ended else None
    else:
        loss = record.get("loss")
    return -math.inf if loss is None or "error" in record else -loss


def choice(job: Job, done: Records) -> Choice | None:
    """Return the values that a job is to use; None while trials are missing."""
    if job.stage == "trial":
        return trials(job)[job.trial]
    row = _rows(job.task)[job.method]
    like = done.get(job._replace(method=row.like)) if row.like and job.method != "early" else None
    if like and "error" not in like:  # what that row was run with
        scale = lm.SIZES[job.task].lr if is_lm(job.task) else 1.0
        return Choice(like["lr"] / scale, like["decay"], like["strength"])
    by, values = source(job), trials(source(job))
    records = [done.get(by._replace(trial=i)) for i in range(len(values))]
    if any(record is None for record in records):
        return None
    found = best([score(job, record) for record in records if record is not None])
    return None if found is None else values[found]


def make(job: Job, values: Choice, bench: Any) -> dict[str, Any]:
    """Make one run. Trials have other seeds than the runs that they choose for."""
    seed, trial, begun = job.seed + 1000 * (job.stage == "trial"), job.stage == "trial", time.perf_counter()
    if is_lm(job.task):
        record = lm.train(bench, job.base, job.method, values, seed, whole=not trial)
    else:
        record = finetune.train(
            bench, job.method, values, seed, trial=trial, few=20 if is_toy(job.task) else 0
        )
    return record | {"all_seconds": round(time.perf_counter() - begun, 1)}


class Short(Study):
    """Rows of the language models and of the fine-tuning."""

    name = "short"
    fields = Job._fields
    tasks = tuple(task for task in dict.fromkeys(job.task for job in every_job()) if not is_toy(task))
    toys = ("lm-toy", "authors-2-whole")
    job = Job

    def rows(self, task: str) -> Sequence[str]:
        return tuple(_rows(task))

    def jobs(self, task: str, rows: Sequence[str], seeds: int | None = None) -> Iterator[Job]:
        wanted = {*rows, *(like for row in rows if (like := _rows(task)[row].like))}
        for job in every_job():
            if job.task == task and job.method in wanted and (seeds is None or job.seed < seeds):
                yield job

    def values(self, job: Job, done: Records) -> Choice | None:
        return choice(job, done)

    def bench(self, task: str, data: Path, device: str, toy: bool) -> Any:
        gc.collect()
        if device == "cuda":
            torch.cuda.empty_cache()
        torch.set_num_threads(1)
        torch.set_float32_matmul_precision("high")
        return (lm if is_lm(task) else finetune).Bench(task, data, device)

    def make(self, job: Job, values: Choice, bench: Any) -> dict[str, Any]:
        return make(job, values, bench)

    def timing(self, task: str, rows: Sequence[str], data: Path, out: Path, device: str, toy: bool) -> None:
        """Time the rows of a language model, alone on the device: the base before and after each other."""
        bench, done, file = self.bench(task, data, device, toy), self.read(out), self.store(task, out)

        def seconds(method: str) -> tuple[float, int]:
            job = Job(task, "adamw", method, "final", -1, 0)
            values = choice(job, done) or trials(source(job))[4]
            found = lm.train(bench, "adamw", method, values, 0, whole=False)
            return found["seconds"], found["steps"]

        before, steps = [seconds("base") for _ in range(2)][1]  # the first warms up
        for method in rows or lm.ROWS:
            if method in ("base", "early"):
                continue
            if method == "dropout":
                seconds(method)
            (own, own_steps), (after, _) = seconds(method), seconds("base")
            record = {
                "seconds": own,
                "steps": own_steps,
                "base_seconds": [before, after],
                "base_steps": steps,
            }
            before = after
            file.add(Job(task, "adamw", method, "timing", -1, 0), record)
            print(task, method, record, flush=True)


SHORT = Short()
