"""What a pool follows of its configuration: what its negotiator reads, what submissions to it go by, the domain of
its users, and how it is defragmented. It is in the log (``PoolConfigured``), so that it counts for whoever submits,
from wherever."""

from __future__ import annotations

from collections.abc import Callable

from ..config import ConfigError, Configuration
from ..coverage.daemons import DEFRAG
from ..defrag import settings as defragmentation
from ..events import Ad
from ..macros.macros import macros_in
from ..state.settings import DOMAINS, NOTHING, SUBMISSION, SUBMIT_TEMPLATE, unfit
from ..submit.templates import NAMES as TEMPLATE_NAMES
from . import settings as negotiation

Load = Callable[[str], Configuration]
"""Reads the configuration, as the daemon or tool that is named has it (NEGOTIATOR, SUBMIT)."""


def followed(load: Load, warn: Callable[[str], None] = lambda words: None) -> Ad:
    """All of it, where somebody has set it; ``warn`` is told of what has no effect.

    :raises ConfigError: a value that cannot be taken, with where it stands
    """
    from ..schedd.policy_configuration import schedd_policy

    negotiators = negotiation.followed(load("NEGOTIATOR"), warn)
    for words in negotiation.groups_in_vain(negotiators):
        warn(words)
    return {
        **negotiators,
        **submissions(load("SUBMIT")),
        **schedd_policy(load("SCHEDD"), warn),
        **defragmentation.followed(load(DEFRAG)),
    }


def submissions(configuration: Configuration) -> Ad:
    """What submissions go by.

    :raises ConfigError: a value that cannot be taken, with where it stands
    """
    found: Ad = {}
    for name in (*DOMAINS, *SUBMISSION):
        source = configuration.source(name)
        text = configuration.get(name).strip()
        if source.kind == "default" or (not text and name in DOMAINS):
            continue
        found[name] = text or NOTHING
        if wrong := unfit(name, found[name]):
            raise ConfigError(wrong, source.file, source.line)
    return found | _templates(configuration)


def _templates(configuration: Configuration) -> Ad:
    """The templates of submissions, with what the configuration has for the macros that they refer to."""
    names = configuration.get(TEMPLATE_NAMES).replace(",", " ").upper().split()
    texts = {f"{SUBMIT_TEMPLATE}{name}": configuration.raw(f"{SUBMIT_TEMPLATE}{name}") for name in names}
    return {name: _filled(configuration, text) for name, text in texts.items() if text is not None}


def _filled(configuration: Configuration, text: str) -> str:
    """A text with the macros replaced that the configuration has, and with the others as they stand."""
    out, at = [], 0
    for macro in macros_in(text, frozenset()):
        if configuration.defined(macro.body):
            out += [text[at : macro.start], configuration.get(macro.body)]
            at = macro.end
    return "".join([*out, text[at:]])
