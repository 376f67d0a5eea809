"""Where x may be: everywhere, or in a box. Points and gradients are projected, and no step leaves the box."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .arrays import Array, Mask, Scalar, adopt, device, identity, is_numpy
from .backends import Backend

Product: TypeAlias = Callable[[Array], Array]
"""v ↦ G·v."""

PULLS, PULLED = 30, 1e-12
"""The iterations, and the square of the accuracy, with which held variables are kept still."""

NEAR = 1e-8
"""A variable this near to its bound, relative to the bound's size, is taken to be there."""

PART = 1e-2
"""In a box narrower than a difference, the difference is this part of the room."""

CORNERS = 3
"""How often a step is made again because more variables would leave their bounds."""


class Everywhere:
    """The whole space: nothing is held, and nothing is projected."""

    bounded = False
    limited: Mask = False
    """Whether any variable has a limit; a compiled box may have none."""
    limits: NDArray[np.float64] | None = None
    """The lowest and the highest x; None where there are none."""

    def __init__(self, backend: Backend):
        self._backend, self._xp = backend, backend.xp

    def fixed(self, x: Array) -> Array:
        """Return which variables can never move."""
        return self._xp.zeros(x.shape[-1:], dtype=bool, device=device(x))

    def contains(self, x: NDArray[Any]) -> Any:
        """Return which variables of a point lie in the space."""
        return True

    def differences(self, x: NDArray[Any], h: NDArray[Any], near: NDArray[Any], both: Any) -> tuple[Any, Any]:
        """Return how far to go ahead and back for a difference at x: h both ways if `both`, else `near`."""
        return np.where(both, h, near), np.where(both, h, 0.0)

    def project(self, x: Array) -> Array:
        """Return the nearest point of the space."""
        return x

    def free(self, x: Array, g: Array, v: Array) -> Array:
        """Return v without the variables that are held at x, where ∇f is g."""
        return v

    def inward(self, x: Array, g: Array, p: Array) -> Array:
        """Return p without the variables that are held, or that p alone would push out of the space."""
        return p

    def measure(self, x: Array, g: Array) -> Array:
        """Return P(x − ∇f) − x, the step that −∇f makes inside the space; it vanishes at a minimum."""
        return -g

    def descent(self, x: Array, g: Array, size: Scalar) -> tuple[Array, Scalar]:
        """Return the free part of ∇f and its norm, `size` being that of ∇f."""
        return g, size

    def residual(self, x: Array, g: Array, size: Scalar) -> Scalar:
        """Return the norm that vanishes at a minimum, `size` being that of ∇f."""
        return size

    def restrict(self, matrix: Array, x: Array, g: Array) -> Array:
        """Return a Hessian as the free variables see it, the identity for those held."""
        return matrix

    def trial(self, x: Array, g: Array, p: Array, t: Scalar, slope: Scalar) -> tuple[Array, Array, Scalar]:
        """Return the point at t along p, the way there, and the fall of f that the gradient promises."""
        way = self._backend.times(t, p)
        return x + way, way, t * slope

    def moved(self, x: Array, to: Array, p: Array, t: Scalar) -> Scalar:
        """Return the length of the step t along p, which led to a point."""
        return t * self._backend.norm(p)

    def solve(self, product: Product, diagonal: Callable[[], Array], x: Array, g: Array) -> Array:
        """Return G·∇f of the free variables, G the inverse of the free block of an inverse Hessian."""
        return product(g)

    def downhill(self, product: Product, diagonal: Callable[[], Array], x: Array, g: Array) -> Array:
        """Return −G·∇f; what bounds hold stays, and what would leave goes to them."""
        return -product(g)


