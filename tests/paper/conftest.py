"""The paper is run once for all tests that look at it, and by one of the workers."""

import fcntl
import os
import time
from pathlib import Path

import numpy as np
import pytest

from steepen.paper import Report, reproduce

PROMISE = 60.0
"""Seconds of one core for the whole paper, on a core that has the pace below."""

PACE = 0.23


def pace() -> float:
    """Return the seconds that this core takes for some arithmetic: others on the machine may double them."""
    began, x = time.process_time(), np.ones(100)
    for _ in range(200_000):
        x = 0.999 * x + 0.001
    return time.process_time() - began


@pytest.fixture(scope="session")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Return the report on the whole paper; who comes second finds the items done."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with Path(shared, "paper.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before, began = pace(), time.process_time()
        report = reproduce(shared / "paper")
        took = time.process_time() - began
        slower = max(1.0, (before + pace()) / 2 / PACE)
        assert took < PROMISE * slower
        return report
