"""Define the base of all errors that Poolbook raises on purpose."""

from __future__ import annotations


class PoolbookError(Exception):
    """Something was refused, cannot be read or does not exist. The message names the thing, the rule and the way out.

    Wrong arguments of a call raise Python's `ValueError` and `TypeError` instead.
    """
