"""The penalties h of the gradient, against their formulas at many digits."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import steepen as st
from steepen import penalties

from .calls import quadratic, slope, traced

PENALTIES = [
    penalties.SquaredL2(), penalties.L2(), penalties.Huber(), penalties.Huber(1e-3), penalties.L1(),
    penalties.L1(0.5), penalties.PNorm(), penalties.PNorm(1.5), penalties.PNorm(9.0),
]  # fmt: skip
EVERY = pytest.mark.parametrize("penalty", PENALTIES, ids=repr)


def reference(penalty, values):
    match penalty:
        case penalties.SquaredL2():
            return sum(v**2 for v in values)
        case penalties.L2():
            return mpmath.sqrt(sum(v**2 for v in values))
        case penalties.L1():
            return sum(mpmath.sqrt(v**2 + mpmath.mpf(penalty.eps) ** 2) for v in values)
        case penalties.PNorm():
            p = mpmath.mpf(penalty.p)
            return sum(abs(v) ** p for v in values) ** (1 / p)
    d = mpmath.mpf(penalty.delta)
    return sum(v**2 / 2 if abs(v) <= d else d * (abs(v) - d / 2) for v in values)


def agrees(penalty, point):
    """Hold ∇h to central differences of h at many digits."""
    with mpmath.workdps(800):
        values = [mpmath.mpf(float(v)) for v in point]
        h, expected = max(abs(v) for v in values) * mpmath.mpf(10) ** -60, []
        for i in range(len(values)):
            ahead, behind = ([v + sign * h * (j == i) for j, v in enumerate(values)] for sign in (1, -1))
            expected.append(float((reference(penalty, ahead) - reference(penalty, behind)) / (2 * h)))
    atol = 1e-14 * max(map(abs, expected))
    np.testing.assert_allclose(penalty.scale * penalty.vector(point), expected, rtol=1e-12, atol=atol)


@given(
    some.sampled_from(PENALTIES),
    some.lists(some.floats(-100, 100).filter(lambda v: v == 0 or abs(v) > 1e-3), min_size=1, max_size=4),
    some.sampled_from([-150, -8, 0, 3, 150]),
)
def test_the_gradient_of_a_penalty(penalty, values, power):
    point = np.array(values) * 10.0**power
    if not point.any():
        point[0] = 10.0**power
    agrees(penalty, point)


@EVERY
def test_a_zero_gradient_leading_axes_and_sizes_whose_squares_do_not_exist(penalty):
    for size in (1e-200, 1e200) if not isinstance(penalty, penalties.SquaredL2) else ():
        agrees(penalty, np.array([3.0, -4.0]) * size)
    with np.errstate(all="raise"):
        assert penalty.vector(np.zeros(3)).tolist() == [0.0, 0.0, 0.0]
    batch = np.array([[1.0, -2.0, 0.5], [0.0, 0.0, 0.0], [3.0, 1e-4, -7.0]])
    np.testing.assert_allclose(penalty.vector(batch), [penalty.vector(row) for row in batch], rtol=1e-15)


@EVERY
def test_the_direction_is_the_gradient_of_the_penalised_function(penalty):
    """−p = ∇(f + λ·h(∇f)), by differences of the landscape itself."""
    lam, x0, h = 0.01, np.array([0.7, -1.3]), 1e-6

    def landscape(x):
        return float(quadratic(x) + lam * reference(penalty, slope(x).tolist()))

    trace = traced(x0, lam=lam, penalty=penalty, step=1.0, budget=st.Budget(iters=1), trace="x")
    expected = [(landscape(x0 + h * e) - landscape(x0 - h * e)) / (2 * h) for e in np.eye(2)]
    np.testing.assert_allclose(trace.x[0] - trace.x[1], expected, rtol=1e-7)
