"""For JAX training loops: ascent steps in place of `jax.value_and_grad`, or as transformations; all pure.

`value_and_grad` changes nothing but the gradient, so clipping, accumulation, schedules, Flax, Equinox, `jit`
and sharding work as usual. `sam`, `cgd`, `egr`, `msam` and `gap_sam` are optax transformations.

Examples
--------
>>> import jax, jax.numpy as jnp, optax, steepen.optax
>>> def loss(params, batch):
...     x, y = batch
...     return ((x @ params - y) ** 2).mean()
>>> opt = optax.adam(0.1)
>>> params, batch = jnp.zeros(3), (jnp.eye(3), jnp.ones(3))
>>> value, grads = steepen.optax.value_and_grad(loss, rho=0.05)(params, batch)
>>> updates, state = opt.update(grads, opt.init(params), params)
"""

from __future__ import annotations

from .._tools.optional import load

load("optax", "steepen.optax", extra="optax")

from ._gap_sam import GapSAMState, gap_sam, record_validation_loss  # noqa: E402
from ._transforms import CGDState, MSAMState, SAMState, cgd, egr, eval_params, msam, sam  # noqa: E402
from ._trees import perturbed  # noqa: E402
from ._value_and_grad import value_and_grad  # noqa: E402

__all__ = [
    "CGDState", "GapSAMState", "MSAMState", "SAMState", "cgd", "egr", "eval_params", "gap_sam", "msam",
    "perturbed", "record_validation_loss", "sam", "value_and_grad",
]  # fmt: skip
