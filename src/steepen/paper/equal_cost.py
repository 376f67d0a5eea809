"""The six functions of Table 1 at equal cost: gradient norms, two steps of GD for one, and GD's best α."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from .. import plot
from .._core.result import Result, Trace
from .._minimize import minimize
from ..budget import Budget
from ..switches import FirstGuard, GoodDrop
from ._claims import Claim, Outcome, Table, readable, resting_on
from .egr import Floats
from .experiments import EXPERIMENTS, RECOVERED, THRESHOLD, Experiment, T
from .fig_convergence import Panel, panels

__all__ = ["DROPS", "NAME", "SECTION", "STEPS", "TITLE", "Tuned", "after_drop", "best_step", "run"]

NAME = "equal-cost"
TITLE = "The same six functions, at equal cost and with the best α"
SECTION = "Sections 1 and 4"
SAYS = (
    "CGD walks over points of lower gradient norm than GD, and its first step gains far more. Rather than "
    "after b steps, CGD-FD may also switch to steepest descent after a good-enough drop of f."
)
MATTERS = (
    "A step of CGD-FD costs two gradients, and both methods were run at one α. So we ask what is left of the "
    "lead when GD gets as many gradients, and an α of its own."
)

STEPS = np.geomspace(0.1, 1000.0, 401)
"""The constant steps tried, as multiples of Table 1's α."""

DROPS = (0.5, 0.9)
"""The shares of |f₀| that are tried as a good-enough drop."""


class Tuned(NamedTuple):
    """A method with its best constant step: α, the run, and f − f* after T gradients.

    Examples
    --------
    >>> tuned = best_step(EXPERIMENTS["matyas"], "gd")
    >>> round(tuned.step, 2), tuned.gap < 0.01
    (1.86, True)
    """

    step: float
    run: Result
    gap: float


def best_step(row: Experiment, method: Any) -> Tuned:
    """Return a method with the α of `STEPS` that ends lowest, of those with which f never rises.

    Examples
    --------
    >>> best_step(EXPERIMENTS["quadratic"], "gd").step > 5 * EXPERIMENTS["quadratic"].step
    True
    """
    penalty: dict[str, Any] = {}
    if method == "cgd-fd":
        penalty = {"lam": row.lam, "r": row.r, "b": THRESHOLD}
    steps = STEPS * row.step
    with np.errstate(all="ignore"):  # the longest steps overflow
        many = minimize(
            row.function, np.tile(row.start, (len(steps), 1)), method=method, step=steps, gtol=0.0,
            budget=Budget(grads=T), **penalty,
        )  # fmt: skip
        f = cast(Trace, many.trace).f
        rises = (np.diff(f, axis=0) > 1e-12 * abs(f[0])).any(axis=0)
    gaps = np.where(np.isfinite(many.fun) & ~rises, many.fun, np.inf) - row.function.fmin
    step = float(steps[np.argmin(gaps)])
    return Tuned(step, replace(row, step=step).run(method), float(gaps.min()))


