"""A case of a race: a function, with its gradient where it has one, and a start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._problem import Problem

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Case:
    """A function to minimise from a start.

    Parameters
    ----------
    name : str
        Its name, unique in its set.
    value : callable
        f at one point.
    x0 : array
        The start.
    both : callable, optional
        f and ∇f at one point, as one evaluation.
    known : float
        The lowest value known; `inf` if nobody knows.
    bounds : array of shape (n, 2), optional
        The box.
    allowed : float, optional
        The highest f that is at the minimum; by default the race goes by f0 − f*.
    exact : callable, optional
        f as it is judged, where `value` has errors.
    seed : tuple of int
        What noise is drawn from.
    error : float
        The relative error of a value, for solvers that are to be told.
    """

    name: str
    value: Function
    x0: Any
    both: Function | None = None
    known: float = np.inf
    bounds: Any = None
    allowed: float | None = None
    exact: Function | None = None
    seed: tuple[int, ...] = (2009,)
    error: float = float(np.finfo(float).eps)

    @property
    def judged(self) -> Function:
        """F without errors."""
        return self.value if self.exact is None else self.exact


def case_of(problem: Problem) -> Case:
    """Return a problem of the suites as a case."""
    return Case(problem.name, problem, problem.x0.copy(), problem.value_and_grad, problem.fbest)
