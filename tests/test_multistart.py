"""Many starts of one function, of which only the best end matters."""

import numpy as np

from steepen import State
from steepen._call.multistart import Race, descend

from .objectives import spd


def test_a_row_far_behind_one_that_has_ended_is_given_up():
    race = Race(np.zeros((3, 1)), np.array([-1.0]), np.array([1.0]))

    def told(k, rows, f, running=True):
        x = np.array([[-0.9], [0.2], [0.9]])[rows]
        none = np.zeros(len(rows))
        state = State(
            k,
            x,
            np.array(f),
            *[none] * 7,
            seconds=0.0,
            rows=np.array(rows),
            running=np.full(len(rows), running),
        )
        return race(state).tolist()

    for k in range(1, 4):
        assert told(k, [0, 1, 2], [-100.0, 5 - 0.02 * k, 5 - 0.01 * k]) == [False] * 3
    told(4, [0], [-100.0], running=False)
    for k in range(4, 8):
        out = told(k, [1, 2], [5 - 0.02 * k, 5 - 0.01 * k])
    assert out == [True, True]


def test_restarts_in_a_box_solve_for_the_variables_that_are_free():
    H, rng = spd(np.geomspace(1.0, 1e3, 6), 0), np.random.default_rng(0)
    centre = np.array([2.0, -2.0, 0.3, 0.1, 2.0, -0.4])
    low, high = -np.ones(6), np.ones(6)

    def fun(x):
        g = (x - centre) @ H
        return 0.5 * (g * (x - centre)).sum(axis=-1), g

    res = descend(fun, rng.uniform(-1, 1, (4, 6)), low, high, iters=200, ftol=0.0, gtol=1e-7)
    assert res.success.all()
    wrong = np.clip(res.x - fun(res.x)[1], low, high) - res.x
    assert np.abs(wrong).max() < 1e-6
    assert res.nit.max() <= 8  # 17 where it does not


def test_a_flat_start_is_left_to_the_others():
    sides = np.full(2, -1.0), np.full(2, 1.0)
    res = descend(lambda x: ((x[:, 0] ** 2 - x[:, 1] ** 2), 2 * x * [1, -1]), np.zeros((3, 2)), *sides)
    assert res.nfev.tolist() == [1, 1, 1]  # no products H·v are spent on finding a way down
