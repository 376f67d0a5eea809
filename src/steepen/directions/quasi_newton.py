"""BFGS and DFP: the inverse form as directions, the Hessian form as a curvature for CGD.

Pairs with yᵀs ≤ 1e-10·‖y‖‖s‖ are skipped: the matrix keeps its last value and stays positive definite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from .._core import matrix as _matrix
from .._core.arrays import Array, Kit, Mask, Scalar
from .._core.box import without
from .._oracle.oracle import Cost, Oracle
from ._direction import Context, Direction, Memory


@dataclass(frozen=True)
class Approximation:
    """A matrix learnt from the pairs s = x₊ − x, y = ∇f₊ − ∇f; it starts at the identity."""

    rule: Literal["bfgs", "dfp"]
    inverse: bool

    def start(self, x: Array, kit: Kit) -> Memory:
        """Give the memory of a new run."""
        return {"matrix": _matrix.identity(x, kit)}

    def learn(self, context: Context, x: Array, f: Scalar, g: Array, memory: Memory) -> None:
        """Update the matrix by the last step."""
        self.update(context.kit, x, g, memory)

    def update(self, kit: Kit, x: Array, g: Array, memory: Memory) -> None:
        """Update the matrix by the step to x."""
        if "x" in memory:
            s, y = x - memory["x"], g - memory["g"]
            a, b = (s, y) if self.inverse else (y, s)
            memory["matrix"] = _matrix.update(
                memory["matrix"],
                a,
                b,
                kit,
                product_form=(self.rule == "bfgs") == self.inverse,
            )
        memory["x"], memory["g"] = x, g

    def cost(self, oracle: Oracle) -> Cost:
        """Say what a product costs: no evaluation at all."""
        return Cost()

    def product(
        self, context: Context, x: Array, v: Array, g: Array, on: Mask, memory: Memory
    ) -> tuple[Scalar, Array]:
        """Give 1 and the product of the matrix with v."""
        return 1.0, _matrix.apply(memory["matrix"], v, context.kit)


class _QuasiNewton(Direction):
    """p = −G·∇f, G the approximation of the inverse Hessian."""

    unit = True
    inverts = True
    _inverse: Approximation

    def start(self, x: Array, kit: Kit) -> Memory:
        """Give the memory of a new run."""
        return self._inverse.start(x, kit)

    def learn(self, context: Context, x: Array, f: Scalar, g: Array, memory: Memory) -> None:
        """Update G by the last step."""
        self._inverse.learn(context, x, f, g, memory)

    def propose(
        self, context: Context, k: int, x: Array, g: Array, on: Mask, memory: Memory
    ) -> tuple[Array, Scalar]:
        """Give −G·∇f."""
        kit, matrix = context.kit, memory["matrix"]
        if context.box is None:
            return -_matrix.apply(matrix, g, kit), 0.0
        held, diagonal = context.box.held(x, g), kit.xp.linalg.diagonal(matrix)
        free = context.free(x, g, g)
        return -without(lambda v: _matrix.apply(matrix, v, kit), free, held, diagonal, kit), 0.0

    def inverse(self, kit: Kit, x: Array, g: Array, memory: Memory) -> Callable[[Array], Array]:
        """Return v ↦ G·v, the last step included."""
        self._inverse.update(kit, x, g, memory)
        return lambda v: _matrix.apply(memory["matrix"], v, kit)


@dataclass(frozen=True)
class BFGS(_QuasiNewton):
    """BFGS on the inverse Hessian, with a fixed step or a line search.

    Examples
    --------
    >>> import steepen as st
    >>> st.minimize(st.functions["rosenbrock"].at(n=2), [-1.2, 1.0], method=st.BFGS()).success
    True
    """

    name = "bfgs"
    _inverse = Approximation("bfgs", inverse=True)


@dataclass(frozen=True)
class DFP(_QuasiNewton):
    """DFP on the inverse Hessian, with a fixed step or a line search.

    Examples
    --------
    >>> import steepen as st
    >>> st.minimize(st.functions["beale"], [1.0, 1.0], method=st.DFP()).success
    True
    """

    name = "dfp"
    _inverse = Approximation("dfp", inverse=True)
