"""Read a job's history from a pool's own events."""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo
from typing import Any

import attrs

from ...domain import events as e
from ...domain.events.handlers import handlers_of
from ...domain.fold.had_fold import note_switch
from ...domain.schedd.job_processes import RERUN_ROWS
from ...domain.state.job_ad import EXPIRATION, Changes, fold_job, unquoted
from ...domain.state.job_procs import job_procs
from ...domain.state.negotiators import negotiator_names, negotiator_shown
from ...domain.state.proc_ads import Variants
from ...domain.state_machines import LEFT
from ..listing.event_lines import ending, transition
from ..narration.evaluation_texts import full_evidence
from ..narration.formatting import counted, excerpt, instant, interval, resources
from ..narration.sentence_tables import code_words, row_code
from ..narration.sentences import (
    REQUEST_CAUSES,
    Sentence,
    StimulusContext,
    evidence_facts,
    preemption_text,
    preference_text,
    rank_text,
)
from ..runs.run_end_causes import Cause
from .job_facts import HAS_LEFT, RUNNING, JobLife
from .rejections import Rejections, evidence_of
from .slot import claimant
from .submissions import transform_sentence


class OwnJob(JobLife):
    """A job's history; pass the log's events to ``read`` in order."""

    def __init__(self, cluster: int, proc: int, zone: tzinfo) -> None:
        super().__init__(cluster, proc, zone)
        self.context = StimulusContext()
        self.refusals = Rejections()
        self.transformed: list[Sentence] = []  #: the changes that transforms made
        self.submitted: e.ClusterSubmitted | None = None
        self.base: e.Ad = {}
        self.changes: Changes = {}
        self.gone = False  #: whether it has left the queue
        self.end: Sentence | None = None  #: the end of its last run, if it only had to leave the queue after that
        self.match = ""
        self.matched_at = 0
        self.run: e.JobActivated | None = None
        self.settings: dict[str, str] = {}  #: the pool's settings that differ from the defaults
        self.at = 0  #: the time of the last event, in microseconds
        self.waiting = 0  #: until when the start of its process is deferred, in microseconds
        self.moving: e.JobTransferBegan | None = None
        self.executing: e.JobExecuting | None = None
        self.measured: e.JobMeasured | None = None
        self.signalled: Sentence | None = None  #: the signal for its processes to end
        self.step: Sentence | None = None  #: the last step of its slot during the run that explains the run's end
        self.shown: tuple[int, Sentence | None] = 0, None
        """The position of the step that led to its status, and the slot's step with the same cause and the evidence."""
        self.reasons: dict[str, str] = {}  #: by claimed slot: the reason for its last match
        self.holders: dict[str, str] = {}  #: by slot: the submitter of its claim
        self.mails: dict[int, e.MailDue] = {}  #: unsent mail about it, by the position of the event
        self.off: dict[str, e.DaemonsSwitched] = {}  #: the negotiators and other parts that are turned off
        self.poll: e.DefragPolled | None = None  #: the defragmentation's last poll
        self.reservation: Sentence | None = None  #: the last sentence about claims that condor_now reserved for it
        self.causes: dict[int, Cause] = {}  #: why its runs were evicted, by the positions of their ends
        self.requested: dict[str, str] = {}  #: the slots that were requested for it, by claim
        self.waits: dict[str, Sentence] = {}  #: the waiting claims for its slot or for itself, in order

    @property
    def current_slot(self) -> str:
        return "" if self.run is None else self.run.slot

    @property
    def ad(self) -> e.Ad:
        return {name: text for name, text in {**self.base, **self.changes}.items() if text}

    def fold_event(self, position: int, event: e.Event) -> None:
        self.at = event.at
        self.refusals.fold_event(position, event)
        if isinstance(event, e.DefragPolled):
            self.poll = event
        if isinstance(event, e.DaemonsSwitched):
            note_switch(self.off, event)
        if isinstance(event, e.PoolFounded | e.PoolConfigured):
            self.settings |= event.settings
        if isinstance(event, e.CycleHeld):
            for match in event.matches:
                if match.reason:
                    self.reasons[match.slot] = match.reason
                if match.job == self.name:
                    self._add_match(position, event, match)
                elif self.run is not None and self.run.slot in match.preempts:
                    facts = {"other": match.job, "slot": match.slot, "from": self.run.slot}
                    facts["negotiator"] = negotiator_shown(self.settings, event.negotiator)
                    who_text = preemption_text(match, f"job {match.job}")
                    self.step = self.narrate(position, event, "slot_taken", **facts, why=who_text[who_text.find(":") :])
            return
        slots = _SLOT_READERS.get(type(event))
        if slots is not None:
            slots(self, position, event)
            return
        jobs = job_procs(event)
        if isinstance(event, e.ClusterSubmitted) and event.factory and self.proc < event.count:
            jobs = event.cluster, ((self.proc, self.proc),)
        if jobs is None or jobs[0] != self.cluster or not any(first <= self.proc <= last for first, last in jobs[1]):
            return
        if isinstance(event, e.JobsTransformed):
            self.transformed.append(transform_sentence(position, event, self.cluster, self.proc))
            self.chain.append(self.transformed[-1])
            return
        if isinstance(event, e.ClusterSubmitted):
            self.base = {**event.ad, **Variants(event.columns).of_proc(self.proc)}
        _READERS[type(event)](self, position, event)
        fold_job(self.changes, self.base, event)

    def stopped_negotiation(self) -> e.DaemonsSwitched | None:
        """Return the event that turned the last of the negotiators off, or None if one is on."""
        switches = [self.off.get(name) for name in negotiator_names(self.settings)]
        return None if None in switches else max(filter(None, switches), key=lambda event: event.at)

    def _add_match(self, position: int, event: e.CycleHeld, match: e.Match) -> None:
        self.match, self.matched_at = match.slot, event.at
        note = evidence_of(self.context.evidence.get(event.stimulus, []), self.ad)
        evidence = f"Its {full_evidence(note)}" if note else ""
        state_text = preemption_text(match, "this job", self.holders.get(match.slot, "")) or ", which was free"
        self.narrate(
            position, event, "matched", slot=match.slot, who=state_text, ranks=rank_text(match), evidence=evidence,
            negotiator=negotiator_shown(self.settings, event.negotiator),
        )  # fmt: skip

    def slot_moved(self, position: int, event: e.SlotTransitioned) -> None:
        """Add a transition of the job's slot that the slot's policy or a request to end the claim caused."""
        if self.run is None or self.run.slot != event.slot:
            return
        decided_facts, last_step = self.context.decision_facts(event), self.chain[-1]
        is_known = event.stimulus == last_step.stimulus and last_step not in self.waits.values()
        if not decided_facts and not (event.cause in REQUEST_CAUSES and not is_known):
            return
        same = last_step is self.since and (last_step.stimulus, last_step.cause) == (event.stimulus, event.cause)
        facts = {"job": f"job {self.name}", "why": self.context.cause_text(event), **decided_facts}
        facts |= {"source": event.source, "target": event.target, "row": transition(event.row)}
        code = row_code(event.row, event.target, event.cause, self.name)
        self.step = self.narrate(position, event, code, **facts)
        if same:
            self.shown = last_step.position, self.step

    def slot_match_voided(self, position: int, event: e.MatchVoided) -> None:
        if event.job == self.name:
            self.match = ""
            self.narrate(position, event, "match_void", slot=event.slot, why=self.context.cause_text(event))

    def slot_waited_for(self, position: int, event: e.ClaimQueued) -> None:
        """Add that this job waits for a claimed slot, or that another job waits for this job's slot."""
        if event.job == self.name and not event.holder:
            code = "waits_for_client" if event.cause == "claimed" else "waits_for_slot"
            sentence = self.narrate(position, event, code, slot=event.slot)
        elif self.run is not None and self.run.slot == event.slot:
            reason = "" if event.holder else self.reasons.get(event.slot, "")
            reason_text = preference_text(reason, f"job {event.job}")
            sentence = self.step = self.narrate(position, event, "slot_awaited", who=claimant(event), why=reason_text)
        else:
            return
        self.waits[event.claim] = sentence

    def slot_match_taken(self, position: int, event: e.MatchTaken) -> None:
        if event.job == self.name:
            self.match = event.slot

    def slot_requested(self, position: int, event: e.ClaimRequested) -> None:
        if event.job == self.name:
            self.requested[event.claim] = event.slot
            self.narrate(position, event, "slot_requested", slot=event.slot)

    def slot_rejected(self, position: int, event: e.ClaimRejected) -> None:
        if self.requested.pop(event.claim, ""):
            self.narrate(position, event, "request_rejected", slot=event.slot, reason=event.reason)

    def slot_claimed(self, position: int, event: e.ClaimMade) -> None:
        self.holders[event.slot] = event.submitter
        if event.job == self.name and not event.holder:  # the slot may have been carved for it
            self.match = event.slot
        if self.requested.pop(event.claim, ""):
            self.narrate(position, event, "slot_granted", slot=event.slot)

    def slot_unclaimed(self, position: int, event: e.ClaimEnded) -> None:
        self.holders.pop(event.slot, None)

    def slot_withdrawn(self, position: int, event: e.ClaimWithdrawn) -> None:
        if self.waits.pop(event.claim, None) is None:
            return
        if self.match == event.slot:
            self.match = ""
            self.narrate(position, event, "wait_over", slot=event.slot, why=self.context.cause_text(event))
        elif self.run is not None and self.run.slot == event.slot:
            self.narrate(position, event, "slot_awaited_no_more", why=self.context.cause_text(event))

    def on_submitted(self, position: int, event: e.ClusterSubmitted) -> None:
        self.submitted, self.status = event, "unmaterialized" if event.factory else event.status.lower()
        count = counted(event.count, "job") if event.count > 1 else ""
        hold_facts = _hold_reason(event.ad) if event.status == "Held" else {"reason": "", "named": ""}
        request = self.context.requests.get(event.stimulus)
        user = request.user if request else event.submitter
        facts = {"user": user, "count": count, "hold": hold_facts["reason"], "named": hold_facts["named"]}
        self.since = self.narrate(position, event, "submitted", **facts)

    def on_materialized(self, position: int, event: e.JobsMaterialized) -> None:
        self.status = event.status.lower()
        self.since = self.narrate(position, event, "materialized", why=self.context.cause_text(event))

    def on_moved(self, position: int, event: e.JobsTransitioned) -> None:
        if event.target == LEFT:
            self._add_departure(position, event)
            return
        self.status = event.target.lower()
        self.gone = event.left and self.status in HAS_LEFT and self.run is None
        if event.row == "activate":
            self.since = self.narrate(position, event, "started_elsewhere", slot=self.match)
            self.match = ""
            return
        reasons = [unquoted(event.changes.get(name, "")) for name in ("ReleaseReason", "RemoveReason")]
        facts = {"why": self.context.cause_text(event), "target": event.target}
        facts["reason"] = "; ".join(filter(None, reasons))
        if event.changes.get("HoldReason"):
            facts |= _hold_reason(event.changes)
        code = "became" if event.row in RERUN_ROWS else _BECAME.get(event.target, "became")
        if event.cause == "held_by_machine":
            facts |= self.context.expression_facts(event, "WANT_HOLD")
            code = "held_by_slot"
        elif event.evidence:
            facts |= self.context.decision_facts(event)
            code = BY_POLICY.get(event.target, code)
        if code in _BY_USER and facts["reason"]:
            code, done_text = self.code_with_user(code, facts["reason"])
            facts |= done_text if code.endswith("_by_user") else {"runs": done_text["runs"]}
        elif code not in _BECAME.values():
            facts["said"], facts["reason"] = facts["reason"], ""
        sentence = self.sentence(position, event, code, **facts)
        last = self.step
        if last is not None and last is self.chain[-1] and (last.stimulus, last.cause) == (event.stimulus, event.cause):
            self.shown = position, last
        self.since = sentence
        self.chain.append(sentence)

    def _add_departure(self, position: int, event: e.JobsTransitioned) -> None:
        """Add that the job left the queue. If this happened together with its end, extend the sentence about the
        end."""
        self.gone = True
        last_step = self.chain[-1]
        if event.row == "remove_x":
            self.narrate(position, event, "left_without_waiting", why=self.context.cause_text(event))
        elif last_step is self.end and last_step.at == event.at and not event.evidence:
            self.chain[-1] = attrs.evolve(last_step, facts={**last_step.facts, "then": "it left the queue"})
            if self.since is last_step:
                self.since = self.chain[-1]
        elif last_step is self.end or event.evidence:
            self.narrate(position, event, "left_queue", **self.context.decision_facts(event))

    def on_edited(self, position: int, event: e.JobsEdited) -> None:
        changes = ", ".join(f"{name} = {text}" for name, text in event.changes.items())
        if event.transform:
            self._add_own_change(position, event)
        elif event.number:
            lines = "; ".join(event.notes)
            self.narrate(
                position, event, "wrote_itself", changes=changes, lines=lines, skipped="; ".join(event.skipped)
            )
        else:
            self.narrate(position, event, "edited", why=self.context.cause_text(event), changes=changes)

    def _add_own_change(self, position: int, event: e.JobsEdited) -> None:
        notes = [note for note in map(self.context.noted.get, event.noted) if note]
        facts = {
            "transform": event.transform,
            "changes": "; ".join(f"{name} = {text} (before: {event.before[name] or 'not there'})"
                                 for name, text in event.changes.items()) or "nothing",
            "skipped": "; ".join(event.skipped),
            "evidence": "; ".join(evidence_facts(note)["evidence"] for note in notes),
        }  # fmt: skip
        self.narrate(position, event, "changed_itself", **facts)

    def on_mailed(self, position: int, event: e.Mailed) -> None:
        due_mail = self.mails.pop(event.mail, None)
        if due_mail is not None:
            code = "not_mailed" if event.failure else "mailed"
            facts = {"to": ", ".join(due_mail.to), "subject": due_mail.subject, "failure": event.failure}
            self.narrate(position, event, code, **facts)

    def on_checkpoints_deleted(self, position: int, event: e.CheckpointsDeleted) -> None:
        numbers = ", ".join(map(str, event.numbers))
        self.narrate(position, event, "checkpoints_deleted", numbers=numbers, failure=event.failure)

    def on_reserved(self, position: int, event: e.ClaimsReserved) -> None:
        facts = {"slots": " and ".join(event.claims), "why": self.context.cause_text(event)}
        self.reservation = self.narrate(position, event, "reserved", **facts)

    def on_reservation_ended(self, position: int, event: e.ReservationEnded) -> None:
        if event.slot:
            self.match = event.slot
            self.narrate(position, event, "slots_combined", slot=event.slot)
        else:
            self.reservation = self.narrate(position, event, "reservation_ended", why=self.context.cause_text(event))

    def on_activated(self, position: int, event: e.JobActivated) -> None:
        code = "started_local" if event.cause == "local" else "started"
        holding_text = "" if self.match == event.slot else "on the claim of an earlier job of its submitter"
        self.run, self.status, self.match, self.waiting = event, RUNNING, "", event.deferred
        self.moving = self.executing = self.measured = self.signalled = self.step = self.reservation = None
        decided_facts = self.context.decision_facts(event)
        self.since = self.narrate(position, event, code, slot=event.slot, held=holding_text, **decided_facts)

    def on_transfer_ended(self, position: int, event: e.JobTransferEnded) -> None:
        begin_time = self.moving.began or self.moving.at if self.moving else event.at
        self.moving = None
        facts = {
            "way": event.way,
            "files": _with_noun(event.files, "file"),
            "size": _with_noun(event.size, "byte"),
        }
        duration = interval((event.ended or event.at) - begin_time)
        code = "partly_transferred" if event.failed else "outputs_kept" if event.kept else "transferred"
        self.narrate(position, event, code, **facts, took=duration)

    def on_disconnected(self, position: int, event: e.JobDisconnected) -> None:
        self.narrate(position, event, "disconnected", slot=self.current_slot, until=instant(event.until, self.zone))

    def on_reconnected(self, position: int, event: e.JobReconnected) -> None:
        self.narrate(position, event, "reconnected", slot=self.current_slot)

    def on_signalled(self, position: int, event: e.JobSignalled) -> None:
        code = "asked_to_exit" if event.how == "soft" else "killed"
        facts = {"why": self.context.cause_text(event), **self.context.decision_facts(event)}
        self.signalled = self.narrate(position, event, code, **facts)
        if event.cause == "run_now":  # otherwise a step of the job or its slot has this cause
            self.step = self.signalled

    def on_exited(self, position: int, event: e.JobExited) -> None:
        begin_time = self.run.at if self.run else event.at
        if self.executing is not None:
            begin_time = self.executing.began or self.executing.at
        is_end_known = event.outcome != "lost" and (event.code is not None or event.signal is not None)
        self.status = event.target.lower() or self.status
        self.gone = event.left and self.status in HAS_LEFT
        facts = {
            "why": "" if event.cause in ("exited", "evicted") else self.context.cause_text(event),
            "ran": interval(max(0, (event.ended or event.at) - begin_time)),
            "slot": event.slot,
            "how": ending(event) if is_end_known else "",
            "used": resources(event.user_cpu + event.system_cpu, event.resident),
            "then": self._next_status(event),
            "named": _code_description(event),
            **self.context.decision_facts(event),
        }
        if event.row == "requeue" and "evidence" not in facts:
            facts["evidence"] = unquoted(event.changes.get("RequeueReason", ""))
        sentence = self.sentence(position, event, _ENDED.get(event.cause, "exited"), **facts)
        if position in self.causes:
            sentence = attrs.evolve(sentence, cause=self.causes[position].name)
        self.chain.append(sentence)
        if event.row:
            self.since = sentence
        self.end = sentence if self.status in HAS_LEFT else None
        self.run = None

    def _next_status(self, event: e.JobExited) -> str:
        """Return the job's status after its processes ended, as a clause."""
        if event.target == "Held":
            return f"it is held: {_hold_reason(event.changes)['reason']}"
        if event.target == "Idle":
            expires = event.changes.get(EXPIRATION, "")
            until = f", and cools down until {instant((int(expires) + 1) * 1_000_000, self.zone)}" if expires else ""
            never_started = event.cause == "execution_failed"
            reason_text = f": {unquoted(event.changes['VacateReason'])}" if never_started else ""
            return f"it is idle again{reason_text}{until}"
        if self.gone:
            return "it left the queue"
        return "" if self.status in HAS_LEFT else f"it stays {self.status.capitalize()}"


