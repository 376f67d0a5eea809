"""Minimisation inside JAX programs: `minimize` under `jit`, `vmap` and `scan`, with bounds and derivatives.

Examples
--------
>>> import jax.numpy as jnp, steepen.jax as sj
>>> sol = sj.minimize(lambda x: ((x - 1) ** 2).sum(), jnp.zeros(3))
>>> bool(sol.success)
True
"""

from __future__ import annotations

from ._minimize import Bounds, minimize
from ._solution import Solution, Trace
from ._solver import Solver

__all__ = ["Bounds", "Solution", "Solver", "Trace", "minimize"]
