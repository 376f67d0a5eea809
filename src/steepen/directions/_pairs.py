"""The pairs (s, y) of past steps and gradient changes, and the inverse Hessian G that they make.

BFGS over the pairs in the rows of S and Y, from the matrix γD with D diagonal, is in compact form

    G·v = γDv + Sᵀw − γDYᵀu,   u = R⁻¹Sv,   w = R⁻ᵀ((diag R + γYDYᵀ)u − γYDv),   R the upper part of SYᵀ.

R⁻¹ is kept and grows by a column with each pair, so everything is a product with a matrix: BLAS for one run,
the same lines for a batch. Rows of a batch that have fewer pairs than others hold zeros behind them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.arrays import Array, Kit, Mask, Scalar, is_numpy, namespace
from .._core.box import without
from .._core.matrix import CURVATURE, LARGE
from ._direction import Memory

ASYMMETRY = 0.03
"""How far sᵢᵀy and yᵢᵀs may differ, in the scale of both pairs, if one quadratic is to explain them."""

INDEPENDENT = 1e-4
"""What must be left of sᵀy in the pair that is conjugate to the others; with less, they are let go."""

FRESH = 32
"""Up to so many pairs the metric D is renewed with each; after that whenever their number has doubled."""

LONG = 30.0
"""γ lies between the short ratio and the long one: it has LONG/(LONG + n) of the long, in logarithms."""


class Pairs:
    """The pairs in a direction's memory, with the operations of the run's kit."""

    def __init__(self, memory: Memory, kit: Kit):
        self._memory, self._kit = memory, kit
        self._n = int(memory["D"].shape[-1])
        # a row of a batch is summed as a single run is; from LARGE on both go to BLAS
        self._short = self._n < LARGE

    @property
    def _longest(self) -> int:
        """How many pairs the row with the most of them has."""
        count = self._memory["count"]
        return int(count) if self._kit.size is None else int(count.max())

    @staticmethod
    def start(x: Array, kit: Kit) -> Memory:
        """Give the memory of no pairs."""
        n, rows = int(x.shape[-1]), tuple(x.shape[:-1])

        def zeros(*shape: int) -> Array:
            return kit.xp.zeros((*rows, *shape), dtype=x.dtype, device=x.device)

        none = 0 if kit.size is None else np.zeros(kit.size, dtype=np.int64)
        return {
            "S": zeros(0, n), "Y": zeros(0, n), "R": zeros(0, 0), "YDY": zeros(0, 0), "rho": zeros(0),
            "conjugate": zeros(0), "D": zeros(n) + 1, "D_used": zeros(n) + 1, "gamma": kit.norm(x) * 0 + 1,
            "count": none, "age": none,
        }  # fmt: skip

    def apply(self, v: Array, held: Array | None = None, target: Array | None = None) -> Array:
        """Give G·v; with variables held, the inverse of the rest of G⁻¹ instead, and `target` for those."""
        diagonal = self._kit.times(self._memory["gamma"], self._memory["D_used"])
        return without(self._product, v, held, diagonal, self._kit, target)

    def _product(self, v: Array) -> Array:
        kit, memory = self._kit, self._memory
        k, gamma, diagonal = self._longest, memory["gamma"], memory["D_used"]
        first = kit.times(gamma, diagonal * v)
        if k == 0:
            return first
        S, Y, inverse = memory["S"][..., :k, :], memory["Y"][..., :k, :], memory["R"][..., :k, :k]
        u = self._dot(inverse, self._dot(S, v))
        w = kit.times(gamma, self._dot(memory["YDY"][..., :k, :k], u))
        w = self._mix(w + memory["rho"][..., :k] * u - self._dot(Y, first), inverse)
        return first + self._mix(w, S) - kit.times(gamma, diagonal * self._mix(u, Y))

    def add(self, s: Array, y: Array, sy: Scalar, length: Scalar, most: int) -> Mask:
        """Take in a pair, and say for which rows it was of use; beyond `most` the oldest are forgotten.

        sᵀy and ‖s‖ come with it.
        The pair is first made conjugate to those that agree with it: G then fulfils the secant equations of
        them all, and not of the last alone.
        """
        kit, memory = self._kit, self._memory
        useful = sy > CURVATURE * length * kit.norm(y)
        if not kit.any(useful):
            return useful
        if not kit.all(useful):
            sy = kit.pick(useful, sy, 1.0)
            s, y = kit.where(useful, s, s * 0), kit.where(useful, y, y * 0)
        self._learn_diagonal(s, y, sy, useful)
        self._make_room(most, useful)
        self._store(*self._conjugated(s, y, sy, useful), useful)
        diagonal, part = memory["D_used"], LONG / (LONG + self._n)
        short = kit.ratio(sy, kit.pick(useful, kit.dot(y, diagonal * y), 1.0))
        long = kit.ratio(kit.pick(useful, kit.dot(s, s / diagonal), 1.0), sy)
        # np.power, since ** rounds a number and an array differently
        gamma = np.power(short, 1 - part) * np.power(long, part)
        sound = useful & (gamma > 0) & (gamma < np.inf)
        memory["gamma"] = kit.pick(sound, gamma, memory["gamma"])
        return useful

    def clear(self, rows: Mask) -> None:
        """Forget all that was learnt in these rows."""
        kit, memory = self._kit, self._memory
        for name in ("count", "age"):
            memory[name] = kit.pick(rows, 0, memory[name])
        for name in ("S", "Y", "R", "YDY", "rho", "conjugate"):
            memory[name] = kit.where(rows, kit.xp.zeros_like(memory[name]), memory[name])
        for name in ("D", "D_used"):
            memory[name] = kit.where(rows, memory[name] * 0 + 1, memory[name])

    # --- parts -----------------------------------------------------------------------------------

    def _dot(self, A: Array, v: Array) -> Array:
        """Give A·v."""
        if self._short:
            return _in_order(A * v[..., None, :], -1)
        return A @ v if self._kit.size is None else (A @ v[..., None])[..., 0]

    def _mix(self, c: Array, A: Array) -> Array:
        """Give Aᵀ·c."""
        if self._short:
            return _in_order(c[..., :, None] * A, -2)
        return c @ A if self._kit.size is None else (c[..., None, :] @ A)[..., 0, :]

    def _learn_diagonal(self, s: Array, y: Array, sy: Scalar, useful: Mask) -> None:
        """Update D by the diagonal of the BFGS formula (Gilbert and Lemaréchal, 1989)."""
        kit, D = self._kit, self._memory["D"]
        old = 1 / D
        moved = s * old
        stretch = kit.ratio(kit.dot(y, D * y), sy)
        share = kit.ratio(stretch, kit.pick(useful, kit.dot(s, moved), 1.0))
        new = kit.times(stretch, old) + kit.times(1 / sy, y * y) - kit.times(share, moved * moved)
        positive = new > 0
        learnt = 1 / kit.xp.where(positive, new, old)
        self._memory["D"] = kit.xp.where(positive & (learnt > 0) & (learnt < np.inf), learnt, D)

    def _conjugated(self, s: Array, y: Array, sy: Scalar, useful: Mask) -> tuple[Array, Array]:
        kit, memory = self._kit, self._memory
        k, conjugate = self._longest, memory["conjugate"]
        if k == 0:
            return s, y
        S, Y, rho = memory["S"][..., :k, :], memory["Y"][..., :k, :], memory["rho"][..., :k]
        inverse = 1 / (rho + (rho == 0))
        with_s, with_y = self._dot(Y, s), self._dot(S, y)
        apart = (with_s - with_y) ** 2 * inverse
        agree = conjugate[..., :k] * (apart <= kit.times(ASYMMETRY**2 * sy, rho * 0 + 1))
        c = (with_s + with_y) / 2 * inverse * agree
        s1, y1 = s - self._mix(c, S), y - self._mix(c, Y)
        rest = kit.dot(s1, y1)
        enough = (rest > INDEPENDENT * sy) & (rest > CURVATURE * kit.norm(s1) * kit.norm(y1))
        agree = kit.where(useful, kit.where(enough, agree, agree * 0), conjugate[..., :k])
        memory["conjugate"] = _put(conjugate, slice(0, k), agree)
        return kit.where(enough, s1, s), kit.where(enough, y1, y)

    def _make_room(self, most: int, useful: Mask) -> None:
        """Forget the oldest tenth where there are `most` pairs; have a place for one more."""
        memory, kit = self._memory, self._kit
        full = useful & (memory["count"] >= most)
        if kit.any(full):
            gone = max(1, most // 10)
            # of a triangular R, the inverse of a corner is the corner of the inverse
            for name, axes in AXES.items():
                a = moved = memory[name]
                for axis in axes:
                    moved = _forget(moved, gone, axis, alone=kit.size is None)
                memory[name] = kit.where(full, moved, a)
            memory["count"] = kit.pick(full, memory["count"] - gone, memory["count"])
        k = self._longest
        if k < memory["rho"].shape[-1]:
            return
        more = min(max(8, k), most - k)
        for name, axes in AXES.items():
            for axis in axes:
                memory[name] = _wider(memory[name], more, axis)

    def _store(self, s: Array, y: Array, useful: Mask) -> None:
        """Put the pair in the next place of each row, with its column of R⁻¹ and of YDYᵀ."""
        kit, memory = self._kit, self._memory
        place, k = memory["count"], self._longest
        rho = kit.dot(s, y)
        inverse = kit.pick(useful, 1 / kit.pick(useful, rho, 1.0), 0.0)
        one = memory["D"][..., :1] * 0 + 1
        column = memory["rho"][..., :0]
        if k:
            column = self._dot(memory["R"][..., :k, :k], self._dot(memory["S"][..., :k, :], y))
            column = kit.times(-inverse, column)
        column = self._high(column)
        column = self._at(column, place, useful, kit.times(inverse, one))
        memory["R"] = self._at(memory["R"], place, useful, column[..., :, None], -1)
        memory["S"] = self._at(memory["S"], place, useful, s[..., None, :], -2)
        memory["Y"] = self._at(memory["Y"], place, useful, y[..., None, :], -2)
        memory["rho"] = self._at(memory["rho"], place, useful, kit.times(rho, one))
        memory["conjugate"] = self._at(memory["conjugate"], place, useful, one)
        memory["count"], age = place + useful, memory["age"] + useful
        k = self._longest
        Y = memory["Y"][..., :k, :]
        renew = useful & ((place < FRESH) | (age > place))
        if kit.any(renew):
            memory["D_used"] = kit.where(renew, memory["D"], memory["D_used"])
            scaled = Y * memory["D_used"][..., None, :]
            if self._short:
                square = _in_order(scaled[..., :, None, :] * Y[..., None, :, :], -1)
            else:
                square = scaled @ Y.swapaxes(-1, -2)
            square = kit.where(renew, square, memory["YDY"][..., :k, :k])
            memory["YDY"] = _put(memory["YDY"], (slice(0, k), slice(0, k)), square)
        memory["age"] = kit.pick(renew, 0, age)
        if not kit.all(renew):
            grown = kit.without(useful, renew)
            column = self._high(self._dot(Y, memory["D_used"] * y))
            memory["YDY"] = self._at(memory["YDY"], place, grown, column[..., :, None], -1)
            memory["YDY"] = self._at(memory["YDY"], place, grown, column[..., None, :], -2)

    def _high(self, column: Array) -> Array:
        """Give a column the height of R."""
        whole = self._memory["rho"] * 0
        return _put(whole, slice(0, column.shape[-1]), column)

    def _at(self, a: Array, place: Scalar, rows: Mask, value: Array, axis: int = -1) -> Array:
        """Write a value of width 1 into the place of each row."""
        if self._kit.size is None:
            if not rows:
                return a
            here = slice(int(place), int(place) + 1)
            return _put(a, here if axis == -1 else (here, slice(None)), value)
        xp = self._kit.xp
        places: Any = np.where(rows, place, -1)
        here: Array = xp.asarray(np.arange(a.shape[axis]) == places[:, None], device=a.device)
        here = here if a.ndim == 2 else here[:, None, :] if axis == -1 else here[:, :, None]
        return xp.where(here, value, a)


AXES = {"S": (-2,), "Y": (-2,), "R": (-2, -1), "YDY": (-2, -1), "rho": (-1,), "conjugate": (-1,)}
"""The axes of the arrays along which the pairs lie."""


def _wider(a: Array, more: int, axis: int) -> Array:
    """Add zeros at the end of an axis."""
    shape = list(a.shape)
    shape[axis] = more
    xp = namespace(a)
    return xp.concat([a, xp.zeros(tuple(shape), dtype=a.dtype, device=a.device)], axis=axis)


def _forget(a: Array, gone: int, axis: int, alone: bool) -> Array:
    """Move the entries of an axis to the front by so many, with zeros behind; in place for a single run."""
    rest = a[..., gone:] if axis == -1 else a[..., gone:, :]
    if not (alone and is_numpy(a)):
        return _wider(rest, gone, axis)
    left = rest.shape[axis]
    front, back = (
        (slice(0, left), slice(left, None))
        if axis == -1
        else ((slice(0, left), slice(None)), (slice(left, None), slice(None)))
    )
    return _put(_put(a, front, rest), back, 0.0)


def _in_order(a: Array, axis: int) -> Array:
    """Sum one by one, so that zeros, and the other rows of a batch, change nothing."""
    return a.cumsum(axis)[..., -1] if axis == -1 else a.cumsum(axis)[..., -1, :]


def _put(a: Array, place: Any, value: Array) -> Array:
    """Write into an array of our own, in place where the library can."""
    index: Any = (..., *place) if isinstance(place, tuple) else (..., place)
    if hasattr(a, "at"):  # JAX
        return a.at[index].set(value.astype(a.dtype))
    a[index] = value
    return a
