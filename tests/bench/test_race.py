"""A race as a whole: f*, rows, comparisons, features, the store, wrong arguments; profiles by hand."""

import contextlib
import math
import re
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from benchmarks.problems import SETS, Case, cases, problems
from benchmarks.race import Results, Row, command, race, results
from benchmarks.race.features import FEATURES, OTHER_MINIMUM, pose
from benchmarks.race.profiles import best_value, evaluations_to, over_fewest, per_unknown, profile
from benchmarks.race.results import confidence, rows_of
from benchmarks.race.solvers import mark

ROOT = Path(__file__).parents[2]
NAMES = ("beale", "freudenstein-roth", "wood")
SOLVERS = ["BFGS-Armijo", "L-BFGS-B", "BB"]
SMALL = [cases("mgh")[name] for name in NAMES]


@pytest.fixture(scope="module")
def found():
    return race(SMALL, SOLVERS, limit=300)


def test_a_cost_is_where_a_run_alone_gets_there(found):
    """SciPy from outside: the first value that is low enough."""
    from scipy.optimize import minimize

    row = next(row for row in found.rows if (row.case, row.solver) == ("wood", "L-BFGS-B"))
    p, values = problems["wood"], []

    def fun(x):
        values.append(float(p(x)))
        return values[-1], p.grad(x)

    minimize(fun, p.x0, jac=True, method="L-BFGS-B", options={"ftol": 0, "gtol": 0, "maxcor": 10})
    for accuracy, cost in zip(found.accuracies, row.costs, strict=True):
        reached = np.array(values) <= accuracy * p(p.x0)
        assert cost == np.flatnonzero(reached)[0] + 1


def test_the_order_is_that_of_the_arguments_wherever_runs_are_made(found):
    assert [(row.case, row.solver) for row in found.rows] == [(p, s) for p in NAMES for s in SOLVERS]
    with ThreadPoolExecutor(2) as threads:
        assert race(SMALL, SOLVERS, limit=300, workers=threads) == found


def row(set_="mgh", case="a", n=2, solver="a", costs=(10.0,), feature="plain", **more):
    given = {"gap": 0.0, "used": 50, "idle": 0.1, "success": True, "there": True, "word": "done",
             "failed": False, "outside": 0} | more  # fmt: skip
    return Row(set_, case, n, feature, solver, costs, **given)


def test_comparison_by_hand():
    table = {"mgh": [(2, [10, 20, math.inf]), (20, [30, 15, 15])], "nist": [(3, [9, 9, math.nan])]}
    rows = [
        row(name, f"{name}{i}", n, solver, (float(cost),))
        for name, sizes in table.items()
        for i, (n, costs) in enumerate(sizes)
        for solver, cost in zip("abc", costs, strict=True)
    ]
    lines = {(line.set, line.solver): line for line in Results(rows, (1e-3,)).lines("b")}
    assert list(lines) == [(name, solver) for name in table for solver in "abc"]
    a, c = lines["mgh", "a"], lines["mgh", "c"]
    assert (a.solved, a.problems, a.both, a.wins, a.losses, a.ties) == (2, 2, 2, 1, 1, 0)
    assert a.ratio == pytest.approx(1.0)
    assert (c.solved, c.both, c.wins, c.losses, c.ties) == (1, 1, 0, 1, 1)
    left_out = lines["nist", "c"]
    assert (left_out.solved, left_out.both, left_out.wins, left_out.losses) == (0, 0, 0, 0)
    assert math.isnan(left_out.ratio)
    assert lines["nist", "a"].ties == 1
    with pytest.raises(ValueError, match="reference: expected one of a, b, c; got 'd'"):
        Results(rows, (1e-3,)).lines("d")


def test_the_interval_of_a_ratio_is_the_normal_one_where_problems_are_many():
    rng = np.random.default_rng(0)
    logs = rng.normal(-0.2, 0.5, 400)
    low, high = confidence(np.exp(logs), np.ones(400))
    half = 1.96 * logs.std() / 20
    assert np.log([low, high]) == pytest.approx([logs.mean() - half, logs.mean() + half], abs=0.01)
    assert math.isnan(confidence([1.0, 2.0], [1.0, 3.0])[0])


