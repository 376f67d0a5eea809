"""Budgets of every size: never exceeded, and used as far as a whole step fits. Counted by a wrapper."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

import steepen as st
from steepen import Budget, Status

from ..objectives import BY_NAME, METHODS, PENALISED
from ..rounding import seen
from .test_counts import SOURCES, Counting, from_source, tagged

METHOD = pytest.mark.parametrize("method", METHODS)
SOURCE = pytest.mark.parametrize("source", [s for s in SOURCES if s != "object"])
QUADRATIC = BY_NAME["quadratic"]  # convex: no guard, and no step of these ends it early
WINDING = BY_NAME["rosenbrock2"]


def run(counting: Counting, method: str, source: str, budget: Budget, step: Any, **more: Any) -> st.Result:
    fun, given = from_source(counting, source)
    if method == "newton":
        given.setdefault("hess", counting.hess)
    if method == "cgd":
        given.setdefault("hvp", counting.hvp)
    if method in PENALISED:
        given["lam"] = 0.01
    given |= more
    given = {name: value for name, value in given.items() if value is not None}
    return st.minimize(fun, counting.problem.x0, method=method, step=step, gtol=0, budget=budget, **given)


def spent(counting: Counting, source: str, res: st.Result) -> tuple[int, int]:
    """Values and gradients, as counted from outside where gradients are calls."""
    grads = res.njev if source in {"2-point", "3-point", "cs"} else counting.count("grad")
    return counting.count("fun"), grads


# What each part costs, in values and gradients: f; ∇f where f is known; ∇f elsewhere.
COSTS = {
    "callable": ((1, 0), (0, 1), (0, 1)),
    "both": ((1, 1), (0, 0), (1, 1)),
    "2-point": ((1, 0), (3, 1), (4, 1)),
    "3-point": ((1, 0), (6, 1), (6, 1)),
    "cs": ((1, 0), (3, 1), (3, 1)),
}  # for n = 3


def predict(method: str, source: str, budget: Budget) -> tuple[int, int, int, Status]:
    """Follow the rule by hand: the gradient at x_k if it fits, then a step if all of it fits."""
    value, gradient, probe = COSTS[source]
    limits = (budget.evals or np.inf, budget.grads or np.inf)
    penalised = np.inf if budget.total is None else budget.total // 4 + 1
    total, k = np.array(value), 0

    def lacking(cost: Any) -> Status | None:
        if total[1] + cost[1] > limits[1]:
            return Status.MAX_GRADIENTS
        return Status.MAX_EVALUATIONS if total[0] + cost[0] > limits[0] else None

    while True:
        if status := lacking(gradient):
            break
        total += gradient
        if budget.iters is not None and k >= budget.iters:
            status = Status.MAX_ITERATIONS
            break
        step = np.array(value)
        if method == "cgd-fd" and k < penalised:
            step += probe
        if status := lacking(step):
            break
        total += step
        k += 1
    return k, int(total[0]), int(total[1]), status


def check_fixed(method: str, source: str, budget: Budget) -> None:
    counting = Counting(QUADRATIC)
    res = run(counting, method, source, budget, step=0.02)
    values, grads = spent(counting, source, res)
    assert budget.evals is None or values <= budget.evals
    assert budget.grads is None or grads <= budget.grads
    assert budget.iters is None or res.nit <= budget.iters
    assert (res.nit, values, grads, res.status) == predict(method, source, budget)
    evaluated = np.isfinite(res.jac).all()
    assert not evaluated or np.allclose(res.jac, QUADRATIC.grad(res.x), rtol=1e-5, atol=1e-5)


@METHOD
@SOURCE
def test_gradients_with_a_fixed_step(method: str, source: str):
    # a gradient by differences is one gradient like any other: a few sizes will do
    sizes = range(1, 61) if source in {"callable", "both"} else (1, 2, 3, 4, 7, 21, 60)
    for size in sizes:
        check_fixed(method, source, Budget(grads=size))


@METHOD
@SOURCE
def test_values_with_a_fixed_step(method: str, source: str):
    for size in range(1, 61):
        check_fixed(method, source, Budget(evals=size, iters=1000))


@METHOD
@SOURCE
def test_iterations_with_a_fixed_step(method: str, source: str):
    for size in range(21) if source == "callable" else (0, 1, 2, 5, 20):
        check_fixed(method, source, Budget(iters=size))


@given(
    method=hs.sampled_from(METHODS),
    source=hs.sampled_from(sorted(COSTS)),
    grads=hs.none() | hs.integers(1, 60),
    evals=hs.none() | hs.integers(1, 60),
    iters=hs.integers(0, 30),
)
@settings(deadline=None, max_examples=60)
def test_all_together(method: str, source: str, grads: int | None, evals: int | None, iters: int):
    check_fixed(method, source, Budget(grads=grads, evals=evals, iters=iters))


# --- line searches ------------------------------------------------------------------------------------

LIMITED = {Status.MAX_GRADIENTS, Status.MAX_EVALUATIONS}
ENDS = LIMITED | {
    Status.MAX_ITERATIONS, Status.NO_DESCENT, Status.CONVERGED, Status.PRECISION, Status.DIFFERENCES,
}  # fmt: skip


@METHOD
@pytest.mark.parametrize("source", ["callable", "both", "2-point"])
@pytest.mark.parametrize("limit", ["grads", "evals"])
def test_a_line_search_keeps_to_the_budget(method: str, source: str, limit: str):
    n = WINDING.n
    for size in range(1, 61) if source == "callable" else (*range(1, 13), 25, 38):
        counting = Counting(WINDING)
        budget = Budget(iters=100, **{limit: size})
        res = run(counting, method, source, budget, step=st.steps.Armijo())
        values, grads = spent(counting, source, res)
        used = grads if limit == "grads" else values
        assert used <= size, f"{limit}={size}: {used} were spent"
        assert res.status in ENDS
        # not stopped with a step's worth still there
        most = {"callable": 1, "both": 1, "2-point": n if limit == "evals" else 1}[source]
        probe = (n + 1 if limit == "evals" and source == "2-point" else 1) if method == "cgd-fd" else 0
        if res.status in LIMITED:
            assert used + most + probe + 1 > size
        if method == "gd" and source == "callable":
            assert used == size


@pytest.mark.parametrize("source", ["callable", "both", "2-point"])
def test_a_budget_that_ends_inside_a_line_search(source: str):
    """The first trial is far too long: the search alone needs more values than there are."""
    for size in range(4, 40):
        counting = Counting(WINDING)
        res = run(counting, "gd", source, Budget(evals=size), step=st.steps.Armijo(initial=1e6))
        assert counting.count("fun") <= size
        assert res.nfev == counting.count("fun")
        assert res.fun == seen(WINDING.fun)(res.x)
        assert res.fun <= seen(WINDING.fun)(WINDING.x0)
        if res.nit == 0:
            assert (res.x == WINDING.x0).all()
            assert res.status is Status.MAX_EVALUATIONS


# --- second derivatives made of gradients --------------------------------------------------------------


def gradients_needed(method: str, known: str | None, k: int) -> int:
    """Gradients of step k beyond ∇f(x_k); n = 3, and the first complex step is checked by a difference."""
    products = {"cgd": 1, "newton": 3}[method] if known is None else 0
    return products + (1 if products and k == 0 else 0)


@pytest.mark.parametrize("method", ["cgd", "newton"])
@pytest.mark.parametrize("known", ["hvp", "hess", None])
def test_second_derivatives_within_the_budget(method: str, known: str | None):
    for size in range(1, 61):
        counting = Counting(QUADRATIC)
        second: dict[str, Any] = {"hvp": None, "hess": None}
        if known is not None:
            second[known] = getattr(counting, known)
        res = run(counting, method, "callable", Budget(grads=size), 0.02, **second)
        steps, used = 0, 0
        while used + 1 <= size:
            used += 1
            more = gradients_needed(method, known, steps)
            if used + more > size:
                break
            used += more
            steps += 1
        assert counting.count("grad") <= size
        assert (res.nit, counting.count("grad")) == (steps, used)


@pytest.mark.parametrize("method", ["gd", "bfgs", "cgd"])
def test_the_quadratic_step_within_the_budget(method: str):
    for size in range(1, 61):
        counting = Counting(QUADRATIC)
        second = {"hvp": None, "hess": None}
        res = run(counting, method, "callable", Budget(grads=size), st.steps.Quadratic(), **second)
        assert res.njev == counting.count("grad") <= size


# --- batches -------------------------------------------------------------------------------------------


@METHOD
@pytest.mark.parametrize("source", ["callable", "both", "2-point"])
@pytest.mark.parametrize("step", [0.005, None])
def test_every_row_keeps_to_the_budget(method: str, source: str, step: float | None):
    starts = np.array([[1.0, 1.0], [3.0, 0.5], [0.2, -0.4], [0.5, 0.6]])
    x0 = np.concatenate([starts, np.arange(4.0)[:, None]], axis=1)
    for limit in ("grads", "evals"):
        for size in (1, 2, 3, 4, 5, 8, 13, 40):
            counting = Counting(tagged(BY_NAME["beale"]))
            fun, given = from_source(counting, source)
            given |= {"newton": {"hess": counting.hess}, "cgd": {"hvp": counting.hvp}}.get(method, {})
            res = st.minimize(
                fun, x0, method=method, step=step, gtol=1e-6, budget=Budget(iters=40, **{limit: size}),
                **given,
            )  # fmt: skip
            values, grads = counting.of_rows("fun", 4), counting.of_rows("grad", 4)
            assert res.nfev.tolist() == values
            if source != "2-point":
                assert res.njev.tolist() == grads
            assert max(values if limit == "evals" else res.njev.tolist()) <= size


# --- seconds -------------------------------------------------------------------------------------------


class Clock:
    """A clock that moves only when a function of the user's is called: a second each time."""

    def __init__(self):
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now


