"""What goes wrong during a run is a status, never a lost run."""

import itertools
import math
import signal

import numpy as np
import pytest
from benchmarks.problems import problems

import steepen as st
from steepen import Status, schedules, steps

from ..calls import At, raising
from ..objectives import METHODS
from ..pairs import pairs
from ..rounding import seen
from .test_workers import Breaking

Q = np.array([1.0, 4.0])
BAD = (math.nan, math.inf, -math.inf)
ROWS = [[1.0, -2.0], [0.0, 1e-9], [3.0, 1.0]]
SQUARE = ROWS[::2]
"""As many rows as variables: the first batch is sent in two parts."""


def f(x):
    return (Q * x * x).sum(axis=-1) / 2


def g(x):
    return Q * x


def hess(x):
    return np.broadcast_to(np.diag(Q), (*x.shape, 2)).copy()


def run(fun=f, x0=(1.0, -2.0), **given_):
    base = {"jac": g, "method": "gd", "step": 0.1, "budget": st.Budget(iters=20), "gtol": 0.0}
    return st.minimize(fun, np.array(x0), **(base | given_))


@pairs(bad=BAD, method=METHODS, k=(0, 1, 4))
def test_f_turning_bad_ends_the_run_at_the_best_point(bad, method, k):
    given_ = {"method": method, "trace": "x", "jac": lambda x: 0.1 * g(x), "step": 0.05}
    whole = run(lambda x: float(f(x)), **given_)
    result = run(At(lambda x: float(f(x)), k, lambda x: bad), **given_)
    assert result.status is (Status.UNBOUNDED if bad == -math.inf else Status.NONFINITE_VALUE)
    assert (result.success, result.nit, len(result.trace)) == (False, k, k + 1)
    assert result.trace.f[:k].tolist() == whole.trace.f[:k].tolist()
    assert result.trace.x.tolist() == whole.trace.x[: k + 1].tolist()
    assert str(result.trace.f[-1]) == str(bad)
    if k == 0:
        assert result.best.x is None
        assert (str(result.fun), result.x.tolist()) == (str(bad), [1.0, -2.0])
        assert np.isnan(result.jac).all()
    else:
        best = int(whole.trace.f[:k].argmin())
        assert result.best.k == best
        assert result.x.tolist() == result.best.x.tolist() == whole.trace.x[best].tolist()
        assert result.fun == result.best.fun == seen(f)(result.x)


@pairs(bad=BAD, method=("gd", "bfgs", "cgd-bfgs"), k=(0, 1, 4))
def test_a_gradient_turning_bad_ends_the_run_at_the_best_point(bad, method, k):
    result = run(jac=At(g, k, lambda x: np.array([1.0, bad])), method=method, step=0.05)
    assert result.status is Status.NONFINITE_GRADIENT
    assert (result.nit, len(result.trace)) == (k, k + 1)
    assert np.isfinite(result.trace.f).all()
    assert not math.isfinite(result.trace.gnorm[-1])
    assert result.fun == result.trace.f.min() == seen(f)(result.x)
    assert np.isnan(result.jac).all()


def test_the_last_point_is_the_answer_when_nothing_was_bad():
    result = run(step=0.55, budget=st.Budget(iters=3))  # climbs along the second axis
    assert result.status is Status.MAX_ITERATIONS
    assert result.fun == result.trace.f[-1] > result.best.fun


@pytest.mark.parametrize("bad", BAD)
def test_where_a_probe_turns_bad_the_guard_takes_over(bad):
    jac = lambda x: g(x) if x[0] <= 1.0 else np.full(2, bad)  # noqa: E731
    with np.errstate(invalid="ignore"):
        result = run(jac=jac, method="cgd-fd", lam=0.1, r=0.5, x0=[1.0, -0.1], b=None if bad > 0 else 10)
    assert result.trace.guarded.tolist() == [True] + [False] * 20
    assert result.trace.lam[0] == 0.0
    assert not result.trace.penalised.any()
    assert result.x.tolist() == run(x0=[1.0, -0.1]).x.tolist()
    assert result.status is Status.MAX_ITERATIONS


class OurError(Exception):
    """An error that only the user knows."""


