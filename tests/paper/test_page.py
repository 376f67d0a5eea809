"""The page in headless Chromium: no error in its console, no request, every picture drawn, and readable."""

import pytest
from tests.browser import MARKS, browser, visited

__all__ = ["browser"]  # a fixture
pytestmark = MARKS


def test_the_page_opens_alone_and_without_error(paper, browser):
    page = visited(browser, paper.page)
    figures = [name for outcome in paper.made.values() for name in outcome.pictures]
    # decode() fails for a picture that cannot be drawn
    widths = page.evaluate(
        "Promise.all([...document.images].map(i => i.decode().then(() => i.naturalWidth)))"
    )
    assert len(widths) == len(figures)
    assert min(widths) > 0
    broken = "[...document.querySelectorAll('a[href^=\"#\"]')].filter(a => !document.querySelector(a.hash))"
    assert page.evaluate(f"{broken}.length") == 0
    assert page.troubles == []


@pytest.mark.parametrize("width", [360, 390, 1200])
def test_the_page_fits_the_screen_and_its_pictures_are_readable(width, paper, browser):
    """Letters are ten points in the file, and small ones eight; a pixel is three quarters of a point."""
    page = visited(browser, paper.page, viewport={"width": width, "height": 900})
    if width != 360:
        assert page.evaluate("document.querySelector('figure img').getBoundingClientRect().bottom") <= 900
        sizes = page.evaluate(
            """Promise.all([...document.images].map(i => i.decode()
            .then(() => 10 / 0.75 * i.clientWidth / i.naturalWidth)))"""
        )
        assert min(sizes) >= 9.5
        assert max(sizes) <= 24
    page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


# the contrast of WCAG, for the text, the links and the verdicts against the ground
CONTRAST = """(() => {
  const light = colour => {
    const [r, g, b] = colour.match(/[0-9.]+/g).map(c => c / 255)
      .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = light(getComputedStyle(document.documentElement).backgroundColor);
  const texts = [...document.querySelectorAll('p, a, b, li, td, th, dt, dd, summary, figcaption, h1, h2')];
  return Math.min(...texts.map(text => {
    const ink = light(getComputedStyle(text).color);
    return (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
  }));
})()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_readable_by_day_and_night(scheme, paper, browser):
    assert visited(browser, paper.page, color_scheme=scheme).evaluate(CONTRAST) >= 4.5
