"""The command `steepen train`."""

import json

import pytest

from steepen import load_results
from steepen.cli import main
from steepen.train import _compare

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
    out = tmp_path / "deep" / "out.jsonl"
    assert main(["train", str(script), "--out", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert [line.split()[0] for line in captured.out.splitlines()[:3]] == ["method", "base", "sam"]
    assert "sam: " in captured.out
    assert str(out) in captured.out
    assert len(load_results(out)) == 2 * 4 + 2 * 2  # trials, and runs
    words = ["train", str(script), "--out", str(out), "--methods", "sam,cgd", "--json"]
    assert main(words) == 0
    document = json.loads(capsys.readouterr().out)
    assert [line["optimizer"] for line in document["summary"]] == ["base", "sam", "cgd"]
    script.write_text(SCRIPT.replace("budget, batch", "batch, budget"))
    assert main(words) == 2
    assert " budget 2, not 16; " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("loss = 1", [], "does not define make_model, train, test"),
        (None, [], "task.py' does not exist"),
        (SCRIPT, ["--methods", "samm"], "methods: 'samm' is not known; did you mean 'sam'?"),
        (SCRIPT, ["--device", "abacus"], "device: expected an available one, such as 'cpu'; got 'abacus'"),
        (SCRIPT + "\nbudget = 0.1", [], "budget: expected a number of passes"),
    ],
)
def test_a_wrong_script(tmp_path, capsys, text, words, message):
    script = tmp_path / "task.py"
    if text is not None:
        script.write_text(text)
    assert main(["train", str(script), "--out", str(tmp_path / "out"), *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err


def test_an_interrupt_keeps_what_is_finished(tmp_path, capsys, monkeypatch):
    (tmp_path / "task.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    begun = []

    def interrupted(*given, **options):
        begun.append(given)
        if len(begun) == 4:
            raise KeyboardInterrupt
        return real(*given, **options)

    real = _compare.fit
    monkeypatch.setattr(_compare, "fit", interrupted)
    assert main(["train", "task.py"]) == 1
    assert "run the same command again to resume" in capsys.readouterr().err
    assert main(["train", "task.py", "--quiet"]) == 0
    assert len(begun) == 12 + 1
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
