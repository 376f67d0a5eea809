"""Check ∇f against values of f, for the eager driver: on request, and where autodiff gives 0; may raise."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.arrays import to_numpy
from .._core.state import Point
from .._evaluation.counter import Cost
from .._evaluation.evaluator import Context

DIRECTIONS = 3


def check_gradient(context: Context, point: Point) -> None:
    """Raise ValueError where slopes along ∇f and random directions differ; f and ∇f at x0 are kept.

    Variables are measured in units of their own size, or of 1 where they are smaller.
    """
    evaluator, backend, project, x = context.evaluator, context.backend, context.space.project, point.x
    value, values = evaluator.cost_value, 1 + 2 * DIRECTIONS
    cost = Cost(values * value.evals, values * value.grads).plus(evaluator.cost_grad)
    if not np.all(context.affords(cost)):
        needed = f"{np.max(cost.evals)} values and {cost.grads} gradients"
        raise ValueError(f"budget: check_gradient needs {needed}, got {context.counter.budget!r}")
    point.f = evaluator.value(x)
    point.g, point.known = evaluator.grad(x), True
    g, eps, rng = point.g, context.eps, np.random.default_rng([0, 0x57EE])
    unit, h = backend.xp.maximum(abs(x), backend.xp.ones_like(x)), eps ** (1 / 3)
    steepest, size = unit * g, backend.norm(unit * g)
    others = (backend.own(rng.standard_normal(tuple(x.shape))) for _ in range(DIRECTIONS - 1))
    for v in (steepest, *others):
        length = backend.norm(v)
        way = unit * backend.times(h / np.where(length > 0, length, 1.0), v)
        front, back = project(x + way), project(x - way)
        ahead, behind = evaluator.value(front), evaluator.value(back)
        slope, claimed = (ahead - behind) / (2 * h), backend.dot(g, front - back) / (2 * h)
        noise = eps * np.maximum(abs(ahead), abs(behind)) / h
        off = abs(slope - claimed) > 1e3 * eps ** (1 / 2) * np.maximum(size, abs(slope)) + 10 * noise
        if len(rows := np.flatnonzero(off)):
            there, here = (float(np.atleast_1d(one)[rows[0]]) for one in (slope, claimed))
            why = "has the wrong sign" if v is steepest and there < 0 else "disagrees with differences of fun"
            which = "" if backend.size is None else f" (rows {rows.tolist()})"
            raise ValueError(
                f"jac: it {why} at x0{which}: along one direction it gives a slope of {here:.6g}, "
                f"differences of fun give {there:.6g}"
            )


def refuse_cut_graph(context: Context, point: Point, only: Any) -> None:
    """Raise ValueError if f changes near x although autodiff returns ∇f = 0 at x and nearby."""
    backend, space, evaluator, x = context.backend, context.space, context.evaluator, point.x
    size = context.eps ** (1 / 3) * np.random.default_rng(0).uniform(1.0, 2.0, int(x.shape[-1]))
    shift = backend.own(np.maximum(np.abs(to_numpy(x)), 1.0) * size)
    near = space.project(x + shift)  # to the other side where there is no room on this one
    near = backend.xp.where(near == x, space.project(x - shift), near)
    found, slope = evaluator.value(near, only), backend.norm(evaluator.grad(near, only))
    if np.any((found != point.f) & (slope == 0) & only):
        raise ValueError(
            "fun: its value changes with x, but autodiff returns a zero gradient: either the graph is broken "
            "(by x.detach(), .item(), torch.no_grad(), jax.lax.stop_gradient, or a NumPy call), or f is a "
            'step function; fix fun, or pass jac, such as "2-point"'
        )
