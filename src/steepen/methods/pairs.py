"""The memory of cgd-auto: pairs (s, y) of steps and gradient changes, and the inverse Hessian G they define.

Pairs are kept in the rows of S and Y, scaled so that sᵀy = 1. BFGS over them, from the matrix γD with D
diagonal, is

    G = (I − UᵀY)·γD·(I − YᵀU) + UᵀU,   U = R⁻¹S,

R the part of SYᵀ in which s is no younger than y. With a new pair U becomes U − (U·y)sᵀ, and has s as its
newest row: all operations are matrix products, and D may change at any time. Storage is a ring buffer: the
newest pair overwrites the oldest, and nothing moves. No formula depends on the order of rows.

As long as one quadratic explains the pairs, all of them count: G is then its inverse Hessian on their span,
and with n pairs everywhere. The buffer therefore grows where it is full of mutually conjugate pairs.
Elsewhere old pairs are of another quadratic than the one near x, and are not worth their products.
"""

from __future__ import annotations

import math
import operator
from math import inf
from typing import Any, cast

import numpy as np

from ..arrays import device, is_numpy, namespace
from ..questions import Vector
from ..vectors import norm, ratio
from .matrix import CURVATURE, subtract_outer

ASYMMETRY = 0.03  # sᵢᵀy and yᵢᵀs of one quadratic differ by no more than this, in the scale of both pairs
INDEPENDENT = 1e-4  # if less of sᵀy is left in the pair made conjugate to the others, these are dropped
CONSISTENT = 0.9  # the buffer grows where this part of the pairs is mutually conjugate
LONG = 30.0  # γ has LONG/(LONG + n) of the long ratio, and the rest of the short one, in logarithms


class Pairs:
    """The pairs of a run: up to `capacity`, and up to `most` of one quadratic."""

    def __init__(self, x: Vector, capacity: int, most: int = 0):
        self.n = int(x.shape[-1])
        xp, where = namespace(x), device(x)
        self.S, self.Y, self.U = (xp.zeros((capacity, self.n), dtype=x.dtype, device=where) for _ in range(3))
        self.conjugate = xp.zeros(capacity, dtype=x.dtype, device=where)
        """1 for the pairs that are mutually conjugate, else 0."""
        self.capacity, self.most = capacity, most
        self.count = 0
        """How many pairs were added, including those overwritten, since the buffer last grew."""
        self.used = 0
        """How many rows hold a pair."""
        self.metric: Vector = xp.ones_like(x)
        """D, and 1/D: |f″| along each variable, in the scale of γ."""
        self.curvature: Vector = self.metric
        self.gamma = 1.0
        self._of_long = LONG / (LONG + self.n)
        self._times: Any = np.ndarray.dot if is_numpy(x) else cast("Any", operator).matmul

    def clear(self, metric: Vector = None) -> None:
        """Forget all pairs, and take another metric."""
        self.count = self.used = 0
        self.metric = self.metric * 0 + 1 if metric is None else metric
        self.curvature = 1 / self.metric

    def diagonal(self) -> Vector:
        """Return the diagonal of the initial matrix."""
        return self.gamma * self.metric

    def product(self, v: Vector) -> Vector:
        """Return G·v."""
        k, times = self.used, self._times
        if k == 0:
            return self.gamma * (self.metric * v)
        Y, U = self.Y[:k], self.U[:k]
        u = times(U, v)
        plain = v - times(u, Y)
        plain *= self.metric
        plain *= self.gamma
        u -= times(Y, plain)
        plain += times(u, U)
        return plain

    def add(self, s: Vector, y: Vector, sy: float, length: float) -> bool:
        """Add a pair, with sᵀy and ‖s‖, and return whether it was used.

        The pair is first made conjugate to those consistent with it: G then satisfies the secant equations
        of all of them, not only the last.
        """
        if not sy > CURVATURE * length * norm(y):
            return False
        if self.used == self.capacity < self.most:
            self._grow()
        self._learn_metric(s, y, sy)
        k = place = self.used
        if k == self.capacity:  # the oldest pair goes
            place = self.count % k
            self.U[place] = 0.0
            self.conjugate[place] = 0.0
        if k:
            s, y, sy = self._made_conjugate(k, s, y, sy)
        unit = 1 / math.sqrt(sy)
        s, y = unit * s, unit * y
        if k:
            older = self.U[:k]
            subtract_outer(older, self._times(older, y), s)
        self.S[place], self.Y[place], self.U[place] = s, y, s
        self.conjugate[place] = 1.0
        self.count += 1
        if k < self.capacity:
            self.used = k + 1
        return True

    def _grow(self) -> None:
        """Make room for as many pairs again if these are of one quadratic; the oldest moves to the top."""
        k, conjugate = self.used, self.conjugate
        if float(conjugate.dot(conjugate)) < CONSISTENT * k:
            return
        self.capacity = min(2 * k, self.most)
        oldest = self.count % k

        def grown(rows: Vector) -> Vector:
            xp = namespace(rows)
            room = xp.zeros((self.capacity, *rows.shape[1:]), dtype=rows.dtype, device=device(rows))
            room[: k - oldest], room[k - oldest : k] = rows[oldest:], rows[:oldest]
            return room

        self.S, self.Y, self.U = map(grown, (self.S, self.Y, self.U))  # pyright: ignore[reportConstantRedefinition]
        self.conjugate = grown(conjugate)
        self.count = k

    def _learn_metric(self, s: Vector, y: Vector, sy: float) -> None:
        """Update D, by the diagonal of the BFGS formula (Gilbert and Lemaréchal, 1989), and γ.

        γ lies between the short ratio sᵀy/yᵀDy and the long one sᵀD⁻¹s/sᵀy.
        """
        moved, square = self.curvature * s, y * y
        stretch = float(square.dot(self.metric)) / sy
        long = float(s.dot(moved))
        moved *= moved
        moved *= stretch / long if long else inf
        new = stretch * self.curvature
        new -= moved
        new = abs(new)  # it is negative by rounding alone
        new += (1 / sy) * square
        inverse = 1 / new
        short, long = float(square.dot(inverse)), float(s.dot(new * s))
        if not (0 < short < inf and 0 < long < inf):  # as where 1/D overflows
            return
        self.metric, self.curvature = inverse, new
        short_ratio, long_ratio = sy / short, long / sy
        gamma = short_ratio * ratio(long_ratio, short_ratio) ** self._of_long
        if 0 < gamma < inf:
            self.gamma = gamma

    def _made_conjugate(self, k: int, s: Vector, y: Vector, sy: float) -> tuple[Vector, Vector, float]:
        """Return the pair made conjugate to the consistent ones, and its sᵀy."""
        S, Y, times = self.S[:k], self.Y[:k], self._times
        with_s, with_y = times(Y, s), times(S, y)
        apart = with_s - with_y
        agree = self.conjugate[:k] * ((1 / sy) * (apart * apart) <= ASYMMETRY**2)
        self.conjugate[:k] = agree
        if not agree.dot(agree):
            return s, y, sy
        c = with_s + with_y
        c *= agree
        c *= 0.5
        s1, y1 = s - times(c, S), y - times(c, Y)
        rest = float(s1.dot(y1))
        if rest > INDEPENDENT * sy and rest > CURVATURE * norm(s1) * norm(y1):
            return s1, y1, rest
        self.conjugate[:k] = 0.0  # it is kept unchanged, and the others are dropped
        return s, y, sy
