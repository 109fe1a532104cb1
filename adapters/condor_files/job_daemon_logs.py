"""Read the logs of the daemons that run jobs: the SchedLog, the ShadowLog and the StarterLog (docs/import.md).

The lines are the D_ALWAYS messages of condor_schedd, condor_shadow and condor_starter. Users and slots are stored as
written in the log; users have no domain there.
"""

from __future__ import annotations

import os
import re
from typing import cast

from ...domain.events import SlotReported
from ...domain.imported.record_sources import NOT_SWITCHED
from .daemon_log import DAEMON_LIFE, DaemonLog, LogMessage, Rows, table

_JOB = r"(?P<job>\d{1,10}\.\d{1,10})"
_ANY = r"(?P<job>-?\d{1,10}\.-?\d{1,10})"
_CLAIM = r"(?:(?P<slot>\S+) )?(?P<address><[^>]*>)(?P<claim>#\d+#\d+)?\S* for (?P<user>.+?)"
SHADOWS: Rows = (
    (rf"Started shadow for job {_JOB} on {_CLAIM}, \(shadow pid = (?P<shadow>\d+)\)", "_started"),
    (rf"Shadow pid (?P<shadow>\d+) for job {_JOB} exited with status (?P<status>\d+)", "_exited"),
    (rf"Shadow pid (?P<shadow>\d+) for job {_JOB} reports job exit reason (?P<reason>\d+)\.", "_note:shadow_gone"),
    (rf"Shadow pid (?P<shadow>\d+) switching to job {_JOB}\.", "_switched"),
    (r"Shadow pid (?P<shadow>\d+) died with (?P<words>.*)", "_died"),
    # The shadow did not switch to its next job, which the schedd then requeues.
    (r"Failed to (?:expand job ad|get ok) when switching shadow (?P<shadow>\d+) to .*", f"_died:{NOT_SWITCHED}"),
    (rf"match \({_CLAIM}\) switching to job {_JOB}", "_switching"),
    (rf"Match record \({_CLAIM}, {_ANY}\) deleted", "_forgotten"),
    (rf"Completed RELEASE_CLAIM to startd {_CLAIM}", "_released"),
)

Held = dict[str, str]  #: the claim that a shadow uses: slot, user and claim id, as far as known


class SchedLogReader(DaemonLog):
    """Reads a SchedLog: the shadow for each job and slot, its exit, and the release of claims. ``_remembered``: the
    running shadows' jobs and claims by pid, the claim most recently reused for another job, and slots by claim id."""

    PATTERNS = table(DAEMON_LIFE, SHADOWS)
    DAEMON = "schedd"

    def _forget(self) -> None:
        self._remembered = {"claims": self._claims()}

    def _claims(self) -> dict[str, str]:
        return cast(dict[str, str], self._remembered.get("claims", {}))

    def _shadows(self) -> dict[str, tuple[str, Held]]:
        return cast(dict[str, tuple[str, Held]], self._remembered.setdefault("shadows", {}))

    def _held(self, message: LogMessage) -> Held:
        claim = f"{message['address']}{message['claim']}" if message["claim"] else ""
        slot = message["slot"] or self._claims().get(claim, "")
        if claim and slot:
            self._remembered.setdefault("claims", {})[claim] = slot
        return {"slot": slot, "user": message["user"], "claim": claim}

    def _began(self, message: LogMessage, claim_facts: Held, shadow_before: str = "") -> None:
        """Report a job's shadow; `shadow_before`: the previous job of this shadow."""
        self._shadows()[message["shadow"]] = (message["job"], claim_facts)
        self.job(message, "shadow_began", claim_facts | {"shadow": message["shadow"], "before": shadow_before})

    def _started(self, message: LogMessage) -> None:
        self._began(message, self._held(message))

    def _switching(self, message: LogMessage) -> None:
        self._remembered["switching"] = (message["job"], self._held(message))

    def _switched(self, message: LogMessage) -> None:
        job, claim_facts = self._remembered.pop("switching", ("", {}))
        shadow_before, shadow_claim = self._shadows().get(message["shadow"], ("", {}))
        self._began(message, claim_facts if job == message["job"] else shadow_claim, shadow_before)

    def _exited(self, message: LogMessage) -> None:
        self._shadows().pop(message["shadow"], None)
        self.job(message, "shadow_gone", message.facts())

    def _died(self, message: LogMessage) -> None:
        job, _ = self._shadows().pop(message["shadow"], ("", {}))
        if job:
            reason = message["words"] or message.what
            self.job(message, "shadow_gone", {"shadow": message["shadow"], "reason": reason}, job)

    def _forgotten(self, message: LogMessage) -> None:
        """Report a deleted match record. If it names no job, the claim was released."""
        if "-" in message["job"]:
            self._released(message)
        else:
            self.job(message, "match_gone", self._held(message))

    def _released(self, message: LogMessage) -> None:
        claim_facts = self._held(message)
        self._claims().pop(claim_facts["claim"], None)
        if slot := claim_facts.pop("slot"):
            facts, place = {name: text for name, text in claim_facts.items() if text}, self.source.place(message.line)
            self._events.append(SlotReported(message.at, "reported", place, slot, "released", facts))


