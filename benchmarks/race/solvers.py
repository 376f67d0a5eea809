"""The solvers of a race, one adapter each: steepen's methods and their peers.

An adapter takes an `Asked` and a start, and says how its solver ended. With tight tolerances no solver
stops by choice before the tightest accuracy: it goes on until it finds no descent or the evaluations are
spent. Otherwise each has its own defaults, as most people call it. A solver that needs a gradient, where
none is given, gets SciPy's forward differences, each value of which counts.

Values that are not finite are passed on to all solvers. Ours and BB then try a shorter step. Among the
peers, NLopt halves its first step, −∇f, about ten times and then gives up, which ends its runs on badly
scaled problems, and SciPy's Newton-CG stops when it meets a NaN.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import steepen as st
from steepen._call.minimize import minimize
from steepen._tools.optional import load
from steepen.functions._numerics import Array
from steepen.status import Status

from . import rival
from .asked import Asked


class Ended(NamedTuple):
    """How a solver says it ended: success, in a word and in its message, where, and its own count."""

    success: bool
    word: str
    x: Any = None
    message: str = ""
    claimed: int | None = None


@dataclass(frozen=True)
class Solver:
    """An adapter, with the module that it needs and its limits.

    Parameters
    ----------
    run : callable
        ``run(asked, x0)`` returns an `Ended`.
    module, package : str, optional
        What must be installed, as it is imported and as it is named on PyPI.
    largest : int
        The largest n; for those that keep an n × n matrix. A step takes O(n²) time, with SciPy's BFGS O(n³).
    per_variable : int, optional
        At most so many evaluations for each variable: for those that take long without them.
    by_values : bool
        Whether it takes no gradient, so that its run is the same where one is given.
    """

    run: Callable[[Asked, Array], Ended]
    module: str = "scipy"
    package: str = "scipy"
    largest: float = math.inf
    per_variable: int | None = None
    by_values: bool = False

    @property
    def is_installed(self) -> bool:
        """Whether its module is there."""
        return find_spec(self.module) is not None


_NO_END = 10**9
_NLOPT_ENDS = ("success", "value reached", "ftol reached", "xtol reached", "evaluations spent", "time spent")


def _gradient(asked: Asked) -> Callable[[Array], Array]:
    """Return the gradient, or SciPy's forward differences where none is given."""
    if asked.has_gradient:
        return asked.grad
    return partial(import_module("scipy.optimize").approx_fprime, f=asked.value)


def _steepen(method: str, asked: Asked, x0: Array) -> Ended:
    """Run one of our methods with its defaults; `b`, if it has one, follows from the budget."""
    given: dict[str, Any] = {"jac": asked.grad} if asked.has_gradient else {}
    if asked.tight:
        given |= {"gtol": 0.0, "budget": st.Budget(grads=asked.limit)}
    if asked.bounds is not None:
        given["bounds"] = asked.bounds
    result = minimize(asked.value, x0, method=method, trace=False, **given)
    if result.status is Status.INTERRUPTED:  # of one run; here it is meant for all of them
        raise KeyboardInterrupt
    return Ended(bool(result.success), result.status.name, result.x, result.message, int(result.nfev))


def _scipy(method: str, tight: Mapping[str, Any], asked: Asked, x0: Array) -> Ended:
    optimize = import_module("scipy.optimize")  # here, so that the command starts fast
    jac = asked.grad if asked.has_gradient and method not in _WITHOUT else None
    options = dict(tight) if asked.tight else {}
    given = {} if asked.bounds is None else {"bounds": asked.bounds}
    result = optimize.minimize(asked.value, x0, jac=jac, method=method, options=options, **given)
    return Ended(bool(result.success), str(result.status), result.x, str(result.message), int(result.nfev))


_WITHOUT = ("COBYQA", "Nelder-Mead", "COBYLA")


