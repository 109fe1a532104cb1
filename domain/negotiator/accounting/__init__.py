"""The submitters' shares: real and effective user priorities, usage, floors and ceilings.

A submitter's *real* priority is a smoothed average of the number of cores it used recently. The *effective* priority is
the real priority times the submitter's factor; the lower it is, the larger the submitter's share. Source: the manual,
"User Priorities and Negotiation", with the formula of "Priority Calculation"; HTCondor's source for the default factor.

Only this module computes real priorities. It uses scalar arithmetic and rounds to 12 significant digits, so that every
machine computes the same value as the event contains.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from ...names import AccountName
from ...state.accounting_groups import NO_GROUP, find_group, group_names, group_of, innermost_group
from ...state.negotiators import negotiator_settings
from ...units import SECOND

if TYPE_CHECKING:  # lets short commands read priorities without loading a pool's state
    from ...state.records import Submitter
    from ...state.state import Manager

LEAST_PRIORITY: Final = 0.5
"""The best real priority, with which every submitter starts."""
LEAST_FACTOR: Final = 1.0
"""The smallest factor. HTCondor ignores factors below it."""
_THOUSANDTHS: Final = 1000
Record = TypeVar("Record")
NICE: Final = "nice-user"


class AccountantSettings(NamedTuple):
    """The accountant's settings."""

    halflife: float  #: in microseconds
    default: float
    nice: float
    remote: float
    local_domain: str
    groups: Mapping[str, float]  #: GROUP_PRIO_FACTOR_<name>, by lower-case group name
    known: frozenset[str] = frozenset()  #: the groups in GROUP_NAMES, in lower case


class SubmitterAccount(Protocol):
    """The part of a submitter's record (``state.Submitter``) that determines its share."""

    @property
    def name(self) -> str: ...
    @property
    def priority(self) -> float: ...
    @property
    def updated(self) -> int: ...
    @property
    def factor(self) -> float: ...
    @property
    def floor(self) -> float: ...
    @property
    def ceiling(self) -> float: ...
    @property
    def leases(self) -> Mapping[str, tuple[float, int]]: ...
    @property
    def appeared_under(self) -> Mapping[str, str] | None: ...


def accountant_settings(settings: Mapping[str, str]) -> AccountantSettings:
    """Return the accountant's settings from a pool's settings (``domain/state/pool_settings.py``)."""
    prefix = "GROUP_PRIO_FACTOR_"
    groups = {name[len(prefix) :].lower(): float(text) for name, text in settings.items() if name.startswith(prefix)}
    return AccountantSettings(
        float(settings.get("PRIORITY_HALFLIFE") or 86400) * SECOND,
        float(settings.get("DEFAULT_PRIO_FACTOR") or 1000),
        float(settings.get("NICE_USER_PRIO_FACTOR") or 1e10),
        float(settings.get("REMOTE_PRIO_FACTOR") or 1e7),
        settings.get("ACCOUNTANT_LOCAL_DOMAIN", ""),
        groups,
        frozenset(name.lower() for name in group_names(settings)),
    )


def rounded(value: float) -> float:
    """Round to 12 significant digits."""
    return float(f"{value:.12g}")


def smoothed_priority(priority: float, used: float, passed: float, halflife: float) -> float:
    """Return the real priority after a period in which the submitter used ``used`` cores on average. This is the
    manual's formula; the result is not rounded.

    :param passed: the length of the period, in the unit of ``halflife``
    """
    beta: float = 0.5 ** (passed / halflife)
    return max(LEAST_PRIORITY, beta * priority + (1 - beta) * used)


