"""Modules that are mappings: `st.functions["levy"]` subscripts the module itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

from .check import meant

T = TypeVar("T")


class Catalogue(ModuleType, Mapping[str, T]):
    """The class of a module that maps names to its entries.

    The module defines `_BY_NAME`, its entries, and `_KIND`, what one of them is called.
    """

    _BY_NAME: Mapping[str, T]
    _KIND: str

    # Mapping compares by content and so forbids hashing; a module is compared by identity.
    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return import_module, (self.__name__,)  # a function that names the module can go to another process

    def __getitem__(self, name: str) -> T:
        if name in self._BY_NAME:
            return self._BY_NAME[name]
        hint = meant(name, list(self._BY_NAME), "no name is near it")
        raise KeyError(f"no {self._KIND} is called {name!r}; {hint}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._BY_NAME)

    def __len__(self) -> int:
        return len(self._BY_NAME)

    def __contains__(self, name: object) -> bool:
        return name in self._BY_NAME
