"""PPO in one file and one compiled program, seeds mapped over, with an ascent step on the actor alone.

    python examples/ppo_jax.py                                # CartPole, eight seeds, ratio 0.3 on the actor
    python examples/ppo_jax.py --env Pendulum-v1 --ascent none

Everything is PPO as usual, but for one line: `steepen.optax.value_and_grad` in the place of
`jax.value_and_grad`. There is no validation gap in reinforcement learning, so the strength is a ratio:
the penalty's gradient is three tenths as long as the loss's.
"""

import argparse
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnax
import jax
import jax.numpy as jnp
import optax

import steepen.optax


@dataclass(frozen=True)
class Config:
    """What a run is made of."""

    env: str = "CartPole-v1"
    total_steps: int = 250_000
    envs: int = 16
    rollout: int = 64
    epochs: int = 4
    minibatches: int = 4
    lr: float = 1e-3
    gamma: float = 0.99
    gae: float = 0.95
    clip: float = 0.2
    entropy: float = 0.01
    critic: float = 0.5
    max_norm: float = 0.5
    weight_decay: float = 0.0
    width: int = 64
    reward: float = 1.0  # what rewards are multiplied by for training
    ascent: str = "ratio"  # "rho", "lam", "ratio", or "none"
    perturb: str = "actor"  # "actor", "critic" or "both"
    fraction: float = 1.0  # the part of a minibatch that the ascent step is taken from, with "rho"

    @property
    def mask(self) -> dict[str, bool]:
        """Which parameters the ascent step moves: actor and critic share none."""
        return {name: self.perturb in (name, "both") for name in ("actor", "critic")}


class Step(NamedTuple):
    """One step of all environments."""

    obs: Any
    action: Any
    log_prob: Any
    value: Any
    reward: Any
    done: Any


def new_network(key, sizes, last):
    """Return the weights of a perceptron."""
    scales, keys = [2**0.5] * (len(sizes) - 2) + [last], jax.random.split(key, len(sizes) - 1)
    shapes = zip(sizes, sizes[1:], scales, keys, strict=False)
    return [(jax.nn.initializers.orthogonal(s)(k, (a, b)), jnp.zeros(b)) for a, b, s, k in shapes]


def apply(layers, x):
    """Return the output of a perceptron."""
    for w, b in layers[:-1]:
        x = jnp.tanh(x @ w + b)
    return x @ layers[-1][0] + layers[-1][1]


class Agent:
    """The policy, of numbered actions or of a vector, and the critic."""

    def __init__(self, env, env_params, width):
        space = env.action_space(env_params)
        self.discrete = hasattr(space, "n")
        self.actions = int(space.n) if self.discrete else int(space.shape[0])
        self.limit = None if self.discrete else jnp.asarray(space.high).reshape(-1)
        self.inputs = int(jnp.size(env.reset(jax.random.key(0), env_params)[0]))
        self.width = width

    def init(self, key):
        """Return the parameters."""
        actor, critic = jax.random.split(key)
        hidden = [self.inputs, self.width, self.width]
        params = {"net": new_network(actor, [*hidden, self.actions], 0.01)}
        if not self.discrete:
            params["log_std"] = jnp.zeros(self.actions)
        return {"actor": params, "critic": new_network(critic, [*hidden, 1], 1.0)}

    def policy(self, actor, obs):
        """Return the logits, or mean and log of the deviation."""
        out = apply(actor["net"], obs)
        return jax.nn.log_softmax(out) if self.discrete else (out, actor["log_std"])

    def sample(self, actor, obs, key):
        """Draw an action."""
        found = self.policy(actor, obs)
        if self.discrete:
            return jax.random.categorical(key, found)
        return found[0] + jnp.exp(found[1]) * jax.random.normal(key, found[0].shape)

    def log_prob(self, actor, obs, action):
        """Return the log of an action's probability, and the entropy."""
        found = self.policy(actor, obs)
        if self.discrete:
            entropy = -(jnp.exp(found) * found).sum(-1)
            return jnp.take_along_axis(found, action[..., None], -1)[..., 0], entropy
        mean, log_std = found
        log_prob = -0.5 * ((action - mean) / jnp.exp(log_std)) ** 2 - log_std - 0.5 * jnp.log(2 * jnp.pi)
        return log_prob.sum(-1), (log_std + 0.5 * jnp.log(2 * jnp.pi * jnp.e)).sum()

    def act(self, action):
        """Return the action as the environment takes it."""
        return action if self.discrete else jnp.clip(action, -1, 1) * self.limit


def make_loss(agent, config):
    """Return PPO's loss of a minibatch: (steps, advantages, returns)."""

    def loss(params, batch):
        steps, advantage, target = batch
        log_prob, entropy = agent.log_prob(params["actor"], steps.obs, steps.action)
        ratio = jnp.exp(log_prob - steps.log_prob)
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        clipped = ratio.clip(1 - config.clip, 1 + config.clip)
        actor = -jnp.minimum(ratio * advantage, clipped * advantage).mean() - config.entropy * entropy.mean()
        critic = ((apply(params["critic"], steps.obs)[..., 0] - target) ** 2).mean() / 2
        return actor + config.critic * critic

    return loss


def make_gradient(loss, config, strength):
    """Return what takes the place of `jax.value_and_grad(loss)`."""
    if config.ascent == "none":
        return jax.value_and_grad(loss)
    options = {config.ascent: strength, "mask": config.mask, "ascent_fraction": config.fraction}
    return steepen.optax.value_and_grad(loss, **options)


