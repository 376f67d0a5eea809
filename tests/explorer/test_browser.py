"""The explorer in headless Chromium: its numbers are the library's, and everyone can use it."""

from typing import Any

import numpy as np
import pytest

import steepen as st
from steepen.cli._options import PENALTIES
from steepen.explorer._sample import sampled
from steepen.paper.experiments import EXPERIMENTS
from steepen.theory import Stationarity, artificial_points, classify

from .conftest import BOX, NEEDS_CHROMIUM, mine, opened

pytestmark = NEEDS_CHROMIUM

# --- its numbers are the library's -----------------------------------------------------------------------


def keys() -> dict[str, st.functions.Function]:
    found = {}
    for name, fun in st.functions.items():
        for n in (1, 2):
            try:
                found[f"{name}-1d" if n == 1 != fun.n else name] = fun.at(n)
            except ValueError:
                continue
    return found


def test_values_gradients_and_products_are_those_of_the_formulas(page):
    rng = np.random.default_rng(5)
    functions = keys()
    points = {key: rng.uniform(*fun.bounds.T, size=(8, fun.n)) for key, fun in functions.items()}
    ours = page.evaluate(
        """(points) => Object.entries(points).map(([key, xs]) => xs.map((x) => {
          const f = steepen.functions[key], v = x.map((_, i) => 1 - 3 * i);
          return [f.value(x), f.grad(x), f.hvp(x, v)];
        }))""",
        {key: xs.tolist() for key, xs in points.items()},
    )
    assert len(functions) > 55
    for (key, fun), found in zip(functions.items(), ours, strict=True):
        X = points[key]
        V = np.array([1.0, -2.0])[: fun.n]
        theirs = fun(X), fun.grad(X), fun.hvp(X, V)
        for a, b in zip(zip(*found, strict=True), theirs, strict=True):
            np.testing.assert_allclose(np.array(a), b, rtol=1e-11, atol=1e-11 * np.abs(b).max(), err_msg=key)


CASES = {  # start, α, λ, r: runs in which no rounding decides, so that they agree on every machine
    "branin": ([-4.751, 12.459], 0.01, 0.07, 0.2),
    "booth": ([-6.0, 7.0], 0.02, 0.02, 0.1),
    "three-hump-camel": ([-1.6, 1.2], 0.02, 0.02, 0.01),
    "mccormick": ([3.0, -2.0], 0.05, 0.05, 0.01),
    "drop-wave": ([0.9, 0.4], 0.005, 0.001, 0.01),
    "zakharov": ([1.0, 2.0], 0.002, 0.002, 0.001),
    "rastrigin": ([0.4, 0.1], 0.001, 0.0005, 0.001),
    "trid": ([-3.0, 2.5], 0.05, 0.1, 0.1),
    "bohachevsky-1": ([0.3, 0.2], 0.005, 0.002, 0.001),
    "schwefel": ([390.0, 440.0], 0.5, 0.5, 0.1),
    "levy-13": ([0.9, 1.1], 0.003, 0.001, 0.001),
    "easom": ([2.5, 3.5], 0.05, 0.02, 0.01),
    "dixon-price": ([2.0, 1.5], 0.005, 0.005, 0.01),
    "gramacy-lee": ([1.8], 0.0005, 0.0005, 0.001),
}
METHODS = ("gd", "cgd", "cgd-fd", "bfgs", "cgd-auto")


def held(page: Any, key: str, fun: Any, x0: Any, method: str, grads: int, **settings: Any) -> st.Result:
    """Hold a run of the page's to the library's: iterates, values, λ, α, counts, marks and status."""
    penalty = settings.pop("penalty", None)
    theirs = st.minimize(
        fun, x0, method=method, budget=st.Budget(grads=grads), trace="x", **settings,
        **({} if penalty is None else {"penalty": PENALTIES[penalty]()}),
    )  # fmt: skip
    options = settings | {"grads": grads} | ({} if penalty is None else {"penalty": penalty})
    ours = page.evaluate(
        "([key, x, method, options]) => steepen.minimize(steepen.functions[key], x, method, options)",
        [key, list(x0), method, options],
    )
    trace, rows = theirs.trace, ours["trace"]
    case = f"{key}, {method}, {settings}"
    assert ours["status"] == theirs.status.name, case
    assert len(rows) == len(trace.f), case
    counts = [ours["oracle"][name] for name in ("nfev", "njev", "nhvp")]
    assert counts == [theirs.nfev, theirs.njev, theirs.nhvp], case
    for name in ("nfev", "njev", "nhvp", "penalised", "guarded"):
        assert [row[name] for row in rows] == getattr(trace, name).tolist(), case
    for name, scale in (("x", max(1.0, np.abs(trace.x).max())), ("f", max(1.0, np.abs(trace.f).max()))):
        found = np.array([row[name] for row in rows], dtype=float)
        np.testing.assert_allclose(found, getattr(trace, name), rtol=0, atol=1e-10 * scale, err_msg=case)
    far = trace.gnorm > 1e-3 * trace.gnorm[0]  # near the end searched steps are quotients of roundings
    for name in ("lam", "step"):
        found = np.array([row[name] for row in rows], dtype=float)
        wanted = getattr(trace, name)
        np.testing.assert_allclose(found[far], wanted[far], rtol=1e-6, atol=1e-12, err_msg=case)
    return theirs


