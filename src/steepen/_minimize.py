"""`minimize`: the arguments are checked, the parts are put together, the loop runs."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from ._arrays import Array, Kit, Many, is_numpy, kit_for, namespace
from ._budget import Budget
from ._check import number
from ._checkpoint import Checkpoint
from ._gradient_check import check_gradient as run_gradient_check
from ._loop import Ended, Loop, State, Tolerances
from ._oracle import AUTODIFF, DIFFERENCES, Oracle
from ._progress import progress_bar
from ._recorder import BatchRecorder, Recorder
from ._result import Best, Result, Status
from .directions import BFGS, CGD, DFP, GD, Direction, Newton
from .penalties import Penalty
from .schedules import Schedule, ScheduleLike
from .steps import Armijo, Fixed, Step
from .switches import After, FirstGuard, Switch

METHODS: dict[str, Direction] = {
    "gd": GD(),
    "newton": Newton(),
    "bfgs": BFGS(),
    "dfp": DFP(),
    "cgd": CGD(),
    "cgd-fd": CGD(curvature="difference"),
    "cgd-bfgs": CGD(curvature="bfgs"),
    "cgd-dfp": CGD(curvature="dfp"),
}
"""The methods by name."""


def minimize(
    fun: Callable[..., Any],
    x0: ArrayLike | Array,
    args: Any = (),
    method: str | Direction = "bfgs",
    *,
    jac: Callable[..., Any] | bool | str | None = None,
    hvp: Callable[..., Any] | None = None,
    hessp: Callable[..., Any] | None = None,
    hess: Callable[..., Any] | None = None,
    step: ScheduleLike | Step | None = None,
    lam: ScheduleLike | None = None,
    penalty: Penalty | None = None,
    r: ArrayLike | None = None,
    b: int | None = None,
    switch: Switch | None = None,
    budget: Budget | None = None,
    tol: float | None = None,
    gtol: float | None = None,
    ftol: float = 0.0,
    xtol: float = 0.0,
    callback: Callable[[State], object] | None = None,
    progress: bool = False,
    trace: bool | Literal["x"] = True,
    checkpoint: str | os.PathLike[str] | None = None,
    check_gradient: bool = False,
) -> Result:
    """Minimise a function from a start point, or from many at once.

    Parameters
    ----------
    fun : callable
        f(x, *args). It may be an object with `grad` (and `hvp`, `hess`), as `steepen.functions` are.
    x0 : array
        A start point (n,), or a batch (B, n) of independent runs; f must then be vectorised over leading
        axes. Float32 stays float32; torch and JAX arrays stay what they are.
    args : tuple
        Further arguments of fun, jac, hvp and hess.
    method : str or Direction
        "gd", "newton", "bfgs", "dfp", "cgd", "cgd-fd", "cgd-bfgs", "cgd-dfp", or an object such as
        `CGD(...)`.
    jac : callable, True, "2-point", "3-point", "cs", "jax" or "torch", optional
        The gradient; True if fun returns (f, g). By default `fun.grad` if there is one, autodiff for
        torch and JAX arrays, else "2-point".
    hvp, hessp : callable, optional
        H·v as hvp(x, v, *args); two names for the same thing.
    hess : callable, optional
        The Hessian. Where neither is given, H·v comes from autodiff, or from the complex step of the
        gradient, or from a gradient difference; `Result.hvp_source` says which.
    step : number, schedule, callable of k, one value a row, or Step, optional
        α; by default `steps.Armijo()`.
    lam : number, schedule, callable of k, or one value a row, optional
        λ of the CGD methods; by default `schedules.Auto()`.
    penalty : Penalty, optional
        h of the CGD methods; by default the squared L2 norm.
    r : number or one value a row, optional
        The probe of CGD-FD is at x + r·∇f; by default of length √ε relative to x.
    b : int, optional
        CGD-FD switches to steepest descent after iteration b; by default a quarter of the budget.
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
    callback : callable, optional
        Called with a State after every step; True, or StopIteration, ends the run.
    progress : bool
        Show a progress bar, if standard error is a terminal.
    trace : bool or "x"
        Keep the trace (with the iterates: "x").
    checkpoint : path, optional
        Save the run there, and go on from there if the file exists.
    check_gradient : bool
        First compare the gradient at x0 with differences of f, and raise if they disagree.

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
    given = cast("tuple[Any, ...]", args if isinstance(args, tuple) else (args,))  # as SciPy does
    x = _start_point(x0)
    kit = kit_for(x)
    x = kit.own(x)
    budget = _budget(budget, x)
    total = budget.total
    direction = _direction(method, lam, penalty, r).prepare(total, kit.size)
    rule = _step(step, direction).prepare(total, kit.size)
    ending = _switch(direction, switch, b, total)
    _check_lengths(direction, rule, ending, total)
    tolerances = _tolerances(x, tol, gtol, ftol, xtol)
    if not (isinstance(trace, bool) or (isinstance(trace, str) and trace == "x")):
        raise ValueError(f'trace: expected True, False or "x", got {trace!r}')
    if callback is not None and not callable(callback):
        raise TypeError(f"callback: expected a callable, got {callback!r}")
    oracle = _oracle(fun, x, kit, jac, hvp, hessp, hess, given)
    recorder = None
    if trace:
        recorder = (Recorder if kit.size is None else BatchRecorder)(x, kit, trace == "x")
    saver = None
    if checkpoint is not None:
        settings = {"x0": x if is_numpy(x) else kit.host(x), "method": direction, "step": rule}
        saver = Checkpoint(checkpoint, settings | {"switch": ending, "trace": trace})
    with progress_bar(progress, budget) as show:
        watchers = [w for w in (saver and saver.watch, show) if w is not None]
        loop = Loop(
            oracle, kit, direction, rule, ending, budget, tolerances, recorder, callback,
            _each(watchers), x,
        )  # fmt: skip
        resumed = saver is not None and saver.resume(loop)
        if check_gradient and not resumed:
            run_gradient_check(oracle, x, kit, budget)
        try:
            loop.run()
        except Exception as error:
            with suppress(OSError):  # the user's error is the one to see
                _save(saver, loop)
            _attach(error, _result(loop))
            raise
        _save(saver, loop)
    return _result(loop)


