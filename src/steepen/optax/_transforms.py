"""SAM and CGD as transformations of optax, for loops that hand a function of the gradient to `update`."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import optax

from ._ascent import ScalarOrSchedule, Strength, strength_of
from ._trees import Mask, Mean, accuracy, check, select, wide

__all__ = ["CGDState", "SAMState", "cgd", "sam"]


class SAMState(NamedTuple):
    """The state of `sam`: the number of steps taken, nothing, and the state of the base.

    Examples
    --------
    >>> sam(optax.sgd(0.1), rho=0.05).init(jnp.zeros(2)).steps.item()
    0
    """

    steps: Any
    change: Any
    base: Any


class CGDState(NamedTuple):
    """The state of `cgd`: the number of steps, the mean that `ratio` goes by, and the state of the base.

    Examples
    --------
    >>> cgd(optax.sgd(0.1), ratio=0.3).init(jnp.zeros(2)).change.weight.item()
    0.0
    """

    steps: Any
    change: Any
    base: Any


def sam(
    base: optax.GradientTransformation, rho: ScalarOrSchedule, *, mask: Mask = None
) -> optax.GradientTransformationExtraArgs:
    """Sharpness-aware minimisation around a transformation (Foret et al., 2021).

    `update(g, state, params, grad_fn=…)` takes the gradient g at the parameters, of the batch or of a part of
    it, and a function of the parameters that returns the gradient of the batch. The base gets
    grad_fn(x + ρ·g/‖g‖), and every other extra argument.

    Parameters
    ----------
    base : GradientTransformation
        What takes the steps, with clipping inside: `chain(clip_by_global_norm(1), adam(1e-3))`.
    rho : number or schedule
        ρ, the length of the ascent step.
    mask : tree of bool, or callable
        The parameters that the ascent step moves; all by default.

    Examples
    --------
    >>> import jax
    >>> grad_fn = jax.grad(lambda x: ((x - 1) ** 2).sum())
    >>> opt = sam(optax.sgd(0.1), rho=0.05)
    >>> x = jnp.zeros(2)
    >>> updates, state = opt.update(grad_fn(x), opt.init(x), x, grad_fn=grad_fn)
    >>> [round(value, 4) for value in updates.tolist()]
    [0.2071, 0.2071]
    """
    return _transformation(SAMState, base, strength_of(rho=rho), mask, None)


def cgd(
    base: optax.GradientTransformation,
    lam: ScalarOrSchedule | None = None,
    *,
    ratio: ScalarOrSchedule | None = None,
    mask: Mask = None,
    dtype: Any = None,
) -> optax.GradientTransformationExtraArgs:
    """CGD around a transformation: it steps on the landscape f + λ‖∇f‖², with the paper's guard.

    `update(g, state, params, grad_fn=…)` takes the gradient g of the batch, and a function of the parameters
    that returns that gradient elsewhere. The base gets g + ν(g⁺ − g), and every other extra argument.

    Parameters
    ----------
    base : GradientTransformation
        What takes the steps, with clipping inside.
    lam : number or schedule
        λ. Below zero it rewards a large gradient.
    ratio : number or schedule
        In the place of λ: ν such that ‖ν(g⁺ − g)‖ is this part of ‖g‖, by a running mean of ‖g⁺ − g‖/‖g‖.
    mask : tree of bool, or callable
        The parameters that the ascent step moves; all by default.
    dtype : dtype
        The precision of the passes, where it is not that of the parameters.

    Examples
    --------
    >>> import jax
    >>> grad_fn = jax.grad(lambda x: ((x - 1) ** 2).sum())
    >>> opt = cgd(optax.sgd(0.1), ratio=0.3)
    >>> x = jnp.zeros(2)
    >>> updates, state = opt.update(grad_fn(x), opt.init(x), x, grad_fn=grad_fn)
    """
    return _transformation(CGDState, base, strength_of(lam=lam, ratio=ratio), mask, dtype)


def _transformation(kind: Any, base: Any, strength: Strength, mask: Mask, dtype: Any) -> Any:
    base = checked_base(base)

    def init(params: Any) -> Any:
        check(params)
        zero = jnp.zeros((), wide(params))
        return kind(
            jnp.zeros((), jnp.int32), None if kind is SAMState else Mean(zero, zero), base.init(params)
        )

    def update(updates: Any, state: Any, params: Any = None, *, grad_fn: Any = None, **extra: Any) -> Any:
        check_state(state, kind)
        check_call("grad_fn", grad_fn, params, "the gradient of the batch")
        d, change = strength.direction(
            updates,
            params,
            grad_fn,
            step=state.steps,
            selection=select(mask, params),
            accurate=accuracy(params, dtype),
            mean=state.change,
        )
        updates, inner = base.update(d, state.base, params, **extra)
        return updates, kind(optax.safe_increment(state.steps), change, inner)

    return optax.GradientTransformationExtraArgs(init, update)


def checked_base(base: Any) -> Any:
    """Return a base that takes any extra argument."""
    if not isinstance(base, optax.GradientTransformation):
        raise TypeError(f"base: expected a transformation of optax, such as optax.adam(1e-3); got {base!r}")
    return optax.with_extra_args_support(base)


def check_state(state: Any, kind: type) -> None:
    """Refuse the state of another transformation, such as one from a checkpoint."""
    if not isinstance(state, kind):
        raise TypeError(
            f"state: expected {kind.__name__}, got {type(state).__name__}; restore a checkpoint into the "
            "structure of init(params)"
        )


def check_call(name: str, function: Callable[[Any], Any] | None, params: Any, returns: str) -> None:
    """Refuse an update without the parameters or the function that it needs."""
    if params is None:
        raise ValueError("params: expected the parameters, update(g, state, params, …); got None")
    if not callable(function):
        raise TypeError(
            f"{name}: expected a function of the parameters that returns {returns}, got {function!r}"
        )
