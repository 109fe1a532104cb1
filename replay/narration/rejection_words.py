"""The words for what a negotiation cycle found in the way of a job: counts of slots, the submitter's limits,
and what no slot has of that which the job asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import asdict

from ...domain import events as e
from ...domain.classad import ClassAd, ClassAdSyntaxError, parse
from ...domain.classad.analysis import references_found
from .evidence import bare
from .formatting import counted, memory, shortened
from .unmatchable_jobs import Misfit, RefusingSlots, Short, Unmet


def counted_slots(reason: e.Unmatched) -> str:
    """Count the slots: those that meet the job's Requirements, refuse it themselves, or are in use."""
    if not reason.slots:
        return "the pool had no slots"
    left = left_by_requirements(reason)
    meet = f"{left:,} {'meets' if left == 1 else 'meet'}" if left else "none meets"
    said = [f"of {counted(reason.slots, 'slot')}, {meet} its Requirements"]
    if reason.refused_by_slot:
        refuse = "refuses it by its" if reason.refused_by_slot == 1 else "refuse it by their"
        said.append(f"{_of_these(reason.refused_by_slot, left)} {refuse} START")
    if reason.taken:
        are = "is" if reason.taken == 1 else "are"
        said.append(f"{_of_these(reason.taken, left)} {are} taken")
    return ", ".join(said)


def not_preempted(reason: e.Unmatched) -> str:
    """Tell why claimed slots that match were not taken from their jobs; empty if there are none."""
    denied = [_DENIED[name](count) for name, count in _counts(reason.denied).items()]
    if not denied:
        return ""
    total = counted(sum(_counts(reason.denied).values()), "claimed slot")
    matches = "matches" if total == "1 claimed slot" else "match"
    return f"{total} (dynamic ones included) {matches}, but may not be preempted: {', '.join(denied)}"


def _of_these(count: int, whole: int) -> str:
    if count < whole:
        return f"{count} of these"
    return "which" if whole == 1 else "all of which"


def left_by_requirements(reason: e.Unmatched) -> int:
    """Count the slots that meet the job's Requirements."""
    return reason.clauses[-1].left if reason.clauses else reason.slots


def unmet(reason: e.Unmatched, ad: e.Ad) -> str:
    """Name the conditions of the job's Requirements that no slot meets by itself; empty if some slot meets them all."""
    if not reason.slots or left_by_requirements(reason):
        return ""
    none = [bare(each.text) + _with(each.text, ad) for each in reason.clauses if not each.alone]
    return f"no slot meets {' or '.join(none) or 'all conditions of its Requirements'}"


def conditions(reason: e.Unmatched, ad: e.Ad) -> str:
    """Count the slots that each condition of the job's Requirements left; empty if it has none."""
    said = [f"{each.text}{_with(each.text, ad)} leaves {each.left}" for each in reason.clauses]
    return f"its Requirements, condition by condition: {', '.join(said)}" if said and reason.slots else ""


def _counts(denied: e.Denied | None) -> dict[str, int]:
    """Count the slots that were denied, by the reason."""
    return {} if denied is None else {name: count for name, count in asdict(denied).items() if count}


_DENIED: dict[str, Callable[[int], str]] = {
    "policy": lambda count: f"PREEMPTION_REQUIREMENTS is not true of {count}",
    "rank": lambda count: f"{_so_many(count, 'prefers the job that it has', 'prefer the jobs that they have')}",
    "priority": lambda count: f"{_so_many(count, 'is', 'are')} used by somebody with no worse priority",
    "own": lambda count: f"{_so_many(count, 'is', 'are')} used by its submitter",
    "never": lambda count: f"{_so_many(count, 'is', 'are')} left alone, as NEGOTIATOR_CONSIDER_PREEMPTION is false",
}
_IN_SHORT = {
    "policy": "what it fits on {is_} in use, and PREEMPTION_REQUIREMENTS {does} not let it have that",
    "rank": "what it fits on {is_} in use, and {prefers} the jobs that it {has}",
    "priority": "what it fits on {is_} in use, by those who {have} no worse priority",
    "own": "what it fits on {is_} in use, by its own submitter",
    "never": "what it fits on {is_} in use, and nobody {has} to make room",
    "taken": "every slot that it fits on {is_} in use",
    "refused": "the slots that it fits on {refuse}",
    "nothing": "no slot {has} what it asks for{now}",
}
_PRESENT = {
    "is_": "is", "are": "are", "does": "does", "prefers": "prefers", "has": "has", "have": "have", "allows": "allows",
    "run": "run", "lets": "lets", "refuse": "refuse it now", "now": " now",
}  # fmt: skip
_PAST = {
    "is_": "was", "are": "were", "does": "did", "prefers": "preferred", "has": "had", "have": "had",
    "allows": "allowed", "run": "ran", "lets": "let", "refuse": "refused it", "now": "",
}  # fmt: skip


