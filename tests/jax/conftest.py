"""Doubles, programs that are compiled quickly rather than well, and three devices on one CPU."""

import os

import pytest

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=3")  # before JAX begins


@pytest.fixture(autouse=True)
def double():
    """Trace in float64; to optimise the programs would take longer than to run them as they are."""
    import jax

    jax.config.update("jax_disable_most_optimizations", True)
    with jax.enable_x64(True):
        yield
    jax.config.update("jax_disable_most_optimizations", False)
