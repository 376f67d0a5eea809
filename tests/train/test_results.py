"""Means and standard errors, the file, and going on from it."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from steepen.train import Results, Settings, _run, run
from steepen.train.results import mean_and_error


def test_mean_and_error_against_scipy():
    values = np.random.default_rng(0).normal(size=7).tolist()
    mean, error = mean_and_error(values)
    assert mean == pytest.approx(sum(values) / 7)
    assert error == pytest.approx(stats.sem(values))
    assert all(map(math.isnan, mean_and_error([])))


def test_the_difference_is_paired_by_seed(made, short: Settings):
    first, second = [0.5, 0.7, 0.9], [0.55, 0.76, 0.93]
    runs = [made("sgd", s, a) for s, a in enumerate(first)]
    runs += [made("cgd", s, a) for s, a in reversed(list(enumerate(second)))]
    line = Results(short, runs).summary()[1]
    gaps = np.subtract(second, first)
    assert line.difference == pytest.approx(gaps.mean())
    assert line.difference_se == pytest.approx(stats.sem(gaps))
    assert line.difference_se < line.accuracy_se / 10
    assert line.difference_se == pytest.approx(
        abs(line.difference / stats.ttest_rel(second, first).statistic)
    )


def test_diverged_runs_are_counted_and_in_no_mean(made, short: Settings):
    runs = [made("sgd", s, a) for s, a in enumerate([0.5, 0.6, 0.7])]
    runs += [made("cgd", 0, 0.1, math.nan), made("cgd", 1, 0.8), made("cgd", 2, 0.8)]
    runs += [made("sam", s, 0.1, math.inf) for s in range(3)]
    _, cgd, sam = Results(short, runs).summary()
    assert (cgd.runs, cgd.diverged, cgd.accuracy) == (3, 1, pytest.approx(0.8))
    assert cgd.difference == pytest.approx(0.15)  # over seeds 1 and 2
    assert sam.diverged == 3
    assert math.isnan(sam.accuracy)
    assert math.isnan(sam.difference)


def test_the_file_comes_back_as_it_was(made, short: Settings, tmp_path: Path):
    results = Results(short, [made("sgd", 0, 1 / 3), made("cgd", 0, 0.1, math.nan)])
    results.save(tmp_path)
    text = (tmp_path / "results.json").read_text("utf-8")
    document = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert document["settings"]["grads"] == 40
    assert document["runs"][1]["losses"] == [2.3, 1.5, None]
    back = Results.from_json(text)
    assert back.settings == short
    assert back.runs[0] == results.runs[0]
    assert back.runs[1].diverged
    assert back.to_json() == text
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"settings": {}, "versions": {}, "runs": []}'])
def test_a_damaged_file_is_refused_and_left(tmp_path: Path, short: Settings, text: str):
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(ValueError, match=r"results.json' is not a file of results, and is left as it is"):
        run(short, ["sgd"], seeds=1, out=tmp_path)
    assert (tmp_path / "results.json").read_text() == text


def test_only_what_is_missing_is_run(tmp_path: Path, short: Settings, monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[str, int]] = []
    real = _run.train

    def noted(name, seed, settings, data):
        asked.append((name, seed))
        return real(name, seed, settings, data)

    monkeypatch.setattr(_run, "train", noted)
    first = run(short, ["sgd"], seeds=2, out=tmp_path)
    assert asked == [("sgd", 0), ("sgd", 1)]
    both = run(short, ["cgd", "sgd"], seeds=3, out=tmp_path)
    assert asked[2:] == [("cgd", 0), ("cgd", 1), ("cgd", 2), ("sgd", 2)]
    assert [(one.optimizer, one.seed) for one in both.runs] == [
        (n, s) for n in ("cgd", "sgd") for s in range(3)
    ]
    assert list(both.of("sgd"))[:2] == list(first.runs)
    del asked[:]
    assert run(short, ["sgd"], seeds=1, out=tmp_path).runs == [first.runs[0]]
    assert not asked
    assert len(Results.from_json((tmp_path / "results.json").read_text("utf-8")).runs) == 6


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"grads": 50}, "holds runs with grads 40, not 50. Give another folder"),
        ({"lam": 9.0, "validate": True}, "lam default, not 9.0; validate False, not True"),
    ],
)
def test_other_settings_are_refused(tmp_path: Path, made, short: Settings, changed, message):
    Results(short, [made("sgd", 0, 0.5)]).save(tmp_path)
    before = (tmp_path / "results.json").read_bytes()
    with pytest.raises(ValueError, match=message):
        run(replace(short, **changed), ["sgd"], seeds=1, out=tmp_path)
    assert (tmp_path / "results.json").read_bytes() == before


def test_other_versions_are_refused(tmp_path: Path, made, short: Settings):
    there = Results(short, [made("sgd", 0, 0.5)])
    replace(there, versions=there.versions | {"torch": "1.0"}).save(tmp_path)
    with pytest.raises(ValueError, match=r"torch 1\.0, not "):
        run(short, ["sgd"], seeds=1, out=tmp_path)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"data": "mnist"}, "data: expected one of digits, mnist1d, cifar10, cifar100; got 'mnist'"),
        ({"base": "adam"}, "base: expected one of sgd, adamw; got 'adam'"),
        ({"grads": 1}, "grads: expected a whole number, 2 or more"),
        ({"batch": 899}, "batch: expected at most the 898 examples of digits"),
        ({"batch": 719, "validate": True}, "batch: expected at most the 718"),
        ({"lr": 0.0}, "lr: expected a positive number"),
        ({"lam": math.nan}, "lam: expected a positive number"),
        ({"rho": math.inf}, "rho: expected a positive number"),
        ({"fraction": 1.5}, "fraction: expected a share above 0 and at most 1"),
        ({"fraction": 0.0}, "fraction: expected a share above 0 and at most 1"),
    ],
)
def test_wrong_settings(given, message):
    with pytest.raises(ValueError, match=message):
        Settings.of(**given)
    with pytest.raises(ValueError, match=message):
        replace(Settings.of(), **given)


def test_wrong_seeds(short: Settings):
    with pytest.raises(ValueError, match="seeds: expected a whole number, 1 or more, got 0"):
        run(short, ["sgd"], seeds=0)
