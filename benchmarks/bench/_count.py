"""Evaluations, counted the same way for every solver."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.problems import Problem

from steepen.functions._numerics import Array


class Spent(Exception):
    """Raised once the budget is spent, to stop a solver that would go on."""


class Counter:
    """Count evaluations of a problem: f and ∇f at one point are one, however they are requested.

    Only the last point is remembered: a value costs one evaluation, and the gradient at the same point
    nothing more. A complex point, which gives an exact H·v, counts like any other. Once the budget is spent,
    every request for something new raises `Spent`.

    Attributes
    ----------
    used : int
        How many evaluations were made.
    spent : bool
        Whether more were requested than the budget allows.
    improvements : list of (int, float)
        The number of each evaluation that found a new lowest f, and that f. Points that a solver only probed
        for their gradient count too.
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
        """Return ∇f, as an array that the caller may change."""
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
