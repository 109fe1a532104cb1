"""What each kind of record states of a job: from ads (history, epochs, the startd's history, the queue) and from the
entries of job event logs. What is read of an ad is the table ``ATTRIBUTES``, and only there."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from ...domain import joblog
from ...domain.archive import plain
from .facts import ANY, LEASE, NEAR, SECOND
from .statements import Place, Run, Stating, Telling

ATTRIBUTES: Final = (
    "AccountingGroup",
    "ClusterId",
    "CompletionDate",
    "CumulativeRemoteSysCpu",
    "CumulativeRemoteUserCpu",
    "EnteredCurrentStatus",
    "EpochAdType",
    "EpochWriteDate",
    "ExitBySignal",
    "ExitCode",
    "ExitSignal",
    "GlobalJobId",
    "HoldReasonCode",
    "JobCurrentStartDate",
    "JobCurrentStartExecutingDate",
    "JobDuration",
    "JobMaterializeDate",
    "JobStatus",
    "JobUniverse",
    "LastHoldReasonCode",
    "LastPublicClaimId",
    "LastRemoteHost",
    "NumHolds",
    "NumHoldsByReason",
    "NumJobStarts",
    "ProcId",
    "PublicClaimId",
    "QDate",
    "RemoteHost",
    "RemoteSysCpu",
    "RemoteUserCpu",
    "RemoteWallClockTime",
    "ServerTime",
    "User",
)
"""All that is asked of a job's ad."""

REMOVED, COMPLETED, HELD = 3, 4, 5
ON_SLOTS: Final = frozenset({5, 10, 13})
"""The universes whose jobs run on one slot at a time: vanilla, java, vm. What a job of another universe used, and how
often it was started, is counted in other ways by every source."""
ON_A_SLOT: Final = frozenset({2, 6, 7})
"""The JobStatus of a job that has a slot: running, transferring output, suspended."""

_SUBMITTED_ON_HOLD: Final = re.compile(r"\bSubmittedOnHold = (\d{1,9})\b")

Ad = Mapping[str, str]


class Heard(NamedTuple):
    """A record of a job, as it was put aside: ``what`` is the number of an entry or what was said, ``body`` the text of
    an entry, or what an ad or a report says. ``order`` is where it stood in the log, ``chain`` its rotated files."""

    order: int
    letter: str
    chain: int
    source: int
    line: int
    at: int
    what: str
    body: str


def whole(ad: Ad, name: str) -> int | None:
    """A whole number that an ad states."""
    text = ad.get(name, "")
    try:
        return int(text)
    except ValueError:
        return None


def text_of(ad: Ad, name: str) -> str:
    """A text that an ad states; empty if it has none, or an expression."""
    found = ad.get(name, "")
    return plain(found) if found.startswith('"') else ""


def seconds(ad: Ad, name: str) -> int | None:
    """Seconds that an ad states, in microseconds."""
    try:
        found = round(float(ad.get(name, "")) * SECOND)
    except (ValueError, OverflowError):
        return None
    return found if abs(found) < ANY else None


def date(ad: Ad, name: str) -> int | None:
    """An instant that an ad states, in microseconds; 0 and what is less is none."""
    found = seconds(ad, name)
    return found if found is not None and found > 0 else None


def _holds(ad: Ad) -> int | None:
    """How many times a job was put on hold. HTCondor counts its submission on hold, of which no entry tells."""
    holds = whole(ad, "NumHolds") if "NumHolds" in ad else 0
    if not holds:
        return holds
    reasons = ad.get("NumHoldsByReason")
    if reasons is None:
        return None
    submitted = _SUBMITTED_ON_HOLD.search(reasons)
    return holds - (int(submitted[1]) if submitted else 0)


# -- Ads ---------------------------------------------------------------------------------------------------------------