def _nlopt(algorithm: str, asked: Asked, x0: Array) -> Ended:
    nlopt = load("nlopt", f"the solver NLopt {algorithm}", extra="bench")
    gradient, raised = _gradient(asked), list[BaseException]()

    def objective(x: Array, grad: Array) -> float:
        try:
            if asked.has_gradient:
                grad[:] = gradient(x)
                return asked.value(x)
            value = asked.value(x)
            if grad.size:
                grad[:] = gradient(x)
            return value
        except BaseException as error:  # NLopt goes on for some calls, and then raises its own
            raised.append(error)
            raise

    solver = nlopt.opt(getattr(nlopt, algorithm), len(x0))
    solver.set_min_objective(objective)
    if asked.bounds is not None:
        low, high = np.asarray(asked.bounds).T
        solver.set_lower_bounds(low)
        solver.set_upper_bounds(high)
    if asked.tight:
        solver.set_param("tolg", 1e-300)  # its own default ends a run at a gradient of 1e-8
    else:
        solver.set_ftol_rel(1e-12)  # it has no tolerance of its own
    try:
        x = solver.optimize(x0)
    except (nlopt.RoundoffLimited, nlopt.runtime_error) as error:
        if raised:
            raise raised[0] from None
        return Ended(False, type(error).__name__, None, str(error) or "failure")
    result = int(solver.last_optimize_result())
    return Ended(result > 0, str(result), x, _NLOPT_ENDS[result - 1])


def _barzilai_borwein(asked: Asked, x0: Array) -> Ended:
    """Minimise by Raydan's global Barzilai–Borwein method: steps sᵀs/sᵀy along −∇f.

    A step is accepted if f falls below the largest of the last ten values by 1e-4 of what the slope promises;
    otherwise it is cut by interpolation. The first step has length 1 at most. A step outside [1e-10, 1e10],
    as after sᵀy ≤ 0, is replaced by 1/‖∇f‖, clipped to [1, 1e5].
    """
    gradient = _gradient(asked)
    x, f, g = x0, asked.value(x0), gradient(x0)
    recent = deque([f], maxlen=10)
    square = float(g @ g)
    step = min(1.0, 1 / math.sqrt(square)) if square > 0 else 1.0
    while 0 < square < math.inf:
        for _ in range(60):
            trial = x - step * g
            value = asked.value(trial)
            if value <= max(recent) - 1e-4 * step * square:
                break
            bend = value - f + step * square
            best = step * step * square / (2 * bend) if math.isfinite(bend) and bend > 0 else 0.0
            step = min(max(best, 0.1 * step), 0.5 * step)
        else:
            return Ended(False, "stalled", x, "no step lowers f")
        x, f, before = trial, value, g
        g = gradient(x)
        recent.append(f)
        falling = -float(before @ (g - before))  # sᵀy/α, with s = −α·before
        step = step * square / falling if falling else math.inf
        square = float(g @ g)
        if not 1e-10 < step < 1e10:
            step = min(max(1 / math.sqrt(square), 1.0), 1e5) if square > 0 else 1.0
    return Ended(
        square == 0, "zero" if square == 0 else "not finite", x, "the gradient is zero or not finite"
    )


def _regularized(told: bool, asked: Asked, x0: Array) -> Ended:
    error = asked.case.error if told else rival.PRECISION
    gtol = 0.0 if asked.tight else 1e-5
    found = rival.minimize(asked.value, _gradient(asked), x0, error=error, gtol=gtol)
    return Ended(found.success, found.word, found.x)


def _in_jax(asked: Asked) -> Any:
    """Return f as JAX calls it, with the host's values and gradients."""
    jax = import_module("jax")
    jax.config.update("jax_enable_x64", True)
    gradient = _gradient(asked)

    def pair(x: Any) -> Any:
        point = np.asarray(x, dtype=float)
        value = asked.value(point)
        return np.asarray(value, dtype=float), np.asarray(gradient(point), dtype=float)

    @jax.custom_vjp
    def f(x: Any) -> Any:
        return both(x)[0]

    def both(x: Any) -> Any:
        shapes = jax.ShapeDtypeStruct((), "float64"), jax.ShapeDtypeStruct(x.shape, "float64")
        return jax.pure_callback(pair, shapes, x)

    f.defvjp(both, lambda slope, upstream: (upstream * slope,))
    return f


