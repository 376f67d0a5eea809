"""For SciPy to call: `scipy.optimize.minimize(…, method=steepen.integrations.scipy.cgd_fd)`; stateless."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import HessianUpdateStrategy, OptimizeResult  # pyright: ignore

from .._call.minimize import minimize
from ..drivers.watch import State
from ..objective import SCHEMES
from ..result import Result

__all__ = ["Method", "bfgs", "cgd", "cgd_auto", "cgd_bfgs", "cgd_dfp", "cgd_fd", "dfp", "gd", "newton"]


class _Custom(str):
    """A name to look up; lmfit, which compares its beginning, would run Nelder-Mead."""

    def startswith(self, *_: object) -> bool:
        raise TypeError("method: expected a name, got a steepen method; pass it to Minimizer.scalar_minimize")


class Method:
    """A steepen method as a callable for `scipy.optimize.minimize`.

    The result is an OptimizeResult with steepen's `trace`, `nhvp` and `best` added. A callback stops the run
    by raising StopIteration or returning True; other return values are ignored.

    **SciPy does not pass a string `jac` on to custom methods**: `jac="3-point"`, `"cs"` or `"jax"` arrives as
    None, which means "2-point". Set it in the options instead: `options={"gradient": "3-point"}`.

    The options are all keywords of `steepen.minimize`, and SciPy's names with SciPy's meaning: `maxiter`,
    `maxfun` or `maxfev`, and `maxgrad` are hard limits (`None` is SciPy's default, 200 n iterations and any
    number of evaluations; `inf` is no limit; without any, steepen's own, max(1000, 200 n) iterations). `gtol`
    overrides `tol`. `gradient` is "2-point", "3-point", "cs", "jax" or "torch", in place of jac; `eps` and
    `finite_diff_rel_step` are the absolute and relative steps of a finite-difference gradient, one or one per
    variable, and `workers` evaluates it (a map-like callable, or a number of processes; all evaluations are
    counted, even if one of them raises). `maxcor` is the number of pairs that cgd-auto keeps, `maxls` that of
    line search trials; `return_all` puts the iterates in `allvecs`, and `disp` prints a summary at the end.

    Examples
    --------
    >>> import scipy.optimize, steepen.integrations.scipy
    >>> f, cgd_fd = steepen.functions["booth"], steepen.integrations.scipy.cgd_fd
    >>> options = {"lam": 0.1, "step": 0.01}
    >>> scipy.optimize.minimize(f, [0.0, 0.0], jac=f.grad, method=cgd_fd, options=options).success
    True
    """

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"<steepen method {self.name!r} for scipy.optimize.minimize>"

    def lower(self) -> str:
        """Return SciPy's name for custom methods, which `scipy.optimize.shgo` needs."""
        return _Custom("_custom")

    def __call__(
        self, fun: Callable[..., Any], x0: Any, args: tuple[Any, ...] = (), *, jac: Any = None,
        hess: Any = None, hessp: Any = None, bounds: Any = None, constraints: Any = (),
        callback: Callable[..., Any] | None = None, **options: Any,
    ) -> Any:  # fmt: skip
        """Minimise, with the arguments that SciPy passes."""
        if constraints:
            raise ValueError(f"constraints: method {self.name!r} does not take constraints")
        if np.ndim(x0) != 1:
            raise ValueError(
                "x0: scipy.optimize.minimize takes one start point; for a batch call steepen.minimize"
            )
        if isinstance(hess, HessianUpdateStrategy):
            raise TypeError(
                f"hess: method {self.name!r} takes no HessianUpdateStrategy, got {hess!r}; "
                "steepen.integrations.scipy.bfgs and dfp update a Hessian of their own"
            )
        if str(hess) in SCHEMES:  # SciPy's names for differences: H·v then comes from the gradient
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
    """Convert a Result to SciPy's OptimizeResult; it has `hess_inv` if the method does."""
    found = OptimizeResult({**result, "status": int(result.status)})
    if result.hess_inv is None:
        del found.hess_inv
    return found


def _as_scipy_calls(callback: Callable[..., Any]) -> Callable[[State], Any]:
    """Call as SciPy does: with `intermediate_result` where the callback has that parameter, else with x."""
    if set(inspect.signature(callback).parameters) == {"intermediate_result"}:
        return lambda state: callback(intermediate_result=OptimizeResult(x=state.x, fun=state.fun))
    return lambda state: callback(state.x)


gd, newton, bfgs, dfp = Method("gd"), Method("newton"), Method("bfgs"), Method("dfp")
cgd, cgd_fd, cgd_bfgs, cgd_dfp = Method("cgd"), Method("cgd-fd"), Method("cgd-bfgs"), Method("cgd-dfp")
cgd_auto = Method("cgd-auto")
