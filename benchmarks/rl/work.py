"""Does a penalty on the policy's gradient make policies robust? PPO, and PPO with an ascent step.

    python benchmarks/rl/work.py classic --out DIR --seeds 20          # CartPole, Acrobot, Pendulum
    python benchmarks/rl/work.py minatar --out DIR --seeds 16          # MinAtar, for a GPU
    python benchmarks/rl/work.py time --out DIR                        # seconds of an update
    python benchmarks/rl/report.py --results DIR --page docs/rl.md

Every row has as many environment steps. The strength of a row is chosen among three values on seeds of their
own, by the mean return over all conditions; then come the seeds that are reported. A line of JSON is all
seeds of a row; a row that has a line is not run again, so a command that is cut short is run once more.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import gymnax
import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from ppo_jax import Config, make_gradient, make_loss, make_train

EPISODES = 16  # a condition and a seed
TRIALS = 1000  # the first seed of those that strengths are chosen on


@dataclass(frozen=True)
class Row:
    """A way to train: what it changes in PPO, and the values that are tried."""

    changes: dict[str, Any]
    values: tuple[float, ...] = ()
    what: str = "strength"  # or the argument of `train` that the values are for


NONE = {"ascent": "none"}
ROWS = {
    "PPO": Row(NONE),
    "PPO, clipping tuned": Row(NONE, (0.1, 0.25, 2.0), "max_norm"),
    "PPO, weight decay": Row(NONE, (1e-3, 1e-2, 1e-1), "weight_decay"),
    "SAM, actor": Row({"ascent": "rho", "perturb": "actor"}, (0.01, 0.05, 0.2)),
    "SAM, actor, 1/16": Row({"ascent": "rho", "perturb": "actor", "fraction": 1 / 16}, (0.01, 0.05, 0.2)),
    "SAM, critic": Row({"ascent": "rho", "perturb": "critic"}, (0.01, 0.05, 0.2)),
    "SAM, both": Row({"ascent": "rho", "perturb": "both"}, (0.01, 0.05, 0.2)),
    "CGD λ = ½, actor": Row({"ascent": "lam", "perturb": "actor"}, (0.5,)),
    "CGD ratio, actor": Row({"ascent": "ratio", "perturb": "actor"}, (0.1, 0.3, 1.0)),
    "CGD ratio, critic": Row({"ascent": "ratio", "perturb": "critic"}, (0.1, 0.3, 1.0)),
    "CGD ratio, both": Row({"ascent": "ratio", "perturb": "both"}, (0.1, 0.3, 1.0)),
}

BY = (0.5, 0.7, 0.9, 1.1, 1.3, 1.5)
FLIPS = (0.1, 0.2, 0.3)  # actions that are drawn at random; noise of as many parts of the limit


@dataclass(frozen=True)
class World:
    """An environment, how it is trained on, and what is changed in it."""

    config: Config
    changed: tuple[str, ...] = ()
    longest: int = 500  # steps of an episode
    derived: dict[str, Any] = field(default_factory=dict)


PENDULUM = {"gamma": 0.95, "reward": 0.1, "entropy": 0.0, "epochs": 8}
MINATAR = {
    "total_steps": 2_000_000, "envs": 64, "rollout": 128, "minibatches": 8, "lr": 2.5e-3, "width": 128,
}  # fmt: skip
WORLDS = {
    "CartPole-v1": World(
        Config(total_steps=100_000, lr=2e-3),
        ("gravity", "masscart", "masspole", "length", "force_mag"),
        derived={
            "total_mass": lambda p: p["masscart"] + p["masspole"],
            "polemass_length": lambda p: p["masspole"] * p["length"],
        },
    ),
    "Acrobot-v1": World(
        Config(env="Acrobot-v1", total_steps=100_000, lr=2e-3),
        ("link_length_1", "link_mass_1", "link_mass_2", "link_moi", "dt"),
    ),
    "Pendulum-v1": World(
        Config(env="Pendulum-v1", total_steps=150_000, **PENDULUM), ("g", "m", "l", "max_torque"), longest=200
    ),
    **{
        f"{name}-MinAtar": World(Config(env=f"{name}-MinAtar", **MINATAR), longest=1000)
        for name in ("Asterix", "Breakout", "SpaceInvaders")
    },
}
PARTS = {
    "classic": ("CartPole-v1", "Acrobot-v1", "Pendulum-v1"),
    "minatar": ("Asterix-MinAtar", "Breakout-MinAtar", "SpaceInvaders-MinAtar"),
}


def conditions(world: World, env_params: Any) -> tuple[list[str], Any, Any]:
    """Return the names of all conditions, their parameters as vectors, and how often actions flip."""
    plain = {name: getattr(env_params, name) for name in env_params.__dataclass_fields__}
    found = [("clean", plain, 0.0)] + [(f"flip {p:g}", plain, p) for p in FLIPS]
    for name in world.changed:
        for by in BY:
            new = plain | {name: plain[name] * by}
            new |= {other: rule(new) for other, rule in world.derived.items()}
            found.append((f"{name} × {by:g}", new, 0.0))
    names, tables, flips = zip(*found, strict=True)
    stacked = {k: jnp.stack([jnp.asarray(t[k]) for t in tables]) for k in plain}
    return list(names), env_params.replace(**stacked), jnp.asarray(flips)


def make_evaluate(world: World, env: Any, agent: Any) -> Any:
    """Return a function of parameters, environment's parameters, flips and a key: the mean return."""

    def evaluate(params: Any, env_params: Any, flip: Any, key: Any) -> Any:
        def step(carry: Any, key: Any) -> Any:
            obs, state, score, alive = carry
            draw, move, chance, other = jax.random.split(key, 4)
            action = agent.sample(params["actor"], obs.reshape(-1), draw)
            if agent.discrete:
                drawn = jax.random.randint(other, (), 0, agent.actions)
                action = jnp.where(jax.random.uniform(chance) < flip, drawn, action)
            else:
                action = jnp.clip(action, -1, 1) + flip * jax.random.normal(other, action.shape)
            obs, state, reward, ended, cut, _ = env.step(move, state, agent.act(action), env_params)
            return (obs, state, score + alive * reward, alive * (1 - (ended | cut))), None

        def episode(key: Any) -> Any:
            begin, run = jax.random.split(key)
            start = (*env.reset(begin, env_params), 0.0, 1.0)
            return jax.lax.scan(step, start, jax.random.split(run, world.longest))[0][2]

        return jax.vmap(episode)(jax.random.split(key, EPISODES)).mean()

    return evaluate