def test_what_is_saved_is_loaded(found, tmp_path):
    found.save(tmp_path / "rows.csv")
    again = Results.load(tmp_path / "rows.csv")
    assert [one.costs for one in again.rows] == [one.costs for one in found.rows]
    for name in ("case", "solver", "n", "used", "success", "there", "word", "outside"):
        assert [getattr(one, name) for one in again.rows] == [getattr(one, name) for one in found.rows]
    assert again.accuracies == found.accuracies
    ends = [("a", math.inf, 0.0), ("b", math.nan, math.nan), ("c", 7.0, 1e-300)]
    rows = [
        row(costs=(cost, 3.5e1), solver=solver, word='a, "b"', gap=gap, success=cost < 9)
        for solver, cost, gap in ends
    ]
    Results(rows, (1e-3, 1e-5)).save(tmp_path / "rows.csv")
    assert repr(Results.load(tmp_path / "rows.csv").rows) == repr(rows)


def test_the_lowest_value_is_that_of_any_run_with_any_feature_that_leaves_the_minimum():
    def record(f, known=np.inf):
        return {
            "n": 2, "f0": 10.0, "known": known, "allowed": None, "used": 5, "outside": 0, "end": f,
            "improvements": [(1, 10.0), (3, f)], "success": True, "word": "", "failed": False,
        }  # fmt: skip

    keys = [("s", "p", "plain", "a"), ("s", "p", "noise=1e-3", "a"), ("s", "p", "kinks=1e-1", "a")]
    plain, noisy, kinked = rows_of(zip(keys, map(record, (1.0, 2.0, 5.0)), strict=True), (0.2, 1e-2))
    assert (plain.gap, noisy.gap, kinked.gap) == (0.0, pytest.approx(1 / 9), 0.0)
    assert (noisy.costs, kinked.costs) == ((3.0, math.inf), (3.0, 3.0))
    unknown, near = (rows_of([(keys[0], record(1.0, known))], (1e-2,))[0] for known in (-5.0, 0.999))
    assert unknown.gap == 0.0  # nobody came near what is known: it is not held against them
    assert near.gap == pytest.approx(1e-3 / 9.001)


def test_problems_of_every_set_have_a_finite_start():
    assert {"mgh", "held-out", "more-wild", "kinks"} <= set(SETS)
    assert [len(cases(name)) for name in ("held-out", "others", "more-wild", "five", "few-digits")] == [
        191, 70, 53, 40, 180,
    ]  # fmt: skip
    assert len([1 for name in ("mgh-20", "nist") for _ in cases(name)]) == 95
    for name in ("held-out", "others", "more-wild", "five", "few-digits", "coarse"):
        for case in cases(name).values():
            assert np.isfinite(case.judged(case.x0)), case.name
            if case.both is not None:
                f, slope = case.both(case.x0)
                assert (float(f), np.shape(slope)) == (float(case.value(case.x0)), case.x0.shape)
    with pytest.raises(ValueError, match=r"sets: expected some of mgh, .*, got 'cutest'"):
        cases("cutest")


def test_kinks_have_their_minimum_where_it_is_said():
    some = list(cases("kinks").values())[::60]
    for case in some:
        rng = np.random.default_rng(0)
        assert all(case.value(case.x0 + 3 * rng.normal(size=len(case.x0))) >= case.known for _ in range(200))


def test_an_end_at_a_lower_point_than_the_lowest_value_seen_counts_at_the_last_evaluation():
    """With noise a lucky value hides better points; x as it is returned is what a user gets."""
    seen = {"n": 2, "f0": 10.0, "known": 0.0, "allowed": None, "used": 40, "outside": 0, "success": True,
            "word": "", "failed": False, "improvements": [(1, 10.0), (6, 0.5)]}  # fmt: skip
    keys = [("s", "p", "noise=1e-1", name) for name in "ab"]
    low, nowhere = rows_of(
        zip(keys, (seen | {"end": 0.001}, seen | {"end": None}), strict=True), (1e-1, 1e-3)
    )
    assert (low.costs, low.gap) == ((6.0, 40.0), pytest.approx(1e-4))
    assert nowhere.costs == (6.0, math.inf)


# --- features ------------------------------------------------------------------------------------------

SPOILS = {
    "plain": 0.0, "noise=1e-2": 1e-2, "noise-abs=1e-2": 1e-2, "digits=2": 5e-2, "gradient-noise=1e-1": 0.0,
}  # fmt: skip


@pytest.mark.parametrize("feature", SPOILS)
def test_what_spoils_values_spoils_them_by_so_much_and_is_not_what_is_judged(feature):
    plain = cases("mgh")["wood"]
    posed, f0 = pose(plain, feature), float(plain.value(plain.x0))
    seen = np.array([posed.value(plain.x0) for _ in range(50)])
    assert abs(seen - f0).max() <= SPOILS[feature] * f0
    if "noise" in feature and SPOILS[feature]:
        assert abs(seen - f0).max() > 0.8 * SPOILS[feature] * f0
        assert len(set(seen)) == 50
    assert posed.judged(plain.x0) == f0
    slopes = np.array([posed.both(plain.x0)[1] for _ in range(50)])
    wrong = abs(slopes / plain.both(plain.x0)[1] - 1).max()
    assert wrong <= 0.1
    assert (wrong > 0.09) == ("gradient" in feature)


