"""The transcriptions, for the tests beside them."""

import pytest

from .formulas import REFERENCES, Reference


@pytest.fixture
def references() -> dict[str, Reference]:
    """Return the transcriptions by name."""
    return REFERENCES
