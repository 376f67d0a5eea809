"""Imports go one way: no module imports from a layer above its own, not even inside a function."""

import ast
import subprocess
import sys
from pathlib import Path

import steepen

HOME = Path(steepen.__file__).parent

LAYERS = (
    ("_tools", "status"),
    ("budget", "arrays"),
    ("trace", "questions", "schedules", "penalties", "switches", "tolerances", "functions", "_core"),
    ("result", "vectors", "inverse", "theory", "_table1"),
    ("space", "callables", "tensors", "differences", "plot", "torch"),
    ("problem", "autodiff", "train"),
    ("roundoff", "gradient_check", "endings", "methods"),
    ("steps",),
    ("run",),
    ("objective",),
    ("scale",),
    ("drivers", "outcome"),
    ("covariance",),
    ("_call", "jax", "optax"),
    ("_sweep", "paper", "integrations"),
    ("", "cli", "__main__"),  # steepen itself, the public names; and the command
)
"""From the bottom to the top. Layers name files and folders directly below steepen."""

HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}


MODULES = {
    ".".join(part for part in path.relative_to(HOME).with_suffix("").parts if part != "__init__"): path
    for path in sorted(HOME.rglob("*.py"))
}
"""Every module, named from below steepen: `methods.auto`, `paper`, and "" for steepen itself."""


def run_nodes(node):
    """Yield the parts of a module that are run: all but what is for types only."""
    for child in ast.iter_child_nodes(node):
        if (
            isinstance(child, ast.If)
            and isinstance(child.test, ast.Name)
            and child.test.id == "TYPE_CHECKING"
        ):
            continue
        yield child
        yield from run_nodes(child)


def imported(name, source, *, package):
    for node in run_nodes(ast.parse(source)):
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


def top(name):
    return name.split(".")[0]


def test_every_module_has_a_layer():
    assert {top(name) for name in MODULES} == set(HEIGHT)


def test_nothing_imports_upwards():
    assert [pair for pair in IMPORTS if HEIGHT[top(pair[1])] > HEIGHT[top(pair[0])]] == []


def test_modules_of_one_layer_do_not_import_one_another_in_a_circle():
    """Which file to read first can then be said."""
    inner = {}
    for name, target in IMPORTS:
        if name != target and target and not name.startswith(f"{target}."):  # a folder and its files
            inner.setdefault(name, set()).add(target)
    done, path = set(), []

    def visit(name):
        if name in path:
            raise AssertionError(" -> ".join([*path[path.index(name) :], name]))
        if name not in done:
            path.append(name)
            for target in sorted(inner.get(name, ())):
                if not target.startswith(f"{name}."):
                    visit(target)
            path.pop()
            done.add(name)

    for name in MODULES:
        visit(name)


RUN = (
    "run",
    "methods",
    "steps",
    "switches",
    "space",
    "differences",
    "endings",
    "roundoff",
    "problem",
    "questions",
)


def test_a_run_knows_nothing_of_what_drives_it():
    above = ("drivers", "_call", "objective", "outcome", "callables", "budget")
    assert [pair for pair in IMPORTS if top(pair[0]) in RUN and top(pair[1]) in above] == []


def test_methods_steps_and_differences_know_nothing_of_one_another():
    """A step is chosen along a direction, whoever has made it."""
    kinds = {"methods", "steps", "differences", "run"}
    apart = [
        pair for pair in IMPORTS if {top(pair[0]), top(pair[1])} <= kinds and top(pair[0]) != top(pair[1])
    ]
    assert {(top(name), target) for name, target in apart if top(name) != "run"} <= {
        ("steps", "differences.tuning")  # a number
    }


def is_traced(name):
    return top(name) in ("jax", "optax") or name == "integrations.optimistix"


def test_what_jax_traces_and_the_plain_run_meet_at_few_places():
    """They share constants and formulas; only what a program has left open is made by the plain run."""
    driven = {name for name, target in IMPORTS if is_traced(name) and top(target) in ("drivers", "problem")}
    assert driven == set()
    plain = {name for name, target in IMPORTS if is_traced(name) and target == "_call.solve"}
    assert plain == {"jax._continued"}
    others = {name for name, target in IMPORTS if top(target) in ("jax", "optax") and not is_traced(name)}
    assert others <= {"_call.minimize", "_sweep.sweep", "_sweep.grid"}  # where an engine is chosen


def test_only_its_command_imports_the_paper():
    users = {name for name, target in IMPORTS if top(target) == "paper"}
    assert {name for name in users if top(name) != "paper"} == {"cli._commands"}


def test_importing_steepen_loads_numpy_and_nothing_heavy():
    code = (
        "import sys, steepen as st\n"
        "st.minimize(lambda x: x @ x, [1.0, 2.0])\n"
        "heavy = 'torch jax scipy.optimize scipy.sparse matplotlib pandas typer joblib sklearn'\n"
        "print([name for name in heavy.split() if name in sys.modules])\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout == "[]\n"
