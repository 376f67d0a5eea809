"""A row of a batch is the run made alone, to the last bit of every field."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hs

import steepen as st
from steepen import Budget, Status

from ..calls import same
from ..objectives import BY_NAME, METHODS, PENALISED, PROBLEMS, derivatives, quadratic, spd
from ..pairs import pairs, sample

BEALE = BY_NAME["beale"]
EXACT = [p for p in PROBLEMS if p.exact and p.name != "at_saddle"]


def check_batch(fun, x0, per_row=None, **common):
    """Hold each row to the run made alone."""
    per_row = per_row or {}
    common = {"trace": "x"} | common
    batch = st.minimize(fun, x0, **per_row, **common)
    for b, start in enumerate(x0):
        own = {name: float(values[b]) for name, values in per_row.items()}
        alone = st.minimize(fun, np.array(start), **own, **common)
        same(batch.row(b), alone)
        assert alone.trace is None or len(alone.trace) == alone.nit + 1
    return batch


def starts(problem, rows, spread=0.3):
    rng = np.random.default_rng(7)
    return problem.x0 * (1 + spread * rng.uniform(-1, 1, (rows, problem.n)))


def row_by_row(function):
    """Return a function of a batch that gives each row the very bits of the function of one point."""

    def quiet(*point):
        with np.errstate(all="ignore"):
            return function(*point)

    def call(x, *more):
        if x.ndim == 1:
            return quiet(x, *more)
        answers = [quiet(*point) for point in zip(x, *more, strict=True)]
        if isinstance(answers[0], tuple):
            return tuple(np.array(part) for part in zip(*answers, strict=True))
        return np.array(answers)

    return call


def sources(problem):
    """Return the ways in which derivatives are given."""
    fun, grad, hvp, hess = (row_by_row(getattr(problem, name)) for name in ("fun", "grad", "hvp", "hess"))
    both = row_by_row(lambda x: (problem.fun(x), problem.grad(x)))
    return {
        "callable": (fun, {"jac": grad}),
        "both": (both, {"jac": True}),
        "2-point": (fun, {"jac": "2-point"}),
        "3-point": (fun, {"jac": "3-point"}),
        "cs": (fun, {"jac": "cs"}),
        "hvp": (fun, {"jac": grad, "hvp": hvp}),
        "hess": (fun, {"jac": grad, "hess": hess}),
        "hess of both": (both, {"jac": True, "hess": hess}),
        "hvp of differences": (fun, {"jac": "2-point", "hvp": hvp}),
    }


class Grown(st.steps.Step):
    """A step of the user's own, with a memory."""

    last = 1.0

    def along(self, problem, here, p, slope):
        t = 2 * self.last
        while not (f := (yield from problem.value(problem.space.project(here.x + t * p)))) < here.f:
            t *= 0.3
            if t < 1e-12:
                return None
        self.last = t
        return st.steps.Found(t, problem.space.project(here.x + t * p), f)


STEPS = {
    "armijo": None, "number": 0.01, "schedule": st.L(0.02, 0.005, T=14), "callable": lambda k: 0.02 / (k + 1),
    "noise tolerant": st.steps.Armijo(noise_tolerant=True, probe=True), "own": Grown(),
}  # fmt: skip
BOUNDS = {
    "none": lambda n: None, "box": lambda n: [(-0.9, 0.7)] * n,
    "some, and one fixed": lambda n: [(0.25, 0.25), *[(None, 1.1)] * (n - 1)],
}  # fmt: skip


@pairs(
    method=METHODS, step=STEPS, source=sources(PROBLEMS[0]), bounds=BOUNDS,
    name=("beale", "rosenbrock10", "logistic", "near_saddle", "chain40"), gtol=(1e-5, 0.0),
)  # fmt: skip
def test_every_field_of_a_row_is_that_of_the_run_alone(method, step, source, bounds, name, gtol):
    problem = BY_NAME[name]
    fun, given_ = sources(problem)[source]
    given_ |= {"method": method, "step": STEPS[step], "bounds": BOUNDS[bounds](problem.n), "gtol": gtol}
    check_batch(fun, starts(problem, 4), budget=Budget(iters=14), **given_)


@pairs(
    method=METHODS,
    step=("armijo", "number"),
    limit=({"grads": 5}, {"evals": 23}, {"iters": 0}, {"grads": 40}),
)
def test_a_limit_is_that_of_each_row(method, step, limit):
    fun, given_ = sources(BEALE)["2-point" if "evals" in limit else "callable"]
    more = {"b": 3} if method == "cgd-fd" else {}
    res = check_batch(
        fun,
        starts(BEALE, 4),
        method=method,
        step=STEPS[step],
        gtol=0.0,
        budget=Budget(**({"iters": 30} | limit)),
        **given_,
        **more,
    )
    if "grads" in limit:
        assert (res.njev <= limit["grads"]).all()


