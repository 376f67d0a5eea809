"""One timer and one table, for all that is timed on a CPU."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable


def clock(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def alternating(
    ours: Callable[[], object], theirs: Callable[[], object], rounds: int
) -> tuple[float, float, float]:
    """Return the median times of both in seconds, and the median ratio of neighbours.

    The two take turns, since machines drift.
    """
    ours(), theirs()
    pairs = [(clock(ours), clock(theirs)) for _ in range(rounds)]
    return (
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        statistics.median(a / b for a, b in pairs),
    )


def bytecodes(run: Callable[[], object], users: set[object]) -> tuple[int, int]:
    """Count the bytecodes that a call executes and the Python calls it makes, beside those of the user's."""
    codes = calls = inside = 0

    def trace(frame, event, arg):
        nonlocal calls, inside
        if frame.f_code in users:
            inside += 1

            def leave(frame, event, arg):
                nonlocal inside
                inside -= event == "return"
                return leave

            return leave
        if inside:
            return None
        calls += 1
        frame.f_trace_opcodes, frame.f_trace_lines = True, False

        def count(frame, event, arg):
            nonlocal codes
            codes += event == "opcode"
            return count

        return count

    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(None)
    return codes, calls


class Table:
    """Prints a row at a time, and remembers whether a bar was missed; a bar of infinity is none."""

    def __init__(self) -> None:
        self.failed = False
        print(f"{'what':<56} {'ours':>11} {'peer':>11} {'ratio':>8}  bar")

    def row(
        self, what: str, ours: float, peer: float, ratio: float, bar: float, unit: str, least=False
    ) -> None:
        good = ratio >= bar if least else ratio <= bar
        self.failed |= not good
        sign = ">=" if least else "<="
        mark = "" if good else "  MISSED"
        said = "" if bar in (0.0, float("inf")) else f"{sign} {bar:g}{mark}"
        print(f"{what:<56} {ours:>8.4g} {unit:>2} {peer:>8.4g} {unit:>2} {ratio:>8.3f}  {said}", flush=True)
