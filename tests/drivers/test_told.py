"""A run that is told its values is the run that `minimize` makes, wherever it is cut, copied and moved."""

import copy
import math
import pickle
import random

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
                run.tell(one, failure)
            else:
                run.tell(one, plain(x), *([slope(x)] if both else []))
    same(run.result(), wanted)


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
