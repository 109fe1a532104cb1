"""Read the MatchLog, whose lines the NegotiatorLog may have, too: matches, and rejections with their reasons.

``source`` is the address of the job's schedd, ``startd`` that of the slot's startd.
"""

from __future__ import annotations

from .daemon_log import DaemonLog, LogMessage, Rows, table

_JOB = r"(?P<job>\d{1,10}\.-?\d{1,10})"
_WHOSE = rf"{_JOB} (?P<user>\S+) (?P<source><[^>]*>)"

MATCHES: Rows = (
    (
        rf"Matched {_WHOSE} preempting (?P<preempting>.+) (?P<startd><[^>]*>) (?P<slot>\S+)(?P<offline> \(offline\))?",
        "_matched",
    ),
    (rf"Rejected {_WHOSE}: (?P<words>.*)", "_rejected"),
)


class MatchLogReader(DaemonLog):
    """Reads a MatchLog."""

    PATTERNS = table(MATCHES)
    DAEMON = "negotiator"

    def _matched(self, said: LogMessage) -> None:
        facts = {name: said[name] for name in ("slot", "user", "preempting", "source", "startd")}
        self.job(said, "matched", facts | ({"words": "offline"} if said["offline"] else {}))

    def _rejected(self, said: LogMessage) -> None:
        self.job(said, "rejected", {name: said[name] for name in ("user", "words", "source")})
