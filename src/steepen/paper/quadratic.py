"""The analysis on quadratics, measured: the best step, the contraction, and what λ does to the condition."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import plot, theory
from .._core.result import Trace
from .._minimize import minimize
from ..budget import Budget
from ..functions import Function
from ..functions import quadratic as quadratic_function
from ._claims import Claim, Outcome, Table, readable

__all__ = ["NAME", "SECTION", "TITLE", "best_lam", "measured_rate", "run"]

NAME = "quadratic"
TITLE = "The quadratic analysis: best step, contraction, condition"
SECTION = "Section 3.1"
SAYS = (
    "On a quadratic with curvatures from l to L the best constant α is 2/((1+2λL)L + (1+2λl)l). The error "
    "then shrinks by (κ−1)/(κ+1) in each step, and a λ > 0 makes the condition number κ worse."
)
MATTERS = (
    "It tells apart the two things that λ does: it makes steps longer, which a larger α does for nothing, "
    "and it stretches the valley, which only hurts."
)

Floats = NDArray[np.float64]

SMALLEST, LARGEST, N = 1.0, 10.0, 11
"""Q has N eigenvalues in even steps from the smallest to the largest, in a random basis."""

SEED = 3
"""Of that basis, and of the linear term after it."""

LAMS = (-0.02, 0.0, 0.05, 0.2, 1.0)
OFF = 0.03
"""How far beside the best step, as a share of it, another one is tried."""

SHORT_STEP = 0.01
"""A step far below the best one of GD: the paper's own α on its quadratic."""


def best_lam() -> float:
    """Return the λ with the smallest condition number, −1/(2(l + L)).

    Examples
    --------
    >>> round(best_lam(), 6)
    -0.045455
    """
    return -0.5 / (SMALLEST + LARGEST)


def measured_rate(lam: float, step: float, iterations: int = 400) -> tuple[float, float, Trace]:
    """Run CGD on the quadratic and measure how ‖x − x*‖ shrinks.

    Parameters
    ----------
    lam, step : float
        λ and α.
    iterations : int
        The most steps to take; the run ends when the error is 1e-8 of the first.

    Returns
    -------
    rate, worst : float
        The factor of the last step, which is that of the slowest direction, and the worst of all.
    trace : Trace
        The run.

    Examples
    --------
    >>> rate, worst, _ = measured_rate(0.0, theory.quadratic_step(SMALLEST, LARGEST, 0.0))
    >>> round(rate, 6), worst <= 9 / 11 + 1e-7
    (0.818182, True)
    """
    f, start = _problem()
    centre = f.minima[0]
    first = float(np.linalg.norm(start - centre))
    result = minimize(
        f, start, method="cgd", lam=lam, step=step, gtol=0.0, budget=Budget(iters=iterations), trace="x",
        callback=lambda state: bool(np.linalg.norm(state.x - centre) <= 1e-8 * first),
    )  # fmt: skip
    trace = result.trace
    assert trace is not None
    assert trace.x is not None
    error: Floats = np.linalg.norm(trace.x - centre, axis=1)
    ratios = error[1:] / error[:-1]
    return float(ratios[-1]), float(ratios.max()), trace


