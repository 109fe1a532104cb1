"""Pages that show commands and their output: their blocks ``console``, typed again, and compared.

 A line that begins with ``$ `` was typed, and so was one with ``> `` below it; the output follows. A line ``...`` there
represents any lines. Parts that differ between machines and runs (numbers, times, names) are not compared.
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
"""The names of the machine, the user and the directory on pages."""
_COUNTS = "Owner|ProcId|JobStatus|JobPrio|ExitCode|NumJobStarts|NumVacates"
_SAME_NUMBERS = re.compile(rf"\bpoolbook (play|config)\b|-af(:j)?( ({_COUNTS})\b)+( [|-]|$)")
"""Commands that print the same numbers each time."""
EXTRA_SECONDS = 120
"""Seconds that all ``sleep`` of a page may take longer than it says: the tests' machine may be busy."""


class Step(NamedTuple):
    """The typed lines, and the output."""

    typed: tuple[str, ...]
    came: str

    @property
    def may_be_early(self) -> bool:
        return bool(self.came) and self.typed[0].startswith("sleep ")


def steps(page: str) -> list[Step]:
    """Return all steps of a page, in order."""
    page_steps: list[Step] = []
    for line in "".join(BLOCK.findall(page)).splitlines():
        if line.startswith("$ "):
            page_steps.append(Step((line[2:],), ""))
        elif line.startswith("> "):
            page_steps[-1] = Step((*page_steps[-1].typed, line[2:]), "")
        else:
            page_steps[-1] = Step(page_steps[-1].typed, f"{page_steps[-1].came}{line}\n")
    return page_steps


def type_steps(
    lines: Sequence[Step], folder: Path, environment: Mapping[str, str], descriptors: Sequence[int] = ()
) -> list[str]:
    """Type all steps into one shell, in a folder; return the output of each, including errors. A step that begins by
    waiting is repeated while its output differs from that on the page, if any. The shell's commands have these
    descriptors, too."""
    shell = subprocess.Popen(
        ["bash"], cwd=folder, env=dict(environment), text=True, bufsize=1, pass_fds=descriptors,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    seconds = float(EXTRA_SECONDS)
    outputs = []
    with shell:
        for step in lines:
            output = _type_step(step, shell, folder)
            begun = time.monotonic()
            while step.may_be_early and not equal(step, output) and time.monotonic() < begun + seconds:
                output = _type_step(step, shell, folder)
            seconds -= time.monotonic() - begun
            outputs.append(output)
    return outputs


def _type_step(step: Step, shell: subprocess.Popen[str], folder: Path) -> str:
    assert shell.stdin is not None and shell.stdout is not None
    shell.stdin.write("{{\n{}\n}} < /dev/null\necho {}\n".format("\n".join(step.typed), _MARK))
    try:
        return output_for_pages("".join(takewhile(f"{_MARK}\n".__ne__, shell.stdout)), folder)
    except BaseException as error:  # the time limit of the test
        error.add_note(f"while this ran: $ {step.typed[0]}")
        raise


def output_for_pages(text: str, folder: Path) -> str:
    """Return the output as a page shows it: without the names of this machine."""
    return _without_machine_names(text.replace(os.path.realpath(folder), HOME))


def _without_machine_names(text: str) -> str:
    return re.sub(rf"\b{re.escape(user_name())}\b", USER, text.replace(host_name(), HOST))


def equal(step: Step, output: str) -> bool:
    """Return True if this equals the output of a step on the page, except for parts that differ each time."""
    same_numbers = _SAME_NUMBERS.search(" ".join(step.typed)) is not None
    return equal_output(step.came, output, same_numbers)


def equal_output(shown: str, output: str, same_numbers: bool = False) -> bool:
    """Return True if this equals the page's output, except for parts that differ each time. Numbers do not count unless
    they are the same each time."""
    pieces = re.split(r"^\.\.\.\n", _plain(_without_machine_names(shown), same_numbers), flags=re.MULTILINE)
    pattern = r"(?:.*\n)*".join(map(re.escape, pieces))
    return re.fullmatch(pattern, _plain(_without_machine_names(output), same_numbers)) is not None


def _plain(text: str, with_numbers: bool) -> str:
    """Return a text without logs' ids, and without the blanks that depend on their lengths; without numbers, too,
    unless they count."""
    if not with_numbers:
        text = re.sub(r"\b[0-9a-f]{16}\b", "0", text)
        text = re.sub(r"\d[\d.,:+/]*", "0", text)
    return "".join(f"{' '.join(line.split())}\n" for line in text.splitlines())


def updated_page(page: str, output: Sequence[str]) -> str:
    """Return the page with the new output in place of the old one, where they differ."""
    outputs = iter(output)

    def block(match: re.Match[str]) -> str:
        lines: list[str] = []
        for step in steps(f"```console\n{match[0]}```\n"):
            new_output = next(outputs)
            first, *continuation = step.typed
            lines += [f"$ {first}", *(f"> {line}" for line in continuation)]
            lines += (step.came if equal(step, new_output) else new_output).splitlines()
        return "".join(f"{line}\n" for line in lines)

    return BLOCK.sub(block, page)
