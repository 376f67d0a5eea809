"""What the pages say of the evidence, and of training where data is short, is what the runs say."""

import importlib
import itertools
import math
import re
from collections import Counter
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.evidence import __main__ as evidence
from benchmarks.evidence import bench as module
from benchmarks.evidence import jobs, pages, runner, studies
from benchmarks.evidence.jobs import NETWORKS
from benchmarks.evidence.methods import ROWS

from steepen.train.results import Choice
from steepen.train.training import fit

ROOT = Path(__file__).parents[2]


def report_of():
    return importlib.import_module("benchmarks.evidence.report")


def page_of(name):
    return (ROOT / name).read_text("utf-8")


def page(name):
    return " ".join((ROOT / name).read_text("utf-8").split())


def prose(name):
    lines = (ROOT / name).read_text("utf-8").splitlines()
    return " ".join(line.strip() for line in lines if not line.startswith(("|", "#")))


@pytest.fixture(scope="module")
def report():
    return report_of()


@pytest.fixture(scope="module")
def runs(report):
    return NETWORKS.read()


@pytest.fixture(scope="module")
def ten(report):
    return [task for task in report.SPECS if "noise" not in task]


@pytest.fixture(scope="module")
def less(report, runs):
    @cache
    def ends(task, row):
        return report.by_seed(runs, task, row.rstrip("!"), early=row.endswith("!"))

    def less(task, row, other, key="loss", scale=1):
        """Return the difference of two rows; one whose name ends with ! is stopped early."""
        own, to = ends(task, row), ends(task, other)
        k = ("loss", "accuracy").index(key)
        return report.Mean.of([scale * (own[seed][k] - to[seed][k]) for seed in own if seed in to])

    return less


@pytest.fixture(scope="module")
def short():
    names = ("lm", "study", "report", "again")
    return SimpleNamespace(
        **{name: importlib.import_module(f"benchmarks.evidence.short.{name}") for name in names}
    )


@pytest.fixture(scope="module")
def done(short):
    return short.study.SHORT.read()


@pytest.mark.slow
def test_every_table_of_the_pages_is_made_from_the_runs():
    texts = {name: (ROOT / name).read_text("utf-8") for name in evidence.PAGES}
    parts = evidence.parts()
    for part in parts:
        assert sum(f"<!-- {part}: written by python -m benchmarks.evidence" in t for t in texts.values()) == 1
    for text in texts.values():
        assert pages.inserted(text, parts) == text


def test_a_table_follows_its_runs(report, runs):
    text = page_of("README.md")
    job = next(job for job in runs if job[:3] == ("cifar100-resnet", "gate", "final"))
    moved = runs | {job: runs[job] | {key: runs[job][key] + 0.01 for key in ("accuracy", "loss")}}
    assert pages.inserted(text, {"summary": lambda: report.summary(runs)}) == text
    assert pages.inserted(text, {"summary": lambda: report.summary(moved)}) != text


@pytest.mark.slow
def test_every_difference_in_the_text_is_one_of_two_rows(report, less):
    quoted = re.findall(r"(\d*\.\d+) ± (\d*\.\d+)", prose("docs/when.md"))
    assert quoted
    known = set()
    names = [*report.ROWS, "ema-stopped!", "gate-ema!", "base-less!"]
    for task, (row, other) in itertools.product(report.SPECS, itertools.combinations(names, 2)):
        for key, scale in (("accuracy", 100), ("loss", 1)):
            mean, error = less(task, row, other, key, scale)
            known |= {(f"{abs(mean):.{n}f}", f"{error:.{n}f}") for n in (2, 3)}
    known |= {("1.70", "0.72"), ("0.063", "0.030")}  # of the next test
    assert set(quoted) <= known


@pytest.mark.slow
def test_what_a_learning_rate_that_does_not_fall_does_is_said(report):
    variants = importlib.import_module("benchmarks.evidence.variants")
    done = variants.RATES.read()

    def gain(task, plan, what):
        pairs = variants.pairs_of(done, task, plan)
        return report.Mean.of([two[what] - one[what] for one, two in pairs])

    tasks, both = ("mnist1d-mlp", "mnist1d-cnn", "fashion4k-mlp"), ("mnist1d-mlp", "fashion4k-mlp")
    for task, plan in (
        *itertools.product(tasks, ("", "tenth")),
        *itertools.product(both, ("third-constant",)),
    ):
        assert (gain(task, plan, "loss").sign, gain(task, plan, "accuracy").sign >= 0) == (-1, True)
    assert {task: gain(task, "constant", "loss").sign for task in tasks} == dict(
        zip(tasks, (0, 1, 0), strict=True)
    )
    (points, loss), text = (
        (gain("mnist1d-cnn", "constant", one) for one in ("accuracy", "loss")),
        page("docs/when.md"),
    )
    assert f"it had {-100 * points.value:.2f} ± {100 * points.error:.2f} points less accuracy" in text
    assert f"a test loss {loss.value:.3f} ± {loss.error:.3f} higher" in text


