"""Gradients made of differences that follow what the values of f have shown."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.arrays import Array, Mask, Scalar, to_numpy
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

LOUD = 100.0
"""Values that are further from where they should be than so many roundings are noisy."""

LONGER, RUNGS = 30.0, 3
"""Differences that show nothing are taken so many times as long, and so often."""

BEYOND = 1e3
"""A difference over which f bends by so many times its own size shows how it bends, and not its slope."""

TILTED = 1e-3
"""A slope by which f changes by more than this part with the rounding of x is wrong."""


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
        self.sides: Any = None  # of the last gradient: its point, its lengths, and the values it was made of

    def _difference_of_values(self, x: Array, f: Scalar, only: Only) -> Array:
        if not self.adaptive:
            return super()._difference_of_values(x, f, only)
        rows = np.full(np.shape(f), True) if only is None else np.asarray(only)
        return self._made(x, f, rows, self._unknown)

    @property
    def known(self) -> Mask:
        """Where it is known how f bends along each variable."""
        return self._mask(np.asarray(np.isfinite(self.digits.bends[..., self._unfixed]).all(axis=-1)))

    def sound(self, f: Scalar) -> Mask:
        """Return where that is known, and no slope so steep that the rounding of x would show in f."""
        return self.known & (self.eps * self.digits.tilt <= TILTED * abs(f))

    @property
    def _unknown(self) -> NDArray[np.bool_]:
        """Where central differences are to find that out."""
        return np.asarray(self._kit.without(self.digits.central, self.known))

    @property
    def more_values(self) -> Any:
        """How many values a gradient costs beyond one a variable."""
        if not self.adaptive:
            return 0
        more = len(self._unfixed) * (np.asarray(self.digits.central) + 2 * (RUNGS + 1) * self._unknown)
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
        own = np.sqrt(np.asarray(abs(f) + self.digits.tilt)[..., None]) / np.sqrt(self.digits.bends)
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
        self._remember(to_numpy(x), ahead, back, up, down, only)
        return g, bends

    def _remember(
        self, point: NDArray[Any], ahead: Floats, back: Floats, up: Floats, down: Floats, only: Only
    ) -> None:
        """Keep what a gradient was made of, for these rows."""
        sides = np.full((*point.shape, 5), np.nan)
        sides[..., 0], sides[..., 1], sides[..., 2] = point, ahead, back
        sides[..., self._unfixed, 3], sides[..., self._unfixed, 4] = up, down
        if only is not None and self.sides is not None:
            sides = np.where(np.asarray(only)[:, None, None], sides, self.sides)
        self.sides = sides

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
        self.digits.bends = np.where(rows[..., None], np.nan, self.digits.bends)  # it is what is asked
        part = np.maximum(FIRST, self._part(f) ** 0.25)
        used = h = part * size_of(point)
        ahead, back = self._fitted(point, h, h, True)
        ahead = np.where(back > 0, ahead, self._reach(x, f, False)[0])  # one side tells of slopes alone
        g, bends = self._sides(x, f, only, ahead, back)
        for longer in LONGER ** np.arange(1.0, 1 + RUNGS):
            h = np.minimum(longer * part * size_of(point), 0.1 * np.maximum(np.abs(point), 1.0))
            ahead, back = self._fitted(point, h, h, True)
            unseen = np.isnan(bends) & (back > 0) & rows[..., None]
            if not unseen.any():
                break
            again, more = self._sides(x, f, only, np.where(unseen, ahead, 0.0), np.where(unseen, back, 0.0))
            bends, g = np.where(unseen, more, bends), np.where(unseen, again, g)
            used = np.where(unseen, h, used)
        # where f does not bend visibly over the longest difference, it bends by no more than this
        most = RESOLVED * np.asarray(self.level(f))[..., None] / np.where(h > 0, h, 1.0) ** 2
        bends = np.where(np.isnan(bends) & (most > 0), np.where(back > 0, most, self.bends(x, f)), bends)
        noted = self._noted(x, g, bends, only)
        far = rows & (used * used * bends > BEYOND * np.abs(np.asarray(f))[..., None]).any(axis=-1)
        if far.any():
            again, _ = self._sides(x, f, self._only(far), *self._reach(x, f, True))
            noted = self._kit.where(self._mask(far), self._noted(x, again, bends, self._only(far)), noted)
        return noted
