"""A run as a whole: f*, rows, summary, files, wrong arguments, pictures; profiles, against tables by hand."""

import csv
import math

import numpy as np
import pytest
from benchmarks.bench import Results, run
from benchmarks.bench.profiles import best_value, evaluations_to, over_fewest, per_unknown, profile
from benchmarks.bench.results import Row
from benchmarks.problems import problems

NAMES = ("beale", "misra1a-1", "wood")
SOLVERS = ["BFGS-Armijo", "L-BFGS-B", "BB"]


@pytest.fixture(scope="module")
def results():
    return run([problems[name] for name in NAMES], SOLVERS, budget=300, jobs=1)


def test_a_cost_is_where_a_run_alone_gets_there(results):
    """SciPy from outside: cut off at the cost it is solved, cut off one before it is not."""
    from scipy.optimize import minimize

    row = next(row for row in results.rows if (row.problem, row.solver) == ("wood", "L-BFGS-B"))
    p = problems["wood"]
    values = []

    def fun(x):
        values.append(float(p(x)))
        return values[-1], p.grad(x)

    minimize(fun, p.x0, jac=True, method="L-BFGS-B", options={"ftol": 0, "gtol": 0, "maxcor": 10})
    assert row.fstar == 0 <= row.f < 1e-20
    for accuracy, cost in zip(results.accuracies, row.costs, strict=True):
        reached = np.array(values) <= accuracy * p(p.x0)
        assert cost == np.flatnonzero(reached)[0] + 1


def test_summary_by_hand():
    table = {"mgh": [(2, [10, 20, math.inf]), (20, [30, 15, 15])], "nist": [(3, [9, 9, math.nan])]}
    rows = [
        Row(suite, f"{suite}{i}", n, solver, (cost,), 0.0, 1.0, 0.0, 50 * (cost == cost), 50, 0.1, False, "")
        for suite, problems in table.items()
        for i, (n, costs) in enumerate(problems)
        for solver, cost in zip("abc", map(float, costs), strict=True)
    ]
    lines = {(line.group, line.solver): line for line in Results(rows, (1e-3,)).summary("b")}
    assert list(lines)[:4] == [("mgh", "a"), ("mgh", "b"), ("mgh", "c"), ("mgh, n ≤ 10", "a")]
    assert len(lines) == 9
    a, c = lines["mgh", "a"], lines["mgh", "c"]
    assert (a.solved, a.problems, a.both, a.wins, a.losses, a.ties) == (2, 2, 2, 1, 1, 0)
    assert a.ratio == pytest.approx(1.0)
    assert (c.solved, c.both, c.wins, c.losses, c.ties) == (1, 1, 0, 1, 1)
    assert c.subject_ratio == pytest.approx(2.0)  # a needs 30 where c needs 15
    small = lines["mgh, n ≤ 10", "a"]
    assert (small.problems, small.wins, small.ratio) == (1, 1, pytest.approx(0.5))
    assert lines["nist", "a"].ties == 1
    left_out = lines["nist", "c"]
    assert (left_out.solved, left_out.both, left_out.wins, left_out.losses) == (0, 0, 0, 0)
    assert math.isnan(left_out.ratio)
    by_c = {(line.group, line.solver): line for line in Results(rows, (1e-3,)).summary("b", subject="c")}
    assert by_c["mgh", "a"].subject_ratio == pytest.approx(0.5)


def test_what_is_saved_is_loaded(results, tmp_path):
    assert [(row.problem, row.solver) for row in results.rows] == [(p, s) for p in NAMES for s in SOLVERS]
    results.save(tmp_path)
    assert Results.load(tmp_path / "results.jsonl") == results
    with (tmp_path / "summary.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(results.summary()) == 3 * 3 * len(SOLVERS)
    rows = [
        Row("mgh", "p", 2, s, (cost, 3.5e1), 1e-300, 0.1, -0.1, used, 50, 0.1, False, 'a, "b"')
        for s, cost, used in [("a", math.inf, 50), ("b", math.nan, 0), ("c", 7.0, 9)]  # not reached, not run
    ]
    Results(rows, (1e-3, 1e-5)).save(tmp_path, "a")
    again = Results.load(tmp_path / "results.jsonl")
    assert [row.costs[0] for row in again.rows[::2]] == [math.inf, 7.0]
    assert math.isnan(again.rows[1].costs[0])
    assert again.rows[2] == rows[2]


INF, NAN = np.inf, np.nan
COSTS = np.array(  # four problems, three solvers; the last one was not run on the last problem
    [[10.0, 20.0, 40.0], [30.0, 15.0, INF], [INF, INF, INF], [8.0, 8.0, NAN]]
)
SIZES = np.array([1, 4, 1, 3])


def test_data_profile():
    # evaluations / (n + 1): [5, 10, 20], [6, 3, –], none, [2, 2, –]
    at = [1.9, 2, 3, 5, 6, 10, 20, 1e9]
    expected = [[0, 1, 1, 2, 3, 3, 3, 3], [0, 1, 2, 2, 2, 3, 3, 3], [0, 0, 0, 0, 0, 0, 1, 1]]
    assert (profile(per_unknown(COSTS, SIZES), at) * 4).tolist() == expected


def test_performance_profile():
    # factors of the least: [1, 2, 4], [2, 1, –], none, [1, 1, –]
    at = [0.99, 1, 1.99, 2, 4, 1e9]
    expected = [[0, 2, 2, 3, 3, 3], [0, 2, 2, 3, 3, 3], [0, 0, 0, 0, 1, 1]]
    with np.errstate(all="raise"):
        assert (profile(over_fewest(COSTS), at) * 4).tolist() == expected


def test_evaluations_to():
    steps = [(1, 110.0), (3, 60.0), (9, 10.09), (40, 10.0)]
    for accuracy, expected in [(0.99, 3), (0.5, 3), (0.49, 9), (1e-3, 9), (8e-4, 40), (1e-12, 40)]:
        assert evaluations_to(steps, 110.0, 10.0, accuracy) == expected
    assert evaluations_to(steps, 110.0, 9.0, 1e-3) == INF
    assert evaluations_to((), 110.0, 9.0, 1e-3) == INF
    assert evaluations_to([(1, 7.0)], 7.0, 7.0, 1e-8) == 1  # a start at the best value is solved at once


def test_the_best_value_is_the_lowest_reached_or_the_known_one_if_that_is_near():
    for reached, expected in ((1e-9, 0.0), (-1e-12, -1e-12), (-5.0, -5.0), (1e-6, 1e-6), (3.0, 3.0)):
        assert best_value(10.0, 0.0, reached, 1e-8) == expected
    assert best_value(2.0, 2.0, 2.0, 1e-8) == 2.0
