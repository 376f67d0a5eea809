"""Every item's claims hold, and the documentation tells what the runs give."""

import re
import time
from pathlib import Path

import numpy as np
import pytest
from tests.pairs import WHOLE

import steepen as st
from steepen.paper import ITEMS
from steepen.paper._record import tally
from steepen.paper.errata import ERRATA
from steepen.paper.experiments import EXPERIMENTS, T

LONG = ("lam-schedules", "artificial-points", "flat-minima")
"""Items that take seconds, and whose formulas test_untested.py holds."""

MARKS = dict.fromkeys(LONG, pytest.mark.slow) | {"lemma1": pytest.mark.bits}  # p vanishes at the ring


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, ())) for name in ITEMS])
def test_every_claim_of_an_item_holds_and_it_is_whole(name, outcome_of):
    outcome = outcome_of(name)
    assert outcome.claims
    assert [claim.text for claim in outcome.claims if not claim.holds] == []
    assert outcome.figures.keys() == outcome.captions.keys()
    assert all(part.startswith(name) for part in (*outcome.figures, *outcome.tables, *outcome.traces))
    assert outcome.figures or outcome.tables
    for text in (*outcome.found, *outcome.captions.values()):
        assert re.search(r"\w.*[.)]$", text), text
    for table in filter(None, outcome.tables.values()):
        assert all(len(row) == len(table.columns) for row in table.rows)
    # a phone stacks what a wide screen puts side by side
    placed = re.compile(r"\b(Left|Right)\b|(left|right|upper|lower) panel|\((above|below|left|right)\)")
    assert not any(placed.search(text) for text in outcome.captions.values())
    for axes in (axes for figure in outcome.figures.values() for axes in figure.axes):
        if axes.get_yscale() == "linear" and axes.get_ylim()[0] > 0 and "axis starts" in axes.get_ylabel():
            assert f"axis starts at {axes.get_ylim()[0]:.4g}" in axes.get_ylabel()


def test_the_docs_tell_what_the_run_gives(outcome_of):
    text = (Path(__file__).parents[2] / "docs" / "paper.md").read_text("utf-8")
    tables = re.findall(r"\| claim \| paper \| ours \|\n\|---\|---\|---\|\n((?:\|.*\|\n)+)", text)
    rows = [line for table in tables for line in table.splitlines()]
    told = [re.sub(r"\\([*|])", r"\1", row)[2:-2].split(" | ") for row in rows]
    claims = [claim for name in ITEMS if WHOLE or name not in LONG for claim in outcome_of(name).claims]
    ours = {claim.text: [claim.text, claim.said, claim.ours] for claim in claims}
    known = [row for row in told if row[0] in ours]
    assert len(known) >= 50
    assert [row for row in known if row != ours[row[0]]] == []
    if WHOLE:
        assert known == told
        assert f"**{tally(claims)}.**" in text.replace("\n", " ")
    for name in ITEMS:
        assert f"`steepen reproduce --only {name}`" in text, name
    listed = text.partition("| where | printed | should read |\n|---|---|---|\n")[2].splitlines()
    assert [tuple(row[2:-2].replace("\\*", "*").split(" | ")) for row in listed] == list(ERRATA)
    # the panels of Figs. 3 and 4, and the region of Fig. 5, are described in no other place
    assert {claim.text.partition(":")[0] for claim in claims if claim.basis == "alt text"} == {
        "Quadratic", "Rotated Hyper-Ellipsoid", "Levy", "Branin", "Griewank", "Matyas", "Drop-Wave",
        "Eggholder", "CGD explores a broader region than GD",
    }  # fmt: skip


PROMISE, PACE = 60.0, 0.23
"""Seconds of one core for the whole paper, on a core that takes so long for `pace`."""


def pace():
    """Return the seconds that this core takes for some arithmetic: others on the machine may double them."""
    began, x = time.process_time(), np.ones(100)
    for _ in range(200_000):
        x = 0.999 * x + 0.001
    return time.process_time() - began


@pytest.mark.slow
def test_the_whole_paper_takes_a_minute(tmp_path):
    before, began = pace(), time.process_time()
    st.paper.reproduce(tmp_path / "out")
    assert time.process_time() - began < PROMISE * max(1.0, (before + pace()) / 2 / PACE)


# --- the errata that are mathematics, each by its counterexample ---------------------------------------


def test_errata():
    x = np.geomspace(1e-6, 1, 50)  # a strictly convex function on a compact set without PL
    ratio = (4 * x**3) ** 2 / 2 / x**4
    assert ratio == pytest.approx(8 * x**2)
    assert any("½f′²/(f − f*) = 8x²" in should for _, _, should in ERRATA)
    H = -3.0 * np.eye(2)  # a matrix of norm L that is not between 0 and L
    assert np.linalg.norm(H, 2) == -np.linalg.eigvalsh(H).min() == 3.0
    A = np.diag([0.0, 1.0])  # a norm within bounds says nothing of the smallest eigenvalue
    assert 0.5 <= np.linalg.norm(A, 2) <= 1.0
    assert np.linalg.eigvalsh(A - 0.5 * np.eye(2)).min() < 0
    f, y, lam = st.functions["rosenbrock"], np.array([-1.2, 0.7]), 0.01  # one product is enough for EGR
    g = f.grad(y)
    assert g + 2 * lam * f.hvp(y, g) == pytest.approx(g + 2 * lam * f.hess(y) @ g, rel=1e-12)


def test_the_share_left_on_matyas_by_its_two_eigenvalues():
    """CGD-FD's improvement fixes the share of f₀ in the steep direction; the rest takes longer."""
    row, eigenvalues = EXPERIMENTS["matyas"], np.array([0.04, 1.0])
    plain, penalised = ((1 - row.step * eigenvalues * (1 + 2 * lam * eigenvalues)) ** 2 for lam in (0, 10))
    for printed in (row.cgd_fd - 0.005, row.cgd_fd + 0.005):
        steep = (penalised[0] - (1 - printed / 100)) / (penalised[0] - penalised[1])
        shares = np.array([1 - steep, steep])
        assert 100 * (1 - shares @ plain) == pytest.approx(row.gd, abs=0.006)
        assert shares @ (penalised**11 * plain ** (T - 22)) == pytest.approx(0.0862, abs=2e-4)


# --- the page of the whole paper ---------------------------------------------------------------------------


@pytest.mark.slow
def test_the_page_is_small_and_says_no_hyphen_for_a_minus(paper):
    assert paper.page.stat().st_size < 3_000_000
    body = re.sub(r"<(style|p class=files)>.*?</", "", paper.page.read_text("utf-8"), flags=re.DOTALL)
    shown = re.sub(r"<[^>]*>", " ", body)
    assert re.findall(r".{20}(?<![\w.)])-\d.{9}", shown) == []
    assert re.findall(r".{20}e−(?:1[4-9]|[2-9]\d).{9}", shown) == []