@pairs(
    method=METHODS, step=(0.05, None), what=("fun", "jac", "hvp", "hess", "callback"), j=(0, 1, 5),
    error=(OurError, KeyboardInterrupt),
)  # fmt: skip
def test_an_exception_brings_the_partial_result(method, step, what, j, error):
    quartic = lambda x: float((Q * x**4).sum() / 4)  # noqa: E731
    given_ = {"fun": quartic, "jac": lambda x: Q * x**3, "callback": lambda s: None}
    given_["hess"] = lambda x: np.diag(3 * Q * x**2)
    if what == "hvp":
        given_["hvp"] = lambda x, v: 3 * Q * x**2 * v
    raised = error("mine")
    given_[what] = At(given_[what], j, raising(raised))
    try:
        result = run(method=method, step=step, budget=st.Budget(iters=12), trace="x", **given_)
    except (OurError, KeyboardInterrupt) as caught:
        assert caught is raised  # noqa: PT017
        assert "partial_result" in "".join(raised.__notes__)
        result = raised.partial_result
    if given_[what].calls <= j:  # not every method calls every function so often
        assert what in ("hvp", "hess")
        return
    assert result.status is (Status.FAILED if error is OurError else Status.INTERRUPTED)
    assert (result.success, result.method) == (False, method)
    counted = {"fun": result.nfev, "jac": result.njev, "hess": result.nhev, "hvp": result.nhvp}
    assert counted.get(what, j + 1) == given_[what].calls
    trace = result.trace
    assert len(trace) == len(trace.x) == (result.nit + 1 if result.nfev > (what == "fun") else 0)
    if len(trace):
        assert (result.fun, result.x.tolist()) == (trace.f[-1], trace.x[-1].tolist())
        assert result.fun == seen(quartic)(result.x)
        assert result.best.fun == trace.f.min()
        assert np.isnan(trace.step[-1])
        assert np.isfinite(trace.step[:-1]).all()
    else:
        assert result.best.x is None
        assert math.isnan(result.fun)


@pairs(what=("fun", "jac", "callback"), trace=(True, "x", False), error=(OurError, KeyboardInterrupt))
def test_an_exception_in_a_batch_ends_the_rows_that_are_left(what, trace, error):
    given_ = {"fun": f, "jac": g, "callback": lambda s: None}
    given_[what] = At(given_[what], 6, raising(error()))
    try:
        result = run(x0=ROWS, trace=trace, gtol=1e-6, **given_)
    except (OurError, KeyboardInterrupt) as caught:
        result = caught.partial_result
    end = Status.FAILED if error is OurError else Status.INTERRUPTED
    assert result.status.tolist() == [end, Status.CONVERGED, end]
    np.testing.assert_array_equal(seen(f)(result.x), result.fun)
    assert result.nfev.tolist() == [7 + (what == "callback"), 1, 7 + (what == "callback")]
    for row in (result.row(b) for b in range(3) if trace):
        assert len(row.trace) == row.nit + 1
        assert np.isfinite(row.trace.f).all()


@pairs(rows=(None, 3), j=range(30, 52, 3), error=(OurError, KeyboardInterrupt))
def test_an_exception_while_a_success_is_confirmed(rows, j, error):
    """The gradient is made of float32 values, so last differences tell its error: 42 values in all."""

    def fun(x):
        return np.float32(((x - 1) ** 2).sum(axis=-1) + 3).astype(np.float32)

    x0 = np.array([4.0, -2.0, 1.0])
    given_ = {"jac": None, "method": "bfgs", "step": None, "gtol": 1e-5, "budget": None}
    start = x0 if rows is None else x0 + np.arange(rows)[:, None]
    counted = At(fun, j, raising(error()))
    try:
        result = run(counted, start, **given_)
    except error as caught:
        result = caught.partial_result
    assert result.x.shape == start.shape
    ended = set(np.atleast_1d(result.status).tolist())
    end = Status.FAILED if error is OurError else Status.INTERRUPTED
    assert end in ended or counted.calls <= j, ended


