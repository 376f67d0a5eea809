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

import difflib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult  # pyright: ignore[reportUnknownVariableType]

from ._budget import Budget
from ._carry import State
from ._minimize import minimize
from ._result import Result

__all__ = ["bfgs", "cgd", "cgd_auto", "cgd_bfgs", "cgd_dfp", "cgd_fd", "dfp", "gd", "newton"]

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
        if constraints:
            raise ValueError(f"constraints: method {self.name!r} does not take constraints")
        if np.ndim(x0) != 1:
            raise ValueError("x0: SciPy's door takes one start point; for a batch call steepen.minimize")
        if "maxcor" in options:  # L-BFGS-B's word for it
            options["memory"] = options.pop("maxcor")
        _check_options(self.name, options)
        limits = {name: options.pop(option) for option, name in _LIMITS.items() if option in options}
        if limits:
            if options.get("budget") is not None:
                raise ValueError("budget: give either budget or SciPy's limits, not both")
            options["budget"] = Budget(**limits)
        result = minimize(
            fun, x0, args, self.name, bounds=bounds, callback=callback and _as_scipy_calls(callback),
            progress=disp, **options,
        )  # fmt: skip
        return as_optimize_result(result)


def _check_options(method: str, options: dict[str, Any]) -> None:
    known = set(inspect.signature(minimize).parameters) | set(_LIMITS)
    for name in set(options) - known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(known))}"
        raise TypeError(f"options: method {method!r} has no {name!r}; {hint}")
    hess = options.get("hess")
    if isinstance(hess, str):  # SciPy's names for differences: H·v then comes from the gradient
        options["hess"] = None
    elif hess is not None and not callable(hess):
        raise TypeError(f"hess: expected a callable or the name of a difference, got {hess!r}")


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
        called: Callable[[State], Any] = lambda state: callback(  # noqa: E731
            intermediate_result=OptimizeResult(x=state.x, fun=state.fun)
        )
    else:
        called = lambda state: callback(state.x)  # noqa: E731
    return lambda state: called(state) and None  # only StopIteration ends a run, as in SciPy


gd = Method("gd")
newton = Method("newton")
bfgs = Method("bfgs")
dfp = Method("dfp")
cgd = Method("cgd")
cgd_fd = Method("cgd-fd")
cgd_bfgs = Method("cgd-bfgs")
cgd_dfp = Method("cgd-dfp")
cgd_auto = Method("cgd-auto")
