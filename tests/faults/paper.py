"""Faults of the part `paper` of the suite (conftest.py)."""

from . import Fault

FAULTS: tuple[Fault, ...] = ()
