"""Does a penalty on the policy's gradient make policies robust? PPO, and PPO with an ascent step.

Every row has as many environment steps. The strength of a row is chosen among three values on seeds of their
own, by the mean return over all conditions; then come the seeds that are reported. All runs of an environment
go together: one program makes the rollouts of all, and one for each row learns from them; so a job is all
rows of an environment. MinAtar and Brax are for a GPU.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
from benchmarks.evidence.rl.study import PARTS

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))
from ppo_jax import PPO, Config, Step

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
    episodes: int = 16  # a condition and a seed
    derived: dict[str, Any] = field(default_factory=dict)


PENDULUM = {"gamma": 0.95, "reward": 0.1, "entropy": 0.0, "epochs": 8}
MINATAR = {
    "total_steps": 2_000_000, "envs": 64, "rollout": 128, "minibatches": 8, "lr": 2.5e-3, "width": 128,
}  # fmt: skip
BRAX = {
    "total_steps": 1_000_000, "envs": 128, "rollout": 32, "minibatches": 8, "epochs": 8, "lr": 5e-4,
    "entropy": 0.0, "reward": 0.1,
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
        for name in ("Breakout", "SpaceInvaders", "Asterix")
    },
    **{
        name: World(
            Config(env=name, **BRAX), ("gravity", "mass", "friction", "force"), longest=1000, episodes=4
        )
        for name in ("hopper", "walker2d")
    },
}


def make(name: str) -> tuple[Any, Any]:
    """Return an environment and its parameters."""
    if name not in PARTS["brax"]:
        return gymnax.make(name)
    from benchmarks.evidence.rl.brax_env import Brax, Dynamics

    return Brax(name), Dynamics()


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

        return jax.vmap(episode)(jax.random.split(key, world.episodes)).mean()

    return evaluate


@cache
class Programs:
    """What all rows share, for a number of runs: their start, their rollouts, and the returns at the end."""

    def __init__(self, name: str, size: int) -> None:
        world, (env, env_params) = WORLDS[name], make(name)
        self.size, self.ppo = size, PPO(world.config, env, env_params)
        self.names, table, flips = conditions(world, env_params)
        evaluate = jax.vmap(make_evaluate(world, env, self.ppo.agent), (None, 0, 0, None))
        calls = self.ppo.start, self.ppo.rollout, lambda params, key: evaluate(params, table, flips, key)
        start, rollout, judge = (jax.jit(jax.vmap(call)) for call in calls)
        keys = jax.random.split(jax.random.key(0), size)
        params, _, world = jax.eval_shape(start, keys, keys)
        wanted = (start, keys, keys), (rollout, params, world, keys), (judge, params, keys)
        self.start, self.rollout, self.judge = compiled(wanted)


def compiled(wanted: Any) -> list[Any]:
    """Return programs, compiled side by side."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda one: one[0].lower(*one[1:]).compile(), wanted))


Jobs = dict[str, list[tuple[float, int]]]  # values and seeds of each row


