"""SciPy's `workers`, for differences of f in `minimize`: evaluate f at many points; may start processes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias, cast

from .check import is_whole

Map: TypeAlias = Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]]
"""A map-like callable that evaluates a function at many points."""

THREADED = {"jax", "torch"}  # libraries with their own threads


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
        with ExitStack() as stack:
            pools: list[Any] = []
            count = None if workers == -1 else int(workers)

            def mapped(function: Callable[..., Any], points: Iterable[Any]) -> Iterable[Any]:
                if not pools:  # now that the function is known: each process is sent it once
                    pools.append(stack.enter_context(_pool(function, count)))
                return pools[0].map(_evaluate, points)

            yield mapped


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