CASES = [(problem, method) for problem in EXACT for method in METHODS]


@pytest.mark.parametrize(("problem", "method"), sample(CASES, 25), ids=str)
def test_line_search(problem, method):
    given_ = {"method": method, "budget": Budget(iters=25)} | derivatives(problem, method)
    check_batch(problem.fun, starts(problem, 5), **given_)


@pytest.mark.parametrize(("problem", "method"), sample(CASES[::-1], 25), ids=str)
def test_own_parameters_for_every_row(problem, method):
    per_row = {"step": problem.step * np.array([1.0, 0.3, 0.8, 0.5])}
    if method in PENALISED:
        per_row["lam"] = problem.step * np.array([0.1, 0.0, -0.2, 0.3])
    if method == "cgd-fd":
        per_row["r"] = problem.step * np.array([0.01, 0.1, 1.0, 0.001])
    given_ = {"method": method, "budget": Budget(iters=15)} | derivatives(problem, method)
    check_batch(problem.fun, starts(problem, 4), per_row, **given_)


@pairs(method=METHODS, jac=("2-point", "3-point", "cs", True), step=(0.005, None))
def test_gradient_sources(method, jac, step):
    fun = (lambda x: (BEALE.fun(x), BEALE.grad(x))) if jac is True else BEALE.fun
    check_batch(fun, starts(BEALE, 4), method=method, jac=jac, step=step, budget=Budget(iters=8))


@pairs(method=("newton", "cgd"), second=("hvp", "hess"), step=(0.005, None))
def test_second_derivatives(method, second, step):
    given_ = {"jac": BEALE.grad, "step": step, "budget": Budget(iters=8), second: getattr(BEALE, second)}
    check_batch(BEALE.fun, starts(BEALE, 4), method=method, **given_)


@pairs(method=("newton", "cgd"), step=(0.05, None))
def test_second_derivatives_from_the_gradient(method, step):
    weights = np.array([1.0, 3.0, 7.0])

    x0 = np.array([[1.0, 2.0, 3.0], [0.0, -1e3, 1e-3], [0.1, 0.1, 5.0]])
    fun, budget = lambda x: (weights * x * x).sum(axis=-1) / 2, Budget(iters=8)
    batch = check_batch(fun, x0, method=method, jac=lambda x: weights * x, step=step, budget=budget)
    assert batch.hvp_source == "difference"


LIMITS = ({"grads": 9}, {"evals": 9}, {"grads": 12, "evals": 14, "iters": 30})


@pairs(method=METHODS, limit=LIMITS, step=(0.005, None))
def test_budgets(method, limit, step):
    given_ = {"step": step, "budget": Budget(**{"iters": 100} | limit)} | derivatives(BEALE, method)
    check_batch(BEALE.fun, starts(BEALE, 5), method=method, **given_)


@pairs(method=("bfgs", "cgd-auto"), grads=(6, 7, 8))
def test_a_row_whose_search_has_made_the_gradient_does_not_pay_for_it_again(method, grads):
    """At the floor of f a trial is judged by its slope; other rows are not there yet."""
    problem = BY_NAME["quadratic"]
    budget = Budget(grads=grads, iters=200)

    def grad(x):
        assert x.size  # nobody is asked for the gradient of no row
        return problem.grad(x)

    check_batch(problem.fun, starts(problem, 5), method=method, jac=grad, gtol=0.0, budget=budget)


@pairs(method=METHODS, name=("booth", "rosenbrock10"))
def test_the_order_in_memory_does_not_matter(method, name):
    problem = BY_NAME[name]
    x0 = starts(problem, 6)
    given_ = {"method": method, "budget": Budget(iters=12)} | derivatives(problem, method)
    first = st.minimize(problem.fun, x0, **given_)
    for order in (np.asfortranarray, lambda x: np.repeat(x, 2, axis=0)[::2]):
        same(st.minimize(problem.fun, order(x0), **given_), first)


def fenced(x):
    """The saddle's f, but not a number beyond x = 1.5, and −∞ beyond 2."""
    bad = np.where(x[..., 0] > 2.0, -np.inf, np.nan)
    return np.where(x[..., 0] > 1.5, bad, BY_NAME["near_saddle"].fun(x))


def fenced_gradient(x):
    """Not a number beyond y = 2."""
    return np.where(x[..., 1:] > 2.0, np.nan, BY_NAME["near_saddle"].grad(x))


FENCED = np.array([
    [0.0, np.sqrt(2.0)],  # nearly converged
    [0.9, 0.3],
    [1.4, 0.1],  # the step of 1.2 throws this one beyond the fence of f
    [0.1, 2.5],  # no gradient at the start
    [1.7, 0.1],  # no value at the start
    [0.0, 0.0],  # the saddle itself
    [-0.2, 0.05],  # the guard fires: it bends down
    [2.5, 0.1],  # unbounded at the start
])  # fmt: skip
RULES = {"fixed": 0.1, "armijo": None}


