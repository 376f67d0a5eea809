"""A row of a batch is the run made alone: to the last bit, but for quasi-Newton matrices from n = 32 on."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

import steepen as st
from steepen import Budget, Status

from ..objectives import BY_NAME, METHODS, PENALISED, PROBLEMS, Problem, derivatives, quadratic, saddle, spd

METHOD = pytest.mark.parametrize("method", METHODS)
# quasi-Newton methods are bit for bit only below n = 32, where BLAS takes over in a single run
EXACT = [p for p in PROBLEMS if p.exact and p.n < 32 and p.name != "at_saddle"]
QUASI_NEWTON = {"bfgs", "dfp", "cgd-bfgs", "cgd-dfp"}


def same(found: Any, expected: Any) -> bool:
    return np.array_equal(np.asarray(found), np.asarray(expected), equal_nan=True)


def check_row(row: st.Result, alone: st.Result) -> None:
    """Compare all that a result holds, except the time."""
    for field in fields(st.Result):
        found, expected = getattr(row, field.name), getattr(alone, field.name)
        if field.name in {"x", "jac"}:
            assert found.dtype == expected.dtype
            assert same(found, expected), field.name
        elif field.name == "fun":
            assert same(found, expected)
        elif field.name == "best":
            assert (found.x is None) == (expected.x is None)
            assert expected.x is None or same(found.x, expected.x)
            assert (found.fun, found.k) == (expected.fun, expected.k)
        elif field.name not in {"trace", "seconds"}:
            assert found == expected, field.name
    assert (row.trace is None) == (alone.trace is None)
    if row.trace is not None and alone.trace is not None:
        assert len(row.trace) == len(alone.trace) == alone.nit + 1
        columns = dict(row.trace.columns())
        assert set(columns) == dict(alone.trace.columns()).keys()
        for name, expected in alone.trace.columns():
            assert columns[name].dtype == expected.dtype, name
            assert same(columns[name], expected), name


def check_batch(fun: Any, x0: Any, per_row: dict[str, Any] | None = None, **common: Any) -> st.Result:
    """Run the batch, and every row alone."""
    per_row = per_row or {}
    common = {"trace": "x"} | common
    batch = st.minimize(fun, x0, **per_row, **common)
    for b, start in enumerate(x0):
        own = {name: float(values[b]) for name, values in per_row.items()}
        check_row(batch.row(b), st.minimize(fun, np.array(start), **own, **common))
    return batch


def starts(problem: Problem, rows: int, spread: float = 0.3) -> Any:
    rng = np.random.default_rng(7)
    return problem.x0 * (1 + spread * rng.uniform(-1, 1, (rows, problem.n)))


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
def test_the_problems_give_the_same_bits_in_a_batch(problem: Problem):
    """What all else here rests on; functions such as sin are only as good as the machine's."""
    for order in ("C", "F"):
        X: Any = np.array(starts(problem, 5), order=order)
        V = X * 2 + 1
        for b in range(5):
            x, v = np.array(X[b]), np.array(V[b])
            assert same(problem.fun(X)[b], problem.fun(x))
            assert same(problem.grad(X)[b], problem.grad(x))
            assert same(problem.hess(X)[b], problem.hess(x))
            assert same(problem.hvp(X, V)[b], problem.hvp(x, v))


@pytest.mark.parametrize("problem", EXACT, ids=repr)
@METHOD
def test_line_search(problem: Problem, method: str):
    check_batch(
        problem.fun,
        starts(problem, 5),
        method=method,
        budget=Budget(iters=25),
        **derivatives(problem, method),
    )


@pytest.mark.parametrize("problem", EXACT, ids=repr)
@METHOD
def test_own_parameters_for_every_row(problem: Problem, method: str):
    per_row: dict[str, Any] = {"step": problem.step * np.array([1.0, 0.3, 0.8, 0.5])}
    if method in PENALISED:
        per_row["lam"] = problem.step * np.array([0.1, 0.0, -0.2, 0.3])
    if method == "cgd-fd":
        per_row["r"] = problem.step * np.array([0.01, 0.1, 1.0, 0.001])
    check_batch(
        problem.fun, starts(problem, 4), per_row, method=method, budget=Budget(iters=15),
        **derivatives(problem, method),
    )  # fmt: skip


