"""The page for optax users runs as it is written, and has the table that was measured."""

from benchmarks import optax_cost

from ..public import ROOT, blocks


def test_the_page_runs(capsys):
    exec(compile("\n".join(blocks("docs/optax.md")), "docs/optax.md", "exec"), {})
    assert "of 60 steps had an ascent step" in capsys.readouterr().out


def test_the_table_of_costs_is_what_was_measured():
    text = (ROOT / "docs" / "optax.md").read_text("utf-8")
    records = optax_cost.read(ROOT / "benchmarks" / "results" / "optax_cost.jsonl")
    assert records
    assert optax_cost.written(text, records) == text
    assert optax_cost.written(text, records[:1]) != text