def ad_told(place: Place, ad: Ad, final: bool) -> Telling | None:
    """What an ad of a job states; None if it does not say when the job was submitted. `final`: it is as it was when
    the job left the queue."""
    submitted = date(ad, "JobMaterializeDate") or date(ad, "QDate")
    if submitted is None:
        return None
    ended = _end(place, ad) if final else None
    last = max(_sampled(place, ad) if not final else 0, ended or 0, submitted)
    telling = Telling(submitted, submitted, last, text_of(ad, "GlobalJobId"))
    telling.said += _who(place, ad)
    telling.said.append(place.measures("submitted", submitted))
    if ended is not None:
        telling.said.append(place.measures("ended", ended))
        telling.said.append(place.says("became", "completed" if whole(ad, "JobStatus") == COMPLETED else "removed"))
    completed = whole(ad, "JobStatus") == COMPLETED
    if whole(ad, "JobUniverse") in ON_SLOTS:
        telling.said += _amounts(place, ad, final, completed)
    telling.runs += _run(place, ad, completed)
    telling.last = max([last, *(run.span[1] for run in telling.runs if run.span is not None)])
    return telling


def _end(place: Place, ad: Ad) -> int | None:
    """When a job left the queue. One that was removed after it was completed is told in two ways: in none here."""
    status, completed = whole(ad, "JobStatus"), date(ad, "CompletionDate")
    if place.letter not in "HQ" or status not in (COMPLETED, REMOVED):
        return None
    if status == COMPLETED:
        return completed
    return date(ad, "EnteredCurrentStatus") if completed is None else None


def _sampled(place: Place, ad: Ad) -> int:
    """When the ad of a job in the queue was as it is: at least until then its job was there."""
    found = place.at if place.letter == "Q" else date(ad, "ServerTime") if place.letter == "A" else None
    return found or date(ad, "EnteredCurrentStatus") or 0


def _who(place: Place, ad: Ad) -> list[Stating]:
    user = text_of(ad, "User")
    if not user:
        return []
    group = text_of(ad, "AccountingGroup")
    domain = user.partition("@")[2]
    submitter = user if not group else group if "@" in group or not domain else f"{group}@{domain}"
    return [place.says("user", user), place.says("submitter", submitter)]


def _amounts(place: Place, ad: Ad, final: bool, completed: bool) -> list[Stating]:
    more = None if final else ANY
    found = []
    starts, holds = whole(ad, "NumJobStarts"), _holds(ad)
    for fact, count in (("starts", starts), ("holds", holds)):
        if count is not None and place.letter != "S":
            found.append(place.measures(fact, count, more=more))
    if place.letter in "HQA" and (wall := seconds(ad, "RemoteWallClockTime")) is not None:
        found.append(place.measures("wall", wall, more=more))
    if place.letter in "PA" or (place.letter in "HQ" and (completed or not final)):
        for fact, name in (("user_cpu", "CumulativeRemoteUserCpu"), ("system_cpu", "CumulativeRemoteSysCpu")):
            if (used := seconds(ad, name)) is not None:
                found.append(place.measures(fact, used, more=more))
    if place.letter in "HQA" and holds:
        name = "HoldReasonCode" if whole(ad, "JobStatus") == HELD else "LastHoldReasonCode"
        if (code := whole(ad, name)) is not None:
            found.append(place.says("hold", str(code), holds))
    return found


def _run(place: Place, ad: Ad, completed: bool) -> list[Run]:
    """The run that an ad tells of: the job's last."""
    placed = date(ad, "JobCurrentStartDate")
    if placed is None:
        return []
    run = Run(placed)
    if whole(ad, "JobUniverse") in ON_SLOTS:
        _where(place, ad, run, placed)
    run.stopped = _stop(place, ad, completed)
    if run.stopped is not None and place.letter in "PS":
        run.said.append(place.measures("stopped", run.stopped))
    if run.stopped is None and place.letter in "AQ" and whole(ad, "JobStatus") in ON_A_SLOT:
        run.stopped = max(_sampled(place, ad), placed)  # it goes on at least until then
        return [run]
    if place.letter in "PS" or completed:
        run.said += _outcome(place, ad)
    return [run]


def _where(place: Place, ad: Ad, run: Run, placed: int) -> None:
    """The slot, the claim and the beginning of a run."""
    now = place.letter in "PS" or (place.letter in "AQ" and whole(ad, "JobStatus") in ON_A_SLOT)
    slot, claim = ("RemoteHost", "PublicClaimId") if now else ("LastRemoteHost", "LastPublicClaimId")
    run.said.append(place.measures("placed", placed))
    for fact, name in (("slot", slot), ("claim", claim)):
        if found := text_of(ad, name):
            run.said.append(place.says(fact, found))
    began = date(ad, "JobCurrentStartExecutingDate")
    # A starter's ad has that of the run before, and so has the job's until the program runs.
    soonest = placed + 1 if now and place.letter != "P" else placed
    if place.letter != "S" and began is not None and began >= soonest:
        run.began = began
        run.said.append(place.measures("began", began))


