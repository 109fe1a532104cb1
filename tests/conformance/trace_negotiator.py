"""Read the negotiator's side of a golden trace: cycles, the accountant's log, settings and samples.

From the NegotiatorLog: the instants of the accounting ("Phase 2"), the submitters asked and the jobs offered, the
matches, and the settings logged at start and reconfiguration. From Accountantnew.log: the slots counted for each
submitter in each cycle, and the first state of the accounts. From the samples: condor_userprio -l.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from math import isfinite, isnan, nan
from typing import Final

from attrs import Factory, define, evolve

from poolbook.adapters.condor_files.daemon_log import DAEMON_LIFE_MESSAGES, LogMessage, MessageRows, rules_by_first_word
from poolbook.adapters.condor_files.daemon_table_reader import TableReader
from poolbook.adapters.condor_files.negotiatorlog import (
    ALL_SUBMITTERS,
    CYCLE_MESSAGES,
    MATCH_MESSAGES,
    USERPRIO_MESSAGES,
    MatchLogReader,
    NegotiatorLogReader,
)
from poolbook.domain.events import (
    Ad,
    Event,
    PoolConfigured,
    SourceGap,
    SubmitterDeleted,
    SubmitterSet,
    SubmittersReset,
    TableWritten,
)
from poolbook.domain.imported.record_sources import BEGIN_TRANSACTION, SET_ATTRIBUTE
from poolbook.domain.state.job_ad import unquoted
from poolbook.domain.state.pool_settings import NEGOTIATOR
from poolbook.replay.why.match_runs import preempted_submitter

from .recording import (
    CountedClaim,
    KnownAccount,
    RecordedAccounting,
    RecordedCycle,
    RecordedMatch,
    UserprioSample,
    clock,
)
from .trace_files import SECOND, TraceFiles, ended, source

LOG: Final = "NegotiatorLog"
MATCH_LOG: Final = "MatchLog"
ADMINISTRATOR: Final = "root"
_SET: Final = {
    "priority factor": "factor", "priority": "priority", "ceiling": "ceiling", "floor": "floor",
    "accumulated usage": "usage", "begin usage time": "begin", "last usage time": "last",
}  # fmt: skip
"""The log's name of a submitter's setting -> ours."""
_LIMITED: Final = (
    r"This submitter hit its submitterLimit\.",
    r"Negotiation with (\S+) skipped .*",
    r"Reached submitter resource limit: .*",
    r"Over submitter resource limit .*",
)
"""Messages about a submitter that has jobs although none is requested, because of its share or ceiling."""
_LIST: Final = re.compile(r"autocluster (\d+) \(request count 1 of (\d+)\)")
_MORE: MessageRows = (
    (r"Phase 2: +Performing accounting \.\.\.", "_accounting"),
    (r"Leaving compute_significant_attrs\(\).*", "_accounting"),
    (r"Starting prefetch negotiation for (?P<user>\S+)\.", "_prefetching"),
    (r"Prefetch summary: (?P<tried>\d+) attempted, (?P<got>\d+) successful\.", "_prefetched"),
    (r"Negotiating with (?P<user>\S+) skipped because no idle jobs", "_skipped"),
    (r"negotiateWithGroup resources used submitterAds length 0\s*", "_done"),
    (r"group quotas: group= (?P<group>\S+)  quota= \S+  requested= (?P<requested>[-\d.e+]+) .*", "_demand"),
    *((pattern, "_limited") for pattern in _LIMITED),
    *((rf"{name} = (?P<value>.*)", "_told_setting") for name, row in NEGOTIATOR.items() if row.kind == "expression"),
)


@define
class _RequestList:
    """A list of similar jobs, as a schedd offers it: its first job, how many, and how many got a slot."""

    cluster: int
    first: int
    count: int
    matched: int = 0

    def again(self, following: _RequestList) -> int:
        """Return how many jobs of this list that got a slot are in the next list."""
        if following.cluster != self.cluster:
            return 0
        more = following.count - (self.count - self.matched)
        return max(0, min(more, self.first + self.matched - following.first))


@define
class _Cycle:
    """A cycle that is being read. ``at`` is 0 until its accounting; ``asked`` is False for a submitter without a job to
    offer."""

    at: int = 0
    after: int = 0
    until: int = 0
    matches: list[RecordedMatch] = Factory(list)
    asked: dict[str, bool | None] = Factory(dict)
    requested: set[str] = Factory(set)
    usage: dict[str, float] = Factory(dict)
    effective: dict[str, float] = Factory(dict)
    whole: bool = False
    ended: int = 0
    doubts: list[str] = Factory(list)
    refused: dict[str, set[str]] = Factory(lambda: defaultdict(set))
    demand: dict[str, float] = Factory(dict)
    lists: dict[tuple[str, str], _RequestList] = Factory(dict)
    again: Counter[int] = Factory(Counter)

    def happened(self) -> RecordedCycle:
        return RecordedCycle(
            self.at, tuple(self.matches), tuple(self.asked), frozenset(self.requested), self.usage, self.effective,
            self.whole, self.after, self.until, self.ended, tuple(self.doubts),
            {user: frozenset(reasons) for user, reasons in self.refused.items()}, dict(self.again), self.demand,
        )  # fmt: skip


class CycleReader(NegotiatorLogReader):
    """Reads a NegotiatorLog for a trace. ``lost`` counts cycles without an accounting: their beginning was cut out, or
    they were aborted before it. ``reconfigured``: the instants at which it read its configuration again."""

    PATTERNS = rules_by_first_word(DAEMON_LIFE_MESSAGES, CYCLE_MESSAGES, USERPRIO_MESSAGES, MATCH_MESSAGES, _MORE)

    def __init__(self, data: bytes) -> None:
        super().__init__(source(LOG, "negotiatorlog"), None, 0)
        self._all: list[_Cycle] = []
        self._cut = True
        self._said = 0
        self.settings: list[Event] = []
        self.reconfigured: list[int] = []
        self.read(ended(data))

    @property
    def cycles(self) -> tuple[RecordedCycle, ...]:
        return tuple(cycle.happened() for cycle in self._all if cycle.at)

    @property
    def lost(self) -> int:
        return sum(1 for cycle in self._all if not cycle.at)

    def _forget_state(self) -> None:
        """Drop the state: lines are missing, or another negotiator starts."""
        super()._forget_state()
        self._cut = True

    def _examine_line(self, line: int, at: int, text: str) -> None:
        super()._examine_line(line, at, text)
        if at < self._said and "cycle" in self._remembered:
            self._now.doubts.append(f"the log goes back from {clock(self._said)} to {clock(at)}")
        self._said = at
        if self._all and self._all[-1].at and not self._all[-1].until:
            self._all[-1].until = at
        if self._cut and self._all and text.strip() and not text.startswith("**"):
            self._all.append(_Cycle())  # another cycle's lines, without its beginning
            self._cut = False

    @property
    def _now(self) -> _Cycle:
        """The cycle that is being read."""
        if not self._all:
            self._all.append(_Cycle())
        return self._all[-1]

    def _on_cycle_start(self, message: LogMessage) -> None:
        super()._on_cycle_start(message)
        before = self._all[-1].at if self._all and not self._cut else 0
        self._all.append(_Cycle(after=before))
        self._cut = False

    def _accounting(self, message: LogMessage) -> None:
        """Set the cycle's instant: priorities are updated after the last of these lines."""
        self._now.at, self._now.until = message.at, 0

    def _on_cycle_end(self, message: LogMessage) -> None:
        self._now.ended = message.at
        self._now.whole = "cycle" in self._remembered and not message.report_name
        self._now.asked = {user: None for user, has_jobs in self._now.asked.items() if has_jobs is not False}
        super()._on_cycle_end(message)

    def _prefetching(self, message: LogMessage) -> None:
        self._now.asked.setdefault(message["user"])

    def _prefetched(self, message: LogMessage) -> None:
        """Keep only the submitters with whom the cycle negotiates, if some access points did not answer."""
        if message["tried"] != message["got"]:
            self._now.asked = {user: has_jobs for user, has_jobs in self._now.asked.items() if has_jobs}

    def _skipped(self, message: LogMessage) -> None:
        """Drop a submitter whose ad has no idle jobs, despite the access point's last message."""
        self._now.asked.pop(message["user"], None)

    def _done(self, message: LogMessage) -> None:
        """No submitter has any jobs left: those that were only prefetched offered nothing, though a usual log does not
        report that they were skipped. Without a share or a slot they would remain."""
        self._now.asked = {user: has_jobs or False for user, has_jobs in self._now.asked.items()}

    def _on_submitter(self, message: LogMessage) -> None:
        super()._on_submitter(message)
        if not self._now.asked.get(message["user"]):  # offered nothing, unless a later line says otherwise
            self._now.asked[message["user"]] = False

    def _limited(self, message: LogMessage) -> None:
        if "user" in self._remembered:
            self._now.asked[self._remembered["user"]] = True
            self._now.refused[self._remembered["user"]].add(message.match[0].strip())

    def _demand(self, message: LogMessage) -> None:
        """Take a group's request in the first round from its submitters' ads: some are seconds old."""
        self._now.demand.setdefault(message["group"], float(message["requested"]))

    def _on_request(self, message: LogMessage) -> None:
        super()._on_request(message)
        self._now.requested.add(self._remembered["job"])
        if "user" not in self._remembered:
            return
        user = self._remembered["user"]
        self._now.asked[user] = True
        if match := _LIST.search(message.match[0]):
            request_list = _RequestList(int(message["cluster"]), int(message["proc"]), int(match[2]))
            before = self._now.lists.get((user, match[1]))
            self._now.again[request_list.cluster] += 0 if before is None else before.again(request_list)
            self._now.lists[user, match[1]] = request_list
            self._remembered["list"] = [user, match[1]]

    def report_job(self, message: LogMessage, what: str, facts: dict[str, str], job: str = "") -> None:
        super().report_job(message, what, facts, job)
        if what == "matched":
            user, slot = facts["user"], facts["slot"]
            match = RecordedMatch(message.at, user, slot, preempted_submitter(facts), job or message["job"])
            self._now.matches.append(match)
            self._doubt(match)
            if (list_id := tuple(self._remembered.get("list", ()))) in self._now.lists:
                self._now.lists[list_id].matched += 1
        elif what == "rejected":
            self._now.refused[facts["user"]].add(facts["words"])

    def _doubt(self, match: RecordedMatch) -> None:
        """Note contradictions in the lines before a match: the submitter in negotiation, and the job."""
        user, job = (self._remembered.get(name, "none") for name in ("user", "job"))
        if "cycle" not in self._remembered:
            self._now.doubts.append(f"{match.slot} was matched outside of a cycle")
        elif user != match.submitter:
            self._now.doubts.append(f"{match.slot} was matched for {match.submitter} while it negotiated with {user}")
        elif job != match.job:
            self._now.doubts.append(f"{match.slot} was matched for job {match.job} although {job} was requested")

    def _report_submitter(self, at: int, line: int, user: str, what: str, facts: dict[str, str]) -> None:
        if what == "slice":
            for name, numbers in (("submitterUsage", self._now.usage), ("SubmitterPrio", self._now.effective)):
                if name in facts:
                    numbers.setdefault(user, float(facts[name]))
        elif what == "set":
            self.settings.append(_set(self._from(at), user, facts["what"], facts["value"]))

    def _from(self, at: int) -> int:
        """Return the instant of a setting: after an accounting of the same second it counts from the next cycle on."""
        in_same_second = bool(self._all) and self._all[-1].at == at
        return at + in_same_second

    def _on_reconfig(self, message: LogMessage) -> None:
        super()._on_reconfig(message)
        self.reconfigured.append(self._from(message.at))

    def _told_setting(self, message: LogMessage) -> None:
        name, _, value = message.match[0].partition(" = ")
        text = "" if value in _UNSET else value
        self.settings.append(PoolConfigured(self._from(message.at), "reconfigured", "", {name: text}))


