"""Sweeps: each row is the run it stands for, whoever makes it and whoever is killed."""

import contextlib
import importlib
import inspect
import shutil
import signal
import sqlite3
import sys
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool as Pool

import numpy as np
import pytest
from pandas.testing import assert_frame_equal
from tests.pairs import WHOLE

import steepen as st
from steepen._tools.jobs.file import JobFile, read_head
from steepen._tools.jobs.lines import line_of, write_lines
from steepen.schedules import Custom

BUDGET = st.Budget(grads=40)
GRID = {
    "method": ["gd", "cgd-fd", "cgd-auto"], "step": [0.001, 0.01, 10.0], "lam": [0.01, 0.1], "b": [3, 10],
    "budget": BUDGET,
}  # fmt: skip


def single(row, starts):
    settings = {name: row[name] for name in ("step", "lam", "b") if not np.isnan(row[name])}
    if "b" in settings:
        settings["b"] = int(row["b"])
    fun, x0 = st.functions[row["function"]], starts[row["start"]]
    with np.errstate(all="ignore"):
        return st.minimize(fun, x0, method=row["method"], budget=BUDGET, **settings)


def test_every_row_is_the_single_run_it_stands_for():
    starts = np.random.default_rng(1).uniform(-3, 3, size=(4, 2))
    table = st.sweep(["branin", "booth"], starts, **GRID, at=[0, 7, 20], points=True, rows=5)
    # gd 3, cgd-fd 3·2·2, cgd-auto 3 (its λ is its own); functions and starts
    assert len(table) == (3 + 12 + 3) * 2 * 4
    assert not table.duplicated(["function", "method", "step", "lam", "b", "start"]).any()
    assert list(dict.fromkeys(table.function)) == ["branin", "booth"]  # the order is that of the arguments
    assert list(dict.fromkeys(table.method)) == GRID["method"]
    assert table.start.tolist() == [0, 1, 2, 3] * 36
    for _, row in table.iterrows():
        one = single(row, starts)
        assert (row.f, row.best, row.status) == (one.fun, one.best.fun, one.status.name)
        for name in ("nit", "nfev", "njev", "nhvp"):
            assert row[name] == getattr(one, name)
        assert [row.x0, row.x1] == one.x.tolist()
        assert [row.start0, row.start1] == starts[row.start].tolist()
        assert row.f0 == row.f_0 == one.trace.f[0]
        for look in (7, 20):
            assert row[f"f_{look}"] == one.trace.f[one.trace.njev <= look][-1]


def test_the_same_table_in_pieces_of_any_size_and_from_any_number_of_processes():
    whole = st.sweep("branin", 9, **GRID)
    assert_frame_equal(st.sweep("branin", 9, **GRID, rows=4), whole)
    with ThreadPoolExecutor(2) as threads:
        assert_frame_equal(st.sweep("branin", 9, **GRID, rows=20, workers=threads), whole)
    with Pool(2) as pool:
        assert_frame_equal(st.sweep("branin", 9, **GRID, rows=20, workers=pool.map), whole)
    if WHOLE:  # processes take seconds to begin
        assert_frame_equal(st.sweep("branin", 9, **GRID, rows=20, workers=2), whole)


def test_runs_that_differ_in_numbers_alone_are_one_call(monkeypatch):
    made, module = [], importlib.import_module("steepen._sweep.sweep")

    def counted(fun, x, **more):
        made.append(len(x))
        return st.minimize(fun, x, **more)

    monkeypatch.setattr(module, "minimize", counted)
    st.sweep("booth", 10, method="cgd-fd", step=[0.01, 0.02], lam=np.linspace(0.01, 0.1, 5), r=[0.1, 0.2])
    assert made == [10, 200]  # f0, and all of it
    plan = module.Plan({}, [], [], False, {"budget": None, "engine": "eager", "jac": None}, None)
    target = module.Target(None, np.zeros((1, 1000)), None, np.zeros(1), 0.0)
    assert [plan.batch_size(target, name) for name in ("gd", "bfgs")] == [
        266,
        3,
    ]  # docs/many.md has the first


