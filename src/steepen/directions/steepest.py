"""Steepest descent, for the drivers: p = −∇f; no memory, no evaluations."""

from __future__ import annotations

from dataclasses import dataclass

from .._core.arrays import Mask, Scalar
from .._core.state import Point
from .._evaluation.evaluator import Context
from ._direction import Direction, Memory, Proposal


@dataclass(frozen=True)
class GD(Direction):
    """Steepest descent, p = −∇f.

    Examples
    --------
    >>> import steepen as st
    >>> res = st.minimize(lambda x: x @ x, [3.0, 4.0], method=st.GD(), jac=lambda x: 2 * x, step=0.25)
    >>> res.success
    True
    """

    name = "gd"
    steepest = True

    def propose(
        self, context: Context, k: int, point: Point, lam: Scalar, on: Mask, memory: Memory
    ) -> Proposal:
        return Proposal(-point.g, 0.0)
