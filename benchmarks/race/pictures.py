"""Pictures of a run: data profiles and performance profiles."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steepen import plot

from .profiles import over_fewest, per_unknown, profile
from .results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLES: Mapping[str, tuple[str, Any]] = {
    "cgd-auto": (plot.COLOURS["cgd-auto"], "-"),
    "L-BFGS-B": ("#d55e00", "-"),
    "L-BFGS-B-200": ("#e69f00", "--"),
    "BFGS": ("#0072b2", "-"),
    "CG": ("#009e73", "-."),
    "NLopt-VAR2": ("#cc79a7", "--"),
    "cgd-fd": ("#661100", ":"),
    "BB": ("#666666", (0, (3, 1, 1, 1))),
}
"""Those to be shown first, and how; the others follow in their order."""

_MORE = ("#56b4e9", "#882255", "#117733", "#999933", "#000000")
_DASHES: tuple[Any, ...] = ("-", "--", "-.", ":")
_MOST = 8
_WIDEST = 100.0


def shown(solvers: Sequence[str], *wanted: str) -> list[str]:
    """Return at most eight solvers, as many as a picture can show; those wanted come first."""
    order = dict.fromkeys((*wanted, *_STYLES, *solvers))
    return [name for name in order if name in solvers][:_MOST]


def profiles(results: Results, suite: str, reference: str = "L-BFGS-B", subject: str | None = None) -> Figure:
    """Draw a suite: data profiles above, performance profiles below, a column for each accuracy.

    A data profile shows the share of problems solved within so many times n + 1 evaluations. A performance
    profile shows the share solved within so many times the evaluations of the best solver of the run. Both
    end at the share solved at all.
    """
    part = results.of(set=suite)
    if not part.rows:
        raise ValueError(f"suite: expected one of {', '.join(results.sets)}; got {suite!r}")
    solvers = part.solvers
    subject = subject or solvers[0]
    names = shown(solvers, *(name for name in (subject, reference) if name in solvers))
    styles = _styles(names, subject)
    columns = len(part.accuracies)
    figure = plot.blank(3.2 * columns + 1.8, 6.2)
    axes = figure.subplots(2, columns, sharex="row", sharey=True, squeeze=False)
    budget = max(row.used for row in part.rows)
    ends = (budget / (int(part.sizes.min()) + 1), _WIDEST)
    for column, accuracy in enumerate(part.accuracies):
        costs = part.costs(accuracy)
        for row, measures in enumerate((per_unknown(costs, part.sizes), over_fewest(costs))):
            for name in reversed(names):  # the first one on top
                at, shares = _steps(measures[:, [solvers.index(name)]], ends[row])
                axes[row, column].step(at, shares, where="post", **styles[name])
        axes[0, column].set_title(f"accuracy {accuracy:.0e}".replace("e-0", "e-"), fontsize="medium")
    _label(axes, len(solvers))
    unique = {line.get_label(): line for line in axes[0, 0].lines}
    figure.legend([unique[name] for name in names], names, loc="outside right upper", frameon=False)
    count = len(part.sizes)
    figure.suptitle(
        f"{suite}: {count} problem{'s' * (count > 1)}, {budget} evaluations each", fontsize="large"
    )
    return figure


def _steps(measures: NDArray[np.float64], end: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the corners of one solver's profile, from 0 (off a log axis) to the end."""
    at = np.concatenate([[0.0], np.unique(measures[measures <= end]), [end]])
    return at, profile(measures, at)[0]


def _label(axes: Any, solvers: int) -> None:
    for ax in axes.flat:
        ax.set_xscale("log")
        ax.set_ylim(-0.02, 1.02)
        plot.tidy(ax)
    axes[1, 0].set_xlim(0.95, _WIDEST * 1.05)
    axes[1, 0].set_xticks([1, 2, 5, 10, 30, 100])
    axes[1, 0].minorticks_off()
    for ax, title in zip(axes[:, 0], ("data profile", "performance profile"), strict=True):
        ax.xaxis.set_major_formatter("{x:g}")
        ax.set_ylabel(f"{title}: share solved")
    middle = axes.shape[1] // 2
    axes[0, middle].set_xlabel("evaluations / (n + 1)")
    axes[1, middle].set_xlabel(f"evaluations / the fewest of all {solvers} solvers")


