"""Translate SciPy's `options` into keywords, for `minimize` alone; evaluates nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from .._tools.check import floats, meant, number, whole
from ..budget import Budget
from .arguments import method_of, step_of
from .keywords import DEFAULTS, LIMITS, complete

SYNONYMS = {"maxcor": "memory", "gradient": "jac"}
OTHERS = ("eps", "finite_diff_rel_step", "maxls", "return_all", "disp")
ARGUMENTS = ("options", "jac", "hess", "hessp", "bounds", "callback")  # as in SciPy, these are no options


def understood(options: Any, method: Any, given: Mapping[str, Any], n: int) -> dict[str, Any]:
    """Return the keywords of the call without `options`; the option `gtol` overrides `tol`, as in SciPy."""
    if not isinstance(options, Mapping):
        raise TypeError(f"options: expected a dict such as {{'maxiter': 100}}, got {options!r}")
    left = dict(cast("Mapping[str, Any]", options))
    known = sorted({*DEFAULTS, *LIMITS, *SYNONYMS, *OTHERS} - set(ARGUMENTS))
    for name in left:
        if name not in known:
            raise TypeError(f"options: unknown option {name!r}; {meant(name, known)}")
    left = {name: value for name, value in left.items() if value is not None or name in LIMITS}
    explicit: dict[str, Any] = {
        name: value for name, value in given.items() if name != "options" and value is not DEFAULTS[name]
    }
    left.pop("disp", None)
    found, intervals = _budget(left, n), _intervals(left)
    found |= {name: left.pop(option) for option, name in SYNONYMS.items() if option in left}
    if "maxls" in left:
        whole("maxls", left["maxls"], 1)
        found["step"] = replace(cast(Any, step_of(None, method_of(method))), trials=left.pop("maxls"))
    if left.pop("return_all", False):
        found["trace"] = "x"
    if "gtol" in left:
        for one in (left, explicit):
            one.pop("tol", None)
    for one, other in ((left, found), (left, explicit), (found, explicit)):
        for name in sorted(set(one) & set(other)):
            raise ValueError(f"options: {name!r} is given twice, as a synonym or as an argument")
    return complete(explicit | found | left) | intervals


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


def _intervals(options: dict[str, Any]) -> dict[str, NDArray[np.float64]]:
    """Read the intervals of finite differences."""
    given = {name: options.pop(name, None) for name in ("eps", "finite_diff_rel_step")}
    if all(steps is not None for steps in given.values()):
        raise ValueError("eps: give either eps or finite_diff_rel_step, not both")
    expected = "a number, or one per variable"
    return {name: floats(name, steps, expected) for name, steps in given.items() if steps is not None}
