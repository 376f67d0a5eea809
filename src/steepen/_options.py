"""SciPy's `options` as arguments of `minimize`: the one place that knows SciPy's names."""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import numpy as np

from ._arguments import direction_of, step_of
from ._core.result import Result, Status
from ._oracle.finite_differences import Differences
from ._tools.check import floats, meant, number, whole
from ._tools.workers import Map, mapping_of
from .budget import Budget

LIMITS = {"maxiter": "iters", "maxfun": "evals", "maxfev": "evals", "maxgrad": "grads"}
OTHERS = ("eps", "finite_diff_rel_step", "workers", "gradient", "maxcor", "maxls", "return_all", "disp")

CALL = ("fun", "x0", "args", "method", "options")
ARGUMENTS = (*CALL, "jac", "hess", "hessp", "bounds", "callback")
"""What SciPy takes as arguments and not as options; so do we."""


@contextmanager
def understood(
    options: Any, call: Callable[..., Any], arguments: Mapping[str, Any], n: int
) -> Iterator[dict[str, Any]]:
    """Yield the keywords of a call that says the same without `options`.

    What is also given as an argument is refused; but the option `gtol` wins over `tol`, as in SciPy. Worker
    processes live as long as the context.
    """
    parameters = inspect.signature(call).parameters
    left = _checked(options, set(parameters) - set(ARGUMENTS))
    explicit = {
        name: arguments[name]
        for name, parameter in parameters.items()
        if name not in CALL and arguments[name] is not parameter.default
    }
    left.pop("disp", None)
    if "workers" in left and "workers" in explicit:
        raise ValueError("options: 'workers' is given twice, by another name or as an argument")
    with mapping_of(left.pop("workers", None)) as workers:
        found = _budget(left, n) | _gradient(left, explicit.pop("jac", None), workers)
        if "maxls" in left:
            rule = step_of(None, direction_of(arguments["method"], None, None, None, None))
            whole("maxls", left["maxls"], 1)
            found["step"] = replace(cast(Any, rule), trials=left.pop("maxls"))
        if "maxcor" in left:
            found["memory"] = left.pop("maxcor")
        if left.pop("return_all", False):
            found["trace"] = "x"
        if left.get("gtol") is not None:
            for given in (left, explicit):
                given.pop("tol", None)
        for one, other in ((left, found), (left, explicit), (found, explicit)):
            for name in sorted(set(one) & set(other)):
                raise ValueError(f"options: {name!r} is given twice, by another name or as an argument")
        yield explicit | found | left


def _checked(options: Any, ours: set[str]) -> dict[str, Any]:
    if not isinstance(options, Mapping):
        raise TypeError(f"options: expected a dict such as {{'maxiter': 100}}, got {options!r}")
    given = dict(cast("Mapping[str, Any]", options))
    known = sorted(ours.union(LIMITS, OTHERS))
    for name in given:
        if name not in known:
            raise TypeError(f"options: steepen has no {name!r}; {meant(name, known)}")
    return given


def _budget(options: dict[str, Any], n: int) -> dict[str, Any]:
    """Read the limits. None is SciPy's default: 200 n iterations, any number of evaluations."""
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


def _gradient(options: dict[str, Any], jac: Any, workers: Map | None) -> dict[str, Any]:
    """Read what is said of the gradient."""
    name = options.pop("gradient", None)
    if name is not None and jac is not None and jac is not False:
        raise ValueError("gradient: give either jac or the option gradient, not both")
    given = ((option, options.pop(option, None)) for option in ("eps", "finite_diff_rel_step"))
    eps, relative = (
        None if steps is None else floats(option, steps, "a number, or one for each variable")
        for option, steps in given
    )
    if eps is not None and relative is not None:
        raise ValueError("eps: give either eps or finite_diff_rel_step, not both")
    return {"jac": Differences(jac if name is None else name, eps, relative, workers)}


def summary(result: Result) -> str:
    """Return what `disp=True` prints, in SciPy's form.

    Examples
    --------
    >>> import steepen as st
    >>> print(summary(st.minimize(st.functions["booth"], [0.0, 0.0], method="gd", step=0.05)))
    The gradient norm is within gtol.
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