def _styles(names: Sequence[str], subject: str) -> dict[str, dict[str, Any]]:
    """Return colour and dashes for each; the subject gets the colour of cgd-auto and a thicker line."""
    styles: dict[str, dict[str, Any]] = {}
    more = 0
    for name in names:
        if name == subject:
            colour, dash = _STYLES["cgd-auto"]
        elif name in _STYLES and name != "cgd-auto":
            colour, dash = _STYLES[name]
        else:
            colour, dash = _MORE[more % len(_MORE)], _DASHES[more % len(_DASHES)]
            more += 1
        styles[name] = {"color": colour, "ls": dash, "lw": 2.6 if name == subject else 1.4, "label": name}
    return styles


def by_noise(
    results: Results, features: Mapping[str, str], noises: Sequence[str], accuracies: Sequence[float],
    at: float,
) -> Figure:  # fmt: skip
    """Draw the share solved within `at` times n + 1 evaluations against the noise.

    There is a column for each entry of `features`, its title and the feature without its number, and a row
    for each accuracy.
    """
    figure = plot.blank(12.5, 3 * len(accuracies) + 0.6)
    axes = figure.subplots(len(accuracies), len(features), sharex=True, sharey=True, squeeze=False)
    styles = _styles(results.solvers, results.solvers[0])
    at_noise = [float(noise) for noise in noises]
    found = {one: results.of(feature=one) for one in results.features}
    for row, accuracy in zip(axes, accuracies, strict=True):
        for ax, feature in zip(row, features.values(), strict=True):
            for name in reversed(results.solvers):  # the first one on top
                parts = [found[f"{feature}={noise}"] for noise in noises]
                shares = [float(part.shares(name, accuracy, [at])[0]) for part in parts]
                ax.plot(at_noise, shares, marker="o", ms=3, **styles[name])
            ax.set_xscale("log")
            ax.set_ylim(-0.02, 1.02)
            ax.set_xticks(at_noise[::2])
            ax.minorticks_off()
            plot.tidy(ax)
        row[0].set_ylabel(f"share solved to {accuracy:.0e}".replace("e-0", "e-"))
    for ax, title in zip(axes[0], features, strict=True):
        ax.set_title(title.replace("-", ", ") + " noise", fontsize="medium")
    unique = {line.get_label(): line for line in axes[0, 0].lines}
    figure.legend(
        [unique[name] for name in results.solvers], results.solvers, loc="outside right upper", frameon=False
    )
    figure.supxlabel("noise of a value", fontsize="medium")
    figure.suptitle(
        f"{len(results.of(feature=results.features[0]).sizes)} problems, {at:g}(n + 1) evaluations"
    )
    return figure


def save_by_noise(results: Results, folder: str | os.PathLike[str], **shown: Any) -> list[Path]:
    """Write that picture into an existing folder."""
    path = Path(folder, "bench-noise.svg")
    plot.save(by_noise(results, **shown), path)
    return [path]


def save(
    results: Results, folder: str | os.PathLike[str], reference: str = "L-BFGS-B", subject: str | None = None,
    prefix: str = "", kinds: Sequence[str] = ("png", "svg"),
) -> list[Path]:  # fmt: skip
    """Write the picture of each set and feature into an existing folder."""
    paths: list[Path] = []
    for feature in results.features:
        part = results.of(feature=feature)
        for suite in part.sets:
            figure = profiles(part, suite, reference, subject)
            name = suite if feature == "plain" else f"{suite}-{feature}"
            for kind in kinds:
                paths.append(Path(folder, f"{prefix}{name}.{kind}"))
                plot.save(figure, paths[-1])
    return paths