class Box(Everywhere):
    """The box low ≤ x ≤ high, for every row of a batch the same."""

    bounded = True
    limited: Mask = True

    def __init__(self, low: NDArray[np.float64], high: NDArray[np.float64], x: Array, backend: Backend):
        super().__init__(backend)
        low, high = rounded(low, high, x.dtype)
        self.low, self.high = low, high
        self.limits = np.stack([low, high])
        like = x if x.ndim == 1 else x[0, :]
        with np.errstate(over="ignore", invalid="ignore"):
            sides = (*self.limits, *_near(np, low, high))
            self._bound(*(side.astype(x.dtype) if is_numpy(x) else adopt(like, side) for side in sides))

    @classmethod
    def of(cls, low: Array, high: Array, backend: Backend) -> Box:
        """Return the box between two vectors of the run's own, which may be traced."""
        box = object.__new__(cls)
        Everywhere.__init__(box, backend)
        box._bound(low, high, *_near(backend.xp, low, high))
        box.limited = backend.xp.any(backend.xp.isfinite(low) | backend.xp.isfinite(high))
        return box

    def _bound(self, low: Array, high: Array, near_low: Array, near_high: Array) -> None:
        self._low, self._high, self._near_low, self._near_high = low, high, near_low, near_high
        self._fixed: Array = low >= high

    def fixed(self, x: Array) -> Array:
        return self._fixed

    def contains(self, x: NDArray[Any]) -> Any:
        return (x >= self.low) & (x <= self.high)

    def project(self, x: Array) -> Array:
        """Return the nearest point of the box."""
        return self._xp.minimum(self._xp.maximum(x, self._low), self._high)

    def held(self, x: Array, g: Array) -> Array:
        """Return which variables cannot move, or are at a bound that f pushes them against."""
        return self._fixed | ((x <= self._low) & (g > 0)) | ((x >= self._high) & (g < 0))

    def free(self, x: Array, g: Array, v: Array) -> Array:
        """Return v without the variables that are held."""
        return self._xp.where(self.held(x, g), self._xp.zeros_like(v), v)

    def inward(self, x: Array, g: Array, p: Array) -> Array:
        """Return p without the variables that are held, or that p alone would push out of the box."""
        down = (x <= self._near_low) & (p < 0) & (g <= 0)
        up = (x >= self._near_high) & (p > 0) & (g >= 0)
        return self._xp.where(self.held(x, g) | down | up, self._xp.zeros_like(p), p)

    def within(self, x: Array, p: Array) -> tuple[Array, Array]:
        """Return which variables p would take out of the box, and how far they may go."""
        low, high = self._low - x, self._high - x
        return (p < low) | (p > high), self._xp.minimum(self._xp.maximum(p, low), high)

    def measure(self, x: Array, g: Array) -> Array:
        return self._xp.maximum(self._low - x, self._xp.minimum(self._high - x, -g))

    def descent(self, x: Array, g: Array, size: Scalar) -> tuple[Array, Scalar]:
        g = self.free(x, g, g)
        return g, self._backend.root(self._backend.dot(g, g), g, wild=True)

    def residual(self, x: Array, g: Array, size: Scalar) -> Scalar:
        return self._backend.norm(self.measure(x, g))

    def restrict(self, matrix: Array, x: Array, g: Array) -> Array:
        free = self.free(x, g, x * 0 + 1)
        matrix = matrix * free[..., :, None] * free[..., None, :]
        return matrix + (1 - free)[..., :, None] * identity(x)

    def trial(self, x: Array, g: Array, p: Array, t: Scalar, slope: Scalar) -> tuple[Array, Array, Scalar]:
        point = self.project(x + self._backend.times(t, p))
        way = point - x
        return point, way, self._backend.dot(g, way)

    def moved(self, x: Array, to: Array, p: Array, t: Scalar) -> Scalar:
        return self._backend.norm(to - x)

    def solve(self, product: Product, diagonal: Callable[[], Array], x: Array, g: Array) -> Array:
        return without(product, self.free(x, g, g), self.held(x, g), diagonal, self._backend)

    def downhill(self, product: Product, diagonal: Callable[[], Array], x: Array, g: Array) -> Array:
        """Return −G·∇f; what is held stays, and what would leave the box goes to its side.

        The other variables are then chosen for where those really end: a path that bends at a bound would
        take them elsewhere.
        """

        def part(v: Array, held: Array, target: Array) -> Array:
            return without(product, v, held, diagonal, self._backend, target)

        return self._bent(part, x, g)

    def downhill_by(self, G: Array, x: Array, g: Array) -> Array:
        """Return the same by the matrix itself, which is quick where vectors are short and rows are many."""
        return self._bent(partial(_without_by, G, self._backend), x, g)

    def _bent(self, part: Callable[[Array, Array, Array], Array], x: Array, g: Array) -> Array:
        backend, where = self._backend, self._xp.where
        held, free = self.held(x, g), self.free(x, g, g)
        none = self._xp.zeros_like(free)

        def bent(s: _Bent) -> _Bent:
            p = -part(free, held | s.out, -where(s.out, s.ends, none))
            slope = backend.dot(free, p)
            better = s.first | (slope < 0)
            p = backend.where(better, p, s.p)
            more, reach = self.within(x, p)
            return _Bent(p, s.out | more, where(s.out, s.ends, reach), s.first & False, backend.some(more))

        every = backend.some(free == free)
        return backend.repeat(bent, _Bent(none, none > 0, none, every, every), 1 + CORNERS).p

    def differences(self, x: NDArray[Any], h: NDArray[Any], near: NDArray[Any], both: Any) -> tuple[Any, Any]:
        """Return how far to go ahead and back for a difference.

        That is |h| both ways where there is room, if `both`; else `near` one way, turned around if need be.
        In a box too narrow for either it is a part of the room: f may bend within the whole of it.
        """
        up, down = np.maximum(self.high - x, 0.0), np.maximum(x - self.low, 0.0)
        most, size, h = np.maximum(up, down), abs(near), abs(h)
        narrow = most < size
        size = np.where(narrow, np.minimum(np.maximum(PART * most, np.spacing(abs(x))), most), size)
        h = np.where(narrow, size, h)
        ahead = ((near > 0) & (up >= size)) | ((down < size) & (up >= down))
        room = both & (np.minimum(up, down) >= h)
        return np.where(room, h, np.where(ahead, size, -size)), np.where(room, h, 0.0)


