"""A row of a batch with fixed steps is the run made alone, to the last bit of every field."""

import functools
import signal
import time
import warnings

import numpy as np
import pytest

import steepen as st
from steepen import Budget, Status
from steepen.drivers import fixed_results, lockstep
from steepen.penalties import L1, L2, Huber, PNorm, SquaredL2
from steepen.schedules import Auto, L, Perturbed, Signed
from steepen.switches import After, FirstGuard, GoodDrop, Never, SmallImprovement

from ..calls import At, raising, same
from ..objectives import BY_NAME, PROBLEMS, chain, derivatives
from ..pairs import pairs, sample

METHODS = ("gd", "bfgs", "dfp", "cgd", "cgd-fd", "cgd-bfgs", "cgd-dfp")
PENALISED = METHODS[3:]
BEALE, ROSENBROCK = BY_NAME["beale"], BY_NAME["rosenbrock10"]
EXACT = [p for p in PROBLEMS if p.exact and p.n < 32]
TRACES = ("x", True, False)


@pytest.fixture(autouse=True)
def by_fixed_steps(monkeypatch):
    """See that no batch of this file is left to lockstep."""
    monkeypatch.setattr("steepen._call.solve.solve_batch", raising(AssertionError("left to lockstep")))


def by_lockstep(monkeypatch):
    """Leave all batches to lockstep, from here on."""
    monkeypatch.setattr("steepen._call.solve.fits", lambda *_: False)
    monkeypatch.setattr("steepen._call.solve.solve_batch", lockstep.solve_batch)


def minimize(fun, x0, **given):
    """Minimise functions that may overflow."""
    with np.errstate(all="ignore"):
        return st.minimize(fun, x0, **given)


def starts(problem, rows, spread=0.3, seed=7):
    return problem.x0 * (1 + spread * np.random.default_rng(seed).uniform(-1, 1, (rows, problem.n)))


def check(fun, x0, per_row=None, **common):
    """Hold each row of a batch to the run made alone, and return the batch."""
    common = {"trace": "x"} | common
    batch = minimize(fun, x0, **(per_row or {}), **common)
    for b, start in enumerate(x0):
        own = {name: float(values[b]) for name, values in (per_row or {}).items()}
        same(batch.row(b), minimize(fun, np.array(start), **own, **common))
    return batch


def check_problem(problem, method, rows=5, per_row=None, **given):
    base = {"step": problem.step, "budget": Budget(iters=25)} | derivatives(problem, method)
    given = base | given
    if per_row and "step" in per_row:
        del given["step"]
    return check(problem.fun, starts(problem, rows), per_row, method=method, **given)


@pairs(problem=EXACT, method=METHODS, trace=TRACES)
def test_methods(problem, method, trace):
    if problem.name != "at_saddle":
        check_problem(problem, method, trace=trace)


