"""A call of `minimize` with tensors; the names and the pages that need torch."""

import re

import pytest
import torch

from ..other_arrays import OtherArrays
from ..public import Documented, blocks


class TestTensors(OtherArrays):
    xp, autodiff = torch, "torch"


class TestDocumented(Documented):
    part = "torch"


def test_the_snippet_of_the_readme_that_trains_runs_as_it_is(capsys):
    exec(compile(blocks("README.md")[1], "README.md, snippet 2", "exec"), {})
    said = r"steps taken +120\nwith an ascent step +31\n(.+\n)+"
    assert re.fullmatch(said, capsys.readouterr().out)


@pytest.mark.slow  # half a minute
@pytest.mark.filterwarnings("ignore:no gap in half", "ignore:validation")
def test_the_blocks_of_the_page_on_training_run_one_after_another(capsys):
    names = {}
    found = blocks("docs/training.md")
    assert len(found) == 3
    for number, block in enumerate(found):
        exec(compile(block, f"docs/training.md, block {number + 1}", "exec"), names)
    said = capsys.readouterr().out
    assert re.search(r"with an ascent step +\d\d\n", said)
    assert re.search(r"^gap .* of ", said, re.MULTILINE)
