"""H·v by the paper's difference of gradients, for every oracle that has a gradient."""

from __future__ import annotations

from typing import Any

from .._core.arrays import Array, Scalar
from .._core.kits import Kit
from .._core.space import Everywhere, Space


class Probing:
    """Products H·v made of the gradient at another point."""

    came: Any = None
    """∇f where f was last evaluated, if it came with f; it is counted once it is asked for."""

    def __init__(self, kit: Kit, space: Space | None, eps: float):
        self._kit = kit
        self._space = Everywhere(kit) if space is None else space
        self.eps = eps  # of the run's numbers
        self.adaptive = False  # whether differences follow what the values of f have shown
        self.grain: Scalar = 0.0  # of the values of f, relative to them, where it was found to be coarser

    @property
    def exact(self) -> bool:
        """Whether the gradient is exact at the run's precision, and no difference of values."""
        return True

    def grad(self, x: Array, only: Any = None, came: Any = None, *, spare: bool = False) -> Any:
        """Evaluate ∇f, where it has not come with f.

        `spare`: x is nobody else's and ∇f is used up at once, so neither is copied.
        """
        raise NotImplementedError

    def probe_length(self, x: Array, v: Array) -> Scalar:
        """Return r for which r·v is about √ε of the size of x, ε the relative error of the gradient."""
        kit = self._kit
        # the rounding left in one made of differences
        eps = self.eps if self.exact else kit.num.maximum(self.eps, self.grain) ** (2 / 3)
        size = kit.norm(v)
        most = kit.num.maximum(kit.norm(x), 1.0)
        return kit.scalar(kit.num.sqrt(eps) * most / kit.pick(size > 0, size, 1.0))

    def change(self, x: Array, v: Array, g: Array, r: Scalar, only: Any = None) -> Array:
        """Evaluate r·H·v by the paper's difference ∇f(x + r·v) − ∇f(x)."""
        kit, space = self._kit, self._space
        point = kit.times(r, v)
        point += x
        if not space.bounded:
            change = self.grad(point, only, spare=True) - g
        else:  # the other way where this one leaves the box, and no further than it goes
            sign = kit.pick(kit.same(space.project(point), point), 1.0, -1.0)
            change = kit.times(sign, self.grad(space.project(x + kit.times(sign * r, v)), only) - g)
        return change if only is None or only is True else kit.where(only, change, change * 0)
