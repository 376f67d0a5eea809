"""Keywords of `minimize`, sweeps and the JAX driver: types, defaults, hints for unknown ones; no effects."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, SupportsFloat, TypedDict, TypeVar, cast

from numpy.typing import ArrayLike

from .._tools.check import meant
from .._tools.workers import Map
from ..budget import Budget
from ..drivers.watch import State
from ..penalties import Penalty
from ..schedules import ScheduleLike
from ..steps import Step
from ..switches import Switch

if TYPE_CHECKING:
    from concurrent.futures import Executor

P = ParamSpec("P")
T = TypeVar("T")


class MethodSettings(TypedDict, total=False):
    """The parameters of a method; see `steepen.minimize` for their meaning."""

    step: ScheduleLike | Step | None
    lam: ScheduleLike | None
    r: ArrayLike | None
    b: int | None
    penalty: Penalty | None
    guard: bool | None
    memory: int | None
    switch: Switch | None


class Stopping(TypedDict, total=False):
    """The stopping criteria; the tolerances of a compiled run may be traced values."""

    budget: Budget | None
    tol: SupportsFloat | None
    gtol: SupportsFloat | None
    ftol: SupportsFloat
    xtol: SupportsFloat
    gtol_rel: SupportsFloat


class RunSettings(MethodSettings, Stopping, total=False):
    """The settings of a run."""


class Shared(Stopping, total=False):
    """The settings shared by all runs of a sweep."""

    jac: Callable[..., Any] | bool | str | None
    bounds: Any
    hvp: Callable[..., Any] | None
    hessp: Callable[..., Any] | None
    hess: Callable[..., Any] | None
    x_scale: ArrayLike | Literal["auto"] | None
    engine: Literal["eager", "jax"]


class Keywords(RunSettings, Shared, total=False):
    """The keywords of `steepen.minimize`."""

    callback: Callable[[State], object] | None
    trace: bool | int | Literal["x"]
    checkpoint: str | os.PathLike[str] | None
    log: str | os.PathLike[str] | Callable[[dict[str, Any]], object] | None
    check_gradient: bool
    workers: int | Executor | Map | None
    speculate: int
    rows: Any
    options: Mapping[str, Any] | None


DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(Keywords.__annotations__),
    "ftol": 0.0, "xtol": 0.0, "gtol_rel": 0.0, "trace": True, "check_gradient": False,
    "speculate": 0, "engine": "eager",
}  # fmt: skip

LIMITS = {"maxiter": "iters", "maxfun": "evals", "maxfev": "evals", "maxgrad": "grads"}
"""SciPy's names for the limits of a Budget."""

_STEP, _LAM = "use step=, the step size α", "use lam=, the coefficient λ"
_ITERS = "use budget=Budget(iters=...), or Budget(grads=...) to count gradients, as Algorithm 2 does"
_JAC, _HESS = "use jac=", "use hess= for the Hessian, or hvp= for its product with a vector"

INSTEAD = {
    "constraints": "steepen supports bounds only; use scipy.optimize.minimize with method='SLSQP'",
    "disp": "use options={'disp': True}",
    **{name: f"use budget=Budget({ours}=...), or options={{{name!r}: ...}}" for name, ours in LIMITS.items()},
    **dict.fromkeys(("alpha", "α", "lr", "learning_rate", "step_size", "stepsize"), _STEP),
    **dict.fromkeys(("lambda_", "lambd", "lmbda", "lamb", "lamda", "λ"), _LAM),
    **dict.fromkeys(("T", "max_iter", "max_iters", "n_iter", "iters", "steps", "epochs"), _ITERS),
    **dict.fromkeys(("grad", "gradient", "fprime"), _JAC),
    **dict.fromkeys(("hessian", "H"), _HESS),
    "nu": "ν = 2λ/r follows from lam= and r=",
    "ν": "ν = 2λ/r follows from lam= and r=",
    "epsilon": "ε of the constraint h(∇f) ≤ ε drops out of the paper's method, and λ stands for it; use lam=",
    "L": "use lam=steepen.L(a, b), the schedule that rises from a to b",
    "h": "use penalty=, for example steepen.penalties.L2()",
    "use_cgd": "use b= or switch=, for example steepen.switches.After(10)",
}
"""What to use in place of a keyword of SciPy, of the paper, or of other libraries."""


def spelled_out(keywords: type) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Make `help` and notebooks list these keywords of a call individually, with their defaults."""

    def shown(call: Callable[P, T]) -> Callable[P, T]:
        signature, kind = inspect.signature(call), inspect.Parameter.KEYWORD_ONLY
        *known, _ = signature.parameters.values()  # the last is **keywords
        listed = [
            inspect.Parameter(name, kind, default=DEFAULTS.get(name), annotation=given.__forward_arg__)
            for name, given in keywords.__annotations__.items()
        ]
        cast(Any, call).__signature__ = signature.replace(parameters=[*known, *listed])
        return call

    return shown


def complete(given: Mapping[str, Any], keywords: type = Keywords, call: str = "minimize") -> dict[str, Any]:
    """Return all keywords of a call, with defaults; for an unknown one, raise and say what to use instead."""
    known = keywords.__annotations__
    for name in given:
        if name not in known:
            unknown = f"not an argument of {call}; {meant(name, ['method', *known])}"
            raise TypeError(f"{name}: {INSTEAD.get(name, unknown)}")
    return _defaults(keywords) | dict(given)


@cache
def _defaults(keywords: type) -> dict[str, Any]:
    """Return the defaults of these keywords; None where there is none."""
    return {name: DEFAULTS.get(name) for name in keywords.__annotations__}


def run_settings(given: Mapping[str, Any]) -> RunSettings:
    """Return those keywords that are settings of the run."""
    return cast(RunSettings, {name: given[name] for name in RunSettings.__annotations__})
