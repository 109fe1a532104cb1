"""Views of the pool: slots, machines, users, groups, cycles, and the ads of a collector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, Struct

from ...domain.state.caches import ad_from_attributes
from ...replay.listing.members import as_dict, members
from ..machine.local_time import local_time
from .ads import (
    AdsQuery,
    Projection,
    as_json,
    condition_of,
    decode_cursor,
    encode_cursor,
    names_of,
    page_of,
)
from .endpoints import Ad, AtTime, Endpoint
from .jobs import context_of
from .pool_access import Call
from .problems import NotFound

if TYPE_CHECKING:
    from ...domain.classad import ClassAd
    from ..runtime.accounting_records import Record

_KINDS: Final = {
    "startd": "Machine", "startdad": "Machine", "slot": "Machine", "slots": "Machine", "machines": "Machine",
    "startdaemon": "StartD", "startdaemons": "StartD", "schedd": "Scheduler", "schedds": "Scheduler",
    "scheddad": "Scheduler", "master": "DaemonMaster", "masters": "DaemonMaster", "masterad": "DaemonMaster",
    "submitters": "Submitter", "submitterad": "Submitter", "negotiators": "Negotiator", "negotiatorad": "Negotiator",
    "collectors": "Collector", "collectorad": "Collector", "any": "", "all": "",
}  # fmt: skip
_MY_TYPES: Final = (
    "Machine", "StartD", "Scheduler", "DaemonMaster", "Submitter", "Negotiator", "Collector", "Accounting", "Defrag",
    "HAD",
)  # fmt: skip
AdType = Annotated[
    str,
    Meta(description="startd, schedd, master, submitter, negotiator, collector, all, or a MyType", examples=["startd"]),
]
Name = Annotated[str, Meta(min_length=1, max_length=1000, description="its name, such as slot1@host or ann@host")]


class TypedAdsQuery(AdsQuery, frozen=True, kw_only=True):
    type: AdType


class NamedQuery(AtTime, frozen=True, kw_only=True):
    name: Name
    projection: Projection = ""


class NamedAdQuery(NamedQuery, frozen=True, kw_only=True):
    type: AdType


class AdPage(Struct, frozen=True, omit_defaults=True):
    """Ads, sorted by type and name."""

    ads: list[Ad]
    total_returned: int
    has_more: bool
    next_page_token: Annotated[str, Meta(description="present if there are more: page_token of the next page")] = ""


class Records(Struct, frozen=True):
    """The accountant's records: HTCondor's attributes by name."""

    records: list[dict[str, Any]]


class Claim(Struct, frozen=True):
    """A slot that a user has."""

    slot: str
    since: Annotated[int, Meta(description="in microseconds")]


class UserRecord(Struct, frozen=True):
    """A user's record, and the slots that the user has."""

    record: dict[str, Any]
    claims: Annotated[list[Claim], Meta(description="the slots that the user has")]


class ClaimUsage(Struct, frozen=True):
    """The usage of ended claims."""

    usage: Annotated[dict[str, float], Meta(description="by submitter, in seconds of a slot of weight 1")]


class Cycle(Struct, frozen=True):
    """A negotiation cycle."""

    position: Annotated[int, Meta(description="the position of its event in the log")]
    at: Annotated[int, Meta(description="in microseconds")]
    statistics: Annotated[dict[str, float], Meta(description="LastNegotiationCycle attributes, without this prefix")]


class Cycles(Struct, frozen=True):
    """Negotiation cycles."""

    cycles: Annotated[list[Cycle], Meta(description="the latest first")]


class CycleEvents(Struct, frozen=True):
    """The decisions of a negotiation cycle."""

    position: int
    members: Annotated[list[dict[str, Any]], Meta(description="its matches and rejections, as in GET /log")]


class CycleQuery(AtTime, frozen=True, kw_only=True):
    position: Annotated[int, Meta(ge=1, le=2**62, description="the position of its event in the log")]


class CyclesQuery(AtTime, frozen=True, kw_only=True):
    negotiator: Annotated[str, Meta(description="the negotiator, if there are several")] = ""


def _key(ad: ClassAd) -> tuple[str, str]:
    return str(ad.eval("MyType")), str(ad.eval("Name"))


def _page(call: Call, query: AdsQuery, ads: Iterable[ClassAd]) -> AdPage:
    after = decode_cursor(query.page_token, tuple[str, str]) or ("", "")
    condition = condition_of(query.constraint, context_of(call))
    later = (ad for ad in sorted(ads, key=_key) if _key(ad) > after)
    page = page_of(later, query.limit, condition, query.projection)
    token = "" if page.more is None else encode_cursor(*_key(page.more))
    return AdPage(page.ads, len(page.ads), page.more is not None, token)


def _ads(call: Call, kind: str) -> Iterator[ClassAd]:
    return call.queries.ads(kind, call.now, local_time())


def _named(ads: Iterable[ClassAd], query: NamedQuery, what: str) -> Ad:
    ad = next((ad for ad in ads if ad.eval("Name") == query.name), None)
    if ad is None:
        raise NotFound(f"the pool has no {what} {query.name[:200]!r}; names are case-sensitive, such as slot1@host")
    return as_json([ad], names_of(query.projection))[0]


