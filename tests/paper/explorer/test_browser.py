"""The explorer in headless Chromium: it fits, answers below its fields, and links to what it draws."""

import numpy as np
import pytest
from tests.browser import MARKS, browser, visited

from steepen.paper import explore

__all__ = ["browser"]  # a fixture
pytestmark = MARKS


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    out = tmp_path_factory.mktemp("explorer") / "page.html"
    return explore(lambda x: np.sin(2 * x[0]) + (x[1] - 0.3) ** 2, [(-2, 2), (-1.5, 2)], out=out, samples=21)


def opened(browser, file, settings, **context):
    page = visited(browser, file, f"#{settings}", **context)
    page.wait_for_function("document.getElementById('news').textContent !== ''")
    return page


def shown(page):
    """All that the page shows of a state, pictures included."""
    pixels = "[...document.querySelectorAll('canvas')].map((one) => one.toDataURL())"
    return page.inner_text("#said"), page.inner_text("#rows"), page.evaluate(pixels)


VIEWS = {  # what is opened, and what is said first
    "function=branin&at=0": "One step each, with the same α: GD lowers f by 38 %, CGD-FD lowers f by 87 %.",
    "function=levy-1d&lam=0.2": "",
    "function=yours": "",
    "function=typed&expr=log(x+2)*y^2+x^2&box=whole": "",  # has no value in a part of the map
    "function=typed&expr=x-y&grads=200&step=1": "GD has left the map",  # has no minimum
}


@pytest.mark.parametrize("settings", VIEWS)
@pytest.mark.parametrize(("width", "height"), [(1300, 900), (390, 844), (844, 390)])
def test_the_page_opens_without_an_error_and_fits(browser, file, settings, width, height):
    scheme = "dark" if width == 390 else "light"
    phone = {"width": height, "height": width} if height < 800 else {"width": width, "height": height}
    page = opened(browser, file, settings, viewport=phone, color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": height})  # a phone is turned sideways
    assert page.troubles == []
    assert VIEWS[settings] in page.inner_text("#said")
    wide = """[document.documentElement, ...document.querySelectorAll("main *")].filter((one) =>
      one.scrollWidth > one.clientWidth + 1 && one.clientWidth && !one.matches("input, select, .away"))"""
    assert page.evaluate(f"{wide}.map((one) => one.id || one.tagName)") == []
    first = page.locator("#cut" if page.locator("#cut").is_visible() else "#landscape").bounding_box()
    assert first["y"] + first["height"] < max(height, 844)  # with λ, on the first screen
    if phone["width"] != width:
        page.wait_for_timeout(300)
        fresh = opened(browser, file, settings, viewport={"width": width, "height": height})
        assert shown(page) == shown(fresh)
        fresh.context.close()
    nameless = """[...document.querySelectorAll("input, select, button, canvas")].filter((one) =>
      one.checkVisibility() && !(one.labels?.length || one.ariaLabel || one.textContent.trim()))"""
    assert page.evaluate(f"{nameless}.map((one) => one.id)") == []
    page.context.close()


def test_what_is_wrong_is_said_below_its_field_and_the_link_is_to_what_is_drawn(browser, file):
    page = opened(browser, file, "function=branin")
    page.click("#more summary")
    for field, text in {"lam": "abc", "step": "0", "grads": "1e9", "r": "-1", "b": "x", "x0": "y"}.items():
        page.fill(f"#{field}", text)
        page.press(f"#{field}", "Enter")
        below = f"#{'start' if field == 'x0' else field}-wrong"
        page.wait_for_function(f"document.querySelector('{below}').textContent.includes('not “{text}”')")
        assert page.input_value(f"#{field}") == text  # it is not taken back in silence
    page.fill("#expr", "x^4 - 3x^2 + x (")
    page.wait_for_function("document.getElementById('expr-wrong').textContent.includes('Branin is drawn.')")
    for field, text in {"lam": "0.11", "step": "0.02", "grads": "30", "b": "4", "x0": "-4"}.items():
        page.fill(f"#{field}", text)
    page.check("input[value=cgd]")
    page.focus("#field")
    page.keyboard.press("Shift+ArrowRight")
    page.click("#zoom")
    page.wait_for_function("location.hash.includes('box=whole') && location.hash.includes('lam=0.11')")
    assert "expr" not in page.url
    same_as_its_link(browser, file, page)
    page.fill("#expr", "x^4 - 3x^2 + x + y^2 + x y")
    page.wait_for_function("location.hash.includes('function=typed')")
    page.fill("#expr", "x^4 - 3x^2 + (")
    page.wait_for_function("document.getElementById('expr-wrong').textContent.includes('x y is drawn')")
    for name in ("booth", "typed"):  # it stays in the list
        page.select_option("#function", name)
    for button in ("#reset", "#play", "#play", "#best"):
        page.click(button)
    page.wait_for_timeout(600)
    same_as_its_link(browser, file, page)
    assert page.troubles == []
    page.context.close()


def same_as_its_link(browser, file, page):
    again = opened(browser, file, page.url.partition("#")[2])
    assert [place for place in again.locator(".wrong").all_inner_texts() if place] == []
    assert again.url == page.url
    assert shown(again) == shown(page)
    assert again.troubles == []
    again.context.close()