def test_the_first_ctrl_c_waits_for_the_iteration_and_the_second_does_not(caplog):
    def press(times):
        pressing = lambda x: [signal.raise_signal(signal.SIGINT) for _ in range(times)] and f(x)  # noqa: E731
        result = run(At(f, 3, pressing))
        return result.status, result.nit, result.njev

    assert press(1) == (Status.INTERRUPTED, 3, 4)  # the fourth step is not made
    assert press(2) == (Status.INTERRUPTED, 2, 3)
    assert "press Ctrl-C again to stop" in caplog.text
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("method", METHODS)
def test_the_callback_sees_every_step_once(method):
    states = []
    result = run(method=method, callback=states.append, trace="x", budget=st.Budget(iters=6), step=0.05)
    trace = result.trace
    assert [s.k for s in states] == list(range(1, result.nit + 1))
    for s in states:
        assert (s.x.tolist(), s.fun, s.rows) == (trace.x[s.k].tolist(), trace.f[s.k], None)
        for name in ("lam", "step", "penalised", "guarded"):
            assert getattr(s, name) == getattr(trace, name)[s.k - 1]
        # of the trace, what was before anything was evaluated at x_k; of the state, ∇f there, too
        assert (s.nfev, s.nhvp, s.njev) == (trace.nfev[s.k] + 1, trace.nhvp[s.k], trace.njev[s.k] + 1)
    assert [s.seconds for s in states] == sorted(s.seconds for s in states)


def test_the_callback_of_a_batch_is_told_the_rows_that_have_made_a_step():
    """With a search, rows do not wait for one another: what each is told is what it is told alone."""
    for step in (0.1, None):
        states, given_ = [], {"gtol": 1e-6, "step": step, "method": "gd"}
        result = run(x0=ROWS, callback=states.append, **given_)
        told = {row: [] for row in range(3)}
        for s in states:
            parts = (s.k, s.x, s.fun, s.lam, s.step, s.penalised, s.guarded, s.nfev, s.njev, s.nhvp)
            assert {len(value) for value in parts} == {len(s.rows)}
            for i, row in enumerate(s.rows.tolist()):
                told[row].append([np.asarray(part[i]).tolist() for part in parts])
        for row, x0 in enumerate(ROWS):
            alone = []
            run(x0=x0, callback=alone.append, **given_)
            names = ("k", "x", "fun", "lam", "step", "penalised", "guarded", "nfev", "njev", "nhvp")
            assert told[row] == [[np.asarray(getattr(s, name)).tolist() for name in names] for s in alone]
            assert len(told[row]) == result.nit[row]


@pairs(
    how=(lambda s: True, lambda s: np.True_, lambda s: np.array(True), raising(StopIteration())),
    x0=(ROWS[0], ROWS[::2]),
)
def test_the_callback_can_stop_the_run(how, x0):
    result = run(x0=x0, callback=lambda s: how(s) if np.all(s.k == 3) else None)
    assert np.atleast_1d(result.status).tolist() == [Status.CALLBACK] * np.ndim(x0)
    assert np.atleast_1d(result.nit).tolist() == [3] * np.ndim(x0)
    assert not np.any(result.success)
    assert len(result.trace) == 4
    assert np.array_equal(result.jac, seen(g, "jac")(result.x))


def test_a_callback_does_not_change_how_a_run_has_ended_by_itself():
    """It is told the last iterate, too."""
    for x0 in (ROWS[0], ROWS[::2]):
        told = []
        result = run(x0=x0, gtol=1e-3, budget=None, callback=lambda s, t=told: t.append(s.k) or s.fun < 1e-7)
        assert np.all(result.status == Status.CONVERGED)
        assert np.max(told[-1]) == np.max(result.nit)


def test_a_callback_ends_rows_of_a_batch():
    given_ = {"x0": np.array([[0.0, 0.0], [5.0, 5.0], [1.0, 2.9]]), "method": "gd", "step": 0.05}
    res = st.minimize(st.functions["booth"], callback=lambda s: s.fun < 1.0, **given_)
    assert (res.status == Status.CALLBACK).all()
    assert (res.fun < 1.0).all()
    assert len(set(res.nit.tolist())) > 1
    listed = st.minimize(st.functions["booth"], callback=lambda s: [True] * len(s.rows), **given_)
    assert listed.nit.tolist() == [1, 1, 1]
    for answer in (lambda s: s.fun, lambda s: [True]):
        with pytest.raises(TypeError, match=r"callback: expected one bool per row"):
            st.minimize(st.functions["booth"], callback=answer, **given_)


