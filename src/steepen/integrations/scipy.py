"""SciPy: every method as `scipy.optimize.minimize(..., method=steepen.integrations.scipy.cgd_fd)`.

Examples
--------
>>> import scipy.optimize, steepen.integrations.scipy
>>> f = steepen.functions["booth"]
>>> options = {"lam": 0.1, "step": 0.01}
>>> res = scipy.optimize.minimize(
...     f, [0.0, 0.0], jac=f.grad, method=steepen.integrations.scipy.cgd_fd, options=options
... )
>>> res.success
True
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import HessianUpdateStrategy, OptimizeResult  # pyright: ignore

from .._call.minimize import minimize
from .._core.result import Result
from .._core.state import State

__all__ = ["Method", "bfgs", "cgd", "cgd_auto", "cgd_bfgs", "cgd_dfp", "cgd_fd", "dfp", "gd", "newton"]


class Method:
    """A steepen method in the form that SciPy calls.

    The result is an OptimizeResult with steepen's `trace`, `nhvp` and `best` added. A callback ends the run
    by StopIteration, or by returning True; anything else that it returns is ignored.

    **SciPy drops the name of a difference on its way to a method that is not its own**: `jac="3-point"`,
    `"cs"` or `"jax"` arrives as None, and would be "2-point". Name it in the options:
    `options={"gradient": "3-point"}`.

    The options are all keywords of `steepen.minimize`, and SciPy's names with SciPy's meaning:

    maxiter, maxfun or maxfev, maxgrad
        Iterations, evaluations of f, gradients; hard limits. `None` is SciPy's default: 200 n iterations, any
        number of evaluations. `inf` is no limit. Without any the limit is steepen's, max(1000, 200 n)
        iterations.
    tol, gtol, ftol, xtol
        As in `steepen.minimize`; gtol wins over tol.
    gradient
        "2-point", "3-point", "cs", "jax" or "torch", in place of jac.
    eps, finite_diff_rel_step
        The absolute or the relative steps of a difference gradient, one or one a variable.
    workers
        A map-like callable, or a number of processes, that evaluates f for a difference gradient. All of its
        evaluations are counted, also where one of them raises.
    maxcor, maxls
        The pairs that cgd-auto keeps; the trials of a line search.
    return_all
        Have the iterates in `allvecs`.
    disp
        Print a summary at the end.

    Examples
    --------
    >>> import scipy.optimize, steepen.integrations.scipy
    >>> rosen, slope = scipy.optimize.rosen, scipy.optimize.rosen_der
    >>> scipy.optimize.minimize(rosen, [-1.2, 1.0], jac=slope, method=steepen.integrations.scipy.bfgs).success
    True
    """

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"<steepen method {self.name!r} for scipy.optimize.minimize>"

    def lower(self) -> str:
        """Return SciPy's own name for a method that is not its own, for which `scipy.optimize.shgo` asks."""
        return "_custom"

    def __call__(
        self,
        fun: Callable[..., Any],
        x0: Any,
        args: tuple[Any, ...] = (),
        *,
        jac: Any = None,
        hess: Any = None,
        hessp: Any = None,
        bounds: Any = None,
        constraints: Any = (),
        callback: Callable[..., Any] | None = None,
        **options: Any,
    ) -> Any:
        """Minimise, as SciPy asks for it."""
        if constraints:
            raise ValueError(f"constraints: method {self.name!r} does not take constraints")
        if np.ndim(x0) != 1:
            raise ValueError(
                "x0: SciPy's integration takes one start point; for a batch call steepen.minimize"
            )
        if isinstance(hess, HessianUpdateStrategy):
            raise TypeError(
                f"hess: method {self.name!r} takes no HessianUpdateStrategy, got {hess!r}; "
                "steepen.integrations.scipy.bfgs and dfp update a Hessian of their own"
            )
        if isinstance(hess, str):  # SciPy's names for differences: H·v then comes from the gradient
            hess = None
        result = minimize(
            fun, x0, args, self.name, jac=jac, hess=hess, hessp=hessp, bounds=bounds,
            callback=_as_scipy_calls(callback) if callable(callback) else callback, options=options,
        )  # fmt: skip
        found = as_optimize_result(result)
        if options.get("return_all"):
            found.allvecs = list(found.trace.x)
        return found


def as_optimize_result(result: Result) -> Any:
    """Turn a Result into SciPy's OptimizeResult; `hess_inv` is there if the method has it.

    Examples
    --------
    >>> import steepen as st
    >>> as_optimize_result(st.minimize(st.functions["booth"], [0.0, 0.0])).status
    0
    """
    found = OptimizeResult({**result, "status": int(result.status)})
    if result.hess_inv is None:
        del found.hess_inv
    return found


def _as_scipy_calls(callback: Callable[..., Any]) -> Callable[[State], Any]:
    """Call as SciPy does: with `intermediate_result` where the callback has that parameter, else with x."""
    if set(inspect.signature(callback).parameters) == {"intermediate_result"}:
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
cgd_auto = Method("cgd-auto")
