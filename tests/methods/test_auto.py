"""cgd-auto: what its steps amount to, where they end, and that no end is called a success which is none."""

import numpy as np
import pytest
import scipy.optimize as so

import steepen as st
from steepen import Budget, Status

from ..calls import same
from ..objectives import BY_NAME, quadratic, spd
from ..pairs import pairs, sample
from ..rounding import off, seen


@pytest.mark.parametrize(("n", "t", "t2"), [(1, 1.0, 1.0), (6, 1.0, 1.0), (6, 0.3, 2.5), (12, 4.0, 0.1)])
def test_the_bfgs_step_is_a_cgd_step_from_the_point_before(n, t, t2):
    rng = np.random.default_rng(n)
    G, Hbar = spd(rng.uniform(0.1, 5, n), n), spd(rng.uniform(0.1, 5, n), n + 1)
    x, g = rng.standard_normal((2, n))
    s = -t * (G @ g)
    y = Hbar @ s
    rho, eye = 1 / (s @ y), np.eye(n)
    after = (eye - rho * np.outer(s, y)) @ G @ (eye - rho * np.outer(y, s)) + rho * np.outer(s, s)
    p = -after @ (g + y)
    ends = x + s + t2 * p

    method = st.CGDAuto()
    method.taken, method.sy, method.omega = t, s @ y, g @ G @ g
    method.past, method.factor = g @ p, 1.0
    alpha, lam = method.amounts(t2, 0.0)
    cgd = x - alpha * (G @ g + 2 * lam * (G @ Hbar @ G @ g))
    assert np.allclose(cgd, ends, rtol=1e-9, atol=1e-9 * np.abs(ends - x).max())
    if t == t2 == 1:  # the formulas of the module's first lines
        sy, yGy = s @ y, y @ G @ y
        assert lam == pytest.approx(-0.5 * sy / (sy + yGy), rel=1e-9)
        assert alpha == pytest.approx((g @ G @ g / sy) * (1 + yGy / sy), rel=1e-9)


@pytest.mark.parametrize("n", [2, 40])
def test_on_quadratics_lam_lies_between_minus_a_half_and_zero(n):
    p = quadratic("q", spd(np.geomspace(1, 50, n), n), np.ones(n), (1.0,) * n)
    trace = st.minimize(p.fun, p.x0, jac=p.grad, method="cgd-auto", gtol=1e-8).trace
    lam = trace.lam[:-1]
    assert lam[0] == 0  # a plain step: there is no pair yet
    assert (lam[1:] < 0).any()
    assert ((lam > -0.5) & (lam <= 0)).mean() >= 0.8


ROSEN, TEN, CHAIN = (BY_NAME[name] for name in ("rosenbrock2", "rosenbrock10", "chain40"))


@pytest.mark.parametrize("tolerance", ["ftol", "xtol"])
def test_a_search_that_found_nothing_is_no_small_step(tolerance):
    """After it cgd-auto begins again from the same x: that is no convergence."""

    def fun(x):
        return float(x @ x + x[0] ** 4)

    def grad(x):
        """Return the gradient, and below f = 1 its opposite, along which no search can find anything."""
        right = 2 * x + [4 * x[0] ** 3, 0.0]
        return right if fun(x) > 1 else -right

    res = st.minimize(fun, [2.0, 1.0], jac=grad, gtol=0, **{tolerance: 1e-16})
    assert res.fun < 1
    assert (res.trace.step[:-1] > 0).all()
    assert res.status is Status.LINE_SEARCH_FAILED


def test_a_search_that_finds_nothing_is_repeated_twice_and_not_for_ever():
    res = st.minimize(lambda x: float(x @ x), [1.0, 2.0], jac=lambda x: -2 * x)  # a wrong sign
    assert res.status is Status.LINE_SEARCH_FAILED
    assert res.nit <= 2
    assert res.nfev < 100


