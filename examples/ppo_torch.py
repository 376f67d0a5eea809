"""PPO in one file of PyTorch, with an ascent step on the actor alone.

    python examples/ppo_torch.py                    # CartPole, a penalty three tenths as long as the gradient
    python examples/ppo_torch.py --ratio 0          # PPO as it is

The actor's optimizer is wrapped; the critic's is not, so an ascent step moves the actor only, and the critic
has the gradient of the pass over the minibatch. If the two share a body, it belongs to one of the optimizers:
what is printed as perturbed is what moves.
"""

import argparse

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical
from torch.optim import Adam

from steepen.torch import CGD


def network(inputs, outputs, last):
    """Return a perceptron with orthogonal weights."""
    layers = [nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs)]
    for layer, gain in zip(layers[::2], (2**0.5, 2**0.5, last), strict=True):
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


def main(
    env="CartPole-v1",
    ratio=0.3,
    total_steps=100_000,
    envs=8,
    rollout=128,
    epochs=4,
    minibatches=4,
    lr=1e-3,
    seed=0,
):
    """Train an agent, and return the mean return of the last hundred episodes."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    world = gymnasium.make_vec(env, num_envs=envs, vectorization_mode="sync")
    inputs, actions = world.single_observation_space.shape[0], int(world.single_action_space.n)
    agent = nn.ModuleDict({"actor": network(inputs, actions, 0.01), "critic": network(inputs, 1, 1.0)})
    base, critic_opt = (
        Adam(agent["actor"].parameters(), lr=lr, eps=1e-5),
        Adam(agent["critic"].parameters(), lr=lr),
    )
    opt = CGD(base, agent, ratio=ratio, max_norm=0.5)
    own = {id(p) for group in opt.param_groups for p in group["params"]}
    print("perturbed:", ", ".join(name for name, p in agent.named_parameters() if id(p) in own))

    def loss_of(obs, action, old, advantage, target):
        policy = Categorical(logits=agent["actor"](obs))
        change = (policy.log_prob(action) - old).exp()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        gain = torch.minimum(change * advantage, change.clamp(0.8, 1.2) * advantage).mean()
        error = (agent["critic"](obs).squeeze(-1) - target).square().mean() / 2
        return -gain - 0.01 * policy.entropy().mean() + 0.5 * error

    updates, finished, score = total_steps // (envs * rollout), [], np.zeros(envs)
    obs = torch.as_tensor(world.reset(seed=seed)[0])
    reset = np.zeros(envs, bool)  # steps on which an environment starts again: they are no transitions
    for k in range(updates):
        for group in (*opt.param_groups, *critic_opt.param_groups):
            group["lr"] = lr * (1 - k / updates)
        rows = []
        for _ in range(rollout):
            with torch.no_grad():
                policy, value = Categorical(logits=agent["actor"](obs)), agent["critic"](obs).squeeze(-1)
                action = policy.sample()
            new, reward, ended, cut, _ = world.step(action.numpy())
            done, valid = torch.as_tensor(ended | cut), torch.as_tensor(~reset)
            rows.append((obs, action, policy.log_prob(action), value, torch.as_tensor(reward), done, valid))
            score = np.where(reset, 0.0, score + reward)
            finished += list(score[ended | cut])
            score, reset, obs = np.where(ended | cut, 0.0, score), ended | cut, torch.as_tensor(new)
        seen, taken, old, values, rewards, dones, valid = (
            torch.stack(column) for column in zip(*rows, strict=True)
        )
        with torch.no_grad():
            later, ahead = agent["critic"](obs).squeeze(-1), torch.zeros(envs)
        advantages = torch.zeros_like(values)
        for t in reversed(range(rollout)):
            going = 1.0 - dones[t].float()
            delta = rewards[t].float() + 0.99 * later * going - values[t]
            advantages[t] = ahead = delta + 0.99 * 0.95 * going * ahead
            later = values[t]
        keep = valid.flatten()
        flat = [part.flatten(0, 1)[keep] for part in (seen, taken, old, advantages, advantages + values)]
        for _ in range(epochs):
            for index in torch.randperm(len(flat[0])).chunk(minibatches):
                opt.step_on(loss_of, *(part[index] for part in flat))
                nn.utils.clip_grad_norm_(agent["critic"].parameters(), 0.5)
                critic_opt.step()
                critic_opt.zero_grad()
    last = float(np.mean(finished[-100:]))
    print(f"{env}: {last:.1f} over the last hundred of {len(finished)} episodes\n{opt.report()}")
    return last


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--ratio", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--total-steps", type=int, default=100_000)
    main(**vars(parser.parse_args()))
