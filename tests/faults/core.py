"""Faults of the part `core` of the suite (conftest.py)."""

from . import Fault

FAULTS: tuple[Fault, ...] = ()
