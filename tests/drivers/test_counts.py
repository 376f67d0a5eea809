"""Counts against a wrapper that counts by itself; and no point evaluated twice."""

import numpy as np
import pytest

import steepen as st

from ..objectives import BY_NAME, METHODS, PENALISED, Array
from ..pairs import pairs
from .counting import OF_VALUES, SOURCES, Counting, from_source, tagged

SECOND = ("hvp", "hess", None)
STEPS = {"fixed": None, "armijo": st.steps.Armijo()}
BEALE = BY_NAME["beale"]
NONE = {"fun": 0, "grad": 0, "hvp": 0, "hess": 0}


def run(counting, x0, method, source, step, second, **more):
    fun, given = from_source(counting, source)
    if second is not None:
        given[second] = getattr(counting, second)
    if method in PENALISED:
        given["lam"] = 0.05
    rule = counting.problem.step if step == "fixed" else STEPS[step]
    return st.minimize(fun, x0, method=method, step=rule, **given, **more)


def by_chance(method, source, second):
    """Whether points may coincide: differences of differences have shifts and probes on the same axes."""
    return method == "newton" and second is None and source in OF_VALUES


@pairs(name=("beale", "near_saddle", "quadratic"), method=METHODS, source=SOURCES, step=STEPS, second=SECOND)
def test_every_call_is_counted_and_none_is_made_twice(name, method, source, step, second):
    counting = Counting(BY_NAME[name])
    at: list[tuple[st.State, tuple[int, ...]]] = []

    def callback(state: st.State):
        at.append((state, tuple(counting.count(part) for part in ("fun", "grad", "hvp"))))

    x0, budget = counting.problem.x0, st.Budget(iters=6)
    res = run(counting, x0, method, source, step, second, budget=budget, callback=callback)
    counts = tuple(counting.count(name) for name in NONE)
    assert (res.nfev, res.nhvp, res.nhev) == (counts[0], *counts[2:])
    assert counts[1] == (0 if source in OF_VALUES else res.njev)
    if not by_chance(method, source, second):
        assert counting.repeated() == NONE
    # the callback is told all that was evaluated before it; the trace, what was when x_k was reached
    trace, ahead, before = res.trace, 0 if step == "armijo" else 1, 0
    assert len(at) == res.nit
    for state, (fun, grad, hvp) in at:
        k = state.k
        assert (state.nfev, state.nhvp) == (fun, hvp)
        assert trace.nhvp[k] == hvp
        if source in OF_VALUES:
            assert before < trace.nfev[k] + ahead < fun
            assert trace.njev[k] < state.njev
        else:
            assert state.njev == grad
            assert trace.nfev[k] == fun - ahead
            assert grad - trace.njev[k] == (ahead if source == "both" else 1)
        before = fun


SEVERAL = np.array([[1.0, 1.0], [3.0, 0.5], [0.2, -0.4], [2.9, 0.4], [0.5, 0.6]])
"""Starts near and far, one of them at the minimum of `beale`."""


@pytest.mark.bits  # the tag of a row is a variable: it must not move at all
@pairs(method=METHODS, source=SOURCES, step=STEPS, second=SECOND)
def test_rows_are_counted_one_by_one(method, source, step, second):
    counting, x0 = Counting(tagged(BEALE)), np.concatenate([SEVERAL, np.arange(5.0)[:, None]], axis=1)
    res = run(counting, x0, method, source, step, second, gtol=1e-3, budget=st.Budget(iters=8))
    assert res.nit[1] == 0, "this row starts at the minimum"
    assert res.nfev.tolist() == counting.of_rows("fun", 5)
    assert res.nhvp.tolist() == counting.of_rows("hvp", 5)
    assert res.nhev.tolist() == counting.of_rows("hess", 5)
    if source not in OF_VALUES:
        assert res.njev.tolist() == counting.of_rows("grad", 5)
    if not by_chance(method, source, second):
        assert counting.repeated() == NONE


class Failing(Counting):
    """Raises at the j-th call of one of its functions, after noting it."""

    def __init__(self, problem, what, j):
        super().__init__(problem)
        self._what, self._left = what, j

    def _note(self, name, x: Array, *more: Array):
        super()._note(name, x, *more)
        if name == self._what:
            self._left -= len(np.atleast_2d(x))
            if self._left < 0:
                raise InterruptedError


@pairs(
    method=("newton", "cgd", "cgd-fd", "cgd-auto"), source=SOURCES, second=SECOND, rows=(None, 2),
    what=tuple(NONE), j=(0, 1, 5, 11),
)  # fmt: skip
def test_a_call_that_raises_is_counted(method, source, second, rows, what, j):
    x0 = BEALE.x0 if rows is None else np.stack([BEALE.x0] * rows)
    counting = Failing(BEALE, what, j)
    try:
        result = run(counting, x0, method, source, "armijo", second, budget=st.Budget(iters=5))
    except InterruptedError as error:
        result = error.partial_result
    found = {"fun": result.nfev, "grad": result.njev, "hvp": result.nhvp, "hess": result.nhev}
    for name, count in found.items():
        if name == "grad" and (source in OF_VALUES or (source == "both" and what == "fun")):
            continue  # no calls of their own
        assert np.sum(count) == counting.count(name), name
