"""MNIST-1D and characters by `steepen.optax`, beside the rows of `steepen.torch` in benchmarks/evidence.

    python benchmarks/optax_training.py mnist1d --out benchmarks --page docs/optax.md     # minutes on a CPU
    python benchmarks/optax_training.py characters --data DIR --out benchmarks --page docs/optax.md    # a GPU

Network, data, schedule, learning rate, weight decay, strength and gradients are those of the torch rows; the
random numbers are not, so means over seeds are compared. DIR holds text.txt, by benchmarks/evidence/work.py.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import steepen.optax as so
from steepen._tools.jobs import JobFile

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent / "evidence")]

EVIDENCE = Path(__file__).parent / "evidence" / "runs.jsonl"
NAMES = {"base": "SGD", "sam": "SAM", "share16-late": "SAM from 1/16 of the batch, last half", "msam": "MSAM"}
NAMES |= {"gap": "GapSAM, without the gate", "gate": "GapSAM"}
TITLES = {"mnist1d": "MNIST-1D, perceptron", "characters": "characters, transformer"}
ROWS = {"mnist1d": "mnist1d-mlp", "characters": "characters"}  # the tasks' names in the evidence


class Task(NamedTuple):
    """What is trained: `watched` are the rows that GapSAM watches, and is trained on in the end only."""

    data: Any
    test: Any
    watched: np.ndarray
    batch: int
    gradients: int
    initial: Callable[[Any], Any]
    loss: Callable[[Any, Any], Any]
    base: Callable[[Any, float], Any]

    @property
    def part(self) -> int:
        """The examples of a sixteenth of a batch."""
        return self.batch // 16

    def steps(self, method: str) -> int:
        """Return the steps that the gradients of a run are enough for."""
        costs = {"sam": 1.0, "share16-late": 0.5 * self.part / self.batch}
        return int(self.gradients / (1 + costs.get(method, 0.0)))


def cross_entropy(logits: Any, y: Any) -> Any:
    return optax.losses.softmax_cross_entropy_with_integer_labels(logits.astype(jnp.float32), y).mean()


def uniform(key: Any, fan: int, shape: tuple[int, ...]) -> Any:
    """Return weights as torch draws those of a linear layer."""
    return jax.random.uniform(key, shape, minval=-1, maxval=1) / fan**0.5


def mnist1d(folder: Path | None) -> Task:
    from benchmarks.training.data import load_data

    found = load_data("mnist1d")
    data, test = (
        (jnp.asarray(x.numpy(), jnp.float32), jnp.asarray(y.numpy()))
        for x, y in ((found.x, found.y), (found.x_test, found.y_test))
    )
    shapes = list(itertools.pairwise((data[0].shape[1], 100, 100, 10)))

    def initial(key: Any) -> Any:
        keys = jax.random.split(key, 2 * len(shapes))
        draws = zip(shapes, keys[::2], keys[1::2], strict=True)
        return [(uniform(k, a, (a, b)), uniform(q, a, (b,))) for (a, b), k, q in draws]

    def loss(params: Any, batch: Any) -> Any:
        x, y = batch
        for w, b in params[:-1]:
            x = jax.nn.relu(x @ w + b)
        return cross_entropy(x @ params[-1][0] + params[-1][1], y)

    def base(rate: Any, decay: float) -> Any:
        return optax.chain(optax.add_decayed_weights(decay), optax.sgd(rate, momentum=0.9))

    last = np.arange(len(data[0]) - 200, len(data[0]))
    return Task(data, test, last, 100, 4000, initial, loss, base)


def characters(folder: Path | None) -> Task:
    """Return lines of 128 characters for a transformer of width 256, with products in bfloat16."""
    from tasks import text, whole_files

    if folder is None:
        raise ValueError("data: expected the folder of text.txt, --data DIR; got none")
    found, width, heads, depth = text(folder), 256, 4, 4
    data, test = (
        (jnp.asarray(x.numpy(), jnp.int32), jnp.asarray(y.numpy(), jnp.int32))
        for x, y in ((found.x, found.y), (found.x_test, found.y_test))
    )
    count, length = 1 + int(max(found.y.max(), found.y_test.max())), data[0].shape[1]
    shapes = {"qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width)}
    shapes |= {"down": (4 * width, width)}
    unit = {"scale": jnp.ones(width), "shift": jnp.zeros(width)}

    def initial(key: Any) -> Any:
        keys = iter(jax.random.split(key, 100))

        def linear(shape: tuple[int, int]) -> Any:
            weight = 0.02 * jax.random.normal(next(keys), shape)
            return {"w": weight, "b": uniform(next(keys), shape[0], shape[1:])}

        layers = [
            {name: linear(shape) for name, shape in shapes.items()} | {"norm1": unit, "norm2": unit}
            for _ in range(depth)
        ]
        tables = {name: 0.02 * jax.random.normal(next(keys), (n, width)) for name, n in
                  (("tokens", count), ("places", length))}  # fmt: skip
        return tables | {"layers": layers, "norm": unit, "head": linear((width, count))}

    def apply(layer: Any, x: Any) -> Any:
        return x.astype(jnp.bfloat16) @ layer["w"].astype(jnp.bfloat16) + layer["b"].astype(jnp.bfloat16)

    def normed(norm: Any, x: Any) -> Any:
        x = x - x.mean(-1, keepdims=True)
        return norm["scale"] * x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) + norm["shift"]

    def loss(params: Any, batch: Any) -> Any:
        tokens, y = batch
        x = params["tokens"][tokens] + params["places"]
        for layer in params["layers"]:
            parts = jnp.split(apply(layer["qkv"], normed(layer["norm1"], x)), 3, -1)
            q, k, v = (a.reshape(*a.shape[:-1], heads, width // heads) for a in parts)
            seen = jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape)
            x = x + apply(layer["out"], seen)
            up = jax.nn.gelu(apply(layer["up"], normed(layer["norm2"], x)), approximate=False)
            x = x + apply(layer["down"], up)
        return cross_entropy(apply(params["head"], normed(params["norm"], x)), y)

    def base(rate: Any, decay: float) -> Any:
        return optax.adamw(rate, weight_decay=decay)

    watched = whole_files(folder).numpy()
    return Task(data, test, watched, 128, 1875, initial, loss, base)


TASKS = {"mnist1d": mnist1d, "characters": characters}


def taken(data: Any, rows: Any) -> Any:
    return jax.tree.map(lambda a: a[rows], data)


def train(task: Task, method: str, lr: float, decay: float, rho: float, seed: Any) -> Any:
    """Return the parameters at the end of a run."""
    from benchmarks.training.methods import BACK

    steps, data, loss, gap = task.steps(method), task.data, task.loss, method in ("gap", "gate")
    rise, every = round(0.05 * steps), np.arange(len(data[0]))
    rate = optax.warmup_cosine_decay_schedule(0.0, lr, rise, steps)
    opt = task.base(1.0 if gap else rate, decay)
    if gap:
        opt = so.gap_sam(opt, steps, **({} if method == "gate" else {"gate": None}))
    elif method == "msam":
        opt = so.msam(opt, lambda k: jnp.where(k < rise, 0.0, rho))
    start, order = jax.random.split(jax.random.key(seed))
    params = task.initial(start)

    def batches(rows: np.ndarray) -> Any:
        per_pass = len(rows) // task.batch
        keys = jax.random.split(order, -(-steps // per_pass))
        orders = jnp.asarray(rows)[jax.vmap(lambda k: jax.random.permutation(k, len(rows)))(keys)]
        return orders[:, : per_pass * task.batch].reshape(-1, task.batch)[:steps]

    def gap_step(carry: Any, now: Any) -> Any:
        """Take a step of GapSAM: its rate falls by gradients spent, and the run ends when these are."""
        params, state = carry
        k, rows, all_rows = now
        spent = state.steps + state.perturbed * task.part / task.batch
        back = (spent >= BACK * steps) & (method == "gate")  # what was watched is trained on
        batch = taken(data, jnp.where(back, all_rows, rows))

        def told(state: Any) -> Any:
            new = so.record_validation_loss(state, loss(params, taken(data, task.watched)))
            return jax.tree.map(lambda a, b: jnp.where(back, a, b), state, new)

        known = jax.lax.cond(k % (steps // 50) == 0, told, lambda state: state, state)  # one k for all seeds
        part = taken(batch, slice(task.part))
        both = jax.value_and_grad(lambda p: loss(p, batch))
        updates, new = opt.update(jax.grad(loss)(params, part), known, params, value_and_grad_fn=both)
        moved = optax.apply_updates(params, jax.tree.map(lambda u: rate(spent) * u, updates))
        return jax.tree.map(lambda a, b: jnp.where(steps - spent >= 1, a, b), (moved, new), carry), None

    def step(carry: Any, now: Any) -> Any:
        params, state = carry
        k, rows = now
        batch, gradient = taken(data, rows), jax.value_and_grad(loss)
        if method == "sam":
            gradient = so.value_and_grad(loss, rho=rho)
        elif method == "share16-late":
            length = jnp.where(k >= steps // 2, rho, 0.0)
            gradient = so.value_and_grad(loss, rho=length, ascent_fraction=task.part / task.batch)
        updates, state = opt.update(gradient(params, batch)[1], state, params)
        return (optax.apply_updates(params, updates), state), None

    if gap:
        given = jnp.arange(steps), batches(np.setdiff1d(every, task.watched)), batches(every)
    else:
        given = jnp.arange(steps), batches(every)
    (params, state), _ = jax.lax.scan(gap_step if gap else step, (params, opt.init(params)), given)
    return so.eval_params(state, params) if method == "msam" else params


def tested(task: Task, params: Any) -> Any:
    """Return the test loss."""
    n = len(task.test[0])
    parts = jax.tree.map(lambda a: a.reshape(-1, n // 10, *a.shape[1:]), task.test)
    return jax.lax.map(lambda part: task.loss(params, part), parts).mean()


def torch_rows(task: str, method: str) -> list[dict[str, Any]]:
    """Return the final runs of a method by torch."""
    records = JobFile(EVIDENCE, ("task", "method", "stage", "trial", "seed")).read()
    return [row for key, row in records.items() if key[:3] == (ROWS[task], method, "final")]


def row_of(task: str, method: str) -> str:
    """Return the name of a row."""
    return "AdamW" if (task, method) == ("characters", "base") else NAMES[method]


def main(task: str, data: Path | None, out: Path, page: Path | None, seeds: int) -> None:
    made, path = TASKS[task](data), out / "optax_training.jsonl"
    known = {(r["task"], r["row"]) for r in read(path)}
    for method in NAMES:
        row = row_of(task, method)
        if (task, row) in known:
            continue
        values = {k: torch_rows(task, method)[0][k] for k in ("lr", "decay", "strength")}
        run = jax.jit(
            jax.vmap(lambda seed, m=method, v=values: tested(made, train(made, m, *v.values(), seed)))
        )
        ours = np.asarray(run(jnp.arange(seeds)))
        record = {"task": task, "row": row, "device": jax.devices()[0].device_kind}
        record |= values | {"optax": ours.astype(float).round(4).tolist()}
        print(record, flush=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
    if page is not None:
        write(page, path)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def write(page: Path, path: Path) -> None:
    def said(values: list[float]) -> str:
        return f"{statistics.mean(values):.3f} ± {statistics.stdev(values) / len(values) ** 0.5:.3f}"

    lines = ["| test loss | optax | torch |", "|---|---|---|"]
    ours = {(r["task"], r["row"]): r["optax"] for r in read(path)}
    for (task, title), method in itertools.product(TITLES.items(), NAMES):
        row, theirs = row_of(task, method), [one["loss"] for one in torch_rows(task, method)]
        if (task, row) in ours:
            lines.append(f"| {title}: {row} | {said(ours[task, row])} | {said(theirs)} |")
    mark = r"(<!-- training: written by benchmarks/optax_training.py -->\n).*?(<!-- /training -->)"
    text = page.read_text("utf-8")
    page.write_text(
        re.sub(mark, lambda m: m[1] + "\n".join(lines) + "\n" + m[2], text, flags=re.DOTALL), "utf-8"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    main(**vars(parser.parse_args()))
