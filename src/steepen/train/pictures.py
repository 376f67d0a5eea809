"""The picture of a comparison: test accuracy against gradients."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import plot
from .._tools.optional import load
from .results import Results, Run, mean_and_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["accuracy", "save"]

_COLOURS: Mapping[str, str] = {
    "sgd": plot.COLOURS["gd"],
    "adamw": plot.COLOURS["gd"],
    "sam": "#0072b2",
    "usam": "#009e73",
    "gnp": "#cc79a7",
    "asam": "#117733",
    "fgr": "#999933",
    "egr": "#aa4499",
    "cgd": plot.COLOURS["cgd-fd"],
    "cgd-early": plot.COLOURS["cgd"],
    "cgd-late": plot.COLOURS["cgd-dfp"],
    "sam-early": "#56b4e9",
    "sam-late": "#332288",
    "cgd-exact": "#882255",
}
_SETTLED = 0.15  # the share of the budget after which every curve is in the picture


def accuracy(results: Results) -> Figure:
    """Draw the accuracy against the gradients spent: the mean over seeds, and a band of one standard error.

    A run that diverged is in no mean; it is a thin line, with a cross where it ended.

    Examples
    --------
    >>> from steepen import train
    >>> settings = train.Settings.of("digits", grads=20)
    >>> figure = accuracy(train.run(settings, ["sgd"], seeds=2))
    >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    ['sgd  ...']
    """
    settings = results.settings
    figure = load("matplotlib.figure", "a picture", extra="plot").Figure(
        figsize=(7.0, 4.6), layout="constrained"
    )
    ax = figure.subplots()
    lows: list[float] = []
    highs: list[float] = []
    for line in results.summary():
        runs = results.of(line.optimizer)
        style = {"color": _COLOURS[line.optimizer], "ls": _dash(line.optimizer)}
        fine = [run for run in runs if not run.diverged]
        label = f"{line.optimizer}  {100 * line.accuracy:.1f} %" if fine else f"{line.optimizer}  diverged"
        at, mean, error = _band(fine)
        ax.plot(at, mean, label=label, lw=1.8, **style)
        ax.fill_between(at, mean - error, mean + error, color=style["color"], alpha=0.15, lw=0)
        for run in runs:
            if run.diverged:
                shares = 100 * np.array(run.accuracies)
                ax.plot(run.at, shares, lw=0.7, **style)
                ax.plot(run.at[-1], shares[-1], "x", color=style["color"])
        late = at >= _SETTLED * settings.grads
        lows += (mean - error)[late].tolist()
        highs += (mean + error)[late].tolist()
    if lows and not any(run.diverged for run in results.runs):
        margin = 0.06 * max(max(highs) - min(lows), 1.0)
        ax.set_ylim(min(lows) - margin, min(max(highs) + margin, 100.5))
    ax.set_xlim(0, settings.grads)
    part = "validation" if settings.validate else "test"
    ax.set_xlabel("gradient evaluations")
    ax.set_ylabel(f"{part} accuracy, %")
    seeds = len({run.seed for run in results.runs})
    bands = f", mean ± standard error over {seeds} seeds" if seeds > 1 else ""
    ax.set_title(f"{settings.data}, base {settings.base}{bands}", fontsize="medium")
    ax.grid(color="0.9", lw=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    many = len(results.optimizers) > 7
    ax.legend(loc="lower right", frameon=False, title="at the end", ncols=2 if many else 1)
    return figure


def _band(runs: Sequence[Run]) -> tuple[Any, Any, Any]:
    """Give the gradients spent, the mean in percent, and its standard error there (0 for a single run)."""
    if not runs:
        return np.empty(0), np.empty(0), np.empty(0)
    points = [mean_and_error(values) for values in zip(*(run.accuracies for run in runs), strict=True)]
    mean, error = 100 * np.array(points).T
    return np.array(runs[0].at), mean, np.nan_to_num(error)


def _dash(name: str) -> str:
    """Tell the phases apart by their dashes too."""
    return "--" if name.endswith("early") else ":" if name.endswith("late") else "-"


def save(results: Results, folder: str | os.PathLike[str]) -> list[Path]:
    """Write the picture into a folder that is there, as PNG and SVG.

    Examples
    --------
    >>> import tempfile
    >>> from steepen import train
    >>> results = train.run(train.Settings.of("digits", grads=20), ["sgd"], seeds=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in save(results, folder)]
    ['accuracy.png', 'accuracy.svg']
    """
    figure = accuracy(results)
    paths = [Path(folder, f"accuracy.{kind}") for kind in ("png", "svg")]
    for path in paths:
        plot.save(figure, path)
    return paths
