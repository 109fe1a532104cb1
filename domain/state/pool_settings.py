"""The settings that decisions read, under HTCondor's names: ``settings.txt`` has their kinds, defaults and meanings.

They are in the log (``PoolFounded``, ``PoolConfigured``), so that a decision can be taken again under what was in
force. A transform is there as it was written, ``$(NAME)`` is what the configuration had for a macro that it refers to,
and a user map is there with its lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pkgutil import get_data
from typing import Final, NamedTuple

from .. import concurrency_limits
from ..classad import ClassAdSyntaxError, parse
from ..package_data import sections
from .negotiators import NEGOTIATORS, misnamed, own_part


class PoolSetting(NamedTuple):
    kind: str
    default: str = ""
    words: str = ""


def _rows(lines: list[str]) -> Iterator[tuple[str, PoolSetting]]:
    for line in lines:
        name, *rest = line.split(" | ")
        yield name, PoolSetting(*(text.strip() for text in rest))


_ROLES: Final = {one.kind: dict(_rows(one.lines)) for one in sections(get_data(__package__, "settings.txt"))}


def defaults(role: str) -> dict[str, str]:
    """Return the defaults of the settings in a section of the file."""
    return {name: setting.default for name, setting in _ROLES[role].items()}


SETTINGS: Final = _ROLES["pool"]
NEGOTIATOR: Final = _ROLES["negotiator"]
DEFRAG: Final = _ROLES["defrag"]
FAMILIES: Final = {name.removesuffix("*"): setting.kind for name, setting in _ROLES["group"].items()}
"""The kinds of the settings of which there is one for each accounting group, by how their names begin."""
SUBMISSION: Final = defaults("submission")
NOT_EMPTY: Final = frozenset(name for name, setting in _ROLES["submission"].items() if setting.kind == "filled")
SUBMIT_TEMPLATE: Final = "SUBMIT_TEMPLATE_"
PACE: Final = defaults("pace")
GUARDED: Final = defaults("guard")
LIMITS: Final = tuple(_ROLES["job limit"])
OF_MAILS: Final = tuple(_ROLES["mail"])
MOST_MOVED: Final = tuple(_ROLES["transfer"])
NUMBERS: Final = tuple(name for name, one in _ROLES["schedd"].items() if one.kind in ("number", "part", "whole"))
STARTS: Final = {
    universe: (name, _ROLES["schedd"][name].default)
    for universe, name in (("12", "START_LOCAL_UNIVERSE"), ("7", "START_SCHEDULER_UNIVERSE"))
}
"""For the universes whose jobs the access point runs itself: the setting that says whether another one may begin,
and its default."""
PERIODIC: Final = tuple(f"SYSTEM_PERIODIC_{what}" for what in ("HOLD", "RELEASE", "REMOVE", "VACATE"))
"""The access point's policies for all jobs: of each there may be a nameless one and named ones."""
_SCHEDD: Final = {
    name: setting
    for role in ("guard", "job limit", "mail", "transfer", "schedd")
    for name, setting in _ROLES[role].items()
}
_OTHERS: Final = {**_ROLES["pace"], **_ROLES["submission"], **_ROLES["template"], **DEFRAG}

UID_DOMAIN: Final = "UID_DOMAIN"
FILESYSTEM_DOMAIN: Final = "FILESYSTEM_DOMAIN"
DOMAINS: Final = (UID_DOMAIN, FILESYSTEM_DOMAIN)
"""Whose the pool's users are, and who sees the same files. A pool always has both: unless a configuration says
otherwise, they are the domain that it was founded with."""

NOTHING: Final = " "
"""The text of a setting that was set to nothing, where nothing is not the default."""


def _kind_of(name: str, table: Mapping[str, PoolSetting]) -> str | None:
    """The kind of a setting of a table, by its name or by the first form that has it."""
    if name in table:
        return table[name].kind
    forms = ((form.partition("*"), setting) for form, setting in table.items() if "*" in form)
    fitting = (setting.kind for (begin, _, end), setting in forms if name.startswith(begin) and name.endswith(end))
    return next(fitting, None)


def negotiators(name: str) -> str | None:
    """The kind of a setting of the negotiator's; None: it is none of them."""
    found = _kind_of(name, NEGOTIATOR) or _kind_of(name, _ROLES["group"])
    return "limit" if found is None and concurrency_limits.named_by(name) else found


def schedd_kind(name: str) -> str | None:
    """The kind of a setting of the schedd's; None: it is none of them."""
    return _kind_of(name, _SCHEDD)


def configurable(name: str) -> str | None:
    """The kind of a setting that a configuration puts in force and leaves again; None: it is none of these."""
    if name == NEGOTIATORS:
        return "text"
    negotiator, own = own_part(name)
    if negotiator:
        return "number" if own in PACE else negotiators(own)
    if name in DOMAINS:
        return "domain"
    if name in SETTINGS:
        return None
    return _kind_of(name, _OTHERS) or negotiators(name) or schedd_kind(name)


def number_of(settings: Mapping[str, str], name: str) -> float:
    """One of the schedd's settings that are numbers, or its default."""
    return float(settings.get(name, _SCHEDD[name].default))


def seconds_of(settings: Mapping[str, str], name: str) -> int:
    """One of the schedd's settings that are whole seconds, or its default."""
    return int(number_of(settings, name))


def limit(settings: Mapping[str, str], name: str) -> int | None:
    """One of ``LIMITS``, or SYSTEM_MAX_RELEASES; None: there is none."""
    text = settings.get(name, "").strip() or _SCHEDD[name].default
    return int(float(text)) if text else None


