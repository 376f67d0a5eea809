"""Where x may be: everywhere, or in a box. Methods and steps ask it where a direction or a step may lead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .arrays import adopt, device, identity, namespace
from .questions import Vector
from .vectors import dot, norm, root

Product: TypeAlias = Callable[[Vector], Vector]
"""v ↦ G·v."""

PULLS, PULLED = 30, 1e-12  # iterations and squared tolerance of the CG solve that keeps held variables fixed
NEAR = 1e-8  # a variable this close to its bound, relative to the bound's magnitude, is treated as at it
PART = 1e-2  # in a box narrower than the difference interval, the interval is this fraction of the width
CORNERS = 9  # the most times that a step is recomputed because other variables belong at their bounds


class Everywhere:
    """No bounds."""

    bounded = False
    limits: NDArray[np.float64] | None = None
    """The lower and upper bounds; None if there are none."""

    def fixed(self, x: Vector) -> Vector:
        """Return which variables can never move."""
        return namespace(x).zeros(x.shape[-1:], dtype=bool, device=device(x))

    def contains(self, x: NDArray[Any]) -> Any:
        """Return which variables of a point lie in the space."""
        return True

    def differences(
        self, x: NDArray[Any], h: NDArray[Any], near: NDArray[Any], both: bool
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return how far differences go ahead and back: h both ways if `both`, else `near` ahead."""
        return (h, h) if both else (near, 0.0 * near)

    def project(self, x: Vector) -> Vector:
        """Return the nearest point of the space."""
        return x

    def free(self, x: Vector, g: Vector, v: Vector) -> Vector:
        """Return v with zeros for the variables held at a bound at x, where ∇f is g."""
        return v

    def inward(self, x: Vector, g: Vector, p: Vector) -> Vector:
        """Return p with zeros for the variables that are held, or that p would push out of the space."""
        return p

    def measure(self, x: Vector, g: Vector) -> Vector:
        """Return the projected gradient step P(x − ∇f) − x, which vanishes at a minimum."""
        return -g

    def descent(self, x: Vector, g: Vector, size: float) -> tuple[Vector, float]:
        """Return the free part of ∇f and its norm; `size` is ‖∇f‖."""
        return g, size

    def residual(self, x: Vector, g: Vector, size: float) -> float:
        """Return the norm of the projected gradient; `size` is ‖∇f‖."""
        return size

    def restrict(self, matrix: Vector, x: Vector, g: Vector) -> Vector:
        """Return the Hessian restricted to the free variables, with the identity for the held ones."""
        return matrix

    def ahead(self, x: Vector, g: Vector, p: Vector, t: float, slope: float) -> tuple[Vector, float]:
        """Return the point at t along p, and the change of f that the slope predicts there."""
        point = t * p
        point += x
        return point, t * slope

    def way(self, x: Vector, p: Vector, t: float, point: Vector) -> Vector:
        """Return the step to the point at t along p."""
        return t * p

    def solve(self, product: Product, diagonal: Callable[[], Vector], x: Vector, g: Vector) -> Vector:
        """Return G·∇f for the free variables, G the inverse of the free block of the Hessian."""
        return product(g)

    def downhill(self, product: Product, diagonal: Callable[[], Vector], x: Vector, g: Vector) -> Vector:
        """Return −G·∇f, or in a box, where held variables stay, the step to the minimum of that model."""
        return -product(g)


