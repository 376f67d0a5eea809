"""Counts against a wrapper that counts by itself; and no point evaluated twice."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

import steepen as st

from ..objectives import BY_NAME, METHODS, PENALISED, Array, Problem, eye_like


def tagged(problem: Problem) -> Problem:
    """Add a last variable that stays where it is, at a whole number: the tag of a row."""

    def off(x: Array) -> Array:
        return x[..., -1] - np.round(x[..., -1])

    def fun(x: Array) -> Array:
        return problem.fun(x[..., :-1]) + off(x) * off(x) / 2

    def grad(x: Array) -> Array:
        return np.concatenate([problem.grad(x[..., :-1]), off(x)[..., None]], axis=-1)

    def hess(x: Array) -> Array:
        H = eye_like(x)
        H[..., :-1, :-1] = problem.hess(x[..., :-1])
        return H

    start = (*problem.start, 0.0)
    return Problem(f"tagged_{problem.name}", fun, grad, hess, start, problem.step, problem.exact)


class Counting:
    """A problem that notes its every call: of which function, for which row, at which point.

    Rows are told apart by the tag of a `tagged` problem; all others count as row 0.
    """

    def __init__(self, problem: Problem):
        self.problem = problem
        self._tagged = problem.name.startswith("tagged")
        self.calls: dict[str, list[tuple[int, bytes]]] = {"fun": [], "grad": [], "hvp": [], "hess": []}

    def _note(self, name: str, x: Array, *more: Array) -> None:
        for parts in zip(*(np.atleast_2d(a) for a in (x, *more)), strict=True):
            tag = round(float(parts[0][-1].real)) if self._tagged else 0
            self.calls[name].append((tag, b"".join(part.tobytes() for part in parts)))

    def fun(self, x: Array) -> Array:
        self._note("fun", x)
        return self.problem.fun(x)

    def grad(self, x: Array) -> Array:
        self._note("grad", x)
        return self.problem.grad(x)

    def both(self, x: Array) -> tuple[Array, Array]:
        return self.fun(x), self.grad(x)

    def hvp(self, x: Array, v: Array) -> Array:
        self._note("hvp", x, v)
        return self.problem.hvp(x, v)

    def hess(self, x: Array) -> Array:
        self._note("hess", x)
        return self.problem.hess(x)

    def count(self, name: str) -> int:
        return len(self.calls[name])

    def of_rows(self, name: str, rows: int) -> list[int]:
        """How many calls there were for each row."""
        counts = Counter(tag for tag, _ in self.calls[name])
        return [counts[row] for row in range(rows)]

    def repeated(self) -> dict[str, int]:
        """How many calls were for a point where the same function had been evaluated before."""
        return {name: len(calls) - len(set(calls)) for name, calls in self.calls.items()}


class WithDerivatives:
    """A callable that brings its own derivatives, as `steepen.functions` do."""

    def __init__(self, counting: Counting):
        self.grad, self.hvp, self.hess, self._fun = counting.grad, counting.hvp, counting.hess, counting.fun

    def __call__(self, x: Array) -> Array:
        return self._fun(x)


SOURCES = ("callable", "both", "2-point", "3-point", "cs", "object")


def from_source(counting: Counting, source: str) -> tuple[Any, dict[str, Any]]:
    """Give the function and the `jac` argument of a source of gradients."""
    if source == "callable":
        return counting.fun, {"jac": counting.grad}
    if source == "both":
        return counting.both, {"jac": True}
    if source == "object":
        return WithDerivatives(counting), {}
    return counting.fun, {"jac": source}


METHOD = pytest.mark.parametrize("method", METHODS)
SOURCE = pytest.mark.parametrize("source", SOURCES)
SECOND = pytest.mark.parametrize("second", ["hvp", "hess", None])
STEPS = {"fixed": None, "armijo": st.steps.Armijo(), "quadratic": st.steps.Quadratic(fallback=0.01)}
STEP = pytest.mark.parametrize("step", STEPS)

BEALE = BY_NAME["beale"]


def run(
    counting: Counting, x0: Any, method: str, source: str, step: str, second: str | None, **more: Any
) -> st.Result:
    fun, given = from_source(counting, source)
    if second is not None:
        given[second] = getattr(counting, second)
    if method in PENALISED:
        given["lam"] = 0.05
    rule = counting.problem.step if step == "fixed" else STEPS[step]
    return st.minimize(fun, x0, method=method, step=rule, **given, **more)


def made_of_values(source: str) -> bool:
    return source in {"2-point", "3-point", "cs"}


NONE = {"fun": 0, "grad": 0, "hvp": 0, "hess": 0}


def by_chance(method: str, source: str, second: str | None) -> bool:
    """Whether points may coincide: differences of differences have shifts and probes on the same axes."""
    return method == "newton" and second is None and made_of_values(source)


def check_counts(res: st.Result, counting: Counting, source: str) -> None:
    assert res.nfev == counting.count("fun")
    assert res.nhvp == counting.count("hvp")
    assert res.nhev == counting.count("hess")
    if made_of_values(source):
        assert counting.count("grad") == 0
    else:
        assert res.njev == counting.count("grad")


@pytest.mark.parametrize("name", ["beale", "near_saddle", "quadratic"])
@METHOD
@SOURCE
@STEP
@SECOND
def test_every_call_is_counted_and_none_is_made_twice(
    name: str, method: str, source: str, step: str, second: str | None
):
    counting = Counting(BY_NAME[name])
    at: list[tuple[int, ...]] = []
    states: list[st.State] = []

    def callback(state: st.State) -> None:
        states.append(state)
        at.append(tuple(counting.count(part) for part in ("fun", "grad", "hvp")))

    res = run(
        counting, counting.problem.x0, method, source, step, second,
        budget=st.Budget(iters=6), callback=callback,
    )  # fmt: skip
    check_counts(res, counting, source)
    if not by_chance(method, source, second):
        assert counting.repeated() == NONE

    # the counts on the way: all that was evaluated before the callback, less f at the new point
    trace = res.trace
    assert trace is not None
    assert len(states) == res.nit
    ahead = 0 if step == "armijo" else 1
    for state, (fun, grad, hvp) in zip(states, at, strict=True):
        k = state.k
        assert state.nfev == trace.nfev[k] == fun - ahead
        assert state.nhvp == trace.nhvp[k] == hvp
        assert state.njev == trace.njev[k]
        if not made_of_values(source):
            assert state.njev == grad - (ahead if source == "both" else 0)


@pytest.mark.parametrize("method", ["gd", "cgd-fd", "cgd-bfgs", "newton"])
@pytest.mark.parametrize("source", ["2-point", "3-point", "cs"])
def test_what_a_gradient_by_differences_costs(method: str, source: str):
    """n values from "2-point" (f at the point is known, but not at a probe) and "cs", 2n from "3-point"."""
    counting = Counting(BY_NAME["quadratic"])
    second = "hess" if method == "newton" else None
    res = run(
        counting, counting.problem.x0, method, source, "fixed", second, gtol=0, budget=st.Budget(iters=5)
    )  # fmt: skip
    assert res.trace is not None
    n, probes = 3, int((res.trace.penalised | res.trace.guarded).sum()) if method == "cgd-fd" else 0
    assert res.nit == 5
    assert res.njev == 6 + probes
    each = {"2-point": n, "3-point": 2 * n, "cs": n}[source]
    at_probes = probes if source == "2-point" else 0
    assert counting.count("fun") == res.nfev == 6 + each * res.njev + at_probes


@pytest.mark.parametrize("method", ["cgd", "newton"])
def test_products_from_the_gradient_are_gradients(method: str):
    """The complex step costs a gradient a product, and one more the first time, for the check."""
    counting = Counting(BY_NAME["quadratic"])
    res = run(
        counting, counting.problem.x0, method, "callable", "fixed", None, gtol=0, budget=st.Budget(iters=5)
    )
    products = 5 if method == "cgd" else 15
    assert res.hvp_source == "complex step"
    assert res.njev == counting.count("grad") == 6 + products + 1
    assert res.nhvp == res.nhev == 0


@pytest.mark.parametrize("method", ["cgd", "newton"])
@pytest.mark.parametrize("how", ["refuses", "drops"])
def test_a_gradient_that_cannot_take_complex_points(method: str, how: str):
    counting = Counting(BY_NAME["quadratic"])

    def grad(x: Any) -> Any:
        if np.iscomplexobj(x):
            counting.calls["grad"].append((0, x.tobytes()))
            if how == "refuses":
                raise TypeError("real points only")
            return counting.problem.grad(x.real).astype(complex)
        return counting.grad(x)

    res = st.minimize(
        counting.fun,
        counting.problem.x0,
        method=method,
        jac=grad,
        step=0.01,
        gtol=0,
        budget=st.Budget(iters=5),
    )
    products = 5 if method == "cgd" else 15
    assert res.hvp_source == "difference"
    assert res.njev == counting.count("grad") == 6 + products + 1
    assert counting.repeated()["grad"] == 0


@METHOD
@pytest.mark.parametrize("library", ["jax", "torch"])
@pytest.mark.parametrize("step", ["fixed", "armijo"])
def test_autodiff_counts(method: str, library: str, step: str):
    """Compiled functions cannot be counted from outside: they must be those of the run with callables."""

    def fun(x: Any) -> Any:
        u, v = x[0], x[1]
        a, b, c = 1.5 - u + u * v, 2.25 - u + u * v * v, 2.625 - u + u * v * v * v
        return a * a + b * b + c * c

    common: dict[str, Any] = {
        "method": method,
        "step": BEALE.step if step == "fixed" else st.steps.Armijo(),
        "budget": st.Budget(iters=4),
    }
    if method in PENALISED:
        common["lam"] = 0.05
    counting = Counting(BEALE)
    known = {"newton": {"hess": counting.hess}, "cgd": {"hvp": counting.hvp}}.get(method, {})
    plain = st.minimize(counting.fun, BEALE.x0, jac=counting.grad, **known, **common)
    auto = st.minimize(fun, BEALE.x0, jac=library, **common)
    assert np.allclose(auto.x, plain.x, rtol=1e-6)
    for name in ("nit", "nfev", "njev", "nhvp", "nhev"):
        assert getattr(auto, name) == getattr(plain, name), name
    assert auto.trace is not None
    assert plain.trace is not None
    for name in ("nfev", "njev", "nhvp"):
        assert (getattr(auto.trace, name) == getattr(plain.trace, name)).all(), name


# --- batches ------------------------------------------------------------------------------------------


def several(problem: Problem) -> Any:
    """Starts near and far, one of them at the minimum of `beale`; each row has its tag."""
    points = np.array([[1.0, 1.0], [3.0, 0.5], [0.2, -0.4], [2.9, 0.4], [0.5, 0.6]])
    return np.concatenate([points, np.arange(5.0)[:, None]], axis=1)


@pytest.mark.bits  # the tag of a row is a variable: it must not move at all
@METHOD
@SOURCE
@STEP
@SECOND
def test_rows_are_counted_one_by_one(method: str, source: str, step: str, second: str | None):
    counting = Counting(tagged(BEALE))
    res = run(
        counting, several(BEALE), method, source, step, second, gtol=1e-3, budget=st.Budget(iters=8)
    )  # fmt: skip
    assert res.nit[1] == 0, "this row starts at the minimum"
    assert res.nfev.tolist() == counting.of_rows("fun", 5)
    assert res.nhvp.tolist() == counting.of_rows("hvp", 5)
    assert res.nhev.tolist() == counting.of_rows("hess", 5)
    if not made_of_values(source):
        assert res.njev.tolist() == counting.of_rows("grad", 5)
    if not by_chance(method, source, second):
        assert counting.repeated() == NONE
    trace = res.trace
    assert trace is not None
    for b in range(5):
        row = trace.row(b)
        for name in ("nfev", "njev", "nhvp"):
            column = getattr(row, name)
            assert column[0] == 0
            assert (np.diff(column) >= 0).all()
            assert column[-1] <= getattr(res, name)[b]


# --- calls that raise -------------------------------------------------------------------------------------


class Refusal(Exception):
    pass


class Failing(Counting):
    """Raises at the j-th call of one of its functions, after noting it."""

    def __init__(self, problem: Problem, what: str, j: int):
        super().__init__(problem)
        self._what, self._left = what, j

    def _note(self, name: str, x: Array, *more: Array) -> None:
        super()._note(name, x, *more)
        if name == self._what:
            self._left -= len(np.atleast_2d(x))
            if self._left < 0:
                raise Refusal


@pytest.mark.parametrize("method", ["newton", "cgd", "cgd-fd", "cgd-auto"])
@SOURCE
@SECOND
@pytest.mark.parametrize("rows", [None, 2])
def test_a_call_that_raises_is_counted(method: str, source: str, second: str | None, rows: int | None):
    x0 = BEALE.x0 if rows is None else np.stack([BEALE.x0] * rows)
    for what in ("fun", "grad", "hvp", "hess"):
        for j in (0, 1, 2, 5, 11):
            counting = Failing(BEALE, what, j)
            try:
                result = run(counting, x0, method, source, "armijo", second, budget=st.Budget(iters=5))
            except Refusal as error:
                result: Any = error.partial_result  # pyright: ignore
            if source == "both" and what == "grad":
                assert np.sum(result.nfev) == counting.count("fun")
            found = {"fun": result.nfev, "grad": result.njev, "hvp": result.nhvp, "hess": result.nhev}
            for name, count in found.items():
                if name == "grad" and (made_of_values(source) or (source == "both" and what == "fun")):
                    continue  # no calls of their own
                assert np.sum(count) == counting.count(name), (what, j, name)