@pytest.mark.parametrize("problem", sample(EXACT, 4), ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_own_parameters_for_every_row(problem, method):
    per_row = {"step": problem.step * np.array([1.0, 0.3, 0.8, 40.0, 1e4])}
    if method in PENALISED:
        per_row["lam"] = problem.step * np.array([0.1, 0.0, -0.2, 0.3, 3.0])
    if method == "cgd-fd":
        per_row["r"] = problem.step * np.array([0.01, 0.1, 1.0, 0.001, 1.0])
    check_problem(problem, method, per_row=per_row, budget=Budget(iters=15))


SCHEDULES = {
    "line": L(0.001, 0.03),
    "short line": L(0.001, 0.03, T=4),
    "callable": lambda k: 0.01 / (1 + k),
    "auto": Auto(),
    "signed": Signed(0.02),
    "perturbed": Perturbed(0.02, factor=0.1),
    "both": Signed(Perturbed(L(0.001, 0.5))),
    "signed auto": Signed(Auto()),
    "negative": -0.03,
}


@pairs(method=PENALISED, lam=SCHEDULES, step=("line", "short line", "callable", ""), name=("beale", "booth"))
def test_schedules(method, lam, step, name):
    step = SCHEDULES[step] if step else 0.004
    check_problem(BY_NAME[name], method, lam=SCHEDULES[lam], step=step)


@pytest.mark.parametrize("method", PENALISED)
def test_a_schedule_by_curvature_has_values_of_its_own_for_every_row(method):
    values = np.array([0.1, 0.02, -0.3, 0.0, 1.0])
    x0 = starts(BEALE, 5)
    given = {"method": method, "step": 0.01, "budget": Budget(iters=20)} | derivatives(BEALE, method)
    batch = minimize(BEALE.fun, x0, lam=Signed(values), **given)
    for b in range(5):
        same(batch.row(b), minimize(BEALE.fun, x0[b], lam=Signed(values[b]), **given))


SWITCHES = (
    Never(), After(0), After(3), FirstGuard(), SmallImprovement(0.05), GoodDrop(0.3),
    After(9) | FirstGuard(), GoodDrop(0.9) | SmallImprovement(1e-3) | After(15),
)  # fmt: skip


@pairs(method=PENALISED, switch=SWITCHES, lam=(0.05, 0.5, -0.4, Auto()), trace=TRACES)
def test_switches(method, switch, lam, trace):
    check_problem(BEALE, method, rows=7, switch=switch, lam=lam, step=0.02, trace=trace)


@pairs(method=PENALISED, b=(0, 2, 30), lam=(0.3, -0.3), guard=(True, False))
def test_the_guard(method, b, lam, guard):
    """Rows are turned off in different iterations, and with them a second gradient."""
    batch = check_problem(ROSENBROCK, method, rows=8, b=b, lam=lam, step=1e-4, guard=guard)
    assert guard or not batch.trace.guarded.any()


PENALTIES = (SquaredL2(), L2(), Huber(0.5), L1(), L1(3.0), PNorm(), PNorm(1.5), PNorm(2.0))


@pairs(method=PENALISED, penalty=PENALTIES, lam=(0.05, Auto(), Perturbed(1)), name=("beale", "rosenbrock10"))
def test_penalties(method, penalty, lam, name):
    problem = BY_NAME[name]
    check_problem(problem, method, penalty=penalty, lam=lam)


@pairs(
    method=METHODS, name=("beale", "rosenbrock10", "booth", "quadratic"),
    box=((-0.9, 0.9), (-1.3, None), (None, 1.2), (-2.0, 2.5)), trace=TRACES, lam=(0.05, None),
)  # fmt: skip
def test_bounds(method, name, box, trace, lam):
    problem = BY_NAME[name]
    more = {"lam": lam} if lam is not None and method in PENALISED else {}
    bounds = [box] * problem.n
    bounds[0] = (problem.x0[0], problem.x0[0])  # it can never move
    for limits in ([box] * problem.n, bounds):
        check_problem(problem, method, bounds=limits, trace=trace, step=4 * problem.step, **more)


TOLERANCES = (
    {"gtol": 1e-1}, {"gtol": 1e9}, {"ftol": 1e-3}, {"xtol": 1e-3}, {"gtol_rel": 1e-1}, {"gtol_rel": 2.0},
    {"ftol": 1e-2, "xtol": 1e-3, "gtol_rel": 0.3, "gtol": 0.0}, {"gtol": 0.0},
)  # fmt: skip


@pairs(method=METHODS, tolerances=TOLERANCES, name=("beale", "quadratic"), trace=TRACES)
def test_tolerances(method, tolerances, name, trace):
    problem = BY_NAME[name]
    given = {"step": 0.05, "budget": Budget(iters=120), "trace": trace} | tolerances
    check_problem(problem, method, rows=6, **given)


LIMITS = [{name: limit} for name in ("grads", "evals", "iters") for limit in range(1, 10)] + [
    {"iters": 0}, {"grads": 9, "evals": 8}, {"grads": 6, "iters": 5}, {"evals": 4, "iters": 9},
]  # fmt: skip


@pairs(method=METHODS, limit=LIMITS, both=(False, True), trace=TRACES)
def test_budgets(method, limit, both, trace):
    """No limit is exceeded, whatever a row needs; `both` is a function that returns its gradient, too."""
    given = {"budget": Budget(**{"iters": 60} | limit), "trace": trace, "gtol": 0.0}
    if method in PENALISED:
        given |= {"lam": 0.3, "switch": FirstGuard()}
    if not both:
        check_problem(BEALE, method, rows=6, step=0.02, **given)
    else:
        given |= derivatives(BEALE, method) | {"jac": True, "step": 0.02, "method": method}
        check(lambda x: (BEALE.fun(x), BEALE.grad(x)), starts(BEALE, 6), **given)


@pairs(method=METHODS, trace=TRACES, lam=(0.1, None))
def test_a_function_that_returns_its_gradient(method, trace, lam):
    given = {"lam": lam} if lam is not None and method in PENALISED else {}
    fun, x0 = lambda x: (BEALE.fun(x), BEALE.grad(x)), starts(BEALE, 6)
    batch = check(fun, x0, method=method, jac=True, step=0.01, budget=Budget(iters=12), trace=trace, **given)
    assert (batch.nfev == batch.njev).all()


@pairs(method=("cgd", "cgd-fd"), r=(1e-300, 0.1), grads=(7, 40))
def test_a_gradient_that_is_at_hand_costs_nothing(method, r, grads):
    """Where r·v is nothing beside x, the second point of a difference is the first."""
    more = {"r": r} if method == "cgd-fd" else {}
    x0 = starts(BEALE, 4)
    x0[2] *= 1e5  # a long step: a gradient so large that even so the point is another
    check(
        lambda x: (BEALE.fun(x), BEALE.grad(x)), x0, method=method, jac=True, step=1e-3, lam=0.1,
        budget=Budget(grads=grads), **more,
    )  # fmt: skip


@pairs(second=("hvp", "hess", None), lam=(0.1, None), switch=(Never(), FirstGuard()), step=(0.02, 1e-17))
def test_products(second, lam, switch, step):
    """A Hessian is not evaluated again where a row has not moved."""
    given = {"jac": BEALE.grad, "step": step, "lam": lam, "switch": switch, "budget": Budget(iters=9)}
    given |= {second: getattr(BEALE, second)} if second else {}
    check(BEALE.fun, starts(BEALE, 5), method="cgd", **given)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rows", [2, 10, 31])
def test_square_batches(method, rows):
    """A function for one point is found out: the first square batch is sent in two parts."""
    problem = {2: BEALE, 10: ROSENBROCK, 31: chain(31)}[rows]
    check_problem(problem, method, rows=rows, budget=Budget(iters=4))
    with pytest.raises(TypeError, match="expected one value for each of the"):
        st.minimize(
            lambda x: (x @ x).sum() if x.ndim == 1 else x[0], np.eye(2), method="gd", jac=BEALE.grad, step=1.0
        )


@pytest.mark.parametrize("method", METHODS)
def test_one_row(method):
    check_problem(BEALE, method, rows=1)


@pytest.mark.parametrize("method", METHODS)
def test_float32(method):
    def f(x):
        return (x * x * x * x).sum(axis=-1) + d(x) * d(x)

    def g(x):
        return 4 * x * x * x + np.stack([2 * d(x), -2 * d(x)], axis=-1)

    def d(x):
        return x[..., 0] - x[..., 1]

    x0 = np.random.default_rng(2).uniform(-2, 2, (7, 2)).astype(np.float32)
    for bounds in (None, [(-1.0, 1.5)] * 2):
        batch = check(f, x0, method=method, jac=g, step=0.01, budget=Budget(iters=30), bounds=bounds)
        assert batch.x.dtype == batch.trace.x.dtype == np.float32


WILD = np.array([[1.0, 2.0], [-3.0, 0.5], [0.0, 0.0], [1.2, -4.0], [0.3, 0.3], [9.0, 9.0], [1e200, 1.0]])


def fenced(x):
    """Not a number beyond 1.5, −∞ beyond 4, and finite elsewhere: −Σx², without a bound."""
    top = abs(x).max(axis=-1)
    bad = np.where(top > 4.0, -np.inf, np.nan)
    return np.where(top > 1.5, bad, -(x * x).sum(axis=-1))


FUNCTIONS = {
    "fenced": (fenced, lambda x: -2 * x),
    "infinite": (lambda x: np.where(x[..., 0] > 2, np.inf, (x * x).sum(axis=-1)), lambda x: 2 * x),
    "unbounded": (lambda x: -np.exp((x * x).sum(axis=-1)), lambda x: -2 * x * np.exp(abs(x))),
    "steep": (lambda x: (x**4).sum(axis=-1), lambda x: 4 * x**3),
    "no gradient": (lambda x: (x * x).sum(axis=-1), lambda x: np.where(x > 1, np.nan, 2 * x)),
    "huge gradient": (lambda x: (x * x).sum(axis=-1), lambda x: 1e200 * x),
    "tiny": (lambda x: 1e-200 * (x * x).sum(axis=-1), lambda x: 2e-200 * x),
    "flat": (lambda x: 0 * x[..., 0], lambda x: 0 * x),
}


@pairs(method=METHODS, name=FUNCTIONS, step=(0.1, 3.0, 1e150), both=(False, True), trace=TRACES)
def test_rows_that_go_wrong(method, name, step, both, trace):
    fun, jac = FUNCTIONS[name]
    f, j = (lambda x: (fun(x), jac(x)), True) if both else (fun, jac)
    check(f, WILD, method=method, jac=j, step=step, budget=Budget(iters=40), trace=trace)


@pairs(method=METHODS, both=(False, True), lam=(0.5, -0.5, None), bounds=(None, [(-2.0, 2.0)] * 2))
def test_rows_at_an_artificial_point(method, both, lam, bounds):
    """A quadratic with Hv = −g/(2λ) along its axes, where the penalised direction vanishes."""
    w = np.array([-1.0, 1.0])
    fun, jac = lambda x: (w * x * x).sum(axis=-1) / 2, lambda x: w * x
    x0 = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1e-5], [1e-9, 1.0], [0.0, 0.0]])
    more = {"lam": lam} if lam is not None and method in PENALISED else {}
    f, j = (lambda x: (fun(x), jac(x)), True) if both else (fun, jac)
    for budget in (Budget(iters=6), Budget(grads=6), Budget(evals=4)):
        given = {"jac": j, "step": 0.1, "budget": budget, "ftol": 1e-12, "bounds": bounds} | more
        check(f, x0, method=method, **given)


