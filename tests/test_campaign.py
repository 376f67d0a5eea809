"""Runs of the campaign, every one that was ever wrong, and the instruments it is made with."""

import math
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.campaign import trial
from benchmarks.campaign.cases import by_values, case, hard
from benchmarks.campaign.referee import Claim, judge
from benchmarks.campaign.targets import targets
from benchmarks.problems import problems

import steepen as st

from .pairs import WHOLE, sample

TABLES = {"all": (case, 1000 if WHOLE else 60), "by values": (by_values, 200 if WHOLE else 20)}
BLOCK = 20


@pytest.mark.parametrize(
    ("name", "first"), [(name, i) for name, (_, runs) in TABLES.items() for i in range(0, runs, BLOCK)]
)
@pytest.mark.bits  # its account holds the functions themselves
def test_every_run_keeps_the_contract(name, first):
    cases = map(TABLES[name][0], range(first, first + BLOCK))
    assert [(one.number, fault) for one in cases for fault in trial.run(one).faults] == []


ONCE_FALSE = (
    # a soft direction that −∇f does not show; the same, by differences
    *(7007, 26990, 27942, 31220, 64580, 82887, 98976, 19662, 31553, 41838, 51034),
    # probes longer than x for the sake of a noise that was none; noise in f, and more in its differences
    *(19712, 22266, 77384, 19867, 27988, 96921),
    # a variable held at its bound by an uncertain gradient; an f below any number; slopes of NaN
    *(40395, 95037, 27647, 35905, 60050, 89057),
    # an iteration too many, for another gradient
    *(16618, 22314, 65613),
    # by differences: noise that hides a valley, noise taken for a curvature, rounding of x taken for noise
    *(79882, 1698, 84353),
    # numbers beyond those of float64; what was learnt elsewhere; a start on waves shorter than differences
    *(81050, 30988, 9835, 24645, 6528, 95426, 19951, 9500, 46095),
    # x of 1e-150, where f next to it is 1e290; a probe far longer than x
    *(3266, 11968, 81475, 99859, 12385),
)
ONCE_FALSE_BY_VALUES = (
    # noise taken for a curvature, or hiding a valley; those that turn with last bits are left to the rate
    *(502, 627, 2374, 4224, 5007, 6332, 6437, 6449, 7527, 1757, 2997),
    # a function on a scale of 1e-9 and less, taken for noise, or probed from far away
    *(40, 295, 840, 4610, 22875, 803530),
    # a slope at a bound, over too long a difference, or lost in noise; central differences of fixed lengths
    *(21424, 54469, 23237, 23917),
    # differences of 0 between two values of a quantised f
    *(700086, 700671),
)
ONCE_HARD = (
    # kinks that were called noise, or converged, and others; few digits
    *(342, 582, 0, 9, 1, 4, 10, 13, 19, 25),
    # resumed: other bits by a cut at evaluations, or at gradients; a value that was not counted
    *(56, 2, 14),
)


ONCE = [
    *((case, number) for number in ONCE_FALSE), *((by_values, number) for number in ONCE_FALSE_BY_VALUES),
    *((hard, number) for number in ONCE_HARD), pytest.param(case, 93055, marks=pytest.mark.slow),
]  # fmt: skip


@pytest.mark.parametrize(("table", "number"), ONCE, ids=lambda of: getattr(of, "__name__", str(of)))
@pytest.mark.bits  # its account holds the functions themselves
def test_what_was_once_wrong_keeps_the_contract(table, number):
    assert not trial.run(table(number)).faults


SMALL = [t.name for t in targets().values() if t.group == "problems" and t.n <= 12]
ENDS = [(name, gtol) for name in SMALL for gtol in (None, 0.0)]


@pytest.mark.parametrize(("name", "gtol"), sample(ENDS, 16, always=[("problems:meyer", None)]))
@pytest.mark.bits  # its account holds the functions themselves
def test_the_problems_end_honestly(name, gtol):
    target = targets()[name]
    given = {"target": target, "x0": target.centre, "method": "cgd-auto", "budget": (("iters", 1500),)}
    assert not trial.run(replace(SPHERE, gtol=gtol, step=None, **given)).faults


KINKS = [hard(number) for number in (267, 9, 15, 0)]  # one of each kind
SPHERE = replace(
    case(0), target=targets()["functions:sphere"], x0=np.array([1.0, 2.0]), method="gd", step=0.1, more=(),
    derivatives="given", bounds=None, lam=None, gtol=None, budget=(("iters", 300),),
)  # fmt: skip
LOWEST = -math.log(50) / 50  # of exp(50x) − x
TWO_POINT = {"derivatives": "2-point"}
BOX = ((2.0, 3.0), (-1.0, 1.0))


