"""The words for what a negotiation cycle found in the way of a job: counts of slots, the submitter's limits,
and what no slot has of that which the job asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import asdict

from ...domain import events as e
from ...domain.classad import ClassAd, ClassAdSyntaxError, parse
from ...domain.classad.analysis import references_or_empty
from .evidence import bare
from .formatting import counted, memory, shortened
from .sentence_tables import REJECTIONS
from .unmatchable_jobs import Misfit, RefusingSlots, Short, Unmet


def counted_slots(reason: e.Unmatched) -> str:
    """Count the slots that meet the job's Requirements, refuse it themselves, or are in use."""
    if not reason.slots:
        return "the pool had no slots"
    left = left_by_requirements(reason)
    meet = f"{left:,} {'meets' if left == 1 else 'meet'}" if left else "none meets"
    texts = [f"of {counted(reason.slots, 'slot')}, {meet} its Requirements"]
    if reason.refused_by_slot:
        refuse = "refuses it by its" if reason.refused_by_slot == 1 else "refuse it by their"
        texts.append(f"{_of_these(reason.refused_by_slot, left)} {refuse} START")
    if reason.taken:
        are = "is" if reason.taken == 1 else "are"
        texts.append(f"{_of_these(reason.taken, left)} {are} taken")
    return ", ".join(texts)


def not_preempted(reason: e.Unmatched) -> str:
    """Tell why claimed slots that match were not taken from their jobs; empty if there are none."""
    denied = [_counted(REJECTIONS["denied"][name], count) for name, count in _counts(reason.denied).items()]
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
    """Name the conditions of the job's Requirements that no single slot meets; empty if some slot meets them all."""
    if not reason.slots or left_by_requirements(reason):
        return ""
    none = [bare(each.text) + _with(each.text, ad) for each in reason.clauses if not each.alone]
    return f"no slot meets {' or '.join(none) or 'all conditions of its Requirements'}"


def conditions(reason: e.Unmatched, ad: e.Ad) -> str:
    """Count the slots that each condition of the job's Requirements left; empty if it has none."""
    texts = [f"{each.text}{_with(each.text, ad)} leaves {each.left}" for each in reason.clauses]
    return f"its Requirements, condition by condition: {', '.join(texts)}" if texts and reason.slots else ""


def _counts(denied: e.Denied | None) -> dict[str, int]:
    """Count the slots that were denied, by the reason."""
    return {} if denied is None else {name: count for name, count in asdict(denied).items() if count}


def _counted(words: str, count: int) -> str:
    one, _, several = words.partition(" | ")
    return (several if several and count != 1 else one).format(count)


LIMIT_OF_ONE = {"share": "slots"}
"""What stood in the way of the only submitter who asked, whose share is the pool, when no slot was left."""


def _filled(table: str, name: str, reason: e.Unmatched, held: Sequence[str] = ()) -> str:
    """Return the words of a table for what stood in the way; empty if it has none."""
    words = REJECTIONS[table].get(name, "")
    allowed, cores, used = _cores(reason.allowed), _cores(reason.used), f"{reason.used:g}"
    limits = "a concurrency limit is" if len(reason.reached) == 1 else "concurrency limits are"
    return words.format(
        submitter=reason.submitter, group=reason.group, allowed=allowed, cores=cores, used=used,
        names=_reached(reason), limits=limits, held="; ".join(held),
    )  # fmt: skip


def limit(reason: e.Unmatched) -> str:
    """Tell the limits that were in the way; the submitter's in cores."""
    text = _filled("at length", reason.limit, reason)
    beside = reason.reached and reason.limit != "concurrency"
    return "; ".join(filter(None, (text, f"{_reached(reason)} reached" if beside else "")))


def _reached(reason: e.Unmatched) -> str:
    """Name the concurrency limits that were reached, as HTCondor's negotiator does."""
    return f"concurrency limit {', '.join(reached.name for reached in reason.reached)}"


def _cores(cores: float) -> str:
    return f"{cores:g} core{'' if cores == 1 else 's'}"


def kind(reason: e.Unmatched) -> str:
    """Return what kind of thing stood in the way."""
    if reason.reached and not reason.limit:
        return "concurrency"
    if reason.limit in REJECTIONS["at length"]:
        return reason.limit
    denied = _counts(reason.denied)
    rest = "taken" if reason.taken else "refused" if reason.refused_by_slot else "nothing"
    return max(denied, key=lambda name: denied[name], default=rest)


def is_same(then: e.Unmatched, now: e.Unmatched) -> bool:
    """Return True if what stood in the way still does. Slots that jobs took in that cycle are claimed now."""
    denied = _counts(now.denied)
    none_left = left_by_requirements(now) <= now.refused_by_slot + now.taken + sum(denied.values())
    taken = kind(then) == "taken" and none_left and (now.limit in ("share", "slots") or bool(denied))
    return taken or kind(then) == kind(now) or (not now.limit and kind(then) in denied)


