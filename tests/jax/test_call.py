"""A call of `minimize` with JAX arrays, and what else a program of JAX's has of the parts of a call."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize as so

import steepen as st
import steepen.integrations.scipy

from ..other_arrays import OtherArrays
from ..public import Documented, blocks
from ..test_scale import SIZES, START, UNITS, plain


class TestArrays(OtherArrays):
    xp, autodiff = jnp, "jax"


class TestDocumented(Documented):
    part = "jax"


def test_the_snippet_of_the_readme_for_jax_runs_as_it_is():
    (snippet,) = (one for one in blocks("README.md") if "import jax\n" in one)
    exec(compile(snippet, "README.md", "exec"), names := {})
    inner, held = names["argmin"](jnp.array([1.0, 2.0]))  # 2(x − 1) + 4x³ = 0, and 0.835 without the bound
    np.testing.assert_allclose([2 * (inner - 1) + 4 * inner**3, held - 0.8], 0, atol=1e-4)


@pytest.mark.slow  # a minute of compiling
def test_the_page_runs_as_it_is():
    exec(compile("\n".join(blocks("docs/jax.md")), "docs/jax.md", "exec"), names := {})
    assert bool(names["many"].success.all())
    np.testing.assert_allclose(names["shared"].x, names["many"].x, rtol=1e-6)


@pytest.mark.slow  # a minute of compiling
def test_the_examples_run_as_they_are_and_find_what_is_known(capsys):
    import jax

    before, names = jax.config.jax_enable_x64, {}
    try:
        for block in blocks("docs/jax_examples.md", "{code-cell} python"):
            exec(compile(block, "docs/jax_examples.md", "exec"), names)
    finally:
        jax.config.update("jax_enable_x64", before)
    said = capsys.readouterr().out
    np.testing.assert_allclose(jax.grad(names["error"])(1.0), jax.grad(names["closed"])(1.0), rtol=1e-6)
    assert names["losses"][-1] < 0.02 * names["losses"][0]
    np.testing.assert_allclose(names["slope"], names["difference"], rtol=1e-4)
    assert names["many"].success.all()
    np.testing.assert_allclose(names["mean"], 1.0, atol=0.02)
    np.testing.assert_allclose(np.sqrt(np.diag(names["covariance"])), names["scales"], rtol=0.5)
    assert -0.5 < names["elbo"] <= 0.01
    assert said.count("\n") == 11
    assert 2 < names["best"].x[0] < 4
    assert names["best"].success


def test_scipys_option_gradient():
    theirs = so.minimize(
        plain, START, method=steepen.integrations.scipy.cgd_auto, options={"gradient": "jax"}
    )
    ours = st.minimize(plain, START, jac="jax")
    np.testing.assert_array_equal(theirs.x, ours.x)
    assert (theirs.nfev, theirs.njev) == (ours.nfev, ours.njev)


def valley(x, sizes):
    return plain(x / sizes)


def test_x_scale_and_gtol_rel_in_the_compiled_engine():
    given = {"method": "bfgs", "gtol_rel": 1e-4, "gtol": 0.0}
    sizes = (jnp.asarray(SIZES),)
    array = given | {"gtol_rel": jnp.asarray(1e-4), "options": {"maxiter": 999}}  # a number of JAX's will do
    ours = st.minimize(valley, START * SIZES, sizes, engine="jax", x_scale=SIZES, **array)
    theirs = st.minimize(plain, START, jac="jax", **given)
    np.testing.assert_allclose(ours.x, theirs.x * SIZES, rtol=1e-6)
    assert ours.status is theirs.status is st.Status.RELATIVE


@pytest.mark.slow  # it compiles cgd-auto
def test_the_compiled_engine_in_any_units():
    for units in UNITS:  # one program
        res = st.minimize(valley, START * units, (jnp.asarray(units),), engine="jax", gtol_rel=1e-30)
        assert res.success
        assert res.fun < 1e-8
