"""The benchmark where data is short, at tiny sizes: what it refuses, what goes on, and what its page says."""

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "short"
MODULES = ("lm", "work", "report", "again")
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def bench():
    """Return the modules of the benchmark; other benchmarks have modules of the same names."""
    others = {name: sys.modules.pop(name) for name in ("work", "report") if name in sys.modules}
    sys.path.insert(0, str(FOLDER))
    try:
        yield {name: importlib.import_module(name) for name in MODULES}
    finally:
        sys.path.remove(str(FOLDER))
        for name in ("work", "report"):
            sys.modules.pop(name, None)
        sys.modules.update(others)


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a corpus of drawn numbers."""
    random = np.random.default_rng(0)
    sizes = {"train": 1792, "watched": 256, "validation": 512, "test": 512, "manual": 1400}
    tokens = {name: random.integers(0, 50, many).astype(np.uint16) for name, many in sizes.items()}
    np.savez(tmp_path / "tokens.npz", **tokens)
    return tmp_path


# --- the queue ---------------------------------------------------------------------------------------


def test_every_row_has_as_many_trials_and_all_runs_are_in_the_queue_once(bench):
    work, lm = bench["work"], bench["lm"]
    jobs = list(work.jobs())
    assert len(set(jobs)) == len(jobs)
    small = [job for job in jobs if job[:2] == ("lm-small", "adamw")]
    for method, row in lm.ROWS.items():
        own = [job for job in small if job.method == method]
        assert sum(job.stage == "trial" for job in own) == (0 if row.like else 4)
        assert sum(job.stage == "final" for job in own) == 3
    assert max(lm.DECAY) == 1.6
    assert not [job for job in jobs if job.task == "lm-large" and job.stage == "trial"]


@pytest.mark.filterwarnings("ignore:mkldnn")  # of CPUs without bf16
@pytest.mark.slow
def test_a_row_that_runs_out_of_memory_is_marked_and_the_others_go_on(bench, folder, monkeypatch, capsys):
    work, lm = bench["work"], bench["lm"]
    train = lm.train

    def fails(bench_, optimizer, method, *args, **options):
        if method == "sam-late":
            raise torch.OutOfMemoryError("CUDA out of memory")
        return train(bench_, optimizer, method, *args, **options)

    monkeypatch.setattr(lm, "train", fails)
    monkeypatch.setattr(lm, "LR", {"adamw": (1e-3,), "muon": (1e-3,)})
    monkeypatch.setattr(lm, "DECAY", (0.1,))
    out = folder / "runs.jsonl"
    with pytest.warns(UserWarning, match="share: 0.0625 of 8 examples is 0"):
        work.worker(folder, out, "cpu", np.inf, ["lm-toy"], ["base", "sam-late", "gap"])
    done = work.read(out)
    marked = [record for record in done.values() if "error" in record]
    assert {record["method"] for record in marked} == {"sam-late"}
    assert "OutOfMemoryError" in marked[0]["error"]
    ends = {
        job.method: record for job, record in done.items() if job.stage == "final" and job.base == "adamw"
    }
    assert set(ends) == {"base", "gap"}
    assert ends["gap"]["gradients"] <= ends["base"]["gradients"] * 1.06
    assert set(ends["gap"]["robustness"]) == {"loss", *bench["report"].DAMAGE}
    assert len(ends["base"]["validations"]) == 16
    assert not [
        line for line in capsys.readouterr().out.splitlines() if "Error" in line and "memory" not in line
    ]
    before = out.read_text()
    work.worker(folder, out, "cpu", np.inf, ["lm-toy"], ["base", "sam-late", "gap"])
    assert out.read_text() == before  # all is done


# --- the page ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_tables_of_the_pages_are_made_from_the_runs(bench):
    pages = [(ROOT / name).read_text("utf-8") for name in ("README.md", "docs/short.md", "docs/when.md")]
    runs = bench["work"].read(FOLDER / "runs.jsonl")
    for part in bench["report"].PARTS:
        assert sum(f"<!-- {part}: " in text for text in pages) == 1
    for text in pages:
        assert bench["report"].inserted(text, runs) == text


def test_the_parts_of_a_table_by_hand(bench):
    """The epoch is chosen by the validation; the rise at an equal loss is read between two looks."""
    run = {"validations": [3.0, 2.0, 2.5], "tests": [3.5, 2.6, 2.4]}
    assert bench["report"].stopped(run) == 2.6
    way = [{"loss": 4.0, "4 bits": 4.5}, {"loss": 2.0, "4 bits": 3.5}, {"loss": 3.0, "4 bits": 9.0}]
    (found,) = bench["report"].at_equal_loss({0: {"way": way}}, 3.0, "4 bits")
    assert found == pytest.approx(1.0)


@pytest.mark.slow
def test_every_figure_in_the_text_is_one_of_the_tables_or_of_the_trials(bench):
    text = (ROOT / "docs" / "short.md").read_text("utf-8")
    lines = text.splitlines()
    cells = {cell.strip(" +−") for line in lines if line.startswith("|") for cell in line.split("|")}
    said = " ".join(line.strip() for line in lines if not line.startswith(("|", "#")))
    report, work = bench["report"], bench["work"]
    done = work.read(FOLDER / "runs.jsonl")

    def less(task, method, other):
        rows = [report.finals(done, task, "adamw", name) for name in (method, other)]
        return report.cell(report.paired(*rows, report._loss), "+.3f").strip("+−")

    cells.add(less("lm-small", "gap-ema", "ema"))
    ends = {name: report.finals(done, "lm-large", "adamw", name) for name in work.LARGE}
    last = {name: np.mean([report._loss(run) for run in row.values()]) for name, row in ends.items()}
    stopped = np.mean([report.stopped(run) for run in ends["base"].values()])
    assert min(last, key=last.get) == "share16-late"  # "ahead of all"
    assert last["share16-late"] < stopped
    shown = [name for name in report.OVERVIEW["lm"] if name != "early"]
    small = {name: report.finals(done, "lm-small", "adamw", name).values() for name in shown}
    lowest = min(shown, key=lambda name: np.mean([report._loss(run) for run in small[name]]))
    assert lowest == "sam-late"  # of the README's table
    quoted = re.findall(r"\d\.\d{3} ± \d\.\d{3}", said)
    assert len(done) > 1280
    early = less("authors-256-whole", "gap", "early")
    assert f"({early} on 256 passages an author)" in said
    assert len(quoted) > 10
    assert not set(quoted) - cells - {early}


@pytest.mark.slow
def test_what_the_page_says_of_rounded_networks_holds(bench):
    """Where the rule and SAM have at most half of the base's rise, of networks trained again."""
    again = bench["again"]
    rows = {}
    for (task, method, _), run in again.JobFile(FOLDER / "again.jsonl", again.KEY).read().items():
        rows.setdefault((task, method), []).append(run)
    assert {task for task, _ in rows} == set(again.SPECS)

    def rise(task, method, bits):
        tables = [run["robustness"] for run in rows[task, method]]
        return np.mean([one[bits] - one["loss"] for one in tables])

    def halves(method, bits):
        return {task for task in again.SPECS if rise(task, method, bits) <= rise(task, "base", bits) / 2}

    few = {"characters", "cifar100-vit", "mnist1d-mlp", "fashion4k-mlp"}
    assert halves("gap", "4 bits") >= {"characters", "cifar100-vit"}
    assert halves("gap", "3 bits") == {*few, "fashion4k-cnn"}
    assert halves("sam", "3 bits") == {*few, "cifar100-resnet"}
    for task in halves("gap", "3 bits"):  # "below what the base ever reaches"
        way = [look["loss"] for run in rows[task, "base"] for look in run["way"]]
        assert max(run["robustness"]["loss"] for run in rows[task, "gap"]) < min(way)


