"""The generator of the gest-api standard: the run of `minimize`, point by point, for whoever asks."""

import copy
import pickle

import numpy as np
import pytest

import steepen as st

pytest.importorskip("gest_api", reason="gest-api is not installed: pip install 'steepen[gest]'")

from gest_api.generator import Generator
from gest_api.vocs import VOCS

from steepen.integrations.gest import CGDGenerator

from ..calls import same
from ..test_scale import plain

BOX = {"x1": [-2.0, 2.0], "x2": [-1.0, 3.0]}
START = {"x2": 1.0, "x1": -1.2}
GIVEN = {"bounds": list(BOX.values()), "x_scale": "auto"}


def made(goal="MINIMIZE", x0=START, variables=BOX, constants=None, **given):
    vocs = VOCS(variables=copy.deepcopy(variables), objectives={"f": goal}, constants=constants or {})
    return CGDGenerator(vocs, x0, **given)


def evaluated(points, sign=1.0):
    return [{**one, "f": sign * plain(np.array([one["x1"], one["x2"]]))} for one in points]


def test_it_is_the_run_of_minimize():
    generator = made()
    assert isinstance(generator, Generator)
    assert generator.returns_id
    numbers = []
    while points := generator.suggest(None):
        numbers += [one["_id"] for one in points]
        generator.ingest(evaluated(points[::-1]))
    generator.finalize()
    assert len(set(numbers)) == len(numbers)
    same(generator.runs[0].result(), st.minimize(plain, [-1.2, 1.0], **GIVEN))


def test_what_is_maximised_is_minus_what_is_minimised():
    generator = made("MAXIMIZE", jac="3-point", gtol=1e-8, method="bfgs")
    while points := generator.suggest(None):
        generator.ingest(evaluated(points, -1.0))
    wanted = st.minimize(plain, [-1.2, 1.0], jac="3-point", gtol=1e-8, method="bfgs", **GIVEN)
    same(generator.runs[0].result(), wanted)


def test_a_host_gets_as_many_points_as_it_wants_and_none_twice():
    """What one run does not need is a start of the next; all are the runs of `minimize`."""
    generator, seen = made(), set()
    for _ in range(60):
        points = generator.suggest(5)
        assert len(points) == 5
        assert not seen & {one["_id"] for one in points}
        seen |= {one["_id"] for one in points}
        generator.ingest(evaluated(points))
    assert len(generator.runs) >= 5
    for run in generator.runs[:3]:
        result = run.result()
        if result.status is not st.Status.WAITING:
            assert result.success
    low, high = np.array(list(BOX.values())).T
    assert all((low <= run.result().x).all() and (run.result().x <= high).all() for run in generator.runs)
    same(generator.runs[0].result(), st.minimize(plain, [-1.2, 1.0], **GIVEN))


def test_answers_come_one_by_one_in_any_order_while_others_are_evaluated():
    generator, rng, out = made(jac="3-point"), np.random.default_rng(0), []
    for _ in range(300):
        out += generator.suggest(int(rng.integers(0, 3)))
        if out:
            generator.ingest(evaluated([out.pop(int(rng.integers(len(out))))]))
    while generator.runs[0].ask():
        generator.ingest(evaluated(out or generator.suggest(None)))
        out = generator.suggest(2)
    same(generator.runs[0].result(), st.minimize(plain, [-1.2, 1.0], jac="3-point", **GIVEN))


def test_constants_are_part_of_every_point_and_observables_are_ignored():
    vocs = VOCS(variables=dict(BOX), objectives={"f": "MINIMIZE"}, constants={"a": 0.5}, observables=["t"])
    generator = CGDGenerator(vocs)
    points = generator.suggest(3)
    assert [one["a"] for one in points] == [0.5] * 3
    generator.ingest([{**one, "t": "late"} for one in evaluated(points)])


def test_the_start_is_x0_or_the_default_or_the_middle():
    def first(**given):
        ((point),) = made(**given).suggest(1)
        return point["x1"], point["x2"]

    assert first() == (-1.2, 1.0)
    assert first(x0=[0.5, 0.25]) == (0.5, 0.25)
    assert first(x0=None) == (0.0, 1.0)
    named = {"x1": {"type": "ContinuousVariable", "domain": [-2, 2], "default_value": 0.3}, "x2": [-1, 3]}
    assert first(x0=None, variables=named) == (0.3, 1.0)
    assert first(x0=None, variables={"x1": [-2, 2], "x2": [0.5, float("inf")]}) == (0.0, 0.5)


def test_copies_and_pickles_go_on():
    generator = made()
    for i in range(200):
        points = generator.suggest(None)
        if not points:
            break
        generator.ingest(evaluated(points))
        generator = copy.deepcopy(generator) if i % 2 else pickle.loads(pickle.dumps(generator))
    same(generator.runs[0].result(), st.minimize(plain, [-1.2, 1.0], **GIVEN))


