"""Flax linen: SAM in the place of `jax.value_and_grad`, with one mask of dropout for both passes."""

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from sklearn.datasets import load_digits

import steepen.optax


class Net(nn.Module):  # noqa: D101
    @nn.compact
    def __call__(self, x, train=False):
        return nn.Dense(10)(nn.Dropout(0.2, deterministic=not train)(nn.relu(nn.Dense(64)(x / 16))))


def main(steps=160):  # noqa: D103
    x, y = (jnp.asarray(part) for part in load_digits(return_X_y=True))
    net, opt = Net(), optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(3e-3))

    def loss(params, batch, key):
        logits = net.apply(params, batch[0], train=True, rngs={"dropout": key})
        return optax.losses.softmax_cross_entropy_with_integer_labels(logits, batch[1]).mean()

    @jax.jit
    def step(params, state, batch, key):
        _, grads = steepen.optax.value_and_grad(loss, rho=0.05)(params, batch, key)
        updates, state = opt.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    state = opt.init(params := net.init(jax.random.key(0), x[:2]))
    for k, rows in enumerate(jax.random.randint(jax.random.key(1), (steps, 64), 0, 1500)):
        params, state = step(params, state, (x[rows], y[rows]), jax.random.key(k))
    return float((net.apply(params, x[1500:]).argmax(-1) == y[1500:]).mean())


if __name__ == "__main__":
    print("accuracy on new digits:", main())
