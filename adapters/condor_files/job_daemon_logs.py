"""Read the logs of the daemons that run jobs: the SchedLog, the ShadowLog and the StarterLog (docs/import.md).

The lines are the D_ALWAYS messages of condor_schedd, condor_shadow and condor_starter. Users and slots are stored as
the log names them, so users have no domain.
"""

from __future__ import annotations

import os
import re
from typing import cast

from ...domain.events import SlotReported
from ...domain.imported.record_sources import NOT_SWITCHED
from .daemon_log import DAEMON_LIFE_MESSAGES, DaemonLog, LogMessage, MessageRows, rules_by_first_word

_JOB = r"(?P<job>\d{1,10}\.\d{1,10})"
_ANY_JOB = r"(?P<job>-?\d{1,10}\.-?\d{1,10})"
_CLAIM = r"(?:(?P<slot>\S+) )?(?P<address><[^>]*>)(?P<claim>#\d+#\d+)?\S* for (?P<user>.+?)"
SHADOW_MESSAGES: MessageRows = (
    (rf"Started shadow for job {_JOB} on {_CLAIM}, \(shadow pid = (?P<shadow>\d+)\)", "_on_shadow_start"),
    (rf"Shadow pid (?P<shadow>\d+) for job {_JOB} exited with status (?P<status>\d+)", "_on_shadow_exit"),
    (
        rf"Shadow pid (?P<shadow>\d+) for job {_JOB} reports job exit reason (?P<reason>\d+)\.",
        "_report_named:shadow_gone",
    ),
    (rf"Shadow pid (?P<shadow>\d+) switching to job {_JOB}\.", "_on_shadow_switched"),
    (r"Shadow pid (?P<shadow>\d+) died with (?P<words>.*)", "_on_shadow_death"),
    # The shadow did not switch to its next job, which the schedd then requeues.
    (
        r"Failed to (?:expand job ad|get ok) when switching shadow (?P<shadow>\d+) to .*",
        f"_on_shadow_death:{NOT_SWITCHED}",
    ),
    (rf"match \({_CLAIM}\) switching to job {_JOB}", "_on_claim_reuse"),
    (rf"Match record \({_CLAIM}, {_ANY_JOB}\) deleted", "_on_match_deleted"),
    (rf"Completed RELEASE_CLAIM to startd {_CLAIM}", "_on_release"),
)

ClaimFacts = dict[str, str]  #: the claim that a shadow uses: ``slot``, ``user`` and ``claim`` (the id); "" if unknown


class SchedLogReader(DaemonLog):
    """Reads a SchedLog: the start and exit of each job's shadow, and the release of claims. ``_remembered`` contains
    the running shadows' jobs and claims by pid, the claim most recently reused for another job, and slots by claim
    id."""

    PATTERNS = rules_by_first_word(DAEMON_LIFE_MESSAGES, SHADOW_MESSAGES)
    DAEMON = "schedd"

    def _forget_state(self) -> None:
        self._remembered = {"claims": self._claims()}

    def _claims(self) -> dict[str, str]:
        return cast(dict[str, str], self._remembered.get("claims", {}))

    def _shadows(self) -> dict[str, tuple[str, ClaimFacts]]:
        return cast(dict[str, tuple[str, ClaimFacts]], self._remembered.setdefault("shadows", {}))

    def _claim_facts(self, message: LogMessage) -> ClaimFacts:
        claim = f"{message['address']}{message['claim']}" if message["claim"] else ""
        slot = message["slot"] or self._claims().get(claim, "")
        if claim and slot:
            self._remembered.setdefault("claims", {})[claim] = slot
        return {"slot": slot, "user": message["user"], "claim": claim}

    def _report_shadow(self, message: LogMessage, claim_facts: ClaimFacts, previous_job: str = "") -> None:
        self._shadows()[message["shadow"]] = (message["job"], claim_facts)
        self.report_job(message, "shadow_began", claim_facts | {"shadow": message["shadow"], "before": previous_job})

    def _on_shadow_start(self, message: LogMessage) -> None:
        self._report_shadow(message, self._claim_facts(message))

    def _on_claim_reuse(self, message: LogMessage) -> None:
        self._remembered["switching"] = (message["job"], self._claim_facts(message))

    def _on_shadow_switched(self, message: LogMessage) -> None:
        job, claim_facts = self._remembered.pop("switching", ("", {}))
        previous_job, shadow_claim = self._shadows().get(message["shadow"], ("", {}))
        self._report_shadow(message, claim_facts if job == message["job"] else shadow_claim, previous_job)

    def _on_shadow_exit(self, message: LogMessage) -> None:
        self._shadows().pop(message["shadow"], None)
        self.report_job(message, "shadow_gone", message.facts())

    def _on_shadow_death(self, message: LogMessage) -> None:
        job, _ = self._shadows().pop(message["shadow"], ("", {}))
        if job:
            reason = message["words"] or message.report_name
            self.report_job(message, "shadow_gone", {"shadow": message["shadow"], "reason": reason}, job)

    def _on_match_deleted(self, message: LogMessage) -> None:
        """Report a deleted match record. A record without a job means that the claim was released."""
        if "-" in message["job"]:
            self._on_release(message)
        else:
            self.report_job(message, "match_gone", self._claim_facts(message))

    def _on_release(self, message: LogMessage) -> None:
        claim_facts = self._claim_facts(message)
        self._claims().pop(claim_facts["claim"], None)
        if slot := claim_facts.pop("slot"):
            facts, place = (
                {name: text for name, text in claim_facts.items() if text},
                self.source.location_of_line(message.line),
            )
            self._events.append(SlotReported(message.at, "reported", place, slot, "released", facts))


