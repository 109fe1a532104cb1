"""Read the NegotiatorLog: cycles, matches, rejections, submitter shares, and changes made with condor_userprio. Read
the MatchLog: matches and rejections.

NEGOTIATOR_DEBUG selects which lines the negotiator writes (see docs/import.md). The numbers of the pie and its slices
keep the names that the negotiator gives them.
"""

from __future__ import annotations

from ...domain.events import CycleReported, SubmitterReported
from .daemon_log import DAEMON_LIFE_MESSAGES, DaemonLog, LogMessage, MessageRows, rules_by_first_word

_JOB = r"(?P<job>\d{1,10}\.-?\d{1,10})"
_WHOSE = rf"{_JOB} (?P<user>\S+) (?P<source><[^>]*>)"

MATCH_MESSAGES: MessageRows = (
    (
        rf"Matched {_WHOSE} preempting (?P<preempting>.+) (?P<startd><[^>]*>) (?P<slot>\S+)(?P<offline> \(offline\))?",
        "_on_match",
    ),
    (rf"Rejected {_WHOSE}: (?P<words>.*)", "_on_rejection"),
)
"""Lines in the MatchLog, and optionally in the NegotiatorLog. ``source`` is the address of the job's schedd, ``startd``
the address of the slot's startd."""


class MatchLogReader(DaemonLog):
    PATTERNS = rules_by_first_word(MATCH_MESSAGES)
    DAEMON = "negotiator"

    def _on_match(self, message: LogMessage) -> None:
        facts = {name: message[name] for name in ("slot", "user", "preempting", "source", "startd")}
        self.report_job(message, "matched", facts | ({"words": "offline"} if message["offline"] else {}))

    def _on_rejection(self, message: LogMessage) -> None:
        self.report_job(message, "rejected", {name: message[name] for name in ("user", "words", "source")})


_NUMBER = r" += (?P<value>\S+)(?: \((?P<more>after trimming|starved)[= ](?P<other>\S+)\))?"
_PIE = ("numSlots", "slotWeightTotal", "minSlotWeight", "pieLeft", "NormalFactor", "MaxPrioValue", "NumSubmitterAds")
_SLICE = (
    "SubmitterPrio", "SubmitterPrioFactor", "submitterShare", "submitterAbsShare", "submitterLimit",
    "submitterCeiling remaining", "submitterUsage",
)  # fmt: skip
"""The names in the order in which the negotiator writes them. The last one ends a block of numbers."""

_SETTINGS = "priority factor|priority|ceiling|floor|accumulated usage|begin usage time|last usage time"
CYCLE_MESSAGES: MessageRows = (
    (r"---------- Started Negotiation Cycle ----------", "_on_cycle_start"),
    (r"---------- Finished Negotiation Cycle ----------", "_on_cycle_end"),
    (r"Aborting negotiation cycle", "_on_cycle_end:aborted"),
    (r"Public ads include (?P<submitters>\d+) submitter, (?P<slots>\d+) startd", "_on_ad_counts"),
    (r"Negotiating with (?P<user>\S+) at (?P<source><[^>]*>)", "_on_submitter"),
    (r"Request (?P<cluster>\d{1,10})\.(?P<proc>-?\d{1,10}):.*", "_on_request"),
    (r"Preempting (?P<preempting>\S+) \(.*\) on (?P<slot>\S+) for .*", "_on_preemption"),
    (r"Successfully matched with (?P<slot>\S+)(?P<offline> \(offline\))?", "_on_successful_match"),
    *((rf"{name}{_NUMBER}", "_on_number") for name in (*_PIE, *_SLICE)),
)
USERPRIO_MESSAGES: MessageRows = (
    (rf"Setting the (?P<what>{_SETTINGS}) of (?P<user>\S+) to (?P<value>.+)", "_on_setting"),
    (r"Resetting the usage of (?P<user>all users|\S+)", "_on_setting:usage 0"),
    (r"Deleting accounting record of (?P<user>\S+)", "_on_setting:record deleted"),
)
ALL_SUBMITTERS = "*"  #: the submitter in an event about all submitters


