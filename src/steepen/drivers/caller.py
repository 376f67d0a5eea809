"""The user's functions behind a run: called with copies, counted as a call begins, denied over budget."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .._tools.workers import Map, WorkersLost
from ..arrays import is_numpy
from ..budget import Budget
from ..callables import Functions, describe, pair, read_imaginary, read_value, read_vector
from ..problem import is_operator
from ..questions import Denied, Gradient, Hessian, Product, Question, Value, Values, Vector
from ..status import Status
from ..vectors import copied, same


class Counts(NamedTuple):
    """Numbers of evaluations of f, gradients, products H·v and Hessians."""

    nfev: int = 0
    njev: int = 0
    nhvp: int = 0
    nhev: int = 0


@dataclass
class Meter:
    """The counts of a run, and the limits that no evaluation exceeds."""

    budget: Budget
    nfev: int = 0
    njev: int = 0
    nhvp: int = 0
    nhev: int = 0
    unused: int = 0
    """How many values of f were evaluated ahead, and are not used yet."""
    earlier: float = 0.0
    """Seconds of the runs that a checkpoint continues."""
    began: float = field(default_factory=lambda: time.perf_counter())

    def __post_init__(self) -> None:
        budget = self.budget
        self.evals: float = math.inf if budget.evals is None else budget.evals
        self.grads: float = math.inf if budget.grads is None else budget.grads
        self.iters: float = math.inf if budget.iters is None else budget.iters
        self.deadline: float = math.inf if budget.seconds is None else budget.seconds
        self.timed = budget.seconds is not None

    @property
    def seconds(self) -> float:
        """Wall time, earlier parts of a resumed run included."""
        return self.earlier + time.perf_counter() - self.began

    @property
    def counts(self) -> Counts:
        """The four counts."""
        return Counts(self.nfev, self.njev, self.nhvp, self.nhev)

    def check_time(self) -> None:
        """Raise Denied where the time is up."""
        if self.timed and self.seconds >= self.deadline:
            raise Denied(Status.MAX_SECONDS)

    def charge(self, evals: int, grads: int) -> None:
        """Count evaluations about to begin; raise Denied if a limit does not cover them."""
        self.check_time()
        if grads and self.njev + grads > self.grads:
            raise Denied(Status.MAX_GRADIENTS)
        if evals and self.nfev + evals > self.evals:
            raise Denied(Status.MAX_EVALUATIONS)
        self.nfev += evals
        self.njev += grads


class Caller:
    """Answers the questions of one run."""

    def __init__(
        self,
        functions: Functions,
        like: Vector,
        meter: Meter,
        workers: Map | None = None,
        combined: bool = False,
    ):
        self.functions, self.meter = functions, meter
        self._like, self._workers = like, workers
        self._copy: Any = np.ndarray.copy if is_numpy(like) else copied
        self.combined = combined
        """Whether every value comes with a gradient, which is counted, too."""
        self._fun, self._both = functions.value, functions.both
        self.last: tuple[Vector, Vector] = (None, None)
        """x, and ∇f there, where it came with f."""
        self.matrix: tuple[Vector, Any] = (None, None)
        """x, and H there."""
        self.answers: dict[type, Callable[[Any], Any]] = {
            Value: self._value if self._both is None else self._value_with_gradient,
            Gradient: self._gradient if self._both is None else self._gradient_with_value,
            Values: self._values,
            Product: self._product,
            Hessian: self._hessian,
        }

    def __call__(self, ask: Question) -> Any:
        """Answer a question, or raise Denied."""
        return self.answers[type(ask)](ask)

    # --- for drivers that answer by other means ----------------------------------------------------------

    def charge(self, ask: Question) -> None:
        """Count a question; raise Denied if a limit does not cover it. What is at hand costs nothing."""
        meter, combined, kind = self.meter, int(self.combined), type(ask)
        if kind is Value:
            meter.charge(1, combined)
        elif kind is Gradient:
            known = self.at_hand(ask) is not None
            meter.charge(0 if known else combined, 0 if known and combined else 1)
        elif isinstance(ask, Values):
            meter.charge(len(ask.points), ask.gradients)
        else:
            known = self.at_hand(ask) is not None
            meter.check_time()
            meter.nhvp += kind is Product
            meter.nhev += kind is Hessian and not known

    def at_hand(self, ask: Question) -> Any:
        """Return an answer that needs no call: ∇f that came with f, or the last H; else None."""
        if isinstance(ask, Gradient) and _is_at(self.last, ask.x):
            return self.last[1]
        if isinstance(ask, Hessian) and _is_at(self.matrix, ask.x):
            return self.matrix[1]
        return None

    def to_keep(self, ask: Question, answer: Any) -> Any:
        """Return what a file keeps of an answer: with f, the ∇f that came along; of an operator, nothing."""
        if isinstance(ask, Hessian) and is_operator(answer):
            return None
        if isinstance(ask, Value) and self._both is not None:
            return answer, self.last[1]
        return answer

    def recall(self, ask: Question, kept: Any) -> Any:
        """Return the answer from what was kept of it."""
        if isinstance(ask, Hessian):
            if kept is None:  # an operator was not kept
                self.meter.nhev -= 1
                return self._hessian(ask)
            self.matrix = ask.x, kept
        if isinstance(ask, Value) and self._both is not None:
            self.last = ask.x, kept[1]
            return kept[0]
        return kept

    # --- the questions -----------------------------------------------------------------------------------

    def _value(self, ask: Value) -> float:
        meter = self.meter
        if meter.nfev >= meter.evals or meter.timed:  # else nothing can be denied, and a call is saved
            meter.charge(1, 0)
        else:
            meter.nfev += 1
        f = self._fun(self._copy(ask.x))
        return f if type(f) is float else read_value(f)

    def _gradient(self, ask: Gradient) -> Vector:
        meter = self.meter
        if meter.njev >= meter.grads or meter.timed:
            meter.charge(0, 1)
        else:
            meter.njev += 1
        jac: Any = self.functions.grad
        g = jac(self._copy(ask.x))
        like = self._like
        if type(g) is np.ndarray and g.shape == like.shape and g.dtype is like.dtype:
            return g.copy()
        return read_vector(g, like, "jac")

    def _value_with_gradient(self, ask: Value) -> float:
        self.meter.charge(1, 1 if self.combined else 0)
        return self._call_both(ask.x)

    def _gradient_with_value(self, ask: Gradient) -> Vector:
        self.charge(ask)
        if self.at_hand(ask) is None:
            self._call_both(ask.x)
        return self.last[1]

    def _call_both(self, x: Vector) -> float:
        both: Any = self._both
        f, g = pair(both(copied(x)))
        value = read_value(f)
        self.last = x, read_vector(g, self._like, "fun's gradient")
        return value

    def _values(self, ask: Values) -> list[float]:
        self.charge(ask)
        return self.evaluated(ask.points, ask.imaginary)

    def evaluated(
        self, points: Sequence[Vector], imaginary: bool, note: Callable[[Vector, float], None] | None = None
    ) -> list[float]:
        """Return f at these points, which are counted already; `note` is told each value as it comes.

        No call begins after the time: those that do not begin are not counted.
        """
        read, found, begun = read_imaginary if imaginary else read_value, list[float](), 0
        sent: Any = None
        if self._workers is not None:
            sent, begun = self.sent(points), len(points)
        try:
            for i, point in enumerate(points):
                if sent is None:
                    self.meter.check_time()
                    begun += 1
                found.append(read(self._fun(self._copy(point)) if sent is None else sent[i]))
                if note is not None:
                    note(point, found[-1])
        finally:
            self.meter.nfev -= len(points) - begun
        return found

    def sent(self, points: Sequence[Vector]) -> list[Any]:
        """Return what fun returns at these points, which are counted already, and sent to the workers."""
        workers: Any = self._workers
        try:
            found = list(workers(self.functions.sent or self._fun, points))
        except WorkersLost as lost:
            self.meter.nfev -= len(points) - lost.begun
            raise Denied(Status.WORKERS) from lost
        if len(found) != len(points):
            count = len(points)
            raise ValueError(f"workers: expected {count} values for {count} points, got {len(found)}")
        return found

    def _product(self, ask: Product) -> Vector:
        self.meter.check_time()
        self.meter.nhvp += 1
        hvp: Any = self.functions.hvp
        return read_vector(hvp(copied(ask.x), copied(ask.v)), self._like, "hvp")

    def _hessian(self, ask: Hessian) -> Any:
        if (known := self.at_hand(ask)) is not None:
            return known
        self.charge(ask)
        hess: Any = self.functions.hess
        matrix, n = hess(copied(ask.x)), len(ask.x)
        if not is_operator(matrix):
            matrix = read_vector(matrix, self._like, "hess", (n,))
        elif tuple(matrix.shape) != (n, n):
            raise ValueError(f"hess: expected shape {(n, n)}, got {describe(matrix)}")
        self.matrix = ask.x, matrix
        return matrix


def _is_at(noted: tuple[Vector, Any], x: Vector) -> bool:
    """Return whether what was noted, a point and an answer there, is at x."""
    point, _ = noted
    return point is not None and (point is x or same(point, x))
