"""The page of the test functions: its tables tell what the catalogue has, and its pictures show something."""

import importlib.util
import io
import re

import numpy as np
import pytest
from tests.public import ROOT

from steepen.functions import functions

spec = importlib.util.spec_from_file_location("shapes", ROOT / "docs" / "shapes.py")
shapes = importlib.util.module_from_spec(spec)
spec.loader.exec_module(shapes)

ROWS = {
    name: [cell.replace("−", "-") for cell in cells.split(" | ")]
    for name, cells in re.findall(
        r"^\| .*? `(\S+)` \| (.*) \|$", shapes.PAGE.read_text("utf-8"), re.MULTILINE
    )
}
NUMBER = re.compile(r"-?\d[\d.]*(?:e-\d+)?")


def numbers(text):
    return [float(number) for number in NUMBER.findall(text.partition(" for n = ")[0])]


def test_every_function_has_a_row_and_no_other():
    assert list(ROWS) == list(functions)


@pytest.mark.parametrize("f", functions.values(), ids=lambda f: f.name)
def test_a_row_tells_what_the_catalogue_has(f):
    variables, box, least, where = ROWS[f.name]
    assert (variables == str(f.n)) is not f.any_n
    if "n" not in box and "x" not in box:  # one that grows with n, or moves with x*
        assert np.resize(numbers(box), 2 * f.n) == pytest.approx(f.bounds.ravel(), rel=1e-4)
    assert numbers(least) == [pytest.approx(f.fmin, rel=1e-7)]
    if "points" in where:
        assert numbers(where) == [len(f.minima)] != [1]
    else:
        assert len(f.minima) == 1
        assert np.allclose(np.resize(numbers(where), f.n), f.minima[0], rtol=1e-4)


@pytest.mark.parametrize("f", functions.values(), ids=lambda f: f.name)
def test_a_picture_shows_something(f):
    import matplotlib.image

    file = io.BytesIO()
    shapes.shape(f).savefig(file)
    file.seek(0)
    pixels = matplotlib.image.imread(file, format="png")[..., :3]
    assert pixels.shape[:2] == (240, 320)
    assert pixels.std() > 0.02
