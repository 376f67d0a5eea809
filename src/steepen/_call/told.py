"""`Run`, for users whose function runs elsewhere: reads the arguments, and hands on to the driver."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike

from .._tools.check import is_whole
from .._tools.database import Unfit
from .._tools.files import write_whole
from .._tools.version import version
from ..arrays import is_numpy
from ..drivers.answers import NOT_GIVEN
from ..drivers.ask import Ask
from ..drivers.log import Log
from ..drivers.packing import UNREADABLE, CheckpointError, Inner, framed, pack, unframed, unpack
from ..drivers.told import Told
from ..methods import Method
from ..objective import SCHEMES
from ..result import Result
from ..scale import scaled
from ..space import limits_of
from .arguments import objective_of, settings_of, start_point
from .keywords import DEFAULTS, RunSettings, complete, run_settings, spelled_out
from .scipy_options import understood

MAGIC = b"steepen run 2\n"


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
    log: str | os.PathLike[str] | Callable[[dict[str, Any]], object] | None
    check_gradient: bool
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
    placed, log, check = objective.placed(), given["log"], given["check_gradient"]
    return Told(placed, settings, given["trace"], None if log is None else Log(log, placed), check)


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
    log : path or callable, optional
        As in `minimize`: every answer is a line, and what the file has is not asked again.
    bounds, x_scale, trace, check_gradient, options, and all settings of the method and of its ends
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
        if callable(x0):
            raise TypeError(f"x0: expected a start, since the function of a Run is yours to call; got {x0!r}")
        x = start_point(x0)
        if not is_numpy(x) or x.ndim != 1:
            what = f"of shape {tuple(x.shape)}" if is_numpy(x) else f"{type(x).__module__}.{type(x).__name__}"
            expected = "a NumPy array of shape (n,), and a Run for each start"
            raise ValueError(f"x0: expected {expected}; got {what}")
        given = dict(keywords)
        if given.get("bounds") is not None:
            low, high = limits_of(given["bounds"], len(x))
            given["bounds"] = list(zip(low.tolist(), high.tolist(), strict=True))
        if not (given.get("x_scale") is None or isinstance(given["x_scale"], str)):
            given["x_scale"] = np.array(given["x_scale"])
        if isinstance(given.get("log"), os.PathLike):
            given["log"] = os.fspath(cast("os.PathLike[str]", given["log"]))
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

    def tell(
        self, ask: Ask | str | None = None, f: Any = NOT_GIVEN, g: Any = NOT_GIVEN, *, x: Any = None
    ) -> None:  # fmt: skip
        """Tell what was asked for: at all points of an ask, or at one of them by its id, in any order.

        The answer, f, is the value, or where that is wanted, the gradient, the product or the Hessian; where
        both are wanted, g is the gradient. None, NaN and an exception say that the evaluation failed, which
        is to the run what a NaN of the function is. A wrong answer raises and changes nothing.

        `tell(x=…, f=…)`, with g where gradients are told, gives values that you know from before, at a
        point (n,) or at several (k, n). The run takes them where it asks for exactly these points, and
        counts them then. That helps with the start, and with a run from it that was lost; the run learns
        nothing from points that it does not ask for.

        Examples
        --------
        >>> import steepen as st
        >>> run = st.Run([3.0, 4.0], jac=True)
        >>> run.tell(run.ask().ids[0], 12.5, [3.0, 4.0])
        >>> run.tell(run.ask(), TimeoutError("the job was lost"))
        >>> print(run.result().status, run.result().nfev)
        WAITING 2
        >>> run = st.Run([3.0, 4.0])
        >>> run.tell(x=[3.0, 4.0], f=12.5)  # a value of yesterday
        >>> len(run.ask())
        2
        """
        if f is NOT_GIVEN:
            raise TypeError("f: expected what was found there, or None where that failed; got nothing")
        if x is None:
            return self._told.tell(ask, f, g)
        if ask is not None:
            raise TypeError(
                "x: give either an ask (or an id), or points that were evaluated before; got both"
            )
        return self._told.tell_known(x, f, g)

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
        content = MAGIC + framed(_packed(self._arguments), self._told.content())
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
        arguments, yours, content = _read(path)
        for name in yours:
            if name not in again:
                what = "it was code of yours, which the file does not hold"
                raise TypeError(f"{name}: {what}; pass it to load")
        for name in again:
            if name not in yours:
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
        except UNREADABLE as error:
            raise _unreadable(path, error) from error


# --- files -------------------------------------------------------------------------------------------------


class _OfTheUser(Exception):
    """An argument that a file does not hold: it is code."""


def _packed(arguments: Mapping[str, Any]) -> bytes:
    """Return the arguments as bytes, and the names of those that are code of the user's."""
    kept, yours = dict[str, bytes](), list[str]()
    for name, value in arguments.items():
        try:
            kept[name] = pack(value, _settings)
        except _OfTheUser:
            yours.append(name)
    return framed(pack([version(), list(kept), yours]), *kept.values())


def _unpacked(content: bytes) -> tuple[dict[str, Any], list[str]]:
    """Return the arguments that a file holds, and the names of the others."""
    head, *parts = unframed(content)
    _, names, yours = unpack(head)
    return {name: unpack(part, None, _made) for name, part in zip(names, parts, strict=True)}, yours


def _settings(value: Any, inner: Inner) -> Any:
    """Return a method, a penalty or the like by its class and fields."""
    made = cast(type[Any], type(value))
    if not (is_dataclass(made) and made.__module__.startswith("steepen.")):
        raise _OfTheUser
    named = {one.name: inner(getattr(value, one.name)) for one in fields(made) if one.init}
    return {"object": [made.__module__, made.__name__, named]}


def _made(kind: str, content: Any, inner: Inner) -> Any:
    """Return what `_settings` has packed."""
    module, name, named = content
    known = getattr(importlib.import_module(module), name) if module.startswith("steepen.") else None
    if kind != "object" or not (isinstance(known, type) and is_dataclass(known)):
        raise Unfit(f"has an argument of the unknown kind {name!r}")
    return known(**{field: inner(one) for field, one in named.items()})


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], list[str], bytes]:
    """Return the arguments of a file, the names of those that it does not hold, and the run."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path: expected a path, got {path!r}")
    whole = Path(path).read_bytes()
    try:
        if not whole.startswith(MAGIC):
            raise Unfit("it does not begin as one does")
        arguments, content = unframed(whole[len(MAGIC) :])
        return *_unpacked(arguments), content
    except (*UNREADABLE, ImportError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Any, error: Exception) -> CheckpointError:
    return CheckpointError(f"path: {str(path)!r} is no run that can go on, or was damaged ({error})")
