"""The page from the paper to steepen: every line of code runs, and every number of the paper is there."""

import re

import numpy as np
import pytest

from steepen.paper import ITEMS
from steepen.paper.experiments import EXPERIMENTS

from ..public import ROOT, cells

PAGE = "docs/from-the-paper.md"
TEXT = (ROOT / PAGE).read_text("utf-8")


def table_rows():
    """Yield the rows of all tables, as a dict from the heads of their columns."""
    heads = None
    for line in TEXT.splitlines():
        row = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not row or set(line) == set("|-"):
            heads = heads if row else None
        elif heads is None:
            heads = row
        else:
            yield dict(zip(heads, row, strict=True))


ROWS = [*table_rows()]
CLAIMS = [row for row in ROWS if "what we found" in row]
CALL = re.compile(r"(?:.*<br>)?`((?:st|egr|listings)\..*|100 .*)`")


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")  # of runs that diverge
def test_every_line_of_code_runs_after_the_block_above_them(capsys):
    (first, _), (last, shown) = cells(PAGE)
    exec(compile(first, PAGE, "exec"), names := {})
    lines = [found[1] for row in ROWS if (found := CALL.fullmatch(row.get("steepen", "")))]
    assert len(lines) > 40  # and one of steepen.torch, which tests/torch has
    for line in lines:
        assert eval(line, names) is not None, line
    exec(compile(last, PAGE, "exec"), names)
    assert capsys.readouterr().out == shown


def test_every_item_of_the_report_is_named_and_no_other():
    named = {name for found in re.findall(r"--only ([\w,-]+)`", TEXT) for name in found.split(",")}
    named |= {name for row in CLAIMS for name in re.findall(r"`([\w-]+)`", row["item"])}
    assert set(ITEMS) - named == {"lemma1", "theorem1", "quadratic"}  # whose rows have calls
    assert named <= set(ITEMS)


def test_every_number_of_the_paper_is_named():
    said = [row["paper"] for row in ROWS if "paper" in row]
    assert {int(k) for words in said for k in re.findall(r"\((\d+)\)", words)} == set(range(1, 15))
    wanted = ["Lemma 1", "Theorem 1", "Remark 1", "Definition 1", "Table 1"]
    wanted += [f"Algorithm {k}" for k in (1, 2, 3)] + [f"Fig. {k}" for k in range(1, 6)]
    assert [words for words in wanted if not any(one.startswith(words) for one in said)] == []


def test_the_settings_of_table_1_are_those_of_the_runs():
    rows = [row for row in ROWS if "function" in row]
    for row, e in zip(rows, EXPERIMENTS.values(), strict=True):
        recovered, r = row.pop("start, recovered"), row.pop("r, recovered")
        assert [*row.values()] == [
            e.function.title, str(e.function.n), e.lam_text, f"{e.alpha:g}", f"{e.gd:.2f}", f"{e.cgd_fd:.2f}",
        ]  # fmt: skip
        assert r == ("any" if e.any_r else f"{e.r:g}")
        start = [float(x) for x in re.findall(r"-?\d[\d.]*", recovered.replace("−", "-"))]
        np.testing.assert_array_equal(np.broadcast_to(start, len(e.x0)), e.x0)


def test_what_the_page_on_cgd_says_of_table_1_holds():
    ends = [[e.run(method).fun for method in ("gd", "cgd-fd")] for e in EXPERIMENTS.values()]
    lower = [cgd < gd - 1e-9 * abs(gd) for gd, cgd in ends]
    level = [cgd == pytest.approx(gd, rel=1e-9) for gd, cgd in ends]
    assert (lower.count(True), level.count(True)) == (5, 1)
    text = " ".join((ROOT / "docs" / "cgd.md").read_text("utf-8").split())
    assert "on five of the six functions, and at the same minimum on the sixth" in text


def test_what_it_says_of_the_claims_is_what_the_runs_gave():
    told = (ROOT / "benchmarks" / "paper_claims.md").read_text("utf-8")
    counts = [count for row in CLAIMS for count in re.findall(r"\d+ of \d+|\d+%", row["what we found"])]
    assert len(counts) > 5
    assert [count for count in counts if count not in told] == []
