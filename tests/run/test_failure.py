"""What goes wrong during a run is a status, never a lost run."""

from __future__ import annotations

import itertools
import math
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import steepen as st
from steepen import Status, schedules, steps

from ..rounding import seen

METHODS = ["gd", "newton", "bfgs", "dfp", "cgd", "cgd-fd", "cgd-bfgs", "cgd-dfp", "cgd-auto"]
Q = np.array([1.0, 4.0])


def f(x: Any) -> Any:
    return (Q * x * x).sum(axis=-1) / 2


def g(x: Any) -> Any:
    return Q * x


def run(fun: Any = f, x0: Any = (1.0, -2.0), **given_: Any) -> st.Result:
    base: dict[str, Any] = {"jac": g, "method": "gd", "step": 0.1, "budget": st.Budget(iters=20), "gtol": 0.0}
    return st.minimize(fun, np.array(x0), **(base | given_))


class At:
    """Wraps a function: call number j (from 0) does something else."""

    def __init__(self, function: Any, j: int, instead: Callable[..., Any]):
        self.function, self.j, self.instead, self.calls = function, j, instead, 0

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        if self.calls > self.j:
            return self.instead(*args)
        return self.function(*args)


def raising(error: BaseException) -> Callable[..., Any]:
    def instead(*_: Any) -> Any:
        raise error

    return instead


def consistent(result: st.Result) -> None:
    """Hold the result of a cut run against its own trace."""
    trace = result.trace
    assert trace is not None
    assert len(trace) in (result.nit, result.nit + 1)
    assert np.isfinite(trace.f).all()
    if len(trace) == result.nit + 1:  # f at the last point is known
        assert result.fun == trace.f[-1]
        assert math.isnan(trace.step[-1])
        assert not trace.penalised[-1]
    if len(trace):
        assert result.best.fun == trace.f.min()
        assert np.isfinite(trace.step[: result.nit]).all()
        assert (np.diff(trace.njev) >= 0).all()
        assert seen(f)(result.best.x) == result.best.fun
        assert seen(f)(result.x) == result.fun
    else:
        assert result.best.x is None
        assert math.isnan(result.fun)


# --- f or ∇f turns NaN or infinite -----------------------------------------------------------------

BAD = [math.nan, math.inf, -math.inf]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("k", [0, 1, 4])
def test_f_turning_bad_ends_the_run_at_the_best_point(bad: float, method: str, k: int) -> None:
    given_: dict[str, Any] = {"method": method, "trace": "x", "jac": lambda x: 0.1 * g(x), "step": 0.05}
    whole = run(lambda x: float(f(x)), **given_)
    result = run(At(lambda x: float(f(x)), k, lambda x: bad), **given_)
    assert result.status is (Status.UNBOUNDED if bad == -math.inf else Status.NONFINITE_VALUE)
    assert not result.success
    assert result.nit == k
    assert whole.trace is not None
    assert result.trace is not None
    assert result.trace.f[:k].tolist() == whole.trace.f[:k].tolist()
    assert result.trace.x is not None
    assert result.trace.x.tolist() == whole.trace.x[: k + 1].tolist()  # type: ignore[index]
    assert len(result.trace) == k + 1
    assert str(result.trace.f[-1]) == str(bad)
    if k == 0:
        assert result.best.x is None
        assert str(result.fun) == str(bad)
        assert result.x.tolist() == [1.0, -2.0]
        assert np.isnan(result.jac).all()
    else:
        best = int(whole.trace.f[:k].argmin())
        assert result.best.k == best
        assert result.x.tolist() == result.best.x.tolist() == whole.trace.x[best].tolist()  # type: ignore[index]
        assert result.fun == result.best.fun == seen(f)(result.x)


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("method", ["gd", "bfgs", "cgd-bfgs"])
@pytest.mark.parametrize("k", [0, 1, 4])
def test_a_gradient_turning_bad_ends_the_run_at_the_best_point(bad: float, method: str, k: int) -> None:
    result = run(jac=At(g, k, lambda x: np.array([1.0, bad])), method=method, step=0.05)
    assert result.status is Status.NONFINITE_GRADIENT
    assert result.nit == k
    assert result.trace is not None
    assert len(result.trace) == k + 1
    assert np.isfinite(result.trace.f).all()
    assert not math.isfinite(result.trace.gnorm[-1])
    assert result.fun == result.trace.f.min() == seen(f)(result.x)
    assert np.isnan(result.jac).all()


