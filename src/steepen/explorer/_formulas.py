"""The formulas of `steepen.functions` in JavaScript, from the one source there is: the Python that they are.

A formula is run once, on symbols. What it does to them is noted on a tape: a straight line of operations,
which is differentiated forwards where H·v is wanted, and written out as JavaScript.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from ..functions import Function


@dataclass(frozen=True, slots=True)
class Term:
    """The result of an operation, by its place on the tape."""

    place: int


Operand: TypeAlias = "Term | float"
Operands: TypeAlias = "tuple[Operand, ...]"

_OPERATIONS: dict[Any, str] = {
    np.add: "{} + {}",
    np.subtract: "{} - {}",
    np.multiply: "{} * {}",
    np.divide: "{} / {}",
    np.negative: "-{}",
    np.power: "pow({}, {})",
    np.sqrt: "sqrt({})",
    np.sin: "sin({})",
    np.cos: "cos({})",
    np.exp: "exp({})",
    np.expm1: "expm1({})",
    np.sign: "sign({})",
    np.equal: "+({} === {})",
}
"""What a formula may do, and how it is written in JavaScript."""


class Tape:
    """Operations in the order in which they are done; none stands there twice."""

    def __init__(self) -> None:
        self._lines: list[tuple[Any, Operands]] = []
        self._known: dict[tuple[Any, Operands], Term] = {}

    def given(self, name: str) -> Term:
        """Return a symbol for what is called so in JavaScript."""
        return self._noted(name, ())

    def note(self, operation: Any, *operands: Operand) -> Operand:
        """Return the result of an operation; it is noted unless it is known without."""
        match operation, operands:
            case np.square, (a,):
                return self.note(np.multiply, a, a)
            case np.power, (a, 1 | 2 as n):
                return a if n == 1 else self.note(np.multiply, a, a)
            case (np.multiply, (0, _) | (_, 0)) | (np.divide, (0, Term())):
                return 0.0
            case (np.add | np.subtract, (Term() as a, 0)) | (np.multiply | np.divide, (Term() as a, 1)):
                return a
            case (np.add, (0, Term() as a)) | (np.multiply, (1, Term() as a)):
                return a
            case np.subtract, (0, Term() as a):
                return self.note(np.negative, a)
            case _:
                pass
        if operation not in _OPERATIONS:
            raise NotImplementedError(f"there is no JavaScript for {operation!r}")
        if not any(isinstance(a, Term) for a in operands):
            return float(operation(*operands))
        return self._noted(operation, operands)

    def _noted(self, operation: Any, operands: Operands) -> Term:
        line = (operation, operands)
        if line not in self._known:
            self._known[line] = Term(len(self._lines))
            self._lines.append(line)
        return self._known[line]

    def derivatives(self, of: Iterable[Operand], along: dict[Operand, Operand]) -> list[Operand]:
        """Return the derivatives of these results where the symbols change as `along` says."""
        slopes: dict[Operand, Operand] = dict(along)
        for place, (operation, operands) in enumerate(list(self._lines)):
            term = Term(place)
            if term not in slopes and any(slopes.get(a, 0.0) != 0.0 for a in operands):
                slopes[term] = self._slope(operation, operands, [slopes.get(a, 0.0) for a in operands], term)
        return [slopes.get(a, 0.0) for a in of]

    def _slope(self, operation: Any, operands: Operands, d: list[Operand], result: Term) -> Operand:
        """Return the derivative of an operation, d being those of its operands."""
        note, a = self.note, operands[0]
        match operation:
            case np.add | np.subtract:
                return note(operation, *d)
            case np.negative:
                return note(np.negative, d[0])
            case np.multiply:
                return note(np.add, note(np.multiply, d[0], operands[1]), note(np.multiply, a, d[1]))
            case np.divide:
                rest = note(np.subtract, d[0], note(np.multiply, result, d[1]))
                return note(np.divide, rest, operands[1])
            case np.power:
                n = operands[1]
                if isinstance(n, Term):
                    raise NotImplementedError("there is no derivative of a power whose exponent depends on x")
                factor = note(np.multiply, n, note(np.power, a, n - 1))
            case np.sqrt:
                factor = note(np.divide, 0.5, result)
            case np.sin:
                factor = note(np.cos, a)
            case np.cos:
                factor = note(np.negative, note(np.sin, a))
            case np.exp:
                factor = result
            case np.expm1:
                factor = note(np.exp, a)
            case _:  # sign and equal, which are flat on either side of a kink
                return 0.0
        return note(np.multiply, factor, d[0])

    def javascript(self, results: list[Operand], form: str = "[{}]") -> str:
        """Return the body of a function that returns these results, in this form."""
        needed, names = set[int](), dict[Operand, str]()
        waiting = [a for a in results if isinstance(a, Term)]
        while waiting:
            place = waiting.pop().place
            if place not in needed:
                needed.add(place)
                waiting.extend(a for a in self._lines[place][1] if isinstance(a, Term))
        lines: list[str] = []

        def written(a: Operand) -> str:
            return names[a] if isinstance(a, Term) else repr(a) if a >= 0 else f"({a!r})"

        for place in sorted(needed):
            operation, operands = self._lines[place]
            if isinstance(operation, str):
                names[Term(place)] = operation
            else:
                names[Term(place)] = f"t{place}"
                lines.append(f"t{place} = {_OPERATIONS[operation].format(*map(written, operands))}")
        declared = f"const {', '.join(lines)}; " if lines else ""
        return f"{declared}return {form.format(', '.join(map(written, results)))};"


class Symbols(NDArrayOperatorsMixin):
    """An array of results on a tape, with what the formulas ask of an array."""

    def __init__(self, tape: Tape, values: NDArray[Any]) -> None:
        self._tape, self.values = tape, values

    shape = property(lambda self: self.values.shape)
    ndim = property(lambda self: self.values.ndim)
    dtype = np.dtype(float)  # of the numbers that it stands for
    real = property(lambda self: self)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, place: Any) -> Symbols:
        return Symbols(self._tape, self.values[place])

    def __setitem__(self, place: Any, values: Any) -> None:
        self.values[place] = _plain(values)

    def __array_ufunc__(self, operation: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        if operation is np.matmul:
            return np.add.reduce(np.asarray(inputs[0]).T[..., None] * inputs[1][:, None])
        arrays = [_plain(a) for a in inputs]
        if method == "reduce":
            rows = np.moveaxis(arrays[0], keywords.get("axis", 0), 0)
            total = np.zeros(rows.shape[1:])  # all reductions are sums
            for row in rows:
                total = self._each(operation, total, row)
            return Symbols(self._tape, total)
        result = Symbols(self._tape, self._each(operation, *arrays))
        for out in keywords.get("out", ()):
            out[...] = result
            return out
        return result

    def __array_function__(self, function: Any, types: Any, inputs: Any, keywords: Any) -> Any:
        if function in (np.ones_like, np.zeros_like, np.empty_like):
            filled = np.empty(inputs[0].shape, dtype=object)
            filled[...] = float(function is np.ones_like)
            return Symbols(self._tape, filled)
        if function is np.cumprod:
            out, running = keywords["out"], 1.0
            for i, row in enumerate(inputs[0].values):
                running = self._each(np.multiply, running, row)
                out[i] = running
            return out
        raise NotImplementedError(f"there is no JavaScript for {function!r}")

    def __bool__(self) -> bool:
        raise NotImplementedError("there is no JavaScript for a branch on x")

    def _each(self, operation: Any, *arrays: Any) -> NDArray[Any]:
        arrays = np.broadcast_arrays(*[np.asarray(a, dtype=object) for a in arrays])
        result = np.empty(arrays[0].shape, dtype=object)
        for place in np.ndindex(result.shape):
            operands = [a[place] for a in arrays]
            result[place] = self._tape.note(
                operation, *(a if isinstance(a, Term) else float(a) for a in operands)
            )
        return result


def _plain(values: Any) -> Any:
    return values.values if isinstance(values, Symbols) else values


def javascript(function: Function) -> dict[str, str]:
    """Return the bodies of f(x), ∇f(x) and H(x)·v in JavaScript; x, v and the gradient are arrays.

    Examples
    --------
    >>> import steepen as st
    >>> javascript(st.functions["sphere"].at(n=1))["grad"]
    'const t2 = x[0] * 2.0; return [t2];'
    """
    tape, n = Tape(), function.n
    x = [tape.given(f"x[{i}]") for i in range(n)]
    v: list[Operand] = [tape.given(f"v[{i}]") for i in range(n)]
    # with an axis of length 1, a coordinate is an array too, as it is of a batch of points
    at = Symbols(tape, np.array([[term] for term in x], dtype=object))
    value, grad = function.formulas
    gradient = np.empty_like(at)
    grad(at, gradient)
    f, g = (np.ravel(_plain(a)).tolist() for a in (value(at), gradient))
    return {
        "value": tape.javascript(f, "{}"),
        "grad": tape.javascript(g),
        "hvp": tape.javascript(tape.derivatives(g, dict(zip(x, v, strict=True)))),
    }
