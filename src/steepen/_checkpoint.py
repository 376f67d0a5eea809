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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._arrays import Array, adopt, is_numpy, to_numpy
from ._files import write_whole
from ._loop import Carry, Ended, Loop
from ._result import Status

FORMAT = 1
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
    "moved",
    "penalised",
    "guarded",
    "p_gnorm",
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

    def __init__(self, path: str | os.PathLike[str], settings: dict[str, str], x0: Array):
        self._path = Path(path)
        digest = hashlib.sha256(to_numpy(x0).tobytes()).hexdigest()
        self._settings = settings | {"x0": f"{tuple(x0.shape)} {x0.dtype} {digest[:16]}"}
        self._state: Callable[[], dict[str, NDArray[Any]]] | None = None
        self._written = time.monotonic()

    def watch(self, loop: Loop) -> None:
        """Note the state at the top of an iteration."""
        self._state = _snapshot(loop)
        if time.monotonic() - self._written > SECONDS:
            self.write()

    def write(self) -> None:
        """Write the noted state, whole or not at all."""
        if self._state is None:
            return
        header = json.dumps({"steepen": FORMAT, "settings": self._settings})
        arrays: dict[str, Any] = self._state() | {"header": np.array(header)}
        write_whole(self._path, lambda file: np.savez(file, **arrays))
        self._written = time.monotonic()

    def resume(self, loop: Loop) -> bool:
        """Bring a loop to the saved state; False if there is no file yet."""
        if not self._path.exists():
            return False
        try:
            with np.load(self._path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            header: Any = json.loads(str(arrays.pop("header")))
        except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
            raise CheckpointError(
                f"checkpoint: {str(self._path)!r} is not a whole steepen checkpoint ({error}); "
                "move it away to start anew"
            ) from error
        if dict(header).get("steepen") != FORMAT:
            raise CheckpointError(
                f"checkpoint: {str(self._path)!r} has a format this version does not read; expected {FORMAT}"
            )
        for name, here in self._settings.items():
            there = header["settings"].get(name)
            if there != here:
                raise CheckpointError(
                    f"checkpoint: {str(self._path)!r} belongs to another run: {name} is {there} there "
                    f"and {here} here"
                )
        _restore(loop, arrays)
        return True


def _snapshot(loop: Loop) -> Callable[[], dict[str, NDArray[Any]]]:
    """Note the state by reference; only the matrices, which change in place, are copied."""
    c, oracle = loop.carry, loop.oracle
    noted: dict[str, Any] = {f"c.{name}": getattr(c, name) for name in (*_VECTORS, *_SCALARS, "p")}
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
    single, like = loop.kit.size is None, loop.carry.x

    def scalar(name: str) -> Any:
        value = arrays.get(name)
        return value.item() if value is not None and value.ndim == 0 else value

    def vector(name: str) -> Any:
        value = arrays[name]
        return np.array(value, order="K") if is_numpy(like) else adopt(like, value)

    fields: dict[str, Any] = {name: vector(f"c.{name}") for name in _VECTORS}
    fields |= {name: scalar(f"c.{name}") for name in _SCALARS}
    fields["p"] = vector("c.p") if "c.p" in arrays else None
    memory = {name[2:]: vector(name) for name in arrays if name.startswith("m.")}
    loop.carry = Carry(k=int(arrays["k"]), memory=memory, **fields)
    for name in _COUNTS:
        setattr(loop.oracle, name, scalar(f"n.{name}"))
    source, verified = arrays["source"].tolist()
    loop.oracle.hvp_source, loop.oracle.verified = source, verified == "True"
    if "o.x" in arrays:
        memo = loop.oracle.memo
        memo.x = vector("o.x")
        memo.value = (
            vector("o.value") if arrays["o.value"].shape == arrays["o.x"].shape else scalar("o.value")
        )
    loop.earlier = float(arrays["seconds"])
    loop.context.rows = None if single else arrays.get("rows")
    i = 0
    while f"e{i}.status" in arrays:
        at = {name: scalar(f"e{i}.{name}") for name in ("rows", "nit", "f", "best_f", "best_k")}
        at |= {name: vector(f"e{i}.{name}") for name in ("x", "g", "best_x")}
        counts = tuple(arrays[f"e{i}.counts"])
        loop.ended.append(Ended(status=Status(int(arrays[f"e{i}.status"])), counts=counts, **at))
        i += 1
    if loop.recorder is not None:
        loop.recorder.load({name[2:]: v for name, v in arrays.items() if name.startswith("t.")})
