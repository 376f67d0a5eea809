"""A checkpoint that somebody edited is refused in words, or goes on as if nobody had."""

import io
import json
import random
import tracemalloc
import zipfile
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import steepen as st
from steepen._core.records import Best, Carry, Ended, Move, Point
from steepen._run.checkpoint import _fingerprint
from steepen.directions._pairs import Pairs
from steepen.directions.auto import Learnt

from ..pairs import WHOLE
from ..results import same
from .test_checkpoint import MANY, ONE, f, g, npz, run

CASES: dict[str, dict[str, Any]] = {
    "cgd-fd": {"trace": "x"},
    "cgd-fd, rows ended": {"x0": MANY, "trace": "x"},
    "cgd-auto": {"method": "cgd-auto", "step": None},
    "cgd-auto, rows ended": {"method": "cgd-auto", "step": None, "x0": MANY},
    "bfgs": {"method": "bfgs", "x0": ONE.astype(np.float32)},
    "bfgs, rows ended": {"method": "bfgs", "step": None, "x0": MANY, "trace": False},
    "cgd, complex step": {"method": "cgd", "lam": 0.01},
    "2-point": {"method": "gd", "step": None, "jac": "2-point"},
    "f and g together": {"method": "gd", "fun": lambda x: (f(x), g(x)), "jac": True, "x0": MANY},
}
NOT_WHOLE = "is not a whole steepen checkpoint"


@cache
def written(name: str) -> tuple[dict[str, Any], st.Result]:
    """Return the arrays of a checkpoint, and the result of the run that was not cut."""
    with TemporaryDirectory() as folder:
        run(iters=6, checkpoint=Path(folder, "run.npz"), **CASES[name])
        with np.load(Path(folder, "run.npz")) as file:
            return {key: file[key] for key in file.files}, run(**CASES[name])


class Case:
    """A real checkpoint, and how the run ends that was not cut."""

    def __init__(self, name: str, path: Path):
        self.given, self.path = CASES[name], path
        self.arrays, self.whole = written(name)

    def resume(self, data: bytes, what: str) -> Any:
        """Go on from a file; give the result, or the words in which it was refused."""
        self.path.write_bytes(data)
        try:
            return run(checkpoint=self.path, **self.given)
        except st.CheckpointError as error:
            return str(error)
        except BaseException as error:
            error.add_note(what)
            raise

    def refused_or_the_same(self, data: bytes, what: str) -> str:
        """Go on from a file; give the words in which it was refused, or none if the run is the whole one."""
        found = self.resume(data, what)
        if isinstance(found, str):
            return found
        same(found, self.whole)
        return ""

    def forged(self, arrays: dict[str, Any]) -> bytes:
        """Make a file whose fingerprints are those of its arrays, whatever these are."""
        header = json.loads(str(self.arrays["header"]))
        rest = {name: value for name, value in arrays.items() if name != "header"}
        header["arrays"] = {name: _fingerprint(value) for name, value in rest.items()}
        return npz(header=np.array(json.dumps(header)), **rest)


@pytest.fixture(params=CASES)
def case(request, tmp_path):
    return Case(request.param, tmp_path / "run.npz")


@pytest.fixture
def plain(tmp_path):
    return Case("cgd-fd", tmp_path / "run.npz")


EDITS: dict[str, Any] = {
    "float32": lambda a: a.astype(np.float32), "float64": lambda a: a.astype(np.float64),
    "int64": lambda a: a.astype(np.int64), "bool": lambda a: a.astype(bool), "text": lambda a: a.astype(str),
    "records": lambda a: np.zeros(a.shape, dtype=[("a", "f8"), ("b", "i4")]),
    "byte order": lambda a: a.astype(a.dtype.newbyteorder()),
    "layout": lambda a: np.asfortranarray(a) if a.flags.c_contiguous else np.ascontiguousarray(a),
    "rank + 1": lambda a: a[None], "rank - 1": lambda a: a[0], "nothing": lambda a: np.empty(0),
    "shorter": lambda a: a[:-1], "longer": lambda a: np.append(a, a[-1:], 0), "backwards": lambda a: a[::-1],
    "a last bit": lambda a: np.nextafter(a, np.inf, dtype=a.dtype), "negative": lambda a: -1 - abs(a),
    "turned off": lambda a: ~a, "zero": np.zeros_like, "nan": lambda a: np.full_like(a, np.nan),
    "inf": lambda a: np.full_like(a, np.inf), "huge": lambda a: np.full_like(a, 2**62),
}  # fmt: skip


