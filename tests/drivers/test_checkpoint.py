"""A run that was cut and resumed is the run that was not."""

import contextlib
import io
import json
import math
import os
import sqlite3
import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as some
from scipy.sparse.linalg import aslinearoperator

import steepen as st
from steepen import schedules, steps

from ..calls import At, raising, same
from ..objectives import METHODS
from ..pairs import pairs
from ..test_scale import bend
from ..test_scale import plain as f
from ..test_scale import slope as g

ONE = np.array([-1.2, 1.0])
MANY = np.array([[-1.2, 1.0], [0.98, 0.97], [1.0, 1.0], [2.0, -1.0]])  # one ends at once, one early
STARTS = {"one": ONE, "many": MANY}
QUICK = hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def bent(x):
    """A saddle at 0."""
    return -x[0] * x[0] + x[1] * x[1] + x[0] ** 4


def bent_slope(x):
    return np.array([-2 * x[0] + 4 * x[0] ** 3, 2 * x[1]])


class CutError(Exception):
    """The user's own error."""


def run(x0=ONE, iters=15, fun=f, **given_):
    options = {"jac": g, "method": "cgd-fd", "step": 0.004, "gtol": 1e-2} | given_
    if options["method"] == "cgd-fd":
        options.setdefault("b", 6)
    return st.minimize(fun, x0, budget=st.Budget(iters=iters), **options)


def resumed(folder, x0, cuts, **given_):
    whole = run(x0, **given_)
    for cut in cuts:
        path = folder / f"{cut}.db"
        run(x0, cut, checkpoint=path, **given_)
        same(run(x0, checkpoint=path, **given_), whole)
    return whole


@pairs(method=METHODS, step=(0.004, None), start=STARTS, trace=(True, "x", False), dtype=("f8", "f4"))
def test_cut_by_the_budget(tmp_path, method, step, start, trace, dtype):
    x0 = STARTS[start].astype(dtype)
    given_ = {"method": method, "step": step, "trace": trace}
    whole = resumed(tmp_path, x0, (0, 4), **given_)
    same(run(x0, checkpoint=tmp_path / "4.db", **given_), whole)  # one that is over, again


@QUICK
@given(
    j=some.integers(0, 60), what=some.sampled_from(["fun", "jac"]), method=some.sampled_from(METHODS),
    error=some.sampled_from([KeyboardInterrupt, CutError]), step=some.sampled_from([0.004, None]),
    start=some.sampled_from(list(STARTS)), trace=some.sampled_from([True, "x", False]),
)  # fmt: skip
def test_cut_by_an_interrupt_or_an_error(tmp_path, j, what, error, method, step, start, trace):
    path, x0 = tmp_path / "run.db", STARTS[start]
    path.unlink(missing_ok=True)
    given_ = {"method": method, "step": step, "trace": trace}
    broken = {"fun": f, "jac": g}
    broken[what] = At(broken[what], j, raising(error))
    with contextlib.suppress(CutError, KeyboardInterrupt):
        run(x0, checkpoint=path, **broken, **given_)
    same(run(x0, checkpoint=path, **given_), run(x0, **given_))


@pairs(source=("2-point", "3-point", "cs", True), step=(0.004, None), start=STARTS, dtype=("f8", "f4"))
def test_every_source_of_gradients(tmp_path, source, step, start, dtype):
    fun = (lambda x: (f(x), g(x))) if source is True else f
    resumed(tmp_path, STARTS[start].astype(dtype), (0, 3, 9), jac=source, step=step, method="cgd", fun=fun)


@pairs(method=("bfgs", "cgd-dfp"), cut=(5, KeyboardInterrupt))
def test_matrices_of_many_variables(tmp_path, method, cut):
    weights, x0, path = np.linspace(1.0, 30.0, 40), np.linspace(-1.0, 2.0, 40), tmp_path / "run.db"
    fun = lambda x: float((weights * np.cosh(x)).sum())  # noqa: E731
    given_ = {"jac": lambda x: weights * np.sinh(x), "method": method, "step": None, "gtol": 1e-9}
    whole = run(x0, 12, fun, **given_)
    if cut == 5:
        run(x0, 5, fun, checkpoint=path, **given_)
    else:  # in a search, after the matrix has learnt
        with pytest.raises(cut):
            run(x0, 12, At(fun, int(whole.trace.nfev[6]), raising(cut)), checkpoint=path, **given_)
    same(run(x0, 12, fun, checkpoint=path, **given_), whole)


