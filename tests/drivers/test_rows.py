"""Rows with data of their own: each is the run that is made alone with its data."""

import numpy as np
import pytest

import steepen as st

from ..objectives import METHODS
from ..pairs import pairs

RNG = np.random.default_rng(0)
TIMES = np.linspace(0.0, 1.0, 20)
TRUE = RNG.uniform(0.5, 2.0, (12, 2))
DATA = TRUE[:, :1] * np.exp(-TRUE[:, 1:] * TIMES) + 1e-3 * RNG.standard_normal((12, 20))
WEIGHTS = RNG.uniform(0.5, 1.5, 12)
STARTS = np.ones((12, 2))


def rest(x, y):
    return x[..., :1] * np.exp(-x[..., 1:] * TIMES) - y


def loss(x, scale, y, w):
    return scale * w * (rest(x, y) ** 2).sum(axis=-1)


def columns(x):
    decay = np.exp(-x[..., 1:] * TIMES)
    return np.stack([decay, -x[..., :1] * TIMES * decay], axis=-2)


def slope(x, scale, y, w):
    return (2 * scale * w)[..., None] * (columns(x) * rest(x, y)[..., None, :]).sum(axis=-1)


def curvature(x, scale, y, w):
    """Return the Hessian by a closed form."""
    decay, r, c = np.exp(-x[..., 1:] * TIMES), rest(x, y), columns(x)
    second = np.zeros((*x.shape, 2))
    second[..., 0, 1] = second[..., 1, 0] = (r * -TIMES * decay).sum(axis=-1)
    second[..., 1, 1] = (r * x[..., :1] * TIMES**2 * decay).sum(axis=-1)
    squares = (c[..., :, None, :] * c[..., None, :, :]).sum(axis=-1)
    return (2 * scale * w)[..., None, None] * (squares + second)


def product(x, v, scale, y, w):
    return (curvature(x, scale, y, w) * v[..., None, :]).sum(axis=-1)


def both(x, scale, y, w):
    return loss(x, scale, y, w), slope(x, scale, y, w)


SOURCES = {
    "given": {"jac": slope}, "together": {"jac": True}, "hvp": {"jac": slope, "hvp": product},
    "hess": {"jac": slope, "hess": curvature}, "2-point": {}, "cs": {"jac": "cs"},
}  # fmt: skip
GIVEN = {"budget": st.Budget(iters=40)}


@pairs(
    method=METHODS, source=SOURCES, bounds=(None, [(0.0, 1.2), (0.1, 3.0)]), scale=(None, (2.0, 0.5)),
    step=(None, 0.01),
)  # fmt: skip
def test_each_row_is_the_run_alone_with_its_data(method, source, bounds, scale, step):
    fun = both if source == "together" else loss
    given = SOURCES[source] | GIVEN | {"method": method, "bounds": bounds, "x_scale": scale, "step": step}
    many = st.minimize(fun, STARTS, (0.5,), rows=(DATA, WEIGHTS), **given)
    for row in (0, 5, 11):
        alone = st.minimize(fun, STARTS[row], (0.5, DATA[row], WEIGHTS[row : row + 1][0]), **given)
        assert many.status[row] == alone.status
        np.testing.assert_allclose(many.x[row], alone.x, rtol=1e-6, atol=1e-8)
        assert many.nfev[row] == pytest.approx(alone.nfev, rel=0.05, abs=2)


def test_a_function_is_told_the_data_of_the_points_that_it_gets():
    seen = []

    def fun(x, own):
        seen.append((len(x), own))
        return ((x - own) ** 2).sum(axis=-1) * (1 + own[:, 0])

    centres = np.stack([np.arange(5.0), np.arange(5.0)], axis=1)
    res = st.minimize(fun, np.zeros((5, 2)), rows=centres)
    np.testing.assert_allclose(res.x, centres, atol=1e-5)
    assert all(count == len(own) for count, own in seen)
    assert {count for count, _ in seen} > {5}  # some rows end before others
    assert any(len(set(map(tuple, own.tolist()))) < count for count, own in seen)  # the points of differences


