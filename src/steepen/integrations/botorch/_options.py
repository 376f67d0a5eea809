"""Options by BoTorch's names, read for `gen_candidates` and `fit`; warns of unknown ones, changes nothing."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from scipy.optimize import OptimizeWarning

from ..._tools.check import meant, number, whole

NAMES = {
    "maxiter": "iters", "maxfun": "evals", "ftol": "ftol", "gtol": "gtol", "pgtol": "gtol", "tol": "gtol",
    "maxcor": "memory", "maxls": "trials", "race": "race",
    "max_optimization_problem_aggregation_size": "rows",
}  # fmt: skip
"""The options, by the names that BoTorch and SciPy's L-BFGS-B have for them, and `race`."""


def read_options(given: Mapping[str, Any] | None, **defaults: Any) -> dict[str, Any]:
    """Read options by BoTorch's names; warn of unknown ones, as SciPy does; without `race` no rows."""
    read: dict[str, Any] = {"iters": 2000, **defaults}
    names = {name: to for name, to in NAMES.items() if "race" in defaults or to not in ("race", "rows")}
    for name, value in (given or {}).items():
        argument = f'options["{name}"]'
        if name not in names:
            said = f"options: {name!r} is unknown and is ignored; {meant(name, list(names))}"
            warnings.warn(said, OptimizeWarning, stacklevel=3)
            continue
        if value is None:
            continue
        if name.endswith("tol"):
            number(argument, value, "a number, 0 or more", least=0)
        elif name != "race":
            whole(argument, value, 1)
        elif not isinstance(value, bool):
            raise TypeError(f"{argument}: expected True or False, got {value!r}")
        read[NAMES[name]] = value
    return read