def run() -> Outcome:
    """Compare GD and CGD-FD on the six functions by what they cost.

    Examples
    --------
    >>> best_step(EXPERIMENTS["branin"], "gd").step > EXPERIMENTS["branin"].step
    True
    """
    made = panels()
    tuned = {
        name: {method: best_step(row, method) for method in ("gd", "cgd-fd")}
        for name, row in EXPERIMENTS.items()
    }
    drops = {name: [after_drop(row, share) for share in DROPS] for name, row in EXPERIMENTS.items()}
    norms = {name: _norms(panel) for name, panel in made.items()}
    ahead = [name for name, panel in made.items() if tuned[name]["gd"].gap > panel.cgd_fd[T]]
    lower = [name for name, of in tuned.items() if of["cgd-fd"].gap < of["gd"].gap]
    claims = [
        _first_step(made),
        _lower_norms(norms),
        _against_the_best(made, ahead),
        _drop_claim(made, drops),
    ]
    gains = sum(cgd > gd for _, gd, cgd in map(_improvements, made.values()))
    return Outcome(
        claims=resting_on("recovered", claims),
        tables={
            NAME: Table(
                ("function", "GD, 1 gradient", "GD, 2", "CGD-FD, 2", "α, Table 1", "GD's best α",
                 f"f − f* at {T}: GD", "CGD-FD", "GD, best α", "CGD-FD, its best α"),
                [_row(made[name], tuned[name]) for name in made],
                "Improvement in percent with so many gradients, and what the best constant α does.",
            ),
            f"{NAME}-norms": Table(
                ("function", *(f"{method}, {c}" for c in _COUNTS for method in ("GD", "CGD-FD"))),
                [
                    (made[name].experiment.function.title, *(float(v) for c in _COUNTS for v in both[:, c]))
                    for name, both in norms.items()
                ],
                "‖∇f‖ where GD and CGD-FD stand after so many gradients.",
            ),
            f"{NAME}-drop": Table(
                ("function", f"b = {THRESHOLD}: penalised steps", f"f − f* at {T}",
                 *(text for s in DROPS for text in (f"drop of {s:.0%}: penalised steps", f"f − f* at {T}"))),
                [
                    (panel.experiment.function.title, _penalised(panel.runs["CGD-FD"]),
                     float(panel.cgd_fd[T]), *(v for pair in drops[name] for v in pair))
                    for name, panel in made.items()
                ],
                "CGD-FD that switches to steepest descent once f has fallen by a share of |f₀| "
                "(steepen.switches.GoodDrop), beside the paper's b.",
            ),
        },
        figures={NAME: _draw(made, tuned)},
        captions={
            NAME: "f − f* against gradient evaluations, as in Fig. 3 but on a log scale (not on Griewank), "
            "with GD at its best constant α beside it: of those with which f never rises, the one that ends "
            "lowest. CGD-FD keeps the α and λ of Table 1."
        },
        found=[
            f"Give GD the α that suits it, and after {T} gradients it is lower than CGD-FD on "
            f"{len(made) - len(ahead)} of the {len(made)} functions: what λ > 0 brought was a longer step. "
            "If CGD-FD gets its own best α too, it is the lower one on "
            f"{', '.join(_titles(lower)) or 'none'}; but this is one start each, and an α chosen for it.",
            "The gain of the first step is real at equal cost as well: two steps of GD at the same α gain "
            f"less than one of CGD-FD on {gains} of the {len(made)}. The gradient norms are "
            f"{claims[1].ours}.",
            "A drop of nine tenths is about as good a switch as b; one of a half ends the penalty too soon "
            "for the short α.",
        ],
        notes=[RECOVERED],
        settings={"gradients": T, "steps tried": "401, from 0.1 to 1000 times Table 1's α", "drops": DROPS},
    )  # fmt: skip


_COUNTS = (2, 4, 10, 20, 40)


def _titles(names: list[str]) -> list[str]:
    return [EXPERIMENTS[name].function.title for name in names]


def _norms(panel: Panel) -> Floats:
    """Return ‖∇f‖ of GD and of CGD-FD, where they stand with 0, 1, …, T gradients."""
    rows: list[Floats] = []
    for made in panel.runs.values():
        trace = cast(Trace, made.trace)
        at = np.searchsorted(trace.njev, np.arange(T + 1), side="right") - 1
        rows.append(np.linalg.norm(panel.experiment.function.grad(cast(Floats, trace.x)[at]), axis=-1))
    return np.array(rows)


def _penalised(made: Result) -> int:
    return int(cast(Trace, made.trace).penalised.sum())


def after_drop(row: Experiment, share: float) -> tuple[int, float]:
    """Return CGD-FD's penalised steps and f − f* after T gradients, if such a drop ends the penalty.

    Examples
    --------
    >>> after_drop(EXPERIMENTS["quadratic"], 0.9)[0]
    1
    """
    made = minimize(
        row.function, row.start, method="cgd-fd", lam=row.lam, r=row.r, step=row.step, gtol=0.0,
        switch=GoodDrop(share) | FirstGuard(), budget=Budget(grads=T),
    )  # fmt: skip
    return _penalised(made), float(made.fun) - row.function.fmin


