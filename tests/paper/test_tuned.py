"""The study of tuned settings: fair, not upset by bad functions, and quoted rightly by the pages."""

import re
from copy import copy
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from benchmarks import tuned as program
from benchmarks.tuned import Problem
from tests.pairs import sample

import steepen as st
from steepen.paper import study
from steepen.paper.study import BUDGETS, JUDGED, PAIRS, Setting

ROOT = Path(__file__).parents[2]


def test_starts_that_are_tuned_on_are_not_judged_on():
    problem = Problem(st.functions["branin"])
    assert problem.tuning.shape == (study.TUNING, 2)
    assert problem.judged.shape == (JUDGED, 2)
    assert not (problem.tuning[:, None] == problem.judged).all(axis=-1).any()


@pytest.mark.parametrize("family", sample([name for name, of in program.FAMILIES.items() if of.free], 3))
def test_every_method_has_the_same_trials_starts_and_gradients(family, monkeypatch):
    seen, right = [], Problem.ends

    def watched(self, name, setting, starts, grads, **more):
        seen.append((len(starts), grads))
        return right(self, name, setting, starts, grads, **more)

    monkeypatch.setattr(Problem, "ends", watched)
    program.tune(Problem(st.functions["booth"]), family, 20)
    assert sum(rows for rows, _ in seen) == sum(study.STAGES) * study.TUNING
    assert {grads for _, grads in seen} == {20}


@pytest.mark.parametrize("family", ["gd", "cgd-fd", "cgd-fd-negative", "gd-two"])
def test_no_method_takes_more_gradients_than_its_budget(family):
    booth, calls = st.functions["booth"], []
    problem = Problem(booth)
    problem.function = copy(booth)
    problem.function.grad = lambda x: (calls.append(len(x)), booth.grad(x))[1]
    problem.ends(family, Setting(0.01, 0.01, 0.001, 3.0, 0.02), problem.judged, 11)
    assert sum(calls) <= 11 * JUDGED


def test_gd_finds_the_best_step_of_a_quadratic():
    """Of a quadratic the run is known in closed form, so that every α can be tried."""
    booth, grads = st.functions["booth"], 12
    problem = Problem(booth)
    curvatures, axes = np.linalg.eigh(booth.hess([0.0, 0.0]))
    far = (problem.tuning - booth.minima[0]) @ axes
    steps = np.linspace(0.001, 0.12, 5000)[:, None, None]
    gaps = (curvatures * (far * (1 - steps * curvatures) ** grads) ** 2 / 2).sum(axis=-1)
    scores = np.log10(study.left(gaps, booth(problem.tuning), 0.0)).mean(axis=1)
    assert program.tune(problem, "gd", grads).step == pytest.approx(steps[scores.argmin()].item(), rel=0.02)


class Bowl:
    """One that is NaN to the right of x₁ = ½."""

    name, n, fmin, bounds = "bowl", 2, 0.0, np.array([[-1.0, 0.4], [-1.0, 0.4]])

    def __call__(self, x):
        return np.where(x[..., 0] > 0.5, np.nan, (x**2).sum(axis=-1))

    def grad(self, x):
        return np.where(x[..., :1] > 0.5, np.nan, 2 * x)


def test_where_the_function_fails_a_run_ends_alone():
    problem = Problem(Bowl(), tuning=10, judged=40)
    assert (len(problem.tuning), len(problem.judged)) == (10, 40)
    ends = problem.ends("gd", Setting(0.9), problem.judged, 30)  # it swings from side to side
    crossing = problem.judged[:, 0] < -0.5 / 0.8
    assert np.isinf(ends.f[crossing]).all()
    assert (ends.f[~crossing] < 1e-4).all()
    assert program.tune(problem, "gd", 1).step == pytest.approx(0.5, rel=0.01)


