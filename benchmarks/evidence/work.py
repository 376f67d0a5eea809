"""Make the runs of the evidence: a queue in a file, worked off by as many processes as there is room for.

    python work.py prepare --data DIR          # MNIST-1D and the text; pictures are yours to put there
    python work.py estimate                    # the jobs, and about how long they take
    python work.py start --data DIR --out runs.jsonl --gpu 2 --cpu 12 --seconds 1500     # in the background
    python work.py status --out runs.jsonl
    python work.py timing --data DIR --out runs.jsonl --device cuda --only cifar100-resnet     # by itself
    python work.py worker --data DIR --out runs.jsonl --device cpu --only mnist1d        # one, here and now
    python work.py start --data DIR --out runs.jsonl --method gap,base-longer ...        # these methods only

DIR holds cifar10.npz and cifar100.npz (x_train, y_train, x_test, y_test) or the binary versions, and
fashion.npz likewise. Every run is a line of JSON, written as it ends; a job that has a line is not done
again, and one whose worker has died is taken over. So it can be killed and started again at any time. Trials
come before the runs that they choose for.

On one H200 three processes under MPS make two gradient-epochs of ResNet-18 a second together; but a client of
MPS that is killed takes the others with it. The seconds of such runs say nothing: `timing` is for that.
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

from tasks import KINDS, LIKE, LONGER, SPECS, TIMED, Bench, Spec, prepare, trials

from steepen._tools.jobs import JobFile, run
from steepen.train.results import best

CORE = ("base", "base-less", "gate", "gap", "share16-late", "sam-late", "sam", "ema", "base-long")
CLOSE = ("base", "gate", "gap", "share16-late", "base-long", "sam-late")  # that more seeds tell apart
REST = tuple(method for method in KINDS if method not in (*CORE, "base-longer", "gate-half"))
ORDER = [  # what is most wanted first
    ("cifar100-resnet", CORE), ("cifar100-vit", ("base", "gate", "gap", "share16-late", "sam-late")),
    ("cifar10-resnet", CORE), ("characters", CORE), ("cifar100-resnet", REST), ("cifar100-vit", CORE + REST),
    ("characters", REST), ("cifar10-resnet", REST),
    *((task, ("base-longer",)) for task, spec in SPECS.items() if spec.gpu),  # where seconds are measured
    *((task, CORE) for task, spec in SPECS.items() if not spec.gpu),
    *((task, REST) for task, spec in SPECS.items() if not spec.gpu),
    *((task, ("gate-half",)) for task in SPECS if task != "cifar10-resnet"),
]  # fmt: skip
SHARP = ("base", "gate", "gap", "share16-late", "sam-late", "sam")  # measured on the GPU
POINTS = 10  # looks at the test part in a run
TURNS = 2  # that methods are timed in


class Job(NamedTuple):
    """One run."""

    task: str
    method: str
    stage: str  # "trial" or "final"
    trial: int
    seed: int


def jobs() -> Iterator[Job]:
    """Return all jobs in order; finals seed by seed, so that an early end leaves pairs."""
    seen: set[Job] = set()
    for task, methods in ORDER:
        spec = SPECS[task]
        block = [
            Job(task, method, "trial", i, seed)
            for method in methods
            if method not in LIKE
            for i in range(len(spec.lr) ** 2)
            for seed in range(spec.tuning_seeds)
        ]
        block += [Job(task, method, "final", -1, seed) for seed in range(spec.seeds) for method in methods]
        for job in block:
            if job not in seen:
                seen.add(job)
                yield job
    for task, spec in SPECS.items():
        for seed in range(spec.seeds, spec.close):
            yield from (Job(task, method, "final", -1, seed) for method in CLOSE)


def read(path: Path) -> dict[Job, dict[str, Any]]:
    """Return the lines that are there; half a line, left by a kill, is passed over."""
    return {Job(*key): record for key, record in JobFile(path, Job._fields).read().items()}


def choice(spec: Spec, task: str, method: str, done: dict[Job, dict[str, Any]]) -> int | None:
    """Return the best trial by held-out data, the mean over seeds; None while trials are missing."""
    scores: list[float] = []
    for i in range(len(spec.lr) ** 2):
        records = [done.get(Job(task, method, "trial", i, seed)) for seed in range(spec.tuning_seeds)]
        if any(record is None for record in records):
            return None
        own = [_score(spec, record) for record in records if record is not None]
        scores.append(sum(own) / len(own))
    return best(scores)


def _score(spec: Spec, record: dict[str, Any]) -> float:
    if "error" in record or record["loss"] is None:
        return -math.inf
    return -record["loss"] if spec.by_loss else record["accuracy"]


def ready(job: Job, done: dict[Job, dict[str, Any]]) -> int | None:
    """Return the trial whose values the job is to use."""
    if job.stage == "trial":
        return job.trial
    return choice(SPECS[job.task], job.task, LIKE.get(job.method, job.method), done)


def do(job: Job, trial: int, bench: Bench) -> dict[str, Any]:
    """Make one run."""
    from steepen.train.training import fit

    spec = bench.spec
    values = trials(spec, LIKE.get(job.method, job.method))[trial]
    begun, shown = time.perf_counter(), list[Any]()
    look = (
        not bench.toy
        and job.stage == "final"
        and job.seed < spec.sharp_seeds
        and (job.method in SHARP or not spec.gpu)
    )
    task = bench.at(job.stage, job.method, values.strength)
    run = fit(
        task,
        job.method,
        KINDS[job.method],
        values,
        seed=job.seed + 1000 * (job.stage == "trial"),
        grads=bench.grads(job.stage, job.method),
        evaluations=POINTS if job.stage == "final" else 1,
        watch=shown.append,
    )
    sharp = sharpness(task.judged(shown[-1]), bench) if look else {}
    record: dict[str, Any] = {
        **job._asdict(), "lr": values.lr, "decay": values.decay, "strength": values.strength,
        "steps": run.steps, "probed": run.perturbed,
        "epochs": round(run.gradients * spec.batch / len(bench.at(job.stage).data.x), 3),
        "accuracy": short(run.accuracy), "loss": short(run.loss), "seconds": round(run.seconds, 3),
        "all_seconds": round(time.perf_counter() - begun, 1),
    }  # fmt: skip
    if job.stage == "final":
        record |= {
            "at": [short(one, 2) for one in run.at], "accuracies": [short(one, 4) for one in run.accuracies],
            "losses": [short(one, 4) for one in run.losses],
            "held_out": [short(one, 4) for one in run.held_out],
            "times": [short(one, 2) for one in run.times],
        }  # fmt: skip
    return record | ({"sharpness": sharp} if sharp else {})


def short(value: float, digits: int = 5) -> float | None:
    return round(value, digits) if math.isfinite(value) else None


def sharpness(model: Any, bench: Bench) -> dict[str, Any]:
    """Measure the flatness at the end, on training data without augmentation and in full precision."""
    from benchmarks.training.sharpness import sharpness as measure
    from tasks import plain

    n = min(bench.spec.sharp, len(bench.data.x))
    x, y = bench.data.x[:n], bench.data.y[:n]
    training = model.training
    model.eval()
    try:
        found = measure(
            model, plain, (x.float() if x.is_floating_point() else x, y), tol=0.02, most=30, draws=8
        )
    except Exception as error:  # a run is not lost for it
        return {"error": f"{type(error).__name__}: {error}"[:200]}
    finally:
        model.train(training)
    names = ("largest", "largest_error", "trace", "trace_error", "rise")
    return {name: short(float(getattr(found, name))) for name in names}


def wanted(job: Job, only: str, methods: Sequence[str]) -> bool:
    return only in job.task and (not methods or job.method in methods)


def worker(
    data: Path, out: Path, device: str, until: float, only: str, methods: Sequence[str], toy: bool
) -> None:
    import torch

    torch.set_num_threads(1)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    file, benches = JobFile(out, Job._fields), dict[str, Bench]()

    def one(*job: Any) -> dict[str, Any]:
        """Make one run, with what its task needs kept for the next."""
        job = Job(*job)
        try:
            if job.task not in benches:
                begun = time.perf_counter()
                benches[job.task] = Bench(job.task, data, device, toy)
                print(f"{job.task} ready after {time.perf_counter() - begun:.1f} s", flush=True)
            return do(job, can[job], benches[job.task])
        except Exception:
            traceback.print_exc()
            raise

    while time.time() < until:
        done, can, waiting = file.read(), dict[Job, int](), False
        for job in jobs():
            if job in done or not wanted(job, only, methods):
                continue
            if SPECS[job.task].gpu != (device == "cuda") and not toy:
                continue
            trial = ready(job, done)
            if trial is None or not (data / SPECS[job.task].file).exists():
                waiting = True
            else:
                can[job] = trial
        if not can and (not waiting or toy):
            return
        # one, and then another look at what can be done: the most wanted comes first
        ended = next(run(one, can, file=file, jobs=1, wait=False), None)
        if ended is None:  # all that can be done is with other workers
            time.sleep(0.5)
            continue
        record = {**Job(*ended.key)._asdict(), **ended.value}
        record |= {} if ended.error is None else {"error": ended.error}
        print(json.dumps({k: v for k, v in record.items() if not isinstance(v, list)}), flush=True)
        gc.collect()


def smoke(name: str, device: str, seconds: float, methods: Sequence[str]) -> None:
    """Try the passes of a task and every method on random examples, and say how long a pass takes."""
    import torch

    torch.backends.cudnn.benchmark = True
    begun = time.perf_counter()
    bench = Bench(name, None, device, toy=device == "cpu")
    print(f"{name}: ready after {time.perf_counter() - begun:.1f} s", flush=True)
    model, task = bench.task.make(0), bench.task
    optimizer = task.base(model.parameters(), 1e-3, 1e-3)
    for size in {task.batch, task.batch // 4, task.batch // 16} if task.backward else ():
        x, y = bench.data.x[:size], bench.data.y[:size]
        loss = float(task.backward(model, x, y, 0.0))
        grads = [p.grad.clone() for p in model.parameters()]
        optimizer.zero_grad()
        eager = task.loss(task.forward(model, x).float(), y)
        eager.backward()
        far = max(
            float((p.grad - g).norm() / g.norm()) for p, g in zip(model.parameters(), grads, strict=True)
        )
        torch.cuda.synchronize()
        clock, times = time.perf_counter(), 0
        while time.perf_counter() - clock < seconds:
            for _ in range(20):
                task.backward(model, x, y, 0.0)
            torch.cuda.synchronize()
            times += 20
        each = 1e3 * (time.perf_counter() - clock) / times
        print(
            f"{name}: {size} examples {each:.2f} ms; loss {loss:.4f}, eager {float(eager):.4f}; "
            f"gradients within {far:.3f}",
            flush=True,
        )
    for method in methods or KINDS:
        job = Job(name, method, "final", -1, 0)
        try:
            bench.grads = lambda stage, method: 24.0
            record = do(job, 0, bench)
            print(
                name,
                method,
                {k: record[k] for k in ("steps", "loss", "seconds", "all_seconds")},
                record.get("sharpness"),
                flush=True,
            )
        except Exception:
            print(name, method, "FAILED", flush=True)
            traceback.print_exc()


def timing(data: Path, out: Path, name: str, device: str, methods: Sequence[str], toy: bool) -> None:
    """Time the methods, alone on the device: whole runs of the base and GapSAM, 200 steps of the others.

    They take turns, and the shortest of so many turns is kept; the base's own is beside it.
    """
    import torch

    from steepen.train.training import fit

    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    bench, done = Bench(name, data, device, toy), read(out)
    found: dict[str, Any] = {}
    for turn in range(TURNS):
        for method, kind in TIMED.items():
            if method in LONGER or (methods and method not in methods):
                continue
            like = LIKE.get(method, method)
            values = trials(bench.spec, like)[choice(bench.spec, name, like, done) or 0]
            task, whole = (
                bench.at("final", method, values.strength),
                method in ("base", "gate", "gap", "closed"),
            )
            grads = bench.grads("final", method) if whole else 24 if toy else 200
            try:
                if turn == 0:
                    fit(task, method, kind, values, seed=0, grads=24, evaluations=1)  # to warm up
                run = fit(task, method, kind, values, seed=0, grads=grads, evaluations=1)
            except Exception as error:
                print(method, type(error).__name__, error, flush=True)
                continue
            print(name, method, turn, run.steps, run.seconds, flush=True)
            found[method] = min(found.get(method, run), run, key=lambda one: one.seconds)
    for method, run in found.items():
        each = {"gradients": short(run.gradients), "steps": run.steps, "seconds": short(run.seconds)}
        if method != "base" and "base" in found:  # of the same run of this command
            each["base"] = [found["base"].steps, short(found["base"].seconds)]
        JobFile(out, Job._fields).add(Job(name, method, "timing", -1, 0), each)


def start(
    data: Path, out: Path, gpu: int, cpu: int, seconds: float, only: str, methods: str, fresh: bool
) -> None:
    """Start the workers in the background; each has its log beside the results."""
    out.parent.mkdir(parents=True, exist_ok=True)
    if fresh:  # nobody is at work: what has failed may be tried again
        kept = [record for record in read(out).values() if "error" not in record]
        out.write_text("".join(json.dumps(record) + "\n" for record in kept), "utf-8")
    until = time.time() + seconds
    for i, device in enumerate(["cuda"] * gpu + ["cpu"] * cpu):
        command = [sys.executable, __file__, "worker", "--data", data, "--out", out, "--device", device]
        command += ["--until", str(until), "--only", only, "--method", methods]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        if device == "cpu":
            environment["CUDA_VISIBLE_DEVICES"] = ""
        with out.with_name(f"{device}{i}.log").open("a") as log:
            subprocess.Popen(
                list(map(str, command)), stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment,
                start_new_session=True,
            )  # fmt: skip
        if device == "cuda":
            time.sleep(1)


SECONDS = {  # about, for a gradient of one minibatch
    "cifar100-resnet": 0.0062, "cifar10-resnet": 0.0062, "cifar100-vit": 0.004, "characters": 0.004,
    "mnist1d-mlp": 0.0008, "fashion-mlp": 0.0015, "fashion4k-mlp": 0.0015, "mnist1d-cnn": 0.002,
    "fashion-cnn": 0.006, "fashion4k-cnn": 0.006,
}  # fmt: skip
EXAMPLES = {"fashion-mlp": 60000, "fashion-cnn": 60000, "characters": 8000}


def estimate(done: dict[Job, dict[str, Any]]) -> None:
    total = {True: 0.0, False: 0.0}
    block: dict[tuple[str, str, str], list[float]] = {}
    for job in jobs():
        spec = SPECS[job.task]
        examples = EXAMPLES.get(job.task, 50000 if spec.gpu else 4000)
        epochs = spec.tuning * 0.9 if job.stage == "trial" else spec.epochs
        seconds = (
            LONGER.get(job.method, 1.0) * epochs * examples / spec.batch * SECONDS[job.task] + 0.7 * spec.gpu
        )
        if job not in done:
            total[spec.gpu] += seconds
            group = "core" if job.method in CORE else "rest"
            row = block.setdefault((job.task, group, job.stage), [0, 0.0, 0.0])
            row[0], row[1], row[2] = row[0] + 1, row[1] + seconds, total[spec.gpu]
    for (task, group, stage), (count, seconds, upto) in block.items():
        print(f"{task:16} {group:5} {stage:6} {count:5} jobs {seconds:7.0f} s, up to there {upto:7.0f} s")
    print(f"GPU {total[True]:.0f} s in one process; CPU {total[False]:.0f} s over the processes")


def status(done: dict[Job, dict[str, Any]]) -> None:
    counts: dict[tuple[str, str], list[float]] = {}
    for job, record in done.items():
        row = counts.setdefault((job.task, job.stage), [0, 0, 0.0])
        row[0], row[1] = row[0] + 1, row[1] + ("error" in record)
        row[2] += record.get("all_seconds", 0.0)
    for (task, stage), (count, errors, seconds) in counts.items():
        print(f"{task:16} {stage:6} {count:4} done, {errors} errors, {seconds / count:6.1f} s each")
    for record in [one for one in done.values() if "error" in one][-3:]:
        print(record)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "what", choices=["prepare", "estimate", "smoke", "start", "status", "timing", "worker"]
    )
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, default=Path("runs.jsonl"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--gpu", type=int, default=1)
    parser.add_argument("--cpu", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--until", type=float, default=math.inf)
    parser.add_argument("--only", default="", help="tasks whose name contains this")
    parser.add_argument("--fresh", action="store_true", help="nobody is at work: try again what has failed")
    parser.add_argument("--toy", action="store_true", help="200 examples and small networks: does it run?")
    parser.add_argument(
        "--method", default="", help="methods by name, such as gap,base-longer; all by default"
    )
    given = parser.parse_args()
    methods = [name for name in given.method.split(",") if name]
    if not set(methods) <= set(TIMED):
        parser.error(f"--method: expected some of {', '.join(TIMED)}; got {given.method}")
    if given.what == "start":
        start(
            given.data, given.out, given.gpu, given.cpu, given.seconds, given.only, given.method, given.fresh
        )
    elif given.what == "timing":
        timing(given.data, given.out, given.only, given.device, methods, given.toy)
    elif given.what == "prepare":
        prepare(given.data)
    elif given.what == "smoke":
        smoke(given.only, given.device, min(given.seconds, 2.0), methods)
    elif given.what == "worker":
        worker(given.data, given.out, given.device, given.until, given.only, methods, given.toy)
    else:
        {"estimate": estimate, "status": status}[given.what](read(given.out))


if __name__ == "__main__":
    main()
