"""Items of `reproduce`, Fig. 4: BFGS, DFP and CGD variants, also at random settings; write no files."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .. import plot
from ..budget import Budget
from ..functions import Function, functions
from ..result import Result
from ._figures import legend_above
from ._items import Claim, Outcome, Table, claim, outcome, readable
from ._runs import Floats, minimize, trace
from .experiments import T
from .fig_convergence import curves

METHODS = {"BFGS": "bfgs", "DFP": "dfp", "CGD-BFGS": "cgd-bfgs", "CGD-DFP": "cgd-dfp"}
"""The methods, by their names in the paper."""


def _runs(function: Function, start: Any, step: Any, lam: Any, **more: Any) -> dict[str, Result]:
    """Run each method for T iterations; λ is for the CGD variants."""
    made: dict[str, Result] = {}
    for label, method in METHODS.items():
        penalty: dict[str, Any] = {"lam": lam} if method.startswith("cgd") else {}
        budget = Budget(iters=T)
        made[label] = minimize(function, start, method=method, step=step, budget=budget, **penalty, **more)
    return made


@dataclass(frozen=True)
class Panel:
    """One panel: a function and the settings that all four methods share.

    The paper prints no α, λ or start here. These are ours, from a random search over round numbers.
    """

    function: Function
    lam: float
    step: float
    start: tuple[float, ...]

    def __str__(self) -> str:
        start = ", ".join(map(readable, self.start))
        return f"{self.function.title}: α = {readable(self.step)}, λ = {readable(self.lam)}, from ({start})."

    def runs(self) -> dict[str, Result]:
        """Run the four methods."""
        return _runs(self.function, self.start, self.step, self.lam, trace="x")


PANELS = {
    panel.function.name: panel
    for panel in (
        Panel(functions["zakharov"].at(n=2), lam=0.01, step=0.1, start=(-2.0, 0.0)),
        Panel(functions["drop-wave"], lam=0.3, step=1e-4, start=(-0.5, 0.4)),
        Panel(functions["eggholder"], lam=80.0, step=3e-5, start=(440.0, 470.0)),
    )
}
"""The panels, by the name of the function."""


def run() -> Outcome:
    """Draw the three panels, and compare what the paper says of each with our runs."""
    made = {name: panel.runs() for name, panel in PANELS.items()}
    gaps = {
        name: np.stack([trace(run).f for run in runs.values()]) - PANELS[name].function.fmin
        for name, runs in made.items()
    }
    counts = (0, 1, 2, 3, 5, 10, 20, 40)
    rows = [
        (PANELS[name].function.title, method,
         *(float(f"{value:.3g}") if name == "drop-wave" else float(value) for value in curve[list(counts)]))
        for name, curves in gaps.items()
        for method, curve in zip(METHODS, curves, strict=True)
    ]  # fmt: skip
    return outcome(
        "fig-quasi-newton",
        claims=_claims(gaps),
        tables={"fig-quasi-newton": Table(("function", "method", *(f"k = {k}" for k in counts)), rows)},
        pictures={"fig-quasi-newton": _draw(made)},
        traces={
            f"fig-quasi-newton-{name}-{METHODS[label]}": trace(result)
            for name, runs in made.items()
            for label, result in runs.items()
        },
        settings={
            "iterations": T,
            "search": "random, over round numbers, not recorded; fig-quasi-newton-sweep is one that is",
            **{name: {"lam": p.lam, "step": p.step, "start": p.start} for name, p in PANELS.items()},
        },
        panels=" ".join(map(str, PANELS.values())),
        searched=", ".join(map(_searched, PANELS.values())),
    )  # fmt: skip


def _searched(panel: Panel) -> str:
    """Say which f − f* plain BFGS reaches with a line search."""
    budget = Budget(iters=T)
    made = minimize(panel.function, panel.start, method="bfgs", budget=budget, gtol=None, trace=False)
    gap = made.fun - panel.function.fmin
    return f"{readable(gap if gap > ROUNDING else 0, '.3g')} on {panel.function.title}"


def _claims(gaps: dict[str, Floats]) -> list[Claim]:
    (zakharov, slow_z, fast_z), (_, slow_d, fast_d), (egg, _, fast_e) = (
        (curves, curves[:2].min(axis=0), curves[2:].max(axis=0)) for curves in gaps.values()
    )  # the better of the plain ones, and the worse of the CGD variants
    apart = np.ptp(zakharov, axis=0) / zakharov.min(axis=0)
    below = T + 1 - int(np.argmin([*(fast_z < slow_z)[::-1], False]))
    lag = int(np.argmax(fast_d <= slow_d[T]))
    moved = (egg[:2, 0] - egg[:2].min(axis=1)).max() / egg[0, 0]
    fall = float(1 - fast_e[T] / fast_e[0])
    longest = float((-np.diff(egg[2:], axis=1)).max() / (egg[2:, 0] - egg[2:, T]).min())
    rises = int((np.diff(egg[2:], axis=1) >= 0).sum())
    coincide = {name: np.abs(bfgs - dfp).max() / bfgs[0] for name, (_, _, bfgs, dfp) in gaps.items()}
    says = partial(claim, "fig-quasi-newton")
    return [
        *(says("coincide", share < 0.01, function=PANELS[name].function.title, apart=share)
          for name, share in coincide.items()),
        says("zakharov", apart[1] < 0.02 and apart[2] < 0.1 and apart[4] > 0.5, apart=apart),
        says("zakharov-later", below <= 3 and fast_z[T] < 0.1 * slow_z[T], below=below, cgd=fast_z[T],
             plain=slow_z[T], T=T),
        says("drop-wave", lag <= T // 4 and fast_d[T] < 0.5 * slow_d[T] and slow_d[T] > 0.95 * slow_d[0],
             lag=lag, cgd=fast_d[T], plain=slow_d[T], first=slow_d[0], T=T),
        says("eggholder", fall > 0.5 and moved < 0.02, fall=fall, moved=moved),
        says("eggholder-gradual", longest < 0.15 and rises == 0, longest=longest, rises=rises),
    ]  # fmt: skip


_STYLES = (("o", 0, 4.5, "-"), ("D", 5, 1.4, "--"), ("s", 2, 4.5, "-"), ("^", 7, 1.4, "--"))
"""The marker of each method, the index of its first marker, and its line width and style."""

ROUNDING = 1e-13  # smaller f − f* are taken as 0

_TICKS = {"drop-wave": (0.05, 0.1, 0.2, 0.5), "eggholder": (50, 100, 200)}


def _draw(made: dict[str, dict[str, Result]]) -> Any:
    panels = ((p.function, made[name], f"λ = {readable(p.lam)}, α = {readable(p.step)}")
              for name, p in PANELS.items())  # fmt: skip
    figure = curves(1, 3.6, panels, "iters")
    for axes, name in zip(figure.axes, made, strict=True):
        # where two curves coincide, one is a band and the other a line on it, with alternating markers
        for line, (marker, first, width, dashes) in zip(axes.lines, _STYLES, strict=True):
            line.set(marker=marker, markevery=(first, 10), markersize=6, linewidth=width, linestyle=dashes)
            line.set(markeredgecolor="white", markeredgewidth=0.6)
        if name in _TICKS:
            axes.set_yticks(_TICKS[name], labels=[f"{tick:g}" for tick in _TICKS[name]])
            axes.minorticks_off()
    legend_above(figure)
    return figure


# --- a recorded search: random α, λ and starts, and how often they show what the paper describes ---------

SEED, TRIALS = 0, 1000
RANGES = {"step": (1e-5, 1.0), "lam": (1e-3, 100.0)}
"""α and λ are drawn log-uniformly, the start uniformly from the function's box."""

