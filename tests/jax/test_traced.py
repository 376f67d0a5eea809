"""Schedules, switches and penalties where JAX traces them; whole runs are in test_engine.py."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from steepen import schedules, switches

from ..test_penalties import PENALTIES

N, ITERS = 6, 60

RAMP = schedules.L(0.001, 0.01, ITERS)
SCHEDULES = (
    schedules.Constant(0.01), schedules.L(0.001, 0.01, 1), schedules.L(0.001, 0.01, ITERS // 2),
    schedules.Custom(lambda k: 0.01 / (k + 1)), schedules.Signed(RAMP), schedules.Perturbed(RAMP),
    schedules.Auto(),
)  # fmt: skip


def test_every_schedule_traces():
    def values(k):
        return [jnp.asarray(schedule(k), dtype=float) for schedule in SCHEDULES]

    found = jax.jit(jax.vmap(values))(jnp.arange(ITERS))
    for schedule, column in zip(SCHEDULES, found, strict=True):
        expected = [schedule(k) for k in range(ITERS)]
        np.testing.assert_allclose(column, expected, rtol=1e-14, err_msg=str(schedule))


@pytest.mark.parametrize(
    "schedule", [schedules.Signed(0.1), schedules.Perturbed(0.1, 0.25), schedules.Auto()]
)
def test_a_schedule_that_follows_the_curvature_traces(schedule):
    along, square = np.array([2.0, -3.0, 0.0, 1e-200, -2.0]), np.array([4.0, 9.0, 0.0, 0.0, 10.0])
    found = jax.jit(jax.vmap(lambda a, s: schedule.at(0.1, a, s, 2.0)))(along, square)
    expected = [schedule.at(0.1, a, s, 2.0) for a, s in zip(along.tolist(), square.tolist(), strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-15)
    np.testing.assert_array_equal(schedule.at(0.1, along, square, 2.0), expected)


COMBINED = switches.After(3) | switches.SmallImprovement(0.01) | switches.FirstGuard()


@pytest.mark.parametrize("switch", [switches.Never(), switches.GoodDrop(0.6), COMBINED], ids=str)
def test_every_switch_traces(switch):
    steps = ([0, 1, 2, 3], [False, True, False, False], [1.0, 1.0, -1.0, 1.0], [0.5, 0.5, -1.02, 0.999])
    steps = (*steps, [2.0, 1.0, 1.0, 1.0])
    found = jax.jit(jax.vmap(lambda *step: jnp.asarray(switch.off(*step))))(*map(jnp.asarray, steps))
    assert found.tolist() == [bool(switch.off(*step)) for step in zip(*steps, strict=True)]


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
def test_every_penalty_traces(penalty):
    gradients = np.concatenate([np.random.default_rng(1).uniform(0.5, 1.5, (2, N)), np.zeros((1, N))])
    found = jax.jit(jax.vmap(penalty.vector))(gradients)
    np.testing.assert_allclose(found, penalty.vector(gradients), rtol=1e-14, atol=1e-300)
