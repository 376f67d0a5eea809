"""Stable-Baselines3 with an ascent step: MSAM through `policy_kwargs`, or SAM and CGD by a subclass of PPO.

    python examples/ppo_sb3.py

`MSAM` needs no second pass, so `PPO` stays as it is: its loss is taken at weights that are moved along the
momentum, and a callback puts them back for the rollouts. `AscentPPO` makes both passes, on the actor alone.
SB3's default policy shares no layer between actor and critic; with a features extractor that they share, the
actor's parameters and the extractor move, and `perturbed` says which.
"""

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import FloatSchedule, explained_variance
from torch import nn

from steepen.torch import CGD
from steepen.torch import MSAM as Wrapped


class MSAM(Wrapped):
    """Momentum SAM over Adam as an optimizer class, for loops that call backward() and step() themselves.

    Between two steps the weights are at x − ρ·v/‖v‖; `restore()` puts them back, `perturb()` moves them.
    """

    def __init__(self, params, lr, rho=0.05, **adam):
        params = list(params)
        super().__init__(torch.optim.Adam(params, lr=lr, **adam), nn.ParameterList(params), rho)
        self.perturb()

    def perturb(self):
        """Begin a step: move the weights."""
        self._pass = self.passes(None)
        next(self._pass)

    def step(self, closure=None):
        """Put the weights back, take the step of Adam, and move them for the next."""
        next(self._pass, None)
        super().step()
        self.perturb()


class Restored(BaseCallback):
    """Rollouts with the weights as they are, updates with those that MSAM has moved."""

    def _on_rollout_start(self):
        self.model.policy.optimizer.restore()

    def _on_rollout_end(self):
        self.model.policy.optimizer.perturb()

    def _on_training_end(self):
        self.model.policy.optimizer.restore()

    def _on_step(self):
        return True


class AscentPPO(PPO):
    """PPO with a penalty on the actor's gradient, `ratio` times as long as the gradient."""

    def __init__(self, *args, ratio=0.3, **kwargs):
        self.ratio = ratio
        super().__init__(*args, **kwargs)

    def _setup_model(self):
        super()._setup_model()
        critic = [*self.policy.mlp_extractor.value_net.parameters(), *self.policy.value_net.parameters()]
        own = {id(p) for p in critic}
        actor = [(name, p) for name, p in self.policy.named_parameters() if id(p) not in own]
        self.perturbed = [name for name, _ in actor]
        kind, rate = type(self.policy.optimizer), self.lr_schedule(1)
        base = kind([p for _, p in actor], lr=rate, **self.policy.optimizer_kwargs)
        self.actor_opt = CGD(base, self.policy, ratio=self.ratio, max_norm=self.max_grad_norm)
        self.critic_opt = kind(critic, lr=rate, **self.policy.optimizer_kwargs)

    def train(self):
        """Update the policy from the rollout, as PPO does."""
        self.policy.set_training_mode(True)
        self._update_learning_rate([self.actor_opt, self.critic_opt])
        clip = FloatSchedule(self.clip_range)(self._current_progress_remaining)

        def loss_of(data):
            actions = data.actions.long().flatten() if hasattr(self.action_space, "n") else data.actions
            values, log_prob, entropy = self.policy.evaluate_actions(data.observations, actions)
            gain = data.advantages
            if self.normalize_advantage and len(gain) > 1:
                gain = (gain - gain.mean()) / (gain.std() + 1e-8)
            ratio = (log_prob - data.old_log_prob).exp()
            actor = -torch.minimum(gain * ratio, gain * ratio.clamp(1 - clip, 1 + clip)).mean()
            critic = nn.functional.mse_loss(values.flatten(), data.returns)
            entropy = -log_prob.mean() if entropy is None else entropy.mean()
            return actor - self.ent_coef * entropy + self.vf_coef * critic

        critic = self.critic_opt.param_groups[0]["params"]
        for _ in range(self.n_epochs):
            for data in self.rollout_buffer.get(self.batch_size):
                loss = self.actor_opt.step_on(loss_of, data)
                nn.utils.clip_grad_norm_(critic, self.max_grad_norm)
                self.critic_opt.step()
                self.critic_opt.zero_grad()
        self._n_updates += self.n_epochs
        buffer = self.rollout_buffer
        self.logger.record("train/loss", float(loss))
        self.logger.record(
            "train/explained_variance", explained_variance(buffer.values.flatten(), buffer.returns.flatten())
        )


def main(total_steps=20_000, env="CartPole-v1", seed=0):
    """Train both ways, and return the two models."""
    options = {"seed": seed, "n_steps": 512, "device": "cpu"}
    kwargs = {"optimizer_class": MSAM, "optimizer_kwargs": {"rho": 0.05, "eps": 1e-5}}
    plain = PPO("MlpPolicy", env, policy_kwargs=kwargs, **options).learn(total_steps, callback=Restored())
    ours = AscentPPO("MlpPolicy", env, ratio=0.3, **options)
    print("perturbed:", ", ".join(ours.perturbed))
    return plain, ours.learn(total_steps)


if __name__ == "__main__":
    for model in main():
        print(type(model).__name__, sum(e["r"] for e in model.ep_info_buffer) / len(model.ep_info_buffer))
