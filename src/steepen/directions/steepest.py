"""Steepest descent."""

from __future__ import annotations

from dataclasses import dataclass

from .._core.arrays import Array, Mask, Scalar
from ._direction import Context, Direction, Memory


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

    def propose(
        self, context: Context, k: int, x: Array, g: Array, on: Mask, memory: Memory
    ) -> tuple[Array, Scalar]:
        """Give −∇f."""
        return -g, 0.0
