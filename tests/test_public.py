"""Every public name has a docstring with an example; the doctests run with the rest of the tests."""

import importlib
import importlib.metadata
import inspect
import pkgutil
import subprocess
import sys

import pytest

import steepen


def public_modules():
    names = ["steepen"]
    for info in pkgutil.walk_packages(steepen.__path__, "steepen."):
        if not any(part.startswith("_") for part in info.name.split(".")):
            names.append(info.name)
    return names


def public_names():
    for name in public_modules():
        module = importlib.import_module(name)
        for attribute in getattr(module, "__all__", ()):
            value = getattr(module, attribute)
            if inspect.isclass(value) or inspect.isfunction(value):
                yield f"{name}.{attribute}", value


NAMES = dict(public_names())


@pytest.mark.parametrize("name", NAMES)
def test_has_a_docstring_with_an_example(name):
    text = inspect.getdoc(NAMES[name]) or ""
    assert text, f"{name} has no docstring"
    assert ">>>" in text, f"the docstring of {name} has no example"


@pytest.mark.parametrize("name", [name for name, value in NAMES.items() if inspect.isclass(value)])
def test_every_public_method_has_a_docstring(name):
    for attribute, value in vars(NAMES[name]).items():
        if not attribute.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
            assert inspect.getdoc(getattr(NAMES[name], attribute)), f"{name}.{attribute} has no docstring"


@pytest.mark.parametrize("name", public_modules())
def test_every_module_says_what_it_is(name):
    assert importlib.import_module(name).__doc__


def test_the_check_can_fail():
    def bare():
        pass

    assert ">>>" not in (inspect.getdoc(bare) or "")
    assert len(NAMES) > 60


def test_the_version_is_the_installed_one():
    assert steepen.__version__ == importlib.metadata.version("steepen")


def test_a_copy_that_was_never_installed_has_no_version(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert steepen.__version__ == "0+unknown"


def test_import_is_light():
    heavy = ["matplotlib", "jax", "torch", "pandas", "typer", "rich", "scipy.optimize", "scipy.sparse"]
    code = f"import sys, steepen; print(sorted(set({heavy}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
