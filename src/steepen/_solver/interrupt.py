"""Ctrl-C ends a run between two iterations, where its state is whole."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

logger = logging.getLogger("steepen")


@dataclass
class InterruptFlag:
    """Whether somebody pressed Ctrl-C."""

    pressed: bool = False


@contextmanager
def defer_sigint() -> Iterator[InterruptFlag]:
    """Note the first Ctrl-C; let the second through at once.

    Only Python's own handler is replaced, and only in the main thread: any other is somebody's choice.
    """
    interrupt = InterruptFlag()
    plain = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not (plain and threading.current_thread() is threading.main_thread()):
        yield interrupt
        return

    def note(number: int, frame: FrameType | None) -> None:
        interrupt.pressed = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        logger.warning("interrupted: the run ends after this iteration; press again to stop at once")

    signal.signal(signal.SIGINT, note)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
