"""What a compiled run returns to users and to the engine of `steepen.minimize`: tuples of arrays."""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

from ..status import Status
from .masked.columns import COLUMNS

_Columns: Any = namedtuple("_Columns", ["k", "x", *COLUMNS])  # pyright: ignore


class Trace(_Columns):
    """The last iterates of a run, oldest first; k is −1 where there are fewer.

    Examples
    --------
    >>> Trace._fields[:4]
    ('k', 'x', 'f', 'gnorm')
    """


class Solution(NamedTuple):
    """The result of a run, as arrays, so that it can pass through `jit`, `vmap` and `scan`.

    The fields are those of `steepen.Result`, with one entry per start in a batch. `status` is the integer
    value of a `steepen.Status`.

    Examples
    --------
    >>> import jax.numpy as jnp, steepen.jax as sj
    >>> sol = sj.minimize(lambda x: ((x - 1) ** 2).sum(), jnp.zeros(3))
    >>> bool(sol.success), int(sol.nit), sol.x.round(5).tolist()
    (True, 2, [1.0, 1.0, 1.0])
    """

    x: Any
    fun: Any
    jac: Any
    status: Any
    nit: Any
    nfev: Any
    njev: Any
    nhvp: Any
    nhev: Any
    best_x: Any
    best_fun: Any
    best_nit: Any
    trace: Trace | None = None
    aux: Any = None

    @property
    def success(self) -> Any:
        """Whether a tolerance was met, or f is as low as the precision allows."""
        return self.status < int(Status.MAX_ITERATIONS)
