"""How what a record of a real pool states is said in a sentence: codes, endings, addresses."""

from __future__ import annotations

import re

from ...domain.lifecycle import HOLD_CODES, VACATE_CODES
from .records import JobAd

_ALIAS = re.compile(r"[?&]alias=([^&>]+)")
_ADDRESS = re.compile(r"<\[?([^?>\]]*?)\]?(?::\d+)?(?:\?[^>]*)?>")


def host_of(address: str) -> str:
    """The host of a daemon's address: its name if the address tells it, else its number."""
    alias = _ALIAS.search(address)
    if alias:
        return alias[1]
    found = _ADDRESS.search(address)
    return found[1] if found else address.strip()


def code_words(number: str) -> str:
    """A code of a hold or an eviction, with its name, in brackets; empty for none."""
    if not number.isdecimal() or number == "0":
        return ""
    code = HOLD_CODES.get(int(number)) or VACATE_CODES.get(int(number))
    return f" (code {number}, {code.name}: {code.words})" if code else f" (code {number})"


def hold(facts: dict[str, str]) -> str:
    """Why a job is on hold, by the entry that says so."""
    return f"{facts.get('reason', '') or 'no reason given'}{code_words(facts.get('code', ''))}"


def ending(facts: dict[str, str]) -> str:
    """How a job's own process ended: "code 3", "signal 11"; empty where it is not told."""
    if "signal" in facts:
        return f"signal {facts['signal']}"
    return f"code {facts['code']}" if "code" in facts else ""


def ad_ending(ad: JobAd) -> str:
    """The same, by an ad."""
    if ad.text("ExitBySignal").lower() == "true":
        return f"signal {ad.text('ExitSignal')}"
    code = ad.text("ExitCode")
    return f"code {code}" if code else ""


def lower(text: str) -> str:
    """A sentence that goes on behind a colon."""
    begins = ("It ", "Its ", "The ", "A ", "Somebody ", "No ")
    return text[:1].lower() + text[1:] if text.startswith(begins) else text
