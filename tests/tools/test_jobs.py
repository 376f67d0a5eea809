"""Jobs: each done once, whoever dies."""

import contextlib
import json
import multiprocessing
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from steepen._tools.jobs import JobFile, run, unpack
from steepen._tools.jobs import file as module
from steepen._tools.jobs.file import read_head
from steepen._tools.jobs.lines import line_of

KEYS = [(i,) for i in range(12)]


def changed(path, statement, *values):
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        return database.execute(statement, values).fetchall()


def square(i):
    return {"square": i * i}


def values(done):
    found = list(done)
    assert len({one.key for one in found}) == len(found)  # none twice
    return {one.key: one.value.get("square") for one in found}


EXPECTED = {(i,): i * i for i in range(12)}


def test_arguments_are_made_when_a_job_is_sent():
    made = []

    def send(key):
        made.append(key[0])
        return (10 * key[0],)

    found = run(square, KEYS, send=send)
    assert next(found).value == {"square": 0}
    assert made == [0]
    assert len(list(found)) == 11


def test_a_job_that_raises_is_an_error_and_the_others_go_on():
    found = {one.key[0]: one for one in run(lambda i: {"x": 1 // (i - 5)}, KEYS)}
    assert found[5].error == "ZeroDivisionError: integer division or modulo by zero"
    assert [i for i, one in found.items() if one.error is None] == [i for i in range(12) if i != 5]


def deadly(i, mark):
    """Kill the worker: with 3 the first time, with 7 always."""
    if i == 7 or (i == 3 and not os.path.exists(mark)):
        if i == 3:
            Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return square(i)


@pytest.mark.filterwarnings("ignore")  # loky says that a worker stopped
def test_a_worker_that_dies_costs_its_own_job_alone(tmp_path):
    file = JobFile(tmp_path / "r.sqlite", ["i"])
    given = {"send": lambda key: (key[0], str(tmp_path / "mark")), "file": file}
    found = {one.key[0]: one for one in run(deadly, KEYS, workers=2, **given)}
    assert len(found) == 12
    assert {i for i, one in found.items() if one.error} == {7}
    assert all(found[i].value == square(i) for i in range(12) if i != 7)
    assert file.read()[7,] == {"i": 7, "error": "the worker died, 3 times"}


def test_what_cannot_be_sent_is_refused_by_name():
    lock = threading.Lock()
    assert len(list(run(lambda i: {"locked": lock.locked()}, KEYS))) == 12  # here it may hold anything
    with ThreadPoolExecutor(2) as threads:  # and here
        assert len(list(run(lambda i: {"locked": lock.locked()}, KEYS, workers=threads))) == 12
    with pytest.raises(ValueError, match=r"^workers: a job cannot be sent .*thread.lock.*of a module.*thr"):
        list(run(lambda i: {"locked": lock.locked()}, KEYS, workers=2))


def test_what_the_file_has_is_not_run_again_but_errors_are(tmp_path):
    file, ran = JobFile(tmp_path / "r.sqlite", ["i"]), []
    list(run(square, KEYS[:5], file=file))
    list(run(lambda i: {"square": 1 // 0}, KEYS[5:7], file=file))
    assert [i for (i,), record in file.read().items() if "error" in record] == [5, 6]

    def watched(i):
        ran.append(i)
        return square(i)

    again = JobFile(tmp_path / "r.sqlite", ["i"])
    assert values(run(watched, KEYS, file=again)) == EXPECTED
    assert ran == list(range(5, 12))
    assert len(changed(tmp_path / "r.sqlite", "SELECT * FROM jobs")) == 12
    assert not any("error" in record for record in file.read().values())


def test_columns_keep_every_bit(tmp_path):
    columns = {
        "f": np.array([0.1, -0.0, np.nan, np.inf, 5e-324]), "n": np.array([0, 1, 255, 65536, 2**40]),
        "s": np.array([0.1, 1.0, 2.0, 3.0, np.inf], np.float32), "every other": np.arange(10.0)[::2],
        "big": np.arange(5, dtype=">f8"),
    }  # fmt: skip
    JobFile(tmp_path / "r.sqlite", ["i"]).add((0,), {"columns": columns, 'a "name"': [1, None, {"b": True}]})
    record = JobFile(tmp_path / "r.sqlite", ["i"]).read()[0,]
    found = {name: unpack(one) for name, one in record["columns"].items()}
    for name, column in columns.items():
        np.testing.assert_array_equal(found[name], column)
    assert found["f"].tobytes() == columns["f"].tobytes()
    assert (found["n"].dtype, found["s"].dtype) == (np.uint64, np.float32)
    assert record['a "name"'] == [1, None, {"b": True}]


def test_a_record_that_has_changed_is_passed_over_and_spoils_no_other(tmp_path):
    path = tmp_path / "r.sqlite"
    file = JobFile(path, ["i"], {"study": 1})
    file.add((0,), {"square": 0})
    file.add((2,), {"square": 4})
    assert list(JobFile(path, ["i"], {"study": 1}).read()) == [(0,), (2,)]
    ((content,),) = changed(path, "SELECT content FROM jobs WHERE number = 2")
    assert content[4:] == b'{"i": 2, "square": 4}'
    changed(path, "UPDATE jobs SET content = ? WHERE number = 2", content.replace(b": 4", b": 5"))
    again = JobFile(path, ["i"], {"study": 1})
    assert (list(again.read()), again.damaged) == ([(0,)], 1)
    assert values(run(square, KEYS, file=again)) == EXPECTED  # it is made again


def test_an_error_does_not_replace_a_result(tmp_path):
    file = JobFile(tmp_path / "r.sqlite", ["i"])
    file.add((1,), {"error": "no luck"})
    file.add((1,), {"square": 1})
    file.add((1,), {"error": "of a slower process"})
    for one in (file, JobFile(tmp_path / "r.sqlite", ["i"])):
        assert one.read() == {(1,): {"i": 1, "square": 1}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (line_of({"steepen": "results 2", "study": 2}).decode(), r"study 2, not 1\. Choose another file"),
        ('{"study": 1}\n', "has the old format, without checksums; .* as of commit 4732399, reads it"),
        (line_of({"steepen": "results 3"}).decode(), "the format 'results 3' of a later steepen"),
        ("name,value\n", r"is not a results file\. It is left as it is$"),
    ],
)
def test_the_file_of_something_else_is_refused_and_left(tmp_path, text, words):
    path = tmp_path / "r.sqlite"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        JobFile(path, ["i"], {"study": 1})
    assert path.read_text() == text
    with pytest.raises(ValueError, match="out: there is no folder"):
        JobFile(tmp_path / "none" / "r.sqlite", ["i"])


def heavy_square(i):
    return {"square": i * i, "ballast": "x" * 5000}


@pytest.mark.parametrize("written", [0, 7, 9000])
def test_a_full_disk_loses_nothing_that_was_written(tmp_path, written):
    path = tmp_path / "r.sqlite"
    file = JobFile(path, ["i"])
    file.add((0,), {"square": 0})
    size, limits = path.stat().st_size, resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + written, limits[1]))  # the system cuts the write
    try:
        with pytest.raises(OSError, match=r"out: .*r.sqlite' cannot be written or read: "):
            list(run(heavy_square, KEYS, file=file))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    there = JobFile(path, ["i"]).read()
    assert list(there) == [(i,) for i in range(len(there))]  # what was written, up to the limit
    assert all(record["square"] == key[0] ** 2 for key, record in there.items())
    assert values(run(square, KEYS, file=file)) == EXPECTED


def test_the_database_of_something_else_or_of_another_version_is_refused_and_left(tmp_path):
    path = tmp_path / "r.sqlite"
    changed(path, "CREATE TABLE notes (text TEXT)")
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"^out: .* is an SQLite database of something else\. It is left"):
        JobFile(path, ["i"])
    assert path.read_bytes() == before
    other = tmp_path / "other.sqlite"
    JobFile(other, ["i"], {"study": 1})
    changed(other, "UPDATE about SET text = ?", '{"steepen": "results 4", "key": ["i"], "study": 1}')
    with pytest.raises(ValueError, match="has the format 'results 4' of another steepen; this one reads"):
        JobFile(other, ["i"], {"study": 1})
    JobFile(path.with_name("cut.sqlite"), ["i"], {"study": 1}).add((0,), {"square": 0})
    whole = path.with_name("cut.sqlite").read_bytes()
    path.with_name("cut.sqlite").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"^out: .*cut.sqlite' is"):
        JobFile(path.with_name("cut.sqlite"), ["i"]).read()


def test_of_two_processes_that_begin_a_file_the_first_describes_it(tmp_path):
    path = tmp_path / "r.sqlite"
    JobFile(path, ["i"], {"batches": [3]}, chosen=["batches"])
    assert JobFile(path, ["i"], {"batches": [5]}, chosen=["batches"]).about["batches"] == [3]
    assert read_head("out", path)["key"] == ["i"]


def test_a_claim_is_of_one_process_until_it_ends_or_is_not_renewed(tmp_path, monkeypatch):
    one, other = (JobFile(tmp_path / "r.sqlite", ["i"]) for _ in range(2))
    with one.claims() as mine, other.claims() as theirs:
        assert mine((1,))
        assert mine((1,))
        assert not theirs((1,))
        monkeypatch.setattr(
            module.socket, "gethostname", lambda: "another machine"
        )  # its processes are unknown
        assert not theirs((1,))
        later = time.time() + 2 * module.LEASE
        monkeypatch.setattr(module.time, "time", lambda: later)
        assert theirs((1,))
        assert not mine((1,))
    with one.claims() as mine:
        assert mine((1,))  # given back


def test_a_claim_is_renewed(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "RENEWED", 0.02)
    file = JobFile(tmp_path / "r.sqlite", ["i"])
    with file.claims() as claim:
        claim((1,))
        until = "SELECT until FROM claims"
        first, begun = changed(file.path, until), time.monotonic()
        while changed(file.path, until) <= first:
            assert time.monotonic() < begun + 30
            time.sleep(0.01)
    assert changed(file.path, until) == []


SCRIPT = """
import sys, time
from steepen._tools.jobs import JobFile, run

def slow(i):
    print("begun", flush=True)
    time.sleep(float(sys.argv[2]))
    return {"square": i * i, "by": sys.argv[3]}

list(run(slow, [(i,) for i in range(12)], file=JobFile(sys.argv[1], ["i"])))
"""


def process(path, seconds, name):
    command = [sys.executable, "-c", SCRIPT, str(path), str(seconds), name]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_several_processes_share_a_file_and_take_over_from_a_dead_one(tmp_path):
    path = tmp_path / "r.sqlite"
    with process(path, 3600, "dead") as dead:
        assert dead.stdout.readline() == "begun\n"
        with process(path, 0.02, "a") as a, process(path, 0.02, "b") as b:
            while len(JobFile(path, ["i"]).read()) < 11:  # all but the one that is claimed
                time.sleep(0.05)
            time.sleep(0.3)
            assert a.poll() is b.poll() is None  # they wait for it
            dead.kill()
            dead.wait()
            assert [one.wait(300) for one in (a, b)] == [0, 0]
    lines = [json.loads(content[4:]) for (content,) in changed(path, "SELECT content FROM jobs")]
    assert sorted(line["i"] for line in lines) == list(range(12))  # none lost, none twice
    assert {line["by"] for line in lines} <= {"a", "b"}


KILLED = """
import os, sys
from steepen._tools.jobs import JobFile

file = JobFile(sys.argv[1], ["i"])
for i in range(10**6):
    file.add((i,), {"square": i * i, "ballast": "x" * 20_000})
    print(i, flush=True)
"""


def test_a_kill_at_any_moment_leaves_whole_records(tmp_path):
    """Killed in the middle of a write, most likely: little else is done."""
    for round_ in range(3):
        path = tmp_path / f"{round_}.sqlite"
        command = [sys.executable, "-c", KILLED, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process_:
            for _ in range(3 + round_):
                process_.stdout.readline()
            process_.kill()
            rest = process_.stdout.read().split()
        file = JobFile(path, ["i"])
        found = list(file.read())
        assert file.damaged == 0
        assert found == [(i,) for i in range(len(found))]
        assert len(found) >= 3 + round_ + len(rest)
        assert values(run(square, [(10**6,)], file=file)) == {(10**6,): 10**12}


# --- on executors ------------------------------------------------------------------------------------------


def test_any_function_can_be_sent_to_any_executor():
    """Here a lambda, which Python's own processes do not take."""
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        found = list(run(lambda i: {"square": i * i, "by": os.getpid()}, KEYS, workers=pool))
    assert values(found) == EXPECTED
    assert os.getpid() not in {one.value["by"] for one in found}


def test_an_executor_gets_a_few_jobs_at_a_time():
    """Those that it has not got yet can be claimed by another process."""
    made = []

    def send(key):
        made.append(key[0])
        return key

    with ThreadPoolExecutor(2) as threads:
        found = run(square, [(i,) for i in range(100)], send=send, workers=threads)
        next(found)
        assert len(made) <= 4
        assert len(list(found)) == 99


class Dying(Executor):
    """Runs this many jobs, and is then broken."""

    def __init__(self, jobs):
        self.left = jobs

    def submit(self, function, /, *arguments):
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = Future()
        future.set_result(function(*arguments))
        return future


def test_where_the_executor_is_lost_what_was_done_is_kept(tmp_path):
    file = JobFile(tmp_path / "r.sqlite", ["i"])
    found = list(run(square, KEYS, file=file, workers=Dying(5)))
    assert len(found) == 12
    lost = [one for one in found if one.error]
    assert all(one.error.startswith("the executor runs nothing any more: RuntimeError") for one in lost)
    assert len(lost) >= 7
    again = JobFile(tmp_path / "r.sqlite", ["i"])
    assert len(again.read()) == 12 - len(lost)
    assert values(run(square, KEYS, file=again)) == EXPECTED


def test_what_is_no_executor_is_refused():
    for workers in (0, -2, 1.5, "four", True):
        with pytest.raises(ValueError, match=r"^workers: expected a number of processes, -1, an executor"):
            next(run(square, KEYS, workers=workers))
