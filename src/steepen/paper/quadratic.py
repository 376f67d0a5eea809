"""Item of `reproduce`, quadratics: the best step, the rate, λ and the condition number; writes no files."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .. import plot, theory
from ..budget import Budget
from ..functions import Function
from ..trace import Trace
from ._figures import legend_above, say_start
from ._items import Outcome, claim, outcome
from ._runs import Floats, minimize, path, trace, turned_quadratic

SMALLEST, LARGEST, N = 1.0, 10.0, 11  # Q has N evenly spaced eigenvalues and a random basis
SEED = 3  # of that basis, and of the linear term after it
LAMS = (-0.02, 0.0, 0.05, 0.2, 1.0)
OFF = 0.03  # relative distance from the best step at which other steps are tried
SHORT_STEP = 0.01  # far below GD's best step: the paper's α on its quadratic
ROUNDED, SEEN = 1e-7, 1e-6  # a measured rate may be so far above the formula's, and so far off it
BEST_LAM = -0.5 / (SMALLEST + LARGEST)  # the λ with the smallest condition number, −1/(2(l + L))


_claim = partial(claim, "quadratic")


def _problem() -> tuple[Function, Floats]:
    f, basis = turned_quadratic(np.random.default_rng(SEED), np.linspace(SMALLEST, LARGEST, N))
    return f, f.minima[0] + basis @ np.ones(N)  # with a component along every eigenvector


def measured_rate(lam: float, step: float, iterations: int = 400) -> tuple[float, float, Trace]:
    """Run CGD on the quadratic until the error is 1e-8 of the first, or to the last iteration.

    Return the ratio of ‖x − x*‖ in the last step, which is that of the slowest direction, the largest ratio,
    and the trace.
    """
    f, start = _problem()
    centre = f.minima[0]
    first = float(np.linalg.norm(start - centre))

    def arrived(state: Any) -> bool:
        return bool(np.linalg.norm(state.x - centre) <= 1e-8 * first)

    result = minimize(
        f, start, method="cgd", lam=lam, step=step, budget=Budget(iters=iterations), trace="x",
        callback=arrived,
    )  # fmt: skip
    error: Floats = np.linalg.norm(path(result) - centre, axis=1)
    ratios = error[1:] / error[:-1]
    return float(ratios[-1]), float(ratios.max()), trace(result)


def run() -> Outcome:
    """Measure the rate of CGD on a quadratic for several λ, and compare it with the formulas."""
    low, high = SMALLEST, LARGEST
    kappa_q = high / low
    rows: list[tuple[Any, ...]] = []
    traces: dict[str, Trace] = {}
    off, above, slower = 0.0, 0.0, np.inf
    for lam in sorted((*LAMS, BEST_LAM)):
        step, rate = (float(form(low, high, lam)) for form in (theory.quadratic_step, theory.optimal_rate))
        kappa = float(theory.condition_number(low, high, lam))
        seen, worst, traces[f"quadratic-lam{lam:+.3g}"] = measured_rate(lam, step)
        rows.append((lam, step, kappa, (1 + seen) / (1 - seen), rate, seen))
        if lam >= 0:  # the paper's range
            off, above = max(off, abs(seen - rate)), max(above, worst - rate)
            slower = min(slower, *(measured_rate(lam, (1 + d) * step)[0] - seen for d in (-OFF, OFF)))
    worsens = {row[0]: row[3] for row in rows if row[0] > 0}  # as measured, not by the formula
    best = next(row[2] for row in rows if row[0] == BEST_LAM)
    gd, ours = (float(theory.optimal_rate(low, high, lam)) for lam in (0.0, BEST_LAM))
    short = [measured_rate(lam, SHORT_STEP)[0] for lam in (0.0, 0.8)]
    return outcome(
        "quadratic",
        claims=[
            _claim("best-step", slower > 0, off=OFF, slower=slower),
            _claim("contraction", above <= ROUNDED, slack=ROUNDED, above=above),
            _claim("sharp", off <= SEEN, slack=SEEN, within=off),
            _claim("condition", min(worsens.values()) > kappa_q, kappa_q=kappa_q,
                   kappas=", ".join(f"κ = {kappa:.3g} at λ = {lam:g}" for lam, kappa in worsens.items())),
        ],
        tables={"quadratic": rows},
        pictures={"quadratic": _figure([(row[0], row[5]) for row in rows])},
        traces=traces,
        settings={
            "eigenvalues": {"from": low, "to": high, "how many, evenly spaced": N},
            "basis": f"QR of a normal matrix, then a normal linear term, from numpy's default_rng({SEED})",
            "start": "the minimiser plus each eigenvector once",
            "lams": [*LAMS, BEST_LAM],
            "short step": SHORT_STEP,
        },
        n=N, low=low, high=high, short_step=SHORT_STEP, short=short, best_lam=BEST_LAM,
        kappa_q=kappa_q, best=best, gd=gd, ours=ours, worth=np.log(ours) / np.log(gd),
    )  # fmt: skip


def _figure(measured: list[tuple[float, float]]) -> Any:
    figure = plot.blank(10, 4)
    left, right = figure.subplots(1, 2)
    low, high, colour = SMALLEST, LARGEST, plot.COLOURS["cgd"]
    # below −1/(2L) the error grows along the largest eigenvalue
    lam, wide = np.sort([*np.linspace(-0.4999 / high, 0.3, 600), BEST_LAM]), np.linspace(0.0, 0.96, 400)
    inside = np.array([pair for pair in measured if pair[0] <= 0.3])
    short = np.array([(value, measured_rate(value, SHORT_STEP)[0]) for value in np.linspace(0.0, 0.9, 7)])
    gd = float(theory.optimal_rate(low, high, 0.0))
    panels = (
        (left, lam, theory.optimal_rate(low, high, lam), inside, gd, "best α for each λ"),
        (right, wide, theory.contraction(SHORT_STEP, low, high, wide), short, 1 - SHORT_STEP * low,
         f"α = {SHORT_STEP:g} for every λ"),
    )  # fmt: skip
    for ax, x, formula, dots, plain, title in panels:
        ax.plot(x, formula, color=colour, label="CGD, formula")
        ax.plot(*dots.T, "o", color=colour, mec="black", label="CGD, measured")
        ax.axhline(plain, color=plot.COLOURS["gd"], ls="--", lw=1.2, label="GD")
        ax.set_title(title, fontsize="medium")
    left.axvline(0.0, color="0.7", lw=0.8, zorder=0)
    lowest = (BEST_LAM, inside[:, 1].min())
    left.annotate("best λ = −1/(2(l+L))", lowest, (14, 0), textcoords="offset points", va="center")
    left.set_ylim(top=1.0)
    right.axhline(1.0, color="black", lw=0.8)
    for ax in (left, right):
        ax.set(xlabel="λ", ylabel="‖eₖ₊₁‖ / ‖eₖ‖")
        plot.tidy(ax)
        say_start(ax)
    legend_above(figure)
    return figure
