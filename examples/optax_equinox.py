"""Equinox: split arrays from functions, and let GapSAM set its own length by validation data."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from sklearn.datasets import load_digits

import steepen.optax


def main(steps=240):  # noqa: D103
    x, y = (jnp.asarray(part) for part in load_digits(return_X_y=True))
    params, static = eqx.partition(eqx.nn.MLP(64, 10, 64, 2, key=jax.random.key(0)), eqx.is_inexact_array)
    opt = steepen.optax.gap_sam(optax.adamw(3e-3), total_steps=steps)
    state, validation = opt.init(params), (x[1000:1500], y[1000:1500])

    def loss(params, batch):
        logits = jax.vmap(eqx.combine(params, static))(batch[0] / 16)
        return optax.losses.softmax_cross_entropy_with_integer_labels(logits, batch[1]).mean()

    @jax.jit
    def step(params, state, batch):
        g = jax.grad(loss)(params, jax.tree.map(lambda a: a[:4], batch))  # of a sixteenth of the batch
        both = jax.value_and_grad(lambda params: loss(params, batch))
        updates, state = opt.update(g, state, params, value_and_grad_fn=both)
        return optax.apply_updates(params, updates), state

    for k, rows in enumerate(jax.random.randint(jax.random.key(1), (steps, 64), 0, 1000)):
        if k % 5 == 0:
            state = steepen.optax.record_validation_loss(state, loss(params, validation))
        params, state = step(params, state, (x[rows], y[rows]))
    model = jax.vmap(eqx.combine(params, static))
    print(state.report())
    return float((model(x[1500:] / 16).argmax(-1) == y[1500:]).mean())


if __name__ == "__main__":
    print("accuracy on new digits:", main())
