"""`minimize`, for users, sweeps, integrations: reads the arguments, runs a driver, prints only for `disp`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

from numpy.typing import ArrayLike

from .._tools.check import one_of
from .._tools.workers import mapping_of
from ..arrays import Array
from ..methods import Method
from ..objective import Objective
from ..result import Result
from ..scale import result_in_x, scaled
from .arguments import objective_of, settings_of, start_point, tuple_of
from .keywords import Keywords, complete, run_settings, spelled_out
from .scipy_options import understood
from .solve import solve


@spelled_out(Keywords)
def minimize(
    fun: Callable[..., Any], x0: ArrayLike | Array, args: Any = (), method: str | Method | None = "cgd-auto",
    **keywords: Unpack[Keywords],
) -> Result:  # fmt: skip
    """Minimise a function from a start point, or from many at once.

    Parameters
    ----------
    fun : callable
        f(x, *args). It may be an object with `grad` (and `hvp`, `hess`), like `steepen.functions`.
    x0 : array
        A start point (n,), or a batch (B, n) of independent runs; f must then be vectorised over leading
        axes or, under autodiff, be written for one point. Torch and JAX arrays stay torch and JAX arrays,
        and float32 stays float32, except that NumPy's becomes float64 where differences of f need its digits.
    args : tuple
        Extra arguments passed to fun, jac, hvp and hess.
    method : str or Method
        "cgd-auto", "gd", "newton", "bfgs", "dfp", "cgd", "cgd-fd", "cgd-bfgs", "cgd-dfp", or an object such
        as `CGD(...)`. None is the default, as SciPy's is.
    jac : callable, True, "2-point", "3-point", "cs", "jax" or "torch", optional
        The gradient; True if fun returns (f, g). By default `fun.grad` if there is one, autodiff for
        torch and JAX arrays, else "2-point".
    bounds : sequence of (low, high), or scipy.optimize.Bounds, optional
        Limits on the variables, None for no limit. x0 and every step are projected onto the box, and
        ‖∇f‖ is then that of the projected gradient P(x − ∇f) − x, as L-BFGS-B's is.
    hvp, hessp : callable, optional
        H·v as hvp(x, v, *args); the two names are synonyms.
    hess : callable, optional
        The Hessian: an array, or in a single run a sparse matrix or a LinearOperator. Without hess and hvp,
        H·v comes from autodiff or a difference of gradients; `Result.hvp_source` says which.
    step : number, schedule, callable of k, one value per row, or Step, optional
        α; by default `steps.Armijo()`.
    lam : number, schedule, callable of k, or one value per row, optional
        λ of the CGD methods; by default `schedules.Auto()`.
    penalty : Penalty, optional
        h of the CGD methods; by default the squared L2 norm.
    r : number or one value per row, optional
        CGD-FD evaluates a second gradient at x + r·∇f; by default at a distance of √ε relative to x.
    b : int, optional
        A CGD method switches to steepest descent after iteration b; by default CGD-FD after a quarter of the
        budget, the others never.
    guard : bool, optional
        Whether −∇f replaces a direction of a CGD method that does not descend f; by default it does.
    memory : int, optional
        Maximum number of pairs that cgd-auto stores: by default 200, fewer from n = 76 on, 25 from n = 600
        on, and up to n = 1000 as many as n + 8 while one quadratic explains them.
    switch : Switch, optional
        When to turn the penalty off, in place of the method's default.
    budget : Budget, optional
        Hard limits; by default max(1000, 200 n) iterations.
    tol, gtol : float, optional
        Converged when ‖∇f‖ ≤ gtol; `tol` is a synonym. By default 1e-5 (1e-3 in float32).
    ftol, xtol : float
        If positive, also stop when a step lowers f by no more than ftol·max(|f|, 1), or moves x by no more
        than xtol·max(‖x‖, 1).
    gtol_rel : float
        If positive, also converged when ‖∇f‖ ≤ gtol_rel times the largest ‖∇f‖ of the run so far.
    x_scale : array or "auto", optional
        Typical magnitudes of the variables, a number or one per variable: the run uses z = x/x_scale, and
        gtol, λ, α, r and `trace.gnorm` refer to z. "auto" uses the width of the box, else |x0| (the largest
        of a batch), else 1. Scales are rounded to powers of two, so that no precision is lost.
    callback : callable, optional
        Called with a State after every step; returning True, or raising StopIteration, ends the run (in a
        batch, an array of bools ends the rows where it is True).
    trace : bool, "x", or int
        Record the trace ("x": with the iterates). `engine="jax"` records none by default, and with an int K
        the last K iterates of every run.
    checkpoint : path, optional
        Save the run to this file, and resume from it if it exists. Settings and start must be the same;
        whether fun is the same function is not checked.
    log : path or callable, optional
        Append every evaluation to this file as a line of JSON (x, f, g, row, seconds), or call this with it
        as a dict. A run that finds lines in the file takes from them what it would evaluate again.
    check_gradient : bool
        First compare the gradient at x0 with differences of f, and raise if they disagree.
    workers : int, executor or map-like callable, optional
        Evaluate the points of a finite-difference gradient in this many processes (−1: one per core), or on
        an executor: of `concurrent.futures`, loky's, Dask's `client.get_executor()`, `MPIPoolExecutor()`. Of
        a batch, all points that are asked for are evaluated in this way, and fun, jac, hvp and hess are then
        for one point. If a worker dies, the run ends with the status WORKERS. Where processes cannot be
        forked, or other threads are running, fun must be defined at the top level of a module.
    speculate : int
        While workers evaluate f at a trial point, they evaluate so many values of the difference there, too:
        the number of workers less one keeps all of them busy. Values made for nothing are in `nfev` and the
        budget, and `nfev_unused` says how many they were. Intervals that are adapted to f are then rounded
        to powers of two, with and without workers.
    rows : array or tuple of arrays, optional
        Data of the rows of a batch, such as the measurements that each row fits: arrays whose first axis is
        that of x0. fun, jac, hvp and hess are given those of the rows that they are asked about, after args;
        with `engine="jax"` fun is for one point, and given those of its row.
    options : dict, optional
        Settings by SciPy's names, or any keyword above: see `steepen.integrations.scipy.Method`.

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
    given, x, method = complete(keywords), start_point(x0), "cgd-auto" if method is None else method
    options = given["options"]
    if options is not None:
        given = understood(options, method, given, int(x.shape[-1]))
    if one_of("engine", given["engine"], ("eager", "jax")) == "jax":
        from ..jax._engine import compiled  # here, so that `import steepen` stays light

        objective = scaled(Objective(fun, x, tuple_of(args), given["bounds"]), given["x_scale"])
        result = result_in_x(compiled(objective, method, given), objective.scale)
    else:
        with mapping_of(given["workers"]) as workers:
            objective = scaled(objective_of(fun, x, args, given, workers), given["x_scale"])
            settings = settings_of(tuple(x.shape), objective.x.dtype, method, **run_settings(given))
            result = solve(
                objective, settings, trace=given["trace"], callback=given["callback"],
                checkpoint=given["checkpoint"], check_gradient=given["check_gradient"], log=given["log"],
            )  # fmt: skip
    if options is not None and options.get("disp"):
        print(result)  # noqa: T201  since it was asked for
    return result
