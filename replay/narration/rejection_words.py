"""Describe why a negotiation cycle rejected a job: counts of slots, the submitter's limits, and requests that no slot
can fulfil."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import asdict

from ...domain import events as e
from ...domain.classad import ClassAd, ClassAdSyntaxError, parse
from ...domain.classad.analysis import references_or_empty
from .evaluation_texts import without_brackets
from .formatting import counted, memory, shorten_text
from .sentence_tables import REJECTIONS
from .unmatchable_jobs import Misfit, RefusingSlots, Shortage, UnmetCondition


def slot_counts(reason: e.Unmatched) -> str:
    """Count the slots that meet the job's Requirements, reject it by START, or are in use, as a sentence."""
    if not reason.slots:
        return "the negotiator had no slots"
    slots_left = slots_meeting_requirements(reason)
    meet_text = f"{slots_left:,} {'meets' if slots_left == 1 else 'meet'}" if slots_left else "none meets"
    is_about_dynamic_slots = not slots_left and bool(reason.limit or _counts(reason.denied))
    slots_text = f"of {counted(reason.slots, 'slot')}{' (dynamic ones excluded)' if is_about_dynamic_slots else ''}"
    sentences = [f"{slots_text}, {meet_text} its Requirements"]
    if reason.refused_by_slot:
        reject_text = "rejects it, by its" if reason.refused_by_slot == 1 else "reject it, by their"
        share_text = _share_text(reason.refused_by_slot, slots_left)
        sentences.append(f"{share_text} {reject_text} START or for lack of resources")
    if reason.taken:
        verb = "is" if reason.taken == 1 else "are"
        sentences.append(f"{_share_text(reason.taken, slots_left)} {verb} not free")
    return ", ".join(sentences)


def preemption_refusals(reason: e.Unmatched) -> str:
    """Return why matching claimed slots could not be preempted, or an empty string if there are none."""
    denials = [_count_with_form(REJECTIONS["denied"][name], count) for name, count in _counts(reason.denied).items()]
    if not denials:
        return ""
    total = counted(sum(_counts(reason.denied).values()), "claimed slot")
    matches = "matches" if total == "1 claimed slot" else "match"
    return f"{total} (dynamic ones included) {matches}, but may not be preempted: {', '.join(denials)}"


def _share_text(count: int, group_text: int) -> str:
    if count < group_text:
        return f"{count} of these"
    return "which" if group_text == 1 else "all of which"


def slots_meeting_requirements(reason: e.Unmatched) -> int:
    """Count the slots that meet the job's Requirements."""
    return reason.clauses[-1].left if reason.clauses else reason.slots


def unmet_conditions(reason: e.Unmatched, ad: e.Ad) -> str:
    """Return the conditions of the job's Requirements that no single slot meets; empty if a slot meets them all."""
    if not reason.slots or slots_meeting_requirements(reason):
        return ""
    texts = [clause.text for clause in reason.clauses if not clause.alone]
    conditions = [without_brackets(text) + _with_values(text, ad) for text in texts]
    return f"no slot meets {' or '.join(conditions) or 'all conditions of its Requirements'}"


def conditions_left(reason: e.Unmatched, ad: e.Ad) -> str:
    """Return how many slots each condition of the job's Requirements left; empty if it has no conditions."""
    texts = [f"{clause.text}{_with_values(clause.text, ad)} leaves {clause.left}" for clause in reason.clauses]
    return f"its Requirements, condition by condition: {', '.join(texts)}" if texts and reason.slots else ""


def _counts(denied: e.Denied | None) -> dict[str, int]:
    return {} if denied is None else {name: count for name, count in asdict(denied).items() if count}


def _count_with_form(forms: str, count: int) -> str:
    singular, _, plural = forms.partition(" | ")
    return (plural if plural and count != 1 else singular).format(count)


LIMIT_OF_ONE = {"share": "slots"}
"""A limit -> the limit to report if there was only one submitter, whose share is the whole pool."""


def _fill_template(table: str, name: str, reason: e.Unmatched, holder_texts: Sequence[str] = ()) -> str:
    template = REJECTIONS[table].get(name, "")
    allowed_cores, cores, used_amount = _cores(reason.allowed), _cores(reason.used), f"{reason.used:g}"
    limits = "a concurrency limit is" if len(reason.reached) == 1 else "concurrency limits are"
    return template.format(
        submitter=reason.submitter, group=reason.group, allowed=allowed_cores, cores=cores, used=used_amount,
        names=_concurrency_limit_text(reason), limits=limits, held="; ".join(holder_texts),
    )  # fmt: skip


