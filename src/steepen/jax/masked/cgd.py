"""The paper's three CGD algorithms: H·v from the evaluator, or from a BFGS or DFP matrix."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ...arrays import Array, Mask, Scalar
from ...penalties import Penalty, SquaredL2
from ...schedules import Auto, ByCurvature, ScheduleLike, as_schedule
from .backend import Backend
from .context import Context, Evaluator
from .counter import Cost
from .direction import Direction, Memory, Proposal
from .quasi_newton import empty, updated
from .state import Point


@dataclass(frozen=True)
class CGD(Direction):
    """Constrained gradient descent: p = −(∇f + λ·H·∇h(∇f)), the descent direction of f + λ·h(∇f).

    Parameters
    ----------
    lam : number, schedule, callable of k, or one value per row, optional
        The coefficient λ; negative values are allowed. By default `schedules.Auto()`.
    penalty : Penalty, optional
        h; by default the paper's ‖·‖².
    curvature : {"exact", "difference", "bfgs", "dfp"}
        The source of H·v: the exact product (CGD), a gradient difference (CGD-FD), or a quasi-Newton
        approximation of H (CGD-QN).
    r : number or one value per row, optional
        The difference evaluates ∇f at x + r·v, with v = ∇f for the paper's penalty. By default ‖r·v‖ is √ε
        relative to x.
    """

    lam: ScheduleLike | None = None
    penalty: Penalty = field(default_factory=SquaredL2)
    curvature: Literal["exact", "difference", "bfgs", "dfp"] = "exact"
    r: float | ArrayLike | None = None

    penalised = True

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The method's name."""
        return NAMES[self.curvature]

    def prepare(self, total: int | None, rows: int | None) -> CGD:
        lam = Auto() if self.lam is None else as_schedule(self.lam, "lam", rows).fit(total)
        r = self.r
        if r is not None and np.ndim(r) > 0:
            if rows is None or np.shape(r) != (rows,):
                expected = "a number" if rows is None else f"one value for each of the {rows} rows"
                raise ValueError(f"r: expected {expected}, got shape {np.shape(r)}")
            r = np.asarray(r, dtype=np.float64)
        return replace(self, lam=lam, r=r)

    def cost(self, evaluator: Evaluator) -> Cost:
        if self.curvature == "exact":
            return evaluator.hessian.cost_product
        return evaluator.cost_difference if self.curvature == "difference" else Cost()

    def source(self, evaluator: Evaluator) -> str | None:
        return evaluator.hessian.source if self.curvature == "exact" else self.curvature

    def coefficient(self, k: int) -> Scalar:
        lam: Any = self.lam  # a schedule, since `prepare`
        return lam(k)

    def start(self, backend: Backend, x: Array) -> Memory:
        return empty(backend, x) if self.curvature in ("bfgs", "dfp") else ()

    def learn(self, context: Context, point: Point, memory: Memory) -> Memory:
        return updated(context.backend, point.x, point.g, memory, self.curvature, inverse=False)

    def propose(
        self, context: Context, k: int, point: Point, lam: Scalar, on: Mask, memory: Memory
    ) -> Proposal:
        backend, space, penalty, x, g = context.backend, context.space, self.penalty, point.x, point.g
        free = space.free(x, g, g) if space.bounded else g
        if backend.all(on):
            c, u = self._product(context, point, free, on, memory)
        else:  # where no row needs it, its placeholder is not used; u is written over below
            none = (1.0, g)
            c, u = backend.when(on, lambda _: self._product(context, point, free, on, memory), none)
        u = space.free(x, g, u) if space.bounded else u
        if isinstance(self.lam, ByCurvature):
            lam = self.lam.at(lam, c * backend.dot(g, u), c * c * backend.dot(u, u), penalty.scale)
        p = backend.times(-penalty.scale * lam * c, u)
        p -= free
        return Proposal(p, lam, memory)

    def _product(
        self, context: Context, point: Point, g: Array, on: Mask, memory: Memory
    ) -> tuple[Scalar, Array]:
        """Return c and a new array u with H·v = c·u, the natural form of a difference; v = ∇h(g)/scale."""
        evaluator, x, v = context.evaluator, point.x, self.penalty.vector(g)
        if self.curvature == "exact":
            return 1.0, evaluator.hessian.product(x, v, point.g, on)
        if self.curvature == "difference":
            r = evaluator.difference_length(x, v) if self.r is None else self.r
            return context.backend.ratio(1.0, r), evaluator.change(x, v, point.g, r, on)
        return 1.0, context.backend.product(memory.matrix, v)


NAMES = {"exact": "cgd", "difference": "cgd-fd", "bfgs": "cgd-bfgs", "dfp": "cgd-dfp"}
