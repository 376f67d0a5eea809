"""Short vectors in a compiled program: R⁻¹S in the place of R⁻¹ makes the same inverse Hessian."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from steepen._core.kits import Traced, kit_for
from steepen.directions._pairs import Folded, Pairs

jax = pytest.importorskip("jax")


@pytest.mark.parametrize("count", [3, 11])  # the ring has seven places
def test_both_forms_make_the_same_matrix(count: int) -> None:
    rng, n = np.random.default_rng(count), 4
    H = np.diag([1.0, 3.0, 10.0, 30.0])
    with jax.enable_x64(True):
        start: Any = np.ones(n)
        like = jax.numpy.asarray(start)
        kits: list[Any] = [kit_for(start), Traced(like)]
        pairs: list[Any] = [Pairs.start(kit, x, 7) for kit, x in zip(kits, (start, like), strict=True)]
        assert isinstance(pairs[1], Folded)
        assert not isinstance(pairs[0], Folded)
        for _ in range(count):
            s = rng.standard_normal(n)
            y = H @ s + 0.3 * s**2 * rng.standard_normal(n)  # no quadratic: the pairs do not all agree
            for i, kit in enumerate(kits):
                a, b = (kit.own(v) for v in (s, y))
                pairs[i], useful = pairs[i].add(kit, a, b, kit.dot(a, b), kit.norm(a))
                assert bool(useful) == bool(s @ y > 0)
        G = np.array([pairs[0].product(kits[0], unit) for unit in np.eye(n)])
        assert np.linalg.eigvalsh((G + G.T) / 2).min() > 0
        np.testing.assert_allclose(pairs[1].matrix(kits[1]), G, rtol=1e-9, atol=1e-9 * abs(G).max())
        for unit, row in zip(np.eye(n), G, strict=True):
            found = pairs[1].product(kits[1], jax.numpy.asarray(unit))
            np.testing.assert_allclose(found, row, rtol=1e-9, atol=1e-9 * abs(G).max())