def test_a_line_search_steps_back_from_points_without_value() -> None:
    def wall(x: Any) -> float:
        return float(x[0] - math.log(x[0])) if x[0] > 0 else math.nan

    result = run(wall, [0.1], jac=lambda x: 1 - 1 / x, step=None, gtol=1e-8, method="bfgs")
    assert result.status is Status.CONVERGED
    assert result.x[0] == pytest.approx(1.0, abs=1e-7)


def test_an_overflow_of_f_is_a_status() -> None:
    with np.errstate(over="ignore"):
        result = run(lambda x: float(np.exp(x[0])), [700.0], jac=lambda x: -np.exp(x[:1] / 100), step=0.1)
    assert result.status is Status.NONFINITE_VALUE
    assert result.fun == pytest.approx(math.exp(700.0), rel=1e-12)


def test_a_divergent_step_keeps_the_best_point() -> None:
    with np.errstate(all="ignore"):
        result = run(step=3.0, budget=st.Budget(iters=2000))
    assert result.status is Status.NONFINITE_VALUE
    assert result.best.k == 0
    assert result.x.tolist() == [1.0, -2.0]
    assert result.fun == seen(f)(np.array([1.0, -2.0]))
    assert result.trace is not None
    assert (np.diff(result.trace.f[:-1]) > 0).all()


def test_the_last_point_is_the_answer_when_nothing_was_bad() -> None:
    result = run(step=0.55, budget=st.Budget(iters=3))  # climbs along the second axis
    assert result.status is Status.MAX_ITERATIONS
    assert result.trace is not None
    assert result.fun == result.trace.f[-1] > result.best.fun


@pytest.mark.parametrize("what", ["value", "gradient"])
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("step", [0.05, None])
def test_one_bad_row_of_a_batch_ends_alone(what: str, bad: float, method: str, step: Any) -> None:
    def fun(x: Any) -> Any:
        return np.where((x[:, 0] > 3) & (what == "value"), bad, f(x))

    def jac(x: Any) -> Any:
        return np.where((x[:, :1] > 3) & (what == "gradient"), bad, g(x))

    def hess(x: Any) -> Any:
        return np.broadcast_to(np.diag(Q), (len(x), 2, 2))

    x0 = np.array([[1.0, -2.0], [4.0, 1.0], [2.0, 2.0]])
    given_: dict[str, Any] = {"method": method, "step": step, "gtol": 1e-3, "hess": hess}
    result = run(fun, x0, jac=jac, **given_)
    alone = run(f, x0[[0, 2]], **given_)
    of_value = Status.UNBOUNDED if bad == -math.inf else Status.NONFINITE_VALUE
    status = of_value if what == "value" else Status.NONFINITE_GRADIENT
    assert result.status[1] == status
    assert result.nit[1] == 0
    assert result.x[1].tolist() == [4.0, 1.0]
    assert result.status[[0, 2]].tolist() == alone.status.tolist()
    assert result.x[[0, 2]].tolist() == alone.x.tolist()
    assert result.nit[[0, 2]].tolist() == alone.nit.tolist()
    assert result.message[1] == status.message


def test_a_row_that_turns_bad_later_keeps_its_trace() -> None:
    def fun(x: Any) -> Any:
        return np.where(np.abs(x[:, 1]) > 40, math.nan, f(x))

    result = run(fun, [[1.0, -2.0], [1.0, 0.0]], step=0.8)  # grows by 2.2 along the second axis
    assert result.status.tolist() == [Status.NONFINITE_VALUE, Status.MAX_ITERATIONS]
    row = result.row(0)
    assert row.trace is not None
    assert len(row.trace) == row.nit + 1
    assert math.isnan(row.trace.f[-1])
    assert row.x.tolist() == [1.0, -2.0]
    assert row.best.k == 0
    assert result.row(1).nit == 20


@pytest.mark.parametrize("bad", BAD)
def test_where_a_probe_turns_bad_the_guard_takes_over(bad: float) -> None:
    def jac(x: Any) -> Any:
        return g(x) if x[0] <= 1.0 else np.full(2, bad)

    with np.errstate(invalid="ignore"):
        result = run(jac=jac, method="cgd-fd", lam=0.1, r=0.5, x0=[1.0, -0.1])
    plain = run(x0=[1.0, -0.1])
    assert result.trace is not None
    assert result.trace.guarded[0]
    assert not result.trace.guarded[1:].any()
    assert result.trace.lam[0] == 0.0
    assert not result.trace.penalised.any()
    assert result.x.tolist() == plain.x.tolist()
    assert result.status is Status.MAX_ITERATIONS


# --- exceptions of the user's functions ------------------------------------------------------------


