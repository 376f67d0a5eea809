"""The examples run and learn."""

import importlib.util
import warnings
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NEEDS = {"linen": "flax", "nnx": "flax", "equinox": "equinox"}


def load(name, needs):
    """Import an example, if what it needs is there."""
    with warnings.catch_warnings(action="ignore"):  # what other libraries say while they are imported
        pytest.importorskip(needs)
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NEEDS)
def test_it_learns_in_less_than_forty_lines(name):
    assert load(f"optax_{name}", NEEDS[name]).main() > 0.8
    assert len((EXAMPLES / f"optax_{name}.py").read_text("utf-8").splitlines()) < 40


@pytest.mark.filterwarnings("ignore")
def test_ppo_runs_for_every_kind_of_action_and_perturbs_what_it_says(capsys):
    ppo = load("ppo_jax", "gymnax")
    small = {"seeds": 2, "total_steps": 256, "envs": 4, "rollout": 32, "width": 8, "strength": 0.1}
    for env, perturb, ascent in (("CartPole-v1", "actor", "ratio"), ("Pendulum-v1", "critic", "rho")):
        ppo.main(env=env, perturb=perturb, ascent=ascent, **small)
        said = capsys.readouterr().out
        assert f"perturbed: ['{perturb}']" in said
        assert said.count("['critic']") == (6 if perturb == "critic" else 0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_ppo_learns():
    import jax

    jax.config.update("jax_disable_most_optimizations", False)
    assert load("ppo_jax", "gymnax").main(seeds=2, total_steps=60_000, lr=2e-3).min() > 60
