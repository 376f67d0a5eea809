"""Explicit gradient regularisation (EGR) seen through CGD: its gain, its traps, and two cures.

EGR is gradient descent on g = f + λ‖∇f‖². It steps over sharp minima, since a curvature h becomes h(1+2λh).
It can also stop where f does not: at artificial stationary points (Lemma 1), and at saddles and maxima of f
that are minima of g. CGD's guard is one cure, with limits, and an early switch to f the other. For users, and
for the paper's items on Lemma 1, EGR and artificial points; it runs `minimize`, and writes no files.

Examples
--------
>>> from steepen.paper import egr
>>> egr.SCENES["levy-1d"].ends("egr").kinds["maximum"] > 0
True
>>> egr.SCENES["levy-1d"].ends("guard").kinds
{'minimum': 201}
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import ArrayLike

from .. import theory
from .._tools.check import one_of
from ..budget import Budget
from ..functions import Function, functions
from ..result import Result
from ._runs import Floats, minimize

Way = Literal["gd", "egr", "guard", "switch-off"]

WAYS: tuple[Way, ...] = get_args(Way)
"""Four descents: GD on f; GD on g; CGD with its guard; GD on g for b steps and then on f."""

SETTLED = 1e-3  # points with ‖∇f‖ below this count as stationary, with ‖∇g‖/‖∇f‖ below it as artificial


@dataclass(frozen=True)
class Penalised:
    """g = f + λ‖∇f‖² as a function, with its gradient."""

    f: Function
    lam: float

    def __call__(self, x: ArrayLike) -> Any:
        slope = self.f.grad(x)
        return self.f(x) + self.lam * (slope * slope).sum(axis=-1)

    def grad(self, x: ArrayLike) -> Floats:
        """Return ∇f + 2λH∇f."""
        slope = self.f.grad(x)
        return slope + 2 * self.lam * self.f.hvp(x, slope)


def stable_step(h: float, lam: float = 0.0) -> float:
    """Return the largest stable step at a minimum of curvature h: 2/h on f, 2/(h(1+2λh)) on g."""
    return 2 / float(theory.penalised_curvature(h, lam))


class Minimum(NamedTuple):
    """A minimum of f, with its value and its largest curvature."""

    x: Floats
    f: float
    curvature: float


# --- landscapes -----------------------------------------------------------------------------------

_FLAT, _DEPTH, _WIDTH = 2.0, 1.2, 0.25


def _wells(x: Floats, slope: bool) -> Any:
    bowl = x.copy()
    bowl[0] = bowl[0] - _FLAT
    well = _DEPTH * np.exp(-(x * x).sum(axis=0) / (2 * _WIDTH**2))
    return bowl + well / _WIDTH**2 * x if slope else (bowl * bowl).sum(axis=0) / 2 - well


def two_wells(n: int = 1) -> Function:
    """Return a bowl around its minimum (2, 0, …) with a sharp well near 0, which is a higher minimum.

    f = ½‖x − (2, 0, …)‖² − 1.2·exp(−‖x‖²/(2·0.25²)).
    """
    lowest = -_DEPTH * math.exp(-(_FLAT**2) / (2 * _WIDTH**2))
    return Function(
        "two-wells", "Two wells", "other", _wells, n=n, bounds=(-2.0, 4.0),
        minima=[_FLAT] + [0.0] * (n - 1), fmin=lowest, resize=two_wells,
    )  # fmt: skip


def two_minima(n: int) -> tuple[Minimum, Minimum]:
    """Return the sharp minimum of the two wells and the flat one, found by Newton's method."""
    f, budget = two_wells(n), Budget(iters=50)

    def near(first: float) -> Minimum:
        start = [first] + [0.0] * (n - 1)
        x = minimize(f, start, method="newton", step=1.0, budget=budget, gtol=1e-10, trace=False).x
        return Minimum(x, float(f(x)), float(np.linalg.eigvalsh(f.hess(x))[-1]))

    return near(0.1), near(2.1)