def _kind(type: str) -> str:
    by_name = {**{name.lower(): name for name in _MY_TYPES}, **_KINDS}
    kind = by_name.get(type.lower())
    if kind is None:
        raise ValueError(f"type: {type[:80]!r} is not a type of ads; use one of {', '.join(_MY_TYPES)} or all")
    return kind


def ads_of_type(call: Call, type: str) -> Iterator[ClassAd]:
    """Return the ads of a type. Raise `ValueError` if it is unknown."""
    return _ads(call, _kind(type))


def list_slots(call: Call, query: AdsQuery) -> AdPage:
    """Return the ads of the slots."""
    return _page(call, query, _ads(call, "Machine"))


def get_slot(call: Call, query: NamedQuery) -> Ad:
    """Return the ad of a slot."""
    return _named(_ads(call, "Machine"), query, "slot")


def list_machines(call: Call, query: AdsQuery) -> AdPage:
    """Return the ads of the execution points: one for each machine."""
    return _page(call, query, _ads(call, "StartD"))


def get_machine(call: Call, query: NamedQuery) -> Ad:
    """Return the ad of a machine, with all attributes that its configuration gives it."""
    machines = call.queries.views.machines()
    if query.name not in machines:
        raise NotFound(f"the pool has no machine {query.name[:200]!r}; GET /machines lists the machines")
    return as_json([ad_from_attributes(machines[query.name])], names_of(query.projection))[0]


def list_collector_ads(call: Call, query: AdsQuery) -> AdPage:
    """Return the slots' ads, as a collector would."""
    return list_slots(call, query)


def list_typed_ads(call: Call, query: TypedAdsQuery) -> AdPage:
    """Return the ads of a type, as a collector would."""
    return _page(call, query, ads_of_type(call, query.type))


def get_typed_ad(call: Call, query: NamedAdQuery) -> Ad:
    """Return the ad with a type and name, as a collector would."""
    return _named(ads_of_type(call, query.type), query, "ad")


def _records(call: Call, negotiator: str = "") -> list[Record]:
    named = call.queries.negotiator(negotiator) if negotiator else ""
    return call.queries.accounting(call.now, negotiator=named).records


def list_users(call: Call, query: CyclesQuery) -> Records:
    """Return the accountant's record of each user: priority, factor, usage and share."""
    return Records([dict(record) for record in _records(call, query.negotiator) if not record.get("IsAccountingGroup")])


def get_user(call: Call, query: NamedQuery) -> UserRecord:
    """Return the accountant's record of a user, and the slots that the user has."""
    for record in _records(call):
        if record.get("Name") == query.name and not record.get("IsAccountingGroup"):
            claims = () if call.queries.imported else call.queries.claims_of(query.name)
            return UserRecord(dict(record), [Claim(*claim) for claim in claims])
    raise NotFound(f"the accountant knows no user {query.name[:200]!r}; GET /users lists the users")


def get_usage(call: Call) -> ClaimUsage:
    """Return the weighted usage of ended claims by submitter."""
    return ClaimUsage(call.queries.usage_of_claims())


def list_groups(call: Call, query: CyclesQuery) -> Records:
    """Return the accountant's record of each accounting group."""
    return Records([dict(record) for record in _records(call, query.negotiator) if record.get("IsAccountingGroup")])


def list_cycles(call: Call, query: CyclesQuery) -> Cycles:
    """Return the last negotiation cycles with a decision."""
    return Cycles([Cycle(*row) for row in call.queries.views.cycles(query.negotiator)])


def get_cycle(call: Call, query: CycleQuery) -> CycleEvents:
    """Return the matches and rejections of a negotiation cycle, by the position of its event."""
    from ...domain.events import CycleHeld

    for position, event in call.queries.log.read(query.position - 1, 1):
        if isinstance(event, CycleHeld):
            return CycleEvents(position, [as_dict(member) for member in members(position, event)])
    raise NotFound(f"the event at position {query.position} is not a negotiation cycle; GET /cycles lists some")


ENDPOINTS: Final = (
    Endpoint("GET", "/slots", list_slots, is_live=True),
    Endpoint("GET", "/slots/{name:path}", get_slot, is_live=True),
    Endpoint("GET", "/machines", list_machines, is_live=True),
    Endpoint("GET", "/machines/{name:path}", get_machine),
    Endpoint("GET", "/collector/ads", list_collector_ads, is_live=True),
    Endpoint("GET", "/collector/ads/{type}", list_typed_ads, is_live=True),
    Endpoint("GET", "/collector/ads/{type}/{name:path}", get_typed_ad, is_live=True),
    Endpoint("GET", "/users", list_users, is_live=True),
    Endpoint("GET", "/users/{name:path}", get_user, is_live=True),
    Endpoint("GET", "/usage", get_usage),
    Endpoint("GET", "/groups", list_groups, is_live=True),
    Endpoint("GET", "/cycles", list_cycles),
    Endpoint("GET", "/cycles/{position}", get_cycle),
)