@pytest.mark.parametrize(
    ("name", "x", "word", "more"),
    [
        ("exp50", [LOWEST + 1e-6], "right", {}),  # 1e-9 of f above the minimum
        ("exp50", [LOWEST + 1e-3], "false", {}),
        ("functions:rosenbrock", [1.0, 1.0 + 1e-9], "right", {}),
        ("functions:rosenbrock", [1.001, 1.002], "false", {}),
        ("problems:brown-badly-scaled", [1e6, 2e-6], "right", {}),
        ("problems:brown-badly-scaled", [1e6, 0.0], "false", {}),
        ("power-8", [1e-3, 0.0], "false", {}),  # flat, and yet not at its lowest
        ("kink", [1.0, 1.0], "right", {}),
        ("offset", [1.0001, 1.0], "right", {}),  # 1e-8 above 2e10
        ("sphere-noise1e-06", [1e-4, 1e-4], "right", {}),
        ("sphere-noise1e-06", [0.1, 0.1], "false", {}),
        ("problems:misra1a-1", problems["misra1a-1"].certified, "right", {}),
        ("problems:misra1a-1", [500.0, 1e-4], "false", {}),
        # the gradient
        ("functions:sphere", [1e-6, 0.0], "right", {"gtol": 2.1e-6}),
        ("functions:sphere", [1e-6, 0.0], "false", {"gtol": 1.9e-6}),
        ("functions:sphere", [1e-200, 0.0], "false", {"gtol": 0.0}),  # its square is zero, it is not
        # bounds
        *(("functions:sphere", [2.0, 0.0], "right", {"gtol": gtol, "bounds": BOX}) for gtol in (None, 1e-9)),
        *(("functions:sphere", [2.0, 0.0], "false", {"gtol": gtol}) for gtol in (None, 1e-9)),
        # what differences cannot see is an excuse for the gradient and not for f: on the valley's floor
        *(("functions:rosenbrock", [1 + move, (1 + move) ** 2], word, {"gtol": gtol, **TWO_POINT})
          for move, gtol, word in ((1e-6, 0.0, "own error"), (1e-3, 0.0, "false"), (1e-6, None, "false"))),
    ],
)  # fmt: skip
def test_the_referee_knows_the_lowest_value_and_the_gradient(name, x, word, more):
    one = replace(SPHERE, target=targets()[name], x0=np.array(x, dtype=float), **more)
    said = judge(one, Claim(one.x0, float(one.target.fun(one.x0)), one.target.grad(one.x0), one.gtol))
    assert said.partition(":")[0] == word


@pytest.mark.parametrize("one", KINKS, ids=lambda one: one.target.name)
def test_the_referee_knows_the_minimum_of_a_kink(one):
    lowest, f0 = one.target.lowest, float(one.target.fun(one.x0))
    at_x0 = Claim(one.x0, f0, one.target.grad(one.x0), None)
    for claim in (at_x0, replace(at_x0, gtol=1e-5), replace(at_x0, fun=lowest + 1e-5 * (f0 - lowest))):
        assert judge(one, claim).startswith("false")
    assert judge(one, replace(at_x0, fun=lowest)) == "right"


def test_a_gradient_that_is_wrong_in_its_floats_is_the_functions_own_error():
    one = replace(SPHERE, target=replace(SPHERE.target, grad=lambda x: 2 * x - 0.01))
    x = np.array([0.005, 0.005])
    assert judge(one, Claim(x, float(one.target.fun(x)), one.target.grad(x), 1e-5)) == "own error"


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("exception", lambda res: 1 / 0),
        ("warning", lambda res: (np.float64(1e308) * 10, res)[1]),
        ("count", lambda res: replace(res, njev=res.njev + 1)),
        ("overrun", lambda res: replace(res, nit=301)),
        ("value", lambda res: replace(res, fun=res.fun * (1 + 1e-15))),
        ("value", lambda res: replace(res, jac=0 * res.jac)),
        ("best", lambda res: replace(res, best=replace(res.best, fun=res.fun + 1.0))),
        ("trace", lambda res: replace(res, nit=res.nit - 1)),
        ("status", lambda res: replace(res, status=st.Status.NONFINITE_VALUE, success=False)),
        ("finite", lambda res: replace(res, fun=math.nan)),
        ("false success", lambda res: replace(res, x=np.ones(2), fun=2.0, jac=np.full(2, 2.0))),
        ("bounds", lambda res: replace(res, x=np.full(2, 9.0))),
    ],
)
@pytest.mark.bits  # its account holds the functions themselves
def test_a_broken_promise_is_found(monkeypatch, kind, change):
    honest, one = st.minimize, replace(SPHERE, bounds=((-5.0, 5.0), (-5.0, 5.0)))
    assert trial.run(one) == trial.Outcome(["CONVERGED"], ["right"])
    monkeypatch.setattr(st, "minimize", lambda *args, **given: change(honest(*args, **given)))
    assert kind in {fault.kind for fault in trial.run(one).faults}


@pytest.mark.bits  # its account holds the functions themselves
def test_a_call_outside_the_bounds_and_a_run_that_begins_anew_are_found(monkeypatch):
    honest, one = st.minimize, replace(SPHERE, bounds=((-5.0, 5.0), (-5.0, 5.0)), cut=("iters", 0.5))
    assert not trial.run(one).faults

    def straying(fun, x0, checkpoint=None, **given):
        fun(x0 - 100)
        return honest(fun, x0, **given)

    monkeypatch.setattr(st, "minimize", straying)
    assert {fault.kind for fault in trial.run(one).faults} == {"bounds", "count", "resumed"}
