"""A reward that can be hacked: GRPO on a small transformer, with no penalty, with KL, and with ours.

The model reads eight letters and is to write them again. The *true* reward is the part of them that is right.
The *proxy*, which is trained on, adds a fault: it also pays for each "!", more than for a right letter. A
model that was taught the task hardly writes any; one that finds the fault loses the task. Rows: no penalty,
a KL penalty to the taught model (β), and the penalty on the gradient (a ratio, embeddings left out). The
strength of each is chosen on seeds of their own, by the true reward at the end; all values are written.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import steepen.optax

LETTERS, BANG, START, LENGTH = 16, 16, 17, 8  # 18 tokens: letters, "!", and the mark before an answer
ROWS = {"no penalty": (0.0,), "KL": (0.1, 0.3, 1.0, 3.0, 10.0, 30.0), "ratio": (0.3, 0.5, 0.7, 1.0, 1.4, 2.0)}


@dataclass(frozen=True)
class Setting:
    """The size of a run."""

    width: int = 64
    layers: int = 2
    heads: int = 4
    taught: int = 400  # steps of the first lesson
    steps: int = 300
    prompts: int = 16
    group: int = 8
    lr: float = 3e-4
    bonus: float = 1.5  # what the proxy pays for a "!", in right letters


TINY = Setting(width=16, layers=1, heads=2, taught=20, steps=10, prompts=4, group=4)


def new_model(key: Any, s: Setting) -> Any:
    def normal(*shape: int) -> Any:
        nonlocal key
        key, now = jax.random.split(key)
        return 0.02 * jax.random.normal(now, shape)

    w = s.width
    layers = [
        {"qkv": normal(w, 3 * w), "out": normal(w, w), "up": normal(w, 4 * w), "down": normal(4 * w, w)}
        | {"norm1": jnp.ones(w), "norm2": jnp.ones(w)}
        for _ in range(s.layers)
    ]
    tables = {"tokens": normal(START + 1, w), "places": normal(2 * LENGTH + 1, w)}
    return {"embeddings": tables, "layers": layers, "norm": jnp.ones(w), "head": normal(w, START + 1)}


def normed(x: Any, scale: Any) -> Any:
    return scale * x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-6)


def logits_of(model: Any, tokens: Any, s: Setting) -> Any:
    """Return the logits of the next token, for every place of a sequence."""
    n = tokens.shape[-1]
    x = model["embeddings"]["tokens"][tokens] + model["embeddings"]["places"][:n]
    for layer in model["layers"]:
        q, k, v = jnp.split(normed(x, layer["norm1"]) @ layer["qkv"], 3, -1)
        q, k, v = (a.reshape(*a.shape[:-1], s.heads, -1) for a in (q, k, v))
        x = x + jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape) @ layer["out"]
        x = x + jax.nn.gelu(normed(x, layer["norm2"]) @ layer["up"]) @ layer["down"]
    return normed(x, model["norm"]) @ model["head"]


def answer_log_probs(model: Any, tokens: Any, s: Setting) -> Any:
    """Return the log probabilities of all tokens at the places of the answer."""
    return jax.nn.log_softmax(logits_of(model, tokens[..., :-1], s)[..., LENGTH:, :])


def sample(model: Any, prompt: Any, key: Any, s: Setting) -> Any:
    """Write an answer after each prompt."""
    start = jnp.concatenate([prompt, jnp.full((len(prompt), LENGTH + 1), START)], -1)

    def write(tokens: Any, at: Any) -> Any:
        k, key = at
        logits = logits_of(model, tokens, s)[:, LENGTH + k]
        return tokens.at[:, LENGTH + 1 + k].set(jax.random.categorical(key, logits)), None

    return jax.lax.scan(write, start, (jnp.arange(LENGTH), jax.random.split(key, LENGTH)))[0]


def rewards(tokens: Any, s: Setting) -> tuple[Any, Any]:
    """Return the true reward and the proxy."""
    right = (tokens[..., LENGTH + 1 :] == tokens[..., :LENGTH]).mean(-1)
    return right, right + s.bonus * (tokens[..., LENGTH + 1 :] == BANG).mean(-1)


def taught(key: Any, s: Setting) -> Any:
    """Return a model that was shown right answers, a few of them with a "!"."""
    key, start = jax.random.split(key)
    opt = optax.adam(3e-3)
    model = new_model(start, s)

    def loss(model: Any, tokens: Any) -> Any:
        said = answer_log_probs(model, tokens, s)
        return -jnp.take_along_axis(said, tokens[:, LENGTH + 1 :, None], -1).mean()

    def step(carry: Any, key: Any) -> Any:
        model, state = carry
        draw, stray = jax.random.split(key)
        prompt = jax.random.randint(draw, (128, LENGTH), 0, LETTERS)
        answer = jnp.where(jax.random.uniform(stray, prompt.shape) < 0.03, BANG, prompt)
        tokens = jnp.concatenate([prompt, jnp.full((128, 1), START), answer], -1)
        moves, state = opt.update(jax.grad(loss)(model, tokens), state, model)
        return (optax.apply_updates(model, moves), state), None

    return jax.lax.scan(step, (model, opt.init(model)), jax.random.split(key, s.taught))[0][0]


def train(row: str, s: Setting, seed: Any, value: Any) -> Any:
    """Return true reward, proxy and KL over the run."""
    first, key = jax.random.split(jax.random.key(seed))
    reference = taught(first, s)
    opt = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(s.lr))

    def loss(model: Any, batch: Any) -> Any:
        tokens, advantage = batch
        said, before = answer_log_probs(model, tokens, s), answer_log_probs(reference, tokens, s)
        kl = (jnp.exp(said) * (said - before)).sum(-1).mean()
        chosen = jnp.take_along_axis(said, tokens[:, LENGTH + 1 :, None], -1)[..., 0]
        return -(chosen.mean(-1) * advantage).mean() + (value * kl if row == "KL" else 0.0), kl

    gradient = jax.value_and_grad(loss, has_aux=True)
    if row == "ratio":
        mask = {"embeddings": False, "layers": True, "norm": True, "head": True}
        gradient = steepen.optax.value_and_grad(loss, ratio=value, mask=mask, has_aux=True)

    def step(carry: Any, key: Any) -> Any:
        model, state = carry
        draw, write = jax.random.split(key)
        prompt = jnp.repeat(jax.random.randint(draw, (s.prompts, LENGTH), 0, LETTERS), s.group, 0)
        tokens = sample(model, prompt, write, s)
        true, proxy = rewards(tokens, s)
        groups = proxy.reshape(s.prompts, s.group)
        advantage = (groups - groups.mean(1, keepdims=True)) / (groups.std(1, keepdims=True) + 1e-4)
        (_, kl), grads = gradient(model, (tokens, advantage.reshape(-1)))
        moves, state = opt.update(grads, state, model)
        return (optax.apply_updates(model, moves), state), jnp.stack([true.mean(), proxy.mean(), kl])

    start = (reference, opt.init(reference))
    return jax.lax.scan(step, start, jax.random.split(key, s.steps))[1]


def run(row: str, setting: Setting, seeds: int = 16, trial_seeds: int = 4) -> dict[str, Any]:
    """Try the values of a row, and train with the best."""
    values = ROWS[row]
    pairs = [(seed, value) for value in values for seed in range(1000, 1000 + trial_seeds)]
    seed, value = (jnp.asarray(column) for column in zip(*pairs, strict=True))
    called = jax.jit(jax.vmap(lambda seed, value: train(row, setting, seed, value)))
    began = time.perf_counter()
    found = np.asarray(called(seed, value)).reshape(len(values), trial_seeds, setting.steps, 3)
    tenth = max(1, setting.steps // 10)
    ends = found[:, :, -tenth:].mean((1, 2))  # true, proxy and KL of each value
    best = int(np.nanargmax(ends[:, 0]))
    final = np.asarray(called(jnp.arange(seeds), jnp.full(seeds, values[best])))
    every = max(1, setting.steps // 30)
    return {
        "value": values[best], "seconds": round(time.perf_counter() - began, 1),
        "tried": {f"{v:g}": [round(float(x), 4) for x in e] for v, e in zip(values, ends, strict=True)},
        "end": final[:, -tenth:].mean(1).astype(float).round(4).tolist(), "every": every,
        "curve": np.median(final, 0)[::every].astype(float).round(4).tolist(), "setting": vars(setting),
        "device": jax.devices()[0].device_kind,
    }  # fmt: skip
