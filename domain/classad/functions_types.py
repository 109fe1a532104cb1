"""Built-in tests of a value's type: exact, without conversion."""

from __future__ import annotations

from .ad import ClassAd
from .function_registry import eager
from .tree import ListValue
from .values import ERROR, UNDEFINED, AbsTime, RelTime

_TYPES: dict[str, type] = {
    "isstring": str,
    "isinteger": int,
    "isreal": float,
    "isboolean": bool,
    "islist": ListValue,
    "isclassad": ClassAd,
    "isabstime": AbsTime,
    "isreltime": RelTime,
}


def _declare(name: str, wanted: type) -> None:
    eager(name, 1)(lambda env, ad, values: type(values[0]) is wanted)


for _name, _type in _TYPES.items():
    _declare(_name, _type)


eager("isundefined", 1)(lambda env, ad, values: values[0] is UNDEFINED)
eager("iserror", 1)(lambda env, ad, values: values[0] is ERROR)