def edited(arrays: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give every edit of every array that can be made, and changes it."""
    for name, value in arrays.items():
        rest = {key: a for key, a in arrays.items() if key != name}
        yield f"{name} dropped", rest
        yield f"{name} renamed", rest | {name + "x": value}
        yield f"{name} doubled", arrays | {name + "x": value}
        for what, edit in EDITS.items():
            try:
                with np.errstate(all="ignore"):
                    new = np.asarray(edit(value))
            except (TypeError, ValueError, IndexError, OverflowError):
                continue
            if _fingerprint(new) != _fingerprint(value):
                yield f"{name}: {what}", arrays | {name: new}


def some_of(edits: Iterator[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return eight of the edits; all, some ten thousand, in `make test-all`."""
    every = list(edits)
    return every if WHOLE else random.Random(0).sample(every, 8)


# numpy warns of what some edits do: NaN made an integer
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")


def test_an_edited_array_is_refused_by_its_name(case):
    for what, arrays in some_of(edited(case.arrays)):
        message = case.refused_or_the_same(npz(**arrays), what)
        name = what.split(" ")[0].rstrip(":")
        if name != "header":  # a text of another byte order, say, is the same text
            assert message.startswith(f"checkpoint: {str(case.path)!r} "), what
            assert name in message, (what, message)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the function overflows where x is huge
def test_a_forged_file_is_refused_or_ends_in_a_status(case):
    """Fingerprints can be made anew; what does not fit the run is then found by itself."""
    kept = {n: value for n, value in case.arrays.items() if n.startswith("run.memory.") or n == "header"}
    for what, arrays in some_of(edited({n: v for n, v in case.arrays.items() if n not in kept})):
        found = case.resume(case.forged(kept | arrays), what)
        assert isinstance(found, str) or np.all(np.isin(found.status, list(st.Status))), what


UNFIT = [
    ("run.k", np.array(-1), "run.k is -1"),
    ("run.k", np.array(7), "trace.f has shape (6, 4)"),
    ("run.rows", np.array([0, 1, 9]), "rows are missing"),
    ("run.rows", np.array([0, 1, 1]), "run.rows is not in order"),
    ("run.ended.0.status", np.array([99]), "run.ended.0.status is [99]"),
    ("run.ended.0.f", np.array(1.0), "run.ended.0.f is not one a row"),
    ("run.ended.0.nit", np.array(7), "run.ended.0.nit is 7"),
    ("run.ended.0.counts.njev", np.full(1, -1), "run.ended.0.counts is negative"),
    ("run.best.k", np.array(7), "run.best.k is not within 0 and 6"),
    ("run.best.f", np.full(3, np.nan), "run.best.f is NaN"),
    ("run.point.x", np.ones(2), "run.point.x has shape (2,) and dtype float64, not (3, 2) and float64"),
    ("run.point.x", np.ones((3, 2), dtype=np.float32), "run.point.x has shape (3, 2) and dtype float32"),
    ("extra", np.ones(3), "it has no extra"),
]


@pytest.mark.parametrize(("name", "value", "words"), UNFIT)
def test_a_state_that_does_not_fit_the_run_is_told(tmp_path, name, value, words):
    case = Case("cgd-fd, rows ended", tmp_path / "run.npz")
    message = case.refused_or_the_same(case.forged(case.arrays | {name: value}), name)
    assert f"does not fit the run: {words}" in message


JSON: list[Any] = [None, True, False, 0, -1, 3, 2.5, 1e300, "", "text", [], [1], {}, {"a": 1}]


def headers(header: Any) -> Iterator[tuple[str, Any]]:
    """Give the header with every key gone, renamed, and turned into every kind of JSON; at every depth."""
    yield from ((f"everything is {value!r}", value) for value in JSON)
    for key, value in header.items():
        rest = {name: part for name, part in header.items() if name != key}
        yield from ((f"{key} dropped", rest), (f"{key} renamed", rest | {key + "x": value}))
        for other in JSON:
            if other != value or type(other) is not type(value):
                yield f"{key} is {other!r}", header | {key: other}
        if isinstance(value, dict):
            yield from ((f"{key}: {what}", header | {key: new}) for what, new in headers(value))


def test_an_edited_header_is_refused_or_harmless(case):
    for what, new in some_of(headers(json.loads(str(case.arrays["header"])))):
        case.refused_or_the_same(npz(**(case.arrays | {"header": np.array(json.dumps(new))})), what)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 1000, "1" * 10_000, "NaN", '"\\ud800"'])
