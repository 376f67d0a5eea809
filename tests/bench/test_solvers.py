"""The solvers: their limits, their ends, Barzilai–Borwein and the rival against their formulas, bad ones."""

import time
from contextlib import suppress
from importlib import import_module
from itertools import pairwise

import numpy as np
import pytest
from benchmarks.problems import Case, cases
from benchmarks.race import race, rival, solvers
from benchmarks.race.asked import Asked, Spent
from benchmarks.race.one import measure
from benchmarks.race.solvers import SOLVERS, Ended, Solver

from steepen.status import Status

JAX = ("optimistix", "optax", "jaxopt")
HERE = [name for name, one in SOLVERS.items() if one.is_installed and not name.startswith(JAX)]
every = pytest.mark.parametrize("solver", HERE)
with_gradients = pytest.mark.parametrize("solver", [one for one in HERE if SOLVERS[one].per_variable is None])


def run(case, solver, limit=500, feature="plain", tight=True, seconds=np.inf):
    return measure(case, feature, solver, limit, tight, seconds)


def parabola(x):
    scale = np.array([1.0, 3.0, 9.0])
    return (scale * x * x).sum() / 2, scale * x


def case_of(both, x0, **more):
    return Case("case", lambda x: both(x)[0], np.array(x0, dtype=float), both, **more)


@every
@pytest.mark.parametrize("limit", [1, 2, 20])
def test_no_solver_exceeds_its_limit(solver, limit):
    plain, evaluated = cases("mgh")["extended-rosenbrock-10"], []

    def both(x):
        evaluated.append(1)
        return plain.both(x)

    found = run(Case("spy", plain.value, plain.x0, both), solver, limit)
    assert len(evaluated) == found["used"] <= limit
    if found["used"] < limit and not found["failed"]:  # ours stop where the next step would not fit any more
        assert found["word"] == Status.MAX_GRADIENTS.name


@with_gradients
def test_no_solver_stops_at_a_tolerance_of_its_own(solver):
    found = run(case_of(parabola, [1e-7, 1e-7, 1e-7], known=0.0), solver, 3000)
    assert found["improvements"][0][0] == 1
    assert found["improvements"][-1][1] <= 1e-8 * 6.5e-14


@pytest.mark.slow  # each compiles
@pytest.mark.parametrize("solver", [one for one in SOLVERS if one.startswith(JAX)])
def test_solvers_of_jax_minimise_a_function_of_the_host(solver):
    if not SOLVERS[solver].is_installed:
        pytest.skip(f"{SOLVERS[solver].package} is not installed")
    found = run(case_of(parabola, [1.0, 1.0, 1.0], known=0.0), solver, 200)
    assert not found["failed"], found["message"]
    assert found["improvements"][-1][1] <= 1e-6
    assert found["used"] <= 200


def test_barzilai_borwein_is_its_formula_on_a_quadratic():
    """α = sᵀs/sᵀy, and no test of f, which on this start none needs."""
    scale, x, seen, expected = np.array([1.0, 1.5, 2.0]), np.ones(3), [], []
    g = scale * x
    alpha = min(1.0, 1 / np.linalg.norm(g))
    for _ in range(16):
        expected.append(0.5 * x @ (scale * x))
        new = x - alpha * g
        s, y = new - x, scale * new - g
        alpha, x, g = (s @ s) / (s @ y), new, scale * new

    def both(x):
        seen.append(0.5 * x @ (scale * x))
        return seen[-1], scale * x

    plain = Case("q", lambda x: 0.5 * x @ (scale * x), np.ones(3), both)
    assert run(plain, "BB", 16)["used"] == 16
    assert np.allclose(seen, expected, rtol=1e-9, atol=0)


def test_barzilai_borwein_looks_back_ten_values():
    scale, accepted = np.array([1.0, 30.0, 1000.0]), []
    asked = Asked(case_of(lambda x: (0.5 * (x * scale) @ x, scale * x), np.ones(3)), 60)
    gradient = asked.grad

    def note(x):
        accepted.append(asked.value(x))
        return gradient(x)

    asked.grad = note  # the gradient is asked for where a step is accepted
    with suppress(Spent):
        SOLVERS["BB"].run(asked, np.ones(3))
    assert len(accepted) > 20
    assert any(b > a for a, b in pairwise(accepted))
    for k in range(1, len(accepted)):
        assert accepted[k] < max(accepted[max(0, k - 10) : k])


def test_the_rivals_direction_solves_its_system_with_the_matrix_of_bfgs_updates():
    """(B + ω·I)d = −g, with B made by one dense update after another."""
    rng = np.random.default_rng(3)
    H = np.diag(np.logspace(0, 2, 6))
    memory, g = rival.Memory(1.0), rng.normal(size=6)
    for _ in range(4):
        s = rng.normal(size=6)
        memory.pairs.append((s, H @ s))
    s, y = memory.pairs[-1]
    B = np.eye(6) * (y @ y) / (s @ y)
    for s, y in memory.pairs:
        B = B - np.outer(B @ s, B @ s) / (s @ B @ s) + np.outer(y, y) / (y @ s)
    for weight in (1e-10, 0.3, 50.0):
        d = memory.direction(g, weight)
        assert np.allclose((B + weight * np.eye(6)) @ d, -g, rtol=1e-7, atol=1e-9)


