"""The studies of policies; the programs, which need JAX and environments, are in `ppo.py` and `grpo.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.evidence.runner import Records, Study

PARTS = {
    "classic": ("CartPole-v1", "Acrobot-v1", "Pendulum-v1"),
    "minatar": ("Breakout-MinAtar", "SpaceInvaders-MinAtar", "Asterix-MinAtar"),
    "brax": ("hopper", "walker2d"),
}
SEEDS = {"classic": 64, "minatar": 64, "brax": 10}
TRIAL_SEEDS = 5


class Policies(Study):
    """All rows in an environment: trials on seeds of their own, then the runs that they choose for."""

    name = "rl"
    fields = ("task", "stage", "agents", "device")
    tasks = tuple(env for part in PARTS.values() for env in part)

    def rows(self, task: str) -> Sequence[str]:
        return ("all",)

    def jobs(self, task: str, rows: Sequence[str], seeds: int | None = None) -> Iterator[Any]:
        yield from ((task, stage, 0, "") for stage in ("trial", "final"))

    def values(self, job: Any, done: Records) -> dict[str, float] | None:
        """Return the value of each row that was tried: the one with the highest mean return."""
        trial = {} if job[1] == "trial" else done.get((job[0], "trial", 0, ""))
        if trial is None or "error" in trial:
            return None
        return {label: float(max(scores, key=scores.get)) for label, scores in trial.get("tried", {}).items()}

    def bench(self, task: str, data: Path, device: str, toy: bool) -> Any:
        from benchmarks.evidence.rl import ppo

        return ppo

    def make(self, job: Any, values: dict[str, float], bench: Any) -> dict[str, Any]:
        env = job[0]
        part = next(part for part, names in PARTS.items() if env in names)
        return bench.tried(env, TRIAL_SEEDS) if job[1] == "trial" else bench.runs(env, values, SEEDS[part])

    def timing(self, task: str, rows: Sequence[str], data: Path, out: Path, device: str, toy: bool) -> None:
        for agents, record in self.bench(task, data, device, toy).times(task):
            self.store(task, out).add((task, "timing", agents, record["device"]), record)
            print(record, flush=True)


class Rewards(Study):
    """A reward that can be hacked: a job is all values and seeds of a row."""

    name = "grpo"
    fields = ("task", "method")
    tasks = ("grpo",)

    def rows(self, task: str) -> Sequence[str]:
        return ("no penalty", "KL", "ratio")

    def jobs(self, task: str, rows: Sequence[str], seeds: int | None = None) -> Iterator[Any]:
        yield from ((task, row) for row in rows)

    def bench(self, task: str, data: Path, device: str, toy: bool) -> bool:
        return toy

    def make(self, job: Any, values: Any, bench: bool) -> dict[str, Any]:
        from benchmarks.evidence.rl import grpo

        return grpo.run(job[1], grpo.TINY if bench else grpo.Setting())


POLICIES, REWARDS = Policies(), Rewards()
