"""One runner for all studies: jobs that are left are made one by one.

New runs of a task are in a database, which several processes may write. Published ones are a text file for
each task in `results`, written whole.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from steepen._tools.jobs import JobFile, write_lines

RESULTS = Path(__file__).with_name("results")

Job = tuple[Any, ...]
Records = dict[Any, dict[str, Any]]


class Study:
    """A question, and the runs that answer it; a job is one run, or several that one program makes."""

    name: ClassVar[str]
    fields: ClassVar[Sequence[str]] = ("task", "method", "seed")
    """Of a job; the first is its task."""
    tasks: Sequence[str] = ()
    toys: Sequence[str] = ()
    """Small tasks, to see whether the programs run: made only if they are named."""

    def job(self, *key: Any) -> Any:
        """Return a job from what its fields are."""
        return key

    def rows(self, task: str) -> Sequence[str]:
        """Return the names of the rows that a task has."""
        raise NotImplementedError

    def jobs(self, task: str, rows: Sequence[str], seeds: int | None = None) -> Iterator[Any]:
        """Return the jobs of some rows, in the order in which they are wanted."""
        raise NotImplementedError

    def values(self, job: Any, done: Records) -> Any:
        """Return the settings of a run; None while the trials that choose them are missing."""
        return ()

    def bench(self, task: str, data: Path, device: str, toy: bool) -> Any:
        """Return what all runs of a task need: its data, its network."""
        raise NotImplementedError

    def make(self, job: Any, values: Any, bench: Any) -> dict[str, Any]:
        """Make a job, and return its record."""
        raise NotImplementedError

    def timing(self, task: str, rows: Sequence[str], data: Path, out: Path, device: str, toy: bool) -> None:
        """Time the rows of a task, alone on the device."""
        raise ValueError(f"timing: {task} has none")

    def store(self, task: str, out: Path) -> JobFile:
        """Return the database of a task's new runs."""
        (out / self.name).mkdir(parents=True, exist_ok=True)
        return JobFile(out / self.name / f"{task}.sqlite", self.fields)

    def read(self, out: Path | None = None, *, published: bool = True) -> Records:
        """Return the runs of all tasks, published and new; an error only if there is no run."""
        found: Records = {}
        for task in (*self.tasks, *self.toys):
            path = RESULTS / self.name / f"{task}.jsonl"
            if published and path.exists():
                found |= JobFile(path, self.fields).read()
            if out is not None and (out / self.name / f"{task}.sqlite").exists():
                new = self.store(task, out).read().items()
                found |= {key: record for key, record in new if "error" not in record or key not in found}
        return {self.job(*key): record for key, record in found.items()}

    def publish(self, out: Path) -> list[str]:
        """Write the results file of each task that has new runs, whole; return their names."""
        fresh = {job[0] for job in self.read(out, published=False)}
        done = self.read(out)
        for task in fresh:
            path = RESULTS / self.name / f"{task}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            rows = (record for job, record in done.items() if job[0] == task and "error" not in record)
            plain = ({k: v for k, v in record.items() if k != "crc"} for record in rows)
            write_lines(path, {"key": list(self.fields)}, plain)
        return sorted(fresh)


def left(study: Study, task: str, done: Records, rows: Sequence[str], seeds: int | None) -> list[Any]:
    """Return the jobs of a task that have no record."""
    own = [row for row in study.rows(task) if not rows or row in rows]
    return [job for job in dict.fromkeys(study.jobs(task, own, seeds)) if job not in done]


def work(
    study: Study, task: str, rows: Sequence[str], data: Path, out: Path, *,
    device: str, toy: bool, until: float, seeds: int | None, tell: Callable[[str], None],
) -> None:  # fmt: skip
    """Make the jobs of a task that are left; several processes may share the files, and any may die."""
    file, bench = study.store(task, out), None
    with file.claims() as claim:
        while time.time() < until:
            done = study.read(out, published=not toy)
            open_jobs = left(study, task, done, rows, seeds)
            ready = {job: values for job in open_jobs if (values := study.values(job, done)) is not None}
            job = next((job for job in ready if claim(job)), None)
            if job is None:  # what can be made is with other processes
                if not ready or len(ready) == len(open_jobs):  # nothing here waits for it
                    return
                time.sleep(0.5)
                continue
            if job in study.read(out, published=not toy):  # since another process has let it go
                continue
            try:
                bench = bench or study.bench(task, data, device, toy)
                record = study.make(job, ready[job], bench)
            except Exception as error:  # one run does not end the others
                record, bench = {"error": f"{type(error).__name__}: {error}"[:500]}, None
            file.add(job, record)
            told = dict(zip(study.fields, job, strict=True)) | record
            tell(" ".join(f"{k}={v}" for k, v in told.items() if not isinstance(v, list | dict)))
            gc.collect()