@pytest.mark.parametrize("x_scale", [[4.0, 0.5], "auto"])
@pytest.mark.parametrize("method", METHODS)
def test_scales(method, x_scale):
    bounds = [(-3.0, 5.0), (-2.0, 2.0)]
    check_problem(BEALE, method, x_scale=x_scale, bounds=bounds)


@pytest.mark.parametrize("method", METHODS)
def test_the_order_in_memory_does_not_matter(method):
    x0 = starts(ROSENBROCK, 6)
    given = {"method": method, "step": 1e-4, "budget": Budget(iters=12)} | derivatives(ROSENBROCK, method)
    first = st.minimize(ROSENBROCK.fun, x0, **given)
    fortran = lambda x: np.asfortranarray(ROSENBROCK.grad(x))  # noqa: E731
    for start, jac in ((np.asfortranarray(x0), ROSENBROCK.grad), (x0[::-1][::-1], fortran)):
        same(st.minimize(ROSENBROCK.fun, start, **given | {"jac": jac}), first)


@pytest.mark.parametrize("trace", TRACES)
def test_a_trace_that_grows(monkeypatch, trace):
    monkeypatch.setattr(fixed_results, "FIRST_BLOCK", 1)
    step = np.array([1.0, 0.7, 0.4, 1e-3])
    batch = check_problem(
        BY_NAME["booth"], "gd", per_row={"step": 0.1 * step}, rows=4, budget=Budget(iters=400), trace=trace
    )
    assert len(set(batch.nit)) > 2