_UNSET: Final = ("(not set)", "(null)", "None")


def _set(at: int, user: str, what: str, value: str) -> Event:
    if what == "record":
        return SubmitterDeleted(at, "granted", "", user, ADMINISTRATOR)
    if what == "usage":
        users = () if user == ALL_SUBMITTERS else (user,)
        return SubmittersReset(at, "granted", "", users, ADMINISTRATOR)
    return SubmitterSet(at, "granted", "", user, ADMINISTRATOR, _SET[what], float(value))


def negotiator(files: TraceFiles) -> CycleReader:
    """Read the folder's NegotiatorLog. Raise FileNotFoundError if it has none."""
    data = files.data(LOG)
    if data is None:
        raise FileNotFoundError(f"{files.folder}: there is no {LOG}, nor {LOG}.gz: without it no cycle is known")
    return CycleReader(data)


class _Matches(MatchLogReader):
    """Reads a MatchLog's matches."""

    def __init__(self, data: bytes) -> None:
        super().__init__(source(MATCH_LOG, "matchlog"), None, 0)
        self.matches: list[RecordedMatch] = []
        self.refused: list[tuple[int, str, str]] = []
        """The instant, the submitter and the reason of each rejection."""
        self.read(ended(data))

    def report_job(self, message: LogMessage, what: str, facts: dict[str, str], job: str = "") -> None:
        if what == "matched":
            self.matches.append(RecordedMatch(message.at, facts["user"], facts["slot"], "", message["job"]))
        elif what == "rejected":
            self.refused.append((message.at, facts["user"], facts["words"]))


