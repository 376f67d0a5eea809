"""Faults of the part `jax` of the suite (conftest.py)."""

from . import Fault

FAULTS: tuple[Fault, ...] = ()
