"""Compare the job ads that record.py recorded from condor_submit with Poolbook's for the same submit descriptions."""

from __future__ import annotations

from fnmatch import fnmatchcase
from posixpath import normpath
from typing import Any

from poolbook.domain.submit import SubmitError, dry_run, parse_submit

from .fakes import DATA, HOME, FakeFiles, facts, recorded
from .record import TIMES, parse_ads, unused

SIZES = {
    **{"/bin/true": 43 * 1024, "/bin/echo": 43 * 1024, "/bin/bash": 1_417_520},
    **{"/usr/bin/env": 56_176, "/usr/bin/python3": 8_317_256},
}
KNOWN = [line.split(" | ") for line in (DATA / "differences.txt").read_text().splitlines() if line[:1] not in "# ["]
"""The known differences: cases, attributes, reason."""


class RecordedFiles(FakeFiles):
    """The files of the recording."""

    def size(self, path: str) -> int | None:
        path = normpath(path)
        prefix = path.removeprefix(f"{HOME}/").rstrip("/") + "/"
        sizes = [len(text) for name, text in self.files.items() if name.startswith(prefix)]
        return SIZES.get(path) or super().size(path) or (sum(sizes) if sizes else None)


class Recording:
    """A recorded file with its cases."""

    def __init__(self, file: str) -> None:
        data = recorded(file)
        self.first: dict[str, str] = data["first"]
        self.cases: list[dict[str, Any]] = data["cases"]

    def differences(self, case: dict[str, Any]) -> list[str]:
        """Return in what Poolbook's result differs: attributes, "count", "unused", "accepted" or "refused"."""
        domain = self.first["FileSystemDomain"].strip('"')
        environment = {"HOME": "/home/alice", "USER": "alice", "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}
        environment |= {"OLDPWD": "/", "PWD": HOME}
        submit_facts = facts(
            filesystem_domain=domain,
            environment={**environment, **case.get("env", {})},
            submit_file="x.sub",
            settings={"SCHEDD_INTERVAL": "2"},
        )
        try:
            submission = parse_submit(case["submit"], submit_facts, RecordedFiles(case.get("files")))
        except SubmitError as error:
            no_jobs = "no jobs queued" in str(error) and not case["ads"]
            return [] if case["rc"] or no_jobs else ["refused"]
        if case["rc"]:
            return ["accepted"]
        our_ads = parse_ads("..\n..\n" + "".join(dry_run(submission)))
        differing = [] if len(our_ads) == len(case["ads"]) else ["count"]
        for ours, difference in zip(our_ads, case["ads"], strict=False):
            expected = {**self.first, **difference}
            names = (ours.keys() | expected.keys()) - TIMES
            differing += [name for name in names if ours.get(name, "undefined") != (expected.get(name) or "undefined")]
        if unused("\n".join(submission.warnings)) != case["unused"]:
            differing.append("unused")
        return sorted(set(differing))


def known_differences(case: dict[str, Any]) -> list[str]:
    """Return the known differences of a case.

    For an invalid call of a macro function, condor_submit prints an error and submits the job with an empty value;
    Poolbook rejects the file.
    """
    if case["rc"] == 0 and "ERROR at Queue statement" in case["stderr"]:
        return ["refused"]
    rows = (
        differing.split()
        for patterns, differing, _ in KNOWN
        if any(fnmatchcase(case["name"], pattern) for pattern in patterns.split("; "))
    )
    return sorted({name for row in rows for name in row})
