"""How often a run on arrays of another library waits for them: numbers that belong together come together.

Where they are few, the state of a run on tensors lies on the host, and each evaluation is waited for once.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import steepen as st
from steepen._core.kits import One
from steepen._oracle import tensors
from steepen._oracle.oracle import Oracle

WAITS = ("dot", "inner", "finite", "same", "some")
"""What turns arrays into Python's numbers; `norm` is made of `dot`."""

CASES: dict[str, tuple[float, dict[str, Any]]] = {
    "gd": (2, {"method": "gd", "step": 1e-3}),  # f and ‖∇f‖
    "cgd-fd": (4, {"method": st.CGD(1e-4, curvature="difference", r=1e-4), "step": 1e-3}),  # ∇fᵀp, finite x
    "line search": (4.2, {"method": "gd", "step": st.steps.Armijo(initial=1e-3)}),  # f at times twice
    "cgd-auto": (13.2, {"memory": 5}),  # 21 if every inner product were waited for
}


def rosenbrock(x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


@pytest.mark.parametrize("library", ["torch", "jax"])
@pytest.mark.parametrize("case", CASES)
def test_waits_in_an_iteration(library: str, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lib = pytest.importorskip("jax.numpy" if library == "jax" else library)
    monkeypatch.setattr(tensors, "FEW", 0)
    count = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any) -> Any:
            nonlocal count
            count += 1
            return function(*args)

        return wrapper

    for name in WAITS:
        monkeypatch.setattr(One, name, counted(getattr(One, name)))
    monkeypatch.setattr(Oracle, "_scalar", counted(Oracle._scalar))
    x0 = lib.asarray(np.tile([-1.2, 1.0], 50).astype(np.float32))
    most, given = CASES[case]

    def waits(iters: int) -> int:
        nonlocal count
        count = 0
        result = st.minimize(rosenbrock, x0, jac=library, gtol=0.0, budget=st.Budget(iters=iters), **given)
        assert result.nit == iters
        return count

    assert (waits(50) - waits(20)) / 30 <= most


READERS = ("__bool__", "__float__", "__index__", "__int__", "cpu", "item", "nonzero", "tolist")
"""What brings a tensor's numbers to the host."""


def bowls(x: Any) -> Any:
    return (x**2).sum() + 0.1 * (x**4).sum() + x[0] * x[1]


def both(x: Any) -> Any:
    other = x[..., [1, 0]] * x.new_ones(2)
    return (x**2).sum(-1) + 0.1 * (x**4).sum(-1) + x[..., 0] * x[..., 1], 2 * x + 0.4 * x**3 + other


@pytest.mark.parametrize("rows", [1, 300])
@pytest.mark.parametrize("bounds", [None, [(0.25, 2.0), (-1.0, 40.0)]], ids=["free", "bounds"])
@pytest.mark.parametrize("jac", ["torch", True])
@pytest.mark.parametrize("wait", [True, False], ids=["search", "one trial"])
def test_an_evaluation_of_few_numbers_is_one_wait(
    wait: bool, jac: Any, bounds: Any, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    waits = calls = 0

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            nonlocal waits
            waits += 1
            return method(*args, **kwargs)

        return wrapper

    def fun(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return both(x) if jac is True else bowls(x)

    x0 = 30 * torch.rand(rows, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    step = st.steps.Armijo(grow=np.inf, longest=1.0, wait=wait)
    for name in READERS:
        monkeypatch.setattr(torch.Tensor, name, counted(getattr(torch.Tensor, name)))
    run = st.minimize(fun, x0[0] if rows == 1 else x0, jac=jac, bounds=bounds, step=step)
    monkeypatch.undo()
    iterations = int(np.max(run.nit))
    assert np.all(run.success)
    assert iterations > 5
    assert calls <= waits <= calls + 4  # x0 is looked at, and brought
    if not wait:
        assert calls <= iterations + 2  # at the start, autodiff is asked whether it sees x


def test_jax_compiles_for_few_numbers_of_pairs() -> None:
    """Each new shape costs tenths of a second: a hundred pairs must not be a hundred shapes."""
    jax = pytest.importorskip("jax")
    x0 = jax.numpy.asarray(np.tile([-1.2, 1.0], 50).astype(np.float32))
    compiled = 0

    def heard(event: str, seconds: float, **_: Any) -> None:
        nonlocal compiled
        compiled += event.endswith("backend_compile_duration")

    def run(iters: int) -> int:
        before = compiled
        assert st.minimize(rosenbrock, x0, gtol=0.0, budget=st.Budget(iters=iters)).nit == iters
        return compiled - before

    jax.monitoring.register_event_duration_secs_listener(heard)
    try:
        jax.clear_caches()
        first = run(20)
        assert first > 50  # so they are counted
        assert run(32) < first / 4  # at most 32 pairs both times
    finally:
        jax.monitoring.unregister_event_duration_listener(heard)