class OurError(Exception):
    """An error that only the user knows."""


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("step", [0.05, None])
@pytest.mark.parametrize("what", ["fun", "jac", "hvp", "hess", "callback"])
@pytest.mark.parametrize("j", [0, 1, 5])
def test_an_exception_comes_through_with_the_partial_result(
    method: str, step: Any, what: str, j: int
) -> None:
    def quartic(x: Any) -> float:
        return float((Q * x**4).sum() / 4)

    given_: dict[str, Any] = {"fun": quartic, "jac": lambda x: Q * x**3, "callback": lambda s: None}
    given_["hess"] = lambda x: np.diag(3 * Q * x**2)
    if what == "hvp":
        given_["hvp"] = lambda x, v: 3 * Q * x**2 * v
    error = OurError("mine")
    given_[what] = At(given_[what], j, raising(error))
    raised: list[OurError] = []
    try:
        run(method=method, step=step, budget=st.Budget(iters=12), **given_)
    except OurError as caught:
        raised.append(caught)
    if not raised:  # not every method calls every function so often
        assert given_[what].calls <= j
        assert what in ("hvp", "hess")
        return
    assert raised == [error]
    assert "partial_result" in "".join(error.__notes__)
    result = error.partial_result  # pyright: ignore
    assert result.status is Status.FAILED
    assert len(result.trace) in (result.nit, result.nit + 1)
    assert result.method == method
    if len(result.trace):
        assert result.fun == seen(quartic)(result.x)
    counted = {"fun": result.nfev, "jac": result.njev, "hess": result.nhev, "hvp": result.nhvp}
    if what in counted:
        assert counted[what] == given_[what].calls


@pytest.mark.parametrize("what", ["fun", "jac", "callback"])
def test_an_exception_in_a_batch_brings_the_partial_result(what: str) -> None:
    given_: dict[str, Any] = {"fun": f, "jac": g, "callback": lambda s: None}
    given_[what] = At(given_[what], 3, raising(OurError()))
    with pytest.raises(OurError) as caught:
        run(x0=np.ones((3, 2)), **given_)
    result = caught.value.partial_result  # pyright: ignore
    assert result.status.tolist() == [Status.FAILED] * 3
    assert np.isfinite(result.x).all()
    assert result.x.shape == (3, 2)
    np.testing.assert_array_equal(seen(f)(result.x), result.fun)
    assert set(result.nfev.tolist()) <= {3, 4, 5}


# --- Ctrl-C ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("step", [0.05, None])
@pytest.mark.parametrize("what", ["fun", "jac", "callback"])
@pytest.mark.parametrize("j", [0, 1, 2, 5])
def test_ctrl_c_gives_the_partial_result(method: str, step: Any, what: str, j: int) -> None:
    def bent(x: Any) -> float:
        return float(f(x))

    given_: dict[str, Any] = {"fun": bent, "jac": g, "callback": lambda s: None}
    given_[what] = At(given_[what], j, raising(KeyboardInterrupt()))
    result = run(method=method, step=step, hess=lambda x: np.diag(Q), trace="x", lam=None, **given_)
    if result.status is not Status.INTERRUPTED:  # over before call j
        assert given_[what].calls <= j
        return
    assert not result.success
    consistent(result)
    assert result.trace is not None
    assert result.trace.x is not None
    assert len(result.trace.x) == len(result.trace)
    if len(result.trace) == result.nit + 1:
        assert result.x.tolist() == result.trace.x[-1].tolist()


@pytest.mark.parametrize("trace", [True, "x", False])
@pytest.mark.parametrize("what", ["fun", "jac", "callback"])
def test_ctrl_c_in_a_batch_ends_the_rows_that_are_left(trace: Any, what: str) -> None:
    given_: dict[str, Any] = {"fun": f, "jac": g, "callback": lambda s: None}
    given_[what] = At(given_[what], 6, raising(KeyboardInterrupt()))
    x0 = np.array([[1.0, -2.0], [0.0, 1e-9], [3.0, 1.0]])
    result = run(x0=x0, trace=trace, gtol=1e-6, **given_)
    assert result.status.tolist() == [Status.INTERRUPTED, Status.CONVERGED, Status.INTERRUPTED]
    np.testing.assert_array_equal(seen(f)(result.x), result.fun)
    if trace:
        assert result.trace is not None
        for b in range(3):
            row = result.row(b)
            assert row.trace is not None
            assert len(row.trace) in (row.nit, row.nit + 1)
            assert np.isfinite(row.trace.f).all()


FILES = ("loop.py", "iteration.py", "recorder.py", "oracle.py", "steps.py")


