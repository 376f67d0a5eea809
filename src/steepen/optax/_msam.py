"""Momentum SAM: an ascent step along the momentum, at no cost."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
import optax.tree_utils as otu

from ._ascent import ScalarOrSchedule, strength_of
from ._transforms import check_state, checked_base
from ._trees import add, check, norm, subtract

__all__ = ["MSAMState", "eval_params", "msam"]


class MSAMState(NamedTuple):
    """The state of `msam`: the number of steps, the parameters without the ascent step, the base's state.

    Examples
    --------
    >>> msam(optax.adam(0.1), rho=0.3).init(jnp.zeros(2)).params.tolist()
    [0.0, 0.0]
    """

    steps: Any
    params: Any
    base: Any


def msam(
    base: optax.GradientTransformation, rho: ScalarOrSchedule = 0.3
) -> optax.GradientTransformationExtraArgs:
    """Momentum SAM: gradients at x − ρ·v/‖v‖, v the momentum of the base (Becker et al., 2024).

    One gradient a step, and no function in `update`: the parameters of your loop *are* x − ρ·v/‖v‖. The state
    holds x, in which the base steps; evaluate and save that, `eval_params(state, params)`.

    Parameters
    ----------
    base : GradientTransformation
        A transformation with momentum, such as `optax.sgd(0.1, momentum=0.9)` or `optax.adam(1e-3)`.
    rho : number or schedule
        ρ, the length of the ascent step.

    Examples
    --------
    >>> opt = msam(optax.sgd(0.1, momentum=0.9), rho=0.1)
    >>> x = jnp.zeros(2)
    >>> state = opt.init(x)
    >>> for _ in range(200):
    ...     updates, state = opt.update(jax.grad(lambda x: ((x - 1) ** 2).sum())(x), state, x)
    ...     x = optax.apply_updates(x, updates)
    >>> bool(jnp.abs(eval_params(state, x) - 1).max() < 0.1)
    True
    """
    base, strength = checked_base(base), strength_of(rho=rho)

    def init(params: Any) -> MSAMState:
        check(params)
        inner = base.init(params)
        _momentum(inner)
        return MSAMState(jnp.zeros((), jnp.int32), jax.tree.map(jnp.array, params), inner)

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        check_state(state, MSAMState)
        if params is None:
            raise ValueError("params: expected the parameters, update(g, state, params); got None")
        updates, inner = base.update(updates, state.base, state.params, **extra)
        x = optax.apply_updates(state.params, updates)
        steps, momentum = optax.safe_increment(state.steps), _momentum(inner)
        n = norm(momentum)
        c = jnp.where(n > 0, -strength.at(steps) / jnp.where(n > 0, n, 1), 0)
        return subtract(add(x, c, momentum), params), MSAMState(steps, x, inner)

    return optax.GradientTransformationExtraArgs(init, update)


def eval_params(state: Any, params: Any) -> Any:
    """Return the parameters without the ascent step of `msam`, from the state of any chain around it.

    Examples
    --------
    >>> opt = optax.chain(optax.clip(1.0), msam(optax.adam(0.1)))
    >>> eval_params(opt.init(jnp.ones(2)), jnp.zeros(2)).tolist()
    [1.0, 1.0]
    """
    leaves = jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, MSAMState))
    found = [node.params for node in leaves if isinstance(node, MSAMState)]
    if len(found) != 1:
        raise ValueError(f"state: expected one that holds the state of one msam, got {len(found)} of them")
    return jax.tree.map(lambda x, like: jnp.asarray(x, jnp.result_type(like)), found[0], params)


def _momentum(state: Any) -> Any:
    """Return the momentum in the state of a base."""
    for name in ("trace", "mu"):
        found = otu.tree_get_all_with_path(state, name)
        if len(found) == 1:
            return found[0][1]
    raise ValueError(
        "base: expected a transformation with one momentum, such as optax.adam(1e-3) or "
        "optax.sgd(0.1, momentum=0.9); got another"
    )