@pytest.mark.slow
@pytest.mark.parametrize("name", ["README.md", "docs/when.md"])
def test_the_cost_in_seconds_is_that_of_the_tables(report, runs, name):
    lines = [line for task in report.HERO for line in report.rows(runs, task) if line[8] != "–"]
    for method in ("gate",) if name == "README.md" else ("gate", "share16-late"):
        found = [float(line[8]) for line in lines if line[0] == report.ROWS[method].title]
        ends = [f"{100 * (end(found) - 1):.0f}" for end in (min, max)]
        assert f"{' to '.join(dict.fromkeys(ends))} %" in page(name)
    closed = runs["cifar100-resnet", "closed", "timing", -1, 0]
    each = closed["seconds"] / closed["steps"] / (closed["base"][1] / closed["base"][0])
    assert name == "README.md" or f"a step took {100 * (each - 1):.1f} % more than the base's" in page(name)


@pytest.mark.slow
def test_no_short_run_was_destroyed_and_no_setting_ended_behind_the_base():
    short_runs, text = importlib.import_module("benchmarks.evidence.short_runs"), page("docs/when.md")
    runs = short_runs.kept()
    assert f"in {len(runs)} short runs" in text
    assert short_runs.counted(runs)[1] == {"open": (11, 2, 0), "gate": (10, 0, 0)}
    for name, said in (("gate", "fell by {}, and the accuracy rose by {}"), ("open", "({} and {} before")):
        gains = (short_runs.paired([*runs.values()], name, "base", key)[0] for key in ("loss", "accuracy"))
        assert said.format(*(f"{abs(gain):.{n}f}" for gain, n in zip(gains, (3, 2), strict=True))) in text


@pytest.mark.slow
def test_the_loss_falls_where_a_network_overfits_and_nowhere_else(report, runs, less, ten):
    """What `docs/when.md` says to expect, and the strengths of `docs/training.md`."""
    falls, better, chosen, text = {}, [], [], page("docs/when.md")
    for task in ten:
        gate, base = (report.finals(runs, task, method) for method in ("gate", "base"))
        assert len({(r["lr"], r["decay"]) for r in (*gate.values(), *base.values())}) == 1
        change = less(task, "gate", "base")
        if change.sign < 0:
            own = [base[seed]["loss"] for seed in gate if seed in base]
            falls[task] = 100 * -change.value / np.mean(own)
        points = less(task, "gate", "base", "accuracy", 100)
        assert points.sign >= 0
        better += [points] if points.sign > 0 else []
        chosen += [r["strength"] for r in report.finals(runs, task, "share16-late").values()]
    assert set(ten) - set(falls) == {"fashion-mlp", "fashion-cnn"}
    span = f"by {min(falls.values()):.0f} to {max(falls.values()):.0f} %"
    assert f"{span} on eight tasks of ten" in text
    assert f"{span} on eight tasks of ten" in page("README.md")
    assert len(better) == 7
    ends = [f"{end.value:.2f} ± {end.error:.2f}" for end in (min(better), max(better))]
    assert f"{' to '.join(ends)} points higher on seven of the eight" in text
    assert f"it was between {min(chosen):g} and {max(chosen):g}" in page("docs/training.md")


def said(one, form=".3f"):
    return f"{abs(one.value):{form}} ± {one.error:{form}}"


@pytest.mark.slow
def test_what_is_gained_beyond_fewer_steps_and_a_mean_of_the_weights_is_said(report, runs, less, ten):
    text, overfit = page("docs/when.md"), [task for task in ten if not task.startswith("fashion-")]
    lengths = {task: less(task, "gate", report.best_length(runs, task)) for task in overfit}
    assert {task: one.sign for task, one in lengths.items() if one.sign >= 0} == {"characters": 0}
    low, *_, high = sorted((one for one in lengths.values() if one.sign), reverse=True)
    assert f"by {said(low)} to {said(high)}" in text
    assert report.best_length(runs, "characters") == "base-0.375"
    points = less("characters", "gate", "base-0.375", "accuracy", 100)
    assert f"GapSAM's test loss, with {said(points, '.2f')} points less accuracy" in text
    means = {task: less(task, "gate", "ema-stopped!") for task in overfit if task != "cifar10-resnet"}
    assert Counter(one.sign for one in means.values()) == {-1: 3, 0: 3, 1: 1}
    ahead = sorted(one for one in means.values() if one.sign < 0)
    assert f"(by {said(ahead[-1])} to {said(ahead[0])})" in text
    assert means["characters"].sign == 1
    points = Counter(less(task, "gate", "ema-stopped!", "accuracy").sign for task in means)
    assert points == {1: 3, 0: 4}
    assert "the mean of the weights as much on three of seven and more on one" in page("README.md")