def test_as_many_rows_as_variables_or_data():
    y = DATA[:2]
    many = st.minimize(loss, STARTS[:2], (1.0,), rows=(y, WEIGHTS[:2]), jac=slope)
    np.testing.assert_allclose(many.x, TRUE[:2], atol=0.05)


def test_a_function_for_one_point_is_found_out_where_there_are_as_many_rows_as_data():
    def of_one(x, y):
        return ((x[0] - y) ** 2).sum(axis=0)

    def scaled(x, y):
        return (x[0] - y) ** 2 + x[1] ** 2

    for fun, x0, data in (
        (of_one, np.zeros((5, 1)), np.arange(25.0).reshape(5, 5)), (scaled, np.zeros((2, 2)), np.arange(2.0)),
        (scaled, np.zeros((3, 3)), np.arange(3.0)), (of_one, np.zeros((2, 2)), np.arange(4.0).reshape(2, 2)),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=r"expected .* rows of x|broadcast"):
            st.minimize(fun, x0, rows=data)
        alone = [st.minimize(fun, one, (own,)) for one, own in zip(x0, data, strict=True)]
        many = st.minimize(fun, x0, rows=data, workers=map)
        np.testing.assert_array_equal(many.x, [one.x for one in alone])


def test_data_that_a_function_changes_are_copies():
    def fun(x, y):
        f = ((x - y) ** 2).sum(axis=-1)
        y[...] = 0.0
        return f

    data, kept = WEIGHTS.reshape(6, 2).copy(), WEIGHTS.reshape(6, 2)
    for workers in (None, map):
        res = st.minimize(fun, np.zeros((6, 2)), rows=data, workers=workers)
        np.testing.assert_allclose(res.x, kept, atol=1e-6)
        np.testing.assert_array_equal(data, kept)


def test_a_function_for_one_point_is_mapped_over_the_rows():
    one = np.vectorize(lambda x, y: ((x[0] * np.exp(-x[1] * TIMES) - y) ** 2).sum(), signature="(n),(m)->()")
    res = st.minimize(one, STARTS, rows=DATA)
    np.testing.assert_allclose(res.x, TRUE, atol=0.05)


def test_the_indices_of_the_rows_can_be_data():
    def fun(x, row):
        return ((x - row[:, None]) ** 2).sum(axis=-1)

    res = st.minimize(fun, np.ones((4, 3)), rows=np.arange(4))
    np.testing.assert_allclose(res.x, np.repeat(np.arange(4.0)[:, None], 3, axis=1), atol=1e-5)


def test_a_checkpoint_belongs_to_its_data(tmp_path):
    path = tmp_path / "run"
    given = {"rows": (DATA, WEIGHTS), "checkpoint": path}
    first = st.minimize(loss, STARTS, (1.0,), budget=st.Budget(iters=3), **given)
    again = st.minimize(loss, STARTS, (1.0,), **given)
    assert (again.fun <= first.fun).all()
    with pytest.raises(st.CheckpointError, match="rows"):
        st.minimize(loss, STARTS, (1.0,), rows=(DATA, 2 * WEIGHTS), checkpoint=path)


@pytest.mark.parametrize(
    ("x0", "given", "text"),
    [
        (STARTS[0], {"rows": DATA[0]}, r"^rows: expected a batch x0 of shape \(B, n\)"),
        (STARTS, {"rows": DATA[:5]}, r"^rows: expected .* 12 rows, .* got shape \(5, 20\) in place 0"),
        (STARTS, {"rows": (DATA, 3.0)}, r"^rows: expected .* 12 rows, .* got shape \(\) in place 1"),
        (STARTS, {"rows": DATA, "jac": "torch"}, "^rows: not supported where jac='torch' differentiates"),
    ],
)
def test_wrong_data_are_refused_before_any_work(x0, given, text):
    def fun(*_):
        raise AssertionError

    with pytest.raises(ValueError, match=text):
        st.minimize(fun, x0, **given)
