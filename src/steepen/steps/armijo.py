"""Armijo backtracking, the default step: allows for the noise of f, and uses slopes at ties.

Where noise drowns the values, and ∇f is given, slopes judge alone, as in the approximate Wolfe conditions of
Hager and Zhang (2005): a trial is accepted unless the slope there rises too steeply.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from typing import Self

from .._tools.check import number, whole
from ..differences.tuning import SHORTEST
from ..problem import Problem
from ..questions import Asking, Denied, Point, Value, Vector
from ..roundoff import drowns, noise_near
from ..vectors import dot, ratio, same
from .step import Found, Step

LEVEL = 10.0  # values that differ by no more than this many roundings, or noise levels, are "level"
FLATTER = 0.9  # among level points, a step is accepted if it reduces the slope to this fraction
SUSPECT, WARY = 1e-6, 4e-6  # changes and predicted decreases of less than this fraction of f may be noise
FURTHEST, APART, LOOKS = 30.0, 0.25, 4  # by how much a step is lengthened or cut (see `_further`), how often
FORGIVEN = 2.0  # f may increase by this many times the estimated error of a value
SUSPECT_TRIALS = 4  # after this many trials that noise may have corrupted, the noise is estimated
PERSISTS = 0.01  # noise shows over this part of a step as well; what an inaccurate slope adds shrinks with it
PROBED = 1e-6  # a curvature estimate, which noise may make far too large, cuts a step to no less than this


@dataclass
class Armijo(Step):
    """Backtracking until f decreases by `c` times the decrease the slope predicts; cuts by interpolation.

    The first trial is `initial`, and after that the last accepted α times `grow`, at most `longest`. With
    `grow=inf` every search starts at `longest`, which suits Newton-like directions.

    With `probe=True`, if the first trial of a run fails, one more gradient close to x gives the curvature
    along p, and the minimiser of that parabola is tried next: at the start no other scale is known.

    With `noise_tolerant=True` values that differ by up to 4e-6 of f, instead of 1e-6, may be noise. Where two
    values show none although the slope implies some, two more are taken.

    Examples
    --------
    >>> import steepen as st
    >>> st.minimize(st.functions["booth"], [8.0, -8.0], method="gd", step=st.steps.Armijo()).success
    True
    """

    initial: float = 1.0
    c: float = 1e-4
    grow: float = 2.0
    longest: float = math.inf
    trials: int = 60
    probe: bool = False
    noise_tolerant: bool = False

    last: float = field(default=0.0, init=False, repr=False)
    """The last α; 0 where a search has failed, since the next one then begins anew."""
    searched: bool = field(default=False, init=False, repr=False)
    noise: float = field(default=0.0, init=False, repr=False)

    def __post_init__(self) -> None:
        number("initial", self.initial, "a positive number", above=0)
        number("c", self.c, "a number between 0 and 1", above=0, below=1)
        for name, value, least in (("grow", self.grow, 1.0), ("longest", self.longest, self.initial)):
            if value != math.inf:
                number(name, value, f"a number, {least:g} or more", least=least)
        if self.grow == self.longest == math.inf:
            raise ValueError("longest: expected a finite number where grow is infinite, got inf")
        whole("trials", self.trials, 1)

    def prepare(self, total: int | None = None, row: int | None = None, rows: int | None = None) -> Self:
        return copy.copy(self)  # its fields are numbers

    def along(self, problem: Problem, here: Point, p: Vector, slope: float) -> Asking[Found | None]:
        x, f, g = here.x, here.f, here.g
        space, cheap = problem.space, problem.gradients.cheap
        eps_f = problem.gradients.eps_f(f)
        # relaxed Armijo: the error of both values is forgiven (Berahas, Byrd and Nocedal 2019)
        allowed = FORGIVEN * eps_f
        first, self.searched = not self.searched, True
        start = t = min(self.longest, self.grow * self.last) if self.last > 0 else self.initial
        self.last, doubts = 0.0, 0
        for trial in range(self.trials):
            point, fall = space.ahead(x, g, p, t, slope)
            if trial and self._lost(point, here, fall, eps_f, not cheap and not first and t < SHORTEST):
                return None
            found = yield Value(point)
            if self.noise and cheap and self._drowned(found, f, problem.eps):
                ahead, rise = yield from _slope(problem, space.way(x, p, t, point), point, found)
                if rise < FLATTER * abs(fall):
                    self.last = t
                    return Found(t, point, found, ahead)
                t = _within(t, ratio(fall * t, fall - rise))
                continue
            accepted, ahead = found <= f + self.c * fall + allowed and found < f + allowed, None
            if not accepted and cheap:
                way = space.way(x, p, t, point)
                if self._close(found, f, fall, problem.eps):
                    doubts += 1
                    ahead = yield from self._flatter(problem, here, point, way, found, fall, doubts)
                    accepted = ahead is not None
                elif self._in_vain(trial, found) and (
                    yield from self._contradicts(problem, here, point, way, found, fall)
                ):
                    t = start  # the trials were cut for nothing
                    continue
            if accepted:
                if not cheap:
                    t, point, found = yield from self._further(problem, here, p, slope, t == start, t, found)
                self.last = t
                return Found(t, point, found, ahead)
            cut = _cut(t, found, f, fall)
            if self.probe and cheap and first and trial == 0:
                cut = yield from self._probed(problem, here, p, slope, t, cut)
            t = cut
        return None

    def _lost(self, point: Vector, here: Point, fall: float, eps_f: float, short: bool) -> bool:
        """Return whether a step is lost in the rounding of x, or in the noise of f: it needs no value."""
        noise = 0.0 if drowns(self.noise, here.f) else self.noise
        return short or not max(eps_f, noise) <= LEVEL * abs(fall) or same(point, here.x)

    @staticmethod
    def _in_vain(trial: int, found: float) -> bool:
        """Return whether so many trials have failed that f itself is doubted."""
        return trial > 0 and trial % SUSPECT_TRIALS == 0 and math.isfinite(found)

    def _drowned(self, found: float, f: float, eps: float) -> bool:
        """Return whether noise drowns f, and the difference of two values with it."""
        return drowns(self.noise, f) and _level(found, f, eps, self.noise)

    def _contradicts(
        self, problem: Problem, here: Point, point: Vector, way: Vector, found: float, fall: float
    ) -> Asking[bool]:
        """Return whether noise drowns f: a trial contradicts both slopes, and so do values close to x."""
        f, eps = here.f, problem.eps
        _, rise = yield from _slope(problem, way, point, found)
        if abs(found - f - 0.5 * (fall + rise)) <= abs(rise - fall):
            return False
        seen = 0.0
        for part in (PERSISTS, 1.0):
            seen = yield from noise_near(problem, here, part * way)
            if not (drowns(seen, f) and _level(found, f, eps, seen)):
                return False
        self.noise = max(self.noise, seen)
        return True

    def _close(self, found: float, f: float, fall: float, eps: float) -> bool:
        """Return whether rounding or noise may hide a decrease of f."""
        rise, size = abs(found - f), abs(f)
        part = WARY if self.noise_tolerant else SUSPECT
        return max(rise, abs(fall)) <= part * size or rise <= LEVEL * eps * size

    def _flatter(
        self,
        problem: Problem,
        here: Point,
        point: Vector,
        way: Vector,
        found: float,
        fall: float,
        doubts: int,
    ) -> Asking[Vector]:
        """Judge a trial by its slope (Hager and Zhang): return ∇f there if it is accepted, else None."""
        ahead = yield from problem.gradient(point, found)
        f, eps = here.f, problem.eps
        flatter = abs(dot(ahead, way)) < FLATTER * abs(fall)
        # noise is measured where values contradict slopes by more than is known of it
        if (flatter or doubts == SUSPECT_TRIALS) and not _level(found, f, eps, self.noise):
            seen = 0.0
            for part in (1.0, 0.5) if self.noise_tolerant else (1.0,):  # chance may hide it once
                seen = max(seen, (yield from noise_near(problem, here, part * way)))
                if _level(found, f, eps, seen):
                    self.noise = seen
                    break
        return ahead if flatter and _level(found, f, eps, self.noise) else None

    @staticmethod
    def _probed(
        problem: Problem, here: Point, p: Vector, slope: float, t: float, cut: float
    ) -> Asking[float]:
        """Return the minimiser of the parabola along p given by one more gradient; else the cut."""
        r = problem.difference_length(here.x, p)
        bend = ratio(dot(p, (yield from problem.change(here.x, p, here.g, r))), r)
        if not 0 < bend < math.inf:
            return cut
        return min(max(-slope / bend, PROBED * t), 0.5 * t)

    @staticmethod
    def _further(
        problem: Problem, here: Point, p: Vector, slope: float, uncut: bool, t: float, found: float
    ) -> Asking[tuple[float, Vector, float]]:
        """Try the minimum of the interpolating parabola while it is far from the step; f is cheap here."""
        x, f, g, space = here.x, here.f, here.g, problem.space
        least = LEVEL * problem.gradients.eps_f(f)
        point, fall = space.ahead(x, g, p, t, slope)
        for _ in range(LOOKS):
            best = ratio(-fall, 2 * (found - f - fall))
            part = min(max(best, 1 / FURTHEST), FURTHEST) if best > 0 else FURTHEST
            # a step that was cut is not lengthened again
            far = (part > 1 + APART and uncut) or part < 1 / (1 + APART)
            if not (far and abs(fall) > least):
                break
            other, other_fall = space.ahead(x, g, p, t * part, slope)
            try:
                there = yield Value(other)
            except Denied:  # the run ends at its next question; the accepted point is kept
                break
            if not there < found:
                break
            t, point, found, fall = t * part, other, there, other_fall
        return t, point, found


def _slope(problem: Problem, way: Vector, point: Vector, found: float) -> Asking[tuple[Vector, float]]:
    """Return ∇f at a trial, and the change of f over the way there by its slope."""
    ahead = yield from problem.gradient(point, found)
    return ahead, dot(ahead, way)


def _level(found: float, f: float, eps: float, noise: float) -> bool:
    """Return whether two values of f differ by no more than its rounding or its noise explains."""
    return abs(found - f) <= LEVEL * max(eps * abs(f), noise)


def _cut(t: float, found: float, f: float, fall: float) -> float:
    """Return the minimiser of the parabola through f, the slope and the trial, within [t/10, t/2]."""
    return _within(t, ratio(-fall * t, 2 * (found - f - fall)))


def _within(t: float, best: float) -> float:
    """Return a shorter step: the best one, within [t/10, t/2]."""
    return min(max(best if math.isfinite(best) else 0.0, 0.1 * t), 0.5 * t)