def interrupted_at(line: int, **given_: Any) -> st.Result:
    """Run with an interrupt before the given line of the loop, wherever that is."""
    left = line

    def count(frame: Any, event: str, _: Any) -> Any:
        nonlocal left
        if event == "line":
            left -= 1
            if left == 0:
                signal.raise_signal(signal.SIGINT)
        return count

    def enter(frame: Any, event: str, _: Any) -> Any:
        ours = frame.f_code.co_filename.endswith(FILES)
        return count if ours and left > 0 and within(frame) else None

    def within(frame: Any) -> bool:
        """Whether the loop is running: not in the code that sets up or clears up."""
        while frame is not None:
            if frame.f_code.co_name in {"_iterate", "_cut"}:
                return frame.f_code.co_name == "_iterate"
            frame = frame.f_back
        return False

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        return run(**given_)
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("x0", [[1.0, -2.0], [[1.0, -2.0], [0.0, 1e-9], [2.0, 0.0]]], ids=["one", "many"])
@pytest.mark.parametrize(
    ("method", "step", "trace"), [("gd", None, "x"), ("cgd-fd", 0.05, True), ("bfgs", None, False)]
)
def test_ctrl_c_between_any_two_lines_loses_nothing(x0: Any, method: str, step: Any, trace: Any) -> None:
    """The interrupt comes wherever the interpreter happens to be, not only in the user's functions."""
    iters = 3 if len(x0) == 2 else 2  # it takes time with the square of the lines
    given_: dict[str, Any] = {"x0": x0, "method": method, "step": step, "budget": st.Budget(iters=iters)}
    given_ |= {"gtol": 1e-6, "b": 1} if method == "cgd-fd" else {"gtol": 1e-6}
    whole = run(trace="x", **given_)
    assert whole.trace is not None
    assert whole.trace.x is not None
    points = whole.trace.x.reshape(-1, 2).tolist()
    for line in itertools.count(1):
        result = interrupted_at(line, trace=trace, **given_)
        rows = [result] if result.x.ndim == 1 else [result.row(b) for b in range(len(result.x))]
        wholes = [whole] if result.x.ndim == 1 else [whole.row(b) for b in range(len(result.x))]
        if all(row.status is not Status.INTERRUPTED for row in rows):
            break
        for row, end in zip(rows, wholes, strict=True):
            assert row.x.tolist() in points, line
            assert math.isnan(row.fun) or row.fun == seen(f)(row.x), line
            if row.trace is not None and end.trace is not None:
                assert len(row.trace) in (row.nit, row.nit + 1), line
                assert row.trace.f.tolist() == end.trace.f[: len(row.trace)].tolist(), line
            if row.trace is not None and row.trace.x is not None:
                assert end.trace is not None
                assert end.trace.x is not None
                assert row.trace.x.tolist() == end.trace.x[: len(row.trace)].tolist(), line
    assert line > 100  # pyright: ignore[reportPossiblyUnbound]


# --- the callback, and functions that misbehave quietly --------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_the_callback_sees_every_step_once(method: str) -> None:
    seen: list[st.State] = []
    result = run(method=method, callback=seen.append, trace="x", budget=st.Budget(iters=6), step=0.05)
    trace = result.trace
    assert trace is not None
    assert trace.x is not None
    assert [s.k for s in seen] == list(range(1, result.nit + 1))
    for s in seen:
        assert s.x.tolist() == trace.x[s.k].tolist()
        assert s.fun == trace.f[s.k]
        assert (s.lam, s.step) == (trace.lam[s.k - 1], trace.step[s.k - 1])
        assert (s.penalised, s.guarded) == (trace.penalised[s.k - 1], trace.guarded[s.k - 1])
        assert (s.nfev, s.njev, s.nhvp) == (trace.nfev[s.k], trace.njev[s.k], trace.nhvp[s.k])
        assert s.rows is None
    assert [s.seconds for s in seen] == sorted(s.seconds for s in seen)


def test_the_callback_of_a_batch_is_told_which_rows_run() -> None:
    seen: list[st.State] = []
    run(x0=[[0.0, 1e-9], [1.0, 1.0]], gtol=1e-6, callback=seen.append)
    assert all(s.x.shape == (1, 2) and s.rows.tolist() == [1] for s in seen)  # type: ignore[union-attr]
    assert len(seen) == 20


def stop_by_error(_: st.State) -> None:
    raise StopIteration


