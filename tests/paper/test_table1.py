"""Table 1 to two decimals, against the paper's listing written out here."""

import numpy as np
import pytest

from steepen.paper.experiments import EXPERIMENTS, RECOVERED, THRESHOLD, T

ITEM = "table1"

PRINTED = {  # copied by hand from Table 1: n, first λ, α, GD, CGD-FD
    "quadratic": (10, 0.4, 0.01, 18.89, 97.91),
    "rotated-hyper-ellipsoid": (5, 0.5, 0.01, 15.94, 82.76),
    "levy": (2, 0.01, 0.05, 23.73, 63.21),
    "branin": (2, 0.07, 0.01, 37.53, 87.07),
    "griewank": (2, 40.0, 0.01, 0.01, 0.08),
    "matyas": (2, 10.0, 0.01, 1.83, 34.40),
}


def listing_of_cgd_fd(f, x, lam, step, r, budget, b):
    """The paper's listing; lam is one λ an iteration, or None for GD. Gives the values and costs."""
    cost, values, costs, on, k = 0, [f(x)], [0], lam is not None, 0
    while cost + 1 + on <= budget:
        g = f.grad(x)
        p = -g
        if on:
            nu = 2 * lam[k] / r
            p = -(1 - nu) * g - nu * f.grad(x + r * g)
            cost += 1
            if not g @ p < 0:
                p, on = -g, False
        cost += 1
        x = x + step * p
        on = on and k < b
        k += 1
        values.append(f(x))
        costs.append(cost)
    return np.array(values), np.array(costs)


def test_the_printed_columns_and_starts_in_the_box():
    assert (T, THRESHOLD) == (40, 10)
    ours = {name: (e.function.n, e.lam0, e.step, e.gd, e.cgd_fd) for name, e in EXPERIMENTS.items()}
    assert list(ours.items()) == list(PRINTED.items())
    assert "not published" in RECOVERED
    for e in EXPERIMENTS.values():
        low, high = e.function.bounds.T
        assert ((low <= np.array(e.start)) & (np.array(e.start) <= high)).all()


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_both_columns_and_runs_by_hand(name):
    row = EXPERIMENTS[name]
    lams = np.linspace(0.01, 0.1, T) if name == "levy" else np.full(T, row.lam0)
    for method, lam, printed in (("gd", None, row.gd), ("cgd-fd", lams, row.cgd_fd)):
        f, cost = listing_of_cgd_fd(row.function, np.array(row.start), lam, row.step, row.r, T, 10)
        assert f"{(f[0] - f[1]) / f[0] * 100:.2f}" == f"{printed:.2f}"
        run = row.run(method)
        assert run.trace.njev.tolist() == cost.tolist()
        assert run.trace.f == pytest.approx(f, rel=1e-7, abs=1e-10)
        assert run.njev == T
        assert int(run.trace.penalised.sum()) == (0 if method == "gd" else THRESHOLD + 1)


def test_the_table_has_the_printed_numbers_beside_ours(outcome):
    assert len(outcome.claims) == 12
    assert all(claim.agrees and claim.basis == "recovered" for claim in outcome.claims)
    for line, row in zip(outcome.tables["table1"].rows, EXPERIMENTS.values(), strict=True):
        assert line[4] == line[5] == f"{row.gd:.2f}"
        assert line[6] == line[7] == f"{row.cgd_fd:.2f}"
        ends = [row.run(method).fun - row.function.fmin for method in ("gd", "cgd-fd")]
        assert line[8:] == pytest.approx(ends, rel=1e-9)


@pytest.mark.slow
def test_what_was_recovered_is_said(outcome):
    assert any("not published" in note for note in outcome.notes)
    recovery = [(row[0], row[3], row[4]) for row in outcome.tables["table1-recovery"].rows]
    assert ("Levy", "→ 0", 0) in recovery  # no start in the function's box for a small r
    assert any(row[:2] == ("Levy", "→ 0") and row[2] > 0 for row in recovery)  # but some beyond it
    branin = {r: found for name, r, found in recovery if name == "Branin"}
    assert branin == {"0.2": 2, "0.1": 2, "0.07": 2, "0.05": 0, "0.03": 2, "0.01": 1, "→ 0": 1}
    assert all(found > 0 for _, r, found in recovery if r == "any")
    assert set(outcome.settings["experiments"]) == set(EXPERIMENTS)
