"""Read the NegotiatorLog: cycles, matches, rejections, submitter shares, and changes made with condor_userprio.

NEGOTIATOR_DEBUG determines its content (see docs/import.md). The numbers of the pie and its slices have the
negotiator's names.
"""

from __future__ import annotations

from ...domain.events import CycleReported, SubmitterReported
from .daemon_log import DAEMON_LIFE, DaemonLog, LogMessage, Rows, table

# Read the MatchLog: matches, and rejections with their reasons. The NegotiatorLog can contain the same lines.
#
# ``source`` is the address of the job's schedd, ``startd`` that of the slot's startd.

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

    def _matched(self, message: LogMessage) -> None:
        facts = {name: message[name] for name in ("slot", "user", "preempting", "source", "startd")}
        self.job(message, "matched", facts | ({"words": "offline"} if message["offline"] else {}))

    def _rejected(self, message: LogMessage) -> None:
        self.job(message, "rejected", {name: message[name] for name in ("user", "words", "source")})


_VALUE = r" += (?P<value>\S+)(?: \((?P<more>after trimming|starved)[= ](?P<other>\S+)\))?"
_PIE = ("numSlots", "slotWeightTotal", "minSlotWeight", "pieLeft", "NormalFactor", "MaxPrioValue", "NumSubmitterAds")
_SLICE = (
    "SubmitterPrio", "SubmitterPrioFactor", "submitterShare", "submitterAbsShare", "submitterLimit",
    "submitterCeiling remaining", "submitterUsage",
)  # fmt: skip
"""The names in the order in which they are written; the last one ends a block."""

_SETTINGS = "priority factor|priority|ceiling|floor|accumulated usage|begin usage time|last usage time"
CYCLES: Rows = (
    (r"---------- Started Negotiation Cycle ----------", "_began"),
    (r"---------- Finished Negotiation Cycle ----------", "_finish"),
    (r"Aborting negotiation cycle", "_finish:aborted"),
    (r"Public ads include (?P<submitters>\d+) submitter, (?P<slots>\d+) startd", "_ads"),
    (r"Negotiating with (?P<user>\S+) at (?P<source><[^>]*>)", "_negotiating"),
    (r"Request (?P<cluster>\d{1,10})\.(?P<proc>-?\d{1,10}):.*", "_request"),
    (r"Preempting (?P<preempting>\S+) \(.*\) on (?P<slot>\S+) for .*", "_preempting"),
    (r"Successfully matched with (?P<slot>\S+)(?P<offline> \(offline\))?", "_successfully"),
    *((rf"{name}{_VALUE}", "_number") for name in (*_PIE, *_SLICE)),
)
SETTINGS: Rows = (
    (rf"Setting the (?P<what>{_SETTINGS}) of (?P<user>\S+) to (?P<value>.+)", "_set"),
    (r"Resetting the usage of (?P<user>all users|\S+)", "_set:usage 0"),
    (r"Deleting accounting record of (?P<user>\S+)", "_set:record deleted"),
)
EVERYONE = "*"  #: the submitter in an event about all submitters


class NegotiatorLogReader(MatchLogReader):
    """Reads a NegotiatorLog. ``_remembered``: the cycle, the current block of numbers, the submitter and job being
    negotiated, and the slot of the last match."""

    PATTERNS = table(DAEMON_LIFE, CYCLES, SETTINGS, MATCHES)

    # -- cycles

    def _began(self, message: LogMessage) -> None:
        self._block_over()
        self._remembered = {"cycle": {"began": str(message.at), "matches": 0, "rejections": 0}}
        self._cycle(message.at, message.line, "began", {})

    def _finish(self, message: LogMessage) -> None:
        self._block_over()
        facts = {name: str(value) for name, value in self._remembered.get("cycle", {}).items()}
        self._cycle(message.at, message.line, "ended", facts | ({"words": message.what} if message.what else {}))
        self._remembered = {}

    def _ads(self, message: LogMessage) -> None:
        if "cycle" in self._remembered:
            self._remembered["cycle"] |= {"slots": message["slots"], "submitters": message["submitters"]}

    def _cycle(self, at: int, line: int, report_name: str, facts: dict[str, str]) -> None:
        self._events.append(CycleReported(at, "reported", self.source.place(line), report_name, facts))

    def _count(self, report_name: str) -> None:
        if "cycle" in self._remembered:
            self._remembered["cycle"][report_name] += 1

    # -- matches

    def _negotiating(self, message: LogMessage) -> None:
        self._remembered |= {"user": message["user"], "source": message["source"]}
        self._remembered.pop("job", None)

    def _request(self, message: LogMessage) -> None:
        self._remembered["job"] = f"{int(message['cluster'])}.{int(message['proc'])}"
        for name in ("matched", "preempting"):
            self._remembered.pop(name, None)

    def _preempting(self, message: LogMessage) -> None:
        self._remembered["preempting"] = [message["slot"], message["preempting"]]

    def _matched(self, message: LogMessage) -> None:
        super()._matched(message)
        self._remembered["matched"] = message["slot"]
        self._count("matches")

    def _rejected(self, message: LogMessage) -> None:
        super()._rejected(message)
        self._count("rejections")

    def _successfully(self, message: LogMessage) -> None:
        """Report a match, unless its "Matched" line was already reported."""
        if self._remembered.pop("matched", None) == message["slot"] or "job" not in self._remembered:
            return
        facts = {"slot": message["slot"]} | {name: self._remembered.get(name, "") for name in ("user", "source")}
        slot, user = self._remembered.pop("preempting", ("", ""))
        if slot == message["slot"]:
            facts["preempting"] = user
        if message["offline"]:
            facts["words"] = "offline"
        self.job(message, "matched", facts, self._remembered["job"])
        self._count("matches")

    # -- the pie and its slices

    def _before(self, line: int, at: int, text: str) -> None:
        """End the block of numbers if another line precedes its last number."""
        if "block" in self._remembered and text.split(None, 1)[:1] not in _WORDS[self._remembered["block"]["of"]]:
            self._block_over()

    def _number(self, message: LogMessage) -> None:
        name = message.match[0].partition("=")[0].strip()
        group, names = ("pie", _PIE) if name in _PIE else ("slice", _SLICE)
        if group == "slice" and "user" not in self._remembered:
            return
        block = self._remembered.setdefault("block", {"of": group, "at": message.at, "line": message.line, "facts": {}})
        block["facts"][name] = message["value"]
        if message["more"]:
            block["facts"][message["more"]] = message["other"]
        if name == names[-1]:
            self._block_over()

    def _block_over(self) -> None:
        block = self._remembered.pop("block", {"of": ""})
        if block["of"] == "pie":
            self._cycle(block["at"], block["line"], "pie", block["facts"])
        elif block["of"] == "slice":
            self._submitter(block["at"], block["line"], self._remembered["user"], "slice", block["facts"])

    # -- changes

    def _submitter(self, at: int, line: int, user: str, report_name: str, facts: dict[str, str]) -> None:
        self._events.append(SubmitterReported(at, "reported", self.source.place(line), user, report_name, facts))

    def _set(self, message: LogMessage) -> None:
        report_name, _, value = message.what.partition(" ")
        user = EVERYONE if message["user"] == "all users" else message["user"]
        facts = {"what": message["what"] or report_name, "value": message["value"] or value}
        self._submitter(message.at, message.line, user, "set", facts)


_WORDS = {"pie": [[name] for name in _PIE], "slice": [[name.split()[0]] for name in _SLICE]}
