"""Specification: the signatures of the library name only public classes, and leave no parameter without a type."""

from __future__ import annotations

import importlib
import inspect
import typing
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import poolbook
from poolbook import events, results, testing

MODULES: tuple[ModuleType, ...] = (poolbook, results, testing)
PUBLIC = [getattr(module, name) for module in (*MODULES, events) for name in module.__all__]
UNSTABLE = poolbook.State
"""The class whose parts may change in any release, as docs/library.md says."""


def classes_in(hint: object) -> Iterator[type]:
    """Yield all classes that occur in an annotation."""
    if isinstance(hint, list):  # the parameters of a Callable
        for part in hint:
            yield from classes_in(part)
    elif isinstance(hint, type) and typing.get_origin(hint) is None:
        yield hint
    for part in typing.get_args(hint):
        yield from classes_in(part)


def hints_of(function: Any) -> dict[str, Any]:
    """Return the annotations of a function, with the names that its module imports for type checkers only."""
    function = inspect.unwrap(function)
    module = importlib.import_module(function.__module__)
    names = {**vars(poolbook), **{name: getattr(poolbook, name) for name in poolbook.__all__}, **vars(module)}
    return typing.get_type_hints(function, names)


def members(owner: type) -> Iterator[tuple[str, Any]]:
    """Yield the public functions and properties of a class, and its constructor."""
    for name in dir(owner):
        member = inspect.getattr_static(owner, name)
        if isinstance(member, classmethod | staticmethod):
            member = member.__func__
        if isinstance(member, property):
            member = member.fget
        if inspect.isfunction(member) and (not name.startswith("_") or name == "__init__"):
            yield f"{owner.__name__}.{name}", member


def signatures() -> Iterator[tuple[str, Any]]:
    for module in MODULES:
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isfunction(thing):
                yield name, thing
            elif isinstance(thing, type) and thing is not UNSTABLE:
                yield from members(thing)


SIGNATURES = {name: thing for name, thing in signatures() if (thing.__module__ or "").startswith("poolbook")}


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_public_signature_names_only_public_classes(name: str) -> None:
    function = SIGNATURES[name]
    hints = hints_of(function)
    parameters = inspect.signature(inspect.unwrap(function)).parameters
    assert {*parameters} - {*hints, "self", "cls"} == set(), "parameters without a type"
    found = {each for hint in hints.values() for each in classes_in(hint) if each.__module__.startswith("poolbook")}
    assert [each.__qualname__ for each in found if each not in PUBLIC] == []
