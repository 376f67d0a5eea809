"""Runs on tensors, and autodiff by torch.

Few numbers have their state on the host, many on the device; nobody can tell but by the time, so most tests
are made both ways.
"""

import numpy as np
import pytest
import torch

import steepen as st
from steepen import Status, tensors

from .. import smooth
from ..calls import same
from ..objectives import METHODS, PENALISED
from ..pairs import pairs
from ..smooth import MANY, ONE, STARTS, check, f, g, hess, hvp, parts, run

ROWS = pytest.mark.parametrize("rows", STARTS)


@pytest.fixture(params=[0, tensors.FEW], ids=["device", "host"])
def few(request, monkeypatch):
    monkeypatch.setattr(tensors, "FEW", request.param)


def slope(x):
    return torch.stack(parts(x), -1)


def bend(x):
    return torch.from_numpy(hess(x.numpy()))


@pytest.mark.bits  # the functions of torch are not moved
@pytest.mark.usefixtures("few")
@pairs(
    method=METHODS, rows=STARTS, step=(0.05, None), jac=("slope", "autodiff", "both"),
    dtype=(torch.float64, torch.float32),
)  # fmt: skip
def test_a_run_on_tensors_is_the_one_on_numpy(method, rows, step, jac, dtype):
    given = {"method": method, "step": step, "trace": "x"}
    given |= {"lam": 0.01} if method in PENALISED else {}
    fun, theirs, numpy = {
        "slope": (f, {"jac": slope, "hess": bend}, {"hess": hess}),
        "autodiff": (f, {"jac": None}, {"hess": hess} if method == "newton" else {"hvp": hvp}),
        "both": (lambda x: (f(x), slope(x)), {"jac": True, "hess": bend}, {"jac": True, "hess": hess}),
    }[jac]
    x0 = torch.tensor(STARTS[rows], dtype=dtype)
    result = run(x0, fun, **given, **theirs)
    expected = run(x0.numpy(), (lambda x: (f(x), g(x))) if jac == "both" else f, **given, **numpy)
    if step is not None or dtype == torch.float64:  # a search may end otherwise in float32
        check(result, expected, torch.Tensor, dtype, 1e-10 if dtype == torch.float64 else 2e-3)
    assert result.x.dtype == dtype
    assert x0.tolist() == torch.tensor(STARTS[rows], dtype=dtype).tolist()


@pytest.mark.usefixtures("few")
@pairs(method=("gd", "bfgs", "cgd-auto"), rows=STARTS)
def test_a_gradient_may_be_answered_in_one_buffer(method, rows):
    x0 = torch.tensor(STARTS[rows])
    buffer = torch.empty_like(x0)
    reusing = lambda x: (buffer[: len(x)] if x.ndim == 2 else buffer).copy_(slope(x))  # noqa: E731
    same(run(x0, jac=reusing, method=method), run(x0, jac=slope, method=method))


def test_autodiff_takes_a_tensor_that_wants_a_gradient_as_a_point():
    x0 = torch.tensor(MANY, dtype=torch.float32, requires_grad=True)
    result = run(x0, jac=None, lam=0.01)
    assert result.hvp_source == "torch"
    assert not result.x.requires_grad
    assert x0.grad is None


@pytest.mark.bits  # what another library returns is not moved
def test_a_gradient_may_come_from_another_library():
    mixed = run(jac=lambda x: slope(torch.from_numpy(x)), method="gd")
    assert isinstance(mixed.x, np.ndarray)
    np.testing.assert_array_equal(mixed.x, run(method="gd").x)


@pytest.mark.usefixtures("few")
@pairs(method=METHODS, rows=STARTS)
def test_bounds_hold(rows, method):
    """Booth's function below u = 0.8 has its minimum at (0.8, 3.16): there ∂f/∂v = 10v + 8u − 38 = 0."""
    booth = lambda x: (x[..., 0] + 2 * x[..., 1] - 7) ** 2 + (2 * x[..., 0] + x[..., 1] - 5) ** 2  # noqa: E731
    x0 = torch.tensor([[-1.2, 1.0], [0.5, 0.5], [2.0, 2.0]])
    x0 = x0 if rows == "many" else x0[0]
    res = st.minimize(booth, x0, method=method, bounds=[(-1.5, 0.8), (-1, 4)], budget=st.Budget(iters=25))
    assert res.x.dtype == torch.float32
    assert bool((res.x[..., 0].double() <= 0.8).all())
    np.testing.assert_allclose(res.x, np.broadcast_to([0.8, 3.16], x0.shape), atol=2e-3)


@pytest.mark.usefixtures("few")
@pairs(method=("bfgs", "cgd-fd", "cgd-auto"), rows=STARTS)
def test_a_resumed_run_is_the_same_to_the_bit(tmp_path, method, rows):
    x0 = torch.tensor(STARTS[rows], dtype=torch.float32)
    given = {"jac": None, "method": method, "trace": "x"} | ({"b": 4} if method == "cgd-fd" else {})
    run(x0, budget=st.Budget(iters=3), checkpoint=tmp_path / "run.npz", **given)
    again = run(x0, checkpoint=tmp_path / "run.npz", **given)
    assert isinstance(again.x, torch.Tensor)
    same(again, run(x0, **given))