@pairs(method=METHODS, step=RULES)
def test_different_ends(method, step):
    near = BY_NAME["near_saddle"]
    known = {"hvp": near.hvp} if method in PENALISED else {}
    if method == "newton":
        known = {"hess": near.hess}
    batch = check_batch(
        fenced, FENCED, method=method, jac=fenced_gradient, step=RULES[step], gtol=1e-3,
        # made for α = 1, cgd-auto creeps with 0.1
        budget=Budget(iters=400 if (method, step) == ("cgd-auto", "fixed") else 40),
        **({"lam": 0.4} if method in PENALISED else {}), **known,
    )  # fmt: skip
    ends = [Status(int(s)) for s in batch.status]
    assert ends[0] is ends[5] is Status.CONVERGED
    assert ends[3] is Status.NONFINITE_GRADIENT
    assert ends[4] is Status.NONFINITE_VALUE
    assert ends[7] is Status.UNBOUNDED
    assert batch.row(4).best.x is batch.row(7).best.x is None
    assert len(set(batch.nit.tolist())) > 1
    told = [status.message for status in ends]
    for row in (4, 7):
        told[row] = told[row].replace("x is the best finite point", "no finite point was")
    assert batch.message == told
    assert batch.success.tolist() == [status.success for status in ends]


def test_rows_that_leave_in_the_middle():
    x0 = np.array([[1.4, 0.1], [1.4, 1.0], [-0.5, 1.9], [0.3, 1.2], [-0.9, 0.4], [1.4, 1.1]])
    steps = np.array([1.6, 0.2, 1.2, 0.1, 0.05, 1.05])
    batch = check_batch(
        fenced, x0, {"step": steps}, method="gd", jac=fenced_gradient, gtol=1e-4, budget=Budget(grads=60)
    )
    ends = {Status(int(s)) for s in batch.status}
    assert {Status.CONVERGED, Status.MAX_GRADIENTS} <= ends
    assert ends & {Status.NONFINITE_VALUE, Status.NONFINITE_GRADIENT}
    for b in range(6):  # what has ended reads NaN
        assert np.isfinite(batch.trace.f[: batch.nit[b], b]).all()
        assert np.isnan(batch.trace.f[batch.nit[b] + 1 :, b]).all()
        assert np.isnan(batch.trace.x[batch.nit[b] + 1 :, b]).all()


def test_a_singular_hessian_in_one_row_is_its_own():
    """½u² + ¼v⁴ does not bend along v at v = 0: no Newton step is there, and the guard takes −∇f."""

    def hess(x):
        return (x * [0, 1] * x * 3 + [1, 0])[..., None] * np.eye(2)

    batch = check_batch(
        lambda x: x[..., 0] * x[..., 0] / 2 + x[..., 1] * x[..., 1] * x[..., 1] * x[..., 1] / 4,
        np.array([[1.0, 2.0], [1.0, 0.0], [3.0, 1.0]]), hess=hess, method="newton", step=1.0,
        jac=lambda x: np.stack([x[..., 0], x[..., 1] * x[..., 1] * x[..., 1]], axis=-1),
        budget=Budget(iters=5),
    )  # fmt: skip
    assert batch.trace.guarded[0].tolist() == [False, True, False]


@given(
    seed=hs.integers(0, 1000), rows=hs.integers(1, 6), method=hs.sampled_from(METHODS), fixed=hs.booleans(),
    n=hs.integers(1, 7),  # the products of the function itself are BLAS's for longer rows
    dtype=hs.sampled_from([np.float32, np.float64]), iters=hs.integers(0, 12),
)  # fmt: skip
def test_any_batch(seed, rows, n, method, fixed, dtype, iters):
    rng = np.random.default_rng(seed)
    problem = quadratic("any", spd(rng.uniform(0.5, 4.0, n), seed), rng.standard_normal(n), (0.0,) * n)
    given_ = {"step": 0.1 if fixed else None, "budget": Budget(iters=iters)} | derivatives(problem, method)
    check_batch(problem.fun, rng.standard_normal((rows, n)).astype(dtype), method=method, **given_)


BOOTH = BY_NAME["booth"]


def test_row_belongs_to_a_batch():
    given_ = {"method": "gd", "jac": BOOTH.grad, "step": 0.02}
    alone = st.minimize(BOOTH.fun, BOOTH.x0, **given_)
    with pytest.raises(ValueError, match="row: this is the result of a single run"):
        alone.row(0)
    with pytest.raises(ValueError, match="row: this is the trace of a single run"):
        alone.trace.row(0)
    batch = st.minimize(BOOTH.fun, BOOTH.x0[None], trace=False, **given_)
    assert batch.row(0).trace is None
    with pytest.raises(IndexError):
        batch.row(1)
