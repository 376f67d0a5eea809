"""The public names and what is asked of each, part by part of the suite: those of torch and JAX apart."""

import importlib.util
import inspect
import re
from pathlib import Path

import steepen

ROOT = Path(__file__).parent.parent
HOME = Path(steepen.__file__).parent
PARTS = {
    "torch": {"torch", "train", "botorch", "transformers", "lightning"},
    "jax": {"jax", "optimistix", "optax"},
}
"""What importing the folders and files below steepen imports."""

REFERENCE = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs" / "api").glob("*.md")))


def blocks(page, kind="python"):
    """Return the blocks of code of a page, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{re.escape(kind)}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def cells(page):
    """Yield the blocks of Python of a page that are run: the code, and what the page says it prints.

    A block below `<!-- not run: why -->` is left out.
    """
    text = (ROOT / page).read_text(encoding="utf-8")
    pattern = r"(<!-- not run: [^\n]* -->\n)?^```python\n(.*?)^```$(?:\n```text\n(.*?)^```$)?"
    for skipped, code, shown in re.findall(pattern, text, re.DOTALL | re.MULTILINE):
        if not skipped:
            yield code, shown


def modules(part=None):
    """Yield the public modules of a part ("torch", "jax", or "core" for the others), or all."""
    for path in sorted(HOME.rglob("*.py")):
        parts = path.relative_to(HOME).with_suffix("").parts
        parts = tuple(name for name in parts if name != "__init__")
        room = parts[parts[:1] == ("integrations",) :][:1]
        home = next((one for one, rooms in PARTS.items() if room and room[0] in rooms), "core")
        if parts == ("integrations", "gest") and importlib.util.find_spec("gest_api") is None:
            continue
        if part in (None, home) and not any(name.startswith("_") for name in parts):
            yield ".".join(("steepen", *parts))


def names(part=None):
    found = {}
    for name in modules(part):
        module = importlib.import_module(name)
        for attribute in getattr(module, "__all__", ()):
            value = getattr(module, attribute)
            if inspect.isclass(value) or inspect.isfunction(value):
                found[f"{name}.{attribute}"] = value
    return found


def placed(name):
    """Return whether the reference asks for a public name, or for the package that it is in.

    The build adds the modules of a package to its page; the names of steepen itself are asked for one by one.
    """
    home = name.split(".")[:-1][: 3 if ".integrations." in name else 2]
    asked = name if home == ["steepen"] else ".".join(home)
    return re.search(rf"^\.\. auto\w+:: {re.escape(asked)}$", REFERENCE, re.MULTILINE) is not None


class Documented:
    """The tests of a part."""

    part: str

    def test_every_public_name_has_a_docstring_with_an_example_and_so_have_its_methods(self):
        found, bare = names(self.part), []
        assert len(found) > (60 if self.part == "core" else 1)
        for name, value in found.items():
            bare += [name] if ">>>" not in (inspect.getdoc(value) or "") else []
            for attribute, own in vars(value).items() if inspect.isclass(value) else ():
                public = inspect.isfunction(own) or isinstance(own, property)
                if public and not attribute.startswith("_") and not inspect.getdoc(getattr(value, attribute)):
                    bare.append(f"{name}.{attribute}")
        assert bare == []

    def test_every_module_says_what_it_is(self):
        assert [name for name in modules(self.part) if not importlib.import_module(name).__doc__] == []

    def test_every_public_name_has_its_place_in_the_reference(self):
        found = names(self.part)
        known = {id(value) for name, value in found.items() if placed(name)}
        assert [name for name, value in found.items() if id(value) not in known] == []
