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


@pytest.fixture
def compiled():
    """Return a list that grows with every program that is compiled."""
    import jax

    found = []

    def listen(name, seconds, **more):
        if name == "/jax/core/compile/backend_compile_duration":
            found.append(name)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield found
    jax.monitoring.unregister_event_duration_listener(listen)
