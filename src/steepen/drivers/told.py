"""Ask and tell: the user evaluates where and when they like, and tells the run what they found.

What is kept is what a checkpoint keeps (`checkpoint.py`): the fields of the run at an iterate, and the
answers since. From these the run is put back between any two answers; the questions are asked again, and
answered from what was kept as long as they are the same to the bit.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import secrets
import time
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from threading import Event
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..callables import describe, read_imaginary, read_value, read_vector
from ..objective import Objective, Settings
from ..outcome import result_of
from ..problem import is_operator
from ..questions import Denied, Gradient, Hessian, Iterate, Product, Value, Values, Vector
from ..result import Result
from ..scale import Scaled, result_in_x, times
from ..status import Status
from .caller import Caller, Meter
from .checkpoint import array_bytes, opened, packed_answer, restore, sealed, state_of, unpacked_answer
from .recorder import NO_STEP, Recorder
from .single import quietly
from .watch import Watch

PART = 0.02
"""The state is kept so rarely that this takes no more than this part of the time."""

WANTED = {Value: "value", Values: "value", Gradient: "gradient", Product: "product", Hessian: "hessian"}


class Ask:
    """Points where a run waits for an answer; empty, and false, when the run has ended.

    Attributes
    ----------
    ids : a name for each point, to tell its answer by itself; it can be the name of a file
    points : the points, of shape (k, n)
    wanted : what is wanted at each: "value" (f), "both" (f and ∇f), "gradient", "product" (H·v) or "hessian"
    vectors : where products are wanted, v for each point; else None

    Examples
    --------
    >>> import steepen as st
    >>> run = st.Run([1.0, 2.0], jac=True)
    >>> ask = run.ask()
    >>> ask.points, ask.wanted, len(ask.ids)
    (array([[1., 2.]]), 'both', 1)
    """

    __slots__ = ("_ids", "points", "vectors", "wanted")

    def __init__(
        self,
        ids: tuple[str, ...] | Callable[[], tuple[str, ...]],
        points: NDArray[Any],
        wanted: str,
        vectors: NDArray[Any] | None = None,
    ):
        self._ids, self.points, self.wanted, self.vectors = ids, points, wanted, vectors

    @property
    def ids(self) -> tuple[str, ...]:
        """A name for each point."""
        if callable(self._ids):  # they are made when first read: few loops need them
            self._ids = self._ids()
        return self._ids

    def __len__(self) -> int:
        return len(self.points)

    def __reduce__(self) -> Any:
        return Ask, (self.ids, self.points, self.wanted, self.vectors)

    def __repr__(self) -> str:
        return f"Ask(ids={self.ids}, points={self.points!r}, wanted={self.wanted!r})"


class NotGiven:
    """What an argument is that was not given."""

    def __repr__(self) -> str:
        return "not given"


NOT_GIVEN = NotGiven()


class Told:
    """A run, the question that it waits with, and those answers to it that are known."""

    def __init__(self, placed: Objective, settings: Settings, trace: Any):
        self._run, self._meter = placed.run(settings), Meter(settings.budget)
        self._recorder = Recorder(keep_x=trace == "x") if trace else None
        self._run.watched = trace is not False
        self._caller = Caller(placed.functions(), placed.x, self._meter, combined=placed.jac is True)
        self._watch = Watch(self._meter, Event(), self._recorder)
        self._like, self._scale = placed.x, placed.scale
        self._asks, self._within = self._run.iterate(), quietly()
        self._token = secrets.randbits(32)
        """It tells the ids of one run from those of another."""

        self._question: Any = None
        """None: the run has ended."""
        self._wanted = ""
        self._points: Sequence[Vector] = ()
        self._names: Callable[[], tuple[str, ...]] = tuple[str, ...]
        """Makes the ids of the points."""
        self._asked: Ask | None = None
        """The last ask, if it has all points, none of which was told."""
        self._known: dict[int, Any] = {}
        """The answers to a part of the question, by the place of the point."""
        self._before = self._meter.counts
        """The counts before the question."""
        self._number = 0
        """How many points were answered before the question."""

        self._state: tuple[dict[str, Any], list[Any], int, int] | None = None
        """The state at an iterate, its arrays, the number of points, and the length of the trace there."""
        self._since: list[tuple[Any, Any]] = []
        """The questions since then, and what is kept of their answers."""
        self._replay: deque[tuple[str, Any]] = deque()
        self._written, self._took = time.monotonic(), 0.0

    # --- the run ---------------------------------------------------------------------------------------

    def go(self, answer: Any = None) -> None:
        """Go on until the run ends, or has a question for the user."""
        asks, watching, error = self._asks, self._watch.answers, None
        while True:
            try:
                ask = self._within(asks.send, answer) if error is None else self._within(asks.throw, error)
            except StopIteration:
                self._question = None
                return self._watch.finish(self._run)
            except BaseException:  # of a method or a step of the user's
                self._question, self._run.status = None, Status.FAILED
                raise
            error = None
            if type(ask) in watching:
                answer = watching[type(ask)](ask)
                if type(ask) is Iterate and answer is None:
                    self._keep_state()
                continue
            try:
                known = self._open(ask)
            except Denied as denied:
                error = denied
                continue
            if known is None and (known := self._replayed(ask)) is None:
                return None
            answer = known

    def _open(self, ask: Any) -> Any:
        """Count a question and name its points, unless the answer is at hand: return that, or None."""
        caller = self._caller
        known, self._before = None if type(ask) is Value else caller.at_hand(ask), self._meter.counts
        caller.charge(ask)
        points = ask.points if type(ask) is Values else [ask.x]
        if known is None and not len(points):  # a difference of variables that cannot move
            known = list[float]()
        if known is not None:
            return known
        self._question, self._known, self._asked = ask, {}, None
        both = caller.functions.both is not None and type(ask) in (Value, Gradient)
        self._wanted = "both" if both else WANTED[type(ask)]
        self._points = points
        self._names = partial(_named, points, self._number, type(ask).__name__, self._token)
        return None

    def _answered(self, kept: Any) -> Any:
        """Return the answer to the question, of which all is known now; it is kept."""
        ask, caller = self._question, self._caller
        self._since.append((ask, kept))
        self._number += len(self._points)
        if type(ask) is Gradient and caller.functions.both is not None:
            caller.last = ask.x, kept[1]
            return kept[1]
        return caller.recall(ask, kept)

    # --- asking and telling ----------------------------------------------------------------------------

    def ask(self, most: int | None) -> Ask:
        """Return the points that wait for an answer."""
        if self._question is None:
            return Ask((), np.empty((0, len(self._like)), self._like.dtype), "")
        vectors = self._in_x([self._question.v]) if type(self._question) is Product else None
        points = self._in_x(self._points)
        if not self._known and (most is None or most >= len(points)):
            self._asked = Ask(self._names, points, self._wanted, vectors)
            return self._asked
        ids, places = self._names(), range(len(points))
        left = [place for place in places if place not in self._known][:most]
        return Ask(tuple(ids[place] for place in left), points[left], self._wanted, vectors)

    def _in_x(self, vectors: Sequence[Vector]) -> NDArray[Any]:
        """Return a copy of vectors of the run in the user's variables."""
        copied = np.array(vectors)
        return copied if self._scale is None else times(copied, self._scale)

    def tell(self, which: Any, answer: Any, g: Any) -> None:
        """Take the answers for an ask, or for one point by its id; nothing changes where one is refused."""
        whole = which is self._asked and self._question is not None and not self._known
        places = range(len(self._points)) if whole else self._places(which)
        wanted = self._wanted
        if wanted != "both" and g is not NOT_GIVEN:
            what = f"the run asked for the {wanted} alone, to be told as one answer"
            raise TypeError(f"g: {what}; got {g!r}")
        if wanted == "value":
            answers = [answer] if isinstance(which, str) else _each(answer, len(places))
            found = [self._read_value(f) for f in answers]
        elif wanted == "both":
            found = [self._read_both(answer if isinstance(answer, float) else _only(answer, 0), g)]
        else:
            found = [self._read_vector(answer, wanted)]
        self._known.update(zip(places, found, strict=True))
        if len(self._known) == len(self._points):
            known, many = self._known, type(self._question) is Values
            kept = [known[place] for place in range(len(known))] if many else known[0]
            self.go(self._answered(kept))

    def _places(self, which: Any) -> list[int]:
        """Return the places of these points in the question."""
        if not isinstance(which, Ask | str):
            raise TypeError(f"ask: expected what ask() returned, or the id of a point, got {which!r}")
        name, ids = ("id", (which,)) if isinstance(which, str) else ("ask", which.ids)
        if not ids:
            raise ValueError("ask: it has no points, since the run has ended; there is nothing to tell")
        if self._question is None:
            raise ValueError(f"{name}: the run has ended ({self._run.status}); nothing waits for an answer")
        names = self._names()
        places = [names.index(one) if one in names else -1 for one in ids]
        for one, place in zip(ids, places, strict=True):
            if place in self._known:
                raise ValueError(f"{name}: {one!r} was told already")
            if place < 0:
                few, more = ", ".join(self.ask(4).ids), ", …" if len(self._points) > 4 else ""
                why = "it was told already, or belongs to another run"
                raise ValueError(f"{name}: {one!r} does not wait for an answer: {why}; expected {few}{more}")
        return places

    # --- reading what was told -------------------------------------------------------------------------

    def _read_value(self, f: Any) -> float:
        if _failed(f):
            return math.nan
        return read_imaginary(f) if self._points[0].dtype.kind == "c" else read_value(f, "f")

    def _read_both(self, f: Any, g: Any) -> tuple[float, Vector]:
        value = self._read_value(f)
        if g is NOT_GIVEN:
            if not math.isnan(value):
                raise TypeError("g: the run asked for f and ∇f, and got f alone; expected tell(ask, f, g)")
            g = None
        return value, self._read_vector(g, "g")

    def _read_vector(self, told: Any, name: str) -> Any:
        """Return a gradient, a product or a Hessian that was told, in the variables of the run."""
        like, n = self._like, len(self._like)
        plain = type(told) is np.ndarray and told.shape == like.shape and told.dtype is like.dtype
        if plain and name != "hessian" and self._scale is None:  # nearly always
            return told.copy()
        tail, kind = ((n,), "hess") if name == "hessian" else ((), "grad")
        if _failed(told):
            return np.full((n, *tail), math.nan, like.dtype)
        told = _only(told, 1 + len(tail))
        if is_operator(told):
            if name != "hessian" or tuple(told.shape) != (n, n):
                raise ValueError(f"{name}: expected shape {(n, *tail)}, got {describe(told)}")
        else:
            told = read_vector(told, like, name, tail)
        if self._scale is None:
            return told

        def known(_: Vector) -> Any:
            return told

        return Scaled(known, tuple(self._scale.tolist()), kind)(like)

    # --- the run so far --------------------------------------------------------------------------------

    def result(self) -> Result:
        """Return the run so far; where it has not ended, its status is WAITING."""
        run, recorder = self._run, self._recorder
        if self._question is None:
            found = result_of(run, self._meter, recorder and recorder.finish())
            return result_in_x(found, self._scale)
        shown = copy.copy(self._meter)
        shown.nfev, shown.njev, shown.nhvp, shown.nhev = self._before
        shown.nfev += len(self._known)
        run.status = Status.WAITING
        try:
            found = result_of(run, shown, recorder and recorder.finish())
        finally:
            run.status = None
        learnt = copy.deepcopy(vars(found)["_learnt"])  # the run goes on to learn
        return result_in_x(replace(found, learnt=learnt), self._scale)

    # --- saving and going on ---------------------------------------------------------------------------

    def _keep_state(self) -> None:
        """Keep the state at an iterate, but not too often."""
        began = time.monotonic()
        if self._replay or began - self._written < self._took / PART:
            return
        arrays: list[Any] = []
        tree = state_of(self._run, self._meter, arrays)
        length = 0 if self._recorder is None else self._recorder.length
        self._state, self._since = (tree, [array.copy() for array in arrays], self._number, length), []
        self._written = time.monotonic()
        self._took = self._written - began

    def content(self) -> bytes:
        """Return all that is needed to go on."""
        tree, arrays, number, length = self._state or (None, [], 0, 0)
        content = {
            "token": self._token, "seconds": self._meter.seconds, "number": number,
            "tree": json.dumps(tree), "arrays": arrays,
            "answers": [[_digest(ask), _dense(kept)] for ask, kept in self._since],
            "known": [] if self._question is None else [_digest(self._question), list(self._known.items())],
            "trace": self._trace(length),
        }  # fmt: skip
        return sealed(packed_answer(content))

    def _trace(self, length: int) -> list[Any]:
        """Return so many entries of the trace, the last of which has no step, and their points."""
        if self._recorder is None or not length:
            return []
        table = self._recorder.table()[:length]
        for name, value in zip(("lam", "step", "penalised", "guarded"), NO_STEP, strict=True):
            table[name][-1] = value
        return [table, self._recorder.since(0)[1][:length]]

    def resume(self, content: bytes) -> None:
        """Put a new run where another one was; its content is read whole before anything changes."""
        saved = unpacked_answer(opened(content), self._like)
        tree, arrays = json.loads(saved["tree"]), cast("list[Any]", saved["arrays"])
        self._token, self._number = saved["token"], saved["number"]
        if tree is not None:
            files = {f"array {place}": array_bytes(array) for place, array in enumerate(arrays)}
            restore(self._run, self._meter, tree, files)
            if self._recorder is not None and saved["trace"]:
                self._recorder.load(*saved["trace"])
            length = 0 if self._recorder is None else self._recorder.length
            self._state = tree, arrays, self._number, length
        self._meter.earlier = saved["seconds"]
        self._replay = deque((digest, kept) for digest, kept in saved["answers"])
        self.go()
        self._replay.clear()
        if saved["known"] and self._question is not None:
            digest, known = saved["known"]
            if digest == _digest(self._question):
                self._known = dict(known)

    def _replayed(self, ask: Any) -> Any:
        """Return the answer to a question that was kept, or None."""
        if not self._replay:
            return None
        digest, kept = self._replay.popleft()
        if digest != _digest(ask):  # another CPU asks elsewhere
            self._replay.clear()
            return None
        return self._answered(kept)