def spoil(state):
    for name in ("x", "fun", "lam", "step", "penalised", "guarded", "nfev", "njev", "nhvp", "rows"):
        value = getattr(state, name)
        if isinstance(value, np.ndarray) and value.flags.writeable:
            value[...] = 7


def reusing(buffer, function):
    """Answer in one buffer, and leave rubbish where the point was."""

    def call(x):
        out = buffer[: len(x)] if x.ndim == 2 else buffer
        out[...] = function(x)
        x[...] = math.nan
        return out

    return call


@pairs(method=METHODS, step=(0.05, None), x0=(ROWS[0], ROWS, SQUARE))
def test_nothing_the_user_changes_in_place_disturbs_the_run(method, step, x0):
    shape, start = np.shape(x0), np.array(x0)
    given_ = {"method": method, "step": step, "gtol": 1e-6, "trace": "x", "budget": st.Budget(iters=20)}
    clean = run(x0=x0, hess=hess, **given_)
    parts = {"jac": reusing(np.empty(shape), g), "hess": reusing(np.empty((*shape, 2)), hess)}
    dirty = st.minimize(reusing(np.empty(shape[:-1]), f), start, callback=spoil, **parts, **given_)
    for (name, a), (_, b) in zip(clean.trace.columns(), dirty.trace.columns(), strict=True):
        np.testing.assert_array_equal(a, b, err_msg=name)
    np.testing.assert_array_equal(clean.x, dirty.x)
    np.testing.assert_array_equal(clean.jac, dirty.jac)
    dirty.x[...] = 9.0
    assert start.tolist() == x0


TOLERANCES = [({"tol": 1e-3}, "f8", 1e-3), ({"gtol": 1e-3}, "f8", 1e-3), ({}, "f8", 1e-5), ({}, "f4", 1e-3)]


@pytest.mark.parametrize(("given_", "dtype", "gtol"), TOLERANCES)
def test_gtol_its_other_name_and_its_default(given_, dtype, gtol):
    x0 = np.array([1.0, -2.0], dtype=dtype)
    result = st.minimize(f, x0, jac=lambda x: x * Q.astype(x.dtype), method="gd", step=0.1, **given_)
    assert (result.status, result.success) == (Status.CONVERGED, True)
    assert result.trace.gnorm[-1] <= gtol < result.trace.gnorm[-2]


@pytest.mark.bits  # it is about values that are equal to the last bit
def test_a_gradient_of_exactly_gtol_has_converged():
    assert run(x0=[0.0, 0.0]).status is Status.CONVERGED
    assert run(x0=[3.0, 1.0], gtol=5.0).nit == 0  # ‖(3, 4)‖
    assert run(x0=[3.0, 1.0], gtol=np.nextafter(5.0, 0)).nit > 0


def test_gtol_rel_is_relative_to_the_largest_gradient_of_the_run():
    """log(1 + x²) is steepest at 1: from 10 the gradient grows first."""
    given_ = {"jac": lambda x: 2 * x / (1 + x @ x), "gtol_rel": 0.15, "budget": st.Budget(iters=500)}
    result = run(lambda x: float(np.log1p(x @ x)), [10.0], step=1.0, **given_)
    norms = result.trace.gnorm
    assert result.status is Status.RELATIVE
    assert norms.max() > 3 * norms[0]
    assert norms[-1] <= 0.15 * norms.max() < norms[:-1][norms[:-1].argmax() :].min()


@pytest.mark.parametrize("lift", [0.0, 1e6])
def test_ftol_is_relative_to_a_large_f(lift):
    result = run(lambda x: float(f(x)) + lift, ftol=1e-4 if lift == 0 else 1e-8, budget=None)
    assert (result.status, result.success) == (Status.FTOL, True)
    falls, least = -np.diff(result.trace.f), 1e-4 if lift == 0 else 1e-2
    assert falls[-1] <= least < falls[:-1].min()


@pytest.mark.bits  # it is about values that are equal to the last bit
def test_ftol_takes_no_climb_for_convergence_but_no_change_at_all():
    result = run(ftol=1e-3, step=0.55)
    assert (np.diff(result.trace.f) > 0).any()
    assert result.status is Status.MAX_ITERATIONS
    level = run(lambda x: 3.0, ftol=1e-300)
    assert (level.status, level.nit) == (Status.FTOL, 1)