@pytest.mark.slow
def test_what_holding_data_out_costs_is_said(report, runs, less):
    lost = {
        t: less(t, "base-returned", "base") for t in report.SPECS if report.by_seed(runs, t, "base-returned")
    }
    assert Counter(one.sign for one in lost.values()) == {0: 9, 1: 4}
    more = {task: one for task, one in lost.items() if one.sign}
    assert set(more) == {"fashion4k-cnn", "tabular-noise20", "binary-noise20", "binary-noise40"}
    assert "tied with the base's on nine of thirteen tasks and higher on four" in page("docs/when.md")
    span = f"{min(more.values()).value:.3f} to {max(more.values()).value:.3f} of test loss higher on four"
    assert span in page("docs/training.md")
    kept = [less(t, "gate-kept", "gate") for t in report.SPECS if not report.SPECS[t].gpu]
    assert Counter(one.sign for one in kept) == {1: 6, 0: 4}
    assert "the loss is higher on six of ten, by 0.002 to 0.015, and tied on four" in page("docs/evidence.md")


@pytest.mark.slow
def test_gap_sam_with_a_mean_is_level_with_the_better_of_both_or_ahead_on_ten_tasks_of_twelve(
    report, runs, less
):
    tasks = [t for t in report.SPECS if report.by_seed(runs, t, "gate-ema")]
    assert len(tasks) == 12
    pairs = {(t, n): less(t, "gate-ema!", n) for t in tasks for n in ("gate-kept", "ema-stopped!")}
    behind = {pair: one for pair, one in pairs.items() if one.sign > 0}
    assert set(behind) == {("fashion4k-cnn", "ema-stopped!"), ("tabular-noise40", "gate-kept")}
    text = page("docs/when.md")
    assert "On ten of the twelve tasks where it was run, its test loss is tied with or lower than" in text
    assert "on ten of twelve tasks" in page("README.md")
    for one in (*behind.values(), pairs["binary-noise40", "gate-kept"]):
        assert said(one) in text
    assert pairs["binary-noise20", "gate-kept"].sign == 0
    right = {(t, n): less(t, "gate-ema!", n, "accuracy", 100) for t, n in pairs}
    lower = {task for (task, _), one in right.items() if one.sign < 0}
    assert lower == {"fashion4k-mlp", "binary-noise20", "binary-noise40"}
    assert "(on three its accuracy is lower)" in page("README.md")
    two = [said(right[t, "ema-stopped!"], ".2f") for t in ("binary-noise20", "binary-noise40")]
    assert f"has {' and '.join(two)} points more accuracy there" in text
    returned = {task: less(task, "gate-ema!", "gate") for task in tasks}
    assert Counter(one.sign for one in returned.values()) == {-1: 3, 0: 4, 1: 5}
    low, *_, high = sorted(one for one in returned.values() if one.sign > 0)
    assert f"by {said(low)} to {said(high)}, and is tied on four" in text
    for task, whole in (("tabular-noise20", "0.062"), ("tabular-noise40", "0.154")):  # without the limit
        ema, kept = (report.finals(runs, task, name) for name in ("gate-ema", "gate-kept"))
        gaps = [report.stopped(ema[seed])[0] - kept[seed]["loss"] for seed in ema]
        assert f"{np.mean(gaps):.3f}" == whole
        assert whole in text


@pytest.mark.slow
def test_where_gap_sam_gains_from_fewer_steps_is_said(report, runs, less):
    text, rows = page("docs/when.md"), [t for t in report.SPECS if report.by_seed(runs, t, "gate-0.75")]
    found = {t: less(t, "gate-0.75", "gate") for t in rows}
    assert len(found) == 9
    gains = {task: one for task, one in found.items() if one.sign < 0}
    assert set(gains) == {"characters", "binary-noise20", "binary-noise40"}
    assert all(said(one) in text for one in gains.values())
    assert all(less(t, "gate-0.5", "gate").sign >= 0 for t in set(found) - set(gains))


@pytest.mark.slow
def test_where_the_rows_of_optax_differ_from_those_of_torch_is_said(report):
    pytest.importorskip("jax")
    optax = importlib.import_module("benchmarks.evidence.with_optax")
    found = {"losses": {}, "accuracies": {}}
    for (task, method), run in optax.WITH_OPTAX.read().items():
        for k, name in enumerate(found):
            ours = report.Mean.of(run.get(name, []))
            theirs = report.Mean.of([end[k] for end in optax.torch_rows(task, method)])
            apart = ours.value - theirs.value
            if abs(apart) > 2 * math.hypot(ours.error, theirs.error):
                found[name][task, method] = apart
    assert set(found["losses"]) == {("optax-characters", "gate")}
    (far,) = found["losses"].values()
    assert f"GapSAM's is {far:.3f} higher on characters" in page("docs/optax.md")
    signs = {method: value > 0 for (_, method), value in found["accuracies"].items()}
    assert signs == {"sam": True, "gap": False}
    rows = optax.WITH_OPTAX.read()
    own, drawn = (len(rows["optax-mnist1d", name]["losses"]) for name in ("gate", "gate-drawn"))
    theirs = len(optax.torch_rows("optax-mnist1d", "gate"))
    said = f"{own} of optax, {drawn} with torch's initial weights and batches, {theirs} of torch"
    assert said in page("docs/optax.md")


