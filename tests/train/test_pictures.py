"""The picture: what is drawn is what was run."""

import math
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from scipy import stats

from steepen.train import OPTIMIZERS, Results, Run, Settings
from steepen.train.pictures import _COLOURS, accuracy, curves, save


def test_line_and_band_are_mean_and_error(made, short: Settings):
    ends = [0.5, 0.6, 0.8]
    ax = accuracy(Results(short, [made("cgd", s, a) for s, a in enumerate(ends)])).axes[0]
    (line,) = ax.lines
    assert line.get_xdata().tolist() == [0, 2, 4]
    assert line.get_ydata()[-1] == pytest.approx(100 * np.mean(ends))
    corners = ax.collections[0].get_paths()[0].vertices
    heights = corners[corners[:, 0] == 4, 1]
    assert heights.max() - heights.min() == pytest.approx(200 * stats.sem(ends))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("gradient evaluations", "test accuracy, %")


def test_a_diverged_run_is_shown_as_such(made, short: Settings):
    runs = [made("sgd", 0, 0.5), made("cgd", 0, 0.1, math.nan), made("sgd", 1, 0.2, math.nan)]
    ax = accuracy(Results(short, runs)).axes[0]
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["sgd  50.0 %", "cgd  diverged"]
    crosses = [line for line in ax.lines if line.get_marker() == "x"]
    assert sorted(line.get_ydata()[0] for line in crosses) == pytest.approx([10, 20])
    low, high = ax.get_ylim()
    assert low < 10 < 50 < high


def test_a_single_seed_has_no_band_to_speak_of(made, short: Settings):
    ax = accuracy(Results(short, [made("sgd", 0, 0.5)])).axes[0]
    assert "standard error" not in ax.get_title()
    assert np.isfinite(ax.get_ylim()).all()


def test_the_colours_can_be_told_apart():
    together = [name for name in OPTIMIZERS if name != "adamw"]  # never with sgd
    assert set(together) <= set(_COLOURS)
    for i, one in enumerate(together):
        for other in together[:i]:
            assert np.abs(np.subtract(to_rgb(_COLOURS[one]), to_rgb(_COLOURS[other]))).sum() > 0.25, (
                one,
                other,
            )


def test_files(tmp_path: Path, made, short: Settings):
    paths = save(Results(short, [made("sgd", 0, 0.5)]), tmp_path)
    assert [path.name for path in paths] == ["accuracy.png", "accuracy.svg"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in paths[1].read_text("utf-8")


def test_loss_and_accuracy_are_drawn_against_gradients_and_seconds():
    def made(name: str, seed: int, end: float) -> Run:
        losses, times = (2.3, 1.5, 1.0 + seed), (0.0, 1.0, 3.0 + seed)
        return Run(name, seed, 4, 4, (0, 2, 4), (0.1, 0.3, end), losses, times=times)

    runs = [made(name, seed, end) for name, end in (("sgd", 0.5), ("auto", 0.7)) for seed in (0, 2)]
    axes = curves(runs, "a title").axes
    assert [ax.get_xlabel() for ax in axes] == ["gradient evaluations", "seconds of training"] * 2
    of = [{line.get_label().split()[0]: line.get_xydata() for line in ax.get_lines()} for ax in axes]
    np.testing.assert_allclose(of[0]["auto"], [[0, 10], [2, 30], [4, 70]])
    np.testing.assert_allclose(of[1]["auto"], [[0, 10], [1, 30], [4, 70]])
    np.testing.assert_allclose(of[2]["sgd"], [[0, 2.3], [2, 1.5], [4, 2.0]])
    np.testing.assert_allclose(of[3]["sgd"], [[0, 2.3], [1, 1.5], [4, 2.0]])


def test_runs_that_spend_other_gradients_are_read_off_at_those_of_the_first():
    runs = [
        Run("auto", 0, 4, 4, (0, 4), (0.0, 0.8), (2.0, 1.0), times=(0.0, 1.0)),
        Run("auto", 1, 4, 4, (0, 2, 6), (0.0, 0.2, 0.6), (2.0, 1.5, 1.0), times=(0.0, 1.0, 2.0)),
    ]
    line = curves(runs).axes[0].get_lines()[0]
    np.testing.assert_allclose(line.get_xydata(), [[0, 0], [4, 60]])
