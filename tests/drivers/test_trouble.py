"""What functions do beside computing: they raise, warn, change things, call `minimize`, run in threads."""

import contextvars
import itertools
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import steepen as st
from steepen import Status

from ..calls import At, raising, same
from ..objectives import BY_NAME, METHODS
from ..pairs import pairs

BEALE, TEN = BY_NAME["beale"], BY_NAME["rosenbrock10"]
ROWS = BEALE.x0 + np.array([[0.0, 0.0], [0.3, -0.2], [-0.1, 0.4]])


class OddError(Exception):
    """It takes no attributes but Python's own."""

    def __setattr__(self, name, value):
        if not name.startswith("__"):
            raise AttributeError(name)
        super().__setattr__(name, value)


ERRORS = {
    "StopIteration": lambda: StopIteration("mine"),
    "KeyboardInterrupt": lambda: KeyboardInterrupt("mine"),
    "SystemExit": lambda: SystemExit("mine"),
    "GeneratorExit": lambda: GeneratorExit("mine"),
    "StopAsyncIteration": lambda: StopAsyncIteration("mine"),
    "Warning": lambda: RuntimeWarning("mine"),
    "group": lambda: BaseExceptionGroup("mine", [KeyboardInterrupt()]),
    "LinAlgError": lambda: np.linalg.LinAlgError("mine"),
}
KINDS = {
    "one": {"x0": BEALE.x0},
    "armijo": {"x0": BEALE.x0, "method": "gd"},
    "many": {"x0": ROWS},
    "many, fixed": {"x0": ROWS, "method": "gd", "step": 0.001},
    "2-point": {"x0": BEALE.x0, "jac": "2-point"},
    "3-point, many": {"x0": ROWS, "jac": "3-point"},
    "both": {"x0": BEALE.x0, "jac": True},
    "check": {"x0": BEALE.x0, "check_gradient": True},
    "workers": {"x0": BEALE.x0, "jac": "2-point", "workers": map},
    "checkpoint": {"x0": BEALE.x0},
    "checkpoint, many": {"x0": ROWS, "jac": "2-point"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", ["fun", "jac", "hess", "step"])
@pytest.mark.parametrize("j", [0, 1, 2, 7])
def test_a_stop_iteration_of_a_function_leaves_as_one(tmp_path, kind, what, j):
    """It is no end of a generator of ours, and no end of a list of values."""
    check_error(tmp_path, "StopIteration", kind, what, j)


@pairs(error=ERRORS, kind=KINDS, what=("fun", "jac", "hess", "step", "callback"), j=(0, 1, 4))
def test_what_a_function_raises_leaves_as_it_is_with_the_run_so_far(tmp_path, error, kind, what, j):
    if error != "StopIteration" or what != "callback":  # of a callback, it is a way to end a run
        check_error(tmp_path, error, kind, what, j)


def check_error(tmp_path, error, kind, what, j):
    raised = ERRORS[error]()
    given = {"fun": BEALE.fun, "jac": BEALE.grad, "hess": BEALE.hess, "method": "newton"} | KINDS[kind]
    if given["jac"] is True:
        given["fun"] = lambda x: (BEALE.fun(x), BEALE.grad(x))
    if kind.startswith("checkpoint"):
        given["checkpoint"] = tmp_path / "run.db"
    if what == "callback":
        given["callback"] = lambda s: None
    if what == "step":
        given["step"] = lambda k: 0.001
    if not callable(given.get(what)) or (kind == "workers" and what == "fun"):
        given |= {"workers": None}
    if not callable(given.get(what)):
        return
    given[what] = At(given[what], j, raising(raised))
    fun, x0 = given.pop("fun"), given.pop("x0")
    try:
        st.minimize(fun, x0, budget=st.Budget(iters=9), **given)
    except BaseException as caught:
        assert caught is raised  # noqa: PT017
        assert str(caught).startswith("mine")  # noqa: PT017
        end = Status.INTERRUPTED if error == "KeyboardInterrupt" else Status.FAILED
        partial = caught.partial_result
        assert end in np.atleast_1d(partial.status)
        assert not np.all(partial.success)
        counted = {"fun": partial.nfev, "jac": partial.njev, "hess": partial.nhev}
        if what in counted and np.ndim(x0) == 1:
            assert counted[what] >= j
    else:
        assert given[what].calls <= j


def test_an_error_that_takes_no_attributes_leaves_too():
    with pytest.raises(OddError) as caught:
        st.minimize(At(BEALE.fun, 3, raising(OddError("mine"))), BEALE.x0, jac=BEALE.grad)
    assert not hasattr(caught.value, "partial_result")


@pairs(kind=("one", "many", "2-point", "3-point, many"), what=("fun", "jac"))
def test_a_warning_that_is_turned_into_an_error_is_the_users(kind, what):
    given = {"jac": BEALE.grad} | KINDS[kind]
    fun, x0 = BEALE.fun, given.pop("x0")

    def warn(function):
        def call(x):
            warnings.warn("of mine", UserWarning, stacklevel=1)
            return function(x)

        return call

    given["jac"] = warn(given["jac"]) if what == "jac" and callable(given["jac"]) else given["jac"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if what == "fun" or callable(given["jac"]):
            with pytest.raises(UserWarning, match="of mine") as caught:
                st.minimize(warn(fun) if what == "fun" else fun, x0, **given)
            assert hasattr(caught.value, "partial_result")


def test_the_traceback_of_an_error_shows_the_search_and_the_loop():
    """Users see where in the run their function was called."""
    with pytest.raises(ZeroDivisionError) as caught:
        st.minimize(At(BEALE.fun, 3, lambda x: 1 / 0), BEALE.x0, jac=BEALE.grad)
    names = [entry.name for entry in caught.traceback]
    assert names.index("minimize") < names.index("along") < names.index("<lambda>")


WRONG = {
    "fun": [None, "one", 1j, [1.0, 2.0], np.ones(3), {}, lambda: 0],
    "jac": [None, 1.0, "ones", np.ones(3), np.ones((2, 2)), [1.0, 1j], np.array([None, 1.0]), np.ones(0)],
    "hess": [None, 1.0, np.ones(2), np.ones((3, 3)), np.ones((2, 2)) * 1j, "ones"],
    "hvp": [None, 1.0, np.ones(3), [1.0, 1j]],
}


@pytest.mark.parametrize(
    ("name", "bad"), [(name, bad) for name in WRONG for bad in WRONG[name]], ids=lambda v: str(v)[:9]
)
@pytest.mark.parametrize("j", [0, 2])
def test_an_answer_of_another_shape_or_kind_is_refused_by_name(name, bad, j):
    """Also where the first answers were right."""
    given = {"fun": BEALE.fun, "jac": BEALE.grad, "hess": BEALE.hess, "method": "newton"}
    if name == "hvp":
        given = {"fun": BEALE.fun, "jac": BEALE.grad, "hvp": BEALE.hvp, "method": "cgd"}
    given[name] = At(given[name], j, lambda *_: bad)
    with pytest.raises((TypeError, ValueError), match=f"^{name}: expected") as caught:
        st.minimize(given.pop("fun"), BEALE.x0, **given)
    assert caught.value.partial_result.status is Status.FAILED


def counted(problem, calls):
    """Return f and ∇f of a problem that spoil the point they are given, after noting it."""

    def spoiling(function):
        def call(x):
            calls.append(x.tobytes())
            answer = function(x.copy())
            x[...] = np.nan
            return answer

        return call

    return spoiling(problem.fun), spoiling(problem.grad)


@pairs(
    method=("gd", "newton", "cgd-fd", "cgd-auto"), jac=("callable", "2-point", "3-point"), check=(False, True)
)
def test_a_function_that_changes_its_x_changes_nothing_else(tmp_path, method, jac, check):
    x0, calls, plain = BEALE.x0.copy(), [], []
    fun, grad = counted(BEALE, calls)
    given = {"method": method, "budget": st.Budget(iters=8), "check_gradient": check, "trace": "x"}

    def noted(function):
        return lambda x: plain.append(x.tobytes()) or function(x)

    def derivative(g):
        return g if jac == "callable" else jac

    expected = st.minimize(noted(BEALE.fun), x0, jac=derivative(noted(BEALE.grad)), **given)
    same(st.minimize(fun, x0, jac=derivative(grad), **given), expected)
    assert calls == plain
    assert (x0 == BEALE.x0).all()
    calls.clear()
    path = tmp_path / "run.db"  # what is written to a checkpoint is where f was evaluated
    with pytest.raises(ZeroDivisionError):
        st.minimize(At(fun, 7, lambda x: 1 / 0), x0, jac=derivative(grad), checkpoint=path, **given)
    same(st.minimize(fun, x0, jac=derivative(grad), checkpoint=path, **given), expected)
    assert sorted(calls) == sorted(plain)


@pytest.mark.parametrize("start", [BEALE.x0, ROWS], ids=["one", "many"])
def test_a_function_may_call_minimize_itself(start):
    """f(x) = min over y of (y − x)² + beale(x): the inner run ends at y = x."""
    inner = []

    def fun(x):
        if x.ndim == 2:
            return np.array([fun(row) for row in x])
        res = st.minimize(
            lambda y: ((y - x) ** 2).sum(), 0 * x, jac=lambda y: 2 * (y - x), method="gd", step=0.5
        )
        inner.append(res.success)
        return BEALE.fun(res.x)

    res, plain = (st.minimize(f, start, jac=BEALE.grad, gtol=1e-9) for f in (fun, BEALE.fun))
    assert all(inner)
    np.testing.assert_allclose(res.x, plain.x, rtol=1e-7)
    assert np.all(res.nfev == plain.nfev)


def test_ten_threads_give_the_results_of_one():
    cases = [
        {"method": method, "jac": jac, "trace": "x", "budget": st.Budget(iters=12)}
        for method, jac in itertools.product(METHODS, (TEN.grad, "2-point"))
    ]
    alone = [st.minimize(TEN.fun, TEN.x0, **given) for given in cases]
    together = threading.Barrier(10)

    def go(number):
        together.wait()
        return [st.minimize(TEN.fun, TEN.x0, **given) for given in cases[number % 2 :: 2]]

    with ThreadPoolExecutor(10) as pool:
        for number, found in enumerate(pool.map(go, range(10))):
            for res, expected in zip(found, alone[number % 2 :: 2], strict=True):
                same(res, expected)


VARIABLE = contextvars.ContextVar("of mine", default=0)


@pytest.mark.parametrize("kind", ["one", "many", "many, fixed", "2-point", "check", "3-point, many"])
def test_a_context_variable_that_a_function_sets_is_seen_by_the_next_call_and_after_the_run(kind):
    given = {"jac": BEALE.grad} | KINDS[kind]

    def fun(x):
        VARIABLE.set(VARIABLE.get() + 1)
        calls.append(VARIABLE.get())
        return BEALE.fun(x)

    calls, token = [], VARIABLE.set(100)
    try:
        st.minimize(fun, given.pop("x0"), budget=st.Budget(iters=5), **given)
        assert calls == list(range(101, 101 + len(calls)))
        assert VARIABLE.get() == calls[-1]
    finally:
        VARIABLE.reset(token)


@pytest.mark.parametrize("kind", KINDS)
def test_the_error_state_of_numpy_is_the_users_inside_their_functions_and_after_the_run(tmp_path, kind):
    given, states = {"jac": BEALE.grad, "callback": lambda s: states.append(np.geterr())} | KINDS[kind], []
    given["jac"] = noting(given["jac"], states) if callable(given["jac"]) else given["jac"]
    fun = (lambda x: (BEALE.fun(x), BEALE.grad(x))) if given["jac"] is True else BEALE.fun
    if kind.startswith("checkpoint"):
        given["checkpoint"] = tmp_path / "run.db"
    given.pop("workers", None)
    with np.errstate(over="raise", invalid="print", divide="warn", under="raise"):
        mine = np.geterr()
        st.minimize(noting(fun, states), given.pop("x0"), budget=st.Budget(iters=5), **given)
        assert np.geterr() == mine
        with pytest.raises(ZeroDivisionError):  # also where one of them has raised
            st.minimize(lambda x: 1 / 0, BEALE.x0, jac=BEALE.grad)
        assert np.geterr() == mine
    assert len(states) > 5
    assert all(state == mine for state in states)


def noting(function, states):
    def call(*x):
        states.append(np.geterr())
        return function(*x)

    return call


BAD = {
    "nan": lambda x: np.full(x.shape[:-1], np.nan),
    "inf": lambda x: np.full(x.shape[:-1], np.inf),
    "huge": lambda x: 1e308 * (x[..., 0] - 1),
    "tiny": lambda x: 1e-308 * ((x - 1) ** 2).sum(axis=-1),
    "kink": lambda x: abs(x).sum(axis=-1),
    "step": lambda x: np.sign(x).sum(axis=-1),
    "level": lambda x: 0 * x[..., 0] + 1,
}
SLOPES = {
    "0": lambda x: 0 * x,
    "inf": lambda x: x * np.inf,
    "nan": lambda x: x * np.nan,
    "1e308": lambda x: 0 * x + 1e308,
    "1e-320": lambda x: 0 * x + 1e-320,
    "wrong": lambda x: -x,
    "2-point": "2-point",
    "3-point": "3-point",
}


@pairs(
    method=METHODS,
    fun=BAD,
    jac=SLOPES,
    step=(None, 1.0, 1e300),
    rows=(None, 2),
    bounds=(None, [(-3, 5), (-1e300, 2)]),
)
def test_no_warning_of_numpy_comes_from_the_runs_own_arithmetic(method, fun, jac, step, rows, bounds):
    """They are errors here; those of the functions are kept quiet."""
    x0 = np.array([1.5, -0.7]) if rows is None else np.array([[1.5, -0.7], [1e200, 1e-200]])

    def quiet(function):
        def call(*x):
            with np.errstate(all="ignore"):
                return function(*x)

        return call if callable(function) else function

    with warnings.catch_warnings(), np.errstate(all="warn"):
        warnings.simplefilter("error")
        res = st.minimize(
            quiet(BAD[fun]),
            x0,
            jac=quiet(SLOPES[jac]),
            method=method,
            step=step,
            bounds=bounds,
            budget=st.Budget(iters=8),
        )
        repr(res)
        res.hess_inv and res.hess_inv.todense()
    for status in np.atleast_1d(res.status):
        assert Status(status) is not Status.FAILED
