"""A slot's ad as the state holds it: like a dict, at a quarter of its size.

The slots of a pool have mostly the same attributes, so their names are kept once for all of them (a *layout*), and a
slot holds its values alone.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, MutableMapping
from functools import cached_property
from typing import Any


class _Layout(dict[str, int]):
    """The places of names."""

    @cached_property
    def spelled(self) -> dict[str, str]:
        return {name.lower(): name for name in self}


_LAYOUTS: dict[tuple[str, ...], _Layout] = {}
_MOST = 10_000


def _layout(names: tuple[str, ...]) -> _Layout:
    """The places of these names, in their order. What is kept is a cache: an ad keeps its own layout alive."""
    known = _LAYOUTS.get(names)
    if known is None:
        if len(_LAYOUTS) >= _MOST:
            _LAYOUTS.clear()
        known = _LAYOUTS[names] = _Layout((name, place) for place, name in enumerate(names))
    return known


class SlotAd(MutableMapping[str, str]):
    """Attribute -> expression text."""

    __slots__ = ("_places", "_values")

    def __init__(self, ad: Mapping[str, str] | None = None) -> None:
        self._places = _layout(tuple(ad or ()))
        self._values = list((ad or {}).values())

    def __getitem__(self, name: str) -> str:
        return self._values[self._places[name]]

    def get(self, name: str, default: Any = None) -> Any:
        place = self._places.get(name)
        return default if place is None else self._values[place]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __setitem__(self, name: str, text: str) -> None:
        place = self._places.get(name)
        if place is None:
            self._places = _layout((*self._places, name))
            self._values.append(text)
        else:
            self._values[place] = text

    def __delitem__(self, name: str) -> None:
        del self._values[self._places[name]]
        self._places = _layout(tuple(one for one in self._places if one != name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._values)

    def keys(self) -> KeysView[str]:
        return self._places.keys()

    def items(self) -> ItemsView[str, str]:
        return self.plain().items()

    def spelling(self, key: str) -> str | None:
        """How an attribute is written of which ``key`` is the name in small letters; None: there is none."""
        return self._places.spelled.get(key)

    def text(self, key: str) -> str | None:
        """The text of an attribute of which ``key`` is the name in small letters; None: there is none."""
        spelled = self._places.spelled.get(key)
        return None if spelled is None else self._values[self._places[spelled]]

    def plain(self) -> dict[str, str]:
        """The same as a dict of its own."""
        return dict(zip(self._places, self._values, strict=True))

    def __or__(self, other: Mapping[str, str]) -> dict[str, str]:
        return self.plain() | dict(other)

    def __ror__(self, other: Mapping[str, str]) -> dict[str, str]:
        return dict(other) | self.plain()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SlotAd):
            return self.plain() == other.plain()
        return self.plain() == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.plain())
