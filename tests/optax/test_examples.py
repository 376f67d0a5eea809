"""The examples run and learn."""

import importlib.util
import warnings
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NEEDS = {"linen": "flax", "nnx": "flax", "equinox": "equinox"}


def load(name, needs):
    """Import an example, if what it needs is there."""
    with warnings.catch_warnings(action="ignore"):  # what other libraries say while they are imported
        pytest.importorskip(needs)
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NEEDS)
def test_it_learns_in_less_than_forty_lines(name):
    assert load(f"optax_{name}", NEEDS[name]).main() > 0.8
    assert len((EXAMPLES / f"optax_{name}.py").read_text("utf-8").splitlines()) < 40