def run() -> Outcome:
    """Measure the rate of CGD on a quadratic for several λ, and compare it with the formulas.

    Examples
    --------
    >>> all(claim.holds for claim in run().claims)
    True
    """
    outcome = Outcome()
    low, high, best = SMALLEST, LARGEST, best_lam()
    kappa_q = high / low
    rows: list[tuple[Any, ...]] = []
    off, above, slower = 0.0, 0.0, np.inf
    measured: list[tuple[float, float]] = []
    for lam in sorted((*LAMS, best)):
        step, rate = (float(form(low, high, lam)) for form in (theory.quadratic_step, theory.optimal_rate))
        kappa = float(theory.condition_number(low, high, lam))
        seen, worst, trace = measured_rate(lam, step)
        outcome.traces[f"{NAME}-lam{lam:+.3g}"] = trace
        measured.append((lam, seen))
        rows.append((lam, step, kappa, (1 + seen) / (1 - seen), rate, seen))
        if lam >= 0:  # the paper's range
            off, above = max(off, abs(seen - rate)), max(above, worst - rate)
            slower = min(slower, *(measured_rate(lam, (1 + d) * step)[0] - seen for d in (-OFF, OFF)))
    kappas = {row[0]: row[2] for row in rows}
    worsens = {row[0]: row[3] for row in rows if row[0] > 0}  # as measured, not by the formula
    outcome.claims += [
        Claim(
            "α = 2/((1+2λL)L + (1+2λl)l) is the best constant step",
            "both ends contract alike",
            f"{OFF:.0%} to either side changes the rate by {readable(slower, '+.4f')} or more",
            agrees=slower > 0,
        ),
        Claim(
            "‖e_{k+1}‖ ≤ ((κ−1)/(κ+1))·‖e_k‖ at that step, every k",
            "≤",
            f"largest excess {readable(max(above, 0.0), '.1g')}",
            agrees=above <= 1e-7,
        ),
        Claim(
            "the rate is (κ−1)/(κ+1) with κ = κ(B)κ(Q)",
            "attained",
            f"measured within {readable(off, '.1g')}",
            agrees=off <= 1e-6,
        ),
        Claim(
            "λ > 0 worsens the condition: κ > κ(Q)",
            f"κ > {kappa_q:g}",
            ", ".join(f"κ = {kappa:.3g} at λ = {lam:g}" for lam, kappa in worsens.items()),
            agrees=min(worsens.values()) > kappa_q,
        ),
    ]
    gd, ours = (float(theory.optimal_rate(low, high, lam)) for lam in (0.0, best))
    short = {lam: measured_rate(lam, SHORT_STEP)[0] for lam in (0.0, 0.8)}
    outcome.found = [
        f"On a quadratic with curvatures from {low:g} to {high:g} and the paper's α = {SHORT_STEP:g}, the "
        f"error of GD shrinks by the factor {short[0.0]:.3f} in a step, and that of CGD with λ = 0.8 by "
        f"{short[0.8]:.3f}. GD with its best α has {gd:.3f}, at half the price.",
        f"With the best α for each λ, the best λ is negative: −1/(2(l+L)) = {readable(best)} brings κ from "
        f"{kappa_q:g} to (κ(Q)+1)²/(4κ(Q)) = {kappas[best]:.4g} and the rate from {gd:.4f} to {ours:.4f}. "
        f"One such step, a gradient and an H·v, does what {np.log(ours) / np.log(gd):.2f} steps of GD do.",
    ]
    outcome.notes = [
        "For λ < 0 the product κ(B)κ(Q) is no longer the condition number of BQ, since t(1+2λt) can turn "
        "inside [l, L]; steepen.theory.condition_number takes that into account.",
    ]
    outcome.tables[NAME] = Table(
        ("λ", "best α", "κ", "κ, measured", "rate (κ−1)/(κ+1)", "rate, measured"),
        rows,
        f"CGD on a quadratic with {N} eigenvalues from {low:g} to {high:g}, at the best α for each λ. "
        "κ measured is (1+ρ)/(1−ρ) of the measured rate ρ, that of the last step before the error is 1e−8 of "
        "the first. For λ < 0 several eigenvalues shrink at almost one rate, and the faster of them still "
        "count there: ρ is a little low.",
    )
    outcome.figures[NAME] = _figure(measured)
    outcome.captions[NAME] = (
        "The factor by which ‖x − x*‖ shrinks in a step, against λ. With the best α for each λ (first "
        "panel), λ > 0 is slower than GD and a small negative λ faster. With a short fixed α (second panel), "
        "λ > 0 helps, until it overshoots."
    )
    outcome.settings = {
        "eigenvalues": {"from": low, "to": high, "how many, evenly spaced": N},
        "basis": f"QR of a normal matrix, then a normal linear term, from numpy's default_rng({SEED})",
        "start": "the minimiser plus each eigenvector once",
        "lams": [*LAMS, best],
        "short step": SHORT_STEP,
    }
    return outcome


def _problem() -> tuple[Function, Floats]:
    rng = np.random.default_rng(SEED)
    basis = np.linalg.qr(rng.standard_normal((N, N)))[0]
    f = quadratic_function(
        basis @ np.diag(np.linspace(SMALLEST, LARGEST, N)) @ basis.T, b=rng.standard_normal(N)
    )
    return f, f.minima[0] + basis @ np.ones(N)  # every eigenvector has its part


def _figure(measured: list[tuple[float, float]]) -> Any:
    figure = plot.blank(10, 4)
    left, right = figure.subplots(1, 2)
    low, high = SMALLEST, LARGEST
    # beyond −1/(2L) the largest eigenvalue is climbed
    lam = np.sort([*np.linspace(-0.4999 / high, 0.3, 600), best_lam()])
    gd = float(theory.optimal_rate(low, high, 0.0))
    left.plot(lam, theory.optimal_rate(low, high, lam), color=plot.COLOURS["cgd"], label="CGD, formula")
    inside = np.array([pair for pair in measured if pair[0] <= 0.3])
    left.plot(*inside.T, "o", color=plot.COLOURS["cgd"], mec="black", label="CGD, measured")
    left.axhline(gd, color=plot.COLOURS["gd"], ls="--", lw=1.2, label="GD")
    left.axvline(0.0, color="0.7", lw=0.8, zorder=0)
    left.annotate(
        "best λ = −1/(2(l+L))",
        (best_lam(), inside[:, 1].min()),
        (14, 0),
        textcoords="offset points",
        va="center",
    )
    left.set_ylim(top=1.0)
    left.set_title("best α for each λ", fontsize="medium")

    some = np.linspace(0.0, 0.9, 7)
    wide = np.linspace(0.0, 0.96, 400)
    right.plot(
        wide, theory.contraction(SHORT_STEP, low, high, wide), color=plot.COLOURS["cgd"], label="CGD, formula"
    )
    right.plot(
        some, [measured_rate(value, SHORT_STEP)[0] for value in some], "o", color=plot.COLOURS["cgd"],
        mec="black", label="CGD, measured",
    )  # fmt: skip
    right.axhline(1 - SHORT_STEP * low, color=plot.COLOURS["gd"], ls="--", lw=1.2, label="GD")
    right.axhline(1.0, color="black", lw=0.8)
    right.set_title(f"α = {SHORT_STEP:g} for every λ", fontsize="medium")
    for ax in (left, right):
        ax.set(xlabel="λ", ylabel="‖eₖ₊₁‖ / ‖eₖ‖")
        plot.tidy(ax)
        plot.say_start(ax)
    plot.legend_above(figure)
    return figure
