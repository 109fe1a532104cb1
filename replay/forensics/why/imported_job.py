"""Why a job of a real pool came to where its records leave it: its life in sentences, each with the record's place.

The job's event log tells the life; the slots' logs say why a run was ended or stopped, the negotiator's what it was
matched with, ads who it was and what the logs do not tell. What no record says is not guessed: the answer says how far
the records go. A job's number that was used again is the last job of that number, unless an earlier instant is asked
for.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, tzinfo

from attrs import define, field

from ....domain import events as e
from ....domain.imported import job_event_log
from ....domain.ports.log import Log
from ....domain.state_machines import HTCONDOR_25
from ...narration.sentences import Answer, Sentence, Told, UnknownThingError, advise, answer
from ...narration.wording import counted, instant, interval, memory
from ...runs.causes import Cause, first, meaning, of_code, of_reason
from ..imported_log import PlaceNames, single_entries
from . import record_words as tables
from .daemon_deaths import Death, Deaths, killed
from .job_history import (
    APART,
    BEGIN,
    ENDS,
    SECOND,
    JobAd,
    Record,
    ads_of_job,
    ads_of_life,
    gaps_of,
    last_life,
    records_of,
)
from .match_runs import Matches, unled_matches
from .record_words import ad_ending, code_words, disagreement, ending, host_of, preempted, usage
from .slot_records import Slots, left_for, moves
from .unknown_thing import unknown_job

STATUS_NUMBERS = HTCONDOR_25.job_status_numbers


def why_imported_job(log: Log, cluster: int, proc: int, at: int | None = None, zone: tzinfo = UTC) -> Answer:
    """Tell why the job is where its records leave it (at the instant `at`, if one is given), and its life in order of
    time. Raises ``UnknownThingError``."""
    places = PlaceNames(log)
    everything = list(single_entries(log.read_stream(f"cluster/{cluster}")))
    told = [one for one in everything if at is None or one[1].at <= at]
    records = records_of(told, proc, places)
    ads = ads_of_job(log, (cluster, proc), at, records)
    begin = last_life(records, ads, at)
    records = [record for record in records if record.at >= begin - APART]
    known = ads_of_life(ads, begin)
    logged = [record for record in records if isinstance(record.event, e.JobLogged)]
    ends = [record.at for record in logged if int(record.what) in ENDS]
    slots = Slots(log, at)
    deaths = Deaths(log, places, slots, zone)
    life = _Life((cluster, proc), places, slots, Matches(told), deaths, known, ends, bool(logged), at, zone)
    life.user = Matches(everything).user if at is not None else life.matches.user
    for record in records:
        life.read(record)
    life.read_end()
    life.read_ads()
    for position, gap in gaps_of(log, logged):
        if gap.until == 0 or gap.until >= begin:
            life.tell_gap(position, gap)
    if not life.chain:
        raise UnknownThingError(unknown_job(log, cluster, proc, at, zone))
    return life.answer()


@define
class _Life:
    job: tuple[int, int]
    places: PlaceNames
    slots: Slots
    matches: Matches
    deaths: Deaths
    ads: list[JobAd]
    ends: list[int]  #: when the job's log has a run end
    logged: bool  #: whether there is a log of the job at all
    at: int | None
    zone: tzinfo
    chain: list[Sentence] = field(factory=list)
    status: str = ""  #: what the head of its answer says (``job_idle`` and the like), or nothing if no record says
    since: Sentence | None = None  #: what put it there
    slot: str = ""
    began: int = 0
    attended: int = 0  #: when its shadow found it again in this run, if one did
    lost: Sentence | None = None  #: what is told of the loss of the connection to it, while that lasts
    run: list[Told] = field(factory=list)  #: what the slot's log tells of the run
    shadows: dict[str, tuple[str, list[Told]]] = field(factory=dict)
    """A shadow's pid -> the slot that it was started for, and the same of that."""
    size: Record | None = None
    rejected: list[Record] = field(factory=list)
    unled: list[Record] = field(factory=list)  #: matches in a row that led to no run of a job of its cluster
    refused: Sentence | None = None  #: what the negotiator said of it since it last changed its status
    given: int = 0  #: the second in which it was given a slot last
    told: set[int] = field(factory=set)  #: the matches that were told
    user: str = ""
    submitted: bool = False
    last: int = 0  #: the instant of the last record

    @property
    def name(self) -> str:
        return f"{self.job[0]}.{self.job[1]}"

    def read(self, record: Record) -> None:
        self.last = max(self.last, record.at)
        if record.what in (BEGIN, "matched", "shadow_began"):
            # What the cycle that gave it a slot refused was for others like it.
            self.rejected = [rejected for rejected in self.rejected if rejected.at // SECOND < record.at // SECOND]
            self.given = record.at // SECOND
        if record.what != "rejected":
            self._tell_rejections()
        if record.what not in ("rejected", "matched"):
            self._tell_unled()
        say = _SAY.get(record.what)
        if say is not None:
            say(self, record)
        elif isinstance(record.event, e.JobLogged) and record.event.number not in tables.SILENT:
            reason = record.facts.get("reason", "")
            words = job_event_log.words_of(record.event.number)
            self._say(record, "entry", words=capital(words), reason=reason)

    def tell_gap(self, position: int, gap: e.SourceGap) -> None:
        """Say that records are missing where they may have told more."""
        at = gap.since or gap.at
        if self.chain and at <= self.last:
            until = instant(gap.until, self.zone) if gap.until else ""
            self._tell(at, position, gap.stimulus, "records_missing", until=until, words=gap.words)

    def _say(self, record: Record, code: str, *also: str, **facts: str) -> Sentence:
        cause = record.event.cause
        return self._tell(record.at, record.position, record.event.stimulus, code, *also, cause=cause, **facts)

    def _tell(
        self, at: int, position: int, stimulus: str, code: str, *also: str, cause: str = "reported", **facts: str
    ) -> Sentence:
        """Add a sentence; `also`: other records' places that it rests on."""
        sentence = self._sentence(at, position, stimulus, code, *also, cause=cause, **facts)
        self.chain.append(sentence)
        return sentence

    def _sentence(
        self, at: int, position: int, stimulus: str, code: str, *also: str, cause: str = "reported", **facts: str
    ) -> Sentence:
        names = tuple(dict.fromkeys(filter(None, map(self.places.name, (stimulus, *also)))))
        plain = {name: text.rstrip(".") for name, text in facts.items()}
        return Sentence(at, position, code, plain, cause, stimulus, names)

    def _is(self, status: str, sentence: Sentence) -> None:
        self.status, self.since, self.refused, self.lost = status, sentence, None, None

    # What its log tells

    def on_submitted(self, record: Record) -> None:
        host = host_of(record.facts.get("host", ""))
        self.submitted = True
        self._is("idle", self._say(record, "log_submitted", user=self._user() or "Somebody", host=host))

    def _user(self) -> str:
        """Whose it is: as the ads say, else as the negotiator or the access point calls the user."""
        return next((user for ad in self.ads if (user := ad.text("User") or ad.text("Owner"))), self.user)

    def on_begun(self, record: Record) -> None:
        slot = record.facts.get("slot", "") or host_of(record.facts.get("host", "")) or "a slot"
        if self.status in ("running", "suspended"):
            died, also_died = self._died(record.at)
            self._say(record, "end_untold", *also_died, slot=self.slot, died=died)
        self._tell_match_of(slot, record.at)
        also = disagreement(record, self.places, "slot")
        self.slot, self.began, self.attended, self.size = slot, record.at, 0, None
        self.run = self.slots.run(slot, self.name, record.at)
        self._is("running", self._say(record, "log_started", slot=slot, also=also))

    def _tell_match_of(self, slot: str, at: int) -> None:
        """Tell of the match that led to a run on a slot, unless that was told."""
        match = self.matches.before_run(slot, self.began, at, self.job[1])
        if match is not None and match.position not in self.told:
            self.told.add(match.position)
            self._tell_match(match)

    def _tell_match(self, match: Record) -> None:
        event = match.event
        other = "it" if event.proc == self.job[1] else f"{event.cluster}.{event.proc}, a job like it,"
        slot = match.facts.get("slot", "a slot")
        self._say(match, "log_matched", other=other, slot=slot, preempted=preempted(match.facts))

    def on_evicted(self, record: Record) -> None:
        facts = record.facts
        why, also = self.slots.eviction(self.slot, self.name, record.at, self.run)
        died, place = self._died(record.at, of_code(facts.get("reason_code", "")))
        said, known = facts.get("reason", ""), bool(why or died)
        code = code_words(facts.get("reason_code", ""))
        if known and said.startswith(tables.SAYS_NOTHING):
            said = ""
        elif said or code:
            said = f"{said or 'no reason'}{f' ({code})' if code else ''}"
        told = "log_evicted" if known or not said else "log_evicted_said"
        slot = self.slot or "its slot"
        sentence = self._say(
            record, told, *also, *place, slot=slot, ran=self._after(record), died=died, said=said, **why
        )
        self._is("idle", sentence)

    def _died(self, at: int, *named: Cause | None) -> tuple[str, list[str]]:
        """The daemon that died while it ran, by an instant, and the place of that; nothing if its slot's log or what is
        `named` says why its run was ended."""
        reasons = [of_reason(event.reason) for _, event in left_for(self.run, at)]
        if not self.began or not first([*named, *reasons]).weak:
            return "", []
        return self._named(self.deaths.of_run(self.slot, self.name, self.began, at, self.run, self.attended))

    def _schedd_died(self, at: int) -> tuple[str, list[str]]:
        """The same of the schedd, which was there again by an instant."""
        since = max(self.began, self.attended)
        return self._named(self.deaths.of_schedd(self.name, since, at) if since else None)

    def _named(self, death: Death | None) -> tuple[str, list[str]]:
        return (death.words(self.zone), [death.stimulus]) if death is not None else ("", [])

    def _after(self, record: Record) -> str:
        return interval(max(0, record.at - self.began)) if self.began and self.status != "idle" else ""

    def on_ended(self, record: Record) -> None:
        how = ending(record.facts)
        also = disagreement(record, self.places, "code", "signal") + self._history_disagrees(how)
        facts = {"ran": self._after(record) if self.slot else "", "slot": self.slot, "how": how or "no exit code"}
        self._is("completed", self._say(record, "log_ended", used=usage(record, self.size), also=also, **facts))

    def _history_disagrees(self, how: str) -> str:
        ad = next((ad for ad in self.ads if ad.kind == "history"), None)
        theirs = ad_ending(ad) if ad is not None else ""
        if ad is None or not theirs or not how or theirs == how:
            return ""
        return f"; but {tables.said_by(ad.kind)} says {theirs} ({self.places.name(ad.stimulus)})"

    def on_held(self, record: Record) -> None:
        also = disagreement(record, self.places, "code")
        code = code_words(record.facts.get("code", ""))
        reason = record.facts.get("reason", "") or "no reason given"
        self._is("held", self._say(record, "log_held", reason=reason, named=code, also=also, **self._run_ended(record)))

    def _run_ended(self, record: Record) -> dict[str, str]:
        """Give the facts of the run that a step of the job ends; none if it does not run."""
        return {"slot": self.slot, "ran": self._after(record)} if self.status == "running" else {}

    def on_released(self, record: Record) -> None:
        self._is("idle", self._say(record, "log_released", reason=record.facts.get("reason", "no reason given")))

    def on_removed(self, record: Record) -> None:
        reason = record.facts.get("reason", "no reason given")
        self._is("removed", self._say(record, "log_removed", reason=reason, **self._run_ended(record)))

    def on_suspended(self, record: Record) -> None:
        self._stopped(record, "suspended", "log_suspended", "Suspended")

    def on_resumed(self, record: Record) -> None:
        self._stopped(record, "running", "log_continued", "Busy")

    def _stopped(self, record: Record, status: str, code: str, activity: str) -> None:
        near = [event for _, event in moves(self.run, activity) if abs(event.at - record.at) <= 5 * SECOND]
        event = next((event for event in near if event.reason), None)
        said = event.reason.rstrip(".") if event else ""
        facts = {"why": meaning(said) or said, "said": said, "slot": self.slot}
        self._is(status, self._say(record, code, *([event.stimulus] if event else []), **facts))

    def on_measured(self, record: Record) -> None:
        self.size = record

    def on_exception(self, record: Record) -> None:
        reason = record.facts.get("reason", "")
        died, also = self._died(record.at)
        facts = {"ran": self._after(record), **_reasons(died, reason)}
        self._is("idle", self._say(record, "shadow_gave_up", *also, **facts))

    def on_disconnected(self, record: Record) -> None:
        reason = record.facts.get("reason", "")
        schedd = reason.startswith(tables.SCHEDD_DIED)
        died, also = self._schedd_died(record.at) if schedd else self._died(record.at)
        sentence = self._say(record, "shadow_lost", *also, slot=self.slot or "its slot", **_reasons(died, reason))
        self.lost = self.lost or sentence

    def on_reconnected(self, record: Record) -> None:
        """The slot is the one where it ran all the time: where its beginning was not read, this entry names it."""
        self.slot, self.attended = self.slot or record.facts.get("slot", ""), record.at
        self._is("running", self._say(record, "shadow_found", slot=self.slot))

    def on_not_reconnected(self, record: Record) -> None:
        reason = record.facts.get("reason", "")
        died, also = self._died(record.at)
        facts = {"ran": self._after(record), **_reasons(died, reason)}
        self._is("idle", self._say(record, "shadow_did_not_find", *also, **facts))

    # What the daemons tell

    def on_matched(self, record: Record) -> None:
        """A match that led to a run, of this job or one like it, is told with the run."""
        if not self.matches.led_to_run(record):
            self.unled.append(record)

    def _tell_unled(self) -> None:
        """Matches in a row that led to no run of its cluster, in a sentence or two: those of which the slots' logs tell
        which job ran there then, and the others."""
        unled, self.unled = self.unled, []
        for code, facts, records in unled_matches(unled, self.slots, self.zone):
            self._say(records[0], code, records[-1].event.stimulus, **facts)

    def on_rejected(self, record: Record) -> None:
        if self.status not in ("running", "suspended") and record.at // SECOND != self.given:
            self.rejected.append(record)

    def _tell_rejections(self) -> None:
        """What the negotiator refused in a row, in one sentence."""
        if not self.rejected:
            return
        first, last = self.rejected[0], self.rejected[-1]
        why = last.facts.get("words", "") or "no reason given"
        count = len(self.rejected)
        times = f"{counted(count, 'time')} until {instant(last.at, self.zone)}" if count > 1 else ""
        self.rejected = []
        self.refused = self._say(first, "nothing_for_it", last.event.stimulus, times=times, reason=why)

    def on_shadow(self, record: Record) -> None:
        pid, slot = record.facts.get("shadow", ""), record.facts.get("slot", "")
        self.user = self.user or record.facts.get("user", "")
        self._tell_match_of(slot, record.at)
        sentence = self._say(record, "shadow_began", pid=pid, slot=slot)
        run = self.slots.run(slot, self.name, record.at) if slot else self.run
        self.shadows[pid] = (slot or self.slot, run)
        if slot and self.status not in ("running", "suspended"):  # one that looks for its job again names no slot
            self.slot, self.run = slot, run
        if not self.logged:
            self.began = record.at
            self._is("running", sentence)

    def on_shadow_gone(self, record: Record) -> None:
        """Told where the job's own log is silent."""
        if any(abs(record.at - end) <= 5 * SECOND for end in self.ends):
            return
        status, reason = record.facts.get("status", ""), record.facts.get("reason", "")
        became, words = tables.SHADOW_STATUS.get(status or reason, ("", ""))
        number = f"with status {status}" if status else f"for reason {reason}" if reason else ""
        did = "ended"
        if signal := killed(record.event):
            became, words, number, did = "idle", signal, "", "died"
        slot, run = self.shadows.get(record.facts.get("shadow", ""), (self.slot, self.run))
        ran = self._after(record) if slot == self.slot else ""
        why, also = self.slots.eviction(slot, self.name, record.at, run) if became in ("", "idle") else ({}, [])
        facts = {"did": did, "ran": ran, "number": number, "words": words, "slot": slot, **why}
        sentence = self._say(record, "shadow_gone", *also, **facts)
        if became != self.status:
            self._is(became, sentence)

    # What its slot tells where its own records end

    def read_end(self) -> None:
        """The end of its run, of which its slot's log alone tells."""
        end = self.slots.end(self.slot, self.name, self.began) if self.status in ("running", "suspended") else None
        if end is None:
            return
        self.last = max(self.last, end.at)
        why, also = self.slots.eviction(self.slot, self.name, end.at, self.run)
        died, place = self._died(end.at)
        facts = {"ran": interval(max(0, end.at - self.began)), "did": "was ended" if end.evicted else "ended"}
        facts |= {"slot": self.slot, "died": died, **why}
        sentence = self._tell(end.at, end.position, end.stimulus, "run_over", *also, *place, **facts)
        self._is("idle" if end.evicted else "", sentence)

    # What ads tell

    def read_ads(self) -> None:
        self._tell_rejections()
        self._tell_unled()
        submitted = next((ad for ad in self.ads if ad.when("QDate")), None)
        if not self.submitted and submitted is not None:
            user = self._user() or "Somebody"
            sentence = self._ad_says(submitted, submitted.when("QDate"), "log_submitted", user=user)
            if not self.status:
                self._is("idle", sentence)
        if not self.began and not self.logged:
            self._runs_of_ads()
        kept = [ad for ad in self.ads if ad.has_left]
        if kept and self.status not in tables.OVER:
            self._left(kept[-1])
        shown = [ad for ad in self.ads if ad.kind in tables.LISTS and (self.at is None or ad.at <= self.at)]
        if shown and not kept and self.last < shown[-1].at:
            self._shown(shown[-1])

    def _ad_says(self, ad: JobAd, at: int, code: str, **facts: str) -> Sentence:
        self.last = max(self.last, at)
        return self._tell(at, ad.position, ad.stimulus, code, **facts)

    def _runs_of_ads(self) -> None:
        """Runs of which no log tells."""
        runs: dict[int, tuple[JobAd, str]] = {}
        for ad in self.ads:
            began = ad.when("JobCurrentStartDate")
            slot = ad.text("RemoteHost") or ad.text("LastRemoteHost")
            if began and slot and (self.at is None or began <= self.at):
                runs.setdefault(began, (ad, slot))
        for began, (ad, slot) in sorted(runs.items()):
            self.slot, self.began = slot, began
            self._is("running", self._ad_says(ad, began, "log_started", slot=slot))

    def _left(self, ad: JobAd) -> None:
        """How it left the queue, by the history."""
        at = ad.when("CompletionDate") or ad.when("EnteredCurrentStatus") or ad.at
        if self.at is not None and at > self.at:
            return
        number = ad.number("JobStatus")
        if number == STATUS_NUMBERS["Removed"]:
            at = ad.when("EnteredCurrentStatus") or at
            reason = ad.text("RemoveReason") or "no reason given"
            self._is("removed", self._ad_says(ad, at, "log_removed", reason=reason))
        elif number == STATUS_NUMBERS["Completed"]:
            how = ad_ending(ad) or "no exit code"
            self._is("completed", self._ad_says(ad, at, "log_ended", slot=self.slot, how=how))

    def _shown(self, ad: JobAd) -> None:
        """What a list of the queue showed after all other records."""
        status, words = tables.SHOWN.get(ad.number("JobStatus"), ("", ""))
        if words and status != self.status:
            host, hold = ad.text("RemoteHost"), ad.text("HoldReason")
            self.slot = host or self.slot
            facts = {"words": words, "by": tables.LISTS[ad.kind]}
            facts |= {"host": host if status == "running" else "", "hold": hold if status == "held" else ""}
            self._is(status, self._ad_says(ad, ad.at, "shown", **facts))

    # The answer

    def answer(self) -> Answer:
        since = self.since or self.chain[-1]
        facts = {"job": self.name, "since": instant(since.at, self.zone)}
        facts |= {
            "slot": self.slot if self.status in ("running", "suspended") else "",
            "how": since.facts.get("how", ""),
        }
        head = self._like(since, f"job_{self.status or 'unknown'}", **facts)
        steps = [since]
        if self.status == "idle":
            steps += [self.refused or self._others_refused(since), *self._no_negotiator(since)]
        if self.status == "running" and self.lost is not None:
            steps += [self._like(self.lost, "unconnected", when=instant(self.lost.at, self.zone)), self.lost]
        if self.status == "running" and self.size is not None:
            steps += self._measured(self.size)
        about = {"job": self.name, "until": instant(self.last, self.zone), "thing": self.name}
        advice = advise(_ADVICE.get(self.status, "see_records") if self.at is None else "see_life", head, **about)
        return answer(head, steps, advice, sorted(self.chain, key=lambda sentence: sentence.at // SECOND))

    def _like(self, other: Sentence, code: str, **facts: str) -> Sentence:
        """Say something else on the strength of the same record."""
        return Sentence(other.at, other.position, code, facts, other.cause, other.stimulus)

    def _others_refused(self, since: Sentence) -> Sentence:
        """Tell what the negotiator said of jobs like it, where it names them alone."""
        last = self.matches.last_rejected
        if last is None or last.at < since.at:
            return self._like(since, "not_looked_at")
        facts = {
            "other": f"{last.event.cluster}.{last.event.proc}",
            "reason": last.facts.get("words", "") or "no reason given",
            "when": instant(last.at, self.zone),
        }
        return self._sentence(last.at, last.position, last.event.stimulus, "nothing_for_others", **facts)

    def _no_negotiator(self, since: Sentence) -> list[Sentence]:
        """Tell of the negotiator's death while the job waits."""
        death = self.deaths.of_negotiator(since.at)
        if death is None:
            return []
        died = death.words(self.zone)
        return [self._sentence(death.at, death.position, death.stimulus, "daemon_died", died=died)]

    def _measured(self, size: Record) -> list[Sentence]:
        resident = size.facts.get("resident", "")
        if not resident.isdecimal():
            return []
        facts = {"when": instant(size.at, self.zone), "memory": memory(int(resident))}
        return [self._sentence(size.at, size.position, size.event.stimulus, "used_memory", **facts)]


def _reasons(died: str, reason: str) -> dict[str, str]:
    """Give the facts of why a shadow lost its job: the daemon that died says more than what the shadow wrote."""
    return {"died": died, "said": reason} if died else {"reason": reason}


def capital(text: str) -> str:
    """Begin a sentence with what an entry of a job's log is called."""
    return text[:1].upper() + text[1:]


_ADVICE = {"idle": "condor_analyze", "held": "condor_release", "completed": "see_life", "removed": "see_life"}
"""Where a job is -> the code of what can be done."""
_SAY: dict[str, Callable[[_Life, Record], None]] = {
    "0": _Life.on_submitted,
    BEGIN: _Life.on_begun,
    "4": _Life.on_evicted,
    "5": _Life.on_ended,
    "6": _Life.on_measured,
    "7": _Life.on_exception,
    "9": _Life.on_removed,
    "10": _Life.on_suspended,
    "11": _Life.on_resumed,
    "12": _Life.on_held,
    "13": _Life.on_released,
    "22": _Life.on_disconnected,
    "23": _Life.on_reconnected,
    "24": _Life.on_not_reconnected,
    "matched": _Life.on_matched,
    "rejected": _Life.on_rejected,
    "shadow_began": _Life.on_shadow,
    "shadow_gone": _Life.on_shadow_gone,
    "match_gone": lambda life, record: None,
}
