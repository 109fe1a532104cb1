"""Make the transforms that change a job which its own hold would stop: larger requests, and on_evict_checks.

``request_memory = 1G, 2G, 4G`` (or ``retry_request_memory = 2G, 4G``) asks for more each time that the job exceeded
what it had; ``retry_request_memory_increase`` says by how much, ``retry_request_memory_max`` up to what. The ad carries
the transform's lines, a record separator between them. Source: the manual's page "Submit Description File Commands",
request_memory and its neighbours; HTCondor 25.14's ``SetBuiltInOnEvictCheck`` where it is silent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ..classad import ClassAd, ClassAdSyntaxError, Context, EvaluationError
from ..classad.analysis import references_or_empty
from ..classad.old_form import expression_text, literal_string, read_expression, string_text
from .job_sections import Job, Section

Amount = Callable[[str], tuple[int, bool] | None]
"""Reads an amount, in the request's unit, and whether it names its own unit; None: it is an expression."""

ON_EVICT = "TransformOnEvict"
BODY = "TransformBody_"
_SEPARATOR = "\x1e"
_EXCEEDED = {
    "RequestMemory": "(VacateReasonCode==21 || VacateReasonCode == 34) && VacateReasonSubCode == 102",
    "RequestDisk": "(VacateReasonCode==21 || VacateReasonCode == 34) && VacateReasonSubCode == 104",
}
"""When a request was too small: the codes of the holds by the system, and by a slot's limits."""


class Retries(NamedTuple):
    """The commands that say what is asked for the next time; ``most`` and ``increase``: empty where there are none."""

    attribute: str
    sequence: str
    most: str = ""
    increase: str = ""

    @property
    def commands(self) -> tuple[str, ...]:
        return tuple(filter(None, self[1:]))

    @property
    def sets(self) -> tuple[str, ...]:
        """The attributes that they make."""
        prefixes = ("Retry", BODY, *(("Max", "Next") if self.increase else ()))
        return (*(f"{prefix}{self.attribute}" for prefix in prefixes), ON_EVICT)


RETRIES = {
    "request_disk": Retries("RequestDisk", "retry_request_disk"),
    "request_memory": Retries(
        "RequestMemory", "retry_request_memory", "retry_request_memory_max", "retry_request_memory_increase"
    ),
}
"""By the request's own command."""


def retry(job: Job, command: str, retries: Retries, rest: str, amount: Amount) -> None:
    """Make what a job asks for the next time.

    :param command: the request's command
    :param rest: its text after the first amount and a comma
    """
    increase = job.value(retries.increase) if retries.increase else None
    most = job.value(retries.most) if retries.most else None
    if rest.strip():
        line, increase, source = rest, None, command
    elif (sequence := job.value(retries.sequence)) is not None:
        if increase:
            job.warn(f"{retries.increase} will be ignored because {retries.sequence} was used")
        line, increase, source = sequence, None, retries.sequence
    elif most or increase:
        line, source = most or "", retries.most if most else retries.increase
    else:
        return
    numbers, last = _sequence(job, source, line, amount)
    if not last and numbers:
        last = str(numbers.pop())
    body = _body(job, retries, numbers, last, increase, amount)
    job.set_string(BODY + retries.attribute, f"REQUIREMENTS {_EXCEEDED[retries.attribute]}{_SEPARATOR}{body}")
    before = literal_string(job.attribute(ON_EVICT)) or ""
    job.set_string(ON_EVICT, f"{before} {retries.attribute}".strip())


