"""Values evaluated ahead: the iterates are those of the run without, and each value is counted once."""

import json
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor

import numpy as np
import pytest

import steepen as st

from ..calls import same
from ..objectives import METHODS
from ..pairs import pairs

X0 = np.array([-1.2, 1.0, 0.4])
BOUNDS = {"none": None, "active": [(-1.5, 0.5), (None, 2.0), (0.4, 0.4)]}


def fun(x):
    """Rosenbrock's function, at complex points, too."""
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


class Counted:
    """It, with its points kept."""

    def __init__(self, instead=None):
        self.points, self.instead = [], instead

    def __call__(self, x):
        self.points.append(x.tobytes())
        return fun(x) if self.instead is None else self.instead(x)


def iterates(res):
    """Return what the run was, but for its counts."""
    columns = {name: column for name, column in res.trace.columns() if name not in ("nfev", "seconds")}
    return res.status, res.nit, res.njev, res.x.tobytes(), {name: a.tobytes() for name, a in columns.items()}


@pytest.fixture(scope="module")
def threads():
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pairs(method=METHODS, jac=("2-point", "3-point", "cs"), bounds=BOUNDS, step=(None, 1e-3), ahead=(1, 3, 99))
def test_the_run_is_the_same_and_each_value_is_counted(threads, method, jac, bounds, step, ahead):
    given = {
        "method": method, "jac": jac, "bounds": BOUNDS[bounds], "step": step, "speculate": ahead,
        "budget": st.Budget(iters=20), "trace": "x",
    }  # fmt: skip
    counted = Counted()
    res, serial = st.minimize(counted, X0, workers=threads, **given), st.minimize(fun, X0, **given)
    assert iterates(res) == iterates(serial)
    assert res.nfev == len(counted.points)
    assert res.nfev - res.nfev_unused == serial.nfev
    assert serial.nfev_unused == 0
    if not (method == "cgd-auto" and jac == "2-point"):  # whose intervals are adapted to f
        assert iterates(serial) == iterates(st.minimize(fun, X0, **given | {"speculate": 0}))


class FourAtOnce:
    """Workers that evaluate four values in a round, and a function that anybody may call."""

    def __init__(self, function):
        self.function, self.rounds = function, 0

    def __call__(self, x):
        self.rounds += 1
        return self.function(x)

    def map(self, _, points):
        self.rounds += -(-len(points) // 4)
        return [self.function(x) for x in points]


@pytest.mark.parametrize("jac", [None, "3-point"])
def test_the_run_waits_for_fewer_rounds(jac):
    rounds = []
    for ahead in (0, 3):
        four = FourAtOnce(lambda x: 5 + fun(x))
        res = st.minimize(four, X0, jac=jac, workers=four.map, speculate=ahead)
        rounds.append(four.rounds)
        assert ("nfev_unused" in repr(res)) is (ahead > 0)
    assert rounds[1] < 0.85 * rounds[0]
    assert 0 < res.nfev_unused < res.nfev / 2


@pytest.mark.parametrize(
    "limit", [{"evals": k} for k in range(1, 90, 4)] + [{"grads": k} for k in range(1, 12)]
)
def test_budgets_stay_hard(limit):
    counted, budget = Counted(), st.Budget(**limit)
    res = st.minimize(counted, X0, workers=map, speculate=3, budget=budget)
    assert res.nfev == len(counted.points) <= limit.get("evals", 10**6)
    assert res.njev <= limit.get("grads", 10**6)
    if "grads" in limit:
        assert iterates(res) == iterates(st.minimize(fun, X0, speculate=3, budget=budget))


def test_an_error_at_a_point_that_nobody_needs_is_no_error():
    """It is raised where the serial run raises it, from the same call."""

    def within(x):
        if x[0] > 0.2:
            raise ZeroDivisionError("mine")
        return float(fun(x))

    given = {"jac": "3-point", "speculate": 6, "x0": [-1.2, 1.0]}
    errors = []
    for workers in (None, map):
        with pytest.raises(ZeroDivisionError, match="mine") as caught:
            st.minimize(within, workers=workers, **given)
        errors.append(caught.value.partial_result)
    assert iterates(errors[0]) == iterates(errors[1])


class Breaking(Executor):
    """Evaluates until a moment, and is then broken."""

    def __init__(self, calls):
        self.left = calls

    def submit(self, function, /, *args):
        future = Future()
        self.left -= 1
        if self.left < 0:
            future.set_exception(BrokenExecutor("a worker died"))
        else:
            future.set_result(function(*args))
        return future


@pytest.mark.parametrize("calls", range(0, 40, 3))
def test_the_run_so_far_is_there_wherever_the_workers_die(calls):
    res = st.minimize(fun, X0, jac="3-point", workers=Breaking(calls), speculate=3)
    assert res.status is st.Status.WORKERS
    if np.isfinite(res.fun):
        assert res.fun == fun(res.x) <= fun(X0)


def test_a_log_has_each_value_once_and_saves_them_all(tmp_path):
    path, given = tmp_path / "log", {"speculate": 3, "workers": map, "log": tmp_path / "log"}
    counted = Counted()
    res = st.minimize(counted, X0, **given)
    lines = [np.array(json.loads(line)["x"]).tobytes() for line in path.read_text().splitlines()]
    assert sorted(lines) == sorted(counted.points)
    assert len(lines) == len(set(lines)) == res.nfev
    again = Counted()
    second = st.minimize(again, X0, **given)
    assert not again.points
    assert iterates(second) == iterates(res)


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("speculate: expected a whole number, 0 or more", {"speculate": -1}),
        ("speculate: expected a whole number, 0 or more", {"speculate": True}),
        ("speculate: expected a gradient by differences", {"speculate": 1, "jac": True}),
        ("speculate: expected a single start", {"speculate": 1, "x0": np.ones((2, 3))}),
        ("speculate: not supported with checkpoint", {"speculate": 1, "checkpoint": "run"}),
    ],
)
def test_wrong_arguments_are_refused_before_any_work(text, given):
    counted = Counted()
    with pytest.raises(ValueError, match=f"^{text}"):
        st.minimize(counted, **({"x0": X0, "workers": map} | given))
    assert not counted.points


def test_without_workers_nothing_is_evaluated_ahead():
    counted = Counted()
    res = st.minimize(counted, X0, jac="3-point", speculate=3)
    same(res, st.minimize(fun, X0, jac="3-point"))
    assert res.nfev == len(counted.points)
