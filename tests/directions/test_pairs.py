"""The pairs of cgd-auto against dense matrices."""

import numpy as np
import pytest

from steepen._core.kits import kit_for
from steepen.directions._pairs import Pairs

from ..pairs import pairs as all_pairs
from .dense import bfgs, dense, matrix, spd

ROUGH = {np.float64: 1e-9, np.float32: 2e-2}


def steps(n, count, rng, quadratic):
    """Return pairs of one quadratic, or of Hessians that have little to do with each other."""
    H, found = spd(n, rng), []
    for _ in range(count):
        s = rng.standard_normal(n)
        found.append((s, H @ s))
        if not quadratic:
            H = spd(n, rng)
    return found


def add(pairs, kit, s, y):
    return pairs.add(kit, s, y, kit.dot(s, y), kit.norm(s))


def filled(pairs_of, most, dtype=np.float64):
    x = np.ones(len(pairs_of[0][0]), dtype=dtype)
    kit = kit_for(x)
    pairs = Pairs.start(kit, x, most)
    for s, y in pairs_of:
        pairs, _ = add(pairs, kit, s.astype(dtype), y.astype(dtype))
    return pairs, x


@all_pairs(sizes=[(1, 1), (2, 5), (6, 14), (32, 20), (40, 60)], quadratic=[True, False], dtype=[*ROUGH])
def test_a_single_run(sizes, quadratic, dtype):
    n, count = sizes
    if quadratic and dtype == np.float32 and count > n:
        count = n  # in float32 the pairs of a quadratic that is known are rounding
    pairs, x = filled(steps(n, count, np.random.default_rng(n + count), quadratic), 200, dtype)
    found, expected = matrix(pairs, n, x), dense(pairs)
    assert np.abs(found - expected).max() <= ROUGH[dtype] * np.abs(expected).max()
    assert pairs.product(kit_for(x), x).dtype == dtype


@pytest.mark.parametrize(("n", "most"), [(8, 1), (8, 20), (36, 5)])
def test_the_oldest_is_forgotten(n, most):
    x = np.ones(n)
    kit = kit_for(x)
    pairs = Pairs.start(kit, x, most)
    for s, y in steps(n, 2 * most + 5, np.random.default_rng(most), quadratic=False):
        pairs, _ = add(pairs, kit, s, y)
        expected = dense(pairs) @ s
        size = np.abs(expected).max()
        assert np.allclose(pairs.product(kit, s), expected, rtol=1e-8, atol=1e-9 * size)
    assert pairs.count == 2 * most + 5
    assert pairs.S.shape == (most, n)


@pytest.mark.parametrize("n", [3, 33])
def test_a_batch_with_skipped_pairs(n):
    rng = np.random.default_rng(n)
    x = np.ones((4, n))
    kit = kit_for(x)
    pairs = Pairs.start(kit, x, 200)
    for i in range(12):
        given = [steps(n, 1, rng, False)[0] for _ in range(4)]
        s, y = (np.stack(part) for part in zip(*given, strict=True))
        bent_down = np.array([i % 3 == 1, False, i % 2 == 0, i < 11])
        y[bent_down] *= -1
        metric = pairs.D.copy()
        pairs, useful = add(pairs, kit, s, y)
        assert useful.tolist() == (~bent_down).tolist()
        np.testing.assert_array_equal(pairs.D[bent_down], metric[bent_down])
        found = matrix(pairs, n, x)
        for row in range(4):
            expected = dense(pairs, row)
            assert np.abs(found[row] - expected).max() <= 1e-9 * np.abs(expected).max()
    assert np.asarray(pairs.count).tolist() == [8, 12, 6, 1]


@pytest.mark.parametrize("n", [4, 33])
def test_a_skipped_pair_changes_nothing(n):
    given = steps(n, 6, np.random.default_rng(n), quadratic=False)
    pairs, x = filled(given, 200)
    before = matrix(pairs, n, x)
    s, y = given[0]
    for a, b in ((s, -y), (0 * s, 0 * y)):
        pairs, useful = add(pairs, kit_for(x), a, b)
        assert not useful
    assert (matrix(pairs, n, x) == before).all()


@pytest.mark.parametrize(("n", "quadratic"), [(2, True), (7, False), (33, True)])
def test_g_is_positive_definite_and_knows_the_last_pair(n, quadratic):
    pairs, x = filled(steps(n, n + 3, np.random.default_rng(n), quadratic), 200)
    G = matrix(pairs, n, x)
    assert np.abs(G - G.T).max() <= 1e-9 * np.abs(G).max()
    assert np.linalg.eigvalsh((G + G.T) / 2).min() > 0
    last = int(pairs.count) - 1
    s, y = pairs.S[last], pairs.Y[last]
    assert s @ y == pytest.approx(1.0)
    assert np.allclose(G @ y, s, rtol=1e-7, atol=1e-9 * np.abs(s).max())


@pytest.mark.parametrize("n", [2, 5, 12])
def test_a_quadratic_is_known_after_n_pairs(n):
    """Steps at random, not conjugate: the pairs are made so, and all secant equations hold at once."""
    rng = np.random.default_rng(n)
    H = spd(n, rng)
    given = [(s, H @ s) for s in rng.standard_normal((n, n))]
    for count in range(1, n + 1):
        pairs, x = filled(given[:count], 200)
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
    x = np.ones(n)
    kit = kit_for(x)
    pairs = Pairs.start(kit, x, 200)
    for _ in range(8):
        H, s = spd(n, rng), rng.standard_normal(n)
        y = H @ s
        B = np.diag(1 / pairs.D)
        B = (y @ np.linalg.solve(B, y)) / (s @ y) * B
        Bs = B @ s
        expected = np.diag(B - np.outer(Bs, Bs) / (s @ Bs) + np.outer(y, y) / (s @ y))
        pairs, useful = add(pairs, kit, s, y)
        assert useful
        assert (pairs.D > 0).all()
        assert np.allclose(1 / pairs.D, expected, rtol=1e-6, atol=1e-9 * expected.max())
        short, long = s @ y / (y @ (pairs.D * y)), s @ (s / pairs.D) / (s @ y)
        assert short * (1 - 1e-12) <= pairs.gamma <= long * (1 + 1e-12)


def test_forgetting_rows_of_a_batch():
    n, rng = 5, np.random.default_rng(0)
    x = np.ones((3, n))
    kit = kit_for(x)
    pairs = Pairs.start(kit, x, 200)
    H = spd(n, rng)
    for _ in range(4):
        s = rng.standard_normal((3, n))
        pairs, _ = add(pairs, kit, s, s @ H)
    before = matrix(pairs, n, x)
    pairs = pairs.clear(kit, np.array([False, True, False]))
    after = matrix(pairs, n, x)
    assert (after[[0, 2]] == before[[0, 2]]).all()
    assert np.allclose(after[1], pairs.gamma[1] * np.eye(n), rtol=1e-12)
    s = rng.standard_normal((3, n))
    pairs, _ = add(pairs, kit, s, s @ H)
    expected = bfgs(pairs.gamma[1] * np.diag(pairs.D[1]), s[1], (s @ H)[1])
    assert np.allclose(matrix(pairs, n, x)[1], expected, rtol=1e-9, atol=1e-10)
