"""The door for SciPy: every method as `scipy.optimize.minimize(..., method=steepen.scipy.cgd_fd)`.

Examples
--------
>>> import scipy.optimize, steepen.scipy
>>> f = steepen.functions["booth"]
>>> res = scipy.optimize.minimize(
...     f, [0.0, 0.0], jac=f.grad, method=steepen.scipy.cgd_fd, options={"lam": 0.1, "step": 0.01}
... )
>>> res.success
True
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult  # pyright: ignore[reportUnknownVariableType]

from ._budget import Budget
from ._loop import State
from ._minimize import minimize
from ._result import Result

__all__ = ["bfgs", "cgd", "cgd_bfgs", "cgd_dfp", "cgd_fd", "dfp", "gd", "newton"]

_LIMITS = {"maxiter": "iters", "maxfun": "evals", "maxfev": "evals", "maxgrad": "grads"}


class Method:
    """A steepen method in the form that SciPy calls.

    The options are `maxiter`, `maxfun` (or `maxfev`) and `maxgrad`, which are hard limits, and all keywords
    of `steepen.minimize`. The result is an OptimizeResult with steepen's `trace`, `nhvp` and `best` added.

    Examples
    --------
    >>> import scipy.optimize, steepen.scipy
    >>> rosen, slope = scipy.optimize.rosen, scipy.optimize.rosen_der
    >>> scipy.optimize.minimize(rosen, [-1.2, 1.0], jac=slope, method=steepen.scipy.bfgs).success
    True
    """

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"<steepen method {self.name!r} for scipy.optimize.minimize>"

    def __call__(
        self,
        fun: Callable[..., Any],
        x0: Any,
        args: tuple[Any, ...] = (),
        *,
        bounds: Any = None,
        constraints: Any = (),
        callback: Callable[..., Any] | None = None,
        disp: bool = False,
        **options: Any,
    ) -> Any:
        """Minimise, as SciPy asks for it."""
        if bounds is not None:
            raise ValueError(f"bounds: method {self.name!r} does not take bounds")
        if constraints:
            raise ValueError(f"constraints: method {self.name!r} does not take constraints")
        if np.ndim(x0) != 1:
            raise ValueError("x0: SciPy's door takes one start point; for a batch call steepen.minimize")
        limits = {name: options.pop(option) for option, name in _LIMITS.items() if option in options}
        if limits:
            if options.get("budget") is not None:
                raise ValueError("budget: give either budget or SciPy's limits, not both")
            options["budget"] = Budget(**limits)
        result = minimize(
            fun, x0, args, self.name, callback=callback and _as_scipy_calls(callback),
            progress=disp, **options,
        )  # fmt: skip
        return as_optimize_result(result)


def as_optimize_result(result: Result) -> Any:
    """Turn a Result into SciPy's OptimizeResult.

    Examples
    --------
    >>> import steepen as st
    >>> as_optimize_result(st.minimize(st.functions["booth"], [0.0, 0.0])).status
    0
    """
    return OptimizeResult(vars(result) | {"status": int(result.status)})


def _as_scipy_calls(callback: Callable[..., Any]) -> Callable[[State], Any]:
    """Call as SciPy does: with `intermediate_result` where the callback has that parameter, else with x."""
    parameters = set(inspect.signature(callback).parameters)
    if parameters == {"intermediate_result"}:
        return lambda state: callback(intermediate_result=OptimizeResult(x=state.x, fun=state.fun))
    return lambda state: callback(state.x)


gd = Method("gd")
newton = Method("newton")
bfgs = Method("bfgs")
dfp = Method("dfp")
cgd = Method("cgd")
cgd_fd = Method("cgd-fd")
cgd_bfgs = Method("cgd-bfgs")
cgd_dfp = Method("cgd-dfp")