class _Bent(NamedTuple):
    p: Array
    out: Array
    """Which variables leave, and `ends`, where the box stops them."""
    ends: Array
    first: Mask
    open: Mask


class _Pull(NamedTuple):
    z: Array
    rest: Array
    step: Array
    now: Scalar
    open: Mask


def without(
    product: Product,
    v: Array,
    held: Array,
    diagonal: Callable[[], Array],
    backend: Backend,
    target: Array | None = None,
) -> Array:
    """Return the product of v with the matrix G made for the free variables alone: (G⁻¹ without the held)⁻¹.

    That is G·(v − z), with z in the held variables such that they get nothing, or what `target` says; z is
    found by conjugate gradients, eased by the diagonal of G.
    """
    whole = product(v)
    if not backend.any(backend.some(held)):
        return whole
    where, none = backend.xp.where, backend.xp.zeros_like(whole)
    target = none if target is None else target
    ease, rest = where(held, 1 / diagonal(), none), where(held, whole - target, none)
    first = backend.dot(rest, ease * rest)

    def pull(s: _Pull) -> _Pull:
        moved = where(held, product(s.step), none)
        bend = backend.dot(s.step, moved)
        t = backend.select(s.open & (bend > 0), s.now / backend.select(bend > 0, bend, 1.0), 0.0)
        rest = s.rest - backend.times(t, moved)
        eased = ease * rest
        after = backend.dot(rest, eased)
        step = eased + backend.times(after / backend.select(s.now > 0, s.now, 1.0), s.step)
        return _Pull(s.z + backend.times(t, s.step), rest, step, after, after > PULLED * first)

    start = _Pull(none, rest, ease * rest, first, first > PULLED * first)
    return where(held, target, whole - product(backend.repeat(pull, start, PULLS).z))


def _without_by(G: Array, backend: Backend, v: Array, held: Array, target: Array) -> Array:
    """Return what `without` does, by solving for the held variables."""
    whole = (G @ v[..., None])[..., 0]
    if not backend.any(backend.some(held)):
        return whole
    where, none = backend.xp.where, backend.xp.zeros_like(whole)
    both = held[..., :, None] & held[..., None, :]
    z = backend.solve(where(both, G, identity(v)), where(held, whole - target, none))
    return where(held, target, whole - (G @ z[..., None])[..., 0])


def _near(xp: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """Return where a variable is near to its lower, and to its upper bound."""
    return (
        xp.minimum(low + NEAR * xp.maximum(1.0, abs(low)), high),
        xp.maximum(high - NEAR * xp.maximum(1.0, abs(high)), low),
    )


def rounded(low: NDArray[np.float64], high: NDArray[np.float64], dtype: Any) -> tuple[Any, Any]:
    """Return bounds as numbers that the dtype can hold."""
    if "32" not in str(dtype):
        return low, high
    low, high = _rounded(low, np.inf), _rounded(high, -np.inf)
    fixed = low > high  # there is no float32 between them: they are the two around a number
    return np.where(fixed, high, low), high


def _rounded(side: NDArray[np.float64], inwards: float) -> NDArray[np.float64]:
    """Round bounds to what float32 can hold, none outwards."""
    with np.errstate(over="ignore"):
        single = side.astype(np.float32)
        beyond = single < side if inwards > 0 else single > side
        return np.where(beyond, np.nextafter(single, np.float32(inwards)), single).astype(np.float64)


def space_of(bounds: Any, x: Array, backend: Backend) -> Space:
    """Return the space of a run: a box, if any variable has a limit."""
    if bounds is not None:
        low, high = limits_of(bounds, int(x.shape[-1]))
        if np.isfinite(low).any() or np.isfinite(high).any():
            return Box(low, high, x, backend)
    return Everywhere(backend)


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


Space = Everywhere
"""Where x may be."""
