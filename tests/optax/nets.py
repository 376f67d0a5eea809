"""A small network with its data, and the formulas written out in plain numbers."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

RANDOM = np.random.default_rng(0)
SHAPES = {"a": (4, 3), "b": (4,), "c": (2, 4), "d": (2,)}
START = {name: RANDOM.normal(size=shape) for name, shape in SHAPES.items()}
X, Y = RANDOM.normal(size=(16, 3)), RANDOM.normal(size=(16, 2))
ACCURATE = {np.dtype("float64"): 1e-6, np.dtype("float32"): 1e-3}


def start(dtype="float64"):
    return {name: jnp.asarray(value, dtype) for name, value in START.items()}


def data(dtype="float64"):
    return jnp.asarray(X, dtype), jnp.asarray(Y, dtype)


def loss(params, batch):
    x, y = batch
    out = jnp.tanh(x @ params["a"].T + params["b"]) @ params["c"].T + params["d"]
    return 3 * ((out - y) ** 2).mean()


both = jax.jit(jax.value_and_grad(loss))


def gradient(params, batch):
    return {name: np.asarray(g) for name, g in both(params, batch)[1].items()}


def norm(tree):
    return math.sqrt(sum(float(v) ** 2 for part in tree.values() for v in np.ravel(part)))


def dot(a, b):
    return sum(float(v @ w) for v, w in ((np.ravel(a[name]), np.ravel(b[name])) for name in a))


def moved(params, c, along):
    kind = params["a"].dtype.type
    return {name: np.asarray(params[name]) + kind(c) * along[name] for name in params}


def mixed(g, nu, plus):
    kind = g["a"].dtype.type
    return {name: g[name] + kind(nu) * (plus[name] - g[name]) for name in g}


def sam(params, batch, rho, part=None):
    g = gradient(params, batch if part is None else part)
    return gradient(moved(params, rho / norm(g), g), batch)


def asam(params, batch, rho, eta, alpha=1.0):
    g = gradient(params, batch)
    scale = {name: np.abs(np.asarray(params[name])) + g[name].dtype.type(eta) for name in g}
    n = norm({name: scale[name] * g[name] for name in g})
    plus = gradient(moved(params, rho / n, {name: scale[name] ** 2 * g[name] for name in g}), batch)
    return {name: (1 - alpha) * g[name] + alpha * plus[name] for name in g}


def gnp(params, batch, rho, alpha):
    g, plus = gradient(params, batch), sam(params, batch, rho)
    return {name: (1 - alpha) * g[name] + alpha * plus[name] for name in g}


def usam(params, batch, rho):
    return gradient(moved(params, rho, gradient(params, batch)), batch)


def fgr(params, batch, eps, gamma):
    g = gradient(params, batch)
    return mixed(g, gamma / eps, gradient(moved(params, eps, g), batch))


@partial(jax.jit, static_argnames="lam")
def _egr(params, batch, lam):
    def penalised(p):
        return loss(p, batch) + lam * sum((g**2).sum() for g in jax.tree.leaves(jax.grad(loss)(p, batch)))

    return jax.grad(penalised)(params)


def egr(params, batch, lam):
    return {name: np.asarray(d) for name, d in _egr(params, batch, lam).items()}


def guarded(g, d):
    return d if dot(g, d) > 0 else g


def cgd(params, batch, lam):
    g = gradient(params, batch)
    unit = norm(params) / norm(g)
    c = min(max(2 * abs(lam), ACCURATE[g["a"].dtype] * unit), 0.1 * unit)
    nu = max(-1.0, min(2 * lam / c, 1.0))
    return guarded(g, mixed(g, nu, gradient(moved(params, c, g), batch)))


def ratio(params, batch, ratio, seen=None):
    """The penalty's gradient is `ratio` of ‖g‖; with a list of what was seen, by its running mean."""
    g = gradient(params, batch)
    c = ACCURATE[g["a"].dtype] * norm(params) / norm(g)
    plus = gradient(moved(params, c, g), batch)
    relative = norm(mixed({k: 0 * v for k, v in g.items()}, 1, {k: plus[k] - g[k] for k in g})) / norm(g)
    if seen is not None:
        seen.append(relative)
        weights = [0.9**i for i in range(len(seen))]
        relative = sum(w * v for w, v in zip(weights, reversed(seen), strict=True)) / sum(weights)
    return guarded(g, mixed(g, ratio / relative, plus))


def grad_of(batch):
    return lambda params: both(params, batch)[1]
