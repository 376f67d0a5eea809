"""A solver that users pass to `optimistix.minimise(fn, Minimiser(...), y0)`: every method; pure, in `jit`.

Examples
--------
>>> import jax.numpy as jnp, optimistix as optx, steepen.integrations.optimistix
>>> def fn(y, args):
...     return ((y - args) ** 2).sum()
>>> sol = optx.minimise(fn, steepen.integrations.optimistix.Minimiser(method="bfgs"), jnp.zeros(2), args=1.0)
>>> sol.value.round(4).tolist()
[1.0, 1.0]
"""

# what JAX maps over has no types
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple

from .._tools.check import one_of
from .._tools.optional import load

load("optimistix", "steepen.integrations.optimistix", extra="optimistix")

import equinox as eqx  # noqa: E402
import equinox.internal as eqxi  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import optimistix as optx  # noqa: E402

from .._call.keywords import RunSettings  # noqa: E402
from ..budget import Budget  # noqa: E402
from ..jax import Bounds  # noqa: E402
from ..jax._derivative import differentiable  # noqa: E402
from ..jax._jax import plain  # noqa: E402
from ..jax._minimize import sides_of  # noqa: E402
from ..jax._program import Inputs, Program, Shape, product_of, vector_of  # noqa: E402
from ..jax._run import Run, State  # noqa: E402
from ..jax._settings import filled  # noqa: E402
from ..methods import Method  # noqa: E402
from ..status import Status  # noqa: E402

__all__ = ["Adjoint", "Minimiser"]

UNLIMITED = Budget(iters=2**31 - 1)  # steps are limited by optimistix's `max_steps`
KNOWN = tuple(name for name in RunSettings.__annotations__ if name not in ("tol", "gtol", "ftol"))
"""Settings that have no other name in optimistix."""

MODES = {"bwd": jax.grad, "fwd": jax.jacfwd}

_OURS: ContextVar[bool] = ContextVar("_OURS", default=False)
"""Whether the adjoint is `Adjoint`, which accounts for bounds."""


class _State(NamedTuple):
    run: State
    told: Any
    """Whether optimistix has seen the point at which the run ended."""


class _Function:
    """A function of a vector, differentiated in the mode that is asked for."""

    def __init__(self, fn: Any, shape: Shape, mode: Any):
        self._fn, self._shape, self._mode = fn, shape, mode

    def value(self, x: Any, args: Any) -> Any:
        """Return f and its aux."""
        return self._fn(self._shape.point(x), *args)

    def derivative(self, name: str, at: tuple[Any, ...], args: Any) -> Any:
        """Return f and ∇f ("both"), ∇f ("gradient"), H·v ("product") or H ("hessian")."""

        def fun(x: Any) -> Any:
            return jnp.asarray(self.value(x, args)[0], x.dtype)

        if name == "both":
            return self._mode(lambda x: (fun(x),) * 2, has_aux=True)(*at)[::-1]
        return {"gradient": lambda f: f, "product": product_of, "hessian": jax.jacfwd}[name](self._mode(fun))(
            *at
        )


