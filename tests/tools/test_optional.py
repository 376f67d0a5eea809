"""What is missing is named with its extra; a package that is there and lacks something speaks for itself."""

import sys

import pytest

from steepen._tools.optional import load


def test_a_missing_package_is_named_with_its_extra():
    with pytest.raises(ImportError, match=r"^the tool needs no_such_thing: pip install 'steepen\[extra\]'$"):
        load("no_such_thing.part", "the tool", extra="extra")


@pytest.mark.parametrize("line", ["import no_such_thing", "raise ImportError('no symbol')"])
def test_a_broken_package_says_what_it_lacks(tmp_path, monkeypatch, line):
    (tmp_path / "is_there.py").write_text(line + "\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=r"no_such_thing|no symbol") as caught:
        load("is_there", "the tool", extra="extra")
    assert "pip" not in str(caught.value)
    assert "is_there" not in sys.modules
