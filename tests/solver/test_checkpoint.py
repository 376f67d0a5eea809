"""A run that was cut and resumed is the run that was not."""

import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import fields
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as some
from scipy.sparse.linalg import aslinearoperator

import steepen as st
from steepen import schedules, steps
from steepen._core.arrays import Array
from steepen._core.state import SolverState
from steepen.directions._direction import Proposal

from ..calls import At, raising, same
from ..objectives import METHODS
from ..pairs import pairs
from ..test_scale import plain as f
from ..test_scale import slope as g

ONE = np.array([-1.2, 1.0])
MANY = np.array([[-1.2, 1.0], [0.98, 0.97], [1.0, 1.0], [2.0, -1.0]])  # one ends at once, one early
STARTS = {"one": ONE, "many": MANY}
QUICK = hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


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
        path = folder / f"{cut}.npz"
        run(x0, cut, checkpoint=path, **given_)
        same(run(x0, checkpoint=path, **given_), whole)
    return whole


@pairs(method=METHODS, step=(0.004, None), start=STARTS, trace=(True, "x", False), dtype=("f8", "f4"))
def test_cut_by_the_budget(tmp_path, method, step, start, trace, dtype):
    x0 = STARTS[start].astype(dtype)
    given_ = {"method": method, "step": step, "trace": trace}
    whole = resumed(tmp_path, x0, (0, 4), **given_)
    same(run(x0, checkpoint=tmp_path / "4.npz", **given_), whole)  # one that is over, again


@QUICK
@given(
    j=some.integers(0, 60), what=some.sampled_from(["fun", "jac"]), method=some.sampled_from(METHODS),
    error=some.sampled_from([KeyboardInterrupt, CutError]), step=some.sampled_from([0.004, None]),
    start=some.sampled_from(list(STARTS)), trace=some.sampled_from([True, "x", False]),
)  # fmt: skip
def test_cut_by_an_interrupt_or_an_error(tmp_path, j, what, error, method, step, start, trace):
    path, x0 = tmp_path / "run.npz", STARTS[start]
    path.unlink(missing_ok=True)
    given_ = {"method": method, "step": step, "trace": trace}
    broken = {"fun": f, "jac": g}
    broken[what] = At(broken[what], j, raising(error))
    with contextlib.suppress(CutError):
        run(x0, checkpoint=path, **broken, **given_)
    same(run(x0, checkpoint=path, **given_), run(x0, **given_))


@pairs(source=("2-point", "3-point", "cs", True), step=(0.004, None), start=STARTS, dtype=("f8", "f4"))
def test_every_source_of_gradients(tmp_path, source, step, start, dtype):
    fun = (lambda x: (f(x), g(x))) if source is True else f
    resumed(tmp_path, STARTS[start].astype(dtype), (0, 3, 9), jac=source, step=step, method="cgd", fun=fun)


@pairs(method=("bfgs", "cgd-dfp"), cut=(5, KeyboardInterrupt))
def test_matrices_on_blas(tmp_path, method, cut):
    """From n = 32 on the matrix is updated in place, and only its lower half is used."""
    weights, x0, path = np.linspace(1.0, 30.0, 40), np.linspace(-1.0, 2.0, 40), tmp_path / "run.npz"
    fun = lambda x: float((weights * np.cosh(x)).sum())  # noqa: E731
    given_ = {"jac": lambda x: weights * np.sinh(x), "method": method, "step": None, "gtol": 1e-9}
    whole = run(x0, 12, fun, **given_)
    if cut == 5:
        run(x0, 5, fun, checkpoint=path, **given_)
    else:  # in a search, after the matrix has learnt
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
        last = go(budget=st.Budget(grads=grads), checkpoint=tmp_path / "run.npz")
        assert last.njev <= grads
    same(last, go(budget=st.Budget(grads=25)))