def priority_at(submitter: Submitter, accounted: int, now: int, halflife: float) -> float:
    """Return a submitter's real priority at the time ``now``.

    If the last updates left the submitter out, it used nothing after its own last update, so its priority decayed.

    :param accounted: when the pool last updated priorities, in microseconds
    """
    if submitter.priority == LEAST_PRIORITY and submitter.usage_until(now) == submitter.usage_accounted:
        return LEAST_PRIORITY  # the best priority cannot improve
    since = max(submitter.updated, accounted)
    before = decayed_priority(submitter, since, halflife)
    if now <= since:
        return rounded(before)
    used = (submitter.usage_until(now) - submitter.usage_accounted) / (now - since) / _THOUSANDTHS
    return rounded(smoothed_priority(before, used, now - since, halflife))


def decayed_priority(submitter: SubmitterAccount, at: int, halflife: float) -> float:
    """Return the real priority of a submitter that has used nothing since its last update, decayed until ``at``."""
    return smoothed_priority(submitter.priority, 0.0, max(0, at - submitter.updated), halflife)


def _lease_value(submitter: SubmitterAccount, name: str, now: int) -> float | None:
    lease = submitter.leases.get(name)
    return lease[0] if lease is not None and now < lease[1] else None


def priority_factor(submitter: SubmitterAccount, rules: AccountantSettings, now: int) -> float:
    """Return the priority factor in force: the leased one, the submitter's own, or that of a new submitter."""
    leased = _lease_value(submitter, "factor", now)
    if leased is not None:
        return leased
    if submitter.factor >= LEAST_FACTOR:
        return submitter.factor
    settings = rules if submitter.appeared_under is None else _parsed_settings(submitter.appeared_under)
    return initial_factor(submitter.name, settings)


def initial_factor(name: str, rules: AccountantSettings) -> float:
    """Return a new submitter's priority factor: the one for nice users, for its accounting group, or for users from
    other domains, or else the default. The factor is recorded once, so later configuration changes do not affect it
    (the manual: "the default initial priority factor for all new users"; HTCondor stores it)."""
    if name.startswith(NICE):
        return rules.nice
    group = group_of(name).lower()
    if rules.known:
        group = innermost_group(group, rules.known) or NO_GROUP
    if group in rules.groups:
        return rules.groups[group]
    if rules.local_domain and name.rpartition("@")[2] != rules.local_domain:
        return rules.remote
    return rules.default


def first_factor(state: Manager, name: str, negotiator: str = "") -> float:
    """Return the initial factor for the event that first names a submitter, or 0 if the submitter already has a record.

    :param negotiator: the negotiator with the account; empty: NEGOTIATOR
    """
    known = str(AccountName(negotiator, name)) in state.submitters
    return 0.0 if known else initial_factor(name, accountant_settings_of(state.settings, negotiator))


class _Terms:
    """The most recently parsed settings, because many submitters have the same settings."""

    settings: Mapping[str, str] | None = None
    terms: AccountantSettings


def _parsed_settings(settings: Mapping[str, str]) -> AccountantSettings:
    if _Terms.settings is not settings:
        _Terms.settings, _Terms.terms = settings, accountant_settings(settings)
    return _Terms.terms


def accountant_settings_of(settings: Mapping[str, str], negotiator: str) -> AccountantSettings:
    """Return the accountant's settings of a negotiator; empty: NEGOTIATOR."""
    return _parsed_settings(negotiator_settings(settings, negotiator))


def accounts_of(submitters: Mapping[str, Record], negotiator: str = "") -> dict[str, Record]:
    """Return the accounts of one negotiator, by submitter; empty: NEGOTIATOR."""
    named = ((AccountName.parse(account), record) for account, record in submitters.items())
    return {name.submitter: record for name, record in named if name.negotiator == negotiator}


def floor(submitter: SubmitterAccount, now: int) -> float:
    """Return the cores that the submitter receives before the pie is divided, or 0 for no floor."""
    leased = _lease_value(submitter, "floor", now)
    return submitter.floor if leased is None else leased


def ceiling(submitter: SubmitterAccount, now: int) -> float:
    """Return the maximum number of cores for the submitter, or -1 for no ceiling."""
    leased = _lease_value(submitter, "ceiling", now)
    return submitter.ceiling if leased is None else leased


