"""List the files in a directory with their kinds, in the order in which they were written.

Daemons rotate their logs: the older part of a log is renamed. All parts of a log form a family, the oldest first; the
reader of one part continues in the next.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from attrs import define, field

from .content import DAMAGED, SUFFIXES, head_of

# Recognize the kind of a file by its content. The name decides if several kinds match, or if the start is missing.
#
# So flat directories, renamed copies and rotations are recognized, but not a file that only has the name of a log.

SNIFFED_BYTES = 1 << 16  #: the number of bytes of a file that are examined


class FileSigns(NamedTuple):
    """The patterns for one kind. `begins` must match, and `sure` or both `name` and `content`."""

    kind: str
    name: re.Pattern[str]
    content: re.Pattern[bytes]
    sure: re.Pattern[bytes] | None = None
    begins: re.Pattern[bytes] | None = None


def _sign(kind: str, name: str, content: bytes, sure: bytes | None = None, begin: bytes | None = None) -> FileSigns:
    sure_regex = None if sure is None else re.compile(sure, re.MULTILINE)
    begin_regex = None if begin is None else re.compile(begin)
    return FileSigns(kind, re.compile(name, re.IGNORECASE), re.compile(content, re.MULTILINE), sure_regex, begin_regex)


_ANYTHING = rb"\S"
_AD = rb"^[A-Za-z_]\w*[ \t]*=|^\s*[\[{<]"

_AD_START = rb"\s*(?:#[^\n]*\n\s*)*(?:[A-Za-z_]\w*[ \t]*=|[\[{<]|\*\*\* )"
"""The start of a file of ads. Daemon logs can also contain ads, but do not start with one."""
_TABLE = rb"\A107 \d+ CreationTimestamp \d+\n(?:10\d[^\n]*\n)*?10[13] "
_MY_TYPE = rb"^[ \t]*\"?MyType\"?[ \t]*[=:][ \t]*"
_EPOCHS = rb"(SPAWN|EPOCH|TRANSFER|INPUT|OUTPUT|CHECKPOINT|COMMON)"

# fmt: off
SIGNS: Final = (
    _sign("startlog", r"^start(d)?log", _ANYTHING, rb"\(CONDOR_STARTD\) STARTING UP|: Changing (state|activity)"),
    _sign("schedlog", r"^schedlog", _ANYTHING, rb"\(CONDOR_SCHEDD\) STARTING UP|Started shadow for job "),
    _sign("starterlog", r"^starterlog", _ANYTHING, rb"\(CONDOR_STARTER\) STARTING UP"),
    _sign("shadowlog", r"^shadowlog", _ANYTHING, rb"\(CONDOR_SHADOW\) STARTING UP"),
    _sign("masterlog", r"^masterlog", _ANYTHING, rb"\(CONDOR_MASTER\) STARTING UP"),
    _sign("collectorlog", r"^collectorlog", _ANYTHING, rb"\(CONDOR_COLLECTOR\) STARTING UP"),
    _sign("negotiatorlog", r"^negotiatorlog", _ANYTHING,
          rb"\(CONDOR_NEGOTIATOR\) STARTING UP|-- (Started|Finished) Negotiation Cycle --"),
    _sign("matchlog", r"^matchlog", _ANYTHING, rb"^\S+ \S+\s+(?:\(\S+\) )*(Matched|Rejected) \d+\.\d+ "),
    _sign("eventlog", r"^eventlog", rb"^\d\d\d \(-?\d+\.|<c>|<\?xml|EventTypeNumber|^\.\.\.",
          rb"\A\s*008 \(-?\d+\.[^\n]*Global JobLog:"),
    _sign("userlog", r"\.(user)?log(\.\d+)?$|^(job|user)[-_.]?log", rb"^\d\d\d \(-?\d+\.",
          rb"\A\s*\d\d\d \(-?\d+\.-?\d+\.-?\d+\) |\bEventTypeNumber\b"),
    _sign("accountant", r"^accountant", rb"^10\d( |$)", _TABLE + rb"(Customer|Accountant|Resource)\."),
    _sign("queue", r"^job_queue\.log", rb"^10\d( |$)", _TABLE + rb"0+\.0+ "),
    _sign("epochs", r"^(job_)?epoch(_history|s)?", _AD, rb"^\*\*\* " + _EPOCHS + rb"\b", _AD_START),
    _sign("startd_history", r"^startd_history", _AD),
    _sign("history", r"^history|_history$", _AD, rb"^\*\*\* (Offset|JobId|ProcId|ClusterId) ?=", _AD_START),
    _sign("machine_ads", r"^(machine|status|slots?|startd)\b", _AD, _MY_TYPE + rb'"(Machine|Slot)"', _AD_START),
    _sign("submitter_ads", r"^(userprio|submitters?|accounting)\b", _AD,
          _MY_TYPE + rb'"(Accounting|Submitter)"', _AD_START),
    _sign("job_ads", r"^(q|queue|jobs?)\b", _AD, _MY_TYPE + rb'"Job"', _AD_START),
)
# fmt: on
"""The kinds, in the order in which they are tried."""

_IGNORED_NAMES = re.compile(
    r"^(sharedport|proc|schedaudit|xferstats|procd|gridmanager|credmon|transfer|"
    r"defrag|rooster|had|replication|kbdd|c-gahp|vmgahp|dagman|history_queue|localuniv)[a-z]*log\b"
    r"|^history\.\d+\.\d+$|^schedd?_daemon_history|^transfer_history|^schedd?restartreport|^spool_version"
    r"|^instancelock|^\.|^readme|\.sub$|\.conf$|\.md$",
    re.IGNORECASE,
)
"""Files to skip without a report: other HTCondor files (PER_JOB_HISTORY_DIR repeats the history), and scripts."""

_MAIL = re.compile(rb"^\*\*\* Last \d+ line\(s\) of file ", re.MULTILINE)
"""Recognizes a master's mail, which quotes a daemon's log; the log itself contains the same lines."""


def kind_of(name: str, head: bytes) -> str | None:
    """Return a file's kind (a key of ``KINDS``) or None, from its uncompressed name and first ``SNIFFED_BYTES``
    bytes."""
    if _IGNORED_NAMES.search(name) or not head.strip() or _MAIL.search(head):
        return None
    sure_signs = [sign for sign in SIGNS if sign.sure is not None and sign.sure.search(head) and _begins(sign, head)]
    named_signs = (sign for sign in SIGNS if sign.name.search(name))
    likely_signs = [sign for sign in named_signs if sign.content.search(head) and _begins(sign, head)]
    for sign in (*(sign for sign in sure_signs if sign in likely_signs), *sure_signs, *likely_signs):
        if sign.kind in _JOBS:
            return _job_ads_kind(next((other.kind for other in likely_signs if other.kind in _JOBS), sign.kind), head)
        return _event_log_kind(sign.kind, name)
    return None


def _begins(sign: FileSigns, head_bytes: bytes) -> bool:
    return sign.begins is None or sign.begins.match(head_bytes) is not None


def _event_log_kind(kind: str, name: str) -> str:
    # A rotated part of an EventLog may lack the header; its name then distinguishes it from a user's log.
    return "eventlog" if kind == "userlog" and name.lower().startswith("eventlog") else kind


_JOBS = frozenset({"history", "startd_history", "job_ads"})


def _job_ads_kind(kind: str, head_bytes: bytes) -> str:
    """Return the kind of these job ads, if they show it, otherwise `kind`: the kinds look similar."""
    if re.search(rb"^[ \t]*\"?ServerTime\"?[ \t]*[=:]", head_bytes, re.MULTILINE):
        return "job_ads"  # only condor_q records the time of the query
    if kind == "startd_history" or re.search(rb"^(JobState|StarterExitStatus) = ", head_bytes, re.MULTILINE):
        return "startd_history"  # only a startd and its starters have these attributes
    finished_job = re.search(rb"^[ \t]*\"?JobStatus\"?[ \t]*[=:][ \t]*[34]\b", head_bytes, re.MULTILINE)
    return "history" if finished_job is not None else kind


_ROTATED = re.compile(r"^(?P<base>.+?)\.(?:(?P<old>old)|(?P<time>\d{8}T\d{6})|(?P<number>\d{1,9}))$")
_COUNTS_UP = frozenset({"queue"})  #: kinds whose rotations are numbered as written; others count from the newest
_ADDRESS = re.compile(rb"command socket at <[^>\n]*\balias=([\w.-]+)")
_MACHINE = re.compile(rb"^Machine = \"([\w.-]+)\"", re.MULTILINE)


@define
class Candidate:
    """A file that may be imported. ``base`` is the name of its log, ``rank`` its age there, ``first`` its first
    line."""

    path: str
    kind: str
    folder: str
    base: str
    rank: tuple[int, str]
    size: int
    modified: float
    identity: tuple[int, int]
    first: bytes

    @property
    def family(self) -> tuple[str, str, str]:
        return self.folder, self.base, self.kind


def uncompressed_name(name: str) -> str:
    """Return a file's name without the suffix for compression."""
    return next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)