def test_seconds_add_up_and_are_limited_together(tmp_path, monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("steepen._evaluation.counter.time", SimpleNamespace(perf_counter=lambda: clock.now))

    def slow(x):
        clock.now += 1.0
        return f(x)

    given_ = {"jac": g, "method": "gd", "step": 0.004, "checkpoint": tmp_path / "run.npz"}
    assert st.minimize(slow, ONE, budget=st.Budget(iters=5), **given_).seconds == 6.0
    res = st.minimize(slow, ONE, budget=st.Budget(seconds=9.5), **given_)
    # five before the state that was saved, and five more
    assert (res.seconds, res.nfev, res.status) == (10.0, 10, st.Status.MAX_SECONDS)


def test_the_callback_is_not_called_again_for_old_steps(tmp_path):
    seen = []
    for iters in (5, 9):
        run(iters=iters, checkpoint=tmp_path / "run.npz", callback=lambda s: seen.append(s.k))
    assert sorted(set(seen)) == list(range(1, 10))
    assert len(seen) <= 10  # the step into the point of the cut may be shown again


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    run(iters=5, checkpoint=path)
    old = path.read_bytes()

    def breaks(file, **arrays):
        file.write(b"half a file")
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", breaks)
        with pytest.raises(OSError, match=r"no space left") as caught:
            run(iters=9, checkpoint=path)
        assert caught.value.partial_result.nit == 9  # what was reached is not lost
        with pytest.raises(CutError) as mine:  # a disk that fails does not hide the user's error
            run(fun=At(f, 7, raising(CutError)), checkpoint=path)
    assert mine.value.partial_result.status is st.Status.FAILED
    assert path.read_bytes() == old
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]
    same(run(checkpoint=path), run())


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
def written(tmp_path):
    given_ = {"x0": MANY, "method": "bfgs", "trace": "x"}
    run(iters=6, checkpoint=tmp_path / "run.npz", **given_)
    return tmp_path / "run.npz", given_