COINCIDE = 0.01  # two runs coincide if f − f* never differs by more than this share of its first value


class Trials(NamedTuple):
    """The trials on one function: α, λ, and f − f* of the four methods (method, iteration, trial)."""

    step: Floats
    lam: Floats
    gaps: Floats

    @property
    def suitable(self) -> Any:
        """A mask: both CGD variants never raise f, and end a tenth or more below both plain methods."""
        plain, cgd = self.gaps[:2], self.gaps[2:]
        with np.errstate(invalid="ignore"):
            falls = (np.diff(cgd, axis=1) <= 0).all(axis=(0, 1))
            return falls & (cgd[:, -1].max(axis=0) < 0.9 * plain[:, -1].min(axis=0))

    @property
    def apart(self) -> Floats:
        """The largest difference between CGD-BFGS and CGD-DFP, as a share of the first value."""
        with np.errstate(invalid="ignore"):
            return np.abs(self.gaps[2] - self.gaps[3]).max(axis=0) / self.gaps[2, 0]

    @property
    def share(self) -> float:
        """The share of suitable settings with which they coincide."""
        apart = self.apart[self.suitable]
        return float((apart < COINCIDE).mean()) if len(apart) else 0.0


def search(function: Function, trials: int = TRIALS, seed: int = SEED) -> Trials:
    """Run the four methods with random settings, all trials in one batch."""
    rng = np.random.default_rng(seed)
    low, high = function.bounds.T
    starts = rng.uniform(low, high, (trials, function.n))
    step, lam = (
        np.exp(rng.uniform(math.log(least), math.log(most), trials)) for least, most in RANGES.values()
    )
    gaps = np.full((len(METHODS), T + 1, trials), np.nan)
    for i, made in enumerate(_runs(function, starts, step, lam).values()):
        f = trace(made).f
        gaps[i, : len(f)] = f - function.fmin
    return Trials(step, lam, gaps)