@pytest.mark.parametrize("how", [lambda s: True, lambda s: np.True_, stop_by_error])
@pytest.mark.parametrize("x0", [[1.0, -2.0], [[1.0, -2.0], [2.0, 1.0]]])
def test_the_callback_can_stop_the_run(how: Any, x0: Any) -> None:
    result = run(x0=x0, callback=lambda s: how(s) if s.k == 3 else None)
    assert np.atleast_1d(result.status).tolist() == [Status.CALLBACK] * np.ndim(x0)
    assert np.atleast_1d(result.nit).tolist() == [3] * np.ndim(x0)
    assert not np.any(result.success)
    assert result.trace is not None
    assert len(result.trace) == 4


@pytest.mark.parametrize("harmless", [None, False, np.False_])
def test_other_answers_of_the_callback_do_not_stop(harmless: Any) -> None:
    assert run(callback=lambda s: harmless).nit == 20


def spoil(state: st.State) -> None:
    for name in ("x", "fun", "lam", "step", "penalised", "guarded", "nfev", "njev", "nhvp", "rows"):
        value = getattr(state, name)
        if isinstance(value, np.ndarray) and value.flags.writeable:
            value[...] = 7


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("step", [0.05, None])
@pytest.mark.parametrize("x0", [[1.0, -2.0], [[1.0, -2.0], [0.0, 1e-9], [3.0, 1.0]]])
def test_nothing_the_user_changes_in_place_disturbs_the_run(method: str, step: Any, x0: Any) -> None:
    def hess(x: Any) -> Any:
        return np.broadcast_to(np.diag(Q), (*x.shape, 2)).copy()

    values, grads, hessians = (
        np.empty(np.shape(x0)[:-1]),
        np.empty(np.shape(x0)),
        np.empty((*np.shape(x0), 2)),
    )

    def reusing(buffer: Any, function: Any) -> Any:
        """Answer in one buffer, and leave rubbish where the point was."""

        def call(x: Any) -> Any:
            out = buffer[: len(x)] if x.ndim == 2 else buffer
            out[...] = function(x)
            x[...] = math.nan
            return out

        return call

    given_: dict[str, Any] = {"x0": x0, "method": method, "step": step, "gtol": 1e-6}
    clean = run(hess=hess, trace="x", **given_)
    dirty = run(
        reusing(values, f),
        jac=reusing(grads, g),
        hess=reusing(hessians, hess),
        callback=spoil,
        trace="x",
        **given_,
    )
    assert clean.trace is not None
    assert dirty.trace is not None
    for (name, a), (_, b) in zip(clean.trace.columns(), dirty.trace.columns(), strict=True):
        np.testing.assert_array_equal(a, b, err_msg=name)
    np.testing.assert_array_equal(clean.x, dirty.x)
    np.testing.assert_array_equal(clean.jac, dirty.jac)


def test_x0_is_not_changed() -> None:
    x0 = np.array([1.0, -2.0])
    result = st.minimize(f, x0, jac=g, method="gd", step=0.1, callback=spoil)
    assert x0.tolist() == [1.0, -2.0]
    assert result.success
    result.x[:] = 9.0
    assert x0.tolist() == [1.0, -2.0]


# --- every outcome ---------------------------------------------------------------------------------


def test_gtol_and_its_other_name() -> None:
    for name in ("tol", "gtol"):
        options: dict[str, Any] = {name: 1e-3, "budget": None}
        result = st.minimize(f, [1.0, -2.0], jac=g, method="gd", step=0.1, **options)
        assert result.status is Status.CONVERGED
        assert result.success
        assert result.trace is not None
        assert result.trace.gnorm[-1] <= 1e-3 < result.trace.gnorm[-2]


def test_the_default_gtol_follows_the_precision() -> None:
    for dtype, gtol in ((np.float64, 1e-5), (np.float32, 1e-3)):
        result = st.minimize(
            f, np.array([1.0, -2.0], dtype=dtype), jac=lambda x: x * Q.astype(x.dtype), step=0.1, method="gd"
        )
        assert result.trace is not None
        assert result.trace.gnorm[-1] <= gtol < result.trace.gnorm[-2]


def test_ftol() -> None:
    result = run(ftol=1e-4, budget=None)
    assert result.status is Status.SMALL_DECREASE
    assert result.success
    assert result.trace is not None
    falls = -np.diff(result.trace.f)
    assert falls[-1] <= 1e-4 < falls[:-1].min()


def test_ftol_is_relative_to_a_large_f() -> None:
    result = run(lambda x: float(f(x)) + 1e6, ftol=1e-8, budget=None)
    assert result.trace is not None
    falls = -np.diff(result.trace.f)
    assert falls[-1] <= 1e-2 < falls[:-1].min()


