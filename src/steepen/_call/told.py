"""`Run`, for users whose function runs elsewhere: reads the arguments, and hands on to the driver."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike

from .._tools.check import is_whole
from .._tools.files import write_whole
from .._tools.version import version
from ..arrays import is_numpy
from ..drivers.checkpoint import CheckpointError, Unfit, opened, packed_answer, sealed, unpacked_answer
from ..drivers.told import NOT_GIVEN, Ask, Told
from ..methods import Method
from ..objective import SCHEMES
from ..result import Result
from ..scale import scaled
from ..space import limits_of
from .arguments import objective_of, settings_of, start_point
from .keywords import DEFAULTS, RunSettings, complete, run_settings, spelled_out
from .scipy_options import understood

MAGIC = b"steepen run 1\n"


class Unknown:
    """f, or a derivative, which is known to the user alone."""

    def __call__(self, *_: Any) -> Any:
        raise AssertionError("a run that is told calls no function")


UNKNOWN = Unknown()


class Known(TypedDict, total=False):
    """What the user can tell, beside f, and where."""

    jac: bool | str | None
    hvp: bool | None
    hess: bool | None
    bounds: Any
    x_scale: ArrayLike | Literal["auto"] | None
    trace: bool | Literal["x"]
    options: Mapping[str, Any] | None


class TellKeywords(RunSettings, Known, total=False):
    """The keywords of `steepen.Run`."""


def _started(x0: Any, method: str | Method = "cgd-auto", **keywords: Unpack[TellKeywords]) -> Told:
    """Return the driver of a run."""
    given, x = complete(keywords, TellKeywords, "Run"), x0
    if given["trace"] not in (True, False, "x"):
        raise ValueError(f'trace: expected True, False or "x", got {given["trace"]!r}')
    if given["options"] is not None:
        given = understood(given["options"], method, given, len(x))
        for name in given.keys() - TellKeywords.__annotations__.keys() - {"eps", "finite_diff_rel_step"}:
            if given[name] != DEFAULTS[name]:
                why = "has no meaning where the run is told"
                raise ValueError(f"options: {name!r} {why}; got {given[name]!r}")
    objective = scaled(objective_of(UNKNOWN, x, (), _functions(given), None), given["x_scale"])
    settings = settings_of(x.shape, objective.x.dtype, method, **run_settings(given))
    return Told(objective.placed(), settings, given["trace"])


def _functions(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords with functions that nobody calls in place of those that the user evaluates."""
    jac = given["jac"]
    if not (jac is None or isinstance(jac, bool) or (isinstance(jac, str) and jac in (*SCHEMES, "apart"))):
        raise ValueError(
            f'jac: expected True (∇f is told with f), "apart" (∇f is asked for by itself), or one of '
            f"{', '.join(map(repr, SCHEMES))}; got {jac!r}"
        )
    for name in ("hvp", "hess"):
        if given[name] not in (None, False, True):
            raise TypeError(f"{name}: expected True if you can tell it, or False; got {given[name]!r}")
    told = {name: UNKNOWN if given[name] else None for name in ("hvp", "hess")}
    return {**given, **told, "hessp": None, "jac": UNKNOWN if jac == "apart" else jac}