@pytest.mark.parametrize(
    "feature", ["rotated", "scaled=1e4", "kinks=1e-1", "f-scaled=1e-6", "start=1", "rotated+scaled=1e2"]
)
def test_a_changed_function_has_the_gradient_of_its_values(feature):
    posed = pose(cases("mgh")["wood"], feature)
    f, slope = posed.both(posed.x0)
    assert f == posed.value(posed.x0)
    size = np.maximum(abs(posed.x0), 1e-2)
    for i, unit in enumerate(np.eye(len(posed.x0))):
        h = 1e-6 * size[i] * unit
        by_values = (posed.value(posed.x0 + h) - posed.value(posed.x0 - h)) / (2 * h[i])
        assert slope[i] == pytest.approx(by_values, rel=1e-4, abs=1e-6 * abs(slope).max())


def test_variables_are_changed_and_the_values_at_the_start_are_not():
    plain = cases("mgh")["wood"]
    f0 = plain.value(plain.x0)
    for feature in ("rotated", "scaled=1e6"):
        posed = pose(plain, feature)
        assert posed.value(posed.x0) == pytest.approx(f0)
        assert not np.allclose(posed.x0, plain.x0)
    units = plain.x0 / pose(plain, "scaled=1e6").x0
    assert max(units) / min(units) == pytest.approx(1e6)
    assert pose(plain, "f-scaled=1e-6").value(plain.x0) == pytest.approx(1e-6 * f0)
    assert pose(plain, "f-scaled=1e-6").judged(plain.x0) == f0


def test_failures_are_at_the_same_points_and_not_at_the_start():
    posed = pose(cases("mgh")["wood"], "fails=0.2")
    X = np.random.default_rng(0).normal(size=(500, 4))
    failed = np.isnan([posed.value(x) for x in X])
    assert 0.1 < failed.mean() < 0.3
    assert (failed == np.isnan([posed.value(x) for x in X])).all()
    assert np.isfinite(posed.value(posed.x0))
    few = pose(cases("mgh")["wood"], "x-digits=2")
    assert few.value(np.array([1.234, 1, 1, 1])) == few.value(np.array([1.2, 1, 1, 1]))


def test_a_minimum_that_a_feature_moves_is_known_no_more():
    plain = cases("mgh")["wood"]
    assert pose(plain, "kinks=0.1").known == np.inf
    assert pose(plain, "noise=0.1").known == plain.known == 0
    assert set(OTHER_MINIMUM) <= set(FEATURES)
    assert pose(plain, "values").both is None


# --- the store -----------------------------------------------------------------------------------------


def stored(path):
    with contextlib.closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT key FROM jobs").fetchall()


def test_a_race_that_was_interrupted_goes_on_and_nothing_is_run_twice(tmp_path, monkeypatch):
    store, given = tmp_path / "r.sqlite", {"limit": 200, "tight": False}
    module, made = sys.modules["benchmarks.race"], []
    real = module.measure

    def counted(*arguments):
        made.append(arguments[:3])
        if len(made) == 5:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(module, "measure", counted)
    with pytest.raises(KeyboardInterrupt):
        race(["coarse"], ["L-BFGS-B", "BFGS"], store=store, **given)
    assert len(stored(store)) == 4
    found = race(["coarse"], ["L-BFGS-B", "BFGS"], store=store, **given)
    assert len(made) == 5 + 6
    assert len(stored(store)) == 10
    more = race(["coarse"], ["BFGS", "Nelder-Mead"], store=store, **given)  # another solver: its runs alone
    assert len(made) == 5 + 6 + 5
    assert [one.used for one in more.of(solver="BFGS").rows] == [
        one.used for one in found.of(solver="BFGS").rows
    ]
    monkeypatch.setattr(module, "mark", lambda name: "changed" if name == "BFGS" else mark(name))
    race(["coarse"], ["BFGS", "L-BFGS-B"], store=store, **given)  # one that has changed is run again
    assert len(made) == 5 + 6 + 5 + 5
    with pytest.raises(ValueError, match=r"holds other results.* limit 200, not 300"):
        race(["coarse"], ["BFGS"], store=store, limit=300, tight=False)


