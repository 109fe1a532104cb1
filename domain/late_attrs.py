"""``frozen``, ``define``, ``field`` and ``Factory`` of ``attrs``, whose work is put off until a class is used.

attrs writes and compiles a class's methods in half a millisecond, and a command needs a handful of the two hundred
kinds of events and stimuli that it has to name. Here a class gets its slots at once, which is cheap. Its methods, and
what attrs and msgspec ask it for, are made by attrs when the first of them is asked for, which the first instance does.
The class stays the same object meanwhile; from then on it is like any other of attrs, and as fast.

They are for plain classes, without validators, converters and ``super()`` without arguments, of modules with
``from __future__ import annotations``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attrs import Factory as Factory
    from attrs import define as define
    from attrs import field as field
    from attrs import frozen as frozen
else:
    from collections.abc import Callable
    from typing import Any

    _ALWAYS = (
        "__init__", "__repr__", "__eq__", "__ne__", "__hash__", "__getstate__", "__setstate__", "__match_args__",
        "__attrs_attrs__",
    )  # fmt: skip
    _MADE_BY_ATTRS = {"define": _ALWAYS, "frozen": (*_ALWAYS, "__setattr__", "__delattr__")}

    class _Field:
        """A field's options, until attrs makes the field."""

        def __init__(self, **options: Any) -> None:
            self.options = options

    field = _Field

    def Factory(make: Callable[[], object]) -> _Field:
        return _Field(factory=make)

    class _Late:
        """Stands in a class for what attrs has still to make."""

        def __init__(self, name: str, whole: dict[str, Any], maker: str) -> None:
            self.name, self.whole, self.maker = name, whole, maker
            self.kind: type = object

        def __get__(self, instance: object, owner: type | None = None) -> Any:
            _make(self.kind, self.whole, self.maker)
            found = vars(self.kind)[self.name]
            return found.__get__(instance, owner) if hasattr(found, "__get__") else found

    def frozen(kind: type) -> type:
        return _slotted(kind, "frozen")

    def define(kind: type) -> type:
        return _slotted(kind, "define")

    def _slotted(kind: type, maker: str) -> type:
        """Give a class its slots, and have attrs' `maker` do the rest when it is used."""
        whole = {name: thing for name, thing in vars(kind).items() if name not in ("__dict__", "__weakref__")}
        whole["__qualname__"] = kind.__qualname__
        fields = [name for name, text in kind.__annotations__.items() if not text.startswith("ClassVar")]
        late = {name: _Late(name, whole, maker) for name in _MADE_BY_ATTRS[maker] if name not in whole}
        inherited = [slot for base in kind.__mro__[1:] for slot in getattr(base, "__slots__", ())]
        own = [name for name in (*fields, "__weakref__") if name not in inherited]
        plain = {name: thing for name, thing in whole.items() if name not in fields}
        made = type(kind)(kind.__name__, kind.__bases__, {**plain, **late, "__slots__": tuple(own)})
        for one in late.values():
            one.kind = made
        return made

    def _make(kind: type, whole: dict[str, Any], maker: str) -> None:
        """Have attrs make the class once more, and take what it made of it."""
        import attrs

        own = vars(kind)
        body = {name: attrs.field(**it.options) if isinstance(it, _Field) else it for name, it in whole.items()}
        made = getattr(attrs, maker)(type(kind)(kind.__name__, kind.__bases__, body))
        for name, thing in vars(made).items():
            if name not in own or isinstance(own[name], _Late):
                setattr(kind, name, thing)
