"""Check ∇f against values of f: on request, and where autodiff gives 0. They raise ValueError."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from .arrays import namespace, to_numpy
from .problem import Problem
from .questions import Asking, Denied, Point, Value, Vector
from .vectors import dot, norm, own

if TYPE_CHECKING:
    from .run import Run

DIRECTIONS = 3
"""Slopes are compared along ∇f, and along random directions."""

VALUES = 1 + 2 * DIRECTIONS
"""How many values of f a check takes."""


def check_gradient(problem: Problem, x: Vector, f: float) -> Asking[Point]:
    """Raise ValueError where slopes along ∇f and random directions differ; return f and ∇f at x.

    Variables are measured in units of their own size, or of 1 where they are smaller.
    """
    xp, project = namespace(x), problem.space.project
    eps = problem.eps
    g, error = yield from problem.gradients.gradient(x, f)
    unit, h = xp.maximum(abs(x), xp.ones_like(x)), eps ** (1 / 3)
    size = norm(unit * g)
    rng = np.random.default_rng([0, 0x57EE])
    for which in range(DIRECTIONS):
        v = own(x, rng.standard_normal(tuple(x.shape))) if which else unit * g
        way = unit * (h / (norm(v) or 1.0) * v)
        front, back = project(x + way), project(x - way)
        ahead, behind = (yield Value(front)), (yield Value(back))
        slope, claimed = (ahead - behind) / (2 * h), dot(g, front - back) / (2 * h)
        noise = eps * max(abs(ahead), abs(behind)) / h
        if abs(slope - claimed) > 1e3 * eps ** (1 / 2) * max(size, abs(slope)) + 10 * noise:
            why = "disagrees with differences of fun" if which or slope >= 0 else "has the wrong sign"
            raise ValueError(
                f"jac: it {why} at x0: along one direction it gives a slope of {claimed:.6g}, "
                f"differences of fun give {slope:.6g}"
            )
    return Point(x, f, g, 0, error)


def checked(run: Run, evals: float, grads: float, combined: bool) -> Asking[None]:
    """Return a run that begins with a check; what that has evaluated at the start is kept."""
    if run.here.f is None:  # else it is resumed
        values, gradients = VALUES + run.problem.gradients.cost, VALUES if combined else 1
        if values > evals or gradients > grads:
            raise ValueError(
                f"budget: check_gradient needs {values} values and {gradients} gradients, "
                f"got Budget(grads={grads:g}, evals={evals:g})"
            )
        with suppress(Denied):  # by the clock: then the run ends as soon as it begins
            f = yield Value(run.start)
            run.checked = Point(run.start, f)
            run.checked = yield from check_gradient(run.problem, run.start, f)
    yield from run.iterate()


def refuse_cut_graph(problem: Problem, here: Point) -> Asking[None]:
    """Raise ValueError if f changes near x although autodiff returns ∇f = 0 at x and nearby."""
    space, x = problem.space, here.x
    size = problem.eps ** (1 / 3) * np.random.default_rng(0).uniform(1.0, 2.0, int(x.shape[-1]))
    shift = own(x, np.maximum(np.abs(to_numpy(x)), 1.0) * size)
    near = space.project(x + shift)  # to the other side where there is no room on this one
    near = namespace(x).where(near == x, space.project(x - shift), near)
    found = yield Value(near)
    slope = norm((yield from problem.gradient(near)))
    if found != here.f and slope == 0:
        raise ValueError(
            "fun: its value changes with x, but autodiff returns a zero gradient: either the graph is broken "
            "(by x.detach(), .item(), torch.no_grad(), jax.lax.stop_gradient, or a NumPy call), or f is a "
            'step function; fix fun, or pass jac, such as "2-point"'
        )