def _with_noun(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _code_description(event: e.JobExited) -> str:
    if event.target == "Held":
        return _hold_reason(event.changes)["named"]
    if event.target == "Idle" and event.cause == "execution_failed":
        return code_words(event.changes["VacateReasonCode"])
    return ""


def _hold_reason(ad: e.Ad) -> dict[str, str]:
    """Return the facts of a hold: the reason, and the meaning of its code."""
    code_text = code_words(ad.get("HoldReasonCode", "")) or "code unknown"
    return {"reason": excerpt(unquoted(ad.get("HoldReason", ""))) or "no reason given", "named": code_text}


_READERS: dict[type[e.Event], Callable[[OwnJob, int, Any], object]] = handlers_of(OwnJob) | {
    e.JobsDeferred: lambda job, position, event: job.narrate(
        position, event, "deferred", why=job.context.cause_text(event), when=instant(event.until, job.zone)
    ),
    e.JobDue: lambda job, _, __: setattr(job, "waiting", 0),
    e.JobCooledDown: lambda job, position, event: job.narrate(position, event, "cooled_down"),
    e.MailDue: lambda job, position, event: job.mails.update({position: event}),
    e.JobTransferBegan: lambda job, _, event: setattr(job, "moving", event),
    e.JobExecuting: lambda job, _, event: setattr(job, "executing", event),
    e.JobMeasured: lambda job, _, event: setattr(job, "measured", event),
}
_SLOT_READERS = handlers_of(OwnJob, "slot_")
_ENDED = {"evicted": "evicted", "lease_over": "given_up"}
"""The cause of a run's end -> the code of its sentence, unless it is "exited"."""
_BECAME = {
    "Held": "held", "Idle": "released", "Removed": "removed", "Suspended": "suspended", "Running": "continued",
    "Completed": "completed",
}  # fmt: skip
"""A new status -> the code of its sentence."""
BY_POLICY = {"Held": "held_by_policy", "Removed": "removed_by_policy", "Idle": "released_by_policy"}
"""A new status -> the code of its sentence if an expression decided."""
_BY_USER = frozenset({"held", "released", "removed"})