@cache
def judge(name: str) -> Any:
    """Return the names of the conditions, and a program for the returns of many agents in all of them."""
    world = WORLDS[name]
    env, env_params = gymnax.make(name)
    _, agent = make_train(world.config, env, env_params)
    names, table, flips = conditions(world, env_params)
    evaluate = jax.vmap(make_evaluate(world, env, agent), (None, 0, 0, None))
    return names, jax.jit(jax.vmap(lambda params, key: evaluate(params, table, flips, key)))


class Runs:
    """A row in an environment: one program that trains as many agents as there are seeds to report."""

    def __init__(self, name: str, row: Row, size: int) -> None:
        self.name, self.size = name, size
        config = replace(WORLDS[name].config, **row.changes)
        train, _ = make_train(config, *gymnax.make(name))

        def one(seed: Any, value: Any) -> Any:
            given = {row.what: value} if row.what != "strength" else {}
            return train(jax.random.key(seed), value, **given)

        began = time.perf_counter()
        shapes = jnp.zeros(size, jnp.int32), jnp.zeros(size)
        self.train = jax.jit(jax.vmap(one)).lower(*shapes).compile()
        self.compile = round(time.perf_counter() - began, 1)

    def __call__(self, values: list[float], seeds: list[int]) -> tuple[Any, float]:
        """Return the returns of all values and seeds in all conditions, and the seconds of training."""
        pairs = [(seed, value) for value in values for seed in seeds]
        found, seconds = [], 0.0
        for at in range(0, len(pairs), self.size):
            some = pairs[at : at + self.size]
            seed, value = zip(*(some + some[:1] * (self.size - len(some))), strict=True)
            began = time.perf_counter()
            params, _ = jax.block_until_ready(
                self.train(jnp.asarray(seed, jnp.int32), jnp.asarray(value, jnp.float32))
            )
            seconds += time.perf_counter() - began
            keys = jax.vmap(lambda s: jax.random.fold_in(jax.random.key(s), 1))(jnp.asarray(seed))
            found.append(np.asarray(judge(self.name)[1](params, keys))[: len(some)])
        return np.concatenate(found).reshape(len(values), len(seeds), -1), round(seconds, 1)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def write(path: Path, record: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, ensure_ascii=False) + "\n")


