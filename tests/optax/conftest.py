"""Programs that are compiled quickly rather than well, and three devices on one CPU, as for `steepen.jax`."""

import os
from collections.abc import Iterator

import pytest

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=3")  # before JAX begins


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    import jax

    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
