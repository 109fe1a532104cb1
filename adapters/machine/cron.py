"""The startd's cron jobs: programs that print attributes, run as STARTD_CRON_JOBLIST says.

A program prints lines ``Name = value``; a line that begins with ``-`` ends a record, and so does the program's end. The
last record of each program stands in the ads of all slots of the machine. The rules are the startd's: a program runs
every PERIOD seconds (Periodic: a running one is left alone, or killed first if KILL is set), PERIOD after its last end
(WaitForExit), once (OneShot), or never by itself (OnDemand).
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from functools import partial

from attrs import define, field, frozen

from ...domain.classad import ClassAd, ClassAdSyntaxError, unparse
from ...domain.classad.argument_syntax import QuotingError, in_new_syntax, split, unquoted
from ...domain.config import ConfigError, Configuration
from ...domain.coverage.attributes import ability
from ...domain.events import Ad
from ...domain.units import SECOND
from .children import Child, Unwatch, Watch

MODES = {"periodic": "Periodic", "waitforexit": "WaitForExit", "oneshot": "OneShot", "ondemand": "OnDemand"}
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
_PERIOD = re.compile(r"([0-9]+)\s*([smh]?)", re.IGNORECASE | re.ASCII)
_OF_SINGLE_SLOTS = ("slotid", "slotname", "slottypeid", "slotmergeconstraint", "name")
"""Attributes by which HTCondor restricts a record to some of the slots."""
LARGEST = 1 << 20  #: characters in a record, at most: a program that prints more without a break is killed
_QUOTED = 60  #: characters of a wrong line that are quoted, at most


@frozen
class CronJob:
    """A configured program; ``period`` in seconds, ``prefix`` for each attribute that it prints."""

    name: str
    command: tuple[str, ...]
    mode: str
    period: int = 0
    prefix: str = ""
    kill: bool = False
    folder: str = ""
    environment: tuple[tuple[str, str], ...] = ()


def cron_jobs(configuration: Configuration) -> list[CronJob]:
    """Return the programs of a configuration. Raise `ConfigError` if one of them has no executable, no period, or an
    unknown mode."""
    names = configuration.get("STARTD_CRON_JOBLIST").replace(",", " ").split()
    return [_job(configuration, name) for name in dict.fromkeys(names)]


def _job(configuration: Configuration, name: str) -> CronJob:
    def said(what: str) -> str:
        return configuration.get(f"STARTD_CRON_{name}_{what}")

    mode = MODES.get((said("MODE") or "Periodic").lower())
    if mode is None:
        raise _wrong(configuration, name, "MODE", f"{said('MODE')} is no mode; there are {', '.join(MODES.values())}")
    if not said("EXECUTABLE"):
        raise _wrong(configuration, name, "EXECUTABLE", "the job has no executable: name one, or take it off the list")
    try:
        arguments = _words(said("ARGS"))
        entries = _words(said("ENV")) if in_new_syntax(said("ENV")) else filter(None, said("ENV").split(";"))
    except QuotingError as error:
        raise _wrong(configuration, name, "ARGS", str(error)) from None
    return CronJob(
        name,
        (said("EXECUTABLE"), *arguments),
        mode,
        _period(configuration, name, said("PERIOD"), mode),
        said("PREFIX"),
        configuration.boolean(f"STARTD_CRON_{name}_KILL", False),
        said("CWD"),
        tuple((key, value) for key, _, value in (entry.partition("=") for entry in entries) if key),
    )


def _words(text: str) -> list[str]:
    return split(unquoted(text)) if in_new_syntax(text) else text.split()


def _period(configuration: Configuration, name: str, text: str, mode: str) -> int:
    if mode in ("OneShot", "OnDemand"):
        return 0
    found = _PERIOD.fullmatch(text)
    seconds = int(found[1]) * _UNITS[found[2].lower()] if found else 0
    if not found or (mode == "Periodic" and not seconds):
        raise _wrong(configuration, name, "PERIOD", f"{text or 'nothing'} is no period: write 30, 30s, 5m or 1h")
    return seconds


def _wrong(configuration: Configuration, name: str, what: str, words: str) -> ConfigError:
    setting = f"STARTD_CRON_{name}_{what}"
    return configuration.error(setting, f"{setting}: {words}")


@define
class _Turns:
    """One program's state: when it is due (None: not by itself), its process, and its output so far."""

    job: CronJob
    due: int | None
    child: Child | None = None
    told_to_end: bool = False
    lines: list[str] = field(factory=list)
    size: int = 0  #: characters in ``lines``; more than LARGEST for a record that is too large, whose lines are dropped
    published: Ad = field(factory=dict)


