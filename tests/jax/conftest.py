"""Doubles, and which programs are compiled."""

import pytest


@pytest.fixture(autouse=True)
def double():
    """Trace in float64."""
    import jax

    with jax.enable_x64(True):
        yield


@pytest.fixture
def compiled():
    """Return a list that grows with the name of every program that is compiled."""
    import jax

    found = []

    def listen(name, seconds, **more):
        if name == "/jax/core/compile/backend_compile_duration":
            found.append(more["fun_name"])

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield found
    jax.monitoring.unregister_event_duration_listener(listen)
