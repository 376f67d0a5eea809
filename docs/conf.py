"""The site: `make docs` builds it into out/site, with warnings as errors and without a network."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import sys
from importlib.metadata import version as installed
from pathlib import Path

from docutils import nodes
from numpy.typing import ArrayLike
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.util.typing import stringify_annotation

from steepen.functions import functions

sys.path.append(str(Path(__file__).parent))
from shapes import shape

project = "steepen"
author = "The steepen developers"
project_copyright = author
version = release = installed("steepen").partition("+")[0]

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "decisions.md"]  # a file for those who change the code
language = "en"

# pages: the same files that GitHub shows
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
myst_url_schemes = {"http": None, "https": None, "site": "{{path}}"}  # what is only there on the site
suppress_warnings = ["myst.header"]  # a page may begin below its title, where another one includes it

# pages that are notebooks in Markdown are run at every build; an error in one ends the build
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_execution_timeout = 300
nb_merge_streams = True
os.environ["OPENBLAS_NUM_THREADS"] = "1"

# the reference: signatures and types as they are annotated
default_role = "code"
autodoc_default_options = {"members": True, "imported-members": True}
autodoc_member_order = "groupwise"
autodoc_typehints = "signature"
maximum_signature_line_length = 80
napoleon_google_docstring = False
napoleon_use_ivar = True
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = "steepen"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
templates_path = ["_templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html", "sidebar/search.html", "sidebar/scroll-start.html", "sidebar/beside.html",
        "sidebar/navigation.html", "sidebar/scroll-end.html",
    ]
}  # fmt: skip
html_extra_path = ["llms.txt"]
html_sourcelink_suffix = ""  # _sources/guide.md, as llms.txt has it
html_show_search_summary = False  # a page opened from the disk may not read its neighbours
html_theme_options = {
    "navigation_with_keys": True,
    "light_css_variables": {"color-brand-primary": "#332288", "color-brand-content": "#0b5fa5"},
    "dark_css_variables": {"color-brand-primary": "#b9acff", "color-brand-content": "#7cc0ff"},
}

SHAPES = "_images/functions"
"""The folder of the test functions' pictures on the site."""

ELSEWHERE = {"../CHANGELOG.md": "changelog.md", "../CONTRIBUTING.md": "contributing.md"}
"""Files outside of this folder, by the page that includes them."""


OFF_MENU = ("evidence", "rl")
"""Pages that other pages link to, and the menu does not list."""

MADE = {
    "reproduce.md#the-report": "paper/report.html",
    "reproduce.md#the-explorer": "explorer.html",
}
"""Sections that say how to make a page, which is there on the site."""


def open_what_was_made(app: Sphinx, name: str, content: list[str]) -> None:
    """Let a link to how a page is made lead to the page itself, which GitHub does not have."""
    up = "../" * name.count("/")
    for section, made in MADE.items():
        content[0] = content[0].replace(f"]({up}{section})", f"](site:{up}{made})")
        if name == "reproduce":
            title = section.rpartition("#")[2].replace("-", " ").capitalize()
            content[0] = content[0].replace(f"## {title}\n", f"## {title}\n[Open it](site:{made}).\n\n")


def leave_the_menu(app: Sphinx, name: str, content: list[str]) -> None:
    """Let Sphinx know that a page is in no menu on purpose."""
    if name in OFF_MENU:
        content[0] = f"---\norphan: true\n---\n{content[0]}"


def stay_on_the_site(app: Sphinx, name: str, content: list[str]) -> None:
    """Let a link to a file of the repository lead to its page; where it has none, name the file."""
    for file, page in ELSEWHERE.items():
        content[0] = content[0].replace(f"]({file}", f"]({page}")
    content[0] = re.sub(r"\[([^]]+)\]\(\.\./((?:benchmarks|examples)/[^)]+\.md)\)", r"\1 (`\2`)", content[0])


SECTION = """
## {0}

```{{eval-rst}}
.. automodule:: {0}
```
"""


def add_modules(app: Sphinx, name: str, content: list[str]) -> None:
    """Give the public modules of a package their sections on its page, if they have names that it has not."""
    folder, _, package = name.rpartition("/")
    if folder != "api" or package in {"index", "steepen"}:
        return
    home = importlib.import_module(re.search(r"automodule:: (\S+)", content[0])[1])
    for found in pkgutil.iter_modules(getattr(home, "__path__", ())):
        module = f"{home.__name__}.{found.name}"
        if not found.name.startswith("_"):
            names = getattr(importlib.import_module(module), "__all__", ())
            if not set(names) <= set(home.__all__):
                content[0] += SECTION.format(module)


