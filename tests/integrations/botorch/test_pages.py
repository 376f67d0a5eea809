"""What the pages say of BoTorch: tables as they were measured, and a tutorial that runs."""

import re

import pytest

from ...public import ROOT, blocks

MEASURED = ROOT / "benchmarks" / "results" / "botorch_loop.jsonl"


@pytest.mark.slow
@pytest.mark.parametrize("mark", ["acquisition", "fits", "loop", "branin", "robust"])
def test_the_tables_are_what_was_measured(mark):
    made = pytest.importorskip("benchmarks.botorch_loop")
    page = "paper.md" if mark == "robust" else "integrations.md"
    text = (ROOT / "docs" / page).read_text("utf-8")
    table = made.tables(str(MEASURED))[page, mark]
    assert table.count("\n") > 2
    assert made.written(text, mark, table) == text


@pytest.mark.slow
def test_the_tutorial_runs(capsys):
    cells = blocks("docs/integrations.md", "{code-cell} python")
    names = {}
    for cell in cells[1:]:
        small = cell.replace("600", "150").replace("range(8)", "range(2)").replace("randn(12", "randn(2")
        exec(compile(small, "docs/integrations.md", "exec"), names)
    said = capsys.readouterr().out
    assert re.search(r"^best of 8: 0\.\d+ with C = \S+ and γ = \S+$", said, re.MULTILINE)
    assert len(re.findall(r"nearby 0\.\d+ ± ", said)) == 2
    assert names["X"].shape == (8, 2)
    assert bool(((names["X"] >= 0) & (names["X"] <= 1)).all())