class NegotiatorLogReader(MatchLogReader):
    """Reads a NegotiatorLog. ``_remembered`` contains the cycle, the current block of numbers, the submitter and job
    being negotiated, and the slot of the last match."""

    PATTERNS = rules_by_first_word(DAEMON_LIFE_MESSAGES, CYCLE_MESSAGES, USERPRIO_MESSAGES, MATCH_MESSAGES)

    def _on_cycle_start(self, message: LogMessage) -> None:
        self._report_block()
        self._remembered = {"cycle": {"began": str(message.at), "matches": 0, "rejections": 0}}
        self._report_cycle(message.at, message.line, "began", {})

    def _on_cycle_end(self, message: LogMessage) -> None:
        self._report_block()
        facts = {name: str(value) for name, value in self._remembered.get("cycle", {}).items()}
        self._report_cycle(
            message.at, message.line, "ended", facts | ({"words": message.report_name} if message.report_name else {})
        )
        self._remembered = {}

    def _on_ad_counts(self, message: LogMessage) -> None:
        if "cycle" in self._remembered:
            self._remembered["cycle"] |= {"slots": message["slots"], "submitters": message["submitters"]}

    def _report_cycle(self, at: int, line: int, report_name: str, facts: dict[str, str]) -> None:
        self._events.append(CycleReported(at, "reported", self.source.location_of_line(line), report_name, facts))

    def _count_outcome(self, report_name: str) -> None:
        if "cycle" in self._remembered:
            self._remembered["cycle"][report_name] += 1

    def _on_submitter(self, message: LogMessage) -> None:
        self._remembered |= {"user": message["user"], "source": message["source"]}
        self._remembered.pop("job", None)

    def _on_request(self, message: LogMessage) -> None:
        self._remembered["job"] = f"{int(message['cluster'])}.{int(message['proc'])}"
        for name in ("matched", "preempting"):
            self._remembered.pop(name, None)

    def _on_preemption(self, message: LogMessage) -> None:
        self._remembered["preempting"] = [message["slot"], message["preempting"]]

    def _on_match(self, message: LogMessage) -> None:
        super()._on_match(message)
        self._remembered["matched"] = message["slot"]
        self._count_outcome("matches")

    def _on_rejection(self, message: LogMessage) -> None:
        super()._on_rejection(message)
        self._count_outcome("rejections")

    def _on_successful_match(self, message: LogMessage) -> None:
        """Report a match, unless its line "Matched ..." was already reported."""
        if self._remembered.pop("matched", None) == message["slot"] or "job" not in self._remembered:
            return
        facts = {"slot": message["slot"]} | {name: self._remembered.get(name, "") for name in ("user", "source")}
        slot, user = self._remembered.pop("preempting", ("", ""))
        if slot == message["slot"]:
            facts["preempting"] = user
        if message["offline"]:
            facts["words"] = "offline"
        self.report_job(message, "matched", facts, self._remembered["job"])
        self._count_outcome("matches")

    def _examine_line(self, line: int, at: int, text: str) -> None:
        """End the block of numbers if another line precedes its last number."""
        if "block" in self._remembered and text.split(None, 1)[:1] not in _FIRST_WORDS[self._remembered["block"]["of"]]:
            self._report_block()

    def _on_number(self, message: LogMessage) -> None:
        name = message.match[0].partition("=")[0].strip()
        group, names = ("pie", _PIE) if name in _PIE else ("slice", _SLICE)
        if group == "slice" and "user" not in self._remembered:
            return
        block = self._remembered.setdefault("block", {"of": group, "at": message.at, "line": message.line, "facts": {}})
        block["facts"][name] = message["value"]
        if message["more"]:
            block["facts"][message["more"]] = message["other"]
        if name == names[-1]:
            self._report_block()

    def _report_block(self) -> None:
        block = self._remembered.pop("block", {"of": ""})
        if block["of"] == "pie":
            self._report_cycle(block["at"], block["line"], "pie", block["facts"])
        elif block["of"] == "slice":
            self._report_submitter(block["at"], block["line"], self._remembered["user"], "slice", block["facts"])

    def _report_submitter(self, at: int, line: int, user: str, report_name: str, facts: dict[str, str]) -> None:
        self._events.append(
            SubmitterReported(at, "reported", self.source.location_of_line(line), user, report_name, facts)
        )

    def _on_setting(self, message: LogMessage) -> None:
        report_name, _, value = message.report_name.partition(" ")
        user = ALL_SUBMITTERS if message["user"] == "all users" else message["user"]
        facts = {"what": message["what"] or report_name, "value": message["value"] or value}
        self._report_submitter(message.at, message.line, user, "set", facts)


_FIRST_WORDS = {"pie": [[name] for name in _PIE], "slice": [[name.split()[0]] for name in _SLICE]}
