"""Check arguments and build the parts of a run, for `minimize`, sweeps, the JAX driver; evaluates nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Unpack, cast

import numpy as np

from .._tools.check import number, one_of, whole
from .._tools.workers import Map
from ..arrays import Array, dtype_name, is_numpy, namespace, precision
from ..autodiff import AUTODIFF
from ..budget import Budget
from ..differences.finite_differences import DifferenceOptions
from ..methods import METHODS, Method
from ..objective import SCHEMES, Objective, Settings
from ..schedules import ScheduleLike
from ..steps import Armijo, Fixed, Step
from ..switches import After, FirstGuard, Switch
from ..tolerances import BOTTOM, Tolerances
from .keywords import RunSettings


def objective_of(fun: Any, x: Array, args: Any, given: Mapping[str, Any], workers: Map | None) -> Objective:
    """Return what is minimised; `workers` evaluates the points of a finite difference."""
    if not callable(fun):
        raise TypeError(f"fun: expected a callable, got {fun!r}")
    jac, hvp, hess = _gradient_of(fun, x, given["jac"]), given["hvp"], given["hess"]
    if hvp is not None and given["hessp"] is not None:
        raise ValueError("hessp: give either hvp or hessp, not both")
    hvp = given["hessp"] if hvp is None else hvp
    for name, value in (("hvp", hvp), ("hess", hess)):
        if value is not None and not callable(value):
            raise TypeError(f"{name}: expected a callable, got {value!r}")
    passed = "hess" if hess is not None else "hvp" if hvp is not None else ""
    if given["jac"] in (None, False) and callable(jac):  # fun's own
        hvp = _own(fun, "hvp") if hvp is None and hess is None else hvp
        hess = _own(fun, "hess") if hess is None else hess
    differences = _differences(tuple(x.shape), given)
    if workers is not None and x.ndim > 1 and jac in AUTODIFF:
        raise ValueError(
            f"workers: not supported where jac={jac!r} differentiates a batch; pass the gradient"
        )
    if jac in ("2-point", "3-point") and is_numpy(x):
        x = x.astype(np.float64, copy=False)  # differences need its digits
    bounds = given["bounds"]
    bounds = list(cast("Iterator[Any]", bounds)) if isinstance(bounds, Iterator) else bounds  # read twice
    rows = rows_of(given.get("rows"), tuple(x.shape), jac)
    ahead = _ahead(given, x.ndim, jac)
    if ahead:
        differences = replace(differences, rounded=True)
    return Objective(
        fun, x, tuple_of(args), bounds, jac, hvp, hess, differences, workers, ahead, rows, passed=passed
    )


def _ahead(given: Mapping[str, Any], ndim: int, jac: Any) -> int:
    """Return how many values of the next difference workers evaluate beside f at a trial point."""
    ahead = given.get("speculate", 0)
    whole("speculate", ahead, 0)
    if not ahead:
        return 0
    if jac not in SCHEMES:
        raise ValueError(f"speculate: expected a gradient by differences, got jac={jac!r}")
    if ndim > 1:
        raise ValueError("speculate: expected a single start; in a batch, other rows keep the workers busy")
    if given.get("checkpoint") is not None:
        raise ValueError(
            "speculate: not supported with checkpoint, which keeps what the run has asked for; "
            "a log keeps every value"
        )
    return ahead


def rows_of(rows: Any, shape: tuple[int, ...], jac: Any) -> tuple[Any, ...]:
    """Return the data of the rows, a tuple of arrays; a single one need not be in a tuple, as with args."""
    if rows is None:
        return ()
    if len(shape) == 1:
        raise ValueError(
            f"rows: expected a batch x0 of shape (B, n), since it has data of each start; got shape {shape}; "
            "pass the data of a single run as args"
        )
    if jac in AUTODIFF:
        raise ValueError(f"rows: not supported where jac={jac!r} differentiates fun; pass the gradient")
    data: list[Any] = []
    for place, given in enumerate(tuple_of(rows)):
        kept = _is_tensor(given) or hasattr(given, "__array_namespace__")
        array = given if kept else np.asarray(given)
        if tuple(array.shape[:1]) != shape[:1]:
            raise ValueError(
                f"rows: expected arrays with {shape[0]} rows, one for each start; "
                f"got shape {tuple(array.shape)} in place {place}"
            )
        data.append(array)
    return tuple(data)


def _own(fun: Any, name: str) -> Any:
    """Return a method of fun, or None: a matrix of that name is no Hessian to call."""
    method = getattr(fun, name, None)
    return method if callable(method) else None


def _gradient_of(fun: Any, x: Array, jac: Any) -> Any:
    """Return the gradient as given, or fun's own, or how to compute it."""
    library = "numpy" if is_numpy(x) else "torch" if _is_tensor(x) else "jax"
    if jac is None or jac is False:
        return _own(fun, "grad") or ("2-point" if library == "numpy" else library)
    if isinstance(jac, str):
        if jac not in (*SCHEMES, *AUTODIFF):
            names = ", ".join(map(repr, (*SCHEMES, *AUTODIFF)))
            raise ValueError(f"jac: expected a callable, True, or one of {names}; got {jac!r}")
        if (jac == "cs" and library != "numpy") or (jac in AUTODIFF and library not in ("numpy", jac)):
            raise ValueError(f"jac: {jac!r} does not support {library} arrays such as x0")
    elif jac is not True and not callable(jac):
        raise TypeError(f"jac: expected a callable, True, or a name such as '2-point'; got {jac!r}")
    return jac


