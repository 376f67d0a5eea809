"""Run jobs here, in processes or on any executor, for sweeps, `train`, benchmarks; writes a file."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from itertools import islice
from typing import Any, NamedTuple

from ..bar import item_bar
from ..optional import load
from ..workers import check_workers, is_executor, is_own
from .file import JobFile, Key, Record

RETRIES = 2  # how often a job whose worker died is tried again
POLL = 0.2  # seconds between reads of what other processes have done
SENT = 64  # jobs that are sent to an executor of unknown size at a time; else two for each worker


class Done(NamedTuple):
    """A finished job: its result, or its error."""

    key: Key
    value: Any
    error: str | None = None


class Died(Exception):
    """A worker died with these jobs, or with one that ran beside them."""

    def __init__(self, keys: list[Key], error: BaseException, lost: bool = False):
        super().__init__(f"{type(error).__name__}: {error}"[:500])
        self.keys, self.lost = keys, lost
        """`lost`: nothing can be sent any more."""


def run(
    work: Callable[..., Any], keys: Iterable[Key], *, send: Callable[[Key], tuple[Any, ...]] = tuple,
    file: JobFile | None = None, workers: Any = None, wait: bool = True, strict: bool = False,
    progress: bool = False, title: Callable[[Key], str] = lambda key: str(key[0]),
) -> Iterator[Done]:  # fmt: skip
    """Run `work(*send(key))` for every key, and yield the results as they complete.

    `workers` is what it is in `minimize`; by default jobs run in this process. A job that raises is done,
    with an error, unless `strict` is set: then the run ends with its exception. Jobs in progress when a
    worker dies are run again after all others, one by one, so that a job that kills its worker does not fail
    others.

    With a file, `work` returns a dict of JSON values and arrays, and results are appended before they are
    yielded. Jobs in the file are not run again, except failed ones; jobs claimed by another process are
    waited for (unless `wait` is False), and taken over if that process dies.
    """
    check_workers(workers)
    deaths = dict.fromkeys(keys, 0)  # of workers, for each job that is not done
    free: Callable[[Key], bool] = lambda key: True  # noqa: E731
    claiming = nullcontext(free) if file is None else file.claims()
    with item_bar(progress, len(deaths)) as show, claiming as claim:

        def end(key: Key, value: Any, error: str | None = None, *, new: bool = True) -> Done:
            del deaths[key]
            if file is not None and new:
                file.add(key, value if error is None else {"error": error})
            show(title(key))
            return Done(key, value, error)

        def claimed(turn: list[Key], sent: set[Key]) -> Iterator[Task]:
            for key in turn:
                # another process may hold the claim, or have released it since with the job done
                if claim(key) and not (file and _succeeded(file.read().get(key))):
                    sent.add(key)
                    yield Task(work, key, send(key), strict)

        while deaths:
            have = {} if file is None else file.read()
            for key in [key for key in deaths if _succeeded(have.get(key))]:
                yield end(key, have[key], new=False)
            turn = [key for key, count in deaths.items() if not count] or list(deaths)[:1]
            sent = set[Key]()
            try:
                for key, value, error in _spread(claimed(turn, sent), workers, len(turn)):
                    yield end(key, value, error)
            except Died as death:
                if death.lost:
                    for key in list(deaths):
                        yield end(key, {}, f"the executor runs nothing any more: {death}", new=False)
                for key in [key for key in death.keys if key in deaths]:
                    deaths[key] += 1
                    if deaths[key] > RETRIES:
                        yield end(key, {}, f"the worker died, {deaths[key]} times")
            if deaths and not sent:  # other processes have the rest
                if not wait:
                    return
                time.sleep(POLL)


def _succeeded(record: Record | None) -> bool:
    return record is not None and "error" not in record


def _attempt(
    work: Callable[..., Any], key: Key, arguments: tuple[Any, ...], strict: bool
) -> tuple[Key, Any, str | None]:
    """Run one job in a worker."""
    try:
        return key, work(*arguments), None
    except Exception as error:
        if strict:
            raise
        return key, {}, f"{type(error).__name__}: {error}"[:500]


# --- spreading -----------------------------------------------------------------------------------------


class Task:
    """A job as it is sent."""

    def __init__(self, *task: Any):
        self.key: Key = task[1]
        self._task = task

    def __call__(self) -> tuple[Key, Any, str | None]:
        """Run it."""
        return _attempt(*self._task)

    def packed(self) -> bytes:
        """Return it as bytes, by cloudpickle, which takes any function."""
        try:
            return load("cloudpickle", "running many jobs", extra="sweep").dumps(self._task)
        except Exception as error:  # each object decides how it fails
            raise ValueError(
                f"workers: a job cannot be sent to another process ({type(error).__name__}: {error}); define "
                "functions at the top level of a module, open files and locks inside the call, or use threads"
            ) from error


def _called(task: Task) -> tuple[Key, Any, str | None]:
    return task()


def _called_packed(content: bytes) -> tuple[Key, Any, str | None]:
    return _attempt(*pickle.loads(content))


def _spread(tasks: Iterator[Task], workers: Any, count: int) -> Iterator[tuple[Key, Any, str | None]]:
    """Run tasks, and yield what they return as it comes."""
    if is_executor(workers):
        yield from _on(workers, tasks)
    elif workers is None or callable(workers):
        mapped: Any = map if workers is None else workers
        yield from mapped(_called, tasks)
    elif workers == 1:
        yield from map(_called, tasks)
    else:
        loky = load("loky", "running jobs in processes", extra="sweep")
        most = loky.cpu_count() if workers == -1 else int(workers)
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        pool = loky.get_reusable_executor(max(1, min(most, count)), env=threads)
        try:
            yield from _on(pool, tasks)
        except BaseException:  # nobody waits for what they are at
            pool.shutdown(kill_workers=True)
            raise


def _on(executor: Any, tasks: Iterator[Task]) -> Iterator[tuple[Key, Any, str | None]]:
    """Run tasks on an executor, a few more at a time than it has workers."""
    from concurrent.futures import FIRST_COMPLETED, BrokenExecutor
    from concurrent.futures import wait as waited

    most = 2 * (getattr(executor, "_max_workers", None) or SENT // 2)
    out: dict[Any, Key] = {}
    refused: Died | None = None
    try:
        while True:
            for task in islice(tasks, 0 if refused else most - len(out)):
                try:
                    out[_submitted(executor, task)] = task.key
                except RuntimeError as error:  # since a worker died, or for good
                    refused = Died([task.key], error, lost=True)
                    break
            if not out and refused:
                raise refused
            if not out:
                return
            dead, why = list[Key](), None
            for future in waited(out, return_when=FIRST_COMPLETED).done:
                key = out.pop(future)
                try:
                    found = future.result()
                except Exception as error:
                    if not is_own(error, executor):
                        raise
                    dead, why = [*dead, key], error
                    continue
                yield found
            if why is not None:
                raise Died([*dead, *(out.values() if isinstance(why, BrokenExecutor) else ())], why)
    finally:
        for future in out:
            future.cancel()


def _submitted(executor: Any, task: Task) -> Any:
    """Return the future of a task."""
    from concurrent.futures import ThreadPoolExecutor

    if isinstance(executor, ThreadPoolExecutor):
        return executor.submit(_called, task)
    return executor.submit(_called_packed, task.packed())
