"""A call of `minimize` with JAX arrays, and what else a program of JAX's has of the parts of a call."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize as so

import steepen as st
import steepen.scipy
from steepen._core.kits import Traced, kit_for
from steepen.directions._pairs import Folded, Pairs

from ..other_arrays import OtherArrays
from ..public import Documented
from ..test_scale import SIZES, START, UNITS, plain


class TestArrays(OtherArrays):
    xp, autodiff = jnp, "jax"


class TestDocumented(Documented):
    part = "jax"


def test_scipys_option_gradient():
    theirs = so.minimize(plain, START, method=steepen.scipy.cgd_auto, options={"gradient": "jax"})
    ours = st.minimize(plain, START, jac="jax")
    np.testing.assert_array_equal(theirs.x, ours.x)
    assert (theirs.nfev, theirs.njev) == (ours.nfev, ours.njev)


def valley(x, sizes):
    return plain(x / sizes)


def test_x_scale_and_gtol_rel_in_the_compiled_engine():
    given: dict[str, Any] = {"method": "bfgs", "gtol_rel": 1e-4, "gtol": 0.0}
    sizes = (jnp.asarray(SIZES),)
    ours = st.minimize(valley, START * SIZES, sizes, engine="jax", x_scale=SIZES, **given)
    theirs = st.minimize(plain, START, jac="jax", **given)
    np.testing.assert_allclose(ours.x, theirs.x * SIZES, rtol=1e-6)
    assert ours.status is theirs.status is st.Status.RELATIVE


@pytest.mark.slow  # it compiles cgd-auto
def test_the_compiled_engine_in_any_units():
    for units in UNITS:  # one program
        res = st.minimize(valley, START * units, (jnp.asarray(units),), engine="jax", gtol_rel=1e-30)
        assert res.success
        assert res.fun < 1e-8


def test_short_vectors_in_a_program_have_the_same_inverse_hessian():
    """R⁻¹S in the place of R⁻¹ makes the same matrix."""
    count, n = 11, 4  # the ring has seven places
    rng = np.random.default_rng(count)
    H = np.diag([1.0, 3.0, 10.0, 30.0])
    with jax.enable_x64(True):
        start: Any = np.ones(n)
        like = jnp.asarray(start)
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
            found = pairs[1].product(kits[1], jnp.asarray(unit))
            np.testing.assert_allclose(found, row, rtol=1e-9, atol=1e-9 * abs(G).max())
