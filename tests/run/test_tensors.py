"""Few tensors: the state of the run lies on the host, and nobody can tell but by the time."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import steepen as st
from steepen._oracle import tensors

METHODS = ("gd", "newton", "bfgs", "dfp", "cgd", "cgd-fd", "cgd-bfgs", "cgd-dfp", "cgd-auto")
LAM: dict[str, Any] = {
    method: {"lam": 0.01} for method in METHODS if method.startswith("cgd-") or method == "cgd"
}
LAM["cgd-auto"] = {}


def valley(x: torch.Tensor) -> torch.Tensor:
    scale = torch.arange(1.0, 5.0, dtype=x.dtype, device=x.device)
    return (scale * x**2).sum(-1) + 0.1 * x[..., 0] ** 4


def slope(x: torch.Tensor) -> torch.Tensor:
    scale = torch.arange(1.0, 5.0, dtype=x.dtype, device=x.device)
    g = 2 * scale * x
    g[..., 0] += 0.4 * x[..., 0] ** 3
    return g


ONE = torch.linspace(0.5, 1.5, 4, dtype=torch.float64)
MANY = torch.tensor([[0.0], [1.0], [30.0]], dtype=torch.float64) * ONE


def on_both(monkeypatch: pytest.MonkeyPatch, fun: Any, x0: Any, **given: Any) -> tuple[Any, Any]:
    here = st.minimize(fun, x0, **given)
    with monkeypatch.context() as patch:
        patch.setattr(tensors, "FEW", 0)
        there = st.minimize(fun, x0, **given)
    return here, there


@pytest.mark.parametrize("x0", [ONE, MANY], ids=["one", "many"])
@pytest.mark.parametrize("jac", ["torch", slope, True], ids=["autodiff", "jac", "both"])
@pytest.mark.parametrize("method", METHODS)
def test_a_run_is_the_one_on_the_device(method: str, jac: Any, x0: Any, monkeypatch: Any) -> None:
    fun: Any = (lambda x: (valley(x), slope(x))) if jac is True else valley
    given = {"method": method, "jac": jac, "budget": st.Budget(iters=12), **LAM.get(method, {})}
    here, there = on_both(monkeypatch, fun, x0, **given)
    for name in ("nit", "nfev", "njev", "nhvp", "nhev", "status"):
        np.testing.assert_array_equal(getattr(here, name), getattr(there, name), err_msg=name)
    assert here.hvp_source == there.hvp_source
    for a, b in ((here.x, there.x), (here.jac, there.jac), (here.best.x, there.best.x)):
        assert (a.dtype, a.device) == (b.dtype, b.device)
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8)
    assert type(here.fun) is type(there.fun)


def test_given_products_and_hessians_take_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    H = torch.diag(torch.arange(1.0, 5.0, dtype=torch.float64))
    for given in ({"hvp": lambda x, v, c: c * (v @ H)}, {"hess": lambda x, c: c * H}):
        here, there = on_both(
            monkeypatch, lambda x, c: 0.5 * c * (x * (x @ H)).sum(), ONE, args=(2.0,), method="newton",
            jac=lambda x, c: c * (x @ H), **given,
        )  # fmt: skip
        assert here.success
        assert (here.nhvp, here.nhev) == (there.nhvp, there.nhev)
        torch.testing.assert_close(here.x, there.x, rtol=0, atol=1e-9)


def test_a_callback_sees_tensors_and_may_end_rows() -> None:
    seen: list[Any] = []

    def watch(state: st.State) -> Any:
        seen.append(state.x)
        return np.array([True, False, False]) if state.k == 1 and len(state.x) == 3 else None

    run = st.minimize(valley, MANY + 1, callback=watch)
    assert all(isinstance(x, torch.Tensor) for x in seen)
    assert run.status[0] == st.Status.CALLBACK
    assert run.success[1:].all()


def test_a_resumed_run_is_the_same_to_the_bit(tmp_path: Path) -> None:
    whole = st.minimize(valley, MANY)
    for iters in (2, 100):
        part = st.minimize(valley, MANY, budget=st.Budget(iters=iters), checkpoint=tmp_path / "run.npz")
    assert torch.equal(part.x, whole.x)
    assert np.array_equal(part.njev, whole.njev)


def test_a_gradient_that_came_with_a_value_counts_when_it_is_asked_for() -> None:
    calls = 0

    def fun(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2

    run = st.minimize(fun, torch.tensor([-1.2, 1.0], dtype=torch.float64))
    assert run.success
    assert run.njev < run.nfev  # trials that failed
    assert calls == run.nfev  # and each call gave both


def test_a_budget_of_gradients_holds_to_the_last() -> None:
    for grads in (1, 2, 7):
        run = st.minimize(valley, MANY, budget=st.Budget(grads=grads), gtol=0.0)
        assert run.njev.max() == grads


def test_what_is_wrong_is_said_as_ever() -> None:
    with pytest.raises(TypeError, match="write fun for one point"):
        st.minimize(lambda x: x**2, MANY)
    with pytest.raises(TypeError, match="expected a real scalar"):
        st.minimize(lambda x: x**2, ONE)
    with pytest.raises(ValueError, match="the graph is cut"):
        st.minimize(lambda x: (x.detach() ** 2).sum(), ONE)
    with pytest.raises(ZeroDivisionError) as caught:
        st.minimize(lambda x: 1 // 0, ONE)
    assert isinstance(caught.value.partial_result.x, torch.Tensor)  # pyright: ignore


def test_float32_stays_float32() -> None:
    run = st.minimize(valley, MANY.float())
    assert run.x.dtype == torch.float32
    assert run.success.all()


def test_fun_gets_points_that_can_be_viewed() -> None:
    """A batch of short rows is kept by columns; tensors made of it are not."""
    run = st.minimize(lambda x: valley(x.view(-1, 4)), MANY, jac=lambda x: slope(x.view(-1, 4)))
    assert run.success.all()


def test_many_numbers_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "FEW", 11)
    assert not tensors.hosted(MANY, "torch")
    assert tensors.hosted(MANY[:2], "torch")
    assert tensors.hosted(MANY[:2], slope)
    assert not tensors.hosted(MANY[:2], "2-point")  # differences of values are made where the values are
    assert not tensors.hosted(np.ones(3), slope)
