"""The command `steepen train`."""

import json
import re
from pathlib import Path

import pytest
import torch

from steepen.cli import main
from steepen.train import OPTIMIZERS, Settings, _run


@pytest.fixture
def no_pictures(monkeypatch):
    monkeypatch.setattr("steepen.train.pictures.save_curves", lambda *arguments: [])


def train(out, *words):
    return main(["train", "--out", str(out), "--grads", "40", "--seeds", "2", *words])


def test_writes_everything_and_prints_the_table(tmp_path, capsys):
    out = tmp_path / "deep" / "folder"
    assert train(out, "--optimizer", "sgd, cgd,sam-late") == 0
    assert sorted(path.name for path in out.iterdir()) == ["curves.png", "curves.svg", "results.json"]
    captured = capsys.readouterr()
    assert captured.err == ""
    found = _run.check(Settings.of("digits", grads=40), ["sgd", "cgd", "sam-late"], 2, out)
    assert len(found.runs) == 6
    for line in found.summary():
        row = re.search(rf"^{line.optimizer} +(.*)$", captured.out, re.MULTILINE)
        assert row is not None
        cells = re.split(r" {2,}", row[1])
        if line.optimizer != "sgd":
            assert cells.pop(0) == {"cgd": "λ 0.05", "sam-late": "ρ 0.2"}[line.optimizer]
        assert cells[:2] == [str(line.steps), str(line.gradients)]
        assert cells[2] == f"{100 * line.accuracy.value:.2f} ± {100 * line.accuracy.error:.2f}"
        assert cells[3] == f"{line.loss.value:.3f} ± {line.loss.error:.3f}"
        pair = f"{100 * line.difference.value:+.2f} ± {100 * line.difference.error:.2f}"
        assert cells[4] == ("–" if line.optimizer == "sgd" else pair)
    assert str(out) in captured.out


@pytest.mark.usefixtures("no_pictures")
def test_json(tmp_path, capsys):
    assert train(tmp_path, "--optimizer", "cgd,sgd", "--lam", "0.2", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["settings"]["lam"] == 0.2
    assert [(line["optimizer"], line["steps"], line["gradients"]) for line in document["summary"]] == [
        ("cgd", 20, 40),
        ("sgd", 40, 40),
    ]
    assert document["summary"][0]["difference"] == [0, 0]
    assert [line["perturbed"] for line in document["summary"]] == [20, 0]


@pytest.mark.usefixtures("no_pictures")
def test_quiet_and_the_default_folder(tmp_path, capsys, monkeypatch):
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
        (["--data", "mnist"], "--data: expected one of digits, mnist1d, cifar10, cifar100; got 'mnist'"),
        (["--optimizer", "sgd,cdg"], "--optimizer: 'cdg' is not known; did you mean 'cgd'?"),
        (["--optimizer", ","], "--optimizer: expected at least one name"),
        (["--optimizer", "cgd,cgd"], "--optimizer: 'cgd' is named twice"),
        (["--base", "adamw", "--optimizer", "sgd"], "--optimizer: 'sgd' is not the base"),
        (["--batch", "900"], "--batch: expected at most the 898 examples"),
        (["--lam", "0"], "--lam: expected a positive number"),
        (["--fraction", "0.001", "--optimizer", "cgd-early"], "--fraction: 0.001 of "),
        (["--data", "cifar10"], "--data-dir: cifar10 is not downloaded; expected the folder that holds it"),
        (["--data", "cifar10", "--data-dir", "nowhere"], "--data-dir: there is no folder 'nowhere'"),
        (["--data-dir", "."], "--data-dir: digits is made here, and read from no folder"),
        (["--device", "abacus"], "--device: expected cpu, cuda or mps, got 'abacus'"),
        (["--grads", "1"], "--grads"),
        (["--lr", "fast"], "--lr"),
    ],
)
def test_wrong_usage(tmp_path, capsys, words, message):
    assert train(tmp_path, *words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_is_found_out_at_once(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert train(tmp_path / "file") == 2
    assert capsys.readouterr().err.startswith("steepen: --out: ")


@pytest.mark.usefixtures("no_pictures")
def test_an_interrupt_keeps_what_is_finished(tmp_path, capsys, monkeypatch):
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
    assert (captured.err, captured.out) == (sentence, "")
    assert train(tmp_path, "--optimizer", "sgd,cgd") == 0
    assert begun == [("sgd", 0), ("cgd", 0), ("sgd", 1), ("cgd", 1), ("cgd", 1)]


@pytest.mark.usefixtures("no_pictures")
def test_diverged_runs_are_in_the_table(tmp_path, capsys):
    assert train(tmp_path, "--optimizer", "sgd", "--lr", "1e9") == 0
    out = capsys.readouterr().out
    assert re.search(r"^sgd .* –  +–  +2/2  +–$", out, re.MULTILINE)
    assert "did not diverge" in out


SCRIPT = """
import torch
from torch.nn.functional import cross_entropy as loss

x = torch.randn(240, 4, generator=torch.Generator().manual_seed(0))
y = (x[:, 0] > 0).long()
train, test = (x[:160], y[:160]), (x[160:], y[160:])
budget, batch, lr, weight_decay, methods, seeds = 2, 16, (0.05, 0.2), (1e-4, 1e-3), ["sam"], 2


def make_model():
    return torch.nn.Linear(4, 2)
"""


def test_a_script_is_compared_and_gone_on_from(tmp_path, capsys):
    script = tmp_path / "task.py"
    script.write_text(SCRIPT)
    out = tmp_path / "out"
    assert main(["train", "--script", str(script), "--out", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["curves.png", "curves.svg", "results.json"]
    captured = capsys.readouterr()
    assert captured.err == ""
    assert [line.split()[0] for line in captured.out.splitlines()[:3]] == ["method", "base", "sam"]
    assert "Each was chosen from 4 trials on held-out data." in captured.out
    words = ["train", "--script", str(script), "--out", str(out), "--optimizer", "sam,share4", "--json"]
    assert main(words) == 0
    document = json.loads(capsys.readouterr().out)
    assert [line["optimizer"] for line in document["summary"]] == ["base", "sam", "share4"]
    script.write_text(SCRIPT.replace("budget, batch", "batch, budget"))
    assert main(words) == 2
    assert "; budget 2, not 16; " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("loss = 1", [], "lacks make_model, train, test"),
        (None, [], "--script: there is no file"),
        (SCRIPT, ["--lr", "0.1"], "--lr: with --script this is for the script to say; got 0.1"),
        (SCRIPT + "\nbudget = 0.1", [], "budget: expected a number of passes"),
    ],
)
def test_a_wrong_script(tmp_path, capsys, text, words, message):
    script = tmp_path / "task.py"
    if text is not None:
        script.write_text(text)
    assert main(["train", "--script", str(script), "--out", str(tmp_path / "out"), *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
