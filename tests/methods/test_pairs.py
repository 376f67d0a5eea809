"""The pairs of cgd-auto against dense matrices."""

import numpy as np
import pytest

from steepen.methods.pairs import Pairs
from steepen.vectors import dot, norm

from ..objectives import spd as with_spectrum
from ..pairs import pairs as all_pairs

ROUGH = {np.float64: 1e-9, np.float32: 2e-2}


def spd(n, rng):
    return with_spectrum(np.geomspace(1.0, 30.0, n), rng)


def bfgs(G, s, y):
    rho, eye = 1 / (s @ y), np.eye(len(s))
    return (eye - rho * np.outer(s, y)) @ G @ (eye - rho * np.outer(y, s)) + rho * np.outer(s, s)


def dense(pairs):
    """Return the matrix of the BFGS updates, one after another, oldest first."""
    S, Y = (np.asarray(part, dtype=float) for part in (pairs.S, pairs.Y))
    capacity = len(S)
    G = float(pairs.gamma) * np.diag(np.asarray(pairs.metric, dtype=float))
    for i in range(max(0, pairs.count - capacity), pairs.count):
        G = bfgs(G, S[i % capacity], Y[i % capacity])
    return G


def matrix(pairs, like):
    """Return G, column by column, as the pairs apply it."""
    return np.stack(
        [np.asarray(pairs.product(unit), dtype=float) for unit in np.eye(len(like), dtype=like.dtype)], -1
    )


def steps(n, count, rng, quadratic):
    """Return pairs of one quadratic, or of Hessians that have little to do with each other."""
    H, found = spd(n, rng), []
    for s in rng.standard_normal((count, n)):
        found.append((s, H @ s))
        H = H if quadratic else spd(n, rng)
    return found


def add(pairs, s, y):
    return pairs.add(s, y, dot(s, y), norm(s))


def filled(pairs_of, dtype=np.float64):
    x = np.ones(len(pairs_of[0][0]), dtype=dtype)
    pairs = Pairs(x, 200)
    for s, y in pairs_of:
        add(pairs, s.astype(dtype), y.astype(dtype))
    return pairs, x


@all_pairs(sizes=[(1, 1), (2, 5), (6, 14), (32, 20), (40, 60)], quadratic=[True, False], dtype=[*ROUGH])
def test_the_product_is_that_of_the_updates_one_after_another(sizes, quadratic, dtype):
    n, count = sizes
    if quadratic and dtype == np.float32:
        count = min(n, count)  # in float32 the pairs of a quadratic that is known are rounding
    pairs, x = filled(steps(n, count, np.random.default_rng(n + count), quadratic), dtype)
    G, expected = matrix(pairs, x), dense(pairs)
    assert np.abs(G - expected).max() <= ROUGH[dtype] * np.abs(expected).max()
    assert pairs.product(x).dtype == dtype
    if dtype == np.float64:
        assert np.linalg.eigvalsh((G + G.T) / 2).min() > 0
        s, y = pairs.S[pairs.count - 1], pairs.Y[pairs.count - 1]
        assert s @ y == pytest.approx(1.0)
        assert np.allclose(G @ y, s, rtol=1e-7, atol=1e-9 * np.abs(s).max())


@pytest.mark.parametrize("n", [3, 33])
def test_a_pair_without_positive_curvature_changes_nothing(n):
    pairs, x = filled(steps(n, 5, np.random.default_rng(n), quadratic=False))
    G, metric = matrix(pairs, x), pairs.metric.copy()
    for y in (-x, 0 * x):
        assert not add(pairs, abs(y), y)
    assert (matrix(pairs, x) == G).all()
    assert (pairs.metric == metric).all()
    assert pairs.count == 5


@pytest.mark.parametrize(("n", "most"), [(8, 1), (8, 20), (36, 5)])
def test_the_oldest_is_forgotten(n, most):
    pairs = Pairs(np.ones(n), most)
    for s, y in steps(n, 2 * most + 5, np.random.default_rng(most), quadratic=False):
        add(pairs, s, y)
        expected = dense(pairs) @ s
        assert np.allclose(pairs.product(s), expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())
    assert pairs.count == 2 * most + 5
    assert pairs.S.shape == (most, n)