def _sequence(job: Job, command: str, line: str, amount: Amount) -> tuple[list[int], str]:
    """Return the amounts of a list, and the expression behind them, if there is one."""
    numbers: list[int] = []
    rest = line.strip()
    while rest:
        first, _, behind = rest.partition(",")
        megabytes = amount(first)
        if megabytes is None:
            try:
                return numbers, expression_text(rest)
            except ClassAdSyntaxError:
                raise job.wrong(command, f"'{rest}' is neither a number nor an expression") from None
        if (numbers and megabytes[0] <= numbers[-1]) or megabytes[0] <= 0:
            least = numbers[-1] if numbers else 0
            rule = f"this must be an increasing sequence of values, but {megabytes[0]} is not greater than {least}"
            raise job.wrong(command, rule)
        missing = job.facts.setting("SUBMIT_REQUEST_MISSING_UNITS").lower()
        if missing and not megabytes[1]:
            if missing == "error":
                raise job.wrong(command, "this pool wants a unit after each number: K, M, G or T")
            job.warn(f"{command} = {line.strip()} should have a unit after each number: K, M, G or T")
        numbers.append(megabytes[0])
        rest = behind.strip()
    return numbers, ""


def _body(job: Job, retries: Retries, numbers: list[int], last: str, increase: str | None, amount: Amount) -> str:
    """Return the lines that set the request, and make the attributes that they read."""
    name = retries.attribute
    if numbers:
        job.made[f"Retry{name}"] = expression_text(f"{{{', '.join([*map(str, numbers), last])}}}")
        index = f"Retry{name}Index"
        return (
            f"EVALSET {name} Retry{name}[{index}?:0]{_SEPARATOR}"
            f"EVALSET {index} MIN({{size(Retry{name})-1, ({index}?:0)+1}})"
        )
    if increase is None:
        return f"{'SET' if last.isdecimal() else 'EVALSET'} {name} {last}"
    step = _step(job, retries, increase, amount)
    if last:
        job.made |= {f"Max{name}": last, f"Next{name}": step}
        return f"EVALSET {name} MIN({{Next{name}, Max{name}}})"
    return f"SET {name} {_evaluated(job, retries, step)}"


def _step(job: Job, retries: Retries, increase: str, amount: Amount) -> str:
    """Return the expression of the next request."""
    rule = f"this must be a positive number, or an expression that references {retries.attribute}"
    megabytes = amount(increase)
    if megabytes is not None:
        if megabytes[0] <= 0:
            raise job.wrong(retries.increase, rule)
        return f"{retries.attribute} + {megabytes[0]}"
    text = job.expression(retries.increase)
    read = references_or_empty(read_expression(text), ClassAd()).external
    if retries.attribute.lower() not in {name.lower() for name in read}:
        raise job.wrong(retries.increase, rule)
    return text


def _evaluated(job: Job, retries: Retries, step: str) -> int:
    """Return what the next request is, as far as the submission can tell."""
    ad = ClassAd({retries.attribute: read_expression(job.made[retries.attribute])})
    try:
        value = read_expression(step).evaluate(ad, context=Context())
    except EvaluationError:
        value = None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise job.wrong(retries.increase, "this must give an integer when the job is submitted")
    return int(value)


def checks(commands: Iterable[str]) -> list[Section]:
    """Return the section of ``on_evict_checks``, with the given commands ``transform_body_NAME``."""
    bodies = {name.removeprefix("transform_body_"): name for name in commands if name.startswith("transform_body_")}
    attributes = (ON_EVICT, *(BODY + tag for tag in bodies))
    return [Section(_checks(bodies), ("on_evict_checks", ON_EVICT.lower(), *bodies.values()), attributes)]


def _checks(bodies: Mapping[str, str]) -> Callable[[Job], None]:
    def action(job: Job) -> None:
        value = job.value("on_evict_checks", ON_EVICT.lower())
        if value is None:
            return
        tags = []
        for tag in filter(None, re.split(r"[,\s]+", value)):
            text = job.value(bodies.get(tag.lower(), ""))
            if text is None:
                job.warn(f"on_evict_checks names {tag}, and there is no transform_body_{tag}: it is left out")
                continue
            lines = [line.strip() for line in text.split("\n")]
            body = _SEPARATOR.join(line for line in lines if line and not line.startswith("#"))
            job.made[BODY + tag] = string_text(body)
            tags.append(tag)
        job.set_string(ON_EVICT, " ".join(tags))

    return action
