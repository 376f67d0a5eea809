"""Recovery of settings: the solutions solve the equations, and those used in Table 1 are among them."""

import mpmath
import numpy as np
import pytest

import steepen as st
from steepen.paper.experiments import EXPERIMENTS
from steepen.paper.recover import improvement, recover_spectrum, recover_start, recover_whole_start

GRIEWANK_PART = [(436.0, 444.0), (309.0, 317.0)]


def by_hand(f, x, step, lam=0.0, r=None):
    g = f.grad(x)
    if lam and r is None:
        p = -(g + 2 * lam * f.hess(x) @ g)
    elif lam:
        nu = 2 * lam / r
        p = -(1 - nu) * g - nu * f.grad(x + r * g)
    else:
        p = -g
    if not g @ p < 0:
        p = -g
    return 100 * (f(x) - f(x + step * p)) / f(x)


@pytest.mark.parametrize(("lam", "r"), [(0.0, None), (0.05, None), (0.05, 0.1)])
def test_improvement_is_the_hand_written_step(lam, r):
    f = st.functions["levy"].at(n=3)
    x = np.random.default_rng(0).uniform(-10, 10, (4, 5, 3))
    got = improvement(f, x, 0.02, lam, r)
    assert got.shape == (4, 5)
    expected = [[by_hand(f, point, 0.02, lam, r) for point in row] for row in x]
    assert got == pytest.approx(np.array(expected), rel=1e-9)
    assert improvement(f, x[0, 0], 0.02, lam, r) == pytest.approx(expected[0][0], rel=1e-9)
    below = st.functions["styblinski-tang"]  # f < 0 there: the share is of f₀, with its sign
    point = np.array([-2.0, -2.5])
    assert improvement(below, point, 0.001, lam, r) == pytest.approx(by_hand(below, point, 0.001, lam, r))


def test_improvement_where_f_is_zero_or_not_finite():
    f = st.functions["sphere"].at(n=2)
    assert np.isnan(improvement(f, [0.0, 0.0], 0.1))
    assert np.isnan(improvement(f, [[1.0, 1.0], [1e200, 0.0]], 0.1)).tolist() == [False, True]
    assert improvement(f, np.empty((0, 2)), 0.1).shape == (0,)


@pytest.mark.parametrize(
    ("name", "bounds", "points", "near"),
    [
        pytest.param("levy", None, 201, 1e-7, marks=pytest.mark.slow),
        pytest.param("branin", None, 201, 1e-4, marks=pytest.mark.slow),
        ("griewank", GRIEWANK_PART, 41, 1e-4),
    ],
)
def test_the_start_of_table_1_is_found(name, bounds, points, near):
    row = EXPERIMENTS[name]
    found = recover_start(
        row.function, row.lam0, row.alpha, row.r, row.gd, row.cgd_fd, bounds=bounds, points=points
    )
    assert np.abs(found - row.x0).max(axis=1).min() <= near
    for x in found:
        assert by_hand(row.function, x, row.alpha) == pytest.approx(row.gd, abs=1e-10)
        assert by_hand(row.function, x, row.alpha, row.lam0, row.r) == pytest.approx(row.cgd_fd, abs=1e-10)
    low, high = np.array(row.function.bounds if bounds is None else bounds).T
    assert ((low <= found) & (found <= high)).all()
    assert np.diff(np.linalg.norm(found - (low + high) / 2, axis=1)).min() >= -1e-9
    apart = np.linalg.norm(found[:, None] - found, axis=2) + np.eye(len(found))
    assert apart.min() > 1e-6


def test_the_spectrum_of_the_quadratic():
    ((centre, half_width),) = recover_spectrum(10, lam=0.4, step=0.01, gd=18.89, cgd_fd=97.91)

    def residual(c, w):
        spectrum = [c + w * (2 * mpmath.mpf(i) / 9 - 1) for i in range(10)]
        total = sum(spectrum)

        def percent(lam):
            return 100 * (1 - sum(t * (1 - (t + 2 * lam * t * t) / 100) ** 2 for t in spectrum) / total)

        return percent(0) - mpmath.mpf("18.89"), percent(mpmath.mpf("0.4")) - mpmath.mpf("97.91")

    with mpmath.workdps(30):
        exact = mpmath.findroot(residual, (10, 1))
    assert (centre, half_width) == pytest.approx([float(value) for value in exact], abs=1e-10)
    eigenvalues = np.linalg.eigvalsh(st.functions["quadratic"].hess(np.ones(10)))
    expected = centre + half_width * np.linspace(-1, 1, 10)
    assert eigenvalues == pytest.approx(expected, abs=1e-7)


@pytest.mark.slow
def test_the_whole_start_is_the_only_one():
    row = EXPERIMENTS["rotated-hyper-ellipsoid"]
    settings = (row.function, row.lam0, row.alpha, row.r, row.gd, row.cgd_fd)
    assert recover_whole_start(*settings).tolist() == [list(row.x0)]
    assert recover_whole_start(*settings, largest=11).shape == (0, 5)
    doubled = recover_whole_start(
        st.functions["matyas"], 10.0, 0.01, 0.01, 1.83, 34.4, largest=60, decimals=1
    )
    size = np.linalg.norm(doubled, axis=1)
    assert len(doubled) > 1
    assert (np.diff(size) >= 0).all()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda f, s: improvement(f, [1.0, 2.0, 3.0], 0.01), r"start: expected shape \(\.\.\., 2\)"),
        (lambda f, s: recover_start(f.at(n=3), *s), "function: expected one of two variables"),
        (lambda f, s: recover_start(f, *s, bounds=[(1, 0), (0, 1)]), "bounds: expected two rows"),
        (lambda f, s: recover_start(f, *s, within=0.0), "within: expected a positive number"),
        (lambda f, s: recover_spectrum(1, 0.4, 0.01, 18.89, 97.91), "n: expected a whole number, 2 or more"),
    ],
)
def test_bad_input(call, says):
    with pytest.raises(ValueError, match=says):
        call(st.functions["levy"].at(n=2), (0.07, 0.01, 0.2, 37.53, 87.07))