class Slow(Counting):
    def __init__(self, problem: Any, clock: Clock):
        super().__init__(problem)
        self.clock = clock

    def _note(self, name: str, *arrays: Any) -> None:
        self.clock.now += 1.0
        super()._note(name, *arrays)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("steepen._oracle.ledger.time", SimpleNamespace(perf_counter=clock.perf_counter))
    return clock


@METHOD
@pytest.mark.parametrize("seconds", [0.5, 1.5, 2.5, 3.5, 9.5, 10.5, 11.5])
def test_no_evaluation_begins_after_the_time(clock: Clock, method: str, seconds: float):
    slow = Slow(QUADRATIC, clock)
    began = clock.now
    res = run(slow, method, "callable", Budget(seconds=seconds), step=0.02)
    assert res.status is Status.MAX_SECONDS
    assert clock.now - began == np.ceil(seconds)
    assert res.seconds == clock.now - began
    assert res.best.fun <= seen(QUADRATIC.fun)(QUADRATIC.x0)
    assert res.fun == seen(QUADRATIC.fun)(res.x)


@pytest.mark.parametrize("seconds", [2.5, 3.5, 5.5, 12.5])
def test_no_trial_of_a_line_search_begins_after_the_time(clock: Clock, seconds: float):
    slow = Slow(WINDING, clock)
    began = clock.now
    res = run(slow, "gd", "callable", Budget(seconds=seconds), step=st.steps.Armijo(initial=1e8))
    assert res.status is Status.MAX_SECONDS
    assert clock.now - began == np.ceil(seconds)
    assert res.fun == seen(WINDING.fun)(res.x)


