"""Evaluations, counted the same way for every solver."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..functions._numerics import Array
from ..problems import Problem


class Spent(Exception):
    """The budget is spent: the way out of a solver that would go on."""


class Counter:
    """A problem behind a counter: f and ∇f at one point are one evaluation, however they are asked for.

    Only the last point is remembered. A value alone counts one, and the gradient at that very point nothing
    more. A complex point, where an exact H·v comes from, counts like any other. Once the budget is spent
    nothing new is evaluated: every further request raises `Spent`.

    Attributes
    ----------
    used : int
        How many evaluations were made.
    spent : bool
        Whether more were asked for than the budget has.
    improvements : list of (int, float)
        The number of each evaluation that found a new least f, and that f. Points count that a solver only
        probed for their gradient.

    Examples
    --------
    >>> import steepen as st
    >>> counter = Counter(st.problems["rosenbrock"], budget=2)
    >>> x = np.array([-1.2, 1.0])
    >>> round(counter.value(x), 6), counter.grad(x).round(6).tolist(), counter.used
    (24.2, [-215.6, -88.0], 1)
    >>> counter.value(np.ones(2)), counter.used, counter.improvements[1:]
    (0.0, 2, [(2, 0.0)])
    >>> counter.value(x)
    Traceback (most recent call last):
    steepen.bench._count.Spent
    """

    def __init__(self, problem: Problem, budget: int) -> None:
        self.budget = budget
        self.used = 0
        self.spent = False
        self.improvements: list[tuple[int, float]] = []
        self._evaluate = problem.value_and_grad
        self._lowest = np.inf
        self._x: Array | None = None
        self._f: Any = None
        self._g: Any = None

    def value(self, x: Array) -> Any:
        """Return f."""
        self._visit(x)
        return self._f

    def grad(self, x: Array) -> Array:
        """Return ∇f, an array of the caller's own."""
        self._visit(x)
        return self._g.copy()

    def _visit(self, x: Array) -> None:
        if self._x is not None and np.array_equal(self._x, x):
            return
        if self.used >= self.budget:
            self.spent = True
            raise Spent
        point = np.array(x)  # a solver may write over its own
        value, self._g = self._evaluate(point)
        self._x = point
        self.used += 1
        if point.dtype.kind == "c":
            self._f = complex(value)
            return
        self._f = float(value)
        if self._f < self._lowest:  # never true of NaN
            self._lowest = self._f
            self.improvements.append((self.used, self._f))
