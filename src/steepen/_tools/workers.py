"""`workers`, wherever work is spread: numbers of processes, executors, map-like callables."""

from __future__ import annotations

import logging
import pickle
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeAlias, cast

from .check import is_whole

logger = logging.getLogger("steepen")

Map: TypeAlias = Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]]
"""A map-like callable that evaluates a function at many points."""

EXPECTED = "a number of processes, -1, an executor, or a map-like callable"


class WorkersLost(Exception):
    """An executor that evaluates nothing any more: a worker died, or it was shut down."""

    def __init__(self, begun: int):
        super().__init__(begun)
        self.begun = begun
        """How many evaluations had begun."""


CLUSTERS = {"distributed", "mpi4py", "loky"}
"""Packages of executors whose errors are not all of the kind that broken executors raise."""

THREADED = {"jax", "torch"}  # libraries with their own threads


@contextmanager
def mapping_of(workers: Any) -> Iterator[Map | None]:
    """Interpret `workers`: an executor, or as SciPy's a map-like callable or a number of processes.

    −1 is one process per core.
    """
    check_workers(workers)
    if is_executor(workers):
        yield partial(_on_executor, workers)
    elif workers is None or callable(workers):
        yield cast("Map | None", workers)
    elif workers == 1:
        yield None
    else:
        with ExitStack() as stack:
            pools: list[Any] = []
            count = None if workers == -1 else int(workers)

            def mapped(function: Callable[..., Any], points: Iterable[Any]) -> Iterable[Any]:
                if not pools:  # now that the function is known: each process is sent it once
                    pools.append(stack.enter_context(processes(count, _keep, function)))
                with _advice_for(function):
                    return evaluate_on(pools[0], _evaluate, points)

            yield mapped


def _on_executor(executor: Any, function: Callable[..., Any], points: Iterable[Any]) -> list[Any]:
    with _advice_for(function):
        return evaluate_on(executor, function, points)


def evaluate_on(executor: Any, function: Callable[..., Any], points: Iterable[Any]) -> list[Any]:
    """Return the values at points in their order, whatever the order in which the executor finds them."""
    futures: list[Any] = []
    try:
        for point in points:
            try:
                futures.append(executor.submit(function, point))
            except RuntimeError as error:  # it is broken, or was shut down
                raise _lost(error, len(futures)) from error
        return [future.result() for future in futures]
    except Exception as error:
        if is_own(error, executor):
            raise _lost(error, len(futures)) from error
        raise
    finally:
        for future in futures:  # of those that are done this asks nothing
            future.cancel()


@contextmanager
def _advice_for(function: Callable[..., Any]) -> Iterator[None]:
    """Say what to do where an error came since a function cannot be sent."""
    try:
        yield
    except Exception as error:
        if repr(error) != repr(_pickling_error(function)):
            raise
        raise TypeError(
            "workers: fun could not be sent to another process; define it at the top level of a module, "
            "or use an executor that carries any function, such as those of loky and Dask"
        ) from error


def _lost(error: Exception, begun: int) -> WorkersLost:
    logger.warning("workers: the executor evaluates nothing any more: %s: %s", type(error).__name__, error)
    return WorkersLost(begun)


def is_own(error: Exception, executor: Any) -> bool:
    """Return whether an error is the executor's: that of a broken one, or of a cluster's package."""
    from concurrent.futures import BrokenExecutor, CancelledError  # here: `import steepen` stays light

    packages = {type(one).__module__.partition(".")[0] for one in (error, executor)}
    return isinstance(error, BrokenExecutor | CancelledError) or (len(packages) == 1 and packages <= CLUSTERS)


def _pickling_error(function: Callable[..., Any]) -> Exception | None:
    """Return the error that Python's own pickle raises for a function, if it does not take it."""
    try:
        pickle.dumps(function)
    except Exception as error:  # whatever it is
        return error
    return None


def processes(count: int | None, initializer: Callable[..., None], *initial: Any) -> Any:
    """Return a pool of processes."""
    import multiprocessing  # here, so that `import steepen` stays light
    from concurrent.futures import ProcessPoolExecutor

    known = multiprocessing.get_all_start_methods()
    # a forked process can run any function, and needs no guard; beside threads it may hang
    way = "forkserver" if "forkserver" in known else "spawn"
    if "fork" in known and threading.active_count() == 1 and not THREADED & set(sys.modules):
        way = "fork"
    return ProcessPoolExecutor(count, multiprocessing.get_context(way), initializer, initial)


def check_workers(workers: Any) -> None:
    """Raise unless this is one of the things that `workers` can be."""
    number = is_whole(workers) and (workers > 0 or workers == -1)
    can_call = callable(workers) and not hasattr(workers, "submit")  # an executor's class has it
    if not (workers is None or number or is_executor(workers) or can_call):
        raise ValueError(f"workers: expected {EXPECTED}, got {workers!r}")
    if is_executor(workers) and not _has_workers(workers):
        raise ValueError(f"workers: expected an executor with workers, got {workers!r}, which has none")


def _has_workers(executor: Any) -> bool:
    """Return whether somebody runs what is submitted, as far as the executor says so: Dask's and mpi4py's."""
    client = getattr(executor, "_client", None)
    if callable(getattr(client, "nthreads", None)):
        return bool(cast(Any, client).nthreads())
    return getattr(executor, "num_workers", None) != 0


def is_executor(workers: Any) -> bool:
    """Return whether this evaluates what is submitted to it."""
    return callable(getattr(workers, "submit", None)) and not isinstance(workers, type)


_kept: list[Callable[..., Any]] = []
"""In a worker, the function it evaluates."""


def _keep(function: Callable[..., Any]) -> None:
    _kept[:] = [function]


def _evaluate(point: Any) -> Any:
    return _kept[0](point)