def test_functions_of_several_sizes_and_starts_of_their_own(tmp_path):
    named = {"two": st.functions["levy"].at(2), "five": st.functions["levy"].at(5)}
    starts = {"two": np.zeros((2, 2)), "five": 3}
    given = {"method": "gd", "step": 0.1, "budget": BUDGET, "points": True, "out": tmp_path / "s.sqlite"}
    table = st.sweep(named, starts, **given)
    assert_frame_equal(st.load_results(tmp_path / "s.sqlite"), table)
    assert table.groupby("function", observed=True).size().to_dict() == {"two": 2, "five": 3}
    assert table[table.function == "two"].x4.isna().all()


def square(x):
    return (x**2).sum(axis=-1)


def test_a_function_and_schedules_of_your_own():
    table = st.sweep(square, [[1.0, 2.0]], method="gd", step=[0.1, 0.5], jac=lambda x: 2 * x, budget=BUDGET)
    assert (table.function.tolist(), table.f[1]) == (["square", "square"], 0.0)
    lam = [st.L(0.1, 0.01), 0.1]
    table = st.sweep("booth", 2, method="cgd-fd", lam=lam, step=[0.01, 0.02], budget=BUDGET)
    assert (len(table), set(table.lam)) == (8, {str(st.L(0.1, 0.01)), "0.1"})


class Plain:
    """A λ whose text does not tell it from another."""

    def __init__(self, value):
        self._value = value

    def __call__(self, k):
        return self._value

    def __repr__(self):
        return "Plain"


@pytest.mark.parametrize("kind", [Plain, lambda value: Custom(lambda k: value)])
def test_schedules_of_one_text_are_run_each(kind):
    given = {"method": "cgd", "step": 0.01, "budget": st.Budget(grads=10)}
    both = st.sweep("branin", [[4.0, 4.0]], lam=[kind(0.01), kind(0.5)], **given).f
    alone = [st.sweep("branin", [[4.0, 4.0]], lam=value, **given).f[0] for value in (0.01, 0.5)]
    assert both.tolist() == alone
    assert alone[0] != alone[1]


def falling(k):
    return 0.1 / (k + 1)


def test_a_sweep_with_functions_as_settings_resumes_in_another_process(tmp_path):
    """The text that identifies a function has no address."""
    out = tmp_path / "s.sqlite"
    given = {"fun": "booth", "starts": 2, "method": "cgd-fd", "step": 0.01, "budget": BUDGET, "out": out}
    found = st.sweep(lam=[0.1, falling], **given)
    again = types.FunctionType(falling.__code__, globals(), "falling")
    assert_frame_equal(st.sweep(lam=[0.1, again], **given), found)
    with pytest.raises(ValueError, match=r'it has settings "falling:.*, not "test_a_sweep_with'):
        st.sweep(lam=[0.1, lambda k: 0.2], **given)


def test_what_runs_share_has_the_names_and_defaults_of_minimize():
    ours, theirs = (inspect.signature(call).parameters for call in (st.sweep, st.minimize))
    passed = set(ours) & set(theirs) - {"fun", "method", "progress"}
    assert passed >= {"step", "switch", "budget", "tol", "xtol", "jac", "hess", "x_scale", "engine"}
    assert all(ours[name].default == theirs[name].default for name in passed)
    given = {"ftol": 1e-3, "x_scale": [1.0, 4.0], "switch": st.switches.After(2)}
    table = st.sweep("booth", [[0.0, 0.0]], method="cgd-fd", step=0.01, lam=0.1, **given)
    alone = st.minimize(st.functions["booth"], [0.0, 0.0], method="cgd-fd", step=0.01, lam=0.1, **given)
    assert (table.f[0], table.status[0], table.switch[0]) == (alone.fun, "FTOL", "After(b=2)")


def changed(path, statement, *values):
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        return database.execute(statement, values).fetchall()


def rows(path):
    return changed(path, "SELECT content FROM jobs ORDER BY number")


