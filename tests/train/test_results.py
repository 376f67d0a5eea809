"""Means and standard errors, their picture, the file and going on from it, and the trials of all methods."""

import json
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import stats

from steepen.train import Comparison, Run, Settings, _run, run
from steepen.train.pictures import curves
from steepen.train.results import Mean, summarise
from steepen.train.tuning import best, square


def test_the_difference_is_paired_by_seed(made):
    first, second = [0.5, 0.7, 0.9], [0.55, 0.76, 0.93]
    runs = [made("sgd", s, a) for s, a in enumerate(first)]
    runs += [made("cgd", s, a) for s, a in reversed(list(enumerate(second)))]
    line = summarise(runs)[1]
    gaps = np.subtract(second, first)
    assert line.difference == pytest.approx((gaps.mean(), stats.sem(gaps)))
    assert line.accuracy == pytest.approx((np.mean(second), stats.sem(second)))
    assert all(map(math.isnan, Mean.of([])))


def test_early_stopping_is_by_held_out_data_and_not_by_the_test_part():
    runs = [
        Run("sgd", seed, 4, 4, (0, 2, 4), (0.1, 0.4, 0.5), (2.0, 1.0, low), held_out=(2.0, held, 1.5))
        for seed, low, held in ((0, 0.5, 1.0), (1, 0.7, math.nan))
    ]
    assert [run.stop for run in runs] == [1, 2]
    (line,) = summarise(runs)
    assert line.stopped_loss.value == pytest.approx((1.0 + 0.7) / 2)
    assert line.stopped_accuracy.value == pytest.approx(0.45)
    assert line.loss.value == pytest.approx(0.6)
    assert Run("sgd", 0, 4, 4, (0, 4), (0.1, 0.5), (2.0, 1.0)).stop is None


def test_diverged_runs_are_counted_and_in_no_mean(made):
    runs = [made("sgd", s, a) for s, a in enumerate([0.5, 0.6, 0.7])]
    runs += [made("cgd", 0, 0.1, math.nan), made("cgd", 1, 0.8), made("cgd", 2, 0.8)]
    runs += [made("sam", s, 0.1, math.inf) for s in range(3)]
    _, cgd, sam = summarise(runs)
    assert (cgd.runs, cgd.diverged, cgd.accuracy.value) == (3, 1, pytest.approx(0.8))
    assert cgd.difference.value == pytest.approx(0.15)  # over seeds 1 and 2
    assert sam.diverged == 3
    assert math.isnan(sam.accuracy.value)
    assert math.isnan(sam.difference.value)


def test_the_file_comes_back_as_it_was(made, short, tmp_path):
    found = _run.check(short, ["sgd", "cgd"], 1, tmp_path)
    found.runs += [made("sgd", 0, 1 / 3), made("cgd", 0, 0.1, math.nan)]
    found.save(tmp_path)
    text = (tmp_path / "results.json").read_text("utf-8")
    document = json.loads(text, parse_constant=pytest.fail)
    assert (document["settings"]["grads"], document["runs"][1]["losses"]) == (24, [2.3, 1.5, None])
    back = _run.check(short, ["sgd", "cgd"], 1, tmp_path)
    assert back.runs[0] == found.runs[0]
    assert back.runs[1].diverged
    back.save(tmp_path)
    assert (tmp_path / "results.json").read_text("utf-8") == text
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_only_what_is_missing_is_run(tmp_path, short, monkeypatch):
    asked = []
    real = _run.train

    def noted(name, seed, settings, data):
        asked.append((name, seed))
        return real(name, seed, settings, data)

    monkeypatch.setattr(_run, "train", noted)
    first = run(short, ["sgd"], seeds=2, out=tmp_path)
    assert asked == [("sgd", 0), ("sgd", 1)]
    both = run(short, ["cgd", "sgd"], seeds=3, out=tmp_path)
    assert (asked[2:], len(both.runs)) == ([("cgd", 0), ("cgd", 1), ("cgd", 2), ("sgd", 2)], 6)
    assert [line.optimizer for line in both.summary()] == ["cgd", "sgd"]
    assert [one for one in both.runs if one.optimizer == "sgd"][:2] == first.runs
    del asked[:]
    assert run(short, ["sgd"], seeds=1, out=tmp_path).runs == [first.runs[0]]
    assert not asked
    assert len(json.loads((tmp_path / "results.json").read_text("utf-8"))["runs"]) == 6