class Cron:
    """Runs programs and keeps what they published. ``watch`` and ``unwatch`` are the loop's; ``tell`` is called with
    messages for the machine's administrator."""

    def __init__(self, watch: Watch, unwatch: Unwatch, tell: Callable[[str], None]) -> None:
        self._watch, self._unwatch, self._tell = watch, unwatch, tell
        self._turns: dict[str, _Turns] = {}
        self._told: set[tuple[str, str]] = set()  #: (program, kind) of faults that were reported of this configuration

    def configure(self, jobs: list[CronJob], now: int) -> None:
        """Run these from now on. Unchanged ones go on; what the others have published is dropped."""
        before, self._turns = self._turns, {}
        self._told.clear()
        for job in jobs:
            known = before.get(job.name)
            if known is not None and known.job == job:
                self._turns[job.name] = before.pop(job.name)
            else:
                self._turns[job.name] = _Turns(job, None if job.mode == "OnDemand" else now)
        for turns in before.values():
            if turns.child is not None:
                turns.child.kill()

    def attributes(self) -> Mapping[str, str]:
        """Return the attributes that all programs publish now."""
        return {name: text for turns in self._turns.values() for name, text in turns.published.items()}

    def next(self) -> int | None:
        return min((turns.due for turns in self._turns.values() if turns.due is not None), default=None)

    def expected(self) -> bool:
        """Tell whether a program runs that has published nothing yet."""
        return any(turns.child is not None and not turns.published for turns in self._turns.values())

    def turn(self, now: int) -> None:
        for turns in list(self._turns.values()):
            if turns.due is not None and turns.due <= now:
                periodic = turns.job.mode == "Periodic"
                turns.due = now + turns.job.period * SECOND if periodic else None
                if turns.child is None:
                    self._start(turns, now)
                elif turns.job.kill:
                    turns.child.signal(signal.SIGKILL if turns.told_to_end else signal.SIGTERM)
                    turns.told_to_end = True

    def _start(self, turns: _Turns, now: int) -> None:
        job = turns.job
        turns.lines, turns.size = [], 0
        turns.told_to_end = False
        environment = {**os.environ, "STARTD_CRON_NAME": job.name, **dict(job.environment)}
        try:
            turns.child = Child(
                job.command, self._watch, self._unwatch, partial(self._heard, turns), partial(self._ended, turns),
                environment=environment, folder=job.folder or None,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            self._say_once(job, f"{job.command[0]} cannot be run: {error}", setting="_EXECUTABLE:")
            if job.mode == "WaitForExit":
                turns.due = now + max(1, job.period) * SECOND

    def _heard(self, turns: _Turns, line: str) -> None:
        if turns.size > LARGEST:
            return
        if line.startswith("-"):
            self._publish(turns)
        elif line.strip():
            turns.lines.append(line)
            turns.size += len(line)
        if turns.size > LARGEST and turns.child is not None:
            turns.lines = []
            turns.child.signal(signal.SIGKILL)
            self._say_once(
                turns.job, f"printed a record of more than {LARGEST} signs, which is left out, and was ended: let "
                "it print less, and a line with - behind each record",
            )  # fmt: skip

    def _ended(self, turns: _Turns) -> None:
        self._publish(turns)
        turns.child = None
        if turns.job.mode == "WaitForExit":
            turns.due = time.time_ns() // 1000 + max(1, turns.job.period) * SECOND

    def _publish(self, turns: _Turns) -> None:
        """Publish a whole record in place of the last one. An empty record changes nothing."""
        lines, turns.lines, turns.size = turns.lines, [], 0
        if not lines:
            return
        found: Ad = {}
        for line in lines:
            try:
                ad = ClassAd.from_old(line, strict=True)
            except ClassAdSyntaxError as error:
                wrong = line.strip()
                shown = repr(wrong[:_QUOTED]) + (" ..." if len(wrong) > _QUOTED else "")
                why = str(error).partition("\n")[0]
                words = f"printed {shown}, which is left out, as any such line will be: {why}"
                self._say_once(turns.job, words, "line")
                continue
            found |= {turns.job.prefix + name: unparse(ad[name]) for name in ad}
        for name in [name for name in found if ability(name)]:
            del found[name]
            words = f"printed {name}, which is left out: Poolbook's slots cannot do that yet"
            self._say_once(turns.job, words, name)
        if any(name.lower() in _OF_SINGLE_SLOTS for name in found):
            self._say_once(
                turns.job, "printed a record for single slots, which is left out: print what holds for all slots, "
                "and let their expressions ask SlotID",
            )  # fmt: skip
            return
        turns.published = found

    def _say_once(self, job: CronJob, text: str, kind: str = "", setting: str = "") -> None:
        if (job.name, kind or text) not in self._told:
            self._told.add((job.name, kind or text))
            self._tell(f"STARTD_CRON_{job.name}{setting} {text}")

    def close(self) -> None:
        self.configure([], 0)