def _pit(x: Floats, slope: bool) -> Any:
    square = (x * x).sum(axis=0)
    edge = np.tanh(square / 2 - 2)
    return x * (0.2 + (1 - edge * edge)) if slope else square / 10 + edge


def pit(n: int = 1) -> Function:
    """Return a bowl with a pit of radius 2 in the middle: f = ‖x‖²/10 + tanh(‖x‖²/2 − 2).

    At the pit's edge ‖∇f‖ is large, so that g has a wall there, and an artificial minimum outside it.
    """
    return Function(
        "pit", "Pit", "other", _pit, n=n, bounds=(-5.0, 5.0), minima=0.0,
        fmin=math.tanh(-2.0), resize=pit,
    )  # fmt: skip


def _pits(x: Floats, slope: bool) -> Any:
    edge = np.tanh(x * x / 2 - 2)
    return x * (0.2 + (1 - edge * edge)) if slope else (x * x / 10 + edge).sum(axis=0)


def pits(n: int = 2) -> Function:
    """Return the sum of the pit of one variable over n variables, each of which can be trapped."""
    return Function(
        "pits", "Pits", "other", _pits, n=n, bounds=(-5.0, 5.0), minima=0.0,
        fmin=n * math.tanh(-2.0), resize=pits,
    )  # fmt: skip


# --- ways down ------------------------------------------------------------------------------------


def descend(f: Function, x0: ArrayLike, way: Way, *, lam: float, step: float, iters: int = 200, b: int = 5,
            trace: bool | Literal["x"] = "x") -> Result:  # fmt: skip
    """Run one of the `WAYS` with a fixed step, from one start or a batch.

    The result is that of `minimize`: on g for "egr", and of the second part for "switch-off".
    """
    one_of("way", way, WAYS)
    fun: Any = f if way in ("gd", "guard") else Penalised(f, lam)
    method: dict[str, Any] = {"method": "cgd", "lam": lam} if way == "guard" else {"method": "gd"}
    method |= {"step": step, "gtol": 1e-6, "trace": trace}
    if way == "switch-off":
        x0, fun, iters = minimize(fun, x0, budget=Budget(iters=b), **method).x, f, iters - b
    return minimize(fun, x0, budget=Budget(iters=iters), **method)


def kind(f: Function, x: ArrayLike, lam: float) -> str:
    """Return "minimum", "maximum", "saddle" or "degenerate" of f, "artificial" (Lemma 1), or "unsettled"."""
    found = theory.classify(x, f.grad, f.hvp, lam, tol=SETTLED, gtol=SETTLED)
    if found == "stationary":
        return theory.nature(f.hess(x))
    return "artificial" if found == "artificial" else "unsettled"


class Stationary(NamedTuple):
    """A stationary point of g in one variable: x, f'', and whether it is a minimum or maximum of f and of g.

    `to_f` is "artificial" if it is not stationary for f.
    """

    x: float
    curvature: float
    to_f: str
    to_g: str

    @property
    def turned(self) -> bool:
        """Whether it is a maximum of f and a minimum of g."""
        return (self.to_f, self.to_g) == ("maximum", "minimum")


def stationary_points(f: Function, lam: float, interval: tuple[float, float]) -> list[Stationary]:
    """Return the stationary points of g on an interval, in increasing order, for f of one variable."""
    from scipy.optimize import brentq  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

    def slope(x: ArrayLike) -> Any:
        return f.grad(np.asarray(x)[..., None])[..., 0]

    def bend(x: ArrayLike) -> Any:
        return f.hess(np.asarray(x)[..., None])[..., 0, 0]

    found: list[Stationary] = []
    x = np.linspace(*interval, 4001)
    signs = np.sign(slope(x))
    crossings = np.flatnonzero(signs[:-1] * signs[1:] < 0)
    roots = [cast(float, brentq(slope, x[i], x[i + 1], xtol=1e-13)) for i in crossings]
    for root in [*roots, *x[signs == 0].tolist()]:
        t = float(bend(root))
        found.append(Stationary(root, t, theory.nature(t), theory.nature(t, lam)))
    for root in theory.artificial_points(slope, bend, lam, interval):
        left, right = Penalised(f, lam).grad([[root - 1e-5], [root + 1e-5]])[:, 0]
        to_g = "minimum" if left < right else "maximum"
        found.append(Stationary(float(root), float(bend(root)), "artificial", to_g))
    return sorted(found)