@pytest.mark.slow
def test_what_twice_the_part_of_an_early_gap_does_is_said(report, less):
    twice, text = {task: less(task, "early-2", "gate") for task in report.SPECS}, page("docs/when.md")
    more = {task: one for task, one in twice.items() if one.sign > 0}
    assert set(more) == {"fashion4k-mlp", "tabular-noise20", "tabular-noise40"}
    assert f"by {min(more.values()).value:.3f} to {max(more.values()).value:.3f}" in text
    assert f"the loss is {said(twice['characters'])} lower on characters" in text
    assert f"{said(twice['binary-noise20'])} and {said(twice['binary-noise40'])} lower" in text


@pytest.mark.slow
def test_what_fewer_steps_do_where_labels_are_wrong_is_said(report, runs, less):
    text = page("docs/when.md")
    tables = ("tabular-noise20", "tabular-noise40", "binary-noise20", "binary-noise40")
    gains = [less(task, "gate", report.best_length(runs, task)) for task in tables]
    assert [one.sign for one in gains] == [0, 1, 1, 1]
    assert "the base at its best length is tied with GapSAM or ahead of it" in page("README.md")
    assert [report.best_length(runs, t) for t in tables] == ["base-0.75", "base", "base-0.375", "base-0.25"]
    for task in tables[2:]:
        assert said(less(task, "gate", "base")) in text
        assert said(less(task, "gate", report.best_length(runs, task))) in text
    assert {r["strength"] for r in report.finals(runs, "binary-noise40", "sam").values()} == {0.8}
    assert {r["strength"] for r in report.finals(runs, "binary-noise40", "share16").values()} == {2.0}
    for row in ("sam", "share16"):
        learnt = [r["accuracy"] for r in report.finals(runs, "binary-noise40", row).values()]
        assert max(learnt) < 0.51


@pytest.mark.slow
def test_what_others_do_better_is_said(report, runs, less, ten):
    text = page("docs/when.md")
    places = Counter(less(task, "cgd-early", "base", "accuracy").sign for task in ten)
    assert places == {-1: 7, 0: 1, 1: 2}
    assert "in accuracy it is behind the base on seven of the ten tasks and ahead on two" in text
    by_loss = Counter(less(task, "cgd-early", "base").sign for task in ten)
    assert (by_loss[-1], by_loss[0]) == (5, 2)
    assert "lowers the test loss on five of the ten tasks and raises it on three" in text
    words = page("docs/cgd.md")
    assert "a lower test loss than the base optimizer on five of ten tasks and tied on two" in words
    assert "its accuracy was higher on two and lower on seven" in words

    def ahead(row, key, better):
        return {task for task in report.SPECS if less(task, row, "gate", key).sign == better}

    assert ahead("smooth", "accuracy", 1) == {"mnist1d-cnn", "fashion4k-cnn", "fashion-cnn", "fashion-mlp"}
    assert ahead("share16-late", "accuracy", 1) == {"cifar100-resnet", "fashion4k-mlp", "tabular-noise20"}
    assert "fashion4k-cnn" in ahead("share4-late", "loss", -1)
    assert not ahead("cgd-late", "loss", -1)
    assert ahead("cgd-late", "accuracy", 1) == {"tabular-noise20", "binary-noise20"}
    assert ahead("share16", "loss", -1) == {"binary-noise20"}
    none = [f"{100 * r['accuracy']:.0f}" for r in report.finals(runs, "mnist1d-cnn", "share16-late").values()]
    assert [float(one) < 15 for one in none].count(True) == 1  # "one run of five collapsed"


@pytest.mark.slow
def test_what_the_gate_costs_where_a_network_overfits_is_said(less, ten):
    text, found = page("docs/when.md"), {task: less(task, "gate", "gap") for task in ten}
    assert not any(mean > 2 * error for mean, error in found.values())
    assert {task for task in found if found[task].sign < 0} == {"mnist1d-mlp", "fashion4k-cnn"}
    assert f"perceptron ({said(found['mnist1d-mlp'])})" in text
    assert f"convolutions ({said(found['fashion4k-cnn'])})" in text
    assert "tied on the eight others" in text


