"""The examples run and learn."""

import importlib
from dataclasses import replace

import jax
import numpy as np
import pytest

from ..examples import load

pytestmark = pytest.mark.filterwarnings("ignore")
NEEDS = {"linen": "flax", "nnx": "flax", "equinox": "equinox"}


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDS)
def test_it_learns(name):
    assert load(f"optax_{name}", NEEDS[name]).main() > 0.8


@pytest.mark.slow
def test_ppo_runs_for_every_kind_of_action_and_perturbs_what_it_says(capsys):
    ppo = load("ppo_jax", "gymnax")
    small = {"seeds": 2, "total_steps": 256, "envs": 4, "rollout": 32, "width": 8, "strength": 0.1}
    for env, perturb, ascent in (("CartPole-v1", "actor", "ratio"), ("Pendulum-v1", "critic", "rho")):
        ppo.main(env=env, perturb=perturb, ascent=ascent, **small)
        said = capsys.readouterr().out
        assert f"perturbed: ['{perturb}']" in said
        assert said.count("['critic']") == (6 if perturb == "critic" else 0)


@pytest.mark.slow
def test_ppo_learns():
    assert load("ppo_jax", "gymnax").main(seeds=2, total_steps=60_000, lr=2e-3).min() > 60


@pytest.mark.slow
def test_runs_of_the_evidence_that_go_together_are_those_that_go_alone(monkeypatch):
    load("ppo_jax", "gymnax")
    work, name, ends = importlib.import_module("benchmarks.evidence.rl.ppo"), "CartPole-v1", []
    small = {"total_steps": 512, "envs": 4, "rollout": 32, "epochs": 2, "minibatches": 2, "width": 16}
    config = replace(work.WORLDS[name].config, **small)
    monkeypatch.setitem(work.WORLDS, name, replace(work.WORLDS[name], config=config, longest=20, episodes=2))
    programs = work.Programs(name, 3)
    programs.judge = lambda params, _: ends.append(params) or np.zeros((3, 1))
    work.train(name, programs, {"PPO": [(0.0, 0)], "SAM, actor": [(0.2, 3)]})
    alone = work.PPO(replace(config, **work.ROWS["SAM, actor"].changes), *work.make(name))
    wanted, _ = jax.jit(alone.train)(jax.random.key(3), 0.2)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a[1], b, atol=1e-5), ends[0], wanted)