def test_points_of_before_and_points_whose_ids_were_lost():
    generator = made()
    assert generator.suggest(0) == []
    (first,) = evaluated([{"x1": -1.2, "x2": 1.0}])
    generator.ingest([first])
    points = generator.suggest(None)
    assert len(points) == 2
    assert all(one["x1"] != -1.2 or one["x2"] != 1.0 for one in points)
    for one in points:
        one.pop("_id")
    generator.ingest(evaluated(points))
    while points := generator.suggest(None):
        generator.ingest(evaluated(points))
    same(generator.runs[0].result(), st.minimize(plain, [-1.2, 1.0], **GIVEN))


@pytest.mark.parametrize("failure", [{}, {"f": None}, {"f": float("nan")}])
def test_what_was_lost_is_suggested_again_and_a_failure_is_a_nan(failure):
    generator = made()
    first = generator.suggest(None)
    assert generator.suggest(None) == first
    generator.ingest([first[0] | failure])
    assert generator.suggest(None) == []
    assert generator.runs[0].result().status is st.Status.NONFINITE_VALUE


def refused(generator, words, results):
    before = [run.ask().ids for run in generator.runs]
    with pytest.raises(ValueError, match=f"^{words}"):
        generator.ingest(results)
    assert [run.ask().ids for run in generator.runs] == before


def test_wrong_results_are_refused_and_the_run_goes_on():
    generator = made(jac="3-point")
    (first,) = evaluated(generator.suggest(None))
    refused(generator, "results: the _id of entry 0 is unknown; got 77", [{**first, "_id": 77}])
    refused(generator, "results: the _id of entry 0 is unknown; got 'a'", [{**first, "_id": "a"}])
    refused(generator, "results: entry 1, with _id 0, was told already", [first, first])
    refused(generator, "results: expected 'f' in each entry; entry 0", [{"x1": 0.0}])
    refused(generator, "results: expected a number in entry 0, got 'low'", [{**first, "f": "low"}])
    refused(generator, "results: entry 0 has neither _id nor 'x2'", [{"x1": 0.0, "f": 1.0}])
    generator.ingest([first])
    refused(generator, "results: entry 0, with _id 0, was told already", [first])
    points = evaluated(generator.suggest(None))
    lost = [{name: float(f"{one[name]:.7g}") for name in ("x1", "x2", "f")} for one in points]
    refused(generator, "results: entry 0 has no _id, and its point is a suggested one", lost)
    generator.ingest(points)
    while points := generator.suggest(None):
        generator.ingest(evaluated(points))
    same(generator.runs[0].result(), st.minimize(plain, [-1.2, 1.0], jac="3-point", **GIVEN))


@pytest.mark.parametrize(
    ("words", "vocs", "given"),
    [
        ("vocs: expected no constraints .* got 'c'", {"constraints": {"c": ["LESS_THAN", 0.0]}}, {}),
        ("vocs: expected one objective", {"objectives": {"f": "MINIMIZE", "g": "MINIMIZE"}}, {}),
        ("vocs: expected one objective", {"objectives": {"f": "EXPLORE"}}, {}),
        ("vocs: expected one objective.* got none", {"objectives": {}}, {}),
        ("vocs: expected continuous variables.* got 'x3'", {"variables": {"x3": {1, 2}}}, {}),
        ("vocs: expected continuous variables.* got 'x3'", {"variables": {"x3": "CONTEXTUAL"}}, {}),
        ("x0: expected 2 numbers, got shape", {}, {"x0": [1.0]}),
        ("x0: expected a number for each of", {}, {"x0": {"x1": 1.0}}),
        ("jac: expected '2-point' or '3-point'", {}, {"jac": True}),
        ("seed: expected a whole number", {}, {"seed": -1}),
        ("gtol: expected a number", {}, {"gtol": -1.0}),
        ("method: 'sgd' is not", {}, {"method": "sgd"}),
    ],
)
def test_wrong_problems_are_refused(words, vocs, given):
    named = {"variables": dict(BOX), "objectives": {"f": "MINIMIZE"}} | vocs
    with pytest.raises(ValueError, match=f"^{words}"):
        CGDGenerator(VOCS(**named), **given)


def test_points_that_cannot_be_had_are_refused():
    generator = made(variables={"x1": [-2.0, 2.0], "x2": [-1.0, float("inf")]})
    with pytest.raises(ValueError, match=r"^num_points: 1 points wait, and no further start can be drawn"):
        generator.suggest(2)
    assert len(generator.suggest(1)) == 1
    with pytest.raises(ValueError, match=r"^num_points: a run in this budget has no points"):
        made(budget=st.Budget(seconds=1e-9)).suggest(1)
    for wrong in (-1, 1.5, True):
        with pytest.raises(ValueError, match=r"^num_points: expected a whole number or None"):
            generator.suggest(wrong)
