"""What all tests need."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def interruptible() -> Iterator[None]:
    """A test runner in the background of a shell ignores Ctrl-C; tests of it need Python's own handler."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
