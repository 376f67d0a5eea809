"""Item of `reproduce`, Theorem 1: safe steps never raise f; the linear bound on f − f*; writes no files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np

from .. import plot, theory
from ..budget import Budget
from ..trace import Trace
from ._figures import legend_above
from ._items import Claim, Outcome, claim, outcome
from ._runs import Floats, minimize, trace, turned_quadratic
from .listings import theorem1

TWICE_LAM_L = (0.0, 0.5, 2.0)  # λ by 2λL: how much steeper the penalty makes the steepest direction
SHARES = (0.1, 0.5, 0.99)  # steps tried, as shares of the upper end of the safe interval
ITERATIONS = 200
SMALL, MOST = 1e-6, 100_000  # ∇f → 0: steps until ‖∇f‖ is this share of the start's, and their limit
RAYS = 100  # directions in which the least curvature of logistic regression is searched for
_claim = partial(claim, "theorem1")


@dataclass(frozen=True)
class Problem:
    """A convex f with its minimum, and its L and μ, measured with `steepen.theory` unless they are known."""

    title: str
    fun: Callable[[Floats], Any]
    grad: Callable[[Floats], Any]
    hvp: Callable[[Floats, Floats], Any]
    start: Floats
    fmin: float
    L: float
    mu: float

    @property
    def short(self) -> str:
        """The title up to its comma."""
        return self.title.partition(",")[0]

    def named(self, product: float) -> str:
        """Return the name of the trace for 2λL."""
        return f"theorem1-{self.short.lower().replace(' ', '-')}-{product:g}"

    def run(self, lam: float, step: float, iterations: int = ITERATIONS, gtol: float = 0.0) -> Trace:
        """Run CGD with the exact product and a constant step."""
        return trace(minimize(
            self.fun, self.start, method="cgd", jac=self.grad, hvp=self.hvp, lam=lam, step=step, gtol=gtol,
            budget=Budget(iters=iterations),
        ))  # fmt: skip

    def gap(self, made: Trace) -> Floats:
        """Return f − f* of a run."""
        return np.maximum(made.f - self.fmin, 0.0)

    def bound(self, made: Trace, lam: float) -> Floats:
        """Return Theorem 1's bound on it."""
        return (made.f[0] - self.fmin) * theory.linear_rate(self.L, self.mu, lam) ** made.k


def strongly_convex(n: int = 10, seed: int = 0) -> Problem:
    """Return a quadratic with eigenvalues from 1 to 10 in a random basis."""
    rng = np.random.default_rng(seed)
    f, _ = turned_quadratic(rng, np.linspace(1.0, 10.0, n))
    start = rng.standard_normal(n)
    L, mu = (find(f.hvp, start).value for find in (theory.largest_curvature, theory.smallest_curvature))
    return Problem("Quadratic", f, f.grad, f.hvp, start, f.fmin, L, mu)


def least_squares(m: int = 20, n: int = 10, rank: int = 6, seed: int = 1) -> Problem:
    """Return ½‖Ax − b‖² with a matrix of low rank: not strongly convex, but PL holds.

    μ is the smallest nonzero eigenvalue of AᵀA, that is, its smallest on the span of A's rows.
    """
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n)) / np.sqrt(m)
    b = rng.standard_normal(m)
    start = rng.standard_normal(n)

    def fun(x: Floats) -> float:
        residual = A @ x - b
        return float(residual @ residual) / 2

    def grad(x: Floats) -> Floats:
        return A.T @ (A @ x - b)

    def hvp(x: Floats, v: Floats) -> Floats:
        return A.T @ (A @ v)

    rows = np.linalg.svd(A)[2][:rank]
    L = theory.largest_curvature(hvp, start).value
    mu = theory.smallest_curvature(lambda x, v: rows @ hvp(start, rows.T @ v), np.zeros(rank)).value
    span = np.linalg.qr(A @ rows.T)[0]
    left = b - span @ (span.T @ b)  # the residual at the minimum
    return Problem(f"Least squares, rank {rank} of {n}", fun, grad, hvp, start, float(left @ left) / 2, L, mu)


