"""Negative λ where the Hessian is negative definite: the paper's future work, measured."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._core.result import Trace
from .._minimize import minimize
from ..budget import Budget
from ..functions import Function, functions
from ._claims import Claim, Outcome, Table, resting_on
from .egr import Floats

__all__ = ["FUNCTIONS", "NAME", "SECTION", "SIZES", "STEP", "TITLE", "Step", "points", "run", "step"]

NAME = "negative-lam"
TITLE = "Negative λ where f bends down"
SECTION = "Section 6"
SAYS = (
    "Left for later: negative values of λ might help to descend faster at points where the Hessian is "
    "negative definite."
)
MATTERS = "There λ > 0 shortens the step, and the guard may have to step in; −λ lengthens it."

FUNCTIONS = tuple(
    functions[name] if functions[name].n == 2 else functions[name].at(n=2)
    for name in ("levy", "rastrigin", "griewank", "schwefel", "drop-wave", "styblinski-tang", "eggholder")
)
"""Functions of two variables with places where the Hessian is negative definite."""

SIZES = (0.25, 1.0, 4.0)
"""|λ| in units of 1/L, L the largest curvature in size at the point."""

STEP, POINTS, SEED = 0.1, 300, 0
"""α in units of 1/L, how many points on each function, and the seed of the points."""


class Step(NamedTuple):
    """What one step from each point does: how far f falls, and where the guard has fired.

    Examples
    --------
    >>> x, L = points(FUNCTIONS[0])
    >>> bool(step(FUNCTIONS[0], x, STEP / L, -1.0 / L).guarded.any())
    False
    """

    fall: Floats
    guarded: Any


def points(f: Function) -> tuple[Floats, Floats]:
    """Return random points of f's box where its Hessian is negative definite, and L there.

    Examples
    --------
    >>> x, L = points(FUNCTIONS[1])
    >>> len(x), bool((L > 0).all())
    (300, True)
    """
    low, high = f.bounds.T
    x = np.random.default_rng(SEED).uniform(low, high, (100 * POINTS, 2))
    eigenvalues = np.linalg.eigvalsh(f.hess(x))
    chosen = np.flatnonzero(eigenvalues[:, 1] < 0)[:POINTS]
    return x[chosen], -eigenvalues[chosen, 0]


def step(f: Function, x: Floats, alpha: Floats, lam: Floats | None = None, steps: int = 1) -> Step:
    """Make a step from every point, each with its own α and λ; without λ, of GD.

    Examples
    --------
    >>> x, L = points(FUNCTIONS[0])
    >>> bool((step(FUNCTIONS[0], x, STEP / L).fall > 0).mean() > 0.9)
    True
    """
    penalty: dict[str, Any] = {"method": "gd"} if lam is None else {"method": "cgd", "lam": lam}
    made = minimize(f, x, step=alpha, gtol=0.0, budget=Budget(iters=steps), **penalty)
    trace = made.trace
    assert isinstance(trace, Trace)
    return Step(np.asarray(f(x)) - np.asarray(made.fun), trace.guarded)


def run() -> Outcome:
    """Compare one step with λ, with −λ and without, at points where f bends down in all directions.

    Examples
    --------
    >>> all(claim.holds for claim in run().claims)
    True
    """
    rows: list[tuple[Any, ...]] = []
    for f in FUNCTIONS:
        x, L = points(f)
        gd, twice = (step(f, x, STEP / L, steps=n).fall for n in (1, 2))
        for size in SIZES:
            down, up = (step(f, x, STEP / L, sign * size / L) for sign in (-1, 1))
            shares = (float((down.fall > other).mean()) for other in (gd, up.fall, twice))
            rows.append((f.title, size, *shares, int(down.guarded.sum()), int(up.guarded.sum())))
    by_size = {size: np.array([row[2:5] for row in rows if row[1] == size]) for size in SIZES}
    least = by_size[SIZES[0]]
    return Outcome(
        claims=resting_on(
            "chosen",
            [
                Claim(
                    f"λ = −{SIZES[0]:g}/L descends faster than λ = 0 and than +{SIZES[0]:g}/L where H ≺ 0",
                    "might help",
                    f"at {least[:, 0].min():.0%} to {least[:, 0].max():.0%} of the points, by function; than "
                    f"with +λ at {least[:, 1].min():.0%} to {least[:, 1].max():.0%}",
                    bool(least[:, :2].min() > 0.9),
                ),
            ],
        ),
        tables={
            NAME: Table(
                ("function", "|λ|L", "faster than λ = 0", "than +λ", "than two steps of GD",
                 "guarded, −λ", "guarded, +λ"),
                rows,
                f"One step of CGD with −λ from up to {POINTS} points where H is negative definite, "
                f"α = {STEP:g}/L: at what share of them f falls further.",
            )
        },
        found=[
            "It does help, at all but a few points and on every function; the guard has nothing to do, since "
            "∇fᵀp = −∇fᵀ(I + 2λH)∇f is negative for every λ < 0 where H is.",
            f"But the product H·∇f costs a gradient. Against two steps of GD |λ| = {SIZES[0]:g}/L gains "
            f"nothing, and |λ| = {SIZES[-1]:g}/L wins at {by_size[SIZES[-1]][:, 2].min():.0%} to "
            f"{by_size[SIZES[-1]][:, 2].max():.0%} of the points, by the length of its step. "
            "steepen.schedules.Signed takes the sign of λ from the curvature.",
        ],
        settings={
            "functions": [f.name for f in FUNCTIONS],
            "step": f"{STEP:g}/L",
            "|lam|": [f"{size:g}/L" for size in SIZES],
            "points": f"the first {POINTS} of {100 * POINTS} with H negative definite, default_rng({SEED})",
        },
    )  # fmt: skip