def _unwrapped(asked: Asked, call: Callable[[], Ended]) -> Ended:
    """Run a solver whose library wraps what a function raises in an error of its own."""
    from .asked import Spent

    try:
        return call()
    except Exception:
        if asked.spent:
            raise Spent from None
        raise


def _optimistix(name: str, asked: Asked, x0: Array) -> Ended:
    optimistix, jax = import_module("optimistix"), import_module("jax")
    f, tolerance = _in_jax(asked), 1e-15 if asked.tight else 1e-6

    def call() -> Ended:
        solver = getattr(optimistix, name)(rtol=tolerance, atol=tolerance)
        found = optimistix.minimise(
            lambda x, _: f(x), solver, jax.numpy.asarray(x0), max_steps=asked.limit, throw=False
        )
        good = bool(found.result == optimistix.RESULTS.successful)
        return Ended(good, "successful" if good else "failed", np.asarray(found.value))

    return _unwrapped(asked, call)


def _optax(asked: Asked, x0: Array) -> Ended:
    """Run optax's L-BFGS with its line search until ‖∇f‖ ≤ 1e-5, or with tight tolerances to the limit."""
    optax, jax = import_module("optax"), import_module("jax")
    f = _in_jax(asked)

    def call() -> Ended:
        x, solver = jax.numpy.asarray(x0), optax.lbfgs()
        state, both = solver.init(x), optax.value_and_grad_from_state(f)

        @jax.jit
        def moved(x: Any, state: Any) -> Any:
            value, slope = both(x, state=state)
            step, state = solver.update(slope, state, x, value=value, grad=slope, value_fn=f)
            return optax.apply_updates(x, step), state, jax.numpy.linalg.norm(slope)

        for _ in range(asked.limit):
            there, state, size = moved(x, state)
            if not float(size) > (0.0 if asked.tight else 1e-5):
                return Ended(math.isfinite(float(size)), "gradient", np.asarray(x))
            if bool((there == x).all()):
                return Ended(False, "stalled", np.asarray(x))
            x = there
        return Ended(False, "iterations", np.asarray(x))

    return _unwrapped(asked, call)


def _jaxopt(asked: Asked, x0: Array) -> Ended:
    """Run jaxopt's L-BFGS as Python, on the function and gradient themselves."""
    jaxopt, jax = import_module("jaxopt"), import_module("jax")
    jax.config.update("jax_enable_x64", True)
    gradient = _gradient(asked)

    def both(x: Any) -> Any:
        point = np.asarray(x, dtype=float)
        return jax.numpy.asarray(asked.value(point)), jax.numpy.asarray(gradient(point))

    tolerance = 0.0 if asked.tight else 1e-3
    solver = jaxopt.LBFGS(both, value_and_grad=True, tol=tolerance, maxiter=asked.limit, jit=False)
    found = solver.run(jax.numpy.asarray(x0))
    return Ended(bool(found.state.error <= tolerance), "error", np.asarray(found.params))


def _torchmin(method: str, asked: Asked, x0: Array) -> Ended:
    torch, torchmin = import_module("torch"), import_module("torchmin")
    gradient = _gradient(asked)

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: Any) -> Any:
            point = x.detach().numpy()
            value = asked.value(point)
            context.save_for_backward(torch.as_tensor(gradient(point)))
            return torch.as_tensor(value, dtype=torch.float64)

        @staticmethod
        def backward(context: Any, upstream: Any) -> Any:
            return upstream * context.saved_tensors[0]

    options: dict[str, Any] = {"gtol": 0.0, "xtol": 0.0, "max_iter": _NO_END} if asked.tight else {}
    start = torch.as_tensor(np.array(x0))
    found = torchmin.minimize(Function.apply, start, method=method, options=options)
    return Ended(bool(found.success), str(found.status), found.x.numpy(), str(found.message))


