"""The items of the paper, each run once for all tests that look at it."""

from functools import cache

import pytest
from tests.pairs import WHOLE

from steepen.paper import ITEMS, fig_egr, reproduce, table1
from steepen.paper._items import Table


@pytest.fixture(scope="session")
def outcome_of():
    """Return what runs an item, once; unless `WHOLE`, without two tables that no claim rests on."""
    with pytest.MonkeyPatch.context() as patch:
        if not WHOLE:
            patch.setattr(table1, "_recoveries", lambda spectrum: ())
            patch.setattr(fig_egr, "_switch_table", lambda: Table((), []))
        yield cache(lambda name: ITEMS[name].run())


@pytest.fixture
def outcome(request, outcome_of):
    return outcome_of(request.module.ITEM)


@pytest.fixture(scope="session")
def paper(tmp_path_factory):
    """Return the report on the whole paper: for tests that are slow, since it takes most of a minute."""
    return reproduce(tmp_path_factory.mktemp("paper") / "out")
