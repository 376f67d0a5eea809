"""`minimize`: the arguments are checked, the parts are put together, the loop runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

from numpy.typing import ArrayLike

from .._core.arrays import Array
from .._core.result import Result
from .._solver.problem import Problem
from .._solver.scale import scaled
from .._solver.solve import solve
from .._tools.check import one_of
from .._tools.workers import mapping_of
from ..directions import Direction
from .arguments import problem_of, settings_of, start_point, tuple_of
from .keywords import Keywords, complete, run_settings, spelled_out
from .scipy_options import summary, understood


@spelled_out(Keywords)
def minimize(
    fun: Callable[..., Any],
    x0: ArrayLike | Array,
    args: Any = (),
    method: str | Direction = "cgd-auto",
    **keywords: Unpack[Keywords],
) -> Result:
    """Minimise a function from a start point, or from many at once.

    Parameters
    ----------
    fun : callable
        f(x, *args). It may be an object with `grad` (and `hvp`, `hess`), as `steepen.functions` are.
    x0 : array
        A start point (n,), or a batch (B, n) of independent runs; f must then be vectorised over leading
        axes or, under autodiff, be written for one point. Float32 stays float32 (but see `jac`); torch and
        JAX arrays stay what they are.
    args : tuple
        Further arguments of fun, jac, hvp and hess.
    method : str or Direction
        "cgd-auto", "gd", "newton", "bfgs", "dfp", "cgd", "cgd-fd", "cgd-bfgs", "cgd-dfp", or an object such
        as `CGD(...)`.
    jac : callable, True, "2-point", "3-point", "cs", "jax" or "torch", optional
        The gradient; True if fun returns (f, g). By default `fun.grad` if there is one, autodiff for
        torch and JAX arrays, else "2-point". The differences of a float32 run are taken in float64 if fun
        takes such points and its values have the digits. A number will do for one variable.
    bounds : sequence of (low, high), or scipy.optimize.Bounds, optional
        Limits on the variables, None for no limit. x0 and every step are projected onto the box, and
        ‖∇f‖ is then that of the projected gradient P(x − ∇f) − x, as L-BFGS-B's is.
    hvp, hessp : callable, optional
        H·v as hvp(x, v, *args); two names for the same thing.
    hess : callable, optional
        The Hessian: an array, or in a single run a sparse matrix or a LinearOperator. Where neither it nor
        hvp is given, H·v comes from autodiff, or from the complex step of the gradient, or from a gradient
        difference; `Result.hvp_source` says which. Only the first complex step is held against a difference:
        give `hvp` if the gradient is not analytic (np.sign, np.abs).
    step : number, schedule, callable of k, one value a row, or Step, optional
        α; by default `steps.Armijo()`.
    lam : number, schedule, callable of k, or one value a row, optional
        λ of the CGD methods; by default `schedules.Auto()`. `schedules.Perturbed(lam)` takes another λ where
        an artificial stationary point would hold the run.
    penalty : Penalty, optional
        h of the CGD methods; by default the squared L2 norm.
    r : number or one value a row, optional
        The probe of CGD-FD is at x + r·∇f; by default of length √ε relative to x.
    b : int, optional
        CGD-FD switches to steepest descent after iteration b; by default a quarter of the budget.
    memory : int, optional
        The most pairs that cgd-auto keeps; by default 200, fewer from n = 76 on, and 25 from n = 600 on.
    switch : Switch, optional
        When the penalty ends, in place of the method's own rule.
    budget : Budget, optional
        Hard limits; by default max(1000, 200 n) iterations.
    tol, gtol : float, optional
        Converged when ‖∇f‖ ≤ gtol; `tol` is another name. By default 1e-5 (1e-3 in float32).
    ftol : float
        If positive, also stop when a step lowers f by no more than ftol·max(|f|, 1).
    xtol : float
        If positive, also stop when a step moves x by no more than xtol·max(‖x‖, 1).
    gtol_rel : float
        If positive, also converged when ‖∇f‖ ≤ gtol_rel times the largest ‖∇f‖ that the run has seen; the
        status is then RELATIVE.
    x_scale : array or "auto", optional
        The sizes of the variables, one or one each: the run is made in z = x/x_scale, and gtol, λ, α, r and
        `trace.gnorm` belong to z. "auto" takes the width of the box, else the size of the start (the largest
        of a batch), else 1. Sizes are rounded to powers of two, so that no digit is lost.
    callback : callable, optional
        Called with a State after every step; True, or StopIteration, ends the run (in a batch: an array of
        bools, the rows where it is True).
    progress : bool
        Show a progress bar, if standard error is a terminal.
    trace : bool, "x", or int
        Keep the trace (with the iterates: "x"). `engine="jax"` keeps none by default, and with a number K the
        last K iterates of every run.
    checkpoint : path, optional
        Save the run there, and go on from there if the file exists. Settings and start must be the same;
        whether fun is the same function is not checked.
    check_gradient : bool
        First compare the gradient at x0 with differences of f, and raise if they disagree.
    workers : int or map-like callable, optional
        Evaluate the points of a finite-difference gradient in this many processes (−1: one per core), or by
        a callable such as `ThreadPoolExecutor().map`; a given gradient needs none. Where the platform can
        fork, any function will do, in a script without a guard, too; elsewhere, or beside other threads, fun
        must be defined at the top level of a module.
    engine : {"eager", "jax"}
        "jax" makes the run, or all runs of a batch, in one compiled program, for a function that JAX can
        trace; it has no callback, progress, checkpoint, check_gradient, or limit in seconds.
        `steepen.jax.minimize` is the same inside of `jit`, `vmap` and `grad`.
    options : dict, optional
        Settings by SciPy's names: `maxiter`, `maxfun` or `maxfev`, `maxgrad`, `gtol`, `ftol`, `xtol`,
        `maxcor`, `maxls`, `eps`, `finite_diff_rel_step`, `workers`, `gradient`, `return_all`, `disp`, or any
        keyword above; `steepen.integrations.scipy.Method` says what they mean.

    Returns
    -------
    Result

    Examples
    --------
    >>> import steepen as st
    >>> f = st.functions["branin"]
    >>> res = st.minimize(f, [6.0, 14.0], method="cgd-fd", step=0.01, lam=0.07, budget=st.Budget(grads=40))
    >>> res.njev, res.status.name
    (40, 'MAX_GRADIENTS')
    """
    given, x = complete(keywords), start_point(x0)
    options = given["options"]
    if options is not None:
        given = understood(options, method, given, int(x.shape[-1]))
    if one_of("engine", given["engine"], ("eager", "jax")) == "jax":
        from ..jax._engine import compiled  # here, so that `import steepen` stays light

        problem = Problem(fun, x, tuple_of(args), given["bounds"])
        result = compiled(scaled(problem, given["x_scale"]), method, given)
    else:
        with mapping_of(given["workers"]) as workers:
            problem = scaled(problem_of(fun, x, args, given, workers), given["x_scale"])
            settings = settings_of(tuple(x.shape), x.dtype, method, **run_settings(given))
            result = solve(
                problem, settings, trace=given["trace"], callback=given["callback"],
                progress=given["progress"], checkpoint=given["checkpoint"],
                check_gradient=given["check_gradient"],
            )  # fmt: skip
    if options is not None and options.get("disp"):
        print(summary(result))  # noqa: T201  since it was asked for
    return result