@pytest.mark.parametrize("method", ["gd", "cgd-fd", "newton"])
@pytest.mark.parametrize("seconds", [2.5, 3.5, 4.5, 5.5, 6.5, 7.5])
def test_the_trace_of_a_run_out_of_time_is_whole(clock: Clock, method: str, seconds: float):
    """One row an iterate, the last of them where the run ended, without a step of its own."""
    res = run(Slow(QUADRATIC, clock), method, "callable", Budget(seconds=seconds), step=0.02, trace="x")
    trace = res.trace
    assert trace is not None
    assert trace.x is not None
    assert len(trace) == res.nit + 1
    assert (trace.x[-1] == res.x).all()
    assert trace.f[-1] == res.fun
    assert np.isnan(trace.step[-1])


@METHOD
@SOURCE
@pytest.mark.parametrize("second", [True, False], ids=["second", "none"])
@pytest.mark.parametrize("step", [0.02, None], ids=["fixed", "armijo"])
def test_no_call_of_any_kind_begins_after_the_time(
    clock: Clock, method: str, source: str, second: bool, step: Any
):
    """Differences, products made of gradients, probes and line searches are cut between two calls."""
    given: dict[str, Any] = {} if second else {"hvp": None, "hess": None}
    for seconds in (0.5, 1.5, 2.5, 3.5, 4.5, 6.5, 9.5, 17.5, 30.5):
        slow = Slow(QUADRATIC, clock)
        began = clock.now
        res = run(slow, method, source, Budget(seconds=seconds), step=step, trace="x", **given)
        # jac=True is one call, and this clock counts it as two
        assert clock.now - began <= np.ceil(seconds) + (source == "both")
        if res.status is not Status.MAX_SECONDS:  # it had ended by itself
            continue
        assert res.nfev == slow.count("fun")
        if source in {"callable", "both"}:
            assert res.njev == slow.count("grad")
        trace = res.trace
        assert trace is not None
        assert trace.x is not None
        assert len(trace) == (res.nit + 1 if slow.count("fun") else 0)
        if len(trace):
            assert res.fun == seen(QUADRATIC.fun)(res.x)
            assert res.fun <= seen(QUADRATIC.fun)(QUADRATIC.x0)
            assert (trace.x[-1] == res.x).all()


