"""The tables of the evidence are those of the runs that are kept, and so are the figures in the text."""

import itertools
import re
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "part"), [("README.md", "summary"), ("docs/when.md", "overview"), ("docs/evidence.md", "tables")]
)
def test_the_table_of_a_page_is_made_from_the_runs(report, runs, page, part):
    text = (ROOT / page).read_text("utf-8")
    assert f"<!-- {part}: " in text
    assert report.inserted(text, runs) == text
    job = next(job for job in runs if job[:3] == ("cifar100-resnet", "share16-late", "final"))
    moved = runs | {job: runs[job] | {"accuracy": runs[job]["accuracy"] + 0.01}}
    assert report.inserted(text, moved) != text


@pytest.mark.slow
@pytest.mark.parametrize("page", ["docs/when.md", "docs/evidence.md"])
def test_every_difference_in_the_text_is_one_of_two_rows(report, runs, page):
    lines = (ROOT / page).read_text("utf-8").splitlines()
    text = " ".join(line.strip() for line in lines if not line.startswith(("|", "#")))
    quoted = re.findall(r"([\d]*)\.(\d+) ± \d*\.(\d+)", text)
    assert quoted
    known = set()
    for task, (row, other) in itertools.product(report.SPECS, itertools.combinations(report.NAMES, 2)):
        ends = [report.finals(runs, task, method) for method in (row, other)]
        for key, scale in (("accuracy", 100), ("loss", 1)):
            mean, error = report.Mean.of(report.gaps(*ends, key, scale))
            known |= {(f"{abs(mean):.{n}f}", f"{error:.{n}f}") for n in (2, 3)}
    for whole, mean, error in quoted:
        assert (f"{whole or 0}.{mean}", f"0.{error}") in known


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/when.md"])
def test_the_cost_in_seconds_is_that_of_the_tables(report, runs, page):
    text = " ".join((ROOT / page).read_text("utf-8").split())
    tables = [report.rows(runs, task) for task in report.HERO]
    for method in ("gap", "share16-late"):
        name = report.NAMES[method]
        found = [float(line[7]) for table in tables for line in table if line[0] == name and line[7] != "–"]
        ends = [f"{100 * (end(found) - 1):.0f}" for end in (min, max)]
        assert f"{' to '.join(dict.fromkeys(ends))} %" in text


@pytest.mark.slow
def test_no_short_run_was_destroyed_and_few_settings_ended_behind_the_base(capsys, report):
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import short_runs
    finally:
        sys.path.pop(0)
    pairs = short_runs.kept()
    text = " ".join((ROOT / "docs/when.md").read_text("utf-8").split())
    assert f"in {len(pairs)} short runs" in text
    assert short_runs.show(pairs) == (2, 0)
    groups = {}
    for setting, (base, rule) in pairs.items():
        groups.setdefault(setting[:-1], []).append(rule["loss"] - base["loss"])
    means = [report.Mean.of(gaps) for gaps in groups.values()]
    behind = [mean for mean, error in means if mean > 2 * error]
    assert f"Two of {len(groups)} settings ended behind the base beyond two standard errors" in text
    assert f"by {max(behind):.3f} of test loss" in text
    worst = {one: (base, rule | {"loss": 9.0, "training": 9.0}) for one, (base, rule) in pairs.items()}
    assert min(short_runs.show(worst)) > 0
    assert "runs destroyed: 0" in capsys.readouterr().out


@pytest.mark.slow
def test_the_loss_falls_where_a_network_overfits_and_nowhere_else(report, runs):
    """The first two sentences of `docs/when.md` on what to expect, and the strengths of `docs/faq.md`."""
    text, faq = (
        " ".join((ROOT / page).read_text("utf-8").split()) for page in ("docs/when.md", "docs/faq.md")
    )
    falls, better, chosen = {}, [], []
    for task in report.SPECS:
        gap, base = report.finals(runs, task, "gap"), report.finals(runs, task, "base")
        assert {(r["lr"], r["decay"]) for r in gap.values()} == {(r["lr"], r["decay"]) for r in base.values()}
        mean, error = report.Mean.of(report.gaps(gap, base, "loss", 1))
        if mean < -2 * error:
            falls[task] = 100 * -mean / report.Mean.of([base[seed]["loss"] for seed in gap])[0]
        mean, error = report.Mean.of(report.gaps(gap, base, "accuracy", 100))
        better += [task] if mean > 2 * error else []
        chosen += [r["strength"] for r in report.finals(runs, task, "share16-late").values()]
    assert set(report.SPECS) - set(falls) == {"fashion-mlp", "fashion-cnn"}
    assert f"by {min(falls.values()):.0f} to {max(falls.values()):.0f} % on the eight tasks" in text
    assert len(better) == 5
    assert "points of accuracy on five of them" in text
    assert f"it was between {min(chosen):g} and {max(chosen):g}" in faq


