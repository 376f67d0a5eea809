"""Make the runs where data is short: a queue in a file, worked off by as many processes as there is room for.

    python corpus.py ... --out DIR                        # the data, once
    python work.py estimate --out runs.jsonl              # the jobs that are left, in order
    python work.py start --data DIR --out runs.jsonl --lm 4 --finetune 4 --seconds 500    # in the background
    python work.py status --out runs.jsonl
    python work.py worker --data DIR --out runs.jsonl --device cuda --only lm-small       # one, here and now
    python work.py timing --data DIR --out runs.jsonl --device cuda --only lm-small       # by itself
    python work.py worker --data DIR --out runs.jsonl --only toy                          # does it run?

Every run is a line of JSON, written as it ends; a job that has a line is not done again, one that has failed,
out of memory or otherwise, has a line that says so, and the others go on. It can be cut at any time. Trials
come before the runs that they choose for; all are judged by the validation's books, never by the test's.

Seconds of runs that share the device say nothing: `timing` is for that.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import finetune
import lm

from steepen._tools.jobs import JobFile, run
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


def jobs() -> Iterator[Job]:
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


def is_toy(job: Job) -> bool:
    return job.task == "lm-toy" or "-2-" in job.task


def read(path: Path) -> dict[Job, dict[str, Any]]:
    """Return the lines that are there; half a line, left by a kill, is passed over."""
    return {Job(*key): record for key, record in JobFile(path, Job._fields).read().items()}


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


def choice(job: Job, done: dict[Job, dict[str, Any]]) -> Choice | None:
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


def do(job: Job, values: Choice, bench: Any, few: int = 0) -> dict[str, Any]:
    """Make one run. Trials have other seeds than the runs that they choose for."""
    seed, trial, begun = job.seed + 1000 * (job.stage == "trial"), job.stage == "trial", time.perf_counter()
    if is_lm(job.task):
        record = lm.train(bench, job.base, job.method, values, seed, whole=not trial)
    else:
        record = finetune.train(bench, job.method, values, seed, trial=trial, few=few)
    return record | {"all_seconds": round(time.perf_counter() - begun, 1)}


def bench_of(task: str, data: Path, device: str) -> Any:
    return (lm if is_lm(task) else finetune).Bench(task, data, device)


def worker(
    data: Path, out: Path, device: str, until: float, only: Sequence[str], methods: Sequence[str]
) -> None:
    import torch

    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")
    file, benches = JobFile(out, Job._fields), dict[str, Any]()
    toy = any("toy" in part or "-2-" in part for part in only)

    def one(*key: Any) -> dict[str, Any]:
        """Make one run, with what its task needs kept for the next."""
        job = Job(*key)
        try:
            if job.task not in benches:
                begun = time.perf_counter()
                benches[job.task] = bench_of(job.task, data, device)
                print(f"{job.task} ready after {time.perf_counter() - begun:.1f} s", flush=True)
            return do(job, can[job], benches[job.task], few=20 if is_toy(job) else 0)
        except Exception:
            traceback.print_exc()
            raise

    while time.time() < until:
        done, can, waiting = read(out), dict[Job, Choice](), False
        for job in jobs():
            if (
                job in done
                or not any(part in job.task for part in only)
                or (methods and job.method not in methods)
            ):
                continue
            if is_toy(job) is not toy:
                continue
            values = choice(job, done)
            waiting |= values is None
            if values is not None:
                can[job] = values
        if not can and (not waiting or toy):
            return
        # one, and then another look at what can be done: the most wanted comes first
        ended = next(run(one, can, file=file, jobs=1, wait=False), None)
        if ended is None:  # all that can be done is with other workers
            time.sleep(0.5)
            continue
        record = {**Job(*ended.key)._asdict(), **ended.value}
        record |= {} if ended.error is None else {"error": ended.error}
        print(json.dumps({k: v for k, v in record.items() if not isinstance(v, list | dict)}), flush=True)
        gc.collect()
        if ended.error is not None and device == "cuda":
            benches.clear()
            gc.collect()
            torch.cuda.empty_cache()


def timing(data: Path, out: Path, task: str, device: str, methods: Sequence[str]) -> None:
    """Time the rows of the language model, alone on the device: the base before and after each other row."""
    import torch

    torch.set_float32_matmul_precision("high")
    bench, done = lm.Bench(task, data, device), read(out)

    def seconds(method: str) -> tuple[float, int]:
        job = Job(task, "adamw", method, "final", -1, 0)
        values = choice(job, done) or trials(source(job))[4]
        return (found := lm.train(bench, "adamw", method, values, 0, whole=False))["seconds"], found["steps"]

    before, steps = [seconds("base") for _ in range(2)][1]  # the first warms up
    for method in methods or lm.ROWS:
        if method in ("base", "early"):
            continue
        seconds(method) if method == "dropout" else None
        (own, own_steps), (after, _) = seconds(method), seconds("base")
        record = {"seconds": own, "steps": own_steps, "base_seconds": [before, after], "base_steps": steps}
        before = after
        JobFile(out, Job._fields).add(Job(task, "adamw", method, "timing", -1, 0), record)
        print(task, method, record, flush=True)


def start(data: Path, out: Path, lms: int, fines: int, seconds: float, device: str) -> None:
    """Start the workers in the background; each has its log beside the results."""
    out.parent.mkdir(parents=True, exist_ok=True)
    until = time.time() + seconds
    for i, only in enumerate(["lm-"] * lms + ["authors,manual"] * fines):
        command = [sys.executable, __file__, "worker", "--data", data, "--out", out, "--device", device]
        command += ["--until", str(until), "--only", only]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        with out.with_name(f"{only[:2]}{i}.log").open("a") as log:
            subprocess.Popen(
                list(map(str, command)), stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment,
                start_new_session=True,
            )  # fmt: skip


def estimate(done: dict[Job, dict[str, Any]]) -> None:
    left: dict[tuple[str, str, str], int] = {}
    for job in jobs():
        if job not in done and not is_toy(job):
            key = job.task, job.base, job.stage
            left[key] = left.get(key, 0) + 1
    for (task, base, stage), many in left.items():
        print(f"{task:18} {base:6} {stage:6} {many:4} jobs left")


def status(done: dict[Job, dict[str, Any]]) -> None:
    counts: dict[tuple[str, str, str], list[float]] = {}
    for job, record in done.items():
        row = counts.setdefault((job.task, job.base, job.stage), [0, 0, 0.0])
        row[0], row[1] = row[0] + 1, row[1] + ("error" in record)
        row[2] += record.get("all_seconds", 0.0)
    for (task, base, stage), (many, errors, seconds) in counts.items():
        print(f"{task:18} {base:6} {stage:6} {many:4} done, {errors} errors, {seconds / many:6.1f} s each")
    for record in [one for one in done.values() if "error" in one][-3:]:
        print(record)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["estimate", "start", "status", "timing", "worker"])
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, default=Path("runs.jsonl"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--lm", type=int, default=4, help="processes for the language model")
    parser.add_argument("--finetune", type=int, default=4, help="processes for the fine-tuning")
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--until", type=float, default=math.inf)
    parser.add_argument("--only", default="lm-,authors,manual", help="tasks whose name contains one of these")
    parser.add_argument("--method", default="", help="rows by name, such as base,gap; all by default")
    given = parser.parse_args()
    only, methods = given.only.split(","), [name for name in given.method.split(",") if name]
    unknown = set(methods) - {*lm.ROWS, *finetune.ROWS}
    if unknown:
        parser.error(f"--method: expected some of {', '.join({*lm.ROWS, *finetune.ROWS})}; got {unknown}")
    if given.what == "start":
        start(given.data, given.out, given.lm, given.finetune, given.seconds, given.device)
    elif given.what == "timing":
        timing(given.data, given.out, given.only, given.device, methods)
    elif given.what == "worker":
        worker(given.data, given.out, given.device, given.until, only, methods)
    else:
        {"estimate": estimate, "status": status}[given.what](read(given.out))


if __name__ == "__main__":
    main()