def tuple_of(args: Any) -> tuple[Any, ...]:
    """Return the extra arguments as a tuple; a single one need not be a tuple, as in SciPy."""
    return cast("tuple[Any, ...]", args if isinstance(args, tuple) else (args,))


def settings_of(
    shape: tuple[int, ...], dtype: Any, method: str | Method = "cgd-auto", **given: Unpack[RunSettings]
) -> Settings:
    """Return the settings of a run whose start has this shape and dtype."""
    rows = shape[0] if len(shape) == 2 else None
    budget = whole_budget(given.get("budget"), shape[-1])
    total, b, switch = budget.total, given.get("b"), given.get("switch")
    parts = {name: given.get(name) for name in ("lam", "penalty", "r", "memory", "guard")}
    chosen = method_of(method, **parts)
    rule = step_of(given.get("step"), chosen).prepare(total, None, rows)
    ending = switch_of(chosen, switch, b, total)
    return Settings(chosen.prepare(total, None, rows), rule, ending, tolerances_of(dtype, given), budget)


def start_point(x0: Any) -> Array:
    """Return the start as a NumPy, torch or JAX array, float32 or float64, of shape (n,) or (B, n)."""
    if not (_is_tensor(x0) or (hasattr(x0, "__array_namespace__") and x0.ndim)):
        try:
            x0 = np.asarray(x0)
        except ValueError as error:
            raise ValueError(f"x0: expected an array of numbers, got {x0!r}") from error
    if is_numpy(x0):
        x0 = np.atleast_1d(x0.astype(x0.dtype.newbyteorder("="), copy=False))
    if "int" in dtype_name(x0.dtype):
        x0 = x0 / 1
    if dtype_name(x0.dtype) not in ("float32", "float64"):
        raise TypeError(f"x0: expected float32 or float64 numbers, got dtype {x0.dtype}")
    if x0.ndim not in (1, 2) or 0 in x0.shape:
        raise ValueError(f"x0: expected shape (n,) or (B, n), neither empty; got {tuple(x0.shape)}")
    if not bool(namespace(x0).isfinite(x0).all()):
        raise ValueError(f"x0: expected finite numbers, got {x0!r}")
    return x0


def _is_tensor(x0: Any) -> bool:
    return type(x0).__module__.partition(".")[0] == "torch"


def whole_budget(budget: Budget | None, n: int) -> Budget:
    """Return the budget, or the default one."""
    if budget is None:
        return Budget(iters=max(1000, 200 * n))
    if not isinstance(budget, Budget):
        raise TypeError(
            f"budget: expected a Budget such as Budget(iters=200), Budget(grads=200) or Budget(evals=200), "
            f"got {budget!r}"
        )
    return budget


_QN = "'cgd-bfgs' or 'cgd-dfp'"
_EGR = "'cgd' with guard=False, or for a network steepen.torch.EGR"
_SCIPY = "'cgd-auto', the default; for the method of that name, scipy.optimize.minimize"
_GLOBAL = "'cgd-auto' from many starts, an x0 of shape (B, n); for the method of that name, scipy.optimize"
_TRAINING = (
    "'cgd-auto', the default; to train a network, steepen.torch or steepen.optax around that optimizer"
)

OTHER_NAMES = {
    **dict.fromkeys(("cgdqn", "cgdquasinewton", "quasinewton", "algorithm3", "alg3"), _QN),
    **dict.fromkeys(("algorithm1", "alg1", "constrainedgradientdescent"), "'cgd'"),
    **dict.fromkeys(("algorithm2", "alg2", "cgdfinitedifference", "cgdfinitedifferences"), "'cgd-fd'"),
    **dict.fromkeys(("egr", "explicitgradientregularization", "explicitgradientregularisation"), _EGR),
    **dict.fromkeys(("gradientdescent", "steepestdescent", "steepest", "sgd"), "'gd'"),
    **dict.fromkeys(("sam", "asam", "gapsam"), "steepen.torch or steepen.optax, which train networks"),
    **dict.fromkeys(("lbfgs", "lbfgsb"), "'cgd-auto', the default"),
    **dict.fromkeys(
        ("cg", "conjugategradient", "newtoncg", "tnc", "slsqp", "cobyla", "cobyqa", "neldermead", "powell"),
        _SCIPY,
    ),
    **dict.fromkeys(("trustconstr", "trustncg", "trustkrylov", "trustexact", "dogleg"), _SCIPY),
    **dict.fromkeys(("basinhopping", "differentialevolution", "dualannealing", "shgo", "direct"), _GLOBAL),
    **dict.fromkeys(("adam", "adamw", "adagrad", "rmsprop", "lion", "muon"), _TRAINING),
}
"""What to write for other names of methods, in lower case, letters and digits only."""


