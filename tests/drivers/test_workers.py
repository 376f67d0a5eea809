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


def test_what_is_no_executor_is_refused():
    for workers in (0, -2, 1.5, "four", True):
        with pytest.raises(ValueError, match=r"^workers: expected a number of processes, -1, an ex"):
            st.minimize(fun, X0, workers=workers)