# --- the user's functions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_functions_see_copies_and_keep_what_they_return(method):
    kept = []

    def spoils(x, function):
        found = function(x)
        x[:] = np.nan
        kept.append((found, found.copy()))
        return found

    given = {"method": method, "step": 0.01, "budget": Budget(iters=6), "trace": "x"}
    x0 = starts(BEALE, 4)
    fun, jac = (functools.partial(spoils, function=function) for function in (BEALE.fun, BEALE.grad))
    spoilt = st.minimize(fun, x0, jac=jac, **given)
    same(spoilt, st.minimize(BEALE.fun, x0, jac=BEALE.grad, **given))
    assert all((one == other).all() for one, other in kept)
    assert (x0 == starts(BEALE, 4)).all()


@pytest.mark.parametrize("method", METHODS)
def test_rows_are_evaluated_as_in_lockstep(method, monkeypatch):
    """The same calls with the same points, in the same order."""
    asked = []

    def noting(name, function):
        def call(x):
            asked.append((name, x.copy()))
            return function(x)

        return call

    def calls():
        asked.clear()
        result = minimize(
            noting("f", BEALE.fun), starts(BEALE, 6), jac=noting("g", BEALE.grad), method=method, gtol=1.0,
            step=np.array([0.1, 0.02, 0.01, 0.003, 10.0, 0.05]), budget=Budget(iters=30), trace="x",
        )  # fmt: skip
        return result, list(asked)

    mine, my_calls = calls()
    by_lockstep(monkeypatch)
    same(mine, calls()[0])
    assert len(my_calls) == len(asked)
    assert all(a == b and np.array_equal(x, y) for (a, x), (b, y) in zip(my_calls, asked, strict=True))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("which", ["f", "g"])
