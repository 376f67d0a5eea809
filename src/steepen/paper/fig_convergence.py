"""Item of `reproduce`, Fig. 3: f − f* against gradients, GD and CGD-FD on Table 1; writes no files."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from .. import plot
from .._tools.optional import load
from ..functions import Function
from ..result import Result
from ._figures import legend_above, say_start
from ._items import Claim, Outcome, Table, claim, in_part, outcome
from ._runs import Floats, trace
from .experiments import EXPERIMENTS, THRESHOLD, Experiment, T
from .recover import improvement


class Panel(NamedTuple):
    """One panel: the two runs, and f − f* reached with 0, 1, …, T gradients."""

    experiment: Experiment
    runs: dict[str, Result]
    gd: Floats
    cgd_fd: Floats

    @property
    def title(self) -> str:
        """The name of the function."""
        return self.experiment.function.title

    @property
    def behind(self) -> list[int]:
        """The numbers of gradients, from the 2 of CGD-FD's first step, at which CGD-FD is above GD."""
        margin = 1e-9 * self.gd[0]  # two runs at the same minimum differ by rounding
        return [c for c in range(2, T + 1) if self.cgd_fd[c] > self.gd[c] + margin]

    @property
    def ahead(self) -> str:
        """A phrase that says where CGD-FD is ahead."""
        behind = self.behind
        if not behind:
            return "ahead at every count from 2 on"
        worst = float((self.cgd_fd - self.gd)[behind].max())
        return f"behind from {behind[0]} to {behind[-1]}, by at most {worst:.2f} of {self.gd[0]:.2f}"

    def share(self, steps: int) -> float:
        """Return the share of CGD-FD's decrease that its first steps bring."""
        f = trace(self.runs["CGD-FD"]).f
        return float((f[0] - f[steps]) / (f[0] - f[-1]))


def reached(run: Result) -> Any:
    """Return the rows of a run's trace that it has reached with 0, 1, …, T gradients."""
    return np.searchsorted(trace(run).njev, np.arange(T + 1), side="right") - 1


def flat(curve: Floats) -> int:
    """Return the number of gradients after which nine tenths of a curve's decrease are done."""
    return int(np.argmax(curve - curve[-1] <= 0.1 * (curve[0] - curve[-1])))


def panels() -> dict[str, Panel]:
    """Return all six panels."""
    made: dict[str, Panel] = {}
    for name, row in EXPERIMENTS.items():
        runs = {method.upper(): row.run(method, trace="x") for method in ("gd", "cgd-fd")}
        curves = (trace(run).f[reached(run)] - row.function.fmin for run in runs.values())
        made[name] = Panel(row, runs, *curves)
    return made


def curves(rows: int, height: float, panels: Iterable[tuple[Function, dict[str, Result], str]],
           x_axis: Literal["grads", "iters"] = "grads") -> Any:  # fmt: skip
    """Draw f − f*, three panels per row; each panel is a function, its runs, and their settings."""
    figure = plot.blank(10, height)
    for axes, (function, runs, settings) in zip(figure.subplots(rows, 3).flat, panels, strict=True):
        plot.convergence(runs, fmin=function.fmin, x_axis=x_axis, ax=axes)
        axes.set_title(f"{function.title}\n{settings}", fontsize="medium")
        axes.set(xlabel="", ylabel="")
    figure.supxlabel("gradient evaluations" if x_axis == "grads" else "iterations", fontsize="medium")
    figure.supylabel("f − f*, log scale", fontsize="medium")
    return figure


def run() -> Outcome:
    """Draw the six panels, and compare what the paper says of each with our runs."""
    made = panels()
    counts, left = (0, 2, 4, 10, 20, 30, 40), _left_on_matyas()
    return outcome(
        "fig-convergence",
        claims=_claims(made, left),
        tables={
            "fig-convergence": Table(
                ("function", "method", *(f"{c} gradients" for c in counts)),
                [(panel.title, method, *(float(curve[c]) for c in counts))
                 for panel in made.values()
                 for method, curve in (("GD", panel.gd), ("CGD-FD", panel.cgd_fd))],
            )
        },
        pictures={"fig-convergence-log": _draw(made, "log"), "fig-convergence": _draw(made, "linear")},
        traces={
            f"fig-convergence-{name}-{method.lower()}": trace(result)
            for name, panel in made.items()
            for method, result in panel.runs.items()
        },
        settings={
            "gradients": T, "b": THRESHOLD,
            **{
                name: {"lam": e.lam_text, "step": e.alpha, "r": "any" if e.any_r else e.r, "start": e.x0}
                for name, e in EXPERIMENTS.items()
            },
        },
        penalised=THRESHOLD + 1, total=len(made), ahead=sum(not panel.behind for panel in made.values()),
        left=left,
    )  # fmt: skip


