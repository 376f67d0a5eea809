"""Base class of directions; what they learn is in `memory` only."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from ...arrays import Array, Mask, Scalar
from .backend import Backend
from .context import Context, Evaluator
from .counter import Cost
from .state import Point

Memory: TypeAlias = Any
"""The state of a direction between iterations: a NamedTuple, or a dict, of arrays of fixed shape."""


class Proposal(NamedTuple):
    """A direction p, the λ it was computed with, and the updated memory.

    Where `trusted`, p is used without the test ∇fᵀp < 0, since ∇f vanishes there.
    """

    p: Array
    lam: Scalar
    memory: Memory = ()
    trusted: Mask = False


class Direction:
    """Base of all directions.

    The guard checks every proposal: unless ∇fᵀp < 0, the run uses −∇f instead.

    Directions are pure: they take a memory, return a new one, and do not branch on values.
    """

    name = "custom"
    penalised = False
    """Whether the direction uses a penalty, which a switch can turn off."""
    unit = False
    """Whether α = 1 is the natural step, as for Newton's method."""

    probes = False  # if the first trial fails, an extra gradient sets the length of the first step
    doubts = False  # ‖∇f‖ ≤ gtol is verified where x is so large that it may be meaningless
    steepest = False  # the direction is −∇f, the fallback of every run

    def prepare(self, total: int | None, rows: int | None) -> Direction:
        """Fit schedules to a run of `total` iterations and `rows` rows, and check them."""
        return self

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

    @property
    def escapes_saddles(self) -> bool:
        """Whether the direction can leave a start where ∇f vanishes."""
        return type(self).escape_saddle is not Direction.escape_saddle
