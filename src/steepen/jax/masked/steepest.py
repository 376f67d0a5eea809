"""Steepest descent: p = −∇f; no memory, no evaluations."""

from __future__ import annotations

from dataclasses import dataclass

from ...arrays import Mask, Scalar
from .context import Context
from .direction import Direction, Memory, Proposal
from .state import Point


@dataclass(frozen=True)
class GD(Direction):
    """Steepest descent, p = −∇f."""

    name = "gd"
    steepest = True

    def propose(
        self, context: Context, k: int, point: Point, lam: Scalar, on: Mask, memory: Memory
    ) -> Proposal:
        return Proposal(-point.g, 0.0)
