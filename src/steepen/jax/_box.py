"""Where x may be: everywhere, or in a box whose sides may be traced; see `steepen.space`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..space import CORNERS, NEAR, PULLED, PULLS
from ._jax import jax, jnp
from ._numbers import dot, norm


class Everywhere:
    """No bounds."""

    bounded = False

    def limited(self) -> Any:
        """Return whether any variable has a bound."""
        return False

    def project(self, x: Any) -> Any:
        """Return the nearest point of the space."""
        return x

    def free(self, x: Any, g: Any, v: Any) -> Any:
        """Return v with zeros for the variables held at a bound at x, where ∇f is g."""
        return v

    def inward(self, x: Any, g: Any, p: Any) -> Any:
        """Return p with zeros for the variables that are held, or that p would push out of the space."""
        return p

    def measure(self, x: Any, g: Any) -> Any:
        """Return the projected gradient step P(x − ∇f) − x, which vanishes at a minimum."""
        return -g

    def restrict(self, matrix: Any, x: Any, g: Any) -> Any:
        """Return the Hessian restricted to the free variables, with the identity for the held ones."""
        return matrix

    def ahead(self, x: Any, g: Any, p: Any, t: Any, slope: Any) -> tuple[Any, Any]:
        """Return the point at t along p, and the change of f that the slope predicts there."""
        return x + t * p, t * slope

    def solve(self, product: Any, diagonal: Callable[[], Any], x: Any, g: Any) -> Any:
        """Return G·∇f for the free variables, G the inverse of the free block of the Hessian."""
        return product(g)

    def downhill(self, product: Any, diagonal: Callable[[], Any], x: Any, g: Any) -> Any:
        """Return −G·∇f, or in a box, where held variables stay, the step to the minimum of that model."""
        return -product(g)


class Box(Everywhere):
    """The box low ≤ x ≤ high."""

    bounded = True

    def __init__(self, low: Any, high: Any):
        self._low, self._high, self._fixed = low, high, low >= high
        self._near_low = jnp.minimum(low + NEAR * jnp.maximum(abs(low), 1), high)
        self._near_high = jnp.maximum(high - NEAR * jnp.maximum(abs(high), 1), low)

    def limited(self) -> Any:
        return (jnp.isfinite(self._low) | jnp.isfinite(self._high)).any()

    def project(self, x: Any) -> Any:
        return jnp.minimum(jnp.maximum(x, self._low), self._high)

    def held(self, x: Any, g: Any) -> Any:
        """Return which variables are fixed, or at a bound with −∇f pointing outwards."""
        return self._fixed | ((x <= self._low) & (g > 0)) | ((x >= self._high) & (g < 0))

    def free(self, x: Any, g: Any, v: Any) -> Any:
        return jnp.where(self.held(x, g), 0.0, v)

    def inward(self, x: Any, g: Any, p: Any) -> Any:
        down = (x <= self._near_low) & (p < 0) & (g <= 0)
        up = (x >= self._near_high) & (p > 0) & (g >= 0)
        return jnp.where(self.held(x, g) | down | up, 0.0, p)

    def measure(self, x: Any, g: Any) -> Any:
        return jnp.maximum(self._low - x, jnp.minimum(self._high - x, -g))

    def restrict(self, matrix: Any, x: Any, g: Any) -> Any:
        free = self.free(x, g, jnp.ones_like(x))
        return matrix * jnp.outer(free, free) + jnp.diag(1 - free)

    def ahead(self, x: Any, g: Any, p: Any, t: Any, slope: Any) -> tuple[Any, Any]:
        point = self.project(x + t * p)
        return point, dot(g, point - x)

    def solve(self, product: Any, diagonal: Callable[[], Any], x: Any, g: Any) -> Any:
        return without(product, self.free(x, g, g), self.held(x, g), diagonal)[0]

    def downhill(self, product: Any, diagonal: Callable[[], Any], x: Any, g: Any) -> Any:
        # what would leave the box ends at its bound, the others are computed for that, and what their model
        # then pulls inwards is released (primal-dual active sets: Hintermüller, Ito and Kunisch 2002)
        held, free = self.held(x, g), self.free(x, g, g)
        none, low, high = jnp.zeros_like(free), self._low - x, self._high - x

        def turn(s: _Corner) -> _Corner:
            target = jnp.where(s.out, s.ends, none)
            p, push = without(product, -free, held | s.out, diagonal, target)
            ends = jnp.clip(p, low, high)
            best = jnp.where((s.turns == 0) | (dot(free, ends) < 0), ends, s.best)
            stay = s.out & jnp.where(target > low, push > 0, push < 0)
            out = stay | (p < low) | (p > high)
            return _Corner(best, out, ends, s.turns + 1, (out ^ s.out).any())

        start = _Corner(none, none > 0, none, 0, (free == free).any())
        return jax.lax.while_loop(lambda s: s.open & (s.turns <= CORNERS), turn, start).best


class _Corner(NamedTuple):
    best: Any
    out: Any
    """The variables that end at their bounds, and `ends`, where those are."""
    ends: Any
    turns: Any
    open: Any


class _Pull(NamedTuple):
    z: Any
    rest: Any
    step: Any
    now: Any
    turns: Any


def without(
    product: Any, v: Any, held: Any, diagonal: Callable[[], Any], target: Any = 0.0
) -> tuple[Any, Any]:
    """Return G·(v − z) and z, with z in the held variables such that their result is zero, or `target`.

    For zero, that is the product of v with the inverse of the free block of G⁻¹. z is computed by conjugate
    gradients, preconditioned with the diagonal of G.
    """
    whole = product(v)
    none = jnp.zeros_like(whole)
    ease, rest = jnp.where(held, 1 / diagonal(), none), jnp.where(held, whole - target, none)
    first = dot(rest, ease * rest)

    def pull(s: _Pull) -> _Pull:
        moved = jnp.where(held, product(s.step), none)
        bend = dot(s.step, moved)
        t = jnp.where(bend > 0, s.now / jnp.where(bend > 0, bend, 1.0), 0.0)
        rest = s.rest - t * moved
        eased = ease * rest
        now = dot(rest, eased)
        return _Pull(s.z + t * s.step, rest, eased + (now / s.now) * s.step, now, s.turns + 1)

    start = _Pull(none, rest, ease * rest, first, 0)
    z = jax.lax.while_loop(lambda s: (s.now > PULLED * first) & (s.turns < PULLS), pull, start).z
    return jnp.where(held, target, whole - jnp.where(held.any(), product(z), none)), z


def difference(space: Everywhere, x: Any, v: Any, r: Any) -> tuple[Any, Any]:
    """Return where to evaluate ∇f for r·H·v, and the sign: the other way where x + r·v leaves the box."""
    if not space.bounded:
        return x + r * v, 1.0
    point = x + r * v
    sign = jnp.where((space.project(point) == point).all(), 1.0, -1.0)
    return space.project(x + sign * r * v), sign


def difference_length(eps: float, x: Any, v: Any) -> Any:
    """Return r for which r·v is about √ε of the size of x."""
    size = norm(v)
    return eps**0.5 * jnp.maximum(norm(x), 1.0) / jnp.where(size > 0, size, 1.0)