@METHOD
@pytest.mark.parametrize("jac", ["2-point", "3-point", "cs", True])
@pytest.mark.parametrize("step", [0.005, None])
def test_gradient_sources(method: str, jac: Any, step: float | None):
    problem = BY_NAME["beale"]

    def fun(x: Any) -> Any:
        return (problem.fun(x), problem.grad(x)) if jac is True else problem.fun(x)

    check_batch(fun, starts(problem, 4), method=method, jac=jac, step=step, budget=Budget(iters=8))


@pytest.mark.parametrize("method", ["newton", "cgd"])
@pytest.mark.parametrize("second", ["hvp", "hess"])
@pytest.mark.parametrize("step", [0.005, st.steps.Quadratic(fallback=0.01)])
def test_second_derivatives(method: str, second: str, step: Any):
    problem = BY_NAME["beale"]
    check_batch(
        problem.fun, starts(problem, 4), method=method, jac=problem.grad, step=step, budget=Budget(iters=8),
        **{second: getattr(problem, second)},
    )  # fmt: skip


@pytest.mark.parametrize("method", ["newton", "cgd"])
@pytest.mark.parametrize("complex_points", [True, False])
@pytest.mark.parametrize("step", [0.05, st.steps.Quadratic(fallback=0.01)])
def test_second_derivatives_from_the_gradient(method: str, complex_points: bool, step: Any):
    """The gradient has no product of two complex numbers: NumPy's rounding of those depends on the shape."""
    weights = np.array([1.0, 3.0, 7.0])

    def grad(x: Any) -> Any:
        if np.iscomplexobj(x) and not complex_points:
            raise TypeError("real points only")
        return weights * x

    x0 = np.array([[1.0, 2.0, 3.0], [0.0, -1e3, 1e-3], [0.1, 0.1, 5.0]])
    batch = check_batch(
        lambda x: (weights * x * x).sum(axis=-1) / 2, x0, method=method, jac=grad, step=step,
        budget=Budget(iters=8),
    )  # fmt: skip
    assert batch.hvp_source == ("complex step" if complex_points else "difference")


@METHOD
@pytest.mark.parametrize("limit", [{"grads": 9}, {"evals": 9}, {"grads": 12, "evals": 14, "iters": 30}])
@pytest.mark.parametrize("step", [0.005, None])
def test_budgets(method: str, limit: dict[str, int], step: float | None):
    problem = BY_NAME["beale"]
    check_batch(
        problem.fun, starts(problem, 5), method=method, step=step, budget=Budget(**{"iters": 100} | limit),
        **derivatives(problem, method),
    )  # fmt: skip


@METHOD
@pytest.mark.parametrize("name", ["quadratic", "rosenbrock10", "quartic", "near_saddle"])
@pytest.mark.parametrize("step", ["fixed", "armijo"])
def test_float32(method: str, name: str, step: str):
    problem = BY_NAME[name]
    x0 = starts(problem, 4).astype(np.float32)
    batch = check_batch(
        problem.fun, x0, method=method, step=problem.step if step == "fixed" else None,
        budget=Budget(iters=12), **derivatives(problem, method),
    )  # fmt: skip
    assert batch.x.dtype == batch.jac.dtype == batch.best.x.dtype == np.float32


@METHOD
@pytest.mark.parametrize("name", ["booth", "rosenbrock10"])
def test_the_order_in_memory_does_not_matter(method: str, name: str):
    problem = BY_NAME[name]
    x0 = starts(problem, 6)
    results = [
        st.minimize(
            problem.fun, order(x0), method=method, budget=Budget(iters=20), **derivatives(problem, method)
        )
        for order in (np.ascontiguousarray, np.asfortranarray, lambda x: np.repeat(x, 2, axis=0)[::2])
    ]
    for other in results[1:]:
        for b in range(6):
            check_row(other.row(b), results[0].row(b))


@METHOD
@pytest.mark.parametrize("name", ["booth", "quartic", "rosenbrock10"])
def test_one_row(method: str, name: str):
    problem = BY_NAME[name]
    batch = check_batch(
        problem.fun, problem.x0[None], method=method, budget=Budget(iters=20), **derivatives(problem, method)
    )
    assert batch.x.shape == (1, problem.n)
    assert batch.nit.shape == batch.fun.shape == (1,)


# --- rows that end at different times, for different reasons ----------------------------------------------


def fenced(x: Any) -> Any:
    """The saddle's f, but not a number beyond x = 1.5."""
    return np.where(x[..., 0] > 1.5, np.nan, BY_NAME["near_saddle"].fun(x))


