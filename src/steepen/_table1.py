"""The settings of the paper's Table 1 as data, for users and the paper's items; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ._tools.aligned import aligned
from ._tools.check import meant, one_of
from .budget import Budget
from .functions import Function, functions
from .schedules import L


@dataclass(frozen=True)
class Table1Row:
    """A row of the paper's Table 1: every setting of its runs, and what had to be recovered.

    The paper prints the function, n, λ, α, T and b, and by how much the first step of GD and of CGD-FD lowers
    f, in percent. It prints no start, no r and no matrix for the quadratic. Ours, named in `recovered`, give
    both percentages to two decimals; they are not the only values that do, and need not be the authors'.

    Parameters
    ----------
    function : Function
        The test function in the paper's dimension.
    lam, alpha : float or L, float
        λ, and the step size α; printed.
    x0, r : tuple of float, float
        The start, and the r of CGD-FD's difference. On a quadratic every r gives the same run: r is then
        not among `recovered`.
    gd, cgd_fd : float
        The printed improvements (f₀ − f₁)/f₀ of the first step, in percent.
    recovered : tuple of str
        The settings that the paper does not give.
    T, b : int
        The budget in gradients, and after how many iterations CGD-FD becomes GD; printed.

    Examples
    --------
    >>> import steepen as st
    >>> row = st.table1["branin"]
    >>> row.alpha, row.lam, row.T, row.b, row.r, row.x0
    (0.01, 0.07, 40, 10, 0.2, (-4.751, 12.459))
    >>> row.recovered
    ('x0', 'r')
    >>> res = st.minimize(**row.arguments("cgd-fd"))
    >>> f = res.trace.f
    >>> round(float((f[0] - f[1]) / f[0] * 100), 2) == row.cgd_fd
    True

    All rows:

    >>> st.table1
    row                      n   λ             α     r     x0
    quadratic                10  0.4           0.01  any   all ones
    rotated-hyper-ellipsoid  5   0.5           0.01  any   (12, 5, 1, 5, 12)
    levy                     2   L(0.01, 0.1)  0.05  0.01  (-9.41863, -5.27389)
    branin                   2   0.07          0.01  0.2   (-4.751, 12.459)
    griewank                 2   40            0.01  0.01  (440.044, 312.736)
    matyas                   2   10            0.01  any   (1.4267, 6.8533)
    T = 40 and b = 10. Recovered, and not printed: x0, r, the quadratic's matrix.
    """

    function: Function
    lam: float | L
    alpha: float
    x0: tuple[float, ...]
    r: float
    gd: float
    cgd_fd: float
    recovered: tuple[str, ...]
    T: int = 40
    b: int = 10

    @property
    def n(self) -> int:
        """The number of variables."""
        return self.function.n

    def arguments(self, method: str = "cgd-fd") -> dict[str, Any]:
        """Return the arguments of `minimize` for the row's run of "gd" or of "cgd-fd"."""
        one_of("method", method, ("gd", "cgd-fd"))
        own = {"lam": self.lam, "r": self.r, "b": self.b} if method == "cgd-fd" else {}
        run = {"fun": self.function, "x0": self.x0, "method": method, "step": self.alpha, **own}
        return run | {"budget": Budget(grads=self.T), "gtol": 0.0}  # the paper's loops have no tolerance


class _Table1(Mapping[str, Table1Row]):
    """The rows by the name of the function, in the paper's order; prints as a table."""

    def __init__(self, *rows: Table1Row) -> None:
        self._rows = {row.function.name: row for row in rows}

    def __getitem__(self, name: str) -> Table1Row:
        if name in self._rows:
            return self._rows[name]
        raise KeyError(f"Table 1 has no row {name!r}; {meant(name, list(self._rows))}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        lines = [("row", "n", "λ", "α", "r", "x0")]
        for name, row in self._rows.items():
            lam = f"L({row.lam.start:g}, {row.lam.end:g})" if isinstance(row.lam, L) else f"{row.lam:g}"
            r = f"{row.r:g}" if "r" in row.recovered else "any"
            x0 = f"({', '.join(f'{x:g}' for x in row.x0)})" if len(set(row.x0)) > 1 else "all ones"
            lines.append((name, str(row.n), lam, f"{row.alpha:g}", r, x0))
        table = "\n".join(aligned(lines, left=6))
        return f"{table}\nT = 40 and b = 10. Recovered, and not printed: x0, r, the quadratic's matrix."


table1 = _Table1(
    Table1Row(functions["quadratic"].at(10), 0.4, 0.01, (1.0,) * 10, 0.01, 18.89, 97.91, ("x0", "function")),
    Table1Row(functions["rotated-hyper-ellipsoid"].at(5), 0.5, 0.01, (12.0, 5.0, 1.0, 5.0, 12.0), 0.01, 15.94,
              82.76, ("x0",)),
    Table1Row(functions["levy"].at(2), L(0.01, 0.1), 0.05, (-9.4186315, -5.2738909), 0.01, 23.73, 63.21,
              ("x0", "r")),
    Table1Row(functions["branin"], 0.07, 0.01, (-4.751, 12.459), 0.2, 37.53, 87.07, ("x0", "r")),
    Table1Row(functions["griewank"].at(2), 40.0, 0.01, (440.0436, 312.7357), 0.01, 0.01, 0.08, ("x0", "r")),
    Table1Row(functions["matyas"], 10.0, 0.01, (1.4267, 6.8533), 0.01, 1.83, 34.40, ("x0",)),
)  # fmt: skip
