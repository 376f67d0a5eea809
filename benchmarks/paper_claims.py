"""Write every claim of the paper with what our run gives: `python benchmarks/paper_claims.py` (a minute).

`steepen reproduce` shows the same in its report; a test compares the file with the run.
"""

from pathlib import Path

from steepen.paper import ITEMS

FILE = Path(__file__).with_suffix(".md")
HEAD = "# Every claim\nWritten by `paper_claims.py`. docs/paper.md says what follows from them.\n"


def main() -> None:
    """Run all items and write their claims."""
    parts = [HEAD]
    for name, item in ITEMS.items():
        rows = [(claim.text, claim.said, claim.ours, claim.verdict) for claim in item.run().claims]
        cells = ["| " + " | ".join(row).replace("*", r"\*") + " |" for row in rows]
        parts += [
            "\n".join([f"## {name}", "| claim | paper | ours | verdict |", "|---|---|---|---|", *cells, ""])
        ]
    FILE.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
