"""The submit description language: from the text that a user writes to the ads of a cluster's jobs.

Nothing here reads a file, asks the time or queues a job: what condor_submit would ask the machine comes as ``Facts``,
the disk as ``Files``, and the outcome is a ``Submission``, a value. A text goes through ``lines`` and ``reader`` (with
``conditions`` and ``queue``) into ``macros``; ``build`` makes ads of them, by the ``sections``, ``resources``,
``requirements`` and the table in ``commands``.
"""

if __name__ != "poolbook.domain.submit":
    raise ImportError(f"import this folder as poolbook.domain.submit, not as {__name__}")

from .submission import Submission, dry_run, from_mapping, parse_submit
from .submit_context import Facts, Files, SubmitError, SubmitWarning

__all__ = [
    "Facts",
    "Files",
    "Submission",
    "SubmitError",
    "SubmitWarning",
    "dry_run",
    "from_mapping",
    "parse_submit",
]