def names_in(settings: Mapping[str, str], name: str) -> list[str]:
    """The words of a list among the settings, each once."""
    return list(dict.fromkeys(settings.get(name, "").replace(",", " ").split()))


def as_founded(uid_domain: str, given: Mapping[str, str]) -> dict[str, str]:
    """The settings that a pool has which was founded so."""
    return {**dict.fromkeys(DOMAINS, uid_domain), **given}


def for_submissions(in_force: Mapping[str, str]) -> dict[str, str]:
    """What of a pool's settings a submission goes by: the domains, and what the pool's configuration sets."""
    templates = (name for name in in_force if name.startswith(SUBMIT_TEMPLATE))
    return {name: in_force[name].strip() for name in (*DOMAINS, *SUBMISSION, *templates) if name in in_force}


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < 1e300 else None


def _integer(text: str) -> int | None:
    try:
        value = int(text)
    except ValueError:
        return None
    return value if abs(value) < 2**31 else None


def _is_number(holds: Callable[[float], bool] = lambda value: True) -> Callable[[str], bool]:
    return lambda text: (value := _number(text)) is not None and holds(value)


def _is_integer(least: int) -> Callable[[str], bool]:
    return lambda text: (value := _integer(text)) is not None and value >= least


_DOMAIN = re.compile(r"[^\s@\"\\]+")
_CHECKS: Final[dict[str, tuple[Callable[[str], bool], str]]] = {
    "domain": (lambda text: _DOMAIN.fullmatch(text) is not None, "a domain is wanted, such as example.org"),
    "truth": (lambda text: text.lower() in ("true", "false"), "true or false is wanted"),
    "seconds": (_is_number(lambda value: value > 0), "a number of seconds, more than 0, is wanted"),
    "factor": (_is_number(lambda value: value >= 1), "a number of at least 1 is wanted"),
    "limit": (_is_number(), "a number is wanted"),
    "number": (_is_number(lambda value: value >= 0), "a number, 0 or more, is wanted"),
    "whole": (_is_number(float.is_integer), "a whole number is wanted"),
    "part": (_is_number(lambda value: 0 <= value <= 1), "a part of the cores is wanted, from 0 to 1"),
    "count": (_is_number(lambda value: value >= 1 and value.is_integer()), "a whole number, 1 or more, is wanted"),
    "rate": (_is_number(lambda value: value >= 1), "a number, 1 or more, is wanted"),
    "integer": (_is_integer(-(2**31)), "a whole number is wanted"),
    "maximum": (_is_integer(-1), "a whole number, -1 or more, is wanted"),
    "frequency": (_is_number(lambda value: 0 <= value < 1e9), "a number, 0 or more, is wanted"),
    "schedule": (
        lambda text: text.strip().lower() in ("graceful", "quick", "fast"),
        "graceful, quick or fast is wanted",
    ),
}
"""By kind: whether a text is fit, and what is said of one that is not. An expression has to be one, or empty; one of
the kind "expression!" may not be empty. Any other text is."""


def unfit(name: str, text: str) -> str:
    """What is wrong with the text of a setting that is ``configurable``; empty: nothing."""
    kind = configurable(name) or ""
    if kind in _CHECKS:
        fits, words = _CHECKS[kind]
        return "" if fits(text) else f"{name} = {text}: {words}"
    if kind == "expression!" and not text.strip():
        return f"{name} is empty: an expression is wanted"
    if kind.startswith("expression") and text.strip():
        try:
            parse(text)
        except ClassAdSyntaxError as error:
            return f"{name} = {text}: {error}"
    return ""


SUPER_USERS = "QUEUE_SUPER_USERS"
"""Of the settings that are not the negotiator's, the one that is no time: who may act on everybody's jobs and on the
machines, parted by commas. Whoever begins a log is one of them."""
_THE_SUPER_USERS = "root, condor"


def super_users(in_force: Mapping[str, str]) -> frozenset[str]:
    """Those who may do everything, by a pool's settings."""
    return frozenset(in_force.get(SUPER_USERS, _THE_SUPER_USERS).replace(",", " ").split())


_MAY_BE_NEGATIVE = frozenset({"CLAIM_WORKLIFE"})
LONGEST: Final = 10**10
"""Seconds that a time may be, at most."""


def _is_time(text: str) -> bool:
    try:
        return abs(float(text)) < LONGEST
    except ValueError:
        return False


def settings(given: dict[str, str]) -> dict[str, str]:
    """All settings, with `given` ones in place of defaults.

    :raises ValueError: for a name that is not known, or a value that is no number of seconds.
    """
    others = {name: text for name, text in given.items() if configurable(name) is not None}
    for name, text in others.items():
        if words := unfit(name, text):
            raise ValueError(words)
    if words := misnamed(given):
        raise ValueError(words)
    times = {name: text for name, text in given.items() if name != SUPER_USERS and name not in others}
    for name, text in times.items():
        if name not in SETTINGS:
            there_are = ", ".join((*SETTINGS, SUPER_USERS, *NEGOTIATOR, *DOMAINS, *SUBMISSION, *DEFRAG))
            raise ValueError(f"{name} is no setting of a pool; there are {there_are}")
        if not _is_time(text) or (float(text) < 0 and name not in _MAY_BE_NEGATIVE):
            raise ValueError(f"{name} = {text}: a number of seconds is wanted, as in {name} = 60")
    found = {name: given.get(name, setting.default) for name, setting in SETTINGS.items()} | others
    if any(name in given for name in PACE):
        found = {**PACE, **found}
    return {**found, SUPER_USERS: given[SUPER_USERS]} if SUPER_USERS in given else found