def family_of(name: str, kind: str) -> tuple[str, tuple[int, str]]:
    """Return the name of the log to which a file belongs, and its rank: a lower rank is older."""
    match = _ROTATED.match(uncompressed_name(name))
    if match is None:
        return uncompressed_name(name), (3, "")
    if match["time"]:
        return match["base"], (1, match["time"])
    if match["old"]:
        return match["base"], (2, "")
    number = int(match["number"])
    return match["base"], (0, f"{number if kind in _COUNTS_UP else 10**9 - number:010d}")


@define
class FolderContents:
    """Files in directories: ``candidates`` to import, ``skipped`` of unknown kind, ``unreadable`` with the error."""

    candidates: list[Candidate] = field(factory=list)
    skipped: list[str] = field(factory=list)
    unreadable: list[tuple[str, str]] = field(factory=list)
    machines: dict[str, str] = field(factory=dict)  #: directory -> the host of its daemons, if a file names it


def files_below(path: str) -> Iterator[str]:
    """Yield the files in a directory, sorted by name, or the file itself. Raise OSError if the path does not exist."""
    if not stat.S_ISDIR(os.stat(path).st_mode):
        yield path
        return
    if not os.access(path, os.R_OK | os.X_OK):
        raise PermissionError(13, os.strerror(13), path)
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            yield os.path.join(folder, name)


