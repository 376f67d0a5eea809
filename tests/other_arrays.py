"""What holds of arrays of torch and of JAX alike; test_call.py of tests/torch and of tests/jax ask it."""

import math
from typing import Any

import numpy as np
import pytest

import steepen as st

from .calls import Bowl, refused, run
from .test_penalties import PENALTIES
from .test_scale import SIZES, START, plain, same


class OtherArrays:
    """The tests; `xp` is the library, `autodiff` what `jac` calls it."""

    xp: Any
    autodiff: str

    def own(self, x):
        return self.xp.asarray(np.asarray(x, dtype=np.float32))

    @pytest.mark.parametrize("dtype", ["bool", "complex64", "float16", "bfloat16"])
    def test_x0_is_held_to_the_same(self, dtype):
        xp = self.xp
        bad = xp.ones(2, dtype=getattr(xp, dtype, None) or xp.bool_)
        refused(TypeError, "x0: expected float32 or float64", dtype, x0=bad)
        refused(ValueError, "x0: expected finite", "nan", x0=xp.asarray([1.0, math.nan]))
        refused(ValueError, "x0: expected shape", "(1, 1, 2)", x0=xp.ones((1, 1, 2)))

    def test_whole_numbers_become_floats(self):
        result = run(Bowl(), x0=self.xp.asarray([1, -2]))
        np.testing.assert_allclose(np.asarray(result.x), [0.512, -1.024], rtol=1e-6)

    @pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
    def test_penalties(self, penalty):
        point = np.array([[1.0, -2.0, 0.5], [3.0, 1e-2, -7.0]], dtype=np.float32)
        vector = penalty.vector(self.own(point))
        assert isinstance(vector, type(self.own(point)))
        assert str(vector.dtype).endswith("float32")
        np.testing.assert_allclose(np.asarray(vector), penalty.vector(point), rtol=2e-6)
        value = np.asarray(penalty.value(self.own(point)))
        np.testing.assert_allclose(value, penalty.value(point), rtol=2e-6)

    def test_cgd_auto_walks_the_same_way(self):
        start = np.array([3.0, -2.0]) + np.arange(3)[:, None]

        def fun(x):
            return (x * x).sum(-1) + x[..., 0] * x[..., 1]

        given = {"gtol": 1e-2, "memory": 2, "budget": st.Budget(iters=4)}
        x0 = self.own(start)
        res = st.minimize(fun, x0, **given)
        expected = st.minimize(fun, start.astype(np.float32), jac=lambda x: 2 * x + x[..., ::-1], **given)
        assert (type(res.x), res.x.dtype) == (type(x0), x0.dtype)
        assert np.array_equal(res.nit, expected.nit)
        assert np.allclose(np.asarray(res.x), expected.x, atol=1e-3)

    def test_x_scale(self):
        def fun(x):
            return plain(x / self.xp.asarray(SIZES))

        same(
            st.minimize(fun, START * SIZES, jac=self.autodiff, x_scale=SIZES),
            st.minimize(plain, START, jac=self.autodiff),
        )
