"""Describe this machine's processor as machine ads do, from what Linux reports."""

from __future__ import annotations

import platform
import re
from pathlib import Path
from typing import Final

from ...domain.events import Ad
from ...domain.state.job_ad import quoted

TOLD: Final = ("avx", "avx2", "avx512_vnni", "avx512dq", "avx512f", "sse4_1", "sse4_2", "ssse3")
"""Features of a processor that ads have attributes for, as has_avx2."""
LEVELS: Final = {
    "x86_64-v4": {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"},
    "x86_64-v3": {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"},
    "x86_64-v2": {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"},
}
"""The features that each microarchitecture level asks for, the highest level first (HTCondor's lists)."""
_NUMBERS: Final = {"CpuFamily": "cpu family", "CpuModelNumber": "model", "CpuCacheSize": "cache size"}


def processor_ad(told: str) -> Ad:
    """Return a processor's ad. ``told`` is the text of /proc/cpuinfo; its first processor counts."""
    facts = dict(re.findall(r"^([^:\n]+?)\s*:[ \t]*(.*)$", told.partition("\n\n")[0], flags=re.MULTILINE))
    found = {
        attribute: number[0]
        for attribute, name in _NUMBERS.items()
        if (number := re.match("[0-9]+", facts.get(name, "")))
    }
    flags = set(facts.get("flags", "").split())
    level = next((level for level, features in LEVELS.items() if features <= flags), "")
    if level:
        found["Microarch"] = quoted(level)
    return found | {f"has_{flag}": "true" for flag in TOLD if flag in flags}


def system_names() -> Ad:
    """Return what uname reports, and the processor's ad."""
    names = platform.uname()
    ad = {
        "UtsnameMachine": quoted(names.machine),
        "UtsnameNodename": quoted(names.node),
        "UtsnameRelease": quoted(names.release),
        "UtsnameSysname": quoted(names.system),
        "UtsnameVersion": quoted(names.version),
    }
    try:
        return ad | processor_ad(Path("/proc/cpuinfo").read_text(errors="replace"))
    except OSError:
        return ad
