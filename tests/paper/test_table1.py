"""Table 1 to two decimals, against the paper's listings."""

import numpy as np
import pytest

from steepen.paper import listings
from steepen.paper._items import WORDS
from steepen.paper.experiments import EXPERIMENTS, THRESHOLD, T

ITEM = "table1"

PRINTED = {  # copied by hand from Table 1: n, first λ, α, GD, CGD-FD
    "quadratic": (10, 0.4, 0.01, 18.89, 97.91),
    "rotated-hyper-ellipsoid": (5, 0.5, 0.01, 15.94, 82.76),
    "levy": (2, 0.01, 0.05, 23.73, 63.21),
    "branin": (2, 0.07, 0.01, 37.53, 87.07),
    "griewank": (2, 40.0, 0.01, 0.01, 0.08),
    "matyas": (2, 10.0, 0.01, 1.83, 34.40),
}


def test_the_printed_columns_and_starts_in_the_box():
    assert (T, THRESHOLD) == (40, 10)
    ours = {name: (e.function.n, e.lam0, e.alpha, e.gd, e.cgd_fd) for name, e in EXPERIMENTS.items()}
    assert list(ours.items()) == list(PRINTED.items())
    assert "not published" in WORDS["recovered"]
    for e in EXPERIMENTS.values():
        low, high = e.function.bounds.T
        assert ((low <= np.array(e.x0)) & (np.array(e.x0) <= high)).all()


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_both_columns_and_runs_are_those_of_the_listings(name):
    row = EXPERIMENTS[name]
    f, lam = row.function, np.linspace(0.01, 0.1, T) if name == "levy" else np.full(T, row.lam0)
    gd = listings.cgd(f.grad, f.hess, row.x0, T, row.alpha, 0.0), list(range(T + 1))
    cgd_fd = listings.cgd_fd(f.grad, row.x0, T, row.alpha, lam.tolist(), row.r, 10)
    for method, (xs, cost), printed in (("gd", gd, row.gd), ("cgd-fd", cgd_fd, row.cgd_fd)):
        values, run = f(xs), row.run(method)
        assert f"{(values[0] - values[1]) / values[0] * 100:.2f}" == f"{printed:.2f}"
        assert run.trace.njev.tolist() == cost
        assert (run.trace.f, run.njev) == (pytest.approx(values, rel=1e-7, abs=1e-10), T)
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
