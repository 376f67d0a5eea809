"""What all tests need."""

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from .rounding import SEED, VARIABLE, perturb

# The same examples every time, and no clock: whether a change lands is not a matter of luck, nor of how busy
# a machine is. To explore, set HYPOTHESIS_PROFILE=default.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


@pytest.fixture(autouse=True, scope="session")
def interruptible() -> Iterator[None]:
    """A test runner in the background of a shell ignores Ctrl-C; tests of it need Python's own handler."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


if SEED:
    perturb()


TOGETHER = ("paper", "outcomes", "outcome", "browser")
"""Fixtures that take seconds: what needs one runs in one of xdist's workers, and the other does not wait."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep together what shares a slow fixture; leave out what cannot hold where last bits are moved."""
    for item in items:
        needed = set(TOGETHER).intersection(getattr(item, "fixturenames", ()))
        if needed:  # one group: a test that is in two of them would run in either
            item.add_marker(pytest.mark.xdist_group("paper" if "paper" in needed else item.path.as_posix()))
        if SEED and item.get_closest_marker("bits"):
            item.add_marker(pytest.mark.skip(reason=f"{VARIABLE}: holds to the last bit only"))
