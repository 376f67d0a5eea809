"""A run that is told its values is the run that `minimize` makes, wherever it is cut, copied and moved."""

import copy
import itertools
import math
import pickle
import random
import subprocess
import sys
import time

import numpy as np
import pytest
from scipy.optimize import Bounds
from scipy.sparse.linalg import aslinearoperator

import steepen as st
from steepen import schedules, steps

from ..calls import same
from ..objectives import METHODS
from ..pairs import pairs
from ..test_scale import bend, plain, slope

ONE = np.array([-1.2, 1.0])
SOURCES = {
    "together": ({"jac": True}, {"jac": True}),
    "apart": ({"jac": "apart"}, {"jac": slope}),
    "products": ({"jac": "apart", "hvp": True}, {"jac": slope, "hvp": lambda x, v: bend(x) @ v}),
    "hessians": ({"jac": True, "hess": True}, {"jac": True, "hess": bend}),
    "2-point": ({}, {}),
    "3-point": ({"jac": "3-point"}, {"jac": "3-point"}),
    "cs": ({"jac": "cs"}, {"jac": "cs"}),
}
"""What a run is told, and the same for `minimize`."""

BOUNDS = {"none": None, "inside": [(-2.0, 2.0), (None, 3.0)], "active": [(-1.5, 0.5), (0.3, 2.0)]}
STEP = {"step": 0.004, "gtol": 1e-2}


def answers(ask):
    """Return the answers of the test function to an ask, and the gradients if they are wanted, too."""
    found = {
        "value": plain, "both": plain, "gradient": slope, "hessian": bend,
        "product": lambda x: bend(x) @ ask.vectors[0],
    }  # fmt: skip
    each = [found[ask.wanted](x) for x in ask.points]
    return each, [slope(x) for x in ask.points] if ask.wanted == "both" else None


def tell(run, ask):
    """Tell the answers to an ask one by one, in random order."""
    each, gradients = answers(ask)
    order = list(range(len(ask)))
    random.shuffle(order)
    for place in order:
        run.tell(ask.ids[place], each[place], *([] if gradients is None else [gradients[place]]))


def minimized(source, x0=ONE, **given):
    theirs = dict(SOURCES[source][1])
    fun = (lambda x: (plain(x), slope(x))) if theirs.get("jac") is True else plain
    return st.minimize(fun, x0, **theirs, **given)


def told(source, x0=ONE, between=lambda run: run, **given):
    run = st.Run(x0, **SOURCES[source][0], **given)
    while ask := run.ask():
        each, gradients = answers(ask)
        for place, one in enumerate(ask.ids):
            run.tell(one, each[place], *([] if gradients is None else [gradients[place]]))
            run = between(run)
    return run.result()


@pairs(method=METHODS, source=SOURCES, bounds=BOUNDS, step=({}, STEP), dtype=("f8", "f4"))
def test_it_is_the_run_of_minimize_in_any_order(method, source, bounds, step, dtype):
    given = {"method": method, "bounds": BOUNDS[bounds], "budget": st.Budget(iters=25), **step}
    x0 = ONE.astype(dtype)
    run = st.Run(x0, **SOURCES[source][0], **given)
    random.seed(0)
    while ask := run.ask():
        tell(run, ask)
    same(run.result(), minimized(source, x0, **given))


@pairs(
    method=METHODS, source=SOURCES, bounds=("none", "active"), trace=(True, "x", False),
    how=("file", "pickle", "deepcopy"),
)  # fmt: skip
def test_it_goes_on_after_every_answer(tmp_path, method, source, bounds, trace, how):
    def moved(run):
        if how == "deepcopy":
            return copy.deepcopy(run)
        if how == "pickle":
            return pickle.loads(pickle.dumps(run))
        run.save(tmp_path / "run.steepen")
        return st.Run.load(tmp_path / "run.steepen")

    given = {"method": method, "bounds": BOUNDS[bounds], "trace": trace, "budget": st.Budget(iters=9)}
    same(told(source, between=moved, **given), minimized(source, **given))


@pytest.mark.parametrize("method", METHODS)
def test_each_state_that_is_kept_is_enough(monkeypatch, method):
    monkeypatch.setattr("steepen.drivers.told.PART", math.inf)  # one at every iterate
    given = {"method": method, "budget": st.Budget(iters=12)}
    for source in ("together", "2-point"):
        same(told(source, between=copy.deepcopy, **given), minimized(source, **given))


