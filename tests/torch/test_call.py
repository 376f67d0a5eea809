"""A call of `minimize` with tensors; the names and the pages that need torch."""

import re

import pytest
import torch

from ..other_arrays import OtherArrays
from ..public import ROOT, Documented, blocks, cells


class TestTensors(OtherArrays):
    xp, autodiff = torch, "torch"


class TestDocumented(Documented):
    part = "torch"


def test_the_snippet_of_the_readme_that_trains_runs_as_it_is(capsys):
    (snippet,) = (one for one in blocks("README.md") if "import torch\n" in one)
    exec(compile(snippet, "README.md", "exec"), {})
    said = r"steps taken +120\nwith an ascent step +31\n(.+\n)+"
    assert re.fullmatch(said, capsys.readouterr().out)


def test_the_blocks_of_the_page_on_cgd_that_train_run():
    for code in [code for code, _ in cells("docs/cgd.md") if "import torch\n" in code]:
        exec(compile(code, "docs/cgd.md", "exec"), names := {})
        assert names["opt"].report().perturbed == 100
        (line,) = re.findall(
            r"`steepen\.torch\.(EGR\(.*?\))`", (ROOT / "docs/from-the-paper.md").read_text("utf-8")
        )
        eval(line, {"EGR": names["EGR"], "base": names["opt"].base, "model": names["model"]})


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
