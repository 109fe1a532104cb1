"""A slot's ad in the state: a mapping with a quarter of a dict's size.

Most slots of a pool have the same attributes, so they share the names (a *layout*), and each slot stores only values,
of which equal ones are the same object.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, MutableMapping
from functools import cached_property
from sys import intern
from typing import Any


class Layout(dict[str, int]):
    """Attribute name -> index of its value."""

    @cached_property
    def spellings(self) -> dict[str, str]:
        return {name.lower(): name for name in self}

    @cached_property
    def indexes(self) -> dict[str, int]:
        return {name.lower(): index for name, index in self.items()}


_LAYOUTS: dict[tuple[str, ...], Layout] = {}
_MAX_LAYOUTS = 10_000


def _layout(names: tuple[str, ...]) -> Layout:
    """Return the layout of these names. Layouts are cached; ads keep theirs when the cache is cleared."""
    layout = _LAYOUTS.get(names)
    if layout is None:
        if len(_LAYOUTS) >= _MAX_LAYOUTS:
            _LAYOUTS.clear()
        layout = _LAYOUTS[names] = Layout((name, index) for index, name in enumerate(names))
    return layout


class SlotAd(MutableMapping[str, str]):
    """Attribute -> expression text."""

    __slots__ = ("_layout", "_values")

    def __init__(self, ad: Mapping[str, str] | None = None) -> None:
        self._layout = _layout(tuple(ad or ()))
        self._values = [*map(intern, (ad or {}).values())]

    def __getitem__(self, name: str) -> str:
        return self._values[self._layout[name]]

    def get(self, name: str, default: Any = None) -> Any:
        index = self._layout.get(name)
        return default if index is None else self._values[index]

    def __contains__(self, name: object) -> bool:
        return name in self._layout

    def __setitem__(self, name: str, text: str) -> None:
        index = self._layout.get(name)
        if index is None:
            self._layout = _layout((*self._layout, name))
            self._values.append(text)
        else:
            self._values[index] = text

    def __delitem__(self, name: str) -> None:
        del self._values[self._layout[name]]
        self._layout = _layout(tuple(other for other in self._layout if other != name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._layout)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def layout(self) -> Layout:
        """Return the layout, which is the same object for all ads with these names."""
        return self._layout

    def keys(self) -> KeysView[str]:
        return self._layout.keys()

    def values(self) -> list[str]:  # type: ignore[override]
        """Return the values, which callers must not change."""
        return self._values

    def items(self) -> ItemsView[str, str]:
        return self.as_plain_dict().items()

    def spelling(self, key: str) -> str | None:
        """Return the spelling of the attribute with the lower-case name ``key``, or None if there is none."""
        return self._layout.spellings.get(key)

    def text(self, key: str) -> str | None:
        """Return the text of the attribute with the lower-case name ``key``, or None if there is none."""
        index = self._layout.indexes.get(key)
        return None if index is None else self._values[index]

    def as_plain_dict(self) -> dict[str, str]:
        """Return a copy as a dict."""
        return dict(zip(self._layout, self._values, strict=True))

    def __or__(self, other: Mapping[str, str]) -> dict[str, str]:
        return self.as_plain_dict() | dict(other)

    def __ror__(self, other: Mapping[str, str]) -> dict[str, str]:
        return dict(other) | self.as_plain_dict()

    def __repr__(self) -> str:
        return repr(self.as_plain_dict())
