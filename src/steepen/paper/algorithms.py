"""Algorithms 1 to 3: every iterate of our runs beside the paper's listings, transcribed line by line."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, cast

import numpy as np

from .. import plot
from .._core.result import Result, Trace
from .._minimize import minimize
from ..budget import Budget
from ..functions import functions
from ..schedules import L
from . import listings
from ._claims import Claim, Outcome, Table, readable
from .egr import Floats
from .experiments import EXPERIMENTS, Experiment, T
from .fig_quasi_newton import PANELS, Panel

__all__ = ["NAME", "SECTION", "TITLE", "run"]

NAME = "algorithms"
TITLE = "Algorithms 1 to 3: our runs are the paper's listings"
SECTION = "Sections 3 and 4"
SAYS = (
    "Three listings say what a step of CGD, of CGD-FD and of «CGD-QN» is. The last takes the Hessian that "
    "the penalty needs from the updates of a quasi-Newton method, BFGS or DFP, and so pays one gradient a "
    "step."
)
MATTERS = (
    "All that follows is about these methods only if our code implements them. So each is run beside its "
    "listing, copied out line by line."
)

START, LAM, STEP, R = (9.94, 9.62), 0.05, 0.02, 0.01
"""A run on the Levy function in the plane in which the check fails, and passes again later."""

b = T // 4
"""The paper's b, from the paper's T; the runs get theirs from `experiments`."""

SAME = 1e-8
"""Two iterates are the same if they are this close, as a share of the way."""


def run() -> Outcome:
    """Run every method beside its listing.

    Examples
    --------
    >>> all(claim.holds for claim in run().claims)
    True
    """
    rows: list[tuple[Any, ...]] = []
    claims = [_cgd(rows), _cgd_fd(rows), _first_b(), _henceforth(rows), _rising()]
    claims += [
        _quasi_newton(rows, "CGD-BFGS", "CGD-DFP"),
        _quasi_newton(rows, "BFGS", "DFP"),
        _positive(rows),
    ]
    claims.append(_functions())
    largest = max((row[-1] for row in rows if isinstance(row[-1], float)), default=0.0)
    return Outcome(
        claims=claims,
        tables={
            NAME: Table(
                ("method", "function", "steps", "guarded", "largest difference"),
                rows,
                "Our iterates against the listing's; the difference is a share of the way from the start.",
            )
        },
        figures={NAME: _draw()},
        captions={
            NAME: f"CGD on the Levy function of two variables, {T} steps: ours (dots) and the listing's "
            "(rings). Triangles are steps along −∇f, because −∇g would have led uphill."
        },
        found=[
            f"In {len(rows)} pairs of runs, {sum(row[2] for row in rows)} steps in all, ours and the "
            "listing's differ "
            + (f"by up to {readable(largest)} of the way." if largest else "by nothing but rounding.")
        ],
        notes=[
            "The listings are transcribed in steepen.paper.listings without a line of the library. Algorithm "
            "2 is taken with νₖ = 2λₖ/r in every iteration, Algorithm 3 where every pair has yᵀs > 0 (see "
            "the errata)."
        ],
        settings={
            "start where the check fails": START,
            "lam": LAM,
            "step": STEP,
            "r": R,
            "T": T,
            "b": b,
            "the other runs": "those of Table 1 and of Fig. 4",
        },
    )


def _apart(result: Result, xs: Floats) -> float:
    """Return the largest difference of iterates as a share of the way; inf if the runs differ in length."""
    ours = cast(Floats, cast(Trace, result.trace).x)
    if ours.shape != xs.shape:
        return np.inf
    way = float(np.abs(xs - xs[0]).max())
    return float(np.abs(ours - xs).max()) / way


def _row(method: str, function: str, result: Result, apart: float) -> tuple[Any, ...]:
    trace = cast(Trace, result.trace)
    difference = "none but rounding" if apart <= SAME else apart
    return method, function, len(trace) - 1, int(trace.guarded.sum()), difference


def _claim(text: str, apart: list[float], more: str = "", *, agrees: bool = True) -> Claim:
    worst = max(apart)
    same = worst <= SAME
    ours = f"the same{more}" if same else f"up to {readable(worst, '.1g')} of the way apart{more}"
    return Claim(text, "the same", ours, same and agrees)


def _on_levy(method: str, **settings: Any) -> Result:
    levy = functions["levy"].at(n=2)
    return minimize(levy, START, method=method, lam=LAM, step=STEP, gtol=0.0, trace="x", **settings)


def _cgd(rows: list[tuple[Any, ...]]) -> Claim:
    levy = functions["levy"].at(n=2)
    made = _on_levy("cgd", budget=Budget(iters=T))
    apart = _apart(made, listings.cgd(levy.grad, levy.hess, START, T, STEP, LAM))
    rows.append(_row("CGD", levy.title, made, apart))
    fired = int(cast(Trace, made.trace).guarded.sum())
    return _claim(
        "Algorithm 1 (CGD), every iterate", [apart], f"; the check fails in {fired} steps", agrees=fired > 0
    )


def _draw() -> Any:
    levy = functions["levy"].at(n=2)
    made = _on_levy("cgd", budget=Budget(iters=T))
    ours, guarded = cast(Floats, cast(Trace, made.trace).x), cast(Trace, made.trace).guarded
    listed = listings.cgd(levy.grad, levy.hess, START, T, STEP, LAM)
    figure = plot.blank(8, 4.2)
    axes = figure.subplots()
    plot.trajectories(levy, {"CGD, ours": made}, points=100, ax=axes)
    axes.plot(*listed.T, "o", mfc="none", mec="black", ms=9, lw=0, label="the listing's", zorder=5)
    stopped = ours[:-1][guarded[: len(ours) - 1]]
    axes.plot(*stopped.T, "^", color="black", ms=5, lw=0, label="the guard steps in", zorder=6)
    axes.set_title(f"Levy, n = 2: λ = {LAM:g}, α = {STEP:g}", fontsize="medium")
    plot.legend_above(figure)
    return figure


def _lams(row: Experiment) -> list[float]:
    return listings.linear(row.lam.start, row.lam.end, T) if isinstance(row.lam, L) else [row.lam] * T


def _cgd_fd(rows: list[tuple[Any, ...]]) -> Claim:
    apart: list[float] = []
    counted = True
    for row in EXPERIMENTS.values():
        made = row.run("cgd-fd", trace="x")
        xs, cs = listings.cgd_fd(row.function.grad, row.start, T, row.step, _lams(row), row.r, b)
        counted = counted and cast(Trace, made.trace).njev.tolist() == cs
        apart.append(_apart(made, xs))
        rows.append(_row("CGD-FD", row.function.title, made, apart[-1]))
    more = f" on the {len(EXPERIMENTS)} functions of Table 1{', c too' if counted else '; c differs'}"
    return _claim("Algorithm 2 (CGD-FD), every iterate and its cost c", apart, more, agrees=counted)


def _first_b() -> Claim:
    """Compare how the budget is spent with what T and b imply, whatever the function; b is the default."""
    steps, penalised = b + 1 + T - 2 * (b + 1), b + 1
    found = {
        (len(trace) - 1, int(trace.penalised.sum()))
        for row in EXPERIMENTS.values()
        for trace in [cast(Trace, row.run("cgd-fd", b=None).trace)]
    }
    return Claim(
        f"T = {T} and b = T/4 buy {steps} steps, {penalised} of them with the penalty",
        f"{steps}, {penalised}",
        "; ".join(f"{many}, {few}" for many, few in sorted(found)),
        found == {(steps, penalised)},
    )


def _henceforth(rows: list[tuple[Any, ...]]) -> Claim:
    levy = functions["levy"].at(n=2)
    made = _on_levy("cgd-fd", r=R, b=b, budget=Budget(grads=T))
    apart = _apart(made, listings.cgd_fd(levy.grad, START, T, STEP, [LAM] * T, R, b)[0])
    rows.append(_row("CGD-FD", f"{levy.title}, check fails", made, apart))
    trace = cast(Trace, made.trace)
    fired, last = np.flatnonzero(trace.guarded), int(trace.penalised.sum())
    return _claim(
        "Algorithm 2: once the check fails, steepest descent henceforth",
        [apart],
        f"; it fails at k = {', '.join(map(str, fired))}, after {last} penalised steps",
        agrees=len(fired) == 1,
    )


def _rising() -> Claim:
    row = EXPERIMENTS["levy"]
    used = cast(Trace, row.run("cgd-fd").trace).lam[: b + 1]
    expected = np.array(_lams(row)[: len(used)])
    same = bool(len(used) == b + 1 and np.allclose(used, expected, rtol=1e-12, atol=0))
    return Claim(
        f"L(a, b) rises linearly over T values: λ of Levy's steps 0 to {b}",
        f"{expected[0]:g} to {expected[-1]:.4f}",
        f"{used[0]:g} to {used[-1]:.4f}",
        same,
    )


def _quasi_newton(rows: list[tuple[Any, ...]], *labels: str) -> Claim:
    apart: list[float] = []
    plain = not labels[0].startswith("CGD")
    # plain BFGS and DFP leave Drop-Wave's straight line by rounding alone
    panels = [panel for name, panel in PANELS.items() if not plain or name != "drop-wave"]
    for panel in panels:
        made = panel.runs()
        for label in labels:
            apart.append(_apart(made[label], _listed(panel, label)))
            rows.append(_row(label, panel.function.title, made[label], apart[-1]))
    text = f"{'Section 2' if plain else 'Algorithm 3 (CGD-QN)'}, every iterate of {' and '.join(labels)}"
    return _claim(text, apart, f" on {', '.join(panel.function.title for panel in panels)}")


UPDATES = {"CGD-BFGS": listings.bfgs, "CGD-DFP": listings.dfp}

BENT = Panel(functions["styblinski-tang"], lam=0.02, step=0.01, start=(0.5, -0.2))
"""A run of CGD-QN that meets pairs without yᵀs > 0."""


def _positive(rows: list[tuple[Any, ...]]) -> Claim:
    """Run Algorithm 3 where f bends down, beside the listing with such pairs left out."""
    apart: list[float] = []
    grad, start = BENT.function.grad, BENT.start
    made = BENT.runs()
    for label, update in UPDATES.items():
        xs = listings.cgd_qn(grad, start, T, BENT.step, BENT.lam, listings.kept(update))
        apart.append(_apart(made[label], xs))
        rows.append(_row(label, f"{BENT.function.title}, bent down", made[label], apart[-1]))
    xs = listings.cgd_qn(grad, start, T, BENT.step, BENT.lam, listings.kept(listings.bfgs))
    least: dict[str, float] = {}
    for name, update in (("left out", listings.kept(listings.bfgs)), ("taken", listings.bfgs)):
        matrix, lowest = np.eye(len(start)), np.inf
        for x, after in pairwise(xs):
            matrix = update(matrix, after - x, grad(after) - grad(x))
            lowest = min(lowest, float(np.linalg.eigvalsh(matrix)[0]))
        least[name] = lowest
    same = max(apart) <= SAME
    return Claim(
        "Algorithm 3 keeps its approximation positive definite, pairs without yᵀs > 0 left out",
        "maintained",
        f"{'every iterate the same' if same else 'the iterates differ'}; least eigenvalue "
        f"{readable(least['left out'], '.2g')}, and {readable(least['taken'], '.2g')} if they are taken",
        same and least["taken"] < 0 < least["left out"],
        "chosen",
    )


def _functions() -> Claim:
    """Hold the named functions against their formulas: values, gradients and the published minimum."""
    wrong: list[str] = []
    rng = np.random.default_rng(0)
    used = {row.function.name: row.function for row in EXPERIMENTS.values()}
    used |= {panel.function.name: panel.function for panel in PANELS.values()}
    for name, (formula, best, lowest) in listings.FUNCTIONS.items():
        f = used[name]
        low, high = f.bounds.T
        x = rng.uniform(low, high, (50, f.n))
        values = np.array([formula(row) for row in x])
        size = np.abs(values).max()
        steps = 1e-6 * np.abs(f.bounds).max() * np.eye(f.n)
        slopes = [[(formula(p + h) - formula(p - h)) / (2 * h.max()) for h in steps] for p in x]
        same = np.abs(f(x) - values).max() <= 1e-12 * size
        same = same and np.abs(f.grad(x) - slopes).max() <= 1e-5 * np.abs(slopes).max()
        at = max(abs(f.fmin - lowest), abs(float(f(best)) - lowest))
        if not (same and at <= 1e-4):
            wrong.append(f.title)
    return Claim(
        f"the {len(listings.FUNCTIONS)} named test functions: values, gradients and minima",
        "the library's",
        f"other on {', '.join(wrong)}" if wrong else "the same as the library's formulas",
        not wrong,
    )


def _listed(panel: Panel, label: str) -> Floats:
    grad = panel.function.grad
    if label.startswith("CGD"):
        return listings.cgd_qn(grad, panel.start, T, panel.step, panel.lam, UPDATES[label])
    return listings.quasi_newton(grad, panel.start, T, panel.step, "bfgs" if label == "BFGS" else "dfp")
