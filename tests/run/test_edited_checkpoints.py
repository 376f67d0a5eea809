"""A checkpoint that somebody edited is refused in words, or goes on as if nobody had."""

from __future__ import annotations

import io
import json
import random
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import steepen as st
from steepen._core.records import Best, Carry, Ended, Move, Point
from steepen._run import checkpoint as _checkpoint
from steepen.directions._pairs import Pairs
from steepen.directions.auto import Learnt

from ..pairs import WHOLE
from ..results import same
from .test_checkpoint import MANY, ONE, f, g, npz, run

Arrays = dict[str, np.ndarray]

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


@cache
def written(name: str) -> tuple[Arrays, st.Result]:
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

    def refused_or_the_same(self, data: bytes, what: str) -> str | None:
        """Go on from a file; give the words in which it was refused."""
        self.path.write_bytes(data)
        try:
            result = run(checkpoint=self.path, **self.given)
        except st.CheckpointError as error:
            return str(error)
        except BaseException as error:
            error.add_note(what)
            raise
        same(result, self.whole)
        return None

    def forged(self, arrays: Arrays) -> bytes:
        """Make a file whose fingerprints are those of its arrays, whatever these are."""
        header = json.loads(str(self.arrays["header"]))
        rest = {name: value for name, value in arrays.items() if name != "header"}
        header["arrays"] = {name: _checkpoint._fingerprint(value) for name, value in rest.items()}
        return npz(header=np.array(json.dumps(header)), **rest)


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    return Case(request.param, tmp_path / "run.npz")


def filled(number: Any) -> Callable[[np.ndarray], Any]:
    return lambda a: np.full_like(a, number)


EDITS: dict[str, Callable[[np.ndarray], Any]] = {
    "float32": lambda a: a.astype(np.float32), "float64": lambda a: a.astype(np.float64),
    "int64": lambda a: a.astype(np.int64), "bool": lambda a: a.astype(bool),
    "complex": lambda a: a.astype(complex), "text": lambda a: a.astype(str),
    "records": lambda a: np.zeros(a.shape, dtype=[("a", "f8"), ("b", "i4")]),
    "byte order": lambda a: a.astype(a.dtype.newbyteorder()),
    "layout": lambda a: np.asfortranarray(a) if a.flags.c_contiguous else np.ascontiguousarray(a),
    "rank + 1": lambda a: a[None], "rank - 1": lambda a: a[0], "a number": lambda a: a.reshape(-1)[0],
    "nothing": lambda a: np.empty(0), "shorter": lambda a: a[:-1],
    "longer": lambda a: np.concatenate([a, a[-1:]]), "backwards": lambda a: a[::-1],
    "one more": lambda a: a + np.ones((), a.dtype),
    "a last bit": lambda a: np.nextafter(a, np.inf, dtype=a.dtype), "negative": lambda a: -1 - abs(a),
    "turned off": lambda a: ~a, "zero": filled(0), "nan": filled(np.nan), "inf": filled(np.inf),
    "huge": filled(2**62), "beyond": filled(1e300),
}  # fmt: skip


def edited(arrays: Arrays) -> Iterator[tuple[str, Arrays]]:
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
            if _checkpoint._fingerprint(new) != _checkpoint._fingerprint(value):
                yield f"{name}: {what}", arrays | {name: new}
    names = sorted(arrays)
    for one, other in zip(names, names[1:] + names[:1], strict=True):
        if _checkpoint._fingerprint(arrays[one]) != _checkpoint._fingerprint(arrays[other]):
            yield f"{one} and {other} exchanged", arrays | {one: arrays[other], other: arrays[one]}


