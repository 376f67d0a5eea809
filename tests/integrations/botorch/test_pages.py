"""What the pages say of BoTorch: tables as they were measured, and a tutorial that runs."""

import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[3]
MEASURED = ROOT / "benchmarks" / "botorch_loop.jsonl"


@pytest.mark.slow
@pytest.mark.parametrize(
    "place", [("embed.md", "acquisition"), ("embed.md", "fits"), ("embed.md", "loop"), ("paper.md", "robust")]
)
def test_the_tables_are_what_was_measured(place):
    made, (page, mark) = pytest.importorskip("benchmarks.botorch_loop"), place
    text = (ROOT / "docs" / page).read_text("utf-8")
    table = made.tables(str(MEASURED))[place]
    assert table.count("\n") > 2
    assert made.written(text, mark, table) == text


@pytest.mark.slow
def test_the_tutorial_runs(capsys):
    pytest.importorskip("matplotlib").use("Agg")
    text = (ROOT / "docs" / "tutorials" / "botorch.md").read_text("utf-8")
    cells = re.findall(r"^```\{code-cell\} python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(cells) == 6
    names = {}
    for cell in cells[1:]:
        code = re.sub(r"\A---\n.*?^---\n", "", cell, flags=re.DOTALL | re.MULTILINE)
        small = code.replace("600", "150").replace("range(8)", "range(2)").replace("randn(12", "randn(2")
        exec(compile(small, "docs/tutorials/botorch.md", "exec"), names)
    said = capsys.readouterr().out
    assert re.search(r"^best of 8: 0\.\d+ with C = \S+ and γ = \S+$", said, re.MULTILINE)
    assert len(re.findall(r"nearby 0\.\d+ ± ", said)) == 2
    X, ends, values = names["X"], names["ends"], names["values"]
    assert X.shape == (8, 2)
    assert bool(((X >= 0) & (X <= 1)).all())
    assert torch.equal(names["wanted"](ends).max(), values.max())
