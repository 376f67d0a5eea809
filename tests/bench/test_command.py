"""`python -m benchmarks.bench`."""

import csv
import re

import pytest
from benchmarks.bench import SOLVERS, Results
from benchmarks.bench.__main__ import main
from benchmarks.problems import problems

FEW = ["beale", "wood", "extended-rosenbrock-100"]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    chosen = {"mgh": [problems[name] for name in FEW], "nist": [problems["misra1a-1"]]}
    monkeypatch.setattr("benchmarks.bench.__main__.problems_of", chosen.__getitem__)


def bench(out, *words):
    main(["--out", str(out), "--jobs", "1", "--budget", "200", *words])


def test_writes_everything_and_prints_the_summary(tmp_path, capsys, monkeypatch):
    def broken(counter, x0):
        raise ZeroDivisionError("what")

    monkeypatch.setitem(SOLVERS, "CG", broken)
    out = tmp_path / "deep" / "folder"
    bench(out, "--suite", "mgh,nist", "--solvers", "BFGS-Armijo, L-BFGS-B,BB,CG")
    names = ["mgh.png", "mgh.svg", "nist.png", "nist.svg", "results.jsonl", "summary.csv"]
    assert sorted(path.name for path in out.iterdir()) == names
    results = Results.load(out / "results.jsonl")
    assert [row.problem for row in results.of("mgh").rows[::4]] == FEW
    assert {row.budget for row in results.rows} == {200}
    captured = capsys.readouterr()
    assert (
        captured.err.count("CG on") == captured.err.count("ended by an error: ZeroDivisionError: what") == 4
    )
    groups = re.findall(r"^(\S.*) \((\d+)\), 0\.001 +solved", captured.out, re.MULTILINE)
    assert groups == [("mgh", "3"), ("mgh, n ≤ 10", "2"), ("nist", "1")]
    lines = results.summary()
    line = next(line for line in lines if line.solver == "BB")
    cells = re.search(r"^BB +(.*)$", captured.out, re.MULTILINE)[1].split()
    assert (cells[0], cells[2]) == (str(line.solved), f"{line.wins}/{line.losses}/{line.ties}")
    with (out / "summary.csv").open(newline="", encoding="utf-8") as file:
        for row, line in zip(csv.DictReader(file), lines, strict=True):
            assert (row["solver"], row["wins"]) == (line.solver, str(line.wins))


def test_wrong_usage(tmp_path, capsys):
    with pytest.raises(SystemExit):
        bench(tmp_path, "--solvers", "BB", "--reference", "CG")
    assert "--reference: expected one of BB; got 'CG'" in capsys.readouterr().err
    with pytest.raises(ValueError, match="solvers: 'bb' is not known; did you mean 'BB'"):
        bench(tmp_path, "--solvers", "L-BFGS-B,bb", "--suite", "nist")