def train(name: str, programs: Programs, jobs: Jobs) -> tuple[dict[str, Any], dict[str, float]]:
    """Return the returns of each row's runs in all conditions, and the seconds of a row's training."""
    pairs = [pair for some in jobs.values() for pair in some]
    seed = jnp.asarray([seed for _, seed in pairs] + [0] * (programs.size - len(pairs)), jnp.int32)
    begun = jax.vmap(lambda s: jax.random.split(jax.random.key(s), 3))(seed)
    keys = jax.vmap(lambda key: jax.random.split(key, programs.ppo.updates))(begun[:, 0])
    draw = jax.jit(lambda k: jax.vmap(jax.random.split)(keys[:, k]))
    places, at = {}, 0
    for label, some in jobs.items():
        places[label] = slice(at, at := at + len(some))
    params, state, world = programs.start(begun[:, 1], begun[:, 2])
    parts = {label: cut((params, state), place) for label, place in places.items()}
    rest = cut(params, slice(at, None))

    @jax.jit
    def join(parts: Any) -> Any:
        return jax.tree.map(lambda *some: jnp.concatenate(some), *(p for p, _ in parts.values()), rest)

    def learner(label: str) -> Any:
        row, place = ROWS[label], places[label]
        ppo = PPO(replace(WORLDS[name].config, **row.changes), programs.ppo.env, programs.ppo.env_params)
        values = jnp.asarray([value for value, _ in jobs[label]], jnp.float32)
        fixed = {"strength": 0.0, "max_norm": ppo.config.max_norm, "weight_decay": ppo.config.weight_decay}
        given = [values if k == row.what else jnp.full_like(values, v) for k, v in fixed.items()]

        def learn(part: Any, batch: Any, key: Any) -> Any:
            return jax.vmap(ppo.learn)(*part, *cut((batch, key), place), *given)

        return jax.jit(learn)

    _, batch, _ = jax.eval_shape(jax.vmap(programs.ppo.rollout), params, world, keys[:, 0])
    learners = dict(
        zip(jobs, compiled([(learner(k), parts[k], batch, keys[:, 0]) for k in jobs]), strict=True)
    )
    began = time.perf_counter()
    for k in range(programs.ppo.updates):
        now = draw(k)
        params = join(parts)
        world, batch, score = programs.rollout(params, world, now[:, 0])
        parts = {label: learn(parts[label], batch, now[:, 1]) for label, learn in learners.items()}
        if k % max(programs.ppo.updates // 10, 1) == 0:
            seconds = time.perf_counter() - began
            print(f"{name} {k}: {np.nanmedian(score):.1f}, {seconds:.0f} s", flush=True)
    rolling = timed(programs.rollout, params, world, now[:, 0]) / programs.size
    seconds = {
        label: programs.ppo.updates
        * (rolling * len(jobs[label]) + timed(learn, parts[label], batch, now[:, 1]))
        for label, learn in learners.items()
    }
    judged = jax.vmap(lambda s: jax.random.fold_in(jax.random.key(s), 1))(seed)
    returns = np.asarray(programs.judge(join(parts), judged))
    return {label: returns[place] for label, place in places.items()}, seconds


def cut(tree: Any, place: slice) -> Any:
    """Return some of the runs."""
    return jax.tree.map(lambda a: a[place], tree)


def timed(call: Any, *args: Any) -> float:
    """Return the seconds of a call: the least of three."""
    found = []
    for _ in range(3):
        began = time.perf_counter()
        jax.block_until_ready(call(*args))
        found.append(time.perf_counter() - began)
    return min(found)


def times(name: str, repeats: int = 11) -> Iterator[tuple[int, dict[str, Any]]]:
    """Time what is learnt from a rollout, Adam's steps with their gradients, in units of PPO's."""
    rows = {label: ROWS[label] for label in ("PPO", "CGD ratio, actor", "SAM, actor", "SAM, actor, 1/16")}
    cpu = jax.devices()[0].platform == "cpu"
    for agents in (1,) if cpu else (1, 64):
        config = replace(WORLDS[name].config, width=256, epochs=1, minibatches=4, rollout=64)
        config = replace(config, envs=(1024 if cpu else 4096) * config.minibatches // config.rollout)
        keys, given = jax.random.split(jax.random.key(0), agents), jnp.full(agents, 0.1)
        ppos = [PPO(replace(config, **row.changes), *make(name)) for row in rows.values()]
        params = jax.vmap(ppos[0].agent.init)(keys)
        state = jax.vmap(ppos[0].optimizer().init)(params)
        batch = jax.jit(jax.vmap(partial(random_batch, ppos[0])))(params, keys)
        args = params, state, batch, keys, given, given, 0 * given
        learners = compiled([(jax.jit(jax.vmap(ppo.learn)), *args) for ppo in ppos])
        called = dict(zip(rows, learners, strict=True))
        for call in learners:
            jax.block_until_ready(call(*args))
        found: dict[str, list[float]] = {label: [] for label in rows}
        for _ in range(repeats):
            for label, call in called.items():
                began = time.perf_counter()
                jax.block_until_ready(call(*args))
                found[label].append(time.perf_counter() - began)
        base = np.median(found["PPO"])
        yield agents, {
            "rows": config.envs * config.rollout // config.minibatches,
            "ratios": {label: round(float(np.median(t) / base), 3) for label, t in found.items()},
            "milliseconds": round(1e3 * float(base), 3), "device": jax.devices()[0].device_kind,
        }  # fmt: skip


def random_batch(ppo: PPO, params: Any, key: Any) -> Any:
    """Return what a rollout could have returned."""
    agent, n = ppo.agent, ppo.config.envs * ppo.config.rollout
    keys = jax.random.split(key, 3)
    obs = jax.random.normal(keys[0], (n, agent.inputs))
    action = jax.vmap(partial(agent.sample, params["actor"]))(obs, jax.random.split(keys[1], n))
    log_prob, _ = agent.log_prob(params["actor"], obs, action)
    zero = jnp.zeros(n)
    return Step(obs, action, log_prob, zero, zero, zero), jax.random.normal(keys[2], (n,)), zero


def tried(name: str, trial_seeds: int) -> dict[str, Any]:
    """Return the mean return, over all conditions, of each value that is tried."""
    seeds = range(TRIALS, TRIALS + trial_seeds)
    several = {label: row.values for label, row in ROWS.items() if len(row.values) > 1}
    jobs = {label: [(value, seed) for value in values for seed in seeds] for label, values in several.items()}
    found, _ = train(name, Programs(name, sum(map(len, jobs.values()))), jobs)
    scores: dict[str, dict[str, float]] = {}
    for label, returns in found.items():
        means = np.nan_to_num(returns.reshape(-1, trial_seeds, returns.shape[1]).mean((1, 2)), nan=-1e9)
        scores[label] = dict(zip(map("{:g}".format, several[label]), means.round(3).tolist(), strict=True))
    return {"tried": scores}


def runs(name: str, values: dict[str, float], seeds: int) -> dict[str, Any]:
    """Return the returns of all rows in all conditions; a row without trials has its only value, or none."""
    values = {label: (row.values or (0.0,))[0] for label, row in ROWS.items()} | values
    jobs = {label: [(value, seed) for seed in range(seeds)] for label, value in values.items()}
    programs = Programs(name, seeds * len(jobs))
    found, seconds = train(name, programs, jobs)
    rows = {
        label: {
            "value": values[label], "seconds": round(seconds[label], 3),
            "returns": dict(zip(programs.names, returns.T.astype(float).round(2).tolist(), strict=True)),
        }
        for label, returns in found.items()
    }  # fmt: skip
    about = {"seeds": seeds, "steps": WORLDS[name].config.total_steps}
    return about | {"rows": rows, "device": jax.devices()[0].device_kind}