def test_wins_are_counted_start_by_start():
    problem = Problem(st.functions["sphere"].at(2))
    a, b = (problem.ends("gd", Setting(step), problem.judged, 5) for step in (0.1, 0.2))
    b.f[:50] = a.f[:50] * (1 + 1e-9)  # level
    b.f[50:70] = np.inf
    won, lost, low, high, *rest = program.compare(problem, a, b)
    assert (won, lost) == (130, 20)
    assert float(low) < (130 - 20) / 200 < float(high)
    assert float(rest[0]) == pytest.approx(np.median(a.f), rel=1e-3)
    assert list(rest[-8:]) == [0, 0, 0, 130, 20, 0, 0, 0]


def test_each_kind_of_loss_has_its_word():
    problem = Problem(st.functions["levy"].at(2))
    best = np.tile(problem.function.minima[0], (JUDGED, 1))
    winner = study.Ends(best, problem.function(best))
    other = np.tile([-6.95, 1.0], (JUDGED, 1))  # in another minimum's basin
    rows = problem.function(problem.judged) > problem.function(other) + 1
    wild = study.Ends(problem.judged, np.full(JUDGED, np.inf))
    assert set(program.happened(problem, winner, wild, rows)) == {"diverged"}
    for x, word in ((problem.judged, "plateau"), (other, "basin"), (best + 0.05, "faster")):
        assert set(program.happened(problem, winner, study.Ends(x, problem.function(x)), rows)) == {word}


@pytest.mark.slow
def test_functions_are_kept_in_their_box_where_f_is_lower_outside():
    rng = np.random.default_rng(0)
    for name, f in st.functions.items():
        low, high = f.bounds.T
        x = (low + high) / 2 + (high - low) / 2 * rng.uniform(-10, 10, (200_000, f.n))
        with np.errstate(all="ignore"):
            values = f(x)
        lower = bool((values < f.fmin - 1e-6 * max(1, abs(f.fmin))).any())
        assert lower == (name in study.BOXED), name


def test_the_tables_are_whole_and_small():
    paths = sorted(study.FOLDER.glob("tuned_*.csv"))
    assert [path.name for path in paths] == ["tuned_results.csv", "tuned_settings.csv", "tuned_why.csv"]
    assert sum(path.stat().st_size for path in paths) < 1_000_000
    every = [(problem.function.name, problem.function.n) for problem in program.problems()]
    assert {name for name, _ in every} == set(st.functions)
    assert set(study.reasons()) == set(every)
    wanted = {(name, n, grads, *pair) for name, n in every for grads in BUDGETS for pair in PAIRS}
    stored = [(row.function, row.n, row.gradients, row.plain, row.penalised) for row in study.results()]
    assert (len(stored), set(stored)) == (len(set(stored)), wanted)
    for row in study.results():
        assert row.low <= row.net <= row.high, row
        assert [sum(counts) for counts in row.happened] == [row.won, row.lost], row
        beyond_chance = abs(row.net) >= 0.1 and not row.low <= 0 <= row.high
        assert row.verdict == (np.sign(row.net) if beyond_chance else 0)
    free = [method for method, of in program.FAMILIES.items() if of.free]
    wanted = {(*one, grads, method) for one in every for method in free for grads in BUDGETS}
    assert set(study.settings()) == wanted


def _text(path):
    return " ".join((ROOT / path).read_text("utf-8").replace("\\*", "*").split())


def _counts(plain, penalised):
    """Return the problems ahead, and those behind, of each budget, as the pages print them; and all."""
    ahead, behind, level = zip(
        *(study.counted(study.of(plain, penalised, grads)) for grads in BUDGETS), strict=True
    )
    told = ["{}, {} and {}".format(*counts) for counts in (ahead, behind)]
    return ahead, behind, *told, ahead[0] + behind[0] + level[0]


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/cgd.md", "docs/llms.txt"])
def test_the_lead_of_every_page_follows_from_the_table(page):
    ahead, behind, won, lost, total = _counts("gd", "cgd-fd")
    text = _text(page)
    assert f"ahead on {won} of {total} problems" in text
    assert f"behind on {lost}" in text
    assert np.less(ahead, behind).all()  # "on more problems", says the report


