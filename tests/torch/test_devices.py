"""Tensors stay on their device: nothing is made elsewhere, nothing read but by way of the host, and seldom.

All of it would go unseen on a CPU, where every array is at hand, and be an error, or time, on a GPU.
"""

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

import steepen as st
from steepen import tensors

from ..objectives import METHODS
from ..pairs import pairs

MAKERS = {
    torch.arange, torch.asarray, torch.empty, torch.eye, torch.from_numpy, torch.full, torch.linspace,
    torch.ones, torch.tensor, torch.zeros,
}  # fmt: skip
READERS = {torch.Tensor.numpy, torch.Tensor.__array__}
FEW = {"device": 0, "host": tensors.FEW}
"""The state of a run lies on the device where numbers are many, as if they were, and on the host."""


class Strict(TorchFunctionMode):
    """Refuse arrays that are made without a device, and arrays that NumPy reads without a `cpu()` before."""

    def __init__(self):
        super().__init__()
        self.host = set()
        self.kept = []  # so that no number comes twice

    def __torch_function__(self, func, types, args=(), kwargs=None):
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


def bowl(x):
    return (x**2).sum(-1) + 0.1 * (x**4).sum(-1) + x[..., 0] * x[..., 1]


def slope(x):
    other = torch.zeros_like(x)
    other[..., 0], other[..., 1] = x[..., 1], x[..., 0]
    return 2 * x + 0.4 * x**3 + other


STARTS = {
    "one": lambda n: torch.linspace(0.5, 1.5, n, dtype=torch.float64),
    # the rows part ways at once
    "many": lambda n: torch.tensor([[0.0], [1.0], [30.0]]) * torch.linspace(0.5, 1.5, n, dtype=torch.float64),
}


@pairs(
    method=METHODS, few=FEW, jac=(slope, "torch", None), rows=STARTS, n=(4, 40), bounds=(None, (0.25, 2.0))
)
def test_a_run_stays_on_its_device(method, rows, n, jac, bounds, few, monkeypatch):
    monkeypatch.setattr(tensors, "FEW", FEW[few])
    x0 = STARTS[rows](n)
    given = {} if bounds is None else {"bounds": [bounds] * n}
    with Strict():
        result = st.minimize(bowl, x0, method=method, jac=jac, budget=st.Budget(iters=10), **given)
        assert method != "cgd-auto" or rows == "many" or np.isfinite(result.hess_inv @ np.ones(n)).all()
    assert isinstance(result.x, torch.Tensor)
    assert np.atleast_1d(result.fun)[-1] < bowl(x0).reshape(-1)[-1]


PENALISED = {"method": "cgd", "lam": 0.1}
GIVEN = {
    "to its floor": {"gtol": 0.0},  # rows end at different times
    "differences, to its floor": {"gtol": 0.0, "jac": "2-point"},
    "checked": {"check_gradient": True, "trace": "x"},
    "few pairs": {"memory": 3},
    "an L1 penalty": PENALISED | {"penalty": st.penalties.L1()},
    "an L2 penalty": PENALISED | {"penalty": st.penalties.L2(), "method": "cgd-fd", "b": 3},
    "Huber's penalty": PENALISED | {"penalty": st.penalties.Huber()},
    "Perturbed": PENALISED | {"lam": st.schedules.Perturbed(0.4)},
}


@pairs(case=GIVEN, rows=STARTS, n=(4, 40), few=FEW)
def test_so_it_does_whatever_is_set(case, rows, n, few, tmp_path, monkeypatch):
    monkeypatch.setattr(tensors, "FEW", FEW[few])
    x0, given = STARTS[rows](n), {"jac": slope} | GIVEN[case]
    for iters in (5, 25):  # begun, and resumed
        with Strict():
            given |= {"budget": st.Budget(iters=iters), "checkpoint": tmp_path / "run.npz"}
            result = st.minimize(bowl, x0, **given)
    assert isinstance(result.x, torch.Tensor)


def counted(monkeypatch, owner, *names):
    calls = []
    for name in names:
        plain = getattr(owner, name)
        noted = lambda *a, plain=plain, **k: calls.append(plain) or plain(*a, **k)  # noqa: E731
        monkeypatch.setattr(owner, name, noted)
    return calls


BRINGS = ("__bool__", "__float__", "__index__", "__int__", "cpu", "item", "nonzero", "tolist")
"""What brings a tensor's numbers to the host, and waits for them."""

WAITS = {
    "gd": (3, {"method": "gd", "step": 1e-3}),  # f, ‖∇f‖, finite x
    "cgd-fd": (4, {"method": st.CGD(1e-4, curvature="difference", r=1e-4), "step": 1e-3}),  # ∇fᵀp, finite x
    "line search": (4.2, {"method": "gd", "step": st.steps.Armijo(initial=1e-3)}),  # f at times twice
    "cgd-auto": (19, {"memory": 5}),
}


@pytest.mark.parametrize("case", WAITS)
def test_waits_in_an_iteration(case, monkeypatch):
    monkeypatch.setattr(tensors, "FEW", 0)
    x0 = torch.tensor([-1.2, 1.0]).repeat(50)
    most, given = WAITS[case]

    def waits(iters):
        chain = lambda x: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()  # noqa: E731
        with monkeypatch.context() as patch:
            calls = counted(patch, torch.Tensor, *BRINGS)
            result = st.minimize(chain, x0, jac="torch", gtol=0.0, budget=st.Budget(iters=iters), **given)
        assert result.nit == iters
        return len(calls)

    assert (waits(50) - waits(20)) / 30 <= most


@pairs(rows=(1, 300), bounds=(None, [(0.25, 2.0), (-1.0, 40.0)]), jac=("torch", True))
def test_an_evaluation_of_few_numbers_is_one_wait(rows, bounds, jac, monkeypatch):
    calls = []

    def fun(x):
        calls.append(0)
        return (bowl(x), slope(x)) if jac is True else bowl(x)

    x0 = 30 * torch.rand(rows, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    step = st.steps.Armijo(grow=np.inf, longest=1.0)
    with monkeypatch.context() as patch:
        waits = counted(patch, torch.Tensor, *BRINGS)
        run = st.minimize(fun, x0[0] if rows == 1 else x0, jac=jac, bounds=bounds, step=step)
    assert np.all(run.success)
    assert np.max(run.nit) > 5
    assert len(calls) <= len(waits) <= len(calls) + 4  # x0 is looked at, and brought