def sweep() -> Outcome:
    """Search, and count how often the CGD variants are ahead, and how often they coincide."""
    made = {name: search(panel.function) for name, panel in PANELS.items()}
    rows = [
        (PANELS[name].function.title, TRIALS, int(trials.suitable.sum()), trials.share)
        for name, trials in made.items()
    ]
    return outcome(
        "fig-quasi-newton-sweep",
        claims=[
            claim("fig-quasi-newton-sweep", "coincide", share > 0.5, function=title, share=share,
                  count=count, trials=TRIALS)
            for title, _, count, share in rows
        ],
        tables={"fig-quasi-newton-sweep": rows},
        pictures={"fig-quasi-newton-sweep": _draw_sweep(made)},
        settings={"seed": SEED, "trials": TRIALS, **RANGES, "start": "the function's box"},
        coincide=COINCIDE, fewest=min(rows, key=lambda row: row[2]),
        most=", ".join(row[0] for row in rows if row[3] > 0.5),
    )  # fmt: skip


def _draw_sweep(made: dict[str, Trials]) -> Any:
    figure = plot.blank(10, 3.6)
    for i, (axes, (name, trials)) in enumerate(zip(figure.subplots(1, 3), made.items(), strict=True)):
        panel, chosen = PANELS[name], trials.suitable
        apart, colour = np.maximum(trials.apart[chosen], 1e-16), plot.COLOURS["cgd-bfgs"]
        axes.loglog(trials.lam[chosen], apart, ".", color=colour, ms=4, alpha=0.6, rasterized=True)
        bfgs, dfp = (trace(panel.runs()[label]).f for label in ("CGD-BFGS", "CGD-DFP"))
        ours = max(float(np.abs(bfgs - dfp).max() / (bfgs[0] - panel.function.fmin)), 1e-16)
        axes.plot(panel.lam, ours, "o", color="black", ms=7)
        axes.axhline(COINCIDE, color="0.4", ls="--", lw=1)
        title = f"{panel.function.title}: {trials.share:.0%} of {int(chosen.sum())}"
        axes.set_title(title, fontsize="medium")
        axes.set(xlim=RANGES["lam"], ylim=(5e-17, 3), xlabel="λ" if i == 1 else "")
        plot.tidy(axes)
    figure.axes[0].set_ylabel("largest difference, share of f₀ − f*")
    return figure
