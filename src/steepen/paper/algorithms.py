"""Item of `reproduce`: Algorithms 1 to 3, our iterates beside the paper's listings; writes no files."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from .. import plot
from ..budget import Budget
from ..functions import functions
from ..result import Result
from . import listings
from ._figures import legend_above
from ._items import Claim, Outcome, claim, outcome, readable
from ._runs import Floats, minimize, path, trace
from .experiments import EXPERIMENTS, T
from .fig_quasi_newton import PANELS, Panel

START, LAM, STEP, R = (9.94, 9.62), 0.05, 0.02, 0.01
"""A run on the Levy function of two variables in which the check fails, and later passes again."""

b = T // 4  # the paper's b, for the listings; the runs have that of `experiments`

BENT = Panel(functions["styblinski-tang"], lam=0.02, step=0.01, start=(0.5, -0.2))
"""A run of CGD-QN with pairs for which yᵀs > 0 does not hold."""

SAME = 1e-8  # largest difference of equal iterates, as a share of the way

UPDATES = {"CGD-BFGS": listings.bfgs, "CGD-DFP": listings.dfp}
_LEVY = functions["levy"].at(n=2)
_claim = partial(claim, "algorithms")
Rows = list[tuple[Any, ...]]


def _compare(rows: Rows, method: str, function: str, result: Result, xs: Floats) -> float:
    """Add a row for our run beside the listing's, and return the largest difference as a share of the way."""
    ours = path(result)
    way = float(np.abs(xs - xs[0]).max())
    apart = float(np.abs(ours - xs).max()) / way if ours.shape == xs.shape else np.inf
    difference = "none but rounding" if apart <= SAME else apart
    rows.append((method, function, len(ours) - 1, int(trace(result).guarded.sum()), difference))
    return apart


def run() -> Outcome:
    """Run every method beside its listing."""
    rows: Rows = []
    made = _on_levy("cgd", budget=Budget(iters=T))
    listed = listings.cgd(_LEVY.grad, _LEVY.hess, START, T, STEP, LAM)
    apart, fired = _compare(rows, "CGD", _LEVY.title, made, listed), int(trace(made).guarded.sum())
    claims = [
        _claim("cgd", apart <= SAME and fired > 0, apart=apart, fired=fired), _cgd_fd(rows),
        _first_b(), _henceforth(rows), _rising(),
        _quasi_newton(rows, "CGD-BFGS", "CGD-DFP"), _quasi_newton(rows, "BFGS", "DFP"),
        _positive(rows),
    ]  # fmt: skip
    largest = max((row[-1] for row in rows if isinstance(row[-1], float)), default=0.0)
    return outcome(
        "algorithms",
        claims=claims,
        tables={"algorithms": rows},
        pictures={"algorithms": _draw(made, listed)},
        settings={
            "start where the check fails": START, "lam": LAM, "step": STEP, "r": R, "T": T, "b": b,
            "the other runs": "those of Table 1 and of Fig. 4",
        },
        pairs=len(rows), steps=sum(row[2] for row in rows),
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
    legend_above(axes.figure)
    return axes.figure


def _cgd_fd(rows: Rows) -> Claim:
    apart, counted = 0.0, True
    for row in EXPERIMENTS.values():
        made = row.run("cgd-fd", trace="x")
        xs, cs = listings.cgd_fd(
            row.function.grad, row.x0, T, row.alpha, listings.linear(*row.lams, T), row.r, b
        )
        counted = counted and trace(made).njev.tolist() == cs
        apart = max(apart, _compare(rows, "CGD-FD", row.function.title, made, xs))
    return _claim("cgd-fd", apart <= SAME and counted, apart=apart, functions=len(EXPERIMENTS))


def _first_b() -> Claim:
    """Compare how the budget is spent with what T and the default b imply."""
    penalised = b + 1
    steps = penalised + T - 2 * penalised
    traces = [trace(row.run("cgd-fd", b=None)) for row in EXPERIMENTS.values()]
    found = {(len(one) - 1, int(one.penalised.sum())) for one in traces}
    ours = "; ".join(f"{many}, {few}" for many, few in sorted(found))
    return _claim("budget", found == {(steps, penalised)}, T=T, steps=steps, penalised=penalised, found=ours)


def _henceforth(rows: Rows) -> Claim:
    made = _on_levy("cgd-fd", r=R, b=b, budget=Budget(grads=T))
    xs = listings.cgd_fd(_LEVY.grad, START, T, STEP, [LAM] * T, R, b)[0]
    apart = _compare(rows, "CGD-FD", f"{_LEVY.title}, check fails", made, xs)
    fired, penalised = np.flatnonzero(trace(made).guarded), int(trace(made).penalised.sum())
    return _claim("henceforth", apart <= SAME and len(fired) == 1, apart=apart,
                  fired=", ".join(map(str, fired)), penalised=penalised)  # fmt: skip


def _rising() -> Claim:
    row = EXPERIMENTS["levy"]
    used = trace(row.run("cgd-fd")).lam[: b + 1]
    same = len(used) == b + 1 and np.allclose(
        used, listings.linear(*row.lams, T)[: b + 1], rtol=1e-12, atol=0
    )
    return _claim("rising", same, b=b, first=used[0], last=used[-1])


def _quasi_newton(rows: Rows, *labels: str) -> Claim:
    apart, plain = 0.0, not labels[0].startswith("CGD")
    # on Drop-Wave plain BFGS and DFP leave a straight line by rounding alone, which grows
    panels = [panel for name, panel in PANELS.items() if not plain or name != "drop-wave"]
    for panel in panels:
        made, grad = panel.runs(), panel.function.grad
        for label in labels:
            if plain:
                method = "bfgs" if label == "BFGS" else "dfp"
                xs = listings.quasi_newton(grad, panel.start, T, panel.step, method)
            else:
                xs = listings.cgd_qn(grad, panel.start, T, panel.step, panel.lam, UPDATES[label])
            apart = max(apart, _compare(rows, label, panel.function.title, made[label], xs))
    return _claim("quasi-newton", apart <= SAME, apart=apart, methods=" and ".join(labels),
                  where="Section 2" if plain else "Algorithm 3 (CGD-QN)",
                  functions=", ".join(panel.function.title for panel in panels))  # fmt: skip


def _positive(rows: Rows) -> Claim:
    """Run Algorithm 3 where f has negative curvature, beside the listing with such pairs left out."""
    grad, start, made = BENT.function.grad, BENT.start, BENT.runs()
    xs = {
        label: listings.cgd_qn(grad, start, T, BENT.step, BENT.lam, listings.kept(update))
        for label, update in UPDATES.items()
    }
    title = f"{BENT.function.title}, negative curvature"
    apart = max([_compare(rows, label, title, made[label], listed) for label, listed in xs.items()])
    least: dict[str, float] = {}
    for name, update in (("left_out", listings.kept(listings.bfgs)), ("taken", listings.bfgs)):
        matrix, lowest = np.eye(len(start)), np.inf
        for x, after in pairwise(xs["CGD-BFGS"]):
            matrix = update(matrix, after - x, grad(after) - grad(x))
            lowest = min(lowest, float(np.linalg.eigvalsh(matrix)[0]))
        least[name] = lowest
    agrees = apart <= SAME and least["taken"] < 0 < least["left_out"]
    return _claim("positive", agrees, apart=apart, **least)
