"""The cost of `steepen.optax.value_and_grad` under `jit`, in units of bare gradients.

    python benchmarks/optax_cost.py --out benchmarks/results      # on a GPU, or on a CPU with smaller shapes
    python benchmarks/optax_cost.py --out benchmarks/results --page docs/optax.md

A two-pass gradient is timed against two bare ones, g at the parameters and then at parameters that depend on
it, in one program; with a fraction of 1/16, against one bare gradient, on a small GPT. All take turns, and a
row is the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import steepen.optax


def perceptron(width: int, rows: int) -> tuple[Callable[..., Any], Any, Any]:
    sizes = [(width, width)] * 4
    keys = jax.random.split(jax.random.key(0), len(sizes) + 1)
    params = [jax.random.normal(k, s) / width**0.5 for k, s in zip(keys, sizes, strict=False)]

    def loss(params: Any, x: Any) -> Any:
        for w in params:
            x = jnp.tanh(x @ w)
        return (x**2).mean()

    return loss, params, jax.random.normal(keys[-1], (rows, width))


def gpt(
    width: int, layers: int, length: int, rows: int, words: int = 4096
) -> tuple[Callable[..., Any], Any, Any]:
    def normal(i: int, *shape: int) -> Any:
        return 0.02 * jax.random.normal(jax.random.key(i), shape)

    blocks = [
        {
            "qkv": normal(4 * i, width, 3 * width), "out": normal(4 * i + 1, width, width),
            "up": normal(4 * i + 2, width, 4 * width), "down": normal(4 * i + 3, 4 * width, width),
        }
        for i in range(layers)
    ]  # fmt: skip
    params = {"tokens": normal(98, words, width), "places": normal(99, length, width), "blocks": blocks}

    def normed(x: Any) -> Any:
        return x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-6)

    def loss(params: Any, tokens: Any) -> Any:
        x = params["tokens"][tokens] + params["places"]
        for block in params["blocks"]:
            q, k, v = jnp.split(normed(x) @ block["qkv"], 3, -1)
            q, k, v = (a.reshape(*a.shape[:-1], width // 64, 64) for a in (q, k, v))
            x = x + jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape) @ block["out"]
            x = x + jax.nn.gelu(normed(x) @ block["up"]) @ block["down"]
        said = jax.nn.log_softmax(normed(x)[:, :-1] @ params["tokens"].T)
        return -jnp.take_along_axis(said, tokens[:, 1:, None], -1).mean()

    return loss, params, jax.random.randint(jax.random.key(100), (rows, length), 0, words)


def timed(calls: dict[str, Any], params: Any, batch: Any, rounds: int) -> dict[str, list[float]]:
    with ThreadPoolExecutor() as pool:
        programs = pool.map(lambda call: jax.jit(call).lower(params, batch).compile(), calls.values())
    called = dict(zip(calls, programs, strict=True))
    for call in called.values():
        jax.block_until_ready(call(params, batch))
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in called.items():
            began = time.perf_counter()
            for _ in range(5):
                out = call(params, batch)
            jax.block_until_ready(out)
            found[name].append(time.perf_counter() - began)
    return found


def main(out: Path, page: Path | None, rounds: int) -> None:
    gpu = jax.devices()[0].platform != "cpu"
    problems = {
        "perceptron": perceptron(4096, 4096) if gpu else perceptron(256, 512),
        "GPT": gpt(768, 8, 512, 32, 16384) if gpu else gpt(128, 2, 32, 32, 256),
    }
    record: dict[str, Any] = {"device": jax.devices()[0].device_kind, "ratios": {}, "milliseconds": {}}
    for name, (loss, params, batch) in problems.items():
        bare = jax.value_and_grad(loss)

        def two(params: Any, batch: Any, bare: Any = bare) -> Any:
            value, g = bare(params, batch)
            return value, bare(jax.tree.map(lambda x, s: x + 1e-3 * s, params, g), batch)[1]

        calls = {
            "one": bare,
            "two": two,
            "fraction": steepen.optax.value_and_grad(loss, rho=0.05, ascent_fraction=1 / 16),
        }
        calls |= {
            kind: steepen.optax.value_and_grad(loss, **{kind: 0.05}) for kind in ("rho", "lam", "ratio")
        }
        found = timed(calls, params, batch, rounds)
        record["milliseconds"][name] = round(200 * statistics.median(found["two"]), 3)
        for kind in ("rho", "lam", "ratio", "fraction"):
            base = "one" if kind == "fraction" else "two"
            ratios = [a / b for a, b in zip(found[kind], found[base], strict=True)]
            record["ratios"][f"{name}, {kind}"] = round(statistics.median(ratios), 3)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "optax_cost.jsonl"
    known = read(path) if path.exists() else []
    records = {one["device"]: one for one in [*known, record]}
    path.write_text("".join(json.dumps(one) + "\n" for one in records.values()), "utf-8")
    print(record)
    if page is not None:
        page.write_text(written(page.read_text("utf-8"), list(records.values())), "utf-8")


def read(path: Path) -> list[dict[str, Any]]:
    """Return what was measured, one record for each device."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def written(text: str, records: list[dict[str, Any]]) -> str:
    """Return a page with the table."""
    rows = list(dict.fromkeys(name for record in records for name in record["ratios"]))
    lines = [
        "| | " + " | ".join(record["device"] for record in records) + " |",
        "|---" * (1 + len(records)) + "|",
    ]
    for name in rows:
        what = "/ one bare gradient" if "fraction" in name else "/ two bare gradients"
        lines.append(
            f"| {name} {what} | " + " | ".join(f"{r['ratios'].get(name, 0):.2f}" for r in records) + " |"
        )
    mark = r"(<!-- cost: written by benchmarks/optax_cost.py -->\n).*?(<!-- /cost -->)"
    return re.sub(mark, lambda m: m[1] + "\n".join(lines) + "\n" + m[2], text, flags=re.DOTALL)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--rounds", type=int, default=30)
    main(**vars(parser.parse_args()))
