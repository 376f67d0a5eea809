"""SciPy's `workers`: parallel evaluation of a function at many points."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias, cast

from .check import is_whole

Map: TypeAlias = Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]]
"""A map-like callable that evaluates a function at many points."""

THREADED = {"jax", "torch"}
"""Libraries with their own threads."""


@contextmanager
def mapping_of(workers: Any) -> Iterator[Map | None]:
    """Interpret SciPy's `workers`: a map-like callable, or the number of processes (−1: one per core)."""
    if workers is None or callable(workers):
        yield cast("Map | None", workers)
    elif not (is_whole(workers) and (workers > 0 or workers == -1)):
        expected = "a map-like callable, -1, or a number of processes"
        raise ValueError(f"workers: expected {expected}, got {workers!r}")
    elif workers == 1:
        yield None
    else:
        pools: list[Executor] = []

        def mapped(function: Callable[..., Any], points: Iterable[Any]) -> list[Any]:
            if not pools:
                pools.append(stack.enter_context(_pool(function, None if workers == -1 else int(workers))))
            try:
                return list(pools[0].map(_evaluate, points))
            except BrokenExecutor as error:
                raise RuntimeError(
                    "workers: a process died while evaluating fun; in a script, the run must be "
                    'inside `if __name__ == "__main__":`'
                ) from error

        with ExitStack() as stack:
            yield mapped


def _pool(function: Callable[..., Any], count: int | None) -> Executor:
    """Return a pool of processes that have the function."""
    import multiprocessing  # here, so that `import steepen` stays light
    from concurrent.futures import ProcessPoolExecutor

    known = multiprocessing.get_all_start_methods()
    # a forked process can run any function, and needs no guard; beside threads it may hang
    if "fork" in known and threading.active_count() == 1 and not THREADED & set(sys.modules):
        way = "fork"
    else:
        way = "forkserver" if "forkserver" in known else "spawn"
        instead = "pass a map-like callable such as concurrent.futures.ThreadPoolExecutor().map"
        check_sendable("workers: fun", function, pickle.dumps, instead)
    return ProcessPoolExecutor(count, multiprocessing.get_context(way), _keep, (function,))


def check_sendable(what: str, value: Any, dumps: Callable[[Any], bytes], instead: str) -> None:
    """Raise ValueError if a value cannot be sent to another process."""
    try:
        dumps(value)
    except Exception as error:  # each object decides how it fails
        raise ValueError(
            f"{what} cannot be sent to another process ({type(error).__name__}: {error}); define functions "
            f"at the top level of a module, open files and locks inside the call, or {instead}"
        ) from error


_kept: list[Callable[..., Any]] = []
"""In a worker, the function it evaluates."""


def _keep(function: Callable[..., Any]) -> None:
    _kept[:] = [function]


def _evaluate(point: Any) -> Any:
    return _kept[0](point)
