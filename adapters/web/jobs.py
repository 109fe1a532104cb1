"""Jobs: queries and edits, at the same paths and with the same members as in golang-htcondor's HTTP service."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, Struct

from ...domain.classad import Context
from ...domain.state.pool_settings import super_users
from ..https.requests import Rejected
from ..machine.local_time import local_time
from .ads import (
    AdsQuery,
    Constraint,
    IdCursor,
    Projection,
    as_json,
    condition_of,
    decode_cursor,
    encode_cursor,
    names_of,
    page_of,
)
from .commands import job_results
from .endpoints import WRITE, Ad, AtTime, Endpoint
from .job_actions import ENDPOINTS as ACTIONS
from .job_actions import Bulk, Job, JobId, check_result, parse_id
from .pool_access import Call
from .problems import NotFound

if TYPE_CHECKING:
    from ...domain.classad import ClassAd


class JobQuery(AtTime, frozen=True, kw_only=True):
    id: JobId
    projection: Projection = ""


class JobsQuery(AdsQuery, frozen=True, kw_only=True):
    owned_by_me: Annotated[bool, Meta(description="only the caller's jobs, if the caller is authenticated")] = True


class JobPage(Struct, frozen=True, omit_defaults=True):
    """Jobs in the queue, sorted by id. A page may have fewer jobs than the limit, although there are more."""

    jobs: list[Ad]
    total_returned: int
    has_more: bool
    next_page_token: Annotated[str, Meta(description="present if there are more: page_token of the next page")] = ""


def context_of(call: Call) -> Context:
    """Return the context in which constraints are evaluated."""
    return Context(now=call.now, timezone=local_time())


def list_jobs(call: Call, query: JobsQuery) -> JobPage:
    """Return jobs in the queue, in pages.

    The order is that of job ids, so jobs that enter or leave the queue between two pages do not move the others.
    """
    after = decode_cursor(query.page_token, IdCursor) or (0, -1)
    owners = [call.caller.user] if query.owned_by_me and call.caller.user else []
    condition = condition_of(query.constraint, context_of(call))
    page = page_of(call.queries.queue_after(after, owners), query.limit, condition, query.projection)
    return JobPage(page.ads, len(page.ads), page.more is not None, "" if page.more is None else _token(page.more))


def _token(ad: ClassAd) -> str:
    return encode_cursor(int(ad.eval("ClusterId")), int(ad.eval("ProcId")))


def get_job(call: Call, query: JobQuery) -> Ad:
    """Return the ad of a job in the queue or, if it has left the queue, in the history."""
    return as_json([find_job(call, query.id)], names_of(query.projection))[0]


def find_job(call: Call, id: str) -> ClassAd:
    """Return the ad of a job in the queue or the history. Raise `NotFound`."""
    ad = call.queries.any_job(*parse_id(id))
    if ad is None:
        raise NotFound(f"job {id} is neither in the queue nor in the history; GET /jobs lists the jobs in the queue")
    return ad


def find_own_job(call: Call, id: str) -> ClassAd:
    """Return the ad of a job whose files the caller may read. Raise `NotFound` or `Rejected`."""
    if call.queries.imported:
        raise NotFound("this log was imported from another pool, so its jobs' files are not here")
    ad, user = find_job(call, id), call.caller.user
    if user != ad.eval("Owner") and user not in super_users(call.queries.views.pool().settings):
        rule = "only its owner and the pool's administrators may read or send its files"
        raise Rejected(403, "owner", f"job {id} belongs to {ad.eval('Owner')}: {rule}", call.caller.identity)
    return ad


Attributes = Annotated[
    dict[str, Any],
    Meta(description='values by name: a text is an expression (`"\\"a string\\""`, `"RequestCpus * 2"`); also numbers, '
         'true, false, null (undefined), or {"type": string, integer, real, boolean or raw, "value": a text}'),
]  # fmt: skip


class JobEdit(Struct, frozen=True, forbid_unknown_fields=True):
    """Attributes to set in a job."""

    attributes: Attributes


class BulkEdit(Struct, frozen=True, forbid_unknown_fields=True):
    """Attributes to set in the jobs that satisfy a constraint. The member ``options`` is not supported."""

    constraint: Constraint
    attributes: Attributes


class Edited(Struct, frozen=True):
    """The result of an edit of one job."""

    status: str
    message: str
    job_id: str


class BulkEdited(Struct, frozen=True):
    """The result of an edit of many jobs."""

    status: str
    message: str
    constraint: str
    jobs_edited: int


_TYPES: Final = {"integer": int, "int": int, "real": float, "float": float}
_BOOLEANS: Final = ("true", "false")


def expression_text(name: str, value: Any) -> str:
    """Return the expression for a value in the body of an edit. Raise `ValueError` if the value is invalid."""
    if isinstance(value, str):
        return value
    if value is None:
        return "undefined"
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if not isinstance(value, dict) or not isinstance(text := value.get("value"), str):
        raise ValueError(f'{name}: use a text, number, true, false, null or {{"type": ..., "value": "TEXT"}}')
    kind = str(value.get("type")).lower()
    if kind in ("raw", "expression"):
        return text
    if kind == "string":
        from ...domain.state.job_ad import quoted

        return quoted(text)
    if kind in ("boolean", "bool") and text.strip().lower() in _BOOLEANS:
        return text.strip().lower()
    try:
        return repr(_TYPES[kind](text))
    except (KeyError, ValueError):
        types = "string, integer, real, boolean and raw"
        raise ValueError(f"{name}: {text[:80]!r} is not a value of the type {kind!r}; the types are {types}") from None


def _changes(attributes: dict[str, Any]) -> dict[str, str]:
    if not attributes:
        raise ValueError("attributes: name at least one attribute to set")
    return {name: expression_text(name, value) for name, value in attributes.items()}


def edit_job(call: Call, job: Job, body: JobEdit) -> Edited:
    """Set attributes of a job."""
    request = {"kind": "Edit", "selection": {"jobs": [parse_id(job.id)]}, "changes": _changes(body.attributes)}
    check_result("Edit", "edit", job.id, job_results(call, request))
    return Edited("success", f"Successfully edited job {job.id}", job.id)


def edit_jobs(call: Call, parameters: Bulk, body: BulkEdit) -> BulkEdited:
    """Set attributes of all jobs that satisfy a constraint and that the caller may edit."""
    selection = {"everything": not body.constraint.strip(), "constraint": body.constraint}
    changes = _changes(body.attributes)
    results = job_results(call, {"kind": "Edit", "selection": selection, "changes": changes})
    count = sum(len(list(result.jobs())) for result in results if result.result == "done")
    if not count:
        check_result("Edit", "edit", "", results)
    return BulkEdited("success", f"Successfully edited {count} job(s)", body.constraint, count)


ENDPOINTS = (
    Endpoint("GET", "/jobs", list_jobs),
    Endpoint("PATCH", "/jobs", edit_jobs, WRITE),
    *ACTIONS,
    Endpoint("GET", "/jobs/{id}", get_job, is_quick=True),
    Endpoint("PATCH", "/jobs/{id}", edit_job, WRITE),
)
