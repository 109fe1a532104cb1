"""When a job with a deferral time starts. A starter waits with the job's input files, and starts the job at its
DeferralTime, or as soon as the files have arrived. After the DeferralWindow, the job has missed its time.

Source: Starter::jobWaitUntilExecuteTime (starter.cpp) of HTCondor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..units import SECOND
from .caches import ad_from_attributes
from .records import Activation, Starter

INVALID_TIME: Final = 1
"""The deferral of an activation with an invalid DeferralTime: time 0, which the job has always missed."""


def has_missed_time(run: Activation | Starter, window: int, served_since: int) -> bool:
    """Return True if a run was ready only after its deferral time and window (in seconds), or was not served until
    then. A run that is started late for another reason has not missed its time."""
    ready = max(run.ready, served_since)
    return run.deferred == INVALID_TIME or ready // SECOND - run.deferred // SECOND > window


def transfers_files(job: Mapping[str, str], slot: Mapping[str, str]) -> bool:
    """Return True if a job's files are transferred to a slot, by the texts of their ads."""
    names = "ShouldTransferFiles", "FileSystemDomain"
    ad = ad_from_attributes(job)
    should, job_domain = (ad.text(name) for name in names)
    return needs_transfer(should, job_domain, ad_from_attributes(slot).text(names[1]))


def needs_transfer(should_transfer: str, job_domain: str, slot_domain: str) -> bool:
    """Return True if files are transferred, by ShouldTransferFiles and the FileSystemDomains of the job and slot."""
    should_transfer = should_transfer.upper()
    return should_transfer == "YES" or (should_transfer == "IF_NEEDED" and job_domain.lower() != slot_domain.lower())
