"""Items of `steepen reproduce` beyond the paper: equal cost, schedules, penalties, λ < 0; write no files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._sweep.sweep import draw
from ..budget import Budget
from ..functions import Function
from ..penalties import L1, L2, Huber, Penalty, PNorm, SquaredL2
from ..result import Result
from ..schedules import L
from ..switches import FirstGuard, GoodDrop, Never
from ._figures import legend_above, say_start
from ._items import Outcome, Table, claim, in_part, outcome, readable
from ._runs import Floats, in_the_plane, minimize, path, trace
from .experiments import EXPERIMENTS, THRESHOLD, Experiment, T
from .fig_convergence import Panel, curves, panels, reached

_TITLES = {name: row.function.title for name, row in EXPERIMENTS.items()}

# --- equal cost: gradient norms, two steps of GD for one, and GD's best α ---------------------------------

STEPS = np.geomspace(0.1, 1000.0, 401)  # the constant steps tried, as multiples of Table 1's α
DROPS = (0.5, 0.9)  # the good-enough drops that are tried, as shares of |f₀|
_COUNTS = (2, 4, 10, 20, 40)  # gradients


class Tuned(NamedTuple):
    """A method with its best constant step: α, the run, and f − f* after T gradients."""

    step: float
    run: Result
    gap: float


def best_step(row: Experiment, method: str) -> Tuned:
    """Return a method with the α of `STEPS` that ends lowest, of those with which f never rises."""
    gaps = row.tried(method, len(STEPS), step=STEPS * row.alpha)
    step = float(STEPS[np.argmin(gaps)] * row.alpha)
    return Tuned(step, row.run(method, step=step), float(gaps.min()))


def after_drop(row: Experiment, share: float) -> tuple[int, float]:
    """Return CGD-FD's penalised steps and f − f* after T gradients if this drop ends the penalty."""
    made = row.run("cgd-fd", b=None, switch=GoodDrop(share) | FirstGuard())
    return _penalised(made), float(made.fun) - row.function.fmin


def _as_good(panel: Panel, penalised: int, gap: float) -> bool:
    """Return whether a drop did end the penalty, and f − f* is then within a tenth of the b of the paper."""
    return penalised < T // 2 and gap <= 1.1 * panel.cgd_fd[T] + 1e-3 * panel.gd[0]


def _penalised(made: Result) -> int:
    return int(trace(made).penalised.sum())


def _improvements(panel: Panel) -> tuple[float, ...]:
    """Return the improvement, in percent, by one gradient of GD, two of GD, and two of CGD-FD."""
    f0 = panel.gd[0] + panel.experiment.function.fmin
    return tuple(float(100 * (panel.gd[0] - f) / f0) for f in (panel.gd[1], panel.gd[2], panel.cgd_fd[2]))


def _norms(panel: Panel) -> list[float]:
    """Return ‖∇f‖ of GD and of CGD-FD after each of `_COUNTS` gradients."""
    slopes = [panel.experiment.function.grad(path(run)[reached(run)]) for run in panel.runs.values()]
    gd, cgd_fd = np.linalg.norm(slopes, axis=-1).tolist()
    return [norm for count in _COUNTS for norm in (gd[count], cgd_fd[count])]


def _higher(panel: Panel) -> str:
    """Say at which steps CGD-FD's gradient norm is above GD's; empty if at none."""
    gd, cgd = (trace(run).gnorm for run in panel.runs.values())
    both = min(len(gd), len(cgd))
    at = np.flatnonzero(cgd[:both] > gd[:both] + 1e-9 * gd[0])
    return f"on {panel.title} higher at {len(at)} steps, from {at[0]} to {at[-1]}" if len(at) else ""


