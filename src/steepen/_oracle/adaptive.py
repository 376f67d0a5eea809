"""Gradients made of differences that follow what the values of f have shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.arrays import Array, Mask, Scalar, adopt, to_numpy
from .._core.kits import Kit
from .._core.space import Space
from .calls import Function, Only
from .differences import Differences
from .digits import FIRST, Digits, both_sided, error_of, one_sided, size_of
from .ledger import Cost, Ledger
from .memo import Memo
from .values import COARSEST, Differencing, taken

Floats = NDArray[np.float64]

RESOLVED = 30.0
"""A second difference counts if it is more than so many errors of a value."""

KINK = 2.0
"""f has a kink where it bends over a line by more than so many times what it does over one three times as
long."""

STRAIGHT = 0.01
"""Where f bends by less than this part of what was learnt of it, that was wrong."""

LINE = 1e-9
"""Noise is looked for on a line of steps that are this part of the size of x."""

LOUD = 100.0
"""Values that are further from where they should be than so many roundings are noisy."""

DISTINCT = 4
"""Of seven values that are noisy at least so many differ from the next; else f has few digits."""

AGAIN = 2.0
"""The first differences are made again if noise makes them longer by more than this factor."""

LOUDER = 4.0
"""Noise that is louder than it was taken to be by this factor is news."""

FAR = 4.0
"""Noise is measured again where |f| has changed by more than this factor."""

LONGER, RUNGS = 30.0, 3
"""Differences that show nothing are taken so many times as long, and so often."""

UNEVEN = 10.0
"""It pays to find out how f bends along each variable where the sizes of the variables differ by more."""

_LINE = np.vander(np.arange(-3.0, 4.0), 5)
_STRAY = np.eye(7) - _LINE @ np.linalg.pinv(_LINE)
"""Takes seven values on a line to what a polynomial of degree four does not explain of them."""


class Adaptive(Differencing):
    """Differences whose lengths follow from the noise of f and from how it bends, each with its error."""

    def __init__(
        self, fun: Function, jac: Any, x0: Array, kit: Kit, space: Space | None, ledger: Ledger | None,
        differences: Differences, adaptive: bool,
    ):  # fmt: skip
        super().__init__(fun, jac, x0, kit, space, ledger, differences)
        double = self.eps <= np.finfo(np.float64).eps
        self.adaptive = adaptive and jac == "2-point" and double and not differences.asked
        self.digits = Digits.start(self._shape)
        self._asked = Memo(kit)  # where it was last asked whether f is smooth, and the answer
        self._heard = Memo(kit)  # where the noise was last measured
        self._doubted = Memo(kit)  # where it was last measured again

    def _difference_of_values(self, x: Array, f: Scalar, only: Only) -> Array:
        if not self.adaptive:
            return super()._difference_of_values(x, f, only)
        rows = np.full(np.shape(f), True) if only is None else np.asarray(only)
        return self._made(x, f, rows, self._unknown)

    @property
    def known(self) -> Mask:
        """Where it is known how f bends along each variable."""
        return self._mask(np.asarray(np.isfinite(self.digits.bends[..., self._unfixed]).all(axis=-1)))

    @property
    def _unknown(self) -> NDArray[np.bool_]:
        """Where central differences are to find that out."""
        return np.asarray(self._kit.without(self.digits.central, self.known))

    @property
    def more_values(self) -> Any:
        """How many values a gradient costs beyond one a variable."""
        if not self.adaptive:
            return 0
        more = len(self._unfixed) * (np.asarray(self.digits.central) + 2 * RUNGS * self._unknown)
        return int(more) if self._kit.size is None else more

    # --- what is known ---------------------------------------------------------------------------------

    def level(self, f: Scalar) -> Scalar:
        """Return by how much a value of f may be wrong: by its rounding and that of x, or by its noise."""
        maximum = self._kit.num.maximum
        rounding = self.eps * (abs(f) + self.digits.tilt)
        return maximum(rounding, maximum(self.grain * self._scale(f), self.digits.noise))

    def _part(self, f: Scalar) -> Floats:
        """Return the error of a value in relation to it, as a column."""
        size = np.abs(f) + self.digits.tilt
        part = np.asarray(self.level(f)) / np.where(size > 0, size, 1.0)
        return np.clip(part, self.eps, COARSEST)[..., None]

    def noisy(self, f: Scalar) -> Mask:
        """Return where values of f are wrong by more than rounding explains."""
        return self.level(f) > LOUD * self.eps * (abs(f) + self.digits.tilt)

    def bends(self, x: Array, f: Scalar) -> Floats:
        """Return |f″| along each variable; where nobody knows, that for which the usual lengths are best."""
        guess = 4 * np.asarray(self._scale(f))[..., None] / np.maximum(np.abs(to_numpy(x)), 1.0) ** 2
        return np.where(np.isfinite(self.digits.bends), self.digits.bends, guess)

    def fault(self, x: Array, f: Scalar, central: Mask) -> Floats:
        """Return by how much each component of a gradient at x may be wrong; this costs nothing."""
        ahead, back = self._reach(x, f, central)
        return error_of(ahead, back, self.digits.bends, self.level(f), self._size(to_numpy(x), f))

    def _size(self, point: NDArray[Any], f: Scalar) -> Floats:
        """Return the sizes of the variables: a small one has that over which f bends by its own size."""
        own = np.sqrt(np.asarray(abs(f) + self.digits.tilt)[..., None] / self.digits.bends)
        most = size_of(point)
        return np.fmin(most, np.maximum(np.abs(point), np.where(own > 0, own, most)))

    def told(self, bends: Array, rows: Mask) -> None:
        """Take |f″| along each variable from a method that has learnt it, unless it was just measured."""
        known = np.asarray(self._kit.without(rows, self.digits.central))[..., None]
        self.digits.bends = np.where(known, to_numpy(bends), self.digits.bends)

    def _noted(self, x: Array, g: Floats, bends: Floats, only: Only) -> Array:
        """Keep what a gradient has shown, and return it."""
        digits, kit, rows = self.digits, self._kit, True if only is None else only
        seen = np.isfinite(bends) & (bends > 0) & np.asarray(rows)[..., None]
        digits.bends = np.where(seen, bends, digits.bends)
        tilt = np.abs(g * to_numpy(x)).sum(axis=-1)
        digits.tilt = kit.pick(rows & np.isfinite(tilt), kit.scalar(tilt), digits.tilt)
        return kit.own(g)

    # --- differences -----------------------------------------------------------------------------------

    def _reach(self, x: Array, f: Scalar, central: Mask) -> tuple[Floats, Floats]:
        """Return how far differences at x go ahead and back; only central ones go back."""
        point, level = to_numpy(x), self.level(f)
        part = self._part(f)
        size = self._size(point, f)
        near = one_sided(self.digits.bends, level, part**0.5 * np.maximum(np.abs(point), 1.0), size)
        return self._fitted(point, both_sided(near, size), near, np.asarray(central)[..., None])

    def _fitted(self, point: NDArray[Any], h: Floats, near: Floats, both: Any) -> tuple[Floats, Floats]:
        """Return how far to go ahead and back for these lengths, as the box lets us."""
        ahead, back = self._space.differences(point, h, np.where(point < 0, -near, near), both)
        return taken(point, ahead), -taken(point, -back)

    def _sides(self, x: Array, f: Scalar, only: Only, ahead: Floats, back: Floats) -> tuple[Floats, Floats]:
        """Return the quotients, 0 for a variable that bounds fix, and |f″| where there are both sides.

        |f″| is NaN where it is not known, or lost in the errors of three values. Where f is not finite on one
        side, the other is taken.
        """
        free, here = self._unfixed, np.asarray(f)[..., None]
        g, bends = np.zeros(ahead.shape), np.full(ahead.shape, np.nan)
        if not free:
            return g, bends
        h, k = ahead[..., free], back[..., free]
        up = self._beside(x, only, h, h != 0)
        inside = np.broadcast_to(self._space.contains(to_numpy(x) - ahead), ahead.shape)[..., free]
        lost = ~np.isfinite(up) & np.isfinite(here) & inside & (h != 0)
        lost = lost & np.asarray(self.ledger.affords(Cost(len(free))))[..., None]
        way = np.where(k > 0, k, h)
        down = self._beside(x, only, -way, (k > 0) | lost)
        two = (k > 0) & np.isfinite(up) & np.isfinite(down)
        one = np.where(np.isfinite(down) & ~np.isfinite(up), (here - down) / way, (up - here) / h)
        g[..., free] = np.where(two, (up - down) / (h + k), one)
        second = np.abs((up - here) - (here - down))
        least = RESOLVED * np.asarray(self.level(f))[..., None]
        # what should have been seen and was not, f bends by less than that
        found = np.where(
            second > least, second, np.where(h * k * self.digits.bends[..., free] > least, least, np.nan)
        )
        bends[..., free] = np.where(two, found / (h * k), np.nan)
        return g, bends

    def _beside(self, x: Array, only: Only, way: Floats, wanted: Any) -> Floats:
        """Return f with each free variable moved by itself, NaN where that is not wanted."""
        found, free = np.full(way.shape, np.nan), self._unfixed
        if self._kit.size is None:
            which = np.flatnonzero(wanted)
            if len(which):
                points = (self._shifted(x, free[j], way[j]) for j in which)
                found[which] = self._values(points, only, len(which))
            return found
        for j, i in enumerate(free):
            mask = wanted[:, j] if only is None else wanted[:, j] & only
            if mask.any():
                value = self._value_at(self._shifted(x, i, way[:, j]), mask)
                found[:, j] = np.where(mask, value, np.nan)
        return found

    # --- the start -------------------------------------------------------------------------------------

    @property
    def cost_first(self) -> Cost:
        """What `first` costs at most."""
        once = (2 + 2 * RUNGS) * len(self._unfixed)
        return Cost(2 * once + 1 + self.cost_listen.evals, 2)

    def first(self, x: Array, f: Scalar) -> Array:
        """Return the first gradient, with the noise of f found out, and made again where there is some.

        Where the sizes of the variables differ, f may bend very differently along them, and that is found out
        too.
        """
        size = np.abs(to_numpy(x))[..., self._unfixed]
        least, most = (np.where(size > 0, size, fill) for fill in (np.inf, 0.0))
        uneven = most.max(axis=-1, initial=0.0) > UNEVEN * least.min(axis=-1, initial=np.inf)
        every = np.ones(np.shape(f), dtype=bool)
        self.ledger.charge(None, "njev")
        g = self._made(x, f, every, uneven)
        loud = self._suspect(x, f, g) if self._unfixed else np.zeros(np.shape(f), dtype=bool)
        if loud.any():
            before = self._reach(x, f, False)[0]
            self.listen(x, f, self._only(loud))
            loud = loud & (np.abs(self._reach(x, f, False)[0]) > AGAIN * np.abs(before)).any(axis=-1)
        if loud.any():
            self.ledger.charge(self._only(loud), "njev")
            g = self._kit.where(self._mask(loud), self._made(x, f, loud, uneven), g)
        return g

    def _only(self, rows: NDArray[np.bool_]) -> Only:
        return None if self._kit.size is None else rows

    def _mask(self, rows: NDArray[np.bool_]) -> Mask:
        return bool(rows) if self._kit.size is None else rows

    def _made(self, x: Array, f: Scalar, rows: NDArray[np.bool_], unknown: NDArray[np.bool_]) -> Array:
        """Return the gradient in these rows, with f″ along each variable where it is to be found out."""
        plain, surveyed = rows & ~unknown, rows & unknown
        g = x * 0
        if plain.any():
            only = self._only(plain)
            g = self._noted(x, *self._sides(x, f, only, *self._reach(x, f, self.digits.central)), only)
        return self._kit.where(self._mask(surveyed), self._survey(x, f, surveyed), g) if surveyed.any() else g

    def _survey(self, x: Array, f: Scalar, rows: NDArray[np.bool_]) -> Array:
        """Return the gradient by central differences that are long enough to tell how f bends.

        Where f bends by less than its values can show, the difference is taken again, longer.
        """
        point, only = to_numpy(x), self._only(rows)
        part = np.maximum(FIRST, self._part(f) ** 0.25)
        h = part * size_of(point)
        g, bends = self._sides(x, f, only, *self._fitted(point, h, h, True))
        for longer in LONGER ** np.arange(1.0, 1 + RUNGS):
            h = np.minimum(longer * part * size_of(point), 0.1 * np.maximum(np.abs(point), 1.0))
            ahead, back = self._fitted(point, h, h, True)
            unseen = np.isnan(bends) & (back > 0) & rows[..., None]
            if not unseen.any():
                break
            again, more = self._sides(x, f, only, np.where(unseen, ahead, 0.0), np.where(unseen, back, 0.0))
            bends, g = np.where(unseen, more, bends), np.where(unseen, again, g)
        # where f does not bend visibly over the longest difference, it bends by no more than this
        most = RESOLVED * np.asarray(self.level(f))[..., None] / np.where(h > 0, h, 1.0) ** 2
        bends = np.where(np.isnan(bends) & (most > 0), most, bends)
        return self._noted(x, g, bends, only)

    # --- noise -----------------------------------------------------------------------------------------

    cost_listen = Cost(6)
    """What `listen` costs at most."""

    def elsewhere(self, f: Scalar) -> Mask:
        """Return where noise was measured at values of f that were far from this one."""
        size, then = abs(f), self.digits.size
        return (self.digits.noise > 0) & ((FAR * size < then) | (size > FAR * then))

    def _line(self, x: Array, length: Floats | None = None) -> Floats:
        """Return a step along a short line from x into the box, 0 where there is no room."""
        point = to_numpy(x)
        length = LINE * size_of(point) if length is None else length
        u = length * np.random.default_rng(0).uniform(1, 2, self._n)
        inside: Any = self._space.contains(point + 6 * u)
        u = np.where(inside, u, -u)
        inside = self._space.contains(point + 6 * u)
        return np.where(inside, u, 0.0)

    def _suspect(self, x: Array, f: Scalar, g: Array) -> NDArray[np.bool_]:
        """Return where a value next to x is not where the gradient says: one value tells."""
        u = 0.5 * self._line(x)
        found = self._value_at(x + adopt(x, u), None)
        off = np.abs(found - f - (to_numpy(g) * u).sum(axis=-1))
        rounding = self.eps * (np.abs(f) + np.abs(found) + self.digits.tilt)
        return np.isfinite(off) & np.asarray(off > LOUD * rounding)

    def listen(self, x: Array, f: Scalar, only: Only) -> None:
        """Measure the noise of f near x: two values tell whether there is any, four more how much.

        They are taken on a line that is so short that f is straight there. Noise makes them all different;
        where few of them are, f has few digits, and its grain is what they differ by.
        """
        rows = np.full(np.shape(f), True) if only is None else np.asarray(only)
        rows = rows & ~np.asarray(self._heard.hits(x))
        u = self._line(x)
        if u.any() and rows.any():
            self._heard.put(x, rows, self._only(rows))
            self._hear(x, f, rows, u)

    def listen_again(self, x: Array, f: Scalar, rows: Mask) -> Mask:
        """Measure noise where differences reach, and return where it is louder than it was taken to be.

        It may be too slow to show on a short line.
        """
        asked = np.asarray(rows) & ~np.asarray(self._doubted.hits(x))
        ahead, back = self._reach(x, f, True)
        u = self._line(x, np.where(back > 0, np.abs(ahead), 0.0) / 30)
        if not (u.any() and asked.any()):
            return self._mask(asked & False)
        self._doubted.put(x, asked, self._only(asked))
        before, was, pick = self.level(f), replace(self.digits), self._kit.pick
        self._hear(x, f, asked, u)
        louder = self._mask(asked & np.asarray(self.level(f) > LOUDER * before))
        self.digits.noise = pick(louder, self.digits.noise, was.noise)
        self.digits.size = pick(louder, self.digits.size, was.size)
        return louder

    def _hear(self, x: Array, f: Scalar, rows: NDArray[np.bool_], u: Floats) -> None:
        kit, here, noise = self._kit, np.asarray(f), np.zeros(np.shape(f))
        values = [0 * here, *(self._value_at(x + adopt(x, k * u), self._only(rows)) - here for k in (1, 2))]
        apart = np.abs(values[1] - (values[2] - values[1]))
        loud = rows & np.isfinite(apart) & (apart > LOUD * self.eps * np.abs(here))
        if loud.any():
            for k in (3, 4, 5, 6):
                values.append(self._value_at(x + adopt(x, k * u), self._only(loud)) - here)
            rest = np.tensordot(_STRAY, np.stack(values), 1)
            spread = np.sqrt((rest * rest).sum(axis=0) / 2)
            rounding = self.eps * (np.abs(here) + np.abs(values).max(axis=0))
            heard = loud & np.isfinite(spread) & (spread > 0.1 * LOUD * rounding)
            rise = np.diff(np.sort(values, axis=0), axis=0)
            coarse = heard & ((rise > 0).sum(axis=0) < DISTINCT)
            jump = np.minimum(rise.max(axis=0) / np.asarray(self._scale(f)), COARSEST)
            self.grain = kit.scalar(np.where(coarse, jump, self.grain))
            noise = np.where(heard & ~coarse, spread, noise)
            self.digits.tilt = kit.pick(self._mask(coarse), 0.0, self.digits.tilt)  # of a wrong gradient
        self.digits.noise = kit.scalar(np.where(rows, noise, self.digits.noise))
        self.digits.size = kit.scalar(np.where(rows, np.abs(here), self.digits.size))

    cost_smooth = Cost(4)
    """What `smooth` costs."""

    def smooth(self, x: Array, f: Scalar, rows: Mask) -> Mask:
        """Return where f bends up as smooth functions do: by nine times as much over three times the way.

        It must not bend by far less than what was learnt of it says.
        """
        new = self._kit.without(rows, self._asked.hits(x))
        if self._kit.any(new):
            self._asked.put(x, self._is_smooth(x, f, new), None if self._kit.size is None else new)
        return rows & self._asked.value

    def _is_smooth(self, x: Array, f: Scalar, rows: Mask) -> Mask:
        ahead, back = self._reach(x, f, True)
        u = np.where(back > 0, ahead, 0.0) * np.random.default_rng(0).choice([-1.0, 1.0], self._n)
        only = None if self._kit.size is None else rows
        bent: list[Any] = []
        for way in (u, 3 * u):
            there, behind = (self._space.project(x + adopt(x, sign * way)) for sign in (1.0, -1.0))
            bent.append(self._value_at(there, only) + self._value_at(behind, only) - 2 * f)
        level = RESOLVED * self.level(f)
        known = self._kit.scalar((9 * u * u * self.bends(x, f)).sum(axis=-1))
        return (9 * bent[0] <= KINK * bent[1] + 9 * level) & (bent[1] >= STRAIGHT * known - level)
