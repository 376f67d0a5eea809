"""The page for optax users runs as it is written."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_runs(capsys):
    text = (ROOT / "docs" / "optax.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    exec(compile("\n".join(blocks), "docs/optax.md", "exec"), {})
    assert "of 60 steps had an ascent step" in capsys.readouterr().out