def equal_cost() -> Outcome:
    """Compare GD and CGD-FD on the six functions of Table 1 at equal cost."""
    made = panels()
    tuned = {
        name: {method: best_step(row, method) for method in ("gd", "cgd-fd")}
        for name, row in EXPERIMENTS.items()
    }
    drops = {name: [after_drop(row, share) for share in DROPS] for name, row in EXPERIMENTS.items()}
    gains = {name: _improvements(panel) for name, panel in made.items()}
    ahead = sum(tuned[name]["gd"].gap > panel.cgd_fd[T] for name, panel in made.items())
    lower = [_TITLES[name] for name, of in tuned.items() if of["cgd-fd"].gap < of["gd"].gap]
    where = [words for panel in made.values() if (words := _higher(panel))]
    count = f"lower on {len(made) - len(where)} of {len(made)} at every step"
    lower_norms = "; ".join([count, *where])
    near = [sum(_as_good(panel, *drops[name][i]) for name, panel in made.items()) for i in range(len(DROPS))]
    says = partial(claim, "equal-cost")
    return outcome(
        "equal-cost",
        claims=[
            says("first-step", all(cgd > gd for _, gd, cgd in gains.values()),
                 gains="; ".join(f"{_TITLES[name]} {cgd:.2f} % against {gd:.2f} %"
                                 for name, (_, gd, cgd) in gains.items())),
            says("norms", in_part(not _higher(panel) for panel in made.values()), norms=lower_norms),
            says("best-step", ahead == len(made), T=T, ahead=ahead, total=len(made)),
            says("drop", max(near) > len(made) / 2, T=T,
                 near=", ".join(f"{count} of {len(made)} with {share:.0%}"
                                for share, count in zip(DROPS, near, strict=True))),
        ],
        tables={
            "equal-cost": [
                (p.title, *gains[name], p.experiment.alpha, tuned[name]["gd"].step, float(p.gd[T]),
                 float(p.cgd_fd[T]), tuned[name]["gd"].gap, tuned[name]["cgd-fd"].gap)
                for name, p in made.items()
            ],
            "equal-cost-norms": Table(
                ("function", *(f"{method}, {c}" for c in _COUNTS for method in ("GD", "CGD-FD"))),
                [(panel.title, *_norms(panel)) for panel in made.values()],
            ),
            "equal-cost-drop": Table(
                ("function", f"b = {THRESHOLD}: penalised steps", f"f − f* at {T}",
                 *(text for s in DROPS for text in (f"drop of {s:.0%}: penalised steps", f"f − f* at {T}"))),
                [(p.title, _penalised(p.runs["CGD-FD"]), float(p.cgd_fd[T]),
                  *(v for pair in drops[name] for v in pair)) for name, p in made.items()],
            ),
        },
        pictures={"equal-cost": _draw(made, {name: of["gd"] for name, of in tuned.items()})},
        settings={"gradients": T, "steps tried": "401, from 0.1 to 1000 times Table 1's α", "drops": DROPS},
        total=len(made), behind=len(made) - ahead, lower=", ".join(lower) or "none",
        gain=sum(cgd > gd for _, gd, cgd in gains.values()), norms=lower_norms,
    )  # fmt: skip


def _draw(made: dict[str, Panel], tuned: dict[str, Tuned]) -> Any:
    shown: list[tuple[Function, dict[str, Result], str]] = []
    for panel, best in zip(made.values(), tuned.values(), strict=True):
        row = panel.experiment
        steps = f"n = {row.function.n}, α = {row.alpha:g}, best {readable(best.step, '.2g')}"
        shown.append((row.function, {**panel.runs, "GD, best α": best.run}, steps))
    figure = curves(2, 5.6, shown)
    for axes, panel, best in zip(figure.axes, made.values(), tuned.values(), strict=True):
        floor = max(best.gap, 1e-3 * panel.cgd_fd[T], 1e-14 * panel.gd[0])
        if floor < 0.5 * panel.gd[0]:
            axes.set_ylim(bottom=0.5 * floor)
        else:  # on Griewank all stay near the start
            axes.set_yscale("linear")
            say_start(axes)
    legend_above(figure)
    return figure


# --- constant λ for convex functions, rising λ for others: from many starts -------------------------------

CONVEX = ("quadratic", "rotated-hyper-ellipsoid", "matyas")
KINDS: dict[str, Callable[[float], float | L]] = {
    "constant": float, "rising": lambda lam: L(lam / 10, lam), "falling": lambda lam: L(lam, lam / 10)
}  # fmt: skip
FACTORS = np.geomspace(0.01, 10.0, 13)  # the λ tried, as multiples of Table 1's (of its end, on Levy)
STARTS, SEED = 120, 0
MARGIN = 0.01  # one schedule is better than another from a start if its f − f* is lower by this share