@pytest.mark.usefixtures("few")
@ROWS
def test_differences_of_float32_tensors_end_honestly(rows):
    banana = lambda x: 100 * (x[..., 1] - x[..., 0] ** 2) ** 2 + (1 - x[..., 0]) ** 2  # noqa: E731
    x0 = torch.tensor([[0.5, -0.9], [-1.8, -1.9], [1.2, 1.6]])
    res = st.minimize(banana, x0 if rows == "many" else x0[0], jac="2-point")
    assert res.x.dtype == torch.float32
    assert np.all(np.isin(res.status, (Status.INACCURATE_GRADIENT, Status.LINE_SEARCH_FAILED)))
    assert float(banana(res.x).max()) < 1e-2
    weights = torch.tensor([[2.0, 0.5], [0.5, 1.0]])
    refusing = st.minimize(lambda x: x @ (weights @ x), torch.tensor([1.0, -2.0]), jac="2-point")
    assert refusing.status is Status.CONVERGED
    assert refusing.x.abs().max() < 1e-3


@pytest.mark.usefixtures("few")
def test_a_callback_sees_tensors_and_may_end_rows():
    kinds = set()

    def watch(state):
        kinds.add(type(state.x))
        return (state.k == 1) & (state.rows == 0)

    res = st.minimize(f, torch.tensor(MANY), callback=watch)
    assert (kinds, res.status[0]) == ({torch.Tensor}, Status.CALLBACK)
    assert res.success[1:].all()
    res = st.minimize(f, torch.tensor(MANY[0]), callback=lambda s: s.x.norm() < 1e9)  # one bool, a tensor
    assert (res.status, res.nit) == (st.Status.CALLBACK, 1)


def test_a_gradient_that_came_with_a_value_counts_when_it_is_asked_for():
    calls, x0 = [], torch.tensor([-1.2, 1.0], dtype=torch.float64)
    res = st.minimize(lambda x: calls.append(0) or 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2, x0)
    assert res.success
    assert res.njev < res.nfev == len(calls)  # trials that failed; each call gave both
    for grads in (1, 2, 7):
        assert st.minimize(f, torch.tensor(MANY), budget=st.Budget(grads=grads), gtol=0).njev.max() == grads


@pytest.mark.usefixtures("few")
def test_what_is_wrong_is_said_as_ever():
    with pytest.raises(TypeError, match="write fun for one point: it is mapped"):
        st.minimize(torch.vmap(lambda x: (x * x).sum()), np.ones((3, 1)), jac="torch")
    with pytest.raises(TypeError, match="write fun for one point"):
        st.minimize(lambda x: x**2, torch.tensor(MANY))
    with pytest.raises(TypeError, match="expected a real scalar"):
        st.minimize(lambda x: x**2, torch.tensor(ONE), jac=slope)
    with pytest.raises(ValueError, match="jac: 'cs' does not support torch arrays"):
        run(torch.ones(3), jac="cs")
    with pytest.raises(ZeroDivisionError) as caught:
        st.minimize(lambda x: 1 // 0, torch.tensor(ONE), jac=slope)
    assert isinstance(caught.value.partial_result.x, torch.Tensor)


def test_fun_gets_points_that_can_be_viewed():
    """A batch of short rows is kept by columns; tensors made of it are not."""
    res = st.minimize(lambda x: f(x.view(-1, 3)), torch.tensor(MANY), jac=lambda x: slope(x.view(-1, 3)))
    assert res.success.all()


@pairs(dtype=(np.float64, np.float32), rows=STARTS, method=("bfgs", "cgd", "newton"))
def test_autodiff_from_numpy_keeps_the_precision(dtype, rows, method):
    smooth.check_autodiff_from_numpy("torch", dtype, rows, method)


def test_autodiff_leaves_to_the_user_what_is_given():
    smooth.check_what_autodiff_takes_from_the_user("torch")
    result = run(MANY, lambda x: (x * x).sum(), jac="torch", method="gd", step=0.25)  # written for one point
    np.testing.assert_allclose(result.x, MANY * 0.5**8, rtol=1e-14)


@pairs(shape=((2,), (3, 2)), bounds=(None, [(0, 1.5), (1.5, 4)]), numpy=(True, False))
def test_a_function_whose_graph_is_cut_is_refused(shape, bounds, numpy):
    cut = [lambda x: (x.detach() ** 2).sum(), torch.no_grad()(lambda x: x[0] - x[1])]
    cut += [lambda x: torch.tensor(x[0].item() ** 2)] if len(shape) == 1 else []
    x0 = np.full(shape, 1.5) if numpy else torch.ones(shape) * 1.5
    for fun in cut:
        with pytest.raises(ValueError, match=r"^fun: its value changes with x.* the graph is broken"):
            st.minimize(fun, x0, bounds=bounds, jac="torch")


def test_an_array_of_one_value_is_no_value_to_differentiate(few):
    for start in (torch.tensor([4.0]), torch.zeros(3)):
        with pytest.raises((TypeError, RuntimeError), match="scalar"):
            st.minimize(lambda x: ((x - 1) ** 2).sum(-1, keepdim=True), start)