def _dense(kept: Any) -> Any:
    """Return an operator as a matrix, which is the same up to rounding, and anything else as it is."""
    if not is_operator(kept):
        return kept
    return kept.toarray() if hasattr(kept, "toarray") else kept @ np.eye(kept.shape[0])


def _failed(told: Any) -> bool:
    """Return whether an evaluation failed; as NaN, it is told as a value of the function."""
    return told is None or isinstance(told, BaseException)


def _each(answer: Any, count: int) -> Sequence[Any]:
    """Return one value for each of these points."""
    if _failed(answer):
        return [answer] * count
    several = isinstance(answer, list | tuple)  # it may hold failures
    shape = (len(cast("list[Any]", answer)),) if several else np.shape(answer)
    if shape[:1] != (count,) and not (count == 1 and shape == ()):
        expected = f"{count} values, one for each point of the ask" if count > 1 else "a value"
        raise ValueError(f"f: expected {expected}, got shape {shape}")
    return list(answer) if shape else [answer]


def _only(told: Any, ndim: int) -> Any:
    """Return the answer for the only point of an ask, which may be told in an array with one entry."""
    shape = tuple(getattr(told, "shape", ()))
    if isinstance(told, list | tuple):
        items = cast("list[Any]", told)
        told, shape = items, (len(items),) if any(map(_failed, items)) else tuple(np.shape(items))
    return told[0] if len(shape) == ndim + 1 and shape[:1] == (1,) else told


def _named(points: Sequence[Vector], first: int, kind: str, token: int) -> tuple[str, ...]:
    """Return the ids of points: a running number, and a checksum of the run and of the point."""
    start = zlib.crc32(kind.encode(), token)
    sums = (zlib.crc32(point.tobytes(), start) for point in points)
    return tuple(f"{number}-{checksum:08x}" for number, checksum in enumerate(sums, first))


def _digest(ask: Any) -> str:
    """Return what tells a question."""
    vectors = ask.points if type(ask) is Values else [ask.x, ask.v] if type(ask) is Product else [ask.x]
    digest = hashlib.blake2b(type(ask).__name__.encode(), digest_size=16)
    for vector in vectors:
        digest.update(np.ascontiguousarray(vector).tobytes())
    return digest.hexdigest()
