"""`minimize` as the paper's items call it, without a gradient tolerance, and functions to run it on."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from .._call.minimize import minimize as run
from ..functions import Function, functions, quadratic
from ..result import Result
from ..status import Status
from ..trace import Trace

Floats = NDArray[np.float64]


def minimize(fun: Any, x0: Any, **settings: Any) -> Result:
    """Run a method without a gradient tolerance; an interrupt of one run ends the whole job."""
    settings = {"gtol": 0.0, **settings}
    with np.errstate(all="ignore"):  # a step that is too long overflows, and ends its run
        result = run(fun, x0, **settings)
    if np.any(result.status == Status.INTERRUPTED):
        raise KeyboardInterrupt
    return result


def trace(result: Result) -> Trace:
    """Return the trace of a run that has one."""
    return cast(Trace, result.trace)


def path(result: Result) -> Floats:
    """Return the iterates of a run with `trace="x"`."""
    return cast(Floats, trace(result).x)


def in_the_plane(*names: str) -> tuple[Function, ...]:
    """Return these functions in two variables."""
    return tuple(functions[name].at(n=2) if functions[name].any_n else functions[name] for name in names)


def turned_quadratic(rng: np.random.Generator, eigenvalues: Floats) -> tuple[Function, Floats]:
    """Return a quadratic with these eigenvalues, a random basis and linear term; and the basis."""
    n = len(eigenvalues)
    basis = np.linalg.qr(rng.standard_normal((n, n)))[0]
    return quadratic(basis @ np.diag(eigenvalues) @ basis.T, b=rng.standard_normal(n)), basis
