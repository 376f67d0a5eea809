"""Constrained gradient descent: the paper's three algorithms, which differ in where H·v comes from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from .._core.arrays import Array, Kit, Mask, Scalar
from .._oracle.oracle import Cost, Oracle
from .._tools.check import floats
from ..penalties import Penalty, SquaredL2
from ..schedules import Auto, ByCurvature, ScheduleLike, as_schedule
from ..switches import After, FirstGuard, Never, Switch
from ._direction import Context, Direction, Memory
from .quasi_newton import Approximation


class Curvature(Protocol):
    """A source of H·v, given as c and a fresh u with H·v = c·u: a difference comes as such a pair."""

    def start(self, x: Array, kit: Kit) -> Memory:
        """Give the memory of a new run."""
        ...

    def learn(self, context: Context, x: Array, f: Scalar, g: Array, memory: Memory) -> None:
        """Take in the gradient at a new point."""
        ...

    def cost(self, oracle: Oracle) -> Cost:
        """Say what one product costs."""
        ...

    def product(
        self, context: Context, x: Array, v: Array, g: Array, on: Mask, memory: Memory
    ) -> tuple[Scalar, Array]:
        """Give c and u."""
        ...


class _Memoryless:
    def start(self, x: Array, kit: Kit) -> Memory:
        """Give the memory of a new run: none."""
        return {}

    def learn(self, context: Context, x: Array, f: Scalar, g: Array, memory: Memory) -> None:
        """Take in the gradient at a new point."""


@dataclass(frozen=True)
class Exact(_Memoryless):
    """The product itself: CGD."""

    def cost(self, oracle: Oracle) -> Cost:
        """Say what one product costs."""
        return oracle.cost_hvp

    def product(
        self, context: Context, x: Array, v: Array, g: Array, on: Mask, memory: Memory
    ) -> tuple[Scalar, Array]:
        """Give 1 and H·v."""
        return 1.0, context.oracle.hvp(x, v, g, only=None if on is True else on)


@dataclass(frozen=True)
class Difference(_Memoryless):
    """A gradient difference along v, for one more gradient: CGD-FD."""

    r: float | ArrayLike | None

    def cost(self, oracle: Oracle) -> Cost:
        """Say what one product costs."""
        return oracle.cost_probe

    def product(
        self, context: Context, x: Array, v: Array, g: Array, on: Mask, memory: Memory
    ) -> tuple[Scalar, Array]:
        """Give 1/r and ∇f(x + r·v) − ∇f(x)."""
        oracle = context.oracle
        r = oracle.probe_length(x, v) if self.r is None else context.pick(self.r)
        return context.kit.ratio(1.0, r), oracle.change(x, v, g, r, only=None if on is True else on)


@dataclass(frozen=True)
class CGD(Direction):
    """Constrained gradient descent: p = −(∇f + λ·H·∇h(∇f)), the descent direction of f + λ·h(∇f).

    Parameters
    ----------
    lam : number, schedule, callable of k, or one value a row, optional
        The coefficient λ; negative values are allowed. By default `schedules.Auto()`.
    penalty : Penalty, optional
        h; by default the paper's ‖·‖².
    curvature : {"exact", "difference", "bfgs", "dfp"}
        Where H·v comes from: the product itself (CGD), a gradient difference (CGD-FD), or a quasi-Newton
        approximation of H (CGD-QN).
    r : number or one value a row, optional
        The difference probes ∇f at x + r·v, v = ∇f for the paper's penalty. By default r·v has √ε times the
        size of x.

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
    _source: Curvature = field(init=False, repr=False, compare=False)

    penalised = True

    def __post_init__(self) -> None:
        if self.curvature not in NAMES:
            raise ValueError(f"curvature: expected one of {', '.join(NAMES)}; got {self.curvature!r}")
        if self.r is not None:
            if self.curvature != "difference":
                raise ValueError(f'r: belongs to curvature="difference", not to {self.curvature!r}')
            if not (floats("r", self.r, "positive numbers") > 0).all():
                raise ValueError(f"r: expected positive numbers, got {self.r!r}")
        if isinstance(self.penalty, type) or not isinstance(self.penalty, Penalty):
            raise TypeError(f"penalty: expected a Penalty, got {self.penalty!r}")
        source: Curvature
        if self.curvature == "exact":
            source = Exact()
        elif self.curvature == "difference":
            source = Difference(self.r)
        else:
            source = Approximation(self.curvature, inverse=False)
        object.__setattr__(self, "_source", source)

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The method's name."""
        return NAMES[self.curvature]

    def prepare(self, total: int | None, rows: int | None) -> CGD:
        """Fit λ to the run, and check λ and r against the rows."""
        lam = Auto() if self.lam is None else as_schedule(self.lam, "lam", rows).fit(total)
        r = self.r
        if r is not None and np.ndim(r) > 0:
            if rows is None or np.shape(r) != (rows,):
                expected = "a number" if rows is None else f"one value for each of the {rows} rows"
                raise ValueError(f"r: expected {expected}, got shape {np.shape(r)}")
            r = np.asarray(r, dtype=np.float64)
        return replace(self, lam=lam, r=r)

    def switch(self, total: int | None) -> Switch:
        """Give the switch of the CGD-FD listing for the difference, with b = T/4; none for the others."""
        if self.curvature != "difference" or total is None:
            return FirstGuard() if self.curvature == "difference" else Never()
        return After(total // 4) | FirstGuard()

    def cost(self, oracle: Oracle) -> Cost:
        """Say what one product costs."""
        return self._source.cost(oracle)

    def source(self, oracle: Oracle) -> str | None:
        """Say where H·v comes from."""
        return oracle.hvp_source if self.curvature == "exact" else self.curvature

    def start(self, x: Array, kit: Kit) -> Memory:
        """Give the memory of a new run."""
        return self._source.start(x, kit)

    def learn(self, context: Context, x: Array, f: Scalar, g: Array, memory: Memory) -> None:
        """Take in the gradient at a new point."""
        self._source.learn(context, x, f, g, memory)

    def propose(
        self, context: Context, k: int, x: Array, g: Array, on: Mask, memory: Memory
    ) -> tuple[Array, Scalar]:
        """Give −(∇f + λ·H·∇h(∇f))."""
        kit, penalty = context.kit, self.penalty
        box = context.box
        free = g if box is None else box.free(x, g, g)
        c, u = self._source.product(context, x, penalty.vector(free), g, on, memory)
        if box is not None:
            u = box.free(x, g, u)
        schedule: Any = self.lam  # a Schedule, since `prepare`
        lam = context.pick(schedule(k))
        if isinstance(schedule, ByCurvature):
            along, square = c * kit.dot(g, u), c * c * kit.dot(u, u)
            lam = schedule.at(lam, along, square, penalty.scale)
        p = kit.scaled(-penalty.scale * lam * c, u)
        p -= free
        return p, lam


NAMES = {"exact": "cgd", "difference": "cgd-fd", "bfgs": "cgd-bfgs", "dfp": "cgd-dfp"}