def _stop(place: Place, ad: Ad, over: bool) -> int | None:
    if place.letter == "P":
        return date(ad, "EpochWriteDate")
    if place.letter == "S":  # without a duration the program never ran, and the starter was cleaned up much later
        return date(ad, "CompletionDate") if "JobDuration" in ad else None
    return date(ad, "CompletionDate") if over else None


def _outcome(place: Place, ad: Ad) -> list[Stating]:
    found = []
    by_signal = ad.get("ExitBySignal", "").lower() == "true"
    name, word = ("ExitSignal", "signal") if by_signal else ("ExitCode", "code")
    if "ExitBySignal" in ad and (value := whole(ad, name)) is not None:
        found.append(place.says("exit", f"{word} {value}"))
    # A starter that was told to be quick kills its job, and its last measurement may not reach the shadow.
    less = ANY if place.letter == "S" and by_signal else None
    if whole(ad, "JobUniverse") in ON_SLOTS:
        for fact, attribute in (("run_user_cpu", "RemoteUserCpu"), ("run_system_cpu", "RemoteSysCpu")):
            if (used := seconds(ad, attribute)) is not None:
                found.append(place.measures(fact, used, less=less))
    return found


def epochs_told(tellings: Iterable[tuple[Place, Telling]]) -> list[Telling]:
    """What the epoch ads of one job number tell, put together by the job's submission: its runs stand in several
    ads, one of them perhaps twice."""
    jobs: dict[str, Telling] = {}
    spans: dict[str, list[tuple[int, int, Place]]] = {}
    for place, telling in tellings:
        key = telling.job or str(telling.submitted)
        job = jobs.setdefault(key, Telling(telling.submitted, telling.first, telling.last, telling.job, log="P"))
        for run in telling.runs:
            if not any((run.placed, run.stopped) == (other.placed, other.stopped) for other in job.runs):
                job.runs.append(run)
            if run.placed is not None and run.stopped is not None:
                job.last = max(job.last, run.stopped)
                spans.setdefault(key, []).append((run.placed, run.stopped, place))
        job.said += telling.said
    for key, found in spans.items():
        found.sort(key=lambda span: span[:2])
        total = sum(end - begin for begin, end, _ in found)
        total -= sum(max(0, one[1] - other[0]) for one, other in pairwise(found))
        wall = found[-1][2].measures("wall", max(total, 0), less=NEAR * len(found))
        jobs[key].said.append(wall)
    return list(jobs.values())


# -- Entries -----------------------------------------------------------------------------------------------------------


def entries_told(heard: Iterable[Heard], gaps: Iterable[int] = ()) -> list[Telling]:
    """What the entries of one job number in one log tell, in the order in which they stand there. `gaps` are the
    places of that log (as ``order`` counts) where something is missing."""
    logs: list[_Log] = []
    missing = sorted(gaps)
    for entry in heard:
        number = int(entry.what)
        if not logs or (number == 0 and logs[-1].begun):
            logs.append(_Log())
        if bisect(missing, logs[-1].last) != bisect(missing, entry.order):
            logs[-1].interrupted()
        logs[-1].take(number, entry)
    return [telling for log in logs if (telling := log.told()) is not None]