@pytest.mark.parametrize("lift", [0.0, 1e3])
def test_xtol_is_relative_to_a_large_x(lift):
    given_ = {"jac": lambda x: g(x - lift), "xtol": 1e-3 if lift == 0 else 1e-5, "budget": None}
    result = run(lambda x: float(f(x - lift)), np.array([1.0, -2.0]) + lift, trace="x", **given_)
    assert (result.status, result.success) == (Status.XTOL, True)
    moves = np.linalg.norm(np.diff(result.trace.x, axis=0), axis=1)
    least = 1e-3 if lift == 0 else 1e-5 * np.linalg.norm(result.x)
    assert moves[-1] <= least < moves[:-1].min()


@pytest.mark.parametrize("tolerance", ["ftol", "xtol", "gtol_rel"])
def test_the_tolerances_end_each_row_as_they_end_it_alone(tolerance):
    result = run(x0=ROWS[::2], **{tolerance: 1e-3}, budget=None)
    for b, start in enumerate(ROWS[::2]):
        assert result.nit[b] == run(lambda x: float(f(x)), start, **{tolerance: 1e-3}, budget=None).nit


@pytest.mark.parametrize("method", METHODS)
def test_a_kink_is_no_descent(method):
    kink = {"x0": [0.0], "jac": lambda x: np.ones(1), "hess": lambda x: np.eye(1), "step": None}
    result = run(lambda x: abs(float(x[0])), method=method, **kink)
    assert (result.status, result.success, result.fun) == (Status.LINE_SEARCH_FAILED, False, 0.0)
    assert result.nit == 0 or method == "cgd-auto"  # which looks elsewhere before it gives up
    assert len(result.trace) == result.nit + 1
    cut = run(lambda x: abs(float(x[0])), method=method, budget=st.Budget(evals=5), **kink)
    assert (cut.status, cut.nfev) == (Status.MAX_EVALUATIONS, 5)


CUBIC = {
    "fun": lambda x: (-x - x**3 / 6).sum(axis=-1), "x0": [0.0], "jac": lambda x: -1 - x**2 / 2,
    "hvp": lambda x, v: -x * v, "lam": 0.5, "step": 0.1, "method": "cgd",
}  # fmt: skip


def test_the_penalty_may_lead_to_an_artificial_point():
    """On f = −x − x³/6 with λ = ½ the factor 1 + 2λf'' = 1 − x vanishes at 1, where f' is −1.5."""
    result = run(budget=st.Budget(iters=150), **CUBIC)
    assert (result.status, result.success) == (Status.ARTIFICIAL, False)
    assert result.x[0] == pytest.approx(1.0, abs=1e-3)
    assert result.jac[0] == pytest.approx(-1.5, abs=1e-2)
    assert run(budget=st.Budget(iters=5), **CUBIC).status is Status.MAX_ITERATIONS
    rows = run(budget=st.Budget(iters=70), **(CUBIC | {"x0": [[0.0], [-5.0]], "step": [0.1, 0.01]}))
    assert rows.status.tolist() == [Status.ARTIFICIAL, Status.MAX_ITERATIONS]


def noisy(level):
    return {
        "fun": lambda x: float(1 + Q @ (x * x) + level * np.sin(1e9 * x).sum()), "x0": [0.3, -0.7],
        "jac": lambda x: 2 * Q * x + 100 * level * np.sin(2e9 * x), "gtol": 0.0,
    }  # fmt: skip


@pytest.mark.parametrize("level", [1e-12, 1e-10, 1e-8, 1e-7])
def test_noise_ends_a_run_as_a_success_near_the_minimum(level):
    result = st.minimize(**noisy(level))
    assert result.status in (Status.NOISE, Status.ROUNDOFF)
    assert Q @ (result.x * result.x) <= 50 * level
    assert result.nfev < 60


