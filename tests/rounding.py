"""The numerical tests as other CPUs would run them: `make test-rounding`.

Another CPU differs in the last bits: BLAS sums in another order, and sin and exp are rounded otherwise. Both
can be had here. OpenBLAS and NumPy take the kernels of other CPUs if told so, and `perturb` moves what the
functions of the tests return by a unit in the last place, up or down as a hash of x says: the same x always
has the same value, alone or in a batch. A test that compares with the function itself takes it as it is
`seen`; tests that cannot hold with last bits moved are marked `bits`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np

VARIABLE = "STEEPEN_TEST_ROUNDING"
SEED = os.environ.get(VARIABLE, "")

ROLES = ("jac", "hvp", "hess")

ELSEWHERE = (
    "torch", "train", "training", "integrations", "optax", "bench", "cli",
    "paper/test_reproduce.py", "paper/test_page.py", "test_plot.py", "test_layers.py", "test_public.py",
)  # fmt: skip
"""Tests whose subject is not this library's own arithmetic in NumPy."""

X86, ARM = ("PRESCOTT", "HASWELL", "SKYLAKEX"), ("ARMV8", "NEOVERSEN1", "NEOVERSEV1")
KERNELS = {"x86_64": X86, "AMD64": X86, "aarch64": ARM, "arm64": ARM}
NEEDS = {"HASWELL": "X86_V3", "SKYLAKEX": "X86_V4", "NEOVERSEV1": "SVE"}
"""Kernels that a CPU without this feature, in NumPy's words, cannot run."""


def seen(function: Callable[..., Any], role: str = "fun") -> Callable[..., Any]:
    """Return a function as `minimize` sees it where it is given as fun, jac, hvp or hess."""
    return off(function, f"{SEED} {role}") if SEED else function


def perturb() -> None:
    """Have `minimize` see every NumPy function of a test one unit in the last place off, up, down, or not."""
    from steepen.objective import Objective

    plain = Objective.functions

    @wraps(plain)
    def functions(self: Objective) -> Any:
        if self.library:  # what is traced cannot be moved
            return plain(self)
        fun = _both(self.fun) if self.jac is True else seen(self.fun)
        given = {role: seen(getattr(self, role), role) for role in ROLES if callable(getattr(self, role))}
        return plain(replace(self, fun=fun, **given))

    Objective.functions = functions


def _both(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return fun of `jac=True`, moved as fun and jac are where they are two functions."""

    def moved(x: Any, *rest: Any) -> Any:
        at = x.copy() if isinstance(x, np.ndarray) else x
        pair = function(x, *rest)
        if not isinstance(pair, tuple) or len(pair) != 2:
            return pair
        return tuple(seen(lambda _, v=v: v, role)(at) for v, role in zip(pair, ("fun", "jac"), strict=True))

    return moved


def off(function: Callable[..., Any], seed: str) -> Callable[..., Any]:
    """Return a function with last bits moved; the seed says how."""
    salt = seed.encode()

    @wraps(function, updated=())
    def moved(x: Any, *rest: Any) -> Any:
        points = None
        if isinstance(x, np.ndarray):  # noted before the function may change x
            points = [salt + point.tobytes() for point in x.reshape(-1, x.shape[-1]) + 0.0]  # -0 is 0
        value = function(x, *rest)
        return value if points is None else _moved(value, points, x.shape[:-1])

    return moved


def _moved(value: Any, points: list[bytes], lead: tuple[int, ...]) -> Any:
    """Move what belongs to these points up or down as a hash of each says."""
    if not isinstance(value, float | np.ndarray | np.generic):
        return value
    array = np.array(value, order="C")
    if array.dtype.kind not in "fc" or array.shape[: len(lead)] != lead:
        return value  # not what minimize asks for: it will say so itself
    parts = array.reshape(-1).view(array.real.dtype).reshape(len(points), -1)
    digests = b"".join(hashlib.shake_128(point).digest(parts.shape[1]) for point in points)
    way = np.frombuffer(digests, np.uint8).reshape(parts.shape) % 3
    to = np.where(way == 0, -np.inf, np.where(way == 1, np.inf, parts)).astype(parts.dtype)
    with np.errstate(all="ignore"):
        away = np.nextafter(parts, to)
    still = (parts == 0) | ~np.isfinite(parts) | ~np.isfinite(away)
    new = np.where(still, parts, away).reshape(-1).view(array.dtype).reshape(array.shape)
    return new if isinstance(value, np.ndarray) else type(value)(new)


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
            cwd=here.parent, stdout=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        lines = ran.stdout.splitlines()
        print(*(line for line in lines if line.startswith(("FAILED", "ERROR"))), sep="\n", flush=True)
        summary = re.sub(r" in .*", "", lines[-1]) if lines else "no output"
        table.append((ran.returncode == 0, name, summary, time.perf_counter() - began))
    for passed, name, summary, seconds in table:
        print(f"{'passed' if passed else 'FAILED':7} {name:60} {summary} ({seconds:.0f} s)")
    return 0 if table and all(passed for passed, *_ in table) else 1


if __name__ == "__main__":
    sys.exit(main())
