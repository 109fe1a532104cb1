"""What a file is: by its name where HTCondor names it, and by what stands in it.

The content decides: a name only breaks a tie, and helps where a file begins in the middle of things. So flat folders,
renamed copies and rotations are all recognized, and a file that merely has the name of a log is not.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

SNIFFED = 1 << 16
"""So many bytes of a file are looked at."""


class Sign(NamedTuple):
    """By what files of one kind are known. A name that fits is enough where `content` fits, too; `sure` is enough
    without the name."""

    kind: str
    name: re.Pattern[str]
    content: re.Pattern[bytes]
    sure: re.Pattern[bytes] | None = None


def _sign(kind: str, name: str, content: bytes, sure: bytes | None = None) -> Sign:
    flags = re.MULTILINE
    return Sign(
        kind,
        re.compile(name, re.IGNORECASE),
        re.compile(content, flags),
        None if sure is None else re.compile(sure, flags),
    )


_ANYTHING = rb"\S"
_AD = rb"^[A-Za-z_]\w*[ \t]*=|^\s*[\[{<]"

_TABLE = rb"\A107 \d+ CreationTimestamp \d+\n(?:10\d[^\n]*\n)*?10[13] "
_MY_TYPE = rb"^[ \t]*\"?MyType\"?[ \t]*[=:][ \t]*"
_EPOCHS = rb"(SPAWN|EPOCH|TRANSFER|INPUT|OUTPUT|CHECKPOINT|COMMON)"

# fmt: off
SIGNS: Final = (
    _sign("startlog", r"^start(d)?log", _ANYTHING, rb"\(CONDOR_STARTD\) STARTING UP|: Changing (state|activity)"),
    _sign("schedlog", r"^schedlog", _ANYTHING, rb"\(CONDOR_SCHEDD\) STARTING UP|Started shadow for job "),
    _sign("negotiatorlog", r"^negotiatorlog", _ANYTHING,
          rb"\(CONDOR_NEGOTIATOR\) STARTING UP|-- (Started|Finished) Negotiation Cycle --"),
    _sign("matchlog", r"^matchlog", _ANYTHING, rb"^\S+ \S+\s+(?:\(\S+\) )*(Matched|Rejected) \d+\.\d+ "),
    _sign("eventlog", r"^eventlog", rb"^\d\d\d \(-?\d+\.|<c>|<\?xml|EventTypeNumber|^\.\.\.",
          rb"\A\s*008 \(-?\d+\.[^\n]*Global JobLog:"),
    _sign("userlog", r"\.(user)?log(\.\d+)?$|^(job|user)[-_.]?log", rb"^\d\d\d \(-?\d+\.",
          rb"\A\s*\d\d\d \(-?\d+\.-?\d+\.-?\d+\) |\bEventTypeNumber\b"),
    _sign("accountant", r"^accountant", rb"^10\d( |$)", _TABLE + rb"(Customer|Accountant|Resource)\."),
    _sign("queue", r"^job_queue\.log", rb"^10\d( |$)", _TABLE + rb"0+\.0+ "),
    _sign("epochs", r"^(job_)?epoch(_history|s)?", _AD, rb"^\*\*\* " + _EPOCHS + rb"\b"),
    _sign("startd_history", r"^startd_history", _AD),
    _sign("history", r"^history|_history$", _AD, rb"^\*\*\* (Offset|JobId|ProcId|ClusterId) ?="),
    _sign("machine_ads", r"^(machine|status|slots?|startd)\b", _AD, _MY_TYPE + rb'"(Machine|Slot)"'),
    _sign("submitter_ads", r"^(userprio|submitters?|accounting)\b", _AD, _MY_TYPE + rb'"(Accounting|Submitter)"'),
    _sign("job_ads", r"^(q|queue|jobs?)\b", _AD, _MY_TYPE + rb'"Job"'),
)
# fmt: on
"""In the order in which they are asked."""

_NOT_READ = re.compile(
    r"^(master|collector|shadow|starter|sharedport|proc|schedaudit|xferstats|procd|gridmanager|credmon|transfer|"
    r"defrag|rooster|had|replication|kbdd|c-gahp|vmgahp|dagman|history_queue|localuniv)[a-z]*log\b"
    r"|^schedd?_daemon_history|^schedd?restartreport|^spool_version|^instancelock|^\.|^readme|\.sub$|\.conf$|\.md$",
    re.IGNORECASE,
)
"""HTCondor's other files, and what lies beside them: nothing is read from these, and nobody is to wonder."""


def kind_of(name: str, head: bytes) -> str | None:
    """The kind of a file (one of ``reports.KINDS``) by its name (without what tells of compression) and its first
    ``SNIFFED`` bytes; None if it is none that is read."""
    if _NOT_READ.search(name) or not head.strip():
        return None
    for sign in SIGNS:
        if sign.name.search(name) and sign.content.search(head):
            found = _of_startd(head) if sign.kind == "history" else sign.kind
            return "job_ads" if sign.kind == "history" and _is_a_queue(head) else found
    for sign in SIGNS:
        if sign.sure is not None and sign.sure.search(head):
            return _of_startd(head) if sign.kind == "history" else sign.kind
    return None


def _of_startd(head: bytes) -> str:
    # A startd's history has what its starter knows of the job: only there is its state.
    return "startd_history" if re.search(rb"^JobState = ", head, re.MULTILINE) else "history"


def _is_a_queue(head: bytes) -> bool:
    # condor_q says when it asked; an ad that has left the queue does not.
    return re.search(rb"^ServerTime = ", head, re.MULTILINE) is not None
