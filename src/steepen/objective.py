"""What `minimize` was asked to minimise, and the runs that this makes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from inspect import isgeneratorfunction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._tools.workers import Map
from .arrays import Array, precision, to_numpy
from .autodiff import AUTODIFF, differentiate
from .budget import Budget
from .callables import Functions, bound
from .differences.accuracy import AdaptiveGradient
from .differences.finite_differences import DifferenceGradient, DifferenceOptions
from .differences.given import Gradients
from .methods import Method
from .problem import Problem
from .questions import Vector
from .run import Run
from .space import Space, space_of
from .steps import Step
from .switches import Switch
from .tensors import OfTensors, hosted
from .tolerances import Tolerances
from .vectors import own

FLOAT64 = float(np.finfo(np.float64).eps)

SCHEMES = ("2-point", "3-point", "cs")
"""Gradients made of values of f, by SciPy's names."""


@dataclass(frozen=True)
class Settings:
    """How it is minimised: the parts of the method, which belong to the run, tolerances and budget."""

    method: Method
    step: Step
    switch: Switch
    tolerances: Tolerances
    budget: Budget


@dataclass(frozen=True)
class Objective:
    """The function with its derivatives, where the run begins, and where x may be."""

    fun: Any
    x: Array
    args: tuple[Any, ...] = ()
    bounds: Any = None
    jac: Any = None
    hvp: Any = None
    hess: Any = None
    differences: DifferenceOptions = field(default_factory=DifferenceOptions)
    workers: Map | None = None
    ahead: int = 0
    """How many values of the next difference workers evaluate beside f at a trial point."""
    rows: tuple[Any, ...] = ()
    """Arrays with data for each row of a batch."""
    scale: NDArray[np.float64] | None = None
    """The scales of the variables, if the problem is stated in x/scale."""
    like: Any = None
    """A tensor like those that the functions take, if the run itself is on the host."""
    passed: str = ""
    """The second derivative that was passed as an argument: "hvp" or "hess"."""

    def placed(self) -> Objective:
        """Return the same on the arrays of its run: the user's, or NumPy's in place of small tensors.

        The start is a copy, and lies in the box.
        """
        placed, x = self, self.x
        if hosted(x, self.jac):
            hvp, hess = self.hvp and OfTensors(self.hvp, x, 2), self.hess and OfTensors(self.hess, x)
            placed = replace(placed, like=x, x=to_numpy(x), hvp=hvp, hess=hess)
            if not self.library:
                jac = OfTensors(self.jac, x) if callable(self.jac) else self.jac
                placed = replace(placed, fun=OfTensors(self.fun, x), jac=jac)
        x = placed.x
        return replace(placed, x=own(x, placed.space.project(own(x, x))))

    @property
    def space(self) -> Space:
        """Where x may be."""
        return space_of(self.bounds, self.x)

    @property
    def scheme(self) -> str:
        """How a gradient is made of values; empty where it is not."""
        return self.jac if isinstance(self.jac, str) and self.jac in SCHEMES else ""

    @property
    def library(self) -> str:
        """The library that differentiates; empty if none does."""
        return self.jac if isinstance(self.jac, str) and self.jac in AUTODIFF else ""

    def functions(self) -> Functions:
        """Return the functions as a driver calls them."""
        fun = bound(self.fun, self.args, bool(self.rows))
        jac, hvp, hess = (
            bound(one, self.args, bool(self.rows)) if callable(one) else None
            for one in (self.jac, self.hvp, self.hess)
        )
        given = Functions(fun, jac, hvp, hess, both=fun if self.jac is True else None)
        if self.library:
            given = differentiate(self.library, given, self.x, self.like)
        return given._replace(sent=fun)

    def problem(self, settings: Settings) -> Problem:
        """Return what one run sees of it."""
        x = self.x if self.x.ndim == 1 else self.x[0]
        eps = float(precision(x.dtype).eps)
        made = self.library or "difference"
        products = "hvp" if self.hvp is not None else "hess" if self.hess is not None else made
        matrices = "hess" if self.hess is not None or (self.hvp is not None and self.library) else products
        return Problem(
            self.space,
            eps,
            self._gradients(settings, x, eps),
            products,
            matrices,
            differentiates=bool(self.library),
            passed=self.passed,
        )

    def _gradients(self, settings: Settings, x: Vector, eps: float) -> Gradients:
        """Return where ∇f comes from."""
        if not self.scheme:
            return Gradients(eps)
        searches = isgeneratorfunction(settings.step.along)
        adaptive = settings.method.by_values and searches and not self.differences.asked
        adaptive = adaptive and self.scheme == "2-point" and eps <= FLOAT64
        kind = AdaptiveGradient if adaptive else DifferenceGradient
        return kind(self.scheme, self.differences, self.space, x, settings.tolerances.g)

    def run(self, settings: Settings, row: int | None = None) -> Run:
        """Return the run from the start, or from a row of the batch."""
        method, step, x = settings.method, settings.step, self.x
        if row is not None:
            total, rows, x = settings.budget.total, len(self.x), self.x[row]
            method, step = method.prepare(total, row, rows), step.prepare(total, row, rows)
        return Run(self.problem(settings), method, step, settings.switch, settings.tolerances, x)
