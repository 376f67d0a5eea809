"""Plant the faults one by one and say which tests see them.

For a fault the tests that belong to its file run first, then the parts of the suite (conftest.py) one after
the other; the first test that fails ends it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from . import Fault, core, jax, methods, paper, torch

OPTIONS = ("-x", "--tb=no", "-p", "no:cacheprovider", "--ignore=tests/test_faults.py")
ROOT = Path(__file__).parent.parent.parent
FAULTS: tuple[Fault, ...] = core.FAULTS + methods.FAULTS + paper.FAULTS + jax.FAULTS + torch.FAULTS


def nearest(fault: Fault, root: Path) -> list[str]:
    """Return the tests that belong to a fault's file: those it names, or the folder or file of its path."""
    if fault.near:
        return fault.near.split()
    room = fault.file.split("/")[0].removesuffix(".py").lstrip("_")
    found = [f"tests/{room}", f"tests/test_{room}.py", f"src/steepen/{fault.file}"]
    return [place for place in found if (root / place).exists()]


class Seen(NamedTuple):
    """The first test that saw a fault, if any did, and the seconds that it took."""

    fault: Fault
    test: str
    seconds: float


def look(fault: Fault, root: Path, *, whole: bool) -> Seen:
    """Plant a fault below `root`, run the tests until one fails, and mend it."""
    began = time.perf_counter()
    path = root / fault.path
    before = path.read_text("utf-8")
    path.write_text(fault.planted(before), "utf-8")
    shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)  # a change within a second may go unseen
    environment = {
        **os.environ,
        "PYTHONPATH": str(root / "src"),
        "OPENBLAS_NUM_THREADS": "1",
        **({"STEEPEN_TEST_ALL": "1"} if whole else {}),
    }
    try:
        for places in (
            nearest(fault, root),
            *([f"--part={part}"] for part in ("core", "paper", "jax", "torch")),
        ):
            if not places:
                continue
            ran = subprocess.run(
                [sys.executable, "-m", "pytest", *OPTIONS, *places],
                cwd=root, env=environment, capture_output=True, text=True, check=False,
            )  # fmt: skip
            if ran.returncode == 4:  # a place that is not there would pass for a test that fails
                raise ValueError(ran.stderr)
            if ran.returncode not in (0, 5):  # 5: there was no test
                named = re.findall(r"^(?:FAILED|ERROR) (\S+)", ran.stdout, re.MULTILINE)
                test = named[0] if named else (ran.stdout + ran.stderr).strip().splitlines()[-1]
                return Seen(fault, test, time.perf_counter() - began)
        return Seen(fault, "", time.perf_counter() - began)
    finally:
        path.write_text(before, "utf-8")
        shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)


def copy(to: Path) -> Path:
    """Copy what git knows of the repository, as it is now."""
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    for name in names.splitlines():
        if (ROOT / name).exists():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)
    return to


def hunt(chosen: list[Fault], jobs: int, *, whole: bool = False) -> Iterator[Seen]:
    """Look for each of these faults, in copies that some processes share."""
    with tempfile.TemporaryDirectory(prefix="faults-") as home, ThreadPoolExecutor(jobs) as pool:
        free: SimpleQueue[Path] = SimpleQueue()
        for i in range(jobs):
            free.put(copy(Path(home, str(i))))

        def task(fault: Fault) -> Seen:
            root = free.get()
            try:
                return look(fault, root, whole=whole)
            finally:
                free.put(root)

        yield from pool.map(task, chosen)


def main() -> int:
    """Plant the faults that were asked for; fail if too many go unseen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-k", default="", help="a part of the file or the promise of those to plant")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="plant every n-th only")
    parser.add_argument("--whole", action="store_true", help="let all tests look, the slow ones too")
    parser.add_argument("--least", type=float, default=100, help="fail if fewer per cent are seen")
    given = parser.parse_args()
    chosen = [fault for fault in FAULTS if given.k in f"{fault.file} {fault.promise}"][:: given.every]
    unseen = 0
    for seen in hunt(chosen, given.jobs, whole=given.whole):
        unseen += not seen.test
        print(f"{seen.fault.file}: {seen.fault.promise}", flush=True)
        print(f"    {seen.test or 'SEEN BY NONE'} ({seen.seconds:.0f} s)", flush=True)
    print(f"{len(chosen) - unseen} of {len(chosen)} planted faults were seen")
    return 1 if unseen > (1 - given.least / 100) * len(chosen) or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
