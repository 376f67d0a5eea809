"""What a direction is."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from .._core.arrays import Array, Mask, Scalar
from .._core.backends import Backend
from .._core.state import Point
from .._evaluation.counter import Cost
from .._evaluation.evaluator import Context, Evaluator
from ..switches import Never, Switch

Memory: TypeAlias = Any
"""What a direction carries from one iteration to the next: a NamedTuple of arrays of fixed shape."""


class Proposal(NamedTuple):
    """A direction p, the λ that went into it, and the memory from then on.

    Where `trusted`, p is taken although ∇f vanishes there and ∇fᵀp says nothing.
    """

    p: Array
    lam: Scalar
    memory: Memory = ()
    trusted: Mask = False


class Direction:
    """Base of all directions; a new method is one subclass with `propose`.

    The guard looks at what is proposed: where ∇fᵀp < 0 does not hold, the run takes −∇f instead.

    Directions are pure: they take a memory and return a new one, and branch on no value. Their lines then
    serve a single run, a batch and a program that JAX traces. One with `propose(self, context, k, x, g, on,
    memory)`, which returns p and λ and may change its memory, a dict, is understood as well.

    Examples
    --------
    >>> import numpy as np, steepen as st
    >>> class Signs(st.Direction):
    ...     def propose(self, context, k, x, g, on, memory):
    ...         return -np.sign(g), 0.0
    >>> st.minimize(lambda x: x @ x, [1.0, -2.0], method=Signs(), jac=lambda x: 2 * x, step=0.5).nit
    4
    """

    name = "custom"
    penalised = False
    """Whether the direction follows a penalty, which a switch can end."""
    unit = False
    """Whether α = 1 is the step that the direction was made for."""
    probes = False
    """Whether a probe shows the length of the first step, where the first trial fails."""
    inverts = False
    """Whether the direction learns the inverse Hessian, and has `inverse`."""
    doubts = False
    """Whether ‖∇f‖ ≤ gtol is looked at twice where x is so large that it may mean nothing."""
    steepest = False
    """Whether the direction is −∇f itself, which every run falls back to."""
    by_values = False
    """Whether the differences that a gradient is made of may follow what the values of f show."""

    def prepare(self, total: int | None, rows: int | None) -> Direction:
        """Fit schedules to a run of `total` iterations and `rows` rows, and check them."""
        return self

    def switch(self, total: int | None) -> Switch:
        """Return the switch that belongs to the method where the user names none."""
        return Never()

    def cost(self, evaluator: Evaluator) -> Cost:
        """Return what one proposal costs beyond ∇f at the point."""
        return Cost()

    def source(self, evaluator: Evaluator) -> str | None:
        """Return where H·v comes from; None where the method needs none."""
        return None

    def coefficient(self, k: int) -> Scalar:
        """Return the value of λ's schedule at k; 0 where the method has none."""
        return 0.0

    def start(self, backend: Backend, x: Array) -> Memory:
        """Return the memory of a new run."""
        return ()

    def learn(self, context: Context, point: Point, memory: Memory) -> Memory:
        """Return the memory with f and ∇f at a new point taken in; not asked of a direction without one."""
        return memory

    def propose(
        self, context: Context, k: int, point: Point, lam: Scalar, on: Mask, memory: Memory
    ) -> Proposal:
        """Return p_k, made with this value of λ's schedule; rows where `on` is false are not used.

        With bounds, the loop takes out of p what would leave them.
        """
        raise NotImplementedError

    def amounts(self, alpha: Scalar, lam: Scalar, memory: Memory) -> tuple[Scalar, Scalar]:
        """Return the α_k and λ_k that the trace shows for the step α along the last proposal."""
        return alpha, lam

    def restart(self, context: Context, point: Point, stuck: Mask, memory: Memory) -> tuple[Memory, Mask]:
        """Prepare another proposal where the search along the last found nothing; return for which rows."""
        return memory, False

    def begin(self, context: Context, point: Point, memory: Any) -> Any:
        """Return the memory of a compiled run at its start, with all that the first gradient gives it."""
        return memory

    def escape_saddle(
        self, context: Context, point: Point, still: Mask, memory: Memory
    ) -> tuple[Memory, Mask]:
        """Prepare a proposal for starts where ∇f vanishes and f can still fall; return for which rows."""
        return memory, False

    @property
    def restarts(self) -> bool:
        """Whether the direction has something else to propose where a search found nothing."""
        return type(self).restart is not Direction.restart

    def rescale(self, context: Context, point: Point, rows: Mask, memory: Any) -> tuple[Any, Mask]:
        """Begin these rows again in the metric of the sizes of x; return for which that can be."""
        return memory, rows & False

    @property
    def escapes_saddles(self) -> bool:
        """Whether the direction can leave a start where ∇f vanishes."""
        return type(self).escape_saddle is not Direction.escape_saddle

    def inverse(self, backend: Backend, x: Array, g: Array, memory: Memory) -> Callable[[Array], Array]:
        """Return v ↦ G·v, G the inverse Hessian learnt up to x, where ∇f is g; `memory` may be used up."""
        raise NotImplementedError


class Mutable(Direction):
    """A direction that takes x and g, and changes a dict in place, as the loop sees it."""

    def __init__(self, inner: Any):
        self.inner = inner
        self.name, self.penalised, self.unit = inner.name, inner.penalised, inner.unit
        self.inverts, self.inverse = inner.inverts, inner.inverse
        self.switch, self.cost, self.source = inner.switch, inner.cost, inner.source
        self.amounts = inner.amounts

    def _has(self, name: str) -> bool:
        """Return whether the direction has its own form of a method."""
        return getattr(self.inner.__class__, name) is not getattr(Direction, name)

    def prepare(self, total: int | None, rows: int | None) -> Direction:
        return Mutable(self.inner.prepare(total, rows))

    def start(self, backend: Backend, x: Array) -> Memory:
        return dict(self.inner.start(x, backend)) if self._has("start") else {}

    def learn(self, context: Context, point: Point, memory: Memory) -> Memory:
        if self._has("learn"):
            self.inner.learn(context, point.x, point.f, point.g, memory)
        return memory

    def propose(
        self, context: Context, k: int, point: Point, lam: Scalar, on: Mask, memory: Memory
    ) -> Proposal:
        p, lam = self.inner.propose(context, k, point.x, point.g, on, memory)
        return Proposal(p, lam, memory)

    def restart(self, context: Context, point: Point, stuck: Mask, memory: Memory) -> tuple[Memory, Mask]:
        again = self._has("restart") and self.inner.restart(context, point.x, stuck, memory)
        return memory, again

    def escape_saddle(
        self, context: Context, point: Point, still: Mask, memory: Memory
    ) -> tuple[Memory, Mask]:
        if not self._has("escape_saddle"):
            return memory, False
        return memory, self.inner.escape_saddle(context, point.x, point.g, still, memory)


def pure(direction: Direction) -> Direction:
    """Return the direction itself, or one of the form that takes x and g as the loop asks it."""
    takes = inspect.signature(direction.propose).parameters
    return direction if "point" in takes else Mutable(direction)
