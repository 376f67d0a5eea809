"""The pairs of cgd-auto against dense matrices."""

import numpy as np
import pytest

from steepen._core.backends import backend_for
from steepen.directions._pairs import Pairs

from ..objectives import spd as with_spectrum
from ..pairs import pairs as all_pairs

ROUGH = {np.float64: 1e-9, np.float32: 2e-2}


def spd(n, rng):
    return with_spectrum(np.geomspace(1.0, 30.0, n), rng)


def bfgs(G, s, y):
    rho, eye = 1 / (s @ y), np.eye(len(s))
    return (eye - rho * np.outer(s, y)) @ G @ (eye - rho * np.outer(y, s)) + rho * np.outer(s, s)


def dense(pairs, row=None):
    def own(name):
        value = np.asarray(getattr(pairs, name), dtype=float)
        return value if row is None else value[row]

    count, capacity = int(own("count")), pairs.capacity
    G = float(own("gamma")) * np.diag(own("D"))
    for i in range(max(0, count - capacity), count):
        G = bfgs(G, own("S")[i % capacity], own("Y")[i % capacity])
    return G


def matrix(pairs, n, like):
    """Return G, column by column, as the pairs apply it; of a batch all rows at once."""
    backend = backend_for(like)
    zero = backend.xp.asarray(like * 0)
    columns = [
        pairs.product(backend, zero + backend.xp.asarray(unit, dtype=like.dtype)) for unit in np.eye(n)
    ]
    return np.stack([np.asarray(c, dtype=float) for c in columns], axis=-1)


def steps(n, count, rng, quadratic):
    """Return pairs of one quadratic, or of Hessians that have little to do with each other."""
    H, found = spd(n, rng), []
    for s in rng.standard_normal((count, n)):
        found.append((s, H @ s))
        H = H if quadratic else spd(n, rng)
    return found


def add(pairs, backend, s, y):
    return pairs.add(backend, s, y, backend.dot(s, y), backend.norm(s))


def empty(x, most=200):
    return backend_for(x), Pairs.start(backend_for(x), x, most)


def filled(pairs_of, dtype=np.float64):
    x = np.ones(len(pairs_of[0][0]), dtype=dtype)
    backend, pairs = empty(x)
    for s, y in pairs_of:
        pairs, _ = add(pairs, backend, s.astype(dtype), y.astype(dtype))
    return pairs, x


@all_pairs(sizes=[(1, 1), (2, 5), (6, 14), (32, 20), (40, 60)], quadratic=[True, False], dtype=[*ROUGH])
def test_a_single_run(sizes, quadratic, dtype):
    n, count = sizes
    if quadratic and dtype == np.float32:
        count = min(n, count)  # in float32 the pairs of a quadratic that is known are rounding
    pairs, x = filled(steps(n, count, np.random.default_rng(n + count), quadratic), dtype)
    G, expected = matrix(pairs, n, x), dense(pairs)
    assert np.abs(G - expected).max() <= ROUGH[dtype] * np.abs(expected).max()
    assert pairs.product(backend_for(x), x).dtype == dtype
    if dtype == np.float64:
        assert np.linalg.eigvalsh((G + G.T) / 2).min() > 0
        s, y = pairs.S[int(pairs.count) - 1], pairs.Y[int(pairs.count) - 1]
        assert s @ y == pytest.approx(1.0)
        assert np.allclose(G @ y, s, rtol=1e-7, atol=1e-9 * np.abs(s).max())
    for y in (-x, 0 * x):  # a pair that is skipped changes nothing
        pairs, useful = add(pairs, backend_for(x), abs(y), y)
        assert not useful
    assert (matrix(pairs, n, x) == G).all()


@pytest.mark.parametrize(("n", "most"), [(8, 1), (8, 20), (36, 5)])
def test_the_oldest_is_forgotten(n, most):
    backend, pairs = empty(np.ones(n), most)
    for s, y in steps(n, 2 * most + 5, np.random.default_rng(most), quadratic=False):
        pairs, _ = add(pairs, backend, s, y)
        expected = dense(pairs) @ s
        assert np.allclose(pairs.product(backend, s), expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())
    assert pairs.count == 2 * most + 5
    assert pairs.S.shape == (most, n)


@pytest.mark.parametrize("n", [3, 33])
def test_a_batch_with_skipped_pairs(n):
    rng, x = np.random.default_rng(n), np.ones((4, n))
    backend, pairs = empty(x)
    for i in range(12):
        s, y = (np.stack(part) for part in zip(*(steps(n, 1, rng, False)[0] for _ in range(4)), strict=True))
        bent_down = np.array([i % 3 == 1, False, i % 2 == 0, i < 11])
        y[bent_down] *= -1
        metric = pairs.D.copy()
        pairs, useful = add(pairs, backend, s, y)
        assert useful.tolist() == (~bent_down).tolist()
        found = matrix(pairs, n, x)
        np.testing.assert_array_equal(pairs.D[bent_down], metric[bent_down])
        for row in range(4):
            expected = dense(pairs, row)
            assert np.abs(found[row] - expected).max() <= 1e-9 * np.abs(expected).max()
    assert np.asarray(pairs.count).tolist() == [8, 12, 6, 1]


@pytest.mark.parametrize("n", [2, 5, 12])
def test_a_quadratic_is_known_after_n_pairs(n):
    """Steps at random, not conjugate: the pairs are made so, and all secant equations hold at once."""
    rng = np.random.default_rng(n)
    H = spd(n, rng)
    given = [(s, H @ s) for s in rng.standard_normal((n, n))]
    for count in range(1, n + 1):
        pairs, x = filled(given[:count])
        assert (pairs.conjugate[:count] > 0).all()
        G = matrix(pairs, n, x)
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
    rng = np.random.default_rng(n)
    backend, pairs = empty(np.ones(n))
    for s, y in steps(n, 8, rng, quadratic=False):
        B = np.diag(1 / pairs.D)
        B = (y @ np.linalg.solve(B, y)) / (s @ y) * B
        expected = np.diag(B - np.outer(B @ s, B @ s) / (s @ B @ s) + np.outer(y, y) / (s @ y))
        pairs, useful = add(pairs, backend, s, y)
        assert useful
        assert np.allclose(1 / pairs.D, expected, rtol=1e-6, atol=1e-9 * expected.max())
        short, long = s @ y / (y @ (pairs.D * y)), s @ (s / pairs.D) / (s @ y)
        assert short * (1 - 1e-12) <= pairs.gamma <= long * (1 + 1e-12)


def test_forgetting_rows_of_a_batch():
    n, rng, x = 5, np.random.default_rng(0), np.ones((3, 5))
    backend, pairs = empty(x)
    H = spd(n, rng)
    for s in rng.standard_normal((4, 3, n)):
        pairs, _ = add(pairs, backend, s, s @ H)
    before = matrix(pairs, n, x)
    pairs = pairs.clear(backend, np.array([False, True, False]))
    after = matrix(pairs, n, x)
    assert (after[[0, 2]] == before[[0, 2]]).all()
    assert np.allclose(after[1], pairs.gamma[1] * np.eye(n), rtol=1e-12)
    pairs, _ = add(pairs, backend, s, s @ H)
    expected = bfgs(pairs.gamma[1] * np.diag(pairs.D[1]), s[1], (s @ H)[1])
    assert np.allclose(matrix(pairs, n, x)[1], expected, rtol=1e-9, atol=1e-10)
