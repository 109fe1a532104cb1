"""What every error has in common that Poolbook raises on purpose."""

from __future__ import annotations


class PoolbookError(Exception):
    """Something was refused, cannot be read or does not exist: the thing, the rule that it breaks, the way out.

    The base of all errors of this package's own. Wrong arguments of a call raise Python's `ValueError` and `TypeError`.
    """