_SHADOW_PREFIX = re.compile(r"\((?:\d+\.\d+|\?\.\?)\) \((\d+)(?:>\d+)?\): ")

JOB_END_MESSAGES: MessageRows = (
    (rf"Job {_JOB} terminated: exited with status (?P<code>\d+)", "_report_named:terminated"),
    (rf"Job {_JOB} terminated: killed by signal (?P<signal>\d+)", "_report_named:terminated"),
    (rf"Job {_JOB} is being evicted from (?P<slot>\S+)", "_report_named:evicting"),
    (
        rf"Job {_JOB} going into Hold state \(code (?P<code>\d+),(?P<subcode>-?\d+)\): (?P<reason>.*)",
        "_report_named:holding",
    ),
    (rf"Job {_JOB} is being put back in the job queue: (?P<reason>.*)", "_report_named:requeuing"),
    (rf"Job {_JOB} is being removed: (?P<reason>.*)", "_report_named:removing"),
)


class ShadowLogReader(DaemonLog):
    """Reads a ShadowLog: how each shadow's job ended, and why the job left its slot. All shadows of an access point
    write to one file, so each line starts with the job and the shadow's pid."""

    PATTERNS = rules_by_first_word(JOB_END_MESSAGES)
    DAEMON = "shadow"
    _shadow_pid = ""  #: the pid of the shadow that wrote the line

    def _handle_message(self, line: int, at: int, text: str, word: str) -> None:
        shadow_match = _SHADOW_PREFIX.match(text)
        if shadow_match is not None:
            self._shadow_pid = shadow_match[1]
            text = text[shadow_match.end() :]
            super()._handle_message(line, at, text, text.partition(" ")[0])

    def _report_facts(self, message: LogMessage) -> dict[str, str]:
        return {"shadow": self._shadow_pid} | message.facts()


_SLOT_LOG_NAME = re.compile(r"starterlog\.(slot\d+(?:_\d+)?)(?=\.|$)", re.IGNORECASE)

STARTER_MESSAGES: MessageRows = (
    (r"\*\* .* \((?P<daemon>\w+)\) STARTING UP", "_on_startup"),
    (rf"Starting a (?:VANILLA|LOCAL) universe job with ID: {_JOB}", "_on_startup"),
    (r"About to exec (?P<command>.*)", "_on_exec"),
    (r"Create_Process succeeded, pid=(?P<pid>\d+)", "_on_process_start"),
    (r"Process exited, pid=(?P<pid>\d+), status=(?P<code>\d+)", "_on_process_exit"),
    (r"Process exited, pid=(?P<pid>\d+), signal=(?P<signal>\d+)", "_on_process_exit"),
    (r"Got vacate code=.*", "_on_eviction"),
    (r"ShutdownGraceful all jobs\.", "_on_eviction"),
    (r"ShutdownFast all jobs\.", "_on_eviction"),
    (r"Remove all jobs", "_on_eviction"),
    (r"Hold all jobs", "_on_eviction"),
)


class StarterLogReader(DaemonLog):
    """Reads a StarterLog: when a job's process started, and how it exited.

    The starters for a slot write to one file, one after the other; each runs one job. The first process after "Starting
    a ... universe job" is the job's; processes before (PreCmd) and after it (PostCmd, ssh_to_job) are not. Containers
    are not reported, because the logged status is that of the command that watches the container. ``_remembered``: the
    job being started, its process, and whether that process was asked to stop."""

    PATTERNS = rules_by_first_word(STARTER_MESSAGES)
    DAEMON = "starter"

    def _on_startup(self, message: LogMessage) -> None:
        self._remembered = {"job": message["job"]} if message["job"] else {}

    def _on_exec(self, message: LogMessage) -> None:
        if "job" in self._remembered and not message["command"].startswith("docker:"):
            self._remembered["ready"] = True

    def _on_process_start(self, message: LogMessage) -> None:
        if not self._remembered.pop("ready", False):
            return
        again_facts = {"again": "true"} if "pid" in self._remembered else {}
        self._remembered["pid"] = message["pid"]
        self._report_process(message, "process_began", again_facts)

    def _on_process_exit(self, message: LogMessage) -> None:
        if self._remembered.get("pid") != message["pid"]:
            return
        exit_facts = {name: message[name] for name in ("code", "signal") if message[name]}
        if "evicted" in self._remembered:
            exit_facts["told"] = "true"
        self._report_process(message, "process_ended", exit_facts)

    def _on_eviction(self, message: LogMessage) -> None:
        self._remembered["evicted"] = True

    def _report_process(self, message: LogMessage, report_name: str, facts: dict[str, str]) -> None:
        slot = _SLOT_LOG_NAME.search(os.path.basename(self.source.path))
        where = {"slot": f"{slot[1].lower()}@{self.source.machine}"} if slot else {}
        self.report_job(message, report_name, where | {"pid": message["pid"]} | facts, str(self._remembered["job"]))