def test_a_solver_that_takes_no_gradient_is_run_once_with_and_without_one(monkeypatch):
    module, made = sys.modules["benchmarks.race"], []
    real = module.measure
    monkeypatch.setattr(module, "measure", lambda *given: made.append(given[1:3]) or real(*given))
    features = ["noise=1e-3", "values+noise=1e-3", "values"]
    found = race(SMALL[:1], ["Nelder-Mead", "BFGS"], features, limit=60, tight=False)
    assert [one for one, solver in made if solver == "Nelder-Mead"] == ["noise=1e-3", "plain"]
    assert [one for one, solver in made if solver == "BFGS"] == features
    assert found.features == features
    noisy, again = (found.of(solver="Nelder-Mead", feature=one).rows[0] for one in features[:2])
    assert (noisy.used, noisy.costs) == (again.used, again.costs)


def test_the_store_of_something_else_is_refused_and_left(tmp_path):
    store = tmp_path / "r.sqlite"
    race(["coarse"], ["BFGS"], store=store, limit=20)
    with contextlib.closing(sqlite3.connect(store)) as database, database:
        (head,) = database.execute("SELECT text FROM about").fetchone()
        database.execute("UPDATE about SET text = ?", (head.replace("results ", "results 9"),))
    for content in (store.read_bytes(), b"x,y\n1,2\n"):
        store.write_bytes(content)
        with pytest.raises(ValueError, match=r"r\.sqlite"):
            race(["coarse"], ["BFGS"], store=store, limit=20)
        assert store.read_bytes() == content


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sets": []}, "sets: expected at least one, got none"),
        ({"sets": "mgh"}, "sets: expected a list of names and cases, got 'mgh'"),
        ({"sets": ["mghh"]}, "sets: expected some of mgh,"),
        ({"sets": ["five", "five"]}, "sets: 'bowl-0' is named twice"),
        ({"sets": [3]}, "sets: expected names and cases, got 3"),
        ({"sets": [Case("c", abs, [[1.0]])]}, "sets: expected a start of shape"),
        ({"solvers": ["adam"]}, "solvers: expected some of cgd-auto,"),
        ({"solvers": []}, "solvers: expected at least one, got none"),
        ({"solvers": ["BFGS", "BFGS"]}, "solvers: 'BFGS' is named twice"),
        ({"features": ["nois=1"]}, "features: expected plain, or some of values, noise=…"),
        ({"features": ["noise"]}, "features: expected plain"),
        ({"features": ["noise=x"]}, "features: expected plain"),
        ({"features": ["values=1"]}, "features: expected plain"),
        ({"features": ["noise=-1"]}, "features: expected plain"),
        ({"limit": 0}, "limit: expected a whole number"),
        ({"accuracies": [2.0]}, "accuracies: expected numbers between 0 and 1"),
        ({"accuracies": []}, "accuracies: expected at least one number, got none"),
        ({"seconds": 0}, "seconds: expected a positive number, got 0"),
        ({"workers": 0}, "workers: expected a number of processes"),
        ({"sets": [Case("c", abs, [1.0])], "store": "r"}, "store: expected none with cases of your own"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_before_any_run(given, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, TypeError)) as caught:
        race(**{"sets": ["five"], "solvers": ["BFGS"], **given})
    assert str(caught.value).startswith(words)


def test_a_solver_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr("benchmarks.race.solvers.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="solvers: NLopt-LBFGS needs nlopt: pip install nlopt"):
        race(["five"], ["NLopt-LBFGS"])


# --- the command ---------------------------------------------------------------------------------------


def test_a_function_of_ones_own_with_noise_is_one_command(tmp_path):
    (tmp_path / "mine.py").write_text("def loss(x):\n    return float(((x - 1) ** 2).sum()) + 1\n")
    words = "race --fun mine:loss --start 3 4 --solvers cgd-auto Nelder-Mead --features noise=1e-6 --defaults"
    given = {"capture_output": True, "text": True, "cwd": tmp_path, "check": False}
    path = f"{ROOT}:{ROOT / 'src'}"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *words.split()], env={"PYTHONPATH": path, "PATH": ""}, **given
    )
    assert done.returncode == 0, done.stderr
    assert "own (1), noise=1e-6, to 0.001" in done.stdout
    assert done.stdout.count("cgd-auto") >= 3
    assert re.search(r"Nelder-Mead on loss, noise=1e-6 +\d+ +\S+  success, 0", done.stdout)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--fun none_such:loss --start 1", "No module named 'none_such'"),
        ("--fun math:los --start 1", "--fun: math has no function 'los'"),
        ("--fun math --start 1", "--fun: expected module:name, got 'math'"),
        ("--fun math:pi --start 1", "--fun: math has no function 'pi'"),
        ("--fun math:exp --jac math --start 1", "--jac: expected module:name, got 'math'"),
        ("--fun json:loads --start 1", "cgd-auto on loads, plain: "),
    ],
)
def test_a_function_that_is_not_there_or_fails_at_the_start_is_said_in_a_line(words, said, capsys):
    with pytest.raises(SystemExit, match="2"):
        command.main(words.split())
    assert said in capsys.readouterr().err


