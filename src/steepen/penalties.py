"""Penalties h of the gradient, chosen by users, called by the CGD methods: the objective is f + λ·h(∇f).

The gradient of h(∇f(x)) is H(x)·∇h(∇f(x)), so a penalty is defined by ∇h. It is given as `scale · vector`:
the paper evaluates ∇f at x + r·∇f although ∇h = 2∇f, and puts the factor 2 next to λ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ._tools.check import number
from .arrays import Array, namespace, norm

__all__ = ["L1", "L2", "Huber", "PNorm", "Penalty", "SquaredL2"]


@runtime_checkable
class Penalty(Protocol):
    """Interface of penalties: ∇h as `scale · vector`.

    Examples
    --------
    >>> isinstance(SquaredL2(), Penalty)
    True
    """

    @property
    def scale(self) -> float:
        """The factor between `vector` and ∇h."""
        return 1.0

    def vector(self, g: Array) -> Array:
        """Return ∇h(g) / scale."""
        ...


@dataclass(frozen=True)
class SquaredL2(Penalty):
    """The paper's penalty, h(g) = ‖g‖².

    Examples
    --------
    >>> import numpy as np
    >>> SquaredL2().scale * SquaredL2().vector(np.array([3.0, 4.0]))
    array([6., 8.])
    """

    @property
    def scale(self) -> float:
        return 2.0

    def vector(self, g: Array) -> Array:
        return g


@dataclass(frozen=True)
class L2(Penalty):
    """h(g) = ‖g‖: the direction of sharpness-aware minimisation, with ρ = λ.

    Examples
    --------
    >>> import numpy as np
    >>> L2().vector(np.array([3.0, 4.0]))
    array([0.6, 0.8])
    """

    def vector(self, g: Array) -> Array:
        xp, size = namespace(g), norm(g)
        return g / xp.where(size > 0, size, xp.ones_like(size))  # 0 at g = 0


@dataclass(frozen=True)
class Huber(Penalty):
    """h(g) = Σ of the Huber function of gᵢ: quadratic up to `delta`, linear beyond.

    No component of ∇h exceeds `delta` in size, so a single large one cannot dominate the step.

    Examples
    --------
    >>> import numpy as np
    >>> Huber(delta=1.0).vector(np.array([0.5, -7.0]))
    array([ 0.5, -1. ])
    """

    delta: float = 1.0

    def __post_init__(self) -> None:
        number("delta", self.delta, "a positive number", above=0)

    def vector(self, g: Array) -> Array:
        return namespace(g).clip(g, -self.delta, self.delta)


@dataclass(frozen=True)
class L1(Penalty):
    """h(g) = Σ √(gᵢ² + ε²), the smoothed L1 norm.

    Examples
    --------
    >>> import numpy as np
    >>> L1(eps=1e-8).vector(np.array([2.0, -3.0, 0.0]))
    array([ 1., -1.,  0.])
    """

    eps: float = 1e-6

    def __post_init__(self) -> None:
        number("eps", self.eps, "a positive number", above=0)

    def vector(self, g: Array) -> Array:
        return g / namespace(g).hypot(g, namespace(g).full_like(g, self.eps))


@dataclass(frozen=True)
class PNorm(Penalty):
    """h(g) = ‖g‖_p for p > 1.

    Examples
    --------
    >>> import numpy as np
    >>> PNorm(4.0).vector(np.array([2.0, 0.0]))
    array([1., 0.])
    """

    p: float = 4.0

    def __post_init__(self) -> None:
        number("p", self.p, "a finite number above 1", above=1)

    def vector(self, g: Array) -> Array:
        xp = namespace(g)
        size = xp.max(xp.abs(g), axis=-1, keepdims=True)
        unit = xp.abs(g) / xp.where(size > 0, size, xp.ones_like(size))  # so that no power overflows
        total = (unit**self.p).sum(axis=-1)[..., None] ** (1 - 1 / self.p)
        return xp.sign(g) * unit ** (self.p - 1) / xp.where(total > 0, total, xp.ones_like(total))
