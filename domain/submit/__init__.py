"""Parse the submit description language: from the text that a user writes to the ads of a cluster's jobs.

The package cannot use the disk or the clock, and queues no jobs. The caller passes ``SubmitFacts`` about the machine
and ``SubmitFiles``, and receives a ``Submission``. ``macros.lines`` and ``submit_reader`` (with ``conditions`` and
``queue_statements``) parse the text into ``macros``. ``build`` converts the macros into ads with the ``sections``,
``resources``, ``requirements`` and the table in ``submit_commands``.
"""

from .build import ATTRIBUTES, known_commands
from .submission import Submission, dry_run, format_sent_ads, from_mapping, is_command, parse_submit
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
    "format_sent_ads",
    "from_mapping",
    "is_command",
    "known_commands",
    "parse_submit",
]