class Run:
    """A run that is told what it asks for: your function runs wherever and whenever you like.

    It takes what `minimize` takes, but no function, and is the same run to the bit.

    Parameters
    ----------
    x0 : array
        The start point (n,), of NumPy. For many starts, make a run for each.
    method : str or Method
        As in `minimize`.
    jac : True, "apart", "2-point", "3-point" or "cs", optional
        True: ∇f is told together with f. "apart": ∇f is asked for by itself, only where it is needed. Else
        it is made of differences, whose values are one ask, to be evaluated side by side.
    hvp, hess : bool, optional
        Whether you can tell H·v, or H.
    bounds, x_scale, trace, options, and all settings of the method and of its ends
        As in `minimize`. A limit in seconds is on the time that the run lives.

    Examples
    --------
    >>> import steepen as st
    >>> f = st.functions["booth"]
    >>> run = st.Run([0.0, 0.0])
    >>> while ask := run.ask():
    ...     run.tell(ask, [f(x) for x in ask.points])
    >>> run.result().x.round(6).tolist()
    [1.0, 3.0]
    """

    @spelled_out(TellKeywords)
    def __init__(
        self, x0: ArrayLike, method: str | Method = "cgd-auto", **keywords: Unpack[TellKeywords]
    ) -> None:
        x = start_point(x0)
        if not is_numpy(x) or x.ndim != 1:
            what = f"of shape {tuple(x.shape)}" if is_numpy(x) else f"{type(x).__module__}.{type(x).__name__}"
            expected = "a NumPy array of shape (n,), and a Run for each start"
            raise ValueError(f"x0: expected {expected}; got {what}")
        given = dict(keywords)
        if given.get("bounds") is not None:
            low, high = limits_of(given["bounds"], len(x))
            given["bounds"] = list(zip(low.tolist(), high.tolist(), strict=True))
        self._arguments: dict[str, Any] = {"x0": x.copy(), "method": method, **given}
        self._told = _started(**self._arguments)
        self._told.go()

    def ask(self, most: int | None = None) -> Ask:
        """Return the points that wait for an answer, or the first few of them.

        What was not told yet is asked again, so that an answer that was lost can be replaced. At the end the
        ask is empty, and false.

        Examples
        --------
        >>> import steepen as st
        >>> run = st.Run([0.0, 0.0, 0.0], jac="3-point")
        >>> run.tell(run.ask(), 3.5)  # f at the start; then the values of a difference
        >>> len(run.ask()), len(run.ask(most=2))
        (6, 2)
        """
        if most is not None and not (is_whole(most) and most >= 1):
            raise ValueError(f"most: expected a whole number, 1 or more, or None; got {most!r}")
        return self._told.ask(most)

    def tell(self, ask: Ask | str, answer: Any, g: Any = NOT_GIVEN) -> None:
        """Tell what was asked for: at all points of an ask, or at one of them by its id, in any order.

        The answer is f, or where that is wanted, the gradient, the product or the Hessian; where both are
        wanted, it is f, and g is the gradient. None, NaN and an exception say that the evaluation failed,
        which is to the run what a NaN of the function is. A wrong answer raises and changes nothing.

        Examples
        --------
        >>> import steepen as st
        >>> run = st.Run([3.0, 4.0], jac=True)
        >>> run.tell(run.ask().ids[0], 12.5, [3.0, 4.0])
        >>> run.tell(run.ask(), TimeoutError("the job was lost"))
        >>> print(run.result().status, run.result().nfev)
        WAITING 2
        """
        self._told.tell(ask, answer, g)

    def result(self) -> Result:
        """Return the run so far, at any time; its status is WAITING until it has ended.

        Examples
        --------
        >>> import steepen as st
        >>> print(st.Run([1.0, 2.0]).result().status)
        WAITING
        """
        return self._told.result()

    def __repr__(self) -> str:
        result = self._told.result()
        return f"Run(method={result.method!r}, status={result.status}, nit={result.nit}, nfev={result.nfev})"

    # --- saving ----------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run to a file, from which `load` goes on, on another machine, too.

        The file is replaced as a whole, so that it is sound wherever the process is killed.

        Examples
        --------
        >>> import steepen as st, tempfile
        >>> run = st.Run([1.0, 2.0])
        >>> path = tempfile.mkdtemp() + "/run.steepen"
        >>> run.save(path)
        >>> st.Run.load(path).ask().ids == run.ask().ids
        True
        """
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"path: expected a path, got {path!r}")
        if not Path(path).parent.is_dir():
            raise ValueError(f"path: the folder of {str(path)!r} does not exist")
        arrays: list[Any] = []
        arguments = {name: _written(value, arrays) for name, value in self._arguments.items()}
        head = {"version": version(), "arguments": json.dumps(arguments), "arrays": arrays}
        parts = sealed(packed_answer(head)), self._told.content()
        content = MAGIC + b"".join(len(part).to_bytes(8, "little") + part for part in parts)
        write_whole(path, lambda file: file.write(content))

    @classmethod
    def load(cls, path: str | os.PathLike[str], **again: Any) -> Run:
        """Return the run of a file, as it was when it was saved.

        Arguments that are code of yours, such as a schedule that is a function, are not in the file: they are
        given again, by name.

        Examples
        --------
        >>> import steepen as st, tempfile
        >>> path, step = tempfile.mkdtemp() + "/run.steepen", lambda k: 0.1 / (k + 1)
        >>> st.Run([1.0, 2.0], method="gd", step=step).save(path)
        >>> st.Run.load(path, step=step)
        Run(method='gd', status=WAITING, nit=0, nfev=0)
        """
        arguments, content = _read(path)
        missing = [name for name, value in arguments.items() if value is _YOURS and name not in again]
        if missing:
            what = "it was code of yours, which the file does not hold"
            raise TypeError(f"{missing[0]}: {what}; pass it to load")
        for name in again:
            if arguments.get(name) is not _YOURS:
                raise TypeError(f"{name}: the file holds it already, or the run was made without it")
        run = cls.__new__(cls)
        run._put_back(arguments | again, content, path)
        return run

    def __getstate__(self) -> dict[str, Any]:
        return {"arguments": self._arguments, "content": self._told.content()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._put_back(state["arguments"], state["content"], "what was pickled")

    def _put_back(self, arguments: dict[str, Any], content: bytes, path: Any) -> None:
        self._arguments, self._told = arguments, _started(**arguments)
        try:
            self._told.resume(content)
        except (Unfit, KeyError, TypeError, ValueError) as error:
            raise _unreadable(path, error) from error


# --- arguments as JSON and arrays --------------------------------------------------------------------------

_YOURS = object()
"""An argument that a file does not hold."""

_THEIRS = {"yours": None}
"""What stands for it in the file."""


def _written(value: Any, arrays: list[Any]) -> Any:
    """Return an argument as JSON has it; arrays are appended to the list, and named by their place."""
    if isinstance(value, np.generic):
        return cast(Any, value).item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, list | tuple):
        items = [_written(one, arrays) for one in cast("list[Any]", value)]
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: items} if _THEIRS not in items else _THEIRS
    if isinstance(value, Mapping):
        named = {str(name): _written(one, arrays) for name, one in cast("Mapping[Any, Any]", value).items()}
        return {"dict": named} if _THEIRS not in named.values() else _THEIRS
    made = cast(type[Any], type(value))
    if hasattr(made, "__dataclass_fields__") and made.__module__.startswith("steepen."):
        named = {one.name: _written(getattr(value, one.name), arrays) for one in fields(made) if one.init}
        if _THEIRS not in named.values():
            return {"object": [made.__module__, made.__name__, named]}
    return _THEIRS


def _given(tree: Any, arrays: list[Any]) -> Any:
    """Return an argument from JSON and arrays."""
    if not isinstance(tree, dict):
        return tree
    ((kind, content),) = cast("dict[str, Any]", tree).items()
    if kind == "yours":
        return _YOURS
    if kind == "array":
        return arrays[content]
    if kind == "dict":
        return {name: _given(one, arrays) for name, one in content.items()}
    if kind == "object":
        module, name, named = content
        known = getattr(importlib.import_module(module), name) if module.startswith("steepen.") else None
        if not (isinstance(known, type) and is_dataclass(known)):
            raise Unfit(f"has an argument of the unknown kind {name!r}")
        return known(**{field: _given(one, arrays) for field, one in named.items()})
    items = [_given(one, arrays) for one in content]
    return tuple(items) if kind == "tuple" else items


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], bytes]:
    """Return the arguments and the content of a file."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path: expected a path, got {path!r}")
    whole = Path(path).read_bytes()
    try:
        if not whole.startswith(MAGIC):
            raise Unfit("it does not begin as one does")
        rest, parts = whole[len(MAGIC) :], list[bytes]()
        while rest:
            size = int.from_bytes(rest[:8], "little")
            parts.append(rest[8 : 8 + size])
            rest = rest[8 + size :]
        head, content = parts
        opened(content)
        found = unpacked_answer(opened(head), None)
        arguments = json.loads(found["arguments"])
        return {name: _given(one, found["arrays"]) for name, one in arguments.items()}, content
    except (Unfit, KeyError, TypeError, ValueError, AttributeError, ImportError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Any, error: Exception) -> CheckpointError:
    return CheckpointError(f"path: {str(path)!r} is no run that can go on, or was damaged ({error})")
