"""BFGS and DFP: the inverse form as directions, the Hessian form as a curvature for CGD.

Pairs with yᵀs ≤ 1e-10·‖y‖‖s‖ are skipped: the matrix keeps its last value and stays positive definite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

from .._core import matrix
from .._core.arrays import Array, Mask, Scalar
from .._core.backends import Backend
from .._core.state import Point
from .._evaluation.counter import Cost
from .._evaluation.evaluator import Context, Evaluator
from ._direction import Direction, Proposal


class Learnt(NamedTuple):
    """The matrix, and the last point it was updated with."""

    matrix: Array
    x: Array
    g: Array


@dataclass(frozen=True)
class Approximation:
    """A matrix updated by the pairs s = x₊ − x, y = ∇f₊ − ∇f; it starts at the identity."""

    rule: Literal["bfgs", "dfp"]
    inverse: bool

    def start(self, backend: Backend, x: Array) -> Learnt:
        """Return the memory of a new run; a first step from x to x is no pair."""
        return Learnt(backend.identity(x), x, x)

    def learn(self, backend: Backend, x: Array, g: Array, memory: Learnt) -> Learnt:
        """Return the memory updated by the step to x."""
        s, y = x - memory.x, g - memory.g
        a, b = (s, y) if self.inverse else (y, s)
        product_form = (self.rule == "bfgs") == self.inverse
        return Learnt(matrix.update(memory.matrix, a, b, backend, product_form=product_form), x, g)

    def cost(self, evaluator: Evaluator) -> Cost:
        """Return the cost of a product: no evaluations."""
        return Cost()

    def product(
        self, context: Context, point: Point, v: Array, on: Mask, memory: Learnt
    ) -> tuple[Scalar, Array]:
        """Return 1 and the product of the matrix with v."""
        return 1.0, context.backend.product(memory.matrix, v)


class _QuasiNewton(Direction):
    """p = −G·∇f, G the approximation of the inverse Hessian."""

    unit = True
    inverts = True
    _inverse: Approximation

    def start(self, backend: Backend, x: Array) -> Learnt:
        """Return the memory of a new run."""
        return self._inverse.start(backend, x)

    def learn(self, context: Context, point: Point, memory: Learnt) -> Learnt:
        """Return the memory with G updated by the last step."""
        return self._inverse.learn(context.backend, point.x, point.g, memory)

    def propose(
        self, context: Context, k: int, point: Point, lam: Scalar, on: Mask, memory: Learnt
    ) -> Proposal:
        """Return −G·∇f."""
        backend, G = context.backend, memory.matrix
        step = context.space.solve(
            lambda v: backend.product(G, v), partial(backend.diagonal, G), point.x, point.g
        )
        return Proposal(-step, 0.0, memory)

    def inverse(self, backend: Backend, x: Array, g: Array, memory: Learnt) -> Callable[[Array], Array]:
        """Return v ↦ G·v, the last step included."""
        G = self._inverse.learn(backend, x, g, memory).matrix
        return lambda v: backend.product(G, v)


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