def fenced_gradient(x: Any) -> Any:
    """Not a number beyond y = 2."""
    return np.where(x[..., 1:] > 2.0, np.nan, BY_NAME["near_saddle"].grad(x))


FENCED = np.array(
    [
        [0.0, np.sqrt(2.0)],  # nearly converged
        [0.9, 0.3],
        [1.4, 0.1],  # the step of 1.2 throws this one beyond the fence of f
        [0.1, 2.5],  # no gradient at the start
        [1.7, 0.1],  # no value at the start
        [0.0, 0.0],  # the saddle itself
        [-0.2, 0.05],  # the guard fires: it bends down
        [1e-3, 1.3],
        [-1.2, 1.9],
    ]
)


@METHOD
@pytest.mark.parametrize("step", ["fixed", "armijo", "quadratic"])
def test_different_ends(method: str, step: str):
    rule = {"fixed": 0.1, "armijo": None, "quadratic": st.steps.Quadratic(fallback=0.1)}[step]
    known = {"newton": {"hess": BY_NAME["near_saddle"].hess}}.get(method, {"hvp": BY_NAME["near_saddle"].hvp})
    penalty = {"lam": 0.4} if method in PENALISED else {}
    batch = check_batch(
        fenced, FENCED, method=method, jac=fenced_gradient, step=rule, gtol=1e-3,
        budget=Budget(iters=400 if method == "cgd-auto" else 40),  # made for α = 1, it creeps with 0.1
        **penalty, **known,
    )  # fmt: skip
    ends = [Status(int(s)) for s in batch.status]
    assert ends[0] is ends[5] is Status.CONVERGED
    assert ends[3] is Status.NONFINITE_GRADIENT
    assert ends[4] is Status.NONFINITE_VALUE
    assert len(set(batch.nit.tolist())) > 1
    assert batch.message == [status.message for status in ends]
    assert batch.success.tolist() == [status.success for status in ends]


def test_rows_that_leave_in_the_middle():
    """Steps of their own drive three rows over the fences at different times; the others go on."""
    x0 = np.array([[1.4, 0.1], [1.4, 1.0], [-0.5, 1.9], [0.3, 1.2], [-0.9, 0.4], [1.4, 1.1]])
    steps = np.array([1.6, 0.2, 1.2, 0.1, 0.05, 1.05])
    batch = check_batch(
        fenced, x0, {"step": steps}, method="gd", jac=fenced_gradient, gtol=1e-4, budget=Budget(grads=60)
    )  # fmt: skip
    ends = {Status(int(s)) for s in batch.status}
    assert {Status.CONVERGED, Status.MAX_GRADIENTS} <= ends
    assert ends & {Status.NONFINITE_VALUE, Status.NONFINITE_GRADIENT}


def test_the_guard_row_by_row():
    problem = saddle("rows", (0.0, 0.0))
    x0 = np.array([[0.01, 0.3], [0.5, 0.1], [0.1, 0.3], [0.8, 1.3]])
    lam = np.array([0.4, 0.4, 0.0, 0.6])
    for method in ("cgd", "cgd-fd"):
        batch = check_batch(
            problem.fun, x0, {"lam": lam}, method=method, step=0.05, budget=Budget(grads=30),
            **derivatives(problem, method),
        )  # fmt: skip
        assert batch.trace is not None
        assert batch.trace.guarded.any(axis=0)[[0, 2, 3]].tolist() == [True, False, False]


def test_line_search_masks():
    """Rows that need one trial and rows that need many: each pays for its own."""
    problem = quadratic("scaled", np.diag([1.0, 4.0]), np.zeros(2), (1.0, 1.0))
    scale = np.array([1.0, 100.0, 1e-3, 1e4])

    def fun(x: Any) -> Any:
        return problem.fun(x[..., :2]) * x[..., 2]

    def grad(x: Any) -> Any:
        zero = 0 * x[..., 2:]
        return np.concatenate([problem.grad(x[..., :2]) * x[..., 2:], zero], axis=-1)

    x0 = np.concatenate([np.full((4, 2), 3.0), scale[:, None]], axis=1)
    batch = check_batch(fun, x0, method="gd", jac=grad, gtol=1e-6, budget=Budget(iters=30))
    assert batch.trace is not None
    first = batch.trace.nfev[1]
    assert first[0] < first[1] < first[3]


# --- whatever the rows ------------------------------------------------------------------------------------


