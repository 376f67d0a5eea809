"""Run jobs with joblib: in this process, on all cores, or on a Dask or Ray cluster."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import nullcontext
from typing import Any, NamedTuple

from ..bar import item_bar
from ..optional import load
from .file import JobFile, Key, Record

POLL = 0.2  # seconds between two looks at what other processes have done
_DEATHS = {"KilledWorker", "WorkerCrashedError", "RayActorError", "ActorDiedError"}  # by name: Dask's, Ray's


class Done(NamedTuple):
    """A finished job: its result or error, and the number of attempts."""

    key: Key
    value: Any
    error: str | None = None
    tries: int = 1


def run(
    work: Callable[..., Any], keys: Iterable[Key], *, send: Callable[[Key], tuple[Any, ...]] = tuple,
    file: JobFile | None = None, jobs: int | None = None, retries: int = 2, wait: bool = True,
    strict: bool = False, progress: bool = False, title: Callable[[Key], str] = str,
) -> Iterator[Done]:  # fmt: skip
    """Run `work(*send(key))` for every key, and yield the results as they complete.

    A job that raises is done, with an error. A job whose worker dies is retried: after all other jobs, those
    in progress at the time run one by one, each with `retries` retries before it counts as failed, so that
    a job that kills its worker does not fail others.

    With a file, `work` returns a dict of JSON values and arrays, and results are appended before they are
    yielded. Jobs in the file are not run again, except failed ones; jobs claimed by another process are
    waited for (unless `wait` is False), and taken over if that process dies. With `strict`, an exception
    in a job ends the run instead of being recorded; `title` returns the progress-bar text for a job.

    Examples
    --------
    >>> done = run(lambda a, b: {"sum": a + b}, [(1, 2), (3, 4)])
    >>> [(one.key, one.value["sum"]) for one in done]
    [((1, 2), 3), ((3, 4), 7)]
    """
    joblib = load("joblib", "running many jobs", extra="sweep")
    options, most = _where(joblib, jobs)
    tries = dict.fromkeys(keys, 0)  # how often each job that is not done was begun
    if tries and elsewhere(jobs):  # on Dask, joblib would wait for ever for what could not be sent
        send_check("a job", (work, send(next(iter(tries)))))
    free: Callable[[Key], bool] = lambda key: True  # noqa: E731
    claiming = nullcontext(free) if file is None else file.claims()
    with item_bar(progress, len(tries), after=True) as show, claiming as claim:

        def end(key: Key, value: Any, error: str | None) -> Done:
            done = Done(key, value, error, tries.pop(key) + 1)
            if file is not None:
                failed = {} if error is None else {"error": error}
                file.add(key, {**value, **failed, **({"tries": done.tries} if done.tries > 1 else {})})
            show(title(key))
            return done

        while tries:
            have = {} if file is None else file.read()
            for key in [key for key in tries if _made(have.get(key))]:
                tries.pop(key)
                show(title(key))
                yield Done(key, have[key], None, have[key].get("tries", 1))
            turn = [key for key, begun in tries.items() if not begun][:most] or list(tries)[:1]
            sent: dict[Key, bool] = {}  # and whether it came back

            def tasks(turn: list[Key] = turn, sent: dict[Key, bool] = sent) -> Iterator[Any]:
                for key in turn:
                    # what cannot be claimed another process has; what has been made it had
                    if claim(key) and not (file and _made(file.read().get(key))):
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
                    if tries[key] < retries:
                        tries[key] += 1
                    else:
                        yield end(key, {}, f"the worker died, {retries + 1} times")
            if tries and not sent:  # the rest is with other processes
                if not wait:
                    return
                time.sleep(POLL)


def _made(record: Record | None) -> bool:
    return record is not None and "error" not in record


def _attempt(
    work: Callable[..., Any], key: Key, arguments: tuple[Any, ...], strict: bool
) -> tuple[Key, Any, str | None]:
    """Run one job in a worker."""
    try:
        return key, work(*arguments), None
    except Exception as error:  # it is the record that says so; the other jobs go on
        if strict:
            raise
        return key, {}, f"{type(error).__name__}: {error}"[:500]


def _where(joblib: Any, jobs: int | None) -> tuple[dict[str, Any], int]:
    """Return the arguments of Parallel, and the number of jobs to pass it at once."""
    backend, said = joblib.parallel.get_active_backend()
    jobs = said if jobs is None else jobs
    if type(backend).__name__ == "LokyBackend":  # processes of ours: one a core, with one thread
        backend = type(backend)(inner_max_num_threads=1)
    options = {"n_jobs": jobs, "backend": backend, "return_as": "generator_unordered"}
    if backend.supports_return_generator:
        return options, sys.maxsize
    # results come when the last is there, so few at a time
    return options | {"return_as": "list"}, 4 * max(1, backend.effective_n_jobs(jobs or 1))


def elsewhere(jobs: int | None) -> bool:
    """Return whether jobs would run in other processes."""
    backend, said = load("joblib", "running many jobs", extra="sweep").parallel.get_active_backend()
    shared = getattr(backend, "supports_sharedmem", False)  # in threads, or here
    return not shared and backend.effective_n_jobs(jobs or said or 1) > 1


def send_check(name: str, value: Any) -> None:
    """Raise ValueError if the value cannot be sent to another process.

    Examples
    --------
    >>> import threading
    >>> lock = threading.Lock()
    >>> send_check("fun", lambda x: lock)
    Traceback (most recent call last):
    ValueError: fun: cannot be sent to another process (TypeError: cannot pickle '_thread.lock' object); ...
    """
    dumps = load("cloudpickle", "running many jobs", extra="sweep").dumps
    try:
        dumps(value)
    except Exception as error:  # an object decides itself how it fails
        raise ValueError(
            f"{name}: cannot be sent to another process ({type(error).__name__}: {error}); define it in a "
            "module, open files and locks inside the call, or run with jobs=1"
        ) from error