def test_ftol_does_not_take_a_climb_for_convergence() -> None:
    result = run(ftol=1e-3, step=0.55)
    assert result.trace is not None
    assert (np.diff(result.trace.f) > 0).any()
    assert result.status is Status.MAX_ITERATIONS


def test_xtol() -> None:
    result = run(xtol=1e-3, budget=None, trace="x")
    assert result.status is Status.SMALL_MOVE
    assert result.success
    assert result.trace is not None
    assert result.trace.x is not None
    moves = np.linalg.norm(np.diff(result.trace.x, axis=0), axis=1)
    assert moves[-1] <= 1e-3 < moves[:-1].min()


@pytest.mark.parametrize("x0", [[1.0, -2.0], [[1.0, -2.0], [0.5, 3.0]]])
@pytest.mark.parametrize("tolerance", ["ftol", "xtol"])
def test_the_tolerances_end_each_row_as_they_end_it_alone(x0: Any, tolerance: str) -> None:
    result = run(x0=x0, **{tolerance: 1e-3}, budget=None)
    for b, start in enumerate(np.atleast_2d(x0)):
        alone = run(lambda x: float(f(x)), start, **{tolerance: 1e-3}, budget=None)
        assert np.atleast_1d(result.nit)[b] == alone.nit


@pytest.mark.parametrize(
    ("budget", "status"),
    [
        ({"iters": 3}, Status.MAX_ITERATIONS),
        ({"grads": 3}, Status.MAX_GRADIENTS),
        ({"evals": 3}, Status.MAX_EVALUATIONS),
        ({"seconds": 1e-9}, Status.MAX_SECONDS),
    ],
)
@pytest.mark.parametrize("x0", [[1.0, -2.0], [[1.0, -2.0], [2.0, 1.0]]])
def test_each_budget_has_its_status(budget: dict[str, Any], status: Status, x0: Any) -> None:
    result = run(x0=x0, budget=st.Budget(**budget))
    assert np.atleast_1d(result.status).tolist() == [status] * np.ndim(x0)
    assert not np.any(result.success)


def test_no_time_at_all_is_no_evaluation_at_all() -> None:
    result = run(budget=st.Budget(seconds=1e-9))
    assert (result.nfev, result.njev, result.nit) == (0, 0, 0)
    assert result.x.tolist() == [1.0, -2.0]
    assert math.isnan(result.fun)
    assert result.best.x is None


@pytest.mark.parametrize("method", METHODS)
def test_a_kink_is_no_descent(method: str) -> None:
    result = run(
        lambda x: abs(float(x[0])),
        [0.0],
        jac=lambda x: np.ones(1),
        hess=lambda x: np.eye(1),
        method=method,
        step=None,
    )
    assert result.status is Status.NO_DESCENT
    assert not result.success
    assert result.fun == 0.0
    assert result.nit == 0 or method == "cgd-auto"  # which looks elsewhere before it gives up
    assert result.trace is not None
    assert len(result.trace) == result.nit + 1


def test_a_kink_reached_on_the_way_is_no_descent() -> None:
    result = run(lambda x: abs(float(x[0])), [0.7], jac=np.sign, step=steps.Armijo())
    assert result.status in (Status.NO_DESCENT, Status.CONVERGED, Status.MAX_ITERATIONS)
    assert result.trace is not None
    assert (np.diff(result.trace.f) < 0).all()


def test_a_line_search_out_of_values_is_a_spent_budget() -> None:
    result = run(
        lambda x: abs(float(x[0])), [0.0], jac=lambda x: np.ones(1), step=None, budget=st.Budget(evals=5)
    )
    assert result.status is Status.MAX_EVALUATIONS
    assert result.nfev == 5


def test_every_status_has_a_sentence() -> None:
    sentences = [status.message for status in Status]
    assert len(set(sentences)) == len(Status)
    assert all(s[0].isupper() or s.startswith(("f ", "x ")) for s in sentences)
    assert all(s.endswith(".") and 15 < len(s) < 160 for s in sentences)
    good = ["CONVERGED", "SMALL_DECREASE", "SMALL_MOVE", "PRECISION", "NOISE", "DIFFERENCES", "RELATIVE"]
    good.append("RESOLUTION")
    assert [s.name for s in Status if s.success] == good


