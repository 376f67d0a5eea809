"""The pairs of cgd-auto against dense matrices."""

from typing import Any

import numpy as np
import pytest

from steepen._core.kits import kit_for
from steepen.directions._pairs import Pairs

ROUGH = {np.float64: 1e-9, np.float32: 2e-2}


def spd(n: int, rng: np.random.Generator, spread: float = 30.0) -> Any:
    basis = np.linalg.qr(rng.standard_normal((n, n)))[0]
    H = basis @ np.diag(np.geomspace(1.0, spread, n)) @ basis.T
    return (H + H.T) / 2


def bfgs(G: Any, s: Any, y: Any) -> Any:
    """Give the textbook's product form of the inverse update."""
    rho, eye = 1 / (s @ y), np.eye(len(s))
    return (eye - rho * np.outer(s, y)) @ G @ (eye - rho * np.outer(y, s)) + rho * np.outer(s, s)


def dense(pairs: Pairs, row: int | None = None) -> Any:
    """Give G from the pairs in the memory, one rank-two update after the other, the oldest first."""

    def own(name: str) -> Any:
        value = np.asarray(getattr(pairs, name), dtype=float)
        return value if row is None else value[row]

    count, capacity = int(own("count")), pairs.capacity
    G = float(own("gamma")) * np.diag(own("D"))
    for i in range(max(0, count - capacity), count):
        G = bfgs(G, own("S")[i % capacity], own("Y")[i % capacity])
    return G


def matrix(pairs: Pairs, n: int, like: Any) -> Any:
    """Give G, column by column, as the pairs apply it (for one row of a batch: all rows at once)."""
    kit = kit_for(like)
    columns = [
        pairs.product(kit, kit.xp.asarray(like * 0) + kit.xp.asarray(unit, dtype=like.dtype))
        for unit in np.eye(n)
    ]
    return np.stack([np.asarray(c, dtype=float) for c in columns], axis=-1)


def steps(n: int, count: int, rng: np.random.Generator, quadratic: bool) -> list[tuple[Any, Any]]:
    """Give pairs of one quadratic, or of Hessians that have little to do with each other."""
    H, found = spd(n, rng), []
    for _ in range(count):
        s = rng.standard_normal(n)
        found.append((s, H @ s))
        if not quadratic:
            H = spd(n, rng)
    return found


def add(pairs: Pairs, kit: Any, s: Any, y: Any) -> tuple[Pairs, Any]:
    return pairs.add(kit, s, y, kit.dot(s, y), kit.norm(s))


def filled(pairs_of: list[tuple[Any, Any]], most: int, dtype: Any = np.float64) -> tuple[Pairs, Any]:
    x = np.ones(len(pairs_of[0][0]), dtype=dtype)
    kit = kit_for(x)
    pairs = Pairs.start(kit, x, most)
    for s, y in pairs_of:
        pairs, _ = add(pairs, kit, s.astype(dtype), y.astype(dtype))
    return pairs, x


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("quadratic", [True, False])
@pytest.mark.parametrize(("n", "count"), [(1, 1), (2, 5), (6, 4), (6, 14), (31, 20), (32, 20), (40, 60)])
def test_a_single_run(n: int, count: int, quadratic: bool, dtype: Any) -> None:
    if quadratic and dtype == np.float32 and count > n:
        pytest.skip("in float32 the pairs of a quadratic that is known are rounding")
    given = steps(n, count, np.random.default_rng(n + count), quadratic)
    pairs, x = filled(given, 200, dtype)
    found, expected = matrix(pairs, n, x), dense(pairs)
    assert np.abs(found - expected).max() <= ROUGH[dtype] * np.abs(expected).max()
    assert found.dtype == float
    assert pairs.product(kit_for(x), x).dtype == dtype


@pytest.mark.parametrize("most", [1, 5, 20, 40])
@pytest.mark.parametrize("n", [8, 36])
def test_the_oldest_is_forgotten(n: int, most: int) -> None:
    x = np.ones(n)
    kit = kit_for(x)
    pairs = Pairs.start(kit, x, most)
    for s, y in steps(n, 90, np.random.default_rng(most), quadratic=False):
        pairs, _ = add(pairs, kit, s, y)
        expected = dense(pairs)
        size = np.abs(expected @ s).max()
        assert np.allclose(pairs.product(kit, s), expected @ s, rtol=1e-8, atol=1e-9 * size)
    assert pairs.count == 90
    assert pairs.S.shape == (most, n)


