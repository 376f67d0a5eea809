"""The trials: the same for every method, and what is chosen from them."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as some

from steepen.train.tuning import best, square


@given(some.integers(1, 7))
def test_every_pair_of_values_of_any_two_is_tried_once(levels: int):
    values = range(levels)
    trials = square(values, [10 * v for v in values], [100 * v for v in values])
    assert len(trials) == levels**2
    for i, j in ((0, 1), (0, 2), (1, 2)):
        pairs = Counter((trial[i], trial[j]) for trial in trials)
        assert len(pairs) == levels**2
        assert set(pairs.values()) == {1}


@given(some.lists(some.floats(), min_size=1))
def test_the_best_is_finite_and_as_high_as_any(scores: list[float]):
    found = best(scores)
    fine = [score for score in scores if math.isfinite(score)]
    if not fine:
        assert found is None
    else:
        assert found is not None
        assert scores[found] == max(fine)


def test_of_equals_the_first_is_taken():
    assert best([math.nan, 0.5, 0.7, 0.7]) == 2


def test_a_trial_that_diverged_is_never_the_best():
    assert best([-math.inf, math.nan, math.inf]) is None
    assert best([math.inf, 0.1]) == 1


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_a_method_without_a_strength_tries_all_pairs_of_the_others(levels: int):
    values = tuple(range(1, levels + 1))
    trials = square(values, values, (0.0,) * levels)
    assert {trial[:2] for trial in trials} == {(a, b) for a in values for b in values}
