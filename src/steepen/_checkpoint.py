"""Checkpoints: a run that goes on where it was cut is bit-identical to one that was not.

A file holds the state at the top of an iteration as NumPy arrays (no pickle) and the settings that the state
depends on, as JSON. It is written when the run ends in whatever way, and every few seconds on the way.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ._arrays import adopt, is_numpy, to_numpy
from ._carry import Carry, Ended
from ._files import write_whole
from ._loop import Loop
from ._result import Status

FORMAT = 3
SECONDS = 10.0

_VECTORS = ("x", "best_x")
_SCALARS = (
    "on",
    "best_f",
    "best_k",
    "f",
    "before",
    "lam",
    "alpha",
    "shown",
    "moved",
    "penalised",
    "guarded",
    "vanished",
    "slope",
    "unit",
    "idle",
    "leaving",
    "noise",
    "known",
)
_COUNTS = ("nfev", "njev", "nhvp", "nhev")


class CheckpointError(ValueError):
    """A checkpoint that cannot be resumed: torn, foreign, or of another run.

    Examples
    --------
    >>> issubclass(CheckpointError, ValueError)
    True
    """


class Checkpoint:
    """Keeps the last whole state of a loop, and writes it now and then."""

    def __init__(self, path: str | os.PathLike[str], settings: dict[str, Any]):
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"checkpoint: expected a path, got {path!r}")
        self._path = Path(path)
        if not self._path.parent.is_dir():
            raise CheckpointError(f"checkpoint: the folder of {str(path)!r} does not exist")
        self._settings = {name: _fingerprint(value) for name, value in settings.items()}
        self._limits: list[float | None] = []
        self._state: Callable[[], dict[str, NDArray[Any]]] | None = None
        self._written = time.monotonic()

    def watch(self, loop: Loop) -> None:
        """Note the state at the top of an iteration."""
        self._state, self._limits = _snapshot(loop), _limits(loop)
        if time.monotonic() - self._written > SECONDS:
            self.write()

    def write(self) -> None:
        """Write the noted state, whole or not at all."""
        if self._state is None:
            return
        header = json.dumps({"steepen": FORMAT, "settings": self._settings, "limits": self._limits})
        arrays: dict[str, Any] = self._state() | {"header": np.array(header)}
        write_whole(self._path, lambda file: np.savez(file, **arrays))
        self._written = time.monotonic()

    def resume(self, loop: Loop) -> bool:
        """Bring a loop to the saved state; False if there is no file yet."""
        if not self._path.exists():
            return False
        try:
            with open(self._path, "rb") as file, np.load(file, allow_pickle=False) as loaded:
                arrays = {name: loaded[name] for name in loaded.files}
            header = json.loads(str(arrays.pop("header")))
            found, settings = header["steepen"], dict(header["settings"])
        except _UNREADABLE as error:
            raise self._error(
                f"is not a whole steepen checkpoint ({error}); move it away to start anew"
            ) from error
        if found != FORMAT:
            raise self._error(f"has format {found!r}, and this version reads {FORMAT}")
        for name, here in self._settings.items():
            there = settings.get(name)
            if there != here:
                hint = "; b follows the budget, so give b to extend a run" if name == "switch" else ""
                raise self._error(f"belongs to another run: {name} is {there} there and {here} here{hint}")
        limits = _limits(loop)
        if "e0.status" in arrays and loop.kit.size is not None and header.get("limits") != limits:
            there = header.get("limits")
            raise self._error(f"holds rows that have ended under other limits: {there} there, {limits} here")
        try:
            _restore(loop, arrays)
        except _UNREADABLE as error:
            raise self._error(f"lacks a part of the run ({error!r})") from error
        self._check_function(loop)
        return True

    def _check_function(self, loop: Loop) -> None:
        """Refuse a function that has another value at the best point; the one evaluation is not counted."""
        c, oracle = loop.carry, loop.oracle
        if not np.all(np.isfinite(c.best_f)):
            return
        counts = {name: getattr(oracle, name) for name in _COUNTS}
        memo = (oracle.memo.x, oracle.memo.value)
        f = oracle.value(c.best_x)
        oracle.memo.x, oracle.memo.value = memo
        for name, count in counts.items():
            setattr(oracle, name, count)
        rtol = float(np.finfo(loop.kit.host(c.x).dtype).eps) ** 0.5
        if np.any(abs(f - c.best_f) > rtol * np.maximum(1.0, abs(c.best_f))):
            raise self._error(f"belongs to another function: fun is {c.best_f} there at its best x, {f} here")

    def _error(self, what: str) -> CheckpointError:
        return CheckpointError(f"checkpoint: {str(self._path)!r} {what}")


_UNREADABLE = (
    ValueError, OSError, EOFError, KeyError, TypeError, AttributeError, IndexError,
    NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What reading a file that is torn, or is something else, may raise."""


def _limits(loop: Loop) -> list[float | None]:
    """Give the limits that may end one row of a batch before the others."""
    budget, tolerances = loop.budget, loop.tolerances
    return [budget.grads, budget.evals, tolerances.g, tolerances.f, tolerances.x]