@pytest.mark.parametrize(
    "given",
    [
        {"x_scale": [4.0, 0.1]},
        {"x_scale": [4.0, 0.1], "method": "newton"},
        {"x_scale": "auto", "bounds": Bounds([-2, -1], [0.5, 4])},
        {"method": "cgd", "lam": schedules.L(0.001, 0.0, T=9), "step": schedules.L(0.004, 0.001, T=15)},
        {"method": st.CGD(lam=0.001, penalty=st.penalties.Huber(2.0)), "step": steps.Armijo(c=0.2)},
        {"method": "cgd-fd", "switch": st.switches.After(3) | st.switches.FirstGuard(), "step": 0.004},
        {"options": {"maxiter": 7, "finite_diff_rel_step": 1e-6}},
        {"budget": st.Budget(evals=31)},
        {"budget": st.Budget(grads=7)},
    ],
)
def test_all_settings_are_in_the_file(tmp_path, given):
    def moved(run):
        run.save(tmp_path / "run.steepen")
        return st.Run.load(tmp_path / "run.steepen")

    for source in ("2-point", "products", "hessians"):
        if "options" in given and source != "2-point":
            continue
        limited = {"budget": st.Budget(iters=12)} | given if "options" not in given else given
        same(told(source, between=moved, **limited), minimized(source, **limited))


def test_an_ask_can_be_told_whole_and_a_few_points_at_a_time():
    run = st.Run(np.linspace(-1.0, 1.0, 7), jac="3-point", budget=st.Budget(iters=3))
    f, sizes = st.functions["rosenbrock"].at(n=7), []
    while ask := run.ask(most=4):
        sizes.append(len(ask))
        run.tell(ask, np.array([f(x) for x in ask.points]))
    assert 4 in sizes
    assert max(sizes) == 4
    x0, budget = np.linspace(-1.0, 1.0, 7), st.Budget(iters=3)
    same(run.result(), st.minimize(lambda x: f(x), x0, jac="3-point", budget=budget))


FAILURES = (None, math.nan, RuntimeError("lost"))


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("source", ["together", "apart", "2-point"])
def test_a_failure_is_a_nan_of_the_function(failure, source):
    def fun(x):
        return np.where(x[..., 0] > 0.2, math.nan, plain(x))

    theirs = SOURCES[source][1]
    both = theirs.get("jac") is True
    wanted = st.minimize((lambda x: (fun(x), slope(x) + 0 * fun(x))) if both else fun, ONE, **theirs)
    run = st.Run(ONE, **SOURCES[source][0])
    while ask := run.ask():
        for one, x in zip(ask.ids, ask.points, strict=True):
            if ask.wanted == "gradient":
                run.tell(one, slope(x))
            elif math.isnan(fun(x)):
                run.tell(one, failure)  # of f alone, where both are wanted
            else:
                run.tell(one, plain(x), *([slope(x)] if both else []))
    same(run.result(), wanted)


@pytest.mark.parametrize("failure", FAILURES)
def test_a_gradient_that_failed_is_one_of_nan(failure):
    run = st.Run(ONE, jac="apart")
    run.tell(run.ask(), plain(ONE))
    run.tell(run.ask(), failure)
    assert run.result().status is st.Status.NONFINITE_GRADIENT


def test_arguments_that_change_later_are_not_seen():
    x0, scale, bounds = ONE.copy(), np.array([4.0, 0.5]), [(-2.0, 2.0), (-2.0, 2.0)]
    run = st.Run(x0, x_scale=scale, bounds=bounds)
    x0[:] = scale[:] = 7.0
    bounds[0] = (5.0, 6.0)
    run.ask().points[:] = 9.0
    for one in (run, copy.deepcopy(run)):
        while ask := one.ask():
            one.tell(ask, [plain(x) for x in ask.points])
        same(one.result(), minimized("2-point", x_scale=[4.0, 0.5], bounds=[(-2.0, 2.0), (-2.0, 2.0)]))


