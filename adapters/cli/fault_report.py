"""Report an unexpected error: a message for the user, and a file with the traceback for the bug report."""

from __future__ import annotations

import errno
import os
import shlex
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from ..machine.host import VERSION

_BUG_REPORT_TEXT = "`poolbook -debug ...` prints the traceback"


def fault_message(error: Exception, argv: Sequence[str]) -> str:
    """Return the message for an unexpected error of the command `argv`, after writing the traceback to a file. Only the
    user can read the file, since it contains the command line. The next error of the same command replaces it."""
    report = f"poolbook: {_error_text(error)}"
    try:
        return f"{report}. The traceback is in {_save_traceback(error, argv)}; {_BUG_REPORT_TEXT}"
    except OSError as problem:
        return f"{report}. The traceback could not be saved ({problem.strerror or problem}); {_BUG_REPORT_TEXT}"


def _error_text(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return file_error_message(error)
    if isinstance(error, MemoryError):
        return "not enough memory; allow more, or request less at a time"
    return f"unexpected error, perhaps a bug in Poolbook: {type(error).__name__}: {error}"


def file_error_message(error: OSError) -> str:
    """Return the operating system's error message for a file that a command needs, with the file's name and the fix."""
    names = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    fix = _FIXES.get(error.errno or 0, "")
    return ": ".join([*names, f"{error.strerror}; {fix}" if fix else str(error.strerror)])


_RIGHTS = "check the permissions and owners of it and of the directories above it"
_FIXES = {
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.ENOENT: "check the name; a relative name starts in the current directory",
    errno.ENOTDIR: "a part of its path is a file; check the name",
    errno.EISDIR: "name a file in it",
    errno.ELOOP: "its symbolic links form a loop; remove one",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOSPC: "free some space on its disk",
    errno.EDQUOT: "free some space within the quota",
    errno.EROFS: "its file system is read-only; name a file on another one",
    errno.EIO: "its disk or device failed; check the system's log",
}


def _save_traceback(error: Exception, argv: Sequence[str]) -> Path:
    """Write the report and return its file: in the user's state directory or, if that fails, in the directory for
    temporary files. Raise `OSError` if neither is writable."""
    call = shlex.join(["poolbook", *argv])
    lines = [f"poolbook {VERSION}, Python {sys.version}\n", f"{call}\n", *traceback.format_exception(error)]
    text = "".join(lines).encode("utf-8", "backslashreplace")
    name = f"traceback-{argv[0]}.txt"
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    folder = Path(state, "poolbook")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        place = folder
    except OSError:
        place = Path(tempfile.gettempdir())
    number, path = tempfile.mkstemp(dir=place, prefix=name)  # mode 0600, owned by this user
    try:
        with os.fdopen(number, "wb") as file:
            file.write(text)
        if place is not folder:
            return Path(path)
        os.replace(path, folder / name)
    except OSError:
        os.unlink(path)
        raise
    return folder / name