@pytest.mark.slow
def test_a_lower_loss_with_a_lower_accuracy_is_of_methods_that_make_fewer_steps(report, runs, less, ten):
    """What `docs/training.md` says of it, beyond two standard errors."""
    both = [
        (task, row)
        for task, row in itertools.product(ten, report.ROWS)
        if row != "base" and report.ROWS[row].method.length == 1 and report.finals(runs, task, row)
        if less(task, row, "base").sign < 0 and less(task, row, "base", "accuracy").sign < 0
    ]
    assert {row for _, row in both} == {"sam", "sam-late", "share4", "share4-late", "cgd-early", "cgd-late"}
    assert len(both) == 9
    assert "a lower loss came with a lower accuracy in nine rows" in page("docs/training.md")


@pytest.mark.slow
def test_where_a_lower_loss_came_with_a_lower_accuracy_in_fine_tuning_is_said(short, done):
    def sign(task, figure):
        ours, base = (short.report.finals(done, task, "adamw", row) for row in ("gate", "decay"))
        return short.report.Mean.of(short.report.paired(ours, base, figure)).sign

    tasks = [task for task in short.study.TASKS if not task.startswith("lm")]
    both = [t for t in tasks if sign(t, lambda r: r["loss"]) < 0 and sign(t, lambda r: r["accuracy"]) < 0]
    assert (len(tasks), both) == (12, ["manual-64-whole"])
    lower = [t for t in tasks if sign(t, lambda r: r["accuracy"]) < 0]
    gains = [short.report.paired(*(short.report.finals(done, t, "adamw", row) for row in ("gate", "decay")),
                                 lambda r: 100 * r["accuracy"]) for t in lower]  # fmt: skip
    assert [f"{np.mean(gain):.1f}" for gain in gains] == ["-0.4", "-0.4"]
    assert "fine-tuning there is one in which it did with GapSAM" in page("docs/training.md")


@pytest.mark.parametrize("method", ["base", "sam", "share16-late", "gate", "smooth"])
def test_a_step_by_captured_passes_is_the_step(method):
    """On a CPU, with passes that only look captured: they leave the gradients, and return the loss."""
    bench, row = module.Bench("mnist1d-mlp", None, "cpu", toy=True), ROWS[method]
    plain = bench.at("final", row, 0.1)

    def passes(model, x, y, smoothing):
        loss = module.smoothed(model(x), y, smoothing)
        loss.backward()
        return loss

    own = {one.name: getattr(plain, one.name) for one in fields(plain)}
    given = method, row.method, Choice(0.1, 1e-3, 0.1)
    runs = [
        fit(task, *given, seed=0, grads=24) for task in (plain, module.CapturedTask(**own, passes=passes))
    ]
    assert runs[0].losses == pytest.approx(runs[1].losses, rel=1e-4)
    assert runs[0].gradients == runs[1].gradients


def test_the_runner_makes_trials_then_runs_by_the_best_and_nothing_twice(tmp_path):
    told = []
    options = {"device": "cpu", "toy": True, "until": math.inf, "seeds": 2, "tell": told.append}
    for _ in range(2):
        rows = ["base", "base-0.5", "ema-stopped"]
        runner.work(NETWORKS, "mnist1d-cnn", rows, tmp_path, tmp_path, **options)
    done = NETWORKS.read(tmp_path, published=False)
    assert len(told) == len(done) == 9 + 3 * 2
    assert not any("error" in record for record in done.values())
    best = jobs.choice(jobs.SPECS["mnist1d-cnn"], "mnist1d-cnn", "ema-stopped", done)  # by the base's trials
    chosen = {(r["lr"], r["decay"]) for job, r in done.items() if job.stage == "final"}
    trial = done[jobs.Job("mnist1d-cnn", "base", "trial", best, 0)]
    assert chosen == {(trial["lr"], trial["decay"])}
    assert trial["accuracy"] == max(r["accuracy"] for job, r in done.items() if job.stage == "trial")
    steps = {job.method: r["steps"] for job, r in done.items() if job.stage == "final"}
    assert steps["base-0.5"] == steps["base"] // 2
    ended = done[jobs.Job("mnist1d-cnn", "ema-stopped", "final", -1, 0)]
    at = int(np.argmin(ended["held_out"]))
    assert report_of().stopped(ended) == (ended["losses"][at], ended["accuracies"][at])


@pytest.mark.parametrize("percent", [20, 40])
def test_labels_that_are_noisy_are_changed_in_training_only(percent, tmp_path):
    x, y = np.zeros((2000, 3), np.float32), np.arange(2000) % 4
    np.savez(tmp_path / "tabular.npz", x=x, y=y, x_test=x, y_test=y)
    got = jobs.SPECS[f"tabular-noise{percent}"].load(tmp_path)
    changed = got.y.numpy() != y
    assert abs(changed.mean() - percent / 100) < 0.03
    assert set(got.y.tolist()) == {0, 1, 2, 3}
    assert (got.y_test.numpy() == y).all()


