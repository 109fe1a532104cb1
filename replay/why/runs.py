"""What a slot's own records say of one job's run on it: why it was stopped, vacated or killed, and who came next."""

from __future__ import annotations

from typing import Final, NamedTuple

from attrs import define, field

from ...domain import events as e
from ...domain.lifecycle import state
from ...domain.log import Log
from .sentences import Told

SECOND: Final = 1_000_000
NEAR: Final = 3 * SECOND
"""Two daemons of a pool write of the same thing within this time."""
LATER: Final = 2 * SECOND
"""A slot's move explains what was written of its job at most so long before it ..."""
FREE: Final = 10 * SECOND
"""... and not what was written when the slot had been free of the job for so long."""
TAKEN: Final = 600 * SECOND
"""Within this time after its end a job's place is taken by the one that it had to go for."""

# What the words of a startd mean, the first that fits: HTCondor's text, and ours.
REASONS: Final = (
    ("preempting claim based on user priority", "the negotiator gave the slot to a user with a better priority"),
    ("preempting claim based on machine rank", "the slot's RANK prefers another job"),
    ("No preempting claim", "nobody else waited for the slot"),
    ("preempting claim exists", "whom it was given to takes it over"),
    ("preempting claim", "another job was given the slot"),
    ("WANT_VACATE", "the slot's policy had it leave"),
    ("KILL is TRUE", "the slot's KILL became true"),
    ("PREEMPT is TRUE", "the slot's PREEMPT became true"),
    ("CONTINUE is TRUE", "the slot's CONTINUE became true"),
    ("SUSPEND is TRUE", "the slot's SUSPEND became true"),
    ("IS_OWNER is TRUE", "the machine's owner needs it"),
    ("no longer draining", "its machine's drain was over, or called off"),
    ("draining is complete", "every slot of its machine was drained"),
    ("draining", "the machine was being drained"),
    ("entering Drained", "the machine began to drain"),
    ("shutdown", "the startd was shut down"),
    ("VACATE_CLAIM", "somebody asked for the slot to be vacated"),
    ("SUSPEND_CLAIM", "somebody asked for the job to be suspended"),
    ("CONTINUE_CLAIM", "somebody asked for the job to go on"),
    ("lease expired", "nothing was heard of the access point for the claim's lease"),
    ("RELEASE_CLAIM", "the access point gave the slot back"),
    ("deactivate_claim", "the access point ended the run"),
    ("claim retirement ended", "its retirement time was over"),
    ("CLAIM_WORKLIFE", "the claim was older than CLAIM_WORKLIFE"),
)


def meaning(reason: str) -> str:
    """What a startd's reason means in plain words; empty where nobody has put it into words."""
    lower = reason.lower()
    return next((words for text, words in REASONS if text.lower() in lower), "")


class Next(NamedTuple):
    """The job that a slot was given afterwards."""

    position: int
    at: int
    job: str
    user: str
    stimulus: str


@define
class Slots:
    """Slots' records, in order of time, read as they are asked for."""

    log: Log
    until: int | None = None
    _streams: dict[str, list[Told]] = field(factory=dict)

    def records(self, slot: str) -> list[Told]:
        if slot not in self._streams:
            told = [
                told for told in self.log.read_stream(f"slot/{slot}") if self.until is None or told[1].at <= self.until
            ]
            self._streams[slot] = sorted(told, key=lambda told: (told[1].at, told[0]))
        return self._streams[slot]

    def run(self, slot: str, job: str, began: int) -> list[Told]:
        """The slot's records of the run of a job that began at about an instant, up to where the slot is free of it."""
        records = self.records(slot)
        begin = next((at for at, (_, event) in enumerate(records) if _activates(event, job, began)), None)
        if begin is None:
            begin = next((at for at, (_, event) in enumerate(records) if _gets_busy(event, began)), None)
        if begin is None:
            return []
        found: list[Told] = []
        busy = False
        for position, event in records[begin:]:
            found.append((position, event))
            if isinstance(event, e.SlotDied | e.SlotBorn):
                break
            if isinstance(event, e.SlotMoved):
                busy = busy or event.target == "Claimed/Busy"
                if busy and _is_free(event):
                    break
        return found

    def next_job(self, slot: str, job: str, run: list[Told]) -> Next | None:
        """The job for which one had to go: the slot went from it to the next claim without becoming free."""
        last = run[-1] if run else None
        if last is None or not isinstance(last[1], e.SlotMoved):
            return None
        if state(last[1].source) != "Preempting" or state(last[1].target) != "Claimed":
            return None
        user = ""
        records = self.records(slot)
        evicted = next((told for told in reversed(run) if _preempts(told[1])), last)
        for position, event in records[records.index(evicted) :]:
            if event.at > last[1].at + TAKEN:
                break
            if isinstance(event, e.SlotReported):
                user = event.facts.get("user", user) if event.said == "owner" else user
                if event.said == "activated" and event.facts.get("job", "") not in ("", job):
                    return Next(position, event.at, event.facts["job"], user, event.stimulus)
        return None


def _activates(event: e.Event, job: str, began: int) -> bool:
    return (
        isinstance(event, e.SlotReported)
        and event.said == "activated"
        and event.facts.get("job") == job
        and abs(event.at - began) <= NEAR
    )


def _preempts(event: e.Event) -> bool:
    return isinstance(event, e.SlotMoved) and state(event.source) == "Claimed" and state(event.target) == "Preempting"


def _gets_busy(event: e.Event, began: int) -> bool:
    return isinstance(event, e.SlotMoved) and event.target == "Claimed/Busy" and abs(event.at - began) <= NEAR


def _is_free(event: e.SlotMoved) -> bool:
    """Whether the job is gone from the slot."""
    return event.target in ("Claimed/Idle", "Claimed/Cleaning") or state(event.target) not in ("Claimed", "Preempting")


def left_for(run: list[Told], at: int) -> list[tuple[int, e.SlotMoved]]:
    """The moves by which a slot lets a job go at an instant: those towards its end since it last was Busy, up to that
    instant (a little later, since two daemons write of it), and none if the slot was free of it long before."""
    until = [told for told in run if told[1].at <= at + LATER]
    moved = [event for _, event in until if isinstance(event, e.SlotMoved)]
    if moved and _is_free(moved[-1]) and moved[-1].at < at - FREE:
        return []
    busy = [number for number, (_, event) in enumerate(until) if isinstance(event, e.SlotMoved) and _works(event)]
    return moves(until[busy[-1] + 1 if busy else 0 :], "Retiring", "Preempting")


def _works(event: e.SlotMoved) -> bool:
    return event.target in ("Claimed/Busy", "Claimed/Suspended") and state(event.source) == "Claimed"


def moves(run: list[Told], *targets: str) -> list[tuple[int, e.SlotMoved]]:
    """The moves of a run into one of these activities or states."""
    return [
        (position, event)
        for position, event in run
        if isinstance(event, e.SlotMoved) and any(target in event.target.split("/") for target in targets)
    ]