def _save(saver: Checkpoint | None, loop: Loop) -> None:
    try:
        if saver is not None:
            saver.write()
    except OSError as error:
        _attach(error, _result(loop))
        raise


def _attach(error: Exception, partial: Result) -> None:
    try:
        error.partial_result = partial  # pyright: ignore[reportAttributeAccessIssue]
    except (AttributeError, TypeError):  # some exceptions take no attributes
        error.add_note("steepen: this exception takes no attributes, so the run up to here is lost")
    else:
        error.add_note("steepen: the run up to here is in the attribute `partial_result`")


def _each(watchers: list[Callable[[Loop], object]]) -> Callable[[Loop], object] | None:
    if len(watchers) < 2:
        return watchers[0] if watchers else None
    return lambda loop: [watch(loop) for watch in watchers]


def _start_point(x0: Any) -> Array:
    if not (_is_tensor(x0) or (hasattr(x0, "__array_namespace__") and x0.ndim)):
        try:
            x0 = np.asarray(x0)
        except ValueError as error:
            raise ValueError(f"x0: expected an array of numbers, got {x0!r}") from error
    if is_numpy(x0) and x0.ndim == 0:
        x0 = x0[None]
    if "int" in str(x0.dtype):
        x0 = x0 / 1
    if str(x0.dtype).removeprefix("torch.") not in ("float32", "float64"):
        raise TypeError(f"x0: expected float32 or float64 numbers, got dtype {x0.dtype}")
    if x0.ndim not in (1, 2) or 0 in x0.shape:
        raise ValueError(f"x0: expected shape (n,) or (B, n), neither empty; got {tuple(x0.shape)}")
    if not bool(namespace(x0).all(namespace(x0).isfinite(x0))):
        raise ValueError(f"x0: expected finite numbers, got {x0!r}")
    return x0


