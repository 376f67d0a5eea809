"""The public names that need neither torch nor JAX, the version, and what an import brings along."""

import importlib.metadata
import subprocess
import sys

import steepen

from .public import Documented


class TestCore(Documented):
    part = "core"


def test_the_version_is_the_installed_one(monkeypatch):
    assert steepen.__version__ == importlib.metadata.version("steepen")

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert steepen.__version__ == "0+unknown"  # of a copy that was never installed


def test_import_is_light():
    heavy = ["matplotlib", "jax", "torch", "pandas", "typer", "rich", "scipy.optimize", "scipy.sparse"]
    heavy += ["sklearn"]
    code = f"import sys, steepen as st; st.functions['levy']; print(set({heavy}) & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