def _improvements(panel: Panel) -> tuple[float, float, float]:
    f0 = panel.gd[0] + panel.experiment.function.fmin
    one, two, cgd = (float(100 * (panel.gd[0] - v) / f0) for v in (panel.gd[1], panel.gd[2], panel.cgd_fd[2]))
    return one, two, cgd


def _row(panel: Panel, tuned: dict[str, Tuned]) -> tuple[Any, ...]:
    row, gd = panel.experiment, tuned["gd"]
    ends = (float(panel.gd[T]), float(panel.cgd_fd[T]), gd.gap, tuned["cgd-fd"].gap)
    return row.function.title, *_improvements(panel), row.step, gd.step, *ends


def _first_step(made: dict[str, Panel]) -> Claim:
    pairs = {panel.experiment.function.title: _improvements(panel)[1:] for panel in made.values()}
    return Claim(
        "the first step of CGD-FD gains more than GD does, also with two gradients each",
        "far more",
        "; ".join(f"{title} {cgd:.2f} % against {gd:.2f} %" for title, (gd, cgd) in pairs.items()),
        all(cgd > gd for gd, cgd in pairs.values()),
    )


def _lower_norms(norms: dict[str, Floats]) -> Claim:
    higher = {
        name: [c for c in range(2, T + 1) if cgd[c] > gd[c] + 1e-9 * gd[0]]
        for name, (gd, cgd) in norms.items()
    }
    where = [f"on {_titles([name])[0]} higher from {at[0]} to {at[-1]}" for name, at in higher.items() if at]
    return Claim(
        "CGD-FD's points have a lower gradient norm than GD's, at equal cost",
        "lower",
        "; ".join([f"lower on {len(norms) - len(where)} of {len(norms)} at every count from 2 on", *where]),
        not where,
        known="limit",
    )


def _against_the_best(made: dict[str, Panel], ahead: list[str]) -> Claim:
    return Claim(
        f"CGD-FD is lower than GD after {T} gradients, also if GD has its best constant α",
        "lower, at one α",
        f"lower on {len(ahead)} of {len(made)}",
        len(ahead) == len(made),
        known="limit",
    )


def _drop_claim(made: dict[str, Panel], drops: dict[str, list[tuple[int, float]]]) -> Claim:
    near = [
        [drops[name][i][1] <= 1.1 * panel.cgd_fd[T] + 1e-3 * panel.gd[0] for name, panel in made.items()]
        for i in range(len(DROPS))
    ]
    counts = [f"{sum(row)} of {len(made)} with {share:.0%}" for share, row in zip(DROPS, near, strict=True)]
    return Claim(
        f"a good-enough drop switches as well as b: f − f* at {T} within a tenth",
        "for instance",
        ", ".join(counts),
        any(sum(row) > len(made) / 2 for row in near),
    )


def _draw(made: dict[str, Panel], tuned: dict[str, dict[str, Tuned]]) -> Any:
    figure = plot.blank(10, 5.6)
    for axes, (name, panel) in zip(figure.subplots(2, 3).flat, made.items(), strict=True):
        function, best = panel.experiment.function, tuned[name]["gd"]
        runs = {**panel.runs, "GD, best α": best.run}
        plot.convergence(runs, fmin=function.fmin, ax=axes)
        floor = max(best.gap, 1e-3 * panel.cgd_fd[T], 1e-14 * panel.gd[0])
        if floor < 0.5 * panel.gd[0]:
            axes.set_ylim(bottom=0.5 * floor)
        else:  # on Griewank nobody gets far
            axes.set_yscale("linear")
        steps = f"n = {function.n}, α = {panel.experiment.step:g}, best {readable(best.step, '.2g')}"
        axes.set_title(f"{function.title}\n{steps}", fontsize="medium")
        axes.set(xlabel="", ylabel="")
        if axes.get_yscale() == "linear":
            plot.say_start(axes)
    plot.legend_above(figure)
    figure.supxlabel("gradient evaluations", fontsize="medium")
    figure.supylabel("f − f*, log scale", fontsize="medium")
    return figure