@pytest.mark.parametrize("name", studies.PLACES)
def test_a_study_has_rows_and_jobs_and_reads_its_runs(name):
    study, seen = studies.study(name), set()
    for task in (*study.tasks, *study.toys):
        wanted = list(study.jobs(task, study.rows(task)))
        assert wanted
        assert all(len(job) == len(study.fields) and job[0] == task for job in wanted)
        seen.update(wanted)
    done = study.read()
    assert done
    assert {job[0] for job in done} <= set(study.tasks)
    assert seen & set(done)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "task"), [("variants", "mnist1d-mlp"), ("short-runs", "short-runs")])
def test_the_runner_makes_the_runs_of_other_studies(name, task, tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    study, told = studies.study(name), []
    jobs = list(itertools.islice(study.jobs(task, study.rows(task)), 3))
    monkeypatch.setattr(type(study), "jobs", lambda *_: iter(jobs))
    options = {"device": "cpu", "toy": True, "until": math.inf, "seeds": 1, "tell": told.append}
    for _ in range(2):
        runner.work(study, task, (), tmp_path, tmp_path, **options)
    assert len(told) == 3
    done = study.read(tmp_path, published=False)
    assert set(done) == set(jobs)
    assert all(math.isfinite(record["loss"]) for record in done.values())


def test_new_runs_are_published_beside_those_that_are(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "RESULTS", tmp_path / "results")
    study, out = studies.study("gates"), tmp_path / "out"
    for folder, seeds in (("out", (0, 1)), ("later", (1, 2))):
        for seed in seeds:
            file = study.store("mnist1d-mlp", tmp_path / folder)
            file.add(("mnist1d-mlp", "gate", seed), {"loss": 10.0 + seed, "of": folder})
        file.add(("mnist1d-mlp", "gate", 9), {"error": "of no run"})
        assert study.publish(tmp_path / folder) == ["mnist1d-mlp"]
    assert {job[2]: record["of"] for job, record in study.read().items()} == {
        0: "out",
        1: "later",
        2: "later",
    }
    assert study.read(out, published=False).keys() - study.read().keys() == {("mnist1d-mlp", "gate", 9)}
    assert not list((tmp_path / "results").rglob("*.sqlite"))


def test_a_run_that_fails_is_recorded_and_ends_no_other(tmp_path, monkeypatch):
    def make(job, values, bench):
        if job.method == "base":
            raise RuntimeError("no")
        return {"loss": 1.0, "accuracy": 0.5}

    monkeypatch.setattr(NETWORKS, "make", make)
    monkeypatch.setattr(NETWORKS, "values", lambda job, done: ())
    monkeypatch.setattr(NETWORKS, "bench", lambda *given: 1)
    options = {"device": "cpu", "toy": True, "until": math.inf, "seeds": 1, "tell": [].append}
    runner.work(NETWORKS, "mnist1d-cnn", ["base", "base-0.5"], tmp_path, tmp_path, **options)
    done = NETWORKS.read(tmp_path, published=False)
    assert done[jobs.Job("mnist1d-cnn", "base", "final", -1, 0)]["error"] == "RuntimeError: no"
    assert done[jobs.Job("mnist1d-cnn", "base-0.5", "final", -1, 0)]["loss"] == 1.0


def test_a_run_whose_trials_all_failed_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(NETWORKS, "values", lambda job, done: None)
    options = {"device": "cpu", "toy": True, "until": math.inf, "seeds": 1, "tell": [].append}
    runner.work(NETWORKS, "mnist1d-cnn", ["base"], tmp_path, tmp_path, **options)
    assert not NETWORKS.read(tmp_path, published=False)


def test_differences_are_paired_by_seed_and_bold_is_what_is_ahead_of_all_others(report):
    record = {"loss": 1.0, "steps": 10, "strength": 0.0, "lr": 0.1, "decay": 0.0}
    cases = [("base", 0, 0.5), ("base", 1, 0.7), ("sam", 0, 0.49), ("sam", 1, 0.66)]
    made = {
        report.Job("cifar100-resnet", method, "final", -1, seed): record | {"accuracy": accuracy}
        for method, seed, accuracy in cases
    }
    lines = report.rows(made, "cifar100-resnet")
    assert (lines[0][3], lines[1][5]) == ("60.00 ± 10.00", "−2.50 ± 1.50")  # of −1 and −4
    found = [(1.0, 0.1), (2.0, 0.1), (2.3, 0.2)]
    assert report._emphasised(found, ".1f", 1) == ["1.0", "2.0", "2.3"]
    assert report._emphasised(found, ".1f", -1) == ["**1.0**", "2.0", "2.3"]


def test_where_data_is_short_every_row_has_as_many_trials(short):
    jobs = list(short.study.every_job())
    assert len(set(jobs)) == len(jobs)
    for method, row in short.lm.ROWS.items():
        own = [job.stage for job in jobs if job[:2] == ("lm-small", "adamw") and job.method == method]
        assert (own.count("trial"), own.count("final")) == (0 if row.like else 4, 3)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["base", "base-less"])
