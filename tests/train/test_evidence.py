"""The tables of the evidence are those of the runs that are kept."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def report():
    sys.path.insert(0, str(ROOT / "benchmarks" / "evidence"))
    try:
        import report
    finally:
        sys.path.pop(0)
    return report


@pytest.fixture(scope="module")
def runs(report):
    return report.read(ROOT / "benchmarks" / "evidence" / "runs.jsonl")


@pytest.mark.parametrize(
    ("page", "parts"), [("README.md", ["summary"]), ("docs/when.md", ["overview", "tables"])]
)
def test_the_tables_of_a_page_are_made_from_the_runs(report, runs, page, parts):
    text = (ROOT / page).read_text("utf-8")
    assert all(f"<!-- {part}: " in text for part in parts)
    assert report.inserted(text, runs) == text


def test_another_result_makes_another_table(report, runs):
    job = next(job for job in runs if job[:3] == ("cifar100-resnet", "auto", "final"))
    moved = runs | {job: runs[job] | {"accuracy": runs[job]["accuracy"] + 0.01}}
    for part in (report.summary, report.overview, report.tables):
        assert part(moved) != part(runs)


def test_differences_are_paired_by_seed_and_have_a_standard_error(report):
    def run(method, seed, accuracy):
        record = {"accuracy": accuracy, "loss": 1.0, "steps": 10, "strength": 0.0, "lr": 0.1, "decay": 0.0}
        return report.Job("cifar100-resnet", method, "final", -1, seed), record

    runs = dict(
        run(m, s, a) for m, s, a in [("base", 0, 0.5), ("base", 1, 0.7), ("sam", 0, 0.49), ("sam", 1, 0.66)]
    )
    lines = report.rows(runs, "cifar100-resnet")
    assert lines[0][3] == "60.00 ± 10.00"
    assert lines[1][5] == "−2.50 ± 1.50"  # of −1 and −4