def _digest(code: CodeType) -> str:
    """Describe what a function does, so that another one of the same name is known as such."""
    constants = [_digest(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    text = repr((code.co_code, constants, code.co_names))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _fingerprint(value: Any) -> str:
    """Describe a setting in the same words in every process, arrays to the last bit."""
    if is_numpy(value):
        return f"array{tuple(value.shape)}:{value.dtype}:{hashlib.sha256(value.tobytes()).hexdigest()[:16]}"
    if isinstance(value, str | int | float | bool | None):
        return repr(value)
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_fingerprint, cast('list[Any]', value)))}]"
    if callable(value) and hasattr(value, "__qualname__"):
        code = getattr(value, "__code__", None)
        return value.__qualname__ if code is None else f"{value.__qualname__}:{_digest(code)}"
    if isinstance(value, partial):
        return _fingerprint([value.func, *value.args])
    if hasattr(value, "__dict__"):
        parts = [f"{name}={_fingerprint(part)}" for name, part in vars(value).items() if name[0] != "_"]
        return f"{type(value).__qualname__}({', '.join(parts)})"
    return repr(value)


def _snapshot(loop: Loop) -> Callable[[], dict[str, NDArray[Any]]]:
    """Note the state by reference; only the matrices, which change in place, are copied."""
    c, oracle = loop.carry, loop.oracle
    noted: dict[str, Any] = {f"c.{name}": getattr(c, name) for name in (*_VECTORS, *_SCALARS)}
    noted["c.g"] = c.g if loop.kit.any(c.known) else None
    noted |= {f"m.{name}": np.array(to_numpy(v), order="K") for name, v in c.memory.items()}
    noted |= {f"n.{name}": getattr(oracle, name) for name in _COUNTS}
    noted |= {"o.x": oracle.memo.x, "o.value": oracle.memo.value}
    noted["k"], noted["seconds"] = c.k, loop.seconds
    noted["source"] = [str(oracle.hvp_source), str(oracle.verified)]
    if loop.context.rows is not None:
        noted["rows"] = loop.context.rows
    for i, piece in enumerate(loop.ended):
        noted |= {f"e{i}.{name}": value for name, value in vars(piece).items() if name != "counts"}
        noted[f"e{i}.counts"] = np.stack(piece.counts)
    recorder, length = loop.recorder, c.k

    def arrays() -> dict[str, NDArray[Any]]:
        plain = {name: to_numpy(v) for name, v in noted.items() if v is not None}
        if recorder is not None:
            plain |= {f"t.{name}": v for name, v in recorder.state(length).items()}
        return plain

    return arrays


def _restore(loop: Loop, arrays: dict[str, NDArray[Any]]) -> None:
    like = loop.carry.x

    def scalar(name: str) -> Any:
        value = arrays.get(name)
        return value.item() if value is not None and value.ndim == 0 else value

    def vector(name: str) -> Any:
        value = arrays[name]
        return np.array(value, order="K") if is_numpy(like) else adopt(like, value)

    fields: dict[str, Any] = {name: vector(f"c.{name}") for name in _VECTORS}
    fields["g"] = vector("c.g") if "c.g" in arrays else None
    rows = arrays.get("rows")
    live = tuple(like.shape) if rows is None else (len(rows), like.shape[1])
    if tuple(fields["x"].shape) != live:
        raise ValueError(f"x has shape {tuple(fields['x'].shape)}, not {live}")
    fields |= {name: scalar(f"c.{name}") for name in _SCALARS}
    # scalars of a run live on the host, whatever library its vectors belong to
    memory: dict[str, Any] = {
        name[2:]: np.array(value) if value.ndim < like.ndim else vector(name)
        for name, value in arrays.items()
        if name.startswith("m.")
    }
    if missing := set(loop.carry.memory) - set(memory):
        raise KeyError(*missing)
    loop.carry = Carry(k=int(arrays["k"]), memory=memory, **fields)
    for name in _COUNTS:
        count = arrays[f"n.{name}"]
        setattr(loop.oracle, name, count if count.ndim else int(count))
    source, verified = arrays["source"].tolist()
    loop.oracle.hvp_source, loop.oracle.verified = source, verified == "True"
    if "o.x" in arrays:
        memo = loop.oracle.memo
        memo.x = vector("o.x")
        memo.value = (
            vector("o.value") if arrays["o.value"].shape == arrays["o.x"].shape else scalar("o.value")
        )
    loop.earlier = float(arrays["seconds"])
    loop.context.rows = rows
    if rows is not None:
        loop.oracle.rows = len(rows)
    i = 0
    while f"e{i}.status" in arrays:
        at = {name: scalar(f"e{i}.{name}") for name in ("rows", "nit", "f", "best_f", "best_k")}
        at |= {name: vector(f"e{i}.{name}") for name in ("x", "g", "best_x")}
        counts = tuple(arrays[f"e{i}.counts"])
        loop.ended.append(Ended(status=Status(int(arrays[f"e{i}.status"])), counts=counts, **at))
        i += 1
    if loop.recorder is not None:
        loop.recorder.load({name[2:]: v for name, v in arrays.items() if name.startswith("t.")})
