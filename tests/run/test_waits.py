"""How often a run on arrays of another library waits for them: numbers that belong together come together."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import steepen as st
from steepen._core.kits import One
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
