"""SciPy's `workers`: parallel evaluation of a function at many points."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias, cast

from .check import is_whole

Map: TypeAlias = Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]]
"""A map-like callable that evaluates a function at many points."""


@contextmanager
def mapping_of(workers: Any) -> Iterator[Map | None]:
    """Interpret SciPy's `workers`: a map-like callable, or a number of processes for the run (−1: all cores).

    Examples
    --------
    >>> with mapping_of(map) as mapped:
    ...     list(mapped(abs, [-1, 2]))
    [1, 2]
    """
    if workers is None or callable(workers):
        yield cast("Map | None", workers)
    elif not (is_whole(workers) and (workers > 0 or workers == -1)):
        expected = "a map-like callable, -1, or a number of processes"
        raise ValueError(f"workers: expected {expected}, got {workers!r}")
    elif workers == 1:
        yield None
    else:
        with ExitStack() as stack:
            yield _Processes(None if workers == -1 else int(workers), stack)


class _Processes:
    """A map over a pool of processes, created at first use."""

    def __init__(self, count: int | None, stack: ExitStack):
        self._count, self._stack, self._forked = count, stack, False
        self._pool: Any = None

    def __call__(self, function: Callable[..., Any], points: Iterable[Any]) -> list[Any]:
        # here, so that `import steepen` stays light
        from concurrent.futures.process import BrokenProcessPool

        pool: Any = self._pool or self._start(function)
        try:
            return list(pool.map(_inherited if self._forked else function, points))
        except BrokenProcessPool as error:
            raise RuntimeError(
                "workers: a process died while evaluating fun; in a script, the run must be "
                'inside `if __name__ == "__main__":`'
            ) from error
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            if self._forked or _can_be_sent(function):
                raise
            raise TypeError(
                f"workers: fun cannot be sent to other processes ({error}): define it at the top level of a "
                "module, not as a lambda or inside a function, or pass a map-like callable such as "
                "concurrent.futures.ThreadPoolExecutor().map"
            ) from error

    def _start(self, function: Callable[..., Any]) -> Any:
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        known = multiprocessing.get_all_start_methods()
        # a fork knows any function, and needs no guard; beside threads it may hang
        self._forked = "fork" in known and threading.active_count() == 1 and not THREADED & set(sys.modules)
        way = "fork" if self._forked else "forkserver" if "forkserver" in known else "spawn"
        begin: Any = {"initializer": _inherit, "initargs": (function,)} if self._forked else {}
        pool = ProcessPoolExecutor(self._count, multiprocessing.get_context(way), **begin)
        self._pool = self._stack.enter_context(pool)
        return self._pool


THREADED = {"jax", "torch"}
"""Libraries with their own threads."""

_given: list[Callable[..., Any]] = []
"""In a forked process, the function it evaluates."""


def _inherit(function: Callable[..., Any]) -> None:
    _given[:] = [function]


def _inherited(point: Any) -> Any:
    return _given[0](point)


def _can_be_sent(function: Callable[..., Any]) -> bool:
    try:
        pickle.dumps(function)
    except Exception:  # whatever the parts of a function make pickle raise
        return False
    return True