def _optimagic(algorithm: str, asked: Asked, x0: Array) -> Ended:
    optimagic = import_module("optimagic")
    tight = {"convergence_ftol_rel": 0.0, "convergence_gtol_abs": 0.0}
    found = optimagic.minimize(
        fun=lambda x: float(asked.value(np.asarray(x))),
        params=np.array(x0),
        algorithm=algorithm,
        algo_options=tight if asked.tight else {},
        jac=lambda x: _gradient(asked)(np.asarray(x)),
        error_handling="raise",
    )
    return Ended(bool(found.success), str(found.message)[:20], np.asarray(found.params), str(found.message))


def _pybobyqa(asked: Asked, x0: Array) -> Ended:
    found = import_module("pybobyqa").solve(asked.value, x0, maxfun=asked.limit)
    return Ended(found.flag == found.EXIT_SUCCESS, str(found.flag), found.x)


def _newuoa(asked: Asked, x0: Array) -> Ended:
    found = import_module("prima").minimize(asked.value, x0, method="newuoa")
    return Ended(bool(found.success), str(found.status), found.x)


_OURS = {
    "cgd-auto": "cgd-auto", "BFGS-Armijo": "bfgs", "DFP-Armijo": "dfp", "GD-Armijo": "gd", "cgd": "cgd",
    "cgd-fd": "cgd-fd", "cgd-bfgs": "cgd-bfgs", "cgd-dfp": "cgd-dfp",
}  # fmt: skip
_MATRIX = ("BFGS-Armijo", "DFP-Armijo", "cgd-bfgs", "cgd-dfp")
_LBFGSB = {"ftol": 0, "gtol": 0, "maxiter": _NO_END, "maxfun": _NO_END}
_SCIPY: dict[str, tuple[str, dict[str, Any]]] = {
    "L-BFGS-B": ("L-BFGS-B", {**_LBFGSB, "maxcor": 10}),
    "L-BFGS-B-200": ("L-BFGS-B", {**_LBFGSB, "maxcor": 200}),
    "BFGS": ("BFGS", {"gtol": 0, "maxiter": _NO_END}),
    "CG": ("CG", {"gtol": 0, "maxiter": _NO_END}),
    "Newton-CG": ("Newton-CG", {"xtol": 0, "maxiter": _NO_END}),
    "TNC": ("TNC", {"ftol": 0, "xtol": 0, "gtol": 0, "maxfun": _NO_END}),
}
_NLOPT = {"NLopt-LBFGS": "LD_LBFGS", "NLopt-VAR2": "LD_VAR2", "NLopt-TNEWTON": "LD_TNEWTON_PRECOND"}
_SLOW = 100

