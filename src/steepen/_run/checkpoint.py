"""Checkpoints: a run that goes on where it was cut is bit-identical to one that was not.

A file holds the state at the top of an iteration as NumPy arrays (no pickle) and, as JSON, the settings that
the state depends on and a fingerprint of every array. It is written when the run ends in whatever way, and
every few seconds on the way. What is read must be what was written, and must fit the run.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from .._core.arrays import adopt, is_numpy, to_numpy
from .._core.carry import Carry, Ended
from .._core.result import Status
from .._tools.files import read_arrays, write_whole
from ..directions._direction import Memory
from .loop import Loop

FORMAT = 3
SECONDS = 10.0

_KINDS: dict[str, Any] = {"Scalar": np.float64, "Whole": np.int64, "Mask": np.bool_}
"""How a file holds what is annotated so, one value a row; an Array is held as it is."""


def _kinds(record: type, *others: str) -> dict[str, str]:
    """Return the annotations of a record's fields, but for those that are saved otherwise or not at all."""
    return {field.name: str(field.type) for field in fields(record) if field.name not in others}


# a field added to a record is saved, unless it is named here
_CARRIED = _kinds(Carry, "k", "memory", "gnorm", "spent", "to_x", "to_f", "to_g", "to_known")
_LEFT = _kinds(Ended, "rows", "status", "nit", "counts")
_COUNTS = ("nfev", "njev", "nhvp", "nhev")
_EACH = ("f", "best_f", "on")  # in a batch, always one value a row
_TEXT = np.dtype("<U16")

_NONE = np.empty(0)
"""How a file holds None."""


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
        arrays = self._state()
        header = {"steepen": FORMAT, "settings": self._settings, "limits": self._limits}
        header["arrays"] = {name: _fingerprint(value) for name, value in arrays.items()}
        arrays["header"] = np.array(json.dumps(header))
        write_whole(self._path, lambda file: np.savez(file, **cast("dict[str, Any]", arrays)))
        self._written = time.monotonic()

    def resume(self, loop: Loop) -> bool:
        """Bring a loop to the saved state; False if there is no file yet."""
        if not self._path.exists():
            return False
        try:
            arrays = read_arrays(self._path)
            header = json.loads(str(arrays.pop("header")))
            found, settings = header["steepen"], dict(header["settings"])
        except Exception as error:  # whatever a foreign file makes zipfile, NumPy and json raise
            raise self._error(
                f"is not a whole steepen checkpoint ({error!r}); move it away to start anew"
            ) from error
        if found != FORMAT:
            raise self._error(f"has format {found!r}, and this version reads {FORMAT}")
        for name, here in self._settings.items():
            there = settings.pop(name, None)
            if there != here:
                hint = "; b follows the budget, so give b to extend a run" if name == "switch" else ""
                raise self._error(f"belongs to another run: {name} is {there} there and {here} here{hint}")
        if settings:
            raise self._error(f"belongs to another run: it has the settings {sorted(settings)}")
        try:
            _check_arrays(arrays, header.get("arrays"))
            _restore(loop, arrays)
        except _Unfit as reason:
            raise self._error(str(reason)) from None
        limits = _limits(loop)
        if loop.ended and header.get("limits") != limits:
            there = header.get("limits")
            raise self._error(f"holds rows that have ended under other limits: {there} there, {limits} here")
        self._check_function(loop)
        return True

    def _check_function(self, loop: Loop) -> None:
        """Refuse a function that has another value at the best point; the one evaluation is not counted."""
        c, oracle = loop.carry, loop.oracle
        if not np.all(np.isfinite(c.best_f)) or loop.context.late():
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