@pytest.mark.slow
def test_what_others_do_better_is_said(report, runs):
    """The sentences of `docs/when.md` below its table, and on the paper's plan."""
    text = " ".join((ROOT / "docs/when.md").read_text("utf-8").split())

    def mean(task, method, figure):
        return report.Mean.of([figure(r) for r in report.finals(runs, task, method).values()])[0]

    stopped, behind = {}, 0
    for task in report.SPECS:
        ema = mean(task, "ema", lambda r: min(r["losses"]))
        rule = mean(task, "gap", lambda r: r["loss"])
        stopped |= {task: f"{ema:.3f} against {rule:.3f}"} if ema < rule - 0.01 else {}
        behind += mean(task, "cgd-early", lambda r: r["accuracy"]) < mean(
            task, "base", lambda r: r["accuracy"]
        )
    assert set(stopped) == {"cifar100-vit", "fashion4k-cnn"}
    assert f"on the ViT ({stopped['cifar100-vit']})" in text
    assert behind == 8
    assert "behind the base in accuracy on eight of the ten tasks" in text
    for task in ("fashion4k-cnn", "fashion-cnn"):
        accuracies = {method: mean(task, method, lambda r: r["accuracy"]) for method in report.SHORT}
        assert max(accuracies, key=accuracies.__getitem__) == "smooth"


def test_the_parts_of_a_table_by_hand(report):
    """Differences are paired by seed; bold is what is ahead of all others; the lowest loss is shown."""

    def run(method, seed, accuracy):
        record = {"accuracy": accuracy, "loss": 1.0, "steps": 10, "strength": 0.0, "lr": 0.1, "decay": 0.0}
        return report.Job("cifar100-resnet", method, "final", -1, seed), record

    cases = [("base", 0, 0.5), ("base", 1, 0.7), ("sam", 0, 0.49), ("sam", 1, 0.66)]
    lines = report.rows(dict(run(*case) for case in cases), "cifar100-resnet")
    assert lines[0][3] == "60.00 ± 10.00"
    assert lines[1][5] == "−2.50 ± 1.50"  # of −1 and −4
    found = [(1.0, 0.1), (2.0, 0.1), (2.3, 0.2), (float("nan"), float("nan"))]
    assert report._emphasised(found, ".1f", 1) == ["1.0", "2.0", "2.3", "nan"]
    assert report._emphasised(found, ".1f", -1) == ["**1.0**", "2.0", "2.3", "nan"]
    row = [{"loss": 1.0, "losses": [2.0, 0.9, 1.0]}, {"loss": 1.0, "losses": [2.0, 0.7, 1.0]}]
    assert report.stopped(row) == "\N{NO-BREAK SPACE}(0.800)"


@pytest.mark.slow
def test_a_rule_that_waits_is_ahead_nowhere_and_late_where_it_says(report, runs):
    """What `docs/when.md` says of the price of waiting, and why it is not the default."""
    text = " ".join((ROOT / "docs/when.md").read_text("utf-8").split())
    far = {}
    for task in report.SPECS:
        wait, gap = (report.finals(runs, task, method) for method in ("gap-wait", "gap"))
        mean, error = report.Mean.of(report.gaps(wait, gap, "loss", 1))
        if wait:
            far[task] = mean
            assert mean > -2 * error
    level = {task: mean for task, mean in far.items() if task.startswith("fashion") or task == "mnist1d-mlp"}
    resnets = {"cifar10-resnet", "cifar100-resnet"}
    assert set(far) - set(level) == {"mnist1d-cnn", "cifar100-vit", "characters", *resnets}
    assert f"within {max(map(abs, level.values())):.3f} of the rule's" in text
    ends = [report.finals(runs, "mnist1d-cnn", method) for method in ("gap", "gap-wait", "base")]
    rule, wait = (report.Mean.of(report.gaps(row, ends[2], "loss", 1))[0] for row in ends[:2])
    assert rule / 2 < wait < 0  # "gives back most of what the rule gains"
    for task in resnets:
        began = [run["probed"] > 0 for run in report.finals(runs, task, "gap-wait").values()]
        assert sorted(began) == [False, True]
    gain = report.Mean.of(
        report.gaps(*(report.finals(runs, "characters", m) for m in ("base", "gap")), "loss", 1)
    )
    assert f"on characters {far['characters']:.3f} behind a gain of {gain[0]:.3f}" in text
