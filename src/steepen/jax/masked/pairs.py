"""The memory of cgd-auto: pairs (s, y) of steps and gradient changes, and the inverse Hessian G they define.

Pairs are kept in the rows of S and Y, scaled so that sᵀy = 1. BFGS over them, from the matrix γD with D
diagonal, is

    G = (I − SᵀR⁻ᵀY)·γD·(I − YᵀR⁻¹S) + SᵀR⁻ᵀ·R⁻¹S,

R the part of SYᵀ in which s is no younger than y. R⁻¹ is kept, and gets a column with each pair, so that all
operations are matrix products, and D may change at any time. Storage is a ring buffer: the newest pair
overwrites the oldest, whose row of R⁻¹ becomes zero, and nothing moves. Ordered by age, R is triangular;
no formula depends on the order of slots. Unused slots hold zeros in R⁻¹ and have no effect. No evaluations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from ...arrays import Array, Mask, Scalar, Whole, device
from .backend import Backend
from .matrix import CURVATURE

ASYMMETRY = 0.03  # sᵢᵀy and yᵢᵀs of one quadratic differ by no more than this, in the scale of both pairs
INDEPENDENT = 1e-4  # if less of sᵀy is left in the pair made conjugate to the others, these are dropped
LONG = 30.0  # γ has LONG/(LONG + n) of the long ratio, and the rest of the short one, in logarithms


class Pairs(NamedTuple):
    """The pairs of a run; `add` and `clear` consume the object they are called on."""

    S: Array
    Y: Array
    R: Array  # R⁻¹
    conjugate: Array  # 1 for the pairs that are mutually conjugate, else 0
    D: Array
    E: Array  # 1/D
    gamma: Scalar
    # the pairs added, including those overwritten
    count: Whole  # pyright: ignore[reportIncompatibleMethodOverride]  nobody counts in this tuple

    @staticmethod
    def start(backend: Backend, x: Array, capacity: int) -> Pairs:
        """Return an empty memory with this capacity."""
        n, rows = int(x.shape[-1]), tuple(x.shape[:-1])

        def zeros(*shape: int) -> Array:
            return backend.xp.zeros((*rows, *shape), dtype=x.dtype, device=device(x))

        one, m, ones = backend.norm(x) * 0 + 1, capacity, zeros(n) + 1
        kind, wide = (Folded, n) if m > n else (Pairs, m)
        return kind(zeros(m, n), zeros(m, n), zeros(m, wide), zeros(m), ones, ones, one, 0)

    @property
    def capacity(self) -> int:
        return int(self.conjugate.shape[-1])

    def diagonal(self, backend: Backend) -> Array:
        """Return the diagonal of the initial matrix."""
        return backend.times(self.gamma, self.D)

    def product(self, backend: Backend, v: Array) -> Array:
        """Return G·v."""
        k = backend.used(self.count, self.capacity)
        if k == 0:
            return backend.times(self.gamma, self.D * v)
        Y, u = _first(self.Y, k), self._shares(backend, v, k)
        plain = backend.times(self.gamma, self.D * (v - backend.mix(u, Y)))
        return plain + self._steps(backend, u - backend.dots(Y, plain), k)

    def products(self, backend: Backend, many: bool) -> Callable[[Array], Array]:
        """Return v ↦ G·v; with a dense G where `many` products of short vectors are traced."""
        if many and backend.dense(self.D):
            return partial(backend.product, self.matrix(backend))
        return partial(self.product, backend)

    def matrix(self, backend: Backend) -> Array:
        """Return G itself."""
        k = backend.used(self.count, self.capacity)
        Y, U = _first(self.Y, k), self._folded(k)
        rest = backend.identity(self.D) - Y.swapaxes(-1, -2) @ U
        plain = rest.swapaxes(-1, -2) @ (self.diagonal(backend)[..., None] * rest)
        return plain + U.swapaxes(-1, -2) @ U

    def add(self, backend: Backend, s: Array, y: Array, sy: Scalar, length: Scalar) -> tuple[Pairs, Mask]:
        """Add a pair, with sᵀy and ‖s‖, and return for which rows it was used.

        The pair is first made conjugate to those consistent with it: G then satisfies the secant equations
        of all of them, not only the last.
        """
        useful = sy > CURVATURE * length * backend.norm(y)
        if not backend.any(useful):
            return self, useful
        if not backend.all(useful):
            sy = backend.select(useful, sy, 1.0)
            s, y = backend.select(useful, s, s * 0), backend.select(useful, y, y * 0)
        capacity, k = self.capacity, backend.used(self.count, self.capacity)
        place, full = self.count % capacity, useful & (self.count >= capacity)
        D, E, gamma = self._metric(backend, s, y, sy, useful)
        inverted, conjugate = self.R, self.conjugate
        if backend.any(full):  # the inverse of a corner of R is a corner of R⁻¹
            inverted = backend.put(inverted, place, 0.0, full)
            conjugate = backend.put(conjugate, place, 0.0, full)
        if k:
            s, y, sy, agree = self._conjugated(backend, k, s, y, sy, useful, conjugate[..., :k])
            conjugate = backend.fill(conjugate, agree)
        unit = 1 / backend.num.sqrt(backend.select(useful, sy, 1.0))
        s, y = backend.times(unit, s), backend.times(unit, y)
        inverted = self._grown(backend, k, inverted, s, y, place, useful)
        pairs = self.__class__(
            backend.put(self.S, place, s, useful), backend.put(self.Y, place, y, useful), inverted,
            backend.put(conjugate, place, 1.0, useful), D, E, gamma, self.count + useful,
        )  # fmt: skip
        return pairs, useful

    def clear(self, backend: Backend, rows: Mask, diagonal: Array | None = None) -> Pairs:
        """Remove all pairs of these rows; without R⁻¹, S and Y have no effect."""
        metric: Array = backend.xp.ones_like(self.D) if diagonal is None else diagonal
        return self._replace(
            R=backend.select(rows, backend.xp.zeros_like(self.R), self.R),
            conjugate=backend.select(rows, backend.xp.zeros_like(self.conjugate), self.conjugate),
            D=backend.select(rows, metric, self.D), E=backend.select(rows, 1 / metric, self.E),
            count=backend.select(rows, 0, self.count),
        )  # fmt: skip

    # --- parts -----------------------------------------------------------------------------------------

    def _shares(self, backend: Backend, v: Array, k: int) -> Array:
        """Return R⁻¹S·v."""
        return backend.dots(self.R[..., :k, :k], backend.dots(_first(self.S, k), v))

    def _steps(self, backend: Backend, c: Array, k: int) -> Array:
        """Return SᵀR⁻ᵀ·c."""
        return backend.mix(backend.mix(c, self.R[..., :k, :k]), _first(self.S, k))

    def _folded(self, k: int) -> Array:
        """Return R⁻¹S."""
        return self.R[..., :k, :k] @ _first(self.S, k)

    def _grown(
        self, backend: Backend, k: int, R: Array, s: Array, y: Array, place: Whole, useful: Mask
    ) -> Array:
        """Return R⁻¹ extended by the column of a new pair."""
        column = self.conjugate * 0
        if k:
            column = backend.fill(column, -backend.dots(R[..., :k, :k], backend.dots(_first(self.S, k), y)))
        column = backend.put(column, place, 1.0, useful)
        return backend.put(R.swapaxes(-1, -2), place, column, useful).swapaxes(-1, -2)

    def _metric(
        self, backend: Backend, s: Array, y: Array, sy: Scalar, useful: Mask
    ) -> tuple[Array, Array, Scalar]:
        """Return D, by the diagonal of the BFGS formula (Gilbert and Lemaréchal, 1989), 1/D and γ.

        γ lies between the short ratio sᵀy/yᵀDy and the long one sᵀD⁻¹s/sᵀy.
        """
        moved, square = s * self.E, y * y
        short, long = backend.inner((square, self.D), (s, moved))
        stretch = backend.ratio(short, sy)
        share = backend.ratio(stretch, backend.select(useful, long, 1.0))
        # it is negative by rounding alone
        rest = abs(backend.times(stretch, self.E) - backend.times(share, moved * moved))
        new = backend.select(useful, rest + backend.times(1 / sy, square), self.E)
        inverse = 1 / new
        learnt = backend.finite(inverse + new)
        D, E = backend.select(learnt, inverse, self.D), backend.select(learnt, new, self.E)
        part = LONG / (LONG + int(s.shape[-1]))
        short, long = backend.inner((square, D), (s, E * s))
        ratio = backend.ratio(sy, backend.select(useful, short, 1.0))
        longer = backend.ratio(backend.ratio(backend.select(useful, long, 1.0), sy), ratio)
        gamma = ratio * backend.num.power(longer, part)  # ** rounds a number and an array differently
        return D, E, backend.select(useful & (gamma > 0) & (gamma < np.inf), gamma, self.gamma)

    def _conjugated(
        self, backend: Backend, k: int, s: Array, y: Array, sy: Scalar, useful: Mask, conjugate: Array
    ) -> tuple[Array, Array, Scalar, Array]:
        """Return the pair made conjugate to the consistent ones, its sᵀy, and which are conjugate to it."""
        S, Y = _first(self.S, k), _first(self.Y, k)
        with_s, with_y = backend.dots(Y, s), backend.dots(S, y)
        apart = with_s - with_y
        agree = conjugate * (backend.times(1 / sy, apart * apart) <= ASYMMETRY**2)
        if not backend.any(backend.some(agree > 0)):
            return s, y, sy, agree
        c = 0.5 * agree * (with_s + with_y)
        s1, y1 = s - backend.mix(c, S), y - backend.mix(c, Y)
        rest, along, across = backend.inner((s1, y1), (s1, s1), (y1, y1))
        least = CURVATURE * backend.root(along, s1) * backend.root(across, y1)
        enough = (rest > INDEPENDENT * sy) & (rest > least)
        if not backend.all(enough):  # then it is kept unchanged, and the others are dropped
            s1, y1 = backend.select(enough, s1, s), backend.select(enough, y1, y)
            rest = backend.select(enough, rest, sy)
            agree = backend.select(useful, backend.select(enough, agree, agree * 0), conjugate)
        return s1, y1, rest, agree


class Folded(Pairs):
    """The same with U = R⁻¹S in place of R⁻¹, which is smaller where there are more places than variables.

    G = (I − UᵀY)·γD·(I − YᵀU) + UᵀU. With a new pair U becomes U − (U·y)sᵀ, and has s as its newest row.
    """

    def _shares(self, backend: Backend, v: Array, k: int) -> Array:
        return backend.dots(_first(self.R, k), v)

    def _steps(self, backend: Backend, c: Array, k: int) -> Array:
        return backend.mix(c, _first(self.R, k))

    def _folded(self, k: int) -> Array:
        return _first(self.R, k)

    def _grown(
        self, backend: Backend, k: int, R: Array, s: Array, y: Array, place: Whole, useful: Mask
    ) -> Array:
        rest = backend.minus_outer(R, backend.dots(_first(R, k), y), s) if k else R
        return backend.put(rest, place, s, useful)


def _first(matrix: Array, k: int) -> Array:
    """Return the first rows of a matrix, or of each in a batch; plain slices are twice as fast."""
    return matrix[:k] if matrix.ndim == 2 else matrix[:, :k]
