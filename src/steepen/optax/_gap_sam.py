"""GapSAM for optax, called by training loops: ascent length from the validation gap; pure, also in `jit`."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from .._core import ascent
from .._tools.check import number, whole
from ._transforms import check_call, check_state, checked_base
from ._trees import Mask, Mean, add, around, check, norm, part_of, select, wide

MEANS = ("training", "validation", "rise", "rise_square", "target", "length", "bound", "square")


class GapSAMState(NamedTuple):
    """The state of `gap_sam`; `steps` counts all steps, `perturbed` those with an ascent step.

    `means` has running means of the training and validation loss, of the rise of the loss in ascent steps,
    intended (`target`) and observed (`rise`, `rise_square`), of their length, of how often it was cut to its
    limit (`bound`), and of ‖g‖² (`square`).

    Examples
    --------
    >>> state = gap_sam(optax.sgd(0.1), total_steps=100).init(jnp.zeros(2))
    >>> state.record_validation_loss(0.7).report()["validation"]
    0.69999...
    """

    steps: Any
    perturbed: jax.Array  # how many of the steps had an ascent step
    loss: jax.Array  # of the last batch without an ascent step
    gain: jax.Array  # a factor of the length, adapted until `rise` equals `target`
    means: dict[str, Mean]
    base: Any

    def record_validation_loss(self, loss: Any) -> GapSAMState:
        """Return the state with a new validation loss; a loss that is not finite is ignored."""
        if shape := jnp.shape(loss):
            raise ValueError(f"loss: expected the mean validation loss, one number; got shape {shape}")
        known = self.means["validation"].updated(jnp.asarray(loss, self.gain.dtype), ascent.NEW_VALIDATION)
        return self._replace(means=self.means | {"validation": known})

    def report(self) -> dict[str, float]:
        """Return the means and the gain as numbers, and the counts `steps` and `perturbed` of the state."""
        numbers = {"steps": self.steps, "perturbed": self.perturbed, "gain": self.gain}
        numbers |= {name: mean.value for name, mean in self.means.items()}
        return {name: float(value) for name, value in numbers.items()}


def gap_sam(
    base: optax.GradientTransformation, total_steps: int, *, every: int = 2, strength: float = 1.0,
    gate: tuple[float, float] | None = ascent.GATE, mask: Mask = None,
) -> optax.GradientTransformationExtraArgs:  # fmt: skip
    """SAM around a transformation, with the ascent step length set from validation data.

    For the method, its formulas, and `every`, `strength` and `gate` see `steepen.torch.GapSAM`.

    `update(g, state, params, value_and_grad_fn=…)` takes the gradient g at the parameters, of the batch or of
    a sixteenth of it, and a function of the parameters that returns the loss and gradient of the batch. The
    base gets that gradient, and all other extra arguments. Record the validation loss about fifty times per
    run: `state = record_validation_loss(state, loss)`.

    Parameters
    ----------
    base : GradientTransformation
        The transformation that takes the steps. Clipping belongs in it: before `gap_sam` it clips only g.
    total_steps : int
        The length of the run.
    mask
        As in `value_and_grad`.

    Examples
    --------
    >>> def loss(x, batch):
    ...     return ((x - batch) ** 2).mean()
    >>> opt, x, batch = gap_sam(optax.adam(0.1), total_steps=60), jnp.zeros(3), jnp.ones((16, 3))
    >>> state = opt.init(x)
    >>> for k in range(60):
    ...     if k % 10 == 0:
    ...         state = record_validation_loss(state, loss(x, batch + 1))
    ...     value_and_grad_fn = lambda x: jax.value_and_grad(loss)(x, batch)
    ...     g = jax.grad(loss)(x, batch[:2])
    ...     updates, state = opt.update(g, state, x, value_and_grad_fn=value_and_grad_fn)
    ...     x = optax.apply_updates(x, updates)
    >>> state.report()["perturbed"]
    20.0
    """
    base = checked_base(base)
    whole("total_steps", total_steps, ascent.LEAST)
    whole("every", every, 2)
    number("strength", strength, "a positive number", above=0)
    ascent.check_gate(gate)
    new, new_training = ascent.new_weights(total_steps)

    def init(params: Any) -> GapSAMState:
        check(params)
        zero, none = jnp.zeros((), wide(params)), jnp.zeros((), jnp.int32)
        means = {name: Mean(zero, zero) for name in MEANS}
        return GapSAMState(none, none, zero + jnp.nan, zero + 1, means, base.init(params))

    def update(
        updates: Any, state: Any, params: Any = None, *, value_and_grad_fn: Any = None,
        all_params: Any = None, **extra: Any,
    ) -> Any:  # fmt: skip
        check_state(state, GapSAMState, params)
        check_call("value_and_grad_fn", value_and_grad_fn, "loss and gradient of the batch")
        now, chosen = {name: mean.value for name, mean in state.means.items()}, select(mask, params)
        gap = now["validation"] - now["training"]
        part = strength * (state.steps.astype(gap.dtype) / (total_steps - 1)).clip(max=1)  # of the gap
        opening = jnp.ones_like(gap) if gate is None else ascent.opening(gap, now["validation"], gate, jnp)
        target = (part * gap * opening).clip(min=0)  # the rise to aim at; opening: 0 to 1
        due = (state.steps % every == 0) & (state.steps >= ascent.FIRST * total_steps)
        up = due & (gap > 0) & (opening > 0)  # whether there is an ascent step
        n = norm(updates, chosen)
        length, cut = ascent.gap_length(target, state.gain, n, now["square"], norm(params, chosen), jnp)
        c = jnp.where(up & (n > 0) & jnp.isfinite(length / n), length / n, 0)
        loss, whole = value_and_grad_fn(around(params, all_params)(add(params, c, updates, chosen)))
        d = part_of(whole, params)
        rise = loss - state.loss
        new_values = {  # a value, its weight in the running mean, and whether it counts
            "training": (loss, new_training, ~up),
            "rise": (rise, new, up),
            "rise_square": (rise * rise, new, up),
            "target": (target, new, up),
            "length": (length, new, up),
            "bound": (jnp.asarray(cut, gap.dtype), new, up),
            "square": (n * n, ascent.NEW_GRADIENT, up),
        }
        means = state.means | {name: state.means[name].updated(*one) for name, one in new_values.items()}
        observed, squares, intended = (means[name].value for name in ("rise", "rise_square", "target"))
        gain = (state.gain * ascent.gain_factor(observed, squares, intended, new, jnp)).clip(*ascent.GAIN)
        steps, loss = optax.safe_increment(state.steps), jnp.where(up, state.loss, loss)
        updates, inner = base.update(d, state.base, params, **extra)
        gain, loss = jnp.where(up, gain, state.gain), loss.astype(state.loss.dtype)
        return updates, GapSAMState(steps, state.perturbed + up, loss, gain, means, inner)

    return optax.GradientTransformationExtraArgs(init, update)


def record_validation_loss(state: Any, loss: Any) -> Any:
    """Return the state of `gap_sam`, or of any chain around it, with a new validation loss.

    Examples
    --------
    >>> opt = gap_sam(optax.chain(optax.clip(1.0), optax.adam(0.1)), total_steps=100)
    >>> state = record_validation_loss(opt.init(jnp.zeros(2)), 0.7)
    """
    nodes, tree = jax.tree.flatten(state, is_leaf=lambda node: isinstance(node, GapSAMState))
    updated = [node.record_validation_loss(loss) if isinstance(node, GapSAMState) else node for node in nodes]
    if not any(isinstance(node, GapSAMState) for node in nodes):
        raise ValueError("state: expected one that contains a gap_sam state, got none")
    return jax.tree.unflatten(tree, updated)
