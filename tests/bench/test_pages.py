"""What pages say of races, compared with the rows in `benchmarks/results`; and the list of commands."""

import re
from itertools import product
from pathlib import Path

import pytest
from benchmarks.__main__ import COMMANDS
from benchmarks.race import tables
from benchmarks.race.results import Results, Row

ROOT = Path(__file__).parents[2]
PARTS = [(name, part) for name, table in tables.TABLES.items() for part in table.shown]
README = (ROOT / "benchmarks" / "README.md").read_text("utf-8")


@pytest.mark.parametrize(("name", "part"), PARTS)
def test_a_page_has_the_table_that_its_rows_give(name, part):
    page = (ROOT / "docs" / tables.TABLES[name].page).read_text("utf-8")
    if not tables.rows_path(name).is_file():
        pytest.skip(f"no rows yet: python -m benchmarks table {name}")
    assert tables.insert(page, part, tables.shown(name)[part]) == page


def test_rows_are_of_the_solvers_and_features_of_their_table():
    for name, table in tables.TABLES.items():
        if not tables.rows_path(name).is_file():
            continue
        found = Results.load(tables.rows_path(name))
        assert set(found.solvers) <= set(table.solvers), name
        assert found.features == list(table.features), name
        assert found.sets == list(table.sets), name
        assert tables.rows_path(name).stat().st_size < 1e6


def test_the_list_of_commands_has_every_table_and_only_files_that_exist():
    for name, table in tables.TABLES.items():
        assert f"`python -m benchmarks table {name}` | {table.minutes} |" in README, name
    for path in re.findall(r"`(?:python )?benchmarks/(\S+?\.py)", README):
        assert (ROOT / "benchmarks" / path).is_file(), path
    for module in re.findall(r"python -m benchmarks\.([\w.]+)", README):
        assert (ROOT / "benchmarks" / (module.replace(".", "/") + ".py")).is_file() or (
            ROOT / "benchmarks" / module / "__main__.py"
        ).is_file(), module
    for command in re.findall(r"python -m benchmarks (\w+)", README):
        assert command in COMMANDS


def test_pages_name_only_commands_and_files_that_exist():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    for page in pages:
        text = page.read_text("utf-8")
        for path in re.findall(r"`(?:python )?benchmarks/([\w/]+\.py)", text):
            assert (ROOT / "benchmarks" / path).is_file(), (page.name, path)
        for words in re.findall(r"python -m benchmarks table ([\w -]+?)[`)]", text):
            assert set(words.split()) - {"--"} <= set(tables.TABLES), (page.name, words)


# --- the sentences beside the tables -------------------------------------------------------------------

PAGE = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
PART = PAGE.partition("## Without a gradient")[2].partition("\n## ")[0]
ROWS = [
    [cell.strip() for cell in line.strip("| ").split("|")]
    for line in PART.splitlines()
    if line.startswith("| ") and "BFGS's" not in line
]
CGD_AUTO = [row for row in ROWS if row[0] == "cgd-auto"]  # of held-out problems, and of the suites
NOISE = {row[0]: row[1:] for row in ROWS if row[0].startswith("10⁻")}


def numbers(cell):
    return [float(number) for number in cell.split(" / ")]


def test_the_sentences_without_a_gradient_say_what_the_tables_do():
    said = " ".join(PART.split())
    held_out, chosen_on = ([f"{end(numbers(row[1])):.2f}" for end in (min, max)] for row in CGD_AUTO)
    assert f"needs {' to '.join(held_out)} of BFGS's evaluations on the held-out problems" in said
    assert f"and {' to '.join(chosen_on)} on the others" in said
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"[{' to '.join(held_out)} of BFGS's](docs/benchmarks.md#without-a-gradient) on 70" in readme
    solved = [numbers(row[2]) for row in ROWS if row[0] not in NOISE and row[2][0].isdigit()]
    others, suites = solved[:4], solved[4:]  # cgd-auto, then its peers
    assert all(best > most for best, *rest in zip(*suites, strict=True) for most in rest)
    assert all(best >= most for best, *rest in zip(*others, strict=True) for most in rest)
    assert all(int(cell) >= 35 for row in NOISE.values() for cell in row[:2])
    needs_more = max(40 - int(row[2]) for row in NOISE.values())
    assert "up to three of the forty need more than that" in said
    assert needs_more == 3


@pytest.mark.parametrize("kind", ["gradients", "values"])
def test_the_sentences_on_noise_say_what_the_rows_do(kind):
    """In how many columns no other solver is ahead, early and late."""
    found, early, late, columns = Results.load(tables.rows_path("noise")), 0, 0, 0
    features = [feature for name, feature in tables.SPOILT.items() if name.startswith(kind)]
    for feature, noise, accuracy in product(features, tables.NOISES, tables.SHOWN):
        ours, *others = (
            tables.solved(found, f"{feature}={noise}", solver, accuracy, (20, 100))
            for solver in found.solvers
        )
        early += all(ours[0] >= other[0] for other in others)
        late += all(ours[1] >= other[1] for other in others)
        columns += 1
    what = {"gradients": "With exact gradients", "values": "Without a gradient"}[kind]
    said = f"**{what}** cgd-auto is first or tied in {late} of {columns} columns"
    assert f"{said}, and in {early} within 20(n + 1)" in " ".join(PAGE.split())


def test_the_sentence_on_kinks_says_what_the_table_does():
    page = (ROOT / "docs" / "reliability.md").read_text("utf-8")
    row = re.search(r"<!-- kinks.*?\| cgd-auto \| (.*?)\n", page, re.DOTALL)[1].split(" | ")
    assert f"three times BFGS's evaluations\non {600 - int(row[4])} of 600 functions" in PAGE
    assert row[2] == "0"  # false successes


def test_a_table_is_shown_by_hand():
    def row(solver, costs, case, success=True):
        return Row("s", case, 2, "plain", solver, costs, 0.0, 20, 0.25, success, True, "done", False, 0)

    table = ((10, 20), (40, 20), (5, 10), (8, 1e9))
    rows = [
        row(solver, (float(cost),), f"p{i}")
        for i, costs in enumerate(table)
        for solver, cost in zip(("cgd-auto", "BFGS"), costs, strict=True)
    ]
    rows[-1] = row("BFGS", (float("inf"),), "p3", success=False)
    found = Results(rows, (1e-3,))
    assert tables.ratios(found, "BFGS").splitlines() == [
        "| solver | to 1e-3 |", "|---|---|",
        "| cgd-auto | 0.79 [0.50, 2.00] (4) |", "| SciPy BFGS | 1.00 (3) |",
    ]  # fmt: skip
    assert tables.ends(found, "BFGS", "four").splitlines()[2:] == [
        "| cgd-auto | 0.79 | 4 | 0 | 0 | 0.25 |", "| BFGS | 1.00 | 3 | 1 | 0 | 0.25 |",
    ]  # fmt: skip
    assert (
        tables.profiles(found, (1e-3,), (4, 10), "plain").splitlines()[0] == "| solver | to 1e-3: 4n | 10n |"
    )
    assert tables.profiles(found, (1e-3,), (4, 10), "plain").splitlines()[2:] == [
        "| cgd-auto | 0.50 | 0.75 |", "| BFGS | 0.00 | 0.75 |",
    ]  # fmt: skip
    page = "a\n<!-- t: written by python -m benchmarks table -->\nold\n<!-- /t -->\nb"
    assert tables.insert(page, "t", "new") == page.replace("old", "new")
    with pytest.raises(ValueError, match="the page has no place for u"):
        tables.insert(page, "u", "new")