def test_the_penalty_may_lead_to_an_artificial_point() -> None:
    """On f = −x − x³/6 with λ = ½ the factor 1 + 2λf'' = 1 − x vanishes at 1, where f' is −1.5."""
    result = run(method="cgd", budget=st.Budget(iters=150), **CUBIC)
    assert result.status is Status.ARTIFICIAL
    assert not result.success
    assert result.x[0] == pytest.approx(1.0, abs=1e-3)
    assert result.jac[0] == pytest.approx(-1.5, abs=1e-2)
    short = run(method="cgd", budget=st.Budget(iters=5), **CUBIC)
    assert short.status is Status.MAX_ITERATIONS
    rows = run(
        **(
            CUBIC
            | {"x0": [[0.0], [-5.0]], "method": "cgd", "budget": st.Budget(iters=70), "step": [0.1, 0.01]}
        )
    )
    assert rows.status.tolist() == [Status.ARTIFICIAL, Status.MAX_ITERATIONS]


CUBIC: dict[str, Any] = {
    "fun": lambda x: (-x - x**3 / 6).sum(axis=-1),
    "x0": [0.0],
    "jac": lambda x: -1 - x**2 / 2,
    "hvp": lambda x, v: -x * v,
    "lam": 0.5,
    "step": 0.1,
}


def noisy(level: float) -> tuple[Any, Any, tuple[()], str, Any]:
    """Return the arguments of a run on a bowl whose values, and slopes, are spoilt by a fast ripple."""

    def ripple(x: Any) -> Any:
        return np.sin(1e9 * x)

    return (
        lambda x: float(1 + Q @ (x * x) + level * ripple(x).sum()),
        np.array([0.3, -0.7]),
        (),
        "cgd-auto",
        lambda x: 2 * Q * x + 100 * level * ripple(2 * x),
    )


@pytest.mark.parametrize("level", [1e-12, 1e-10, 1e-8, 1e-7])
def test_noise_ends_a_run_as_a_success_near_the_minimum(level: float) -> None:
    *first, jac = noisy(level)
    result = st.minimize(*first, jac=jac, gtol=0.0)
    assert result.status in (Status.NOISE, Status.PRECISION)
    assert Q @ (result.x * result.x) <= 50 * level
    assert result.nfev < 60


def test_noise_of_a_millionth_does_not_keep_a_gradient_from_its_tolerance() -> None:
    """Two values may differ by two millionths then, and two differences may be small by chance."""
    converged, counts = 0, {0.0: 0, 1e-6: 0}
    for level, seed in itertools.product(counts, range(12)):
        rng = np.random.default_rng(seed)
        x0 = rng.uniform(0, 2, 3)

        def value(x: Any, level: float = level, rng: Any = rng) -> float:
            bend, rest = x[1:] - x[:-1] ** 2, 1 - x[:-1]
            return float(2 + 10 * bend @ bend + rest @ rest) * (1 + level * rng.uniform(-1, 1))

        def slope(x: Any) -> Any:
            bend, rest = x[1:] - x[:-1] ** 2, 1 - x[:-1]
            return np.append(-40 * bend * x[:-1] - 2 * rest, 0) + np.append(0, 20 * bend)

        result = st.minimize(value, x0, jac=slope)
        counts[level] += result.nfev + result.njev
        converged += result.status is Status.CONVERGED
    assert converged >= 23
    assert counts[1e-6] <= 1.3 * counts[0.0]


def test_noise_that_is_no_noise_but_a_steep_bend_is_not_taken_for_it() -> None:
    """A narrow well on a high plain: values change by 1e-9 of f, and all of it is real."""
    result = st.minimize(
        lambda x: 1e6 + 1e-3 * float(np.log1p(1e4 * x @ x)),
        np.array([0.02, 0.01]),
        jac=lambda x: 1e-3 * 2e4 * x / (1 + 1e4 * x @ x),
        gtol=1e-8,
    )
    assert result.status is not Status.NOISE
    assert np.linalg.norm(result.x) < 1e-4


