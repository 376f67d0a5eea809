"""The data: what they are, how they are split, and that getting them disturbs nothing."""

import random
import socket

import numpy as np
import pytest
from sklearn.datasets import load_digits

from steepen.train import data as module
from steepen.train.data import SIZES, load_data, training_size


def plain(part) -> np.ndarray:
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


def test_mnist1d_is_the_generators_own_without_a_network_or_a_trace(monkeypatch: pytest.MonkeyPatch):
    """One call of the generator, which takes seconds, serves all of this."""

    def refuse(*arguments, **options):
        raise OSError("no network")

    generator = pytest.importorskip("mnist1d.data")
    make, calls = generator.make_dataset, []
    monkeypatch.setattr(
        generator, "make_dataset", lambda *given: calls.append((given, make(*given))) or calls[-1][1]
    )
    monkeypatch.setattr(socket, "socket", refuse)
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


@pytest.mark.parametrize("name", ["digits", "mnist1d"])
def test_validation_never_looks_at_the_test_part(name: str):
    whole, held = load_data(name), load_data(name, validate=True)
    size = training_size(name, validate=True)
    assert len(held.x) == size
    assert len(held.x) + len(held.x_test) == len(whole.x)
    assert np.array_equal(np.concatenate([held.y, held.y_test]), whole.y)
    # the scale is the held-in part's own, so rows agree up to one affine map
    rows, originals = np.concatenate([plain(held.x), plain(held.x_test)]), plain(whole.x)
    slope, level = np.polyfit(originals.ravel(), rows.ravel(), 1)
    np.testing.assert_allclose(rows, slope * originals + level, atol=1e-4)
    assert plain(held.x).std() == pytest.approx(1, abs=1e-4)
