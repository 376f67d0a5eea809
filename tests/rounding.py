"""The numerical tests as other CPUs would run them: `make test-rounding`.

Another CPU differs in the last bits: BLAS sums in another order, and sin and exp are rounded otherwise. Both
can be had here. OpenBLAS and NumPy take the kernels of other CPUs if told so, and `perturb` moves what the
functions of the tests return by a unit in the last place, up or down as a hash of x says: the same x always
has the same value, alone or in a batch. Tests of what holds to the last bit are marked `bits`.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np

VARIABLE = "STEEPEN_TEST_ROUNDING"

ELSEWHERE = (
    "torch",
    "train",
    "bench",
    "paper/test_reproduce.py",
    "test_cli.py",
    "test_plot.py",
    "test_public.py",
)
"""Tests whose subject is not this library's own arithmetic in NumPy."""

KERNELS = {
    "x86_64": ("PRESCOTT", "HASWELL", "SKYLAKEX"),
    "AMD64": ("PRESCOTT", "HASWELL", "SKYLAKEX"),
    "aarch64": ("ARMV8", "NEOVERSEN1", "NEOVERSEV1"),
    "arm64": ("ARMV8", "NEOVERSEN1", "NEOVERSEV1"),
}

NEEDS = {"HASWELL": "X86_V3", "SKYLAKEX": "X86_V4", "NEOVERSEV1": "SVE"}
"""Kernels that a CPU without this feature, in NumPy's words, cannot run."""


# --- functions of the tests, one unit in the last place off ------------------------------------------


def perturb(seed: int) -> None:
    """Have `minimize` see every NumPy function of a test one unit in the last place off, or not at all."""
    from steepen._oracle import Oracle

    plain = Oracle.__init__

    @wraps(plain)
    def init(self: Oracle, fun: Any, x0: Any, kit: Any, **given: Any) -> None:
        if not isinstance(given["jac"], str) or given["jac"] not in ("jax", "torch"):
            fun = _off(fun, seed)
            for i, name in enumerate(("jac", "hvp", "hess"), 1):
                if callable(given.get(name)):
                    given[name] = _off(given[name], seed + 1000 * i)
        plain(self, fun, x0, kit, **given)

    Oracle.__init__ = init


def _off(function: Callable[..., Any], seed: int) -> Callable[..., Any]:
    @wraps(function, updated=())
    def moved(x: Any, *rest: Any) -> Any:
        bits = _hash(x, seed) if isinstance(x, np.ndarray) else None  # before the function may change x
        value = function(x, *rest)
        if bits is None:
            return value
        if isinstance(value, tuple) and len(value) == 2:
            return _moved(value[0], bits), _moved(value[1], bits + np.uint64(1))
        return _moved(value, bits)

    return moved


def _hash(x: np.ndarray, seed: int) -> np.ndarray:
    """Give one number for each point, in an axis of its own, whatever batch it stands in."""
    whole = np.ascontiguousarray(x)
    bits = whole.view(np.uint32 if whole.dtype.itemsize % 8 else np.uint64).astype(np.uint64)
    odd = 2 * np.arange(1, bits.shape[-1] + 1, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    return _mix((_mix(bits) * odd).sum(axis=-1, dtype=np.uint64, keepdims=True) + np.uint64(seed))


def _mix(h: np.ndarray) -> np.ndarray:
    """Spread the bits (the finaliser of splitmix64)."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


def _moved(value: Any, bits: np.ndarray) -> Any:
    array = np.asarray(value)
    if array.dtype.kind not in "fc" or array.shape[: bits.ndim - 1] != bits.shape[:-1]:
        return value  # not what minimize asks for: it will say so itself
    numbers = np.ascontiguousarray(array)
    parts = numbers.view(numbers.real.dtype).reshape(*bits.shape[:-1], -1)
    places = np.arange(parts.shape[-1], dtype=np.uint64) * np.uint64(0xD1342543DE82EF95)
    way = (_mix(bits + places) % np.uint64(3)).astype(np.int8) - 1
    away = np.nextafter(parts, np.where(way > 0, np.inf, -np.inf).astype(parts.dtype))
    keep = (way == 0) | (parts == 0) | ~np.isfinite(parts) | ~np.isfinite(away)
    new = np.where(keep, parts, away).reshape(-1).view(array.dtype).reshape(array.shape)
    return new if isinstance(value, np.ndarray) else new.item() if isinstance(value, float) else new[()]


# --- the settings, and a run of the tests under each -------------------------------------------------


def settings() -> Iterator[tuple[str, dict[str, str]]]:
    """Give a name and the environment of every setting this machine can take."""
    from numpy._core._multiarray_umath import __cpu_dispatch__ as dispatched
    from numpy._core._multiarray_umath import __cpu_features__ as has

    for kernel in KERNELS.get(platform.machine(), ()):
        if has.get(NEEDS.get(kernel, ""), True):
            yield f"OpenBLAS as on {kernel}", {"OPENBLAS_CORETYPE": kernel}
    if features := [name for name in dispatched if has[name]]:
        yield f"NumPy without {', '.join(features)}", {"NPY_DISABLE_CPU_FEATURES": ",".join(features)}
    yield "two threads of BLAS", {"OPENBLAS_NUM_THREADS": "2"}
    for seed in (1, 2):
        yield f"functions off by a last bit, seed {seed}", {VARIABLE: str(seed)}


def main() -> int:
    """Run the tests under each setting; say which passed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", "--jobs", default="2", help="processes of pytest")
    parser.add_argument("-k", "--only", default="", help="a part of the names of the settings to run")
    parser.add_argument("pytest", nargs="*", help="further arguments of pytest, after --")
    given = parser.parse_args()
    here = Path(__file__).parent
    ignored = [f"--ignore={here / name}" for name in ELSEWHERE]
    table: list[tuple[bool, str, str, float]] = []
    for name, environment in settings():
        if given.only not in name:
            continue
        print(f"--- {name}", flush=True)
        began = time.perf_counter()
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", here, *ignored, "-n", given.jobs, *given.pytest],
            env={"OPENBLAS_NUM_THREADS": "1"} | os.environ | environment,
            cwd=here.parent,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        lines = ran.stdout.splitlines()
        print(*[line for line in lines if line.startswith(("FAILED", "ERROR"))], sep="\n", flush=True)
        summary = re.sub(r" in .*", "", lines[-1]) if lines else "no output"
        table.append((ran.returncode == 0, name, summary, time.perf_counter() - began))
    for passed, name, summary, seconds in table:
        print(f"{'passed' if passed else 'FAILED':7} {name:60} {summary} ({seconds:.0f} s)")
    return 0 if table and all(passed for passed, *_ in table) else 1


if __name__ == "__main__":
    sys.exit(main())
