"""Plant the faults one by one and say which tests see them.

For a fault the test that saw it last is run first, then those that belong to its file, the slow ones last,
then the parts of the suite (conftest.py) one after the other; the first test that fails ends it.
"""

from __future__ import annotations

import argparse
import json
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
PARTS = ("core", "paper", "jax", "torch")
FAULTS: tuple[Fault, ...] = core.FAULTS + methods.FAULTS + paper.FAULTS + jax.FAULTS + torch.FAULTS
NOTED = Path(__file__).with_name("seen.json")
LONGEST = 1800
"""The seconds after which tests that do not end have seen a fault."""


def nearest(fault: Fault, root: Path) -> list[str]:
    """Return the tests that belong to a fault's file: the folder or file of its path, and its examples."""
    room = fault.file.removeprefix("benchmarks/").split("/")[0].removesuffix(".py").lstrip("_")
    found = [f"tests/{room}", f"tests/test_{room}.py"]
    if fault.file.endswith(".py"):
        found.append(str(fault.path))
    return [place for place in found if (root / place).exists()]


class Seen(NamedTuple):
    """The first test that saw a fault, if any did, whether it is a slow one, and the seconds that it took."""

    fault: Fault
    test: str
    slow: bool
    seconds: float


def failed(root: Path, *arguments: str, slow: bool = False) -> str:
    """Return the first test that fails below `root`, or nothing."""
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "OPENBLAS_NUM_THREADS": "1"}
    if slow:
        environment["STEEPEN_TEST_ALL"] = "1"
        arguments += ("-m", "slow")
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", *OPTIONS, *arguments],
            cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=LONGEST,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"no end after {LONGEST} s"
    if ran.returncode in (0, 4, 5):  # 4: no such test (any more); 5: none was chosen
        return ""
    named = re.findall(r"^(?:FAILED|ERROR) (\S+)", ran.stdout, re.MULTILINE)
    return named[0] if named else (ran.stdout + ran.stderr).strip().splitlines()[-1]


def look(fault: Fault, root: Path, noted: str, *, near: bool) -> Seen:
    """Plant a fault below `root`, run the tests until one fails, and mend it."""
    began = time.perf_counter()
    path = root / fault.path
    before = path.read_text("utf-8")
    path.write_text(fault.planted(before), "utf-8")
    shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)  # a change within a second may go unseen
    try:
        for places in filter(None, (noted.split(), nearest(fault, root))):
            for slow in (False, True):
                if test := failed(root, *places, slow=slow):
                    return Seen(fault, test, slow, time.perf_counter() - began)
        parts = () if near else PARTS
        test = next(filter(None, (failed(root, f"--part={part}") for part in parts)), "")
        return Seen(fault, test, False, time.perf_counter() - began)
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


def hunt(chosen: list[Fault], jobs: int, noted: dict[str, str], *, near: bool = False) -> Iterator[Seen]:
    """Look for each of these faults, in copies that some processes share."""
    with tempfile.TemporaryDirectory(prefix="faults-") as home, ThreadPoolExecutor(jobs) as pool:
        free: SimpleQueue[Path] = SimpleQueue()
        for i in range(jobs):
            free.put(copy(Path(home, str(i))))

        def task(fault: Fault) -> Seen:
            root = free.get()
            try:
                return look(fault, root, noted.get(fault.promise, ""), near=near)
            finally:
                free.put(root)

        yield from pool.map(task, chosen)


def main() -> int:
    """Plant the faults that were asked for; fail if one goes unseen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-k", default="", help="a part of the file or the promise of those to plant")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="plant every n-th only")
    parser.add_argument("--near", action="store_true", help="let only the tests of its file look")
    parser.add_argument("--note", action="store_true", help="write into seen.json which test saw each")
    given = parser.parse_args()
    chosen = [fault for fault in FAULTS if given.k in str(fault)][:: given.every]
    if not chosen:
        parser.error(f"-k {given.k}: no planted fault has that in its file or promise")
    noted: dict[str, str] = json.loads(NOTED.read_text("utf-8"))
    unseen = slow = 0
    asked = sorted({test for fault in chosen if (test := noted.get(fault.promise))})
    with tempfile.TemporaryDirectory(prefix="faults-") as home:
        for slow_ones in (False, True):
            if test := failed(copy(Path(home)), *asked, slow=slow_ones):
                parser.error(f"{test} fails without a fault, so it sees none")
    for seen in hunt(chosen, given.jobs, noted, near=given.near):
        unseen += not seen.test
        slow += seen.slow
        noted[seen.fault.promise] = seen.test.partition("[")[0]
        print(f"{seen.fault}\n    {seen.test or 'SEEN BY NONE'} ({seen.seconds:.0f} s)", flush=True)
    if given.note:
        kept = {fault.promise: test for fault in FAULTS if (test := noted.get(fault.promise))}
        NOTED.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"{len(chosen) - unseen} of {len(chosen)} planted faults were seen, {slow} by slow tests only")
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