def test_noise_of_a_millionth_does_not_keep_a_gradient_from_its_tolerance():
    """Two values may differ by two millionths then, and two differences may be small by chance."""
    converged, counts = 0, {0.0: 0, 1e-6: 0}

    def value(x, level, rng):
        bend, rest = x[1:] - x[:-1] ** 2, 1 - x[:-1]
        return float(2 + 10 * bend @ bend + rest @ rest) * (1 + level * rng.uniform(-1, 1))

    def slope(x, *_):
        bend, rest = x[1:] - x[:-1] ** 2, 1 - x[:-1]
        return np.append(-40 * bend * x[:-1] - 2 * rest, 0) + np.append(0, 20 * bend)

    for level, seed in itertools.product(counts, range(12)):
        rng = np.random.default_rng(seed)
        result = st.minimize(value, rng.uniform(0, 2, 3), (level, rng), jac=slope)
        counts[level] += result.nfev + result.njev
        converged += result.status is Status.CONVERGED
    assert converged >= 23
    assert counts[1e-6] <= 1.3 * counts[0.0]


@pytest.mark.bits  # moved, values that are rounded are so no more
def test_every_status_is_reached_and_has_a_sentence():
    with pytest.raises(OurError) as caught:
        run(raising(OurError()))
    with pytest.raises(KeyboardInterrupt) as stopped:
        run(At(f, 2, raising(KeyboardInterrupt())))
    runs = [
        run(gtol=1e-3, budget=None),
        run(gtol=0, gtol_rel=1e-3, budget=None),
        run(ftol=1e-4, budget=None),
        run(xtol=1e-1, budget=None),
        *(run(budget=st.Budget(**{limit: 3})) for limit in ("iters", "grads", "evals")),
        run(budget=st.Budget(seconds=1e-9)),
        run(callback=lambda s: True),
        stopped.value.partial_result,
        run(lambda x: abs(float(x[0])), [0.0], jac=lambda x: np.ones(1), step=None),
        run(budget=st.Budget(iters=150), **CUBIC),
        st.minimize(problems["misra1a-2"], problems["misra1a-2"].x0, gtol=0),
        *(
            st.minimize(lambda x, p=problems[name]: float(p(x)), problems[name].x0)  # by CPU one or another
            for name in ("misra1a-1", "rat43-1")
        ),
        st.minimize(lambda x: float(f"{1 + ((x - 1) ** 2).sum():.5g}"), [3.0, 4.0]),
        st.minimize(**noisy(1e-7)),
        st.minimize(lambda x: np.float32(1 + ((x - 1) ** 2).sum()), [3.0, 4.0], method="gd"),
        run(lambda x: math.nan),
        run(lambda x: -math.inf),
        run(jac=lambda x: x * math.nan),
        run(lambda x: 0.0, jac=lambda x: 1e300 * x, step=1e10),
        caught.value.partial_result,
        st.Run([1.0, 2.0]).result(),
        st.minimize(lambda x: x @ x, [1.0, 2.0], workers=Breaking(0)),
    ]
    assert {r.status for r in runs} == set(Status) - {Status.INFEASIBLE}  # of traced bounds: tests/jax
    for r in runs:
        assert r.message.startswith(r.status.sentence.split(";")[0])
        assert r.best.x is not None or "best finite point" not in r.message
    sentences = {status.sentence for status in Status}
    assert len(sentences) == len(Status)
    assert all(s.endswith(".") and 15 < len(s) < 160 for s in sentences)
    good = "CONVERGED FTOL XTOL ROUNDOFF NOISE FD_LIMIT RELATIVE RESOLUTION"
    assert [s.name for s in Status if s.success] == good.split()


def test_nothing_is_printed(capfd):
    run()
    run(x0=np.ones((3, 2)))
    with pytest.raises(OurError):
        run(At(f, 3, raising(OurError())))
    assert capfd.readouterr() == ("", "")


def test_schedules_are_asked_once_a_step():
    asked = []
    run(method="cgd", lam=schedules.Custom(lambda k: asked.append(k) or 0.1), budget=st.Budget(iters=5))
    assert asked == [0, 1, 2, 3, 4]


def test_a_search_of_many_trials_is_no_standstill():
    """f is not a number until they are short."""
    well = lambda x: float((x[0] - 1 + 1e-6) ** 2 * 1e6) if x[0] > 1 - 1e-4 else math.nan  # noqa: E731
    rule = steps.Armijo(initial=2.0**20)
    result = run(well, [1.0], jac=lambda x: 2e6 * (x - 1 + 1e-6), step=rule, gtol=1e-9)
    assert (result.status, result.nfev) == (Status.CONVERGED, 15)