class PPO:
    """PPO in an environment: a rollout, what is learnt from it, and `train`, a run of both in one program."""

    def __init__(self, config, env, env_params):
        self.config, self.env, self.env_params = config, env, env_params
        self.agent = Agent(env, env_params, config.width)
        self.loss = make_loss(self.agent, config)
        self.updates = config.total_steps // (config.envs * config.rollout)

    def optimizer(self, max_norm=0.0, weight_decay=0.0):
        """Return Adam, with clipping before it and weight decay after."""
        count = self.updates * self.config.epochs * self.config.minibatches
        return optax.chain(
            optax.clip_by_global_norm(max_norm),
            optax.scale_by_adam(eps=1e-5),
            optax.add_decayed_weights(weight_decay),
            optax.scale_by_learning_rate(optax.linear_schedule(self.config.lr, 0.0, count)),
        )

    def start(self, at, begin):
        """Return parameters, the optimizer's state, and environments at their start with their scores."""
        params, keys = self.agent.init(at), jax.random.split(begin, self.config.envs)
        obs, env_state = jax.vmap(self.env.reset, (0, None))(keys, self.env_params)
        return params, self.optimizer().init(params), (obs, env_state, jnp.zeros(self.config.envs))

    def rollout(self, params, world, key):
        """Return the environments, a batch of (steps, advantages, returns), and the mean score."""
        config, agent = self.config, self.agent

        def env_step(world, key):
            obs, env_state, score = world
            draw, move = jax.random.split(key)
            flat = obs.reshape(config.envs, -1)
            action = agent.sample(params["actor"], flat, draw)
            log_prob, _ = agent.log_prob(params["actor"], flat, action)
            value = apply(params["critic"], flat)[:, 0]
            obs, env_state, reward, ended, cut, _ = jax.vmap(self.env.step, (0, 0, 0, None))(
                jax.random.split(move, config.envs), env_state, agent.act(action), self.env_params
            )
            done, score = ended | cut, score + reward
            step = Step(flat, action, log_prob, value, config.reward * reward, done)
            return (obs, env_state, jnp.where(done, 0.0, score)), (step, jnp.where(done, score, jnp.nan))

        def advantage(later, step):
            ahead, value = later
            delta = step.reward + config.gamma * value * (1 - step.done) - step.value
            ahead = delta + config.gamma * config.gae * (1 - step.done) * ahead
            return (ahead, step.value), ahead

        world, (steps, scores) = jax.lax.scan(env_step, world, jax.random.split(key, config.rollout))
        last = apply(params["critic"], world[0].reshape(config.envs, -1))[:, 0]
        _, gains = jax.lax.scan(advantage, (jnp.zeros_like(last), last), steps, reverse=True)
        batch = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), (steps, gains, gains + steps.value))
        return world, batch, jnp.nanmean(scores)

    def learn(self, params, state, batch, key, strength, max_norm, weight_decay):
        """Return parameters and the optimizer's state after some epochs over a batch."""
        config, opt = self.config, self.optimizer(max_norm, weight_decay)
        gradient = make_gradient(self.loss, config, strength)

        def minibatch_step(carry, part):
            params, state = carry
            _, grads = gradient(params, part)
            moves, state = opt.update(grads, state, params)
            return (optax.apply_updates(params, moves), state), None

        def epoch(carry, key):
            order = jax.random.permutation(key, config.envs * config.rollout)
            parts = jax.tree.map(lambda a: a[order].reshape(config.minibatches, -1, *a.shape[1:]), batch)
            return jax.lax.scan(minibatch_step, carry, parts)

        return jax.lax.scan(epoch, (params, state), jax.random.split(key, config.epochs))[0]

    def train(self, key, strength):
        """Return the parameters after a run, and the mean score of the episodes of each rollout."""
        key, at, begin = jax.random.split(key, 3)

        def update(carry, key):
            params, state, world = carry
            roll, shuffle = jax.random.split(key)
            world, batch, score = self.rollout(params, world, roll)
            fixed = self.config.max_norm, self.config.weight_decay
            return (*self.learn(params, state, batch, shuffle, strength, *fixed), world), score

        keys = jax.random.split(key, self.updates)
        (params, *_), scores = jax.lax.scan(update, self.start(at, begin), keys)
        return params, scores


def main(seeds=8, strength=0.3, **options):
    """Train as many agents as seeds, and return the mean return of the last tenth of the run, one a seed."""
    config = Config(**options)
    env, env_params = gymnax.make(config.env)
    ppo = PPO(config, env, env_params)
    if config.ascent != "none":
        names = steepen.optax.perturbed(ppo.agent.init(jax.random.key(0)), config.mask)
        print(f"perturbed: {', '.join(names)}")
    began = time.perf_counter()
    _, returns = jax.jit(jax.vmap(ppo.train, (0, None)))(jax.random.split(jax.random.key(0), seeds), strength)
    last = jnp.nanmean(returns[:, -returns.shape[1] // 10 :], 1)
    took = time.perf_counter() - began
    error = last.std() / seeds**0.5
    print(f"{config.env}: {last.mean():.1f} ± {error:.1f} after {config.total_steps} steps, {took:.0f} s")
    return last


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", default=Config.env)
    parser.add_argument("--ascent", default=Config.ascent, choices=["ratio", "rho", "lam", "none"])
    parser.add_argument("--strength", type=float, default=0.3)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--total-steps", type=int, default=Config.total_steps)
    main(**vars(parser.parse_args()))
