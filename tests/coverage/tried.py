"""The pages docs/tried/*.md: how each feature of docs/features.tsv was tried, as commands and their output.

 A page has the features of one document. A heading ``##`` begins a group, whose commands were typed into one shell in
an empty directory; below it, ``### HEADING: FEATURE`` begins the section of a row of features.tsv (backticks do not
count). A section with a line ``Not run by the tests:`` and a reason is not typed again. A group with a line
``The tests type this only`` and a condition is typed again where that is possible.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from ctypes.util import find_library
from pathlib import Path
from typing import Final, NamedTuple

from .. import forked, ports
from ..front import transcript
from ..front.installed import environment
from ..pool.real import Folder
from .page import PAGE, Feature, features, tried_page

PAGES = {path.stem: path for path in sorted((PAGE.parent / "tried").glob("*.md"))}
COMMAND = Path(transcript.__file__).with_name("poolbook_command.py")
_GROUP = re.compile(r"^## (.*?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_SECTION = re.compile(r"^### (.*?)\n(.*?)(?=^### |\Z)", re.MULTILINE | re.DOTALL)
_CONDITION = re.compile(r"^The tests type this only (.*)\.$", re.MULTILINE)
_CONDITIONS: Final[Mapping[str, Callable[[], bool]]] = {
    "as root": lambda: os.geteuid() == 0,
    "where there is Xvfb": lambda: None not in (shutil.which("Xvfb"), find_library("Xtst")),
}
_NOT_RUN = re.compile(r"^Not run by the tests:(.*)$", re.MULTILINE)


class Section(NamedTuple):
    row: str
    text: str
    #: why the tests do not type it; None if they do
    not_run: str | None

    @property
    def steps(self) -> list[transcript.Step]:
        return transcript.steps(self.text)


class Group(NamedTuple):
    name: str
    text: str

    @property
    def sections(self) -> list[Section]:
        return [_section(*match.groups()) for match in _SECTION.finditer(self.text)]

    @property
    def is_typed_here(self) -> bool:
        condition = _CONDITION.search(self.text)
        return condition is None or _CONDITIONS[condition[1]]()


def _section(heading: str, text: str) -> Section:
    not_run = _NOT_RUN.search(text)
    return Section(_plain(heading), text, not_run[1].strip() if not_run else None)


def groups(page: str) -> list[Group]:
    return [Group(*match.groups()) for match in _GROUP.finditer(page)]


def rows(page_name: str) -> Iterator[tuple[str, Feature]]:
    """Yield what the heading of a section says about each row of a page's document, and the row."""
    for feature in features():
        if tried_page(feature.document).stem == page_name:
            yield _plain(f"{feature.heading}: {feature.feature}"), feature


def _plain(text: str) -> str:
    return text.replace("`", "")


def steps_to_type(group: Group) -> list[transcript.Step]:
    return [step for section in group.sections if section.not_run is None for step in section.steps]


def type_group(group: Group, folder: Path) -> list[str]:
    """Type the commands of a group into a shell in an empty folder; return the output of each."""
    home, commands = folder / "home", folder / "commands"
    folder.chmod(0o711)  # the jobs of other users run there
    home.mkdir()
    commands.mkdir()
    server = forked.server()
    _program(commands / "poolbook", f'{sys.executable} -SE {COMMAND} "$0" {server} "$@"')
    _program(
        commands / "shuf", f"{sys.executable} -SE {ports.__file__}"
    )  # PORT=$(shuf ...): random ports may be in use
    _program(commands / "python3", f'{sys.executable} "$@"')
    _program(commands / "sudo", 'env AS_USER=$(id -u "$2") sh -c \'shift; "$@"\' "$@"')  # sudo -u USER poolbook ...
    processes = Folder(home)
    try:
        return transcript.type_steps(steps_to_type(group), home, environment(commands, home) | {"TZ": "UTC"}, [server])
    finally:
        processes.kill_everything()


def _program(path: Path, command: str) -> None:
    path.write_text(f"#!/bin/sh\nexec {command}\n")
    path.chmod(0o755)


def updated(page: str) -> str:
    """Return a page with the output that its commands print now, where it differs."""

    def update_group(match: re.Match[str]) -> str:
        group = Group(match[1], match[2])
        if not group.is_typed_here:
            return match[0]
        with tempfile.TemporaryDirectory() as folder:
            outputs = type_group(group, Path(folder))
        return _SECTION.sub(lambda section: _update_section(section, outputs), match[0])

    return _GROUP.sub(update_group, page)


def _update_section(match: re.Match[str], outputs: list[str]) -> str:
    """Return a section with its new output, which is removed from the list."""
    section = _section(match[1], match[2])
    if section.not_run is not None:
        return match[0]
    count = len(section.steps)
    of_section, outputs[:count] = outputs[:count], []
    return transcript.updated_page(match[0], of_section)
