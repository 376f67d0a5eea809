"""Check the gradient at the start against differences of f: on request, and where autodiff returns 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.arrays import to_numpy
from .._core.state import Point
from .._evaluation.evaluator import Context

DIRECTIONS = 3


def check_gradient(context: Context, point: Point) -> None:
    """Raise ValueError where slopes along ∇f and random directions differ; f and ∇f at x0 are kept."""
    evaluator, backend, project, x = context.evaluator, context.backend, context.space.project, point.x
    budget = context.counter.budget
    value, cost = evaluator.cost_value, evaluator.cost_grad
    values = (1 + 2 * DIRECTIONS) * value.evals + int(np.max(cost.evals))
    gradients = (1 + 2 * DIRECTIONS) * value.grads + cost.grads
    for name, limit, needed in (("evals", budget.evals, values), ("grads", budget.grads, gradients)):
        if limit is not None and limit < needed:
            raise ValueError(f"budget: {name}={limit} does not cover the {needed} that check_gradient needs")
    point.f = evaluator.value(x)
    point.g = g = evaluator.grad(x)
    point.known = True
    size = backend.norm(g)
    rng = np.random.default_rng([0, 0x57EE])
    eps = float(backend.xp.finfo(x.dtype).eps)
    h = eps ** (1 / 3) * np.maximum(backend.norm(x), 1.0)
    directions = [g] + [backend.own(rng.standard_normal(tuple(x.shape))) for _ in range(DIRECTIONS - 1)]
    for i, v in enumerate(directions):
        length = backend.norm(v)
        unit = backend.times(1 / np.where(length > 0, length, 1.0), v)
        front, back = project(x + backend.times(h, unit)), project(x - backend.times(h, unit))
        ahead, behind = evaluator.value(front), evaluator.value(back)
        slope = (ahead - behind) / (2 * h)
        claimed = backend.dot(g, front - back) / (2 * h)
        noise = eps * np.maximum(abs(ahead), abs(behind)) / h
        off = abs(slope - claimed) > 1e3 * eps ** (1 / 2) * np.maximum(size, abs(slope)) + 10 * noise
        if np.any(off):
            wrong = i == 0 and np.all(slope[off] < 0 if np.ndim(off) else slope < 0)
            why = "it has the wrong sign" if wrong else "it disagrees with differences of fun"
            rows = f" (rows {np.flatnonzero(off).tolist()})" if np.ndim(off) else ""
            raise ValueError(
                f"jac: {why} at x0{rows}: along one direction it gives a slope of "
                f"{_first(claimed, off):.6g}, differences of fun give {_first(slope, off):.6g}"
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


def _first(values: object, where: object) -> float:
    return float(np.atleast_1d(np.asarray(values))[np.atleast_1d(np.asarray(where))][0])