def test_one_of_a_thousand_points_is_asked_for_and_told_at_once():
    """No work for each point that waits; it was quadratic in their number."""
    run = st.Run(np.zeros(1000), jac="3-point")
    run.tell(run.ask(), 1.0)
    seen, began = [], time.process_time()
    for number in range(1000):
        ask = run.ask(most=1)
        seen.append(ask.points[0].tobytes())
        run.tell(ask.ids[0], float(number))
    assert len(set(seen)) == 1000 < len(run.ask().ids) + 1001
    assert time.process_time() - began < 5.0  # 0.3 s; it was 46


def test_many_runs_side_by_side():
    """As a cluster with four places does: whatever run a place takes its point from, and answers late."""
    random.seed(1)
    starts = np.random.default_rng(0).uniform(-2.0, 2.0, (6, 2))
    runs, out = [st.Run(x0, jac="3-point") for x0 in starts], {}
    while True:
        for number, run in enumerate(runs):
            ask = run.ask(most=4 + len(out))
            waiting = [one for one in zip(ask.ids, ask.points, strict=True) if (number, one[0]) not in out]
            for one, x in waiting[: max(0, 4 - len(out))]:
                out[number, one] = x
        if not out:
            break
        number, one = random.choice(list(out))
        runs[number].tell(one, plain(out.pop((number, one))))
    for run, x0 in zip(runs, starts, strict=True):
        same(run.result(), minimized("3-point", x0))


