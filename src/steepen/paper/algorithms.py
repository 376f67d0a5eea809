"""Algorithms 1 to 3: every iterate of our runs beside the paper's listings, transcribed line by line."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from .. import plot
from .._core.result import Result
from ..budget import Budget
from ..functions import functions
from ..schedules import L
from . import listings
from ._items import Claim, Outcome, Picture, Table, readable
from ._runs import Floats, minimize, path, trace
from .experiments import EXPERIMENTS, Experiment, T
from .fig_quasi_newton import PANELS, Panel

START, LAM, STEP, R = (9.94, 9.62), 0.05, 0.02, 0.01
"""A run on the Levy function in the plane in which the check fails, and passes again later."""

b = T // 4
"""The paper's b, from the paper's T; the runs get theirs from `experiments`."""

BENT = Panel(functions["styblinski-tang"], lam=0.02, step=0.01, start=(0.5, -0.2))
"""A run of CGD-QN that meets pairs without yᵀs > 0."""

SAME = 1e-8  # two iterates are the same if they are this close, as a share of the way

UPDATES = {"CGD-BFGS": listings.bfgs, "CGD-DFP": listings.dfp}
_LEVY = functions["levy"].at(n=2)


class _Pairs:
    """Our runs beside the listings': the rows of the table, and what a claim says of them."""

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []

    def add(self, method: str, function: str, result: Result, xs: Floats) -> float:
        """Return the largest difference of iterates as a share of the way; inf if the lengths differ."""
        ours = path(result)
        way = float(np.abs(xs - xs[0]).max())
        apart = float(np.abs(ours - xs).max()) / way if ours.shape == xs.shape else np.inf
        difference = "none but rounding" if apart <= SAME else apart
        guarded = int(trace(result).guarded.sum())
        self.rows.append((method, function, len(ours) - 1, guarded, difference))
        return apart


def _claim(text: str, apart: list[float], more: str = "", *, agrees: bool = True) -> Claim:
    worst = max(apart)
    same = worst <= SAME
    ours = f"the same{more}" if same else f"up to {readable(worst, '.1g')} of the way apart{more}"
    return Claim(text, "the listing", ours, same and agrees)


def run() -> Outcome:
    """Run every method beside its listing."""
    pairs = _Pairs()
    made = _on_levy("cgd", budget=Budget(iters=T))
    listed = listings.cgd(_LEVY.grad, _LEVY.hess, START, T, STEP, LAM)
    apart, fired = [pairs.add("CGD", _LEVY.title, made, listed)], int(trace(made).guarded.sum())
    more = f"; the check fails in {fired} steps"
    claims = [
        _claim("Algorithm 1 (CGD), every iterate", apart, more, agrees=fired > 0), _cgd_fd(pairs),
        _first_b(), _henceforth(pairs), _rising(),
        _quasi_newton(pairs, "CGD-BFGS", "CGD-DFP"), _quasi_newton(pairs, "BFGS", "DFP"),
        _positive(pairs), _functions(),
    ]  # fmt: skip
    rows = pairs.rows
    largest = max((row[-1] for row in rows if isinstance(row[-1], float)), default=0.0)
    return Outcome(
        claims=claims,
        tables={
            "algorithms": Table(
                ("method", "function", "steps", "guarded", "largest difference"), rows
            )
        },
        pictures={"algorithms": Picture(_draw(made, listed))},
        settings={
            "start where the check fails": START, "lam": LAM, "step": STEP, "r": R, "T": T, "b": b,
            "the other runs": "those of Table 1 and of Fig. 4",
        },
    ).told(
        "algorithms", pairs=len(rows), steps=sum(row[2] for row in rows),
        apart=f"up to {readable(largest)} of the way" if largest else "nothing but rounding",
    )  # fmt: skip


def _on_levy(method: str, **settings: Any) -> Result:
    return minimize(_LEVY, START, method=method, lam=LAM, step=STEP, trace="x", **settings)


def _draw(made: Result, listed: Floats) -> Any:
    ours, guarded = path(made), trace(made).guarded
    axes = plot.blank(8, 4.2).subplots()
    plot.trajectories(_LEVY, {"CGD, ours": made}, points=100, ax=axes)
    axes.plot(*listed.T, "o", mfc="none", mec="black", ms=9, lw=0, label="the listing's", zorder=5)
    stopped = ours[:-1][guarded[: len(ours) - 1]]
    axes.plot(*stopped.T, "^", color="black", ms=5, lw=0, label="the guard steps in", zorder=6)
    axes.set_title(f"Levy, n = 2: λ = {LAM:g}, α = {STEP:g}", fontsize="medium")
    plot.legend_above(axes.figure)
    return axes.figure


def _lams(row: Experiment) -> list[float]:
    return listings.linear(row.lam.start, row.lam.end, T) if isinstance(row.lam, L) else [row.lam] * T


def _cgd_fd(pairs: _Pairs) -> Claim:
    apart: list[float] = []
    counted = True
    for row in EXPERIMENTS.values():
        made = row.run("cgd-fd", trace="x")
        xs, cs = listings.cgd_fd(row.function.grad, row.start, T, row.step, _lams(row), row.r, b)
        counted = counted and trace(made).njev.tolist() == cs
        apart.append(pairs.add("CGD-FD", row.function.title, made, xs))
    more = f" on the {len(EXPERIMENTS)} functions of Table 1{', c too' if counted else '; c differs'}"
    return _claim("Algorithm 2 (CGD-FD), every iterate and its cost c", apart, more, agrees=counted)


