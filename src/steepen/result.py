"""The result of a run: built by the drivers, read by users, plots and integrations; changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import InitVar, dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from .status import Status
from .trace import Trace

if TYPE_CHECKING:
    from .inverse import InverseHessian


@dataclass(frozen=True)
class Best:
    """The best finite point seen: x, f there (inf if none was finite; x is then None), and the iteration.

    Examples
    --------
    >>> import steepen as st
    >>> st.minimize(st.functions["booth"], [0.0, 0.0], method="gd", step=0.05).best.k
    120
    """

    x: Any
    fun: Any
    k: Any


@dataclass(frozen=True)
class Result(Mapping[str, Any]):
    """The outcome of `minimize`; reads like SciPy's OptimizeResult, `res["x"]` and `res.keys()` included.

    For a batch of B runs every field has one entry per row: `x` is (B, n), `fun`, `status` and the counts are
    (B,), `message` is a list.

    Attributes
    ----------
    x, fun, jac : the last iterate, f there, and ∇f there (NaN where the budget did not cover it or a callback
        came first); the best finite point where f or ∇f was not finite, or f was not evaluated any more
    success, status, message : whether a tolerance was met; the outcome; its description
    nit : steps taken
    nfev, njev, nhev, nhvp : evaluations of f, ∇f, H and H·v
    nfev_unused : how many of the nfev values were evaluated ahead (`speculate`), and made for nothing
    best : the best finite point seen
    hvp_source : where H·v came from: "hvp", "hess", "jax", "torch", "difference", "bfgs" or "dfp";
        None where the method needs none
    trace : the Trace; None with `trace=False`, and by default under `engine="jax"`
    method : the method's name
    seconds : wall time of the run
    hess_inv : the method's approximation of the inverse Hessian; see below

    Examples
    --------
    >>> import steepen as st
    >>> res = st.minimize(st.functions["booth"], [0.0, 0.0], method="gd", step=0.05)
    >>> res.success, res.nit, res.njev
    (True, 120, 121)
    >>> res["nit"], "x" in res
    (120, True)
    """

    # "| Any": an array for a batch, or of another library; a type checker takes what a single run has
    x: NDArray[Any] | Any
    fun: float | Any
    jac: NDArray[Any] | Any
    success: bool | Any
    status: Status | Any
    message: str | Any
    nit: int | Any
    nfev: int | Any
    njev: int | Any
    nhev: int | Any
    nhvp: int | Any
    best: Best
    hvp_source: str | None
    trace: Trace | Any
    method: str
    seconds: float
    nfev_unused: Any = 0
    learnt: InitVar[Any] = None

    def __post_init__(self, learnt: Any) -> None:
        # no fields: `hess_inv` and `covariance` are made of them, and equality ignores them
        vars(self)["_learnt"], vars(self)["_measure"] = learnt, None

    def __getstate__(self) -> dict[str, Any]:  # a saved result has no function
        return vars(self) | {"_measure": None}

    def __getitem__(self, name: str) -> Any:
        if name not in _NAMES:
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)

    @cached_property
    def hess_inv(self) -> InverseHessian | None:
        """The quasi-Newton approximation of the inverse Hessian at x, a `LinearOperator` as in L-BFGS-B.

        Available from cgd-auto, bfgs and dfp; None for other methods, for a batch, and if no step was taken.
        It is accurate along the steps of the run, and a guess in other directions. It ignores bounds: it
        approximates the inverse Hessian of f in all variables, and is a guess for those that never moved.

        Examples
        --------
        >>> import numpy as np, steepen as st
        >>> f = st.functions.quadratic(np.diag([1.0, 4.0]))
        >>> np.diag(st.minimize(f, [1.0, 1.0], gtol=1e-9).hess_inv.todense()).round(6)
        array([1.  , 0.25])
        """
        learnt = vars(self)["_learnt"]
        if learnt is None:
            return None
        from .inverse import InverseHessian  # here, so that `import steepen` stays light

        return InverseHessian(*learnt)

    def covariance(self) -> NDArray[np.float64]:
        """Measure the inverse Hessian at x: the covariance of estimates, for a negative log-likelihood.

        H comes from `hess`, `hvp` or autodiff if there is one, else from central differences of ∇f, 4n
        gradients, or of f, 4n² values; 4n values or more find their lengths. These evaluations are not
        counted. NaN for variables at a bound, and for those that a direction moves along which f does not
        bend clearly. For a single run of the eager engine that was not loaded from a file.

        Examples
        --------
        >>> import numpy as np, steepen as st
        >>> H = np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
        >>> res = st.minimize(lambda x: 0.5 * x @ H @ x, [1.0, 2.0, 3.0], jac=lambda x: H @ x)
        >>> res.covariance().round(4)
        array([[ 0.6667, -0.3333,     nan],
               [-0.3333,  0.6667,     nan],
               [    nan,     nan,     nan]])
        """
        measure = vars(self)["_measure"]
        if measure is None:
            raise ValueError(
                "covariance: this result does not know its function: it is of a batch, a `Run`, the compiled "
                "engine or a file. st.minimize(fun, res.x, ...) has one that does"
            )
        return measure()

    def row(self, b: int) -> Result:
        """Return the result of one row of a batch, in the form of a single run.

        Examples
        --------
        >>> import numpy as np, steepen as st
        >>> batch = st.minimize(st.functions["booth"], np.zeros((3, 2)), method="gd", step=0.05)
        >>> batch.row(1).nit
        120
        """
        if self.x.ndim != 2:
            raise ValueError("row: this is the result of a single run")
        values = {field.name: _row(getattr(self, field.name), b) for field in fields(self)}
        values["status"] = Status(values["status"])
        best_x = self.best.x[b] if np.isfinite(self.best.fun[b]) else None
        values["best"] = Best(best_x, self.best.fun[b].item(), self.best.k[b].item())
        values["trace"] = None if self.trace is None else self.trace.row(b)
        return Result(**values)

    def __repr__(self) -> str:
        hidden = {"best", "trace", "hess_inv"} | ({"nfev_unused"} if not self.nfev_unused else set[str]())
        shown = [name for name in _NAMES if name not in hidden]
        width = max(map(len, shown))
        lines: list[str] = []
        for name in shown:
            value = getattr(self, name)
            if name == "status" and np.ndim(value):
                value = [Status(int(status)).name for status in value]
            lines.append(f"{name:>{width}}: " + str(value).replace("\n", "\n" + " " * (width + 2)))
        return "\n".join(lines)


def _row(value: Any, b: int) -> Any:
    """Return a row of what a batch has one for each of; anything else is that of all rows."""
    if isinstance(value, list):
        return cast("list[Any]", value)[b]
    return value if not getattr(value, "ndim", 0) else value[b].item() if value.ndim == 1 else value[b]


_NAMES = (*(field.name for field in fields(Result)), "hess_inv")
