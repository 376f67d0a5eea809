"""A text that identifies a setting in every process, for checkpoints and the results of sweeps; pure."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from types import CodeType, FunctionType
from typing import Any, cast

import numpy as np

_KEPT: tuple[Any, ...] = (
    np.ndarray, np.generic, bool, int, float, complex, str, tuple, list, partial, FunctionType,
)  # fmt: skip
_OF_MODULES = ("_parameters", "_buffers", "_modules")  # what a network or a loss of torch computes with


def fingerprint(value: Any) -> str:
    """Describe a setting identically in every process, arrays and tensors bit by bit."""
    return _described(value, ())


def mark(value: Any) -> str:
    """Return eight digits in the place of a long fingerprint."""
    return f"{zlib.crc32(fingerprint(value).encode()):08x}"


def said(value: Any) -> str:
    """Return the repr of an object without its address, which is another in every process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def _described(value: Any, above: tuple[Any, ...]) -> str:
    """Describe a part of a setting; `above` are those it is a part of."""
    if any(value is one for one in above):  # a function may call itself, an object know its owner
        return "…"
    inner = partial(_described, above=(*above, value))
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        order = "F" if array.flags.fnc else "C"
        digest = hashlib.sha256(array.tobytes()).hexdigest()[:16]
        return f"array{array.shape}:{array.dtype}:{order}:{digest}"
    if _is_tensor(value):
        return f"{value.dtype} {inner(_array_of(value))}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(inner, cast('list[Any]', value)))}]"
    if isinstance(value, set | frozenset):  # whose order is another in every process
        return f"{{{', '.join(sorted(map(inner, cast('set[Any]', value))))}}}"
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        return f"{{{', '.join(f'{inner(key)}: {inner(one)}' for key, one in pairs)}}}"
    if callable(value) and hasattr(value, "__qualname__"):
        code = getattr(value, "__code__", None)
        if code is None:
            return value.__qualname__
        return f"{value.__qualname__}:{_digest(code)}:{inner(_values(value))}"
    if isinstance(value, partial):
        return inner([value.func, *value.args, *sorted(value.keywords.items())])
    if hasattr(value, "__dict__"):
        named = {name: part for name, part in vars(value).items() if name[0] != "_" or name in _OF_MODULES}
        parts = [f"{name}={inner(part)}" for name, part in named.items()]
        return f"{type(value).__qualname__}({', '.join(parts)})"
    return said(value)


def _is_tensor(value: Any) -> bool:
    """Return whether it is a tensor of torch, which is not imported for this."""
    return hasattr(value, "detach") and hasattr(value, "numpy")


def _array_of(tensor: Any) -> Any:
    host = tensor.detach().cpu()
    try:
        return host.numpy()
    except TypeError:  # NumPy has no bfloat16
        return host.float().numpy()


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
    """Return what a function is bound to, and what it has as defaults or closes over.

    Without other objects: these may change during a run.
    """
    values: list[Any] = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # it is empty
            values.append(cell.cell_contents)
    kept = [one for one in values if isinstance(one, _KEPT) or _is_tensor(one)]
    owner = getattr(function, "__self__", None)
    return kept if owner is None else [owner, *kept]
