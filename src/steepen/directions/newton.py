"""Newton's method."""

from __future__ import annotations

from dataclasses import dataclass

from .._core.arrays import Array, Mask, Scalar
from .._oracle.oracle import Cost, Oracle
from ._direction import Context, Direction, Memory


@dataclass(frozen=True)
class Newton(Direction):
    """Newton's direction, p = −H⁻¹∇f, with the Hessian from `hess`, autodiff or n products H·v.

    Where H is singular, or the direction climbs, the guard takes −∇f.

    Examples
    --------
    >>> import steepen as st
    >>> f = st.functions["booth"]
    >>> st.minimize(f, [0.0, 0.0], method=st.Newton(), hess=f.hess, step=1.0).nit
    1
    """

    name = "newton"
    unit = True

    def cost(self, oracle: Oracle) -> Cost:
        """Say what one Hessian costs."""
        return oracle.cost_hess

    def source(self, oracle: Oracle) -> str | None:
        """Say where H comes from."""
        return oracle.hess_source

    def propose(
        self, context: Context, k: int, x: Array, g: Array, on: Mask, memory: Memory
    ) -> tuple[Array, Scalar]:
        """Solve H·p = −∇f, in the free variables if there are bounds."""
        kit, matrix = context.kit, context.oracle.hess(x, g)
        if context.box is not None:
            free = context.free(x, g, x * 0 + 1)
            matrix = matrix * free[..., :, None] * free[..., None, :]
            matrix = matrix + (1 - free)[..., :, None] * kit.xp.eye(int(x.shape[-1]), dtype=x.dtype)
        return -kit.solve(matrix, context.free(x, g, g)), 0.0