# Submitters as shown in reports


class AccountantRecord(SubmitterAccount, Protocol):
    """A submitter's record with its usage (``state.Submitter`` explains the fields)."""

    @property
    def weighted_in_use(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def counted_until(self) -> int: ...
    @property
    def weighted_usage(self) -> int: ...
    @property
    def unweighted_usage(self) -> int: ...
    @property
    def usage_accounted(self) -> int: ...
    @property
    def first_used(self) -> int: ...
    @property
    def last_used(self) -> int: ...


class Standing(NamedTuple):
    """The priority and usage of a submitter. Durations are in seconds, times in seconds since the epoch.

    >>> [alice] = pool.submitters()
    >>> alice.name, alice.slots, alice.effective
    ('alice@example.org', 4, 500.0)
    """

    name: str
    group: str  #: the accounting group; ``NO_GROUP`` for none
    priority: float  #: the real priority
    factor: float  #: the priority factor in force
    floor: float  #: the floor in force, or 0 for none
    ceiling: float  #: the ceiling in force, or -1 for none
    slots: int  #: the number of slots in use
    cores: float  #: the weight of these slots
    used: float  #: weighted time during which it had slots, since ``begin``
    held: float  #: unweighted time
    begin: float  #: when it first had a slot, or 0 if never
    last: float  #: when it last had a slot

    @property
    def effective(self) -> float:
        """Return the effective priority; a lower value means a larger share."""
        return self.priority * self.factor


def standings(
    books: Iterable[AccountantRecord],
    rules: AccountantSettings,
    groups: Sequence[str],
    accounted: int,
    at: int,
    now: int,
    aged_until: int = 0,
) -> list[Standing]:
    """Return the standings of submitters, sorted by name.

    :param groups: the names of the existing accounting groups
    :param accounted: when the priorities were last updated; they are shown as of that time
    :param at: the time until which slot usage is counted
    :param now: the time at which leases of factors, floors and ceilings must be in force
    :param aged_until: if later, the time until which the priority of a submitter without slots is shown as decayed;
        slot usage is included at the next update
    """
    known = {group.lower(): group for group in groups}
    ordered = sorted(books, key=lambda book: book.name)
    return [_standing(book, rules, find_group(book.name, known), accounted, at, now, aged_until) for book in ordered]


def _standing(
    book: AccountantRecord, rules: AccountantSettings, group: str, accounted: int, at: int, now: int, aged_until: int
) -> Standing:
    at = max(at, book.counted_until)
    return Standing(
        book.name,
        group,
        _shown(book, max(accounted, book.updated), aged_until, rules.halflife),
        priority_factor(book, rules, now),
        floor(book, now),
        ceiling(book, now),
        book.slots,
        book.weighted_in_use / _THOUSANDTHS,
        (book.weighted_usage + (at - book.counted_until) * book.weighted_in_use) / _THOUSANDTHS / SECOND,
        (book.unweighted_usage + (at - book.counted_until) * book.slots) / SECOND,
        book.first_used / SECOND,
        (max(book.last_used, at) if book.slots else book.last_used) / SECOND,
    )


def _shown(book: AccountantRecord, since: int, until: int, halflife: float) -> float:
    before = decayed_priority(book, since, halflife)
    if book.slots or until <= since:
        return rounded(before)
    used = (book.weighted_usage - book.usage_accounted) / (until - since) / _THOUSANDTHS
    return rounded(smoothed_priority(before, used, until - since, halflife))


def shares(standings: Iterable[Standing], taking_part: Container[str]) -> dict[str, float]:
    """Return each participating submitter's share of the pie, which is inverse to its effective priority."""
    inverse = {standing.name: 1 / standing.effective for standing in standings if standing.name in taking_part}
    total = sum(inverse.values())
    return {name: part / total for name, part in inverse.items()}
