"""Constrained gradient descent: the paper's three algorithms, which differ in the source of H·v."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from .._core.arrays import Array, Mask, Scalar
from .._core.backends import Backend
from .._core.state import Point
from .._evaluation.counter import Cost
from .._evaluation.evaluator import Context, Evaluator
from .._tools.check import floats
from ..penalties import Penalty, SquaredL2
from ..schedules import Auto, ByCurvature, ScheduleLike, as_schedule
from ..switches import After, FirstGuard, Never, Switch
from ._direction import Direction, Memory, Proposal
from .quasi_newton import Approximation


class Curvature(Protocol):
    """A source of H·v, as c and a new array u with H·v = c·u, the natural form of a difference."""

    def start(self, backend: Backend, x: Array) -> Memory:
        """Return the memory of a new run."""
        ...

    def learn(self, backend: Backend, x: Array, g: Array, memory: Memory) -> Memory:
        """Return the memory with the gradient at a new point taken in."""
        ...

    def cost(self, evaluator: Evaluator) -> Cost:
        """Return what one product costs."""
        ...

    def product(
        self, context: Context, point: Point, v: Array, on: Mask, memory: Memory
    ) -> tuple[Scalar, Array]:
        """Return c and u."""
        ...


class _Memoryless:
    def start(self, backend: Backend, x: Array) -> Memory:
        """Return the memory of a new run: none."""
        return ()

    def learn(self, backend: Backend, x: Array, g: Array, memory: Memory) -> Memory:
        """Return the memory: none."""
        return memory


@dataclass(frozen=True)
class Exact(_Memoryless):
    """The product itself: CGD."""

    def cost(self, evaluator: Evaluator) -> Cost:
        """Return what one product costs."""
        return evaluator.hessian.cost_product

    def product(
        self, context: Context, point: Point, v: Array, on: Mask, memory: Memory
    ) -> tuple[Scalar, Array]:
        """Return 1 and H·v."""
        return 1.0, context.evaluator.hessian.product(point.x, v, point.g, on)


@dataclass(frozen=True)
class Difference(_Memoryless):
    """A gradient difference along v, for one more gradient: CGD-FD."""

    r: float | ArrayLike | None

    def cost(self, evaluator: Evaluator) -> Cost:
        """Return what one product costs."""
        return evaluator.cost_difference

    def product(
        self, context: Context, point: Point, v: Array, on: Mask, memory: Memory
    ) -> tuple[Scalar, Array]:
        """Return 1/r and ∇f(x + r·v) − ∇f(x)."""
        evaluator, x = context.evaluator, point.x
        r = evaluator.difference_length(x, v) if self.r is None else context.live(self.r)
        return context.backend.ratio(1.0, r), evaluator.change(x, v, point.g, r, on)


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
    _at: Callable[..., Scalar] | None = field(init=False, repr=False, compare=False)  # λ by curvature

    penalised = True

    def __post_init__(self) -> None:
        if self.curvature not in NAMES:
            raise ValueError(f"curvature: expected one of {', '.join(NAMES)}; got {self.curvature!r}")
        if self.r is not None:
            if self.curvature != "difference":
                raise ValueError(f'r: applies only to curvature="difference", not to {self.curvature!r}')
            if not (floats("r", self.r, "positive numbers") > 0).all():
                raise ValueError(f"r: expected positive numbers, got {self.r!r}")
        if isinstance(self.penalty, type) or not isinstance(self.penalty, Penalty):
            raise TypeError(f"penalty: expected a Penalty, got {self.penalty!r}")
        self.wire()

    def wire(self) -> None:
        """Build the parts specified by `lam`, `curvature` and `r`."""
        source: Curvature
        if self.curvature == "exact":
            source = Exact()
        elif self.curvature == "difference":
            source = Difference(self.r)
        else:
            source = Approximation(self.curvature, inverse=False)
        object.__setattr__(self, "_source", source)
        object.__setattr__(self, "_at", self.lam.at if isinstance(self.lam, ByCurvature) else None)

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
        """Return the switch of the CGD-FD listing for the difference, with b = T/4; none for the others."""
        if self.curvature != "difference" or total is None:
            return FirstGuard() if self.curvature == "difference" else Never()
        return After(total // 4) | FirstGuard()

    def cost(self, evaluator: Evaluator) -> Cost:
        """Return what one product costs."""
        return self._source.cost(evaluator)

    def source(self, evaluator: Evaluator) -> str | None:
        """Return the source of H·v."""
        return evaluator.hessian.source if self.curvature == "exact" else self.curvature

    def coefficient(self, k: int) -> Scalar:
        """Return the value of λ's schedule at k."""
        lam: Any = self.lam  # a schedule, since `prepare`
        return lam(k)

    def start(self, backend: Backend, x: Array) -> Memory:
        """Return the memory of a new run."""
        return self._source.start(backend, x)

    def learn(self, context: Context, point: Point, memory: Memory) -> Memory:
        """Return the memory with the gradient at a new point taken in."""
        return self._source.learn(context.backend, point.x, point.g, memory)

    def propose(
        self, context: Context, k: int, point: Point, lam: Scalar, on: Mask, memory: Memory
    ) -> Proposal:
        """Return −(∇f + λ·H·∇h(∇f))."""
        backend, space, penalty, x, g = context.backend, context.space, self.penalty, point.x, point.g
        free = space.free(x, g, g) if space.bounded else g
        if backend.all(on):
            c, u = self._source.product(context, point, penalty.vector(free), on, memory)
        else:  # where none needs it, what stands for it is not used
            c, u = backend.when(on, partial(self._curved, context, point, free, on, memory), (1.0, g))
        u = space.free(x, g, u) if space.bounded else u
        if self._at is not None:
            lam = self._at(lam, c * backend.dot(g, u), c * c * backend.dot(u, u), penalty.scale)
        p = backend.scaled(-penalty.scale * lam * c, u)
        p -= free
        return Proposal(p, lam, memory)

    def _curved(
        self, context: Context, point: Point, free: Array, on: Mask, memory: Memory, none: Any
    ) -> tuple[Scalar, Array]:
        return self._source.product(context, point, self.penalty.vector(free), on, memory)


NAMES = {"exact": "cgd", "difference": "cgd-fd", "bfgs": "cgd-bfgs", "dfp": "cgd-dfp"}