def limits_reached(reason: e.Unmatched) -> str:
    """Return the limits that were reached; the submitter's in cores."""
    text = _fill_template("at length", reason.limit, reason)
    has_other_limit = reason.reached and reason.limit != "concurrency"
    return "; ".join(filter(None, (text, f"{_concurrency_limit_text(reason)} reached" if has_other_limit else "")))


def _concurrency_limit_text(reason: e.Unmatched) -> str:
    return f"concurrency limit {', '.join(reached_limit.name for reached_limit in reason.reached)}"


def _cores(cores: float) -> str:
    return f"{cores:g} core{'' if cores == 1 else 's'}"


def obstacle_kind(reason: e.Unmatched) -> str:
    """Return the kind of the obstacle."""
    if reason.reached and not reason.limit:
        return "concurrency"
    if reason.limit in REJECTIONS["at length"]:
        return reason.limit
    denials = _counts(reason.denied)
    default = "taken" if reason.taken else "refused" if reason.refused_by_slot else "nothing"
    return max(denials, key=lambda name: denials[name], default=default)


def is_same(earlier: e.Unmatched, now: e.Unmatched) -> bool:
    """Return True if the obstacle is still there. Slots that were matched in that cycle are claimed now."""
    denials = _counts(now.denied)
    none_left = slots_meeting_requirements(now) <= now.refused_by_slot + now.taken + sum(denials.values())
    all_taken = obstacle_kind(earlier) == "taken" and none_left and (now.limit in ("share", "slots") or bool(denials))
    kind = obstacle_kind(earlier)
    return all_taken or kind == obstacle_kind(now) or (not now.limit and kind in denials)


def short_reason(reason: e.Unmatched, holder_texts: Sequence[str]) -> str:
    """Return the reason for a rejection in a few words.

    :param holder_texts: for each concurrency limit that was reached, its size and its holders
    """
    return _fill_template("in short", obstacle_kind(reason), reason, holder_texts)


def _with_values(text: str, ad: e.Ad) -> str:
    """Return the values of the job's own attributes that a clause reads, in brackets."""
    lower = {name.lower(): (name, value) for name, value in ad.items()}
    values = dict(lower[short] for name in own_names_read(text) if (short := name.rpartition(".")[2].lower()) in lower)
    return f" ({', '.join(f'{name} = {value}' for name, value in values.items())})" if values else ""


def own_names_read(text: str) -> tuple[str, ...]:
    """Return the names that an expression may read from its own ad; names of the other ad are scoped, or in neither."""
    try:
        names = references_or_empty(parse(text), ClassAd())
    except ClassAdSyntaxError:
        return ()
    return tuple(name for name in (*names.internal, *names.external) if not name.lower().startswith("target."))


def short_misfit(misfit: Misfit) -> str:
    """Return the reason without the conditions' text."""
    if misfit.refused is not None and not misfit.refused.lacks:
        others_text = f" and {counted(misfit.refused.slots - 1, 'other')}" if misfit.refused.slots > 1 else ""
        return f"{misfit.nearest}{others_text} would fit it, but START rejects this job"
    if not misfit.slots or misfit.short or lacks_attribute(misfit) or any(map(_is_on_devices, misfit.unmet)):
        return misfit_text(misfit)
    return f"no slot can run it: none of {counted(misfit.slots, 'slot')} meets all its requests{_nearest_text(misfit)}"


def lacks_attribute(misfit: Misfit) -> bool:
    """Return True if the job or the slots lack an attribute, without which a condition cannot be true."""
    if misfit.refused is not None:
        return bool(misfit.refused.lacks)
    return any(condition.lacks or "undefined" in condition.has.values() for condition in misfit.unmet)


