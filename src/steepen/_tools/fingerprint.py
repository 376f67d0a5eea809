"""A text that identifies a setting in every process, for checkpoints and the results of sweeps; pure."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from functools import partial
from types import CodeType
from typing import Any, cast

import numpy as np


def fingerprint(value: Any) -> str:
    """Describe a setting identically in every process, arrays bit by bit."""
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        order = "F" if array.flags.fnc else "C"
        digest = hashlib.sha256(array.tobytes()).hexdigest()[:16]
        return f"array{array.shape}:{array.dtype}:{order}:{digest}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(fingerprint, cast('list[Any]', value)))}]"
    if callable(value) and hasattr(value, "__qualname__"):
        code = getattr(value, "__code__", None)
        if code is None:
            return value.__qualname__
        return f"{value.__qualname__}:{_digest(code)}:{fingerprint(_values(value))}"
    if isinstance(value, partial):
        return fingerprint([value.func, *value.args, *sorted(value.keywords.items())])
    if hasattr(value, "__dict__"):
        parts = [f"{name}={fingerprint(part)}" for name, part in vars(value).items() if name[0] != "_"]
        return f"{type(value).__qualname__}({', '.join(parts)})"
    return repr(value)


def _digest(code: CodeType) -> str:
    """Describe the code of a function, to tell it from another one of the same name."""
    constants = [_digest(c) if isinstance(c, CodeType) else _constant(c) for c in code.co_consts]
    text = repr((code.co_code, constants, code.co_names))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _constant(value: Any) -> str:
    """Describe a constant; the order of a set is another in every process."""
    if type(value) is not frozenset:
        return repr(value)
    return repr(sorted(repr(one) for one in cast("frozenset[Any]", value)))


def _values(function: Any) -> list[Any]:
    """Return the numbers, words and arrays that a function has as defaults or closes over."""
    values: list[Any] = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # it is empty
            values.append(cell.cell_contents)
    return [value for value in values if isinstance(value, np.ndarray | bool | int | float | str)]
