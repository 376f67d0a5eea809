"""One run: `drive` puts its questions to whoever answers them, until it ends."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from ..questions import Denied
from ..run import Run
from ..status import Status


def quietly() -> Callable[..., Any]:
    """Return a way to resume runs without NumPy's warnings, which must not leak into the user's functions.

    NumPy's error state belongs to a context: the run computes in one of its own, the user's functions are
    called in the user's.
    """
    inside = contextvars.copy_context()
    inside.run(np.seterr, all="ignore")
    return inside.run


def drive(asks: Any, answers: Mapping[type, Callable[[Any], Any]], failed: Callable[[], None]) -> Any:
    """Make a run, or any function that asks; return what it returns. Each kind of question has its answer.

    An error of the user's is thrown in where the question was asked: its traceback shows the search and the
    loop, on the way to the caller of `minimize`.
    """
    resume, send, throw = quietly(), asks.send, asks.throw
    go_on, reply = send, None
    while True:
        try:
            ask = resume(go_on, reply)
        except StopIteration as end:
            return end.value
        except RuntimeError as error:
            if (stop := stop_iteration(error)) is None:
                raise
            raise stop from None
        try:
            reply = answers[type(ask)](ask)
            go_on = send
        except BaseException as caught:
            if not isinstance(caught, Denied):
                failed()
            go_on, reply = throw, caught


def stop_iteration(error: BaseException) -> StopIteration | None:
    """Return the StopIteration of the user's that became this error on its way out of a generator, if any."""
    became = isinstance(error, RuntimeError) and str(error) == "generator raised StopIteration"
    return error.__cause__ if became and isinstance(error.__cause__, StopIteration) else None


def failing(run: Run) -> Callable[[], None]:
    """Return what to do where an answer of a run fails."""

    def failed() -> None:
        run.status = Status.FAILED

    return failed


def attach(error: BaseException, result: Callable[[], Any]) -> None:
    """Attach the run so far to an error of the user's."""
    with suppress(AttributeError, TypeError):  # some exceptions take no attributes
        error.partial_result = result()  # pyright: ignore[reportAttributeAccessIssue]
        error.add_note("steepen: the partial result is in the attribute `partial_result`")
