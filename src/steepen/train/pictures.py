"""The pictures of a comparison: test accuracy and test loss against gradients and seconds."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import plot
from .._tools.optional import load
from .results import Mean, Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["save_curves"]

_COLOURS: Mapping[str, str] = {
    "sgd": plot.COLOURS["gd"], "adamw": plot.COLOURS["gd"], "cgd": plot.COLOURS["cgd-fd"],
    "cgd-early": plot.COLOURS["cgd"], "cgd-late": plot.COLOURS["cgd-dfp"], "cgd-exact": "#882255",
    "sam": "#0072b2", "sam-early": "#56b4e9", "sam-late": "#332288", "usam": "#009e73", "gnp": "#cc79a7",
    "asam": "#117733", "fgr": "#999933", "egr": "#aa4499", "ema": "#4ce61a", "smooth": "#e61ae6",
    "share4": "#80e699", "share4-late": "#cce64c", "share16": "#6633e6", "share16-late": "#1ae6cc",
    "msam": "#e61a33", "gap": "#66b266",
}  # fmt: skip
_SETTLED = 0.15  # the share of the budget after which every curve is in the picture


def _band(runs: Sequence[Run], what: str = "accuracies") -> tuple[Any, Any, Any]:
    """Return the gradients spent, the mean (of accuracies in percent), and its standard error there.

    The error is 0 for a single run. Where runs were looked at after other numbers of gradients, their curves
    are read off at those of the first.
    """
    at = np.array(runs[0].at, dtype=float)
    rows: list[Any] = [np.interp(at, run.at, getattr(run, what)) for run in runs]
    values: Any = np.array(rows)
    mean, error = np.array([Mean.of(column.tolist()) for column in values.T]).T
    scale = 100 if what == "accuracies" else 1
    return at, scale * mean, scale * np.nan_to_num(error)


def curves(runs: Sequence[Run], title: str = "") -> Figure:
    """Draw accuracy and loss on the test part, against gradients and against seconds of training.

    Lines are means over seeds, bands one standard error; runs that diverged are left out.
    """
    figure = load("matplotlib.figure", "a picture", extra="plot").Figure(
        figsize=(9.0, 6.4), layout="constrained"
    )
    axes: Any = figure.subplots(2, 2, sharey="row")
    names = list(dict.fromkeys(run.optimizer for run in runs))
    for row, (what, label) in enumerate((("accuracies", "test accuracy, %"), ("losses", "test loss"))):
        ends: list[float] = []
        for name in names:
            fine = [run for run in runs if run.optimizer == name and not run.diverged]
            if not fine or np.isnan(getattr(fine[0], what)).all():
                continue
            at, mean, error = _band(fine, what)
            seconds = _band(fine, "times")[1]
            colour = _COLOURS.get(name, plot.COLOURS["gd"])
            dash = {"early": "--", "late": ":"}.get(name.rpartition("-")[2], "-")
            for ax, x in zip(axes[row], (at, seconds), strict=True):
                ax.plot(x, mean, label=f"{name}  {mean[-1]:.4g}", color=colour, ls=dash, lw=1.8)
                ax.fill_between(x, mean - error, mean + error, color=colour, alpha=0.15, lw=0)
            ends += mean[at >= 2 * _SETTLED * at[-1]].tolist()
        for ax, unit in zip(axes[row], ("gradient evaluations", "seconds of training"), strict=True):
            ax.set_xlabel(unit)
            ax.set_ylabel(label)
            ax.grid(color="0.9", lw=0.6)
            ax.set_axisbelow(True)
            if ends:
                margin = 0.06 * max(max(ends) - min(ends), 1e-3)
                ax.set_ylim(min(ends) - margin, max(ends) + margin)
        if ends:
            axes[row][0].legend(frameon=False, fontsize="small", title="at the end")
    figure.suptitle(title, fontsize="medium")
    return figure


def save_curves(runs: Sequence[Run], folder: str | os.PathLike[str], title: str = "") -> list[Path]:
    """Write the four curves into a folder that is there, as PNG and SVG.

    Examples
    --------
    >>> import tempfile
    >>> runs = [Run("sgd", 0, 2, 2, (0, 2), (0.1, 0.5), (2.3, 1.2), times=(0, 1))]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in save_curves(runs, folder)]
    ['curves.png', 'curves.svg']
    """
    figure, paths = curves(runs, title), [Path(folder, f"curves.{kind}") for kind in ("png", "svg")]
    for path in paths:
        plot.save(figure, path)
    return paths
