"""Means and standard errors, the verdict, records, and the trials of all methods."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from steepen.train import Comparison, Mean, Run
from steepen.train.results import best, square


def test_the_difference_is_paired_by_seed(made):
    first, second = [0.5, 0.7, 0.9], [0.55, 0.76, 0.93]
    runs = [made("sgd", s, a) for s, a in enumerate(first)]
    runs += [made("cgd", s, a) for s, a in reversed(list(enumerate(second)))]
    found, gaps = Comparison({}, ["sgd", "cgd"], runs=runs), np.subtract(second, first)
    assert found.difference("cgd", "accuracy") == pytest.approx((gaps.mean(), stats.sem(gaps)))
    assert found.mean("cgd", "accuracy") == pytest.approx((np.mean(second), stats.sem(second)))
    assert all(map(math.isnan, Mean.of([])))


def test_early_stopping_is_by_held_out_data_and_not_by_the_test_part():
    runs = [
        Run("sgd", seed, 4, 4, (0, 2, 4), (0.1, 0.4, 0.5), (2.0, 1.0, low), held_out=(2.0, held, 1.5))
        for seed, low, held in ((0, 0.5, 1.0), (1, 0.7, math.nan))
    ]
    assert [run.stop for run in runs] == [1, 2]
    found = Comparison({}, ["sgd"], runs=runs)
    for name, value in {"stopped_loss": 0.85, "stopped_accuracy": 0.45, "loss": 0.6}.items():
        assert found.mean("sgd", name).value == pytest.approx(value)
    assert Run("sgd", 0, 4, 4, (0, 4), (0.1, 0.5), (2.0, 1.0)).stop is None


@pytest.mark.parametrize(("since", "stop"), [(0.0, 1), (0.5, 2), (0.6, 3), (1.0, 4)])
def test_a_run_is_stopped_from_the_part_that_its_method_names(since, stop):
    at, held = (0, 25, 50, 75, 100), (2.0, 1.0, 1.2, 1.3, 1.4)
    run = Run("gap", 0, 100, 100, at, (0.5,) * 5, (1.0,) * 5, held_out=held, since=since)
    assert run.stop == stop
    assert Run.of(run.record()) == run


def test_diverged_runs_are_told_and_in_no_mean(made):
    runs = [made("sgd", s, a) for s, a in enumerate([0.5, 0.6, 0.7])]
    runs += [made("cgd", 0, 0.1, math.nan), made("cgd", 1, 0.8), made("cgd", 2, 0.8)]
    runs += [made("sam", s, 0.1, math.inf) for s in range(3)]
    found = Comparison({}, ["sgd", "cgd", "sam"], runs=runs)
    assert found.mean("cgd", "accuracy").value == pytest.approx(0.8)
    assert found.difference("cgd", "accuracy").value == pytest.approx(0.15)  # over seeds 1 and 2
    assert math.isnan(found.mean("sam", "accuracy").value)
    assert math.isnan(found.difference("sam", "accuracy").value)
    told = found.verdict().splitlines()
    for one, n, name in zip(told, (1, 3), ("cgd", "sam"), strict=True):
        assert one.endswith(f", but {n} of 3 runs of {name} diverged.")


def test_a_base_that_diverged_is_told_too(made):
    runs = [made("sgd", s, 0.5, math.nan if s else 1.0) for s in range(3)]
    runs += [made("cgd", s, 0.8, math.nan if s == 2 else 1.0) for s in range(3)]
    found = Comparison({}, ["sgd", "cgd"], runs=runs)
    assert [row[4] for row in found.rows()[1:]] == ["0 of 4, 2 of 3 diverged", "0 of 4, 1 of 3 diverged"]
    assert found.verdict().endswith(", but 2 of 3 runs of sgd and 1 of 3 runs of cgd diverged.")


def test_a_base_without_runs_leaves_nothing_to_compare_with(made):
    found = Comparison({}, ["base", "sam"], runs=[made("sam", 0, 0.5)])
    assert "every trial diverged" in str(found)
    assert found.verdict() == "sam: every trial of base diverged, so there is nothing to compare with."


def test_a_method_that_is_not_there_is_refused(made):
    found = Comparison({}, ["base", "gap"], runs=[made("base", 0, 0.5)])
    for ask in (found.mean, found.difference):
        with pytest.raises(ValueError, match="method: 'gpa' is not known; did you mean 'gap'"):
            ask("gpa", "loss")
    assert found.of("gap") == []


def test_a_record_is_plain_json_and_comes_back_as_it_was(made):
    for run in (made("base", 0, 1 / 3), made("cgd", 0, 0.1, math.nan)):
        text = json.dumps(run.record(), allow_nan=False)
        back = Run.of(json.loads(text) | {"crc": "of the file"})
        assert back.record() == run.record()
        assert back.diverged == run.diverged


def verdict(made, losses, accuracies):
    runs = [made("base", seed, 0.7 + 0.01 * seed, 1.0 + 0.1 * seed) for seed in range(3)]
    runs += [
        made("sam", seed, 0.7 + 0.01 * seed + off, 1.0 + 0.1 * seed + less)
        for seed, (off, less) in enumerate(zip(accuracies, losses, strict=True))
    ]
    return Comparison({}, ["base", "sam"], runs=runs).verdict()


def test_the_verdict_says_ahead_level_or_behind_and_what_a_lower_loss_is_worth(made):
    up, down, level = (0.01, 0.02, 0.03), (-0.01, -0.02, -0.03), (-0.01, 0.0, 0.01)
    sure = "so less confident, but not more often right"
    said = verdict(made, [10 * one for one in down], down)
    assert said.startswith(
        "sam: ahead in loss (-0.200 ± 0.058), behind in accuracy (-2.00 ± 0.58 points), so"
    )
    assert sure in said
    for losses, accuracies, words in ((down, up, "ahead in accuracy"), (down, level, "level in accuracy")):
        said = verdict(made, losses, accuracies)
        assert "ahead in loss" in said
        assert words in said
        assert sure not in said
    assert "behind in loss (+0.020 ± 0.006), behind in accuracy" in verdict(made, up, down)
    assert "level in loss" in verdict(made, level, level)
    tiny = [one / 1000 for one in up]
    assert "behind in loss (+0.000020 ± 0.000006)" in verdict(made, tiny, level)
    assert "undecided in loss (-0.010), undecided in accuracy (+1.00" in verdict(made, down[:1], up[:1])


def test_the_verdict_says_if_a_method_made_no_ascent_step(made):
    runs = [made(name, seed, 0.7, 1.0) for name in ("base", "gap", "sam") for seed in range(2)]
    runs = [replace(run, perturbed=3 * (run.optimizer == "sam")) for run in runs]
    gap, sam = Comparison({}, ["base", "gap", "sam"], runs=runs).verdict().splitlines()
    assert ", without an ascent step, with" in gap
    assert "without" not in sam


@pytest.mark.parametrize("levels", [1, 2, 3, 5])
def test_every_pair_of_values_of_any_two_is_tried_once(levels):
    values = range(levels)
    trials = square(values, [10 * v for v in values], [100 * v for v in values])
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert len({(trial[i], trial[j]) for trial in trials}) == len(trials) == levels**2
    assert len({trial[:2] for trial in square(values, values, (0.0,) * levels)}) == levels**2


def test_the_best_is_finite_and_the_first_of_equals():
    assert best([math.nan, 0.5, 0.7, 0.7]) == 2
    assert best([-math.inf, math.nan, math.inf]) is None
    assert best([math.inf, 0.1]) == 1