@pytest.mark.parametrize("key", CASES)
def test_every_method_walks_as_in_python(page, key):
    start, step, lam, r = CASES[key]
    fun = st.functions[key].at(len(start))
    for method in METHODS:
        penalty = {"lam": lam} if method in ("cgd", "cgd-fd") else {}
        probe = {"r": r} if method == "cgd-fd" else {}
        held(page, key, fun, start, method, 20, **penalty, **probe)  # with the line search
        if method != "cgd-auto":
            alpha = 0.1 if method == "bfgs" else step
            held(page, key, fun, start, method, 20, step=alpha, **penalty, **probe)


@pytest.mark.parametrize("key", ["branin", "griewank", "levy", "matyas"])
def test_the_runs_of_the_paper_are_the_papers(page, key):
    row = EXPERIMENTS[key]
    for method in ("gd", "cgd", "cgd-fd"):
        penalty = {"lam": row.lam0} if method != "gd" else {}
        probe = {"r": row.r, "b": 10} if method == "cgd-fd" else {}
        held(page, key, row.function, row.start, method, 40, step=row.step, **penalty, **probe)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_every_penalty_is_the_librarys(page, penalty):
    fun, start = st.functions["branin"], [-4.0, 6.0]
    held(page, "branin", fun, start, "cgd", 20, step=0.005, lam=0.03, penalty=penalty)
    held(page, "branin", fun, start, "cgd-fd", 20, step=0.005, lam=0.03, penalty=penalty, r=0.05)


def test_guard_and_switch_off_come_where_the_library_has_them(page):
    levy = st.functions["levy"].at(1)
    res = held(page, "levy-1d", levy, [-7.7], "cgd-fd", 40, step=0.005, lam=0.2, r=0.01)
    assert res.trace.guarded[0]
    row = EXPERIMENTS["branin"]
    held(page, "branin", row.function, row.start, "cgd-fd", 40, step=0.01, lam=0.07, r=0.2, b=3)


def test_an_artificial_stationary_point_ends_a_run_as_such(page):
    levy = st.functions["levy"].at(1)
    (x, *_) = artificial_points(levy_slope, levy_bend, 0.2, (-8, -6))
    # on one side of it the penalised direction still descends f, by next to nothing; on the other it climbs
    ends = [held(page, "levy-1d", levy, [x + side], "cgd", 1, step=0.001, lam=0.2) for side in (-1e-5, 1e-5)]
    assert {res.status.name for res in ends} == {"ARTIFICIAL", "MAX_GRADIENTS"}


def test_a_start_without_a_gradient_is_left_where_f_bends_down(page):
    held(page, "easom", st.functions["easom"], [60.0, -70.0], "cgd-auto", 20)  # it is flat there
    held(page, "sphere", st.functions["sphere"], [0.0, 0.0], "cgd-auto", 20)  # this is the minimum
    theirs = st.minimize(st.functions["six-hump-camel"], [0.0, 0.0], budget=st.Budget(grads=40))
    ours = page.evaluate(
        "steepen.minimize(steepen.functions['six-hump-camel'], [0, 0], 'cgd-auto', { grads: 40 })"
    )
    end = np.array(ours["trace"][-1]["x"])
    assert theirs.status.name == ours["status"] == "CONVERGED"
    np.testing.assert_allclose(np.abs(end), np.abs(theirs.x), atol=1e-7)  # either of two opposite ways


