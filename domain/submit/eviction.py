"""Compute the transforms that the schedd applies to evicted jobs: larger requests, and on_evict_checks.

``request_memory = 1G, 2G, 4G`` (or ``retry_request_memory = 2G, 4G``) requests more memory each time the job exceeds
its request. ``retry_request_memory_increase`` and ``retry_request_memory_max`` set the increment and the limit. The ad
contains the lines of the transform, separated by record separators. Source: the manual's page "Submit Description File
Commands", request_memory and related commands; HTCondor 25.14's ``SetBuiltInOnEvictCheck``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ..classad import ClassAd, ClassAdSyntaxError, Context, EvaluationError
from ..classad.analysis import references_or_empty
from ..classad.old_form import expression_text, literal_string, quote_string, read_expression
from .job_sections import Section, SubmitJob

Amount = Callable[[str], tuple[int, bool] | None]
"""A parser of amounts: returns the number in the request's unit and whether it has a unit; None for an expression."""

ON_EVICT = "TransformOnEvict"
BODY_PREFIX = "TransformBody_"
_SEPARATOR = "\x1e"
_EXCEEDED = {
    "RequestMemory": "(VacateReasonCode==21 || VacateReasonCode == 34) && VacateReasonSubCode == 102",
    "RequestDisk": "(VacateReasonCode==21 || VacateReasonCode == 34) && VacateReasonSubCode == 104",
}
"""The condition that a request was too small, by the hold codes of the system and of a slot's limits."""


class RetryCommands(NamedTuple):
    """The commands for the next request of a resource. ``maximum`` and ``increase`` may be missing (empty)."""

    attribute: str
    sequence: str
    maximum: str = ""
    increase: str = ""

    @property
    def commands(self) -> tuple[str, ...]:
        return tuple(filter(None, self[1:]))

    @property
    def sets(self) -> tuple[str, ...]:
        """Return the attributes that the commands set."""
        prefixes = ("Retry", BODY_PREFIX, *(("Max", "Next") if self.increase else ()))
        return (*(f"{prefix}{self.attribute}" for prefix in prefixes), ON_EVICT)


RETRIES = {
    "request_disk": RetryCommands("RequestDisk", "retry_request_disk"),
    "request_memory": RetryCommands(
        "RequestMemory", "retry_request_memory", "retry_request_memory_max", "retry_request_memory_increase"
    ),
}
"""The commands for the next request, by the command of the first request."""


def set_retries(job: SubmitJob, command: str, retries: RetryCommands, remaining: str, amount: Amount) -> None:
    """Set the attributes of the next request.

    :param command: the command of the first request
    :param remaining: the text of this command after the first amount and a comma
    """
    increase = job.value(retries.increase) if retries.increase else None
    maximum = job.value(retries.maximum) if retries.maximum else None
    if remaining.strip():
        line, increase, source = remaining, None, command
    elif (sequence := job.value(retries.sequence)) is not None:
        if increase:
            job.warn(f"{retries.increase} will be ignored because {retries.sequence} was used")
        line, increase, source = sequence, None, retries.sequence
    elif maximum or increase:
        line, source = maximum or "", retries.maximum if maximum else retries.increase
    else:
        return
    numbers, last = _parse_sequence(job, source, line, amount)
    if not last and numbers:
        last = str(numbers.pop())
    lines = _transform_lines(job, retries, numbers, last, increase, amount)
    job.set_string(BODY_PREFIX + retries.attribute, f"REQUIREMENTS {_EXCEEDED[retries.attribute]}{_SEPARATOR}{lines}")
    transforms = literal_string(job.attribute(ON_EVICT)) or ""
    job.set_string(ON_EVICT, f"{transforms} {retries.attribute}".strip())