@pytest.mark.parametrize("call", [0, 1, 4])
@pytest.mark.parametrize("error", [ValueError("mine"), StopIteration("mine"), KeyboardInterrupt()])
def test_errors_leave_with_the_run_so_far(method, which, call, error, monkeypatch):
    def partial():
        functions = {"f": BEALE.fun, "g": BEALE.grad}
        functions[which] = At(functions[which], call, raising(error))
        with pytest.raises(type(error)) as caught:
            st.minimize(
                functions["f"], starts(BEALE, 5), method=method, jac=functions["g"], step=0.01, trace="x",
                budget=Budget(iters=20),
            )  # fmt: skip
        assert caught.value is error
        return error.partial_result

    mine = partial()
    assert set(mine.status) == {Status.INTERRUPTED if isinstance(error, KeyboardInterrupt) else Status.FAILED}
    by_lockstep(monkeypatch)
    other = partial()
    assert (mine.x == other.x).all()
    assert (mine.nit == other.nit).all()
    np.testing.assert_array_equal(mine.trace.f, other.trace.f)
    np.testing.assert_array_equal(mine.trace.njev, other.trace.njev)


def test_a_step_that_is_not_positive_is_refused():
    with pytest.raises(ValueError, match=r"step: expected positive values, got -1\.0 at k = 3"):
        st.minimize(
            BEALE.fun, starts(BEALE, 3), method="gd", jac=BEALE.grad, step=lambda k: -1.0 if k == 3 else 0.01
        )


def test_functions_run_in_the_users_error_state():
    """Ours is silent, and theirs is as they have set it."""
    seen = []

    def fun(x):
        seen.append(np.geterr()["divide"])
        return (x * x * x * x).sum(axis=-1)

    with np.errstate(all="raise", over="ignore", under="ignore", divide="warn"), warnings.catch_warnings():
        warnings.simplefilter("error")
        st.minimize(
            fun, np.array([[1e60, 1.0], [1.0, 2.0], [3.0, 1e-200]]), method="cgd-fd", jac=lambda x: x,
            step=0.1, budget=Budget(iters=40),
        )  # fmt: skip
    assert set(seen) == {"warn"}


def test_seconds():
    def fun(x):
        time.sleep(0.02)
        return (x * x).sum(axis=-1)

    batch = st.minimize(
        fun, np.ones((3, 2)), method="gd", jac=lambda x: x, step=1e-6, budget=Budget(seconds=0.1)
    )
    assert (batch.status == Status.MAX_SECONDS).all()
    assert (batch.nfev < 12).all()
    assert batch.seconds < 1.0


@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c(presses):
    calls = [0]

    def fun(x):
        calls[0] += 1
        if calls[0] == 5:
            for _ in range(presses):
                signal.raise_signal(signal.SIGINT)
        return (x * x).sum(axis=-1)

    batch = st.minimize(fun, np.ones((3, 2)), method="gd", jac=lambda x: x, step=1e-3, trace="x")
    assert (batch.status == Status.INTERRUPTED).all()
    assert (batch.nit == 5 - presses).all()
    assert len(batch.trace) == 6 - presses
    assert np.isnan(batch.trace.step[-1]).all()


# --- what is left to lockstep ------------------------------------------------------------------------------


class Mine(Never):
    """A switch of one's own."""


@pytest.mark.parametrize(
    "given",
    [
        {"jac": "2-point"}, {"jac": "cs"}, {"callback": lambda state: None}, {"check_gradient": True},
        {"method": "newton", "hess": BEALE.hess}, {"step": None}, {"method": "cgd-auto"},
        {"method": "cgd", "switch": Mine()}, {"method": type("Own", (st.GD,), {})()},
    ],
    ids=lambda given: next(iter(given.items()))[0],
)  # fmt: skip
def test_what_is_left_to_lockstep(given, monkeypatch):
    monkeypatch.setattr("steepen._call.solve.solve_batch", lockstep.solve_batch)
    monkeypatch.setattr("steepen._call.solve.solve_fixed_steps", raising(AssertionError("taken")))
    base = {"method": "gd", "jac": BEALE.grad, "step": 0.01, "budget": Budget(iters=3)}
    st.minimize(BEALE.fun, starts(BEALE, 3), **base | given)