def test_a_language_model_trains_with_and_without_something_to_watch(short, tmp_path, method):
    parts = dict.fromkeys(("train", "watched", "validation", "test", "manual"), np.arange(2048) % 50)
    np.savez(tmp_path / "tokens.npz", **parts)
    bench, values = short.lm.Bench("lm-toy", tmp_path, "cpu"), short.study.Choice(1e-3, 0.4, 0.0)
    assert short.lm.train(bench, "adamw", method, values, 0, whole=False)["steps"] == 64


def test_the_epoch_is_chosen_by_the_validation_and_a_rise_at_an_equal_loss_read_between_two_looks(short):
    run = {"validations": [3.0, 2.0, 2.5], "tests": [3.5, 2.6, 2.4]}
    assert short.report.stopped(run) == 2.6
    way = [{"loss": 4.0, "4 bits": 4.5}, {"loss": 2.0, "4 bits": 3.5}, {"loss": 3.0, "4 bits": 9.0}]
    assert short.report.at_equal_loss({0: {"way": way}}, 3.0, "4 bits") == pytest.approx([1.0])


@pytest.mark.slow
def test_every_figure_in_the_text_is_one_of_the_tables_or_of_the_trials(short, done):
    lines = (ROOT / "docs" / "evidence.md").read_text("utf-8").splitlines()
    cells = {cell.strip(" +−") for line in lines if line.startswith("|") for cell in line.split("|")}
    report, said = short.report, prose("docs/evidence.md")

    ends = {name: report.finals(done, "lm-large", "adamw", name) for name in short.study.LARGE}
    last = {name: np.mean([report._loss(run) for run in row.values()]) for name, row in ends.items() if row}
    assert min(last, key=last.get) == "share16-late"  # "ahead of all"
    assert last["share16-late"] < np.mean([report.stopped(run) for run in ends["base"].values()])
    shown = [name for name in report.OVERVIEW["lm"] if name != "early"]
    small = {name: report.finals(done, "lm-small", "adamw", name).values() for name in shown}
    assert min(shown, key=lambda name: np.mean([report._loss(run) for run in small[name]])) == "sam-late"
    readme = prose("README.md")
    quoted = re.findall(r"\d\.\d{3} ± \d\.\d{3}", said + readme)
    assert len(quoted) > 10
    assert not set(quoted) - cells
    for task in ("small", "large", "books"):
        gate, base = (report.finals(done, f"lm-{task}", "adamw", name) for name in ("gate", "base"))
        mean, error = report.Mean.of(found := report.paired(gate, base, report._loss))
        assert (mean < 0, len(found)) == (task != "books", 6 if task == "books" else 3)
        ends = (
            report.cell([report.stopped(run) for run in base.values()]),
            report.cell([report._loss(run) for run in gate.values()]),
        )
        (stopped, one), (ended, other) = (map(float, end.split(" ± ")) for end in ends)
        assert task == "books" or abs(stopped - ended) < 2 * np.hypot(one, other)  # "did as well"
        lost = f"{abs(mean):.3f} ± {error:.3f} higher on a language model trained on ten million tokens"
        assert (lost in readme) == (task == "books")
    assert "0.2 and 1.3 % higher in two of twelve fine-tuning settings (lower in four, tied in six)" in readme
    lost = re.findall(r"settings[^|]*\| \d+ \| 9[^|]*\| [+−]([^|]*) ± ([^|]*) \|", page("docs/evidence.md"))
    assert [float(mean) < 2 * float(error) for mean, error in lost] == [True, True]
    slower = float(report.speed(done, "lm-small", "gate")) - 1
    timed = done[short.study.Job("lm-small", "adamw", "gate", "timing", -1, 0)]
    each = 1000 * min(timed["base_seconds"]) / timed["base_steps"]
    assert f"{100 * slower:.0f} % more on a language model whose steps take {each:.1f} ms" in readme


@pytest.mark.slow
def test_what_the_page_says_of_rounded_networks_holds(short):
    """Where GapSAM and SAM have at most half of the base's rise, of networks trained again."""
    again, rows = short.again, {}
    kept = again.MINIMA.read()
    for (task, method, _), run in kept.items():
        rows.setdefault((task, method), []).append(run)
    tasks = {task for task, _ in rows}
    assert tasks == {task for task in again.SPECS if "noise" not in task}

    def rise(task, method, bits):
        tables = [run["robustness"] for run in rows[task, method]]
        return np.mean([one[bits] - one["loss"] for one in tables])

    def halves(method, bits):
        return {task for task in tasks if rise(task, method, bits) <= rise(task, "base", bits) / 2}

    few = {"characters", "cifar100-vit", "mnist1d-mlp", "fashion4k-mlp"}
    assert halves("gap", "4 bits") >= {"characters", "cifar100-vit"}
    assert halves("gap", "3 bits") == {*few, "fashion4k-cnn"}
    assert halves("sam", "3 bits") == {*few, "cifar100-resnet"}
    for task in halves("gap", "3 bits"):  # "below what the base ever reaches"
        way = [look["loss"] for run in rows[task, "base"] for look in run["way"]]
        assert max(run["robustness"]["loss"] for run in rows[task, "gap"]) < min(way)