class _Unfit(Exception):
    """What is wrong with a file, in words that follow its name."""


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
        order = "F" if value.flags.fnc else "C"
        digest = hashlib.sha256(value.tobytes()).hexdigest()[:16]
        return f"array{tuple(value.shape)}:{value.dtype}:{order}:{digest}"
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
    noted: dict[str, Any] = {"k": c.k, "seconds": loop.seconds, "rows": loop.context.rows}
    noted |= {f"c.{name}": getattr(c, name) for name in _CARRIED}
    noted["c.g"] = c.g if loop.kit.any(c.known) else None
    noted |= {f"m.{name}": np.array(to_numpy(v), order="K") for name, v in c.memory.items()}
    noted |= {f"n.{name}": getattr(oracle, name) for name in _COUNTS}
    noted |= {"o.x": oracle.memo.x, "o.value": oracle.memo.value}
    source = (oracle.hvp_source, oracle.verified, oracle.wide)
    noted["source"] = np.array(list(map(str, source)), dtype=_TEXT)
    for i, piece in enumerate(loop.ended):
        noted |= {f"e{i}.{name}": value for name, value in vars(piece).items()}
    recorder, length = loop.recorder, c.k

    def arrays() -> dict[str, NDArray[Any]]:
        plain = {name: _plain(name, value) for name, value in noted.items()}
        if recorder is not None:
            plain |= {f"t.{name}": v for name, v in recorder.state(length).items()}
        return plain

    return arrays


def _plain(name: str, value: Any) -> NDArray[Any]:
    """Return a part of the state as a file holds it."""
    if value is None:
        return _NONE
    record, _, field = name.partition(".")
    kinds = _CARRIED if record == "c" else _LEFT if record.startswith("e") else {}
    return np.asarray(to_numpy(value), dtype=_KINDS.get(kinds.get(field, "")))


def _check_arrays(arrays: dict[str, NDArray[Any]], fingerprints: object) -> None:
    """Hold the arrays against the fingerprints that were written with them."""
    written = cast("dict[str, object]", fingerprints) if isinstance(fingerprints, dict) else {}
    for name in sorted(arrays.keys() | written.keys()):
        if name not in arrays:
            raise _Unfit(f"lacks a part of the run: {name}")
        if name not in written:
            raise _Unfit(f"holds {name}, which was not written with the rest")
        if written[name] != _fingerprint(arrays[name]):
            raise _Unfit(f"was changed after it was written: {name} is not what it was")


class _Saved:
    """The arrays of a file, taken out one by one as the run has them until none is left."""

    def __init__(self, arrays: dict[str, NDArray[Any]], loop: Loop):
        self.arrays, self._kit, self._like = arrays, loop.kit, loop.carry.x
        self._number = loop.kit.host(loop.carry.x).dtype
        self.k = self.number("k", np.int64, 0, np.inf)

    def pop(self, name: str) -> NDArray[Any]:
        """Take out an array of our own, in the layout that it was written in."""
        if name not in self.arrays:
            raise _Unfit(f"lacks a part of the run: {name}")
        return np.array(self.arrays.pop(name), order="K")

    def take(self, name: str, dtype: Any, *shapes: tuple[int, ...], none: bool = False) -> Any:
        """Take out what has this dtype and one of these shapes; a plain number where the shape is ()."""
        value = self.pop(name)
        if none and value.shape == _NONE.shape:
            return None
        if value.dtype != dtype or value.shape not in shapes:
            raise _Unfit(
                f"does not fit the run: {name} has shape {value.shape} and dtype {value.dtype}, "
                f"not {' or '.join(map(str, shapes))} and {np.dtype(dtype)}"
            )
        return value if value.ndim else value.item()

    def number(self, name: str, dtype: Any, least: float, most: float) -> Any:
        """Take out a finite number between these."""
        value = self.take(name, dtype, ())
        _require(least <= value <= most and abs(value) < np.inf, f"{name} is {value}")
        return value

    def rows(self, name: str, none: bool = False) -> Any:
        """Take out the numbers of some rows of a batch, in ascending order."""
        length = self.arrays[name].size if name in self.arrays else 0
        rows = self.take(name, np.intp, (length,), none=none)
        _require(rows is None or (np.diff(rows) > 0).all(), f"{name} is not in order")
        return rows

    def part(self, name: str, kind: str, rows: int | None, none: bool = False) -> Any:
        """Take out a vector, or what has one value a row or, but for `_EACH`, one for all."""
        lead = () if rows is None else (rows,)
        if kind == "Array":
            value = self.take(name, self._number, (*lead, int(self._like.shape[-1])), none=none)
            return None if value is None else self._kit.own(value)
        shapes = [lead] if name.partition(".")[2] in _EACH else [(), lead]
        return self.take(name, _KINDS[kind], *shapes, none=none)

    def record(self, prefix: str, kinds: dict[str, str], rows: int | None, *none: str) -> dict[str, Any]:
        """Take out the fields of a Carry, or of an Ended."""
        values = {name: self.part(prefix + name, kind, rows, name in none) for name, kind in kinds.items()}
        best_k, best_f = np.asarray(values["best_k"]), np.asarray(values["best_f"])
        _require((best_k >= 0) & (best_k <= self.k), f"{prefix}best_k is not within 0 and {self.k}")
        _require(~np.isnan(best_f), f"{prefix}best_f is NaN")
        return values

    def memory(self, expected: Memory, rows: int | None) -> Memory:
        """Take out the memory of a direction: it has what it had at the start, and maybe more."""
        memory: Memory = {}
        found = {name for name in self.arrays if name.startswith("m.")}
        for name in sorted(found | {f"m.{name}" for name in expected}):
            value = self.pop(name)
            _require(value.dtype.kind in "biuf", f"{name} has dtype {value.dtype}")
            _require(value.ndim == 0 or rows in (None, len(value)), f"{name} has shape {value.shape}")
            # scalars of a run live on the host, whatever library its vectors belong to
            host = is_numpy(self._like) or value.ndim < self._like.ndim
            memory[name[2:]] = value if host else adopt(self._like, value)
        return memory

    def ended(self, prefix: str) -> Ended:
        """Take out the rows that ended together."""
        rows = self.rows(prefix + "rows")
        status = self.number(prefix + "status", np.int64, 0, np.inf)
        _require(status in set(Status), f"{prefix}status is {status}")
        nit = self.number(prefix + "nit", np.int64, 0, self.k)
        counts = self.take(prefix + "counts", np.int64, (len(_COUNTS), len(rows)))
        _require(counts >= 0, f"{prefix}counts is negative")
        rest = self.record(prefix, _LEFT, len(rows))
        return Ended(rows, Status(status), nit, counts=tuple(counts), **rest)