def misfit_text(misfit: Misfit) -> str:
    """Return the reason as a sentence without its period: "no slot can run it: it asks for 64 cores; ..."."""
    if misfit.refused is not None:
        return _refusing_text(misfit.nearest, misfit.refused)
    if not misfit.slots:
        return "no slot can run it: the pool has no slots"
    if misfit.short:
        return f"no slot can run it: it requests {'; and '.join(map(_shortage_text, misfit.short))}"
    if misfit.unmet:
        if any(unmet.resource for unmet in misfit.unmet):
            return f"no slot can run it: {' and '.join(map(_devices_text, filter(_is_on_devices, misfit.unmet)))}"
        lacking_texts = [_lacking_attribute(unmet) for unmet in misfit.unmet]
        if all(lacking_texts):
            return f"no slot can run it: it needs {' and '.join(lacking_texts)}, which no slot has"
        absent = [name for unmet in misfit.unmet for name in unmet.lacks]
        if absent:
            return f"no slot can run it: its Requirements read {' and '.join(absent)}, which neither it nor a slot has"
        conditions_text = " and ".join(shorten_text(without_brackets(unmet.condition), 120) for unmet in misfit.unmet)
        subject = "the slot does not meet" if misfit.slots == 1 else f"none of {misfit.slots:,} slots meets"
        return f"no slot can run it: {subject} {conditions_text}{_nearest_text(misfit)}"
    requirement_text = "all conditions of its Requirements" if misfit.nearest else "everything that it requests"
    return f"no slot can run it: none of {counted(misfit.slots, 'slot')} has {requirement_text}{_nearest_text(misfit)}"


def _refusing_text(slot: str, refusing: RefusingSlots) -> str:
    condition = shorten_text(without_brackets(refusing.condition), 120)
    if refusing.lacks:
        lacks = " and ".join(refusing.lacks)
        return f"no slot can run it: the job lacks {lacks}, without which {condition} of {slot} is {refusing.value}"
    if refusing.slots == 1:
        return f"{slot} would fit it, but its START is {refusing.value} for this job: {condition}"
    others_text = counted(refusing.slots - 1, "other")
    value = refusing.value
    return f"{slot} and {others_text} would fit it, but START rejects this job; on {slot} it is {value}: {condition}"


def _is_on_devices(unmet: UnmetCondition) -> bool:
    return bool(unmet.resource)


def _devices_text(unmet: UnmetCondition) -> str:
    """Return a condition that no device meets, with the values that it compares."""
    values = ", ".join(f"{name} = {shorten_text(text, 60) or 'undefined'}" for name, text in unmet.has.items())
    device, condition = unmet.resource.removesuffix("s"), shorten_text(without_brackets(unmet.condition), 120)
    return f"no {device} meets {condition} ({values})"


def _lacking_attribute(unmet: UnmetCondition) -> str:
    """Return the one attribute that a condition requires, if the nearest slot lacks it; else an empty text."""
    name = without_brackets(unmet.condition).rpartition(".")[2]
    return name if list(unmet.has.items()) == [(name, "undefined")] else ""


def _nearest_text(misfit: Misfit) -> str:
    """Return the values of the nearest slot that do not meet the job's conditions, in brackets."""
    slot_values = {name: text for unmet in misfit.unmet for name, text in unmet.has.items()}
    values, slot = ", ".join(f"{name} = {shorten_text(text, 60)}" for name, text in slot_values.items()), misfit.nearest
    if values:
        return f" ({slot} has {values})" if misfit.slots == 1 else f" (the nearest, {slot}, has {values})"
    return f" (the nearest is {slot})" if slot and not misfit.unmet else ""


def _shortage_text(short: Shortage) -> str:
    amount = _AMOUNTS.get(short.resource.lower(), _amount_text)
    unit = _UNITS.get(short.resource.lower(), short.resource)
    requested, largest_amount = amount(short.asked), amount(short.most)
    if requested == largest_amount:  # rounded to the same
        requested, largest_amount, unit = _amount_text(short.asked), _amount_text(short.most), f"of {short.resource}"
    if unit == "cores" and short.asked == 1:
        unit = "core"
    largest_text = f"the largest slot has {largest_amount}" if short.most else "no slot has any"
    return f"{requested} {unit}; {largest_text} (request_{short.resource.lower()})"


def _amount_text(amount: float) -> str:
    return f"{amount:,g}" if amount < 1e6 else f"{amount:,.0f}"


_UNITS = {"cpus": "cores", "memory": "of memory", "disk": "of disk"}
_AMOUNTS: dict[str, Callable[[float], str]] = {
    "memory": lambda mib: memory(round(mib * 1024)),
    "disk": lambda kib: memory(round(kib)),
}
