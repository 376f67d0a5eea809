"""Products H·v made of gradients, base of the evaluator in `_loop`; each costs one gradient."""

from __future__ import annotations

from typing import Any

from ...arrays import Array, Scalar
from .backend import Backend
from .space import Space


class GradientDifference:
    """Products H·v made of the gradient at another point."""

    cached_gradient: Any = None  # ∇f where f was last evaluated, if it came with f; it is counted when used
    grad: Any

    def __init__(self, backend: Backend, space: Space, eps: float):
        self.backend, self.space = backend, space
        self.eps = eps  # of the run's numbers

    def difference_length(self, x: Array, v: Array) -> Scalar:
        """Return r for which r·v is about √ε of the size of x, ε the relative error of the gradient."""
        backend = self.backend
        size = backend.norm(v)
        most = backend.num.maximum(backend.norm(x), 1.0)
        part = backend.num.sqrt(self.eps)
        return backend.scalar(part * most / backend.select(size > 0, size, 1.0))

    def change(self, x: Array, v: Array, g: Array, r: Scalar, only: Any = None) -> Array:
        """Evaluate r·H·v by the paper's difference ∇f(x + r·v) − ∇f(x)."""
        backend, space = self.backend, self.space
        point = backend.times(r, v)
        point += x
        if not space.bounded:
            change = self.grad(point, only, spare=True) - g
        else:  # the other way where this one leaves the box, and no further than it goes
            sign = backend.select(backend.same(space.project(point), point), 1.0, -1.0)
            change = backend.times(sign, self.grad(space.project(x + backend.times(sign * r, v)), only) - g)
        return change if only is None or only is True else backend.select(only, change, change * 0)
