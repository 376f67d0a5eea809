"""The pairs (s, y) of past steps and gradient changes, and the inverse Hessian G that they make.

BFGS over the pairs in the rows of S and Y, from the matrix γD with D diagonal, is in compact form

    G·v = γDv + Sᵀw − γDYᵀu,   u = R⁻¹Sv,   w = R⁻ᵀ((diag R + γYDYᵀ)u − γYDv),

R the part of SYᵀ in which s is no younger than y. R⁻¹ is kept, and gets a column with each pair, so that all
is products with matrices. The places are a ring: the newest pair overwrites the oldest, whose row of R⁻¹
becomes zero, and nothing moves. In the order of age R is triangular; no formula depends on the order of
places. Places that are not in use hold zeros in R⁻¹, and change nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._core.arrays import Array, Mask, Scalar, Whole, device
from .._core.kits import Kit
from .._core.matrix import CURVATURE

ASYMMETRY = 0.03
"""How far sᵢᵀy and yᵢᵀs may differ, in the scale of both pairs, if one quadratic is to explain them."""

INDEPENDENT = 1e-4
"""What must be left of sᵀy in the pair that is conjugate to the others; with less, they are let go."""

FRESH = 32
"""Up to so many pairs the metric D is renewed with each; after that whenever their number has doubled."""

LONG = 30.0
"""γ lies between the short ratio and the long one: it has LONG/(LONG + n) of the long, in logarithms."""


class Pairs(NamedTuple):
    """The pairs of a run; `add` and `clear` use up what they are called on."""

    S: Array
    Y: Array
    R: Array
    """R⁻¹."""
    YDY: Array
    """YDYᵀ, D as in `D_used`."""
    rho: Array
    """The sᵀy of each pair, the diagonal of R."""
    conjugate: Array
    """1 for the pairs that are mutually conjugate, else 0."""
    D: Array
    D_used: Array
    gamma: Scalar
    count: Whole  # pyright: ignore[reportIncompatibleMethodOverride]  nobody counts in this tuple
    """How many pairs were taken in, also those that are forgotten."""
    age: Whole
    """How many of them since `D_used` was renewed."""

    @staticmethod
    def start(kit: Kit, x: Array, capacity: int) -> Pairs:
        """Return no pairs, and room for so many."""
        n, rows = int(x.shape[-1]), tuple(x.shape[:-1])

        def zeros(*shape: int) -> Array:
            return kit.xp.zeros((*rows, *shape), dtype=x.dtype, device=device(x))

        zero, m = kit.norm(x) * 0, capacity
        none = 0 if kit.size is None else np.zeros(kit.size, dtype=np.int64)
        return Pairs(
            zeros(m, n), zeros(m, n), zeros(m, m), zeros(m, m), zeros(m), zeros(m),
            zeros(n) + 1, zeros(n) + 1, zero + 1, none, none,
        )  # fmt: skip

    @property
    def capacity(self) -> int:
        """How many pairs are kept."""
        return int(self.rho.shape[-1])

    def diagonal(self, kit: Kit) -> Array:
        """Return the diagonal of the matrix that the pairs began with."""
        return kit.times(self.gamma, self.D_used)

    def product(self, kit: Kit, v: Array) -> Array:
        """Return G·v."""
        k, gamma = kit.used(self.count, self.capacity), self.gamma
        first = kit.times(gamma, self.D_used * v)
        if k == 0:
            return first
        S, Y, R = self.S[..., :k, :], self.Y[..., :k, :], self.R[..., :k, :k]
        u = kit.dots(R, kit.dots(S, v))
        w = kit.times(gamma, kit.dots(self.YDY[..., :k, :k], u))
        w = kit.mix(w + self.rho[..., :k] * u - kit.dots(Y, first), R)
        return first + kit.mix(w, S) - kit.times(gamma, self.D_used * kit.mix(u, Y))

    def add(self, kit: Kit, s: Array, y: Array, sy: Scalar, length: Scalar) -> tuple[Pairs, Mask]:
        """Take in a pair, with sᵀy and ‖s‖, and return for which rows it was of use.

        The pair is first made conjugate to those that agree with it: G then fulfils the secant equations of
        them all, and not of the last alone.
        """
        useful = sy > CURVATURE * length * kit.norm(y)
        if not kit.any(useful):
            return self, useful
        if not kit.all(useful):
            sy = kit.pick(useful, sy, 1.0)
            s, y = kit.where(useful, s, s * 0), kit.where(useful, y, y * 0)
        capacity, k = self.capacity, kit.used(self.count, self.capacity)
        place, full = self.count % capacity, useful & (self.count >= capacity)
        D, inverted, conjugate = self._diagonal(kit, s, y, sy, useful), self.R, self.conjugate
        if kit.any(full):  # the inverse of a corner of R is a corner of R⁻¹
            inverted = kit.put(inverted, place, 0.0, full)
            conjugate = kit.put(conjugate, place, 0.0, full)
        s1, y1, rho, column = s, y, sy, self.rho * 0
        if k:
            s1, y1, rho, agree = self._conjugated(kit, k, s, y, sy, useful, conjugate[..., :k])
            conjugate = kit.fill(conjugate, agree)
        inverse = kit.pick(useful, 1 / kit.pick(useful, rho, 1.0), 0.0)
        if k:
            known = kit.dots(inverted[..., :k, :k], kit.dots(self.S[..., :k, :], y1))
            column = kit.fill(column, kit.times(-inverse, known))
        column = kit.put(column, place, inverse, useful)
        Y = kit.put(self.Y, place, y1, useful)
        YDY, D_used, age = self._metric(kit, Y, D, y1, place, useful)
        pairs = Pairs(
            kit.put(self.S, place, s1, useful), Y, _put_column(kit, inverted, place, column, useful), YDY,
            kit.put(self.rho, place, rho, useful), kit.put(conjugate, place, 1.0, useful),
            D, D_used, self._gamma(kit, s, y, sy, D_used, useful), self.count + useful, age,
        )  # fmt: skip
        return pairs, useful

    def clear(self, kit: Kit, rows: Mask) -> Pairs:
        """Forget all that was learnt in these rows; without R⁻¹, S and Y mean nothing."""
        parts = {name: getattr(self, name) for name in ("R", "YDY", "rho", "conjugate")}
        zeros = {name: kit.where(rows, kit.xp.zeros_like(a), a) for name, a in parts.items()}
        one = kit.xp.ones_like(self.D)
        D, D_used = kit.where(rows, one, self.D), kit.where(rows, one, self.D_used)
        count, age = kit.pick(rows, 0, self.count), kit.pick(rows, 0, self.age)
        return self._replace(D=D, D_used=D_used, count=count, age=age, **zeros)

    # --- parts -----------------------------------------------------------------------------------------

    def _diagonal(self, kit: Kit, s: Array, y: Array, sy: Scalar, useful: Mask) -> Array:
        """Return D updated by the diagonal of the BFGS formula (Gilbert and Lemaréchal, 1989)."""
        D, where = self.D, kit.xp.where
        old = 1 / D
        moved = s * old
        stretch = kit.ratio(kit.dot(y, D * y), sy)
        share = kit.ratio(stretch, kit.pick(useful, kit.dot(s, moved), 1.0))
        new = kit.times(stretch, old) + kit.times(1 / sy, y * y) - kit.times(share, moved * moved)
        positive = new > 0
        learnt = 1 / where(positive, new, old)
        return where(positive & (learnt > 0) & (learnt < np.inf), learnt, D)

    def _conjugated(
        self, kit: Kit, k: int, s: Array, y: Array, sy: Scalar, useful: Mask, conjugate: Array
    ) -> tuple[Array, Array, Scalar, Array]:
        """Return the pair without its parts along those that agree, its sᵀy, and which are conjugate to it.

        Where nothing is left of it, the pair stays as it is, and the others are let go.
        """
        S, Y, rho = self.S[..., :k, :], self.Y[..., :k, :], self.rho[..., :k]
        inverse = 1 / (rho + (rho == 0))
        with_s, with_y = kit.dots(Y, s), kit.dots(S, y)
        apart = (with_s - with_y) ** 2 * inverse
        agree = conjugate * (apart <= kit.times(ASYMMETRY**2 * sy, rho * 0 + 1))
        c = (with_s + with_y) / 2 * inverse * agree
        s1, y1 = s - kit.mix(c, S), y - kit.mix(c, Y)
        rest = kit.dot(s1, y1)
        enough = (rest > INDEPENDENT * sy) & (rest > CURVATURE * kit.norm(s1) * kit.norm(y1))
        agree = kit.where(useful, kit.where(enough, agree, agree * 0), conjugate)
        return kit.where(enough, s1, s), kit.where(enough, y1, y), kit.pick(enough, rest, sy), agree

    def _metric(
        self, kit: Kit, Y: Array, D: Array, y: Array, place: Whole, useful: Mask
    ) -> tuple[Array, Array, Whole]:
        """Return YDYᵀ with the new y, the D in it, and how many pairs ago that was renewed."""
        age, square, used = self.age + useful, self.YDY, self.D_used
        held = kit.pick(self.count < self.capacity, self.count, self.capacity)
        renew = useful & ((held < FRESH) | (age > held))
        k = kit.used(self.count + useful, self.capacity)
        changes = Y[..., :k, :]
        if kit.any(renew):
            used = kit.where(renew, D, used)
            new = kit.gram(changes * used[..., None, :], changes)
            square = kit.fill(square, kit.where(renew, new, square[..., :k, :k]))
        if not kit.all(renew):
            grown, column = kit.without(useful, renew), kit.fill(self.rho * 0, kit.dots(changes, used * y))
            square = kit.put(_put_column(kit, square, place, column, grown), place, column, grown)
        return square, used, kit.pick(renew, 0, age)

    def _gamma(self, kit: Kit, s: Array, y: Array, sy: Scalar, D: Array, useful: Mask) -> Scalar:
        """Return γ between the short ratio sᵀy/yᵀDy and the long one sᵀD⁻¹s/sᵀy."""
        part = LONG / (LONG + int(s.shape[-1]))
        short = kit.ratio(sy, kit.pick(useful, kit.dot(y, D * y), 1.0))
        long = kit.ratio(kit.pick(useful, kit.dot(s, s / D), 1.0), sy)
        # power, since ** rounds a number and an array differently
        gamma = kit.num.power(short, 1 - part) * kit.num.power(long, part)
        return kit.pick(useful & (gamma > 0) & (gamma < np.inf), gamma, self.gamma)


def _put_column(kit: Kit, a: Array, place: Whole, column: Array, rows: Mask) -> Array:
    return kit.put(a.swapaxes(-1, -2), place, column, rows).swapaxes(-1, -2)
