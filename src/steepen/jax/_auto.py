"""cgd-auto: its pairs, what a step teaches, and the next step; see `steepen.methods.auto` and `pairs`."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from ..methods.auto import BOLD, BOOST, FAINT, GROWTH, LONGEST, NOISE, SHORTEST
from ..methods.matrix import CURVATURE
from ..methods.pairs import ASYMMETRY, INDEPENDENT, LONG
from ._jax import jax, jnp
from ._methods import Found, Method
from ._numbers import dot, finite, norm, put, safe_norm, times

DENSE = 16
"""Up to so many variables a box has G itself: it is applied to several vectors."""


class Pairs(NamedTuple):
    """Pairs in the rows of S and Y, scaled so that sᵀy = 1, and G = (I − UᵀY)·γD·(I − YᵀU) + UᵀU."""

    S: Any
    Y: Any
    U: Any
    conjugate: Any
    metric: Any
    gamma: Any
    count: Any


def product(pairs: Pairs, v: Any) -> Any:
    """Return G·v."""
    u = times(pairs.U, v)
    plain = pairs.gamma * (pairs.metric * (v - times(u, pairs.Y)))
    return plain + times(u - times(pairs.Y, plain), pairs.U)


def matrix_of(pairs: Pairs) -> Any:
    """Return G itself."""
    rest = jnp.eye(pairs.metric.size, dtype=pairs.metric.dtype) - times(pairs.Y.T, pairs.U)
    return times(rest.T, (pairs.gamma * pairs.metric)[:, None] * rest) + times(pairs.U.T, pairs.U)


def added(pairs: Pairs, s: Any, y: Any, sy: Any, length: Any, wanted: Any) -> tuple[Pairs, Any]:
    """Return the pairs with another one, made conjugate to the consistent ones, and whether it was used."""
    capacity = pairs.S.shape[0]
    good = wanted & (sy > CURVATURE * length * norm(y))
    s, y, sy = jnp.where(good, s, 0.0), jnp.where(good, y, 0.0), jnp.where(good, sy, 1.0)
    metric, gamma = _metric(pairs, s, y, sy, good)
    place, full = pairs.count % capacity, good & (pairs.count >= capacity)
    older, conjugate = (put(rows, place, 0.0, full) for rows in (pairs.U, pairs.conjugate))
    s, y, sy, agree = _made_conjugate(pairs, conjugate, s, y, sy)
    unit = jnp.where(good, 1 / jnp.sqrt(sy), 0.0)
    s, y = unit * s, unit * y
    older = older - times(older, y)[:, None] * s
    conjugate = jnp.where(good, agree, conjugate)
    S, Y = put(pairs.S, place, s, good), put(pairs.Y, place, y, good)
    U, conjugate = put(older, place, s, good), put(conjugate, place, 1.0, good)
    return Pairs(S, Y, U, conjugate, metric, gamma, pairs.count + good), good


def _metric(pairs: Pairs, s: Any, y: Any, sy: Any, good: Any) -> tuple[Any, Any]:
    """Return D by the diagonal of the BFGS formula (Gilbert and Lemaréchal, 1989), and γ."""
    curvature, square = 1 / pairs.metric, y * y
    moved, stretch = curvature * s, dot(square, pairs.metric) / sy
    new = stretch * curvature - moved * moved * (stretch / dot(s, moved))
    new = abs(new) + square / sy
    inverse = 1 / new
    metric = jnp.where(good & finite(inverse + new), inverse, pairs.metric)
    short = sy / dot(square, metric)
    gamma = short * (dot(s, s / metric) / sy / short) ** (LONG / (LONG + s.shape[0]))
    return metric, jnp.where(good & (gamma > 0) & (gamma < jnp.inf), gamma, pairs.gamma)


def _made_conjugate(pairs: Pairs, conjugate: Any, s: Any, y: Any, sy: Any) -> tuple[Any, Any, Any, Any]:
    """Return the pair made conjugate to the consistent ones, its sᵀy, and which these are."""
    with_s, with_y = times(pairs.Y, s), times(pairs.S, y)
    agree = conjugate * ((with_s - with_y) ** 2 / sy <= ASYMMETRY**2)
    c = 0.5 * agree * (with_s + with_y)
    s1, y1 = s - times(c, pairs.S), y - times(c, pairs.Y)
    rest, some = dot(s1, y1), agree.any()
    fine = (rest > INDEPENDENT * sy) & (rest > CURVATURE * norm(s1) * norm(y1))
    used = fine & some
    s, y, sy = (jnp.where(used, new, old) for new, old in ((s1, s), (y1, y), (rest, sy)))
    return s, y, sy, jnp.where(fine | ~some, agree, 0.0)


class Learnt(NamedTuple):
    """The memory of cgd-auto; gradients and values are those of scale·f."""

    pairs: Pairs
    scale: Any
    x: Any
    f: Any
    g: Any
    g_before: Any
    boost: Any
    longest: Any
    paired: Any
    slope: Any
    """∇fᵀp of the unit step, the same with the last ∇f, and ‖p‖."""
    past: Any
    length: Any
    factor: Any
    taken: Any
    """How much of the unit step was taken; 0 where it gave no pair. Then sᵀy, and −∇fᵀp of that unit step."""
    sy: Any
    omega: Any


class CGDAuto(Method):
    """CGD that needs no α, λ or r: a BFGS method whose every unit step is a CGD step."""

    verifies = True

    def begin(self, x: Any, f: Any, g: Any) -> Learnt:
        n, size = x.shape[0], safe_norm(g)
        low, high = (1e-300, 1e300) if x.dtype == jnp.float64 else (1e-37, 1e37)
        scale = jnp.where(size > 0, 2.0 ** -jnp.round(jnp.log2(jnp.clip(size, low, high))), 1.0)
        zero, g = jnp.zeros((), x.dtype), scale * g
        unit = jnp.maximum(1.0, self.eps**0.5 * norm(x))
        longest = LONGEST * jnp.maximum(norm(x), 1.0)
        length = jnp.clip(2 * abs(f) / size / unit, SHORTEST, longest / unit)
        length = jnp.where(self.space.limited(), 1.0, length)
        free = norm(self.space.free(x, g, g))
        gamma = length * unit / jnp.where(free > 0, free, 1.0)
        empty = jnp.zeros((self.given.pairs, n), x.dtype)
        pairs = Pairs(empty, empty, empty, empty[:, 0], jnp.ones_like(x), gamma, jnp.zeros((), jnp.int32))
        one, none = zero + 1, jnp.zeros((), jnp.int32)
        return Learnt(
            pairs, scale, x, scale * f, g, g, one, zero, none, zero, zero, zero, one, zero, zero, zero
        )

    def learn(self, memory: Learnt, x: Any, f: Any, g: Any, rows: Any) -> Learnt:
        m, f, g = memory, memory.scale * f, memory.scale * g
        s, y = x - m.x, g - m.g
        square, sy, ahead = dot(s, s), dot(s, y), dot(g, s)
        length = jnp.sqrt(square)
        # the curvature at the new point, by the cubic through values and slopes (Zhang, Deng and Chen, 1999)
        third = 6 * (m.f - f + ahead) - 3 * sy
        sound = (sy > NOISE * self.eps * abs(f)) & (abs(third) < sy)
        third = jnp.where(sound, third, 0.0)
        y, sy = y + (third / jnp.where(sound, length, 1.0) ** 2) * s, sy + third
        faint = (m.paired == 0) & (sy > 0) & (sy < -FAINT * dot(m.g, s))
        pairs, useful = added(m.pairs, s, y, sy, length, (length > 0) & ~faint & rows)
        bolder = m.boost * jnp.where(faint, GROWTH, jnp.where(m.boost < BOLD, BOOST, BOLD))
        boost = jnp.where((length > 0) & ((sy <= 0) | faint), bolder, m.boost)
        known = useful & (m.length > 0)
        new = m._replace(
            pairs=None, x=x, f=f, g=g, g_before=m.g, boost=jnp.where(useful, 1.0, boost),
            longest=jnp.maximum(m.longest, length), paired=m.paired + useful, sy=sy, omega=-m.slope,
            taken=jnp.where(known, length / jnp.where(known, m.length, 1.0), 0.0),
        )  # fmt: skip
        if rows is not True:
            new = jax.tree.map(lambda a, b: jnp.where(rows, a, b), new, m._replace(pairs=None))
        return new._replace(pairs=pairs)

    def direction(self, memory: Learnt, k: Any, x: Any, g: Any) -> Found:
        m, pairs = memory, memory.pairs
        with_g = partial(product, pairs)
        if self.space.bounded and x.shape[0] <= DENSE:
            with_g = partial(times, matrix_of(pairs))
        p = self.space.downhill(with_g, lambda: self._diagonal(pairs), m.x, m.g)
        length = norm(p)
        room = jnp.where(m.longest > 0, GROWTH * m.longest, jnp.inf)
        factor = jnp.minimum(m.boost, room / jnp.where(length > 0, length, 1.0))
        memory = m._replace(slope=dot(m.g, p), past=dot(m.g_before, p), length=length, factor=factor)
        return Found(factor * p, 0.0, memory)

    @staticmethod
    def _diagonal(pairs: Pairs) -> Any:
        """Return the diagonal of the initial matrix."""
        return pairs.gamma * pairs.metric

    def amounts(self, memory: Learnt, alpha: Any, lam: Any) -> tuple[Any, Any]:
        """Return the α and λ of the CGD step from the previous point that ends where this step does."""
        m, t = memory, alpha * memory.factor
        unit = 1 + m.taken - m.past / m.omega
        whole = t * unit
        both = whole + (1 - t) * m.taken
        lam = whole * (-0.5 * m.taken * m.taken * m.omega / (unit * m.sy)) / jnp.where(both == 0, 1.0, both)
        return jnp.where(m.taken > 0, both, t), jnp.where(m.taken > 0, lam, 0.0)
