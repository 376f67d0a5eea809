"""Options that commands share, and the printing of JSON."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Home = Annotated[str | None, typer.Option(metavar="URL", help="URL of the documentation to link to.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print no text and no progress bar.")]


def print_json(document: Any) -> None:
    """Print a document as ASCII JSON, with null for non-finite numbers."""
    typer.echo(json.dumps(_finite(document), allow_nan=False, indent=2))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return None if isinstance(value, float) and not math.isfinite(value) else value
