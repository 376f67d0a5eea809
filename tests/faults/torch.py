"""Faults of the part `torch` of the suite (conftest.py)."""

from . import Fault

FAULTS: tuple[Fault, ...] = ()
