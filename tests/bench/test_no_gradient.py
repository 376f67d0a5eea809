"""What the page on benchmarks says of runs without a gradient, compared with its tables."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
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


def test_the_sentences_say_what_the_tables_do():
    said = " ".join(PART.split())
    held_out, chosen_on = ([f"{end(numbers(row[1])):.2f}" for end in (min, max)] for row in CGD_AUTO)
    assert f"needs {' to '.join(held_out)} of BFGS's evaluations on the held-out problems" in said
    assert f"and {' to '.join(chosen_on)} on the others" in said
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"[{' to '.join(held_out)} of BFGS's](docs/benchmarks.md#without-a-gradient) on 70" in readme
    assert "| 70 others" in PART
    solved = [numbers(row[2]) for row in ROWS if row[0] not in NOISE and row[2][0].isdigit()]
    others, suites = solved[:4], solved[4:]  # cgd-auto, then its peers
    assert all(best > most for best, *rest in zip(*suites, strict=True) for most in rest)
    assert [bfgs - ours for ours, bfgs in zip(*others[:2], strict=True)] == [0, 1, 1]
    assert all(best >= most for best, _, *rest in zip(*others, strict=True) for most in rest)
    assert CGD_AUTO[1][3] == "1"
    assert "One of the 95 runs" in said
    assert 0.2 <= float(CGD_AUTO[0][5]) <= float(CGD_AUTO[1][5]) <= 1 / 3
    assert all(int(cell) >= 36 for row in NOISE.values() for cell in row[:3])
