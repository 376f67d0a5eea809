"""The inverse Hessian at the end of a run, for `Result.covariance`: measured, and NaN where it is not known.

H comes from exact products if there are any, else from differences of gradients, else of values. Differences
are taken over two lengths: where they disagree is their error. A variable along which f does not bend clearly
more than that has no variance, and no more have those that a flat direction moves.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .arrays import adopt, to_numpy
from .budget import Budget
from .drivers.caller import Caller, Meter
from .drivers.single import drive
from .objective import Objective
from .outcome import LOST
from .problem import Problem
from .questions import Asking, Point, Value, Values
from .run import Run

Floats = NDArray[np.float64]

CLEAR = 8.0
"""A curvature is clear if it is more than so many times its error."""
ROUNDINGS = 100.0
"""The error of exact products, in roundings."""
MOVED = 1e-3
"""A variable is moved by a flat direction if this is its part of it, or more."""
FEW, NEAR = 6, 4.0
"""A length is chosen anew at most so often, until f rises by what is wanted, within this factor."""
FURTHEST = 1e4
"""By how much a length changes at a time."""


class Measured(NamedTuple):
    """The Hessian over the variables `which`, and the error of its entries."""

    which: NDArray[np.intp]
    matrix: Floats
    error: Floats


def covariance_of(placed: Objective, run: Run) -> Floats:
    """Return the inverse Hessian at the end of a run, evaluating its functions anew."""
    here = run.best if run.status in LOST else run.here
    if here is None or here.f is None:
        raise ValueError("covariance: no finite point was seen")
    caller = Caller(placed.functions(), placed.x, Meter(Budget()), None, placed.jac is True)
    measured: Measured = drive(_measured(run, here), caller.answers, lambda: None)
    found = np.full(2 * here.x.shape, math.nan)
    found[np.ix_(measured.which, measured.which)] = inverted(measured.matrix, measured.error)
    return found if placed.scale is None else found * np.outer(placed.scale, placed.scale)


def inverted(matrix: Floats, error: Floats) -> Floats:
    """Return the inverse of a Hessian, NaN for the variables of which it does not tell a variance."""
    found = np.full_like(matrix, math.nan)
    bends = np.diag(matrix) > CLEAR * np.diag(error)
    matrix, error = matrix[np.ix_(bends, bends)], error[np.ix_(bends, bends)]
    if not matrix.size or not np.isfinite(matrix).all():
        return found
    size = np.sqrt(np.diag(matrix))
    curvature, axes = np.linalg.eigh(matrix / np.outer(size, size))
    flat = ~(curvature > CLEAR * np.linalg.norm(error / np.outer(size, size), 2))
    moved = (abs(axes[:, flat]) > MOVED).any(axis=1)
    part = axes[:, ~flat] / np.sqrt(curvature[~flat])
    known = (part @ part.T) / np.outer(size, size)
    known[moved], known[:, moved] = math.nan, math.nan
    found[np.ix_(bends, bends)] = known
    return found


# --- the Hessian -------------------------------------------------------------------------------------------


def _measured(run: Run, here: Point) -> Asking[Measured]:
    """Ask for the Hessian over the variables that are not at a bound."""
    problem, x = run.problem, to_numpy(here.x).astype(np.float64)
    room = _room(problem, x)
    which = np.flatnonzero(room > 0)
    if problem.products != "difference":
        matrix = to_numpy((yield from problem.matrix(here.x, here.g))).astype(np.float64)
        matrix = matrix[np.ix_(which, which)]
        size = np.sqrt(abs(np.diag(matrix)))
        return Measured(which, matrix, ROUNDINGS * problem.eps * np.outer(size, size))
    gradients = problem.gradients
    wrong = max(problem.eps * abs(here.f), gradients.eps_f(here.f), math.ulp(0.0))
    fallen = max(abs(here.f), run.f_start - here.f, wrong)
    if gradients.given or gradients.exact:
        hessian, rise = _by_gradients, problem.eps ** (2 / 3) * fallen
    else:
        hessian, rise = _by_values, math.sqrt(wrong * fallen)
    lengths = yield from _lengths(problem, here, which, room, rise)
    near = yield from hessian(problem, here, which, lengths)
    far = yield from hessian(problem, here, which, 2 * lengths)
    return Measured(which, near, abs(near - far) + ROUNDINGS * problem.eps * abs(near))


def _room(problem: Problem, x: Floats) -> Floats:
    """Return how far each variable can go both ways; 0 at a bound."""
    limits = problem.space.limits
    return np.full_like(x, math.inf) if limits is None else np.minimum(x - limits[0], limits[1] - x)


def _lengths(
    problem: Problem, here: Point, which: NDArray[np.intp], room: Floats, rise: float
) -> Asking[Floats]:
    """Return for each variable how far to go for f to bend by `rise`, with room for twice as far."""
    x = to_numpy(here.x).astype(np.float64)
    found = np.zeros(len(which))
    for place, i in enumerate(which.tolist()):
        least, most = 1e-10 * abs(float(x[i])), 0.5 * float(room[i])
        h = min(1e-4 * abs(float(x[i])) or 1e-4, most)
        for _ in range(FEW):
            ahead, back = _moved(here, {i: h}, {i: -h})
            bent = 0.5 * abs((yield Value(ahead)) + (yield Value(back)) - 2 * here.f)
            factor = math.sqrt(rise / bent) if bent > 0 else FURTHEST
            if 1 / NEAR <= factor <= NEAR:
                break
            h, before = min(max(h * min(max(factor, 1 / FURTHEST), FURTHEST), least), most), h
            if h == before:
                break
        found[place] = h
    return found


def _by_gradients(problem: Problem, here: Point, which: NDArray[np.intp], lengths: Floats) -> Asking[Floats]:
    """Ask for the Hessian as central differences of gradients."""
    columns: list[Floats] = []
    for i, h in zip(which.tolist(), lengths.tolist(), strict=True):
        ahead, back = _moved(here, {i: h}, {i: -h})
        change = (yield from problem.gradient(ahead)) - (yield from problem.gradient(back))
        columns.append(to_numpy(change).astype(np.float64)[which] / (2 * h))
    matrix = np.array(columns).reshape(len(which), len(which))
    return (matrix + matrix.T) / 2


def _by_values(problem: Problem, here: Point, which: NDArray[np.intp], lengths: Floats) -> Asking[Floats]:
    """Ask for the Hessian as second differences of values."""
    matrix = np.zeros((len(which), len(which)))
    steps = list(zip(which.tolist(), lengths.tolist(), strict=True))
    for a, (i, h) in enumerate(steps):
        ahead, back = yield Values(_moved(here, {i: h}, {i: -h}))
        matrix[a, a] = (ahead + back - 2 * here.f) / (h * h)
    for (a, (i, h)), (b, (j, k)) in combinations(enumerate(steps), 2):
        corners: list[float] = yield Values(
            _moved(here, {i: h, j: k}, {i: -h, j: -k}, {i: h, j: -k}, {i: -h, j: k})
        )
        both, neither, one, other = corners
        matrix[a, b] = matrix[b, a] = (both + neither - one - other) / (4 * h * k)
    return matrix


def _moved(here: Point, *moves: dict[int, float]) -> list[Any]:
    """Return points, each with these variables moved."""
    points: list[Any] = []
    for move in moves:
        away = np.zeros(here.x.shape[-1])
        away[list(move)] = list(move.values())
        points.append(here.x + adopt(here.x, away))
    return points
