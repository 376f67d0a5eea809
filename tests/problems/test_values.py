"""Values against the formulas written a second time, and against values printed in the literature."""

import numpy as np
import pytest
from benchmarks.problems import problems, suite
from benchmarks.references.problems import FITS, FORMULAS, One, formula_name
from tests.pairs import WHOLE

CASES = [p for p in (*suite("mgh"), *suite("large")) if p.name not in FITS]


@pytest.mark.parametrize("p", CASES, ids=lambda p: p.name)
def test_agrees_with_the_formula(p):
    formula = FORMULAS[formula_name(p)]
    rng = np.random.default_rng(p.n)
    for spread in (0.0, 0.01, 0.1) if WHOLE or p.n <= 20 else (0.1,):
        x = p.x0 + spread * rng.normal(size=p.n)
        value, grad = p.value_and_grad(x)
        scale = abs(value) + np.abs(grad) @ np.abs(x)
        # the printed trigonometric function cancels: n less the sum of n cosines
        slack = 1e-14 * p.n if p.name.startswith("trigonometric") else 0
        assert abs(value - float(formula(One(x.tolist())))) <= 1e-12 * scale + slack


# To the digits that published runs on these collections print.
AT_START = {
    "freudenstein-roth": 400.5, "powell-badly-scaled": 1.13526, "beale": 14.2031, "jennrich-sampson":
    4171.31, "helical-valley": 2500, "bard": 41.6817, "gaussian": 3.88811e-6, "meyer": 1.69361e9, "gulf":
    12.1107, "box-3d": 1031.15, "powell-singular": 215, "wood": 19192, "kowalik-osborne": 5.31317e-3,
    "brown-dennis": 7.92669e6, "osborne-1": 0.879026, "biggs-exp6": 0.779070, "osborne-2": 2.09342,
    "watson-6": 30, "penalty-1-10": 148033, "penalty-2-10": 162.653, "variably-dimensioned-10": 2.19855e6,
    "trigonometric-10": 7.07576e-3, "brown-almost-linear-10": 273.248, "chebyquad-8": 0.0386177,
}  # fmt: skip


def test_value_at_the_standard_start():
    for name, value in AT_START.items():
        assert problems[name](problems[name].x0) == pytest.approx(value, rel=6e-6), name


PRINTED_MINIMA = {
    "jennrich-sampson": 124.362, "bard": 8.21487e-3, "gaussian": 1.12793e-8, "meyer": 87.9458,
    "kowalik-osborne": 3.07505e-4, "brown-dennis": 85822.2, "osborne-1": 5.46489e-5, "osborne-2":
    4.01377e-2, "watson-6": 2.28767e-3, "watson-9": 1.39976e-6, "watson-12": 4.72238e-10, "penalty-1-4":
    2.24997e-5, "penalty-1-10": 7.08765e-5, "penalty-2-4": 9.37629e-6, "penalty-2-10": 2.93660e-4,
    "chebyquad-8": 3.51687e-3, "engval1": 1108.195, "fletcbv2": -0.514007,
}  # fmt: skip
PRINTED_OTHERS = {
    "freudenstein-roth": 48.9842, "biggs-exp6": 5.65565e-3, "trigonometric-10": 2.79506e-5, "chebyquad-10":
    6.50395e-3, "broydn7d": 40.12284,
}  # fmt: skip


def test_best_values_and_other_minima_are_the_printed_ones():
    for name, value in PRINTED_MINIMA.items():  # the collection cuts digits where it does not round
        assert problems[name].fbest == pytest.approx(value, rel=5e-6), name
    for name, value in PRINTED_OTHERS.items():
        p = problems[name]
        assert any(end == pytest.approx(value, rel=5e-6) for end in p.other_ends), name
        assert min(p.other_ends) > p.fbest, name


# Minimisers known in closed form give the best value.
MINIMISERS = {
    "rosenbrock": [1, 1], "freudenstein-roth": [5, 4], "brown-badly-scaled": [1e6, 2e-6], "beale": [3, 0.5],
    "helical-valley": [1, 0, 0], "gulf": [50, 25, 1.5], "box-3d": [1, 10, 1], "wood": [1, 1, 1, 1],
    "biggs-exp6": [1, 10, 1, 5, 4, 3], "powell-singular": [0, 0, 0, 0], "brown-almost-linear-40":
    np.ones(40), "trigonometric-100": np.zeros(100), "variably-dimensioned-50": np.ones(50),
    "linear-full-rank-100": -np.ones(100), "arwhead": [1] * 499 + [0], "dixmaana": np.zeros(300),
    "dixmaanl": np.zeros(300), "dqrtic": np.arange(1, 501), "fminsrf2": np.zeros(256), "genrose":
    np.ones(100), "hager": np.log(np.sqrt(np.arange(1, 501))), "nondquar": np.zeros(100), "raydan1":
    np.zeros(500), "schmvett": np.full(500, np.pi / (1 + np.pi)), "tointgss": np.zeros(500), "tridia": 0.5
    ** np.arange(500),
}  # fmt: skip


def test_known_minimisers():
    for name, x in MINIMISERS.items():
        p = problems[name]
        value, grad = p.value_and_grad(x)
        assert value == pytest.approx(p.fbest, rel=1e-14, abs=1e-24), name
        assert np.abs(grad).max() <= 1e-9, name


def test_a_coordinate_of_zero_stops_no_derivative():
    # the product in Brown's function and the angle in the helical valley divide by no coordinate
    p = problems["brown-almost-linear-10"]
    x = np.array([0.0, 0.0, *range(1, 9)])
    step = 1e-30j * np.eye(10)
    assert np.allclose(p.grad(x), p(x + step).imag / 1e-30, rtol=1e-13, atol=0)
    valley = problems["helical-valley"]
    near, on = valley.value_and_grad([1e-12, 2.0, 1.0]), valley.value_and_grad([0.0, 2.0, 1.0])
    assert on[0] == pytest.approx(near[0], rel=1e-9)
    assert np.allclose(on[1], near[1], rtol=1e-9, atol=1e-8)
    assert np.isfinite(problems["gulf"].grad([50.0, 25 + (-50 * np.log(0.5)) ** (2 / 3), 1.5])).all()


def moved(p, rng, size):
    """Return a point near the start: relatively where parameters differ in size by powers of ten."""
    noise = size * rng.normal(size=p.n)
    return p.x0 * (1 + noise) if p.suite == "nist" else p.x0 + noise


def check(p, x, directions):
    value, grad = p.value_and_grad(x)
    assert np.isfinite([value, *grad]).all()
    slopes = p(x + 1e-30j * directions).imag / 1e-30
    scale = (np.abs(directions) @ np.abs(grad)).max()
    # residuals that nearly vanish at the start lose digits to cancellation
    assert np.abs(slopes - directions @ grad).max() <= (1e-10 if value < 1e-4 else 2e-13) * scale


@pytest.mark.parametrize("p", problems.values(), ids=lambda p: p.name)
def test_gradient_is_the_complex_step_of_the_value(p):
    if p.suite == "learning":
        pytest.importorskip("sklearn")
    rng = np.random.default_rng(p.n)
    for size in (0.0, 0.03):
        x = moved(p, rng, size)
        sizes = np.where(x == 0, 1, np.abs(x))
        check(p, x, np.diag(sizes) if p.n <= 12 else rng.normal(size=(4, p.n)) * sizes)
    if p.n > 12:  # every coordinate, the ends of the chains above all
        axes = np.eye(p.n)[[0, 1, 2, p.n // 2 - 1, p.n // 2, -3, -2, -1]]
        check(p, moved(p, rng, 0.03), axes)