def test_a_header_that_is_no_json_is_refused(plain, text):
    assert NOT_WHOLE in plain.refused_or_the_same(
        npz(**(plain.arrays | {"header": np.array(text)})), text[:9]
    )


def members(data: bytes) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


def archive_of(parts: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in parts:
            archive.writestr(name, data)
    return file.getvalue()


def claim(shape: str, descr: str = "'<f8'", data: bytes = b"12345678", version: bytes = b"\x01\x00") -> bytes:
    """Make a member whose header says this of itself."""
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode("latin1")
    return b"\x93NUMPY" + version + len(header).to_bytes(2, "little") + header + data


LIES = [
    claim("(1000000000000,)"), claim("(1000000, 1000000)", data=b""), claim("(1000,)", "'<U2000000000'"),
    claim("(-1,)"), claim("(-1, -1)"), claim("(0, 4611686018427387904, 16)", data=b""), claim("(True,)"),
    claim("(1.0,)"), claim("(1,)", "'|O'", b"\x80\x04K\x01."), claim("(5,)", "'|V0'", b""),
    claim("(1,)", "'nonsense'"), claim("[" * 5000), claim("-" * 9000 + "1"), claim("'''"),
    claim("(1,)", version=b"\x02\x00"), claim("(1,)", version=b"\x09\x00"), b"\x93NUMPY\x01\x00\xff\xff", b"",
]  # fmt: skip


def refused_cheaply(case: Case, data: bytes, words: str) -> None:
    """Hold that a file is refused in these words before anything is allocated."""
    tracemalloc.start()
    message = case.refused_or_the_same(data, words)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert words in message
    assert peak < 5e6


def test_a_member_that_lies_about_itself_is_refused_before_anything_is_allocated(plain):
    parts = dict(members(npz(**plain.arrays)))
    for lie in LIES:
        for name in ("run.point.x.npy", "header.npy"):
            refused_cheaply(plain, archive_of(list((parts | {name: lie}).items())), NOT_WHOLE)


def test_a_zip_that_unfolds_is_refused_before_it_does(plain):
    bomb = claim("(30000000,)", "'|u1'", bytes(30_000_000))
    data = archive_of([*members(npz(**plain.arrays)), ("bomb.npy", bomb)], zipfile.ZIP_DEFLATED)
    assert len(data) < 1e5
    refused_cheaply(plain, data, "larger than the file")


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_members_that_savez_does_not_write_are_refused(plain):
    parts = members(npz(**plain.arrays))
    for what, data in {
        "twice": archive_of([*parts, parts[0]]),
        "packed": archive_of(parts, zipfile.ZIP_DEFLATED),
        "a text": archive_of([*parts, ("readme.txt", b"hello")]),
        "a longer member": archive_of([(name, data + b"1234") for name, data in parts]),
        "a shorter member": archive_of([(name, data[:-1]) for name, data in parts]),
    }.items():
        assert NOT_WHOLE in plain.refused_or_the_same(data, what), what


WITHIN = {"ahead", "live", "spent", "status", "tired", "p", "down", "size", "slope"}
"""What the parts of one iteration hand to each other: between two of them it means nothing."""


def test_every_field_of_what_is_carried_is_saved_or_made_anew(tmp_path):
    names = list(Case("cgd-auto, rows ended", tmp_path / "run.npz").arrays)

    def below(prefix: str) -> list[str]:
        return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

    expected = {field.name for field in fields(Carry)} - WITHIN | {"rows", "ended"}
    assert {name.split(".")[0] for name in below("run.")} == expected
    for record, place in ((Point, "point"), (Move, "move"), (Best, "best"), (Ended, "ended.0")):
        found = {name.split(".")[0] for name in below(f"run.{place}.")}
        assert found == {field.name for field in fields(record)}
    expected = set(Learnt._fields) - {"pairs"} | {f"pairs.{field}" for field in Pairs._fields}
    assert set(below("run.memory.")) == expected
