"""What a compiled run returns to users and to the engine of `steepen.minimize`: tuples of arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..status import Status
from ._jax import jnp


class Trace(NamedTuple):
    """The path: the last iterates of a run, oldest first, in arrays of a fixed length.

    Where there are fewer iterates than places, the rest has k = −1, and NaN in place of numbers. The step
    size, λ and the two flags are those of the step taken from the iterate.

    Examples
    --------
    >>> import jax.numpy as jnp, steepen.jax as sj
    >>> path = sj.minimize(lambda x: ((x - 1) ** 2).sum(), jnp.zeros(2), trace=4).trace
    >>> path.k.tolist(), path.x.shape
    ([0, 1, 2, -1], (4, 2))
    """

    k: Any
    x: Any
    f: Any
    g: Any
    """∇f, as x a vector, also where points are trees."""
    gnorm: Any
    lam: Any
    step: Any
    nfev: Any
    njev: Any
    nhvp: Any
    penalised: Any
    guarded: Any

    @property
    def pairs(self) -> tuple[Any, Any]:
        """The steps s and the changes y of ∇f between consecutive iterates, one row a step; 0 elsewhere.

        Examples
        --------
        >>> import jax.numpy as jnp, steepen.jax as sj
        >>> path = sj.minimize(lambda x: ((x - 1) ** 2).sum(), jnp.zeros(2), trace=4).trace
        >>> s, y = path.pairs
        >>> bool((y == 2 * s).all()), s[2].tolist()
        (True, [0.0, 0.0])
        """
        known = (self.k[..., 1:] >= 0)[..., None]
        return tuple(jnp.where(known, a[..., 1:, :] - a[..., :-1, :], 0.0) for a in (self.x, self.g))


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