class Box(Everywhere):
    """The box low ≤ x ≤ high."""

    bounded = True

    def __init__(self, low: Vector, high: Vector, limits: NDArray[np.float64]):
        self._xp = xp = namespace(low)
        self._low, self._high, self._fixed, self.limits = low, high, low >= high, limits
        with np.errstate(over="ignore", invalid="ignore"):
            self._near_low = xp.minimum(low + NEAR * abs(low).clip(min=1), high)
            self._near_high = xp.maximum(high - NEAR * abs(high).clip(min=1), low)

    def fixed(self, x: Vector) -> Vector:
        return self._fixed

    def contains(self, x: NDArray[Any]) -> Any:
        assert self.limits is not None
        return (x >= self.limits[0]) & (x <= self.limits[1])

    def project(self, x: Vector) -> Vector:
        return self._xp.minimum(self._xp.maximum(x, self._low), self._high)

    def held(self, x: Vector, g: Vector) -> Vector:
        """Return which variables are fixed, or at a bound with −∇f pointing outwards."""
        return self._fixed | ((x <= self._low) & (g > 0)) | ((x >= self._high) & (g < 0))

    def free(self, x: Vector, g: Vector, v: Vector) -> Vector:
        return self._xp.where(self.held(x, g), self._xp.zeros_like(v), v)

    def inward(self, x: Vector, g: Vector, p: Vector) -> Vector:
        down = (x <= self._near_low) & (p < 0) & (g <= 0)
        up = (x >= self._near_high) & (p > 0) & (g >= 0)
        return self._xp.where(self.held(x, g) | down | up, self._xp.zeros_like(p), p)

    def measure(self, x: Vector, g: Vector) -> Vector:
        return self._xp.maximum(self._low - x, self._xp.minimum(self._high - x, -g))

    def descent(self, x: Vector, g: Vector, size: float) -> tuple[Vector, float]:
        g = self.free(x, g, g)
        return g, root(dot(g, g), g)

    def residual(self, x: Vector, g: Vector, size: float) -> float:
        return norm(self.measure(x, g))

    def restrict(self, matrix: Vector, x: Vector, g: Vector) -> Vector:
        free = self.free(x, g, x * 0 + 1)
        matrix = matrix * free[:, None] * free[None, :]
        return matrix + (1 - free)[:, None] * identity(x)

    def ahead(self, x: Vector, g: Vector, p: Vector, t: float, slope: float) -> tuple[Vector, float]:
        point = self.project(x + t * p)
        return point, dot(g, point - x)

    def way(self, x: Vector, p: Vector, t: float, point: Vector) -> Vector:
        return point - x

    def solve(self, product: Product, diagonal: Callable[[], Vector], x: Vector, g: Vector) -> Vector:
        return without(product, self.free(x, g, g), self.held(x, g), diagonal)[0]

    def downhill(self, product: Product, diagonal: Callable[[], Vector], x: Vector, g: Vector) -> Vector:
        # what would leave the box ends at its bound, the others are computed for that, and what their model
        # then pulls inwards is released (primal-dual active sets: Hintermüller, Ito and Kunisch 2002)
        where, held, free = self._xp.where, self.held(x, g), self.free(x, g, g)
        none, low, high = self._xp.zeros_like(free), self._low - x, self._high - x
        out, ends, best = none > 0, none, None
        for _ in range(1 + CORNERS):
            target = where(out, ends, none)
            p, push = without(product, -free, held | out, diagonal, target)
            ends = self._xp.minimum(self._xp.maximum(p, low), high)
            if best is None or dot(free, ends) < 0:
                best = ends
            stay = out & where(target > low, push > 0, push < 0)
            beyond = stay | (p < low) | (p > high)
            if not bool((beyond ^ out).any()):
                break
            out = beyond
        return best

    def differences(
        self, x: NDArray[Any], h: NDArray[Any], near: NDArray[Any], both: bool
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return |h| both ways if `both` and the box allows it, else `near` one way, reversed if necessary.

        In a box too narrow for either, the interval is a fraction of the width, since f may be curved in it.
        """
        assert self.limits is not None
        low, high = self.limits
        up, down = np.maximum(high - x, 0.0), np.maximum(x - low, 0.0)
        most, size, h = np.maximum(up, down), abs(near), abs(h)
        narrow = most < size
        size = np.where(narrow, np.minimum(np.maximum(PART * most, np.spacing(abs(x))), most), size)
        h = np.where(narrow, size, h)
        forward = ((near > 0) & (up >= size)) | ((down < size) & (up >= down))
        room = (np.minimum(up, down) >= h) if both else np.zeros(h.shape, dtype=bool)
        return np.where(room, h, np.where(forward, size, -size)), np.where(room, h, 0.0)


def without(
    product: Product, v: Vector, held: Vector, diagonal: Callable[[], Vector], target: Vector = None
) -> tuple[Vector, Vector]:
    """Return G·(v − z) and z, with z in the held variables such that their result is zero, or `target`.

    For zero, that is the product of v with the inverse of the free block of G⁻¹. z is computed by conjugate
    gradients, preconditioned with the diagonal of G.
    """
    whole = product(v)
    xp = namespace(whole)
    none = xp.zeros_like(whole)
    if not bool(held.any()):
        return whole, none
    target = none if target is None else target
    ease, rest, z = xp.where(held, 1 / diagonal(), none), xp.where(held, whole - target, none), none
    step = ease * rest
    first = now = dot(rest, step)
    for _ in range(PULLS):
        if not now > PULLED * first:
            break
        moved = xp.where(held, product(step), none)
        bend = dot(step, moved)
        t = now / bend if bend > 0 else 0.0
        z, rest = z + t * step, rest - t * moved
        eased = ease * rest
        before, now = now, dot(rest, eased)
        step = eased + (now / before) * step
    return xp.where(held, target, whole - product(z)), z


def rounded(low: NDArray[np.float64], high: NDArray[np.float64], dtype: Any) -> tuple[Any, Any]:
    """Return the bounds rounded inwards to numbers of the dtype; where it has none between them, to one."""
    if "32" not in str(dtype):
        return low, high
    with np.errstate(over="ignore"):
        lowest, highest = low.astype(np.float32), high.astype(np.float32)
        lowest = np.where(lowest < low, np.nextafter(lowest, np.float32(np.inf)), lowest)
        highest = np.where(highest > high, np.nextafter(highest, np.float32(-np.inf)), highest)
    return np.minimum(lowest, highest).astype(np.float64), highest.astype(np.float64)


def space_of(bounds: Any, x: Vector) -> Space:
    """Return the space of a run: a box if any variable has a bound."""
    if bounds is not None:
        low, high = rounded(*limits_of(bounds, int(x.shape[-1])), x.dtype)
        if np.isfinite(low).any() or np.isfinite(high).any():
            like = x if x.ndim == 1 else x[0, :]
            return Box(adopt(like, low), adopt(like, high), np.stack([low, high]))
    return Everywhere()


def limits_of(bounds: Any, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Read bounds as SciPy does: a Bounds object, or a pair (low, high) per variable, None for no bound."""
    try:
        if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
            low, high = (np.array(np.broadcast_to(side, n), dtype=float) for side in (bounds.lb, bounds.ub))
        else:
            pairs = np.array([(-np.inf if a is None else a, np.inf if b is None else b) for a, b in bounds])
            if pairs.shape != (n, 2) or pairs.dtype.kind not in "biuf":
                raise ValueError
            low, high = np.array(pairs.T, dtype=float, order="C")
    except (TypeError, ValueError):
        raise ValueError(
            f"bounds: expected {n} pairs (low, high), or scipy.optimize.Bounds; got {bounds!r}"
        ) from None
    if not (low <= high).all() or (low == np.inf).any() or (high == -np.inf).any():
        wrong = int(np.argmin((low <= high) & (low < np.inf) & (high > -np.inf)))
        raise ValueError(
            f"bounds: expected low <= high, got ({low[wrong]:g}, {high[wrong]:g}) for variable {wrong}"
        )
    return low, high


Space = Everywhere
"""The feasible set of a run."""
