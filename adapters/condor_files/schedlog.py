"""Read the SchedLog: the shadow of each job and slot, its exit, and the release of claims (see docs/import.md).

Users and slots are as written there: a user without the domain.
"""

from __future__ import annotations

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
    (rf"Shadow pid (?P<shadow>\d+) for job {_JOB} reports job exit reason (?P<reason>\d+)\.", "_reported"),
    (rf"Shadow pid (?P<shadow>\d+) switching to job {_JOB}\.", "_switched"),
    (r"Shadow pid (?P<shadow>\d+) died with (?P<words>.*)", "_died"),
    (r"Failed to (?:expand job ad|get ok) when switching shadow (?P<shadow>\d+) to .*", "_stayed"),
    (rf"match \({_CLAIM}\) switching to job {_JOB}", "_switching"),
    (rf"Match record \({_CLAIM}, {_ANY}\) deleted", "_forgotten"),
    (rf"Completed RELEASE_CLAIM to startd {_CLAIM}", "_released"),
)

Held = dict[str, str]  #: the claim that a shadow uses: slot, user and claim, as far as they are known


class SchedLogReader(DaemonLog):
    """Reads a SchedLog. ``_remembered``: the running shadows' jobs and claims by pid, the claim last given another job,
    slots by claim id."""

    PATTERNS = table(DAEMON_LIFE, SHADOWS)
    DAEMON = "schedd"

    def _forget(self) -> None:
        self._remembered = {"claims": self._claims()}

    def _claims(self) -> dict[str, str]:
        return cast(dict[str, str], self._remembered.get("claims", {}))

    def _shadows(self) -> dict[str, tuple[str, Held]]:
        return cast(dict[str, tuple[str, Held]], self._remembered.setdefault("shadows", {}))

    def _held(self, said: LogMessage) -> Held:
        claim = f"{said['address']}{said['claim']}" if said["claim"] else ""
        slot = said["slot"] or self._claims().get(claim, "")
        if claim and slot:
            self._remembered.setdefault("claims", {})[claim] = slot
        return {"slot": slot, "user": said["user"], "claim": claim}

    def _began(self, said: LogMessage, held: Held, before: str = "") -> None:
        """Report a job's shadow; `before`: the job whose shadow it was until then."""
        self._shadows()[said["shadow"]] = (said["job"], held)
        self.job(said, "shadow_began", held | {"shadow": said["shadow"], "before": before})

    def _started(self, said: LogMessage) -> None:
        self._began(said, self._held(said))

    def _switching(self, said: LogMessage) -> None:
        self._remembered["switching"] = (said["job"], self._held(said))

    def _switched(self, said: LogMessage) -> None:
        job, held = self._remembered.pop("switching", ("", {}))
        before, its_claim = self._shadows().get(said["shadow"], ("", {}))
        self._began(said, held if job == said["job"] else its_claim, before)

    def _exited(self, said: LogMessage) -> None:
        self._shadows().pop(said["shadow"], None)
        self.job(said, "shadow_gone", {"shadow": said["shadow"], "status": said["status"]})

    def _reported(self, said: LogMessage) -> None:
        self.job(said, "shadow_gone", {"shadow": said["shadow"], "reason": said["reason"]})

    def _died(self, said: LogMessage) -> None:
        job, _ = self._shadows().pop(said["shadow"], ("", {}))
        if job:
            self.job(said, "shadow_gone", {"shadow": said["shadow"], "reason": said["words"]}, job)

    def _stayed(self, said: LogMessage) -> None:
        """Report that a shadow did not take the job to which it was to switch: the schedd requeues that one."""
        job, _ = self._shadows().pop(said["shadow"], ("", {}))
        if job:
            self.job(said, "shadow_gone", {"shadow": said["shadow"], "reason": NOT_SWITCHED}, job)

    def _forgotten(self, said: LogMessage) -> None:
        """Report a deleted match record. Without a job in it, the claim was released."""
        if "-" in said["job"]:
            self._released(said)
        else:
            self.job(said, "match_gone", self._held(said))

    def _released(self, said: LogMessage) -> None:
        held = self._held(said)
        self._claims().pop(held["claim"], None)
        if slot := held.pop("slot"):
            facts = {name: text for name, text in held.items() if text}
            self._events.append(
                SlotReported(said.at, "reported", self.source.place(said.line), slot, "released", facts)
            )
