"""What a program leaves open, made by the plain run: noise, restarts, a start at a saddle; not in `jit`.

The plain run starts again, on the program's own f and derivatives, so what comes back is its run, and its
counts. A program ends such a run with a code below 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._call.solve import solve as solve_plain
from ..objective import Objective
from ..result import Result
from ._jax import compiled, jax, jnp
from ._program import Inputs, Program
from ._settings import plain_of
from ._slots import solve
from ._solution import Solution, Trace


@compiled(1)
def _value(program: Program, x: Any, args: Any) -> Any:
    return program(x, args)


@compiled(1)
def _gradient(program: Program, x: Any, args: Any) -> Any:
    return program.both(x, args)[1]


@compiled(1)
def _product(program: Program, x: Any, v: Any, args: Any) -> Any:
    return program.product(x, v, args)


@compiled(1)
def _hessian(program: Program, x: Any, args: Any) -> Any:
    return program.hessian(x, args)


MOST = 256
"""So many rows of a batch are made by the plain run, in a second or so."""


def continued(program: Program, x: Any, inputs: Inputs, found: Solution) -> Solution:
    """Return the solution of a direct call with the runs that were left open made by the plain run.

    If more than MOST rows are left, all of them are made by a program that leaves nothing open.
    """
    left = np.flatnonzero(np.asarray(found.status) < 0)
    if x.ndim == 1:
        return _made(program, x, inputs, None) if len(left) else found
    rows = left[left < len(x)]  # what is after the last start is padding
    if not len(rows):
        return found
    if len(rows) > MOST:
        own = {name: v[rows] if v.ndim else v for name, v in inputs.numbers.items()}
        made = solve(program, x[rows], inputs._replace(numbers=own), None, None, alone=True)
        new = jax.tree.map(lambda a: a[: len(rows)], made)
    else:
        made = [_made(program, x[row], inputs, int(row)) for row in rows]
        new = jax.tree.map(lambda *leaves: np.stack(leaves), *made)
    return jax.tree.map(lambda a, b: jnp.asarray(a).at[rows].set(b), found, new)


def _made(program: Program, x: Any, inputs: Inputs, row: int | None) -> Solution:
    """Return the plain run from a start, which is a row of a batch."""
    numbers = {name: np.asarray(v)[row] if v.ndim else v for name, v in inputs.numbers.items()}
    settings = plain_of(program.parts({name: v.item() for name, v in numbers.items()}))
    value, gradient, product, hessian = (
        _of(program, part, inputs) for part in (_value, _gradient, _product, _hessian)
    )
    second = {"newton": {"hess": hessian}, "cgd": {"hvp": product}}.get(settings.method.name, {})
    objective = Objective(value, np.asarray(x), bounds=_pairs(inputs.bounds), jac=gradient, **second)
    trace = False if program.trace is None else "x"
    result = solve_plain(
        objective, settings, trace=trace, callback=None, checkpoint=None, check_gradient=False
    )
    return _solution(program, result, inputs)


def _of(program: Program, part: Any, inputs: Inputs) -> Any:
    """Return f or a derivative as the plain run calls it: on NumPy's arrays."""

    def call(*vectors: Any) -> Any:
        return np.asarray(part(program, *vectors, inputs.args))

    return call


def _pairs(bounds: tuple[Any, Any] | None) -> Any:
    return None if bounds is None else np.stack([np.asarray(side, float) for side in bounds], axis=-1)


def _solution(program: Program, result: Result, inputs: Inputs) -> Solution:
    """Return a result as a program gives it."""
    dtype, whole = program.shape.dtype, np.int32
    best = result.best
    best_x = result.x * np.nan if best.x is None else best.x
    ring = None if program.trace is None else _ring(program, result, inputs, program.trace)
    numbers = {"x": result.x, "fun": result.fun, "jac": result.jac, "best_x": best_x, "best_fun": best.fun}
    names = ("status", "nit", "nfev", "njev", "nhvp", "nhev")
    wholes = {name: getattr(result, name) for name in names} | {"best_nit": best.k}
    kinds = {name: np.asarray(a, dtype) for name, a in numbers.items()}
    return Solution(**kinds, **{name: np.asarray(a, whole) for name, a in wholes.items()}, trace=ring)


def _ring(program: Program, result: Result, inputs: Inputs, length: int) -> Trace:
    """Return the last iterates of a result."""
    trace: Any = result.trace
    columns = {name: np.asarray(column)[-length:] for name, column in trace.columns()}
    columns["g"] = np.stack([_gradient(program, x, inputs.args) for x in columns["x"]])
    rest = length - len(columns["k"])

    def padded(name: str, column: Any) -> Any:
        kind = column.dtype.kind
        column = column.astype({"f": program.shape.dtype, "i": np.int32}.get(kind, column.dtype))
        empty = {"f": np.nan, "i": -1 if name == "k" else 0}.get(kind, False)
        return np.concatenate([column, np.full((rest, *column.shape[1:]), empty, column.dtype)])

    return Trace(**{name: padded(name, columns[name]) for name in Trace._fields})