def best_schedule(row: Experiment, kind: str) -> Floats:
    """Return f − f* after T gradients from each start, with the best λ for each; "none" is GD."""
    starts = draw(row.function.bounds, STARTS, SEED)
    if kind == "none":
        runs = [row.run("gd", starts, trace=False)]
    else:
        lams = (FACTORS * (row.lam.end if isinstance(row.lam, L) else row.lam)).tolist()
        runs = [row.run("cgd-fd", starts, lam=KINDS[kind](lam), trace=False) for lam in lams]
    values = [np.where(np.isfinite(run.fun), run.fun, np.inf) for run in runs]
    return np.fmin.reduce(values) - row.function.fmin


def lam_schedules() -> Outcome:
    """Compare constant, rising and falling λ, each at its best."""
    made = {name: {kind: best_schedule(row, kind) for kind in KINDS} for name, row in EXPERIMENTS.items()}
    wins = {
        name: tuple(int((of[one] < (1 - MARGIN) * of[other]).sum())
                    for one, other in (("rising", "constant"), ("constant", "rising")))
        for name, of in made.items()
    }  # fmt: skip
    ahead = {
        name: float(np.mean(made[name]["constant"] < 0.9 * best_schedule(EXPERIMENTS[name], "none")))
        for name in CONVEX
    }
    others = [name for name in made if name not in CONVEX]
    preferred = sum(wins[name][0] > wins[name][1] for name in others)
    some = any(wins[name][0] >= STARTS / 10 for name in others)
    return outcome(
        "lam-schedules",
        claims=[
            claim("lam-schedules", "constant", min(ahead.values()) > 0.75, ahead=", ".join(
                f"{share:.0%} of the starts on {_TITLES[name]}" for name, share in ahead.items())),
            claim("lam-schedules", "rising", preferred > 0 or (some and "part"), wins="; ".join(
                f"{_TITLES[name]}: rising is better from {wins[name][0]} of {STARTS} starts, "
                f"constant from {wins[name][1]}" for name in others)),
        ],
        tables={
            "lam-schedules": [
                (_TITLES[name], name in CONVEX, *(float(np.median(of[kind])) for kind in KINDS), *wins[name])
                for name, of in made.items()
            ]
        },
        settings={"starts": STARTS, "seed": SEED, "lams": "13, from 0.01 to 10 times Table 1's"},
        T=T, penalised=THRESHOLD + 1, tried=len(FACTORS), preferred=preferred or "none"
    )  # fmt: skip


# --- other penalties h, on the six functions of Table 1 --------------------------------------------------

PENALTIES: dict[str, Penalty] = {
    "‖∇f‖²": SquaredL2(), "Huber": Huber(1.0), "‖∇f‖": L2(), "‖∇f‖₁": L1(), "‖∇f‖₃": PNorm(3.0)
}  # fmt: skip
"""The penalties by name; Huber's is the square for small gradients and the norm for large ones."""

LAMS = np.geomspace(1e-4, 1e4, 65)  # the λ tried for each
HOVER = 400  # steps with the penalty always on, enough to converge


def best_lam(row: Experiment, penalty: Penalty) -> tuple[float, float]:
    """Return f − f* after T gradients with the best of `LAMS` with which f never rises, and that λ."""
    gaps = row.tried("cgd-fd", len(LAMS), lam=LAMS, penalty=penalty, r=None)
    return float(gaps.min()), float(LAMS[np.argmin(gaps)])


def hovers(penalty: Penalty) -> float:
    """Return ‖∇f‖ after a long run on the paper's quadratic as a share of the first; 0 if it converges."""
    row = EXPERIMENTS["quadratic"]
    made = row.run("cgd", penalty=penalty, lam=row.lam0, switch=Never(), budget=Budget(iters=HOVER))
    gnorm: Floats = trace(made).gnorm
    return float(gnorm[-20:-1].max() / gnorm[0])


