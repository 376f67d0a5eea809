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

    def test_a_start_that_is_flat_is_not_refused(self):
        xp = self.xp
        for fun in (
            lambda x: ((x - 1.5) ** 2).sum(), lambda x: ((x - 1.5) ** 4).sum(), lambda x: xp.ones(()) * 3,
            lambda x: xp.where(x > 1.5, x - 1.5, 0 * x).sum(), lambda x: xp.maximum(x - 9, 0 * x).sum(),
        ):  # fmt: skip
            res = st.minimize(fun, xp.ones((3, 3)) * 1.5, method="gd")
            assert np.all(res.status == st.Status.CONVERGED)
            assert np.all(res.nfev == 2)
            assert np.all(np.asarray(res.x) == 1.5)

    def test_only_a_flat_row_is_looked_at_and_only_within_the_budget(self):
        x0, given = self.own([[0, 0], [1, 2]]), {"method": "gd", "step": 0.1}
        res = st.minimize(lambda x: (x * x).sum(), x0, budget=st.Budget(iters=0), **given)
        assert res.nfev.tolist() == [2, 1]
        assert res.status.tolist() == [st.Status.CONVERGED, st.Status.MAX_ITERATIONS]
        poor = st.minimize(lambda x: (x * x).sum(), x0, budget=st.Budget(evals=1), **given)
        assert poor.nfev.tolist() == [1, 1]
        assert not poor.success.any()

    def test_x_scale(self):
        def fun(x):
            return plain(x / self.xp.asarray(SIZES))

        same(
            st.minimize(fun, START * SIZES, jac=self.autodiff, x_scale=SIZES),
            st.minimize(plain, START, jac=self.autodiff),
        )