@pytest.mark.parametrize("key", ["branin", "levy-13", "mccormick", "gramacy-lee"])
@pytest.mark.parametrize("method", ["bfgs", "cgd-auto"])
def test_a_run_without_a_tolerance_ends_at_the_floor_of_f(page, key, method):
    start, *_ = CASES[key]
    theirs = st.minimize(st.functions[key], start, method=method, gtol=0.0, budget=st.Budget(grads=200))
    ours = page.evaluate(
        "([key, x, method]) => steepen.minimize(steepen.functions[key], x, method, { grads: 200, gtol: 0 })",
        [key, start, method],
    )
    assert theirs.success
    assert ours["status"] in ("PRECISION", "CONVERGED")
    np.testing.assert_allclose(ours["trace"][-1]["x"], theirs.x, rtol=1e-6)
    assert ours["oracle"]["njev"] < theirs.njev + 30


def test_a_race_counts_every_product_as_a_gradient(page):
    for method in METHODS:
        for grads in (1, 2, 7, 40):
            run = page.evaluate(
                """([method, grads]) => steepen.minimize(steepen.functions.branin, [-4, 6], method,
                { grads, step: 0.01, lam: 0.07, price: 1, gtol: 0 }).oracle""",
                [method, grads],
            )
            assert run["njev"] + run["nhvp"] <= grads, (method, grads)


def spline(made: dict[str, Any]) -> Any:
    """Return the sampled function by SciPy: f, ∇f and H·v, and no value outside."""
    from scipy.interpolate import BSpline

    (t, u), n = made["knots"], len(made["knots"][0]) - 4
    c = np.reshape(made["coefficients"], (n, -1))

    def at(x, i, j):
        outside = np.any((x < BOX[:, 0]) | (x > BOX[:, 1]))
        return np.nan if outside else float(BSpline(u, BSpline(t, c, 3)(x[0], i), 3)(x[1], j))

    def hvp(x, v):
        mixed = at(x, 1, 1)
        return np.array([at(x, 2, 0) * v[0] + mixed * v[1], mixed * v[0] + at(x, 0, 2) * v[1]])

    def value(x):
        return at(x, 0, 0)

    value.grad = lambda x: np.array([at(x, 1, 0), at(x, 0, 1)])
    value.hvp = hvp
    return value


def test_a_function_that_was_sampled_is_walked_on_as_its_spline(page):
    fun = spline(sampled(mine, BOX, 21))
    settings = ({"step": 0.03}, {"step": 0.03, "lam": 0.05}, {"step": 0.03, "lam": 0.05, "r": 0.05}, {}, {})
    for method, chosen in zip(METHODS, settings, strict=True):
        res = held(page, "yours", fun, [-1.5, 1.0], method, 20, **chosen)
        assert abs(fun(res.x) - mine(res.x)) < 1e-3
    res = held(page, "yours", fun, [-1.9, 1.9], "gd", 20, step=1.0)
    assert res.status is st.Status.NONFINITE_VALUE


def levy_slope(x):
    return st.functions["levy"].at(1).grad(np.asarray(x)[:, None])[:, 0]


def levy_bend(x):
    return st.functions["levy"].at(1).hess(np.asarray(x)[:, None])[:, 0, 0]


def test_artificial_points_are_those_of_the_theory(page):
    ours = page.evaluate("steepen.artificialPoints(steepen.functions['levy-1d'], 0.2)")
    theirs = artificial_points(levy_slope, levy_bend, 0.2, (-10, 10))
    np.testing.assert_allclose(np.ravel(ours), theirs, atol=1e-6)
    camel = st.functions["six-hump-camel"]
    found = page.evaluate("steepen.artificialPoints(steepen.functions['six-hump-camel'], 0.1)")
    assert len(found) > 10
    for x in found:
        assert classify(x, camel.grad, camel.hvp, 0.1, tol=1e-4) is Stationarity.ARTIFICIAL


# --- everyone can use it -----------------------------------------------------------------------------------

VIEWS = ("function=branin", "function=levy-1d&lam=0.2", "function=yours")


@pytest.mark.parametrize("settings", VIEWS)
@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_the_page_opens_without_an_error_and_fits(browser, file, settings, width, scheme):
    page = opened(browser, file, settings, viewport={"width": width, "height": 844}, color_scheme=scheme)
    assert page.troubles == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    box = page.locator("#landscape").bounding_box()
    assert box["y"] + box["height"] < 844  # on the first screen
    assert page.locator("#sampled").is_visible() == (settings == "function=yours")
    assert page.locator("#cut").is_visible() == ("1d" not in settings)
    assert page.locator("#rows tr").count() == 2
    page.context.close()


