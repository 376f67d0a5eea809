"""A quasi-Newton minimiser with SciPy's interface, sharpness-aware training, and the CGD paper reproduced.

- The paper descends f + λ‖∇f‖² with λ > 0. That helps with a fixed step size that is too small, but
  mostly loses to a tuned one; `make reproduce`, in a clone, shows both.
- `minimize` has SciPy's interface and no step size or λ to choose. Its default, "cgd-auto", is a BFGS method
  whose unit steps are CGD steps with a λ that adapts to the curvature and is mostly negative.
- `steepen.torch` and `steepen.optax` train networks with SAM and its relatives, the paper's λ among them;
  `GapSAM` sets the strength from the gap between validation and training loss. They help where a network
  overfits.

Examples
--------
>>> import steepen as st
>>> res = st.minimize(st.functions["rosenbrock"].at(n=2), [-1.2, 1.0])
>>> res.success
True
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from . import penalties, schedules, steps, switches, theory
from ._call.minimize import minimize
from ._core.result import Best, Result
from ._core.state import State
from ._core.status import Status
from ._core.trace import Trace
from ._solver.checkpoint import CheckpointError
from ._tools.absent import explain_absent_paper
from ._tools.version import version
from .budget import Budget
from .directions import BFGS, CGD, DFP, GD, CGDAuto, Direction, Newton
from .schedules import L

if TYPE_CHECKING:
    from ._sweep import load_results, sweep
    from ._table1 import Table1Row, table1
    from .functions import functions

    __version__: str

__all__ = [
    "BFGS", "CGD", "DFP", "GD", "Best", "Budget", "CGDAuto", "CheckpointError", "Direction", "L", "Newton",
    "Result", "State", "Status", "Table1Row", "Trace", "functions", "load_results", "minimize", "penalties",
    "schedules", "steps", "sweep", "switches", "table1", "theory",
]  # fmt: skip

explain_absent_paper(Path(__file__).parent)


def __getattr__(name: str) -> object:
    # loaded when first used, so that `import steepen` stays light
    if name in {"functions", "plot"}:
        return importlib.import_module(f".{name}", __name__)
    if name == "__version__":
        return version()
    if name in {"load_results", "sweep"}:
        return getattr(importlib.import_module("._sweep", __name__), name)
    if name in {"Table1Row", "table1"}:
        return getattr(importlib.import_module("._table1", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
