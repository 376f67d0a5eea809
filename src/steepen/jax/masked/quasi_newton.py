"""BFGS and DFP: directions and, in Hessian form, a curvature for CGD; no evaluations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from ...arrays import Array, Mask, Scalar
from . import matrix
from .backend import Backend
from .context import Context
from .direction import Direction, Proposal
from .state import Point


class Learnt(NamedTuple):
    """The matrix, and the last point it was updated with."""

    matrix: Array
    x: Array
    g: Array


def empty(backend: Backend, x: Array) -> Learnt:
    """Return the identity at x; a first step from x to x is no pair."""
    return Learnt(backend.identity(x), x, x)


def updated(backend: Backend, x: Array, g: Array, memory: Learnt, rule: str, *, inverse: bool) -> Learnt:
    """Return the matrix updated by the pair s = x₊ − x, y = ∇f₊ − ∇f, with the rule "bfgs" or "dfp"."""
    s, y = x - memory.x, g - memory.g
    a, b = (s, y) if inverse else (y, s)
    product_form = (rule == "bfgs") == inverse
    return Learnt(matrix.update(memory.matrix, a, b, backend, product_form=product_form), x, g)


class _QuasiNewton(Direction):
    """p = −G·∇f, G the approximation of the inverse Hessian by the rule that names the method."""

    unit = True

    def start(self, backend: Backend, x: Array) -> Learnt:
        return empty(backend, x)

    def learn(self, context: Context, point: Point, memory: Learnt) -> Learnt:
        return updated(context.backend, point.x, point.g, memory, self.name, inverse=True)

    def propose(
        self, context: Context, k: int, point: Point, lam: Scalar, on: Mask, memory: Learnt
    ) -> Proposal:
        backend, matrix = context.backend, memory.matrix
        product, diagonal = partial(backend.product, matrix), partial(backend.diagonal, matrix)
        return Proposal(-context.space.solve(product, diagonal, point.x, point.g), 0.0, memory)


@dataclass(frozen=True)
class BFGS(_QuasiNewton):
    """BFGS on the inverse Hessian, with a fixed step or a line search."""

    name = "bfgs"


@dataclass(frozen=True)
class DFP(_QuasiNewton):
    """DFP on the inverse Hessian, with a fixed step or a line search."""

    name = "dfp"
