"""The trace, one row per iterate: built by the drivers, read by users and plots; pandas only on request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ._tools.optional import load

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Trace:
    """The history of a run, one row per iterate, in arrays of length K (of shape (K, B) for a batch).

    The step size, λ and the two flags of row k describe the step taken from x_k: NaN and False in the last
    row. The counts are those when x_k was reached, before anything was evaluated there, so `njev` is the
    paper's cost c. A row of a batch is NaN after it has stopped.

    Attributes
    ----------
    k : iteration number
    f, gnorm : f and ‖∇f‖ at x_k (NaN where the gradient was not evaluated)
    lam, step : λ_k and α_k
    penalised : whether the step used the penalised direction
    guarded : whether the guard replaced the direction by −∇f
    nfev, njev, nhvp : cumulative counts
    x : the iterates, of shape (K, n) or (K, B, n), with `trace="x"`; else None
    length : the number of iterates of each row of a batch; None for a single run

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
    x: NDArray[Any] | None = None
    length: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.k)

    def row(self, b: int) -> Trace:
        """Return the trace of one row of a batch, in the form of a single run.

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
        return Trace(k=self.k[:end], **columns)

    def columns(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Iterate over the columns as (name, array).

        Examples
        --------
        >>> import steepen as st
        >>> res = st.minimize(st.functions["booth"], [0.0, 0.0], method="gd", step=0.05)
        >>> [name for name, _ in res.trace.columns()][:3]
        ['k', 'f', 'gnorm']
        """
        for field in fields(self):
            column = getattr(self, field.name)
            if field.name != "length" and column is not None:
                yield field.name, column

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame with one row per iterate (for a batch, with `row` as first column).

        Examples
        --------
        >>> import steepen as st
        >>> res = st.minimize(st.functions["booth"], [0.0, 0.0], method="gd", step=0.05)
        >>> list(res.trace.to_pandas().columns)[:3]
        ['k', 'f', 'gnorm']
        """
        pandas = load("pandas", "Trace.to_pandas", extra="pandas")
        return pandas.DataFrame(self._table())

    def _table(self) -> dict[str, NDArray[Any]]:
        """Return the long format: the rows of a batch one after another, x in columns x0, x1 and so on."""
        if self.length is not None:
            parts = [self.row(b)._table() for b in range(len(self.length))]
            rows = np.repeat(np.arange(len(parts)), self.length)
            return {"row": rows} | {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        table = dict(self.columns())
        x = table.pop("x", None)
        if x is not None:
            table |= {f"x{i}": x[:, i] for i in range(x.shape[1])}
        return table