def _so_many(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


LIMIT_OF_ONE = {"share": "slots"}
"""What stood in the way of the only submitter who asked, whose share is the pool, when no slot was left."""


_LIMITS = {
    # what stood in the way: at length, in cores, and in a few words
    "share": (
        "the fair share of {0.submitter} was used up: it was to have {allowed}, and had {0.used:g}",
        "the fair share of {0.submitter} {is_} used up",
    ),
    "slots": (
        "{0.submitter}, the only submitter, had {used}, which is all there are",
        "every slot that it fits on {is_} in use",
    ),
    "ceiling": (
        "{0.submitter} may have no more than {allowed}, and had {0.used:g}",
        "{0.submitter} {has} as much as its ceiling {allows}",
    ),
    "quota": (
        "the quota of the accounting group {0.group} was used up: its members may have {allowed}, and had {0.used:g}",
        "the quota of {0.group} {is_} used up: {0.used:g} of {allowed}",
    ),
    "concurrency": ("{names} reached", "{limits} {are} reached: {held}"),
    "matches": (
        "{0.submitter} had got as many matches as it may in a cycle",
        "{0.submitter} got as many matches as it may in a cycle",
    ),
    "running": (
        "as many jobs ran as MAX_JOBS_RUNNING lets run",
        "as many jobs {run} as MAX_JOBS_RUNNING {lets} run",
    ),
}


def limit(reason: e.Unmatched) -> str:
    """Tell the limits that were in the way; the submitter's in cores."""
    words, _ = _LIMITS.get(reason.limit, ("", ""))
    told = words.format(reason, allowed=_cores(reason.allowed), used=_cores(reason.used), names=_reached(reason))
    beside = reason.reached and reason.limit != "concurrency"
    return "; ".join(filter(None, (told, f"{_reached(reason)} reached" if beside else "")))


def _reached(reason: e.Unmatched) -> str:
    """Name the concurrency limits that were reached, as HTCondor's negotiator does."""
    return f"concurrency limit {', '.join(one.name for one in reason.reached)}"


def _cores(cores: float) -> str:
    return f"{cores:g} core{'' if cores == 1 else 's'}"


def kind(reason: e.Unmatched) -> str:
    """Return what kind of thing stood in the way."""
    if reason.reached and not reason.limit:
        return "concurrency"
    denied = _counts(reason.denied)
    if reason.limit in _LIMITS or denied:
        return reason.limit if reason.limit in _LIMITS else max(denied, key=lambda name: denied[name])
    return "taken" if reason.taken else "refused" if reason.refused_by_slot else "nothing"


def is_same(then: e.Unmatched, now: e.Unmatched) -> bool:
    """Return True if what stood in the way still does. Slots that jobs took in that cycle are claimed now."""
    denied = _counts(now.denied)
    none_left = left_by_requirements(now) <= now.refused_by_slot + now.taken + sum(denied.values())
    taken = kind(then) == "taken" and none_left and (now.limit in ("share", "slots") or bool(denied))
    return taken or kind(then) == kind(now) or (not now.limit and kind(then) in denied)


def in_short(reason: e.Unmatched, held: Sequence[str], past: bool = False) -> str:
    """Tell in a few words what stands, or (``past``) stood, in the way.

    :param held: of each concurrency limit that was reached, how much there was and who held it
    """
    of_kind = kind(reason)
    words = _LIMITS[of_kind][1] if of_kind in _LIMITS else _IN_SHORT[of_kind]
    one = len(reason.reached) == 1
    tense = {**(_PAST if past else _PRESENT), **({"are": "was" if past else "is"} if one else {})}
    limits = "a concurrency limit" if one else "concurrency limits"
    return words.format(reason, allowed=_cores(reason.allowed), limits=limits, held="; ".join(held), **tense)


def _with(text: str, ad: e.Ad) -> str:
    """Tell the values of the job's own attributes that a clause reads."""
    lower = {name.lower(): (name, value) for name, value in ad.items()}
    found = dict(lower[short] for name in names_read(text) if (short := name.rpartition(".")[2].lower()) in lower)
    return f" ({', '.join(f'{name} = {value}' for name, value in found.items())})" if found else ""


def names_read(text: str) -> tuple[str, ...]:
    """Give the names that an expression may read of its own ad; those of the other ad are scoped, or in neither."""
    try:
        found = references_found(parse(text), ClassAd())
    except ClassAdSyntaxError:
        return ()
    return tuple(name for name in (*found.internal, *found.external) if not name.lower().startswith("target."))


def no_slot_in_short(found: Misfit) -> str:
    """Tell the reason without the conditions' own text."""
    if found.refused is not None and not found.refused.lacks:
        others = f" and {counted(found.refused.slots - 1, 'other')}" if found.refused.slots > 1 else ""
        return f"{found.nearest}{others} would fit it, but START keeps this job out"
    if not found.slots or found.short or lacks_attribute(found):
        return no_slot(found)
    return f"no slot can run it: none of {counted(found.slots, 'slot')} meets all that it asks for{_nearest(found)}"


def lacks_attribute(found: Misfit) -> bool:
    """Return True if the job or the slots lack an attribute, without which a condition cannot be true."""
    if found.refused is not None:
        return bool(found.refused.lacks)
    return any(one.lacks or "undefined" in one.has.values() for one in found.unmet)


def no_slot(found: Misfit) -> str:
    """Tell the reason as a sentence without its period: "no slot can run it: it asks for 64 cores; ..."."""
    if found.refused is not None:
        return _refused(found.nearest, found.refused)
    if not found.slots:
        return "no slot can run it: the pool has no slots"
    if found.short:
        return f"no slot can run it: it asks for {'; and for '.join(map(_short, found.short))}"
    if found.unmet:
        lacking = [_lacking(one) for one in found.unmet]
        if all(lacking):
            return f"no slot can run it: it needs {' and '.join(lacking)}, which no slot has"
        absent = [name for one in found.unmet for name in one.lacks]
        if absent:
            return f"no slot can run it: its Requirements read {' and '.join(absent)}, which neither it nor a slot has"
        told = " and ".join(shortened(bare(one.condition), 120) for one in found.unmet)
        none = "the slot does not meet" if found.slots == 1 else f"none of {found.slots:,} slots meets"
        return f"no slot can run it: {none} {told}{_nearest(found)}"
    what = "all conditions of its Requirements" if found.nearest else "all that it asks for"
    return f"no slot can run it: none of {counted(found.slots, 'slot')} has {what}{_nearest(found)}"


def _refused(slot: str, found: RefusingSlots) -> str:
    condition = shortened(bare(found.condition), 120)
    if found.lacks:
        lacks = " and ".join(found.lacks)
        return f"no slot can run it: the job lacks {lacks}, without which {condition} of {slot} is {found.value}"
    if found.slots == 1:
        return f"{slot} would fit it, but its START is {found.value} for this job: {condition}"
    others = counted(found.slots - 1, "other")
    return f"{slot} and {others} would fit it, but START keeps this job out; on {slot} it is {found.value}: {condition}"


def _lacking(one: Unmet) -> str:
    """The attribute which is all that a condition asks for, where the nearest slot has none; else nothing."""
    name = bare(one.condition).rpartition(".")[2]
    return name if list(one.has.items()) == [(name, "undefined")] else ""


def _nearest(found: Misfit) -> str:
    """What the nearest slot has in place of what is asked."""
    has = {name: text for one in found.unmet for name, text in one.has.items()}
    said = ", ".join(f"{name} = {shortened(text, 60)}" for name, text in has.items())
    if said:
        return f" ({found.nearest} has {said})" if found.slots == 1 else f" (the nearest, {found.nearest}, has {said})"
    return f" (the nearest is {found.nearest})" if found.nearest and not found.unmet else ""


def _short(one: Short) -> str:
    amount, unit = _AMOUNTS.get(one.resource.lower(), _plain), _UNITS.get(one.resource.lower(), one.resource)
    asked, most = amount(one.asked), amount(one.most)
    if asked == most:  # rounded to the same
        asked, most, unit = _plain(one.asked), _plain(one.most), f"of {one.resource}"
    if unit == "cores" and one.asked == 1:
        unit = "core"
    largest = f"the largest slot has {most}" if one.most else "no slot has any"
    return f"{asked} {unit}; {largest} (request_{one.resource.lower()})"


def _plain(amount: float) -> str:
    return f"{amount:,g}" if amount < 1e6 else f"{amount:,.0f}"


_UNITS = {"cpus": "cores", "memory": "of memory", "disk": "of disk"}
_AMOUNTS: dict[str, Callable[[float], str]] = {
    "memory": lambda mib: memory(round(mib * 1024)),
    "disk": lambda kib: memory(round(kib)),
}
