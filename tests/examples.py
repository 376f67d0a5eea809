"""The examples of the repository, as modules."""

import importlib.util
import warnings
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name, needs):
    with warnings.catch_warnings(action="ignore"):  # what other libraries say while they are imported
        pytest.importorskip(needs)
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module
