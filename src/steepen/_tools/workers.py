"""`workers`, for differences of f in `minimize`: evaluate f at many points; may start processes."""

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


THREADED = {"jax", "torch"}  # libraries with their own threads


@contextmanager
def mapping_of(workers: Any) -> Iterator[Map | None]:
    """Interpret `workers`: an executor, or as SciPy's a map-like callable or a number of processes.

    −1 is one process per core.
    """
    if callable(getattr(workers, "submit", None)):
        yield partial(evaluate_on, workers)
    elif workers is None or callable(workers):
        yield cast("Map | None", workers)
    elif not (is_whole(workers) and (workers > 0 or workers == -1)):
        raise ValueError(f"workers: expected {EXPECTED}, got {workers!r}")
    elif workers == 1:
        yield None
    else:
        with ExitStack() as stack:
            pools: list[Any] = []
            count = None if workers == -1 else int(workers)

            def mapped(function: Callable[..., Any], points: Iterable[Any]) -> Iterable[Any]:
                if not pools:  # now that the function is known: each process is sent it once
                    pools.append(stack.enter_context(_pool(function, count)))
                return pools[0].map(_evaluate, points)

            yield mapped


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
    except WorkersLost:
        raise
    except Exception as error:
        if _is_own(error, executor):
            raise _lost(error, len(futures)) from error
        if not _can_be_sent(function):
            raise TypeError(
                "workers: fun could not be sent to another process; define it at the top level of a module, "
                "or use an executor that carries any function, such as those of loky and Dask"
            ) from error
        raise
    finally:
        for future in futures:  # of those that are done this asks nothing
            future.cancel()


def _lost(error: Exception, begun: int) -> WorkersLost:
    logger.warning("workers: the executor evaluates nothing any more: %s: %s", type(error).__name__, error)
    return WorkersLost(begun)


def _is_own(error: Exception, executor: Any) -> bool:
    """Return whether an error is the executor's: of its package, or a general one of a broken executor."""
    from concurrent.futures import BrokenExecutor, CancelledError  # here: `import steepen` stays light

    packages = [type(one).__module__.partition(".")[0] for one in (error, executor)]
    return isinstance(error, BrokenExecutor | CancelledError) or packages[0] == packages[1]


def _can_be_sent(function: Callable[..., Any]) -> bool:
    """Return whether Python's own pickle takes a function."""
    try:
        pickle.dumps(function)
    except Exception:  # whatever it is
        return False
    return True


def _pool(function: Callable[..., Any], count: int | None) -> Any:
    """Return a pool of processes that have the function."""
    import multiprocessing  # here, so that `import steepen` stays light
    from concurrent.futures import ProcessPoolExecutor

    known = multiprocessing.get_all_start_methods()
    # a forked process can run any function, and needs no guard; beside threads it may hang
    way = "forkserver" if "forkserver" in known else "spawn"
    if "fork" in known and threading.active_count() == 1 and not THREADED & set(sys.modules):
        way = "fork"
    return ProcessPoolExecutor(count, multiprocessing.get_context(way), _keep, (function,))


_kept: list[Callable[..., Any]] = []
"""In a worker, the function it evaluates."""


def _keep(function: Callable[..., Any]) -> None:
    _kept[:] = [function]


def _evaluate(point: Any) -> Any:
    return _kept[0](point)