def folder_contents(paths: Sequence[str], excluded_paths: Iterable[str] = ()) -> FolderContents:
    """Return the files in `paths`, classified by use, without `excluded_paths` (the import's own files)."""
    contents = FolderContents()
    excluded = {os.path.realpath(path) for path in excluded_paths}
    seen_files: set[tuple[int, int]] = set()
    for path in paths:
        for file in files_below(path):
            if os.path.realpath(file) in excluded:
                continue
            try:
                _classify_file(file, contents, seen_files)
            except FileNotFoundError:
                continue
            except DAMAGED as error:
                contents.unreadable.append((file, getattr(error, "strerror", None) or str(error)))
    contents.candidates.sort(key=lambda c: (c.folder, c.base, c.kind, c.rank, c.path))
    return contents


def _classify_file(file: str, contents: FolderContents, seen_files: set[tuple[int, int]]) -> None:
    status = os.stat(file)
    identity = (status.st_dev, status.st_ino)
    if not stat.S_ISREG(status.st_mode) or identity in seen_files:
        return
    seen_files.add(identity)
    folder, name = os.path.split(file)
    if not status.st_size:
        return
    head_bytes = head_of(file, SNIFFED_BYTES)
    kind = kind_of(uncompressed_name(name), head_bytes)
    machine = _ADDRESS.search(head_bytes) or _MACHINE.search(head_bytes)
    if machine is not None and (kind == "startlog" or folder not in contents.machines):
        contents.machines[folder] = machine[1].decode()
    if kind is None:
        if head_bytes.strip():
            contents.skipped.append(file)
        return
    base, rank = family_of(name, kind)
    first_line = head_bytes.split(b"\n", 1)[0]
    candidate = Candidate(file, kind, folder, base, rank, status.st_size, status.st_mtime, identity, first_line)
    contents.candidates.append(candidate)
