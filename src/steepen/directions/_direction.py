"""What a direction is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from .._core.arrays import Array, Kit, Mask, Rows, Scalar
from .._core.box import Box
from .._oracle.oracle import Cost, Oracle
from ..switches import Never, Switch

Memory: TypeAlias = dict[str, Array]
"""What a direction carries from one iteration to the next: arrays, one row for each run."""


class Context:
    """What a direction or a step may use while it works: the oracle, the operations, the live rows."""

    def __init__(
        self,
        oracle: Oracle,
        kit: Kit,
        late: Callable[[], bool],
        affords: Callable[[Cost], Mask],
        box: Box | None,
    ):
        self.oracle = oracle
        self.kit = kit
        self.late = late  # whether the time budget is spent
        self.affords = affords  # where the budget still covers a cost
        self.box = box  # None: no bounds
        self.eps = oracle.eps  # of the run's numbers
        self.rows: Rows | None = None  # None: all of them

    def free(self, x: Array, g: Array, v: Array) -> Array:
        """Give v without the variables that bounds hold at x, where ∇f is g."""
        return v if self.box is None else self.box.free(x, g, v)

    def inside(self, x: Array) -> Array:
        """Return the nearest point that the bounds allow."""
        return x if self.box is None else self.box.project(x)

    def pick(self, value: Scalar) -> Scalar:
        """Give a parameter for the live rows, where it has one value a row."""
        if self.rows is None or getattr(value, "ndim", 0) == 0:
            return value
        return value[self.rows]


class Direction:
    """Base of all directions; a new method is one subclass with `propose`.

    The loop guards what is proposed: where ∇fᵀp < 0 does not hold, it takes −∇f instead.

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
    inverts = False
    """Whether the direction learns the inverse Hessian, and has `inverse`."""

    def prepare(self, total: int | None, rows: int | None) -> Direction:
        """Fit schedules to a run of `total` iterations and `rows` rows, and check them."""
        return self

    def switch(self, total: int | None) -> Switch:
        """Give the switch that belongs to the method where the user names none."""
        return Never()

    def cost(self, oracle: Oracle) -> Cost:
        """Say what one proposal costs beyond ∇f at the point."""
        return Cost()

    def source(self, oracle: Oracle) -> str | None:
        """Say where H·v comes from; None where the method needs none."""
        return None

    def start(self, x: Array, kit: Kit) -> Memory:
        """Give the memory of a new run."""
        return {}

    def learn(self, context: Context, x: Array, f: Scalar, g: Array, memory: Memory) -> None:
        """Take in f and ∇f at a new point; may change the memory, and is not asked without one."""

    def propose(
        self, context: Context, k: int, x: Array, g: Array, on: Mask, memory: Memory
    ) -> tuple[Array, Scalar]:
        """Give p_k, and the λ_k that went into it; rows where `on` is false are not used.

        With bounds, the loop takes out of p what would leave them.
        """
        raise NotImplementedError

    def amounts(self, alpha: Scalar, lam: Scalar, memory: Memory) -> tuple[Scalar, Scalar]:
        """Give the α_k and λ_k that the trace shows for the step α along the last proposal."""
        return alpha, lam

    def recover(self, context: Context, x: Array, stuck: Mask, memory: Memory) -> Mask:
        """Prepare another proposal where the search along the last found nothing; say for which rows."""
        return False

    def leave(self, context: Context, x: Array, g: Array, still: Mask, memory: Memory) -> Mask:
        """Prepare a proposal for starts where ∇f vanishes and f can still fall; say for which rows."""
        return False

    def inverse(self, kit: Kit, x: Array, g: Array, memory: Memory) -> Callable[[Array], Array]:
        """Return v ↦ G·v, G the inverse Hessian learnt up to x, where ∇f is g; `memory` may be used up."""
        raise NotImplementedError
