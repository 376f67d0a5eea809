"""Hopper and Walker2d by Brax, with gymnax's interface: dynamics are parameters, episodes have 1000 steps.

Brax is no dependency of this project, not even of its tests: `pip install brax`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from dataclasses import replace as changed
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from brax import envs

LONGEST = 1000


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Dynamics:
    """What the dynamics of the model are multiplied by: inertias go with masses."""

    gravity: Any = 1.0
    mass: Any = 1.0
    friction: Any = 1.0
    force: Any = 1.0

    def replace(self, **new: Any) -> Dynamics:
        """Return these with others in their place."""
        return changed(self, **new)


class State(NamedTuple):
    """The state of an episode, where it began, and how many steps it has had."""

    now: Any
    first: Any
    steps: Any


class Brax:
    """An environment in generalized coordinates; an episode that ends begins again where it began."""

    def __init__(self, name: str) -> None:
        with jax.default_device(jax.devices("cpu")[0]):  # many small programs, not worth compiling for a GPU
            self.env = envs.get_environment(name, backend="generalized")

    def action_space(self, _: Any) -> Any:
        """Return the shape of an action, and its limit."""
        return SimpleNamespace(shape=(self.env.action_size,), high=jnp.ones(self.env.action_size))

    def with_dynamics(self, by: Dynamics) -> Any:
        """Return Brax's environment with its dynamics changed."""
        system, env = self.env.sys, copy.copy(self.env)
        inertia = system.link.inertia
        inertia = inertia.replace(mass=by.mass * inertia.mass, i=by.mass * inertia.i)
        env.sys = system.replace(
            gravity=by.gravity * system.gravity,
            link=system.link.replace(inertia=inertia, invweight=system.link.invweight / by.mass),
            actuator=system.actuator.replace(gear=by.force * system.actuator.gear),
            geom_friction=by.friction * system.geom_friction,
        )
        return env

    def reset(self, key: Any, by: Dynamics) -> tuple[Any, State]:
        """Return what is seen at the start of an episode, and its state."""
        state = self.with_dynamics(by).reset(key)
        return state.obs, State(state, (state.pipeline_state, state.obs), jnp.zeros((), jnp.int32))

    def step(self, _: Any, state: State, action: Any, by: Dynamics) -> Any:
        """Return observation, state, reward, whether the episode ended, whether it was cut, and nothing."""
        new = self.with_dynamics(by).step(state.now, action)
        ended, steps = new.done > 0, state.steps + 1
        cut = steps >= LONGEST
        over = ended | cut
        inner, obs = jax.tree.map(
            lambda a, b: jnp.where(over, a, b), state.first, (new.pipeline_state, new.obs)
        )
        kept = new.replace(pipeline_state=inner, obs=obs)
        return obs, State(kept, state.first, jnp.where(over, 0, steps)), new.reward, ended, cut, {}