# -- shadows

_OF_SHADOW = re.compile(r"\((?:\d+\.\d+|\?\.\?)\) \((\d+)(?:>\d+)?\): ")

ENDS: Rows = (
    (rf"Job {_JOB} terminated: exited with status (?P<code>\d+)", "_note:terminated"),
    (rf"Job {_JOB} terminated: killed by signal (?P<signal>\d+)", "_note:terminated"),
    (rf"Job {_JOB} is being evicted from (?P<slot>\S+)", "_note:evicting"),
    (rf"Job {_JOB} going into Hold state \(code (?P<code>\d+),(?P<subcode>-?\d+)\): (?P<reason>.*)", "_note:holding"),
    (rf"Job {_JOB} is being put back in the job queue: (?P<reason>.*)", "_note:requeuing"),
    (rf"Job {_JOB} is being removed: (?P<reason>.*)", "_note:removing"),
)


class ShadowLogReader(DaemonLog):
    """Reads a ShadowLog: how each shadow's job ended, and why the job left its slot. All shadows of an access point
    write to one file; each line starts with the job and the shadow's pid."""

    PATTERNS = table(ENDS)
    DAEMON = "shadow"
    _shadow = ""  #: the pid of the shadow that wrote the line

    def _take(self, line: int, at: int, text: str, word: str) -> None:
        shadow_match = _OF_SHADOW.match(text)
        if shadow_match is not None:
            self._shadow = shadow_match[1]
            text = text[shadow_match.end() :]
            super()._take(line, at, text, text.partition(" ")[0])

    def _facts(self, message: LogMessage) -> dict[str, str]:
        return {"shadow": self._shadow} | message.facts()


# -- starters

_SLOT = re.compile(r"starterlog\.(slot\d+(?:_\d+)?)(?=\.|$)", re.IGNORECASE)

PROCESSES: Rows = (
    (r"\*\* .* \((?P<daemon>\w+)\) STARTING UP", "_starting"),
    (rf"Starting a (?:VANILLA|LOCAL) universe job with ID: {_JOB}", "_starting"),
    (r"About to exec (?P<command>.*)", "_executing"),
    (r"Create_Process succeeded, pid=(?P<pid>\d+)", "_began"),
    (r"Process exited, pid=(?P<pid>\d+), status=(?P<code>\d+)", "_exited"),
    (r"Process exited, pid=(?P<pid>\d+), signal=(?P<signal>\d+)", "_exited"),
    (r"Got vacate code=.*", "_evicted"),
    (r"ShutdownGraceful all jobs\.", "_evicted"),
    (r"ShutdownFast all jobs\.", "_evicted"),
    (r"Remove all jobs", "_evicted"),
    (r"Hold all jobs", "_evicted"),
)


class StarterLogReader(DaemonLog):
    """Reads a StarterLog: when a job's process started, and how it exited.

    The starters for a slot write to one file, one after the other; each runs one job. The first process after "Starting
    a ... universe job" is the job's; processes before (PreCmd) and after it (PostCmd, ssh_to_job) are not. Containers
    are not reported, because the logged status is that of the command that watches the container. ``_remembered``: the
    job being started, its process, and whether that process was asked to stop."""

    PATTERNS = table(PROCESSES)
    DAEMON = "starter"

    def _starting(self, message: LogMessage) -> None:
        self._remembered = {"job": message["job"]} if message["job"] else {}

    def _executing(self, message: LogMessage) -> None:
        if "job" in self._remembered and not message["command"].startswith("docker:"):
            self._remembered["ready"] = True

    def _began(self, message: LogMessage) -> None:
        if not self._remembered.pop("ready", False):
            return
        again_facts = {"again": "true"} if "pid" in self._remembered else {}
        self._remembered["pid"] = message["pid"]
        self._process(message, "process_began", again_facts)

    def _exited(self, message: LogMessage) -> None:
        if self._remembered.get("pid") != message["pid"]:
            return
        exit_facts = {name: message[name] for name in ("code", "signal") if message[name]}
        if "evicted" in self._remembered:
            exit_facts["told"] = "true"
        self._process(message, "process_ended", exit_facts)

    def _evicted(self, message: LogMessage) -> None:
        self._remembered["evicted"] = True

    def _process(self, message: LogMessage, report_name: str, facts: dict[str, str]) -> None:
        slot = _SLOT.search(os.path.basename(self.source.path))
        where = {"slot": f"{slot[1].lower()}@{self.source.machine}"} if slot else {}
        self.job(message, report_name, where | {"pid": message["pid"]} | facts, str(self._remembered["job"]))
