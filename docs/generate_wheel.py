"""Puts the modules of the repository's root into the package. Called when a wheel is built: hatchling maps only
directories to other places."""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULES = ("__init__.py", "events.py", "results.py", "testing.py", "py.typed")


class RootModules(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "standard":  # a development install has links to them
            build_data["force_include"] |= {name: f"poolbook/{name}" for name in MODULES}
