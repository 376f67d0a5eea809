"""Bounds on the variables: points and gradients are projected, and no step leaves the box."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import Array, Kit, adopt, is_numpy

PULLS, PULLED = 30, 1e-12
"""The iterations, and the square of the accuracy, with which held variables are kept still."""

NEAR = 1e-8
"""A variable this near to its bound, relative to the bound's size, is taken to be there."""


class Box:
    """The box low ≤ x ≤ high, for every row of a batch the same."""

    def __init__(self, low: NDArray[np.float64], high: NDArray[np.float64], x: Array, kit: Kit):
        self._xp = kit.xp
        if "32" in str(x.dtype):
            low, high = _rounded(low, np.inf), _rounded(high, -np.inf)
            fixed = low > high  # there is no float32 between them: they are the two around a number
            low = np.where(fixed, high, low)
        self.low, self.high = low, high
        like = x if x.ndim == 1 else x[0, :]
        with np.errstate(over="ignore", invalid="ignore"):
            near_low = np.minimum(low + NEAR * np.maximum(1.0, abs(low)), high)
            near_high = np.maximum(high - NEAR * np.maximum(1.0, abs(high)), low)
            self._low, self._high, self._near_low, self._near_high = (
                side.astype(x.dtype) if is_numpy(x) else adopt(like, side)
                for side in (low, high, near_low, near_high)
            )
        self.fixed: Array = self._low >= self._high

    def project(self, x: Array) -> Array:
        """Give the nearest point of the box."""
        return self._xp.minimum(self._xp.maximum(x, self._low), self._high)

    def held(self, x: Array, g: Array) -> Array:
        """Say which variables cannot move, or are at a bound that f pushes them against."""
        return self.fixed | ((x <= self._low) & (g > 0)) | ((x >= self._high) & (g < 0))

    def free(self, x: Array, g: Array, v: Array) -> Array:
        """Give v without the variables that are held."""
        return self._xp.where(self.held(x, g), self._xp.zeros_like(v), v)

    def inward(self, x: Array, g: Array, p: Array) -> Array:
        """Give p without the variables that are held, or that p alone would push out of the box."""
        down = (x <= self._near_low) & (p < 0) & (g <= 0)
        up = (x >= self._near_high) & (p > 0) & (g >= 0)
        return self._xp.where(self.held(x, g) | down | up, self._xp.zeros_like(p), p)

    def within(self, x: Array, p: Array) -> tuple[Array, Array]:
        """Say which variables p would take out of the box, and how far they may go."""
        low, high = self._low - x, self._high - x
        return (p < low) | (p > high), self._xp.minimum(self._xp.maximum(p, low), high)

    def measure(self, x: Array, g: Array) -> Array:
        """Give P(x − ∇f) − x, the step that −∇f makes inside the box; it vanishes at a minimum."""
        return self._xp.maximum(self._low - x, self._xp.minimum(self._high - x, -g))

    def differences(
        self, x: NDArray[Any], h: NDArray[Any], near: NDArray[Any], both: bool
    ) -> tuple[Any, Any]:
        """Give how far to go ahead and back for a difference inside the box.

        That is |h| both ways where there is room, if `both`; else `near` one way, turned around or shortened.
        """
        up, down = np.maximum(self.high - x, 0.0), np.maximum(x - self.low, 0.0)
        size = abs(near)
        ahead = np.where(near > 0, up >= size, down < size) & ((up >= size) | (up >= down))
        one_way = np.where(ahead, np.minimum(size, up), -np.minimum(size, down))
        room = both & (np.minimum(up, down) >= abs(h))
        return np.where(room, abs(h), one_way), np.where(room, abs(h), 0 * h)


def without(
    product: Callable[[Array], Array],
    v: Array,
    held: Array | None,
    diagonal: Array,
    kit: Kit,
    target: Array | None = None,
) -> Array:
    """Give the product of v with the matrix G made for the free variables alone: (G⁻¹ without the held)⁻¹.

    That is G·(v − z), with z in the held variables such that they get nothing, or what `target` says; z is
    found by conjugate gradients, eased by the diagonal of G.
    """
    whole = product(v)
    if held is None or not bool(held.any()):
        return whole
    where, none = kit.xp.where, kit.xp.zeros_like(whole)
    target = none if target is None else target
    ease, rest = where(held, 1 / diagonal, none), where(held, whole - target, none)
    z, step = none, ease * rest
    now = first = kit.dot(rest, step)
    for _ in range(PULLS):
        todo = now > PULLED * first
        if not kit.any(todo):
            break
        moved = where(held, product(step), none)
        bend = kit.dot(step, moved)
        t = kit.pick(todo & (bend > 0), now / kit.pick(bend > 0, bend, 1.0), 0.0)
        z, rest = z + kit.times(t, step), rest - kit.times(t, moved)
        eased = ease * rest
        after = kit.dot(rest, eased)
        step = eased + kit.times(after / kit.pick(now > 0, now, 1.0), step)
        now = after
    return where(held, target, whole - product(z))


def _rounded(side: NDArray[np.float64], inwards: float) -> NDArray[np.float64]:
    """Round bounds to what float32 can hold, none outwards."""
    with np.errstate(over="ignore"):
        single = side.astype(np.float32)
        beyond = single < side if inwards > 0 else single > side
        return np.where(beyond, np.nextafter(single, np.float32(inwards)), single).astype(np.float64)


def box_of(bounds: Any, x: Array, kit: Kit) -> Box | None:
    """Give the box of a run; None if no variable has a limit."""
    if bounds is None:
        return None
    low, high = limits_of(bounds, int(x.shape[-1]))
    return Box(low, high, x, kit) if np.isfinite(low).any() or np.isfinite(high).any() else None


def limits_of(bounds: Any, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Read bounds as SciPy does: a Bounds object, or a pair (low, high) for each variable, None for no limit.

    Examples
    --------
    >>> limits_of([(0, None), (-1, 1)], 2)
    (array([ 0., -1.]), array([inf,  1.]))
    """
    try:
        if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
            low, high = (np.array(np.broadcast_to(side, n), dtype=float) for side in (bounds.lb, bounds.ub))
        else:
            pairs = [tuple(pair) for pair in bounds]
            sides = [side for pair in pairs for side in pair]
            if (
                len(pairs) != n
                or len(sides) != 2 * n
                or any(np.ndim(side) or isinstance(side, str) for side in sides)
            ):
                raise ValueError
            low = np.array([-np.inf if side is None else side for side, _ in pairs], dtype=float)
            high = np.array([np.inf if side is None else side for _, side in pairs], dtype=float)
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