def _is_tensor(x0: Any) -> bool:
    return type(x0).__module__.partition(".")[0] == "torch"


def _budget(budget: Budget | None, x: Array) -> Budget:
    if budget is None:
        return Budget(iters=max(1000, 200 * int(x.shape[-1])))
    if not isinstance(budget, Budget):
        raise TypeError(f"budget: expected a Budget such as Budget(grads=40), got {budget!r}")
    return budget


def _direction(
    method: str | Direction, lam: ScheduleLike | None, penalty: Penalty | None, r: ArrayLike | None
) -> Direction:
    given = {"lam": lam, "penalty": penalty, "r": r}
    given = {name: value for name, value in given.items() if value is not None}
    if isinstance(method, str):
        if method not in METHODS:
            near = difflib.get_close_matches(method.lower().replace("_", "-"), METHODS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(METHODS)}"
            raise ValueError(f"method: {method!r} is not known; {hint}")
        direction = METHODS[method]
        if not given:
            return direction
        if not isinstance(direction, CGD):
            raise ValueError(f"{next(iter(given))}: method {method!r} has no penalty")
        return replace(direction, **given)
    if not isinstance(method, Direction):
        raise TypeError(f"method: expected a name or a Direction, got {method!r}")
    if given:
        raise ValueError(f"{next(iter(given))}: give it to the direction, {method!r}, itself")
    return method


def _step(step: ScheduleLike | Step | None, direction: Direction) -> Step:
    if step is None:
        return Armijo(grow=math.inf, longest=1.0) if direction.unit else Armijo()
    return step if isinstance(step, Step) else Fixed(step)


def _switch(direction: Direction, switch: Switch | None, b: int | None, total: int | None) -> Switch:
    if not direction.penalised and (b is not None or switch is not None):
        name = "b" if b is not None else "switch"
        raise ValueError(f"{name}: method {direction.name!r} has no penalty to switch off")
    if b is not None:
        if switch is not None:
            raise ValueError("b: give either b or switch, not both")
        return After(b) | FirstGuard()
    if switch is None:
        return direction.switch(total)
    if not isinstance(switch, Switch):
        raise TypeError(f"switch: expected a Switch such as switches.After(10), got {switch!r}")
    return switch


def _check_lengths(direction: Direction, step: Step, switch: Switch, total: int | None) -> None:
    """Refuse a schedule that is shorter than the run may be."""
    schedules = {"lam": getattr(direction, "lam", None), "step": getattr(step, "schedule", None)}
    for name, schedule in schedules.items():
        length = schedule.length if isinstance(schedule, Schedule) else None
        if length is None:
            continue
        needed = total
        if name == "lam":  # λ is asked for only while the penalty is on
            needed = min([n for n in (total, switch.last) if n is not None], default=None)
        if needed is None or needed > length:
            run = "a run of any length" if needed is None else f"up to {needed} iterations"
            raise ValueError(f"{name}: a schedule of {length} values is too short for {run}")


def _tolerances(x: Array, tol: float | None, gtol: float | None, ftol: float, xtol: float) -> Tolerances:
    if tol is not None and gtol is not None:
        raise ValueError("tol: give either tol or gtol, not both")
    gtol = tol if gtol is None else gtol
    if gtol is None:
        gtol = 1e-5 if "64" in str(x.dtype) else 1e-3
    for name, value in (("gtol", gtol), ("ftol", ftol), ("xtol", xtol)):
        number(name, value, "a number, 0 or more", least=0)
    return Tolerances(float(gtol), float(ftol), float(xtol))


