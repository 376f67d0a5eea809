"""Whether a run has ended, and how, from what is known at a point; pure, so that every driver can ask."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from .arrays import Scalar, Whole
from .kits import Kit
from .records import RUNNING, Move, Point
from .result import Status

BOTTOM = -1e-8
"""f is unbounded below if it falls under this part of the largest number."""

CONVERGED, SMALL_DECREASE, SMALL_MOVE, RELATIVE = map(
    int, (Status.CONVERGED, Status.SMALL_DECREASE, Status.SMALL_MOVE, Status.RELATIVE)
)
UNBOUNDED, NONFINITE_VALUE, NONFINITE_GRADIENT = map(
    int, (Status.UNBOUNDED, Status.NONFINITE_VALUE, Status.NONFINITE_GRADIENT)
)


@dataclass(frozen=True)
class Tolerances:
    """When a run has converged (0 is off), and below which value f is taken to have no minimum."""

    g: float
    f: float = 0.0
    x: float = 0.0
    bottom: float = -inf
    rel: float = 0.0
    assumed: bool = False
    """Whether g is the default, which means little where f is small."""


def asked(tolerance: Any) -> bool:
    """Return whether a tolerance is on: 0 is off, and one that is traced is on."""
    return not (isinstance(tolerance, float) and tolerance == 0.0)


def judge_step(kit: Kit, point: Point, last: Move, tolerances: Tolerances) -> Whole:
    """Return the status that f at a point, and the step that led there, give a run."""
    num, pick, f = kit.num, kit.pick, point.f
    code: Any = RUNNING
    if asked(tolerances.x):
        near = last.moved <= tolerances.x * num.maximum(kit.norm(point.x), 1.0)
        code = pick(near & (last.moved < inf) & (last.alpha > 0), SMALL_MOVE, code)
    if asked(tolerances.f):
        fall, scale = last.before - f, num.maximum(num.maximum(abs(last.before), abs(f)), 1.0)
        small = (fall >= 0) & (fall <= tolerances.f * scale) & (last.alpha > 0)
        code = pick(small, SMALL_DECREASE, code)
    code = pick(num.isfinite(f), code, NONFINITE_VALUE)
    return pick(f < tolerances.bottom, UNBOUNDED, code)


def judge_gradient(kit: Kit, point: Point, tolerances: Tolerances, top: Scalar = 0.0) -> Whole:
    """Return the status that ∇f at a point gives a run; `top` is the largest norm that it has seen."""
    near = point.gnorm <= tolerances.rel * top if asked(tolerances.rel) else False
    code = kit.pick(point.gnorm <= tolerances.g, CONVERGED, kit.pick(near, RELATIVE, RUNNING))
    return kit.pick(kit.num.isfinite(point.size), code, NONFINITE_GRADIENT)


def judge(kit: Kit, point: Point, last: Move, tolerances: Tolerances) -> Whole:
    """Return the status of a run that has come to a point, by all that is known there."""
    code = judge_step(kit, point, last, tolerances)
    return kit.pick(code == RUNNING, judge_gradient(kit, point, tolerances), code)