class _Log:
    """The life of a job, as one log tells it."""

    def __init__(self) -> None:
        self.telling: Telling | None = None
        self.last = 0
        self.begun = False
        self.seamless = True
        self.starts = self.wall = self.runs = 0
        self.holds: list[Stating] = []
        self.run: Run | None = None
        self.troubled = False
        self.closing: tuple[str, Place, dict[str, str]] | None = None
        self.place: Place | None = None

    def take(self, number: int, entry: Heard) -> None:
        place = self.place = Place(entry.letter, entry.source, entry.line, entry.at)
        if self.telling is None:
            self.telling = Telling(None, entry.at, entry.at, log=f"{entry.letter} {entry.chain}")
        self.last = entry.order
        self.begun = True
        self.telling.first, self.telling.last = min(self.telling.first, entry.at), max(self.telling.last, entry.at)
        if number in _STEPS:
            _STEPS[number](self, place, joblog.facts(number, entry.body))

    def interrupted(self) -> None:
        """Something is missing between the last entry and the next. What was begun may be over since."""
        self.seamless = not self.begun
        self.run = None
        self.troubled = False

    def submitted(self, place: Place, facts: dict[str, str]) -> None:
        assert self.telling is not None
        self.telling.submitted = place.at
        self.telling.address = facts.get("host", "").partition("?")[0]
        self.telling.said.append(place.measures("submitted", place.at))

    def executing(self, place: Place, facts: dict[str, str]) -> None:
        assert self.telling is not None
        self.starts += 1
        self.troubled = False
        self.run = Run(began=place.at)
        self.telling.runs.append(self.run)
        self.run.said.append(place.measures("began", place.at))
        if facts.get("slot"):
            self.run.said.append(place.says("slot", facts["slot"]))

    def trouble(self, place: Place, facts: dict[str, str]) -> None:
        """After it the run's end, and what it used, is told by no entry that can be trusted to the second."""
        self.troubled = True

    def over(self, place: Place, facts: dict[str, str]) -> None:
        """An entry 004 or 005: the end of a run."""
        assert self.telling is not None
        run = self.run
        self.run = None
        if run is None:  # a log that begins in the middle, or a job that was placed but never began
            run = Run()
        if not self.troubled:
            run.stopped = place.at
            run.said.append(place.measures("stopped", place.at))
            for fact, name in (("run_user_cpu", "user_cpu"), ("run_system_cpu", "system_cpu")):
                if name in facts and run.began is not None:
                    used = int(facts[name])
                    run.said.append(place.measures(fact, used))
        if run.began is None:
            if "code" in facts or "signal" in facts:
                run.stopped = place.at
                self.telling.runs.append(run)
        elif run.stopped is not None:
            self.wall += max(0, place.at - run.began)
            self.runs += 1
        for word in ("code", "signal"):
            if word in facts and facts["words"].startswith("Job terminated"):
                run.said.append(place.says("exit", f"{word} {facts[word]}"))

    def completed(self, place: Place, facts: dict[str, str]) -> None:
        self.over(place, facts)
        self.closing = ("completed", place, facts)

    def removed(self, place: Place, facts: dict[str, str]) -> None:
        self.run = None
        self.closing = ("removed", place, facts)

    def held(self, place: Place, facts: dict[str, str]) -> None:
        self.holds.append(place.says("hold", facts.get("code", "0"), len(self.holds) + 1))

    def told(self) -> Telling | None:
        telling = self.telling
        if telling is None or self.place is None:
            return None
        seamless = telling.submitted is not None and self.seamless
        more = None if seamless and self.closing is not None else ANY
        place = self.place
        for fact, count in (("starts", self.starts), ("holds", len(self.holds))):
            telling.said.append(place.measures(fact, count, more=more))
        if self.runs:
            telling.said.append(place.measures("wall", self.wall, less=NEAR * self.runs))
        if seamless:
            telling.said += self.holds
        if self.closing is not None:
            self._closed(telling, *self.closing)
        return telling

    def _closed(self, telling: Telling, became: str, place: Place, facts: dict[str, str]) -> None:
        telling.said.append(place.says("became", became))
        less = LEASE if became == "removed" else None
        telling.said.append(place.measures("ended", place.at, less=less))
        for fact, name in (("user_cpu", "total_user_cpu"), ("system_cpu", "total_system_cpu")):
            if name in facts:
                used = int(facts[name])
                telling.said.append(place.measures(fact, used))


_STEPS = {
    0: _Log.submitted,
    1: _Log.executing,
    4: _Log.over,
    5: _Log.completed,
    7: _Log.trouble,
    9: _Log.removed,
    12: _Log.held,
    21: _Log.trouble,
    22: _Log.trouble,
    23: _Log.trouble,
    24: _Log.trouble,
}
ENTRIES: Final = frozenset(_STEPS)
"""The numbers of the entries that state a fact."""
