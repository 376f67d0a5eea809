"""What a solver of a race is given: a function whose evaluations are counted, limited and judged."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from benchmarks.problems import Case

from steepen.functions._numerics import Array


class Spent(BaseException):
    """Raised once the evaluations or the time are spent, to stop a solver that would go on.

    No solver catches it by mistake: it is no `Exception`.
    """


class Asked:
    """Count the evaluations of a case.

    With a gradient, f and ∇f at one point are one evaluation, however they are requested: only the last
    point is remembered, so the gradient at the point of a value costs nothing more. A complex point, which
    gives an exact H·v, counts like any other. Without a gradient every value counts, also at a point that
    was asked for before. Once the limit is reached, every request for something new raises `Spent`.

    Attributes
    ----------
    used : int
        How many evaluations were made.
    spent : str
        Why no more were allowed: "limit", "time", or "" while they are.
    outside : int
        How many of them were outside the box.
    improvements : list of (int, float)
        The number of each evaluation that found a new lowest value, and f there as it is judged. Points
        that a solver only probed for their gradient count too.
    """

    def __init__(
        self, case: Case, limit: int, *, tight: bool = True, seconds: float = np.inf, values: bool = False
    ) -> None:
        self.case, self.limit, self.tight = case, limit, tight
        self.has_gradient = case.both is not None and not values
        self.bounds = case.bounds
        self.used, self.spent, self.outside = 0, "", 0
        self.improvements: list[tuple[int, float]] = []
        self._end = time.monotonic() + seconds
        self._lowest = np.inf
        self._x: Array | None = None
        self._f: Any = None
        self._g: Any = None

    def value(self, x: Array) -> Any:
        """Return f."""
        self._visit(x)
        return self._f

    def grad(self, x: Array) -> Array:
        """Return ∇f, as an array that the caller may change."""
        self._visit(x)
        return self._g.copy()

    def both(self, x: Array) -> tuple[Any, Array]:
        """Return f and ∇f."""
        self._visit(x)
        return self._f, self._g.copy()

    def _visit(self, x: Array) -> None:
        if self.has_gradient and self._x is not None and np.array_equal(self._x, x):
            return
        if self.used >= self.limit or time.monotonic() > self._end:
            self.spent = self.spent or ("limit" if self.used >= self.limit else "time")
            raise Spent
        point = np.array(x)  # a solver may write over its own
        self.used += 1
        if self.bounds is not None and point.dtype.kind == "f":
            low, high = np.asarray(self.bounds).T
            self.outside += bool((point < low).any() or (point > high).any())
        if self.has_gradient:
            value, self._g = self.case.both(point)
            self._x = point
        else:
            value = self.case.value(point)
        if np.asarray(value).dtype.kind == "c":
            self._f = complex(value)
            return
        self._f = float(value)
        if self._f < self._lowest:  # never true of NaN
            self._lowest = self._f
            judged = self._f if self.case.exact is None else float(self.case.exact(point))
            self.improvements.append((self.used, judged))
