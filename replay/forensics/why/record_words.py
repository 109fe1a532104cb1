"""How what a record of a real pool states is said in a sentence: codes, endings, addresses."""

from __future__ import annotations

import re

from ....domain.imported.record_sources import KINDS
from ....domain.state_machines import HOLD_CODES, VACATE_CODES
from ...narration.formatting import interval, memory
from ..imported_log import PlaceNames
from .job_history import JobAd, Record

_ALIAS = re.compile(r"[?&]alias=([^&>]+)")
_ADDRESS = re.compile(r"<\[?([^?>\]]*?)\]?(?::\d+)?(?:\?[^>]*)?>")

SAYS_NOTHING = "Unspecified"  #: how the reason of an eviction begins that nobody gave a reason for
OVER = ("completed", "removed")
# JobStatus -> what it is called here, and in a sentence.
SHOWN = {1: ("idle", "idle"), 2: ("running", "running"), 5: ("held", "on hold"), 7: ("suspended", "suspended")}
# Sources that list the queue as it stood -> how a sentence says so.
LISTS = {"job_ads": " when condor_q was asked", "queue": ", by the schedd's table"}
SILENT = frozenset({8, 28, 40, 43, 44, 45, 47})  #: entries that say nothing about why a job is where it is


def host_of(address: str) -> str:
    """The host of a daemon's address: its name if the address tells it, else its number."""
    alias = _ALIAS.search(address)
    if alias:
        return alias[1]
    found = _ADDRESS.search(address)
    return found[1] if found else address.strip()


def code_words(number: str) -> str:
    """Name a code of a hold or an eviction; empty for none."""
    if not number.isdecimal() or number == "0":
        return ""
    code = HOLD_CODES.get(int(number)) or VACATE_CODES.get(int(number))
    return f"code {number}, {code.name}: {code.words}" if code else f"code {number}"


def ending(facts: dict[str, str]) -> str:
    """How a job's own process ended: "code 3", "signal 11"; empty where it is not told."""
    if "signal" in facts:
        return f"signal {facts['signal']}"
    return f"code {facts['code']}" if "code" in facts else ""


def ad_ending(ad: JobAd, how: str = "Exit") -> str:
    """The same, by an ad; `how`: how its attributes of the ending begin."""
    if ad.text(f"{how}BySignal").lower() == "true":
        return f"signal {ad.text(f'{how}Signal')}"
    code = ad.text(f"{how}Code")
    return f"code {code}" if code else ""


def said_by(kind: str) -> str:
    """What a kind of source is called in a sentence."""
    return KINDS[kind].name if kind in KINDS else kind


def preempted(facts: dict[str, str]) -> str:
    """Return the submitter that a match preempts; empty: none. The log names the owner, and an accounting group (of a
    nice user, too) in parentheses."""
    user, _, group = facts.get("preempting", "").removesuffix(")").partition(" (AccountingGroup=")
    return "" if user.lower() == "none" else group or user


def usage(record: Record, size: Record | None) -> str:
    """Tell what a job used: CPU by the entry of its end, memory by the last that measured it."""
    cpu = sum(int(record.facts.get(name, "0")) for name in ("user_cpu", "system_cpu"))
    used = [f"CPU {interval(cpu)}"] if cpu else []
    if size is not None and size.facts.get("resident", "").isdecimal():
        used.append(f"memory {memory(int(size.facts['resident']))}")
    return ", ".join(used)


def disagreement(record: Record, places: PlaceNames, *names: str) -> str:
    """What other sources of the same entry say otherwise of the facts with these names."""
    said = ""
    for other in record.others:
        theirs = {name: other.facts[name] for name in names if name in other.facts}
        if theirs and theirs != {name: record.facts[name] for name in names if name in record.facts}:
            words = ", ".join(f"{name} {value}" for name, value in theirs.items())
            said += f"; but {places.name(other.event.stimulus) or 'another record'} says {words}"
    return said