def test_every_status_is_reached() -> None:
    """Each outcome has a run above; here they are made once more, so that this test stands alone."""

    def failing(x: Any) -> float:
        raise OurError

    nan, one = math.nan, np.ones(1)
    with pytest.raises(OurError) as caught:
        run(failing)
    runs = [
        run(gtol=1e-3, budget=None),
        run(gtol=0, gtol_rel=1e-3, budget=None),
        run(ftol=1e-4, budget=None),
        run(xtol=1e-1, budget=None),
        *(run(budget=st.Budget(**b)) for b in ({"iters": 1}, {"grads": 1}, {"evals": 1}, {"seconds": 1e-9})),
        run(callback=lambda s: True),
        run(At(f, 2, raising(KeyboardInterrupt()))),
        run(lambda x: abs(float(x[0])), [0.0], jac=lambda x: one, step=None),
        run(method="cgd", budget=st.Budget(iters=150), **CUBIC),
        st.minimize(st.problems["misra1a-2"], st.problems["misra1a-2"].x0, gtol=0),
        st.minimize(lambda x: float(st.problems["gauss1-2"](x)), st.problems["gauss1-2"].x0),
        st.minimize(lambda x: float(f"{1 + ((x - 1) ** 2).sum():.5g}"), [3.0, 4.0]),
        st.minimize(*noisy(1e-7)[:4], jac=noisy(1e-7)[4], gtol=0),
        run(
            lambda x: np.float32(f(x - 1)), np.ones(2, np.float32) * 2, jac="2-point", gtol=1e-5, budget=None
        ),
        run(lambda x: nan),
        run(lambda x: -math.inf),
        run(jac=lambda x: x * nan),
        run(lambda x: 0.0, jac=lambda x: 1e300 * x, step=1e10),
        caught.value.partial_result,  # pyright: ignore
    ]
    compiled = {Status.INFEASIBLE}  # of bounds that are traced: tests/jax
    assert {r.status for r in runs} == set(Status) - compiled
    assert all(r.message.startswith(r.status.message) for r in runs)


# --- what is printed -------------------------------------------------------------------------------


@pytest.mark.parametrize("progress", [False, True])
def test_nothing_is_printed_where_there_is_no_terminal(
    progress: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    run(progress=progress)
    run(progress=progress, x0=np.ones((3, 2)))
    run(lambda x: math.nan, progress=progress)
    with pytest.raises(OurError):
        run(At(f, 3, raising(OurError())), progress=progress)
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("budget", ["grads=400", "iters=400", "evals=400", "seconds=1.0, iters=200"])
def test_progress_is_drawn_on_a_terminal(budget: str) -> None:
    import pty

    code = f"""
        import steepen as st
        res = st.minimize(
            lambda x: x @ x, [1.0, 2.0], jac=lambda x: 2 * x, method="gd", step=1e-4, progress=True,
            budget=st.Budget({budget}),
        )
        assert res.nit > 100
    """
    main, other = pty.openpty()
    env = os.environ | {"TERM": "xterm-256color", "COLUMNS": "80"}
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=other,
        stdin=other,
        env=env,
    )
    os.close(other)
    drawn = b""
    while True:
        try:
            block = os.read(main, 4096)
        except OSError:  # the child has closed its end
            break
        if not block:
            break
        drawn += block
    os.close(main)
    stdout, _ = child.communicate(timeout=600)
    assert child.returncode == 0, drawn.decode()
    assert stdout == b""
    unit = {"grads": "gradients", "iters": "iterations", "evals": "values"}
    word = next((word for key, word in unit.items() if budget.startswith(key)), "iterations")
    assert f"{word}, f = ".encode() in drawn


def test_schedules_are_asked_once_a_step() -> None:
    asked: list[int] = []
    run(method="cgd", lam=schedules.Custom(lambda k: asked.append(k) or 0.1), budget=st.Budget(iters=5))
    assert asked == [0, 1, 2, 3, 4]


def test_a_callback_that_returns_something_else_does_not_stop_the_run() -> None:
    fun = st.functions["booth"]
    plain = st.minimize(fun, [0.0, 0.0], method="gd", step=0.05)
    for returned in (1, "x", 0.5, [True]):
        res = st.minimize(fun, [0.0, 0.0], method="gd", step=0.05, callback=lambda s, r=returned: r)
        assert res.nit == plain.nit


def test_a_callback_ends_rows_of_a_batch() -> None:
    fun, starts = st.functions["booth"], np.array([[0.0, 0.0], [5.0, 5.0], [1.0, 2.9]])
    res = st.minimize(fun, starts, method="gd", step=0.05, callback=lambda s: s.fun < 1.0)
    assert (res.status == st.Status.CALLBACK).all()
    assert (res.fun < 1.0).all()
    assert len(set(res.nit.tolist())) > 1
    with pytest.raises(TypeError, match=r"callback: expected one bool for each row"):
        st.minimize(fun, starts, method="gd", step=0.05, callback=lambda s: s.fun)


def test_a_state_of_a_batch_has_one_entry_a_row() -> None:
    shapes = set()

    def look(s: st.State) -> None:
        fields = (s.x, s.fun, s.lam, s.step, s.penalised, s.nfev, s.rows)
        shapes.add(tuple(len(np.asarray(field)) for field in fields))

    st.minimize(
        st.functions["booth"], np.array([[0.0, 0.0], [1.0, 2.9]]), method="gd", step=0.05, callback=look
    )
    assert shapes == {(2,) * 7, (1,) * 7}