SETTINGS = [
    {"lam": schedules.L(0.0, 0.002, T=15)},
    {"lam": schedules.Signed(0.001), "method": "cgd"},
    {"lam": schedules.Perturbed(0.001), "method": "cgd"},
    {"step": schedules.L(0.004, 0.001, T=15), "lam": lambda k: 0.001 / (k + 1)},
    {"penalty": st.penalties.L2(), "lam": 0.001},
    {"switch": st.switches.SmallImprovement(0.3), "method": "cgd", "lam": 0.001},
    {"switch": st.switches.GoodDrop(0.3), "method": "cgd", "lam": 0.001},
    {"ftol": 1e-3},
    {"xtol": 1e-2},
    {"step": None, "bounds": [(-1.5, 0.8), (-1.0, 2.0)]},
    {"step": None, "bounds": [(-1.5, 0.8), (-1.0, 2.0)], "method": "cgd-auto", "switch": None},
    {"gtol": 0.0, "gtol_rel": 0.068, "method": "gd", "switch": None},
]


@pytest.mark.parametrize("given_", SETTINGS)
def test_schedules_switches_tolerances_and_bounds(tmp_path, given_):
    resumed(tmp_path, MANY, (1, 6, 7), **({"b": None, "switch": st.switches.After(6)} | given_))


def test_a_budget_of_gradients_goes_on_too(tmp_path):
    go = partial(st.minimize, f, ONE, jac=g, method="cgd-fd", step=0.004, b=6, lam=0.01)
    for grads in (1, 2, 3, 12, 13, 14, 25):
        last = go(budget=st.Budget(grads=grads), checkpoint=tmp_path / "run.db")
        assert last.njev <= grads
    same(last, go(budget=st.Budget(grads=25)))


