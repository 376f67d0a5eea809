"""The two halves of a run: what is minimised, and how. Arguments become these once; drivers take them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.arrays import Array, to_numpy
from .._core.backends import backend_for
from .._core.convergence import Tolerances
from .._core.space import space_of
from .._evaluation.counter import EvaluationCounter
from .._evaluation.evaluator import Evaluator
from .._evaluation.finite_differences import Differences
from .._evaluation.tensors import OfTensors, hosted
from ..budget import Budget
from ..directions import Direction
from ..steps import Step
from ..switches import Switch


@dataclass(frozen=True)
class Problem:
    """What is minimised: the function with its derivatives, where the run begins, and where x may be."""

    fun: Any
    x: Array
    args: tuple[Any, ...] = ()
    bounds: Any = None
    jac: Any = None
    hvp: Any = None
    hess: Any = None
    differences: Differences = field(default_factory=Differences)
    scale: NDArray[np.float64] | None = None
    """The sizes of the variables, where all of this is said in x/scale."""


class Placed:
    """A problem on the arrays that its run is made with: the user's, or NumPy's in place of small tensors."""

    def __init__(self, problem: Problem):
        self.problem, x = problem, problem.x
        self.fun, self.jac, self.hvp, self.hess = problem.fun, problem.jac, problem.hvp, problem.hess
        self.like: Any = None
        """A tensor such as the functions take, where x lies on the host all the same."""
        if hosted(x, self.jac):
            self.like = like = x
            x = to_numpy(x)
            self.hvp = self.hvp and OfTensors(self.hvp, like, 2)
            self.hess = self.hess and OfTensors(self.hess, like)
            if self.jac != "torch":
                self.fun = OfTensors(self.fun, like)
                self.jac = OfTensors(self.jac, like) if callable(self.jac) else self.jac
        self.backend = backend_for(x)
        x = self.backend.own(x)
        self.space = space_of(problem.bounds, x, self.backend)
        self.x = self.backend.own(self.space.project(x))

    def evaluator(self, settings: Settings) -> Evaluator:
        """Return the function as a method sees it, its calls counted and limited."""
        return Evaluator(
            self.fun, self.x, self.backend, jac=self.jac, hvp=self.hvp, hess=self.hess,
            args=self.problem.args, space=self.space, differences=self.problem.differences,
            adaptive=settings.direction.by_values and settings.step.searches, gtol=settings.tolerances.g,
            like=self.like, counter=EvaluationCounter(self.backend, settings.budget),
        )  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """How a run goes: what it is made of, when it has converged, and what it may spend."""

    direction: Direction
    step: Step
    switch: Switch
    tolerances: Tolerances
    budget: Budget
    follows: bool = False
    """Whether the switch is the method's own, which may follow from the budget."""
