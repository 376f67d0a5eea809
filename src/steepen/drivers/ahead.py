"""Speculation: while workers evaluate f at a trial point, they evaluate the next difference, too.

Where the trial point is accepted, ∇f is wanted there, by a difference whose points the run can name before f
is known (`differences/`). The run does not notice: it asks the same questions, and some answers are at hand.
Values that were made for nothing count as evaluations, and are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arrays import to_numpy
from ..callables import read_imaginary, read_value
from ..questions import Denied, Question, Value, Values, Vector
from ..run import Run
from .caller import Caller


class AheadCaller(Caller):
    """Answers as `Caller` does, and evaluates ahead of what the run asks."""

    def __init__(self, run: Run, most: int, *given: Any):
        super().__init__(*given)
        self._run, self._most = run, most
        self._ahead: dict[bytes, float] = {}
        """Values that were evaluated ahead since the last iterate."""
        self._here: Any = None
        """That iterate."""
        self.answers[Value] = self._value_and_ahead
        self.note: Callable[[Value, float, float], None] | None = None
        """Takes note of each value ahead as it comes, with the seconds."""

    def charge(self, ask: Question) -> None:
        """Count a question, but for the values that are there already."""
        if isinstance(ask, Values):
            self.meter.charge(sum(_key(point) not in self._ahead for point in ask.points), ask.gradients)
        else:
            super().charge(ask)

    def evaluated(
        self, points: Sequence[Vector], imaginary: bool, note: Callable[[Vector, float], None] | None = None
    ) -> list[float]:
        """Return f at these points; those that are there already were counted and noted as they came."""
        known = [self._ahead.pop(_key(point), None) for point in points]
        left = [point for point, value in zip(points, known, strict=True) if value is None]
        new = iter(super().evaluated(left, imaginary, note) if left else ())
        self.meter.unused -= len(points) - len(left)
        return [next(new) if value is None else value for value in known]

    def _value_and_ahead(self, ask: Value) -> float:
        if self._run.here is not self._here:
            self._here, self._ahead = self._run.here, {}
        points = self._foreseen(ask.x)
        if not points:
            return self._value(ask)
        meter, imaginary = self.meter, to_numpy(points[0]).dtype.kind == "c"
        read = read_imaginary if imaginary else read_value
        meter.charge(1, 0)
        meter.nfev += len(points)
        try:
            f, *found = self.sent([self._copy(ask.x), *map(self._copy, points)])
            value, values = read_value(f), [read(one) for one in found]
        except Denied:
            raise
        except Exception:  # it may be that of a point that nobody needs: f is evaluated here, by itself
            meter.unused += 1 + len(points)
            return self._value(ask)
        meter.unused += len(points)
        for point, one in zip(points, values, strict=True):
            self._ahead[_key(point)] = one
            if self.note is not None:
                self.note(Value(point), one, meter.seconds)
        return value

    def _foreseen(self, x: Vector) -> list[Vector]:
        """Return where f will be needed if x is accepted; nowhere, if the budget does not cover all of it."""
        run, meter = self._run, self.meter
        with np.errstate(all="ignore"):
            points = run.problem.gradients.foreseen(run, x)
        if meter.nfev + 1 + len(points) > meter.evals or meter.njev + 1 > meter.grads:
            return []
        return [point for point in points[: self._most] if _key(point) not in self._ahead]


def _key(point: Vector) -> bytes:
    """Return what tells a point."""
    return to_numpy(point).tobytes()
