"""Problem and Settings, what is minimised and how: built by `_call`, read by both drivers, never changed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
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
    """The scales of the variables, if the problem is stated in x/scale."""


class Placed:
    """A problem on the arrays of its run: the user's, or NumPy's in place of small tensors."""

    def __init__(self, problem: Problem):
        self.like: Any = None
        """A tensor like those that the functions take, if the run itself is on the host."""
        x, jac, hvp, hess = problem.x, problem.jac, problem.hvp, problem.hess
        if hosted(x, jac):
            self.like = like = x
            hvp, hess = hvp and OfTensors(hvp, like, 2), hess and OfTensors(hess, like)
            problem = replace(problem, x=to_numpy(x), hvp=hvp, hess=hess)
            if jac != "torch":
                jac = OfTensors(jac, like) if callable(jac) else jac
                problem = replace(problem, fun=OfTensors(problem.fun, like), jac=jac)
        self.backend = backend_for(problem.x)
        x = self.backend.own(problem.x)
        self.space = space_of(problem.bounds, x, self.backend)
        self.problem = replace(problem, x=self.backend.own(self.space.project(x)))

    def evaluator(self, settings: Settings) -> Evaluator:
        """Return the function with its derivatives, its calls counted and limited."""
        problem, adaptive = self.problem, settings.direction.by_values and settings.step.searches
        return Evaluator(
            problem.fun, problem.x, self.backend, jac=problem.jac, hvp=problem.hvp, hess=problem.hess,
            args=problem.args, space=self.space, differences=problem.differences, adaptive=adaptive,
            gtol=settings.tolerances.g, like=self.like,
            counter=EvaluationCounter(self.backend, settings.budget),
        )  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """How it is minimised: the parts of the method, the tolerances and the budget."""

    direction: Direction
    step: Step
    switch: Switch
    tolerances: Tolerances
    budget: Budget