@METHOD
def test_no_row_of_a_batch_is_evaluated_after_the_time(clock: Clock, method: str):
    x0 = np.array([[1.0, 1.0], [3.0, 0.5], [0.2, -0.4]])
    for seconds in (0.5, 2.5, 4.5, 7.5, 12.5):
        slow = Slow(BY_NAME["beale"], clock)
        began = clock.now
        res = st.minimize(slow.fun, x0, method=method, gtol=0, budget=Budget(seconds=seconds))
        assert clock.now - began <= np.ceil(seconds)
        assert (res.status == Status.MAX_SECONDS).any()
        if slow.count("fun"):
            assert np.allclose(res.fun, slow.problem.fun(res.x))


@SOURCE
@pytest.mark.parametrize("rows", [None, 2])
def test_the_check_of_the_gradient_is_within_the_budget(source: str, rows: int | None):
    """It is refused before any evaluation, or its sum with the run stays within the limit."""
    for limit in ("evals", "grads"):
        for size in range(1, 40):
            counting = Counting(QUADRATIC)
            fun, given = from_source(counting, source)
            x0 = QUADRATIC.x0 if rows is None else np.stack([QUADRATIC.x0] * rows)
            budget = Budget(iters=50, **{limit: size})
            (values, grads), (more, further) = COSTS[source][:2]
            needed = {"evals": 7 * values + more, "grads": 7 * grads + further}[limit]
            if size < needed:
                with pytest.raises(
                    ValueError, match=rf"^budget: {limit}={size} does not cover the {needed} "
                ):
                    st.minimize(fun, x0, check_gradient=True, budget=budget, **given)
                assert counting.count("fun") == counting.count("grad") == 0
                continue
            res = st.minimize(fun, x0, check_gradient=True, budget=budget, **given)
            assert np.max(res.nfev if limit == "evals" else res.njev) <= size
            assert np.sum(res.nfev) == counting.count("fun")
            if source in {"callable", "both"}:
                assert np.sum(res.njev) == counting.count("grad")


@SOURCE
def test_the_check_of_the_gradient_takes_of_the_time(clock: Clock, source: str):
    for seconds in (0.5, 1.5, 4.5, 7.5, 10.5, 13.5):
        slow = Slow(QUADRATIC, clock)
        began = clock.now
        fun, given = from_source(slow, source)
        x0 = QUADRATIC.x0
        budget = Budget(seconds=seconds)
        res = st.minimize(
            fun, x0, method="gd", step=0.02, gtol=0, check_gradient=True, budget=budget, **given
        )
        assert res.status is Status.MAX_SECONDS
        assert clock.now - began <= np.ceil(seconds) + (source == "both")
        assert res.seconds == clock.now - began
        assert res.nfev == slow.count("fun")
        if slow.count("fun"):
            assert res.fun == seen(QUADRATIC.fun)(res.x)


def test_a_run_that_is_out_of_time_is_not_evaluated_on_resuming(clock: Clock, tmp_path: Any):
    path = tmp_path / "run.npz"
    slow = Slow(QUADRATIC, clock)
    run(slow, "gd", "callable", Budget(iters=5), step=0.02, checkpoint=path)
    calls = slow.count("fun"), slow.count("grad")
    again = run(slow, "gd", "callable", Budget(seconds=5.5), step=0.02, checkpoint=path)
    assert again.status is Status.MAX_SECONDS
    assert (slow.count("fun"), slow.count("grad")) == calls
    assert again.fun == seen(QUADRATIC.fun)(again.x)


def test_enough_time_changes_nothing(clock: Clock):
    slow = Slow(QUADRATIC, clock)
    res = run(slow, "gd", "callable", Budget(seconds=1e6, iters=7), step=0.02)
    assert res.status is Status.MAX_ITERATIONS
    assert res.nit == 7


# --- wrong budgets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["grads", "evals", "iters"])
@pytest.mark.parametrize("value", [-1, 1.5, 2.0, float("nan"), "3", True, [4]])
def test_counts_must_be_whole_numbers(name: str, value: Any):
    with pytest.raises((ValueError, TypeError), match=name):
        Budget(**{name: value})


@pytest.mark.parametrize("name", ["grads", "evals"])
def test_nothing_can_be_done_with_nothing(name: str):
    with pytest.raises(ValueError, match=f"{name}: .*1 or more.*0"):
        Budget(**{name: 0})
    assert Budget(iters=0).iters == 0


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "3"])
def test_seconds_must_be_positive(value: Any):
    with pytest.raises((ValueError, TypeError), match="seconds"):
        Budget(seconds=value)


def test_numpy_integers_are_whole_numbers():
    assert Budget(grads=np.int64(7)).total == 7  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("budget", [40, {"grads": 40}, "40"])
def test_a_budget_is_a_budget(budget: Any):
    with pytest.raises(TypeError, match=r"budget: expected a Budget"):
        st.minimize(QUADRATIC.fun, QUADRATIC.x0, jac=QUADRATIC.grad, budget=budget)
