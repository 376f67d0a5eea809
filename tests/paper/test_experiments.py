"""The settings of Table 1: what the paper prints, copied by hand, and the runs made with them."""

import numpy as np
import pytest

from steepen.paper.experiments import EXPERIMENTS, RECOVERED, THRESHOLD, T

PRINTED = {  # copied by hand from Table 1: n, first λ, α, GD, CGD-FD
    "quadratic": (10, 0.4, 0.01, 18.89, 97.91),
    "rotated-hyper-ellipsoid": (5, 0.5, 0.01, 15.94, 82.76),
    "levy": (2, 0.01, 0.05, 23.73, 63.21),
    "branin": (2, 0.07, 0.01, 37.53, 87.07),
    "griewank": (2, 40.0, 0.01, 0.01, 0.08),
    "matyas": (2, 10.0, 0.01, 1.83, 34.40),
}


def test_the_printed_columns():
    assert (T, THRESHOLD) == (40, 10)
    ours = {
        name: (row.function.n, row.lam0, row.step, row.gd, row.cgd_fd) for name, row in EXPERIMENTS.items()
    }
    assert ours == PRINTED
    assert list(ours) == list(PRINTED)
    assert "not published" in RECOVERED


def test_levy_has_the_rising_schedule():
    lam = EXPERIMENTS["levy"].run("cgd-fd").trace.lam
    assert lam[:11] == pytest.approx(np.linspace(0.01, 0.1, 40)[:11], abs=1e-15)


@pytest.mark.parametrize("name", PRINTED)
@pytest.mark.parametrize("method", ["gd", "cgd-fd"])
def test_a_run_spends_the_budget_and_follows_the_listing(name, method):
    result = EXPERIMENTS[name].run(method)
    assert result.njev == T
    penalised = int(result.trace.penalised.sum())
    assert penalised == (0 if method == "gd" else THRESHOLD + 1)
    assert result.nit == T - penalised


def test_starts_lie_in_the_bounds():
    for row in EXPERIMENTS.values():
        low, high = row.function.bounds.T
        start = np.array(row.start)
        assert start.shape == (row.function.n,)
        assert ((low <= start) & (start <= high)).all()
