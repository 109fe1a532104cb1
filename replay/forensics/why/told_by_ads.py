"""What ads tell of a job where logs do not: who it was, its runs, how it left the queue, where a list showed it."""

from __future__ import annotations

from ....domain.state_machines import HTCONDOR_25
from ...narration.formatting import instant
from ...narration.sentences import Sentence
from . import record_words as tables
from .job_history import COOL_DOWN, JobAd, cool_downs
from .job_life import JobLife
from .record_words import ad_ending

STATUS_NUMBERS = HTCONDOR_25.job_status_numbers


def read_ads(life: JobLife) -> None:
    submitted = next((ad for ad in life.ads if ad.when("QDate")), None)
    if not life.submitted and submitted is not None:
        sentence = _ad_says(life, submitted, submitted.when("QDate"), "log_submitted", user=life.user()[0])
        if not life.status:
            life.becomes("idle", sentence)
    if not life.began and not life.logged:
        _runs_of_ads(life)
    kept = [ad for ad in life.ads if ad.has_left]
    if kept and life.status not in tables.OVER:
        _left(life, kept[-1])
    shown = [ad for ad in life.ads if ad.kind in tables.LISTS and (life.at is None or ad.at <= life.at)]
    if shown and not kept and life.last < shown[-1].at:
        _shown(life, shown[-1])
    _cool_down(life)


def _ad_says(life: JobLife, ad: JobAd, at: int, code: str, **facts: str) -> Sentence:
    life.last = max(life.last, at)
    return life.tell(at, ad.position, ad.stimulus, code, **facts)


def _runs_of_ads(life: JobLife) -> None:
    """Runs of which no log tells."""
    runs: dict[int, tuple[JobAd, str]] = {}
    for ad in life.ads:
        began = ad.when("JobCurrentStartDate")
        slot = ad.text("RemoteHost") or ad.text("LastRemoteHost")
        if began and slot and (life.at is None or began <= life.at):
            runs.setdefault(began, (ad, slot))
    for began, (ad, slot) in sorted(runs.items()):
        life.slot, life.began = slot, began
        life.becomes("running", _ad_says(life, ad, began, "log_started", slot=slot))


def _left(life: JobLife, ad: JobAd) -> None:
    """How it left the queue, by the history or the schedd's table."""
    at = ad.when("CompletionDate") or ad.when("EnteredCurrentStatus") or ad.at
    if life.at is not None and at > life.at:
        return
    number = ad.number("JobStatus")
    if number == STATUS_NUMBERS["Removed"]:
        at = ad.when("EnteredCurrentStatus") or at
        reason = ad.text("RemoveReason") or "no reason given"
        facts = {"slot": ad.text("RemoteHost"), "reason": reason}  # what begins with Last is of a run that was over
        life.becomes("removed", _ad_says(life, ad, at, "log_removed", **facts))
    elif number == STATUS_NUMBERS["Completed"]:
        how = ad_ending(ad) or "no exit code"
        life.becomes("completed", _ad_says(life, ad, at, "log_ended", slot=life.last_slot(), how=how))


def _shown(life: JobLife, ad: JobAd) -> None:
    """What a list of the queue showed after all other records."""
    status, words = tables.SHOWN.get(ad.number("JobStatus"), ("", ""))
    if words and status != life.status:
        host, hold = ad.text("RemoteHost"), ad.text("HoldReason")
        life.slot = host or life.slot
        facts = {"words": words, "by": tables.LISTS[ad.kind]}
        facts |= {"host": host if status == "running" else "", "hold": hold if status == "held" else ""}
        facts["hold_code"] = ad.text("HoldReasonCode")
        life.becomes(status, _ad_says(life, ad, ad.at, "shown", **facts))


def _cool_down(life: JobLife) -> None:
    """Tell until when an idle job cools down after what put it there."""
    if life.status != "idle" or life.since is None:
        return
    told = [(ad.when(COOL_DOWN), ad.position, ad.stimulus) for ad in life.ads if not ad.has_left]
    told += cool_downs(life.slots.log, life.job, life.at)
    until, position, stimulus = max(told, default=(0, 0, ""))
    if until > life.since.at:
        facts = {"until": instant(until, life.zone)}
        life.cools = life.tell(life.since.at, position, stimulus, "cools_down", **facts)
