"""Run jobs by joblib (one process, all cores, Dask, Ray), for sweeps, `train`, benchmarks; writes a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import nullcontext
from typing import Any, NamedTuple

from ..bar import item_bar
from ..optional import load
from .file import JobFile, Key, Record

RETRIES = 2  # how often a job whose worker died is tried again
POLL = 0.2  # seconds between reads of what other processes have done
_DEATHS = {"KilledWorker", "WorkerCrashedError", "RayActorError", "ActorDiedError"}  # by name: Dask's, Ray's


class Done(NamedTuple):
    """A finished job: its result, or its error."""

    key: Key
    value: Any
    error: str | None = None


def run(
    work: Callable[..., Any], keys: Iterable[Key], *, send: Callable[[Key], tuple[Any, ...]] = tuple,
    file: JobFile | None = None, jobs: int | None = None, wait: bool = True, strict: bool = False,
    progress: bool = False, title: Callable[[Key], str] = lambda key: str(key[0]),
) -> Iterator[Done]:  # fmt: skip
    """Run `work(*send(key))` for every key, and yield the results as they complete.

    A job that raises is done, with an error, unless `strict` is set: then the run ends with its exception.
    Jobs in progress when a worker dies are run again after all others, one by one, so that a job that kills
    its worker does not fail others.

    With a file, `work` returns a dict of JSON values and arrays, and results are appended before they are
    yielded. Jobs in the file are not run again, except failed ones; jobs claimed by another process are
    waited for (unless `wait` is False), and taken over if that process dies.
    """
    joblib = load("joblib", "running many jobs", extra="sweep")
    options = _where(joblib, jobs)
    deaths = dict.fromkeys(keys, 0)  # of workers, for each job that is not done
    if deaths and _elsewhere(options):
        _check_sendable((work, send(next(iter(deaths)))))
    free: Callable[[Key], bool] = lambda key: True  # noqa: E731
    claiming = nullcontext(free) if file is None else file.claims()
    with item_bar(progress, len(deaths)) as show, claiming as claim:

        def end(key: Key, value: Any, error: str | None = None, *, new: bool = True) -> Done:
            del deaths[key]
            if file is not None and new:
                file.add(key, value if error is None else {"error": error})
            show(title(key))
            return Done(key, value, error)

        while deaths:
            have = {} if file is None else file.read()
            for key in [key for key in deaths if _succeeded(have.get(key))]:
                yield end(key, have[key], new=False)
            turn = [key for key, count in deaths.items() if not count] or list(deaths)[:1]
            sent: dict[Key, bool] = {}  # and whether it came back

            def tasks(turn: list[Key] = turn, sent: dict[Key, bool] = sent) -> Iterator[Any]:
                for key in turn:
                    # another process may hold the claim, or have released it since with the job done
                    if claim(key) and not (file and _succeeded(file.read().get(key))):
                        sent[key] = False
                        yield joblib.delayed(_attempt)(work, key, send(key), strict)

            try:
                for key, value, error in joblib.Parallel(**options)(tasks()):
                    sent[key] = True
                    yield end(key, value, error)
            except Exception as death:
                if not (isinstance(death, BrokenExecutor) or type(death).__name__ in _DEATHS):
                    raise
                for key in [key for key, came in sent.items() if not came]:
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


def _where(joblib: Any, jobs: int | None) -> dict[str, Any]:
    """Return the arguments of Parallel."""
    backend, said = joblib.parallel.get_active_backend()
    if type(backend).__name__ == "LokyBackend":  # our own processes: one per core, each with one thread
        backend = type(backend)(inner_max_num_threads=1)
    way = "generator_unordered" if backend.supports_return_generator else "list"  # Ray's does not
    return {"n_jobs": said if jobs is None else jobs, "backend": backend, "return_as": way}


def _elsewhere(options: dict[str, Any]) -> bool:
    """Return whether jobs would run in other processes."""
    backend = options["backend"]
    shared = getattr(backend, "supports_sharedmem", False)  # in threads, or in this process
    return not shared and backend.effective_n_jobs(options["n_jobs"] or 1) > 1


def _check_sendable(job: Any) -> None:
    """Raise if a job cannot be sent to another process; on Dask, joblib would wait for ever."""
    try:
        load("cloudpickle", "running many jobs", extra="sweep").dumps(job)
    except Exception as error:  # each object decides how it fails
        raise ValueError(
            f"jobs: a job cannot be sent to another process ({type(error).__name__}: {error}); define "
            "functions at the top level of a module, open files and locks inside the call, or set jobs=1"
        ) from error
