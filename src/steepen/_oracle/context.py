"""What a direction or a step may use while it works."""

from __future__ import annotations

from typing import Any

from .._core.arrays import Mask, Rows, Scalar
from .._core.kits import Kit
from .._core.space import Space
from .ledger import Cost, Ledger
from .oracle import Oracle


class Context:
    """The oracle and its ledger, the kit, the space, and the rows that are still running."""

    def __init__(self, oracle: Oracle, kit: Kit, space: Space):
        self.oracle, self.kit, self.space = oracle, kit, space
        self.ledger: Ledger = oracle.ledger
        self.eps = oracle.eps  # of the run's numbers
        self.rows: Rows | None = None  # None: all of them

    def late(self) -> bool:
        """Return whether the time is spent."""
        return self.ledger.late()

    def affords(self, cost: Cost) -> Mask:
        """Return where the budget still covers a cost."""
        return self.ledger.affords(cost)

    def live(self, value: Any) -> Scalar:
        """Return a parameter for the live rows, where it has one value a row."""
        if self.rows is None or getattr(value, "ndim", 0) == 0:
            return value
        return value[self.rows]
