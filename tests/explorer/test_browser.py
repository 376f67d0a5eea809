"""The explorer in headless Chromium: its numbers are the library's, and everyone can use it."""

import mpmath
import numpy as np
import pytest
from tests.browser import MARKS, browser, visited

import steepen as st
from steepen.cli._options import PENALTIES
from steepen.theory import Stationarity, classify

__all__ = ["browser"]  # a fixture
pytestmark = MARKS

BOX = np.array([(-2.0, 2.0), (-1.5, 2.0)])


def mine(x):
    return np.sin(2 * x[0]) + x[0] ** 2 * x[1] ** 2 / 4 + (x[1] - 0.3) ** 2


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return st.explore(mine, BOX, out=tmp_path_factory.mktemp("explorer") / "page.html", samples=21)


def opened(browser, file, settings="function=branin", **context):
    """Open the page with these settings; it must log no error and ask for nothing but itself."""
    page = visited(browser, file, f"#{settings}", **context)
    page.wait_for_function("document.getElementById('news').textContent !== ''")
    return page


@pytest.fixture(scope="module")
def page(browser, file):
    page = opened(browser, file)
    yield page
    assert page.troubles == []
    page.context.close()


CASES = {  # start, α, λ, r: runs in which no rounding decides, so that they agree on every machine
    "branin": ([-4.751, 12.459], 0.01, 0.07, 0.2),
    "mccormick": ([3.0, -2.0], 0.05, 0.05, 0.01),
    "drop-wave": ([0.9, 0.4], 0.005, 0.001, 0.01),
    "zakharov": ([1.0, 2.0], 0.002, 0.002, 0.001),
    "schwefel": ([390.0, 440.0], 0.5, 0.5, 0.1),
    "levy-13": ([0.9, 1.1], 0.003, 0.001, 0.001),
    "gramacy-lee": ([1.8], 0.0005, 0.0005, 0.001),
}


RUN = "([key, x, method, options]) => steepen.minimize(steepen.functions[key], x, method, options)"


def held(page, key, x0, method, *, penalty=None, **settings):
    """Hold a run of the page's to the library's: iterates, values, λ, α, counts, marks and status."""
    fun = st.functions[key].at(len(x0))
    given = settings if penalty is None else settings | {"penalty": PENALTIES[penalty]()}
    theirs = st.minimize(fun, x0, method=method, budget=st.Budget(grads=20), trace="x", **given)
    options = {"grads": 20} | settings | ({} if penalty is None else {"penalty": penalty})
    ours = page.evaluate(RUN, [key, list(x0), method, options])
    trace, rows = theirs.trace, ours["trace"]
    case = f"{key}, {method}, {options}"
    assert ours["status"] == theirs.status.name, case
    assert len(rows) == len(trace.f), case
    for name in ("nfev", "njev", "nhvp"):
        assert ours["oracle"][name] == theirs[name], case
    for name in ("nfev", "njev", "nhvp", "penalised", "guarded"):
        assert [row[name] for row in rows] == getattr(trace, name).tolist(), case
    far = trace.gnorm > 1e-3 * trace.gnorm[0]  # near the end searched steps are quotients of roundings
    for name in ("x", "f", "lam", "step"):
        found, wanted = np.array([row[name] for row in rows], dtype=float), getattr(trace, name)
        if name in ("x", "f"):
            close = {"rtol": 0, "atol": 1e-10 * max(1.0, np.abs(wanted).max())}
            np.testing.assert_allclose(found, wanted, **close, err_msg=case)
        else:
            np.testing.assert_allclose(found[far], wanted[far], rtol=1e-6, atol=1e-12, err_msg=case)


@pytest.mark.parametrize("key", CASES)
def test_every_method_walks_as_in_python(page, key):
    start, step, lam, r = CASES[key]
    for method in ("gd", "cgd", "cgd-fd", "bfgs", "cgd-auto"):
        settings = {"cgd": {"lam": lam}, "cgd-fd": {"lam": lam, "r": r}}.get(method, {})
        held(page, key, start, method, **settings)  # with the line search
        if method != "cgd-auto":
            held(page, key, start, method, step=0.1 if method == "bfgs" else step, **settings)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_every_penalty_is_the_librarys(page, penalty):
    held(page, "branin", [-4.0, 6.0], "cgd", step=0.005, lam=0.03, penalty=penalty)
    held(page, "branin", [-4.0, 6.0], "cgd-fd", step=0.005, lam=0.03, penalty=penalty, r=0.05)