KILLED = """
import os, signal, sys
import numpy as np, steepen as st

def f(x):
    return float(100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2)

path, dies = sys.argv[1], sys.argv[2]
run = st.Run.load(path)
if not (ask := run.ask(most=1)):
    print("ended")
    sys.exit()
if dies == "before":
    os.kill(os.getpid(), signal.SIGKILL)
run.tell(ask, f(ask.points[0]))
if dies == "told":
    os.kill(os.getpid(), signal.SIGKILL)
run.save(path)
if dies == "saved":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow  # a process for each answer
@pytest.mark.bits  # functions of another process are not moved
def test_a_process_that_is_killed_anywhere_between_ask_and_tell_loses_no_answer_that_was_saved(tmp_path):
    def f(x):
        return float(100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2)

    path, dies = tmp_path / "run", itertools.cycle(["before", "told", "saved", "never"])
    given = {"jac": "3-point", "budget": st.Budget(evals=20)}
    st.Run(ONE, **given).save(path)
    for _ in range(60):
        code = [sys.executable, "-c", KILLED, str(path), next(dies)]
        if subprocess.run(code, capture_output=True, text=True).stdout == "ended\n":
            break
    same(st.Run.load(path).result(), st.minimize(f, ONE, **given))


def test_the_result_is_there_at_any_time_and_counts_what_was_told():
    run, number = st.Run(ONE, jac="3-point"), 0
    assert (run.result().status, run.result().nfev) == (st.Status.WAITING, 0)
    while ask := run.ask(most=1):
        run.tell(ask, plain(ask.points[0]))
        number += 1
        result = run.result()
        assert result.nfev == number
        assert not result.success or not run.ask()
    assert result.status is st.Status.CONVERGED
    assert run.result().hess_inv is not None


def test_a_result_does_not_change_when_the_run_goes_on():
    run = st.Run(ONE, jac=True, method="bfgs")
    for _ in range(9):
        ask = run.ask()
        run.tell(ask, plain(ask.points[0]), slope(ask.points[0]))
    result, kept = run.result(), run.result()
    before = kept.hess_inv @ np.eye(2)
    while ask := run.ask():
        run.tell(ask, plain(ask.points[0]), slope(ask.points[0]))
    np.testing.assert_array_equal(result.hess_inv @ np.eye(2), before)


def test_a_linear_operator_is_a_hessian_too(tmp_path):
    run, number = st.Run(ONE, jac=True, hess=True, method="newton"), 0
    while (ask := run.ask()) and (number := number + 1) < 100:
        x = ask.points[0]
        if ask.wanted == "hessian":
            run.tell(ask, aslinearoperator(bend(x)))
        else:
            run.tell(ask, plain(x), slope(x))
        run.save(tmp_path / "run")
        run = st.Run.load(tmp_path / "run")  # it is a matrix there
    wanted = minimized("hessians", method="newton")
    np.testing.assert_allclose(run.result().x, wanted.x, rtol=1e-9)


def refused(run, error, text, *told):
    """Hold that the answers are refused, and that the run goes on as if they had not been given."""
    before = pickle.dumps(run.result().x), run.ask().ids
    with pytest.raises(error, match=text):
        run.tell(*told)
    assert (pickle.dumps(run.result().x), run.ask().ids) == before


def test_wrong_answers_are_refused_and_the_run_goes_on():
    run, other = st.Run(ONE, jac="3-point"), st.Run(ONE, jac="3-point")
    first = run.ask()
    refused(run, TypeError, "^ask: expected what ask", 3, 1.0)
    refused(run, TypeError, "^ask: expected what ask", None, 1.0)
    refused(st.Run(ONE), TypeError, "^ask: expected what ask", None, 1.0)
    refused(run, ValueError, "^id: '0-nonsense' does not wait", "0-nonsense", 1.0)
    refused(run, ValueError, "^ask: .* another run", other.ask(), 1.0)
    refused(run, TypeError, "^f: expected a real scalar", first, "one")
    refused(run, TypeError, "^f: expected a real scalar", first.ids[0], [1.0, 2.0])
    refused(run, ValueError, "^f: expected a value, got shape", first, [1.0, 2.0])
    refused(run, TypeError, "^g: the run asked for the value alone", first, 1.0, [1.0, 2.0])
    run.tell(first, plain(ONE))
    refused(run, ValueError, "^ask: .* told already", first, 1.0)
    ask = run.ask()
    refused(run, ValueError, "^f: expected 4 values, .* got shape", ask, [1.0, 2.0, 3.0])
    refused(run, TypeError, "^f: expected a real scalar", ask, [1.0, 2.0, 3.0, 1j])
    run.tell(ask.ids[2], plain(ask.points[2]))
    refused(run, ValueError, "^id: .* told already", ask.ids[2], 1.0)
    refused(run, ValueError, "^ask: .* told already", ask, [1.0] * 4)
    while ask := run.ask():
        run.tell(ask, [plain(x) for x in ask.points])
    same(run.result(), minimized("3-point"))
    refused(run, ValueError, r"^ask: the run has ended \(CONVERGED\)", first, 1.0)
    refused(run, ValueError, "^ask: it has no points", ask, [])


def test_wrong_gradients_are_refused_and_the_run_goes_on():
    run = st.Run(ONE, jac=True)
    refused(run, TypeError, "^g: the run asked for f and ∇f, and got f alone", run.ask(), 1.0)
    refused(run, ValueError, r"^g: expected shape \(2,\), got shape \(3,\)", run.ask(), 1.0, [1.0, 2.0, 3.0])
    refused(run, TypeError, "^g: expected real numbers", run.ask(), 1.0, [1j, 2.0])
    refused(run, TypeError, "^f: expected a real scalar", run.ask(), (1.0, 2.0), [1.0, 2.0])
    refused(run, TypeError, r"^f: .* two arguments, tell\(ask, f, g\)", run.ask(), (1.0, [1.0, 2.0]))
    run = st.Run(ONE, jac="apart", hess=True, method="newton")
    run.tell(run.ask(), plain(ONE))
    refused(run, TypeError, "^g: the run asked for the gradient alone", run.ask(), 1.0, slope(ONE))
    refused(run, ValueError, "^gradient: expected shape", run.ask(), 1.0)
    run.tell(run.ask(), slope(ONE))
    refused(run, ValueError, "^hessian: expected shape", run.ask(), slope(ONE))
    refused(run, ValueError, "^hessian: expected shape", run.ask(), aslinearoperator(np.eye(3)))


@pytest.mark.parametrize(
    ("error", "text", "given"),
    [
        (ValueError, "x0: expected a NumPy array of shape", {"x0": np.ones((3, 2))}),
        (TypeError, "x0: expected a start, since the function of a Run", {"x0": plain}),
        (ValueError, "x0: expected finite numbers", {"x0": [math.nan]}),
        (ValueError, "jac: expected True", {"jac": slope}),
        (ValueError, "jac: expected True", {"jac": "jax"}),
        (TypeError, "hvp: expected True if you can tell it", {"hvp": slope}),
        (ValueError, "trace: expected True, False", {"trace": 3}),
        (TypeError, "callback: not an argument of Run", {"callback": print}),
        (ValueError, "method: 'sgd' is not the name of a method", {"method": "sgd"}),
        (ValueError, "bounds: expected 2 pairs", {"bounds": [(0, 1)]}),
        (ValueError, "gtol: expected a number, 0 or more", {"gtol": -1.0}),
        (ValueError, "options: 'workers' has no meaning", {"options": {"workers": 3}}),
    ],
)
def test_wrong_arguments_are_refused(error, text, given):
    with pytest.raises(error, match=text):
        st.Run(**({"x0": ONE} | given))


def test_a_number_of_points_is_one_or_more():
    for most in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match=r"^most: expected a whole number, 1 or more"):
            st.Run(ONE).ask(most)


def test_code_of_the_users_is_given_again(tmp_path):
    path, step = tmp_path / "run", lambda k: 0.004
    run = st.Run(ONE, method="gd", step=step, budget=st.Budget(iters=9))
    run.save(path)
    with pytest.raises(TypeError, match=r"^step: it was code of yours"):
        st.Run.load(path)
    with pytest.raises(TypeError, match=r"^method: the file holds it already"):
        st.Run.load(path, step=step, method="bfgs")
    assert st.Run.load(path, step=step).ask().ids == run.ask().ids


def test_files_that_are_no_run_are_refused(tmp_path):
    path = tmp_path / "run"
    st.Run(ONE).save(path)
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[-3] ^= 1
    for content in (b"", b"PK", whole[:-1], whole[:60], bytes(damaged)):
        path.write_bytes(content)
        with pytest.raises(st.CheckpointError, match=r"^path: .*run.* is no run that can go on, or was dam"):
            st.Run.load(path)
    with pytest.raises(FileNotFoundError):
        st.Run.load(tmp_path / "none")
    with pytest.raises(ValueError, match=r"^path: the folder"):
        st.Run(ONE).save(tmp_path / "none" / "run")


def test_an_answer_to_another_point_is_not_taken():
    """Copies of a run may part ways, and another CPU may ask elsewhere."""
    run = st.Run(ONE, jac=True)
    other = copy.deepcopy(run)
    run.tell(run.ask(), 1.0, [1.0, 2.0])
    other.tell(other.ask(), 1.0, [2.0, 1.0])
    assert run.ask().ids[0].split("-")[0] == other.ask().ids[0].split("-")[0]
    refused(run, ValueError, "^ask: .* does not wait", other.ask(), 0.5, [1.0, 1.0])


# --- what is known from elsewhere --------------------------------------------------------------------------


@pairs(method=("cgd-auto", "newton", "gd"), source=SOURCES, scale=(None, (4.0, 0.5)), dtype=("f8", "f4"))
def test_a_run_with_the_log_of_another_asks_nothing_again(tmp_path, method, source, scale, dtype):
    if source == "cs" and dtype == "f4":
        pytest.skip("complex steps need float64")
    given = {"method": method, "x_scale": scale, "budget": st.Budget(iters=12)}
    wanted, x0 = minimized(source, ONE.astype(dtype), **given), ONE.astype(dtype)
    same(told(source, x0, log=tmp_path / "log", **given), wanted)
    again = st.Run(x0, log=tmp_path / "log", **SOURCES[source][0], **given)
    same(again.result(), wanted)
    assert not again.ask()


def test_a_run_that_died_goes_on_from_its_log_and_each_answer_is_a_line(tmp_path):
    wanted, lines = minimized("2-point"), []
    for cut in range(0, wanted.nfev, 9):
        path = tmp_path / str(cut)
        run = st.Run(ONE, log=str(path))
        for _ in range(cut):
            ask = run.ask(1)
            run.tell(ask, plain(ask.points[0]))
        del run
        assert len(path.read_text().splitlines()) == cut
        same(told("2-point", log=path), wanted)
        assert len(path.read_text().splitlines()) == wanted.nfev
    run = st.Run(ONE, jac=True, log=lines.append)
    run.tell(run.ask(), 3.0, [1.0, 2.0])
    assert [lines[0][name] for name in ("x", "f", "g", "row")] == [ONE.tolist(), 3.0, [1.0, 2.0], None]


def test_a_run_that_was_saved_goes_on_with_its_log(tmp_path):
    run = st.Run(ONE, log=str(tmp_path / "log"))
    run.tell(run.ask(), plain(ONE))
    run.save(tmp_path / "run")
    again = st.Run.load(tmp_path / "run")
    while ask := again.ask():
        again.tell(ask, [plain(x) for x in ask.points])
    same(again.result(), minimized("2-point"))
    assert len((tmp_path / "log").read_text().splitlines()) == again.result().nfev


def test_the_log_of_another_problem_is_refused(tmp_path):
    told("2-point", log=tmp_path / "log")
    with pytest.raises(ValueError, match=r"^log: line 1 of .* is no evaluation .* expected 3 var"):
        st.Run([1.0, 2.0, 3.0], log=tmp_path / "log")


@pairs(source=("together", "apart", "2-point", "3-point"), scale=(None, (4.0, 0.5)), how=("file", "deepcopy"))
def test_points_that_were_evaluated_before_are_not_asked_for(tmp_path, source, scale, how):
    wanted = minimized(source, x_scale=scale)
    seen = []
    told(source, x_scale=scale, log=lambda line: seen.append(line))
    x = np.array([line["x"] for line in seen])
    known = {"f": [plain(one) for one in x]}
    if source in ("together", "apart"):
        known["g"] = [slope(one) for one in x]
    run = st.Run(ONE, x_scale=scale, **SOURCES[source][0])
    few = {name: value[::2] for name, value in known.items()}
    run.tell(x=x[::2], **few)
    if how == "file":
        run.save(tmp_path / "run")
        run = st.Run.load(tmp_path / "run")
    else:
        run = copy.deepcopy(run)
    asked = 0
    while ask := run.ask():
        asked += len(ask)
        each, gradients = answers(ask)
        run.tell(ask, *([each[0], gradients[0]] if gradients else [each[0] if len(ask) == 1 else each]))
    same(run.result(), wanted)
    assert 0 < asked <= len(seen) - len(set(map(bytes, x[::2]))) + 2


def test_a_value_known_from_before_answers_what_waits():
    run = st.Run(ONE, jac="3-point")
    run.tell(run.ask(), plain(ONE))
    ask = run.ask()
    run.tell(x=ask.points[1:], f=[plain(one) for one in ask.points[1:]])
    assert run.ask().ids == ask.ids[:1]
    refused(run, ValueError, "^id: .* told already", ask.ids[2], 1.0)
    run.tell(x=ask.points[0], f=plain(ask.points[0]))
    assert run.ask().ids != ask.ids[:1]
    assert run.result().nit + run.result().nfev >= 5


def test_a_gradient_is_checked_where_that_is_wished():
    def tell_all(slope_of):
        run = st.Run(ONE, jac=True, check_gradient=True)
        while ask := run.ask():
            run.tell(ask, plain(ask.points[0]), slope_of(ask.points[0]))
        return run.result()

    same(tell_all(slope), minimized("together", check_gradient=True))
    with pytest.raises(ValueError, match=r"^jac: it .* at x0"):
        tell_all(lambda x: -slope(x))


@pytest.mark.parametrize(
    ("error", "text", "given"),
    [
        (TypeError, "f: expected what was found there", {"x": ONE}),
        (TypeError, "x: give either an ask", {"x": ONE, "f": 1.0, "ask": "0-0"}),
        (ValueError, r"x: expected shape \(2,\) or \(k, 2\), got shape \(3,\)", {"x": np.ones(3), "f": 1.0}),
        (ValueError, r"x: expected 2 numbers, .* all finite", {"x": [math.nan, 1.0], "f": 1.0}),
        (ValueError, "f: expected 2 values", {"x": np.ones((2, 2)), "f": [1.0, 2.0, 3.0]}),
        (TypeError, "f: expected a real scalar", {"x": ONE, "f": "low"}),
        (ValueError, "g: expected 2 gradients", {"x": np.ones((2, 2)), "f": [1.0, 2.0], "g": [[1.0, 2.0]]}),
        (ValueError, r"g: expected shape \(2,\)", {"x": ONE, "f": 1.0, "g": [1.0, 2.0, 3.0]}),
    ],
)
def test_wrong_values_from_before_are_refused_and_the_run_goes_on(error, text, given):
    run = st.Run(ONE, jac=True)
    before = run.ask().ids
    with pytest.raises(error, match=f"^{text}"):
        run.tell(**given)
    assert run.ask().ids == before
    assert run.result().nfev == 0
    while ask := run.ask():
        run.tell(ask, plain(ask.points[0]), slope(ask.points[0]))
    same(run.result(), minimized("together"))
    with pytest.raises(ValueError, match=r"^x: the run has ended"):
        run.tell(x=ONE, f=1.0)