@pytest.mark.parametrize("n", [3, 31, 33])
def test_a_batch_with_skipped_pairs(n: int) -> None:
    rng = np.random.default_rng(n)
    x = np.ones((4, n))
    kit = kit_for(x)
    pairs = Pairs.start(kit, x, 200)
    for i in range(12):
        given = [steps(n, 1, rng, False)[0] for _ in range(4)]
        s, y = (np.stack(part) for part in zip(*given, strict=True))
        bent_down = np.array([i % 3 == 1, False, i % 2 == 0, i < 11])
        y[bent_down] *= -1
        pairs, useful = add(pairs, kit, s, y)
        assert useful.tolist() == (~bent_down).tolist()
        found = matrix(pairs, n, x)
        for row in range(4):
            expected = dense(pairs, row)
            assert np.abs(found[row] - expected).max() <= 1e-9 * np.abs(expected).max()
    assert np.asarray(pairs.count).tolist() == [8, 12, 6, 1]


@pytest.mark.parametrize("n", [4, 33])
def test_a_skipped_pair_changes_nothing(n: int) -> None:
    given = steps(n, 6, np.random.default_rng(n), quadratic=False)
    pairs, x = filled(given, 200)
    before = matrix(pairs, n, x)
    s, y = given[0]
    kit = kit_for(x)
    for a, b in ((s, -y), (0 * s, 0 * y)):
        pairs, useful = add(pairs, kit, a, b)
        assert not useful
    assert (matrix(pairs, n, x) == before).all()


@pytest.mark.parametrize("library", ["torch", "jax"])
@pytest.mark.parametrize("rows", [None, 3])
@pytest.mark.parametrize("n", [5, 33])
def test_other_libraries(library: str, rows: int | None, n: int) -> None:
    lib = pytest.importorskip(library)
    rng = np.random.default_rng(0)
    shape = (n,) if rows is None else (rows, n)
    asarray = lib.tensor if library == "torch" else lib.numpy.asarray
    x = asarray(np.ones(shape, dtype=np.float32))
    kit = kit_for(x)
    pairs = Pairs.start(kit, x, 200)
    H = spd(n, rng)
    for _ in range(4):
        s = rng.standard_normal(shape)
        pairs, _ = add(pairs, kit, asarray(s.astype(np.float32)), asarray((s @ H).astype(np.float32)))
    assert type(pairs.product(kit, x)) is type(x)
    assert pairs.product(kit, x).dtype == x.dtype
    found = matrix(pairs, n, x)
    for row in [None] if rows is None else range(rows):
        expected = dense(pairs, row)
        assert (
            np.abs((found if row is None else found[row]) - expected).max() <= 1e-3 * np.abs(expected).max()
        )


@pytest.mark.parametrize("quadratic", [True, False])
@pytest.mark.parametrize("n", [2, 7, 33])
def test_g_is_positive_definite_and_knows_the_last_pair(n: int, quadratic: bool) -> None:
    given = steps(n, n + 3, np.random.default_rng(n), quadratic)
    pairs, x = filled(given, 200)
    G = matrix(pairs, n, x)
    assert np.abs(G - G.T).max() <= 1e-9 * np.abs(G).max()
    assert np.linalg.eigvalsh((G + G.T) / 2).min() > 0
    last = int(pairs.count) - 1
    s, y = pairs.S[last], pairs.Y[last]
    assert np.allclose(pairs.product(kit_for(x), y), s, rtol=1e-7, atol=1e-9 * np.abs(s).max())


@pytest.mark.parametrize("n", [2, 5, 12, 33])
def test_a_quadratic_is_known_after_n_pairs(n: int) -> None:
    """Steps at random, not conjugate: the pairs are made so, and all secant equations hold at once."""
    rng = np.random.default_rng(n)
    H = spd(n, rng)
    given = [(s, H @ s) for s in rng.standard_normal((n, n))]
    for count in range(1, n + 1):
        pairs, x = filled(given[:count], 200)
        kept = pairs.conjugate[:count] > 0
        if not kept.all():  # a pair was too near to the span of the others
            break
        for s, y in given[:count]:
            assert np.allclose(pairs.product(kit_for(x), y), s, rtol=1e-6, atol=1e-7)
        S, Y = pairs.S[:count], pairs.Y[:count]
        across = S @ Y.T
        size = np.sqrt(np.outer(across.diagonal(), across.diagonal()))
        assert np.abs(across / size - np.eye(count)).max() <= 1e-8
    else:
        inverse = np.linalg.inv(H)
        assert np.abs(matrix(pairs, n, x) - inverse).max() <= 1e-6 * np.abs(inverse).max()


@pytest.mark.parametrize("n", [1, 2, 9, 40])
def test_the_diagonal_is_that_of_the_scaled_bfgs_update(n: int) -> None:
    """B = diag(1/D) is scaled to τB with τ = yᵀDy/sᵀy, then updated; the diagonal is what is kept."""
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


def test_forgetting_rows_of_a_batch() -> None:
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
    y = s @ H
    pairs, _ = add(pairs, kit, s, y)
    G = matrix(pairs, n, x)
    expected = bfgs(pairs.gamma[1] * np.diag(pairs.D[1]), s[1], y[1])
    assert np.allclose(G[1], expected, rtol=1e-9, atol=1e-10)
