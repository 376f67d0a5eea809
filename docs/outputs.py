"""Write what the code of a page prints below it: `python docs/outputs.py docs/cgd.md`."""

import contextlib
import io
import re
import sys
from pathlib import Path

CELL = re.compile(
    r"(<!-- not run: [^\n]* -->\n)?^```python\n(.*?)^```\n(?:```text\n.*?^```\n)?", re.DOTALL | re.MULTILINE
)
LATER = re.compile(r"^(import|from) (torch|jax|steepen\.torch)\b", re.MULTILINE)


def main(path: Path) -> None:
    """Run the blocks in turn, without those that are not run or that need torch or JAX."""
    names: dict[str, object] = {}

    def shown(found: re.Match[str]) -> str:
        skipped, code = found.groups()
        if skipped or LATER.search(code):
            return found[0]
        with contextlib.redirect_stdout(io.StringIO()) as said:
            exec(compile(code, str(path), "exec"), names)
        output = f"```text\n{said.getvalue()}```\n" if said.getvalue() else ""
        return f"```python\n{code}```\n{output}"

    path.write_text(CELL.sub(shown, path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