@pytest.mark.parametrize(
    ("fun", "grad", "x0"),
    [
        (lambda x: x[0] + 2 * x[1], lambda x: np.array([1.0, 2.0]), [1.0, 1.0]),
        (lambda x: -(x[0] ** 2), lambda x: -2 * x, [0.0]),
        (lambda x: x[0] ** 3 + x[1] ** 2, lambda x: np.array([3 * x[0] ** 2, 2 * x[1]]), [-1.0, 3.0]),
        (lambda x: x[1] ** 2 - np.exp(x[0]), lambda x: np.array([-np.exp(x[0]), 2 * x[1]]), [0.0, 3.0]),
    ],
    ids=["linear", "parabola_from_its_top", "cubic_and_bowl", "exp_and_bowl"],
)
def test_unbounded_below(fun, grad, x0):
    with np.errstate(over="ignore", invalid="ignore"):
        res = st.minimize(fun, x0, jac=grad)
        assert res.status is Status.UNBOUNDED
        assert not res.success
        assert res.nit < 400
        assert np.isfinite(res.x).all()
        lowest_seen = res.trace.f[np.isfinite(res.trace.f)].min()
        assert res.fun == res.best.fun == lowest_seen == seen(fun)(res.x) < fun(np.array(x0))
        res = st.minimize(lambda x: -(x * x).sum(), np.ones(2, np.float32), jac=lambda x: -2 * x)
        assert (res.status, res.x.dtype) == (Status.UNBOUNDED, np.float32)


def test_where_f_is_flat_to_second_order_there_is_no_way_to_look_for():
    for fun, grad, x0 in (
        (lambda x: 3.0, lambda x: 0 * x, [1.0, 2.0]),
        (lambda x: x[0] ** 3, lambda x: 3 * x**2, [0.0]),
        (lambda x: float(x[0] ** 2), lambda x: np.array([2 * x[0], 0.0]), [0.0, 1.0]),
    ):
        res = st.minimize(fun, x0, jac=grad)
        assert (res.status, res.nit, res.nfev, res.x.tolist()) == (Status.CONVERGED, 0, 1, x0)


def bent(n, down):
    """Σ wᵢxᵢ²/2 + xᵢ⁴/4 with some wᵢ < 0: a saddle, or a maximum, at 0; and its least value."""
    w = np.linspace(1, 3, n)
    w[:down] *= -1
    return (
        lambda x: (w * x * x).sum(axis=-1) / 2 + (x * x * x * x).sum(axis=-1) / 4,
        lambda x: w * x + x * x * x,
        float(-(w[:down] ** 2).sum() / 4),
    )


@pytest.mark.parametrize(("n", "down"), [(1, 1), (2, 2), (5, 1), (50, 1), (300, 5)])
def test_a_start_at_a_saddle_or_a_maximum(n, down):
    fun, grad, least = bent(n, down)
    res = st.minimize(fun, np.zeros(n), jac=grad)
    assert res.status is Status.CONVERGED
    assert res.nit > 0
    assert res.fun == pytest.approx(least, rel=1e-6)
    assert st.minimize(fun, np.zeros(n), jac=grad, method="bfgs").nit == 0  # the other methods stay