def test_one_file_keeps_the_runs_of_one_setting():
    settings = list(product((100, 3000), (math.inf, 0.5), (True, False)))
    assert len({command.kept_as(*one) for one in settings}) == len(settings)


def test_an_interrupted_command_says_that_it_goes_on(monkeypatch, tmp_path):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "race", interrupted)
    with pytest.raises(SystemExit, match="interrupted; the same command goes on"):
        command.main(["--sets", "coarse"])


def test_the_command_prints_what_there_is_and_writes_rows_and_pictures(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command.main(["--list"])
    assert {"mgh", "cgd-auto", "noise=…"} <= set(capsys.readouterr().out.split())
    words = "--sets coarse --solvers BFGS L-BFGS-B --limit 60 --workers 1 --defaults --out made"
    command.main(words.split())
    assert "coarse (5), plain, to 0.001" in capsys.readouterr().out
    assert {path.name for path in Path("made").iterdir()} == {"rows.csv", "coarse.png", "coarse.svg"}
    assert len(Results.load(Path("made/rows.csv")).rows) == 10
    for wrong in ("--solvers BFGS", "--sets coarse --fun a:b --start 1", "--sets corse"):
        with pytest.raises(SystemExit, match="2"):
            command.main(wrong.split())


INF, NAN = np.inf, np.nan
COSTS = np.array(  # four problems, three solvers; the last one was not run on the last problem
    [[10.0, 20.0, 40.0], [30.0, 15.0, INF], [INF, INF, INF], [8.0, 8.0, NAN]]
)
SIZES = np.array([1, 4, 1, 3])


def test_data_profile():
    # evaluations / (n + 1): [5, 10, 20], [6, 3, –], none, [2, 2, –]
    at = [1.9, 2, 3, 5, 6, 10, 20, 1e9]
    expected = [[0, 1, 1, 2, 3, 3, 3, 3], [0, 1, 2, 2, 2, 3, 3, 3], [0, 0, 0, 0, 0, 0, 1, 1]]
    assert (profile(per_unknown(COSTS, SIZES), at) * 4).tolist() == expected
    rows = [row(case=str(i), n=int(n), solver=s, costs=(float(cost),))
            for i, n in enumerate(SIZES) for s, cost in zip("abc", COSTS[i], strict=True)]  # fmt: skip
    for solver, shares in zip("abc", expected, strict=True):
        assert (Results(rows, (1e-3,)).shares(solver, 1e-3, at) * 4).tolist() == shares


def test_performance_profile():
    # factors of the least: [1, 2, 4], [2, 1, –], none, [1, 1, –]
    at = [0.99, 1, 1.99, 2, 4, 1e9]
    expected = [[0, 2, 2, 3, 3, 3], [0, 2, 2, 3, 3, 3], [0, 0, 0, 0, 1, 1]]
    with np.errstate(all="raise"):
        assert (profile(over_fewest(COSTS), at) * 4).tolist() == expected


def test_evaluations_to():
    steps = [(1, 110.0), (3, 60.0), (9, 10.09), (40, 10.0)]
    for accuracy, expected in [(0.99, 3), (0.5, 3), (0.49, 9), (1e-3, 9), (8e-4, 40), (1e-12, 40)]:
        assert evaluations_to(steps, 110.0, 10.0, accuracy) == expected
    assert evaluations_to(steps, 110.0, 9.0, 1e-3) == INF
    assert evaluations_to((), 110.0, 9.0, 1e-3) == INF
    assert evaluations_to([(1, 7.0)], 7.0, 7.0, 1e-8) == 1  # a start at the best value is solved at once


def test_the_best_value_is_the_lowest_reached_or_the_known_one_if_that_is_near():
    for reached, expected in ((1e-9, 0.0), (-1e-12, -1e-12), (-5.0, -5.0), (1e-6, 1e-6), (3.0, 3.0)):
        assert best_value(10.0, 0.0, reached, 1e-8) == expected
    assert best_value(2.0, 2.0, 2.0, 1e-8) == 2.0
    assert results.idle_part([(1, 9.0), (4, 1.0), (8, 1.0 - 1e-12)], 9.0, 10) == pytest.approx(0.6)
