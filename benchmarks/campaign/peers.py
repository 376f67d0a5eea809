"""SciPy's methods on the campaign's cases, under the same referee.

They get the case's function, start and derivatives, its bounds (L-BFGS-B alone takes them), its iterations as
`maxiter` and its values as `maxfun` (L-BFGS-B alone has it); all else is SciPy's default. Their tolerance is
1e-5 on the largest entry of the gradient, and the referee holds them to that norm. L-BFGS-B also stops where
a step lowers f by less than 2e-9 of max(|f|, 1): that claim is called false only where f can fall by a
further 1e-4 of max(|f|, 1). Its limit of values is held to it where gradients are given: SciPy's manual says
that differences may break it.
"""

import warnings

import numpy as np
import scipy.optimize as so

from .cases import LARGE
from .referee import Claim, judge
from .trial import Watched

METHODS = ("L-BFGS-B", "BFGS", "CG")
EVERY = 4
"""SciPy runs every fourth case: three methods each take about as long as ours."""


def takes(case):
    """Say whether the case is one for SciPy: a single run in double precision, small."""
    single = not case.batch and case.x0.dtype == np.float64
    return single and case.target.n < LARGE and case.number % EVERY == 0


def run(case):
    """Return what is to be counted of each of SciPy's methods."""
    if not takes(case):
        return {}
    methods = METHODS if case.bounds is None else METHODS[:1]
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        return {method: _run(case, method) for method in methods}


def _run(case, method):
    watched, options = Watched(case), {"maxiter": case.limits["iters"]}
    most = case.limits.get("evals", np.inf) if method == "L-BFGS-B" else np.inf
    if most < np.inf:
        options["maxfun"] = most
    given = {"jac": case.derivatives if case.differences else watched.grad} | watched.functions()
    try:
        found = so.minimize(x0=case.x0.copy(), method=method, bounds=case.bounds, options=options, **given)
    except Exception:
        return ["runs", "exception"]
    broken = {
        "overrun": not case.differences and watched.calls["fun"] > most,
        "bounds": watched.outside,
        "count": found.nfev != watched.calls["fun"],
    }
    said = ["runs", *(word for word, true in broken.items() if true)]
    if found.success:
        x, f = np.asarray(found.x), float(found.fun)
        ends = {"gtol": 1e-5, "order": np.inf}
        if method == "L-BFGS-B" and "REDUCTION" in found.message:
            ends = {"gtol": None, "slack": 1e-4 * max(abs(f), 1.0)}
        verdict = judge(case, Claim(x, f, case.target.grad(x), **ends))
        said += ["success", "false success" if verdict.startswith("false") else verdict]
    return said