def test_seconds_add_up_and_are_limited_together(tmp_path, monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("time.perf_counter", lambda: clock.now)

    def slow(x):
        clock.now += 1.0
        return f(x)

    given_ = {"jac": g, "method": "gd", "step": 0.004, "checkpoint": tmp_path / "run.db"}
    assert st.minimize(slow, ONE, budget=st.Budget(iters=5), **given_).seconds == 6.0
    res = st.minimize(slow, ONE, budget=st.Budget(seconds=9.5), **given_)
    assert (res.seconds, res.nfev, res.status) == (10.0, 10, st.Status.MAX_SECONDS)  # six, and four more


def test_the_callback_is_not_called_again_for_steps_before_the_state_that_is_saved(tmp_path, monkeypatch):
    monkeypatch.setattr("steepen.drivers.checkpoint.PART", math.inf)  # at every iterate
    seen = []
    for iters in (5, 9):
        run(iters=iters, checkpoint=tmp_path / "run.db", callback=lambda s: seen.append(s.k))
    assert sorted(set(seen)) == list(range(1, 10))
    assert len(seen) <= 10  # the step into the point of the cut may be shown again


FULL = """
import resource, sys
import numpy as np, steepen as st

resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))
calls = []
def f(x):
    calls.append(x)
    return float(x @ x + (x**4).sum())
try:
    st.minimize(f, np.linspace(1, 2, 500), method="gd", step=1e-4, jac=lambda x: 2 * x + 4 * x**3, trace="x",
                checkpoint=sys.argv[1], budget=st.Budget(iters=80))
except Exception as error:
    assert "full" in str(error) or "I/O" in str(error), error
    assert error.partial_result.nit > 0 and error.partial_result.nfev == len(calls)
    print("cut")
"""


@pytest.mark.bits  # functions of another process are not moved
def test_a_disk_that_is_full_ends_the_run_and_loses_nothing(tmp_path):
    path = tmp_path / "run.db"
    code = [sys.executable, "-c", FULL, str(path)]
    assert subprocess.run(code, check=True, capture_output=True, text=True).stdout == "cut\n"

    def go(**more):
        return st.minimize(
            lambda x: float(x @ x + (x**4).sum()), np.linspace(1, 2, 500), method="gd", step=1e-4,
            jac=lambda x: 2 * x + 4 * x**3, trace="x", budget=st.Budget(iters=80), **more,
        )  # fmt: skip

    same(go(checkpoint=path), go())


def refused(path, *texts, **given_):
    """Hold that the file is refused in these words, before any evaluation, and left as it is."""
    before, calls = path.read_bytes(), []
    with pytest.raises(st.CheckpointError) as caught:
        run(checkpoint=path, **({"fun": lambda x: calls.append(x) or f(x)} | given_))
    message = str(caught.value)
    assert message.startswith("checkpoint: ")
    assert all(text in message for text in (str(path), *texts)), message
    assert path.read_bytes() == before
    assert not calls


DAMAGED = "truncated, damaged or edited"


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.setattr("steepen.drivers.checkpoint.PART", math.inf)  # at every iterate
    given_ = {"x0": MANY, "method": "bfgs", "trace": "x"}
    run(iters=6, checkpoint=tmp_path / "run.db", **given_)
    return tmp_path / "run.db", given_


def test_a_file_that_was_cut_off_or_damaged_is_refused_or_no_harm_was_done(written):
    """Bytes that nothing is stored in may change; all others are found out before anything is evaluated."""
    path, given_ = written
    data, whole = path.read_bytes(), run(**given_)
    for cut in (1, 4, 15, 16, 100, len(data) // 2):
        path.write_bytes(data[:cut])
        refused(path, DAMAGED, **given_)
    found = 0
    for place in np.random.default_rng(0).choice(len(data), 60, replace=False):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        try:
            same(run(checkpoint=path, **given_), whole)
        except st.CheckpointError as error:
            found += str(path) in str(error)
    assert found > 10


EDITS = {
    "a state": "UPDATE state SET content = zeroblob(length(content)) WHERE run = 1",
    "half a state": "UPDATE state SET content = substr(content, 1, 200) WHERE run = 1",
    "another's state": "UPDATE state SET content = (SELECT x FROM trace LIMIT 1) WHERE run = 0",
    "no header": "DELETE FROM header", "settings": "UPDATE header SET text = '{}' WHERE name = 'settings'",
    "no json": "UPDATE header SET text = 'x' WHERE name = 'settings'", "a table": "DROP TABLE answers",
    "an answer": "UPDATE answers SET answer = zeroblob(30)",
    "the trace": "UPDATE trace SET entry = zeroblob(3) WHERE k = 1",
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_file_is_refused(written, edit):
    path, given_ = written
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute(EDITS[edit])
        database.commit()
    refused(path, **given_)


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


FOREIGN = {
    "csv": b"k,f\n0,1.0\n", "pickle": b"\x80\x04K\x01.", "half of npy": b"\x93NUMPY",
    "an older checkpoint": npz(header=np.array("{}")), "half a header": b"SQLite format 3\x00",
}  # fmt: skip


def test_a_foreign_file_and_one_of_another_format_are_refused(tmp_path):
    path = tmp_path / "foreign.db"
    for data in FOREIGN.values():
        path.write_bytes(data)
        refused(path, "is not a steepen checkpoint")
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE mine (a)")
        database.commit()
    refused(path, "is not a steepen checkpoint")
    path.unlink()
    run(iters=3, checkpoint=path)
    with contextlib.closing(sqlite3.connect(path)) as database:
        for name, value in (("steepen", 9), ("version", "0.7.3")):
            database.execute("UPDATE header SET text = ? WHERE name = ?", (json.dumps(value), name))
        database.commit()
    refused(path, "was written by steepen 0.7.3, in format 9; this version reads format")


CHANGES = [
    ({"method": "cgd", "b": None, "switch": None}, "method"), ({"x0": [-1.2, 1.0 + 1e-15]}, "x0"),
    ({"x0": ONE.astype(np.float32)}, "x0"), ({"x0": MANY}, "x0"), ({"step": 0.005}, "step"),
    ({"step": None}, "step"), ({"step": steps.Armijo(c=0.1)}, "step"), ({"lam": 0.02}, "method"),
    ({"lam": schedules.Signed(0.01)}, "method"), ({"r": 0.1}, "method"),
    ({"penalty": st.penalties.L2()}, "method"), ({"b": 7}, "switch"),
    ({"b": None, "switch": st.switches.Never()}, "switch"), ({"trace": "x"}, "trace"),
    ({"bounds": [(-2, 2), (None, None)]}, "bounds"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "name"), CHANGES)
def test_the_checkpoint_of_another_run_is_refused(tmp_path, change, name):
    path = tmp_path / "run.db"
    base = {"lam": 0.01, "method": "cgd-fd", "b": 6}
    run(iters=5, checkpoint=path, **base)
    refused(path, f"belongs to another run: {name} is", "there", "here", **(base | change))
    same(run(checkpoint=path, **base), run(**base))


@pytest.mark.parametrize(("name", "method", "size"), [("step", "gd", 4), ("lam", "cgd", 1200)])
def test_one_value_a_row_is_compared_in_full(tmp_path, name, method, size):
    """The text of an array is rounded, and shortened where it is long: it is not enough."""
    path, values, x0 = tmp_path / "run.db", np.full(size, 0.001), np.resize(MANY, (size, 2))
    run(x0, 0, method=method, **{name: values}, checkpoint=path)
    values[size // 2] *= 1 + 1e-10
    refused(path, "belongs to another run", x0=x0, method=method, **{name: values})


def test_a_place_that_cannot_be_written_to_is_said_before_any_evaluation(tmp_path):
    calls = []
    for where in ("missing/run.db", "."):
        with pytest.raises((OSError, ValueError), match=r"checkpoint"):
            run(fun=lambda x: calls.append(x) or f(x), checkpoint=tmp_path / where)
    assert not calls


def test_any_name_will_do_and_bad_input_leaves_no_file(tmp_path):
    path = tmp_path / "run of mine"
    with pytest.raises(ValueError, match=r"step: expected"):
        run(step=-1.0, checkpoint=path)
    assert not path.exists()
    run(iters=4, checkpoint=str(path))
    assert [p.name for p in tmp_path.iterdir()] == ["run of mine"]
    same(run(checkpoint=path), run())


def test_what_is_written_takes_a_small_part_of_the_time_and_the_file_does_not_grow(tmp_path, monkeypatch):
    path, sizes = tmp_path / "run.db", []
    given_ = {"iters": 400, "method": "gd", "step": 1e-5, "checkpoint": path, "trace": False}
    monkeypatch.setattr("steepen.drivers.checkpoint.PART", math.inf)  # at every iterate
    run(callback=lambda s: sizes.append(path.stat().st_size), **given_)
    assert len(sizes) == 400
    assert max(sizes) <= 2 * sizes[0]


def test_a_batch_goes_on_under_other_limits(tmp_path):
    starts, fun = MANY[[0, 1, 3]], st.functions["rosenbrock"]

    def go(evals, iters, **given_):
        return st.minimize(fun, starts, budget=st.Budget(evals=evals, iters=iters), trace="x", **given_)

    whole = go(400, 100)
    for i, first in enumerate(((8, 100), (400, 8), (23, 12), (1, 1))):
        path = tmp_path / f"{i}.db"
        cut = go(*first, checkpoint=path)
        assert (cut.nfev <= first[0]).all()
        same(go(400, 100, checkpoint=path), whole)


def test_a_schedule_of_the_same_name_with_other_code_is_refused(tmp_path):
    run(iters=3, lam=lambda k: 0.01, checkpoint=tmp_path / "run.db")
    refused(tmp_path / "run.db", "method is CGD", lam=lambda k: 0.5)


def test_a_step_that_closes_over_another_number_is_refused(tmp_path):
    def constant(c, scale=1.0):
        return lambda k, scale=scale: c * scale

    run(iters=3, step=constant(0.01), checkpoint=tmp_path / "run.db")
    for step in (constant(0.03), constant(0.01, scale=2.0)):
        refused(tmp_path / "run.db", "step is ", step=step)
    run(iters=3, step=partial(power, base=0.9), checkpoint=tmp_path / "partial.db")
    refused(tmp_path / "partial.db", "step is ", step=partial(power, base=0.8))


def power(k, base):
    return 0.01 * base**k


def test_another_scale_of_x_is_another_run(tmp_path):
    at_zero = {"x0": np.zeros(2), "step": 0.001}
    run(iters=3, x_scale=1.0, checkpoint=tmp_path / "run.db", **at_zero)
    refused(tmp_path / "run.db", "x_scale is ", x_scale=64.0, **at_zero)


def test_a_function_is_known_again_in_another_process(tmp_path):
    """The order of a set of words follows the seed of their hashes."""
    code = (
        "import steepen as st\n"
        "step = lambda k: 0.01 if k in {5, 'a', 'b', 'c', 'd'} else 0.02\n"
        f"given = dict(method='gd', step=step, checkpoint={str(tmp_path / 'run.db')!r})\n"
        "st.minimize(st.functions['booth'], [0.0, 0.0], budget=st.Budget(iters=3), **given)\n"
    )
    for seed in "12":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("method", ["bfgs", "cgd-fd", "cgd-auto"])
def test_a_run_pauses_and_resumes_with_a_larger_budget(tmp_path, method, start):
    fun, path = st.functions["rosenbrock"].at(n=2), tmp_path / "run.db"

    def go(iters, **more):
        more |= {"b": 2} if method == "cgd-fd" else {}
        return st.minimize(fun, STARTS[start], method=method, budget=st.Budget(iters=iters), **more)

    if start == "one":  # rows that a callback has ended are not begun again
        go(60, callback=lambda s: s.k == 10, checkpoint=path)
        same(go(60, checkpoint=path), go(60))
        path.unlink()
    go(10, checkpoint=path)
    go(30, checkpoint=path)
    same(go(60, checkpoint=path), go(60))


def test_another_b_is_another_run(tmp_path):
    for i, (first, then) in enumerate((({}, {"b": 15}), ({"b": 3}, {}), ({}, {}))):
        go = partial(st.minimize, f, ONE, method="cgd-fd", checkpoint=tmp_path / f"{i}.db")
        go(budget=st.Budget(iters=10), **first)
        with pytest.raises(st.CheckpointError, match="switch"):
            go(budget=st.Budget(iters=60), **then)


def test_a_batch_of_a_function_whose_rounding_hangs_on_the_batch_is_resumed_up_to_rounding(tmp_path):
    """BLAS sums the rows of a product as their number says; the first square batch is sent in two parts."""
    rng, n = np.random.default_rng(0), 8
    half, b, x0 = rng.standard_normal((n, n)), rng.standard_normal(n), rng.standard_normal((n, n))
    matrix = half @ half.T / n + 0.1 * np.eye(n)
    asked = []

    def slope(x):
        asked.append(len(x))
        return x @ matrix - b + 4 * x**3

    def go(iters, **more):
        fun = lambda x: 0.5 * ((x @ matrix) * x).sum(-1) - x @ b + (x**4).sum(-1)  # noqa: E731
        product = lambda x, v: v @ matrix + 12 * x**2 * v  # noqa: E731  a difference would magnify the last bits
        budget = st.Budget(iters=iters)
        return st.minimize(fun, x0, jac=slope, hvp=product, method="cgd", budget=budget, **more)

    whole = go(9)
    assert asked[:2] == [7, 1]
    go(4, checkpoint=tmp_path / "run.db")
    res = go(9, checkpoint=tmp_path / "run.db")
    np.testing.assert_allclose(res.x, whole.x, rtol=1e-9)
    assert sum(asked) == whole.njev.sum() + res.njev.sum()


def test_a_hessian_at_hand_is_not_evaluated_again(tmp_path):
    """An operator cannot be written to a file: it is asked for again, and not counted again."""
    rosen = st.functions["rosenbrock"].at(2)
    given = {"fun": lambda x: rosen(x), "x0": ONE, "jac": rosen.grad, "method": "cgd"}
    for hess in (rosen.hess, lambda x: aslinearoperator(rosen.hess(x))):
        go = partial(st.minimize, hess=hess, **given)
        for cut in range(1, 12):
            path = tmp_path / f"{hess == rosen.hess}{cut}.db"
            go(budget=st.Budget(iters=cut), checkpoint=path)
            rest, whole = go(budget=st.Budget(iters=40), checkpoint=path), go(budget=st.Budget(iters=40))
            same(rest, whole)


class Killed(BaseException):
    """Not an error that anybody would catch."""


KILLED = {
    "gd": {"method": "gd", "jac": g, "step": 0.002},
    "cgd-auto": {"method": "cgd-auto", "jac": g},
    "cgd-fd": {"method": "cgd-fd", "jac": g, "b": 3},
    "dfp": {"method": "dfp", "jac": g, "bounds": [(-1.1, 0.7), (-1, 2)]},
    "2-point": {"method": "cgd-auto", "jac": "2-point"},
    "3-point": {"method": "bfgs", "jac": "3-point"},
    "cs": {"method": "cgd-bfgs", "jac": "cs"},
    "both": {"method": "cgd-dfp", "jac": True},
    "both, armijo": {"method": "gd", "jac": True, "step": None},
    "hess": {"method": "newton", "jac": g, "hess": bend},
    "hvp": {"method": "cgd", "jac": g, "hvp": lambda x, v: bend(x) @ v},
    "check": {"jac": g, "check_gradient": True},
    "saddle": {"jac": g, "fun": bent, "jac_of_bent": True, "x0": np.zeros(2)},
}


class Counted:
    """A function whose calls are counted with those of others; the j-th of all ends everything."""

    def __init__(self, function, calls, j):
        self._function, self._calls, self._j = function, calls, j

    def __call__(self, *arrays):
        if len(self._calls) == self._j:
            raise Killed
        self._calls.append(b"".join(a.tobytes() for a in arrays))
        return self._function(*arrays)


def counted_run(name, path, j, start=None, trace="x"):
    """Make a run whose j-th call raises; return the result, if any, and the calls that were answered."""
    given_ = dict(KILLED[name])
    x0 = given_.pop("x0", ONE) if start is None else start
    fun = given_.pop("fun", f)
    if given_.pop("jac_of_bent", False):
        given_["jac"] = bent_slope
    if given_["jac"] is True:
        fun = lambda x: (f(x), g(x))  # noqa: E731
    calls = []
    wrapped = {"fun": Counted(fun, calls, j)} | {
        name: Counted(given_[name], calls, j) for name in ("jac", "hvp", "hess") if callable(given_.get(name))
    }
    given_ |= {"gtol": 1e-6, "budget": st.Budget(iters=7), "trace": trace, "checkpoint": path} | wrapped
    try:
        return st.minimize(given_.pop("fun"), x0, **given_), calls
    except Killed as killed:
        assert st.Status.FAILED in np.atleast_1d(killed.partial_result.status)  # noqa: PT017
        return None, calls


@pytest.mark.parametrize("name", KILLED)
def test_killed_at_any_evaluation_a_run_goes_on_without_evaluating_anything_twice(tmp_path, name):
    whole, calls = counted_run(name, None, math.inf)
    for j in range(len(calls)):
        path = tmp_path / f"{j}.db"
        cut, before = counted_run(name, path, j)
        assert cut is None
        res, after = counted_run(name, path, math.inf)
        assert before + after == calls
        same(res, whole)
        again, none = counted_run(name, path, 0)  # it has ended
        assert none == []
        same(again, whole)


@pytest.mark.parametrize("name", ["cgd-auto", "2-point", "both, armijo"])
def test_killed_again_and_again_a_run_goes_on(tmp_path, name):
    whole, calls = counted_run(name, None, math.inf)
    made, res = [], None
    for _ in range(len(calls)):
        res, more = counted_run(name, tmp_path / "run.db", 3)
        made += more
        if res is not None:
            break
    assert made == calls
    same(res, whole)


@pytest.mark.parametrize("name", ["gd", "cgd-auto", "2-point", "cs", "both", "check"])
def test_killed_at_any_call_a_batch_goes_on_without_evaluating_any_point_twice(tmp_path, name):
    """A call is answered for all its rows, or for none."""
    start = MANY[[0, 1, 3]]
    whole, calls = counted_run(name, None, math.inf, start)
    for j in range(len(calls)):
        path = tmp_path / f"{j}.db"
        _, before = counted_run(name, path, j, start)
        res, after = counted_run(name, path, math.inf, start)
        same(res, whole)
        assert sum(map(len, before + after)) == sum(map(len, calls))
        assert sorted(b"".join(before + after)) == sorted(b"".join(calls))


class Several(st.Method):
    """A method of the user's, with settings in a tuple, and memory of all kinds."""

    def __init__(self, memory):
        self.rules, self.memory, self.seen = (np.sin, abs), memory, []

    def begin(self, problem, here):
        self.seen = [here.f]

    name = "several"

    def direction(self, problem, here):
        self.seen.append({"f": (here.f, here.g.copy())})
        return -(1.0 + abs(self.rules[0](len(self.seen)))) * here.g


def test_a_method_of_the_users_goes_on_with_its_settings_and_its_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("steepen.drivers.checkpoint.PART", math.inf)  # at every iterate
    memory = {"F": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "none": None, "empty": np.zeros((0, 2))}
    resumed(tmp_path, ONE, (3, 9), method=Several(memory), step=0.001)
    for wrong in ({1, 2}, b"bytes", np.array([None, 1])):
        with pytest.raises(st.CheckpointError, match=r"^checkpoint: a field of the method or step is a "):
            run(method=Several(wrong), step=0.001, checkpoint=tmp_path / "wrong.db")
        (tmp_path / "wrong.db").unlink()


SUDDEN = """
import os, signal, sys
import numpy as np, steepen as st

def f(x):
    with open(sys.argv[2], "a") as file:
        print(x.tobytes().hex(), file=file)
    if len(open(sys.argv[2]).readlines()) == int(sys.argv[3]):
        os._exit(7) if sys.argv[4] == "exit" else os.kill(os.getpid(), signal.SIGKILL)
    return float(100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2)

res = st.minimize(f, [-1.2, 1.0], checkpoint=sys.argv[1], budget=st.Budget(iters=9))
print(res.nfev, res.njev, res.nit, res.x.tobytes().hex())
"""


def sudden(x):
    return float(100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2)


@pytest.mark.bits  # functions of another process are not moved
@pytest.mark.parametrize("how", ["exit", "kill"])
def test_a_process_that_is_killed_loses_one_evaluation_at_most(tmp_path, how):
    """The one that was under way: its answer never came."""

    def go(name, at):
        log = tmp_path / f"{name}.txt"
        code = [sys.executable, "-c", SUDDEN, str(tmp_path / f"{name}.db"), str(log), str(at), how]
        ran = subprocess.run(code, capture_output=True, text=True, check=False)
        return ran.returncode, ran.stdout, log.read_text().split()

    calls = []
    res = st.minimize(lambda x: calls.append(x.tobytes().hex()) or sudden(x), ONE, budget=st.Budget(iters=9))
    expected = f"{res.nfev} {res.njev} {res.nit} {res.x.tobytes().hex()}\n"
    for at in (1, len(calls) // 2) if how == "exit" else (7, len(calls)):
        code, said, made = go(str(at), at)
        assert code == (7 if how == "exit" else -9)
        assert (said, made) == ("", calls[:at])
        code, said, made = go(str(at), -1)
        assert (code, said) == (0, expected)
        assert made == calls[:at] + calls[at - 1 :]
