"""CIFAR from a folder: what is read, and what is said of a folder that holds something else."""

from pathlib import Path

import numpy as np
import pytest

from steepen.train.data import load_data
from steepen.train.folders import CIFAR, read_cifar

RNG = np.random.default_rng(0)


def pictures(n: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    return RNG.integers(0, 256, (n, 3, 32, 32), dtype=np.uint8), RNG.integers(0, classes, n, dtype=np.uint8)


def write_binary(folder: Path, name: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """As the documentation of CIFAR has it: label, or coarse and fine label, then red, green and blue."""
    form, made = CIFAR[name], {}
    for file in form.names:
        x, y = made[file] = pictures(3, form.classes)
        rows = []
        for picture, label in zip(x, y, strict=True):
            head = bytes([label]) if name == "cifar10" else bytes([17, label])
            rows.append(head + picture[0].tobytes() + picture[1].tobytes() + picture[2].tobytes())
        (folder / file).write_bytes(b"".join(rows))
    return made


@pytest.mark.parametrize("name", CIFAR)
@pytest.mark.parametrize("inner", [False, True])
def test_the_binary_version_is_read_file_by_file(tmp_path: Path, name: str, inner: bool):
    place = tmp_path / CIFAR[name].inner if inner else tmp_path
    place.mkdir(exist_ok=True)
    made = write_binary(place, name)
    got = read_cifar(name, tmp_path)
    *train, (x_test, y_test) = made.values()
    assert np.array_equal(got.x, np.concatenate([x for x, _ in train]))
    assert np.array_equal(got.y, np.concatenate([y for _, y in train]))
    assert np.array_equal(got.x_test, x_test)
    assert np.array_equal(got.y_test, y_test)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("last", [False, True])
def test_an_npz_is_read_with_the_colours_first_or_last(tmp_path: Path, save, last: bool):
    x, y = pictures(4, 100)
    stored = x.transpose(0, 2, 3, 1) if last else x
    save(tmp_path / "cifar100.npz", x_train=stored, y_train=y, x_test=stored[:2], y_test=y[:2])
    got = read_cifar("cifar100", tmp_path)
    assert np.array_equal(got.x, x)
    assert np.array_equal(got.x_test, x[:2])
    assert np.array_equal(got.y, y)
    assert got.y.dtype == np.int64


def cut(folder: Path) -> None:
    path = folder / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:-100])


def wrong_label(folder: Path) -> None:
    path = folder / "test_batch.bin"
    path.write_bytes(bytes([77]) + path.read_bytes()[1:])


def lacking(folder: Path) -> None:
    (folder / "data_batch_2.bin").unlink()


def empty(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def python_version(folder: Path) -> None:
    empty(folder)
    (folder / "data_batch_1").write_bytes(b"\x80")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (cut, "data_batch_3.bin' is cut short or something else: expected records of 3073 bytes, got 9119"),
        (wrong_label, "test_batch.bin' has a class 77; expected 0 to 9"),
        (lacking, "lacks data_batch_2.bin"),
        (empty, "expected cifar10.npz, or data_batch_1.bin, .* holds nothing"),
        (python_version, "the Python version is not read"),
    ],
)
def test_another_folder_is_named_with_what_was_expected(tmp_path: Path, spoil, message: str):
    write_binary(tmp_path, "cifar10")
    spoil(tmp_path)
    with pytest.raises(ValueError, match=f"data-dir: .*{message}"):
        read_cifar("cifar10", tmp_path)


@pytest.mark.parametrize(
    "arrays",
    [
        {"x_train": np.zeros((2, 32, 32, 3), np.uint8)},
        {key: np.zeros(2) for key in ("x_train", "y_train", "x_test", "y_test")},
        {
            "x_train": np.zeros((2, 32, 32, 3), np.uint8),
            "y_train": np.zeros(3, int),
            "x_test": np.zeros((2, 32, 32, 3), np.uint8),
            "y_test": np.zeros(2, int),
        },
    ],
)
def test_another_npz_is_refused(tmp_path: Path, arrays):
    np.savez(tmp_path / "cifar10.npz", **arrays)
    with pytest.raises(ValueError, match=r"data-dir: .*expected"):
        read_cifar("cifar10", tmp_path)


def test_a_file_that_is_no_npz_is_refused(tmp_path: Path):
    (tmp_path / "cifar10.npz").write_bytes(b"PK\x03\x04 and so on")
    with pytest.raises(ValueError, match="data-dir: expected x_train, y_train"):
        read_cifar("cifar10", tmp_path)


def test_a_part_of_the_set_is_not_taken_for_all_of_it(tmp_path: Path):
    write_binary(tmp_path, "cifar100")
    with pytest.raises(
        ValueError, match="expected 50000 pictures to train on and 10000 to test, got 3 and 3"
    ):
        load_data("cifar100", folder=tmp_path)
