"""The picture: what is drawn is what was run."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from scipy import stats

from steepen.train import OPTIMIZERS, Run
from steepen.train.pictures import _COLOURS, curves


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


def test_the_colours_can_be_told_apart():
    together = [name for name in OPTIMIZERS if name != "adamw"]  # never with sgd
    for one, other in itertools.combinations(together, 2):
        assert np.abs(np.subtract(to_rgb(_COLOURS[one]), to_rgb(_COLOURS[other]))).sum() > 0.25, (one, other)


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
