"""The page for optax users runs as it is written, and so do the programs of the evidence, made small."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_page_runs(capsys):
    text = (ROOT / "docs" / "optax.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    exec(compile("\n".join(blocks), "docs/optax.md", "exec"), {})
    assert "of 60 steps had an ascent step" in capsys.readouterr().out


def evidence(name):
    pytest.importorskip("gymnax")
    sys.path.insert(0, str(ROOT / "benchmarks" / "rl"))
    try:
        return __import__(name)
    finally:
        sys.path.pop(0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_evidence_of_policy_gradients_runs_resumes_and_fills_its_page(tmp_path, monkeypatch):
    from dataclasses import replace

    work, report = evidence("work"), evidence("report")
    world = work.WORLDS["CartPole-v1"]
    small = replace(world, config=replace(world.config, total_steps=2048, width=8), longest=20)
    monkeypatch.setattr(work, "WORLDS", {"CartPole-v1": small})
    monkeypatch.setattr(work, "PARTS", {"classic": ("CartPole-v1",)})
    monkeypatch.setattr(work, "ROWS", {k: work.ROWS[k] for k in ("PPO", "CGD ratio, actor")})
    for _ in range(2):
        work.work("classic", tmp_path, seeds=3, trial_seeds=1, only=[], minutes=5)
    lines = work.lines(tmp_path / "classic.jsonl")
    assert [line["row"] for line in lines] == ["PPO", "CGD ratio, actor"]
    assert len(lines[1]["tried"]) == 3
    assert "length × 0.5" in lines[0]["returns"]
    page = tmp_path / "rl.md"
    page.write_text((ROOT / "docs" / "rl.md").read_text("utf-8"), "utf-8")
    report.main(tmp_path, page)
    assert "| CGD ratio, actor | " in page.read_text("utf-8")
    assert page.with_suffix(".svg").exists()


@pytest.mark.slow
def test_the_hackable_reward_runs(tmp_path):
    program = ROOT / "benchmarks" / "rl" / "grpo.py"
    words = f"-W ignore {program} --out {tmp_path} --tiny --seeds 2 --trial-seeds 1"
    subprocess.run([sys.executable, *words.split()], check=True, capture_output=True)
    rows = [json.loads(line) for line in (tmp_path / "grpo.jsonl").read_text("utf-8").splitlines()]
    assert [row["row"] for row in rows] == ["no penalty", "KL", "ratio"]


def test_interquartile_means_are_those_of_the_middle_half():
    report = evidence("report")
    assert report.iqm([0, 1, 2, 100]) == 1.5
    assert report.iqm([0, 1, 2, 3, 50]) == pytest.approx((0.75 + 2 + 0.75 * 3) / 2.5)
    middle, low, high = report.interval(list(range(40)))
    assert low < middle == 19.5 < high
