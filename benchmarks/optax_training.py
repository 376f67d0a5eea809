"""MNIST-1D by `steepen.optax`, beside the rows of `steepen.torch` in benchmarks/evidence/runs.jsonl.

    python benchmarks/optax_training.py --out benchmarks --page docs/optax.md     # minutes on a CPU

Network, data, schedule, learning rate, weight decay, strength and gradients are those of the torch rows; the
random numbers are not, so means over seeds are compared.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import statistics
import sys
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import steepen.optax as so
from steepen._tools.jobs import JobFile

sys.path.append(str(Path(__file__).parents[1]))
from benchmarks.training.data import load_data

BATCH, GRADIENTS, WATCHED = 100, 4000, 200
EVIDENCE = Path(__file__).parent / "evidence" / "runs.jsonl"
COST = {"base": 1.0, "sam": 2.0, "share16-late": 1 + 0.5 * 0.06, "gap": 1 + 0.06 / 3, "msam": 1.0}
NAMES = {"base": "SGD", "sam": "SAM", "share16-late": "SAM from 1/16 of the batch, last half", "msam": "MSAM"}
NAMES |= {"gap": "GapSAM, without the gate", "gap, gate": "GapSAM"}


def torch_rows(method: str) -> list[dict[str, Any]]:
    """Return the final runs of a method."""
    records = JobFile(EVIDENCE, ("task", "method", "stage", "trial", "seed")).read()
    return [row for key, row in records.items() if key[:3] == ("mnist1d-mlp", method, "final")]


def initial(key: Any, sizes: tuple[int, ...]) -> Any:
    """Return weights as torch draws them."""
    shapes = list(itertools.pairwise(sizes))
    keys = jax.random.split(key, 2 * len(shapes))

    def uniform(key: Any, fan: int, shape: tuple[int, ...]) -> Any:
        return jax.random.uniform(key, shape, minval=-1, maxval=1) / fan**0.5

    draws = zip(shapes, keys[::2], keys[1::2], strict=True)
    return [(uniform(k, a, (a, b)), uniform(q, a, (b,))) for (a, b), k, q in draws]


def loss(params: Any, batch: Any) -> Any:
    x, y = batch
    for w, b in params[:-1]:
        x = jax.nn.relu(x @ w + b)
    logits = x @ params[-1][0] + params[-1][1]
    return optax.losses.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def train(method: str, lr: float, decay: float, rho: float, data: Any, test: Any, seed: Any) -> Any:
    """Return the test loss at the end of a run."""
    kind, _, gated = method.partition(", ")
    steps = round(GRADIENTS / COST[kind])
    rise = round(0.05 * steps)
    rate = optax.warmup_cosine_decay_schedule(0.0, lr, rise, steps)
    opt = optax.chain(optax.add_decayed_weights(decay), optax.sgd(rate, momentum=0.9))
    if kind == "gap":
        opt = so.gap_sam(opt, steps, **({} if gated else {"gate": None}))
        watched, data = (
            jax.tree.map(lambda a: a[-WATCHED:], data),
            jax.tree.map(lambda a: a[:-WATCHED], data),
        )
    elif kind == "msam":
        opt = so.msam(opt, lambda k: jnp.where(k < rise, 0.0, rho))
    start, order = jax.random.split(jax.random.key(seed))
    params = initial(start, (data[0].shape[1], 100, 100, 10))
    per_pass = len(data[0]) // BATCH
    orders = jax.vmap(lambda k: jax.random.permutation(k, len(data[0])))(
        jax.random.split(order, -(-steps // per_pass))
    )
    rows = orders[:, : per_pass * BATCH].reshape(-1, BATCH)[:steps]

    def step(carry: Any, now: Any) -> Any:
        params, state = carry
        k, rows = now
        batch = jax.tree.map(lambda a: a[rows], data)
        bare, part = jax.value_and_grad(lambda p: loss(p, batch)), jax.tree.map(lambda a: a[:6], batch)
        if kind == "gap":
            told = so.record_validation_loss(state, loss(params, watched))
            due = k % (steps // 50) == 0
            state = jax.tree.map(lambda a, b: jnp.where(due, a, b), told, state)
            updates, state = opt.update(jax.grad(loss)(params, part), state, params, value_and_grad_fn=bare)
        else:
            _, grads = bare(params)
            if kind == "sam":
                _, grads = so.value_and_grad(loss, rho=rho)(params, batch)
            elif kind == "share16-late":
                length = jnp.where(k >= steps // 2, rho, 0.0)
                _, grads = so.value_and_grad(loss, rho=length, ascent_fraction=0.06)(params, batch)
            updates, state = opt.update(grads, state, params)
        return (optax.apply_updates(params, updates), state), None

    (params, state), _ = jax.lax.scan(step, (params, opt.init(params)), (jnp.arange(steps), rows))
    return loss(so.eval_params(state, params) if kind == "msam" else params, test)


def main(out: Path, page: Path | None, seeds: int) -> None:
    found = load_data("mnist1d")
    data, test = (
        (jnp.asarray(x.numpy(), jnp.float32), jnp.asarray(y.numpy()))
        for x, y in ((found.x, found.y), (found.x_test, found.y_test))
    )
    records = []
    for method, name in NAMES.items():
        theirs = torch_rows(method.partition(",")[0])
        lr, decay, rho = (theirs[0][k] for k in ("lr", "decay", "strength"))
        run = jax.jit(jax.vmap(partial(train, method, lr, decay, rho, data, test)))
        ours = np.asarray(run(jnp.arange(seeds)))
        records.append(
            {
                "row": name,
                "lr": lr,
                "decay": decay,
                "rho": rho,
                "optax": [round(float(v), 4) for v in ours],
                "torch": [] if "gate" in method else [row["loss"] for row in theirs],
            }
        )
        print(records[-1], flush=True)
    path = out / "optax_training.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    if page is not None:
        write(page, records)


def write(page: Path, records: list[dict[str, Any]]) -> None:
    def said(values: list[float]) -> str:
        error = statistics.stdev(values) / len(values) ** 0.5 if values else 0.0
        return f"{statistics.mean(values):.3f} ± {error:.3f}" if values else "–"

    lines = ["| MNIST-1D, perceptron: test loss | optax | torch |", "|---|---|---|"]
    lines += [f"| {r['row']} | {said(r['optax'])} | {said(r['torch'])} |" for r in records]
    mark = r"(<!-- training: written by benchmarks/optax_training.py -->\n).*?(<!-- /training -->)"
    text = page.read_text("utf-8")
    page.write_text(
        re.sub(mark, lambda m: m[1] + "\n".join(lines) + "\n" + m[2], text, flags=re.DOTALL), "utf-8"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    main(**vars(parser.parse_args()))