def _oracle(
    fun: Any, x: Array, kit: Kit, jac: Any, hvp: Any, hessp: Any, hess: Any, args: tuple[Any, ...]
) -> Oracle:
    if not callable(fun):
        raise TypeError(f"fun: expected a callable, got {fun!r}")
    if hvp is not None and hessp is not None:
        raise ValueError("hessp: give either hvp or hessp, not both")
    hvp = hessp if hvp is None else hvp
    for name, value in (("hvp", hvp), ("hess", hess)):
        if value is not None and not callable(value):
            raise TypeError(f"{name}: expected a callable, got {value!r}")
    if jac is None or jac is False:
        jac = _default_gradient(fun, x)
        if callable(jac):
            hvp = getattr(fun, "hvp", None) if hvp is None and hess is None else hvp
            hess = getattr(fun, "hess", None) if hess is None else hess
    elif isinstance(jac, str):
        if jac not in (*DIFFERENCES, *AUTODIFF):
            names = ", ".join(map(repr, (*DIFFERENCES, *AUTODIFF)))
            raise ValueError(f"jac: expected a callable, True, or one of {names}; got {jac!r}")
        if jac == "cs" and not is_numpy(x):
            raise ValueError('jac: "cs" takes NumPy arrays only')
    elif jac is not True and not callable(jac):
        raise TypeError(f"jac: expected a callable, True, or a name such as '2-point'; got {jac!r}")
    return Oracle(fun, x, kit, jac=jac, hvp=hvp, hess=hess, args=args)


def _default_gradient(fun: Any, x: Array) -> Any:
    grad = getattr(fun, "grad", None)
    if callable(grad):
        return grad
    if is_numpy(x):
        return "2-point"
    return "torch" if _is_tensor(x) else "jax"


def _result(loop: Loop) -> Result:
    """Put the rows together in the order they were given."""
    for rows in loop.undone:
        if loop.recorder is not None:
            loop.recorder.blank(rows)
    kit, direction = loop.kit, loop.direction
    common: dict[str, Any] = {
        "hvp_source": direction.source(loop.oracle) or loop.step.source(loop.oracle),
        "method": direction.name,
        "seconds": loop.seconds,
    }
    if not isinstance(kit, Many):
        (end,) = loop.ended
        status = end.status
        nfev, njev, nhvp, nhev = end.counts
        best = Best(end.best_x if math.isfinite(end.best_f) else None, end.best_f, end.best_k)
        return Result(
            x=kit.copy(end.x), fun=end.f, jac=end.g, success=status.success, status=status,
            message=status.message, nit=end.nit, nfev=nfev, njev=njev, nhev=nhev, nhvp=nhvp, best=best,
            trace=loop.recorder and loop.recorder.finish(end.nit), **common,
        )  # fmt: skip

    def merged(field: Callable[[Ended], Any]) -> Any:
        return kit.merge((_rows(end), field(end)) for end in loop.ended)

    def per_row(value: Callable[[Ended], int]) -> Any:
        return merged(lambda end: np.full(len(_rows(end)), value(end)))

    nit, status = per_row(lambda end: end.nit), per_row(lambda end: end.status)
    nfev, njev, nhvp, nhev = (merged(lambda end, i=i: end.counts[i]) for i in range(4))
    dtype = kit.host(loop.carry.x).dtype
    sentences = {int(s): s.message for s in Status}
    best = Best(
        merged(lambda end: end.best_x),
        merged(lambda end: end.best_f).astype(dtype),
        merged(lambda end: np.broadcast_to(end.best_k, len(_rows(end)))),
    )
    return Result(
        x=merged(lambda end: end.x), fun=merged(lambda end: end.f).astype(dtype),
        jac=merged(lambda end: end.g), success=status < Status.MAX_ITERATIONS, status=status,
        message=[sentences[s] for s in status.tolist()], nit=nit, nfev=nfev, njev=njev, nhev=nhev,
        nhvp=nhvp, best=best, trace=loop.recorder and loop.recorder.finish(nit), **common,
    )  # fmt: skip


def _rows(end: Ended) -> Any:
    assert end.rows is not None
    return end.rows