def _first_b() -> Claim:
    """Compare how the budget is spent with what T and b imply, whatever the function; b is the default."""
    steps, penalised = b + 1 + T - 2 * (b + 1), b + 1
    traces = [trace(row.run("cgd-fd", b=None)) for row in EXPERIMENTS.values()]
    found = {(len(one) - 1, int(one.penalised.sum())) for one in traces}
    ours = "; ".join(f"{many}, {few}" for many, few in sorted(found))
    return Claim(f"T = {T} and b = T/4 buy {steps} steps, {penalised} of them with the penalty",
                 f"{steps}, {penalised} (derived)", ours, found == {(steps, penalised)})  # fmt: skip


def _henceforth(pairs: _Pairs) -> Claim:
    made = _on_levy("cgd-fd", r=R, b=b, budget=Budget(grads=T))
    xs = listings.cgd_fd(_LEVY.grad, START, T, STEP, [LAM] * T, R, b)[0]
    apart = pairs.add("CGD-FD", f"{_LEVY.title}, check fails", made, xs)
    fired, last = np.flatnonzero(trace(made).guarded), int(trace(made).penalised.sum())
    more = f"; it fails at k = {', '.join(map(str, fired))}, after {last} penalised steps"
    text = "Algorithm 2: once the check fails, steepest descent henceforth"
    return _claim(text, [apart], more, agrees=len(fired) == 1)


def _rising() -> Claim:
    row = EXPERIMENTS["levy"]
    used = trace(row.run("cgd-fd")).lam[: b + 1]
    expected = np.array(_lams(row)[: len(used)])
    same = bool(len(used) == b + 1 and np.allclose(used, expected, rtol=1e-12, atol=0))
    return Claim(f"L(a, b) rises linearly over T values: λ of Levy's steps 0 to {b}",
                 "“an increasing linear schedule”", f"{used[0]:g} to {used[-1]:.4f}", same)  # fmt: skip


def _quasi_newton(pairs: _Pairs, *labels: str) -> Claim:
    apart: list[float] = []
    plain = not labels[0].startswith("CGD")
    # plain BFGS and DFP leave Drop-Wave's straight line by rounding alone
    panels = [panel for name, panel in PANELS.items() if not plain or name != "drop-wave"]
    for panel in panels:
        made, grad = panel.runs(), panel.function.grad
        for label in labels:
            if plain:
                method = "bfgs" if label == "BFGS" else "dfp"
                xs = listings.quasi_newton(grad, panel.start, T, panel.step, method)
            else:
                xs = listings.cgd_qn(grad, panel.start, T, panel.step, panel.lam, UPDATES[label])
            apart.append(pairs.add(label, panel.function.title, made[label], xs))
    text = f"{'Section 2' if plain else 'Algorithm 3 (CGD-QN)'}, every iterate of {' and '.join(labels)}"
    return _claim(text, apart, f" on {', '.join(panel.function.title for panel in panels)}")


def _positive(pairs: _Pairs) -> Claim:
    """Run Algorithm 3 where f bends down, beside the listing with such pairs left out."""
    grad, start, made = BENT.function.grad, BENT.start, BENT.runs()
    xs = {
        label: listings.cgd_qn(grad, start, T, BENT.step, BENT.lam, listings.kept(update))
        for label, update in UPDATES.items()
    }
    title = f"{BENT.function.title}, bent down"
    same = max([pairs.add(label, title, made[label], listed) for label, listed in xs.items()]) <= SAME
    least: dict[str, float] = {}
    for name, update in (("left out", listings.kept(listings.bfgs)), ("taken", listings.bfgs)):
        matrix, lowest = np.eye(len(start)), np.inf
        for x, after in pairwise(xs["CGD-BFGS"]):
            matrix = update(matrix, after - x, grad(after) - grad(x))
            lowest = min(lowest, float(np.linalg.eigvalsh(matrix)[0]))
        least[name] = lowest
    return Claim(
        "Algorithm 3 keeps its approximation positive definite, pairs without yᵀs > 0 left out",
        "“a positive-definite approximation”",
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
        steps = 1e-6 * np.abs(f.bounds).max() * np.eye(f.n)
        slopes = [[(formula(p + h) - formula(p - h)) / (2 * h.max()) for h in steps] for p in x]
        same = np.abs(f(x) - values).max() <= 1e-12 * np.abs(values).max()
        same = same and np.abs(f.grad(x) - slopes).max() <= 1e-5 * np.abs(slopes).max()
        if not (same and max(abs(f.fmin - lowest), abs(float(f(best)) - lowest)) <= 1e-4):
            wrong.append(f.title)
    text = f"the {len(listings.FUNCTIONS)} named test functions: values, gradients and minima"
    ours = f"other on {', '.join(wrong)}" if wrong else "the same as the library's formulas"
    return Claim(text, "“Virtual Library of Simulation Experiments”", ours, not wrong)
