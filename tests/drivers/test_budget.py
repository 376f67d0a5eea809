"""Budgets of every size: never exceeded, used up, and named; what they leave is the first part of the run."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hs

import steepen as st
from steepen import Budget, Status

from ..objectives import BY_NAME, METHODS, PENALISED, Problem
from ..pairs import pairs, sample
from ..rounding import seen
from .counting import OF_VALUES, SOURCES, Counting, from_source

METHOD = pytest.mark.parametrize("method", METHODS)
CALLS = tuple(s for s in SOURCES if s != "object")
QUADRATIC = BY_NAME["quadratic"]  # convex: no guard, and no step of these ends it early
WINDING = BY_NAME["rosenbrock2"]


def run(counting, method, source, budget, step, **more):
    fun, given = from_source(counting, source)
    if method == "newton":
        given.setdefault("hess", counting.hess)
    if method == "cgd":
        given.setdefault("hvp", counting.hvp)
    if method in PENALISED:
        given["lam"] = 0.01
    given = {name: value for name, value in (given | more).items() if value is not None}
    return st.minimize(fun, counting.problem.x0, method=method, step=step, gtol=0, budget=budget, **given)


def spent(counting, source, res):
    return counting.count("fun"), res.njev if source in OF_VALUES else counting.count("grad")


# What each part costs, in values and gradients: f; ∇f where f is known; ∇f elsewhere, at times two questions.
COSTS = {
    "callable": ((1, 0), (0, 1), [(0, 1)]),
    "both": ((1, 1), (0, 0), [(1, 1)]),
    "2-point": ((1, 0), (3, 1), [(1, 0), (3, 1)]),
    "3-point": ((1, 0), (6, 1), [(6, 1)]),
    "cs": ((1, 0), (3, 1), [(3, 1)]),
}  # for n = 3


def predict(method, source, budget):
    """Follow the rule by hand: one question after another, until one is not covered."""
    value, gradient, probe = COSTS[source]
    limits = (budget.evals or np.inf, budget.grads or np.inf)
    penalised = np.inf if budget.total is None else budget.total // 4 + 1
    total = np.zeros(2, int)

    def lacking(*costs):
        for cost in costs:
            if total[1] + cost[1] > limits[1]:
                return Status.MAX_GRADIENTS
            if total[0] + cost[0] > limits[0]:
                return Status.MAX_EVALUATIONS
            total[:] += cost
        return None

    status, k = lacking(value), 0
    while status is None:
        if status := lacking(gradient):
            break
        if budget.iters is not None and k >= budget.iters:
            status = Status.MAX_ITERATIONS
            break
        if status := lacking(*(probe if method == "cgd-fd" and k < penalised else []), value):
            break
        k += 1
    return k, int(total[0]), int(total[1]), status


def check_fixed(method, source, budget):
    counting = Counting(QUADRATIC)
    res = run(counting, method, source, budget, step=0.02)
    values, grads = spent(counting, source, res)
    assert budget.evals is None or values <= budget.evals
    assert budget.grads is None or grads <= budget.grads
    assert budget.iters is None or res.nit <= budget.iters
    assert (res.nit, values, grads, res.status) == predict(method, source, budget)
    assert np.isnan(res.trace.gnorm[-1]) == np.isnan(res.jac).all()
    assert np.isnan(res.jac).any() or np.allclose(res.jac, QUADRATIC.grad(res.x), rtol=1e-5, atol=1e-5)


# the rule is gd's and, where a step needs a probe as well, cgd-fd's; other methods need neither
RULES = [(method, source) for method in ("gd", "cgd-fd") for source in CALLS]
RULES += [
    (method, CALLS[i % len(CALLS)]) for i, method in enumerate(METHODS) if method not in ("gd", "cgd-fd")
]


@pytest.mark.parametrize(("method", "source"), RULES)
def test_a_fixed_step(method, source):
    """A step costs up to 8 values here: of these sizes some are one too few, just enough, and one more."""
    for size in (1, 2, 3, 4, 5, 8, 9, *range(13, 26)) if method in ("gd", "cgd-fd") else (1, 2, 8, 9, 10):
        check_fixed(method, source, Budget(evals=size, iters=1000))
    for size in (1, 2, 3, 4, 7, 8, 21):
        check_fixed(method, source, Budget(grads=size))
    for size in (0, 1, 5):
        check_fixed(method, source, Budget(iters=size))


@given(
    method=hs.sampled_from(METHODS), source=hs.sampled_from(sorted(COSTS)),
    grads=hs.none() | hs.integers(1, 60), evals=hs.none() | hs.integers(1, 60), iters=hs.integers(0, 30),
)  # fmt: skip
def test_all_together(method, source, grads, evals, iters):
    check_fixed(method, source, Budget(grads=grads, evals=evals, iters=iters))


class Noted:
    """A problem that notes each call, in the order of the calls."""

    def __init__(self, problem):
        self.problem, self.calls = problem, []

    def __getattr__(self, name):
        function = getattr(self.problem, name)

        def noted(x, *more):
            self.calls.append((name, x.tobytes(), *(v.tobytes() for v in more)))
            return function(x, *more)

        return noted

    def both(self, x):
        self.calls.append(("both", x.tobytes()))
        return self.problem.fun(x), self.problem.grad(x)


LIMITED = {
    "grads": Status.MAX_GRADIENTS, "evals": Status.MAX_EVALUATIONS, "iters": Status.MAX_ITERATIONS,
}  # fmt: skip
MADE = {
    "callable": lambda noted: (noted.fun, {"jac": noted.grad}),
    "both": lambda noted: (noted.both, {"jac": True}),
    "hvp": lambda noted: (noted.fun, {"jac": noted.grad, "hvp": noted.hvp}),
    "2-point": lambda noted: (noted.fun, {"jac": "2-point"}),
    "3-point": lambda noted: (noted.fun, {"jac": "3-point"}),
}  # fmt: skip


@pairs(
    method=METHODS, source=MADE, limit=LIMITED, bounds=(None, [(-1.5, 0.9), (-0.5, 3.0)]), step=(None, 0.002)
)
def test_a_run_with_a_limit_of_any_size_is_the_first_part_of_the_whole_run_and_names_the_limit(
    method, source, limit, bounds, step
):
    def go(**budget):
        noted = Noted(WINDING)
        fun, given = MADE[source](noted)
        more = {"b": 3} if method == "cgd-fd" else {}
        most = {"iters": 9} | budget
        given |= more | {"method": method, "bounds": bounds, "step": step, "gtol": 1e-7, "trace": "x"}
        return st.minimize(fun, WINDING.x0, budget=Budget(**most), **given), noted.calls

    whole, calls = go()
    needed = {"grads": whole.njev, "evals": whole.nfev, "iters": whole.nit}[limit]
    for size in range(needed) if limit == "iters" else range(1, needed + 2):
        part, made = go(**{limit: size})
        used = {"grads": part.njev, "evals": part.nfev, "iters": part.nit}[limit]
        assert made == calls[: len(made)]
        assert used <= size
        if size < needed:
            assert part.status is LIMITED[limit], size
            if (
                source in ("callable", "hvp") or limit != "evals"
            ):  # else the n values of a gradient are one question
                assert used == size
            np.testing.assert_array_equal(part.trace.x, whole.trace.x[: len(part.trace)])
            assert part.fun == seen(WINDING.fun)(part.x)
        else:
            assert (part.status, len(made)) == (whole.status, len(calls))
            assert part.x.tolist() == whole.x.tolist()


@pytest.mark.parametrize("source", MADE)
@pytest.mark.parametrize("limit", ["grads", "evals"])
def test_a_limit_is_named_wherever_it_ends_a_run_at_the_floor_of_f(limit, source):
    """There it meets all that a failed search asks for: slopes at ties, noise, another metric, probes."""
    d = np.array([1.0, 10.0, 100.0])
    raised = Problem(
        "raised", lambda x: 1e6 + 0.5 * (x @ (d * x)), lambda x: d * x, lambda x: np.diag(d), (1.0,) * 3, 0.01
    )

    def go(**budget):
        noted = Noted(raised)
        fun, given = MADE[source](noted)
        return st.minimize(fun, raised.x0, gtol=1e-12, budget=Budget(**budget), **given), noted.calls

    whole, calls = go()
    needed = whole.njev if limit == "grads" else whole.nfev
    for size in range(1, needed):
        part, made = go(**{limit: size})
        assert part.status is LIMITED[limit], size
        assert made == calls[: len(made)]
    assert go(**{limit: needed})[0].status is whole.status


@pytest.mark.parametrize("method", METHODS)
def test_a_limit_is_named_in_searches_that_fail_and_begin_again(method):
    """At a kink; every value and every gradient of the whole run is the last one of some run."""
    kink = Problem(
        "kink",
        lambda x: abs(x).max() + 0.1 * x @ x,
        largest_slope,
        lambda x: 0.2 * np.eye(2),
        (1.0, -0.7),
        0.1,
    )

    def go(**budget):
        noted = Noted(kink)
        limits = {"iters": 40} | budget
        more = {"b": 3} if method == "cgd-fd" else {}
        return st.minimize(
            noted.fun, kink.x0, jac=noted.grad, method=method, budget=Budget(**limits), **more
        ), noted.calls

    whole, calls = go()
    for limit, needed in (("grads", whole.njev), ("evals", whole.nfev)):
        for size in sample(range(1, needed), 40):
            part, made = go(**{limit: size})
            assert (part.status, made) == (LIMITED[limit], calls[: len(made)])
            assert (part.njev if limit == "grads" else part.nfev) == size


def largest_slope(x):
    return np.where(x < 0, -1.0, 1.0) * (np.arange(2) == np.abs(x).argmax()) + 0.2 * x


def test_a_budget_that_ends_inside_a_line_search():
    for source, size in itertools.product(("callable", "both", "2-point"), (4, 5, 8, 20, 39)):
        counting = Counting(WINDING)
        res = run(counting, "gd", source, Budget(evals=size), step=st.steps.Armijo(initial=1e6))
        assert res.nfev == counting.count("fun") <= size
        assert res.fun == seen(WINDING.fun)(res.x) <= seen(WINDING.fun)(WINDING.x0)
        assert res.nit or (res.status, res.x.tolist()) == (Status.MAX_EVALUATIONS, WINDING.x0.tolist())


@pytest.mark.bits  # it is about values that are equal to the last bit
def test_the_gradient_of_an_accepted_trial_is_not_paid_for_twice():
    """With f and ∇f together, the last call of the budget may be the one that shows convergence."""
    bowl = {"fun": lambda x: (x @ x, 2 * x), "x0": [3.0, 4.0], "jac": True, "method": "gd"}
    whole = st.minimize(step=st.steps.Armijo(initial=0.5), **bowl)
    assert (whole.status, whole.njev) == (Status.CONVERGED, 2)
    same = st.minimize(step=st.steps.Armijo(initial=0.5), budget=Budget(grads=2), **bowl)
    assert (same.status, same.jac.tolist()) == (Status.CONVERGED, [0.0, 0.0])


@pairs(method=("cgd", "newton"), known=("hvp", "hess", None))
def test_second_derivatives_within_the_budget(method, known):
    """Beyond ∇f(x_k), 1 or n = 3 gradients a step."""
    products = {"cgd": 1, "newton": 3}[method] if known is None else 0
    for size in (1, 2, 3, 4, 5, 6, 9, 10, 41):
        counting = Counting(QUADRATIC)
        second = {"hvp": None, "hess": None} | ({} if known is None else {known: getattr(counting, known)})
        res = run(counting, method, "callable", Budget(grads=size), 0.02, **second)
        assert (res.nit, counting.count("grad")) == (size // (1 + products), size)


class Slow(Counting):
    """A problem whose every call takes a second of a clock that stands still otherwise."""

    def __init__(self, problem, clock):
        super().__init__(problem)
        self.clock, self.began = clock, clock.now

    def _note(self, name, *arrays):
        self.clock.now += 1.0
        super()._note(name, *arrays)

    @property
    def took(self):
        return self.clock.now - self.began


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("time.perf_counter", lambda: clock.now)
    return clock


@pairs(method=METHODS, source=CALLS, second=(True, False), step=(0.02, None, st.steps.Armijo(initial=1e8)))
def test_no_call_of_any_kind_begins_after_the_time(clock, method, source, second, step):
    given = {} if second else {"hvp": None, "hess": None}
    for seconds in (0.5, 1.5, 2.5, 4.5, 9.5, 17.5):
        slow = Slow(QUADRATIC, clock)
        res = run(slow, method, source, Budget(seconds=seconds), step=step, trace="x", **given)
        # jac=True is one call, and this clock counts it as two
        assert slow.took <= np.ceil(seconds) + (source == "both")
        if res.status is not Status.MAX_SECONDS:  # it had ended by itself
            continue
        assert res.nfev == slow.count("fun")
        if source in {"callable", "both"}:
            assert res.njev == slow.count("grad")
        assert len(res.trace) == (res.nit + 1 if slow.count("fun") else 0)
        if len(res.trace):
            assert res.fun == seen(QUADRATIC.fun)(res.x) <= seen(QUADRATIC.fun)(QUADRATIC.x0)
            assert (res.trace.x[-1] == res.x).all()
            assert np.isnan(res.trace.step[-1])
        if source == "callable" and second and step == 0.02:
            assert slow.took == res.seconds == np.ceil(seconds)


@METHOD
def test_no_row_of_a_batch_is_evaluated_after_the_time(clock, method):
    x0 = np.array([[1.0, 1.0], [3.0, 0.5], [0.2, -0.4]])
    for seconds in (0.5, 4.5, 12.5):
        slow = Slow(BY_NAME["beale"], clock)
        res = st.minimize(slow.fun, x0, method=method, gtol=0, budget=Budget(seconds=seconds))
        assert slow.took <= np.ceil(seconds)
        assert (res.status == Status.MAX_SECONDS).any()
        if slow.count("fun"):
            assert np.allclose(res.fun, slow.problem.fun(res.x))


@pairs(source=CALLS, rows=(None, 2), limit=("evals", "grads"))
def test_the_check_of_the_gradient_is_within_the_budget(source, rows, limit):
    (values, grads), (more, further) = COSTS[source][:2]
    both = {"evals": 7 * values + more, "grads": 7 * grads + further}
    needed, said = both[limit], "budget: check_gradient needs {evals} values and {grads} gradients"
    x0 = QUADRATIC.x0 if rows is None else np.stack([QUADRATIC.x0] * rows)
    for size in {1, needed - 1, needed, needed + 1, 39} - {0}:
        counting = Counting(QUADRATIC)
        fun, given = from_source(counting, source)
        given |= {"check_gradient": True, "budget": Budget(iters=50, **{limit: size})}
        if size < needed:
            with pytest.raises(ValueError, match=said.format_map(both)):
                st.minimize(fun, x0, **given)
            assert counting.count("fun") == counting.count("grad") == 0
            continue
        res = st.minimize(fun, x0, **given)
        assert np.max(res.nfev if limit == "evals" else res.njev) <= size
        assert np.sum(res.nfev) == counting.count("fun")
        if source in {"callable", "both"}:
            assert np.sum(res.njev) == counting.count("grad")


@pytest.mark.parametrize("source", CALLS)
def test_the_check_of_the_gradient_takes_of_the_time(clock, source):
    for seconds in (0.5, 4.5, 10.5, 13.5):
        slow = Slow(QUADRATIC, clock)
        res = run(slow, "gd", source, Budget(seconds=seconds), step=0.02, check_gradient=True)
        assert res.status is Status.MAX_SECONDS
        assert slow.took <= np.ceil(seconds) + (source == "both")
        assert (res.seconds, res.nfev) == (slow.took, slow.count("fun"))
        if slow.count("fun"):
            assert res.fun == seen(QUADRATIC.fun)(res.x)


def test_a_run_that_is_out_of_time_is_not_evaluated_on_resuming(clock, tmp_path):
    slow, path = Slow(QUADRATIC, clock), tmp_path / "run.npz"
    run(slow, "gd", "callable", Budget(iters=5), step=0.02, checkpoint=path)
    calls = slow.count("fun"), slow.count("grad")
    again = run(slow, "gd", "callable", Budget(seconds=5.5), step=0.02, checkpoint=path)
    assert again.status is Status.MAX_SECONDS
    assert (slow.count("fun"), slow.count("grad")) == calls
    assert again.fun == seen(QUADRATIC.fun)(again.x)
