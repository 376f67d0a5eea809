"""`sam`, `cgd`, `egr`, `msam` as optax transformations, for training loops; checks for `gap_sam`; pure."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
import optax.tree_utils as otu

from ._ascent import ScalarOrSchedule, Settings, settings_of
from ._trees import Mask, Mean, add, around, check, norm, part_of, wide


class SAMState(NamedTuple):
    """The state of `sam`: the number of steps taken, None, and the state of the base.

    Examples
    --------
    >>> sam(optax.sgd(0.1), rho=0.05).init(jnp.zeros(2)).steps.item()
    0
    """

    steps: Any
    change: Any
    base: Any


class CGDState(NamedTuple):
    """The state of `cgd`: the number of steps, the running mean for `ratio`, and the state of the base.

    Examples
    --------
    >>> cgd(optax.sgd(0.1), ratio=0.3).init(jnp.zeros(2)).change.weight.item()
    0.0
    """

    steps: Any
    change: Any
    base: Any


def sam(
    base: optax.GradientTransformation, rho: ScalarOrSchedule, *, alpha: ScalarOrSchedule = 1.0,
    adaptive: bool = False, eta: float | None = None, normalized: bool = True, mask: Mask = None,
) -> optax.GradientTransformationExtraArgs:  # fmt: skip
    """Sharpness-aware minimisation around a transformation: SAM, ASAM, GNP or USAM.

    `update(g, state, params, grad_fn=…)` takes the gradient g at the parameters, of the batch or of a part of
    it, and a function of the parameters that returns the gradient of the batch. The base gets
    grad_fn(x + ρ·g/‖g‖), and all other extra arguments. Inside `optax.masked` or `optax.partition`, which
    show it a part of the parameters, pass all of them as well: `all_params=params`.

    Parameters
    ----------
    base : GradientTransformation
        Takes the steps, and clips: `chain(clip_by_global_norm(1), adam(1e-3))`, not before `sam`.
    rho, alpha, adaptive, eta, normalized, mask
        As in `value_and_grad`; another `alpha` than 1 needs g of the whole batch.

    Examples
    --------
    >>> grad_fn = jax.grad(lambda x: ((x - 1) ** 2).sum())
    >>> opt = sam(optax.sgd(0.1), rho=0.05)
    >>> x = jnp.zeros(2)
    >>> updates, state = opt.update(grad_fn(x), opt.init(x), x, grad_fn=grad_fn)
    >>> [round(value, 4) for value in updates.tolist()]
    [0.2071, 0.2071]
    """
    variant = {"alpha": alpha, "adaptive": adaptive, "eta": eta, "normalized": normalized}
    return _transformation(SAMState, base, settings_of(mask, rho=rho, **variant))


def cgd(
    base: optax.GradientTransformation, lam: ScalarOrSchedule | None = None, *,
    ratio: ScalarOrSchedule | None = None, r: ScalarOrSchedule | None = None, exact: bool = False,
    guard: bool = True, mask: Mask = None, dtype: Any = None,
) -> optax.GradientTransformationExtraArgs:  # fmt: skip
    """CGD around a transformation: steps on the landscape f + λ‖∇f‖², with the paper's guard.

    `update(g, state, params, grad_fn=…)` takes the gradient g of the batch, and a function of the parameters
    that returns the gradient there. The base gets g + ν(g⁺ − g), and all other extra arguments.

    Parameters
    ----------
    base : GradientTransformation
        The transformation that takes the steps. Clipping belongs in it: before `cgd` it changes only g.
    lam, ratio, r, exact, guard, mask, dtype
        As in `value_and_grad`, one of the first two; but `ratio` uses a running mean of ‖g⁺ − g‖/‖g‖.

    Examples
    --------
    >>> grad_fn = jax.grad(lambda x: ((x - 1) ** 2).sum())
    >>> opt = cgd(optax.sgd(0.1), ratio=0.3)
    >>> x = jnp.zeros(2)
    >>> updates, state = opt.update(grad_fn(x), opt.init(x), x, grad_fn=grad_fn)
    """
    variant = {"r": r, "exact": exact, "guard": guard}
    return _transformation(CGDState, base, settings_of(mask, dtype, lam=lam, ratio=ratio, **variant))


def egr(
    base: optax.GradientTransformation, lam: ScalarOrSchedule, *, mask: Mask = None
) -> optax.GradientTransformationExtraArgs:
    """Explicit gradient regularisation around a transformation: g + 2λHg (Barrett and Dherin, 2021).

    The paper trains networks with it: `cgd` with exact products and without the guard. `update` takes what
    it takes for `cgd`.

    Parameters
    ----------
    base, lam, mask
        As in `cgd`.

    Examples
    --------
    >>> grad_fn = jax.grad(lambda x: ((x - 1) ** 2).sum())
    >>> opt = egr(optax.sgd(0.1), lam=0.05)
    >>> x = jnp.zeros(2)
    >>> updates, state = opt.update(grad_fn(x), opt.init(x), x, grad_fn=grad_fn)
    >>> [round(value, 4) for value in updates.tolist()]
    [0.24, 0.24]
    """
    return cgd(base, lam, exact=True, guard=False, mask=mask)


def _transformation(kind: Any, base: Any, settings: Settings) -> Any:
    base = checked_base(base)

    def init(params: Any) -> Any:
        check(params)
        none = Mean(*jnp.zeros(2, wide(params))) if kind is CGDState else None
        return kind(jnp.zeros((), jnp.int32), none, base.init(params))

    def update(
        updates: Any,
        state: Any,
        params: Any = None,
        *,
        grad_fn: Any = None,
        all_params: Any = None,
        **extra: Any,
    ) -> Any:
        check_state(state, kind, params)
        check_call("grad_fn", grad_fn, "the gradient of the batch")
        whole = around(params, all_params)
        both_at = lambda x: (None, part_of(grad_fn(whole(x)), params))  # noqa: E731
        d, _, change = settings.direction(updates, params, both_at, state.steps, state.change)
        updates, inner = base.update(d, state.base, params, **extra)
        return updates, kind(optax.safe_increment(state.steps), change, inner)

    return optax.GradientTransformationExtraArgs(init, update)


def checked_base(base: Any) -> Any:
    """Return a base that takes any extra argument."""
    if not isinstance(base, optax.GradientTransformation):
        raise TypeError(f"base: expected an optax transformation, such as optax.adam(1e-3); got {base!r}")
    return optax.with_extra_args_support(base)


def check_state(state: Any, kind: type, params: Any) -> None:
    """Raise an error for the state of another transformation, as from a checkpoint, or missing params."""
    if not isinstance(state, kind):
        raise TypeError(
            f"state: expected {kind.__name__}, got {type(state).__name__}; restore a checkpoint into the "
            "structure of init(params)"
        )
    if params is None:
        raise ValueError("params: expected the parameters, update(g, state, params, …); got None")


def check_call(name: str, function: Any, returns: str) -> None:
    """Raise an error if the function that an update needs is missing."""
    if not callable(function):
        raise TypeError(
            f"{name}: expected a function of the parameters that returns {returns}, got {function!r}"
        )


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

    One gradient per step, and no function in `update`: the parameters in your loop *are* x − ρ·v/‖v‖. The
    state holds x, which the base updates; evaluate and save that, `eval_params(state, params)`.

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
    base, settings = checked_base(base), settings_of(rho=rho)

    def init(params: Any) -> MSAMState:
        check(params)
        inner = base.init(params)
        _momentum(inner)
        return MSAMState(jnp.zeros((), jnp.int32), jax.tree.map(jnp.array, params), inner)

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        check_state(state, MSAMState, params)
        updates, inner = base.update(updates, state.base, state.params, **extra)
        x = optax.apply_updates(state.params, updates)
        steps, momentum = optax.safe_increment(state.steps), _momentum(inner)
        n = norm(momentum)
        c = jnp.where(n > 0, -settings.at(steps)[0] / jnp.where(n > 0, n, 1), 0)
        return jax.tree.map(jnp.subtract, add(x, c, momentum), params), MSAMState(steps, x, inner)

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
        raise ValueError(f"state: expected one that contains one msam state, got {len(found)} of them")
    return jax.tree.map(lambda x, like: jnp.asarray(x, jnp.result_type(like)), found[0], params)


def _momentum(state: Any) -> Any:
    """Return the momentum in the state of a base."""
    for name in ("trace", "mu"):
        found = otu.tree_get_all_with_path(state, name)
        if len(found) == 1:
            return found[0][1]
    raise ValueError(
        "base: expected a transformation with one momentum, such as optax.adam(1e-3) or "
        "optax.sgd(0.1, momentum=0.9); got none or several"
    )
