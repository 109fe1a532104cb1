"""ClassAds in responses: selection by constraint, projection, and pages by a cursor."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from ..condor_tools.formats import json_member_writer, json_text
from .endpoints import Ad, AtTime

if TYPE_CHECKING:
    from ...domain.classad import ClassAd, Context

T = TypeVar("T")

Constraint = Annotated[
    str, Meta(description="a ClassAd expression that is true for the requested ads", examples=["true"])
]
Projection = Annotated[str, Meta(description="attributes to return, separated by commas or blanks; empty or *: all")]
Limit = Annotated[
    str, Meta(pattern=r"^(\*|[1-9][0-9]{0,8})$", description="the most results in a page; *: the largest page, 10000")
]
PageToken = Annotated[str, Meta(description="next_page_token of the previous page; empty: the first page")]
_Number = Annotated[int, Meta(ge=-1, le=2**62)]
LARGEST_PAGE: Final = 10_000  #: results
_LONGEST_PAGE: Final = 16 << 20  #: bytes
_LONGEST_SCAN_S: Final = 5.0  #: a page ends after so long, even if few ads match
_write_member: Final = json_member_writer()
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def names_of(projection: str) -> list[str] | None:
    """Return the attributes in a projection, or None for all. Raise `ValueError`."""
    names = re.split(r"[,\s]+", projection.strip()) if projection.strip() not in ("", "*") else []
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(f"projection: {name[:80]!r} is not the name of an attribute; separate names by commas")
    return names or None


def condition_of(constraint: str, context: Context) -> Callable[[ClassAd], bool]:
    """Return a function that checks a constraint. Raise `ValueError` if it is invalid."""
    from ...domain.classad import parse
    from ..condor_tools.job_selection import satisfies

    if not constraint.strip():
        return lambda ad: True
    try:
        expression = parse(constraint)
    except ValueError as error:
        raise ValueError(f"constraint: {error}") from None
    return lambda ad: satisfies(expression, ad, context)


class AdsQuery(AtTime, frozen=True, kw_only=True):
    """The parameters of pages of ads."""

    constraint: Constraint = ""
    projection: Projection = ""
    limit: Limit = "50"
    page_token: PageToken = ""


class IdCursor(NamedTuple):
    """The key in a page token: a job's cluster and process, or a member's position and index."""

    first: _Number
    second: _Number


class Page(NamedTuple):
    """Ads in a page. ``more`` is the last ad that was read, if there are more after it."""

    ads: list[Ad]
    more: ClassAd | None


def page_of(ads: Iterable[ClassAd], limit: str, condition: Callable[[ClassAd], bool], projection: str) -> Page:
    """Return the next ads that satisfy a condition. Raise `ValueError` if the projection is invalid."""
    names = names_of(projection)
    most = LARGEST_PAGE if limit == "*" else min(int(limit), LARGEST_PAGE)
    page: list[Ad] = []
    size, last = 0, None
    until = time.monotonic() + _LONGEST_SCAN_S
    for ad in ads:
        if last is not None and (len(page) == most or size > _LONGEST_PAGE or time.monotonic() > until):
            return Page(page, last)
        if condition(ad):
            page += as_json([ad], names)
            size += len(page[-1])
        last = ad
    return Page(page, None)


def as_json(ads: Iterable[ClassAd], projection: Sequence[str] | None = None) -> list[Ad]:
    return [msgspec.Raw(json_text(ad, projection, _write_member).encode()) for ad in ads]


def encode_cursor(*fields: str | int) -> str:
    """Return the token of the page after the result with this key."""
    return base64.urlsafe_b64encode(msgspec.json.encode(fields)).decode().rstrip("=")


def decode_cursor(token: str, kind: type[T]) -> T | None:
    """Return the key in a page token; None if the token is empty. Raise `ValueError`."""
    if not token:
        return None
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)), type=kind)
    except (ValueError, msgspec.MsgspecError):
        raise ValueError("page_token: this is not a token of this API; use next_page_token of a page") from None
