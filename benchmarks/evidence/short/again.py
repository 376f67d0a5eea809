"""Train networks of the tasks again, with the settings chosen there, and see which of their minima survive.

The same networks, up to last bits, which a long run amplifies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from benchmarks.evidence.bench import Bench, plain
from benchmarks.evidence.jobs import NETWORKS, Job
from benchmarks.evidence.methods import ROWS
from benchmarks.evidence.runner import Records, Study
from benchmarks.evidence.short.lm import robustness, table
from benchmarks.evidence.tasks import SPECS, order_of

from steepen.train.results import Choice
from steepen.train.training import fit

METHODS = ("base", "sam", "sam-late", "share16-late", "gap")
SEEDS, LOOKS, JUDGED = 3, 10, 2000  # JUDGED examples of the test part


def again(bench: Bench, values: Choice, method: str, seed: int) -> dict[str, Any]:
    """Train one network; the base is looked at on its way, so that others can be compared at its loss."""
    x, y = bench.data.x_test, bench.data.y_test
    some = order_of(len(x))[:JUDGED].to(x.device)  # files may be sorted by class
    x, y = x[some].float() if x.is_floating_point() else x[some], y[some]
    way: list[dict[str, Any]] = []

    def look(model: torch.nn.Module) -> None:
        way.append(table(robustness(model, plain, (x, y))))

    grads, row = bench.grads("final"), ROWS[method]
    looks = LOOKS if method == "base" else 1
    ended = fit(
        bench.at("final", row), method, row.method, values, seed=seed, grads=grads, evaluations=looks,
        watch=look,
    )  # fmt: skip
    found = {"loss": round(ended.loss, 5), "robustness": way[-1]}
    return found | ({"way": way} if method == "base" else {})


class Minima(Study):
    """Ten tasks, by the settings of their runs."""

    name = "minima"
    tasks = tuple(task for task in SPECS if "noise" not in task)

    def __init__(self) -> None:
        self._settings: Records = {}

    def rows(self, task: str) -> Sequence[str]:
        return METHODS

    def jobs(self, task: str, rows: Sequence[str], seeds: int | None = None) -> Iterator[Any]:
        for seed in range(SEEDS if seeds is None else seeds):
            yield from ((task, method, seed) for method in rows)

    def values(self, job: Any, done: Records) -> Choice | None:
        task, method, seed = job
        self._settings = self._settings or NETWORKS.read()
        record = self._settings.get(Job(task, method, "final", -1, seed))
        return record and Choice(record["lr"], record["decay"], record["strength"])

    def bench(self, task: str, data: Path, device: str, toy: bool) -> Bench:
        return NETWORKS.bench(task, data, device, toy)

    def make(self, job: Any, values: Choice, bench: Bench) -> dict[str, Any]:
        return again(bench, values, job[1], job[2])


MINIMA = Minima()