def test_other_settings_and_versions_are_refused(tmp_path, short):
    there = _run.check(short, ["sgd"], 1, None)
    Comparison(there.settings | {"torch": "1.0"}, ["sgd"]).save(tmp_path)
    before = (tmp_path / "results.json").read_bytes()
    with pytest.raises(ValueError, match=r"torch 1\.0, not "):
        run(short, ["sgd"], seeds=1, out=tmp_path)
    with pytest.raises(ValueError, match=r"lam default, not 9\.0; validate False, not True"):
        run(replace(short, lam=9.0, validate=True), ["sgd"], seeds=1, out=tmp_path)
    assert (tmp_path / "results.json").read_bytes() == before


WRONG = {
    "data: expected one of digits, mnist1d, cifar10, cifar100; got 'mnist'": {"data": "mnist"},
    "base: expected one of sgd, adamw; got 'adam'": {"base": "adam"},
    "grads: expected a whole number, 2 or more": {"grads": 1},
    "batch: expected at most the 718": {"batch": 719, "validate": True},
    "lam: expected a positive number": {"lam": math.nan},
    "fraction: expected a share above 0 and at most 1": {"fraction": 1.5},
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_settings(words):
    for make in (Settings.of, partial(replace, Settings.of())):
        with pytest.raises(ValueError, match=words):
            make(**WRONG[words])


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


def test_line_and_band_are_mean_and_error(made):
    ends = [0.5, 0.6, 0.8]
    runs = [replace(made("cgd", s, a), times=(0.0, 1.0, 2.0)) for s, a in enumerate(ends)]
    ax = curves([*runs, replace(runs[0], optimizer="sam", losses=(2.3, 1.5, math.nan))]).axes[0]
    (line,) = ax.lines  # the run that diverged is left out
    assert line.get_xdata().tolist() == [0, 2, 4]
    assert line.get_ydata()[-1] == pytest.approx(100 * np.mean(ends))
    corners = ax.collections[0].get_paths()[0].vertices
    heights = corners[corners[:, 0] == 4, 1]
    assert heights.max() - heights.min() == pytest.approx(200 * stats.sem(ends))


def test_loss_and_accuracy_are_drawn_against_gradients_and_seconds():
    def made(name, seed, end):
        losses, times = (2.3, 1.5, 1.0 + seed), (0.0, 1.0, 3.0 + seed)
        return Run(name, seed, 4, 4, (0, 2, 4), (0.1, 0.3, end), losses, times=times)

    runs = [made(name, seed, end) for name, end in (("sgd", 0.5), ("gap", 0.7)) for seed in (0, 2)]
    axes = curves(runs, "a title").axes
    assert [ax.get_xlabel() for ax in axes] == ["gradient evaluations", "seconds of training"] * 2
    of = [{line.get_label().split()[0]: line.get_xydata() for line in ax.get_lines()} for ax in axes]
    np.testing.assert_allclose(of[0]["gap"], [[0, 10], [2, 30], [4, 70]])
    np.testing.assert_allclose(of[1]["gap"], [[0, 10], [1, 30], [4, 70]])
    np.testing.assert_allclose(of[2]["sgd"], [[0, 2.3], [2, 1.5], [4, 2.0]])
    np.testing.assert_allclose(of[3]["sgd"], [[0, 2.3], [1, 1.5], [4, 2.0]])


def test_runs_that_spend_other_gradients_are_read_off_at_those_of_the_first():
    runs = [
        Run("gap", 0, 4, 4, (0, 4), (0.0, 0.8), (2.0, 1.0), times=(0.0, 1.0)),
        Run("gap", 1, 4, 4, (0, 2, 6), (0.0, 0.2, 0.6), (2.0, 1.5, 1.0), times=(0.0, 1.0, 2.0)),
    ]
    line = curves(runs).axes[0].get_lines()[0]
    np.testing.assert_allclose(line.get_xydata(), [[0, 0], [4, 60]])