def _parse_sequence(job: SubmitJob, command: str, line: str, amount: Amount) -> tuple[list[int], str]:
    numbers: list[int] = []
    remaining = line.strip()
    while remaining:
        first, _, after_comma = remaining.partition(",")
        megabytes = amount(first)
        if megabytes is None:
            try:
                return numbers, expression_text(remaining)
            except ClassAdSyntaxError:
                raise job.error(command, f"'{remaining}' is neither a number nor an expression") from None
        if (numbers and megabytes[0] <= numbers[-1]) or megabytes[0] <= 0:
            previous = numbers[-1] if numbers else 0
            rule = f"this must be an increasing sequence of values, but {megabytes[0]} is not greater than {previous}"
            raise job.error(command, rule)
        missing = job.facts.setting("SUBMIT_REQUEST_MISSING_UNITS").lower()
        if missing and not megabytes[1]:
            if missing == "error":
                raise job.error(command, "this pool requires a unit after each number: K, M, G or T")
            job.warn(f"{command} = {line.strip()} should have a unit after each number: K, M, G or T")
        numbers.append(megabytes[0])
        remaining = after_comma.strip()
    return numbers, ""


def _transform_lines(
    job: SubmitJob, retries: RetryCommands, numbers: list[int], last: str, increase: str | None, amount: Amount
) -> str:
    name = retries.attribute
    if numbers:
        job.result[f"Retry{name}"] = expression_text(f"{{{', '.join([*map(str, numbers), last])}}}")
        index = f"Retry{name}Index"
        return (
            f"EVALSET {name} Retry{name}[{index}?:0]{_SEPARATOR}"
            f"EVALSET {index} MIN({{size(Retry{name})-1, ({index}?:0)+1}})"
        )
    if increase is None:
        return f"{'SET' if last.isdecimal() else 'EVALSET'} {name} {last}"
    next_request = _next_request(job, retries, increase, amount)
    if last:
        job.result |= {f"Max{name}": last, f"Next{name}": next_request}
        return f"EVALSET {name} MIN({{Next{name}, Max{name}}})"
    return f"SET {name} {_evaluate_next(job, retries, next_request)}"


def _next_request(job: SubmitJob, retries: RetryCommands, increase: str, amount: Amount) -> str:
    rule = f"this must be a positive number, or an expression that references {retries.attribute}"
    megabytes = amount(increase)
    if megabytes is not None:
        if megabytes[0] <= 0:
            raise job.error(retries.increase, rule)
        return f"{retries.attribute} + {megabytes[0]}"
    text = job.expression(retries.increase)
    read = references_or_empty(read_expression(text), ClassAd()).external
    if retries.attribute.lower() not in {name.lower() for name in read}:
        raise job.error(retries.increase, rule)
    return text


def _evaluate_next(job: SubmitJob, retries: RetryCommands, next_request: str) -> int:
    ad = ClassAd({retries.attribute: read_expression(job.result[retries.attribute])})
    try:
        value = read_expression(next_request).evaluate(ad, context=Context())
    except EvaluationError:
        value = None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise job.error(retries.increase, "this must evaluate to an integer when the job is submitted")
    return int(value)


def evict_check_sections(commands: Iterable[str]) -> list[Section]:
    """Return the section of ``on_evict_checks`` and of the given commands ``transform_body_NAME``."""
    bodies = {name.removeprefix("transform_body_"): name for name in commands if name.startswith("transform_body_")}
    attributes = (ON_EVICT, *(BODY_PREFIX + tag for tag in bodies))
    return [Section(_evict_checks_action(bodies), ("on_evict_checks", ON_EVICT.lower(), *bodies.values()), attributes)]


def _evict_checks_action(bodies: Mapping[str, str]) -> Callable[[SubmitJob], None]:
    def action(job: SubmitJob) -> None:
        value = job.value("on_evict_checks", ON_EVICT.lower())
        if value is None:
            return
        tags = []
        for tag in filter(None, re.split(r"[,\s]+", value)):
            text = job.value(bodies.get(tag.lower(), ""))
            if text is None:
                job.warn(f"on_evict_checks: {tag} is ignored, because there is no transform_body_{tag}")
                continue
            lines = [line.strip() for line in text.split("\n")]
            body = _SEPARATOR.join(line for line in lines if line and not line.startswith("#"))
            job.result[BODY_PREFIX + tag] = quote_string(body)
            tags.append(tag)
        job.set_string(ON_EVICT, " ".join(tags))

    return action