def test_readme_says_who_is_ahead_of_whom_and_what_happened():
    readme, text = (_text(page) for page in ("README.md", "docs/paper.md"))
    rows = re.findall(r"\| (\S+)[^|]*against ([^|,]*)[^|]*\| (\d[\d, ]*) \| ([\d, ]*) \|", text)
    for (name, other, *told), pair in zip(rows, PAIRS, strict=True):
        ahead, behind, *_ = _counts(*pair)
        assert told == [", ".join(map(str, counts)) for counts in (ahead, behind)], (name, other)
    for pair, better in ((("bfgs", "cgd-bfgs"), True), (("gd", "cgd-bfgs"), False)):
        ahead, behind, *_ = _counts(*pair)
        assert (np.greater(ahead, behind) == better).all()
    ahead, behind, *_ = _counts("gd", "cgd-auto")
    assert np.greater(ahead, np.multiply(2, behind)).all()
    _, _, won, lost, total = _counts("gd-two", "cgd-fd")  # of the control, and so the other way round
    assert f"is ahead of CGD-FD on {lost} of {total} problems, and behind on {won}" in readme
    won, lost = (study.happened(study.of("gd", "cgd-fd", study.SHOWN), side) for side in (0, 1))
    assert f"wins {won['faster']} starts and loses {lost['faster']}" in text
    assert f"lower one in {won['basin']} starts and the higher one in {lost['basin']}" in text
    assert lost["faster"] > won["faster"]
    assert won["basin"] > lost["basin"]


def test_the_rank_correlation_is_spearmans_also_where_values_are_equal():
    a, b = np.random.default_rng(0).integers(0, 5, (2, 40)).astype(float)
    assert study.rank_correlation(a, b) == pytest.approx(scipy.stats.spearmanr(a, b).statistic)


def test_evaluations_are_those_of_the_tables():
    table, text, speed = (_text(page) for page in ("docs/benchmarks.md", "README.md", "docs/reliability.md"))
    methods = _text("docs/methods.md")
    total = re.search(r"(\d+) held-out problems", table)[1]
    aside = re.search("cgd-auto" + 3 * r" \| ([\d.]+) \[[\d., ]+\] \(\d+\)", table)
    low, *_, high = sorted(aside.groups())
    said = f"[{low} to {high} of L-BFGS-B's evaluations](docs/benchmarks.md#held-out-problems)"
    assert f"{said} on {total} held-out problems" in text
    three = r"([\d.]+) / ([\d.]+) / ([\d.]+)"
    regressions = [
        float(one) for one in re.search(rf"SciPy BFGS \|[^|]*\|[^|]*\| \*\*{three}", table).groups()
    ]
    low, high = sorted(round(100 * (1 - 1 / one)) for one in regressions[1:])
    assert f"needs {low} to {high} % fewer evaluations to 1e-5 and 1e-8" in methods
    ten = re.search(r"an evaluation, n = 1000, ten pairs each \| [\d.]+ µs \| [\d.]+ µs \| ([\d.]+)", speed)
    told = f"an evaluation including the method's own work takes {float(ten[1]):.2f} times"
    assert f"ten pairs each, {told}" in methods
    default = re.search(r"25 pairs and ten, it takes ([\d.]+) times as long \((\d+) µs against (\d+)", speed)
    assert float(default[1]) == round(int(default[2]) / int(default[3]), 2)
    assert round(float(default[1])) == 2
    small = re.search(r"n = 2, 10 and 100 it takes ([\d.]+), ([\d.]+) and ([\d.]+) times", speed).groups()
    assert {round(float(ratio)) for ratio in (default[1], *small)} == {2}
    assert "takes about [half of the time](docs/reliability.md#speed) per evaluation" in text
    assert f"keep 25 pairs there, which takes {default[1]} times as long as L-BFGS-B's ten" in methods
