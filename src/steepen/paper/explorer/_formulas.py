"""The formulas of `steepen.functions` as text, for the explorer's page, which parses and differentiates it.

A formula is called once with symbols for x, and returns its text; nothing is changed or written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...functions import Function

_SAME = ("sin", "cos", "tan", "exp", "expm1", "log", "sqrt", "sign", "sinh", "cosh", "tanh")
_NAMES = {name: name for name in _SAME} | {"arctan": "atan"}  # NumPy's functions, and the page's names


def _text(operand: Any) -> str:
    if isinstance(operand, Term):
        return operand.text
    number = float(operand)
    return repr(number) if number >= 0 else f"({number!r})"


def _operator(mark: str) -> tuple[Callable[[Any, Any], Term], Callable[[Any, Any], Term]]:
    """Return an operator and its reflected form."""

    def join(a: Any, b: Any) -> Term:
        return Term(f"({_text(a)} {mark} {_text(b)})")

    return join, lambda b, a: join(a, b)


class Term:
    """A formula as text, with the operators and methods that NumPy calls on the elements of an array."""

    def __init__(self, text: str) -> None:
        self.text = text

    __add__, __radd__ = _operator("+")
    __sub__, __rsub__ = _operator("-")
    __mul__, __rmul__ = _operator("*")
    __truediv__, __rtruediv__ = _operator("/")
    __pow__, __rpow__ = _operator("^")

    def __neg__(self) -> Term:
        return Term(f"(-{self.text})")

    def __eq__(self, other: object) -> bool:
        raise NotImplementedError("the page has no formula for a branch on x")

    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__

    def __getattr__(self, name: str) -> Callable[[], Term]:
        if name not in _NAMES:
            raise AttributeError(name)
        return lambda: Term(f"{_NAMES[name]}({self.text})")


class Symbols(np.ndarray[Any, Any]):
    """An array of terms. NumPy handles all but `sign`, which would compare a term with 0."""

    # the dtype of the numbers that the terms represent
    dtype = property(lambda self: np.dtype(float))  # pyright: ignore[reportIncompatibleMethodOverride]

    def __array_ufunc__(self, operation: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        inputs = tuple(np.asarray(a) if isinstance(a, Symbols) else a for a in inputs)
        given = keywords.get("out", ())
        keywords |= {"out": tuple(np.asarray(a) for a in given)} if given else {}
        called = np.frompyfunc(lambda a: a.sign(), 1, 1) if operation is np.sign else operation
        try:
            result = getattr(called, method)(*inputs, **keywords)
        except TypeError as error:
            raise NotImplementedError(f"the page has no formula for {operation.__name__}") from error
        return given[0] if given else np.asarray(result, dtype=object).view(Symbols)


def formula(function: Function) -> str:
    """Return f(x) as text in x, or in x and y.

    Examples
    --------
    >>> import steepen as st
    >>> formula(st.functions["matyas"])
    '(((0.01 * (x + y)) * (x + y)) + ((0.25 * (x - y)) * (x - y)))'
    """
    # a second axis of length 1, so that a coordinate is an array
    x = np.array([[Term(name)] for name in "xy"[: function.n]], dtype=object).view(Symbols)
    return _text(np.ravel(np.asarray(function.formula(x, False)))[0])