def _require(true: Any, what: str) -> None:
    if not np.all(true):
        raise _Unfit(f"does not fit the run: {what}")


def _restore(loop: Loop, arrays: dict[str, NDArray[Any]]) -> None:
    """Bring a new loop to the saved state."""
    oracle, size, saved = loop.oracle, loop.kit.size, _Saved(arrays, loop)
    loop.earlier = saved.number("seconds", np.float64, 0, np.inf)
    loop.context.rows = live = saved.rows("rows", none=True)
    oracle.rows = rows = size if live is None else len(live)
    if size is not None:
        while f"e{len(loop.ended)}.rows" in saved.arrays:
            loop.ended.append(saved.ended(f"e{len(loop.ended)}."))
        pieces: list[Any] = [np.arange(size) if live is None else live, *(end.rows for end in loop.ended)]
        _require(np.array_equal(np.sort(np.concatenate(pieces)), np.arange(size)), "rows are missing")
    _require(live is None or size is not None, "a single run has no rows")
    memory = saved.memory(loop.carry.memory, rows)
    loop.carry = Carry(k=saved.k, memory=memory, **saved.record("c.", _CARRIED, rows, "f", "g"))
    for name in _COUNTS:
        setattr(oracle, name, saved.part(f"n.{name}", "Whole", rows))
        _require(np.asarray(getattr(oracle, name)) >= 0, f"n.{name} is negative")
    memo = oracle.memo
    memo.x = saved.part("o.x", "Array", rows, none=True)
    memo.value = saved.part("o.value", "Array" if oracle.cost_value.grads else "Scalar", rows, none=True)
    _require((memo.x is None) == (memo.value is None), "one of o.x and o.value is missing")
    source, verified, wide = map(str, saved.take("source", _TEXT, (3,)))
    _require(source in (oracle.hvp_source, "difference"), f"the source of H·v is {source!r}")
    _require(verified in ("True", "False"), f"verified is {verified!r}")
    _require(wide in ("True", "False", "None"), f"wide is {wide!r}")
    oracle.hvp_source, oracle.verified = source, verified == "True"
    oracle.decide({"True": True, "False": False}.get(wide))
    if loop.recorder is not None:
        empty = loop.recorder.state(0)
        lengths = {name: (saved.k, *a.shape[1:]) for name, a in empty.items()}
        loop.recorder.load(
            {name: saved.take(f"t.{name}", a.dtype, lengths[name]) for name, a in empty.items()}
        )
    _require(not saved.arrays, f"it has no {', '.join(sorted(saved.arrays))}")
