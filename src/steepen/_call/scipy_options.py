"""Translate SciPy's `options` into arguments of `minimize`; the only place that uses SciPy's names."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from .._core.result import Result
from .._core.status import Status
from .._evaluation.finite_differences import Differences
from .._tools.check import floats, meant, number, whole
from ..budget import Budget
from .arguments import direction_of, step_of
from .keywords import DEFAULTS, complete

LIMITS = {"maxiter": "iters", "maxfun": "evals", "maxfev": "evals", "maxgrad": "grads"}
OTHERS = ("eps", "finite_diff_rel_step", "gradient", "maxcor", "maxls", "return_all", "disp")

ARGUMENTS = ("options", "jac", "hess", "hessp", "bounds", "callback")
"""Arguments that, as in SciPy, may not be passed as options."""


def understood(options: Any, method: Any, given: Mapping[str, Any], n: int) -> dict[str, Any]:
    """Return the keywords of the call without `options`; the option `gtol` overrides `tol`, as in SciPy."""
    left = _checked(options, set(DEFAULTS) - set(ARGUMENTS))
    explicit: dict[str, Any] = {
        name: value for name, value in given.items() if name != "options" and value is not DEFAULTS[name]
    }
    left.pop("disp", None)
    found = _budget(left, n) | _gradient(left, explicit.pop("jac", None))
    if "maxls" in left:
        whole("maxls", left["maxls"], 1)
        found["step"] = replace(cast(Any, step_of(None, direction_of(method))), trials=left.pop("maxls"))
    if "maxcor" in left:
        found["memory"] = left.pop("maxcor")
    if left.pop("return_all", False):
        found["trace"] = "x"
    if left.get("gtol") is not None:
        for one in (left, explicit):
            one.pop("tol", None)
    for one, other in ((left, found), (left, explicit), (found, explicit)):
        for name in sorted(set(one) & set(other)):
            raise ValueError(f"options: {name!r} is given twice, as a synonym or as an argument")
    return complete(explicit | found | left)


def _checked(options: Any, ours: set[str]) -> dict[str, Any]:
    if not isinstance(options, Mapping):
        raise TypeError(f"options: expected a dict such as {{'maxiter': 100}}, got {options!r}")
    given = dict(cast("Mapping[str, Any]", options))
    known = sorted(ours.union(LIMITS, OTHERS))
    for name in given:
        if name not in known:
            raise TypeError(f"options: unknown option {name!r}; {meant(name, known)}")
    return given


def _budget(options: dict[str, Any], n: int) -> dict[str, Any]:
    """Read the limits. None is SciPy's default: 200 n iterations, unlimited evaluations."""
    limits: dict[str, int | None] = {}
    for option, name in LIMITS.items():
        if option not in options:
            continue
        if name in limits:
            raise ValueError("maxfev: give either maxfun or maxfev, not both")
        limit = options.pop(option)
        if limit is None:
            limit = 200 * n if name == "iters" else math.inf
        least = 0 if name == "iters" else 1
        if limit != math.inf:
            number(option, limit, f"a number, {least} or more, or None", least=least)
        limits[name] = None if limit == math.inf else math.floor(limit)
    if "iters" not in limits and not any(limits.values()):
        return {}
    return {"budget": Budget(**limits)}


def _gradient(options: dict[str, Any], jac: Any) -> dict[str, Any]:
    """Read the options for the gradient."""
    name = options.pop("gradient", None)
    if name is not None and jac is not None and jac is not False:
        raise ValueError("gradient: give either jac or the option gradient, not both")
    given = ((option, options.pop(option, None)) for option in ("eps", "finite_diff_rel_step"))
    eps, relative = (
        None if steps is None else floats(option, steps, "a number, or one per variable")
        for option, steps in given
    )
    if eps is not None and relative is not None:
        raise ValueError("eps: give either eps or finite_diff_rel_step, not both")
    return {"jac": Differences(jac if name is None else name, eps, relative)}


def summary(result: Result) -> str:
    """Return the text that `disp=True` prints, in SciPy's format.

    Examples
    --------
    >>> import steepen as st
    >>> print(summary(st.minimize(st.functions["booth"], [0.0, 0.0], method="gd", step=0.05)))
    The gradient norm is within gtol. (docs: status.html#converged)
             Current function value: 2.08...e-11
             Iterations: 120
             Function evaluations: 121
             Gradient evaluations: 121
    """
    message, value = result.message, result.fun
    if np.ndim(value):
        ends = Counter(Status(int(status)) for status in result.status)
        message = "\n".join(f"{count} of {len(value)} runs: {end.message}" for end, count in ends.items())
        value = np.min(value)
    lines = {
        "Current function value": f"{value:.6g}",
        "Iterations": np.max(result.nit),
        "Function evaluations": np.sum(result.nfev),
        "Gradient evaluations": np.sum(result.njev),
    }
    return "\n".join([message, *(f"         {name}: {figure}" for name, figure in lines.items())])