def some_of(edits: Iterator[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return eight of the edits; all, some ten thousand, in `make test-all`."""
    every = list(edits)
    return every if WHOLE else random.Random(0).sample(every, 8)


# numpy warns of what some edits do: NaN made an integer
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")


def test_a_checkpoint_that_lacks_anything_is_refused(tmp_path: Path) -> None:
    case = Case("bfgs", tmp_path / "run.npz")
    for name in case.arrays:
        rest = {key: value for key, value in case.arrays.items() if key != name}
        words = "not a whole steepen checkpoint" if name == "header" else f"lacks a part of the run: {name}"
        assert words in str(case.refused_or_the_same(npz(**rest), name))


def test_an_edited_array_is_refused_by_its_name(case: Case) -> None:
    for what, arrays in some_of(edited(case.arrays)):
        message = case.refused_or_the_same(npz(**arrays), what)
        name = what.split(" ")[0].rstrip(":")
        if name == "header":
            continue  # a text of another byte order, say, is the same text
        assert message is not None, what
        assert message.startswith(f"checkpoint: {str(case.path)!r} ")
        assert name in message or "exchanged" in what, (what, message)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the function overflows where x is huge
def test_a_forged_file_is_refused_or_ends_in_a_status(case: Case) -> None:
    """Fingerprints can be made anew; what does not fit the run is then found by itself."""
    parts = {
        name: value
        for name, value in case.arrays.items()
        if not name.startswith("run.memory.") and name != "header"
    }
    kept = {name: value for name, value in case.arrays.items() if name not in parts}
    for what, arrays in some_of(edited(parts)):
        case.path.write_bytes(case.forged(kept | arrays))
        try:
            result = run(checkpoint=case.path, **case.given)
        except st.CheckpointError:
            continue
        except BaseException as error:
            error.add_note(what)
            raise
        assert np.all(np.isin(result.status, list(st.Status))), what


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("run.k", np.array(-1), "run.k is -1"),
        ("run.k", np.array(7), "trace.f has shape (6, 4)"),
        ("ledger.seconds", np.array(np.nan), "ledger.seconds is nan"),
        ("run.rows", np.array([0, 1, 9]), "rows are missing"),
        ("run.rows", np.array([0, 3, 1]), "run.rows is not in order"),
        ("run.rows", np.array([0, 1, 1]), "run.rows is not in order"),
        ("run.ended.0.status", np.array([99]), "run.ended.0.status is [99]"),
        ("run.ended.0.f", np.array(1.0), "run.ended.0.f is not one a row"),
        ("run.ended.0.nit", np.array(7), "run.ended.0.nit is 7"),
        ("run.ended.0.counts.njev", np.full(1, -1), "run.ended.0.counts is negative"),
        ("ledger.counts.nfev", np.array(-1), "ledger.counts.nfev is negative"),
        ("run.best.k", np.array(-1), "run.best.k is not within 0 and 6"),
        ("run.best.k", np.array(7), "run.best.k is not within 0 and 6"),
        ("run.best.f", np.full(3, np.nan), "run.best.f is NaN"),
        ("run.point.x", np.ones(2), "run.point.x has shape (2,) and dtype float64, not (3, 2) and float64"),
        ("run.point.x", np.ones((3, 2), dtype=np.float32), "run.point.x has shape (3, 2) and dtype float32"),
        ("run.on", np.array(True), "run.on has shape () and dtype bool, not (3,) and bool"),
        ("oracle.value", np.ones(3), "one of oracle.x and oracle.value is missing"),
        ("oracle.source", np.array(["magic", "True", "False"], dtype="<U16"), "the source of H·v is 'magic'"),
        ("oracle.source", np.array(["difference", "no", "False"], dtype="<U16"), "verified is 'no'"),
        ("oracle.source", np.array(["difference", "True", "no"], dtype="<U16"), "wide is 'no'"),
        ("extra", np.ones(3), "it has no extra"),
        ("run.ended.9.rows", np.ones(3), "it has no run.ended.9.rows"),
    ],
)
def test_a_state_that_does_not_fit_the_run_is_told(
    tmp_path: Path, name: str, value: np.ndarray, words: str
) -> None:
    case = Case("cgd-fd, rows ended", tmp_path / "run.npz")
    message = case.refused_or_the_same(case.forged(case.arrays | {name: value}), name)
    assert f"does not fit the run: {words}" in str(message)


JSON: list[Any] = [None, True, False, 0, -1, 3, 2.5, 1e300, "", "text", [], [1], {}, {"a": 1}]


def headers(header: Any) -> Iterator[tuple[str, Any]]:
    """Give the header with every key gone, renamed, and turned into every kind of JSON; at every depth."""
    for value in JSON:
        yield f"everything is {value!r}", value
    for key, value in header.items():
        rest = {name: part for name, part in header.items() if name != key}
        yield f"{key} dropped", rest
        yield f"{key} renamed", rest | {key + "x": value}
        for other in JSON:
            if other != value or type(other) is not type(value):
                yield f"{key} is {other!r}", header | {key: other}
        if isinstance(value, dict):
            yield from ((f"{key}: {what}", header | {key: new}) for what, new in headers(value))


def test_an_edited_header_is_refused_or_harmless(case: Case) -> None:
    header = json.loads(str(case.arrays["header"]))
    for what, new in some_of(headers(header)):
        case.refused_or_the_same(npz(**(case.arrays | {"header": np.array(json.dumps(new))})), what)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{" * 1000, '{"a":' * 1000, "1" * 10_000, "NaN", '"\\ud800"']
)
def test_a_header_that_is_no_json_is_refused(tmp_path: Path, text: str) -> None:
    case = Case("cgd-fd", tmp_path / "run.npz")
    message = case.refused_or_the_same(npz(**(case.arrays | {"header": np.array(text)})), text[:9])
    assert "is not a whole steepen checkpoint" in str(message)


# --- files whose zip is right, and whose members lie -----------------------------------------------


def members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive_of(parts: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in parts:
            archive.writestr(name, data)
    return file.getvalue()


def claim(text: str, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    """Make a member whose header says this of itself."""
    header = text.encode("latin1") + b"\n"
    return b"\x93NUMPY" + version + len(header).to_bytes(2, "little") + header + data


LIES = [
    claim("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }", b"12345678"),
    claim("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000), }"),
    claim("{'descr': '<U2000000000', 'fortran_order': False, 'shape': (1000,), }"),
    claim("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }", b"12345678"),
    claim("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1), }", b"12345678"),
    claim("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 4611686018427387904, 16), }"),
    claim("{'descr': '<f8', 'fortran_order': False, 'shape': (True,), }", b"12345678"),
    claim("{'descr': '<f8', 'fortran_order': False, 'shape': (1.0,), }", b"12345678"),
    claim("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"\x80\x04K\x01."),
    claim("{'descr': '|V0', 'fortran_order': False, 'shape': (5,), }"),
    claim("{'descr': '<U0', 'fortran_order': False, 'shape': (5,), }"),
    claim("{'descr': 'nonsense', 'fortran_order': False, 'shape': (1,), }", b"12345678"),
    claim("{'descr': '<f8', 'fortran_order': 3, 'shape': (1,), }", b"12345678"),
    claim("{'descr': '<f8', 'shape': (1,), }", b"12345678"),
    claim("[" * 5000),
    claim("-" * 9000 + "1"),
    claim("'" * 3),
    claim("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", b"12345678", b"\x02\x00"),
    claim("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", b"12345678", b"\x09\x00"),
    b"\x93NUMPY\x01\x00\xff\xff",
    b"\x93NUMPY",
    b"",
]


def refused_cheaply(case: Case, data: bytes, words: str) -> None:
    """Hold that a file is refused in these words before anything is allocated."""
    tracemalloc.start()
    message = case.refused_or_the_same(data, words)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert words in str(message)
    assert peak < 5e6


def test_a_member_that_lies_about_itself_is_refused_before_anything_is_allocated(tmp_path: Path) -> None:
    case = Case("cgd-fd", tmp_path / "run.npz")
    parts = members(npz(**case.arrays))
    for lie in LIES:
        for name in ("run.point.x.npy", "header.npy"):
            data = archive_of(list((parts | {name: lie}).items()))
            refused_cheaply(case, data, "is not a whole steepen checkpoint")


def test_a_zip_that_unfolds_is_refused_before_it_does(tmp_path: Path) -> None:
    case = Case("cgd-fd", tmp_path / "run.npz")
    bomb = claim("{'descr': '|u1', 'fortran_order': False, 'shape': (30000000,), }", bytes(30_000_000))
    parts = [*members(npz(**case.arrays)).items(), ("bomb.npy", bomb)]
    data = archive_of(parts, zipfile.ZIP_DEFLATED)
    assert len(data) < 1e5
    refused_cheaply(case, data, "larger than the file")


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_members_that_savez_does_not_write_are_refused(tmp_path: Path) -> None:
    case = Case("cgd-fd", tmp_path / "run.npz")
    parts = list(members(npz(**case.arrays)).items())
    for what, data in {
        "twice": archive_of([*parts, parts[0]]),
        "packed": archive_of(parts, zipfile.ZIP_DEFLATED),
        "a text": archive_of([*parts, ("readme.txt", b"hello")]),
        "a longer member": archive_of([(name, data + b"1234") for name, data in parts]),
        "a shorter member": archive_of([(name, data[:-1]) for name, data in parts]),
    }.items():
        assert "is not a whole steepen checkpoint" in str(case.refused_or_the_same(data, what)), what


WITHIN = {"ahead", "live", "spent", "status", "tired", "p", "down", "size", "slope"}
"""What the parts of one iteration hand to each other: between two of them it means nothing."""

# --- nothing can be forgotten ----------------------------------------------------------------------


def test_every_field_of_what_is_carried_is_saved_or_made_anew(tmp_path: Path) -> None:
    case = Case("cgd-auto, rows ended", tmp_path / "run.npz")
    saved = {name.split(".")[1] for name in case.arrays if name.startswith("run.")}
    assert saved == {field.name for field in fields(Carry)} - WITHIN | {"rows", "ended"}
    for record, name in ((Point, "point"), (Move, "move"), (Best, "best"), (Ended, "ended.0")):
        parts = {
            rest.split(".")[0] for part in case.arrays if (rest := part.removeprefix(f"run.{name}.")) != part
        }
        assert parts == {field.name for field in fields(record)}
    memory = {name.removeprefix("run.memory.") for name in case.arrays if name.startswith("run.memory.")}
    expected = set(Learnt._fields) - {"pairs"} | {f"pairs.{field}" for field in Pairs._fields}
    assert memory == expected