def test_a_file_that_was_cut_off_or_damaged_is_refused(written):
    path, given_ = written
    data = path.read_bytes()
    member, end = data.find(b"PK\x03\x04", len(data) // 2), data.rfind(b"PK\x01\x02")
    for cut in (0, 1, 4, 100, member - 1, member, member + 40, end, end + 5, len(data) - 22, len(data) - 1):
        path.write_bytes(data[:cut])
        refused(path, DAMAGED, **given_)
    for place in (member - 1, data.find(b"NUMPY"), data.find(b"descr"), data.find(b"<f8")):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        refused(path, DAMAGED, **given_)


EDITS = {
    "a last bit": lambda file: {"run.state.point.x": np.nextafter(file["run.state.point.x"], np.inf)},
    "layout": lambda file: {"run.state.point.x": np.asfortranarray(file["run.state.point.x"])},
    "one more": lambda file: {"extra": np.ones(3)},
    "another name": lambda file: {"run.kk": file.pop("run.state.k")},
    "settings": lambda file: {"header": np.array(str(file["header"]).replace("x0", "x1", 1))},
    "no checksum": lambda file: file.pop("checksum") and {},
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_file_is_refused(written, edit):
    path, given_ = written
    with np.load(path) as file:
        arrays = dict(file)
    new = EDITS[edit](arrays)
    path.write_bytes(npz(**(arrays | new)))
    refused(path, DAMAGED, **given_)


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


FOREIGN = {
    "empty": b"", "csv": b"k,f\n0,1.0\n", "pickle": b"\x80\x04K\x01.", "half of npy": b"\x93NUMPY",
    "another npz": npz(a=np.ones(3)), "no json": npz(header=np.array("no json")),
    "an object": npz(header=np.array([{"steepen": 1}], dtype=object)),
}  # fmt: skip


def test_a_foreign_file_and_one_of_another_format_are_refused(tmp_path):
    path = tmp_path / "foreign.npz"
    for data in FOREIGN.values():
        path.write_bytes(data)
        refused(path, "is not a steepen checkpoint")
    for header, by in (({}, "before steepen 0.1"), ({"version": "0.7.3"}, "by steepen 0.7.3")):
        path.write_bytes(npz(header=np.array(json.dumps({"steepen": 9, "settings": {}, **header}))))
        refused(path, f"was written {by}, in format 9; this version reads format 15")


class Memory(NamedTuple):
    v: "Array"


class Own(st.Direction):
    """A direction of the user's own, which keeps what it is told to."""

    _keep: Any

    def start(self, backend, x):
        return self._keep(x)

    def learn(self, context, point, memory):
        return memory

    def propose(self, context, k, point, lam, on, memory):
        return Proposal(-point.g, 0.0, memory)


@pytest.mark.parametrize(
    ("keep", "words"),
    [
        (
            lambda x: Memory(x[:1]),
            "memory.v has shape (2,) and dtype float64, not (1,) and float64",
        ),
        (lambda x: {"w": x}, "lacks a part of the run: run.state.memory.w"),
        (lambda x: (), "it has no run.state.memory.v"),
    ],
)
def test_what_a_direction_keeps_must_be_what_it_kept(tmp_path, keep, words):
    own = Own()
    own._keep = Memory
    run(iters=3, method=own, checkpoint=tmp_path / "run.npz")
    own._keep = keep
    refused(tmp_path / "run.npz", words, method=own)


def test_every_field_of_what_is_carried_is_saved_or_made_anew(written):
    with np.load(written[0]) as file:
        saved = {name.split(".")[2] for name in file.files if name.startswith("run.state.")}
    assert saved == {field.name for field in fields(SolverState) if not field.metadata}


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
    path = tmp_path / "run.npz"
    base = {"lam": 0.01, "method": "cgd-fd", "b": 6}
    run(iters=5, checkpoint=path, **base)
    refused(path, f"belongs to another run: {name} is", "there", "here", **(base | change))
    same(run(checkpoint=path, **base), run(**base))


@pytest.mark.parametrize(("name", "method", "size"), [("step", "gd", 4), ("lam", "cgd", 2000)])
def test_one_value_a_row_is_compared_in_full(tmp_path, name, method, size):
    """The text of an array is rounded, and shortened where it is long: it is not enough."""
    path, values, x0 = tmp_path / "run.npz", np.full(size, 0.001), np.resize(MANY, (size, 2))
    run(x0, 3, method=method, **{name: values}, checkpoint=path)
    values[size // 2] *= 1 + 1e-10
    refused(path, "belongs to another run", x0=x0, method=method, **{name: values})


def test_a_place_that_cannot_be_written_to_is_said_before_any_evaluation(tmp_path):
    calls = []
    for where in ("missing/run.npz", "."):
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


def test_the_file_is_written_on_the_way(tmp_path, monkeypatch):
    monkeypatch.setattr("steepen._solver.checkpoint.SECONDS", 0.0)
    path, sizes = tmp_path / "run.npz", []
    run(checkpoint=path, callback=lambda s: sizes.append(path.stat().st_size))
    assert len(sizes) == 15
    assert sizes[-1] > sizes[0] > 0


def test_a_resumed_run_asks_for_no_value_that_the_uncut_run_does_not(tmp_path):
    path, asked = tmp_path / "run.npz", {"whole": [], "cut": [], "rest": []}

    def go(name, **given):
        def noted(x):  # another function by name and code, too
            asked[name].append(x.tobytes())
            return f(x)

        return run(fun=noted, **given)

    whole = go("whole")
    go("cut", iters=5, checkpoint=path)
    same(go("rest", checkpoint=path), whole)
    assert asked["rest"]
    assert asked["rest"] == asked["whole"][-len(asked["rest"]) :]


def test_a_batch_goes_on_under_the_same_limits_only(tmp_path):
    path, starts, fun = tmp_path / "run.npz", MANY[[0, 1, 3]], st.functions["rosenbrock"]

    def go(evals, iters, **given_):
        budget = st.Budget(evals=evals, iters=iters)
        return st.minimize(fun, starts, method="bfgs", budget=budget, **given_)

    assert (go(20, 100, checkpoint=path).status == st.Status.MAX_EVALUATIONS).any()
    with pytest.raises(st.CheckpointError, match="limits is"):
        go(400, 100, checkpoint=path)
    path.unlink()
    go(400, 8, checkpoint=path)
    np.testing.assert_array_equal(go(400, 100, checkpoint=path).x, go(400, 100).x)


def test_a_schedule_of_the_same_name_with_other_code_is_refused(tmp_path):
    run(iters=3, lam=lambda k: 0.01, checkpoint=tmp_path / "run.npz")
    refused(tmp_path / "run.npz", "method is CGD", lam=lambda k: 0.5)


def test_a_step_that_closes_over_another_number_is_refused(tmp_path):
    def constant(c, scale=1.0):
        return lambda k, scale=scale: c * scale

    run(iters=3, step=constant(0.01), checkpoint=tmp_path / "run.npz")
    for step in (constant(0.03), constant(0.01, scale=2.0)):
        refused(tmp_path / "run.npz", "step is ", step=step)
    run(iters=3, step=partial(power, base=0.9), checkpoint=tmp_path / "partial.npz")
    refused(tmp_path / "partial.npz", "step is ", step=partial(power, base=0.8))


def power(k, base):
    return 0.01 * base**k


def test_another_scale_of_x_is_another_run(tmp_path):
    at_zero = {"x0": np.zeros(2), "step": 0.001}
    run(iters=3, x_scale=1.0, checkpoint=tmp_path / "run.npz", **at_zero)
    refused(tmp_path / "run.npz", "x_scale is ", x_scale=64.0, **at_zero)


def test_a_function_is_known_again_in_another_process(tmp_path):
    """The order of a set of words follows the seed of their hashes."""
    code = (
        "import steepen as st\n"
        "step = lambda k: 0.01 if k in {5, 'a', 'b', 'c', 'd'} else 0.02\n"
        f"given = dict(method='gd', step=step, checkpoint={str(tmp_path / 'run.npz')!r})\n"
        "st.minimize(st.functions['booth'], [0.0, 0.0], budget=st.Budget(iters=3), **given)\n"
    )
    for seed in "12":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("method", ["bfgs", "cgd-fd", "cgd-auto"])
def test_a_run_pauses_and_resumes_with_a_larger_budget(tmp_path, method, start):
    fun, path = st.functions["rosenbrock"].at(n=2), tmp_path / "run.npz"

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
        go = partial(st.minimize, f, ONE, method="cgd-fd", checkpoint=tmp_path / f"{i}.npz")
        go(budget=st.Budget(iters=10), **first)
        with pytest.raises(st.CheckpointError, match="switch"):
            go(budget=st.Budget(iters=60), **then)


def test_a_square_batch_is_split_once_also_where_it_is_resumed(tmp_path):
    """The first call of as many rows as variables is in two parts, whose products round differently."""
    rng, n = np.random.default_rng(0), 8
    half, b, x0 = rng.standard_normal((n, n)), rng.standard_normal(n), rng.standard_normal((n, n))
    matrix = half @ half.T / n + 0.1 * np.eye(n)
    asked = []

    def slope(x):
        asked.append(len(x))
        return x @ matrix - b + 4 * x**3

    def go(iters, **more):
        fun = lambda x: 0.5 * ((x @ matrix) * x).sum(-1) - x @ b + (x**4).sum(-1)  # noqa: E731
        return st.minimize(fun, x0, jac=slope, method="cgd", budget=st.Budget(iters=iters), **more)

    whole = go(9)
    assert asked[:2] == [7, 1]
    go(4, checkpoint=tmp_path / "run.npz")
    asked.clear()
    np.testing.assert_array_equal(go(9, checkpoint=tmp_path / "run.npz").x, whole.x)
    assert 1 not in asked


def test_a_hessian_at_hand_is_not_evaluated_again(tmp_path):
    """With wait=False x may stay from one iteration to the next."""
    rosen = st.functions["rosenbrock"].at(2)
    given = {"fun": lambda x: rosen(x), "x0": ONE, "jac": rosen.grad, "method": "cgd"}
    for hess in (rosen.hess, lambda x: aslinearoperator(rosen.hess(x))):
        go = partial(st.minimize, hess=hess, step=steps.Armijo(wait=False), **given)
        for cut in range(1, 12):
            path = tmp_path / f"{hess == rosen.hess}{cut}.npz"
            go(budget=st.Budget(iters=cut), checkpoint=path)
            rest, whole = go(budget=st.Budget(iters=40), checkpoint=path), go(budget=st.Budget(iters=40))
            np.testing.assert_allclose(rest.x, whole.x, rtol=1e-9)  # of an operator, with other last bits
            if hess == rosen.hess:
                same(rest, whole)