PAIRS = [("sam", "decay"), ("gap", "decay"), ("gap", "early")]
PAIRS += [("gap-few", other) for other in ("gap", "early", "decay")]


@pytest.mark.slow
def test_what_the_page_says_of_fine_tuning_holds(bench):
    """The sentences on what is ahead and behind, on calibration, on rounding to four bits, on ruined runs."""
    report, done = bench["report"], bench["work"].read(FOLDER / "runs.jsonl")
    tasks = [task for task in bench["work"].TASKS if report.finals(done, task, "adamw", "gap")]
    assert len(tasks) == 12
    halves = dict.fromkeys(("sam", "gap", "gap-own"), 0)
    calibrated, places = 0, {}
    for task in tasks:
        names = (*halves, "gap-few", "decay", "early")
        runs = {name: report.finals(done, task, "adamw", name) for name in names}
        error = {m: np.mean([run["calibration"] for run in own.values()]) for m, own in runs.items()}
        calibrated += error["gap"] <= error["decay"]
        assert all(len(own) == 10 for own in runs.values())
        for pair in PAIRS:
            mean, spread = report.Mean.of(report.paired(*(runs[name] for name in pair), report._loss))
            place = "ahead" if mean < -2 * spread else "behind" if mean > 2 * spread else "level"
            places.setdefault(pair, []).append(place)
        rise = {}
        for method, own in runs.items():
            tables = [run["robustness"] for run in own.values()]
            rise[method] = np.mean([one["4 bits"] - one["loss"] for one in tables])
        for method in halves:
            halves[method] += task.endswith("whole") and rise[method] <= rise["decay"] / 2
    assert halves == {"sam": 6, "gap": 1, "gap-own": 4}
    assert calibrated == 6
    counts = {pair: {one: found.count(one) for one in set(found)} for pair, found in places.items()}
    assert counts["sam", "decay"] == {"ahead": 7, "behind": 5}
    assert counts["gap", "decay"] == {"ahead": 1, "level": 1, "behind": 10}
    assert counts["gap", "early"] == {"ahead": 2, "level": 5, "behind": 5}
    assert counts["gap-few", "gap"] == {"ahead": 11, "level": 1}
    assert counts["gap-few", "early"] == {"ahead": 10, "level": 2}
    assert counts["gap-few", "decay"] == {"ahead": 3, "level": 2, "behind": 7}
    ruined = [
        job.method
        for job, record in done.items()
        if job.stage == "final"
        and job.task in tasks
        and report.ruined(record, report.CLASSES[job.task.partition("-")[0]])
    ]
    assert ruined == ["early"]
    assert sum(job.stage == "final" and job.task in tasks for job in done) == 840
