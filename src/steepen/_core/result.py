"""What a run gives back: Result, Status and Trace."""

from __future__ import annotations

import enum
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import InitVar, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from .._tools.files import write_whole
from .._tools.optional import load

if TYPE_CHECKING:
    import pandas as pd

    from .inverse import InverseHessian


class Status(enum.IntEnum):
    """How a run ended; each outcome has one sentence.

    A status is a number, as in SciPy, and prints as its name. Its message ends with the section of the page
    "How a run ended" that says whether x can be used, and what to do next.

    Examples
    --------
    >>> Status.CONVERGED.success, Status.CONVERGED.message
    (True, 'The gradient norm is within gtol. (docs: status.html#converged)')
    >>> print(Status.CONVERGED, int(Status.CONVERGED))
    CONVERGED 0
    """

    CONVERGED = 0
    FTOL = 1
    XTOL = 2
    ROUNDOFF = 3
    NOISE = 4
    FD_LIMIT = 5
    RELATIVE = 6
    RESOLUTION = 7
    MAX_ITERATIONS = 10
    MAX_GRADIENTS = 11
    MAX_EVALUATIONS = 12
    MAX_SECONDS = 13
    CALLBACK = 20
    INTERRUPTED = 21
    ARTIFICIAL = 22
    INACCURATE_GRADIENT = 23
    LINE_SEARCH_FAILED = 30
    NONFINITE_VALUE = 31
    NONFINITE_GRADIENT = 32
    FAILED = 33
    UNBOUNDED = 34
    DIVERGED = 35
    INFEASIBLE = 36

    @property
    def success(self) -> bool:
        """Whether a tolerance was met, or f is as low as the precision lets it be."""
        return self < Status.MAX_ITERATIONS

    @property
    def message(self) -> str:
        """What happened, in a sentence, and the section of the documentation that says more."""
        return self.explained(self.sentence)

    @property
    def sentence(self) -> str:
        """What happened, in a sentence."""
        return _SENTENCES[self]

    def explained(self, sentence: str) -> str:
        """Return a sentence about this end, with the section of the documentation that says more.

        Examples
        --------
        >>> Status.NOISE.explained("f is noisy.")
        'f is noisy. (docs: status.html#noise)'
        """
        return f"{sentence} (docs: status.html#{self.name.lower().replace('_', '-')})"

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return format(int(self) if spec.endswith("d") else self.name, spec)


_SENTENCES = {
    Status.CONVERGED: "The gradient norm is within gtol.",
    Status.FTOL: "The last step lowered f by no more than ftol.",
    Status.XTOL: "The last step moved x by no more than xtol.",
    Status.ROUNDOFF: "f cannot be lowered any further at working precision.",
    Status.NOISE: "f cannot be lowered by more than its own noise.",
    Status.FD_LIMIT: "f cannot be lowered by more than the error of its finite differences.",
    Status.RESOLUTION: "f cannot be lowered by more than the step between its values, which have few digits.",
    Status.RELATIVE: "The gradient norm is within gtol_rel times the largest one seen.",
    Status.MAX_ITERATIONS: "The budget of iterations is used up.",
    Status.MAX_GRADIENTS: "The budget of gradients does not cover another step.",
    Status.MAX_EVALUATIONS: "The budget of function evaluations does not cover another step.",
    Status.MAX_SECONDS: "The time limit was reached.",
    Status.CALLBACK: "The callback asked to stop.",
    Status.INTERRUPTED: "The run was interrupted from the keyboard.",
    Status.ARTIFICIAL: "x is near an artificial stationary point: the penalised direction vanishes there, "
    "the gradient of f does not. Change lam, or end the penalty (switch=).",
    Status.INACCURATE_GRADIENT: "The finite differences are too inaccurate to tell "
    "whether the gradient is within gtol.",
    Status.LINE_SEARCH_FAILED: "The line search found no lower point along the direction. "
    "If the gradient may be wrong, try check_gradient=True.",
    Status.NONFINITE_VALUE: "f was not finite; x is the best finite point seen.",
    Status.NONFINITE_GRADIENT: "The gradient, or its norm, was not finite; x is the best finite point seen.",
    Status.UNBOUNDED: "f is unbounded: it fell to near the lowest number; x is the best finite point seen.",
    Status.DIVERGED: "The next x would have overflowed; x is the best finite point seen.",
    Status.INFEASIBLE: "The bounds leave no point: a lower one is above its upper one.",
    Status.FAILED: "Your function raised an error; this is the run so far.",
}

BY_VALUES = (
    "The line search found no lower point along the direction. Without a gradient that means a kink of f, "
    "noise, or few digits; x is the best point found, and may not be a minimum."
)
"""The sentence of LINE_SEARCH_FAILED without a gradient."""


