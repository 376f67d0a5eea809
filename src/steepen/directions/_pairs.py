"""The pairs (s, y) of past steps and gradient changes, and the inverse Hessian G that they make.

Pairs are kept in the rows of S and Y, scaled so that sᵀy = 1. BFGS over them, from the matrix γD with D
diagonal, is

    G = (I − SᵀR⁻ᵀY)·γD·(I − YᵀR⁻¹S) + SᵀR⁻ᵀ·R⁻¹S,

R the part of SYᵀ in which s is no younger than y. R⁻¹ is kept, and gets a column with each pair, so that all
is products with matrices, and D may change whenever it likes. The places are a ring: the newest pair
overwrites the oldest, whose row of R⁻¹ becomes zero, and nothing moves. In the order of age R is triangular;
no formula depends on the order of places. Places that are not in use hold zeros in R⁻¹, and change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from .._core.arrays import Array, Mask, Scalar, Whole, device
from .._core.kits import Kit
from .._core.matrix import CURVATURE

ASYMMETRY = 0.03
"""How far sᵢᵀy and yᵢᵀs may differ, in the scale of both pairs, if one quadratic is to explain them."""

INDEPENDENT = 1e-4
"""What must be left of sᵀy in the pair that is conjugate to the others; with less, they are let go."""

LONG = 30.0
"""γ lies between the short ratio and the long one: it has LONG/(LONG + n) of the long, in logarithms."""


class Pairs(NamedTuple):
    """The pairs of a run; `add` and `clear` use up what they are called on."""

    S: Array
    Y: Array
    R: Array
    """R⁻¹."""
    conjugate: Array
    """1 for the pairs that are mutually conjugate, else 0."""
    D: Array
    E: Array
    """1/D."""
    gamma: Scalar
    count: Whole  # pyright: ignore[reportIncompatibleMethodOverride]  nobody counts in this tuple
    """How many pairs were taken in, also those that are forgotten."""

    @staticmethod
    def start(kit: Kit, x: Array, capacity: int) -> Pairs:
        """Return no pairs, and room for so many."""
        n, rows = int(x.shape[-1]), tuple(x.shape[:-1])

        def zeros(*shape: int) -> Array:
            return kit.xp.zeros((*rows, *shape), dtype=x.dtype, device=device(x))

        one, m, ones = kit.norm(x) * 0 + 1, capacity, zeros(n) + 1
        none = 0 if kit.size is None else np.zeros(kit.size, dtype=np.int64)
        kind, wide = (Folded, n) if kit.dense(x) else (Pairs, m)
        return kind(zeros(m, n), zeros(m, n), zeros(m, wide), zeros(m), ones, ones, one, none)

    @property
    def capacity(self) -> int:
        """How many pairs are kept."""
        return int(self.conjugate.shape[-1])

    def diagonal(self, kit: Kit) -> Array:
        """Return the diagonal of the matrix that the pairs began with."""
        return kit.times(self.gamma, self.D)

    def product(self, kit: Kit, v: Array) -> Array:
        """Return G·v."""
        k = kit.used(self.count, self.capacity)
        if k == 0:
            return kit.times(self.gamma, self.D * v)
        Y, u = self.Y[..., :k, :], self._shares(kit, v, k)
        plain = kit.scaled(self.gamma, self.D * (v - kit.mix(u, Y)))
        return plain + self._steps(kit, u - kit.dots(Y, plain), k)

    def products(self, kit: Kit, many: bool) -> Callable[[Array], Array]:
        """Return v ↦ G·v; where `many` products of short vectors are to be traced, by the matrix itself."""
        return (
            partial(kit.product, self.matrix(kit))
            if many and kit.dense(self.D)
            else partial(self.product, kit)
        )

    def matrix(self, kit: Kit) -> Array:
        """Return G itself."""
        k = kit.used(self.count, self.capacity)
        Y, U = self.Y[..., :k, :], self._folded(k)
        rest = kit.identity(self.D) - kit.cross(Y, U)
        return kit.cross(rest, self.diagonal(kit)[..., None] * rest) + kit.cross(U, U)

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
        D, E, gamma = self._metric(kit, s, y, sy, useful)
        inverted, conjugate = self.R, self.conjugate
        if kit.any(full):  # the inverse of a corner of R is a corner of R⁻¹
            inverted = kit.put(inverted, place, 0.0, full)
            conjugate = kit.put(conjugate, place, 0.0, full)
        if k:
            s, y, sy, agree = self._conjugated(kit, k, s, y, sy, useful, conjugate[..., :k])
            conjugate = kit.fill(conjugate, agree)
        unit = 1 / kit.num.sqrt(kit.pick(useful, sy, 1.0))
        s, y = kit.times(unit, s), kit.times(unit, y)
        inverted = self._grown(kit, k, inverted, s, y, place, useful)
        pairs = self.__class__(
            kit.put(self.S, place, s, useful), kit.put(self.Y, place, y, useful), inverted,
            kit.put(conjugate, place, 1.0, useful), D, E, gamma, self.count + useful,
        )  # fmt: skip
        return pairs, useful

    def clear(self, kit: Kit, rows: Mask, diagonal: Array | None = None) -> Pairs:
        """Forget all that was learnt in these rows; without R⁻¹, S and Y mean nothing."""
        metric: Array = kit.xp.ones_like(self.D) if diagonal is None else diagonal
        return self._replace(
            R=kit.where(rows, kit.xp.zeros_like(self.R), self.R),
            conjugate=kit.where(rows, kit.xp.zeros_like(self.conjugate), self.conjugate),
            D=kit.where(rows, metric, self.D), E=kit.where(rows, 1 / metric, self.E),
            count=kit.pick(rows, 0, self.count),
        )  # fmt: skip

    # --- parts -----------------------------------------------------------------------------------------

    def _shares(self, kit: Kit, v: Array, k: int) -> Array:
        """Return R⁻¹S·v."""
        return kit.dots(self.R[..., :k, :k], kit.dots(self.S[..., :k, :], v))

    def _steps(self, kit: Kit, c: Array, k: int) -> Array:
        """Return SᵀR⁻ᵀ·c."""
        return kit.mix(kit.mix(c, self.R[..., :k, :k]), self.S[..., :k, :])

    def _folded(self, k: int) -> Array:
        """Return R⁻¹S."""
        return self.R[..., :k, :k] @ self.S[..., :k, :]

    def _grown(self, kit: Kit, k: int, R: Array, s: Array, y: Array, place: Whole, useful: Mask) -> Array:
        """Return R⁻¹ with the column of a new pair."""
        column = self.conjugate * 0
        if k:
            column = kit.fill(column, -kit.dots(R[..., :k, :k], kit.dots(self.S[..., :k, :], y)))
        column = kit.put(column, place, 1.0, useful)
        return kit.put(R.swapaxes(-1, -2), place, column, useful).swapaxes(-1, -2)

    def _metric(self, kit: Kit, s: Array, y: Array, sy: Scalar, useful: Mask) -> tuple[Array, Array, Scalar]:
        """Return D, 1/D and γ with a pair taken in.

        D is updated by the diagonal of the BFGS formula (Gilbert and Lemaréchal, 1989); γ lies between the
        short ratio sᵀy/yᵀDy and the long one sᵀD⁻¹s/sᵀy.
        """
        moved = s * self.E
        short, long = kit.inner((y, self.D * y), (s, moved))
        stretch = kit.ratio(short, sy)
        share = kit.ratio(stretch, kit.pick(useful, long, 1.0))
        # it is negative by rounding alone
        rest = abs(kit.times(stretch, self.E) - kit.scaled(share, moved * moved))
        new = kit.where(useful, rest + kit.scaled(1 / sy, y * y), self.E)
        inverse = 1 / new
        learnt = kit.finite(inverse + new)
        D, E = kit.where(learnt, inverse, self.D), kit.where(learnt, new, self.E)
        part = LONG / (LONG + int(s.shape[-1]))
        short, long = kit.inner((y, D * y), (s, E * s))
        ratio = kit.ratio(sy, kit.pick(useful, short, 1.0))
        longer = kit.ratio(kit.ratio(kit.pick(useful, long, 1.0), sy), ratio)
        gamma = ratio * kit.num.power(longer, part)  # ** rounds a number and an array differently
        return D, E, kit.pick(useful & (gamma > 0) & (gamma < np.inf), gamma, self.gamma)

    def _conjugated(
        self, kit: Kit, k: int, s: Array, y: Array, sy: Scalar, useful: Mask, conjugate: Array
    ) -> tuple[Array, Array, Scalar, Array]:
        """Return the pair without its parts along those that agree, its sᵀy, and which are conjugate to it.

        Where nothing is left of it, the pair stays as it is, and the others are let go.
        """
        S, Y = self.S[..., :k, :], self.Y[..., :k, :]
        with_s, with_y = kit.dots(Y, s), kit.dots(S, y)
        apart = with_s - with_y
        agree = conjugate * (kit.times(1 / sy, apart * apart) <= ASYMMETRY**2)
        c = 0.5 * agree * (with_s + with_y)
        s1, y1 = s - kit.mix(c, S), y - kit.mix(c, Y)
        rest, along, across = kit.inner((s1, y1), (s1, s1), (y1, y1))
        enough = (rest > INDEPENDENT * sy) & (rest > CURVATURE * kit.root(along, s1) * kit.root(across, y1))
        if not kit.all(enough):
            s1, y1, rest = kit.where(enough, s1, s), kit.where(enough, y1, y), kit.pick(enough, rest, sy)
            agree = kit.where(useful, kit.where(enough, agree, agree * 0), conjugate)
        return s1, y1, rest, agree


class Folded(Pairs):
    """The same with U = R⁻¹S in the place of R⁻¹, which has fewer numbers where vectors are short.

    G = (I − UᵀY)·γD·(I − YᵀU) + UᵀU. With a new pair U becomes U − (U·y)sᵀ, and has s as its newest row.
    """

    def _shares(self, kit: Kit, v: Array, k: int) -> Array:
        return kit.dots(self.R, v)

    def _steps(self, kit: Kit, c: Array, k: int) -> Array:
        return kit.mix(c, self.R)

    def _folded(self, k: int) -> Array:
        return self.R

    def _grown(self, kit: Kit, k: int, R: Array, s: Array, y: Array, place: Whole, useful: Mask) -> Array:
        rest = R - kit.dots(R, y)[..., :, None] * s[..., None, :]
        return kit.put(rest, place, s, useful)
