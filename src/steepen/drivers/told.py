"""Ask and tell: the user evaluates where and when they like, and tells the run what they found.

What is kept is what a checkpoint keeps (`packing.py`): the fields of the run at an iterate, and the answers
since. From these the run is put back between any two answers; the questions are asked again, and answered
from what was kept as long as they are the same to the bit.
"""

from __future__ import annotations

import copy
import secrets
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._tools.check import floats
from ..callables import read_vector
from ..gradient_check import checked
from ..objective import Objective, Settings
from ..outcome import result_of
from ..problem import is_operator
from ..questions import Denied, Hessian, Iterate, Value, Values, Vector
from ..result import Result
from ..scale import result_in_x, times
from ..status import Status
from .answers import NOT_GIVEN, Reader, each, value
from .ask import Ask, Waiting
from .caller import Caller, Meter
from .log import Log, known_of
from .packing import digest, framed, pack, restore, saved, unframed, unpack
from .recorder import ENTRY, NO_STEP, Recorder
from .single import quietly, stop_iteration
from .watch import Watch

PART = 0.01
"""The state is kept so rarely that this takes no more than this part of the time."""


class Told:
    """A run, the question that it waits with, and the answers since its state was last kept."""

    def __init__(
        self, placed: Objective, settings: Settings, trace: Any, log: Log | None = None, check: bool = False
    ):
        self._run, self._meter = placed.run(settings), Meter(settings.budget)
        self._recorder = Recorder(keep_x=trace == "x") if trace else None
        self._run.watched = trace is not False
        self._caller = Caller(placed.functions(), placed.x, self._meter, combined=placed.jac is True)
        self._watch = Watch(self._meter, Event(), self._recorder)
        self._like, self._scale = placed.x, placed.scale
        self._reader = Reader(placed.x, placed.scale)
        self._within, meter = quietly(), self._meter
        asks = checked(self._run, meter.evals, meter.grads, self._caller.combined)
        self._asks = asks if check else self._run.iterate()
        self._both = self._caller.functions.both is not None
        """Whether ∇f is told with f."""
        self._log = None if log is None else log.journal(None)
        self._elsewhere = known_of(placed) if log is None else log.known
        """What is known of f from before: told without being asked for, or in the log."""
        self._given: list[tuple[Any, ...]] = []
        """What was told without being asked for: x, f and ∇f, in the user's variables."""
        self._token = secrets.randbits(32)
        """It tells the ids of one run from those of another."""

        self._waiting: Waiting | None = None
        """None: the run has ended."""
        self._before: tuple[int, ...] = self._meter.counts
        """The counts before the question."""
        self._number = 0
        """How many points were answered before the question."""

        self._state = b"", 0, 0
        """The state at an iterate, with the number of points and the length of the trace there."""
        self._since: list[tuple[Any, Any]] = []
        """The questions since then, and what is kept of their answers."""
        self._replay: deque[tuple[bytes, Any]] = deque()
        self._written, self._took = time.monotonic(), 0.0

    # --- the run ---------------------------------------------------------------------------------------

    def go(self, answer: Any = None) -> None:
        """Go on until the run ends, or has a question for the user."""
        asks, watching, error = self._asks, self._watch.answers, None
        while True:
            try:
                ask = self._within(asks.send, answer) if error is None else self._within(asks.throw, error)
            except StopIteration:
                self._waiting = None
                return self._watch.finish(self._run)
            except BaseException as raised:  # of a method or a step of the user's
                self._waiting, self._run.status = None, Status.FAILED
                if (stop := stop_iteration(raised)) is None:
                    raise
                raise stop from None
            error = None
            if type(ask) in watching:
                answer = watching[type(ask)](ask)
                if type(ask) is Iterate and answer is None:
                    self._keep_state()
                continue
            try:
                answer = self._open(ask)
            except Denied as denied:
                error = denied
                continue
            if answer is None:
                return None

    def _open(self, ask: Any) -> Any:
        """Count a question; return the answer if it is known, else let the user see the question."""
        caller, meter = self._caller, self._meter
        known = None if type(ask) is Value else caller.at_hand(ask)
        self._before = meter.nfev, meter.njev, meter.nhvp, meter.nhev
        caller.charge(ask)
        if known is not None:
            return known
        waiting = Waiting(ask, self._both, self._number, self._token)
        if not waiting.points:  # a difference of variables that cannot move
            return list[float]()
        self._waiting = waiting
        if self._replay and (known := self._replayed(waiting)) is not None:
            return known
        return self._recalled(waiting) if self._elsewhere.found else None

    def _answered(self, waiting: Waiting, kept: Any) -> Any:
        """Return the answer to a question, of which all is known now; it is kept."""
        ask, caller = waiting.ask, self._caller
        self._since.append((ask, kept))
        self._number += len(waiting.points)
        if waiting.wanted == "both":
            f, g = kept
            caller.last = ask.x, g
            return f if type(ask) is Value else g
        if type(ask) is Hessian:
            caller.matrix = ask.x, kept
        return kept

    def _recalled(self, waiting: Waiting) -> Any:
        """Take what is known of a question from before; return the answer if that is all, else None."""
        ask, both = waiting.ask, waiting.wanted == "both"
        for place, point in enumerate(waiting.points):
            asked = Value(point) if both or type(ask) is Values else ask
            found, kept = self._elsewhere.answer(asked, None, both)
            if found:
                waiting.known.setdefault(place, kept)
        return self._answered(waiting, waiting.answer()) if waiting.complete else None

    # --- asking and telling ----------------------------------------------------------------------------

    def ask(self, most: int | None) -> Ask:
        """Return the points that wait for an answer."""
        waiting = self._waiting
        if waiting is None:
            return Ask((), np.empty((0, len(self._like)), self._like.dtype), "")
        vectors = self._in_x((waiting.ask.v,)) if waiting.wanted == "product" else None
        if not waiting.known and (most is None or most >= len(waiting.points)):
            waiting.asked = Ask(waiting.ids, self._in_x(waiting.points), waiting.wanted, vectors)
            return waiting.asked
        ids, left = waiting.ids(), waiting.open(most)
        points = self._in_x([waiting.points[place] for place in left])
        return Ask(tuple(ids[place] for place in left), points, waiting.wanted, vectors)

    def _in_x(self, vectors: Sequence[Vector]) -> NDArray[Any]:
        """Return a copy of vectors of the run in the user's variables."""
        copied = np.array(vectors) if len(vectors) > 1 else vectors[0][None].copy()
        return copied if self._scale is None else times(copied, self._scale)

    def tell(self, which: Any, told: Any, g: Any) -> None:
        """Take the answers for an ask, or for one point by its id; nothing changes where one is refused."""
        waiting = self._waiting
        if waiting is not None and which is not None and which is waiting.asked and not waiting.known:
            places = range(len(waiting.points))
        else:
            waiting, places = self._found(which)
        imaginary = waiting.imaginary
        if isinstance(which, str) and waiting.wanted == "value":
            told = [told]
        found = self._reader.answers(waiting.wanted, imaginary, len(places), told, g)
        if self._log is not None:
            by_point = waiting.wanted in ("value", "both")
            for place, kept in zip(places, found, strict=True):
                asked: Any = Value(waiting.points[place]) if by_point else waiting.ask
                self._log.note(asked, _dense(kept), self._meter.seconds)
        if len(found) == len(waiting.points):  # all at once, and so in the order of the points
            return self.go(self._answered(waiting, found if type(waiting.ask) is Values else found[0]))
        waiting.known.update(zip(places, found, strict=True))
        return self.go(self._answered(waiting, waiting.answer())) if waiting.complete else None

    def _found(self, which: Any) -> tuple[Waiting, Sequence[int]]:
        """Return the question that waits, and the places of these points in it."""
        if not isinstance(which, Ask | str):
            raise TypeError(f"ask: expected what ask() returned, or the id of a point, got {which!r}")
        name, ids = ("id", (which,)) if isinstance(which, str) else ("ask", which.ids)
        if not ids:
            raise ValueError("ask: it has no points, since the run has ended; there is nothing to tell")
        if self._waiting is None:
            raise ValueError(f"{name}: the run has ended ({self._run.status}); nothing waits for an answer")
        return self._waiting, self._waiting.places(name, ids)

    def tell_known(self, x: Any, f: Any, g: Any) -> None:
        """Take f, and ∇f, at points that were evaluated before; some of them may be waited for."""
        if self._waiting is None:
            raise ValueError(f"x: the run has ended ({self._run.status}); nothing waits for an answer")
        like, n = self._like, len(self._like)
        points: Any = floats("x", x, f"{n} numbers, or several points, one per row")
        if points.shape[-1:] != (n,) or points.ndim > 2:
            raise ValueError(f"x: expected shape {(n,)} or (k, {n}), got shape {points.shape}")
        gradients: Any = [g] if points.ndim == 1 and g is not NOT_GIVEN else g
        points = np.atleast_2d(points)
        values = [value(one) for one in each(f, len(points))]
        if gradients is NOT_GIVEN:
            gradients = [None] * len(points)
        elif len(gradients) != len(points):
            raise ValueError(f"g: expected {len(points)} gradients, one per point; got {len(gradients)}")
        else:
            gradients = [read_vector(one, like, "g") for one in gradients]
        points = points.astype(like.dtype).astype(np.float64) + 0.0
        for known in zip(points, values, gradients, strict=True):
            self._remember(*known)
            if self._log is not None:
                self._log.write(self._meter.seconds, *known)
        if (known := self._recalled(self._waiting)) is not None:
            self.go(known)

    def _remember(self, x: Any, f: float, g: Any) -> None:
        """Keep f, and ∇f, at a point."""
        self._given.append((x, f, g))
        self._elsewhere.put("f", None, x.tobytes(), f)
        if g is not None:
            self._elsewhere.put("g", None, x.tobytes(), g)

    # --- the run so far --------------------------------------------------------------------------------

    def result(self) -> Result:
        """Return the run so far; where it has not ended, its status is WAITING."""
        run, recorder, waiting = self._run, self._recorder, self._waiting
        if waiting is None:
            found = result_of(run, self._meter, recorder and recorder.finish())
            return result_in_x(found, self._scale)
        shown = copy.copy(self._meter)
        shown.nfev, shown.njev, shown.nhvp, shown.nhev = self._before
        shown.nfev += len(waiting.known)
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
        length = 0 if self._recorder is None else self._recorder.length
        self._state, self._since = (saved(self._run, self._meter), self._number, length), []
        self._written = time.monotonic()
        self._took = self._written - began

    def content(self) -> bytes:
        """Return all that is needed to go on."""
        state, number, length = self._state
        rest = {
            "token": self._token, "seconds": self._meter.seconds, "number": number,
            "answers": [[digest(ask).hex(), _dense(kept)] for ask, kept in self._since],
            "known": self._waiting and [digest(self._waiting.ask).hex(), list(self._waiting.known.items())],
            "given": self._given, "trace": self._trace(length),
        }  # fmt: skip
        return framed(state, pack(rest))

    def _trace(self, length: int) -> list[Any]:
        """Return so many entries of the trace, the last of which has no step, and their points."""
        if self._recorder is None or not length:
            return []
        table = self._recorder.table()[:length]
        for name, none in zip(("lam", "step", "penalised", "guarded"), NO_STEP, strict=True):
            table[name][-1] = none
        return [table.view(np.uint8), self._recorder.since(0)[1][:length]]

    def resume(self, content: bytes) -> None:
        """Put a new run where another one was; its content is read whole before anything changes."""
        state, rest = unframed(content)
        kept = unpack(rest, self._like)
        self._token, self._number = kept["token"], kept["number"]
        if state:
            restore(self._run, self._meter, state)
            length = 0
            if self._recorder is not None and kept["trace"]:
                table, points = kept["trace"]
                self._recorder.load(table.view(ENTRY), points)
                length = self._recorder.length
            self._state = state, self._number, length
        self._meter.earlier = kept["seconds"]
        self._replay = deque((bytes.fromhex(asked), answer) for asked, answer in kept["answers"])
        for one in kept["given"]:
            self._remember(*one)
        self.go()
        self._replay.clear()
        waiting = self._waiting
        if waiting is not None and kept["known"]:
            asked, known = kept["known"]
            if bytes.fromhex(asked) == digest(waiting.ask):
                waiting.known.update(known)

    def _replayed(self, waiting: Waiting) -> Any:
        """Return the answer to a question that was kept, or None."""
        asked, kept = self._replay.popleft()
        if asked != digest(waiting.ask):  # another CPU asks elsewhere
            self._replay.clear()
            return None
        return self._answered(waiting, kept)


def _dense(kept: Any) -> Any:
    """Return an operator as a matrix, which is the same up to rounding, and anything else as it is."""
    if not is_operator(kept):
        return kept
    return kept.toarray() if hasattr(kept, "toarray") else kept @ np.eye(kept.shape[0])