def sums_alike() -> bool:
    """Say whether BLAS sums a vector alike wherever it lies in memory; its oldest kernels for x86 do not."""
    rng = np.random.default_rng(0)
    for n in range(8, 13):
        a = rng.standard_normal((50, n))
        if any(row.copy().dot(row.copy()) != one for row, one in zip(a, np.vecdot(a, a), strict=True)):
            return False
    return True


LONGEST = 12 if sums_alike() else 7  # shorter rows are summed one by one


@given(
    seed=hs.integers(0, 1000),
    rows=hs.integers(1, 6),
    n=hs.integers(1, LONGEST),
    method=hs.sampled_from(METHODS),
    fixed=hs.booleans(),
    dtype=hs.sampled_from([np.float32, np.float64]),
    iters=hs.integers(0, 12),
)
@settings(deadline=None, max_examples=60)
def test_any_batch(seed: int, rows: int, n: int, method: str, fixed: bool, dtype: Any, iters: int):
    rng = np.random.default_rng(seed)
    problem = quadratic("any", spd(rng.uniform(0.5, 4.0, n), seed), rng.standard_normal(n), (0.0,) * n)
    x0 = rng.standard_normal((rows, n)).astype(dtype)
    check_batch(
        problem.fun, x0, method=method, step=0.1 if fixed else None, budget=Budget(iters=iters),
        **derivatives(problem, method),
    )  # fmt: skip


@METHOD
def test_large_rows_agree_to_rounding(method: str):
    """From n = 32 on a single quasi-Newton run is on BLAS, whose sums round differently."""
    problem = BY_NAME["chain40"]
    x0 = starts(problem, 3)
    common: dict[str, Any] = {"method": method, "step": 0.01, "budget": Budget(iters=15)} | derivatives(
        problem, method
    )
    batch = st.minimize(problem.fun, x0, **common)
    for b in range(3):
        alone = st.minimize(problem.fun, x0[b], **common)
        if method in QUASI_NEWTON:
            assert np.allclose(batch.x[b], alone.x, rtol=1e-9, atol=1e-12)
            assert batch.row(b).nit == alone.nit
        else:
            check_row(batch.row(b), alone)


# --- what a batch gives back ------------------------------------------------------------------------------


def test_shapes():
    problem = BY_NAME["booth"]
    res = st.minimize(problem.fun, starts(problem, 4), method="gd", jac=problem.grad, step=0.02, trace="x")
    assert res.x.shape == res.jac.shape == (4, 2)
    for name in ("fun", "success", "status", "nit", "nfev", "njev", "nhev", "nhvp"):
        assert getattr(res, name).shape == (4,), name
    assert len(res.message) == 4
    trace = res.trace
    assert trace is not None
    assert trace.x is not None
    assert trace.x.shape == (len(trace), 4, 2)
    assert trace.f.shape == (len(trace), 4)
    assert len(trace) == max(res.nit) + 1
    for b in range(4):
        end = res.nit[b] + 1
        assert np.isfinite(trace.f[:end, b]).all()
        assert np.isnan(trace.f[end:, b]).all()
        assert np.isnan(trace.x[end:, b]).all()


def test_row_belongs_to_a_batch():
    problem = BY_NAME["booth"]
    alone = st.minimize(problem.fun, problem.x0, method="gd", jac=problem.grad, step=0.02)
    with pytest.raises(ValueError, match="row: this is the result of a single run"):
        alone.row(0)
    assert alone.trace is not None
    with pytest.raises(ValueError, match="row: this is the trace of a single run"):
        alone.trace.row(0)
    batch = st.minimize(problem.fun, problem.x0[None], method="gd", jac=problem.grad, step=0.02, trace=False)
    assert batch.row(0).trace is None
    with pytest.raises(IndexError):
        batch.row(1)


@pytest.mark.parametrize(("name", "value"), [("step", [0.1, 0.1]), ("lam", [0.1] * 4), ("r", [0.1] * 2)])
def test_one_value_for_each_row(name: str, value: Any):
    problem = BY_NAME["booth"]
    given = {"step": 0.01, "lam": 0.1, name: value}
    with pytest.raises(ValueError, match=f"{name}: expected one value for each of the 3 rows"):
        st.minimize(problem.fun, starts(problem, 3), method="cgd-fd", jac=problem.grad, **given)
    with pytest.raises(ValueError, match=f"{name}: expected a number"):
        st.minimize(problem.fun, problem.x0, method="cgd-fd", jac=problem.grad, **given)