def test_it_begins_with_the_papers_branin(page):
    rows = page.locator("#rows tr").all_inner_texts()
    assert [row.split("\t")[:3] for row in rows[:2]] == [["GD", "40", "0.06953"], ["CGD-FD", "40", "0.05576"]]


def test_without_settings_lambda_rises_to_where_it_is_set(browser, file):
    page = opened(browser, file, "")
    page.wait_for_function("location.hash !== ''")
    wanted = opened(browser, file, "function=yours")
    assert page.url == wanted.url
    assert page.input_value("#lam") == wanted.input_value("#lam") != "0"
    for one in (page, wanted):
        assert one.troubles == []
        one.context.close()


def test_every_control_has_a_name(page):
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("input, select, button, canvas")].filter(
          (one) => !(one.labels?.length || one.ariaLabel || one.textContent.trim())).map((one) => one.id)"""
    )
    assert nameless == []


def test_the_address_line_carries_the_settings(browser, file):
    page = opened(browser, file, "function=branin&box=whole")
    page.locator("#more summary").click()
    page.fill("#lam", "0.11")
    page.fill("#r", "auto")
    page.select_option("#penalty", "l2")
    page.check("input[value=bfgs]")
    page.focus("#field")
    page.keyboard.press("Shift+ArrowRight")
    page.click("#zoom")
    page.wait_for_function("location.hash.includes('box=') && !location.hash.includes('whole')")
    settings = page.url.partition("#")[2]
    told = page.locator("#news").inner_text(), page.locator("#rows").inner_text()
    again = opened(browser, file, settings)
    assert (again.locator("#news").inner_text(), again.locator("#rows").inner_text()) == told
    assert again.url.partition("#")[2] == settings
    assert "start=-4.001,12.459" in settings
    assert "lam=0.11" in settings
    assert "r=auto" in settings
    for one in (page, again):
        assert one.troubles == []
        one.context.close()


def test_nonsense_in_the_address_line_is_left_out(browser, file):
    nonsense = (
        "function=__proto__&lam=x&step=-1&r=0&b=-2&grads=1e9&start=1,2,3&box=3,1,0,0&penalty=no&methods=sgd"
    )
    page = opened(browser, file, nonsense)
    assert "function=yours" in page.url
    assert "lam=x" not in page.url
    assert "grads=40" in page.url
    assert page.troubles == []
    page.context.close()


def test_a_click_and_the_keys_move_the_start(browser, file):
    page = opened(browser, file)
    box = page.locator("#landscape").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_function("!location.hash.includes('start=-4.751,12.459')")
    clicked = page.evaluate("location.hash")
    page.focus("#field")
    page.keyboard.press("ArrowUp")
    page.wait_for_function("(before) => location.hash !== before", arg=clicked)
    page.context.close()


def test_a_value_that_is_none_is_marked_and_not_taken(browser, file):
    page = opened(browser, file)
    page.fill("#step", "-3")
    assert page.get_attribute("#step", "aria-invalid") == "true"
    page.press("#step", "Tab")
    page.wait_for_function("document.getElementById('step').value === '0.01'")
    page.context.close()


def test_the_race_ends_where_the_budget_does(browser, file):
    page = opened(browser, file, "function=branin&grads=10&at=0", reduced_motion="reduce")
    assert page.locator("#at").inner_text() == "0 of 10"
    page.click("#play")
    page.wait_for_function("document.getElementById('at').textContent === '10 of 10'")
    page.context.close()


def test_a_drag_of_lambda_recombines_and_does_not_evaluate_the_grid_again(page):
    calls = page.evaluate(
        """async () => {
          const slide = document.getElementById("lam-slide"), f = steepen.functions.branin;
          const { value, grad } = f;
          let calls = 0;
          f.value = (x) => (calls++, value(x));
          f.grad = (x) => (calls++, grad(x));
          for (let i = 1; i <= 10; i++) {
            slide.value = 90 * i;
            slide.dispatchEvent(new Event("input"));
            await new Promise(requestAnimationFrame);
          }
          Object.assign(f, { value, grad });
          return calls / 10;
        }"""
    )
    assert 10 < calls < 2000  # the grid has 120 000 points
