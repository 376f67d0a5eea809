"""Newton's direction, for the drivers: a Hessian from the evaluator and a linear system in each iteration."""

from __future__ import annotations

from dataclasses import dataclass

from .._core.arrays import Mask, Scalar
from .._core.state import Point
from .._evaluation.counter import Cost
from .._evaluation.evaluator import Context, Evaluator
from ._direction import Direction, Memory, Proposal


@dataclass(frozen=True)
class Newton(Direction):
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

    def cost(self, evaluator: Evaluator) -> Cost:
        return evaluator.hessian.cost_matrix

    def source(self, evaluator: Evaluator) -> str | None:
        return evaluator.hessian.matrix_source

    def propose(
        self, context: Context, k: int, point: Point, lam: Scalar, on: Mask, memory: Memory
    ) -> Proposal:
        """Return the solution of H·p = −∇f, in the free variables if there are bounds."""
        space, x, g = context.space, point.x, point.g
        matrix = space.restrict(context.evaluator.hessian.matrix(x, g), x, g)
        return Proposal(-context.backend.solve(matrix, space.free(x, g, g)), 0.0)