@pytest.mark.parametrize("n", [2, 40])
def test_a_batch_with_some_rows_at_a_saddle(n):
    fun, grad, least = bent(n, 1)
    x0 = np.zeros((4, n))
    x0[1], x0[3, 0] = 0.7, 1e-9
    batch = st.minimize(fun, x0, jac=grad)
    assert np.allclose(batch.fun, least, rtol=1e-6)
    for b in range(4):
        alone = st.minimize(fun, x0[b], jac=grad)
        assert alone.njev == batch.njev[b]
        assert np.allclose(alone.x, batch.x[b], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("power", [-500, 3, 500])
def test_scaling_f_by_a_power_of_two_changes_nothing(power):
    p, scale, gtol = ROSEN, 2.0**power, 2.0**-20
    plain = st.minimize(p.fun, p.x0, jac=p.grad, gtol=gtol)
    fun, grad = lambda x: scale * p.fun(x), lambda x: scale * p.grad(x)
    res = st.minimize(fun, p.x0, jac=grad, gtol=gtol * scale)
    assert res.x.tolist() == plain.x.tolist()
    assert (res.nit, res.nfev, res.njev, res.status) == (plain.nit, plain.nfev, plain.njev, plain.status)


@pytest.mark.parametrize(("n", "pairs_kept"), [(1, 10), (75, 158), (600, 25), (500_000, 20), (10**6, 10)])
def test_how_many_pairs_are_kept(n, pairs_kept):
    assert st.CGDAuto().capacity(n) == pairs_kept
    assert st.CGDAuto(memory=5).capacity(n) == 5


def spline(n):
    """A smoothing spline: the sum of squared rests, and of squared second differences with a large weight."""
    rough = np.diff(np.eye(n), 2, axis=0)
    H, seen = np.eye(n) + 1e4 * rough.T @ rough, np.sin(np.linspace(0, 9, n))
    return lambda x: float(x @ (0.5 * (H @ x) - seen)), lambda x: H @ x - seen


def test_the_end_is_superlinear_where_one_quadratic_explains_the_pairs(tmp_path):
    n, (fun, grad) = 200, spline(200)
    given = {"jac": grad, "gtol": 1e-6}
    res = st.minimize(fun, np.zeros(n), **given)
    assert res.success
    theirs = so.minimize(fun, np.zeros(n), jac=grad, method="BFGS", options={"gtol": 1e-6})
    assert res.njev <= theirs.njev < st.minimize(fun, np.zeros(n), memory=75, **given).njev / 5
    # it is the same from a file, before and after it has grown, and in a batch
    for iters in (60, 120, 1000):
        part = st.minimize(
            fun, np.zeros(n), checkpoint=tmp_path / "run", budget=st.Budget(iters=iters), trace=False, **given
        )
    assert (part.x == res.x).all()
    values = np.vectorize(fun, signature="(n)->()")
    batch = st.minimize(
        values, np.zeros((2, n)), jac=np.vectorize(grad, signature="(n)->(n)"), gtol=1e-6, trace=False
    )
    assert (batch.x == res.x).all()


def test_large_batches_keep_few_pairs():
    assert st.CGDAuto().most(1000) == 1008
    assert st.CGDAuto().most(1001) == st.CGDAuto(memory=30).most(200) == 0
    assert st.CGDAuto().prepare(rows=900).most(200) == 208
    assert st.CGDAuto().prepare(rows=1000).most(200) == 0


def largest_slope(x):
    return np.where(x < 0, -1.0, 1.0) * (np.arange(4) == np.abs(x).argmax())


NEAR = np.random.default_rng(1)
CUT = {
    "restarts": (lambda x: 3 + np.abs(x).max(), largest_slope, np.array([1.0, -0.7, 0.4, 0.2]), {}),
    "level": (lambda x: 1 + ROSEN.fun(x), ROSEN.grad, ROSEN.x0, {}),
    "saddle": (*bent(3, 3)[:2], np.zeros(3), {}),
    "forgetting": (TEN.fun, TEN.grad, TEN.x0, {"memory": 5}),
    "blas": (CHAIN.fun, CHAIN.grad, CHAIN.x0, {"memory": 6}),
    "batch_level": (lambda x: 1 + ROSEN.fun(x), ROSEN.grad, ROSEN.x0 + NEAR.standard_normal((3, 2)), {}),
    "batch_blas": (CHAIN.fun, CHAIN.grad, CHAIN.x0 + NEAR.standard_normal((3, 40)), {"memory": 6}),
}


@pytest.mark.parametrize("name", CUT)
def test_a_run_goes_on_as_if_it_had_not_been_cut(name, tmp_path):
    fun, grad, x0, more = CUT[name]
    given = {"jac": grad, "gtol": 0, "trace": "x", "budget": Budget(iters=95)} | more
    whole = st.minimize(fun, x0, **given)
    last = int(np.max(whole.nit))
    for k in sorted({1, 2, last // 2, last}):
        path = tmp_path / f"{k}.npz"
        st.minimize(fun, x0, checkpoint=path, callback=lambda s, k=k: s.k >= k, **given)
        same(st.minimize(fun, x0, checkpoint=path, **given), whole)


@pairs(name=["rosenbrock10", "beale", "quartic", "near_saddle", "chain40"], gtol=[1e-5, 0.0])
def test_a_row_is_the_run_alone(name, gtol):
    p = BY_NAME[name]

    def rows(function):
        return lambda x: function(x) if x.ndim == 1 else np.stack([function(row) for row in x])

    x0 = p.x0 + np.random.default_rng(0).standard_normal((3, p.n))
    given = {"jac": rows(p.grad), "gtol": gtol, "trace": "x", "budget": Budget(iters=150)}
    batch = st.minimize(rows(p.fun), x0, **given)
    for b in range(3):
        same(batch.row(b), st.minimize(p.fun, x0[b], **given))


@pytest.mark.bits  # it moves its own
@pytest.mark.parametrize("seed", sample(range(6), 2))
def test_a_row_at_its_floor_pays_for_its_own_probes_alone(seed):
    """Last bits decide at the floor, where rows of one batch ask more or less."""
    p, kinds = BY_NAME["near_saddle"], ("fun", "jac")
    fun, grad = (off(one, f"{seed} {kind}") for one, kind in zip((p.fun, p.grad), kinds, strict=True))
    x0 = p.x0 + np.random.default_rng(0).standard_normal((6, p.n))
    batch = st.minimize(fun, x0, jac=grad, gtol=0.0)
    for b in range(6):
        same(batch.row(b), st.minimize(fun, x0[b], jac=grad, gtol=0.0))


def test_a_schedule_is_not_judged_as_a_search():
    step = lambda k: 2.01 if k < 15 else 0.5  # noqa: E731
    res = st.minimize(lambda x: 0.5 * x @ x, [1.0, 2.0], jac=lambda x: x, method="gd", step=step)
    assert res.status is Status.CONVERGED


def points(x0, f, grad, iters=2, **more):
    values, slopes = [], []

    def fun(x):
        values.append(np.array(x))
        return f(x)

    def jac(x):
        slopes.append(np.array(x))
        return grad(x)

    st.minimize(fun, x0, jac=jac, budget=Budget(iters=iters), **more)
    return values, slopes


@pytest.mark.parametrize(("height", "length"), [(0.0, 0.1), (0.3, 0.6), (1e6, 5.0), (-1e6, 5.0)])
def test_the_first_trial_is_as_long_as_f_and_x_say(height, length):
    x0, n = np.array([3.0, 4.0]), np.array([0.6, 0.8])
    values, _ = points(x0, lambda x: height + n @ (x - x0), lambda x: n)
    np.testing.assert_allclose(values[1], x0 - length * n, rtol=1e-12, atol=1e-14)
    values, _ = points(x0, lambda x: height + n @ (x - x0), lambda x: n, bounds=[(-100, 100)] * 2)
    np.testing.assert_allclose(values[1], x0 - n, rtol=1e-12)


def test_a_step_grows_tenfold_at_most_and_no_longer_than_curvature_is_unseen():
    """On x + 0.015x²: a first step that tells no scale, ten times it, ten times that, the minimum."""
    values, _ = points([0.0], lambda x: float(x[0] + 0.015 * x[0] ** 2), lambda x: 1 + 0.03 * x, iters=9)
    np.testing.assert_allclose(np.concatenate(values), [0, -0.1, -1.097, -11.067, -100 / 3], rtol=1e-9)


def test_a_first_trial_that_fails_is_followed_by_the_minimum_that_a_probe_shows():
    """Far from x0 the function is much steeper than at it, which values alone would have to find out."""
    A, x0 = np.diag([2.0, 2.0]), np.array([1e-3, 2e-3])

    def f(x):
        return 0.5 * x @ A @ x + (1e9 if np.abs(x).max() > 0.01 else 0.0) + 100

    values, slopes = points(x0, f, lambda x: A @ x)
    assert np.abs(values[1]).max() > 0.01
    assert 0 < np.linalg.norm(slopes[1] - x0) < 1e-6  # the probe
    np.testing.assert_allclose(values[2], 0, atol=1e-9)
    plain, _ = points(x0, f, lambda x: A @ x, step=st.steps.Armijo(grow=np.inf, longest=1.0))
    assert np.abs(plain[2]).max() > 1e-3


def test_no_method_is_the_default_as_in_scipy():
    f = st.functions["booth"]
    res = st.minimize(f, [0.0, 0.0], method=None)
    assert (res.method, res.nfev) == ("cgd-auto", st.minimize(f, [0.0, 0.0]).nfev)
