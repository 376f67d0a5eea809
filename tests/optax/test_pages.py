"""The page for optax users runs as it is written."""

from ..public import blocks


def test_the_page_runs(capsys):
    exec(compile("\n".join(blocks("docs/optax.md")), "docs/optax.md", "exec"), {})
    assert "of 60 steps had an ascent step" in capsys.readouterr().out
