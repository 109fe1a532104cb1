"""What record.py recorded of a real condor_submit, and what Poolbook makes of the same submit descriptions."""

from __future__ import annotations

from fnmatch import fnmatchcase
from posixpath import normpath
from typing import Any

from poolbook.domain.submit import SubmitError, dry_run, parse_submit

from .record import TIMES, ads, unused
from .world import DATA, HOME, Disk, facts, recorded

SIZES = {
    **{"/bin/true": 43 * 1024, "/bin/echo": 43 * 1024, "/bin/bash": 1_417_520},
    **{"/usr/bin/env": 56_176, "/usr/bin/python3": 8_317_256},
}
KNOWN = [line.split(" | ") for line in (DATA / "differences.txt").read_text().splitlines() if line[:1] not in "# ["]
"""Which cases differ, in what, and why."""


class Machine(Disk):
    """The disk of the recording."""

    def size(self, path: str) -> int | None:
        path = normpath(path)
        inside = path.removeprefix(f"{HOME}/").rstrip("/") + "/"
        below = [len(text) for name, text in self.files.items() if name.startswith(inside)]
        return SIZES.get(path) or super().size(path) or (sum(below) if below else None)


class Recording:
    """A recorded file: what condor_submit made of its cases."""

    def __init__(self, file: str) -> None:
        found = recorded(file)
        self.first: dict[str, str] = found["first"]
        self.cases: list[dict[str, Any]] = found["cases"]

    def differences(self, case: dict[str, Any]) -> list[str]:
        """Return what Poolbook makes otherwise of a case: attributes, the exit code, names of what is unused."""
        domain = self.first["FileSystemDomain"].strip('"')
        environment = {"HOME": "/home/alice", "USER": "alice", "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}
        environment |= {"OLDPWD": "/", "PWD": HOME}
        asked = facts(
            filesystem_domain=domain,
            environment={**environment, **case.get("env", {})},
            submit_file="x.sub",
            settings={"SCHEDD_INTERVAL": "2"},
        )
        try:
            made = parse_submit(case["submit"], asked, Machine(case.get("files")))
        except SubmitError as error:
            nothing = "no jobs queued" in str(error) and not case["ads"]
            return [] if case["rc"] or nothing else ["refused"]
        if case["rc"]:
            return ["accepted"]
        mine = ads("..\n..\n" + "".join(dry_run(made)))
        found = [] if len(mine) == len(case["ads"]) else ["count"]
        for own, told in zip(mine, case["ads"], strict=False):
            real = {**self.first, **told}
            names = (own.keys() | real.keys()) - TIMES
            found += [name for name in names if own.get(name, "undefined") != (real.get(name) or "undefined")]
        if unused("\n".join(made.warnings)) != case["unused"]:
            found.append("unused")
        return sorted(set(found))


def known(case: dict[str, Any]) -> list[str]:
    """Return the differences of a case that are meant: those of the table, and that a wrong call of a macro function is
    refused, where condor_submit prints an error and submits the job with nothing in its place."""
    if case["rc"] == 0 and "ERROR at Queue statement" in case["stderr"]:
        return ["refused"]
    rows = (
        whats.split() for names, whats, _ in KNOWN if any(fnmatchcase(case["name"], one) for one in names.split("; "))
    )
    return sorted({what for row in rows for what in row})
