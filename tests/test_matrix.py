"""Every method on every problem."""

import numpy as np
import pytest

import steepen as st
from steepen import Status

from .objectives import METHODS, PENALISED, PROBLEMS, derivatives
from .pairs import pairs, sample
from .rounding import seen

MATRIX = [(problem, method) for problem in PROBLEMS for method in METHODS]


LEVEL = 10 * np.finfo(float).eps


def check_trace(problem, method, res, searched=False):
    """Check all that must hold of a run with a callable gradient, whatever its step.

    Where a line search was made (`searched`), it may have asked for the gradient of trials level with f.
    """
    trace, steps = res.trace, res.nit
    assert {len(column) for _, column in trace.columns()} == {steps + 1}
    assert (trace.k == np.arange(steps + 1)).all()

    # the points, and what is said of them
    assert (trace.x[0] == problem.x0).all()
    assert (trace.x[-1] == res.x).all()
    assert trace.f[0] == seen(problem.fun)(problem.x0)
    assert trace.f[-1] == res.fun
    gradients = problem.grad(trace.x)
    assert np.allclose(trace.f, problem.fun(trace.x), rtol=1e-13, atol=1e-13)
    assert np.allclose(trace.gnorm, np.linalg.norm(gradients, axis=-1), rtol=1e-12)
    assert np.allclose(res.jac, gradients[-1], rtol=1e-13, atol=1e-300)

    # the steps
    moves = np.diff(trace.x, axis=0)
    downhill = (moves * gradients[:-1]).sum(axis=-1) < 0
    if method == "cgd-auto" and steps:
        assert downhill[0] or trace.gnorm[0] == 0, "from a saddle it leaves along a level line"
        assert downhill[1:].all()
    else:
        assert downhill.all()
        assert (trace.step[:-1] > 0).all()
    assert np.isfinite(trace.lam[:-1]).all()
    assert np.isnan([trace.step[-1], trace.lam[-1]]).all()
    assert trace.penalised[-1] == trace.guarded[-1] == 0
    assert not (trace.penalised & trace.guarded).any()
    steepest = ~trace.penalised[:-1] if method in PENALISED else trace.guarded[:-1] | (method == "gd")
    assert (trace.lam[:-1][steepest] == 0).all()
    expected = -trace.step[:-1, None] * gradients[:-1]
    scale = np.maximum(1e-300, np.abs(trace.x[:-1]).max(axis=-1, keepdims=True))
    assert (np.abs(moves - expected)[steepest] <= 1e-14 * (scale + abs(expected))[steepest]).all()
    if method not in PENALISED:
        assert not trace.penalised.any()
        assert method == "cgd-auto" or (trace.lam[:-1] == 0).all()

    # the counts
    assert trace.nfev[0] == trace.njev[0] == trace.nhvp[0] == 0
    probes = np.cumsum((trace.penalised | trace.guarded)[:-1])
    per_step = {"cgd-fd": probes}.get(method, 0 * probes)
    level = trace.njev[1:] - np.arange(1, steps + 1) - per_step
    if searched:
        assert (level >= 0).all()
    else:
        # cgd-auto looks for a way out of a saddle before it begins
        looks = level[0] if method == "cgd-auto" and trace.gnorm[0] == 0 else 0
        assert (level == looks).all()
        assert res.njev == steps + 1 + (per_step[-1] if steps else 0) + looks
    assert (trace.nhvp[1:] == (np.arange(1, steps + 1) if method == "cgd" else 0)).all()

    # the best point, and the end
    assert (res.best.fun, res.best.k) == (trace.f.min(), trace.f.argmin())
    assert (res.best.x == trace.x[res.best.k]).all()
    assert res.success == (res.status < 10)
    assert (res.message, res.method) == (Status(res.status).message, method)


@pytest.mark.parametrize(("problem", "method"), MATRIX)
def test_default_step(problem, method):
    calls = []

    def jac(x):
        calls.append(x)
        return problem.grad(x)

    given = derivatives(problem, method) | {"jac": jac, "budget": st.Budget(iters=150)}
    res = st.minimize(problem.fun, problem.x0, method=method, trace="x", **given)
    check_trace(problem, method, res, searched=True)
    assert res.njev == len(calls)
    level = LEVEL * np.abs(res.trace.f[:-1])
    assert (np.diff(res.trace.f) <= level).all(), "Armijo lowers f in every step, or f is level"
    assert res.nit == 0 or (np.diff(res.trace.f) < 0).mean() > 0.9
    assert res.status in {Status.CONVERGED, Status.MAX_ITERATIONS}
    assert res.success == (np.linalg.norm(problem.grad(res.x)) <= 1e-5)
    assert (res.nit == 0) == (problem.name == "at_saddle" and method != "cgd-auto")
    # Newton's method meets a saddle on the way there, and creeps past it by steepest descent
    if method in {"bfgs", "cgd-auto"} or (method == "newton" and problem.name != "rosenbrock10"):
        assert res.success


@pytest.mark.parametrize(("problem", "method"), sample(MATRIX, 50))
def test_fixed_small_step(problem, method):
    given = derivatives(problem, method) | {"step": problem.step, "budget": st.Budget(iters=25)}
    if method in PENALISED:
        given["lam"] = 0.1 * problem.step
    res = st.minimize(problem.fun, problem.x0, method=method, trace="x", **given)
    check_trace(problem, method, res)
    assert (np.diff(res.trace.f) <= 0).all()
    # the steps of cgd-auto after the first are shown as CGD steps from the point before
    shown = res.trace.step[:1] if method == "cgd-auto" else res.trace.step[:-1]
    assert (shown == problem.step).all()
    assert res.nit == 25 or res.success
    assert res.nfev == res.nit + 1
    if method in PENALISED:
        assert (res.trace.lam[:-1][res.trace.penalised[:-1]] == 0.1 * problem.step).all()


@pairs(
    problem=sample([p for p in PROBLEMS if p.name != "at_saddle"], 5),
    jac=["callable", True, "2-point", "3-point", "cs"],
    method=["cgd", "cgd-fd"],
)
def test_curvature_from_every_source_of_gradients(problem, jac, method):
    """The first step, p = −(∇f + 2λ·H·∇f), shows the H·∇f that went into it: three percent off at most."""

    def fun(x):
        return (problem.fun(x), problem.grad(x)) if jac is True else problem.fun(x)

    x, g = problem.x0, problem.grad(problem.x0)
    expected = problem.hvp(x, g)
    lam = float(0.1 * np.linalg.norm(g) / np.linalg.norm(expected))
    step = float(1e-3 * np.linalg.norm(x) / np.linalg.norm(g))
    given = {"method": method, "lam": lam, "step": step, "gtol": 0, "budget": st.Budget(iters=1)}
    res = st.minimize(fun, x, jac=problem.grad if jac == "callable" else jac, **given)
    product = ((x - res.x) / step - g) / (2 * lam)
    assert np.linalg.norm(product - expected) <= 0.03 * np.linalg.norm(expected)
