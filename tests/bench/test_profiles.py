"""Targets, profiles and means, against tables done by hand."""

import numpy as np

from steepen.bench.profiles import best_value, evaluations_to, over_fewest, per_unknown, profile

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