def work(part: str, out: Path, seeds: int, trial_seeds: int, only: list[str], minutes: float) -> None:
    """Make the rows of a part that are missing."""
    path, began = out / f"{part}.jsonl", time.perf_counter()
    for name in PARTS[part]:
        for label, row in ROWS.items():
            if only and name not in only:
                continue
            if any((d["env"], d["row"], len(d["seeds"])) == (name, label, seeds) for d in lines(path)):
                continue
            if time.perf_counter() - began > 60 * minutes:
                print("time is up; run it again", flush=True)
                return
            values, tried, runs = list(row.values) or [0.0], {}, Runs(name, row, seeds)
            value = values[0]
            if len(values) > 1:
                trial, _ = runs(values, list(range(TRIALS, TRIALS + trial_seeds)))
                scores = np.nan_to_num(trial.mean((1, 2)), nan=-math.inf)
                tried = {f"{v:g}": round(float(s), 3) for v, s in zip(values, scores, strict=True)}
                value = values[int(scores.argmax())]
            final, seconds = runs([value], list(range(seeds)))
            names = judge(name)[0]
            returns = {n: [round(float(v), 2) for v in final[0, :, i]] for i, n in enumerate(names)}
            record = {
                "env": name, "row": label, "value": value, "tried": tried, "seeds": list(range(seeds)),
                "steps": WORLDS[name].config.total_steps, "seconds": seconds, "compile": runs.compile,
                "returns": returns,
                "device": jax.devices()[0].device_kind,
            }  # fmt: skip
            write(path, record)
            clean = np.mean(returns["clean"])
            print(f"{name:22} {label:22} {value:<6g} clean {clean:8.1f} {seconds} s", flush=True)


def times(out: Path, repeats: int = 11) -> None:
    """Time the gradient of a minibatch, in units of PPO's."""
    rows = {"PPO": NONE, "CGD ratio, actor": ROWS["CGD ratio, actor"].changes}
    rows |= {"SAM, actor": ROWS["SAM, actor"].changes, "SAM, actor, 1/16": ROWS["SAM, actor, 1/16"].changes}
    for name in ("CartPole-v1", "Breakout-MinAtar"):
        config = replace(WORLDS[name].config, width=256)
        env, env_params = gymnax.make(config.env)
        _, agent = make_train(config, env, env_params)
        rows_of_batch = 4096 if jax.devices()[0].platform != "cpu" else 1024
        params = agent.init(jax.random.key(0))
        batch = _batch(agent, params, rows_of_batch)
        found: dict[str, list[float]] = {label: [] for label in rows}
        called = {}
        for label, changes in rows.items():
            now = replace(config, **changes)
            called[label] = jax.jit(make_gradient(make_loss(agent, now), now, 0.1))
            jax.block_until_ready(called[label](params, batch))
        for _ in range(repeats):
            for label, gradient in called.items():
                began = time.perf_counter()
                for _ in range(5):
                    grads = gradient(params, batch)
                jax.block_until_ready(grads)
                found[label].append(time.perf_counter() - began)
        base = np.median(found["PPO"])
        ratios = {label: round(float(np.median(t) / base), 3) for label, t in found.items()}
        record = {
            "env": name,
            "rows": rows_of_batch,
            "ratios": ratios,
            "device": jax.devices()[0].device_kind,
        }
        write(out / "time.jsonl", record)
        print(record)


def _batch(agent: Any, params: Any, n: int) -> Any:
    from ppo_jax import Step

    keys = jax.random.split(jax.random.key(1), 3)
    obs = jax.random.normal(keys[0], (n, agent.inputs))
    action = jax.vmap(partial(agent.sample, params["actor"]))(obs, jax.random.split(keys[1], n))
    log_prob, _ = agent.log_prob(params["actor"], obs, action)
    zero = jnp.zeros(n)
    return Step(obs, action, log_prob, zero, zero, zero), jax.random.normal(keys[2], (n,)), zero


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=[*PARTS, "time"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--trial-seeds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--only", nargs="*", default=[], help="environments")
    given = parser.parse_args()
    if given.part == "time":
        times(given.out)
    else:
        work(given.part, given.out, given.seeds, given.trial_seeds, given.only, given.minutes)
