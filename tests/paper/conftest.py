"""The paper is run once for all tests that look at it, and by one of the workers."""

import fcntl
import os
import time
from pathlib import Path

import pytest

from steepen.paper import Report, reproduce


@pytest.fixture(scope="session")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Return the report on the whole paper; who comes second finds the items done."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with Path(shared, "paper.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        began = time.process_time()
        report = reproduce(shared / "paper")
        assert time.process_time() - began < 60  # of one core: whatever else the machine is doing
        return report
