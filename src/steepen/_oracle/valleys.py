"""Whether f is lower nearby than its noise explains, also along a valley that no single variable shows."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._core.arrays import Array, Mask, Scalar, adopt, to_numpy
from .adaptive import RESOLVED
from .hearing import LOUDER, Hearing
from .ledger import Cost

Floats = NDArray[np.float64]
Shape: TypeAlias = tuple[Floats, Floats]
"""The eigenvalues and eigenvectors of a Hessian."""

KINK = 2.0
"""f has a kink where it bends over a line by more than so many times what it does over one three times as
long."""

STRAIGHT = 0.01
"""Where f bends by less than this part of what was learnt of it, that was wrong."""

BENT = 1e3
"""Second differences are as long as f bends by so many errors of a value."""

ENOUGH = 250.0
"""Those that a gradient has left behind will do if f has bent by so many."""

LONGER, RUNGS = 10.0, 6
"""Those that show nothing are taken so many times as long, and so often."""

WRONG = 10.0
"""Where f bends by so many times less than it was taken to do, its differences were too short."""

LEVEL = 10.0
"""What differs by so many errors of a value may be the same."""

SOFT = 0.3
"""A direction is soft if f bends along it by less than this part of what its variables do on average."""

TRIES = (1.0, 1.5, 2.0, 3.0)
"""How far a soft direction is followed, in units of the way over which the slope alone would show."""

MANY = 50
"""With more variables than this, what would have to be asked is more than the answer is worth."""


class Around(NamedTuple):
    """What was found: where f is as low as it gets, where ∇f is no good, where f is lower, at `x` by `f`."""

    lowest: Mask
    wrong: Mask
    lower: Mask
    x: Array
    f: Scalar


class Model(NamedTuple):
    """|f″| along each variable, the Hessian in units in which these are 1, and what was seen on the way."""

    bends: Floats
    H: Floats
    reach: Floats  # how far was looked; 0 for a variable that is not looked at on both sides
    step: Floats  # to the lowest of the values ahead
    fall: Floats  # of f there


class Way(NamedTuple):
    """A step that is worth a value in some rows; the longest one along a soft direction; one the other way.

    The last are asked where the longest one has led uphill.
    """

    step: Floats
    worth: NDArray[np.bool_]
    longest: bool = False
    other: bool = False


class Valleys(Hearing):
    """Whether f is smooth; a quadratic model of it made of values, and where that leads."""

    cost_smooth = Cost(5)
    """What `smooth` costs at most."""

    def smooth(self, x: Array, f: Scalar, rows: Mask) -> Mask:
        """Return where f bends up as smooth functions do: by nine times as much over three times the way.

        It must not bend by far less than what was learnt of it says.
        """
        if not self._kit.any(rows):
            return rows
        new = self._kit.without(rows, self._asked.hits(x))
        if self._kit.any(new):
            self._asked.put(x, self._is_smooth(x, f, new), None if self._kit.size is None else new)
        return rows & self._asked.value

    def _is_smooth(self, x: Array, f: Scalar, rows: Mask) -> Mask:
        ahead, back = self._reach(x, f, True)
        u = np.where(back > 0, ahead, 0.0) * np.random.default_rng(0).choice([-1.0, 1.0], self._n)
        only = None if self._kit.size is None else rows
        # a variable at a bound is looked at from inside the box
        held = (back == 0) & (ahead != 0) & self._space.contains(to_numpy(x) + 6 * ahead)
        if held.any():
            u = np.where(held, ahead, u)
            x = x + adopt(x, np.where(held, 3 * ahead, 0.0))
            f = self._value_at(x, only)
        bent: list[Any] = []
        for way in (u, 3 * u):
            there, behind = (self._space.project(x + adopt(x, sign * way)) for sign in (1.0, -1.0))
            bent.append(self._value_at(there, only) + self._value_at(behind, only) - 2 * f)
        level = RESOLVED * self.level(f)
        known = self._kit.scalar((9 * u * u * self.bends(x, f)).sum(axis=-1))
        bends = bent[1] >= STRAIGHT * known - level
        forgotten = np.asarray(self._kit.without(rows, bends))[..., None]  # what was learnt of f is wrong
        self.digits.bends = np.where(forgotten, np.nan, self.digits.bends)
        return (9 * bent[0] <= KINK * bent[1] + 9 * level) & bends

    @property
    def cost_around(self) -> Cost:
        """What `around` costs at most."""
        n = len(self._unfixed)
        if n > MANY:
            return Cost(2).plus(self.cost_listen).plus(self.cost_listen).plus(self.cost_smooth)
        most = 2 * n * (1 + RUNGS) + n * (n - 1) // 2 + 4 + (2 * len(TRIES) + n + 1) * (n + 1)
        return Cost(2).plus(self.cost_listen).plus(self.cost_listen).plus(Cost(most))

    def around(self, x: Array, f: Scalar, g: Array, p: Array, least: Scalar, rows: Mask) -> Around:
        """Find out, where noise hides a fall of f by `least`, whether there is one.

        Asked are the lowest value by which a model was made, which may contradict a slope that holds a
        variable at its bound; the minimiser of the model; and then soft directions, one after the other: its
        own, and p, which may have learnt more on the way here. Whether f falls along a soft one is not to be
        told from how it bends, which is lost in noise, but shows in a value. If a parabola of slope a falls
        by F or more, it has fallen by ¾F over F/a. Where f has risen over three times that, the valley may
        bend, and its floor be beside.
        """
        kit, lower = self._kit, rows & False
        there, value = x, f
        if not kit.any(rows):
            return Around(rows, rows, rows, x, f)
        wrong = self.quieter(x, f, rows)
        rows = kit.without(rows, wrong)
        if len(self._unfixed) > MANY or not kit.any(rows):
            return Around(self.smooth(x, f, rows), wrong, lower, x, f)
        before = self.bends(x, f)
        model = self._model(x, f, np.asarray(rows))
        bends, shape = model.bends, np.linalg.eigh(model.H)
        differs = rows & self._mask(np.asarray((before > WRONG * bends).any(axis=-1)))
        wrong, rows = wrong | differs, kit.without(rows, differs)
        uphill = lower
        seen_lower = Way(model.step, model.fall > np.asarray(least))
        for way in (seen_lower, *self._ways(x, f, g, p, bends, shape, np.asarray(least))):
            asked = kit.without(rows & self._mask(way.worth), lower)
            asked = asked & uphill if way.other else asked
            if not kit.any(asked):
                continue
            point = self._space.project(x + adopt(x, way.step))
            seen = self._value_at(point, None if kit.size is None else asked)
            risen = asked & (seen > f + least)
            uphill = uphill if way.other else risen
            if way.longest and kit.any(risen):
                point = kit.where(risen, self._floor(point, seen, seen - f, bends, shape, risen), point)
                seen = kit.pick(risen, self._value_at(point, None if kit.size is None else risen), seen)
            better = asked & (seen < f - 0.5 * least)
            there, value = kit.where(better, point, there), kit.pick(better, seen, value)
            lower = lower | better
        rows = kit.without(rows, lower)
        return Around(rows & self._no_kink(x, f, model, rows), wrong, lower, there, value)

    def _floor(self, x: Array, f: Scalar, rise: Scalar, bends: Floats, shape: Shape, rows: Mask) -> Array:
        """Return the floor of a valley beside x, where f has risen by so much.

        One value for each stiff direction tells how far away it is.
        """
        root, move = np.sqrt(bends), np.zeros(np.shape(bends))
        for bend, v in zip(np.moveaxis(shape[0], -1, 0), np.moveaxis(shape[1], -1, 0), strict=True):
            stiff = np.asarray(rows) & (bend >= SOFT)
            d = np.sqrt(2 * np.where(stiff, rise, 0.0) / np.where(stiff, bend, 1.0))
            beside = self._space.project(x + adopt(x, d[..., None] * v / root))
            stiff = stiff & (to_numpy(beside) != to_numpy(x)).any(axis=-1)
            if stiff.any():
                change = np.where(stiff, self._value_at(beside, self._only(stiff)) - f, np.nan)
                step = 0.5 * d - change / np.where(stiff, d * bend, 1.0)
                move += np.where(np.isfinite(step), step, 0.0)[..., None] * v / root
        return self._space.project(x + adopt(x, move))

    def _no_kink(self, x: Array, f: Scalar, model: Model, rows: Mask) -> Mask:
        """Return where f bends over a third of the way by a ninth of what it does over the whole."""
        if not self._kit.any(rows):
            return rows
        u = model.reach / 3 * np.random.default_rng(0).choice([-1.0, 1.0], self._n)
        only = None if self._kit.size is None else rows
        ahead, back = (self._value_at(x + adopt(x, sign * u), only) for sign in (1.0, -1.0))
        v = u * np.sqrt(model.bends)
        expected = self._kit.scalar((v * (model.H * v[..., None, :]).sum(axis=-1)).sum(axis=-1))
        return rows & (ahead + back - 2 * f <= KINK * expected + LEVEL * self.level(f))

    def _ways(
        self, x: Array, f: Scalar, g: Array, p: Array, bends: Floats, shape: Shape, least: Floats
    ) -> list[Way]:
        """Return the steps that are worth a value."""
        root, (values, V) = np.sqrt(bends), shape
        slopes, faults = to_numpy(g) / root, self.fault(x, f, self.digits.central) / root
        free = to_numpy(self._space.free(x, g, self._kit.xp.ones_like(g)))
        s = ((free * slopes)[..., None] * V).sum(axis=-2)
        error = np.sqrt((((free * faults)[..., None] * V) ** 2).sum(axis=-2))
        stiff = np.maximum(np.abs(values), 4 / BENT * self._n)
        step = -(V * (s / stiff)[..., None, :]).sum(axis=-1)
        ways = [Way(step / root, 0.5 * (s * s / stiff).sum(axis=-1) > least)]
        size = np.maximum(np.abs(s), error)
        # what is certain of how f bends may leave no room for a fall
        sure = np.maximum(values - 4 / ENOUGH * self._n, 0.0)
        hidden = (np.abs(s) + error) ** 2 > 2 * sure * least[..., None]
        for k in range(self._n):
            length = np.where(s[..., k] > 0, -1.0, 1.0) * least / np.where(size > 0, size, np.inf)[..., k]
            way = length[..., None] * V[..., k] / root
            soft = (values[..., k] < SOFT) & hidden[..., k] & (length != 0)
            both = soft & (np.abs(s[..., k]) < LOUDER * error[..., k])
            ways += [Way(t * way, soft, t == TRIES[-1]) for t in TRIES]
            ways += [Way(-t * way, both, t == TRIES[-1], other=True) for t in TRIES]
        last = to_numpy(p) * root
        fall, square = -(last * slopes).sum(axis=-1), (last * last).sum(axis=-1)
        bend = (values * (last[..., None] * V).sum(axis=-2) ** 2).sum(axis=-1)
        soft = (fall > 0) & (bend < SOFT * square)
        way = (least / np.where(fall > 0, fall, np.inf))[..., None] * to_numpy(p)
        return ways + [Way(t * way, soft) for t in TRIES]

    def _model(self, x: Array, f: Scalar, rows: NDArray[np.bool_]) -> Model:
        """Make a quadratic model of f by values."""
        point, only, here = to_numpy(x), self._only(rows), np.asarray(f)[..., None]
        free, level = self._unfixed, np.asarray(self.level(f))[..., None]
        h = np.sqrt(BENT * level / self.bends(x, f))
        most = np.maximum(h, 0.1 * np.maximum(np.abs(point), 1.0))
        up, ahead, second, both = self._left_behind(point, here, level)
        unseen = np.full(point.shape, False)
        unseen[..., free] = ahead[..., free] == 0
        for _ in range(1 + RUNGS):
            if not (unseen & rows[..., None]).any():
                break
            way, back = self._fitted(point, h, h, True)
            way = np.where((back > 0) | self._space.contains(point + 2 * way), way, 0.5 * way)
            first, other = np.zeros(point.shape), np.zeros(point.shape)
            wanted = (unseen & (way != 0))[..., free]
            first[..., free] = self._beside(x, only, way[..., free], wanted)
            other[..., free] = self._beside(x, only, np.where(back > 0, -back, 2 * way)[..., free], wanted)
            bent = np.where(back > 0, first + other - 2 * here, other - 2 * first + here)
            up, ahead = np.where(unseen, first, up), np.where(unseen, way, ahead)
            second, both = np.where(unseen, bent, second), np.where(unseen, back > 0, both)
            unseen = unseen & (np.abs(second) < RESOLVED * level) & (way != 0)
            h = np.minimum(LONGER * h, most)
        square = np.where(ahead == 0, 1.0, ahead * ahead)
        bends = np.maximum(np.abs(second), RESOLVED * level) / square
        bends = np.where(np.isfinite(bends) & (bends > 0) & (ahead != 0), bends, self.bends(x, f))
        self.digits.bends = np.where(rows[..., None] & (ahead != 0), bends, self.digits.bends)
        root, n = np.sqrt(bends), self._n
        H = np.zeros((*point.shape, n))
        H[..., range(n), range(n)] = np.where(second < 0, -1.0, 1.0)
        for a, i in enumerate(free):
            for j in free[a + 1 :]:
                way = np.zeros(point.shape)
                way[..., [i, j]] = ahead[..., [i, j]]
                corner = np.asarray(self._value_at(self._space.project(x + adopt(x, way)), only))
                mixed = corner - up[..., i] - up[..., j] + here[..., 0]
                area = ahead[..., i] * ahead[..., j] * root[..., i] * root[..., j]
                mixed = np.clip(mixed / np.where(area == 0, np.inf, area), -1.0, 1.0)
                H[..., i, j] = H[..., j, i] = np.where(np.isfinite(mixed), mixed, 0.0)
        fall = np.where((ahead != 0) & np.isfinite(up), here - up, -np.inf)
        first = np.arange(n) == fall.argmax(axis=-1)[..., None]
        return Model(
            bends, H, np.where(both, np.abs(ahead), 0.0), np.where(first, ahead, 0.0), fall.max(axis=-1)
        )

    def _left_behind(
        self, point: NDArray[np.float64], here: Floats, level: Floats
    ) -> tuple[Floats, Floats, Floats, NDArray[np.bool_]]:
        """Return f ahead of x, how far that is, how f bends there, and where ∇f left that behind; else 0."""
        up, ahead, second = (np.zeros(point.shape) for _ in range(3))
        if self.sides is not None:
            x, far, back, above, below = np.moveaxis(self.sides, -1, 0)
            bent = above + below - 2 * here
            same = (x == point).all(axis=-1, keepdims=True) & (back > 0)
            fine = same & (np.abs(bent) > ENOUGH * level)
            up, ahead, second = (np.where(fine, part, 0.0) for part in (above, far, bent))
        return up, ahead, second, ahead > 0
