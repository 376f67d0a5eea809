"""The door for optimistix: every method as `optimistix.minimise(fn, steepen.optimistix.Minimiser(...), y0)`.

Examples
--------
>>> import jax.numpy as jnp, optimistix as optx, steepen.optimistix
>>> def fn(y, args):
...     return ((y - args) ** 2).sum()
>>> sol = optx.minimise(fn, steepen.optimistix.Minimiser(method="bfgs"), jnp.zeros(2), args=1.0)
>>> sol.value.round(4).tolist()
[1.0, 1.0]
"""

# what JAX maps over has no types
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import inspect
from functools import partial
from typing import Any, NamedTuple

from ._tools.optional import load

load("optimistix", "steepen.optimistix", extra="optimistix")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import optimistix as optx  # noqa: E402

from ._arguments import settings_of  # noqa: E402
from ._core.records import RUNNING  # noqa: E402
from ._core.result import Status  # noqa: E402
from ._oracle.budget import Budget  # noqa: E402
from .directions import Direction  # noqa: E402
from .jax import Bounds  # noqa: E402
from .jax._jax import plain  # noqa: E402
from .jax._loop import Driver, Inputs, Lane  # noqa: E402
from .jax._minimize import sides_of  # noqa: E402
from .jax._points import shape_of  # noqa: E402
from .jax._program import Program, moulded  # noqa: E402

__all__ = ["Minimiser"]

UNLIMITED = Budget(iters=2**31 - 1)
"""Steps are limited by optimistix's `max_steps`."""

MODES = {"bwd": jax.grad, "fwd": jax.jacfwd}


class _State(NamedTuple):
    lane: Lane
    told: Any
    """Whether the host has seen the point at which the run ended."""


class Minimiser(optx.AbstractMinimiser[Any, Any, Any]):
    """A steepen method as an optimistix solver; a step of it is an iteration, line search included.

    After the last iteration one more step, which goes nowhere, tells optimistix of the point reached.

    `optimistix.minimise` takes its options `autodiff_mode` ("bwd" or "fwd"), `lower` and `upper`, bounds such
    as y0 or numbers. The solution's `stats` have steepen's `status` and counts. A run whose status is no
    success has the result `nonlinear_divergence`.

    Parameters
    ----------
    method : str or Direction
        As in `steepen.minimize`.
    **given
        step, lam, penalty, r, b, memory, switch, budget, gtol, ftol and xtol, as there; there is no limit but
        `max_steps` unless a budget is given.

    Examples
    --------
    >>> Minimiser(method="cgd-fd", lam=0.1, step=0.01).given
    {'lam': 0.1, 'step': 0.01}
    """

    method: str | Direction
    given: dict[str, Any]

    def __init__(self, method: str | Direction = "cgd-auto", **given: Any):
        for name in given:
            if name not in KNOWN:
                raise TypeError(f"{name}: expected one of {', '.join(KNOWN)}")
        self.method, self.given = method, given

    @property
    def rtol(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The relative change of f that ends a run: ftol."""
        return self.given.get("ftol", 0.0)

    @property
    def atol(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The norm of ∇f that ends a run: gtol."""
        return self.given.get("gtol", 0.0)

    @property
    def norm(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The norm of ∇f."""
        return optx.two_norm

    @plain()
    def init(
        self, fn: Any, y: Any, args: Any, options: Any, f_struct: Any, aux_struct: Any, tags: Any
    ) -> _State:
        """Return a run that stands at y."""
        driver, x = self._driver(fn, y, args, options)
        return _State(driver.start(x), jnp.array(False))

    @plain()
    def step(
        self, fn: Any, y: Any, args: Any, options: Any, state: _State, tags: Any
    ) -> tuple[Any, _State, Any]:
        """Make an iteration, unless the run has ended; return aux of the y that was given."""
        driver, _ = self._driver(fn, y, args, options)
        running, turn = state.lane.running, partial(driver.turn, status=RUNNING)
        lane = jax.lax.cond(running, turn, lambda lane: lane, state.lane)
        there = driver.program.shape.point(lane.c.point.x)
        return there, _State(lane, jnp.logical_not(running)), fn(y, args)[1]

    def terminate(
        self, fn: Any, y: Any, args: Any, options: Any, state: _State, tags: Any
    ) -> tuple[Any, optx.RESULTS]:
        """Return whether the run has ended, and whether with success."""
        status = state.lane.c.status
        failed = status >= int(Status.MAX_ITERATIONS)
        result = optx.RESULTS.where(failed, optx.RESULTS.nonlinear_divergence, optx.RESULTS.successful)
        return state.told, result

    @plain()
    def postprocess(
        self, fn: Any, y: Any, aux: Any, args: Any, options: Any, state: _State, tags: Any, result: Any
    ) -> tuple[Any, Any, dict[str, Any]]:
        """Return where the run ended, or the best point where that is no use; status and counts."""
        driver, _ = self._driver(fn, y, args, options)
        ended = driver.end(state.lane)
        there = driver.program.shape.point(ended.x)
        return there, fn(there, args)[1], {"status": ended.status} | ended.counts._asdict()

    def _driver(self, fn: Any, y: Any, args: Any, options: dict[str, Any]) -> tuple[Driver, Any]:
        shape = shape_of(y, False)
        mode = options.get("autodiff_mode", "bwd")
        if mode not in MODES:
            raise ValueError(f"options: expected autodiff_mode to be one of {', '.join(MODES)}, got {mode!r}")
        sides = {"lb": options.get("lower"), "ub": options.get("upper")}
        sides = {name: side for name, side in sides.items() if side is not None}
        bounds = sides_of(Bounds(**sides), shape) if sides else None
        mould, numbers = moulded(
            (shape.size,), shape.dtype, self.method, **{"budget": UNLIMITED} | self.given
        )
        program = Program(lambda y, args: fn(y, args)[0], shape, mould, bounds is not None, None)
        x = shape.vector(y)
        return Driver(program, Inputs((args,), numbers, bounds), x, MODES[mode]), x


KNOWN = tuple(inspect.signature(settings_of).parameters)[3:]
