"""The base class of directions."""

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
"""The state of a direction between iterations: a NamedTuple of arrays of fixed shape."""


class Proposal(NamedTuple):
    """A direction p, the λ it was computed with, and the updated memory.

    Where `trusted`, p is used without the test ∇fᵀp < 0, since ∇f vanishes there.
    """

    p: Array
    lam: Scalar
    memory: Memory = ()
    trusted: Mask = False


class Direction:
    """Base of all directions; a new method is one subclass with `propose`.

    The guard checks every proposal: unless ∇fᵀp < 0, the run uses −∇f instead.

    Directions are pure: they take a memory, return a new one, and do not branch on values, so the same code
    serves a single run, a batch and a JAX trace. A direction with `propose(self, context, k, x, g, on,
    memory)` that returns p and λ and may modify its memory, a dict, is supported as well.

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
    """Whether the direction uses a penalty, which a switch can turn off."""
    unit = False
    """Whether α = 1 is the natural step, as for Newton's method."""
    probes = False
    """Whether, if the first trial fails, an extra gradient sets the length of the first step."""
    inverts = False
    """Whether the direction approximates the inverse Hessian and implements `inverse`."""
    doubts = False
    """Whether ‖∇f‖ ≤ gtol is verified where x is so large that it may be meaningless."""
    steepest = False
    """Whether the direction is −∇f, the fallback of every run."""
    by_values = False
    """Whether finite differences may adapt to the noise and curvature of f."""

    def prepare(self, total: int | None, rows: int | None) -> Direction:
        """Fit schedules to a run of `total` iterations and `rows` rows, and check them."""
        return self

    def switch(self, total: int | None) -> Switch:
        """Return the method's default switch."""
        return Never()

    def cost(self, evaluator: Evaluator) -> Cost:
        """Return the cost of one proposal beyond ∇f at the point."""
        return Cost()

    def source(self, evaluator: Evaluator) -> str | None:
        """Return the source of H·v; None if the method needs none."""
        return None

    def coefficient(self, k: int) -> Scalar:
        """Return the value of λ's schedule at k; 0 if the method has none."""
        return 0.0

    def start(self, backend: Backend, x: Array) -> Memory:
        """Return the memory of a new run."""
        return ()

    def learn(self, context: Context, point: Point, memory: Memory) -> Memory:
        """Return the memory updated with f and ∇f at a new point; not called if there is no memory."""
        return memory

    def propose(
        self, context: Context, k: int, point: Point, lam: Scalar, on: Mask, memory: Memory
    ) -> Proposal:
        """Return p_k for this value of λ's schedule; rows where `on` is false are not used.

        With bounds, the loop removes the components of p that would leave the box.
        """
        raise NotImplementedError

    def amounts(self, alpha: Scalar, lam: Scalar, memory: Memory) -> tuple[Scalar, Scalar]:
        """Return the α_k and λ_k to record in the trace for the step α along the last proposal."""
        return alpha, lam

    def restart(self, context: Context, point: Point, stuck: Mask, memory: Memory) -> tuple[Memory, Mask]:
        """Prepare another proposal where the last line search failed; return for which rows."""
        return memory, False

    def begin(self, context: Context, point: Point, memory: Any) -> Any:
        """Return the initial memory of a compiled run, after the first gradient."""
        return memory

    def escape_saddle(
        self, context: Context, point: Point, still: Mask, memory: Memory
    ) -> tuple[Memory, Mask]:
        """Prepare a proposal for starts where ∇f vanishes but f can still decrease; return for which rows."""
        return memory, False

    @property
    def restarts(self) -> bool:
        """Whether the direction has another proposal after a failed line search."""
        return type(self).restart is not Direction.restart

    def rescale(self, context: Context, point: Point, rows: Mask, memory: Any) -> tuple[Any, Mask]:
        """Restart these rows in a metric scaled by |x|; return for which rows that is possible."""
        return memory, rows & False

    @property
    def escapes_saddles(self) -> bool:
        """Whether the direction can leave a start where ∇f vanishes."""
        return type(self).escape_saddle is not Direction.escape_saddle

    def inverse(self, backend: Backend, x: Array, g: Array, memory: Memory) -> Callable[[Array], Array]:
        """Return v ↦ G·v, G the approximate inverse Hessian at x, where ∇f is g; `memory` may be consumed."""
        raise NotImplementedError


class Mutable(Direction):
    """Adapter for a direction that takes x and g and modifies a dict in place."""

    def __init__(self, inner: Any):
        self.inner = inner
        self.name, self.penalised, self.unit = inner.name, inner.penalised, inner.unit
        self.inverts, self.inverse = inner.inverts, inner.inverse
        self.switch, self.cost, self.source = inner.switch, inner.cost, inner.source
        self.amounts = inner.amounts

    def _has(self, name: str) -> bool:
        """Return whether the direction overrides a method."""
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
    """Return the direction, wrapped in `Mutable` if it has the signature with x and g."""
    takes = inspect.signature(direction.propose).parameters
    return direction if "point" in takes else Mutable(direction)
