"""The quadratic analysis, against matrices: κ and rates from eigenvalues of I − α(I + 2λQ)Q."""

import numpy as np
import pytest

ITEM = "quadratic"
EIGENVALUES = np.linspace(1.0, 10.0, 11)


def radius(lam, step):
    Q = np.diag(EIGENVALUES)
    B = np.eye(11) + 2 * lam * Q
    return np.abs(np.linalg.eigvalsh(np.eye(11) - step * B @ Q)).max()


def test_table_against_matrices(outcome):
    rows = outcome.tables["quadratic"].rows
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert len(rows) == 6
    for lam, step, kappa, kappa_measured, rate, measured in rows:
        Q = np.diag(EIGENVALUES)
        B = np.eye(11) + 2 * lam * Q
        # for λ < 0 the bound is over all spectra in [1, 10], a little above this one's
        slack = 1e-6 if lam >= 0 else 0.03
        assert kappa == pytest.approx(np.linalg.cond(B @ Q), rel=slack)
        assert rate == pytest.approx(radius(lam, step), rel=slack)
        assert measured == pytest.approx(radius(lam, step), rel=1e-3)
        assert kappa_measured == pytest.approx((1 + measured) / (1 - measured))
        if lam >= 0:
            assert kappa == pytest.approx(np.linalg.cond(B) * np.linalg.cond(Q))
            assert step == pytest.approx(2 / ((1 + 20 * lam) * 10 + (1 + 2 * lam)))
            assert measured == pytest.approx(rate, abs=1e-6)


def test_the_best_lam_is_negative(outcome):
    rows = outcome.tables["quadratic"].rows
    best = min(rows, key=lambda row: row[5])
    assert (best[0], best[2]) == (pytest.approx(-1 / 22), pytest.approx(121 / 40))
    # no λ of a fine grid, each with its best step over the spectrum, does better
    worst = []
    for lam in np.linspace(-0.0499, 0.5, 2000):
        t = np.linspace(1, 10, 901)
        bent = t * (1 + 2 * lam * t)
        worst.append((bent.max() - bent.min()) / (bent.max() + bent.min()))
    assert min(worst) >= best[4] - 1e-6
    assert np.argmin(worst) == pytest.approx((0.0499 - 1 / 22) / (0.5499 / 1999), abs=2)


def test_figure(outcome):
    left, right = outcome.pictures["quadratic"].figure.axes
    curve, dots = left.lines[:2]
    for lam, rate in dots.get_xydata():
        assert rate == pytest.approx(np.interp(lam, *curve.get_data()), abs=3e-3)
    curve, dots = right.lines[:2]
    for lam, rate in dots.get_xydata():
        assert rate == pytest.approx(radius(lam, 0.01), abs=1e-4)
    assert curve.get_ydata()[-1] == pytest.approx(radius(0.96, 0.01))
    assert curve.get_ydata()[-1] > 1  # it overshoots in the end
