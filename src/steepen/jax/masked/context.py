"""What directions and steps may use while they work: the function, the backend, the space, the budget."""

from __future__ import annotations

from typing import Any, TypeAlias

from ...arrays import Mask
from .backend import Backend
from .counter import Cost
from .space import Space

Evaluator: TypeAlias = Any
"""f, ∇f, H·v and H, counted: `Function` in `_loop`."""


class Context:
    """What a direction or a step may use while it works."""

    def __init__(self, evaluator: Evaluator, backend: Backend, space: Space):
        self.evaluator, self.backend, self.space = evaluator, backend, space
        self.counter = evaluator.counter
        self.eps: float = evaluator.eps  # of the run's numbers

    def affords(self, cost: Cost) -> Mask:
        """Return where the budget still covers a cost."""
        return self.counter.affords(cost)
