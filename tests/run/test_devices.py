"""Arrays stay on their device: nothing is made elsewhere, and nothing is read but by way of the host.

Both would go unseen on a CPU, where every array is at hand, and be an error on a GPU. Every test is made with
the state of the run on the device, as where numbers are many, and with that state on the host.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

import steepen as st
from steepen._oracle import tensors

METHODS = ("gd", "newton", "bfgs", "dfp", "cgd", "cgd-fd", "cgd-bfgs", "cgd-dfp", "cgd-auto")
MAKERS = {
    torch.arange, torch.asarray, torch.empty, torch.eye, torch.from_numpy, torch.full, torch.linspace,
    torch.ones, torch.tensor, torch.zeros,
}  # fmt: skip
READERS = {torch.Tensor.numpy, torch.Tensor.__array__}


@pytest.fixture(autouse=True, params=[0, tensors.FEW], ids=["device", "host"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "FEW", request.param)


class Strict(TorchFunctionMode):
    """Refuse arrays that are made without a device, and arrays that NumPy reads without a `cpu()` before."""

    def __init__(self) -> None:
        super().__init__()
        self.host: set[int] = set()
        self.kept: list[Any] = []  # so that no number comes twice

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in MAKERS and kwargs.get("device") is None:
            raise AssertionError(f"{func.__name__} without a device")
        if func in READERS and id(args[0]) not in self.host:
            raise AssertionError("NumPy reads an array that is not on the host")
        out = func(*args, **kwargs)
        if func is torch.Tensor.cpu:
            out = out.view_as(out)
            self.host.add(id(out))
            self.kept.append(out)
        return out


def bowl(x: Any) -> Any:
    return (x**2).sum(-1) + 0.1 * (x**4).sum(-1) + x[..., 0] * x[..., 1]


def slope(x: Any) -> Any:
    other = torch.zeros_like(x)
    other[..., 0], other[..., 1] = x[..., 1], x[..., 0]
    return 2 * x + 0.4 * x**3 + other


STARTS: dict[str, Callable[[int], Any]] = {
    "one": lambda n: torch.linspace(0.5, 1.5, n, dtype=torch.float64),
    # the rows part ways at once
    "many": lambda n: torch.tensor([[0.0], [1.0], [30.0]]) * torch.linspace(0.5, 1.5, n, dtype=torch.float64),
}


@pytest.mark.parametrize("bounds", [None, (0.25, 2.0)], ids=["free", "bounds"])
@pytest.mark.parametrize("jac", [slope, "torch", None], ids=["jac", "torch", "differences"])
@pytest.mark.parametrize("n", [4, 40])
@pytest.mark.parametrize("rows", STARTS)
@pytest.mark.parametrize("method", METHODS)
def test_a_run_stays_on_its_device(method: str, rows: str, n: int, jac: Any, bounds: Any) -> None:
    x0 = STARTS[rows](n)
    given = {} if bounds is None else {"bounds": [bounds] * n}
    with Strict():
        result = st.minimize(bowl, x0, method=method, jac=jac, budget=st.Budget(iters=15), **given)
    assert isinstance(result.x, torch.Tensor)
    assert np.atleast_1d(result.fun)[-1] < bowl(x0).reshape(-1)[-1]


GIVEN: dict[str, dict[str, Any]] = {
    "to its floor": {"gtol": 0.0},  # rows end at different times
    "differences, to its floor": {"gtol": 0.0, "jac": "2-point"},
    "checked": {"check_gradient": True},
    "with x": {"trace": "x"},
    "few pairs": {"memory": 3},
    "an L1 penalty": {"method": "cgd", "lam": 0.1, "penalty": st.penalties.L1()},
    "an L2 penalty": {"method": "cgd-fd", "lam": 0.1, "penalty": st.penalties.L2(), "b": 3},
    "Huber's penalty": {"method": "cgd", "lam": 0.1, "penalty": st.penalties.Huber()},
    "Quadratic": {"method": "cgd-fd", "lam": 0.1, "step": st.steps.Quadratic(), "b": 3},
    "Signed": {"method": "cgd", "lam": st.schedules.Signed(0.4)},
    "Perturbed": {"method": "cgd", "lam": st.schedules.Perturbed(0.4)},
}


@pytest.mark.parametrize("n", [4, 40])
@pytest.mark.parametrize("rows", STARTS)
@pytest.mark.parametrize("case", GIVEN)
def test_so_it_does_whatever_is_set(case: str, rows: str, n: int, tmp_path: Path) -> None:
    x0, given = STARTS[rows](n), {"jac": slope} | GIVEN[case]
    for iters in (5, 40):  # begun, and resumed
        with Strict():
            result = st.minimize(
                bowl, x0, budget=st.Budget(iters=iters), checkpoint=tmp_path / "run.npz", **given
            )
    assert isinstance(result.x, torch.Tensor)


def test_the_inverse_hessian_is_read_by_way_of_the_host() -> None:
    x0 = STARTS["one"](4)
    with Strict():
        result = st.minimize(bowl, x0, jac=slope)
        assert np.isfinite(result.hess_inv @ np.ones(4)).all()


@pytest.mark.parametrize(
    "careless", [lambda x: torch.eye(3), np.asarray, lambda x: x.numpy(), lambda x: np.where(True, x, x)]
)
def test_what_a_gpu_would_refuse_is_refused(careless: Callable[[Any], Any]) -> None:
    x = torch.ones(3)
    with Strict(), pytest.raises(AssertionError, match=r"device|host"):
        careless(x)


def test_what_a_gpu_would_do_is_done() -> None:
    x = torch.ones(3)
    with Strict():
        assert np.asarray(x.cpu()).sum() == torch.eye(3, device=x.device).sum() == x.cpu().numpy().sum()
