"""Define the verbs behind ``at TIME``: a row for each, by which lines are read, checked and explained."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...domain.classad import ClassAdSyntaxError, parse
from ...domain.suggestions import did_you_mean
from .scenario_times import length


class Verb(NamedTuple):
    """A verb. ``thing`` is its object: slot, machine, job, user, several (``job or slot``) or none; one in brackets may
    be left out if there is one machine. ``flags`` may follow, and ``options`` of ``OPTIONS``; with ``attributes``, also
    attributes of the job's ad, and with ``commands`` the commands of a submit file."""

    thing: str
    words: str
    flags: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    attributes: bool = False
    commands: bool = False


JOB_OPTIONS = ("run", "on-soft", "code", "signal", "load")

# fmt: off
VERBS: dict[str, Verb] = {
    # jobs of the pool's own access point
    "submit": Verb("user", "submit jobs; all that is not named is as in a plain submit file",
                   options=("count", "cpus", "memory", "disk", *JOB_OPTIONS), attributes=True, commands=True),
    "hold": Verb("job", "hold a job"),
    "remove": Verb("job", "remove a job"),
    "measure": Verb("job", "what the job's processes are found to use", options=("memory", "disk", "cpu")),
    "edit": Verb("job", "change attributes of a job's ad", attributes=True),
    "vacate": Verb("job or slot", "vacate a job, or what a slot runs", ("fast",)),
    "suspend": Verb("job or slot", "suspend a job, or what a slot runs"),
    "continue": Verb("job or slot", "let it go on"),
    "release": Verb("job or slot", "release a held job; of a slot: the claim's holder outside gives it up"),
    # machines
    "drain": Verb("[machine]", "drain a machine",
                  ("graceful", "quick", "fast", "resume", "reconfig", "exit", "restart"), ("start", "check", "reason")),
    "cancel-drain": Verb("[machine]", "end a machine's drain"),
    "off": Verb("[machine]", "shut an execution point down", ("peaceful", "graceful", "fast")),
    "on": Verb("[machine]", "start an execution point that was shut down"),
    "benchmarks": Verb("[machine]", "what the benchmarks find from now on, and how long they take",
                       options=("mips", "kflops", "takes")),
    "backfill": Verb("[machine]", "what the machine's backfill clients do from now on: they run until they are told to "
                     "end, or for a time", options=("run", "code", "signal", "load")),
    "backfill-exits": Verb("[machine]", "the machine's backfill client ends by itself", options=("code", "signal")),
    # holders of claims outside of the pool
    "match": Verb("slot", "the negotiator tells the slot that it was matched"),
    "claim": Verb("slot", "an access point outside claims the slot; if it is claimed, as a better match. With run= "
                  "it starts a job on its claim", options=("by", "from", "lease", *JOB_OPTIONS), attributes=True,
                  commands=True),
    "activate": Verb("slot", "the holder outside starts a job on its claim", options=JOB_OPTIONS, attributes=True,
                     commands=True),
    "deactivate": Verb("slot", "the holder outside ends its job, and keeps the claim unless closing",
                       ("fast", "closing")),
    "withdraw": Verb("slot", "the better match that waits is wanted no longer"),
    "fail": Verb("slot", "the claiming of the slot fails"),
    "access-point": Verb("", "whether the holders of claims are heard: silent or heard", ("silent", "heard")),
}
# fmt: on


def _text(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] == '"' else word


def _whole(word: str) -> str:
    if not (word.isascii() and word.removeprefix("-").isdigit() and len(word) < 12):
        raise ValueError(f"{word!r} is no whole number")
    return word


def _count(word: str) -> str:
    if not (word.isascii() and word.isdigit() and len(word) < 8 and 0 < int(word) <= 1_000_000):
        raise ValueError(f"{word!r} is no number from 1 to 1,000,000")
    return word


def amount(word: str) -> int:
    """Return an amount of something that machines have. Raise ValueError if it is none."""
    if not (word.isascii() and word.isdigit() and len(word) < 13 and int(word)):
        raise ValueError(f"{word!r} is no amount: a whole number from 1")
    return int(word)


def _number(word: str) -> str:
    if not word.isascii() or not word.replace(".", "", 1).isdigit() or len(word) > 12:
        raise ValueError(f"{word!r} is no number: write 0.5 or 2")
    return word


def _time(word: str) -> str:
    length(word)
    return word


def _soft(word: str) -> str:
    if word not in ("ends", "ignores"):
        if not word.startswith("ends-after:"):
            hint = did_you_mean(word, ("ends", "ignores", "ends-after"), "write", most=1)
            raise ValueError(f"{word!r} is not a reaction; {hint} ends, ignores, or `ends-after 10`")
        length(word.removeprefix("ends-after:"))
    return word


def expression(word: str) -> str:
    """Check an expression, written as one word or in brackets, and return it. Raise ValueError if it is none."""
    try:
        parse(word)
    except ClassAdSyntaxError as error:
        raise ValueError(f"{word!r} is no expression: {error}") from None
    return word


class VerbOption(NamedTuple):
    read: Callable[[str], str]
    default: str
    words: str


OPTIONS: dict[str, VerbOption] = {
    "count": VerbOption(_count, "1", "how many jobs"),
    "cpus": VerbOption(_count, "1", "RequestCpus"),
    "memory": VerbOption(_count, "128", "RequestMemory, or memory used, in MB"),
    "disk": VerbOption(_count, "1024", "RequestDisk, or disk space used, in KB"),
    "cpu": VerbOption(_time, "0", "CPU time used"),
    "run": VerbOption(_time, "", "how long a job runs, without the time in which it is suspended; a minute"),
    "on-soft": VerbOption(
        _soft, "ends", "what it does when it is told softly to end: ends, ignores, or `ends-after 10`, a time"
    ),
    "code": VerbOption(_whole, "0", "its exit code"),
    "signal": VerbOption(_count, "", "the signal by which it ends, instead of a code"),
    "load": VerbOption(_number, "0", "what it adds to the load of its machine"),
    "start": VerbOption(expression, "", "START while the machine drains"),
    "check": VerbOption(expression, "", "drain only if this is true for each slot"),
    "reason": VerbOption(_text, "", "why, in words"),
    "mips": VerbOption(_whole, "20000", "MIPS"),
    "kflops": VerbOption(_whole, "1500000", "KFLOPS"),
    "takes": VerbOption(_time, "5", "how long the benchmarks run"),
    "by": VerbOption(_text, "", "the user whose claim it is; also written `by bob`"),
    "from": VerbOption(_text, "elsewhere", "the access point that holds it; also written `from NAME`"),
    "lease": VerbOption(_time, "0", "the claim's lease; 0: none"),
}
JOIN = {"by": "by=", "from": "from=", "on-soft=ends-after": "on-soft=ends-after:"}
"""Words that take the next one with them."""
