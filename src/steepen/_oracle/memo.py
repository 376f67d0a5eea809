"""What is known at the last point of each row, so that nothing is evaluated twice."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.arrays import Array, Mask, MaybeArray, Rows
from .._core.kits import Kit
from .calls import Only


class Memo:
    """The last point of each row, and what was evaluated there."""

    def __init__(self, kit: Kit):
        self._kit = kit
        self.x: MaybeArray = None
        self.value: Any = None

    def put(self, x: Array, value: Any, only: Only) -> None:
        """Note what was evaluated at x, for the rows in `only`."""
        if self._kit.size is not None and only is not None and not only.all():
            unknown = x * float("nan")
            x = self._kit.where(only, x, unknown if self.x is None else self.x)
            value = value if self.value is None else self._kit.where(only, value, self.value)
        self.x, self.value = x, value

    def hits(self, x: Array) -> Mask:
        """Say where the noted point is x."""
        if self.x is None:
            return False if self._kit.size is None else np.zeros(len(x), dtype=bool)
        return self._kit.same(self.x, x)

    def keep(self, rows: Rows) -> None:
        """Go on with these rows of the batch."""
        if self.x is not None:
            self.x, self.value = self._kit.take(self.x, rows), self._kit.take(self.value, rows)