class Minimiser(optx.AbstractMinimiser[Any, Any, Any]):
    """A steepen method as an optimistix solver; one step is one iteration, including the line search.

    After the last iteration, one more step without a move reports the final point to optimistix. A run
    without success has the result `nonlinear_divergence`; `stats` have steepen's `status` and counts.

    The options of `optimistix.minimise` are `autodiff_mode` ("bwd" or "fwd"), `lower` and `upper`: bounds
    like y0 or numbers; these need `adjoint=Adjoint()`.

    Parameters
    ----------
    rtol, atol : float, optional
        Tolerances on the relative change of f and on the norm of ∇f: steepen's ftol and gtol.
    method, **given
        As in `steepen.minimize`: step, lam, penalty, r, b, memory, switch, budget, xtol and gtol_rel;
        without a budget, the only limit is `max_steps`.

    Examples
    --------
    >>> Minimiser(1e-6, 1e-6, method="cgd-fd", lam=0.1, step=0.01).given
    {'lam': 0.1, 'step': 0.01, 'ftol': 1e-06, 'gtol': 1e-06}
    """

    method: str | Method
    given: dict[str, Any]

    def __init__(self, rtol: Any = None, atol: Any = None, method: str | Method = "cgd-auto", **given: Any):
        for name in given:
            if name not in KNOWN:
                raise TypeError(f"{name}: expected one of rtol, atol, method, {', '.join(KNOWN)}")
        tolerances = {"ftol": rtol, "gtol": atol}
        self.method = method
        self.given = given | {name: value for name, value in tolerances.items() if value is not None}

    @property
    def rtol(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The tolerance on the relative change of f."""
        return self.given.get("ftol", 0.0)

    @property
    def atol(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The tolerance on the norm of ∇f."""
        return self.given.get("gtol", 0.0)

    @property
    def norm(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The norm of ∇f."""
        return optx.two_norm

    @plain()
    def init(
        self, fn: Any, y: Any, args: Any, options: Any, f_struct: Any, aux_struct: Any, tags: Any
    ) -> _State:
        """Return the initial state of a run from y."""
        for name in options:
            one_of("options", name, ("autodiff_mode", "lower", "upper"))
        if not _OURS.get() and any(options.get(side) is not None for side in ("lower", "upper")):
            raise ValueError(
                "options: lower and upper need adjoint=steepen.integrations.optimistix.Adjoint(), since the "
                "derivative of optimistix's own adjoint is wrong where a bound is active"
            )
        run, _, x = self._run(fn, y, args, options)
        return _State(run.start(x), jnp.array(False))

    @plain()
    def step(
        self, fn: Any, y: Any, args: Any, options: Any, state: _State, tags: Any
    ) -> tuple[Any, _State, Any]:
        """Do one iteration, unless the run has ended; return the aux at the given y."""
        run, shape, _ = self._run(fn, y, args, options)
        running = state.run.running
        now = jax.lax.cond(running, run.step, lambda state: state, state.run)
        return shape.point(now.x), _State(now, jnp.logical_not(running)), fn(y, args)[1]

    def terminate(
        self, fn: Any, y: Any, args: Any, options: Any, state: _State, tags: Any
    ) -> tuple[Any, optx.RESULTS]:
        """Return whether the run has ended, and whether it succeeded."""
        status = state.run.status
        failed = status >= int(Status.MAX_ITERATIONS)
        result = optx.RESULTS.where(failed, optx.RESULTS.nonlinear_divergence, optx.RESULTS.successful)
        return state.told, result

    @plain()
    def postprocess(
        self, fn: Any, y: Any, aux: Any, args: Any, options: Any, state: _State, tags: Any, result: Any
    ) -> tuple[Any, Any, dict[str, Any]]:
        """Return the final point, or the best one if that is unusable, with status and counts."""
        run, shape, _ = self._run(fn, y, args, options)
        ended = run.solution(state.run)
        there = shape.point(ended.x)
        status = jnp.where(state.run.running, int(Status.MAX_ITERATIONS), ended.status)  # by max_steps
        return there, fn(there, args)[1], {"status": status} | state.run.counts._asdict()

    def _run(self, fn: Any, y: Any, args: Any, options: dict[str, Any]) -> tuple[Run, Shape, Any]:
        x, shape = vector_of(y, batch=False)
        mode = one_of("options: autodiff_mode", options.get("autodiff_mode", "bwd"), MODES)
        bounds = _bounds(options, shape)
        static, numbers = filled(x.shape, shape.dtype, self.method, **{"budget": UNLIMITED} | self.given)
        program = Program(_Function(fn, shape, MODES[mode]), shape, static)
        return Run(program, Inputs((args,), numbers, bounds), x, alone=True), shape, x


class Adjoint(optx.AbstractAdjoint):
    """The derivative of `Minimiser`, also with bounds: `optimistix.minimise(..., adjoint=Adjoint())`.

    Variables at an active bound move with it. NaN where it does not exist, as in `steepen.jax.minimize`.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, optimistix as optx
    >>> def place(upper):
    ...     solver, options = Minimiser(method="bfgs"), {"upper": upper}
    ...     sol = optx.minimise(lambda y, _: (y - 3.0) ** 2, solver, 0.0, options=options, adjoint=Adjoint())
    ...     return sol.value
    >>> jax.grad(place)(2.0).item()
    1.0
    """

    def apply(self, primal_fn: Any, rewrite_fn: Any, inputs: Any, tags: Any) -> Any:
        """Run the solver, and make its final point differentiable with respect to the inputs."""
        token = _OURS.set(True)
        try:
            y, rest = primal_fn((*_still(inputs), partial(eqxi.while_loop, kind="lax")))
        finally:
            _OURS.reset(token)
        y, rest = eqx.filter(y, eqx.is_array), _still(rest)
        with plain():
            return self._tied(y, rest[1] == optx.RESULTS.successful, inputs), rest

    def _tied(self, y: Any, sound: Any, inputs: Any) -> Any:
        fn, solver, _, args, options = inputs[:5]
        x, shape = vector_of(y, batch=False)
        theta, static = eqx.partition((fn, args), eqx.is_array)

        def fun(x: Any, theta: Any) -> Any:
            fn, args = eqx.combine(theta, static)
            return jnp.asarray(fn(shape.point(x), args)[0], x.dtype)

        x, bounds, g, tol = jax.lax.stop_gradient(x), _bounds(options, shape), None, None
        if bounds is not None:
            derive, given = MODES[options.get("autodiff_mode", "bwd")], getattr(solver, "given", {})
            g = jax.lax.stop_gradient(derive(fun)(x, theta))
            tol = filled(x.shape, x.dtype, "gd", gtol=given.get("gtol"))[1]["tolerances.g"]
        at, _ = differentiable(fun, x, jnp.zeros((), x.dtype), g, theta, bounds, tol, sound)
        return shape.point(at)


def _bounds(options: dict[str, Any], shape: Shape) -> tuple[Any, Any] | None:
    sides = {"lb": options.get("lower"), "ub": options.get("upper")}
    given = {name: side for name, side in sides.items() if side is not None}
    try:
        return sides_of(Bounds(**given), shape) if given else None
    except ValueError as error:
        raise ValueError(f"options: expected lower and upper to be numbers or like y0; {error}") from error


def _still(tree: Any) -> Any:
    return jax.tree.map(lambda a: jax.lax.stop_gradient(a) if eqx.is_array(a) else a, tree)