@pytest.mark.parametrize("key", ["branin", "gramacy-lee"])
@pytest.mark.parametrize("method", ["bfgs", "cgd-auto"])
def test_a_run_without_a_tolerance_ends_at_the_floor_of_f(page, key, method):
    start, *_ = CASES[key]
    theirs = st.minimize(st.functions[key], start, method=method, gtol=0.0, budget=st.Budget(grads=200))
    ours = page.evaluate(RUN, [key, start, method, {"grads": 200, "gtol": 0}])
    assert theirs.success
    assert ours["status"] in ("PRECISION", "CONVERGED")
    np.testing.assert_allclose(ours["trace"][-1]["x"], theirs.x, rtol=1e-6)
    assert ours["oracle"]["njev"] < theirs.njev + 30


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
    rows = page.locator("#rows tr").all_inner_texts()
    if "branin" in settings:  # the paper's run
        assert [row.split("\t")[:3] for row in rows] == [["GD", "40", "0.06953"], ["CGD-FD", "40", "0.05576"]]
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("input, select, button, canvas")].filter(
          (one) => one.checkVisibility() && !(one.labels?.length || one.ariaLabel || one.textContent.trim())
        ).map((one) => one.id)"""
    )
    assert nameless == []
    page.context.close()


@pytest.mark.parametrize(
    "settings",
    [
        "function=__proto__&lam=x&step=-1&r=0&b=-2&grads=1e9&start=1,2,3&box=3,1,0,0&penalty=no&methods=sgd",
        "function=typed&expr=x%5E(", "function=typed&expr=%E0%A4%A", "%%%&&==",
    ],
)  # fmt: skip
def test_a_link_with_a_broken_state_opens_the_first_function(browser, file, settings):
    page = opened(browser, file, settings)
    assert "function=yours" in page.url
    assert "lam=x" not in page.url
    assert page.troubles == []
    page.context.close()


def test_artificial_points_are_those_of_the_theory(page):
    camel = st.functions["six-hump-camel"]
    found = page.evaluate("steepen.artificialPoints(steepen.functions['six-hump-camel'], 0.1)")
    assert len(found) > 10
    for x in found:
        assert classify(x, camel.grad, camel.hvp, 0.1, tol=1e-4) is Stationarity.ARTIFICIAL


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


def test_every_function_opens_with_a_walk_worth_seeing(page):
    found = page.evaluate(
        """() => Object.keys(steepen.functions).filter((name) => name !== "typed").map((name) => {
          const { functions } = steepen, scene = new steepen.Scene(functions);
          scene.set(steepen.initial(functions, name));
          const xs = scene.runs.flatMap((one) => one.trace.map((row) => row.x));
          const spans = scene.box.map(([low, high], i) => {
            const inside = xs.map((x) => x[i]).filter((x) => x >= low && x <= high);
            return (Math.max(...inside) - Math.min(...inside)) / (high - low);
          });
          const gaps = scene.runs.map((one) => one.trace.map((row) => scene.gap(row.f)));
          const seen = gaps.flat().filter(Number.isFinite);
          return [name, scene.known, Math.min(...seen), Math.max(...seen), scene.heights, Math.max(...spans),
                  gaps.map((all) => [all[0], all.at(-1)])];
        })"""
    )
    assert len(found) > 55
    for name, known, least, most, (low, high), filled, ends in found:
        assert known == (name != "yours"), name
        if not known:
            continue
        assert least >= 0, name
        assert 0 < low < high <= 1e6 * max(most, low), name
        assert min(last for _, last in ends) < 0.995 * ends[0][0], name  # somebody comes down
        assert filled > 0.1, name


TYPED = {
    "x^2 + 3 sin(y)": lambda x, y: x**2 + 3 * mpmath.sin(y),
    "(x - 1)^2 + 100 (y - x^2)**2": lambda x, y: (x - 1) ** 2 + 100 * (y - x**2) ** 2,
    "-x^2 y/3 + 2^-y": lambda x, y: -(x**2) * y / 3 + mpmath.mpf(2) ** -y,
    "(2 + x^2)^y + sinh(x) cosh(y) tan(x/3)": lambda x, y: (
        (2 + x**2) ** y + mpmath.sinh(x) * mpmath.cosh(y) * mpmath.tan(x / 3)
    ),
    "x₁^4 − 3·x₂^3 + 1.5e-1 x1 x2": lambda x, y: x**4 - 3 * y**3 + mpmath.mpf(0.15) * x * y,
}


@pytest.mark.parametrize("text", TYPED)
def test_a_typed_function_has_exact_derivatives(page, text):
    points = [[0.7, -1.3], [-1.9, 0.4], [2.5, 1.1]]
    found = page.evaluate(
        """([text, points]) => {
          const { fun } = steepen.typed(text, [-5, 5]);
          const bends = (x) => [...fun.hvp(x, [1, 0]), ...fun.hvp(x, [0, 1])];
          return points.map((x) => [fun.value(x), ...fun.grad(x), ...bends(x)]);
        }""",
        [text, points],
    )
    with mpmath.workdps(40):
        for x, ours in zip(points, found, strict=True):
            orders = ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (1, 1), (0, 2))
            exact = [float(mpmath.diff(TYPED[text], x, order)) for order in orders]
            np.testing.assert_allclose(ours, exact, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x^2 + foo(y)", "“foo” at 7 is not known; known are x, y, sin"),
        ("(x + 1", "The bracket at 1 is never closed"),
        ("x * / y", "“/” at 5 is out of place"),
        ("sin x", "sin needs a bracket"),
        ("x" + "+x" * 500, "1001 characters are too many: 1000 at most"),
    ],
)
def test_what_is_wrong_with_a_typed_function_is_said(page, text, message):
    assert page.evaluate("(text) => steepen.typed(text, [-5, 5]).error", text).startswith(message)


def test_a_function_is_typed_raced_and_carried_by_the_link(browser, file):
    page = opened(browser, file)
    page.fill("#expr", "x^4 - 3x^2 + x + y^2 + x (")
    page.wait_for_function("document.getElementById('wrong').textContent.includes('missing at the end')")
    assert "function=branin" in page.url
    page.fill("#expr", "x^4 - 3x^2 + x + y^2 + x y")
    page.wait_for_function("location.hash.includes('function=typed')")
    assert page.locator("#wrong").inner_text() == ""
    again = opened(browser, file, page.url.partition("#")[2])
    assert again.input_value("#expr") == "x^4 - 3x^2 + x + y^2 + x y"
    assert again.locator("#rows").inner_text() == page.locator("#rows").inner_text()
    for one in (page, again):
        assert one.troubles == []
        one.context.close()
