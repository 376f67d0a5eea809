"""Every item's claims hold, and the documentation tells what the runs give."""

import os
import re
import time
from pathlib import Path
from timeit import timeit

import pytest
from tests.pairs import WHOLE

import steepen as st
from steepen.paper import ITEMS
from steepen.paper._items import WORDS, tally

LONG = ("lam-schedules", "artificial-points", "flat-minima")
"""Items that take seconds, and whose formulas test_untested.py holds."""

MARKS = dict.fromkeys(LONG, pytest.mark.slow) | {"lemma1": pytest.mark.bits}  # p vanishes at the ring


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, ())) for name in ITEMS])
def test_every_claim_of_an_item_holds_and_it_is_whole(name, outcome_of):
    outcome = outcome_of(name)
    assert outcome.claims
    assert [claim.text for claim in outcome.claims if not claim.holds] == []
    captions = [picture.caption for picture in outcome.pictures.values()]
    assert all(part.startswith(name) for part in (*outcome.pictures, *outcome.tables, *outcome.traces))
    assert outcome.pictures or outcome.tables
    for text in (*outcome.found, *captions):
        assert re.search(r"\w.*[.)]$", text), text
    for table in outcome.tables.values():
        assert all(len(row) == len(table.columns) for row in table.rows)
    # a phone stacks what a wide screen puts side by side
    placed = re.compile(r"\b(Left|Right)\b|(left|right|upper|lower) panel|\((above|below|left|right)\)")
    assert not any(placed.search(text) for text in captions)
    for axes in (axes for picture in outcome.pictures.values() for axes in picture.figure.axes):
        if axes.get_yscale() == "linear" and axes.get_ylim()[0] > 0 and "axis starts" in axes.get_ylabel():
            assert f"axis starts at {axes.get_ylim()[0]:.4g}" in axes.get_ylabel()


def test_the_docs_tell_what_the_run_gives(outcome_of):
    root = Path(__file__).parents[2]
    told = (root / "benchmarks" / "paper_claims.md").read_text("utf-8").replace("\\*", "*")
    rows = [line[2:-2].split(" | ") for line in told.splitlines() if line.startswith("| ")]
    claims = [claim for name in ITEMS if WHOLE or name not in LONG for claim in outcome_of(name).claims]
    ours = [[claim.text, claim.said, claim.ours, claim.verdict] for claim in claims]
    assert [row for row in ours if row not in rows] == []  # python benchmarks/paper_claims.py
    assert len(rows) - len(ITEMS) == len(claims) or not WHOLE
    text = (root / "docs" / "paper.md").read_text("utf-8")
    if WHOLE:
        assert f"**{tally(claims)}.**" in text.replace("\n", " ")
    section = text.partition("## Section by section")[2].partition("\n## ")[0]
    assert set(re.findall(r"\| `([\w-]+)` \|\n", section)) == set(ITEMS) - {"tuned"}
    counts = re.findall(r"\d+ of \d{2,}|\d+%|0 of 6", section)
    assert [count for count in counts if count not in told] == []
    assert ("lists fifteen errata" in text, len(WORDS["errata"]), len(counts) > 8) == (True, 15, True)
    # the panels of Figs. 3 and 4, and the region of Fig. 5, are described in no other place
    assert {claim.text.partition(":")[0] for claim in claims if claim.basis == "alt text"} == {
        "Quadratic", "Rotated Hyper-Ellipsoid", "Levy", "Branin", "Griewank", "Matyas", "Drop-Wave",
        "Eggholder", "CGD explores a broader region than GD",
    }  # fmt: skip


SOURCE = os.environ.get("PAPER", "")
"""The LaTeX source of the paper, arXiv 2504.16182; it is not ours to keep here."""


@pytest.mark.slow
@pytest.mark.skipif(not SOURCE, reason="PAPER does not name the paper's source")
def test_the_claims_quote_the_paper_word_for_word(outcome_of):
    plain = {"$": "", "f_2": "f₂", r"\lambda": "λ", "--": "–"}
    text = re.sub(
        "|".join(map(re.escape, plain)), lambda found: plain[found[0]], Path(SOURCE).read_text("utf-8")
    )
    text = " ".join(text.split())
    claims = [claim for name in ITEMS for claim in outcome_of(name).claims]
    quoted = [part for claim in claims for part in re.split(r"”[^“]*“|[“”]| \[…\] ", claim.paper)[1:-1]]
    assert len(quoted) > 50
    assert [words for words in quoted if words not in text] == []
    assert all(claim.paper == "" for claim in claims if claim.basis == "ours")


def pace():
    """Return the seconds that this core takes for some arithmetic: others on the machine may double them."""
    setup = "import numpy as np; x = np.ones(100)"
    return timeit("x = 0.999 * x + 0.001", setup, timer=time.process_time, number=200_000)


@pytest.mark.slow
def test_the_whole_paper_takes_a_minute(tmp_path):
    before, began = pace(), time.process_time()
    st.paper.reproduce(tmp_path / "out")
    assert time.process_time() - began < 60 * max(1.0, (before + pace()) / 2 / 0.23)
