"""The study of `steepen.optax`: MNIST-1D and characters, beside the rows of `steepen.torch`.

Network, data, schedule, learning rate, weight decay, strength and gradients are those of the torch rows; the
random numbers are not, so means over seeds are compared. `gate-drawn` has torch's random numbers too: its
initial weights and its batches. One program makes all seeds of a row.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from benchmarks.evidence.jobs import NETWORKS
from benchmarks.evidence.methods import RETURNED
from benchmarks.evidence.pages import cell, markdown, pair
from benchmarks.evidence.runner import Records, Study

import steepen.optax as so

NAMES = {"base": "SGD", "sam": "SAM", "share16-late": "SAM from 1/16 of the batch, last half", "msam": "MSAM"}
NAMES |= {"gap": "GapSAM, without the gate", "gate": "GapSAM"}
NAMES |= {"gate-drawn": "GapSAM, torch's initial weights and batches"}
GAPS = ("gap", "gate")
TITLES = {"optax-mnist1d": "MNIST-1D, perceptron", "optax-characters": "characters, transformer"}
ROWS = {"optax-mnist1d": "mnist1d-mlp", "optax-characters": "characters"}  # the tasks of torch
DRAWN = ("optax-mnist1d", "gate-drawn")
SEEDS = {("optax-mnist1d", "gate"): 25, DRAWN: 15}  # 5 of the other rows


class Draws(NamedTuple):
    """What is random in a run: weights, and the batch of each step, before and after data is returned."""

    params: Any
    rows: Any
    all_rows: Any


class Task(NamedTuple):
    """What is trained: `watched` are the rows that GapSAM watches, and is trained on in the end only."""

    data: Any
    test: Any
    watched: np.ndarray
    batch: int
    gradients: int
    initial: Callable[[Any], Any]
    logits: Callable[[Any, Any], Any]  # of parameters and examples
    base: Callable[[Any, float], Any]

    def loss(self, params: Any, batch: Any) -> Any:
        """Return the mean cross-entropy."""
        x, y = batch
        scores = self.logits(params, x).astype(jnp.float32)
        return optax.losses.softmax_cross_entropy_with_integer_labels(scores, y).mean()

    @property
    def part(self) -> int:
        """The examples of a sixteenth of a batch."""
        return self.batch // 16

    def steps(self, method: str) -> int:
        """Return the steps that the gradients of a run are enough for."""
        costs = {"sam": 1.0, "share16-late": 0.5 * self.part / self.batch}
        return int(self.gradients / (1 + costs.get(method, 0.0)))


def uniform(key: Any, fan: int, shape: tuple[int, ...]) -> Any:
    """Return weights as torch draws those of a linear layer."""
    return jax.random.uniform(key, shape, minval=-1, maxval=1) / fan**0.5


def mnist1d(folder: Path) -> Task:
    from benchmarks.evidence.data import load_data

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

    def logits(params: Any, x: Any) -> Any:
        for w, b in params[:-1]:
            x = jax.nn.relu(x @ w + b)
        return x @ params[-1][0] + params[-1][1]

    def base(rate: Any, decay: float) -> Any:
        return optax.chain(optax.add_decayed_weights(decay), optax.sgd(rate, momentum=0.9))

    last = np.arange(len(data[0]) - 200, len(data[0]))
    return Task(data, test, last, 100, 4000, initial, logits, base)


def characters(folder: Path) -> Task:
    """Return lines of 128 characters for a transformer of width 256, with products in bfloat16."""
    from benchmarks.evidence.tasks import text, whole_files

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

    def logits(params: Any, tokens: Any) -> Any:
        x = params["tokens"][tokens] + params["places"]
        for layer in params["layers"]:
            parts = jnp.split(apply(layer["qkv"], normed(layer["norm1"], x)), 3, -1)
            q, k, v = (a.reshape(*a.shape[:-1], heads, width // heads) for a in parts)
            seen = jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape)
            x = x + apply(layer["out"], seen)
            up = jax.nn.gelu(apply(layer["up"], normed(layer["norm2"], x)), approximate=False)
            x = x + apply(layer["down"], up)
        return apply(params["head"], normed(params["norm"], x))

    def base(rate: Any, decay: float) -> Any:
        return optax.adamw(rate, weight_decay=decay)

    watched = whole_files(folder).numpy()
    return Task(data, test, watched, 128, 1875, initial, logits, base)


TASKS = {"optax-mnist1d": mnist1d, "optax-characters": characters}


def taken(data: Any, rows: Any) -> Any:
    return jax.tree.map(lambda a: a[rows], data)


def drawn(task: Task, method: str, seed: Any) -> Draws:
    """Return what JAX draws."""
    steps, every = task.steps(method), np.arange(len(task.data[0]))
    start, order = jax.random.split(jax.random.key(seed))

    def batches(rows: np.ndarray) -> Any:
        per_pass = len(rows) // task.batch
        keys = jax.random.split(order, -(-steps // per_pass))
        orders = jnp.asarray(rows)[jax.vmap(lambda k: jax.random.permutation(k, len(rows)))(keys)]
        return orders[:, : per_pass * task.batch].reshape(-1, task.batch)[:steps]

    first = np.setdiff1d(every, task.watched) if method in GAPS else every
    return Draws(task.initial(start), batches(first), batches(every))


def drawn_by_torch(task: Task, seeds: int) -> Draws:
    """Return what torch draws for GapSAM on MNIST-1D, of all seeds."""
    from benchmarks.evidence.networks import mlp
    from torch import arange

    from steepen.train.training import batches

    steps, watched = task.steps("gate"), len(task.watched)
    spent = np.arange(steps) + task.part / task.batch * (np.arange(steps) - steps / 3).clip(0) / 2
    turn = int((spent < RETURNED * steps).sum())  # from here on all examples are trained on, in a new order

    def rows(examples: int, seed: int) -> np.ndarray:
        found = itertools.islice(batches(arange(examples), task.batch, seed), steps)
        return np.stack([one.numpy() for one in found])

    def of(seed: int) -> Draws:
        shapes = len(task.data[0]), task.data[0].shape[1]
        p = [one.detach().numpy() for one in mlp(shapes[1], 100, seed).parameters()]
        late = np.roll(rows(shapes[0], seed), turn, axis=0)
        return Draws(
            [(w.T, b) for w, b in zip(p[::2], p[1::2], strict=True)], rows(shapes[0] - watched, seed), late
        )

    return jax.tree.map(lambda *parts: jnp.stack(parts), *map(of, range(seeds)))


def train(task: Task, method: str, lr: float, decay: float, rho: float, draws: Draws) -> Any:
    """Return the parameters at the end of a run."""
    steps, data, loss, gap = task.steps(method), task.data, task.loss, method in GAPS
    rise = round(0.05 * steps)
    rate = optax.warmup_cosine_decay_schedule(0.0, lr, rise, steps)
    opt = task.base(1.0 if gap else rate, decay)
    if gap:
        opt = so.gap_sam(opt, steps, **({} if method == "gate" else {"gate": None}))
    elif method == "msam":
        opt = so.msam(opt, lambda k: jnp.where(k < rise, 0.0, rho))
    params = draws.params

    def gap_step(carry: Any, now: Any) -> Any:
        """Take a step of GapSAM: its rate falls by gradients spent, and the run ends when these are."""
        params, state = carry
        k, rows, all_rows = now
        spent = state.steps + state.perturbed * task.part / task.batch
        back = (spent >= RETURNED * steps) & (method == "gate")  # what was watched is trained on
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

    given = jnp.arange(steps), draws.rows, *([draws.all_rows] if gap else [])
    (params, state), _ = jax.lax.scan(gap_step if gap else step, (params, opt.init(params)), given)
    return so.eval_params(state, params) if method == "msam" else params


def tested(task: Task, params: Any) -> tuple[Any, Any]:
    """Return test loss and accuracy."""
    n = len(task.test[0])
    parts = jax.tree.map(lambda a: a.reshape(-1, n // 10, *a.shape[1:]), task.test)
    right = lambda part: (task.logits(params, part[0]).argmax(-1) == part[1]).mean()  # noqa: E731
    return tuple(
        jax.lax.map(lambda part: (task.loss(params, part), right(part)), parts)[i].mean() for i in (0, 1)
    )


def torch_rows(task: str, method: str) -> list[tuple[float, float]]:
    """Return test losses and accuracies of a method by torch."""
    method = method.removesuffix("-drawn")
    runs = NETWORKS.read().items()
    final = [run for job, run in runs if job[:3] == (ROWS[task], method, "final") and "error" not in run]
    return [(run["loss"], run["accuracy"]) for run in final]


class WithOptax(Study):
    """The rows that torch has, with its settings."""

    name = "optax"
    fields = ("task", "method")
    tasks = tuple(ROWS)

    def rows(self, task: str) -> Sequence[str]:
        return tuple(name for name in NAMES if name != DRAWN[1] or task == DRAWN[0])

    def jobs(self, task: str, rows: Sequence[str], seeds: int | None = None) -> Iterator[Any]:
        yield from ((task, method) for method in rows)

    def values(self, job: Any, done: Records) -> dict[str, float] | None:
        """Return the settings of the row by torch."""
        task, method = job[0], job[1].removesuffix("-drawn")
        runs = NETWORKS.read().items()
        own = [run for key, run in runs if key[:3] == (ROWS[task], method, "final") and "error" not in run]
        return {name: own[0][name] for name in ("lr", "decay", "strength")} if own else None

    def bench(self, task: str, data: Path, device: str, toy: bool) -> Task:
        made = TASKS[task](data)
        return made._replace(gradients=60) if toy else made

    def make(self, job: Any, values: dict[str, float], bench: Task) -> dict[str, Any]:
        method, seeds = job[1].removesuffix("-drawn"), SEEDS.get(job, 5)

        def ends(draws: Draws) -> Any:
            return tested(bench, train(bench, method, *values.values(), draws))

        if job == DRAWN:
            found = jax.jit(jax.vmap(ends))(drawn_by_torch(bench, seeds))
        else:
            found = jax.jit(jax.vmap(lambda seed: ends(drawn(bench, method, seed))))(jnp.arange(seeds))
        losses, accuracies = (np.asarray(part).astype(float).round(4).tolist() for part in found)
        found = {"losses": losses, "accuracies": accuracies}
        return {"device": jax.devices()[0].device_kind} | values | found


WITH_OPTAX = WithOptax()


def table() -> str:
    """Return test loss and accuracy of both packages; accuracy was not recorded in the first runs."""
    lines, done = [["test loss / accuracy in %", "optax", "torch"]], WITH_OPTAX.read()
    for (task, title), method in itertools.product(TITLES.items(), NAMES):
        own = done.get((task, method))
        if own is None:
            continue
        name = "AdamW" if (task, method) == ("optax-characters", "base") else NAMES[method]
        known = "accuracies" in own
        ours = (
            pair(list(zip(own["losses"], own["accuracies"], strict=True))) if known else cell(own["losses"])
        )
        lines.append([f"{title}: {name}", ours, pair(torch_rows(task, method))])
    return markdown(lines)