def logistic(m: int = 60, n: int = 5, ridge: float = 0.1, seed: int = 2) -> Problem:
    """Return logistic regression, mean log(1 + exp(−yᵢaᵢᵀx)), plus ½ρ‖x‖² with ρ the ridge.

    L is the largest curvature at 0, where it is largest, and μ = ρ. Without a ridge f is strongly convex only
    on the set f ≤ f₀, which no run leaves: μ is the smallest curvature found there on random rays from the
    minimum, which exists as the data are not separable.
    """
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, n)) * np.linspace(0.5, 2.0, n)
    noise = 1.0 if ridge else 4.0  # far from separable
    y = np.where(A @ rng.standard_normal(n) + noise * rng.standard_normal(m) > 0, 1.0, -1.0)
    signed = A * y[:, None]
    start = 3.0 * rng.standard_normal(n) if ridge else np.zeros(n)

    def fun(x: Floats) -> float:
        return float(np.logaddexp(0.0, -signed @ x).mean() + ridge * (x @ x) / 2)

    def wrong(x: Floats) -> Floats:
        return np.exp(-np.logaddexp(0.0, signed @ x))

    def grad(x: Floats) -> Floats:
        return -signed.T @ wrong(x) / m + ridge * x

    def hvp(x: Floats, v: Floats) -> Floats:
        p = wrong(x)
        return signed.T @ (p * (1.0 - p) * (signed @ v)) / m + ridge * v

    def hess(x: Floats) -> Floats:
        return np.stack([hvp(x, e) for e in np.eye(n)])

    L = theory.largest_curvature(hvp, np.zeros(n)).value
    best = minimize(fun, np.zeros(n), method="newton", jac=grad, hess=hess, step=1.0, gtol=1e-14,
                    budget=Budget(iters=20))  # fmt: skip
    if ridge:
        return Problem(f"Logistic with ridge {ridge:g}", fun, grad, hvp, start, best.fun, L, ridge)
    mu, top = L, fun(start)
    for ray in rng.standard_normal((RAYS, n)):
        x = best.x
        while fun(x) <= top:
            mu = min(mu, float(np.linalg.eigvalsh(hess(x))[0]))
            x = x + 0.2 * ray / np.linalg.norm(ray)
    return Problem("Logistic without ridge", fun, grad, hvp, start, best.fun, L, mu)


def problems() -> tuple[Problem, ...]:
    """Return a quadratic, least squares, and logistic regression with and without a ridge."""
    return strongly_convex(), least_squares(), logistic(), logistic(ridge=0.0)


def run() -> Outcome:
    """Run CGD at Theorem 1's step and at steps inside its interval, and check the theorem on both."""
    cases = problems()
    claims = [_as_printed(), _sharp(cases[0])]
    rows: list[tuple[Any, ...]] = []
    traces: dict[str, Trace] = {}
    for problem in cases:
        claims += _measured(problem, rows, traces)
    ends = [[traces[p.named(twice)].f[-1] for twice in (TWICE_LAM_L[0], TWICE_LAM_L[-1])] for p in cases]
    return outcome(
        "theorem1",
        claims=claims,
        tables={"theorem1": rows},
        pictures={"theorem1": _figure(cases, traces)},
        traces=traces,
        settings={
            "iterations": ITERATIONS, "2λL": list(TWICE_LAM_L), "shares of the interval": list(SHARES),
            "quadratic": "n = 10, eigenvalues 1 to 10; default_rng(0): basis, linear term, start, all normal",
            "least squares": "m = 20, n = 10, rank 6; default_rng(1): both factors, b, start, all normal",
            "logistic": "m = 60, n = 5, columns scaled 0.5 to 2, labels of a normal x with normal noise, "
            "default_rng(2); with ridge 0.1 from 3 times a normal point, without ridge from 0 with noise 4 "
            "times as large",
            "rays": RAYS,
        },
        most=TWICE_LAM_L[-1], shorter=(1 + TWICE_LAM_L[-1]) ** 2, cases=len(cases),
        slower=sum(bool(gd < cgd) for gd, cgd in ends),
    )  # fmt: skip