def test_all_pairs_of_one_quadratic_are_kept_and_no_others():
    n, rng = 40, np.random.default_rng(3)
    pairs = Pairs(np.ones(n), 5, n + 8)
    for s, y in steps(n, 13, rng, quadratic=False):
        add(pairs, s, y)
        assert pairs.capacity == 5
    H, seen = spd(n, rng), []
    for s in rng.standard_normal((n, n)):
        seen.append((s, H @ s))
        add(pairs, *seen[-1])
        expected = dense(pairs)
        assert np.abs(matrix(pairs, s) - expected).max() <= 1e-9 * np.abs(expected).max()
        for t, y in seen:  # all of these secant equations hold
            assert np.allclose(pairs.product(y), t, rtol=1e-6, atol=1e-7)
    assert pairs.used == n
    inverse = np.linalg.inv(H)
    assert np.abs(matrix(pairs, s) - inverse).max() <= 1e-6 * np.abs(inverse).max()


@pytest.mark.parametrize("n", [2, 5, 12])
def test_a_quadratic_is_known_after_n_pairs(n):
    """Steps at random, not conjugate: the pairs are made so, and all secant equations hold at once."""
    rng = np.random.default_rng(n)
    H = spd(n, rng)
    given = [(s, H @ s) for s in rng.standard_normal((n, n))]
    for count in range(1, n + 1):
        pairs, x = filled(given[:count])
        assert (pairs.conjugate[:count] > 0).all()
        G = matrix(pairs, x)
        for s, y in given[:count]:
            assert np.allclose(G @ y, s, rtol=1e-6, atol=1e-7)
        across = pairs.S[:count] @ pairs.Y[:count].T
        size = np.sqrt(np.outer(across.diagonal(), across.diagonal()))
        assert np.abs(across / size - np.eye(count)).max() <= 1e-8
    inverse = np.linalg.inv(H)
    assert np.abs(G - inverse).max() <= 1e-6 * np.abs(inverse).max()


@pytest.mark.parametrize("n", [1, 9, 40])
def test_the_metric_is_that_of_the_scaled_bfgs_update(n):
    """B = diag(1/D) is scaled to τB with τ = yᵀDy/sᵀy, then updated; the diagonal is what is kept.

    γ lies between sᵀy/yᵀDy and sᵀD⁻¹s/sᵀy.
    """
    pairs = Pairs(np.ones(n), 200)
    for s, y in steps(n, 8, np.random.default_rng(n), quadratic=False):
        B = np.diag(1 / pairs.metric)
        B = (y @ np.linalg.solve(B, y)) / (s @ y) * B
        expected = np.diag(B - np.outer(B @ s, B @ s) / (s @ B @ s) + np.outer(y, y) / (s @ y))
        assert add(pairs, s, y)
        assert np.allclose(1 / pairs.metric, expected, rtol=1e-6, atol=1e-9 * expected.max())
        short, long = s @ y / (y @ (pairs.metric * y)), s @ (s / pairs.metric) / (s @ y)
        assert short * (1 - 1e-12) <= pairs.gamma <= long * (1 + 1e-12)


def test_after_forgetting_only_new_pairs_count():
    n, rng = 5, np.random.default_rng(0)
    H = spd(n, rng)
    pairs, x = filled([(s, H @ s) for s in rng.standard_normal((4, n))])
    pairs.clear()
    assert np.allclose(matrix(pairs, x), pairs.gamma * np.eye(n), rtol=1e-12)
    s = rng.standard_normal(n)
    add(pairs, s, H @ s)
    expected = bfgs(pairs.gamma * np.diag(pairs.metric), s, H @ s)
    assert np.allclose(matrix(pairs, x), expected, rtol=1e-9, atol=1e-10)
    metric = rng.uniform(0.1, 3.0, n)
    pairs.clear(metric)
    assert np.allclose(matrix(pairs, x), pairs.gamma * np.diag(metric), rtol=1e-12)
