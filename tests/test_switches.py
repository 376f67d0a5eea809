"""When the penalty ends."""

import math

import numpy as np
import pytest

import steepen as st
from steepen import switches

from .calls import traced


def penalised(**given_):
    trace = traced(lam=0.05, **given_)
    count = int(trace.penalised.sum())
    assert trace.penalised[:count].all()  # the penalty never comes back
    assert (trace.lam[count:-1] == 0).all()
    return count


@pytest.mark.parametrize("b", [0, 1, 11, 40])
def test_after(b):
    expected = min(b + 1, 12)
    assert penalised(switch=switches.After(b)) == expected
    assert penalised(b=b, method="cgd-fd") == expected
    assert penalised(switch=switches.After(b) | switches.Never()) == expected
    assert penalised(switch=switches.After(b) | switches.After(3)) == min(expected, 4)
    assert penalised(method="cgd-fd", switch=switches.Never()) == penalised(method="cgd-bfgs") == 12


@pytest.mark.parametrize("budget", [st.Budget(grads=40), st.Budget(iters=40), st.Budget(grads=8)])
def test_the_switch_of_the_cgd_fd_listing(budget):
    assert penalised(method="cgd-fd", budget=budget, step=0.01) == budget.total // 4 + 1


@pytest.mark.parametrize("part", [0.0, 0.09, 0.2, 0.9, 5.0])
def test_small_improvements_and_good_drops(part):
    trace = traced(lam=0.05, switch=switches.SmallImprovement(part), budget=st.Budget(iters=40))
    poor = np.flatnonzero(trace.f[:-1] - trace.f[1:] <= part * np.abs(trace.f[:-1]))
    assert int(trace.penalised.sum()) == (poor[0] + 1 if len(poor) else 40)
    if part:
        trace = traced(lam=0.05, switch=switches.GoodDrop(part), budget=st.Budget(iters=40))
        enough = np.flatnonzero((trace.f[0] - trace.f) / abs(trace.f[0]) >= part)
        assert int(trace.penalised.sum()) == (enough[0] if len(enough) else 40)
    # |f₀| is the measure: from −½ to −1 f falls by once that
    assert switches.GoodDrop(1.0).off(0, False, before=-0.5, after=-1.0, first=-0.5)
    assert not switches.GoodDrop(1.0).off(0, False, before=-0.5, after=-0.9, first=-0.5)


WELL = {
    "fun": lambda x: (x**4 / 4 - x**2 / 2).sum(axis=-1), "jac": lambda x: x**3 - x,
    "hvp": lambda x, v: (3 * x**2 - 1) * v, "step": 0.2,
}  # fmt: skip


def test_first_guard():
    """With λ = 1 the guard fires where f'' < −½, that is below x = 0.408."""
    kept = traced([0.2], lam=1.0, switch=switches.Never(), trace="x", **WELL)
    below = kept.x[:-1, 0] < math.sqrt(1 / 6)
    assert kept.guarded[:-1].tolist() == below.tolist()
    assert kept.penalised[:-1].tolist() == (~below).tolist()
    assert 0 < below.sum() < 12
    for more in ({"switch": switches.FirstGuard()}, {"method": "cgd-fd"}, {"method": "cgd-fd", "b": 9}):
        ended = traced([0.2], lam=1.0, **WELL | more)
        assert ended.guarded.tolist() == [True] + [False] * 12
        assert not ended.penalised.any()
    assert traced([1.5], lam=0.05, switch=switches.FirstGuard(), **WELL).penalised[:-1].all()


@pytest.mark.parametrize(
    "switch",
    [switches.SmallImprovement(0.02), switches.GoodDrop(0.3), switches.After(2) | switches.FirstGuard()],
    ids=repr,
)
def test_each_row_of_a_batch_has_its_own_switch(switch):
    x0 = np.array([[0.2], [1.5], [0.35]])
    batch = traced(x0, lam=0.6, switch=switch, **WELL)
    for b, start in enumerate(x0):
        alone = traced(start, lam=0.6, switch=switch, **WELL)
        assert batch.penalised[:, b].tolist() == alone.penalised.tolist()
        assert batch.guarded[:, b].tolist() == alone.guarded.tolist()


@pytest.mark.parametrize(
    "make",
    [lambda: switches.After(1) | 3, lambda: switches.AnyOf((switches.After,))],
)
def test_what_is_no_switch_is_refused_at_once(make):
    with pytest.raises(TypeError, match="parts: expected switches such as After"):
        make()


def test_a_switch_of_ones_own():
    class Below(switches.Switch):
        def off(self, k, guarded, before, after, first):
            return after < 3.0

    trace = traced(lam=0.05, switch=Below())
    assert int(trace.penalised.sum()) == int(np.argmax(trace.f < 3.0))
    assert penalised(switch=Below() | switches.After(0)) == 1


def test_a_row_that_stalls_leaves_those_alone_whose_penalty_is_off():
    """Row 1 is a bowl on top of 1e10, whose decrease drowns in rounding."""

    def fun(x):
        a, b = x[..., 0], x[..., 1]
        bowl = 1e10 + 1e-3 * (a - 100) ** 2 + 0.3 * (b - 1) ** 2
        return np.where(a < 50, 100 * (b - a * a) ** 2 + (1 - a) ** 2, bowl)

    def jac(x):
        a, b = x[..., 0], x[..., 1]
        rosen = np.stack([-400 * a * (b - a * a) - 2 * (1 - a), 200 * (b - a * a)], -1)
        return np.where((a < 50)[..., None], rosen, np.stack([2e-3 * (a - 100), 0.6 * (b - 1)], -1))

    starts = np.array([[-1.2, 1.0], [100.3, 1.001]])
    given = {"jac": jac, "gtol": 0.0, "switch": switches.GoodDrop(0.5), "budget": st.Budget(iters=20)}
    for method in ("cgd", "cgd-fd"):
        rows = st.minimize(fun, starts, method=method, **given)
        for i, start in enumerate(starts):
            alone, row = st.minimize(fun, start, method=method, **given), rows.row(i)
            assert (row.status, row.nit) == (alone.status, alone.nit)
            np.testing.assert_allclose(row.jac, alone.jac, rtol=1e-6)
            assert row.jac.any()
