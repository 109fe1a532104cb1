"""Warn a user of commands that nothing here acts on yet, in one message.

``coverage.attributes`` lists those attributes, and the slot attributes that no slot
has. The ad counts: a command that changes nothing is not reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Final, Literal

from ..classad import ClassAd, ClassAdSyntaxError, EvaluationError, parse
from ..classad.analysis import clauses, references_or_empty
from ..classad.old_form import expression_text
from ..classad.syntax_errors import cause, fault
from ..classad.tree import Attribute, Parentheses
from ..coverage.attributes import attributes, commands, unadvertised, unwritten
from .build import Batch
from .eviction import BODY, RETRIES
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
    **{f"{BODY}{retries.attribute}": retries.commands for retries in RETRIES.values()},
}
"""Attribute to the commands that set it, beside its own name."""

EXPRESSIONS: Final[tuple[str, ...]] = ("requirements", "rank")
"""The commands whose expressions read the attributes of slots."""


POLICIES: Final[Mapping[str, str]] = {
    "Requirements": "requirements",
    "Rank": "rank",
    "OnExitHold": "on_exit_hold",
    "OnExitRemove": "on_exit_remove",
    "LeaveJobInQueue": "leave_in_queue",
}
"""Attributes with expressions that are evaluated in the job's ad, to their commands."""


def is_read(command: str) -> bool:
    """Return True if HTCondor reads a command that makes no attribute here: it is not a typing error."""
    return command in _read("the parser") or command in _read("condor_submit")


@cache
def _read(by: Literal["the parser", "condor_submit"]) -> frozenset[str]:
    return frozenset(name.lower() for name in commands(by))


def message(batch: Batch, written: Mapping[str, str], expressions: Mapping[str, str]) -> str:
    """Return one message that names all that is not followed; empty: there is nothing.

    :param written: the given commands, in lower case (``my.name`` for ``+name``), to their spelling
    :param expressions: ``requirements`` and ``rank`` as their owner wrote them, macros expanded
    """
    idle = _asked(batch, attributes("not acted on"), written)
    unnoticed = _asked(batch, attributes("no effect"), written)
    unnoticed += [spelled for command, spelled in written.items() if command in _read("condor_submit")]
    return "; ".join(_parts(idle, list(dict.fromkeys(unnoticed)), batch, expressions))


def _parts(
    idle: Sequence[str], unnoticed: Sequence[str], batch: Batch, expressions: Mapping[str, str]
) -> Iterator[str]:
    if idle:
        yield f"{_listed(idle)} {'is' if len(idle) == 1 else 'are'} kept in the ad and not acted on yet"
    if unnoticed:
        yield f"{_listed(unnoticed)} {'has' if len(unnoticed) == 1 else 'have'} no effect yet"
    for command in EXPRESSIONS:
        if names := _unadvertised(expressions.get(command, ""), batch):
            yield f"{command} reads {_listed(names)}, which no slot here has"
    for attribute in sorted({*batch.ad, *batch.columns}):
        yield from _errors(batch, attribute)
    for attribute, command in POLICIES.items():
        if names := _unwritten(batch, attribute):
            yield f"{command} reads {_listed(names)}, which no job here has"
    if names := list(dict.fromkeys(_in_vain(batch))):
        yield f"the jobs stay idle, since no slot has {_listed(names)} yet"


def _errors(batch: Batch, attribute: str) -> Iterator[str]:
    """Yield why an expression of a job is an error, whatever the ads are."""
    for text in set(batch.columns.get(attribute) or [batch.ad[attribute]]):
        culprit = fault(parse(text)) if "(" in text and text[0] != '"' else None
        if culprit is not None:
            yield f"{attribute} is an error for every job: {cause(culprit)}"
            return


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _asked(batch: Batch, table: Mapping[str, frozenset[str]], written: Mapping[str, str]) -> list[str]:
    """Return, as spelled, the commands that set an attribute of ``table`` to a text that asks for something."""
    spellings: dict[str, None] = {}
    for attribute, nothing in table.items():
        if not nothing.issuperset(batch.columns.get(attribute) or [batch.ad.get(attribute, "")]):
            names = (*COMMANDS_OF.get(attribute, ()), attribute.lower(), f"my.{attribute.lower()}")
            spellings |= dict.fromkeys(written[name] for name in names if name in written)
    return list(spellings)


def _in_vain(batch: Batch) -> Iterator[str]:
    """Yield the abilities that no slot here has and that some jobs require."""
    own = _own(batch)
    for text in set(batch.columns.get("Requirements") or [batch.ad.get("Requirements", "true")]):
        for clause in clauses(parse(text)):
            while isinstance(clause, Parentheses):
                clause = clause.inner
            if not isinstance(clause, Attribute):
                continue
            of_slot = isinstance(clause.base, Attribute) and clause.base.key in ("target", "other")
            if (name := unadvertised(clause.name)) and (of_slot or (clause.base is None and clause.key not in own)):
                yield name


def _unwritten(batch: Batch, attribute: str) -> list[str]:
    """Return the attributes of jobs that an expression reads and no ad here has."""
    own, read = _own(batch), set[str]()
    for text in set(batch.columns.get(attribute) or [batch.ad.get(attribute, "")]):
        if any(name.lower() in text.lower() for name in unwritten()):
            read |= {name.lower().removeprefix("my.") for name in references_or_empty(parse(text), ClassAd()).external}
    return [name for name in unwritten() if name.lower() in read - own]


def _own(batch: Batch) -> set[str]:
    """Return the attributes of the jobs themselves, in lower case."""
    return {name.lower() for name in (*batch.ad, *batch.columns)}


def _unadvertised(text: str, batch: Batch) -> list[str]:
    """Return the attributes of slots that an expression reads and no slot here has."""
    try:
        read = parse(expression_text(text)).references(ClassAd()).external if text else ()
    except (ClassAdSyntaxError, EvaluationError):
        return []
    own = _own(batch)
    names = (name.lower() for name in read)
    plain = (name.removeprefix("target.") for name in names if name.startswith("target.") or name not in own)
    return sorted(filter(None, map(unadvertised, plain)))
