"""Why a deferred job cannot be matched: a clause of its Requirements reads the time alone, and is not true."""

from __future__ import annotations

from datetime import tzinfo
from typing import NamedTuple

from ...domain import events as e
from ...domain.classad import Context
from ...domain.schedd.job_deferral import asleep, whole_of
from ...domain.state.caches import ad_of
from ...domain.state.job_ad import DEFERRAL_TIME
from ...domain.units import SECOND
from ..narration.formatting import instant


class Sleeping(NamedTuple):
    """A sentence's code and its facts, and the advice behind it."""

    code: str
    facts: dict[str, str]
    advice: str


def sleeping(job: e.Ad, at: int, zone: tzinfo) -> Sleeping | None:
    """Tell until when a job with this ad cannot be matched, as of the instant ``at``, in microseconds; None: it can."""
    if DEFERRAL_TIME not in job:
        return None
    ad = ad_of(job)
    time = whole_of(ad, DEFERRAL_TIME, Context(now=at // SECOND, timezone=zone))
    sleep = None if time is None else asleep(job.get("Requirements", ""), ad, at, zone)
    if time is None or sleep is None:
        return None
    facts = {"time": instant(time * SECOND, zone)}
    if sleep.until is None:
        return Sleeping("time_missed", facts, "mend_time")
    return Sleeping("sleeps", {**facts, "when": instant(sleep.until * SECOND, zone)}, "wait_for_time")