class Ends(NamedTuple):
    """Where runs ended: the number at each kind of point, the mean f, guarded steps, and the mean cost.

    The cost is in gradients; a product H·v counts as one.
    """

    kinds: dict[str, int]
    mean: float
    guarded: int
    cost: float

    @property
    def total(self) -> int:
        """The number of runs."""
        return sum(self.kinds.values())

    @property
    def astray(self) -> int:
        """The number of runs that did not end at a minimum of f."""
        return self.total - self.kinds.get("minimum", 0)


@dataclass(frozen=True)
class Scene:
    """A landscape with the settings and starts of all ways."""

    f: Function
    lam: float
    step: float
    iters: int
    b: int
    starts: Floats

    @property
    def g(self) -> Penalised:
        """The penalised function."""
        return Penalised(self.f, self.lam)

    def ends(self, way: Way) -> Ends:
        """Run one way from all starts."""
        settings: dict[str, Any] = {"lam": self.lam, "step": self.step, "iters": self.iters, "b": self.b}
        run = descend(self.f, self.starts, way, trace=way == "guard", **settings)
        ends = cast(Floats, run.x)
        kinds = Counter(kind(self.f, x, self.lam) for x in ends)
        guarded = 0 if run.trace is None else int(run.trace.guarded.sum())
        each = np.asarray(run.njev) * (2 if way == "egr" else 1) + np.asarray(run.nhvp)
        cost = float(each.mean()) + (2 * self.b if way == "switch-off" else 0)
        return Ends(dict(kinds.most_common()), float(self.f(ends).mean()), guarded, cost)


def _grid(low: float, high: float, count: int) -> Floats:
    side = np.linspace(low, high, count)
    return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)


def _rings(low: float, high: float) -> Floats:
    radius = np.linspace(low, high, 5)[:, None]
    turn = np.linspace(0.0, 2 * np.pi, 8, endpoint=False) + 0.1
    return np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=-1).reshape(-1, 2)


def _line(low: float, high: float, count: int) -> Floats:
    return np.linspace(low, high, count)[:, None]


_on_rastrigin = partial(Scene, functions["rastrigin"].at(n=2), 0.005, iters=1500, starts=_grid(-5.0, 5.0, 15))
_on_pit = partial(Scene, pit(), lam=0.3, iters=600, b=20, starts=_line(3.0, 4.5, 40))
_on_round_pit = partial(Scene, pit(2), lam=0.3, iters=600, b=20, starts=_rings(3.0, 4.5))

SCENES = {
    "two-wells-1d": Scene(two_wells(), 0.055, 0.1, iters=400, b=10, starts=_line(-1.2, -0.1, 111)),
    "two-wells-2d": Scene(two_wells(2), 0.055, 0.1, iters=400, b=10, starts=_grid(-1.2, 0.6, 13)),
    "levy-1d": Scene(functions["levy"].at(n=1), 0.075, 0.06, 200, b=5, starts=_line(-10.0, 10.0, 201)),
    "rastrigin-2d": _on_rastrigin(step=0.0002, b=10),
    "pit-1d": _on_pit(step=0.3),
    "pit-2d": _on_round_pit(step=0.3),
    "rastrigin-2d-long-step": _on_rastrigin(step=0.001, b=4),
    "pit-1d-short-step": _on_pit(step=0.05),
    "pit-2d-short-step": _on_round_pit(step=0.05),
}
"""Where the ways are compared. The first two have no traps; in the last three the guard is a partial cure:
with the long step one coordinate oscillates and keeps ∇fᵀp < 0 while f rises along the other; with the short
step the run approaches an artificial point from the side where ∇fᵀp < 0."""
