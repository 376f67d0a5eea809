"""For the eager loop: Ctrl-C ends a run between two iterations; replaces Python's SIGINT handler in a run."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

logger = logging.getLogger("steepen")


@contextmanager
def defer_sigint() -> Iterator[threading.Event]:
    """Yield an event that the first Ctrl-C sets; the second raises immediately.

    Only Python's default handler is replaced, and only in the main thread; a custom handler is kept.
    """
    interrupt = threading.Event()
    plain = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not (plain and threading.current_thread() is threading.main_thread()):
        yield interrupt
        return

    def note(number: int, frame: FrameType | None) -> None:
        interrupt.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        logger.warning("interrupted: stopping after this iteration; press Ctrl-C again to stop immediately")

    signal.signal(signal.SIGINT, note)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
