"""Constrained gradient descent (CGD), reproduced; a minimiser like SciPy's; sharpness-aware training.

- The paper, "CGD: Modifying the Loss Landscape by Gradient Regularization" (arXiv 2504.16182), descends
  f + λ‖∇f‖² with λ > 0 in place of f. `minimize` runs its methods: "cgd" is Algorithm 1, "cgd-fd" Algorithm
  2, "cgd-bfgs" and "cgd-dfp" Algorithm 3; `theory` has its theorem and lemma. λ > 0 helps where a fixed step
  size is too small, seldom where the step size is tuned.
- `minimize(f, x0)` has SciPy's interface and no step size or λ to choose. Its default, "cgd-auto", is a BFGS
  method; each of its unit steps is a CGD step with λ <= 0.
- `steepen.torch` and `steepen.optax` train networks with SAM and its relatives, the paper's penalty among
  them. `GapSAM` sets its strength from the gap between validation and training loss. It helps a network that
  overfits.

Examples
--------
CGD-FD on the Branin function, as in Table 1 of the paper, and the default method:

>>> import steepen as st
>>> f, x0 = st.functions["branin"], [-4.751, 12.459]
>>> res = st.minimize(f, x0, method="cgd-fd", lam=0.07, r=0.2, step=0.01, budget=st.Budget(grads=40))
>>> print(f"the first step lowers f by {100 * (1 - res.trace.f[1] / res.trace.f[0]):.2f} %")
the first step lowers f by 87.07 %
>>> st.minimize(f, x0).success
True
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from . import penalties, schedules, steps, switches, theory
from ._call.minimize import minimize
from ._call.told import Run
from ._tools.version import version
from .budget import Budget
from .drivers.packing import CheckpointError
from .drivers.watch import State
from .methods import BFGS, CGD, DFP, GD, CGDAuto, Method, Newton, Proposal
from .result import Best, Result
from .schedules import L
from .status import Status
from .trace import Trace

if TYPE_CHECKING:
    from ._sweep import load_results, sweep
    from ._table1 import Table1Row, table1
    from .functions import functions

    __version__: str

__all__ = [
    "BFGS", "CGD", "DFP", "GD", "Best", "Budget", "CGDAuto", "CheckpointError", "L", "Method", "Newton",
    "Proposal", "Result", "Run", "State", "Status", "Table1Row", "Trace", "functions", "load_results",
    "minimize", "penalties", "schedules", "steps", "sweep", "switches", "table1", "theory",
]  # fmt: skip


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
    instead = {"Direction": "Method, with `direction` in place of `propose`", "directions": "methods"}
    hint = f"; use steepen.{instead[name]} (docs/own.md)" if name in instead else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
