"""The solvers by name: steepen's methods and their peers.

A solver takes a `Counter` and a start point, and returns its closing message. Tolerances are as tight as they
go, so that no solver stops before the tightest accuracy by choice: it goes on until it finds no descent or
the budget is spent. Values that are not finite are passed on to all solvers. Ours and BB then try a shorter
step. Among the peers, NLopt halves its first step, −∇f, about ten times and then gives up, which ends its
runs on badly scaled problems, and SciPy's Newton-CG stops when it meets a NaN.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from steepen._call.minimize import minimize
from steepen._tools.optional import load
from steepen.budget import Budget
from steepen.functions._numerics import Array
from steepen.status import Status

from ._count import Counter

Solver = Callable[[Counter, Array], str]

_OURS = {
    "cgd-auto": "cgd-auto",
    "BFGS-Armijo": "bfgs",
    "DFP-Armijo": "dfp",
    "GD-Armijo": "gd",
    "cgd": "cgd",
    "cgd-fd": "cgd-fd",
    "cgd-bfgs": "cgd-bfgs",
    "cgd-dfp": "cgd-dfp",
}
_NO_END = 10**9
_NLOPT_ENDS = ("success", "value reached", "ftol reached", "xtol reached", "evaluations spent", "time spent")


def _steepen(method: str, counter: Counter, x0: Array) -> str:
    """Run one of our methods with its defaults; `b`, if it has one, follows from the budget."""
    result = minimize(
        counter.value, x0, method=method, jac=counter.grad, gtol=0.0, trace=False,
        budget=Budget(grads=counter.budget),
    )  # fmt: skip
    if result.status is Status.INTERRUPTED:  # of one run; here it is meant for all of them
        raise KeyboardInterrupt
    return result.message


def _scipy(method: str, options: Mapping[str, Any], counter: Counter, x0: Array) -> str:
    optimize = import_module("scipy.optimize")  # here, so that the command starts fast
    result = optimize.minimize(counter.value, x0, jac=counter.grad, method=method, options=dict(options))
    return str(result.message)


def _nlopt(algorithm: str, counter: Counter, x0: Array) -> str:
    nlopt = load("nlopt", f"the solver NLopt {algorithm}", extra="bench")

    raised: list[BaseException] = []

    def objective(x: Array, grad: Array) -> float:
        try:
            grad[:] = counter.grad(x)
            return counter.value(x)
        except BaseException as error:  # NLopt goes on for some calls, and then raises its own
            raised.append(error)
            raise

    solver = nlopt.opt(getattr(nlopt, algorithm), len(x0))
    solver.set_min_objective(objective)
    solver.set_param("tolg", 1e-300)  # its own default ends a run at a gradient of 1e-8
    try:
        solver.optimize(x0)
    except (nlopt.RoundoffLimited, nlopt.runtime_error) as error:
        if raised:
            raise raised[0] from None
        return str(error) or "failure"
    return _NLOPT_ENDS[int(solver.last_optimize_result()) - 1]


def _barzilai_borwein(counter: Counter, x0: Array) -> str:
    """Minimise by Raydan's global Barzilai–Borwein method: steps sᵀs/sᵀy along −∇f.

    A step is accepted if f falls below the largest of the last ten values by 1e-4 of what the slope promises;
    otherwise it is cut by interpolation. The first step has length 1 at most. A step outside [1e-10, 1e10],
    as after sᵀy ≤ 0, is replaced by 1/‖∇f‖, clipped to [1, 1e5].
    """
    x, f, g = x0, counter.value(x0), counter.grad(x0)
    recent = deque([f], maxlen=10)
    square = float(g @ g)
    step = min(1.0, 1 / math.sqrt(square)) if square > 0 else 1.0
    while 0 < square < math.inf:
        for _ in range(60):
            trial = x - step * g
            value = counter.value(trial)
            if value <= max(recent) - 1e-4 * step * square:
                break
            bend = value - f + step * square
            best = step * step * square / (2 * bend) if math.isfinite(bend) and bend > 0 else 0.0
            step = min(max(best, 0.1 * step), 0.5 * step)
        else:
            return "no step lowers f"
        x, f, before = trial, value, g
        g = counter.grad(x)
        recent.append(f)
        falling = -float(before @ (g - before))  # sᵀy/α, with s = −α·before
        step = step * square / falling if falling else math.inf
        square = float(g @ g)
        if not 1e-10 < step < 1e10:
            step = min(max(1 / math.sqrt(square), 1.0), 1e5) if square > 0 else 1.0
    return "the gradient is zero" if square == 0 else "the gradient is not finite"


_LBFGSB = {"ftol": 0, "gtol": 0, "maxiter": _NO_END, "maxfun": _NO_END}

SOLVERS: dict[str, Solver] = {
    **{name: partial(_steepen, method) for name, method in _OURS.items()},
    "L-BFGS-B": partial(_scipy, "L-BFGS-B", {**_LBFGSB, "maxcor": 10}),
    "L-BFGS-B-200": partial(_scipy, "L-BFGS-B", {**_LBFGSB, "maxcor": 200}),
    "BFGS": partial(_scipy, "BFGS", {"gtol": 0, "maxiter": _NO_END}),
    "CG": partial(_scipy, "CG", {"gtol": 0, "maxiter": _NO_END}),
    "Newton-CG": partial(_scipy, "Newton-CG", {"xtol": 0, "maxiter": _NO_END}),
    "TNC": partial(_scipy, "TNC", {"ftol": 0, "xtol": 0, "gtol": 0, "maxfun": _NO_END}),
    "NLopt-LBFGS": partial(_nlopt, "LD_LBFGS"),
    "NLopt-VAR2": partial(_nlopt, "LD_VAR2"),
    "NLopt-TNEWTON": partial(_nlopt, "LD_TNEWTON_PRECOND"),
    "BB": _barzilai_borwein,
}
"""The solvers. Those with Armijo, and all whose name starts with cgd, are steepen's; NLopt's have its name;
BB is Barzilai–Borwein; the others are SciPy's, with 10 pairs for L-BFGS-B and 200 for L-BFGS-B-200. Of the
four variants of NLopt's TNEWTON this is LD_TNEWTON_PRECOND, the best of them on the small problems of mgh."""

LARGEST: dict[str, int] = {
    "BFGS": 1000,
    **dict.fromkeys(("BFGS-Armijo", "DFP-Armijo", "cgd-bfgs", "cgd-dfp"), 2000),
}
"""The largest n for those that keep an n×n matrix. A step takes O(n²) time, with SciPy's BFGS O(n³)."""


def available() -> list[str]:
    """Return the solvers that can run here: all of them, or all but NLopt's if it is not installed."""
    found = find_spec("nlopt") is not None
    return [name for name in SOLVERS if found or not name.startswith("NLopt")]