def test_published_rows_are_read_and_not_added_to(tmp_path):
    """A table that was written whole as text, as those in `benchmarks/results`."""
    path = tmp_path / "rows.jsonl"
    write_lines(path, {"key": ["i"], "results": "squares"}, [{"i": 2, "square": 4}, {"i": 3, "square": 9}])
    table = st.load_results(path)
    assert (table.i.tolist(), table.square.tolist()) == ([2, 3], [4, 9])
    assert table.attrs["about"]["results"] == "squares"
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"^out: .*rows.jsonl' holds other results"):
        st.sweep("booth", 2, method="gd", step=0.1, out=path)
    with pytest.raises(ValueError, match=r"^out: .*rows.jsonl' has published rows and is not added to"):
        JobFile(path, ["i"]).add((4,), {"square": 16})
    assert path.read_bytes() == before
    path.write_bytes(before.replace(b": 9", b": 8"))
    with pytest.warns(UserWarning, match="path: 1 record is damaged"):
        assert st.load_results(path).i.tolist() == [2]


def test_an_interrupt_leaves_whole_batches_alone(tmp_path):
    calls, out = [], tmp_path / "s.sqlite"

    def f(x):
        calls.append(x)
        if len(calls) == 30:
            signal.raise_signal(signal.SIGINT)
        return square(x)

    def swept(**more):
        given = {"step": [0.1, 0.2], "rows": 3, "jac": lambda x: 2 * x, "budget": BUDGET}
        return st.sweep(f, np.ones((3, 2)), method="gd", **given, **more)

    with pytest.raises(KeyboardInterrupt):
        swept(out=out)
    assert rows(out) == []
    assert read_head("out", out)["results"] == "sweep"
    found = swept(out=out)
    assert_frame_equal(st.load_results(out), found)
    changed(out, "DELETE FROM jobs WHERE number = 2")  # as if that batch had not been made
    assert_frame_equal(st.load_results(out), found[:3])
    shutil.copy(out, tmp_path / "t.sqlite")
    ((content,),) = rows(out)
    changed(tmp_path / "t.sqlite", "UPDATE jobs SET content = ?", content.replace(b"A", b"B", 1))
    with pytest.warns(UserWarning, match="path: 1 record is damaged in .*t.sqlite' and skipped"):
        assert len(st.load_results(tmp_path / "t.sqlite")) == 0
    (tmp_path / "t.sqlite").write_text('{"steepen": "sweep 1"}\n')
    with pytest.raises(
        ValueError, match=r"path: .*t.sqlite' has the old format, without checksums; .* reads it"
    ):
        st.load_results(tmp_path / "t.sqlite")
    (tmp_path / "t.sqlite").write_bytes(line_of({"steepen": "results 2", "key": [], "results": "sweep"}))
    with pytest.raises(ValueError, match=r"path: .*t.sqlite' has the old layout of a sweep; .* reads it"):
        st.load_results(tmp_path / "t.sqlite")
    assert_frame_equal(swept(out=out), found, check_exact=True)
    assert_frame_equal(swept(), found, check_exact=True)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"method": []}, "method: expected at least one, got none: the grid is empty"),
        ({"step": []}, "step: expected at least one value, got none: the grid is empty"),
        ({"method": "gd", "lam": 0.1}, "lam: method 'gd' has no such setting; it has step"),
        ({"method": "cgd_fd"}, "method: 'cgd_fd' is not known; did you mean 'cgd-fd'?"),
        ({"fun": "bran"}, "fun: 'bran' is not known; did you mean 'branin'?"),
        ({"fun": ["booth", "booth"]}, "fun: 'booth' appears twice"),
        ({"starts": [[1.0]]}, "starts: expected points of 2 numbers for 'branin', got 1"),
        ({"starts": {}}, "starts: expected an entry for every function"),
        ({"starts": {"branin": 2, "brain": 3}}, "starts: expected names of the functions, got 'brain'"),
        ({"starts": [[1.0, 2.0], [3.0]]}, "starts: expected points of shape (S, n)"),
        ({"at": 5}, "at: expected a list of whole numbers, got 5"),
        ({"method": 5}, "method: expected names such as 'cgd-fd', got 5"),
        ({"workers": 0}, "workers: expected a number of processes, -1, an executor"),
        ({"fun": np.sum}, "starts: expected points, since 'sum' has no bounds"),
        ({"step": [0.1, -1.0]}, "step: "),
        ({"budget": st.Budget(seconds=1)}, "budget: a sweep takes no limit in seconds"),
        ({"at": [-1]}, "at: expected a whole number"),
        ({"gtoll": 1e-3}, "gtoll: not an argument of sweep; did you mean 'gtol'?"),
        ({"at": [1], "engine": "jax"}, "at: engine='jax' preallocates memory for every iterate"),
        ({"out": "/nowhere/at/all.sqlite"}, "out: there is no folder"),
        ({"fun": lambda x: x[:, 0] + LOCK.locked(), "workers": 2, "starts": [[0.0]]}, "workers: a job"),
    ],
)  # fmt: skip
def test_wrong_input_is_refused_before_any_work(given, words):
    with pytest.raises((ValueError, TypeError)) as caught:
        st.sweep(**{"fun": "branin", "starts": 2, **given})
    assert str(caught.value).startswith(words)