def _claims(made: dict[str, Panel], left: float) -> list[Claim]:
    quadratic, ellipsoid, levy, branin, griewank, matyas = made.values()
    steps = [trace(griewank.runs[method]).f for method in ("CGD-FD", "GD")]
    falls = {"10 steps": [float(f[0] - f[10]) for f in steps]}
    for c in (10, 20):
        falls[f"{c} gradients"] = [float(curve[0] - curve[c]) for curve in (griewank.cgd_fd, griewank.gd)]
    sooner = int(np.argmax(matyas.cgd_fd <= matyas.gd[T]))
    five, ten = ([panel.share(count) for panel in made.values()] for count in (5, 10))
    slowest = list(made.values())[int(np.argmin(five))].title
    says = partial(claim, "fig-convergence")
    return [
        *(
            says("both", flat(p.cgd_fd) < flat(p.gd) and not p.behind, panel=p, level=flat(p.cgd_fd),
                 level_gd=flat(p.gd))
            for p in (quadratic, ellipsoid)
        ),
        says("levy", (levy.cgd_fd[2:4] < levy.gd[2:4]).all() and T not in levy.behind, panel=levy,
             end=levy.cgd_fd[T]),
        says("branin", not branin.behind and branin.gd[T] < 0.01 * branin.gd[0], panel=branin,
             end=branin.cgd_fd[T], end_gd=branin.gd[T], T=T),
        says("griewank", all(fd > 5 * gd for fd, gd in falls.values()),
             falls="; ".join(f"{fd:.3f} against {gd:.3f} in {spent}" for spent, (fd, gd) in falls.items())),
        says("griewank-lower", not griewank.behind and flat(griewank.cgd_fd) < flat(griewank.gd), T=T,
             end=griewank.cgd_fd[T], end_gd=griewank.gd[T], level=flat(griewank.cgd_fd),
             level_gd=flat(griewank.gd)),
        says("matyas", left < 0.01, left=left, T=T),
        says("matyas-slower", not matyas.behind and sooner < T // 4, panel=matyas, sooner=sooner, T=T),
        says("first-steps", in_part(share > 0.5 for share in five), least=min(five),
             slowest=slowest, most=max(five), ten=min(ten)),
    ]  # fmt: skip


def _left_on_matyas() -> float:
    """Return the smallest share of f₀ that is left from any start that gives both printed numbers.

    Matyas is a quadratic form, so both improvements, and the share of f₀ that is left, depend on the
    direction of the start alone.
    """
    row = EXPERIMENTS["matyas"]
    turn = np.linspace(0.0, np.pi, 20_001)
    starts = np.stack([np.cos(turn), np.sin(turn)], axis=-1)
    for printed, lam in ((row.gd, 0.0), (row.cgd_fd, row.lam0)):
        starts = starts[np.abs(improvement(row.function, starts, row.alpha, lam, row.r) - printed) <= 0.005]
    if not len(starts):  # no start gives both numbers
        return float("nan")
    return float((np.asarray(row.run("cgd-fd", starts).fun) / row.function(starts)).min())


def _draw(made: dict[str, Panel], scale: Literal["linear", "log"]) -> Any:
    figure = curves(2, 5.6, ((p.experiment.function, p.runs, p.experiment.settings) for p in made.values()))
    ticker = load("matplotlib.ticker", "plotting", extra="plot")
    for axes, (name, panel) in zip(figure.axes, made.items(), strict=True):
        if axes.get_yscale() != scale:
            axes.set_yscale(scale)
        if scale == "log" and name not in {"quadratic", "branin"}:
            # plain numbers are easier to read than powers within a decade or two
            for axis in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
                axis(ticker.LogFormatter(labelOnlyBase=False, minor_thresholds=(1.5, 0.4)))
        elif scale == "linear" and panel.cgd_fd[T] < 0.9 * panel.gd[0]:
            axes.set_ylim(bottom=0)
        spent = trace(panel.runs["CGD-FD"]).njev  # grows by two per step until the penalty is off
        off = int(spent[1:][np.diff(spent) == 2].max())
        axes.axvline(off, color="0.3", ls=":", lw=1.2, label="penalty off")
        if scale == "linear" and axes.get_ylim()[0] > 0:
            say_start(axes)
    figure.supylabel(f"f − f*{', log scale' * (scale == 'log')}", fontsize="medium")
    legend_above(figure)
    return figure
