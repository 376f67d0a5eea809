"""SciPy's methods on the campaign's cases, under the same referee.

They get the case's function, start and derivatives, its bounds (L-BFGS-B alone takes them), its iterations as
`maxiter` and its values as `maxfun` (L-BFGS-B alone has it); all else is SciPy's default. Their tolerance is
1e-5 on the largest entry of the gradient, and the referee holds them to that norm. L-BFGS-B also stops where
a step lowers f by less than 2e-9 of max(|f|, 1): that claim is called false only where f can fall by a
further 1e-4 of max(|f|, 1). Its limit of values is held to it where gradients are given: SciPy's manual says
that differences may break it.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.optimize as so

from .cases import LARGE, Case
from .referee import Claim, judge
from .watched import Watched, functions_of

METHODS = ("L-BFGS-B", "BFGS", "CG")
EVERY = 4
"""SciPy runs every fourth case: three methods each take about as long as ours."""


def takes(case: Case) -> bool:
    """Say whether the case is one for SciPy: a single run in double precision, small."""
    single = not case.batch and case.x0.dtype == np.float64
    return single and case.target.n < LARGE and case.number % EVERY == 0


def run(case: Case) -> dict[str, list[str]]:
    """Return what is to be counted of each of SciPy's methods."""
    if not takes(case):
        return {}
    methods = METHODS if case.bounds is None else METHODS[:1]
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        return {method: _run(case, method) for method in methods}


def _run(case: Case, method: str) -> list[str]:
    watched = Watched(case)
    options = {"maxiter": case.limits["iters"]}
    most = case.limits.get("evals") if method == "L-BFGS-B" else None
    if most is not None:
        options["maxfun"] = most
    given: dict[str, Any] = functions_of(case, watched)
    given.setdefault("jac", case.derivatives if case.differences else watched.grad)
    try:
        found: Any = so.minimize(
            x0=case.x0.copy(), method=method, bounds=case.bounds, options=options, **given
        )
    except Exception:
        return ["runs", "exception"]
    said = ["runs"]
    if most is not None and not case.differences and watched.calls["fun"] > most:
        said.append("overrun")
    if watched.outside:
        said.append("bounds")
    if found.nfev != watched.calls["fun"]:
        said.append("count")
    if found.success:
        verdict = judge(case, _claim(case, method, found))
        said += ["success", "false success" if verdict.startswith("false") else verdict]
    return said


def _claim(case: Case, method: str, found: Any) -> Claim:
    x, f = np.asarray(found.x), float(found.fun)
    g = case.target.grad(x)
    if method == "L-BFGS-B" and "REDUCTION" in found.message:
        return Claim(x, f, g, None, slack=1e-4 * max(abs(f), 1.0))
    return Claim(x, f, g, 1e-5, order=np.inf)
