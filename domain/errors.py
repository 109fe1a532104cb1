"""Define the base of all errors that Poolbook raises on purpose."""

from __future__ import annotations


class PoolbookError(Exception):
    """A request is refused, unreadable or unknown; the message names the thing, the rule that it breaks, the way out.

    Wrong arguments of a call raise Python's `ValueError` and `TypeError` instead.
    """