def known_method(name: str) -> str:
    """Return the name if it is a method's; otherwise raise and say what to write."""
    if name not in METHODS and (hint := OTHER_NAMES.get("".join(filter(str.isalnum, str(name).lower())))):
        raise ValueError(f"method: {name!r} is not the name of a method; use {hint}")
    return one_of("method", name, METHODS)


def method_of(method: str | Method, **parts: Any) -> Method:
    """Return the method: by its name, with its parameters, or the given object."""
    given = {name: value for name, value in parts.items() if value is not None}
    if isinstance(method, str):
        known = METHODS[known_method(method)]
        for name in given:
            if name not in parameters_of(known):
                why = "stores no curvature pairs" if name == "memory" else "has no penalty"
                if method == "cgd-auto":
                    why = "chooses λ itself; 'cgd', 'cgd-fd', 'cgd-bfgs' and 'cgd-dfp' take a penalty"
                raise ValueError(f"{name}: method {method!r} {why}")
        return cast(Method, replace(cast(Any, known), **given)) if given else known
    if not isinstance(method, Method):
        raise TypeError(f"method: expected a name or a Method, got {method!r}")
    if given:
        raise ValueError(f"{next(iter(given))}: pass it to the constructor of the method, {method!r}")
    return method


def parameters_of(method: Method) -> set[str]:
    """Return the names of a method's parameters."""
    return {field.name for field in fields(method) if field.init} if is_dataclass(method) else set()


def step_of(step: ScheduleLike | Step | None, method: Method) -> Step:
    """Return the step: the given one, or the method's default, since methods know nothing of steps."""
    if step is None:
        grow, longest = (math.inf, 1.0) if method.unit else (2.0, math.inf)
        return Armijo(grow=grow, longest=longest, probe=method.probes, noise_tolerant=method.probes)
    return step if isinstance(step, Step) else Fixed(step)


def switch_of(method: Method, switch: Switch | None, b: int | None, total: int | None) -> Switch:
    """Return the switch: the given one, the one implied by b, or the method's default."""
    if not method.penalised and (b is not None or switch is not None):
        name = "b" if b is not None else "switch"
        raise ValueError(f"{name}: method {method.name!r} has no penalty to switch off")
    if b is not None:
        if switch is not None:
            raise ValueError("b: give either b or switch, not both")
        return After(b) | FirstGuard()
    if switch is None:
        return method.switch(total)
    if not isinstance(switch, Switch):
        raise TypeError(f"switch: expected a Switch such as switches.After(10), got {switch!r}")
    return switch


def tolerances_of(dtype: Any, given: RunSettings) -> Tolerances:
    """Return the tolerances, with the defaults for the dtype."""
    tol, gtol = given.get("tol"), given.get("gtol")
    if tol is not None and gtol is not None:
        raise ValueError("tol: give either tol or gtol, not both")
    assumed, gtol = tol is None and gtol is None, tol if gtol is None else gtol
    if gtol is None:
        gtol = 1e-5 if dtype_name(dtype) == "float64" else 1e-3
    ftol, xtol, gtol_rel = (given.get(name, 0.0) for name in ("ftol", "xtol", "gtol_rel"))
    for name, value in (("gtol", gtol), ("ftol", ftol), ("xtol", xtol), ("gtol_rel", gtol_rel)):
        number(name, value, "a number, 0 or more", least=0)
    bottom = BOTTOM * float(precision(dtype).max)
    return Tolerances(float(gtol), float(ftol), float(xtol), bottom, float(gtol_rel), assumed)


def _differences(shape: tuple[int, ...], given: Mapping[str, Any]) -> DifferenceOptions:
    """Return the options of finite differences, checked against the shape of the start."""
    eps, relative, n = given.get("eps"), given.get("finite_diff_rel_step"), shape[-1]
    for name, steps in (("eps", eps), ("finite_diff_rel_step", relative)):
        if steps is not None and steps.shape not in ((), (1,), (n,)):
            raise ValueError(f"{name}: expected a number or an array of {n}, got shape {steps.shape}")
    return DifferenceOptions(eps, relative)