def escape(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Let |x| and f* stand as they are: docstrings are read with `help` too."""
    for i, line in enumerate(lines):
        if ">>>" not in line and not line.lstrip().startswith("*"):
            parts = line.split("`")
            parts[::2] = [re.sub(r"[|*]", r"\\\g<0>", part) for part in parts[::2]]
            lines[i] = "`".join(parts)


def name_arrays(
    app: Sphinx,
    what: str,
    name: str,
    obj: object,
    options: object,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    """Write ArrayLike and NDArray for what NumPy means by them."""
    array = r"~numpy\.ndarray\[tuple\[~typing\.Any, \.\.\.\], ~numpy\.dtype\[([^]]+)\]\]"
    spelt = stringify_annotation(ArrayLike, "smart")

    def short(text: str | None) -> str | None:
        return text and re.sub(array, r"NDArray[\1]", text.replace(spelt, "ArrayLike"))

    return short(signature), short(returns)


def skip_fields(app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object) -> bool | None:
    """Leave out the fields of a NamedTuple: its docstring has them, and theirs says "alias for field 3"."""
    return True if (obj.__doc__ or "").startswith("Alias for field") else None


def link_whole_names(app: Sphinx, doctree: nodes.document) -> None:
    """Let a word in the type of an argument ("a function of k") be no link to any attribute of that name."""
    for reference in doctree.findall(pending_xref):
        reference.attributes.pop("refspecific", None)


NUMBER = re.compile(r"[-+−–±×·/≈<>≤≥~%().,:\d\s⁰¹²³⁴⁵⁶⁷⁸⁹⁻]*(\b(s|ms|µs|min|MB|GB|kB)\b)?")
"""What a cell is that must stay on one line."""


def mark_cells(app: Sphinx, doctree: nodes.document) -> None:
    """Mark the cells of a table that hold numbers, and the names in it: neither may be broken."""
    for entry in doctree.findall(nodes.entry):
        words = entry.astext().strip()
        if words and len(words) < 30 and NUMBER.fullmatch(words):
            entry["classes"].append("number")
        for name in entry.findall(nodes.literal):
            if " " not in name.astext():
                name["classes"].append("name")
        for text in list(entry.findall(nodes.Text)):
            if not isinstance(text.parent, nodes.literal | nodes.raw):  # GPT-2 and 3e-3 stay whole ...
                whole = re.sub(r"\S*\d\S*", lambda word: word[0].replace("-", "\u2011"), str(text))
                text.parent.replace(text, nodes.Text(whole))


def bind_numbers(app: Sphinx, doctree: nodes.document) -> None:
    """Let no line end within 60 000, 12 %, 1e-8 or 0.51 ± 0.08, nor after a sign that relates two terms."""
    for text in list(doctree.findall(nodes.Text)):
        if not isinstance(text.parent, nodes.literal | nodes.literal_block):
            whole = re.sub(r"(?<=\d) (?=\d{3}\b|[%±])|(?<=±) (?=[\d.])", "\u00a0", str(text))
            whole = re.sub(r"(?<=\de)-(?=\d)", "\u2011", whole)
            whole = re.sub(r"(?<= [=<>≤≥]) | (?=[<>≤≥] \d)", "\u00a0", whole)
            if whole != text:
                text.parent.replace(text, nodes.Text(whole))


def offer_notebook(app: Sphinx, name: str, content: list[str]) -> None:
    """Let a page that is a notebook be downloaded as one."""
    if "file_format: mystnb" in content[0]:
        line = f"{{nb-download}}`{name}.ipynb`: this page as a notebook, to run and change."
        content[0] = re.sub(r"^(# .*\n)", rf"\1\n{line}\n", content[0], count=1, flags=re.MULTILINE)


def draw_shapes(app: Sphinx) -> None:
    """Draw a picture of each test function into the site."""
    folder = Path(app.outdir) / SHAPES
    folder.mkdir(parents=True, exist_ok=True)
    for name, function in functions.items():
        shape(function).savefig(folder / f"{name}.png")


def show_shapes(app: Sphinx, name: str, content: list[str]) -> None:
    """Give the tables of the test functions a first column with their pictures."""
    if name == "functions":
        picture = rf'| <img class="shape" src="{SHAPES}/\2.png" alt="The shape of \1"> | \1<br>`\2` |'
        text = re.sub(r"^\| (.*?) `(\S+)` \|", picture, content[0], flags=re.MULTILINE)
        text = re.sub(r"^\| function \|", "| | function |", text, flags=re.MULTILINE)
        content[0] = re.sub(r"^\|---", "|---|---", text, flags=re.MULTILINE)


def setup(app: Sphinx) -> None:
    """Connect the changes above."""
    app.connect("source-read", leave_the_menu)
    app.connect("source-read", open_what_was_made)
    app.connect("source-read", stay_on_the_site)
    app.connect("source-read", add_modules)
    app.connect("autodoc-process-docstring", escape, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", name_arrays)
    app.connect("autodoc-skip-member", skip_fields)
    app.connect("doctree-read", link_whole_names)
    app.connect("doctree-read", mark_cells)
    app.connect("doctree-read", bind_numbers)
    app.connect("source-read", offer_notebook)
    app.connect("builder-inited", draw_shapes)
    app.connect("source-read", show_shapes)
