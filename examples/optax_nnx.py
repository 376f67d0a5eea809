"""Flax nnx: split once, and CGD is a function of the parameters; all other state comes back as aux."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from sklearn.datasets import load_digits

import steepen.optax


def main(steps=160):  # noqa: D103
    x, y = (jnp.asarray(part) for part in load_digits(return_X_y=True))
    rngs, opt = nnx.Rngs(0), optax.adamw(3e-3)
    layers = nnx.Linear(64, 64, rngs=rngs), nnx.BatchNorm(64, rngs=rngs), nnx.relu
    model = nnx.Sequential(*layers, nnx.Dropout(0.2, rngs=rngs), nnx.Linear(64, 10, rngs=rngs))
    graph, params, rest = nnx.split(model, nnx.Param, ...)

    def loss(params, rest, x, y):
        model = nnx.merge(graph, params, rest, copy=True)
        losses = optax.losses.softmax_cross_entropy_with_integer_labels(model(x / 16), y)
        return losses.mean(), nnx.state(model, nnx.Not(nnx.Param))

    @jax.jit
    def step(params, rest, state, x, y):
        (_, rest), grads = steepen.optax.value_and_grad(loss, lam=0.01, has_aux=True)(params, rest, x, y)
        updates, state = opt.update(grads, state, params)
        return optax.apply_updates(params, updates), rest, state

    state = opt.init(params)
    for rows in jax.random.randint(jax.random.key(1), (steps, 64), 0, 1500):
        params, rest, state = step(params, rest, state, x[rows], y[rows])
    model = nnx.merge(graph, params, rest)
    model.eval()
    return float((model(x[1500:] / 16).argmax(-1) == y[1500:]).mean())


if __name__ == "__main__":
    print("accuracy on new digits:", main())
