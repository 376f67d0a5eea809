"""Jobs: each done once, whoever dies."""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from steepen._tools.jobs import JobFile, run, unpack
from steepen._tools.jobs.file import sealed

KEYS = [(i,) for i in range(12)]


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
    file = JobFile(tmp_path / "r.jsonl", ["i"])
    given = {"send": lambda key: (key[0], str(tmp_path / "mark")), "file": file}
    found = {one.key[0]: one for one in run(deadly, KEYS, jobs=2, **given)}
    assert len(found) == 12
    assert {i for i, one in found.items() if one.error} == {7}
    assert all(found[i].value == square(i) for i in range(12) if i != 7)
    assert file.read()[7,] == {"i": 7, "error": "the worker died, 3 times"}


def test_what_cannot_be_sent_is_refused_by_name():
    lock = threading.Lock()
    assert len(list(run(lambda i: {"locked": lock.locked()}, KEYS))) == 12  # here it may hold anything
    with pytest.raises(ValueError, match=r"^jobs: a job cannot be sent .*thread.lock.*of a module.*jobs=1"):
        list(run(lambda i: {"locked": lock.locked()}, KEYS, jobs=2))


def test_what_the_file_has_is_not_run_again_but_errors_are(tmp_path):
    file, ran = JobFile(tmp_path / "r.jsonl", ["i"]), []
    list(run(square, KEYS[:5], file=file))
    list(run(lambda i: {"square": 1 // 0}, KEYS[5:7], file=file))
    assert [i for (i,), record in file.read().items() if "error" in record] == [5, 6]

    def watched(i):
        ran.append(i)
        return square(i)

    again = JobFile(tmp_path / "r.jsonl", ["i"])
    assert values(run(watched, KEYS, file=again)) == EXPECTED
    assert ran == list(range(5, 12))
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == 1 + 12 + 2
    assert not any("error" in record for record in file.read().values())


def test_columns_keep_every_bit(tmp_path):
    columns = {
        "f": np.array([0.1, -0.0, np.nan, np.inf, 5e-324]), "n": np.array([0, 1, 255, 65536, 2**40]),
        "s": np.array([0.1, 1.0, 2.0, 3.0, np.inf], np.float32), "every other": np.arange(10.0)[::2],
        "big": np.arange(5, dtype=">f8"),
    }  # fmt: skip
    JobFile(tmp_path / "r.jsonl", ["i"]).add((0,), {"columns": columns, 'a "name"': [1, None, {"b": True}]})
    record = JobFile(tmp_path / "r.jsonl", ["i"]).read()[0,]
    found = {name: unpack(one) for name, one in record["columns"].items()}
    for name, column in columns.items():
        np.testing.assert_array_equal(found[name], column)
    assert found["f"].tobytes() == columns["f"].tobytes()
    assert (found["n"].dtype, found["s"].dtype) == (np.uint64, np.float32)
    assert record['a "name"'] == [1, None, {"b": True}]


def test_half_a_line_is_passed_over_and_spoils_no_other(tmp_path):
    path = tmp_path / "r.jsonl"
    file = JobFile(path, ["i"], {"study": 1})
    file.add((0,), {"square": 0})
    assert path.read_text() == (
        '{"steepen": "results 2", "key": ["i"], "study": 1, "crc": "9ea4cbb0"}\n'
        '{"i": 0, "square": 0, "crc": "6c313528"}\n'
    )
    with path.open("a") as stream:
        stream.write('{"i": 1, "squ')
    assert list(JobFile(path, ["i"], {"study": 1}).read()) == [(0,)]
    file.add((2,), {"square": 4})
    for one in (file, JobFile(path, ["i"], {"study": 1})):
        assert list(one.read()) == [(0,), (2,)]
    path.write_text(path.read_text().replace('"square": 4', '"square": 5'))  # a bit that has fallen over
    assert list(JobFile(path, ["i"], {"study": 1}).read()) == [(0,)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (sealed('{"steepen": "results 2", "study": 2}').decode(), r"study 2, not 1\. Choose another file"),
        ('{"study": 1}\n', "has the old format, without checksums; .* as of commit 4732399, reads it"),
        (sealed('{"steepen": "results 3"}').decode(), "the format 'results 3' of a later steepen"),
        ("name,value\n", r"is not a results file\. It is left as it is$"),
    ],
)
def test_the_file_of_something_else_is_refused_and_left(tmp_path, text, words):
    path = tmp_path / "r.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        JobFile(path, ["i"], {"study": 1})
    assert path.read_text() == text
    with pytest.raises(ValueError, match="out: there is no folder"):
        JobFile(tmp_path / "none" / "r.jsonl", ["i"])


@pytest.mark.parametrize("written", [0, 7])
def test_a_full_disk_loses_nothing_that_was_written(tmp_path, written):
    path = tmp_path / "r.jsonl"
    file = JobFile(path, ["i"])
    file.add((0,), {"square": 0})
    before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + written, limits[1]))  # the system cuts the write
    try:
        with pytest.raises(OSError, match="File too large"):
            list(run(square, KEYS, file=file))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert values(run(square, KEYS, file=file)) == EXPECTED


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
    path = tmp_path / "r.jsonl"
    with process(path, 3600, "dead") as dead:
        assert dead.stdout.readline() == "begun\n"
        with process(path, 0.02, "a") as a, process(path, 0.02, "b") as b:
            while len(JobFile(path, ["i"]).read()) < 11:  # all but the one that is claimed
                time.sleep(0.05)
            time.sleep(0.3)
            assert a.poll() is b.poll() is None  # they wait for it
            dead.kill()
            assert [one.wait(300) for one in (a, b)] == [0, 0]
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    assert sorted(line["i"] for line in lines) == list(range(12))  # none lost, none twice
    assert {line["by"] for line in lines} <= {"a", "b"}
