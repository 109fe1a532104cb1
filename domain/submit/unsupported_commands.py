"""Warn a user of all unsupported commands in one message.

``coverage.attributes`` lists the unsupported job attributes, and the slot attributes that no slot has. A command that
does not change the ad is not reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Final, Literal

from ..classad import ClassAd, ClassAdSyntaxError, EvaluationError, parse
from ..classad.analysis import clauses, references_or_empty
from ..classad.old_form import expression_text
from ..classad.syntax_errors import explain_error, find_error
from ..classad.tree import Attribute, Parentheses
from ..coverage.attributes import absent_attribute, attributes, commands, unwritten_attributes
from .build import JobBatch
from .eviction import BODY_PREFIX, RETRIES
from .submit_commands import SIMPLE

COMMANDS_OF: dict[str, tuple[str, ...]] = {command.attribute: command.commands for command in SIMPLE} | {
    "ConcurrencyLimits": ("concurrency_limits", "concurrency_limits_expr"),
    "DeferralPrepTime": ("deferral_prep_time", "cron_prep_time", "cronpreptime"),
    "DeferralTime": ("deferral_time",),
    "DeferralWindow": ("deferral_window", "cron_window", "cronwindow"),
    "JobNotification": ("notification",),
    "ShouldTransferFiles": ("should_transfer_files",),
    "StreamErr": ("stream_error",),
    "StreamIn": ("stream_input",),
    "StreamOut": ("stream_output",),
    "TransferInput": ("transfer_input_files", "transferinputfiles"),
    "TransferOutput": ("transfer_output_files", "transferoutputfiles"),
    "TransformOnEvict": ("on_evict_checks",),
    "WhenToTransferOutput": ("when_to_transfer_output",),
    **{f"{BODY_PREFIX}{retries.attribute}": retries.commands for retries in RETRIES.values()},
}
"""The commands that set each attribute, other than the attribute's own name."""

EXPRESSIONS: Final[tuple[str, ...]] = ("requirements", "rank")
"""The commands whose expressions read slot attributes."""


POLICIES: Final[Mapping[str, str]] = {
    "Requirements": "requirements",
    "Rank": "rank",
    "OnExitHold": "on_exit_hold",
    "OnExitRemove": "on_exit_remove",
    "LeaveJobInQueue": "leave_in_queue",
}
"""The attributes whose expressions are evaluated in the job's ad, each with its command."""


def is_read_by_htcondor(command: str) -> bool:
    """Check whether HTCondor reads a command that sets no attribute in Poolbook. Such a command is not misspelled."""
    return command in _read_by("the parser") or command in _read_by("condor_submit")


@cache
def _read_by(reader: Literal["the parser", "condor_submit"]) -> frozenset[str]:
    return frozenset(name.lower() for name in commands(reader))


def unsupported_message(batch: JobBatch, spellings: Mapping[str, str], expressions: Mapping[str, str]) -> str:
    """Return one message about all parts of a submission that have no effect; empty if all parts have an effect.

    :param spellings: the original spelling of each command, by lower-case name (``my.name`` for ``+name``)
    :param expressions: the user's ``requirements`` and ``rank``, with macros expanded
    """
    unused = _commands_setting(batch, attributes("not acted on"), spellings)
    ineffective = _commands_setting(batch, attributes("no effect"), spellings)
    ineffective += [spelling for command, spelling in spellings.items() if command in _read_by("condor_submit")]
    return "; ".join(_message_parts(unused, list(dict.fromkeys(ineffective)), batch, expressions))


def _message_parts(
    unused: Sequence[str], ineffective: Sequence[str], batch: JobBatch, expressions: Mapping[str, str]
) -> Iterator[str]:
    if unused:
        yield f"{_join_names(unused)} {'is' if len(unused) == 1 else 'are'} kept in the ad and not acted on yet"
    if ineffective:
        yield f"{_join_names(ineffective)} {'has' if len(ineffective) == 1 else 'have'} no effect yet"
    for command in EXPRESSIONS:
        if names := _missing_slot_attributes(expressions.get(command, ""), batch):
            yield f"{command} reads {_join_names(names)}, which no slot has"
    calling = {name for name, text in batch.ad.items() if "(" in text}  # only a call can be an error for every job
    for attribute in sorted(calling | batch.columns.keys()):
        texts = dict.fromkeys(batch.columns.get(attribute) or [batch.ad[attribute]])
        suspects = (text for text in texts if "(" in text and text[0] != '"')
        if explanation := next(filter(None, map(_error_explanation, suspects)), ""):
            yield f"{attribute} is an error for every job: {explanation}"
    for attribute, command in POLICIES.items():
        if names := _missing_job_attributes(batch, attribute):
            yield f"{command} reads {_join_names(names)}, which no job has"
    if names := list(dict.fromkeys(_missing_capabilities(batch))):
        yield f"the jobs stay idle, because no slot has {_join_names(names)} yet"


@lru_cache(maxsize=256)
def _error_explanation(text: str) -> str:
    part = find_error(parse(text))
    return "" if part is None else explain_error(part)


def _join_names(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _commands_setting(batch: JobBatch, table: Mapping[str, frozenset[str]], spellings: Mapping[str, str]) -> list[str]:
    setting: dict[str, None] = {}
    for attribute, neutral_texts in table.items():
        if not neutral_texts.issuperset(batch.columns.get(attribute) or [batch.ad.get(attribute, "")]):
            names = (*COMMANDS_OF.get(attribute, ()), attribute.lower(), f"my.{attribute.lower()}")
            setting |= dict.fromkeys(spellings[name] for name in names if name in spellings)
    return list(setting)


def _missing_capabilities(batch: JobBatch) -> Iterator[str]:
    for text in set(batch.columns.get("Requirements") or [batch.ad.get("Requirements", "true")]):
        for clause in clauses(parse(text)):
            while isinstance(clause, Parentheses):
                clause = clause.inner
            if not isinstance(clause, Attribute):
                continue
            of_slot = isinstance(clause.base, Attribute) and clause.base.key in ("target", "other")
            if (name := absent_attribute(clause.name)) and (
                of_slot or (clause.base is None and clause.key not in _attributes_of_jobs(batch))
            ):
                yield name


def _missing_job_attributes(batch: JobBatch, attribute: str) -> list[str]:
    names_read = set[str]()
    for text in set(batch.columns.get(attribute) or [batch.ad.get(attribute, "")]):
        if any(name.lower() in text.lower() for name in unwritten_attributes()):
            names_read |= {
                name.lower().removeprefix("my.") for name in references_or_empty(parse(text), ClassAd()).external
            }
    missing = names_read - _attributes_of_jobs(batch) if names_read else names_read
    return [name for name in unwritten_attributes() if name.lower() in missing]


def _attributes_of_jobs(batch: JobBatch) -> set[str]:
    return {name.lower() for name in (*batch.ad, *batch.columns)}


def _missing_slot_attributes(text: str, batch: JobBatch) -> list[str]:
    if not text:
        return []
    try:
        names_read = parse(expression_text(text)).references(ClassAd()).external
    except (ClassAdSyntaxError, EvaluationError):
        return []
    present = _attributes_of_jobs(batch)
    names = (name.lower() for name in names_read)
    candidates = (name.removeprefix("target.") for name in names if name.startswith("target.") or name not in present)
    return sorted(filter(None, map(absent_attribute, candidates)))
