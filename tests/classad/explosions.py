"""Job ads of a few lines that lead to 2^40 nodes, and a counter of the calls of a walk over them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


def doubling(levels: int, first: str, form: str) -> dict[str, str]:
    """Return ``E0 = first``, and each next attribute by a form in which @ is the name of the previous one."""
    return {"E0": first, **{f"E{n}": form.replace("@", f"E{n - 1}") for n in range(1, levels + 1)}}


FORMS = {
    "sums": ("1", "@ + @"),
    "sums of a slot's attribute": ("TARGET.Cpus", "@ + @"),
    "sums of the time": ("time()", "@ + @"),
    "sums of a real time": ("time() * 1.5", "@ + @"),
    "sums of random numbers": ("random()", "@ + @"),
    "strings": ('"x"', "strcat(@, @)"),
    "strings of a slot's attribute": ("TARGET.Machine", "strcat(@, @)"),
    "long strings": (f'"{"x" * 1000}"', 'strcat(@, "y", @)'),
    "joined strings": ('"a b"', "join(@, split(@))"),
    "cut strings": (f'"{"x" * 1000}"', "strcat(substr(@, 1), @)"),
    "replaced strings": ('"xx"', 'replaceall("x", @, @)'),
    "lists": ("{1}", "{@, @}"),
    "members of lists": ("{1, 1}", "{@[0] + @[1], @[0] + @[1]}"),
    "sums of lists": ("{1, 1}", "{sum(@), sum(@)}"),
    "largest of lists": ("1", "max({@, @})"),
    "nested ads": ("[x = 1]", "[x = @.x + @.x]"),
    "ads in lists": ("{1, 2}", "{[x = @], [x = @]}.x"),
    "choices": ("true", "@ ? @ : @"),
    "choices by the slot": ("TARGET.Cpus > 0", "@ ? @ : @"),
    "choices by a function": ("TARGET.Cpus > 0", "ifThenElse(@, @, @)"),
    "conditions": ("TARGET.Cpus > 0", "@ && @"),
    "eval": ("1", 'eval("@ + @")'),
    "eval of the time": ("time()", 'eval("@ + @")'),
    "circular references": ("E40", "@ + @"),
    "circular choices": ("E40", "@ ?: @"),
    "references back and forth": ("1", "TARGET.Back@ + TARGET.Back@"),
    "contexts": ("1", "countMatches(@, {[], []}) + countMatches(@, {[], []})"),
    "contexts in contexts": ("{[x = 1], [x = 2]}", "evalInEachContext(@, {[], []})"),
    "texts": ("1", "strcat(unparse(@), unparse(@))"),
    "references as texts": ("TARGET.X", "strcat(unresolved(@), @)"),
    "environments": ('"A=1"', "mergeEnvironment(@, @)"),
}
SHAPES = {name: doubling(40, *form) for name, form in FORMS.items()} | {
    "two circular ways": doubling(40, "E40", "F@ + G@")
    | {f"{letter}E{n}": f"E{n}" for letter in "FG" for n in range(41)},
    "regular expressions": {
        "E40": " || ".join(f'regexp("(a+)+{n}$", "{"a" * 200}b")' for n in range(300)),
    },
    "replacements": {"E40": f'size(replaceall(".", "{"x" * 2000}", "{"y" * 20000}"))'},
    "wide sums": {"E40": " + ".join(["1"] * 5000)},
    "wide conditions": {"E40": " || ".join(f"TARGET.Cpus == {n}" for n in range(-3000, 0))},
    "nested calls": {"E40": "strcat(" * 150 + '"x"' + ', "y")' * 150},
    "a long chain": {"E0": "1", **{f"E{n}": f"E{n - 1}" for n in range(1, 390)}},
    "references that cross": {f"E{n}": " + ".join(f"E{m}" for m in range(n)) or "1" for n in range(80)},
}
BACK = {f"BackE{n}": f"TARGET.E{n} + TARGET.E{n}" for n in range(41)}
"""The other ad's part in references back and forth."""


class TooMany(BaseException):
    """A walk made more calls than it may."""


def within_calls(most: int, walk: Callable[[], T]) -> T:
    """Return the result of a function; raise TooMany if it makes more calls than this, whatever the speed of the
    machine."""
    characters_left = most

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal characters_left
        if event == "call" or event == "c_call":
            characters_left -= 1
            if characters_left < 0:
                raise TooMany

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        return walk()
    except TooMany:
        raise AssertionError(f"more than {most:,} calls") from None
    finally:
        sys.setprofile(before)
