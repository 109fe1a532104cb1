"""Differential: a class that attrs makes when it is used is the one that attrs makes at once."""

from __future__ import annotations

import copy
import pickle
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import attrs
import msgspec
import pytest

from poolbook.domain import late_attrs

SOURCE = """
from __future__ import annotations
from typing import ClassVar

@frozen
class Below:
    '''What the others have.'''
    at: int
    cause: str = "none"

    @property
    def stream(self) -> str:
        return f"of {self.at}"

@frozen
class Kind(Below):
    unit: ClassVar[str] = "s"
    ad: dict[str, str] = Factory(dict)
    count: int = 3

@frozen
class Above(Kind):
    stream: ClassVar[str] = "one"
    count: int = 4

    def __repr__(self) -> str:
        return "mine"

@frozen
class Empty(Below):
    pass

@define
class Mutable:
    at: int
    cause: str = "none"
    names: list[str] = field(factory=list)
    changes: int = field(default=0, eq=False, repr=False)

    @property
    def stream(self) -> str:
        return f"of {self.at}"
"""
NAMES = ("Below", "Kind", "Above", "Empty", "Mutable")


def made(library: ModuleType) -> Any:
    module = ModuleType("made")
    vars(module).update({name: getattr(library, name) for name in ("Factory", "define", "field", "frozen")})
    exec(SOURCE, module.__dict__)
    return module


@pytest.fixture
def late() -> Any:
    return made(late_attrs)


@pytest.fixture
def eager() -> Any:
    return made(attrs)


def tried(run: Callable[[], Any]) -> str:
    try:
        return repr(run())
    except Exception as error:
        return repr(error)


USES: dict[str, Callable[[Any], Any]] = {
    "instance": lambda kind: kind(1, "c"),
    "by name": lambda kind: kind(cause="c", at=1),
    "default": lambda kind: kind(1),
    "missing": lambda kind: kind(),
    "equal": lambda kind: (kind(1) == kind(1), kind(1) == kind(2), kind(1) != kind(1), kind(1) == 1),
    "hash": lambda kind: hash(kind(1)) == hash(kind(1)),
    "set": lambda kind: setattr(kind(1), "at", 2),
    "new": lambda kind: setattr(kind(1), "other", 2),
    "delete": lambda kind: delattr(kind(1), "at"),
    "fields": attrs.fields,
    "has": attrs.has,
    "dict": lambda kind: attrs.asdict(kind(1)),
    "evolve": lambda kind: attrs.evolve(kind(1), cause="d"),
    "copy": lambda kind: copy.deepcopy(kind(1)),
    "state": lambda kind: kind.__getstate__(kind(1)),
    "not initialized": lambda kind: kind.__new__(kind),
    "match": lambda kind: kind.__match_args__,
    "weak": lambda kind: weakref.ref(one := kind(1))() is one,
    "stream": lambda kind: kind(1).stream,
    "class variable": lambda kind: kind.unit,
    "slots": lambda kind: kind.__slots__,
    "signature": lambda kind: attrs.fields_dict(kind),
    "annotations": lambda kind: (kind.__annotations__, kind.__doc__, kind.__qualname__, kind.__module__),
    "decoded": lambda kind: msgspec.json.Decoder(kind).decode(b'{"at": 5}'),
    "encoded": lambda kind: msgspec.json.encode(kind(1)),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("use", USES)
def test_it_behaves_alike_whatever_is_done_first(late: Any, eager: Any, use: str, name: str) -> None:
    ours, theirs = getattr(late, name), getattr(eager, name)
    assert tried(lambda: USES[use](ours)).replace("late", "") == tried(lambda: USES[use](theirs))


@pytest.mark.parametrize("name", NAMES)
def test_the_class_is_as_attrs_would_have_made_it(late: Any, eager: Any, name: str) -> None:
    ours, theirs = getattr(late, name), getattr(eager, name)
    before = set(vars(ours)), id(ours)
    ours(1)
    assert set(vars(ours)) == set(vars(theirs))
    assert not [name for name, thing in vars(ours).items() if type(thing).__name__ == "_Late"]
    assert ours.__slots__ == theirs.__slots__ and id(ours) == before[1]


def test_nothing_is_made_before_it_is_asked_for(late: Any) -> None:
    def unmade(kind: type) -> bool:
        return "__attrs_props__" not in vars(kind) and type(vars(kind)["__init__"]).__name__ == "_Late"

    kinds = [getattr(late, name) for name in NAMES]
    assert all(map(unmade, kinds)) and issubclass(late.Kind, late.Below) and {late.Kind: 1}
    late.Kind(1)
    assert [unmade(kind) for kind in kinds] == [False, False, True, True, True]


def test_a_class_that_goes_on_from_one_has_its_methods(late: Any) -> None:
    class Further(late.Kind):  # type: ignore[misc]
        pass

    assert repr(Further(1)).endswith("Further(at=1, cause='none', ad={}, count=3)")
    assert Further(1) == Further(1) != late.Kind(1)


def test_an_event_goes_through_pickle() -> None:
    from poolbook.domain.events import JobsEdited

    event = JobsEdited(1, "user_edit", "x", 3, ((0, 2),), {"A": "1"})
    assert pickle.loads(pickle.dumps(event)) == event
