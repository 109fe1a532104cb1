"""The answer of why a job of a real pool is where its records leave it, made of its life."""

from __future__ import annotations

from typing import Final

from ....domain.state_machines.hold_codes import hold_advice
from ...narration.sentences import Answer, Sentence, advise, answer
from ...narration.wording import instant, memory
from .job_history import SECOND, Record
from .job_life import JobLife

_ADVICE: Final = {"idle": "condor_analyze", "held": "hold_advice_there", "completed": "see_life", "removed": "see_life"}
"""Where a job is -> the code of what can be done."""


def answer_of(life: JobLife) -> Answer:
    since = life.since or life.chain[-1]
    facts = {"job": life.name, "since": instant(since.at, life.zone)}
    facts |= {
        "slot": life.slot if life.status in ("running", "suspended") else "",
        "how": since.facts.get("how", ""),
    }
    head = life.like(since, f"job_{life.status or 'unknown'}", **facts)
    steps = [since]
    if life.status == "idle":
        steps += [life.refused or _others_refused(life, since), *_nobody_to_match(life, since)]
    if life.status == "running" and life.lost is not None:
        steps += [life.like(life.lost, "unconnected", when=instant(life.lost.at, life.zone)), life.lost]
    if life.status == "running" and life.size is not None:
        steps += _measured(life, life.size)
    about = {"job": life.name, "until": instant(life.last, life.zone), "thing": life.name}
    if life.status == "held":
        words = hold_advice(since.facts.get("hold_code", ""), "condor", life.name)
        about["advice"] = words if words[:2].isupper() else words[:1].lower() + words[1:]
    advice = advise(_ADVICE.get(life.status, "see_records") if life.at is None else "see_life", head, **about)
    return answer(head, steps, advice, sorted(life.chain, key=lambda sentence: sentence.at // SECOND))


def _others_refused(life: JobLife, since: Sentence) -> Sentence:
    """Tell what the negotiator said of jobs like it, where it names them alone."""
    last = life.matches.last_rejected
    if last is None or last.at < since.at:
        return life.like(since, "not_looked_at")
    facts = {
        "other": f"{last.event.cluster}.{last.event.proc}",
        "reason": last.facts.get("words", "") or "no reason given",
        "when": instant(last.at, life.zone),
    }
    return life.sentence(last.at, last.position, last.event.stimulus, "nothing_for_others", **facts)


def _nobody_to_match(life: JobLife, since: Sentence) -> list[Sentence]:
    """Tell of the deaths of daemons without which it gets no slot, while it waits."""
    deaths = life.deaths.while_waiting(since.at)
    return [
        life.sentence(death.at, death.position, death.stimulus, "daemon_died", died=death.words(life.zone))
        for death in deaths
    ]


def _measured(life: JobLife, size: Record) -> list[Sentence]:
    resident = size.facts.get("resident", "")
    if not resident.isdecimal():
        return []
    facts = {"when": instant(size.at, life.zone), "memory": memory(int(resident))}
    return [life.sentence(size.at, size.position, size.event.stimulus, "used_memory", **facts)]
