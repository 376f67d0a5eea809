"""The formulas, for the tests beside them."""

import pytest

from .formulas import FORMULAS, Formula, One


@pytest.fixture(scope="session")
def formulas() -> dict[str, Formula]:
    return {name: lambda x, f=f: float(f(One(x))) for name, f in FORMULAS.items()}
