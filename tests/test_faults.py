"""The list of planted faults stays alive: what it changes stands there once, and leaves sound Python."""

import ast
import json

import pytest

from .faults.__main__ import FAULTS, NOTED, ROOT

SEEN = json.loads(NOTED.read_text("utf-8"))


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_can_be_planted(fault):
    changed = fault.planted((ROOT / fault.path).read_text("utf-8"))
    if fault.path.suffix == ".py":
        ast.parse(changed)
    assert len(fault.promise) > 10
    file, _, name = SEEN.get(fault.promise, "tests/test_faults.py").partition("::")
    assert name.rpartition("::")[2].rpartition(".")[2] in (ROOT / file).read_text("utf-8")


def test_there_are_enough_and_no_two_are_the_same():
    assert len({(fault.file, fault.old, fault.new) for fault in FAULTS}) == len(FAULTS) >= 120
    assert len({fault.promise for fault in FAULTS}) == len(FAULTS)
    assert set(SEEN) <= {fault.promise for fault in FAULTS}
