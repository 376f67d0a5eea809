"""Values that an executor evaluates: the run is the serial one; an end of the workers is a status."""

import multiprocessing
import os
import threading
import time
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import steepen as st

from ..calls import At, same

X0 = np.linspace(-1.0, 1.0, 6)
BUDGET = st.Budget(evals=150)


SPAWNED = multiprocessing.get_context("spawn")
"""A process that was forked beside threads may hang."""


def fun(x):
    """Rosenbrock's function."""
    return float((100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())


def analytic(x):
    """The same, at complex points, too."""
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def uneven(x):
    """The same, later points first."""
    time.sleep(1e-4 * (1 + x[0] % 0.7))
    return fun(x)


def dying(x):
    """The same; a worker dies at points that are not near the start."""
    if multiprocessing.parent_process() is not None and abs(x[0] - X0[0]) > 1e-3:
        os._exit(1)
    return fun(x)


def raising(x):
    """An error of the user's, anywhere but at the start."""
    if (x != X0).any():
        raise ZeroDivisionError("mine")
    return fun(x)


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(2, SPAWNED) as pool:
        yield pool


@pytest.fixture(scope="module")
def threads():
    with ThreadPoolExecutor(4) as pool:
        yield pool


SOURCES = (None, "3-point", "cs")


@pytest.mark.parametrize("jac", SOURCES)
@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_the_run_is_the_serial_one(request, kind, jac):
    executor = request.getfixturevalue(kind)
    given = {"jac": jac, "budget": BUDGET}
    parallel, serial = (analytic, analytic) if jac == "cs" else (uneven, fun)
    same(st.minimize(parallel, X0, workers=executor, **given), st.minimize(serial, X0, **given))


def test_further_arguments_and_checkpoints(processes, tmp_path):
    path = tmp_path / "run"
    st.minimize(partial(fun), X0, workers=processes, budget=st.Budget(evals=40), checkpoint=path)
    res = st.minimize(partial(fun), X0, workers=processes, budget=BUDGET, checkpoint=path)
    same(res, st.minimize(fun, X0, budget=BUDGET))


def test_an_executor_that_is_shut_down_ends_the_run(caplog):
    executor, calls = ThreadPoolExecutor(2), 0

    def counted(x):
        nonlocal calls
        calls += 1
        return fun(x)

    def callback(state):
        if state.k == 3:
            executor.shutdown()

    res = st.minimize(counted, X0, workers=executor, callback=callback)
    assert (res.status, res.nit >= 3, res.success) == (st.Status.WORKERS, True, False)
    assert res.fun == fun(res.x)
    assert res.nfev == calls
    assert "shutdown" in caplog.text


def test_a_worker_that_dies_ends_the_run_and_a_checkpoint_goes_on(tmp_path):
    path = tmp_path / "run"
    with ProcessPoolExecutor(2, SPAWNED) as pool:
        res = st.minimize(dying, X0, workers=pool, jac="3-point", checkpoint=path)
    assert res.status is st.Status.WORKERS
    assert res.fun == fun(res.x) <= fun(X0)
    with ProcessPoolExecutor(2, SPAWNED) as pool:
        whole = st.minimize(fun, X0, workers=pool, jac="3-point", checkpoint=path)
    assert whole.success
    np.testing.assert_array_equal(whole.x, st.minimize(fun, X0, jac="3-point").x)


def test_a_worker_of_a_number_of_them_that_dies_ends_the_run():
    for x0 in (X0, MANY[:2]):
        res = st.minimize(dying, x0, workers=2, jac="3-point")
        assert set(np.atleast_1d(res.status)) == {st.Status.WORKERS}


class OwnError(Exception):
    """Of the package that the executor below is of."""


class OwnExecutor(ThreadPoolExecutor):
    """An executor of the user's."""


def test_an_error_of_the_package_of_the_users_executor_is_theirs():
    def broken(x):
        if (x != X0).any():
            raise OwnError("mine")
        return fun(x)

    with OwnExecutor(2) as executor, pytest.raises(OwnError, match="mine"):
        st.minimize(broken, X0, workers=executor)


class Breaking(Executor):
    """Evaluates until a moment, and is then broken."""

    def __init__(self, calls):
        self.left, self.lock = calls, threading.Lock()

    def submit(self, function, /, *args):
        future = Future()
        self.left -= 1
        if self.left < 0:
            future.set_exception(BrokenExecutor("a worker died"))
        else:
            future.set_result(function(*args))
        return future


@pytest.mark.parametrize("calls", [0, 1, 7, 30, 61])
def test_the_run_so_far_is_there_wherever_it_breaks(calls):
    res = st.minimize(fun, X0, jac="3-point", workers=Breaking(calls))
    assert res.status is st.Status.WORKERS
    assert np.isfinite(res.fun)
    assert res.fun == fun(res.x) <= fun(X0)


def test_an_error_of_the_users_is_theirs(threads):
    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        st.minimize(raising, X0, workers=threads)
    assert caught.value.partial_result.fun == fun(X0)
    again = st.minimize(At(fun, 30, lambda x: float("nan")), X0, workers=threads)  # it is alive
    assert again.nfev > 30


def test_a_function_that_cannot_be_sent_is_refused_with_advice(processes):
    with pytest.raises(TypeError, match=r"^workers: fun could not be sent .* top level of a module"):
        st.minimize(lambda x: fun(x), X0, workers=processes)
    with ThreadPoolExecutor(1) as beside:
        beside.submit(fun, X0).result()  # beside threads no process is forked
        with pytest.raises(TypeError, match=r"^workers: fun could not be sent"):
            st.minimize(lambda x: fun(x), X0, workers=2)


def test_what_is_no_executor_is_refused():
    for workers in (0, -2, 1.5, "four", True, ThreadPoolExecutor):
        with pytest.raises(ValueError, match=r"^workers: expected a number of processes, -1, an ex"):
            st.minimize(fun, X0, workers=workers)


def test_an_executor_without_workers_is_refused():
    class Client:
        def nthreads(self):
            return {}

    class OfDask(ThreadPoolExecutor):
        _client = Client()

    class OfMPI(ThreadPoolExecutor):
        num_workers = 0

    for workers in (OfDask(1), OfMPI(1)):
        with pytest.raises(ValueError, match=r"^workers: expected an executor with workers, got .* has none"):
            st.minimize(raising, X0, workers=workers)


# --- batches -----------------------------------------------------------------------------------------------

MANY = np.stack([X0, X0 + 0.3, X0[::-1]])


def gradient(x, *_):
    """Of Rosenbrock's function."""
    t, g = x[1:] - x[:-1] ** 2, np.zeros_like(x)
    g[:-1] = -400 * x[:-1] * t - 2 * (1 - x[:-1])
    g[1:] += 200 * t
    return g


def both(x):
    """Return f and its gradient."""
    return fun(x), gradient(x)


def product(x, v):
    """Return H·v by a difference."""
    return (gradient(x + 1e-6 * v) - gradient(x - 1e-6 * v)) / 2e-6


def hessian(x):
    """Return H by differences."""
    return np.stack([product(x, e) for e in np.eye(len(x))])


SOURCES_OF_ONE = {
    "2-point": (fun, {}), "3-point": (fun, {"jac": "3-point"}), "cs": (analytic, {"jac": "cs"}),
    "given": (fun, {"jac": gradient}), "both": (both, {"jac": True}),
    "hvp": (fun, {"jac": gradient, "hvp": product, "method": "cgd", "step": 1e-3, "lam": 1e-4}),
    "hess": (fun, {"jac": gradient, "hess": hessian, "method": "newton"}),
    "fixed": (fun, {"jac": gradient, "method": "gd", "step": 1e-3}),
}  # fmt: skip


@pytest.mark.parametrize("source", SOURCES_OF_ONE)
@pytest.mark.parametrize("kind", ["map", "threads", "processes"])
def test_each_row_of_a_batch_is_its_run_alone_with_a_function_for_one_point(request, kind, source):
    workers = map if kind == "map" else request.getfixturevalue(kind)
    function, given = SOURCES_OF_ONE[source]
    given = {"budget": st.Budget(iters=12)} | given
    many = st.minimize(function, MANY, workers=workers, **given)
    for row, x0 in enumerate(MANY):
        same(many.row(row), st.minimize(function, x0, **given))


def fit(x, rate, y, row):
    """Return a sum of squares of one row."""
    return float(rate * ((x[0] * np.arange(3.0) - y) ** 2).sum() + (x[1] - row) ** 2)


def test_a_function_for_one_point_gets_the_data_of_its_row(processes):
    data = np.arange(12.0).reshape(4, 3), np.arange(4)
    res = st.minimize(fit, np.ones((4, 2)), (2.0,), rows=data, workers=processes)
    for row in range(4):
        same(res.row(row), st.minimize(fit, np.ones(2), (2.0, data[0][row], data[1][row])))


@pytest.mark.parametrize("calls", [0, 2, 3, 10, 40])
def test_where_workers_die_every_row_has_its_run_so_far(calls):
    res = st.minimize(fun, MANY, jac="3-point", workers=Breaking(calls))
    assert set(res.status) == {st.Status.WORKERS}
    assert res.nfev.sum() <= calls + 1 + 3 * 12  # those that were submitted together
    if calls >= 3:
        assert all(res.fun[row] == fun(res.x[row]) <= fun(MANY[row]) for row in range(3))


def test_an_error_of_the_users_in_a_batch_is_theirs(threads):
    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        st.minimize(raising, MANY[:2], workers=threads)
    assert caught.value.partial_result.x.shape == (2, 6)


def test_the_number_of_values_of_a_batch_is_checked():
    with pytest.raises(ValueError, match=r"^workers: expected 3 values for 3 points, got 1"):
        st.minimize(fun, MANY, workers=lambda function, points: [1.0])


# --- loky --------------------------------------------------------------------------------------------------


def test_loky_carries_any_function():
    loky = pytest.importorskip("loky", reason="loky is not installed; steepen[sweep] has it")
    shift = 0.5
    function = lambda x: fun(x - shift)  # noqa: E731
    executor = loky.get_reusable_executor(2)
    given = {"jac": "3-point", "budget": BUDGET}
    same(st.minimize(function, X0, workers=executor, **given), st.minimize(function, X0, **given))
    many = st.minimize(function, MANY, workers=executor, **given)
    same(many.row(1), st.minimize(function, MANY[1], **given))
