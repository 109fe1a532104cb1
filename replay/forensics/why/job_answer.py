"""The answer of why a job of a real pool is where its records leave it, made of its life."""

from __future__ import annotations

from collections import Counter
from typing import Final

from ....domain.state_machines.hold_codes import hold_advice
from ....domain.units import SECOND
from ...narration.formatting import instant, memory
from ...narration.sentences import Answer, Sentence, advise, answer, cut
from .job_history import APART, Record
from .job_life import JobLife

_ADVICE: Final = {"idle": "condor_analyze", "held": "hold_advice_there", "completed": "see_life", "removed": "see_life"}
"""Where a job is -> the code of what can be done."""
_EVICTIONS: Final = frozenset({"log_evicted", "log_requeued", "over_there", "run_over", "shadow_left"})
"""The codes of sentences that report an eviction; of a run that only its slot's log has, if it was ended there."""
_WHY: Final = ("why", "died", "log", "said")  #: the facts that have the cause of an eviction, the most telling first
_LONGEST: Final = 99  #: characters of all causes together
_LISTED: Final = 3  #: list so many evictions one by one, more of them by their causes


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
        steps += [life.refused or life.cools or _others_refused(life, since), *_nobody_to_match(life, since)]
    if life.status == "running" and life.lost is not None:
        steps += [life.like(life.lost, "unconnected", when=instant(life.lost.at, life.zone)), life.lost]
    if life.status == "running" and life.size is not None:
        steps += _measured(life, life.size)
    steps += _evictions(life, since)
    about = {"job": life.name, "until": instant(life.last, life.zone), "thing": life.name}
    if life.status == "held":
        words = hold_advice(since.facts.get("hold_code", ""), "condor", life.name)
        about["advice"] = words if words[:2].isupper() else words[:1].lower() + words[1:]
    advice = advise(_ADVICE.get(life.status, "see_records") if life.at is None else "see_life", head, **about)
    return answer(
        head,
        [step.in_hindsight for step in steps],
        advice,
        sorted(life.chain, key=lambda sentence: sentence.at // SECOND),
    )


def _evictions(life: JobLife, since: Sentence) -> list[Sentence]:
    """Report the evictions before the step that put the job where it is, each with its time and cause; of many, how
    often each cause occurred."""
    found = [one for one in life.chain if one.code in _EVICTIONS and one.facts.get("did") != "ended"]
    found = [one for one in found if since.at - one.at > APART]  # one at that instant is that step itself
    if not found:
        return []
    found = [one.in_hindsight for one in found]
    causes = [_cause(one) for one in found]
    short = _LONGEST // min(len(set(causes)), _LISTED)
    if len(found) == 1:
        listed = [f"because {cut(causes[0], _LONGEST)}"]
    elif len(found) <= _LISTED:
        listed = [
            f"at {instant(one.at, life.zone).split()[-1]} because {cut(cause, _LONGEST // len(found))}"
            for one, cause in zip(found, causes, strict=True)
        ]
    else:
        counts = Counter(causes).most_common(_LISTED)
        often = [f"{_times(count)} " if len(counts) > 1 else "" for _, count in counts]
        listed = [f"{times}because {cut(cause, short)}" for times, (cause, _) in zip(often, counts, strict=True)]
    facts = {"times": _times(len(found)), "cause" if len(listed) == 1 else "evictions": "; ".join(listed)}
    facts["last" if len(found) > 1 else "on"] = instant(found[-1].at, life.zone)
    return [life.like(found[-1], "evicted_before", **facts)]


def _cause(eviction: Sentence) -> str:
    if eviction.code == "log_requeued":
        return "it ended, and was to run again"
    return next((text for name in _WHY if (text := eviction.facts.get(name, ""))), "no record says why")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


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
