"""The record of an item that was run: enough to write the page without running it again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from ._claims import Claim, Table


@dataclass(frozen=True)
class Item:
    """One item of the paper as `reproduce` left it in its folder.

    Parameters
    ----------
    name, title, section : which item, in words, and where in the paper
    says, matters : what the paper says there, and why it matters, in a sentence or two each
    fingerprint : of the code and the versions that made it
    seconds : how long it took
    claims, tables, found, notes, settings : as the item gave them, in plain Python values
    captions : the sentence under each figure, by the figure's name
    traces : the names of the raw traces
    files : every file of it, from the folder down, with the SHA-256 of what was written

    Examples
    --------
    >>> Item("a", "An item", "3", "It is so.", "It helps.", "", 0.0, [], {}, {}, [], [], [], {}, {}).title
    'An item'
    """

    name: str
    title: str
    section: str
    says: str
    matters: str
    fingerprint: str
    seconds: float
    claims: list[Claim]
    tables: dict[str, Table]
    captions: dict[str, str]
    traces: list[str]
    found: list[str]
    notes: list[str]
    settings: dict[str, Any]
    files: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON knows it."""
        return plain(asdict(self))

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Item:
        """Read a record back; TypeError, KeyError or ValueError if it is not one."""
        values = dict(record)
        values["claims"] = [Claim(**claim) for claim in values["claims"]]
        values["tables"] = {
            name: Table(tuple(table["columns"]), [tuple(row) for row in table["rows"]], table["caption"])
            for name, table in values["tables"].items()
        }
        return cls(**values)


@dataclass(frozen=True)
class Report:
    """What `reproduce` returns: the folder, and the items that were asked for.

    Parameters
    ----------
    folder : where all files are
    items : the items asked for, in the paper's order
    kept : the names of those that an earlier run had made

    Examples
    --------
    >>> Report(Path("out"), [], []).holds
    True
    """

    folder: Path
    items: list[Item]
    kept: list[str]

    @property
    def page(self) -> Path:
        """The page to open."""
        return self.folder / "report.html"

    @property
    def claims(self) -> list[Claim]:
        """All claims of the items asked for."""
        return [claim for item in self.items for claim in item.claims]

    @property
    def holds(self) -> bool:
        """Whether every claim came out as expected."""
        return all(claim.holds for claim in self.claims)


def verdict(claim: Claim) -> str:
    """Say in a word how a claim came out; in capitals if it should have come out otherwise.

    Examples
    --------
    >>> verdict(Claim("t", "1", "2", agrees=False))
    'DIFFERS'
    >>> verdict(Claim("t", "1", "2", agrees=False, known="limit"))
    'limit'
    """
    if claim.agrees:
        return "agrees" if claim.known is None else "AGREES?"
    return claim.known or "DIFFERS"


def tally(claims: Iterable[Claim]) -> str:
    """Count the claims that agree, those that rest on settings of ours apart.

    Examples
    --------
    >>> tally([Claim("t", "1", "1", agrees=True), Claim("u", "1", "1", agrees=True, basis="recovered")])
    '1 of 1 claims agree; 1 of 1 with settings that we had to recover'
    """
    groups: dict[str, list[bool]] = {basis: [] for basis in _BASES}
    for claim in claims:
        groups[claim.basis].append(claim.agrees)
    return "; ".join(
        f"{sum(agree)} of {len(agree)} {_BASES[basis]}"
        for basis, agree in groups.items()
        if agree or basis == "printed"
    )


_BASES = {
    "printed": "claims agree",
    "recovered": "with settings that we had to recover",
    "chosen": "with settings that we chose",
    "alt text": "that only a figure's alternative text makes",
}


def plain(value: Any) -> Any:
    """Make a value ready for JSON, which has no arrays and no infinities.

    Examples
    --------
    >>> plain({"x": np.array([1.0, np.inf]), 2: (True, None, 1j)})
    {'x': [1.0, 'inf'], '2': [True, None, '1j']}
    """
    if isinstance(value, np.ndarray | np.generic):
        value = cast(Any, value).tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in cast(list[Any], value)]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