def in_short(reason: e.Unmatched, held: Sequence[str]) -> str:
    """Return the reason for a rejection in a few words.

    :param held: of each concurrency limit that was reached, how much there was and who held it
    """
    return _filled("in short", kind(reason), reason, held)


def _with(text: str, ad: e.Ad) -> str:
    """Tell the values of the job's own attributes that a clause reads."""
    lower = {name.lower(): (name, value) for name, value in ad.items()}
    values = dict(lower[short] for name in names_read(text) if (short := name.rpartition(".")[2].lower()) in lower)
    return f" ({', '.join(f'{name} = {value}' for name, value in values.items())})" if values else ""


def names_read(text: str) -> tuple[str, ...]:
    """Return the names that an expression may read from its own ad; names of the other ad are scoped, or in neither."""
    try:
        names = references_or_empty(parse(text), ClassAd())
    except ClassAdSyntaxError:
        return ()
    return tuple(name for name in (*names.internal, *names.external) if not name.lower().startswith("target."))


def no_slot_in_short(misfit: Misfit) -> str:
    """Tell the reason without the conditions' own text."""
    if misfit.refused is not None and not misfit.refused.lacks:
        others = f" and {counted(misfit.refused.slots - 1, 'other')}" if misfit.refused.slots > 1 else ""
        return f"{misfit.nearest}{others} would fit it, but START keeps this job out"
    if not misfit.slots or misfit.short or lacks_attribute(misfit):
        return no_slot(misfit)
    return f"no slot can run it: none of {counted(misfit.slots, 'slot')} meets all that it asks for{_nearest(misfit)}"


def lacks_attribute(misfit: Misfit) -> bool:
    """Return True if the job or the slots lack an attribute, without which a condition cannot be true."""
    if misfit.refused is not None:
        return bool(misfit.refused.lacks)
    return any(condition.lacks or "undefined" in condition.has.values() for condition in misfit.unmet)


def no_slot(misfit: Misfit) -> str:
    """Tell the reason as a sentence without its period: "no slot can run it: it asks for 64 cores; ..."."""
    if misfit.refused is not None:
        return _refused(misfit.nearest, misfit.refused)
    if not misfit.slots:
        return "no slot can run it: the pool has no slots"
    if misfit.short:
        return f"no slot can run it: it asks for {'; and for '.join(map(_short, misfit.short))}"
    if misfit.unmet:
        lacking = [_lacking(one) for one in misfit.unmet]
        if all(lacking):
            return f"no slot can run it: it needs {' and '.join(lacking)}, which no slot has"
        absent = [name for one in misfit.unmet for name in one.lacks]
        if absent:
            return f"no slot can run it: its Requirements read {' and '.join(absent)}, which neither it nor a slot has"
        unmet_ = " and ".join(shortened(bare(one.condition), 120) for one in misfit.unmet)
        none = "the slot does not meet" if misfit.slots == 1 else f"none of {misfit.slots:,} slots meets"
        return f"no slot can run it: {none} {unmet_}{_nearest(misfit)}"
    what = "all conditions of its Requirements" if misfit.nearest else "all that it asks for"
    return f"no slot can run it: none of {counted(misfit.slots, 'slot')} has {what}{_nearest(misfit)}"


def _refused(slot: str, refusing: RefusingSlots) -> str:
    condition = shortened(bare(refusing.condition), 120)
    if refusing.lacks:
        lacks = " and ".join(refusing.lacks)
        return f"no slot can run it: the job lacks {lacks}, without which {condition} of {slot} is {refusing.value}"
    if refusing.slots == 1:
        return f"{slot} would fit it, but its START is {refusing.value} for this job: {condition}"
    others = counted(refusing.slots - 1, "other")
    value = refusing.value
    return f"{slot} and {others} would fit it, but START keeps this job out; on {slot} it is {value}: {condition}"


def _lacking(unmet: Unmet) -> str:
    """Return the one attribute that a condition requires, if the nearest slot lacks it; else an empty text."""
    name = bare(unmet.condition).rpartition(".")[2]
    return name if list(unmet.has.items()) == [(name, "undefined")] else ""


def _nearest(misfit: Misfit) -> str:
    """Return the values of the nearest slot that do not meet the job's conditions, in brackets."""
    has = {name: text for one in misfit.unmet for name, text in one.has.items()}
    values, slot = ", ".join(f"{name} = {shortened(text, 60)}" for name, text in has.items()), misfit.nearest
    if values:
        return f" ({slot} has {values})" if misfit.slots == 1 else f" (the nearest, {slot}, has {values})"
    return f" (the nearest is {slot})" if slot and not misfit.unmet else ""


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
