"""Pages that show what was typed and what came: their blocks ``console``, typed again, and compared.

A line that begins with ``$ `` was typed, as was one with ``> `` below it; what follows is what came. A line ``...``
there stands for any lines. What differs from machine to machine and from run to run (numbers, times, names) is not
compared.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from poolbook.adapters.machine.host import host_name, user_name

BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
_MARK = "=== typed ==="
HOST, USER, HOME = "laptop", "alice", "/home/alice"
"""What pages call the machine, who types, and where."""
PATIENCE = 30
"""Seconds that a page's ``sleep`` may take longer than it says: the tests' machine may be busy."""


class Step(NamedTuple):
    """What was typed, line by line, and what came."""

    typed: tuple[str, ...]
    came: str


def steps(page: str) -> list[Step]:
    """All that a page shows, in its order."""
    found: list[Step] = []
    for line in "".join(BLOCK.findall(page)).splitlines():
        if line.startswith("$ "):
            found.append(Step((line[2:],), ""))
        elif line.startswith("> "):
            found[-1] = Step((*found[-1].typed, line[2:]), "")
        else:
            found[-1] = Step(found[-1].typed, f"{found[-1].came}{line}\n")
    return found


def typed(lines: Sequence[Step], folder: Path, environment: Mapping[str, str]) -> list[str]:
    """Type it all into one shell, in a folder; what came of each step, errors included.

    A step that begins by waiting is typed again for as long as it does not show what the page does.
    """
    shell = subprocess.Popen(
        ["bash"], cwd=folder, env=dict(environment), text=True, bufsize=1,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    with shell:
        return [_typed(step, shell, folder) for step in lines]


def _typed(step: Step, shell: subprocess.Popen[str], folder: Path) -> str:
    assert shell.stdin is not None and shell.stdout is not None
    until = time.monotonic() + PATIENCE
    while True:
        shell.stdin.write("{{\n{}\n}} < /dev/null\necho {}\n".format("\n".join(step.typed), _MARK))
        said = said_for_pages("".join(takewhile(f"{_MARK}\n".__ne__, shell.stdout)), folder)
        waits = step.typed[0].startswith("sleep ") and time.monotonic() < until
        if not waits or alike(step.came, said):
            return said


def said_for_pages(text: str, folder: Path) -> str:
    """What came, as a page shows it: of nobody's own machine."""
    return _nobodys(text.replace(os.path.realpath(folder), HOME))


def _nobodys(text: str) -> str:
    return re.sub(rf"\b{re.escape(user_name())}\b", USER, text.replace(host_name(), HOST))


def alike(shown: str, came: str) -> bool:
    """Whether this is what the page shows, but for what differs each time."""
    pieces = re.split(r"^\.\.\.\n", _plain(_nobodys(shown)), flags=re.MULTILINE)
    pattern = r"(?:.*\n)*".join(map(re.escape, pieces))
    return re.fullmatch(pattern, _plain(_nobodys(came))) is not None


def _plain(text: str) -> str:
    """Without numbers and logs' ids, and without the blanks and rules that depend on their lengths."""
    text = re.sub(r"\b[0-9a-f]{16}\b", "0", text)
    text = re.sub(r"\d[\d.,:+/]*", "0", text)
    return "".join(f"{' '.join(line.split())}\n" for line in text.splitlines())


def redrawn(page: str, came: Sequence[str]) -> str:
    """The page with what came in place of what it shows, where that is not alike."""
    rest = iter(came)

    def block(found: re.Match[str]) -> str:
        lines: list[str] = []
        for step in steps(f"```console\n{found[0]}```\n"):
            said = next(rest)
            first, *more = step.typed
            lines += [f"$ {first}", *(f"> {line}" for line in more)]
            lines += (step.came if alike(step.came, said) else said).splitlines()
        return "".join(f"{line}\n" for line in lines)

    return BLOCK.sub(block, page)
