"""The command `steepen train`."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from steepen.cli import main
from steepen.train import OPTIMIZERS, Results, _run


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch):
    """They take long, and one test draws them."""
    monkeypatch.setattr("steepen.train.pictures.save", lambda *arguments: [])


def train(out: Path, *words: str) -> int:
    return main(["train", "--out", str(out), "--grads", "40", "--seeds", "2", *words])


def test_writes_everything_and_prints_the_table(tmp_path: Path, capsys):
    out = tmp_path / "deep" / "folder"
    assert train(out, "--optimizer", "sgd, cgd,sam-late") == 0
    assert sorted(path.name for path in out.iterdir()) == ["accuracy.png", "accuracy.svg", "results.json"]
    captured = capsys.readouterr()
    assert captured.err == ""
    lines = Results.from_json((out / "results.json").read_text("utf-8")).chosen(
        ["sgd", "cgd", "sam-late"], range(2)
    )
    for line in lines.summary():
        row = re.search(rf"^{line.optimizer} +(.*)$", captured.out, re.MULTILINE)
        assert row is not None
        cells = re.split(r" {2,}", row[1])
        if line.optimizer != "sgd":
            assert cells.pop(0) == {"cgd": "λ 0.05", "sam-late": "ρ 0.2"}[line.optimizer]
        assert cells[:2] == [str(line.steps), str(line.gradients)]
        assert cells[2] == f"{100 * line.accuracy:.2f} ± {100 * line.accuracy_se:.2f}"
        assert cells[3] == f"{line.loss:.3f} ± {line.loss_se:.3f}"
        pair = f"{100 * line.difference:+.2f} ± {100 * line.difference_se:.2f}"
        assert cells[4] == ("–" if line.optimizer == "sgd" else pair)
    assert str(out) in captured.out


@pytest.mark.usefixtures("no_pictures")
def test_json(tmp_path: Path, capsys):
    assert train(tmp_path, "--optimizer", "cgd,sgd", "--lam", "0.2", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["settings"]["lam"] == 0.2
    assert [(line["optimizer"], line["steps"], line["gradients"]) for line in document["summary"]] == [
        ("cgd", 20, 40),
        ("sgd", 40, 40),
    ]
    assert document["summary"][0]["difference"] == 0


@pytest.mark.usefixtures("no_pictures")
def test_validate_says_what_it_judges_by(tmp_path: Path, capsys):
    assert train(tmp_path, "--optimizer", "sgd", "--validate") == 0
    assert "On the validation part." in capsys.readouterr().out


@pytest.mark.usefixtures("no_pictures")
def test_quiet_and_the_default_folder(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--optimizer", "sgd", "--grads", "10", "--seeds", "1", "--quiet"]) == 0
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
    assert Path("out", "train", "digits", "results.json").is_file()


def test_list(capsys):
    assert main(["train", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(OPTIMIZERS)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--data", "mnist"], "--data: expected one of digits, mnist1d; got 'mnist'"),
        (["--optimizer", "sgd,cdg"], "--optimizer: 'cdg' is not known; did you mean 'cgd'?"),
        (["--optimizer", ","], "--optimizer: expected at least one name"),
        (["--optimizer", "cgd,cgd"], "--optimizer: 'cgd' is named twice"),
        (["--base", "adamw", "--optimizer", "sgd"], "--optimizer: 'sgd' is not the base"),
        (["--base", "adam"], "--base: expected one of sgd, adamw"),
        (["--batch", "900"], "--batch: expected at most the 898 examples"),
        (["--lr", "-1"], "--lr: expected a positive number"),
        (["--lam", "0"], "--lam: expected a positive number"),
        (["--rho", "nan"], "--rho: expected a positive number"),
        (["--fraction", "2"], "--fraction: expected a share"),
        (["--fraction", "0.001"], "--fraction: 0.001 of "),
        (["--device", "abacus"], "--device: expected cpu or cuda, got 'abacus'"),
        (["--grads", "1"], "--grads"),
        (["--seeds", "0"], "--seeds"),
        (["--lr", "fast"], "--lr"),
    ],
)
def test_wrong_usage(tmp_path: Path, capsys, words, message):
    assert train(tmp_path, *words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_is_found_out_at_once(tmp_path: Path, capsys):
    (tmp_path / "file").touch()
    assert train(tmp_path / "file") == 2
    assert capsys.readouterr().err.startswith("steepen: --out: ")


@pytest.mark.usefixtures("no_pictures")
def test_other_settings_are_refused(tmp_path: Path, capsys):
    assert train(tmp_path, "--optimizer", "sgd") == 0
    assert train(tmp_path, "--optimizer", "sgd", "--lr", "0.5") == 2
    error = capsys.readouterr().err
    assert error.startswith("steepen: --out: ")
    assert "lr 0.1, not 0.5" in error
    assert error.count("\n") == 1


@pytest.mark.usefixtures("no_pictures")
def test_an_interrupt_keeps_what_is_finished(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch):
    real, begun = _run.train, []

    def interrupted(name, seed, settings, data):
        begun.append((name, seed))
        assert torch.get_num_threads() == 1
        if len(begun) == 4:
            raise KeyboardInterrupt
        return real(name, seed, settings, data)

    monkeypatch.setattr(_run, "train", interrupted)
    torch.set_num_threads(2)
    try:
        assert train(tmp_path, "--optimizer", "sgd,cgd") == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    captured = capsys.readouterr()
    sentence = f"steepen: interrupted; {tmp_path} keeps 3 of 4 runs; the same command goes on from there\n"
    assert captured.err == sentence
    assert captured.out == ""
    assert train(tmp_path, "--optimizer", "sgd,cgd") == 0
    assert begun == [("sgd", 0), ("cgd", 0), ("sgd", 1), ("cgd", 1), ("cgd", 1)]


@pytest.mark.usefixtures("no_pictures")
def test_diverged_runs_are_in_the_table(tmp_path: Path, capsys):
    assert train(tmp_path, "--optimizer", "sgd", "--lr", "1e9") == 0
    out = capsys.readouterr().out
    assert re.search(r"^sgd .* –  +–  +2/2  +–$", out, re.MULTILINE)
    assert "did not diverge" in out


@pytest.mark.parametrize("module", ["torch", "sklearn", "matplotlib"])
def test_missing_dependencies_are_named(tmp_path: Path, capsys, monkeypatch, module: str):
    from steepen.train import data

    data._digits.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == module and module != "torch"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    assert train(tmp_path, "--optimizer", "sgd") == 2
    assert f"needs {module}: pip install 'steepen[train]'" in capsys.readouterr().err


def test_the_command_starts_without_the_heavy_ones():
    heavy = ["torch", "sklearn", "mnist1d", "matplotlib"]
    code = f"import sys, steepen.cli._commands; print(sorted(set({heavy}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("columns", "loss", "blocks"), [(50, 1.5, 2), (80, 1.5, 1), (80, "nan", 2), (120, "nan", 1)]
)
def test_fits_the_terminal(columns: int, loss, blocks: int):
    program = (
        "from steepen.train import Results, Run, Settings; from steepen.cli.train import show;"
        "runs = [Run(name, seed, 4000, 4000, (0, 4), (0.1, end + seed / 50), (2.3, loss), 0.05)"
        f" for name, end, loss in (('sgd', 0.9, 1.2), ('cgd-early', 0.8, float('{loss}')), ('sam', 0.7, 1.3))"
        " for seed in range(3)];"
        "show(Results(Settings.of('mnist1d'), runs))"
    )
    parent, child = pty.openpty()
    environment = os.environ | {"COLUMNS": str(columns), "TERM": "xterm", "NO_COLOR": "1"}
    with subprocess.Popen([sys.executable, "-c", program], stdout=child, env=environment) as process:
        os.close(child)
        data = b""
        try:
            while chunk := os.read(parent, 65536):
                data += chunk
        except OSError:  # how Linux tells the end
            pass
    os.close(parent)
    assert process.returncode == 0
    lines = re.sub(r"\x1b\[[\d;]*m", "", data.decode()).splitlines()
    assert max(map(len, lines)) <= columns
    titles = [line for line in lines if line.startswith("optimizer")]
    assert len(titles) == blocks
    assert "accuracy" in titles[0]
    assert ("diverged" in titles[0]) == (loss == "nan")