SOLVERS: dict[str, Solver] = {
    **{
        name: Solver(partial(_steepen, method), "steepen", "steepen", 2000 if name in _MATRIX else math.inf)
        for name, method in _OURS.items()
    },
    **{
        name: Solver(partial(_scipy, *given), largest=250 if name == "BFGS" else math.inf)
        for name, given in _SCIPY.items()
    },
    **{name: Solver(partial(_nlopt, one), "nlopt", "nlopt") for name, one in _NLOPT.items()},
    "BB": Solver(_barzilai_borwein),
    "regularized-QN": Solver(partial(_regularized, False)),
    "regularized-QN-told": Solver(partial(_regularized, True)),
    **{name: Solver(partial(_scipy, name, {}), per_variable=_SLOW, by_values=True) for name in _WITHOUT},
    "Py-BOBYQA": Solver(_pybobyqa, "pybobyqa", "Py-BOBYQA", per_variable=_SLOW, by_values=True),
    "NEWUOA": Solver(_newuoa, "prima", "prima", per_variable=_SLOW, by_values=True),
    **{
        f"optimistix-{name}": Solver(partial(_optimistix, name), "optimistix", "optimistix", 1000)
        for name in ("BFGS", "NonlinearCG")
    },
    "optax-LBFGS": Solver(_optax, "optax", "optax"),
    "jaxopt-LBFGS": Solver(_jaxopt, "jaxopt", "jaxopt"),
    **{
        f"torchmin-{name}": Solver(partial(_torchmin, name.lower()), "torchmin", "pytorch-minimize")
        for name in ("BFGS", "L-BFGS")
    },
    "optimagic-LBFGSB": Solver(partial(_optimagic, "scipy_lbfgsb"), "optimagic", "optimagic"),
}
"""The solvers. Those with Armijo, and all whose name starts with cgd, are steepen's. BB is Barzilai–Borwein,
regularized-QN the method of arXiv:2603.10642 (`rival.py`), which as `-told` knows the error of values;
others have the name of their library, or are SciPy's, with 10 pairs for L-BFGS-B and 200 for L-BFGS-B-200.
Of the four variants of NLopt's TNEWTON this is LD_TNEWTON_PRECOND, the best on the small problems of mgh."""

CHANGED = re.compile(r"(?P<name>[^\[\]]+)\[(?P<module>[a-z_.]+)\.(?P<constant>[A-Z_]+)=(?P<value>[^\[\]]+)\]")


def named(name: str) -> Solver:
    """Return a solver; `cgd-auto[methods.auto.BOOST=4]` has one constant of the library changed.

    Raise ValueError if it is not known, ImportError if it is not installed.
    """
    changed = CHANGED.fullmatch(name)
    base = changed["name"] if changed else name
    found = SOLVERS.get(base)
    if found is None:
        raise ValueError(f"solvers: expected some of {', '.join(SOLVERS)}, got {name!r}")
    if changed:
        module = import_module(f"steepen.{changed['module']}")
        if not hasattr(module, changed["constant"]):
            raise ValueError(f"solvers: {changed['module']} has no constant {changed['constant']}")
        float(changed["value"])
    if not found.is_installed:
        raise ImportError(f"solvers: {name} needs {found.package}: pip install {found.package}")
    return found


def feature_for(name: str, feature: str) -> str:
    """Return the feature with which a solver is run: one that takes no gradient needs none taken away."""
    known = SOLVERS.get(name)
    if known is None or not known.by_values:
        return feature
    return "+".join(part for part in feature.split("+") if part != "values") or "plain"


@contextmanager
def constant_of(name: str) -> Iterator[None]:
    """Change the constant that a solver's name says, for a while."""
    changed = CHANGED.fullmatch(name)
    if changed is None:
        yield
        return
    module = import_module(f"steepen.{changed['module']}")
    before = getattr(module, changed["constant"])
    setattr(module, changed["constant"], type(before)(float(changed["value"])))
    try:
        yield
    finally:
        setattr(module, changed["constant"], before)


def available() -> list[str]:
    """Return the solvers that can run here."""
    return [name for name, solver in SOLVERS.items() if solver.is_installed]


@cache
def mark(name: str) -> str:
    """Return what a solver's runs depend on: the text of the library for ours, a version for others."""
    changed = CHANGED.fullmatch(name)
    package = SOLVERS[changed["name"] if changed else name].package
    here = Path(__file__).parent
    texts = sorted((here.parent / "problems").glob("*.*"))
    texts += [here / f"{part}.py" for part in ("asked", "features", "rival")]
    if package == "steepen":
        home = Path(st.__file__).parent
        texts += sorted(
            path for path in home.rglob("*.py") if not {"torch", "paper", "plot", "train"} & {*path.parts}
        )
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in texts if path.is_file())).hexdigest()[:12]
    try:
        own = "" if package == "steepen" else f"{package} {version(package)}, "
    except PackageNotFoundError:
        own = f"{package}, "
    return own + digest