def other_penalties() -> Outcome:
    """Run CGD-FD with five penalties, each with its best λ."""
    made = {name: [best_lam(row, h) for h in PENALTIES.values()] for name, row in EXPERIMENTS.items()}
    left = {name: hovers(h) for name, h in PENALTIES.items()}
    smooth, kinked = list(left.values())[:2], list(left.values())[2:]
    squared = sum(int(np.argmin([gap for gap, _ in of])) == 0 for of in made.values())
    return outcome(
        "other-penalties",
        claims=[
            claim("other-penalties", "settles", max(smooth) <= 1e-12, most=max(smooth), hover=HOVER),
            claim("other-penalties", "norm", min(kinked) > 1e-3, least=min(kinked), most=max(kinked)),
        ],
        tables={
            "other-penalties": Table(
                ("function", *(text for name in PENALTIES for text in (name, "λ"))),
                [(_TITLES[name], *(value for pair in of for value in pair)) for name, of in made.items()],
            ),
            "other-penalties-hover": [
                (name, value if value > 1e-12 else 0.0) for name, value in left.items()
            ],
        },
        settings={"gradients": T, "b": THRESHOLD, "lams": "65 from 1e−4 to 1e4", "hover": HOVER},
        tried=len(LAMS), squared=squared, total=len(made),
    )  # fmt: skip


# --- negative λ where the Hessian is negative definite ---------------------------------------------------

HILLS = in_the_plane("levy", "rastrigin", "griewank", "schwefel", "drop-wave", "styblinski-tang", "eggholder")
"""Functions of two variables with places where the Hessian is negative definite."""

SIZES = (0.25, 1.0, 4.0)  # |λ| in units of 1/L, L the largest |curvature| at the point
STEP, POINTS = 0.1, 300  # α in units of 1/L, and the number of points on each function


def points(f: Function) -> tuple[Floats, Floats]:
    """Return random points of f's box where its Hessian is negative definite, and L there."""
    x = draw(f.bounds, 100 * POINTS, SEED)
    eigenvalues = np.linalg.eigvalsh(f.hess(x))
    chosen = np.flatnonzero(eigenvalues[:, 1] < 0)[:POINTS]
    return x[chosen], -eigenvalues[chosen, 0]


def step(
    f: Function, x: Floats, alpha: Floats, lam: Floats | None = None, steps: int = 1
) -> tuple[Floats, Any]:
    """Return by how much one step of CGD, or some of GD, lowers f from each point; and the guarded ones."""
    penalty: dict[str, Any] = {"method": "gd"} if lam is None else {"method": "cgd", "lam": lam}
    made = minimize(f, x, step=alpha, budget=Budget(iters=steps), **penalty)
    return np.asarray(f(x)) - np.asarray(made.fun), trace(made).guarded


def negative_lam() -> Outcome:
    """Compare one step with λ, with −λ and without, at points where the Hessian is negative definite."""
    rows: list[tuple[Any, ...]] = []
    for f in HILLS:
        x, L = points(f)
        gd, twice = (step(f, x, STEP / L, steps=n)[0] for n in (1, 2))
        for size in SIZES:
            (minus, guarded), (plus, guarded_plus) = (step(f, x, STEP / L, s * size / L) for s in (-1, 1))
            shares = (float((minus > other).mean()) for other in (gd, plus, twice))
            rows.append((f.title, size, *shares, int(guarded.sum()), int(guarded_plus.sum())))
    least, most = (np.array([row[2:5] for row in rows if row[1] == size]) for size in (SIZES[0], SIZES[-1]))
    return outcome(
        "negative-lam",
        claims=[
            claim("negative-lam", "faster", least[:, :2].min() > 0.9, size=SIZES[0],
                  low=least.min(axis=0), high=least.max(axis=0)),
        ],
        tables={"negative-lam": rows},
        settings={
            "functions": [f.name for f in HILLS], "step": f"{STEP:g}/L",
            "|lam|": [f"{size:g}/L" for size in SIZES],
            "points": f"the first {POINTS} of {100 * POINTS} with H negative definite, default_rng({SEED})",
        },
        count=POINTS, least=SIZES[0], most=SIZES[-1], low=most[:, 2].min(), high=most[:, 2].max(),
    )  # fmt: skip
