"""Read the submit description language: from the text that a user writes to the ads of a cluster's jobs.

Nothing here reads a file, asks the time or queues a job: ``SubmitFacts`` answers for the machine, ``SubmitFiles`` for
the disk, and the result is a value, a ``Submission``. ``macros.lines`` and ``submit_reader`` (with ``conditions`` and
``queue_statements``) turn the text into ``macros``; ``build`` makes ads of them by the ``sections``, ``resources``,
``requirements`` and the table in ``submit_commands``.
"""

from .build import ATTRIBUTES, known_commands
from .submission import Submission, dry_run, from_mapping, is_command, parse_submit, sent_ads
from .submit_context import NoSubmitFiles, SubmitError, SubmitFacts, SubmitFiles, SubmitWarning

__all__ = [
    "ATTRIBUTES",
    "NoSubmitFiles",
    "Submission",
    "SubmitError",
    "SubmitFacts",
    "SubmitFiles",
    "SubmitWarning",
    "dry_run",
    "from_mapping",
    "is_command",
    "known_commands",
    "parse_submit",
    "sent_ads",
]
