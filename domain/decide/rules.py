"""A table of rules, each of which is loaded when it is first used: a short command needs few of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


class Rules(dict[type[Any], Callable[..., Any]]):
    """Rules by the class of the stimulus or message that they decide. ``names`` has the place of each rule in the
    domain, such as ``schedd.claims.hold_job``."""

    def __init__(self, names: Mapping[type[Any], str]) -> None:
        super().__init__()
        self.names = names

    def __missing__(self, kind: type[Any]) -> Callable[..., Any]:
        module, _, function = self.names[kind].rpartition(".")
        rule: Callable[..., Any] = getattr(import_module(f"...{module}", __name__), function)
        self[kind] = rule
        return rule
