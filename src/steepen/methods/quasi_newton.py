"""BFGS and DFP, on the inverse Hessian."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..arrays import identity, namespace
from ..problem import Problem
from ..questions import Point, Vector
from .matrix import updated
from .method import Method


@dataclass
class _QuasiNewton(Method):
    """p = −G·∇f, G the approximation of the inverse Hessian by the rule that names the method."""

    matrix: Vector = field(default=None, init=False, repr=False)
    _last: tuple[Vector, Vector] | None = field(default=None, init=False, repr=False)  # x and ∇f there

    unit = True
    inverts = True

    def begin(self, problem: Problem, here: Point) -> None:
        self.matrix, self._last = identity(here.x), (here.x, here.g)

    def learn(self, problem: Problem, before: Point, here: Point) -> None:
        self.matrix = updated(self.matrix, here.x - before.x, here.g - before.g, self.name, inverse=True)
        self._last = here.x, here.g

    def direction(self, problem: Problem, here: Point) -> Vector:
        matrix = self.matrix
        return -problem.space.solve(
            matrix.__matmul__, lambda: namespace(matrix).linalg.diagonal(matrix), here.x, here.g
        )

    def inverse(self, x: Vector, g: Vector) -> Callable[[Vector], Vector]:
        if self._last is None:
            return lambda v: v
        before, slope = self._last
        return updated(self.matrix, x - before, g - slope, self.name, inverse=True).__matmul__


@dataclass
class BFGS(_QuasiNewton):
    """BFGS on the inverse Hessian, with a fixed step or a line search.

    Examples
    --------
    >>> import steepen as st
    >>> st.minimize(st.functions["rosenbrock"].at(n=2), [-1.2, 1.0], method=st.BFGS()).success
    True
    """

    name = "bfgs"


@dataclass
class DFP(_QuasiNewton):
    """DFP on the inverse Hessian, with a fixed step or a line search.

    Examples
    --------
    >>> import steepen as st
    >>> st.minimize(st.functions["beale"], [1.0, 1.0], method=st.DFP()).success
    True
    """

    name = "dfp"
