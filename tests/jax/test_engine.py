"""The compiled engine against the eager one: every method, and what each of them promises."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.pairs import WHOLE, sample

import steepen as st
import steepen.jax as sj
from steepen import penalties, schedules, switches
from steepen.jax import _continued, _minimize

METHODS = ("gd", "newton", "bfgs", "dfp", "cgd", "cgd-fd", "cgd-bfgs", "cgd-dfp", "cgd-auto")
SLOW = pytest.mark.slow
FLOOR = {st.Status.CONVERGED, st.Status.ROUNDOFF, st.Status.NOISE}


def beale(x):
    a, b = x[0], x[1]
    return (1.5 - a + a * b) ** 2 + (2.25 - a + a * b**2) ** 2 + (2.625 - a + a * b**3) ** 2


def family(x, a):
    """Return one of many functions, so that one program serves them all."""
    valley = 10 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2
    saddle = x[0] ** 2 - x[1] ** 2 + x[1] ** 4
    return a[0] * beale(x) + a[1] * valley + a[2] * jnp.cos(3 * x).sum() + a[3] * (x**4).sum() + a[4] * saddle


START = np.array([1.0, 0.2])
BOX, NOWHERE = [(0.0, 2.0), (-1.0, 0.4)], [(None, None)] * 2  # one program has both
PROBLEMS = {
    "beale": (1.0, 0.0, 0.0, 0.0, 0.0), "valley": (0.0, 1.0, 0.0, 0.0, 0.0),
    "waves": (0.0, 0.1, 1.0, 0.0, 0.0), "mixed": (0.3, 0.5, 0.2, 0.1, 0.0),
}  # fmt: skip
MANY = 10**6


def limits(iters=MANY, evals=MANY, grads=MANY):
    """Return a budget with all three limits: those that have other ones are other programs."""
    return st.Budget(iters=iters, evals=evals, grads=grads)


@cache
def eager(fun):
    grad = jax.grad(fun)

    def hvp(x, v, *args):
        return jax.jvp(lambda x: grad(x, *args), (x,), (v,))[1]

    parts = {"fun": fun, "jac": grad, "hvp": hvp, "hess": jax.hessian(fun)}
    return {name: jax.jit(part) for name, part in parts.items()}


def agree(x0, fun=family, problem="beale", **given):
    """Make a run by both engines; iterates may differ as far as a last bit of the start makes them."""
    if fun is family:
        given = {"args": (np.array(PROBLEMS[problem], x0.dtype),)} | given
    found = st.minimize(fun, x0, engine="jax", **given)
    own = eager(fun)
    one, moved = (st.minimize(x0=x, **own, **given) for x in (x0, x0 * (1 + 4 * np.finfo(x0.dtype).eps)))
    sway = 1000 * np.abs(one.x - moved.x).max() + 1e5 * np.finfo(x0.dtype).eps
    assert np.abs(found.x - one.x).max() <= sway * max(1.0, np.abs(one.x).max())
    assert found.x.dtype == x0.dtype
    if (one.nit, one.nfev, one.njev, one.status) == (moved.nit, moved.nfev, moved.njev, moved.status):
        assert found.status == one.status or {found.status, one.status} <= FLOOR
        if found.status == one.status and x0.dtype == np.float64:
            assert (found.nit, found.njev, found.nhvp, found.nhev) == (one.nit, one.njev, one.nhvp, one.nhev)
            assert found.nfev == one.nfev
    return found, one


@pytest.mark.parametrize("method", METHODS)
def test_both_engines_make_the_same_run_with_fixed_steps(method):
    for dtype in (np.float64, np.float32) if WHOLE or method == "cgd-fd" else (np.float64,):
        for problem in sample(PROBLEMS, 1):
            agree(START.astype(dtype), problem=problem, method=method, step=0.02, budget=limits(iters=30))


@pytest.mark.parametrize(
    ("method", "bounds"), [("bfgs", None), pytest.param("gd", BOX, marks=SLOW), ("cgd-auto", BOX)]
)
def test_both_engines_make_the_same_search(method, bounds):
    for problem in sample(PROBLEMS, 2):
        agree(START, problem=problem, method=method, bounds=bounds, budget=limits(iters=40))
    if method == "cgd-auto":
        down = (np.array((0.0, 0.0, 0.0, -1.0, 0.0)),)  # without a minimum
        found, one = agree(START, args=down, bounds=NOWHERE, budget=limits(iters=200))
        assert found.status == one.status == st.Status.UNBOUNDED
        for evals, grads in ((7, 9), (8, 7), (20, 7), (9, 20), (1, 1), (2, 1)):
            found, one = agree(START, bounds=NOWHERE, budget=limits(evals=evals, grads=grads))
            assert found.nfev <= evals
            assert found.njev <= grads
            assert found.status == one.status
        saddle = (np.array((0.0, 0.0, 0.0, 0.0, 1.0)),)  # a start without a gradient is left
        found = st.minimize(family, np.zeros(2), args=saddle, engine="jax", bounds=NOWHERE, budget=limits())
        assert found.success
        assert found.fun == pytest.approx(-0.25)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(
            {"method": "cgd", "lam": schedules.L(0.0, 0.01), "step": 1e-2, "switch": switches.After(9)},
            marks=SLOW,
        ),
        pytest.param({"method": "cgd", "lam": schedules.Perturbed(0.01)},
                     marks=SLOW),
        {"method": "cgd-fd", "lam": 0.01, "r": 1e-3, "step": schedules.L(1e-2, 1e-3)},
        {"method": "cgd-dfp", "lam": schedules.Signed(0.1), "penalty": penalties.Huber(0.5),
         "step": 1e-2, "switch": switches.GoodDrop(0.9)},
        {"method": "gd", "step": lambda k: 0.01 - 0.0003 * k, "ftol": 1e-2},
    ],
    ids=("L", "Perturbed", "step", "Signed", "function"),
)  # fmt: skip
def test_steps_switches_schedules_and_penalties(given):
    agree(START, beale, budget=st.Budget(iters=30), **given)


@pytest.mark.parametrize(
    ("fun", "status"),
    [
        (lambda x: jnp.sqrt(x - 2).sum(), st.Status.NONFINITE_VALUE),
        (lambda x: jnp.sqrt(abs(x - START)).sum(), st.Status.NONFINITE_GRADIENT),
    ],
)
def test_ends_that_are_no_use(fun, status):
    found, one = agree(START, fun, method="gd", step=10.0)
    assert found.status == one.status == status
    assert np.isnan(found.jac).all()


def test_slots_are_refilled_and_keep_their_rows_and_numbers_apart():
    rng = np.random.default_rng(0)
    x0 = rng.uniform(0.0, 2.0, (23, 2))
    x0[5] = np.nan
    given = {"method": "cgd-fd", "step": 0.02, "budget": st.Budget(iters=300)}
    own = {"lam": jnp.asarray(rng.uniform(0, 0.01, 23)), "r": jnp.asarray(rng.uniform(0.001, 0.1, 23))}
    many = sj.minimize(beale, x0, slots=4, **own, **given)
    alone = jax.vmap(lambda x, lam, r: sj.minimize(beale, x, lam=lam, r=r, **given))(jnp.asarray(x0), **own)
    for a, b in zip(jax.tree.leaves(many), jax.tree.leaves(alone), strict=True):  # two roundings
        np.testing.assert_allclose(a, b, rtol=1e-12 if a.dtype.kind == "f" else 0)
    assert int(many.status[5]) == st.Status.NONFINITE_VALUE
    assert len(np.unique(many.nit)) > 2
    assert many.success.tolist() == [st.Status(int(status)).success for status in many.status]
    assert not many.success.all()  # some come to their limit
    one = st.minimize(beale, x0[0], jac="jax", **{k: float(v[0]) for k, v in own.items()}, **given)
    np.testing.assert_allclose(many.x[0], one.x, rtol=1e-10)
    assert (int(many.nfev[0]), int(many.njev[0])) == (one.nfev, one.njev)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["bfgs", "cgd-auto"])
def test_slots_search_as_the_eager_batch_does(method):
    x0 = np.random.default_rng(0).uniform(0.5, 2.0, (5, 2))
    given = {"method": method, "bounds": [(-4.0, 4.0)] * 2, "budget": st.Budget(iters=6)}
    many, eager = sj.minimize(beale, x0, slots=2, **given), st.minimize(beale, x0, jac="jax", **given)
    np.testing.assert_allclose(many.x, eager.x, rtol=1e-6)
    np.testing.assert_allclose(many.jac, eager.jac, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(many.njev, eager.njev)


def test_devices_share_a_batch_and_change_no_bit_of_it():
    x0, step = np.random.default_rng(0).uniform(-1, 1, (11, 2)), np.linspace(0.01, 0.1, 11)

    def run(x=x0, mesh=None, step=step, fun=beale):
        return sj.minimize(fun, x, mesh=mesh, method="gd", step=step, slots=2, budget=st.Budget(iters=50))

    if jax.device_count() < 3:
        pytest.skip("JAX had begun before it was asked for three devices")
    kinds, alone, few = jax.sharding.AxisType, run(), run(x0[:9], step=step[:9])
    for kind in (kinds.Auto, kinds.Explicit):
        mesh = jax.make_mesh((3,), ("devices",), axis_types=(kind,), devices=jax.devices()[:3])
        there = jax.device_put(x0[:9], jax.sharding.NamedSharding(mesh, jax.P("devices")))
        pairs = [(alone, run(mesh=mesh)), (few, run(there, mesh if kind == kinds.Auto else None, step[:9]))]
        for a, b in ((a, b) for pair in pairs for a, b in zip(*map(jax.tree.leaves, pair), strict=True)):
            np.testing.assert_array_equal(a, b)
        assert len(pairs[1][1].x.sharding.device_set) == 3
    slope = jax.grad(lambda a: sj.minimize(lambda x, a: ((x - a) ** 2).sum(), there, (a,), **QUICK).x.sum())
    np.testing.assert_allclose(slope(jnp.ones(2)), [9.0, 9.0], rtol=1e-6)  # there lies on explicit axes

    def inside(x):  # a run of the user's own devices, with what differs between them in x0, args and bounds
        return sj.minimize(
            lambda y, a: ((y - a) ** 2).sum(), jnp.zeros(3), (x,), bounds=sj.Bounds(x - 1), **QUICK
        ).x

    mesh = jax.make_mesh((3,), ("devices",), axis_types=(kinds.Auto,), devices=jax.devices()[:3])
    spread = jax.shard_map(inside, mesh=mesh, in_specs=jax.P("devices"), out_specs=jax.P("devices"))
    np.testing.assert_allclose(jax.jit(spread)(jnp.arange(9.0)), np.arange(9.0), atol=1e-6)


@pytest.mark.slow
def test_sweeps_are_compiled_too():
    starts = np.random.default_rng(0).uniform(-1, 1, size=(3, 2))
    given = {"method": "gd", "step": [0.1, 0.3], "budget": st.Budget(grads=9), "at": [0, 1, 9]}
    table = st.sweep(lambda x: (x**2).sum(), starts, engine="jax", **given)
    sizes = np.tile((starts**2).sum(axis=1), 2)
    for column, gradients in (("f0", 0), ("f_0", 0), ("f_1", 1), ("f", table.nit), ("f_9", table.nit)):
        np.testing.assert_allclose(table[column], sizes * (1 - 2 * table.step) ** (2 * gradients), rtol=1e-5)


def test_new_numbers_compile_nothing(compiled):
    def run(by, budget):
        return sj.minimize(
            beale, jnp.asarray(START), method="cgd-fd", step=0.01 * by, lam=0.01 * by, r=0.01 * by,
            gtol=1e-3 * by, ftol=1e-9 * by, xtol=1e-9 * by, gtol_rel=1e-9 * by, budget=budget,
            bounds=[(0.0, 2.0 * by), (None, 3.0)],
        )  # fmt: skip

    run(1.0, limits(5))
    compiled.clear()
    assert int(run(0.9, limits(9, 10**5, 10**5)).nit) == 9
    assert "jit(one)" not in compiled


def test_a_second_call_its_derivatives_and_other_batches_compile_no_program(compiled):
    def place(a, x=None):
        x = jnp.zeros(2) if x is None else x
        return sj.minimize(lambda x, a: ((x - a) ** 2).sum() + (x**4).sum(), x, (a,), **QUICK).x.sum()

    points = jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0])
    for function in (place, jax.grad(place), lambda a: jax.jvp(place, (a,), (a,)), jax.hessian(place)):
        function(points[0])
        compiled.clear()
        assert jax.tree.map(jnp.shape, function(points[1])) == jax.tree.map(jnp.shape, function(points[0]))
        assert not compiled
    for rows in (50, 100, 101):
        place(points[0], jnp.zeros((rows, 2)))
    assert compiled.count("jit(many)") == 1


def test_what_is_rare_is_made_by_the_plain_run(compiled):
    def fun(x):  # from 0 it must leave a saddle; gtol = 0 asks for more than rounding allows
        return jnp.cos(x[0]) + 1e8 + x[1] ** 2 * (1 + x[1] ** 2)

    starts = jnp.array([[0.0, 0.0], [1.0, 1.0], [jnp.nan, 0.0]])
    many = sj.minimize(fun, starts, gtol=0.0, trace=4)
    assert compiled.count("jit(many)") == 1
    assert set(map(int, many.status)) <= {*FLOOR, st.Status.NONFINITE_VALUE}
    assert np.isfinite(many.jac[:2]).all()  # of rows that ended before others
    for row, start in enumerate(starts[:2]):
        alone = sj.minimize(fun, start, gtol=0.0, trace=4)
        plain = st.minimize(jax.jit(fun), np.asarray(start), jac=jax.jit(jax.grad(fun)), gtol=0.0, trace="x")
        for found in (alone, jax.tree.map(lambda a, row=row: None if a is None else a[row], many)):
            for name in ("status", "nit", "nfev", "njev"):
                assert int(getattr(found, name)) == getattr(plain, name)
            np.testing.assert_array_equal(found.x, plain.x)
            np.testing.assert_array_equal(found.trace.k, np.arange(plain.nit - 3, plain.nit + 1))
            np.testing.assert_array_equal(found.trace.x, plain.trace.x[-4:])
            np.testing.assert_allclose(found.trace.g[:, 0], -np.sin(found.trace.x[:, 0]), atol=1e-12)


def test_a_plain_run_has_the_numbers_of_its_row(monkeypatch):
    def fun(x, a):
        return ((x - a) ** 2).sum() + (x**4).sum()

    starts, data = np.array([[1.0, 0.5], [2.0, 1.0], [0.1, 0.2]]), np.array([0.5, 2.0])
    given = {"method": "cgd-fd", "r": np.array([0.1, 0.2, 0.3]), "lam": np.array([0.1, 0.02, 0.3]), "b": 5,
             "step": 0.05, "bounds": [(0.0, 1.2)] * 2, "trace": 3, "budget": st.Budget(iters=50)}  # fmt: skip
    expected = sj.minimize(fun, starts, (data,), **given)
    left = expected._replace(status=expected.status.at[1:].set(-3))  # as if two had been left open
    monkeypatch.setattr(_minimize, "solve", lambda *_: left)
    found = sj.minimize(fun, starts, (data,), **given)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_where_many_rows_are_left_open_a_program_makes_them(monkeypatch, compiled):
    def kink(x, a):
        return jnp.abs(x - a).sum() + ((x - a) ** 2).sum()

    starts = np.random.default_rng(0).uniform(-1, 1, (9, 2))
    monkeypatch.setattr(_continued, "MOST", 2)
    many = sj.minimize(kink, starts, (0.3,), method="bfgs", gtol=1e-9)
    assert compiled.count("jit(many)") == 2
    assert "jit(_value)" not in compiled
    inside = jax.jit(lambda x: sj.minimize(kink, x, (0.3,), method="bfgs", gtol=1e-9))(starts)
    np.testing.assert_array_equal(many.status, inside.status)
    np.testing.assert_allclose(many.fun, inside.fun, atol=1e-9)
    assert (many.status >= 0).all()


def test_a_point_may_be_a_tree_and_the_trace_is_a_ring():
    def fun(p, shift):
        return ((p["w"] - shift) ** 2).sum() + (p["b"] - 1) ** 2 + (p["b"] - 1) ** 4

    start = {"w": jnp.zeros((2, 2)), "b": jnp.asarray(3.0)}
    bounds = sj.Bounds(ub={"w": 0.5, "b": 9.0})
    given = {"method": "gd", "step": 0.1, "gtol": 1e-8, "bounds": bounds, "trace": 3}
    found = sj.minimize(fun, start, (jnp.eye(2),), **given)
    np.testing.assert_allclose(found.x["w"], 0.5 * np.eye(2), atol=1e-8)
    np.testing.assert_allclose(found.x["b"], 1.0, atol=1e-8)
    assert found.trace is not None
    np.testing.assert_array_equal(found.trace.k, np.arange(-2, 1) + int(found.nit))
    np.testing.assert_array_equal(found.trace.f[-1], found.fun)


def test_points_args_and_aux_come_back_as_they_went_in():
    def fun(p, scale, kind, flag):
        assert (kind, flag) == ("sum", True)
        value = ((p["a"] - 1.0) ** 2).sum() + scale((p["b"].astype(float) - 2.0) ** 2)
        return value, {"twice": 2 * p["a"]}

    start = {"a": jnp.zeros(2), "b": jnp.float32(0.0)}
    found = sj.minimize(fun, start, (lambda v: 3 * v, "sum", True), has_aux=True, **QUICK | {"step": 0.1})
    assert jax.tree.map(lambda leaf: leaf.dtype, found.x) == {"a": "float64", "b": "float32"}
    np.testing.assert_allclose(found.aux["twice"], 2 * found.x["a"])
    assert sj.minimize(lambda x: (x - 1) ** 2, 0.0, bounds=sj.Bounds(ub=0.5), **QUICK).x.shape == ()

    def aux(a):
        return sj.minimize(
            lambda x: (((x - a) ** 2).sum(), x * x), jnp.zeros((3, 1)), has_aux=True, **QUICK
        ).aux

    np.testing.assert_allclose(jax.jacfwd(aux)(3.0), np.full((3, 1), 6.0), rtol=1e-6)


@pytest.mark.parametrize(
    "x0", [pytest.param(START, marks=SLOW), np.stack([START, 1.5 * START, -START])], ids=("one", "many")
)
def test_the_trace_is_that_of_the_eager_engine(x0):
    given = {"method": "cgd-fd", "lam": 0.01, "r": 1e-3, "step": 0.02, "gtol": 0.2}
    found = st.minimize(beale, x0, engine="jax", trace=500, **given).trace
    one = st.minimize(beale, x0, jac="jax", trace="x", **given).trace
    assert found is not None
    assert one is not None
    for (name, a), (other, b) in zip(found.columns(), one.columns(), strict=True):
        assert name == other
        np.testing.assert_allclose(a, b, rtol=1e-9, err_msg=name)
    np.testing.assert_array_equal(found.length, one.length)


def test_it_runs_inside_scan_and_jit_with_numbers_of_strict_types():
    def fun(x, a):
        return ((x - a) ** 2).sum() + (x**4).sum()

    def body(x, a):
        x = sj.minimize(fun, x, (a,), method="gd", step=0.05).x
        return x, x

    path = jnp.linspace(0.0, 1.0, 3)
    _, found = jax.jit(lambda x: jax.lax.scan(body, x, path))(jnp.ones(2))
    for x, a in zip(found, path, strict=True):
        np.testing.assert_allclose(2 * (x - a) + 4 * x**3, 0.0, atol=1e-5)
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        assert bool(sj.minimize(lambda x: (x * x).sum(), jnp.ones(2), method="gd", step=0.2).success)


class Shifted:
    """A function that reads what may change: an attribute of its object."""

    def __init__(self, shift):
        self.shift = shift

    def value(self, x):
        return ((x - self.shift) ** 2).sum()


DATA = np.array([1.0, 2.0])
QUICK = {"method": "gd", "step": 0.5, "gtol": 1e-6}


@pytest.mark.parametrize("minimize", [sj.minimize, partial(st.minimize, engine="jax")], ids=("jax", "engine"))
def test_a_method_a_closure_and_a_global_are_read_anew(minimize):
    def closed(x):
        return ((x - held) ** 2).sum() + 0.0 * jax.nn.relu(x).sum()  # which has a derivative rule of its own

    task = Shifted(1.0)
    for shift in (1.0, 3.0, jnp.array([2.0, 5.0]), np.array([4.0, -1.0])):
        task.shift = held = shift
        DATA[:] = shift
        for fun in (task.value, closed, lambda x: ((x - jnp.asarray(DATA)) ** 2).sum()):
            np.testing.assert_allclose(minimize(fun, np.zeros(2), **QUICK).x, shift * np.ones(2), atol=1e-6)


def test_new_arrays_and_functions_made_anew_compile_nothing(compiled):
    task = Shifted(jnp.array([1.0, 2.0]))
    sj.minimize(task.value, np.zeros(2), **QUICK)
    compiled.clear()
    task.shift = jnp.array([3.0, 4.0])
    np.testing.assert_allclose(sj.minimize(task.value, np.zeros(2), **QUICK).x, [3.0, 4.0], atol=1e-6)
    for shift in (jnp.array([5.0, 6.0]), jnp.array([7.0, 8.0])):
        sj.minimize(lambda x, s=shift: ((x - s) ** 2).sum(), np.zeros(2), **QUICK)
    assert "jit(one)" not in compiled
    weights, labels = jnp.array([1.0, 3.0]), jnp.array([1, 0])  # of any type
    found = sj.minimize(lambda x: (weights * (x - labels) ** 2).sum(), np.zeros(2), method="bfgs")
    np.testing.assert_allclose(found.x, [1.0, 0.0], atol=1e-4)


def test_rows_with_data_of_their_own_are_a_vmap_over_them():
    t, true = np.linspace(0, 1, 20), np.random.default_rng(0).uniform(0.5, 2.0, (20, 2))
    data = true[:, :1] * np.exp(-true[:, 1:] * t) + 0.01
    weights = np.linspace(1.0, 2.0, 20)

    def fun(x, scale, y, w):
        return scale * w * ((x[0] * jnp.exp(-x[1] * t) - y) ** 2).sum()

    starts = np.ones((20, 2))
    given = {"rows": (data, weights), "engine": "jax", "gtol": 1e-7}
    many = st.minimize(fun, starts, (0.5,), **given)
    assert many.success.all()
    for row in (0, 7, 19):
        with jax.enable_x64(True):
            alone = sj.minimize(fun, starts[row], (0.5, data[row], weights[row]), gtol=1e-7)
        np.testing.assert_allclose(many.x[row], np.asarray(alone.x), rtol=1e-6)
        assert many.nit[row] == int(alone.nit)
    scaled = st.minimize(fun, starts, (0.5,), x_scale=[4.0, 0.5], bounds=[(0, 3), (0, 3)], trace=5, **given)
    np.testing.assert_allclose(scaled.x, many.x, rtol=1e-5)
    with pytest.raises(ValueError, match=r"^rows: expected arrays with 20 rows"):
        st.minimize(fun, starts, (0.5,), rows=data[:3], engine="jax")
    with pytest.raises(ValueError, match=r"^rows: not supported where jac='jax' differentiates"):
        st.minimize(fun, starts, (0.5,), rows=(data, weights), jac="jax")
