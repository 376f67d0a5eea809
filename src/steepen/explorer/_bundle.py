"""The page's modules in one script: a page without a server cannot import from files beside it."""

from __future__ import annotations

import re
from importlib.resources import files

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:const|class|function) (\w+))", re.MULTILINE)


def read(name: str) -> str:
    """Return one of the page's files."""
    return (files("steepen.explorer") / "page" / name).read_text("utf-8")


def bundle(entry: str) -> str:
    r"""Return a module and all that it imports, each in a scope of its own, in the order of their imports.

    Examples
    --------
    >>> print(bundle("penalties").partition("\n")[0])
    const vectors_js = (() => {
    """
    done: dict[str, str] = {}

    def add(name: str) -> None:
        if name not in done:
            source = read(f"{name}.js")
            for _, other in _IMPORT.findall(source):
                add(other)
            names = ", ".join(_EXPORT.findall(source))
            body = _EXPORT.sub("", _IMPORT.sub(r"const {\1} = \2_js;\n", source))
            done[name] = f"const {name}_js = (() => {{\n{body}return {{ {names} }};\n}})();\n"

    add(entry)
    return "".join(done.values())
