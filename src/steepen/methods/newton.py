"""Newton's method: a Hessian and a linear system in each iteration."""

from __future__ import annotations

from dataclasses import dataclass

from ..problem import Problem, solved
from ..questions import Asking, Point, Vector
from .method import Method


@dataclass
class Newton(Method):
    """Newton's direction, p = −H⁻¹∇f, with the Hessian from `hess`, autodiff or n products H·v.

    If H is singular, or p is not a descent direction, the guard uses −∇f.

    Examples
    --------
    >>> import steepen as st
    >>> f = st.functions["booth"]
    >>> st.minimize(f, [0.0, 0.0], method=st.Newton(), hess=f.hess, step=1.0).nit
    1
    """

    name = "newton"
    unit = True

    def source(self, problem: Problem) -> str | None:
        return problem.matrices

    def direction(self, problem: Problem, here: Point) -> Asking[Vector]:
        """Return the solution of H·p = −∇f, in the free variables if there are bounds."""
        space, x, g = problem.space, here.x, here.g
        matrix = space.restrict((yield from problem.matrix(x, g)), x, g)
        return -solved(matrix, space.free(x, g, g))
