"""What all tests need: the parts of the suite, what is slow, the same examples every time."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from tests.pairs import WHOLE
from tests.rounding import SEED, VARIABLE, perturb

import steepen  # noqa: F401  first: an example run by itself would else import its module a second time

# The same examples every time, and no clock: whether a change lands is not a matter of luck, nor of how busy
# a machine is. To explore, set HYPOTHESIS_PROFILE=default.
settings.register_profile("steady", derandomize=True, deadline=None, max_examples=100 if WHOLE else 25)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

# Before JAX begins: three devices on one CPU, and programs that are compiled quickly rather than well, since
# to optimise them would take longer than to run them as they are.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=3")
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

ROOT = Path(__file__).parent

PARTS = {
    "torch": (
        "tests/torch", "tests/train", "tests/training", "tests/integrations/botorch",
        "tests/integrations/test_transformers.py", "tests/integrations/test_lightning.py",
        "tests/integrations/test_gest_hosts.py", "tests/by_hand.py",
        "src/steepen/torch", "src/steepen/train",
        *(f"src/steepen/integrations/{name}" for name in ("botorch", "transformers.py", "lightning.py")),
        "src/steepen/integrations/_ascent_loop.py", "docs/training.md", "docs/guide.md",
        "docs/cgd.md", "docs/from-the-paper.md",
    ),
    "jax": (
        "tests/jax", "tests/optax", "src/steepen/jax",
        "src/steepen/integrations/optimistix.py", "src/steepen/optax", "docs/jax.md", "docs/jax_examples.md",
        "docs/optax.md",
    ),
    "paper": (
        "tests/paper", "tests/explorer", "tests/bench", "tests/cli", "tests/sweep", "tests/tools",
        "tests/test_plot.py",
        "src/steepen/paper", "src/steepen/explorer", "src/steepen/cli",
        "src/steepen/plot", "src/steepen/_sweep", "src/steepen/_tools/jobs",
    ),
}  # fmt: skip
"""Which files run in a process of their own, so that torch and JAX are imported once; the others are `core`.

Files whose part is named after a package are left out, with a word in the header, where it is not installed.
"""


def part_of(path: Path) -> str:
    """Return the part of the suite that a file belongs to."""
    here = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    for part, places in PARTS.items():
        if any(here == Path(place) or Path(place) in here.parents for place in places):
            return part
    return "core"


MISSING = [name for name in ("torch", "jax") if importlib.util.find_spec(name) is None]
NO_GEST = importlib.util.find_spec("gest_api") is None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--part`."""
    parser.addoption("--part", choices=[*PARTS, "core"], help="run one part of the suite (see conftest.py)")


def pytest_report_header() -> list[str]:
    """Say what is left out for want of a package."""
    missing = [*MISSING, *(["gest"] if NO_GEST else [])]
    return [
        f"{name} is not installed, its tests are left out: pip install 'steepen[{name}]'" for name in missing
    ]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files and folders of other parts, and of packages that are not there."""
    part, wanted = part_of(collection_path), config.getoption("--part")
    if NO_GEST and collection_path == ROOT / "src" / "steepen" / "integrations" / "gest.py":
        return True
    if part == "core" and collection_path.is_dir():  # it may hold others
        return None
    return True if part in MISSING or (wanted and part != wanted) else None


def heavy(config: pytest.Config) -> set[str]:
    """Return what the tests of the core have imported and should not: they are to take seconds."""
    return {"torch", "jax"} & set(sys.modules) if config.getoption("--part") == "core" else set()


@pytest.hookimpl(tryfirst=True)  # before the summary is written
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where the core's tests have imported torch or JAX."""
    if heavy(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say so."""
    for name in sorted(heavy(config)):
        terminalreporter.write_line(f"FAILED: the tests of the core have imported {name}")


@pytest.fixture(autouse=True, scope="session")
def interruptible() -> Iterator[None]:
    """Set Python's own handler of Ctrl-C: a runner in the background of a shell ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


if SEED:
    perturb()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is slow unless asked for, and what cannot hold where last bits are moved."""
    slow = [item for item in items if item.get_closest_marker("slow") and not WHOLE]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]
    for item in items:
        if SEED and item.get_closest_marker("bits"):
            item.add_marker(pytest.mark.skip(reason=f"{VARIABLE}: holds to the last bit only"))
