"""What the page on methods says of runs without a gradient, held against its tables."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
PART = PAGE.partition("## Without a gradient")[2].partition("\n## ")[0]
ROWS = [
    [cell.strip() for cell in line.strip("| ").split("|")]
    for line in PART.splitlines()
    if line.startswith("| ") and "BFGS's" not in line
]
CGD_AUTO = [row for row in ROWS if row[0] == "cgd-auto"]  # of problems kept aside, and of the suites
NOISE = {row[0]: row[1:] for row in ROWS if row[0].startswith("10⁻")}


def numbers(cell):
    return [float(number) for number in cell.split(" / ")]


def test_the_sentences_say_what_the_tables_do():
    ratios = [ratio for row in CGD_AUTO for ratio in numbers(row[1])]
    span = f"{min(ratios):.2f} to {max(ratios):.2f} of BFGS's evaluations"
    assert f"needs {span}" in PART
    assert f"[{span}](docs/methods.md#without-a-gradient)" in (ROOT / "README.md").read_text(encoding="utf-8")
    solved = [numbers(row[2]) for row in ROWS if row[0] not in NOISE and row[2][0].isdigit()]
    others, suites = solved[:4], solved[4:]  # cgd-auto, then its peers
    assert all(best > most for best, *rest in zip(*suites, strict=True) for most in rest)
    assert [bfgs - ours for ours, bfgs in zip(*others[:2], strict=True)] == [0, 1, 1]
    assert all(best >= most for best, _, *rest in zip(*others, strict=True) for most in rest)
    assert CGD_AUTO[1][3] == "1"
    assert "One of the 95 runs" in " ".join(PART.split())
    assert 0.2 <= float(CGD_AUTO[0][5]) <= float(CGD_AUTO[1][5]) <= 1 / 3
    assert all(int(cell) >= 36 for row in NOISE.values() for cell in row[:3])
