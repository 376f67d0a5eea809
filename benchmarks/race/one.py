"""One run of a race: one solver on one case with one feature."""

from __future__ import annotations

import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from benchmarks.problems import Case
from benchmarks.problems import cases as cases_of

from .asked import Asked, Spent
from .features import pose
from .solvers import Ended, constant_of, named

GRACE = 1.0
"""Seconds that a solver gets beyond its limit before it is stopped in the middle of its own work."""


@contextmanager
def stopped_after(asked: Asked, seconds: float) -> Iterator[None]:
    """Raise `Spent` in a solver that makes no evaluation; in main threads, where there are signals."""
    usable = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not usable or seconds == float("inf"):
        yield
        return

    def stop(*_: Any) -> None:
        asked.spent = "time"
        raise Spent

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds + GRACE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def measure(
    case: Case | tuple[str, str], feature: str, solver: str, limit: int, tight: bool, seconds: float
) -> dict[str, Any]:
    """Run it, and return what happened; a case of a set is named by both."""
    plain = cases_of(case[0])[case[1]] if isinstance(case, tuple) else case
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # what is not finite is part of the game
        posed = pose(plain, feature)
        n, f0 = len(posed.x0), float(posed.judged(posed.x0))
        told = named(solver)
        record: dict[str, Any] = {"n": n, "f0": f0, "known": posed.known, "allowed": posed.allowed}
        if n > told.largest:
            return {**record, "used": 0, "word": f"left out: n > {told.largest:g}"}
        most = limit if told.per_variable is None else min(limit, told.per_variable * n)
        asked = Asked(posed, most, tight=tight, seconds=seconds)
        failed, start = False, time.perf_counter()
        try:
            with stopped_after(asked, seconds), constant_of(solver):
                ended = told.run(asked, np.array(posed.x0))
        except Spent:
            ended = Ended(False, asked.spent)
        except ImportError:
            raise
        except Exception as error:  # a peer may end by any error, and it is the record that should say so
            failed = not asked.spent
            ended = Ended(
                False, asked.spent or type(error).__name__, None, f"{type(error).__name__}: {error}"
            )
        spent = time.perf_counter() - start
        return {
            **record, "used": asked.used, "improvements": asked.improvements, "outside": asked.outside,
            "end": _end(posed, ended.x), "success": bool(ended.success), "word": " ".join(ended.word.split()),
            "message": " ".join(ended.message.split())[:200], "claimed": ended.claimed, "failed": failed,
            "seconds": spent,
        }  # fmt: skip


def _end(case: Case, x: Any) -> float | None:
    """Return f, as it is judged, where a solver says that it ended; None if it names no point."""
    point = None if x is None else np.asarray(x, dtype=float)
    if point is None or point.shape != case.x0.shape:
        return None
    return float(case.judged(point))