@pytest.mark.slow
def test_what_is_said_of_how_long_to_watch_holds(report, runs, less):
    both = [task for task in report.SPECS if report.finals(runs, task, "gate-half")]
    found = {task: less(task, "gate-half", "gate") for task in both}
    assert {task for task in both if found[task].sign < 0} == {"mnist1d-cnn", "characters", "fashion4k-cnn"}
    assert {task for task in both if found[task].sign > 0} == {"cifar100-resnet"}
    text, lost = page("docs/evidence.md"), f"{found['cifar100-resnet'].value:.3f}"
    points = less("cifar100-resnet", "gate-half", "gate", "accuracy", 100).value
    assert f"tied on {len(both) - 4:d},".replace("5", "five") in text
    assert f"by {lost} and with {-points:.1f} points less accuracy" in text
    assert f"lost {lost}" in page("docs/training.md")


PLACES = {  # of a row and another: tasks on which it is ahead, level or behind
    ("sam", "decay"): {"ahead": 7, "behind": 5},
    ("gate", "decay"): {"ahead": 4, "level": 6, "behind": 2},
    ("gate-late", "decay"): {"ahead": 3, "level": 6, "behind": 3},
    ("gate", "decay-less"): {"ahead": 6, "level": 5, "behind": 1},
    ("gate", "gap"): {"ahead": 12},
    ("gate", "early"): {"ahead": 10, "level": 2},
}


@pytest.mark.slow
def test_what_the_page_says_of_fine_tuning_holds(short, done):
    report, text = short.report, page("docs/evidence.md")
    tasks, halves, calibrated, places = short.study.TASKS, Counter(), 0, {pair: Counter() for pair in PLACES}
    lost, apart = [], {}
    for task in tasks:
        names = ("sam", "gate", "gap", "gap-own", "decay", "early")
        runs = {name: list(report.finals(done, task, "adamw", name).values()) for name in names}
        error = {name: np.mean([run["calibration"] for run in own]) for name, own in runs.items()}
        calibrated += error["gate"] <= error["decay"]
        assert {len(own) for own in runs.values()} == {10}
        late, gate, base = (
            report.finals(done, task, "adamw", name) for name in ("gate-late", "gate", "decay")
        )
        mean, spread = report.Mean.of(report.paired(gate, base, lambda run: 100 * run["accuracy"]))
        apart |= {task: f"{abs(mean):.2f} ± {spread:.2f}"} if abs(mean) > 2 * spread else {}
        mean, spread = report.Mean.of(report.paired(late, base, lambda run: 100 * run["accuracy"]))
        assert abs(mean) < 2 * spread  # "level everywhere where it watches until three quarters"
        mean, spread = report.Mean.of(report.paired(gate, base, report._loss))
        of_base = mean / np.mean([run["loss"] for run in base.values()])
        lost += [f"{100 * of_base:.1f} %"] if mean > 2 * spread else []
        for pair in PLACES:
            ends = (report.finals(done, task, "adamw", name) for name in pair)
            mean, spread = report.Mean.of(report.paired(*ends, report._loss))
            places[pair]["ahead" if mean < -2 * spread else "behind" if mean > 2 * spread else "level"] += 1
        tables = {name: [run["robustness"] for run in own] for name, own in runs.items()}
        rise = {name: np.mean([t["4 bits"] - t["loss"] for t in own]) for name, own in tables.items()}
        if task.endswith("whole"):
            halves.update(name for name in names[:4] if rise[name] <= rise["decay"] / 2)
    assert halves == {"sam": 6, "gap": 1, "gap-own": 4}
    assert calibrated == 7
    assert lost == ["1.3 %", "0.2 %"]
    assert all(part in text for part in lost)
    assert list(apart) == ["manual-16-whole", "manual-64-whole", "manual-256-lora"]
    assert all(part in text for part in apart.values())
    assert places == PLACES
    finals = {job: run for job, run in done.items() if job.stage == "final" and job.task in tasks}
    classes = {job: report.CLASSES[job.task.partition("-")[0]] for job in finals}
    assert [job.method for job, run in finals.items() if report.ruined(run, classes[job])] == ["early"]
    assert f"One run of {len(finals)} was ruined" in text
