"""The disk and commands of this machine, for configuration files (``domain.config.Files``) and submit files."""

from __future__ import annotations

import glob
import os
from functools import cache
from pathlib import Path
from typing import NoReturn

from ...domain.classad.argument_syntax import QuotingError, split, strip_double_quotes, uses_new_syntax
from ..bounded_text import output_of, read_input, read_text

_LONGEST_RUN = 60  # seconds that an included command may take; HTCondor waits forever


class Disk:
    """The disk as seen from a folder."""

    def __init__(self, folder: Path = Path()) -> None:
        self.folder = folder

    def read(self, path: str) -> str:
        return read_text(self.folder / path)

    def write(self, path: str, text: str) -> None:
        (self.folder / path).write_text(text, encoding="utf-8", errors="surrogateescape")

    def listing(self, path: str) -> list[str]:
        try:
            entries = (self.folder / path).iterdir()
            return sorted(str(Path(path) / entry.name) for entry in entries if not entry.is_dir())
        except OSError:
            return []

    def glob(self, pattern: str, directories: bool | None) -> list[str]:
        paths = []
        for path in sorted(glob.glob(pattern, root_dir=self.folder)):
            folder = (self.folder / path).is_dir()
            if directories is None or folder == directories:
                paths.append(f"{path}/" if folder else path)
        return paths

    def size(self, path: str) -> int | None:
        target = self.folder / path
        try:
            if not target.is_dir():
                return target.stat().st_size
            paths = (os.path.join(folder, name) for folder, _, names in os.walk(target) for name in names)
            return sum(map(os.path.getsize, paths))
        except OSError:
            return None

    def run(self, command: str) -> str:
        """Return a command's output. As in HTCondor, no shell reads the command, and its exit code is ignored. Raise
        `OSError` if it cannot be started, takes too long, or writes too much."""
        try:
            arguments = split(strip_double_quotes(command)) if uses_new_syntax(command) else command.split()
        except QuotingError as problem:
            raise OSError(str(problem)) from None
        if not arguments:
            raise OSError("there is no command before the |")
        return output_of(arguments, self.folder, _LONGEST_RUN)

    def standard_input(self) -> str:
        """Return the text of standard input, which is read once, because a submission may be repeated."""
        return _standard_input()


_standard_input = cache(read_input)


class ReadOnlyDisk(Disk):
    """The disk for a file that may belong to another user: it can read files, but not run programs or write."""

    def __init__(self, folder: Path = Path(), way_out: str = "check it, then use -trust") -> None:
        super().__init__(folder)
        self._way_out = way_out

    def run(self, command: str) -> NoReturn:
        self._refuse(f"run `{command}`")

    def write(self, path: str, text: str) -> NoReturn:
        self._refuse(f"write {path}")

    def standard_input(self) -> NoReturn:
        self._refuse("read standard input")

    def _refuse(self, action: str) -> NoReturn:
        from ...domain.macros.macro_errors import MacroError

        raise MacroError(f"it would {action}, which an untrusted configuration may not do: {self._way_out}")
