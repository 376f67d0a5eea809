"""The examples of policy gradients: what they perturb, what they leave alone, and that they learn."""

import pytest
import torch

from ..examples import load

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.slow
def test_ppo_learns_and_perturbs_the_actor_alone(capsys):
    assert load("ppo_torch", "gymnasium").main(total_steps=20_000, lr=2e-3) > 60  # a random policy has 22
    said = capsys.readouterr().out
    assert "perturbed: actor.0.weight" in said
    assert "critic" not in said


def test_msam_as_an_optimizer_class_is_msam():
    sb3 = load("ppo_sb3", "stable_baselines3")
    from steepen.torch import MSAM

    torch.manual_seed(0)
    ours, theirs = torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(8, 3)
    opt = sb3.MSAM(ours.parameters(), lr=0.1, rho=0.2)
    other = MSAM(torch.optim.Adam(theirs.parameters(), lr=0.1), theirs, 0.2)
    for _ in range(5):
        loss = ours(x).square().mean()  # as SB3's loop has it: forward, clear, backward, step
        opt.zero_grad()
        loss.backward()
        opt.step()
        other.step_on(lambda x: theirs(x).square().mean(), x)
    assert opt.moved
    opt.restore()
    torch.testing.assert_close(list(ours.parameters()), list(theirs.parameters()), rtol=0, atol=0)


def test_sb3_trains_both_ways_and_says_what_it_perturbs():
    sb3 = load("ppo_sb3", "stable_baselines3")
    plain, ours = sb3.main(total_steps=1024)
    assert isinstance(plain.policy.optimizer, sb3.MSAM)
    assert not plain.policy.optimizer.moved
    assert plain.policy.optimizer.report().perturbed > 10
    first = ours.critic_opt.param_groups[0]["params"][0]
    assert ours.actor_opt.report().steps == ours.critic_opt.state[first]["step"]
    assert "action_net" in str(ours.perturbed)
    assert "value_net" not in str(ours.perturbed)


def penalised(**penalty):
    """Return the trainer after a step on one micro-batch, with what it would have stepped by."""
    module = load("grpo_trl", "trl")
    found = {"passes": [], "at": []}

    class Spy(module.GradientPenalty):
        def training_step(self, model, inputs, *args, **kwargs):
            before = [p.detach().clone() for p in model.parameters()]
            out = super().training_step(model, inputs, *args, **kwargs)
            found["same"] = all(torch.equal(p, x) for p, x in zip(model.parameters(), before, strict=True))
            found["d"] = [p.grad.clone() for p in model.parameters()]
            return out

        def _pass(self, *args, **kwargs):
            out = super()._pass(*args, **kwargs)
            found["passes"].append([p.grad.clone() for p in self.model.parameters()])
            found["at"].append([p.detach().clone() for p in self.model.parameters()])
            return out

    module.PenalisedGRPO = type("Spied", (Spy, module.GRPOTrainer), {})
    return module.main(steps=1, **penalty), found


@pytest.mark.parametrize("penalty", [{"gamma": 1e-2}, {"ratio": 0.3}])
def test_grpo_steps_by_the_published_formula(penalty):
    trainer, found = penalised(**penalty)
    (g1, g2), (x, moved) = found["passes"], found["at"]
    assert found["same"]
    names = [name for name, _ in trainer.model.named_parameters()]
    own = set(trainer.perturbed)
    assert not any("wte" in name or "wpe" in name for name in own)
    for name, a, b, g in zip(names, x, moved, g1, strict=True):
        torch.testing.assert_close(b, a + 1e-3 * g if name in own else a)
    nu = 1e-2 / 1e-3
    if "ratio" in penalty:
        g, change = (torch.cat([p.flatten() for p in part]) for part in (g1, torch._foreach_sub(g2, g1)))
        nu = 0.3 * g.norm() / change.norm()
    for d, a, b in zip(found["d"], g1, g2, strict=True):
        torch.testing.assert_close(d, a + nu * (b - a), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_grpo_learns():
    history = load("grpo_trl", "trl").main(steps=20).state.log_history
    rewards = [line["reward"] for line in history if "reward" in line]
    assert rewards[-1] > 2 * rewards[0]
