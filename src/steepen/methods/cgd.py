"""The paper's three algorithms: CGD, CGD-FD and CGD-QN, which differ in where H·v comes from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from .._tools.check import floats
from ..arrays import identity
from ..penalties import Penalty, SquaredL2
from ..problem import Problem
from ..questions import Asking, Point, Vector
from ..schedules import Auto, ByCurvature, ScheduleLike, as_schedule, of_row
from ..switches import After, FirstGuard, Never, Switch
from ..vectors import dot, ratio
from .matrix import updated
from .method import Method, Proposal

NAMES = {"exact": "cgd", "difference": "cgd-fd", "bfgs": "cgd-bfgs", "dfp": "cgd-dfp"}


@dataclass
class CGD(Method):
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
    guard : bool
        Whether −∇f replaces a direction that does not descend f, as in the listings.

    Examples
    --------
    >>> import steepen as st
    >>> f = st.functions["matyas"]
    >>> gd = st.minimize(f, [1.4, 6.9], method="gd", step=0.01, budget=st.Budget(grads=40))
    >>> cgd = st.minimize(f, [1.4, 6.9], method=st.CGD(10.0), step=0.01, budget=st.Budget(grads=40))
    >>> bool(cgd.fun < gd.fun)
    True
    """

    lam: ScheduleLike | None = None
    penalty: Penalty = field(default_factory=SquaredL2)
    curvature: Literal["exact", "difference", "bfgs", "dfp"] = "exact"
    r: float | ArrayLike | None = None
    guard: bool = True

    hessian: Vector = field(default=None, init=False, repr=False)
    """The quasi-Newton approximation of H."""

    penalised = True

    def __post_init__(self) -> None:
        if self.curvature not in NAMES:
            raise ValueError(f"curvature: expected one of {', '.join(NAMES)}; got {self.curvature!r}")
        if self.r is not None:
            if self.curvature != "difference":
                named = f'curvature="difference", which is method "cgd-fd"; got {self.curvature!r}'
                raise ValueError(f"r: applies only to {named}")
            if not (floats("r", self.r, "positive numbers") > 0).all():
                raise ValueError(f"r: expected positive numbers, got {self.r!r}")
        if isinstance(self.penalty, type) or not isinstance(self.penalty, Penalty):
            raise TypeError(f"penalty: expected a Penalty, got {self.penalty!r}")
        if not isinstance(self.guard, bool):
            raise TypeError(f"guard: expected True or False, got {self.guard!r}")

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The method's name."""
        return NAMES[self.curvature]

    def prepare(self, total: int | None = None, row: int | None = None, rows: int | None = None) -> Self:
        r: Any = self.r
        if r is not None and np.ndim(r) > 0:
            if rows is None or np.shape(r) != (rows,):
                expected = "a number" if rows is None else f"one value for each of the {rows} rows"
                raise ValueError(f"r: expected {expected}, got shape {np.shape(r)}")
            r = r if row is None else float(np.asarray(r)[row])
        lam = Auto() if self.lam is None else as_schedule(self.lam, "lam", rows).fit(total)
        return type(self)(of_row(lam, row), self.penalty, self.curvature, r, self.guard)

    def switch(self, total: int | None) -> Switch:
        """Return the switch of the CGD-FD listing for the difference, with b = T/4; none for the others."""
        if self.curvature != "difference":
            return Never()
        return FirstGuard() if total is None else After(total // 4) | FirstGuard()

    def source(self, problem: Problem) -> str | None:
        return problem.products if self.curvature == "exact" else self.curvature

    def begin(self, problem: Problem, here: Point) -> None:
        if self.curvature in ("bfgs", "dfp"):
            self.hessian = identity(here.x)

    def learn(self, problem: Problem, before: Point, here: Point) -> None:
        if self.hessian is not None:
            self.hessian = updated(
                self.hessian, here.x - before.x, here.g - before.g, self.curvature, inverse=False
            )

    def direction(self, problem: Problem, here: Point) -> Asking[Proposal]:
        space, penalty, x, g = problem.space, self.penalty, here.x, here.g
        lam: Any = self.lam  # a schedule, since `prepare`
        free = space.free(x, g, g)
        c, u = yield from self._product(problem, here, penalty.vector(free))
        u = space.free(x, g, u)
        value = float(lam(here.k))
        if isinstance(lam, ByCurvature):
            value = float(lam.at(value, c * dot(g, u), c * c * dot(u, u), penalty.scale))
        p = (-penalty.scale * value * c) * u
        p -= free
        return Proposal(p, value)

    def _product(self, problem: Problem, here: Point, v: Vector) -> Asking[tuple[float, Vector]]:
        """Return c and u with H·v = c·u, the natural form of a difference; v = ∇h(∇f)/scale."""
        if self.curvature == "exact":
            return 1.0, (yield from problem.product(here.x, v, here.g))
        if self.curvature == "difference":
            given: Any = self.r
            r = problem.difference_length(here.x, v) if given is None else float(given)
            return ratio(1.0, r), (yield from problem.change(here.x, v, here.g, r))
        return 1.0, self.hessian @ v