class Iterates:
    """The points of a run; they are put into one array when somebody asks for it.

    The run never changes a point it has made, so long ones are kept as they are. Short ones are copied
    together as they come, since an array object is larger than they are.
    """

    BLOCK = 4096

    def __init__(self, shape: tuple[int, ...], dtype: Any):
        self._shape, self._dtype = shape, dtype
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self._together = self.BLOCK // size if size < self.BLOCK else sys.maxsize
        self._recent: list[NDArray[Any]] = []
        self._blocks: list[NDArray[Any]] = []

    def append(self, x: NDArray[Any]) -> None:
        """Add a point."""
        self._recent.append(x)
        if len(self._recent) >= self._together:
            self._close_block()

    def extend(self, points: NDArray[Any]) -> None:
        """Add an array of points."""
        self._close_block()
        self._blocks.append(points)

    def array(self) -> NDArray[Any]:
        """Give all points as one array."""
        self._close_block()
        if len(self._blocks) != 1:
            empty = np.empty((0, *self._shape), dtype=self._dtype)
            self._blocks = [np.concatenate([empty, *self._blocks])]
        return self._blocks[0]

    def _close_block(self) -> None:
        recent, self._recent = self._recent, []
        if recent:
            self._blocks.append(np.stack(recent))


@dataclass(frozen=True)
class Trace:
    """The run, one row an iterate, in arrays of length K (of shape (K, B) for a batch).

    The step size, λ and the two flags of row k describe the step taken from x_k: NaN and False in the last
    row. The counts are what had been spent when x_k was reached, before anything was evaluated there, so
    `njev` is the paper's cost c. A row of a batch that has ended reads NaN from there on.

    Attributes
    ----------
    k : iteration number
    f, gnorm : f and ‖∇f‖ at x_k (NaN where the gradient was not evaluated)
    lam, step : λ_k and α_k
    penalised : whether the step followed the penalty
    guarded : whether the guard replaced the direction by −∇f
    nfev, njev, nhvp : cumulative counts

    Examples
    --------
    >>> import steepen as st
    >>> trace = st.minimize(st.functions["booth"], [0.0, 0.0], method="gd", step=0.05).trace
    >>> len(trace), bool(trace.f[0] > trace.f[-1])
    (121, True)
    """

    k: NDArray[np.int64]
    f: NDArray[np.float64]
    gnorm: NDArray[np.float64]
    lam: NDArray[np.float64]
    step: NDArray[np.float64]
    penalised: NDArray[np.bool_]
    guarded: NDArray[np.bool_]
    nfev: NDArray[np.int64]
    njev: NDArray[np.int64]
    nhvp: NDArray[np.int64]
    iterates: Iterates | None = None
    length: NDArray[np.int64] | None = None

    @property
    def x(self) -> NDArray[Any] | None:
        """The iterates, of shape (K, n) or (K, B, n), with `trace="x"`; else None."""
        return None if self.iterates is None else self.iterates.array()

    def __len__(self) -> int:
        return len(self.k)

    def row(self, b: int) -> Trace:
        """Give the trace of one row of a batch, as the single run would have it.

        Examples
        --------
        >>> import numpy as np, steepen as st
        >>> batch = st.minimize(st.functions["booth"], np.ones((3, 2)), method="gd", step=0.05)
        >>> batch.trace.row(2).f.ndim
        1
        """
        if self.length is None:
            raise ValueError("row: this is the trace of a single run")
        end = int(self.length[b])
        columns = {name: column[:end, b] for name, column in self.columns() if name != "k"}
        iterates, x = None, columns.pop("x", None)
        if x is not None:
            iterates = Iterates(x.shape[1:], x.dtype)
            iterates.extend(x)
        return Trace(k=self.k[:end], iterates=iterates, **columns)

    def columns(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Go through the columns by name.

        Examples
        --------
        >>> import steepen as st
        >>> res = st.minimize(st.functions["booth"], [0.0, 0.0], method="gd", step=0.05)
        >>> [name for name, _ in res.trace.columns()][:3]
        ['k', 'f', 'gnorm']
        """
        for field in fields(self):
            if field.name not in {"iterates", "length"}:
                yield field.name, getattr(self, field.name)
        if self.x is not None:
            yield "x", self.x

    def to_pandas(self) -> pd.DataFrame:
        """Give a data frame: one row an iterate (with a column `row` first, for a batch).

        Examples
        --------
        >>> import steepen as st
        >>> res = st.minimize(st.functions["booth"], [0.0, 0.0], method="gd", step=0.05)
        >>> list(res.trace.to_pandas().columns)[:3]
        ['k', 'f', 'gnorm']
        """
        pandas = load("pandas", "Trace.to_pandas", extra="pandas")
        return pandas.DataFrame(self._table())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace as `.csv` (one line an iterate) or `.npz` (arrays, x included).

        Examples
        --------
        >>> import tempfile, pathlib, numpy as np, steepen as st
        >>> res = st.minimize(st.functions["booth"], [0.0, 0.0], method="gd", step=0.05)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "trace.npz")
        ...     res.trace.save(path)
        ...     bool((np.load(path)["f"] == res.trace.f).all())
        True
        """
        suffix = Path(path).suffix
        if suffix not in {".csv", ".npz"}:
            raise ValueError(f"path: expected a name ending in .csv or .npz, got {str(path)!r}")

        def write(file: BinaryIO) -> None:
            if suffix == ".npz":
                arrays: dict[str, Any] = dict(self.columns())
                np.savez_compressed(file, **arrays)
                return
            table = self._table()
            file.write((",".join(table) + "\n").encode())
            for values in zip(*(column.tolist() for column in table.values()), strict=True):
                file.write((",".join(map(_text, values)) + "\n").encode())

        write_whole(path, write)

    def _table(self) -> dict[str, NDArray[Any]]:
        """Give the long form: a batch row after row, x spread over columns x0, x1 and so on."""
        if self.length is not None:
            parts = [self.row(b)._table() for b in range(len(self.length))]
            rows = np.repeat(np.arange(len(parts)), self.length)
            return {"row": rows} | {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        table = dict(self.columns())
        x = table.pop("x", None)
        if x is not None:
            table |= {f"x{i}": x[:, i] for i in range(x.shape[1])}
        return table


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else repr(value)


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

    For a batch of B runs every field has one entry a row: `x` is (B, n), `fun`, `status` and the counts are
    (B,), `message` is a list.

    Attributes
    ----------
    x, fun, jac : the last iterate, f there, and ∇f there (NaN where the budget did not cover it); the best
        finite point where f or ∇f was not finite, or where the run was cut before f was known
    success, status, message : whether a tolerance was met; the outcome; its sentence
    nit : steps taken
    nfev, njev, nhev, nhvp : evaluations of f, ∇f, H and H·v
    best : the best finite point seen
    hvp_source : where H·v came from: "hvp", "hess", "jax", "torch", "complex step", "difference", "bfgs" or
        "dfp"; None where the method needs none
    trace : the Trace, or None
    method : the method's name
    seconds : wall time of the run
    hess_inv : the inverse Hessian as far as the method has learnt it; see below

    Examples
    --------
    >>> import steepen as st
    >>> res = st.minimize(st.functions["booth"], [0.0, 0.0], method="gd", step=0.05)
    >>> res.success, res.nit, res.njev
    (True, 120, 121)
    >>> res["nit"], "x" in res
    (120, True)
    """

    x: Any
    fun: Any
    jac: Any
    success: Any
    status: Any
    message: Any
    nit: Any
    nfev: Any
    njev: Any
    nhev: Any
    nhvp: Any
    best: Best
    hvp_source: str | None
    trace: Trace | None
    method: str
    seconds: float
    learnt: InitVar[Any] = None

    def __post_init__(self, learnt: Any) -> None:
        vars(self)["_learnt"] = learnt  # no field: it is what `hess_inv` is made of, and not for comparing

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
        """The inverse Hessian at x as the pairs of the run make it, a `LinearOperator` as L-BFGS-B's.

        From cgd-auto, bfgs and dfp; None from other methods, for a batch, and after no step. It is an
        approximation, good in the directions the run has gone and a guess in others. Bounds are not in it: it
        stands for the Hessian of f in all variables, of which those that never moved are guesses.

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

    def row(self, b: int) -> Result:
        """Give the result of one row of a batch, as the single run would have it.

        Examples
        --------
        >>> import numpy as np, steepen as st
        >>> batch = st.minimize(st.functions["booth"], np.zeros((3, 2)), method="gd", step=0.05)
        >>> batch.row(1).nit
        120
        """
        if self.x.ndim != 2:
            raise ValueError("row: this is the result of a single run")
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("x", "jac", "message"):
            values[name] = values[name][b]
        for name in ("fun", "success", "nit", "nfev", "njev", "nhev", "nhvp"):
            values[name] = values[name][b].item()
        values["status"] = Status(int(self.status[b]))
        best_x = self.best.x[b] if np.isfinite(self.best.fun[b]) else None
        values["best"] = Best(best_x, self.best.fun[b].item(), self.best.k[b].item())
        values["trace"] = None if self.trace is None else self.trace.row(b)
        return Result(**values)

    def __repr__(self) -> str:
        shown = [name for name in _NAMES if name not in {"best", "trace", "hess_inv"}]
        width = max(map(len, shown))
        lines: list[str] = []
        for name in shown:
            value = getattr(self, name)
            if name == "status" and np.ndim(value):
                value = [Status(int(status)).name for status in value]
            lines.append(f"{name:>{width}}: " + str(value).replace("\n", "\n" + " " * (width + 2)))
        return "\n".join(lines)


_NAMES = (*(field.name for field in fields(Result)), "hess_inv")
