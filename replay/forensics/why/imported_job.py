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
from ...narration.sentences import Sentence, Told, UnknownThingError, capital
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
from .match_runs import Matches, unled_words
from .record_words import ad_ending, code_words, disagreement, ending, hold, host_of, lower, usage
from .slot_records import Slots, left_for, moves
from .unknown_thing import unknown_job

STATUS_NUMBERS = HTCONDOR_25.job_status_numbers


def why_imported_job(log: Log, cluster: int, proc: int, at: int | None = None, zone: tzinfo = UTC) -> list[Sentence]:
    """Why the job is where its records leave it (at the instant `at`, if one is given): the answer, then its life in
    order of time. Raises ``UnknownThingError``."""
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
    return [life.answer(), *sorted(life.chain, key=lambda sentence: sentence.at // SECOND)]


@define
class _Life:
    job: tuple[int, int]
    places: PlaceNames
    slots: Slots
    matches: Matches
    deaths: Deaths
    ads: list[JobAd]
    ends: list[int]
    """When the job's log has a run end."""
    logged: bool
    """Whether there is a log of the job at all."""
    at: int | None
    zone: tzinfo
    chain: list[Sentence] = field(factory=list)
    status: str = ""
    """A key of ``tables.STATUS``, or nothing if no record says."""
    since: Sentence | None = None
    """What put it there."""
    slot: str = ""
    began: int = 0
    attended: int = 0
    """When its shadow found it again in this run, if one did."""
    lost: Sentence | None = None
    """What is told of the loss of the connection to it, while that lasts."""
    run: list[Told] = field(factory=list)
    """What the slot's log tells of the run."""
    shadows: dict[str, tuple[str, list[Told]]] = field(factory=dict)
    """A shadow's pid -> the slot that it was started for, and the same of that."""
    size: Record | None = None
    rejected: list[Record] = field(factory=list)
    unled: list[Record] = field(factory=list)
    """Matches in a row that led to no run of a job of its cluster."""
    refused: str = ""
    """What the negotiator said of it since it last changed its status."""
    given: int = 0
    """The second in which it was given a slot last."""
    told: set[int] = field(factory=set)
    """The matches that were told."""
    user: str = ""
    submitted: bool = False
    last: int = 0
    """The instant of the last record."""

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
            self._say(record, f"{capital(words)}{f': {reason}' if reason else ''}")

    def tell_gap(self, position: int, gap: e.SourceGap) -> None:
        """Say that records are missing where they may have told more."""
        at = gap.since or gap.at
        if self.chain and at <= self.last:
            until = f", until {instant(gap.until, self.zone)}" if gap.until else ""
            self._tell(at, position, gap.stimulus, f"From here on records are missing{until}: {gap.words}")

    def _say(self, record: Record, text: str, *also: str) -> Sentence:
        return self._tell(record.at, record.position, record.event.stimulus, text, record.event.cause, *also)

    def _tell(self, at: int, position: int, stimulus: str, text: str, cause: str = "reported", *also: str) -> Sentence:
        """Add a sentence: the text, then where it stands; `also`: other records' places that it rests on."""
        names = list(dict.fromkeys(filter(None, map(self.places.name, (stimulus, *also)))))
        where = f" [{', '.join(names)}]" if names else ""
        sentence = Sentence(at, position, f"{text.rstrip('.')}.{where}", cause, stimulus)
        self.chain.append(sentence)
        return sentence

    def _is(self, status: str, sentence: Sentence) -> None:
        self.status, self.since, self.refused, self.lost = status, sentence, "", None

    # What its log tells

    def on_submitted(self, record: Record) -> None:
        user = self._user()
        host = host_of(record.facts.get("host", ""))
        self.submitted = True
        text = f"{user or 'Somebody'} submitted it{f' to {host}' if host else ''}"
        self._is("idle", self._say(record, text))

    def _user(self) -> str:
        """Whose it is: as the ads say, else as the negotiator or the access point calls the user."""
        return next((user for ad in self.ads if (user := ad.text("User") or ad.text("Owner"))), self.user)

    def on_begun(self, record: Record) -> None:
        slot = record.facts.get("slot", "") or host_of(record.facts.get("host", "")) or "a slot"
        if self.status in ("running", "suspended"):
            died, also_died = self._died(record.at)
            self._say(record, f"No record tells of the end of its run on {self.slot}{died}", *also_died)
        self._tell_match_of(slot, record.at)
        also = disagreement(record, self.places, "slot")
        self.slot, self.began, self.attended, self.size = slot, record.at, 0, None
        self.run = self.slots.run(slot, self.name, record.at)
        self._is("running", self._say(record, f"It started on {slot}{also}"))

    def _tell_match_of(self, slot: str, at: int) -> None:
        """Tell of the match that led to a run on a slot, unless that was told."""
        match = self.matches.before_run(slot, self.began, at, self.job[1])
        if match is not None and match.position not in self.told:
            self.told.add(match.position)
            self._tell_match(match)

    def _tell_match(self, match: Record) -> None:
        event = match.event
        other = "it" if event.proc == self.job[1] else f"{event.cluster}.{event.proc}, a job like it,"
        preempted = match.facts.get("preempting", "")
        instead = f", preempting {preempted}" if preempted and preempted.lower() != "none" else ""
        self._say(match, f"The negotiator matched {other} with {match.facts.get('slot', 'a slot')}{instead}")

    def on_evicted(self, record: Record) -> None:
        facts = record.facts
        why, also = self.slots.eviction(self.slot, self.name, record.at, self.run)
        died, place = self._died(record.at, of_code(facts.get("reason_code", "")))
        why, also = why + died, also + place
        said = facts.get("reason", "")
        if not why or not said.startswith(tables.SAYS_NOTHING):
            code = code_words(facts.get("reason_code", ""))
            why += f"; its log says: {said or 'no reason'}{code}" if said or code else ""
        text = f"It was evicted from {self.slot or 'its slot'}{self._after(record)}{why}"
        self._is("idle", self._say(record, text, *also))

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
        return (f": {death.words(self.zone)}", [death.stimulus]) if death is not None else ("", [])

    def _after(self, record: Record) -> str:
        return f" after {interval(max(0, record.at - self.began))}" if self.began and self.status != "idle" else ""

    def on_ended(self, record: Record) -> None:
        ran = f"{self._after(record)} on {self.slot}" if self.slot else ""
        how = ending(record.facts)
        text = f"It ended{ran}, with {how or 'no exit code'}{usage(record, self.size)}"
        text += disagreement(record, self.places, "code", "signal") + self._history_disagrees(how)
        self._is("completed", self._say(record, text))

    def _history_disagrees(self, how: str) -> str:
        ad = next((ad for ad in self.ads if ad.kind == "history"), None)
        theirs = ad_ending(ad) if ad is not None else ""
        if ad is None or not theirs or not how or theirs == how:
            return ""
        return f"; but {tables.said_by(ad.kind)} says {theirs} ({self.places.name(ad.stimulus)})"

    def on_held(self, record: Record) -> None:
        ran = f", which ended its run on {self.slot}{self._after(record)}" if self.status == "running" else ""
        text = f"It was put on hold{ran}: {hold(record.facts)}{disagreement(record, self.places, 'code')}"
        self._is("held", self._say(record, text))

    def on_released(self, record: Record) -> None:
        self._is("idle", self._say(record, f"It was released: {record.facts.get('reason', 'no reason given')}"))

    def on_removed(self, record: Record) -> None:
        ran = f", which ended its run on {self.slot}{self._after(record)}" if self.status == "running" else ""
        text = f"It was removed{ran}: {record.facts.get('reason', 'no reason given')}"
        self._is("removed", self._say(record, text))

    def on_suspended(self, record: Record) -> None:
        self._stopped(record, "suspended", "It was suspended", "Suspended")

    def on_resumed(self, record: Record) -> None:
        self._stopped(record, "running", "It was continued", "Busy")

    def _stopped(self, record: Record, status: str, words: str, activity: str) -> None:
        near = [event for _, event in moves(self.run, activity) if abs(event.at - record.at) <= 5 * SECOND]
        event = next((event for event in near if event.reason), None)
        said = event.reason.rstrip(".") if event else ""
        why = f": {meaning(said) or said} (the slot's log: {said})" if said else ""
        where = f" on {self.slot}" if self.slot else ""
        self._is(status, self._say(record, f"{words}{where}{why}", *([event.stimulus] if event else [])))

    def on_measured(self, record: Record) -> None:
        self.size = record

    def on_exception(self, record: Record) -> None:
        reason = record.facts.get("reason", "")
        died, also = self._died(record.at)
        text = f"Its shadow gave up{self._after(record)}{died}{f': {reason}' if reason else ''}"
        self._is("idle", self._say(record, text, *also))

    def on_disconnected(self, record: Record) -> None:
        reason = record.facts.get("reason", "")
        schedd = reason.startswith(tables.SCHEDD_DIED)
        died, also = self._schedd_died(record.at) if schedd else self._died(record.at)
        where = self.slot or "its slot"
        text = f"Its shadow lost the connection to {where}{died}{f': {reason}' if reason else ''}"
        sentence = self._say(record, text, *also)
        self.lost = self.lost or sentence

    def on_reconnected(self, record: Record) -> None:
        """The slot is the one where it ran all the time: where its beginning was not read, this entry names it."""
        self.slot, self.attended = self.slot or record.facts.get("slot", ""), record.at
        where = f" on {self.slot}" if self.slot else ""
        self._is("running", self._say(record, f"Its shadow found it again{where}"))

    def on_not_reconnected(self, record: Record) -> None:
        reason = record.facts.get("reason", "")
        died, also = self._died(record.at)
        text = f"Its shadow did not find it again{self._after(record)}{died}{f': {reason}' if reason else ''}"
        self._is("idle", self._say(record, text, *also))

    # What the daemons tell

    def on_matched(self, record: Record) -> None:
        """A match that led to a run, of this job or one like it, is told with the run."""
        if not self.matches.led_to_run(record):
            self.unled.append(record)

    def _tell_unled(self) -> None:
        """Matches in a row that led to no run of its cluster, in a sentence or two: those of which the slots' logs tell
        which job ran there then, and the others."""
        unled, self.unled = self.unled, []
        for text, records in unled_words(unled, self.slots, self.zone):
            first_one, last_one = records[0], records[-1]
            self._say(first_one, text, last_one.event.stimulus)

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
        times = f", {counted(count, 'time')} until {instant(last.at, self.zone)}, the last time" if count > 1 else ""
        self.rejected = []
        self.refused = self._say(first, f"The negotiator had nothing for it{times}: {why}", last.event.stimulus).text

    def on_shadow(self, record: Record) -> None:
        pid, slot = record.facts.get("shadow", ""), record.facts.get("slot", "")
        self.user = self.user or record.facts.get("user", "")
        number = f" (pid {pid})" if pid else ""
        self._tell_match_of(slot, record.at)
        sentence = self._say(
            record, f"The access point started a shadow for it{number}{f', for {slot}' if slot else ''}"
        )
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
        number = f" with status {status}" if status else f" for reason {reason}" if reason else ""
        did = "ended"
        if signal := killed(record.event):
            became, words, number, did = "idle", signal, "", "died"
        slot, run = self.shadows.get(record.facts.get("shadow", ""), (self.slot, self.run))
        after = self._after(record) if slot == self.slot else ""
        text = f"Its shadow {did}{after}{number}{f': {words}' if words else ''}"
        why, also = self.slots.eviction(slot, self.name, record.at, run) if became in ("", "idle") else ("", [])
        sentence = self._say(record, f"{text}{why and f'; it went from {slot}{why}'}", *also)
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
        after = f" after {interval(max(0, end.at - self.began))}"
        text = f"Its run on {self.slot} {'was ended' if end.evicted else 'ended'}{after}{why}{died}"
        sentence = self._tell(end.at, end.position, end.stimulus, text, "reported", *also, *place)
        self._is("idle" if end.evicted else "", sentence)

    # What ads tell

    def read_ads(self) -> None:
        self._tell_rejections()
        self._tell_unled()
        submitted = next((ad for ad in self.ads if ad.when("QDate")), None)
        if not self.submitted and submitted is not None:
            sentence = self._ad_says(submitted, submitted.when("QDate"), f"{self._user() or 'Somebody'} submitted it")
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

    def _ad_says(self, ad: JobAd, at: int, text: str) -> Sentence:
        self.last = max(self.last, at)
        return self._tell(at, ad.position, ad.stimulus, text)

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
            self._is("running", self._ad_says(ad, began, f"It started on {slot}"))

    def _left(self, ad: JobAd) -> None:
        """How it left the queue, by the history."""
        at = ad.when("CompletionDate") or ad.when("EnteredCurrentStatus") or ad.at
        if self.at is not None and at > self.at:
            return
        number = ad.number("JobStatus")
        if number == STATUS_NUMBERS["Removed"]:
            at = ad.when("EnteredCurrentStatus") or at
            reason = ad.text("RemoveReason") or "no reason given"
            self._is("removed", self._ad_says(ad, at, f"It was removed: {reason}"))
        elif number == STATUS_NUMBERS["Completed"]:
            ran = f" on {self.slot}" if self.slot else ""
            text = f"It ended{ran}, with {ad_ending(ad) or 'no exit code'}"
            self._is("completed", self._ad_says(ad, at, text))

    def _shown(self, ad: JobAd) -> None:
        """What a list of the queue showed after all other records."""
        status, words = tables.SHOWN.get(ad.number("JobStatus"), ("", ""))
        if words and status != self.status:
            host, hold = ad.text("RemoteHost"), ad.text("HoldReason")
            self.slot = host or self.slot
            more = f" on {host}" if status == "running" and host else f": {hold}" if status == "held" and hold else ""
            self._is(status, self._ad_says(ad, ad.at, f"It was {words}{more}{tables.LISTS[ad.kind]}"))

    # The answer

    def answer(self) -> Sentence:
        since = self.since or self.chain[-1]
        when = instant(since.at, self.zone)
        if self.status in tables.OVER:
            text = f"Job {self.name} {tables.OVER[self.status]} at {when}: {lower(since.text)}"
        else:
            known = tables.STATUS.get(self.status, "is somewhere that no record tells of")
            where = f" on {self.slot}" if self.status == "running" and self.slot else ""
            text = f"Job {self.name} {known}{where} since {when}: {lower(since.text)}"
            if self.status == "idle":
                text += f" {self.refused or self._others_refused(since.at)}{self._no_negotiator(since.at)}"
            if self.status == "running" and self.lost is not None:
                since_then = instant(self.lost.at, self.zone)
                text += f" Since {since_then} nobody is connected to it: {lower(self.lost.text)}"
            if self.status == "running" and self.size is not None:
                text += self._measured(self.size)
            if self.at is None:
                text += f" Its records end at {instant(self.last, self.zone)}."
        return Sentence(since.at, since.position, text, since.cause, since.stimulus)

    def _others_refused(self, since: int) -> str:
        """What the negotiator said of jobs like it, where it names them alone."""
        last = self.matches.last_rejected
        if last is None or last.at < since:
            return "No record tells that the negotiator looked at it since then."
        other = f"job {last.event.cluster}.{last.event.proc} of its cluster"
        why = last.facts.get("words", "") or "no reason given"
        when, place = instant(last.at, self.zone), self.places.name(last.event.stimulus)
        return f"The negotiator had nothing for {other} at {when}: {why}.{f' [{place}]' * bool(place)}"

    def _no_negotiator(self, since: int) -> str:
        """The negotiator's death while the job waits."""
        death = self.deaths.of_negotiator(since)
        return f" {capital(death.words(self.zone))}. [{self.places.name(death.stimulus)}]" if death else ""

    def _measured(self, size: Record) -> str:
        resident = size.facts.get("resident", "")
        if not resident.isdecimal():
            return ""
        place = self.places.name(size.event.stimulus)
        return (
            f" At {instant(size.at, self.zone)} it used memory {memory(int(resident))}.{f' [{place}]' if place else ''}"
        )


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
