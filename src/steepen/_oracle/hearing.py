"""The noise of f: whether there is any, and how much."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.arrays import Array, Mask, Scalar, adopt, to_numpy
from .adaptive import LOUD, RUNGS, Adaptive
from .calls import Only
from .digits import size_of
from .ledger import Cost
from .values import COARSEST

Floats = NDArray[np.float64]

LINE = 1e-9
"""Noise is looked for on a line of steps that are this part of the size of x."""

DISTINCT = 4
"""Of seven values that are noisy at least so many differ from the next; else f has few digits."""

FAINT = 20.0
"""Two values that are further from a line than so many roundings are worth four more."""

LOUDER = 4.0
"""Noise that is louder than it was taken to be by this factor is news."""

LINES = (1.0, 0.7)
"""Less noise than was heard before must show on two lines, whose lengths have this ratio."""

FAR = 4.0
"""Noise is measured again where |f| has changed by more than this factor."""

UNEVEN = 10.0
"""It pays to find out how f bends along each variable where the sizes of the variables differ by more."""


def _stray(count: int, degree: int) -> Floats:
    """Return what takes values on a line to what a polynomial does not explain of them."""
    line = np.vander(np.arange(count) - (count - 1) / 2, degree + 1)
    return np.eye(count) - line @ np.linalg.pinv(line)


MANY, FEW = _stray(7, 4), _stray(5, 2)
"""Noise is looked for by seven values; where there was some before, five are enough."""


PERSISTS = 20.0
"""Noise that bends a shorter line by less than this part of what it was taken to be is none."""


class Hearing(Adaptive):
    """Differences by an oracle that listens for the noise of f."""

    @property
    def cost_first(self) -> Cost:
        """What `first` costs at most."""
        once = (4 + 2 * RUNGS) * len(self._unfixed)
        return Cost(2 * once + 1 + self.cost_listen.evals, 2)

    def first(self, x: Array, f: Scalar, gtol: float) -> Array:
        """Return the first gradient, made with the noise of f in mind, which is found out before.

        Where the sizes of the variables differ, f may bend very differently along them, and that is found out
        too. This takes long differences. A gradient within gtol that a value close to x contradicts is made
        again by short ones.
        """
        size = np.abs(to_numpy(x))[..., self._unfixed]
        least, most = (np.where(size > 0, size, fill) for fill in (np.inf, 0.0))
        uneven = most.max(axis=-1, initial=0.0) > UNEVEN * least.min(axis=-1, initial=np.inf)
        if self._unfixed:
            self.listen(x, f, None)
        self.ledger.charge(None, "njev")
        g = self._made(x, f, np.ones(np.shape(f), dtype=bool), uneven)
        near = self._space.residual(x, g, self._kit.norm(g)) <= gtol
        wrong = uneven & np.asarray(self._kit.without(near, self.noisy(f)))
        if wrong.any():
            wrong = wrong & self._contradicted(x, f, g, self._only(wrong))
        if wrong.any():
            self.ledger.charge(self._only(wrong), "njev")
            g = self._kit.where(self._mask(wrong), self._made(x, f, wrong, ~wrong), g)
        return g

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

    def _contradicted(self, x: Array, f: Scalar, g: Array, only: Only) -> NDArray[np.bool_]:
        """Return where a value next to x is nowhere near where the gradient says."""
        u = 0.5 * self._line(x)
        found = self._value_at(x + adopt(x, u), only)
        off = np.abs(found - f - (to_numpy(g) * u).sum(axis=-1))
        rounding = self.eps * (np.abs(f) + np.abs(found) + self.digits.tilt)
        return np.isfinite(off) & np.asarray(off > np.maximum(LOUD * rounding, 0.5 * np.abs(found - f)))

    def listen(self, x: Array, f: Scalar, only: Only) -> None:
        """Measure the noise of f near x: two values tell whether there is any, four more how much.

        They are taken on a line that is so short that f is straight there. Noise makes them all different;
        where few of them are, f has few digits, and its grain is what they differ by.
        """
        rows = np.full(np.shape(f), True) if only is None else np.asarray(only)
        rows = rows & ~np.asarray(self._heard.hits(x))
        u, known = self._line(x), np.asarray(self.digits.noise) > 0
        if known.any():  # what was heard may not show on a short line
            u = np.where(known[..., None], self._across(x, f), u)
        if u.any() and rows.any():
            self._heard.put(x, rows, self._only(rows))
            for stray, part in ((MANY, rows & ~known), (FEW, rows & known)):
                if part.any():
                    self._hear(x, f, part, u, stray)

    def listen_again(self, x: Array, f: Scalar, rows: Mask) -> Mask:
        """Measure noise where differences reach, and return where it is louder than it was taken to be.

        It may be too slow to show on a short line.
        """
        asked = np.asarray(rows) & ~np.asarray(self._doubted.hits(x))
        u = self._across(x, f)
        if not (u.any() and asked.any()):
            return self._mask(asked & False)
        self._doubted.put(x, asked, self._only(asked))
        before, was, pick = self.level(f), replace(self.digits), self._kit.pick
        self._hear(x, f, asked, u, MANY)
        louder = self._mask(asked & np.asarray(self.level(f) > LOUDER * before))
        self.digits.noise = pick(louder, self.digits.noise, was.noise)
        self.digits.size = pick(louder, self.digits.size, was.size)
        return louder

    def quieter(self, x: Array, f: Scalar, rows: Mask) -> Mask:
        """Measure noise on a line a tenth as long, and return where it is not what it was taken to be.

        What f itself does beyond its first four derivatives is far less there; noise is the same. Seven
        values may be alike by chance, so that it takes two lines to show less noise.
        """
        u, level, was = 0.1 * self._across(x, f), self.level(f), self.digits.noise
        if not u.any():
            return rows & False
        only = self._only(np.asarray(rows))
        near = [self._value_at(x + adopt(x, k * u), only) for k in (1, 2)]
        apart = np.abs(near[1] - 2 * near[0] + f)
        rows = rows & self._mask(np.asarray(LOUDER * apart < level))
        for part, made in zip(LINES, (near, None), strict=True):
            if self._kit.any(rows):
                self._hear(x, f, np.asarray(rows), part * u, MANY, made)
                rows = rows & self._mask(np.asarray(LOUDER * self.level(f) < level))
                self.digits.noise = self._kit.pick(rows, self.digits.noise, was)
        return rows

    cost_persists = Cost(3)
    """What `persists` costs."""

    def persists(self, x: Array, f: Scalar, rows: Mask) -> Mask:
        """Return where noise is there on a shorter line, too: what a kink leaves shrinks with the line.

        Moré and Wild 2011 tell noise from f so. White noise is that small on one line in a thousand.
        """
        across, short, only = self._across(x, f), self._line(x), self._only(np.asarray(rows))
        u = np.where(np.abs(0.01 * across) < np.abs(short), 0.01 * across, short)
        values = [f, *(self._value_at(x + adopt(x, k * u), only) for k in (1, 2, 3))]
        bends = [np.abs(values[k + 1] - 2 * values[k] + values[k - 1]) for k in (1, 2)]
        return rows & self._mask(np.asarray(PERSISTS * np.maximum(*bends) > self.level(f)))

    def _across(self, x: Array, f: Scalar) -> Floats:
        """Return a step along a line as long as a part of the differences at x."""
        ahead, back = self._reach(x, f, True)
        return self._line(x, np.where(back > 0, np.abs(ahead), 0.0) / 30)

    def _hear(
        self, x: Array, f: Scalar, rows: NDArray[np.bool_], u: Floats, stray: Floats, near: Any = None
    ) -> None:
        """Measure noise by values on a line; of these `near` are the first two, if they have been made."""
        kit, here, noise = self._kit, np.asarray(f), np.zeros(np.shape(f))
        near = near or [self._value_at(x + adopt(x, k * u), self._only(rows)) for k in (1, 2)]
        values = [0 * here, *(value - here for value in near)]
        part = np.abs(to_numpy(x) / np.where(u == 0, np.inf, u)).max(axis=-1)

        def rounding() -> Any:
            """Return what the rounding of f explains, and that of x."""
            return self.eps * (
                np.abs(here) + np.abs(values).max(axis=0) + part * np.abs(np.diff(values, axis=0)).max(axis=0)
            )

        apart = np.abs(values[1] - (values[2] - values[1]))
        loud = rows & np.isfinite(apart) & (apart > FAINT * rounding())
        if loud.any():
            for k in range(3, len(stray)):
                values.append(self._value_at(x + adopt(x, k * u), self._only(loud)) - here)
            # a sum in this order, so that a row of a batch hears what a single run does
            rest = np.array([sum(w * v for w, v in zip(weights, values, strict=True)) for weights in stray])
            spread = np.sqrt((rest * rest).sum(axis=0) / 2)
            heard = loud & np.isfinite(spread) & (spread > 0.1 * LOUD * rounding())
            rise = np.diff(np.sort(values, axis=0), axis=0)
            coarse = heard & ((rise > 0).sum(axis=0) < DISTINCT) & (len(stray) > DISTINCT + 1)
            jump = np.minimum(rise.max(axis=0) / np.asarray(self._scale(f)), COARSEST)
            self.grain = kit.scalar(np.where(coarse, jump, self.grain))
            noise = np.where(heard & ~coarse, spread, noise)
            self.digits.tilt = kit.pick(self._mask(coarse), 0.0, self.digits.tilt)  # of a wrong gradient
        self.digits.noise = kit.scalar(np.where(rows, noise, self.digits.noise))
        self.digits.size = kit.scalar(np.where(rows, np.abs(here), self.digits.size))
