"""The data: what they are, how they are split, and what is said of a folder that holds something else."""

import random
import socket

import numpy as np
import pytest
from benchmarks.evidence import data as module
from benchmarks.evidence.cifar import CIFAR, read_cifar
from benchmarks.evidence.data import SIZES, load_data, training_size
from sklearn.datasets import load_digits


def plain(part):
    return part.numpy().astype(float)


def test_digits_are_scikit_learns_in_its_order():
    pixels, classes = load_digits(return_X_y=True)
    got = load_data("digits")
    assert len(got.x) == SIZES["digits"]
    rows = np.concatenate([plain(got.x), plain(got.x_test)])
    slope, level = np.polyfit(pixels.ravel(), rows.ravel(), 1)
    np.testing.assert_allclose(rows, slope * pixels + level, atol=1e-5)
    assert plain(got.x).mean() == pytest.approx(0, abs=1e-5)
    assert plain(got.x).std() == pytest.approx(1, abs=1e-5)
    assert np.array_equal(np.concatenate([got.y, got.y_test]), classes)


@pytest.mark.slow
def test_mnist1d_is_the_generators_own_without_a_network_or_a_trace(monkeypatch):
    generator = pytest.importorskip("mnist1d.data")
    make, calls = generator.make_dataset, []
    monkeypatch.setattr(
        generator, "make_dataset", lambda *given: calls.append((given, make(*given))) or calls[-1][1]
    )
    monkeypatch.setattr(socket, "socket", lambda *_, **__: pytest.fail("the network was used"))
    module._mnist1d.cache_clear()
    before = random.getstate(), np.random.get_state()  # noqa: NPY002
    got = load_data("mnist1d")
    after = random.getstate(), np.random.get_state()  # noqa: NPY002
    assert before[0] == after[0]
    assert all(np.array_equal(a, b) for a, b in zip(before[1], after[1], strict=True))
    ((given, made),) = calls
    assert given == ()  # its own settings
    assert got.x.shape == (SIZES["mnist1d"], 40)
    assert np.array_equal(got.y, made["y"])
    assert np.array_equal(got.y_test, made["y_test"])
    scaled = (made["x_test"] - made["x"].mean()) / made["x"].std()
    np.testing.assert_allclose(plain(got.x_test), scaled, atol=1e-5)


@pytest.mark.parametrize("name", ["digits", pytest.param("mnist1d", marks=pytest.mark.slow)])
def test_validation_never_looks_at_the_test_part(name):
    whole, held = load_data(name), load_data(name, validate=True)
    assert len(held.x) == training_size(name, validate=True)
    assert np.array_equal(np.concatenate([held.y, held.y_test]), whole.y)
    # the scale is the held-in part's own, so rows agree up to one affine map
    rows, originals = np.concatenate([plain(held.x), plain(held.x_test)]), plain(whole.x)
    slope, level = np.polyfit(originals.ravel(), rows.ravel(), 1)
    np.testing.assert_allclose(rows, slope * originals + level, atol=1e-4)
    assert plain(held.x).std() == pytest.approx(1, abs=1e-4)


RNG = np.random.default_rng(0)


def pictures(n, classes):
    return RNG.integers(0, 256, (n, 3, 32, 32), dtype=np.uint8), RNG.integers(0, classes, n, dtype=np.uint8)


def write_binary(folder, name):
    """As the documentation of CIFAR has it: label, or coarse and fine label, then red, green and blue."""
    form, made = CIFAR[name], {}
    for file in form.names:
        x, y = made[file] = pictures(3, form.classes)
        heads = [bytes([label]) if name == "cifar10" else bytes([17, label]) for label in y]
        rows = [head + picture.tobytes() for head, picture in zip(heads, x, strict=True)]
        (folder / file).write_bytes(b"".join(rows))
    return made


@pytest.mark.parametrize(("name", "inner"), [("cifar10", False), ("cifar100", True)])
def test_the_binary_version_is_read_file_by_file(tmp_path, name, inner):
    place = tmp_path / CIFAR[name].inner if inner else tmp_path
    place.mkdir(exist_ok=True)
    *train, (x_test, y_test) = write_binary(place, name).values()
    got = read_cifar(name, tmp_path)
    assert np.array_equal(got.x, np.concatenate([x for x, _ in train]))
    assert np.array_equal(got.y, np.concatenate([y for _, y in train]))
    assert np.array_equal(got.x_test, x_test)
    assert np.array_equal(got.y_test, y_test)


@pytest.mark.parametrize(("save", "last"), [(np.savez, False), (np.savez_compressed, True)])
def test_an_npz_is_read_with_the_colours_first_or_last(tmp_path, save, last):
    x, y = pictures(4, 100)
    stored = x.transpose(0, 2, 3, 1) if last else x
    save(tmp_path / "cifar100.npz", x_train=stored, y_train=y, x_test=stored[:2], y_test=y[:2])
    got = read_cifar("cifar100", tmp_path)
    assert np.array_equal(got.x, x)
    assert np.array_equal(got.x_test, x[:2])
    assert np.array_equal(got.y, y)
    assert got.y.dtype == np.int64


@pytest.mark.parametrize(
    ("file", "holds", "message"),
    [
        ("data_batch_3.bin", lambda b: b[:-100], "data_batch_3.bin' is cut short or .* 3073 bytes, got 9119"),
        ("test_batch.bin", lambda b: bytes([77]) + b[1:], "test_batch.bin' has a class 77; expected 0 to 9"),
        ("data_batch_2.bin", None, "lacks data_batch_2.bin"),
        ("*", None, "expected cifar10.npz, or data_batch_1.bin, .* Python version is not read.* nothing"),
    ],
)
def test_another_folder_is_named_with_what_was_expected(tmp_path, file, holds, message):
    write_binary(tmp_path, "cifar10")
    for path in list(tmp_path.glob(file)):
        path.unlink() if holds is None else path.write_bytes(holds(path.read_bytes()))
    with pytest.raises(ValueError, match=f"data-dir: .*{message}"):
        read_cifar("cifar10", tmp_path)


@pytest.mark.parametrize("spoil", [{"x_train": np.zeros(2)}, {"y_train": np.zeros(3, int)}, {}])
def test_another_npz_is_refused(tmp_path, spoil):
    x, y = np.zeros((2, 32, 32, 3), np.uint8), np.zeros(2, int)
    arrays = {"x_train": x, "y_train": y, "x_test": x, "y_test": y} if spoil else {"x_train": x}
    np.savez(tmp_path / "cifar10.npz", **arrays | spoil)
    with pytest.raises(ValueError, match=r"data-dir: .*expected"):
        read_cifar("cifar10", tmp_path)
    (tmp_path / "cifar10.npz").write_bytes(b"PK\x03\x04 and so on")
    with pytest.raises(ValueError, match=r"data-dir: .*expected x_train, y_train"):
        read_cifar("cifar10", tmp_path)