LOCK = threading.Lock()


def test_the_file_of_another_sweep_is_refused(tmp_path):
    out = tmp_path / "s.sqlite"
    given = {"fun": "booth", "starts": 2, "method": "gd", "step": 0.1, "budget": BUDGET, "out": out}
    st.sweep(**given)
    before = out.read_bytes()
    for words, other in (
        ("settings", {"step": 0.2}), ("starts", {"seed": 1}), ("budget", {"budget": st.Budget(grads=9)}),
        ("functions", {"fun": {"booth": st.functions["branin"]}}), ("ftol", {"ftol": 1e-3}),
        ("gtol", {"gtol": 0.0}), ("jac", {"jac": lambda x: 2 * x}),
        ("bounds", {"bounds": st.functions["booth"].bounds}),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"holds other results.*{words}"):
            st.sweep(**{**given, **other})
    assert out.read_bytes() == before
    out.write_text("my notes")
    with pytest.raises(ValueError, match=r"is not a results file. It is left as it is"):
        st.sweep(**given)
    assert out.read_text() == "my notes"


def test_a_function_that_raises_ends_the_sweep_with_its_error_and_keeps_the_rest(tmp_path):
    def f(x):
        if np.any(abs(x) > 100):
            raise RuntimeError("too far")
        return square(x)

    given = {"jac": lambda x: 2 * x, "budget": BUDGET, "rows": 1, "out": tmp_path / "s"}
    says = "1 of 2 batches failed; the completed ones are in the file.*f with .*: RuntimeError: too far"
    with pytest.raises(RuntimeError, match=says):
        st.sweep(f, [[1.0]], method="gd", step=[0.1, 2.0], **given)
    assert len(rows(tmp_path / "s")) == 2


def test_pandas_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"sweep needs pandas: pip install 'steepen\[sweep\]'"):
        st.sweep("booth", 2)


def slow(x):
    time.sleep(0.002 * len(x))
    return square(x)


def test_slow_rows_are_spread_and_saved_as_fast_ones_are(tmp_path, monkeypatch):
    """A batch takes about so many seconds, and a resumed sweep has the batches of the file."""
    module, starts = importlib.import_module("steepen._sweep.sweep"), np.linspace(0.1, 1.0, 80)[:, None]
    given = {"method": "gd", "step": 0.1, "jac": lambda x: 2 * x, "budget": st.Budget(iters=5)}
    monkeypatch.setattr(module, "SECONDS", 2.0)
    out = tmp_path / "slow.sqlite"
    with ThreadPoolExecutor(2) as threads:
        found = st.sweep(slow, starts, out=out, workers=threads, **given)
    batches = len(rows(out))
    assert 4 <= batches <= 40  # 80 rows × 200 evaluations × 2 ms: 5 rows, on an idle machine
    assert_frame_equal(found, st.sweep({"slow": square}, starts, **given))
    changed(out, "DELETE FROM jobs WHERE number > 2")
    monkeypatch.setattr(module, "SECONDS", 1.0)  # now it would cut them otherwise
    assert_frame_equal(st.sweep(slow, starts, out=out, **given), found)
    assert len(rows(out)) == batches
    fast = tmp_path / "fast.sqlite"
    st.sweep(square, np.ones((12_000, 1)), out=fast, **given)
    assert len(rows(fast)) == 2
