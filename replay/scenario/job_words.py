"""Read the words NAME=VALUE that describe a job: commands of the submit language, and attributes of the job's ad."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ...domain.submit import ATTRIBUTES, is_command, known_commands
from ...domain.suggestions import did_you_mean
from .verbs import Verb, expression


class JobWord(NamedTuple):
    """A word about a job. ``name`` of an attribute is spelled as in ads; ``value`` is an expression then."""

    is_command: bool
    name: str
    value: str


def read_job_word(name: str, value: str, verb: Verb, configured: Collection[str]) -> JobWord:
    """Return what a word means in a line of this verb. Raise ValueError if nothing reads a word of this name.

    ``+Name=VALUE`` sets any attribute, as in a submit file; the ``+`` may be left out for attributes that HTCondor or
    the configuration reads. A text in quotes under an attribute's own spelling (``ConcurrencyLimits="XSW"``) sets that
    attribute: commands would keep the quotes.
    """
    prefix = next((each for each in ("+", "my.") if name.lower().startswith(each)), "")
    if prefix:
        return JobWord(False, name[len(prefix) :], expression(value))
    is_text = value.startswith('"') and name in ATTRIBUTES
    if verb.commands and is_command(name) and not is_text:
        return JobWord(True, name, value)
    spelled = {each.lower(): each for each in ATTRIBUTES}
    if name.lower() in spelled:
        return JobWord(False, spelled[name.lower()], expression(value))
    if name.lower() in configured:
        return JobWord(False, name, expression(value))
    known = [*verb.options, *ATTRIBUTES, *(known_commands() - spelled.keys() if verb.commands else ())]
    kinds = "neither a submit command nor an attribute of jobs" if verb.commands else "not an attribute of jobs"
    hint = did_you_mean(name, known, most=1)
    own = f"`+{name}={value}` sets an attribute of your own"
    raise ValueError(f"{name!r} is {kinds}; {hint + ' ' if hint else ''}{own}")
