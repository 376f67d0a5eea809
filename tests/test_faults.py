"""The list of planted faults stays alive: what it changes stands there once, and leaves sound Python."""

import ast

import pytest

from .faults.__main__ import FAULTS, ROOT


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.file}: {fault.promise}")
def test_a_fault_can_be_planted(fault):
    changed = fault.planted((ROOT / fault.path).read_text("utf-8"))
    if fault.path.suffix == ".py":
        ast.parse(changed)
    assert len(fault.promise) > 10
    assert all((ROOT / place.split("::")[0]).exists() for place in fault.near.split())


def test_there_are_enough_and_no_two_are_the_same():
    assert len({(fault.file, fault.old, fault.new) for fault in FAULTS}) == len(FAULTS) >= 120