def test_the_rival_keeps_secants_of_zhang_deng_chen_and_yuan_and_damps_what_curves_down():
    memory, s = rival.Memory(1.0), np.array([1.0, 0.0])
    g, f = np.array([-4.0, 0.0]), 4.0
    g_new, f_new = np.array([-1.0, 0.0]), 1.3
    memory.learn(s, g, g_new, f, f_new, rival.PRECISION)
    zhang, yuan = 6 * (f - f_new) + 3 * s @ (g + g_new), max(0.0, 2 * (f - f_new) + s @ (g + g_new))
    assert memory.pairs[-1][1][0] == pytest.approx(3.0 + (zhang + yuan) / 2)
    for other in (5.0, 0.5):  # f rose, or the change would be larger than the difference itself
        memory.learn(s, g, g_new, f, other, rival.PRECISION)
        assert memory.pairs[-1][1][0] == 3.0
    memory.learn(s, np.array([1.0, 0.0]), np.array([0.0, 0.5]), 0.0, 5.0, rival.PRECISION)
    _, y = memory.pairs[-1]
    bound = 1.25  # yᵀy/|sᵀy|, and after damping sᵀy = 0.2·sᵀs·bound
    assert s @ y == pytest.approx(0.2 * bound)


def test_the_rival_goes_on_under_noise_that_it_is_told():
    plain = cases("mgh")["rosenbrock"]
    found = run(plain, "regularized-QN-told", 300, "noise=1e-2", tight=False)
    assert found["improvements"][-1][1] <= 1e-2 * found["f0"]
    exact = run(plain, "regularized-QN", 300, tight=False)
    assert (exact["success"], exact["word"]) == (True, "gradient")
    assert exact["end"] < 1e-12


@with_gradients
def test_where_f_is_not_finite_nothing_is_raised(solver):
    def barrier(x):
        with np.errstate(all="ignore"):
            return (x - np.log(x)).sum(), 1 - 1 / x

    found = run(case_of(barrier, [5.0, 0.01], known=2.0), solver)
    if not solver.startswith(("torchmin", "optimagic")):
        assert not found["failed"], found["message"]
    assert np.isfinite([f for _, f in found["improvements"]]).all()
    if solver == "BB" or "Armijo" in solver or solver.startswith("cgd"):
        assert found["improvements"][-1][1] < 2.1


# --- solvers that misbehave ----------------------------------------------------------------------------


@pytest.fixture
def bad(monkeypatch):
    def add(adapter):
        monkeypatch.setitem(solvers.SOLVERS, "bad", Solver(adapter, "steepen", "steepen"))
        box = np.array([[-1.0, 2.0]] * 3)
        return case_of(parabola, [1.0, 1.0, 1.0], known=0.0, bounds=box)

    return add


def test_a_solver_that_raises_is_a_row(bad):
    def adapter(asked, x0):
        asked.value(x0)
        raise ZeroDivisionError("oh")

    found = run(bad(adapter), "bad")
    assert (found["failed"], found["word"], found["message"]) == (
        True,
        "ZeroDivisionError",
        "ZeroDivisionError: oh",
    )
    assert (found["used"], found["success"], found["end"]) == (1, False, None)


def test_a_solver_that_hangs_is_stopped_whether_it_evaluates_or_not(bad):
    def asks(asked, x0):
        while True:
            asked.value(x0)

    def asks_nothing(asked, x0):
        while True:
            pass

    for adapter in (asks, asks_nothing):
        began = time.monotonic()
        case = bad(adapter)
        found = run(Case(case.name, case.value, case.x0), "bad", 10**9, seconds=0.2)
        assert (found["word"], found["failed"]) == ("time", False)
        assert time.monotonic() - began < 30


def test_a_solver_that_swallows_errors_is_stopped_all_the_same(bad):
    def adapter(asked, x0):
        while True:
            try:
                asked.value(x0 * np.random.default_rng(asked.used).uniform())
            except Exception:  # it takes any error for a value that failed
                continue

    assert run(bad(adapter), "bad", 50)["word"] == "limit"


def test_what_a_solver_says_of_its_end_is_not_believed(bad):
    """It calls NaN a success, counts wrongly, and names a point of another shape."""
    case = bad(lambda asked, x0: Ended(True, "done", np.full(3, np.nan), "", 99))
    (row,) = race([case], ["bad"], tight=False).rows
    assert (row.success, row.there, row.used) == (True, False, 0)
    assert np.isnan(row.gap)
    case = bad(lambda asked, x0: Ended(True, "done", np.zeros(7), "", asked.value(x0)))
    row, other = race([case], ["bad", "BFGS"], tight=False).rows
    assert (row.used, row.there, row.costs) == (1, False, (np.inf,) * 3)
    assert np.isnan(row.gap)
    assert other.there


def test_evaluations_outside_the_box_are_counted(bad, capsys):
    def adapter(asked, x0):
        for scale in (1.0, 2.0, 3.0):
            asked.value(scale * x0)
        return Ended(True, "done", x0)

    found = race([bad(adapter)], ["bad"], tight=False)
    assert found.rows[0].outside == 1  # 3 is above 2
    found.show()
    assert "bad on case, plain: evaluated 1 points outside the box" in capsys.readouterr().out


def test_a_constant_is_changed_for_one_solver_and_then_as_it_was():
    module = import_module("steepen.methods.auto")
    before = module.BOOST
    plain = cases("mgh")["wood"]
    changed = run(plain, "cgd-auto[methods.auto.BOOST=1.01]")
    assert changed["improvements"] != run(plain, "cgd-auto")["improvements"]
    assert before == module.BOOST
    with pytest.raises(ValueError, match=r"solvers: methods\.auto has no constant BOOOST"):
        race(["five"], ["cgd-auto[methods.auto.BOOOST=1]"])
