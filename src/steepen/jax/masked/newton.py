"""Newton's direction: a Hessian from the evaluator and a linear system in each iteration."""

from __future__ import annotations

from dataclasses import dataclass

from ...arrays import Mask, Scalar
from .context import Context, Evaluator
from .counter import Cost
from .direction import Direction, Memory, Proposal
from .state import Point


@dataclass(frozen=True)
class Newton(Direction):
    """Newton's direction, p = −H⁻¹∇f, with the Hessian from `hess`, autodiff or n products H·v.

    If H is singular, or p is not a descent direction, the guard uses −∇f.
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
