"""What the explorer opens with, what it does where a method diverges, and functions that are typed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import mpmath
import numpy as np
import pytest

import steepen as st

from .conftest import NEEDS_CHROMIUM, opened

pytestmark = NEEDS_CHROMIUM

# --- what it opens with ------------------------------------------------------------------------------------


def test_every_function_opens_with_a_walk_worth_seeing(page):
    """f falls, no gap is negative, no axis is stretched, and the walk fills its map."""
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


def test_the_opening_walk_fills_the_map_and_cgd_is_ahead(browser, file):
    page = opened(browser, file, "function=branin")
    assert "box=" in page.url
    assert "CGD-FD is lower here" in page.locator("#said").inner_text()
    page.click("#zoom")
    page.wait_for_function("location.hash.includes('box=whole')")
    page.context.close()


def test_where_gd_is_ahead_the_page_says_why(browser, file):
    page = opened(browser, file, "function=branin&step=0.06")
    assert "GD is lower here. CGD-FD pays two gradients" in page.locator("#said").inner_text()
    page.context.close()


def test_a_method_that_diverges_leaves_the_axes_to_the_others(browser, file):
    page = opened(browser, file, "function=rosenbrock&methods=gd,cgd-auto&step=0.01")
    assert page.locator("#off").is_visible()
    top, start = page.evaluate(
        """() => {
          const { functions } = steepen, scene = new steepen.Scene(functions);
          scene.set({ ...steepen.initial(functions, "rosenbrock"), methods: ["gd", "cgd-auto"], step: 0.01 });
          return [scene.heights[1], functions.rosenbrock.value(scene.settings.start)];
        }"""
    )
    assert top <= 100 * start
    page.context.close()


def test_below_the_known_minimum_f_is_shown_alone(browser, file):
    """Outside its box McCormick's function has no minimum."""
    page = opened(browser, file, "function=mccormick&start=-20,-20&step=0.01")
    assert page.locator("#gap").inner_text() == "f"
    assert page.troubles == []
    page.context.close()


def test_diamonds_are_minima_of_the_penalised_function(page):
    """Most artificial points are maxima or saddles of it, which no descent ends in."""
    count = 0
    for name, lam in (("levy-1d", 0.2), ("langermann", 0.01)):
        ends, every = page.evaluate(
            """([name, lam]) => {
              const { functions } = steepen, scene = new steepen.Scene(functions);
              scene.set({ ...steepen.initial(functions, name), lam, box: null });
              return [scene.artificial, steepen.artificialPoints(functions[name], lam)];
            }""",
            [name, lam],
        )
        fun = st.functions[name.removesuffix("-1d")].at(1 if "1d" in name else 2)
        assert 0 < len(ends) < len(every)
        for x in np.array(ends):
            h = 1e-4 * (fun.bounds[:, 1] - fun.bounds[:, 0])
            turns = np.linspace(0, 2 * np.pi, 8, endpoint=False)
            ways = np.array([[1.0], [-1.0]]) if fun.n == 1 else np.stack([np.cos(turns), np.sin(turns)], -1)

            def lifted(z: Any, fun: Any = fun, lam: float = lam) -> Any:
                return fun(z) + lam * (fun.grad(z) ** 2).sum(-1)

            assert (lifted(x + h * ways) > lifted(x)).all()
            count += 1
    assert count > 3


# --- the race of tuned settings ----------------------------------------------------------------------------


def test_one_click_races_each_method_with_its_own_settings(browser, file):
    page = opened(browser, file, "function=branin&lam=3&step=0.5", reduced_motion="reduce")
    tuned = page.evaluate("steepen.functions.branin.tuned")
    page.click("#tuned")
    page.wait_for_function("location.hash.includes('tuned=yes')")
    rows = [row.split("\t") for row in page.locator("#rows tr").all_inner_texts()]
    for row, method in zip(rows, ("gd", "cgd-fd"), strict=True):
        own = dict(tuned[method])
        own |= {"b": int(own["b"])} if "b" in own else {}
        res = st.minimize(
            st.functions["branin"],
            [-4.751, 12.459],
            method=method,
            budget=st.Budget(grads=tuned["grads"]),
            **own,
        )
        assert float(row[2]) == pytest.approx(res.fun - st.functions["branin"].fmin, rel=1e-3)
    assert "best on other starts" in page.locator("#said").inner_text()
    again = opened(browser, file, page.url.partition("#")[2])
    assert again.locator("#rows").inner_text() == page.locator("#rows").inner_text()
    page.fill("#lam", "0.2")  # one's own λ ends it
    page.wait_for_function("!location.hash.includes('tuned')")
    for one in (page, again):
        assert one.troubles == []
        one.context.close()


# --- functions that are typed ------------------------------------------------------------------------------

TYPED: dict[str, Callable[[Any, Any], Any]] = {
    "x^2 + 3 sin(y)": lambda x, y: x**2 + 3 * mpmath.sin(y),
    "(x - 1)^2 + 100 (y - x^2)**2": lambda x, y: (x - 1) ** 2 + 100 * (y - x**2) ** 2,
    "-x^2 y/3 + 2^-y": lambda x, y: -(x**2) * y / 3 + mpmath.mpf(2) ** -y,
    "exp(-x y) cos(2 pi x) + tanh(y)^3": lambda x, y: (
        mpmath.exp(-x * y) * mpmath.cos(2 * mpmath.pi * x) + mpmath.tanh(y) ** 3
    ),
    "log(1 + x^2) / sqrt(2 + y^2) - atan(x y)": lambda x, y: (
        mpmath.log(1 + x**2) / mpmath.sqrt(2 + y**2) - mpmath.atan(x * y)
    ),
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
        ("constructor(x)", "“constructor” at 1 is not known"),
        ("(x + 1", "The bracket at 1 is never closed"),
        ("x + 1)", "The bracket at 6 was never opened"),
        ("x ^", "Something is missing at the end"),
        ("x * / y", "“/” at 5 is out of place"),
        ("sin x", "sin needs a bracket"),
        ("3 + 4", "There is no x and no y in it"),
        ("x $ y", "“$” at 3 is not understood"),
        ("sqrt(x)/0", "It has no value anywhere on the map"),
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


@pytest.mark.parametrize(
    "text",
    [
        "x^2 + y^2/(x - 1)",
        "1/x",
        "log(x) + y^2",
        "-x^2 - y",
        "x",
        "(" * 400 + "x" + ")" * 400,
        "x" + "+y" * 499,
    ],
    ids=["pole", "pole, one variable", "half a map", "no minimum", "a slope", "brackets", "long"],
)
def test_a_typed_function_with_holes_or_without_a_minimum_is_drawn(browser, file, text):
    page = opened(browser, file, f"function=typed&expr={quote(text)}")
    assert page.locator("#wrong").inner_text() == ""
    assert page.locator("#gap").inner_text() == "f"
    assert page.locator("#rows tr").count() == 2
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert page.troubles == []
    page.context.close()


@pytest.mark.parametrize(
    "settings",
    ["function=typed&expr=x%5E(", "function=typed&expr=%E0%A4%A", "function=typed&map=3,1", "%%%&&=="],
)
def test_a_link_with_a_broken_state_opens_the_first_function(browser, file, settings):
    page = opened(browser, file, settings)
    assert "function=yours" in page.url
    assert page.locator("#wrong").is_visible() == ("x%5E(" in settings or "%E0" in settings)
    assert page.troubles == []
    page.context.close()
