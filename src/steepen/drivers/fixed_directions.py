"""The directions of a batch with fixed steps: the formulas of `methods/`, for all rows at once.

What a method learns is in the fields of the rows. Every number is the same to the bit as in the run made
alone; so are the questions, with batches in place of vectors.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from ..arrays import identity
from ..methods import CGD, Method
from ..methods.matrix import row_dots, row_norms, row_products, row_times, updated_rows
from ..problem import Problem
from ..questions import Asking, Gradient, Hessian, Product
from ..schedules import ByCurvature
from .fixed_rows import Rows, all_or, one_or


class Directions:
    """A method, for many rows; `combined` says whether ∇f comes with f."""

    def __init__(self, method: Method, problem: Problem, combined: bool):
        self._method, self._problem, self._combined = method, problem, combined
        self._space: Any = problem.space
        self._curvature = method.curvature if isinstance(method, CGD) else ""
        self.source = problem.products if self._curvature == "exact" else self._curvature
        """Where H·v comes from: "hvp", "hess", "difference", "bfgs" or "dfp"; empty if there is none."""

    def learn(self, rows: Rows) -> None:
        """Update the quasi-Newton matrices of the rows that follow the method."""
        inverse = not self._curvature
        rule = self._method.name if inverse else self._curvature
        if rule not in ("bfgs", "dfp"):
            return
        here, before, which = rows.here, rows.before, all_or(rows.follows)
        if before is None:
            rows.matrix = np.tile(identity(here.x), (len(rows), 1, 1))
            return
        s, y = here.x[which] - before.x[which], here.g[which] - before.g[which]
        new = updated_rows(rows.matrix[which], s, y, rule, inverse=inverse)
        if isinstance(which, slice):
            rows.matrix = new
        else:
            rows.matrix[which] = new

    def propose(self, rows: Rows, which: Any, free: Any) -> Asking[tuple[Any, Any]]:
        """Return p and λ of the rows that follow the method."""
        if not self._curvature:
            return -self._solved(rows), 0.0
        method, space = cast(CGD, self._method), self._space
        x, g = rows.here.x[which], rows.here.g[which]
        c, u = yield from self._product(rows, which, x, g, method.penalty.vector(free))
        u = space.free(x, g, u)
        lam: Any = method.lam
        value = rows.own(lam(rows.here.k), which)
        if isinstance(lam, ByCurvature):
            value = lam.at(value, c * row_dots(g, u), c * c * row_dots(u, u), method.penalty.scale)
        p = row_times(-method.penalty.scale * value * c, u)
        p -= free
        return p, value

    def _solved(self, rows: Rows) -> Any:
        """Return G·∇f; rows with variables at their bounds one by one."""
        x, g, G = rows.here.x, rows.here.g, rows.matrix
        found = row_products(G, g)
        if self._space.bounded:
            found = row_products(G, self._space.free(x, g, g))
            held = self._space.held(x, g).any(axis=-1)
            for i in np.flatnonzero(held).tolist():
                found[i] = self._space.solve(G[i].__matmul__, G[i].diagonal, x[i], g[i])
        return found

    # --- products H·v ----------------------------------------------------------------------------------

    def _product(self, rows: Rows, which: Any, x: Any, g: Any, v: Any) -> Asking[tuple[Any, Any]]:
        """Return c and u with H·v = c·u."""
        if self.source in ("bfgs", "dfp"):
            return 1.0, row_products(rows.matrix[which], v)
        if self.source == "hvp":
            return 1.0, (yield Product(x, v))
        if self.source == "hess":
            matrices = yield from self._hessians(rows)
            return 1.0, (matrices[which] * v[:, None, :]).sum(axis=-1)
        points, sign, r = self._difference(rows, which, x, v)
        u = (yield from self._second_gradients(points, x, g)) - g
        u = u if sign is None else row_times(sign, u)
        return (1.0, row_times(1.0 / r, u)) if self._curvature == "exact" else (1.0 / r, u)

    def _difference(self, rows: Rows, which: Any, x: Any, v: Any) -> tuple[Any, Any, Any]:
        """Return where ∇f is evaluated a second time, the sign of the difference (None: +), and r."""
        given, space = cast(Any, self._method).r, self._space
        if given is None:
            size = row_norms(v)
            size[size == 0] = 1.0
            r = math.sqrt(self._problem.gradients.gradient_eps) * np.maximum(row_norms(x), 1.0) / size
        else:
            r = rows.own(given, which)
        points = row_times(r, v)
        points += x
        if not space.bounded:
            return points, None, r
        sign = np.where((space.project(points) == points).all(axis=-1), 1.0, -1.0)
        return space.project(x + row_times(sign * r, v)), sign, r

    def _second_gradients(self, points: Any, x: Any, g: Any) -> Asking[Any]:
        """Return ∇f at the points of a difference. Where f comes with it, it is at hand if the point is x."""
        if not self._combined:
            return (yield Gradient(points))
        found, new = g.copy(), np.flatnonzero((points != x).any(axis=-1))
        if len(new):
            found[new] = yield Gradient(points[new])
        return found

    def asks(self, rows: Rows) -> Any:
        """Return which rows will ask for a second gradient: those where it is not at hand."""
        if not self._combined:
            return one_or(rows.follows)
        x, g = rows.here.x, rows.here.g
        v = cast(CGD, self._method).penalty.vector(self._space.free(x, g, g))
        points, _, _ = self._difference(rows, slice(None), x, v)
        return rows.follows & (points != x).any(axis=-1)

    def _hessians(self, rows: Rows) -> Asking[Any]:
        """Return H of all rows, NaN where it was never needed."""
        x, new = rows.here.x, np.flatnonzero(self.needs_hessian(rows))
        none = np.full((*x.shape, x.shape[1]), math.nan, x.dtype)
        matrices = none if rows.hessian is None else rows.hessian[1]
        if len(new):
            matrices[new] = yield Hessian(x[new])
        rows.hessian = x, matrices
        return matrices

    @staticmethod
    def needs_hessian(rows: Rows) -> Any:
        """Return which rows will ask for H: those that follow the method, at another x than before."""
        if rows.hessian is None:
            return rows.follows
        return rows.follows & (rows.hessian[0] != rows.here.x).any(axis=-1)