def _measured(problem: Problem, rows: list[tuple[Any, ...]], traces: dict[str, Trace]) -> list[Claim]:
    """Run a problem with each λ, add its rows and traces, and return its claims."""
    closest, highest_rise, guards, last, longest = 0.0, -np.inf, 0, 0.0, 0
    goal = SMALL * float(np.linalg.norm(problem.grad(problem.start)))
    for product in TWICE_LAM_L:
        lam = product / (2.0 * problem.L)
        step = float(theory.safe_step(problem.L, lam))
        made = traces[problem.named(product)] = problem.run(lam, step)
        gap, limit = problem.gap(made), problem.bound(made, lam)
        closest = max(closest, float((gap[1:] / limit[1:]).max()))
        seen = gap[gap > _FLOOR * gap[0]]
        rate = theory.linear_rate(problem.L, problem.mu, lam)
        worst = float((seen[1:] / seen[:-1]).max())
        rows.append((problem.title, problem.L, problem.mu, lam, step, rate, worst))
        for share in SHARES:
            inside = problem.run(lam, share * 2 * step)
            # a rise within the rounding of f does not count
            rise = np.diff(inside.f) / (1e-14 * np.abs(inside.f[:-1]).max())
            highest_rise = max(highest_rise, float(rise.max()))
            guards += int(inside.guarded.sum())
        settled = problem.run(lam, step, MOST, gtol=goal)
        last, longest = max(last, float(settled.gnorm[-1] / goal)), max(longest, len(settled) - 1)
    says = partial(_claim, problem=problem.short)
    return [
        says("bound", closest <= 1.0, closest=closest),
        says("nonincreasing", highest_rise <= 1.0 and guards == 0, guards=guards),
        says("converges", last <= 1.0, share=SMALL * last, longest=longest),
    ]


def _as_printed() -> Claim:
    """Compare the interval, step and rate of `steepen.theory` with the printed expressions."""
    apart = 0.0
    for L in (0.3, 1.0, 20.0):
        for lam in (0.0, 0.02, 0.5, 3.0):
            mu = 0.4 * L
            step = float(theory.safe_step(L, lam))
            ratios = np.array([2 * step, step, theory.linear_rate(L, mu, lam)]) / theorem1(L, mu, lam)
            apart = max(apart, float(np.abs(ratios - 1).max()))
    return _claim("as-printed", apart <= 1e-12, apart=apart)


def _sharp(problem: Problem) -> Claim:
    """Run GD on a quadratic just inside and just outside the interval, along its steepest direction."""
    end = 2 * float(theory.safe_step(problem.L, 0.0))
    H = np.stack([problem.hvp(problem.start, e) for e in np.eye(len(problem.start))])
    lowest = cast(Floats, problem.start - np.linalg.solve(H, problem.grad(problem.start)))
    steepest = replace(problem, start=lowest + np.linalg.eigh(H)[1][:, -1])
    inside, outside = (steepest.run(0.0, share * end, 5).f for share in (0.99, 1.01))
    falls, rises = int((np.diff(inside) < 0).sum()), int((np.diff(outside) > 0).sum())
    return _claim("sharp", falls == rises == 5, problem=problem.title.lower(), falls=falls, rises=rises)


_FLOOR = 1e-10  # of f₀ − f*; below it f is dominated by rounding


def _figure(cases: tuple[Problem, ...], traces: dict[str, Trace]) -> Any:
    figure = plot.blank(10, 3.6)
    for problem, ax in zip(cases, figure.subplots(1, len(cases)), strict=True):
        for product, colour in ((0.0, plot.COLOURS["gd"]), (2.0, plot.COLOURS["cgd"])):
            made = traces[problem.named(product)]
            gap, limit = problem.gap(made), problem.bound(made, product / (2.0 * problem.L))
            shown = gap > _FLOOR * gap[0]
            name = "λ = 0 (GD)" if product == 0 else f"2λL = {product:g}"
            ax.plot(made.k[shown], gap[shown], color=colour, lw=1.8, label=f"{name}, measured")
            ax.plot(made.k, limit, color=colour, lw=1.8, ls=":", label=f"{name}, bound")
        ax.set(yscale="log", title=problem.title, xlabel="iterations")
        ax.title.set_fontsize("medium")
        plot.tidy(ax)
    figure.supylabel("f − f*, log scale", fontsize="medium")
    legend_above(figure)
    return figure
