"""The feasible set, Rⁿ or a box: no step leaves it; pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...arrays import Array, Mask, Scalar, identity
from .backend import Backend

Product: TypeAlias = Callable[[Array], Array]
"""v ↦ G·v."""

PULLS, PULLED = 30, 1e-12  # iterations and squared tolerance of the CG solve that keeps held variables fixed
NEAR = 1e-8  # a variable this close to its bound, relative to the bound's magnitude, is treated as at it
CORNERS = 9  # the most times that a step is recomputed because other variables belong at their bounds


class Everywhere:
    """The unconstrained space: no active bounds, no projection."""

    bounded = False
    limited: Mask = False
    """Whether any variable has a bound; a compiled box may have none."""

    def __init__(self, backend: Backend):
        self._backend, self._xp = backend, backend.xp

    def project(self, x: Array) -> Array:
        """Return the nearest point of the space."""
        return x

    def free(self, x: Array, g: Array, v: Array) -> Array:
        """Return v with zeros for the variables held at a bound at x, where ∇f is g."""
        return v

    def inward(self, x: Array, g: Array, p: Array) -> Array:
        """Return p with zeros for the variables that are held, or that p would push out of the space."""
        return p

    def measure(self, x: Array, g: Array) -> Array:
        """Return the projected gradient step P(x − ∇f) − x, which vanishes at a minimum."""
        return -g

    def descent(self, x: Array, g: Array, size: Scalar) -> tuple[Array, Scalar]:
        """Return the free part of ∇f and its norm; `size` is ‖∇f‖."""
        return g, size

    def residual(self, x: Array, g: Array, size: Scalar) -> Scalar:
        """Return the norm of the projected gradient; `size` is ‖∇f‖."""
        return size

    def restrict(self, matrix: Array, x: Array, g: Array) -> Array:
        """Return the Hessian restricted to the free variables, with the identity for the held ones."""
        return matrix

    def trial(self, x: Array, g: Array, p: Array, t: Scalar, slope: Scalar) -> tuple[Array, Array, Scalar]:
        """Return the point at t along p, the displacement, and the predicted decrease of f."""
        way = self._backend.times(t, p)
        return x + way, way, t * slope

    def solve(self, product: Product, diagonal: Callable[[], Array], x: Array, g: Array) -> Array:
        """Return G·∇f for the free variables, G the inverse of the free block of the Hessian."""
        return product(g)

    def downhill(self, product: Product, diagonal: Callable[[], Array], x: Array, g: Array) -> Array:
        """Return −G·∇f, or in a box, where held variables stay, the step to the minimum of that model."""
        return -product(g)


class Box(Everywhere):
    """The box low ≤ x ≤ high, the same for every row of a batch."""

    bounded = True

    def __init__(self, low: Array, high: Array, backend: Backend):
        super().__init__(backend)
        xp = self._xp
        self._low, self._high, self._fixed = low, high, low >= high
        self.limited = xp.any(xp.isfinite(low) | xp.isfinite(high))
        with np.errstate(over="ignore", invalid="ignore"):
            self._near_low = xp.minimum(low + NEAR * abs(low).clip(min=1), high)
            self._near_high = xp.maximum(high - NEAR * abs(high).clip(min=1), low)

    def project(self, x: Array) -> Array:
        return self._xp.minimum(self._xp.maximum(x, self._low), self._high)

    def held(self, x: Array, g: Array) -> Array:
        """Return a mask of the variables that are fixed, or at a bound with −∇f pointing outwards."""
        return self._fixed | ((x <= self._low) & (g > 0)) | ((x >= self._high) & (g < 0))

    def free(self, x: Array, g: Array, v: Array) -> Array:
        return self._xp.where(self.held(x, g), self._xp.zeros_like(v), v)

    def inward(self, x: Array, g: Array, p: Array) -> Array:
        down = (x <= self._near_low) & (p < 0) & (g <= 0)
        up = (x >= self._near_high) & (p > 0) & (g >= 0)
        return self._xp.where(self.held(x, g) | down | up, self._xp.zeros_like(p), p)

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

    def solve(self, product: Product, diagonal: Callable[[], Array], x: Array, g: Array) -> Array:
        return without(product, self.free(x, g, g), self.held(x, g), diagonal, self._backend)[0]

    def downhill(self, product: Product, diagonal: Callable[[], Array], x: Array, g: Array) -> Array:
        # what would leave the box ends at its bound, the others are computed for that, and what their model
        # then pulls inwards is released (primal-dual active sets: Hintermüller, Ito and Kunisch 2002)
        backend, where = self._backend, self._xp.where
        held, free = self.held(x, g), self.free(x, g, g)
        none, low, high = self._xp.zeros_like(free), self._low - x, self._high - x

        def bent(s: _Bent) -> _Bent:
            target = where(s.out, s.ends, none)
            p, push = without(product, -free, held | s.out, diagonal, backend, target)
            reach = self._xp.minimum(self._xp.maximum(p, low), high)
            better = s.first | (backend.dot(free, reach) < 0)
            stay = s.out & where(s.ends > low, push > 0, push < 0)
            out = stay | (p < low) | (p > high)
            p = backend.select(better, reach, s.p)
            return _Bent(p, out, reach, s.first & False, backend.some(out ^ s.out))

        every = backend.some(free == free)
        return backend.repeat(bent, _Bent(none, none > 0, none, every, every), 1 + CORNERS).p


class _Bent(NamedTuple):
    p: Array
    out: Array
    """The variables that end at their bounds, and `ends`, where those are."""
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
    product: Product, v: Array, held: Array, diagonal: Callable[[], Array], backend: Backend,
    target: Array | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """Return G·(v − z) and z, with z in the held variables such that their result is zero, or `target`.

    For zero, that is the product of v with the inverse of the free block of G⁻¹. z is computed by conjugate
    gradients, preconditioned with the diagonal of G.
    """
    whole = product(v)
    where, none = backend.xp.where, backend.xp.zeros_like(whole)
    if not backend.any(backend.some(held)):
        return whole, none
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
    z = backend.repeat(pull, start, PULLS).z
    return where(held, target, whole - product(z)), z


def rounded(low: NDArray[np.float64], high: NDArray[np.float64], dtype: Any) -> tuple[Any, Any]:
    """Return the bounds rounded inwards to numbers of the dtype; where it has none between them, to one."""
    if "32" not in str(dtype):
        return low, high
    with np.errstate(over="ignore"):
        lowest, highest = low.astype(np.float32), high.astype(np.float32)
        lowest = np.where(lowest < low, np.nextafter(lowest, np.float32(np.inf)), lowest)
        highest = np.where(highest > high, np.nextafter(highest, np.float32(-np.inf)), highest)
    return np.minimum(lowest, highest).astype(np.float64), highest.astype(np.float64)


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
