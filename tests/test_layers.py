"""Imports go one way: no module imports from a layer above its own, not even inside a function."""

import ast
from pathlib import Path

import steepen

HOME = Path(steepen.__file__).parent

LAYERS = (
    ("_tools",),
    ("_core", "budget", "functions"),
    ("_evaluation", "penalties", "schedules", "switches", "theory", "optax"),
    ("directions", "steps", "plot", "torch", "_table1"),
    ("_solver", "train"),
    ("_call", "jax"),
    ("_sweep", "paper", "integrations"),
    ("", "cli", "__main__"),  # steepen itself, the public names; and the command
)
"""From the bottom to the top. Layers name files and folders directly below steepen."""

HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}


MODULES = {
    ".".join(part for part in path.relative_to(HOME).with_suffix("").parts if part != "__init__"): path
    for path in sorted(HOME.rglob("*.py"))
}
"""Every module, named from below steepen: `_core.arrays`, `paper`, and "" for steepen itself."""


def imported(name, source, *, package):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = ["steepen", *filter(None, name.split("."))]
                parts = parts[: len(parts) - node.level + package]
                base = ".".join([*parts, *filter(None, [base])])
            targets = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for target in targets:
            if target.split(".")[0] == "steepen":
                inner = target.split(".")[1:]
                while ".".join(inner) not in MODULES:  # a name in a module, and not a module
                    inner.pop()
                yield ".".join(inner)


IMPORTS = [
    (name, target)
    for name, path in MODULES.items()
    for target in imported(name, path.read_text("utf-8"), package=path.name == "__init__.py")
]


def test_every_module_has_a_layer():
    assert {name.split(".")[0] for name in MODULES} == set(HEIGHT)


def test_nothing_imports_upwards():
    height = lambda name: HEIGHT[name.split(".")[0]]  # noqa: E731
    assert [pair for pair in IMPORTS if height(pair[1]) > height(pair[0])] == []


def test_only_its_command_imports_the_paper_which_the_wheel_leaves_out():
    users = {name for name, target in IMPORTS if target.split(".")[0] == "paper"}
    assert {name for name in users if name.split(".")[0] != "paper"} == {"cli._commands"}