def doubted(files: TraceFiles, cycles: Sequence[RecordedCycle]) -> tuple[RecordedCycle, ...]:
    """Return the cycles, each with the rejections of the MatchLog, and the matches that only one of the NegotiatorLog
    and the MatchLog has. Next to a cycle that is missing in one of them, part of a cycle may be cut out."""
    by_cycle: dict[int, Counter[tuple[str, str, str]]] = defaultdict(Counter)
    rejections: dict[int, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    instants = [cycle.at for cycle in cycles]

    def cycle_of(at: int) -> int:
        place = bisect_right(instants, at) - 1
        return instants[place] if place >= 0 and at <= cycles[place].ended else 0

    log = _Matches(files.data(MATCH_LOG) or b"")
    for match in log.matches:
        if at := cycle_of(match.at):
            by_cycle[at][match.job, match.submitter, match.slot] += 1
    for instant, user, reason in log.refused:
        rejections[cycle_of(instant)][user].add(reason)
    cycles = [evolve(cycle, refused=_joined(cycle.refused, rejections[cycle.at])) for cycle in cycles]
    matches_by_cycle = {
        cycle.at: Counter((match.job, match.submitter, match.slot) for match in cycle.matches) for cycle in cycles
    }
    matching = [at for at in instants if matches_by_cycle[at]]
    other_matches = {
        at
        for before, at, after in zip([0, *matching], matching, [*matching[1:], 0], strict=False)
        if all(not cycle or by_cycle[cycle] for cycle in (before, at, after))
    }
    return tuple(
        evolve(cycle, doubts=(*cycle.doubts, *_alone(matches_by_cycle[cycle.at], by_cycle[cycle.at])))
        if cycle.whole and cycle.at in other_matches
        else cycle
        for cycle in cycles
    )


def _joined(rejections: Mapping[str, Set[str]], others: Mapping[str, Set[str]]) -> Mapping[str, frozenset[str]]:
    return {
        user: frozenset(rejections.get(user, ())) | others.get(user, frozenset())
        for user in rejections.keys() | others.keys()
    }


def _alone(log_matches: Counter[tuple[str, str, str]], other: Counter[tuple[str, str, str]]) -> Iterator[str]:
    for name, matches in ((LOG, log_matches - other), (MATCH_LOG, other - log_matches)):
        for job, user, slot in matches:
            yield f"only the {name} has {slot} matched for {user}, job {job}"


# The accountant


class AccountReader:
    """Reads the folder's Accountantnew.log and earlier copies of it. ``began`` is the instant of the first table (0:
    none), ``known`` its accounts, ``factors`` the changes of priority factors,
    each after the update of a cycle. The first factor of an account is the configured one."""

    def __init__(self, files: TraceFiles) -> None:
        self.began = 0
        self.factors: list[Event] = []
        self.known: tuple[KnownAccount, ...] = ()
        self.counted: dict[int, RecordedAccounting] = {}
        for name in files.names("Accountantnew*.log"):
            self._read(ended(files.data(name) or b""))

    def _read(self, data: bytes) -> None:
        events, _ = TableReader(source("Accountantnew.log", "accountant"), None, 0).read(data)
        first: dict[str, Ad] = {}
        begins, now = True, _AccountingRead()
        factors: dict[str, float] = {}
        for event in events:
            if isinstance(event, SourceGap):
                now = _AccountingRead()  # a part of this cycle is missing
            if not isinstance(event, TableWritten):
                continue
            ads = _written(event)
            is_next = _updated(ads) and _updated(first)
            begins = (
                begins and not is_next and event.operations[:1] != () and event.operations[0][0] != BEGIN_TRANSACTION
            )
            if begins:
                for key, ad in ads.items():
                    first.setdefault(key, {}).update(ad)
            if at := _updated(ads):
                self._keep(now)
                now = _AccountingRead(at, now.at, earlier=now.held if now.at else [])
            now.take(ads)
            for user, factor in _numbers(ads, "PriorityFactor").items():
                if factors.setdefault(user, factor) != factor and now.at:
                    self.factors.append(_set(now.at + 1, user, "priority factor", str(factor)))
                factors[user] = factor
        self._keep(now)
        self._begins(first)

    def _keep(self, accounting: _AccountingRead) -> None:
        if accounting.at:
            previous = self.counted.get(accounting.at)
            self.counted[accounting.at] = accounting.counted(previous.after if previous else 0)

    def _begins(self, first: dict[str, Ad]) -> None:
        at = _updated(first)
        if at and (not self.began or at < self.began):
            self.began = at
            users = {key.removeprefix(_CUSTOMER): ad for key, ad in first.items() if key.startswith(_CUSTOMER)}
            self.known = tuple(_known(user, ad) for user, ad in users.items() if "@" in user)


@define
class _AccountingRead:
    """The accounting of a cycle, as far as it was read."""

    at: int = 0
    after: int = 0
    since: int = 0
    claims: list[CountedClaim] = Factory(list)
    priorities: dict[str, float] = Factory(dict)
    usage: dict[str, float] = Factory(dict)
    earlier: list[CountedClaim] = Factory(list)
    counts: bool = False
    """True if the claims were counted again. A reconfigured negotiator updates priorities by the ``earlier`` claims."""

    @property
    def held(self) -> list[CountedClaim]:
        return self.claims if self.counts or self.claims else self.earlier

    def take(self, ads: Mapping[str, Ad]) -> None:
        self.counts |= any("ResourcesUsed" in ad for key, ad in ads.items() if key.startswith(_CUSTOMER))
        for claim, since in _claims(ads):
            self.claims.append(claim)
            self.since = min(self.since or since, since)
        self.priorities |= _numbers(ads, "Priority")
        self.usage |= _numbers(ads, "WeightedAccumulatedUsage")

    def counted(self, after: int) -> RecordedAccounting:
        return RecordedAccounting(
            self.at, tuple(self.held), self.priorities, self.usage, self.after or after, self.since
        )


_CUSTOMER: Final = "Customer."
_RESOURCE: Final = "Resource."


def _written(event: TableWritten) -> dict[str, Ad]:
    """Return what a transaction sets, by ad key."""
    ads: dict[str, Ad] = {}
    for operation, key, name, text in event.operations:
        if operation == SET_ATTRIBUTE:
            ads.setdefault(key, {})[name] = text
    return ads


def _number(ad: Ad, name: str, otherwise: float) -> float:
    """Return a number of the table; `otherwise` if it is missing or damaged."""
    with suppress(ValueError):
        value = float(ad.get(name, otherwise))
        if isfinite(value):
            return value
    return otherwise


def _updated(ads: Mapping[str, Ad]) -> int:
    """Return the instant at which the priorities were updated, or 0."""
    return int(_number(ads.get("Accountant.", {}), "LastUpdateTime", 0)) * SECOND


def _claims(ads: Mapping[str, Ad]) -> Iterator[tuple[CountedClaim, int]]:
    """Yield each counted claim, and the instant from which it counts."""
    for key, ad in ads.items():
        if key.startswith(_RESOURCE) and "RemoteUser" in ad:
            slot = key.removeprefix(_RESOURCE).partition("@<")[0]
            claim = CountedClaim(slot, unquoted(ad["RemoteUser"]), round(_number(ad, "SlotWeight", 1) * 1000))
            yield claim, int(_number(ad, "StartTime", 0)) * SECOND


def _numbers(ads: Mapping[str, Ad], name: str) -> dict[str, float]:
    numbers = {
        key.removeprefix(_CUSTOMER): _number(ad, name, nan)
        for key, ad in ads.items()
        if key.startswith(_CUSTOMER) and name in ad and "@" in key
    }
    return {key: number for key, number in numbers.items() if not isnan(number)}


def _known(user: str, ad: Ad) -> KnownAccount:
    return KnownAccount(
        user,
        _number(ad, "Priority", 0.5),
        _number(ad, "PriorityFactor", 0),
        _number(ad, "WeightedAccumulatedUsage", 0),
    )


# Samples


def samples(files: TraceFiles) -> Iterator[UserprioSample]:
    """Yield the samples of condor_userprio -l in the order of the files, without accounting groups."""
    for file_name in files.names("userprio-*.txt"):
        for ad in files.ads(file_name):
            if ad.get("IsAccountingGroup", "true").lower() == "true" or "LastUpdate" not in ad:
                continue
            with suppress(ValueError, KeyError):
                yield UserprioSample(
                    int(ad["LastUpdate"]) * SECOND,
                    file_name,
                    unquoted(ad["Name"]),
                    float(ad["Priority"]),
                    float(ad["PriorityFactor"]),
                    float(ad.get("WeightedAccumulatedUsage", "0")),
                )
