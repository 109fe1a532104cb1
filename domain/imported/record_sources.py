"""List the kinds of sources of a real HTCondor pool, and the facts that records of each kind state.

An import turns records into events of these facts; the audit and ``poolbook why`` read nothing else. A fact's value is
text: a job is "12.3", a claim is its public id (everything before the secret part), an instant is in microseconds.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class SourceKind(NamedTuple):
    """A kind of source: the letter by which tables name it, its name, and who writes it."""

    letter: str
    name: str
    writer: str


NOT_STARTED: Final = "108"  #: the status of a shadow that could not start its job
SCHEDD_DIED: Final = "Local schedd and job shadow died"
"""How the reason of a lost connection (entry 022) begins where a schedd that was restarted looks for its jobs."""
NOT_SWITCHED: Final = "it did not switch"  #: the reason of `shadow_gone` where a shadow never had the job
LEAST_AD: Final = 500  #: so many bytes more or less in a history are a whole ad; fewer are a changed value

KINDS: Final[dict[str, SourceKind]] = {
    "startlog": SourceKind("L", "StartLog", "the execution point's startd"),
    "schedlog": SourceKind("D", "SchedLog", "the access point's schedd"),
    "starterlog": SourceKind("T", "StarterLog", "the execution point's starters"),
    "shadowlog": SourceKind("W", "ShadowLog", "the access point's shadows"),
    "masterlog": SourceKind("R", "MasterLog", "each machine's master"),
    "collectorlog": SourceKind("O", "CollectorLog", "the central manager's collector"),
    "negotiatorlog": SourceKind("N", "NegotiatorLog", "the central manager's negotiator"),
    "matchlog": SourceKind("M", "MatchLog", "the central manager's negotiator"),
    "userlog": SourceKind("U", "a user's job event log", "the access point's schedd and shadows"),
    "eventlog": SourceKind("E", "the pool-wide EventLog", "the access point's schedd and shadows"),
    "history": SourceKind("H", "the job history", "the access point's schedd"),
    "epochs": SourceKind("P", "the epoch history", "the access point's shadows"),
    "startd_history": SourceKind("S", "the startd's history", "the execution point's starters"),
    "queue": SourceKind("Q", "job_queue.log", "the access point's schedd"),
    "accountant": SourceKind("K", "Accountantnew.log", "the central manager's negotiator"),
    "job_ads": SourceKind("A", "ads that condor_q printed", "the access point's schedd"),
    "machine_ads": SourceKind("C", "ads that condor_status printed", "the central manager's collector"),
    "submitter_ads": SourceKind("V", "ads that condor_userprio printed", "the central manager's negotiator"),
}

OF_DAEMONS: Final[dict[str, str]] = {
    "began": "it began (version, pid)",
    "ended": "it ended (how: graceful, fast, or the words of the record; orphaned: its master's pid, if that had died)",
    "died": "its master found it dead (pid, how: the signal, or the status of a failure)",
    "reconfigured": "it read its configuration anew",
    # of its files, where what surrounds a record shows that it, or one above it, is not as it was written
    "aside": "a line of its log lies alone before or after both lines around it (seconds, text)",
    "displaced": "an ad of its history is not where the next one says (bytes, job, above: the job of the ad above)",
}
OF_SLOTS: Final[dict[str, str]] = {
    # of the startd
    "requested": "an access point asked for it (claim, schedd)",
    "accepted": "the request was accepted",
    "refused": "the request was refused (words)",
    "owner": "who holds its claim (user)",
    "activated": "a job is started on it (job); a starter may follow (starter: its pid)",
    "job_over": "the starter's final word on its job arrived (job)",
    "starter_gone": "its starter ended (starter, status)",
    "told": "something else that explains what it does (words)",
    # of the schedd
    "released": "the access point gave it back (user)",
}
OF_JOBS: Final[dict[str, str]] = {
    # of the schedd
    "shadow_began": "a shadow was started for it (slot, user, shadow: its pid, before: the job that it had until then)",
    "shadow_gone": "its shadow ended (shadow, and status or reason)",
    "match_gone": "the access point forgot the match for it (slot, user)",
    # of its shadow
    "terminated": "it ended by itself (shadow, code or signal)",
    "evicting": "it leaves its slot (shadow, slot)",
    "holding": "it is put on hold (shadow, code, subcode, reason)",
    "requeuing": "it ended, and is to run again (shadow, reason)",
    "removing": "it is removed (shadow, reason)",
    # of its starter
    "process_began": "its process was started (slot, pid, again: not for the first time)",
    "process_ended": "its process exited (slot, pid, code or signal, told: it had been told to end)",
    # of the negotiator
    "matched": "it was matched (slot, user, preempting: nobody's is none, source: the daemon's address)",
    "rejected": "it got nothing (user, words)",
}
OF_SUBMITTERS: Final[dict[str, str]] = {
    "slice": "its share of the pie in a cycle (numbers as the negotiator names them)",
    "set": "an administrator set something (what, value)",
}
OF_CYCLES: Final[dict[str, str]] = {
    "began": "a negotiation cycle began",
    "pie": "the numbers that the shares are computed from, as the negotiator names them",
    "ended": "a negotiation cycle ended (began: its instant; slots, submitters, matches, rejections: their numbers)",
}


class RecordPlace(NamedTuple):
    """The place of a record: the number of its source and its (first) line."""

    source: int
    line: int

    @property
    def stimulus(self) -> str:
        """Return the place as an event names it."""
        return f"{self.source}:{self.line}"


def place_of(stimulus: str) -> RecordPlace | None:
    """Return the place that an event of an import names; None for any other event."""
    source, colon, line = stimulus.partition(":")
    return RecordPlace(int(source), int(line)) if colon and source.isdecimal() and line.isdecimal() else None
