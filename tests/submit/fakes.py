"""Fixed facts and fake files for parsing submit descriptions."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from poolbook.domain.submit import NoSubmitFiles, Submission, SubmitFacts, parse_submit

DATA = Path(__file__).parent.parent / "data" / "submit"
HOME = "/home/alice/cap"
SYSTEM = {"/bin/sleep": 47 * 1024, "/bin/sh": 127 * 1024, "/usr/local/bin/stubborn.sh": 100}


class FakeFiles(NoSubmitFiles):
    """Files by name, in the user's directory, and the sizes of a few programs.

    A directory's name ends with a slash. A name that ends with | is a program, with its output; - is standard input.
    """

    def __init__(self, files: Mapping[str, str] | None = None) -> None:
        super().__init__("there is none")
        self.files = dict(files or {})

    def run(self, command: str) -> str:
        return self.read(f"{command} |")

    def write(self, path: str, text: str) -> None:
        self.files[path] = text

    def standard_input(self) -> str:
        return self.read("-")

    def read(self, path: str) -> str:
        if path not in self.files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self.files[path]

    def glob(self, pattern: str, directories: bool | None) -> list[str]:
        names = sorted(name for name in self.files if fnmatchcase(name.rstrip("/"), pattern))
        return [name for name in names if directories is None or name.endswith("/") is directories]

    def size(self, path: str) -> int | None:
        text = self.files.get(path.removeprefix(f"{HOME}/"))
        return SYSTEM.get(path) if text is None else len(text)


def facts(**changes: Any) -> SubmitFacts:
    values: dict[str, Any] = {
        "now": 1_795_214_172,
        "owner": "alice",
        "uid_domain": "localhost",
        "filesystem_domain": "localhost",
        "iwd": HOME,
        "version": "$CondorVersion: 25.14.1 2026-10-16 PackageID: 25.14.1+dfsg-1 $",
        "platform": "$CondorPlatform: X86_64-Debian_ $",
        "environment": {"HOME": "/home/alice", "SHELL": "/bin/sh"},
    }
    return SubmitFacts(**{**values, **changes})


def submit(lines: str, files: Mapping[str, str] | None = None, **options: Any) -> Submission:
    """Parse a description that runs /bin/sleep."""
    return parse_submit(f"executable = /bin/sleep\n{lines}\n", facts(), FakeFiles(files), **options)


def values(submission: Submission, attribute: str) -> list[str | None]:
    """Return an attribute's text in each job."""
    return [submission.ad_of(proc).get(attribute) for proc in range(submission.count)]


def recorded(name: str) -> Any:
    with gzip.open(DATA / name, "rt", encoding="utf-8") as file:
        return json.load(file)
