"""Who is granted how much: real and effective user priorities, usage, floors and ceilings.

A submitter's *real* priority is a smoothed average of the cores that it has used lately; the *effective* one is the
real one times its factor, and the lower it is, the more the submitter gets. Source: the manual, "User Priorities and
Negotiation", with the formula of "Priority Calculation"; what the factor of a submitter is that nobody set one for, is
the reference's.
"""

from .priorities import (
    LEAST_FACTOR,
    LEAST_PRIORITY,
    Terms,
    aged,
    brought_to,
    ceiling,
    effective,
    factor,
    first_factor,
    floor,
    group_of,
    initial,
    real,
    rounded,
    terms,
    updated,
)
from .standing import NO_GROUP, Standing, group_names, shares, standings

__all__ = [
    "LEAST_FACTOR",
    "LEAST_PRIORITY",
    "NO_GROUP",
    "Standing",
    "Terms",
    "aged",
    "brought_to",
    "ceiling",
    "effective",
    "factor",
    "first_factor",
    "floor",
    "group_names",
    "group_of",
    "initial",
    "real",
    "rounded",
    "shares",
    "standings",
    "terms",
    "updated",
]
