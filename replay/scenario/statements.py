"""Parse a statement: ``at TIME [to TIME] [every TIME [until TIME]] WHAT``."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from attrs import define, evolve, frozen

from ...domain.state.job_ad import STATUS_NUMBERS
from ...domain.state_machines import DIALECTS
from ...domain.submit import ATTRIBUTES, is_command, known_commands
from ...domain.suggestions import NearMisses, did_you_mean
from .expectations import JOB, MEASURES, SLOT, WATCHES, Watch, parse_measure, parse_watch
from .scenario import ConfigurationSource, ScenarioStep
from .scenario_times import DAY, ScenarioCalendar, is_clock, length, may_have_two_words
from .verbs import JOIN, OPTIONS, VERBS, Verb, expression

# Split a line of a scenario at spaces, except within quotes or brackets; ``#`` starts a comment.

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
ASSIGNED = re.compile(r"((?:\+|[Mm][Yy]\.)?[A-Za-z_][A-Za-z0-9_-]*)=(?!=)(.*)", re.DOTALL)
_ASSIGNABLE = re.compile(r"(?:\+|[Mm][Yy]\.)?[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OPEN = {"(": ")", "[": "]", "{": "}"}


def split(line: str) -> list[str]:
    """Return the words of a line. ``NAME = VALUE`` is one word, as are ``NAME=VALUE`` and ``X=(a || b)``. Raise
    ValueError if a quote or bracket is not closed."""
    words: list[str] = []
    word, closing, quoted = "", "", False
    previous_char = ""
    for char in line:
        if quoted:
            quoted = char != '"' or previous_char == "\\"
        elif char == '"':
            quoted = True
        elif char in _OPEN:
            closing = _OPEN[char] + closing
        elif closing and char == closing[0]:
            closing = closing[1:]
        elif not closing and (char.isspace() or (char == "#" and not word)):
            if word:
                words.append(word)
            word = ""
            if char == "#":
                return _join_assignments(words)
            previous_char = ""
            continue
        word += char
        previous_char = char if not (char == "\\" and previous_char == "\\") else ""
    if quoted or closing:
        raise ValueError(f"{line.strip()!r} lacks the closing {closing[0] if not quoted else 'quote'}")
    if word:
        words.append(word)
    return _join_assignments(words)


def _join_assignments(words: list[str]) -> list[str]:
    """Join assignments with spaces, such as ``KeyboardIdle = 0``, into one word each."""
    joined: list[str] = []
    for word in words:
        lacks_value = joined and joined[-1].endswith("=") and _ASSIGNABLE.fullmatch(joined[-1].removesuffix("="))
        begins_with_value = (
            joined and word.startswith("=") and not word.startswith("==") and _ASSIGNABLE.fullmatch(joined[-1])
        )
        if lacks_value or begins_with_value:
            joined[-1] += word
        else:
            joined.append(word)
    return joined


# Parse the words NAME=VALUE that describe a job: commands of the submit language, and attributes of the job's ad.


class JobWord(NamedTuple):
    """A submit command or an attribute of a job. An attribute has its ``name`` as in ads, and an expression as
    ``value``."""

    is_command: bool
    name: str
    value: str


def read_job_word(name: str, value: str, verb: Verb, configured: Collection[str]) -> JobWord:
    """Parse a word about a job in a line with this verb. Raise ValueError if the name is unknown.

    ``+Name=VALUE`` sets any attribute, as in a submit file. The ``+`` may be omitted for attributes that HTCondor or
    the configuration reads. A quoted text with an attribute's exact spelling (``ConcurrencyLimits="XSW"``) sets the
    attribute, because the quotes would become part of a command's value.
    """
    prefix = next((candidate for candidate in ("+", "my.") if name.lower().startswith(candidate)), "")
    if prefix:
        return JobWord(False, name[len(prefix) :], expression(value))
    is_string = value.startswith('"') and name in ATTRIBUTES
    if verb.commands and is_command(name) and not is_string:
        return JobWord(True, name, value)
    spellings = {candidate.lower(): candidate for candidate in ATTRIBUTES}
    if name.lower() in spellings:
        return JobWord(False, spellings[name.lower()], expression(value))
    if name.lower() in configured:
        return JobWord(False, name, expression(value))
    known_names = [*verb.options, *ATTRIBUTES, *(known_commands() - spellings.keys() if verb.commands else ())]
    kinds = "neither a submit command nor an attribute of jobs" if verb.commands else "not an attribute of jobs"
    hint = did_you_mean(name, known_names, most=1)
    attribute_hint = f"`+{name}={value}` sets a custom attribute"
    raise ValueError(f"{name!r} is {kinds}; {hint + ' ' if hint else ''}{attribute_hint}")


MOST = 1_000_000  #: the maximum number of steps of a scenario
GONE = "gone"  #: the expected state of a slot or job that no longer exists
NO_INPUT = "never"  #: the reading of an unused keyboard
READ = "[SLOT|MACHINE] NAME=VALUE ..."
OTHERS = {
    "reconfigure": "reconfigure [MACHINE] FILE, or without FILE the lines up to `end`: replace the configuration",
    "set": "set [MACHINE] NAME = VALUE: add a line to the configuration",
    "expect": "expect SLOT PAIR [ROW], expect JOB STATUS, or expect SLOT|JOB gone; "
    f"or expect {', '.join((*MEASURES, *WATCHES))} ...",
}
_EVERY = ", ".join([*VERBS, *OTHERS])
_IDLE = {"keyboardidle": "KeyboardIdle", "consoleidle": "ConsoleIdle"}
_SENSED = NearMisses({name.lower(): name for name in (*_IDLE.values(), "LoadAvg")})
_SETTING = re.compile(r"([A-Za-z_][\w.]*)\s*=(.*)", re.ASCII | re.DOTALL)
_ROWS = {row.number for dialect in DIALECTS.values() for row in dialect.slot_rows}
_PAIRS = {each for dialect in DIALECTS.values() for each in dialect.state_activities}


@frozen
class StatementContext:
    """The context of a line: the calendar, the machines, the scenario's end (0: not given), and the lower-case names
    that occur in its configuration."""

    calendar: ScenarioCalendar
    machines: Collection[str]
    end: int = 0
    configured: Collection[str] = frozenset()


# -- Times


@define
class _LineWords:
    words: list[str]
    calendar: ScenarioCalendar

    def instant(self) -> int:
        if not self.words:
            raise ValueError("expected a time: 0:10, 1:02:03, 2d 3:00, or Mon 08:30")
        two = may_have_two_words(self.words[0]) and len(self.words) > 1 and is_clock(self.words[1])
        taken_words, self.words = self.words[: 1 + two], self.words[1 + two :]
        return self.calendar.instant(taken_words)

    def skip(self, word: str) -> bool:
        """Consume this word if it is the next one, and return True; else return False."""
        if self.words[:1] != [word]:
            return False
        self.words = self.words[1:]
        return True


def instant(words: list[str], calendar: ScenarioCalendar) -> int:
    """Parse the words, all of them, as one instant. Raise ValueError if this is not possible."""
    remaining = _LineWords(words, calendar)
    at = remaining.instant()
    if remaining.words:
        raise ValueError(f"{remaining.words[0]!r} is not part of a time")
    return at


@frozen
class _StatementTimes:
    """The times of a line: the first instant, the duration (0: permanent), and the repetition. ``dated``: the instant
    has a date or weekday."""

    at: int
    lasts: int
    every: int
    until: int
    dated: bool


def _take_times(words: list[str], context: StatementContext) -> tuple[_StatementTimes, list[str]]:
    remaining = _LineWords(words, context.calendar)
    at = remaining.instant()
    lasts = every = until = 0
    if remaining.skip("to"):
        lasts = remaining.instant() - at
        if lasts <= 0:
            raise ValueError("the second time must be later than the first")
    if remaining.skip("every"):
        if not remaining.words:
            raise ValueError("`every` needs a duration, for example `every 1d`")
        every = length(remaining.words.pop(0))
        if not every:
            raise ValueError("the duration after `every` must be longer than 0")
        until = remaining.instant() if remaining.skip("until") else context.end
        if not until:
            raise ValueError("a repeated step needs an end: `every 1d until 7d`, or a line `until 7d`")
        if (until - at) // every > MOST:
            raise ValueError(f"more than {MOST:,} times: use a longer interval or an earlier end")
    has_date = may_have_two_words(words[0]) and not words[0].endswith("d")
    return _StatementTimes(at, lasts, every, until, has_date), remaining.words


def _repeated_instants(when: _StatementTimes, calendar: ScenarioCalendar) -> Iterator[int]:
    """Yield the instants of a line. If a dated line repeats every N days, it keeps its time of day across changes to
    summer time."""
    at, times = when.at, 0
    while at <= max(when.until, when.at):
        yield at
        times += 1
        if not when.every:
            return
        days, rest = divmod(when.every, DAY)
        at = calendar.days_later(when.at, times * days) if when.dated and not rest else when.at + times * when.every


def steps_of(
    line: int, words: list[str], sources: tuple[ConfigurationSource, ...], context: StatementContext
) -> list[ScenarioStep]:
    """Return the steps of a line. Raise ValueError if the line is invalid."""
    times, remaining = _take_times(words, context)
    if not remaining:
        raise ValueError(f"the step is missing: write `at TIME WHAT`, where WHAT is {READ} or one of {_EVERY}")
    step = _read_step(ScenarioStep(line, times.at, remaining[0], " ".join(remaining)), remaining, sources, context)
    if not times.lasts:
        return [evolve(step, at=at) for at in _repeated_instants(times, context.calendar)]
    if step.check is not None:
        if isinstance(step.check, Watch) and step.check.starts_at_once:
            raise ValueError("`expect within` starts at one time: write `at TIME`, or add `after CONDITION`")
        return [evolve(step, at=at, until=at + times.lasts) for at in _repeated_instants(times, context.calendar)]
    if step.verb != "read":
        raise ValueError("only readings, and expectations about a period, can have `at TIME to TIME`")
    if any(step.attributes.get(name, "0") != "0" for name in _IDLE.values()):
        raise ValueError("with `at TIME to TIME`, only KeyboardIdle=0 is allowed: the user types all the time")
    steps: list[ScenarioStep] = []
    for at in _repeated_instants(times, context.calendar):
        until = at + times.lasts
        steps += (evolve(step, at=at, until=until), evolve(step, at=until, until=until, verb="unread"))
    return steps


# -- Verbs


def _read_step(
    step: ScenarioStep, words: list[str], sources: tuple[ConfigurationSource, ...], context: StatementContext
) -> ScenarioStep:
    first_word, other_words = words[0], words[1:]
    if first_word in VERBS:
        return _read_verb(step, other_words, context)
    if first_word == "expect":
        return _read_expect(step, other_words, context)
    if first_word in ("set", "reconfigure"):
        return _read_configuration(step, other_words, sources, context)
    if ASSIGNED.fullmatch(first_word):
        return _read_readings(step, words)
    if other_words and (SLOT.fullmatch(first_word) or first_word in context.machines):
        return _read_readings(_with_subject(step, first_word, context), other_words)
    known_words = [*VERBS, *OTHERS, *context.machines, "every"]
    hint = did_you_mean(first_word, known_words, f"write {READ}, or one of {_EVERY}")
    raise ValueError(f"{first_word!r} is not a valid step; {hint}")


def _with_subject(step: ScenarioStep, subject: str, context: StatementContext) -> ScenarioStep:
    """Return the step with this slot or machine as its object. ``slot1`` alone is the slot of the only machine."""
    if subject in context.machines:
        return evolve(step, machine=subject)
    return evolve(step, thing=_full_slot_name(subject, context))


def _full_slot_name(slot: str, context: StatementContext) -> str:
    name, at, machine = slot.partition("@")
    if not at and len(context.machines) > 1:
        raise ValueError(f"{name} is ambiguous: write {name}@{next(iter(context.machines))}, or {name}@* for all")
    return f"{name}@{machine or next(iter(context.machines))}"


def _read_readings(step: ScenarioStep, words: list[str]) -> ScenarioStep:
    readings: dict[str, str] = {}
    for word in words:
        assignment = ASSIGNED.fullmatch(word)
        if assignment is None or not NAME.fullmatch(assignment[1]):
            raise ValueError(f"{word!r} is not a reading: write {READ}")
        name, value = assignment.groups()
        suggestion = _SENSED.suggested(name.lower())
        if suggestion is not None and suggestion.lower() != name.lower():
            raise ValueError(f"{name!r} is not a reading; did you mean {suggestion}?")
        if name.lower() in _IDLE:
            name = _IDLE[name.lower()]
            if value != NO_INPUT:
                length(value)
        elif name.lower() == "loadavg":
            name = "LoadAvg"
            OPTIONS["load"].read(value)
        else:
            expression(value)
        readings[name] = value
    return evolve(step, verb="read", attributes=readings)


def _read_verb(step: ScenarioStep, words: list[str], context: StatementContext) -> ScenarioStep:
    verb = VERBS[step.verb]
    step, words = _take_subject(step, _join_by_user(words), context)
    flags: list[str] = []
    options: dict[str, str] = {}
    attributes: dict[str, str] = {}
    commands: dict[str, str] = {}
    for word in words:
        assignment = ASSIGNED.fullmatch(word)
        name, value = assignment.groups() if assignment else ("", "")
        if word in verb.flags:
            flags.append(word)
        elif name in verb.options:
            try:
                options[name] = OPTIONS[name].read(value)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        elif verb.attributes and name:
            job_word = read_job_word(name, value, verb, context.configured)
            (commands if job_word.is_command else attributes)[job_word.name] = job_word.value
        else:
            known_words = (*verb.flags, *(f"{option}=" for option in verb.options), *context.machines)
            hint = did_you_mean(name or word, known_words, most=1)
            raise ValueError(f"{word!r} is not valid here; expected: {usage(step.verb)}{hint and f'; {hint}'}")
    if step.verb == "access-point" and len(flags) != 1:
        raise ValueError(f"missing 'silent' or 'heard'; expected: {usage(step.verb)}")
    return evolve(step, flags=frozenset(flags), options=options, attributes=attributes, commands=commands)


def _join_by_user(words: list[str]) -> list[str]:
    """Join words such as ``by bob`` into one word, ``by=bob``."""
    joined_words: list[str] = []
    for word in words:
        if joined_words and joined_words[-1] in JOIN:
            joined_words[-1] = JOIN[joined_words[-1]] + word
        else:
            joined_words.append(word)
    return joined_words


def _take_subject(step: ScenarioStep, words: list[str], context: StatementContext) -> tuple[ScenarioStep, list[str]]:
    kind = VERBS[step.verb].thing
    first_word = words[0] if words and not ASSIGNED.fullmatch(words[0]) else ""
    if not kind:
        return step, words
    if kind == "[machine]":
        if first_word in context.machines:
            return _with_subject(step, first_word, context), words[1:]
        if len(context.machines) > 1:
            raise ValueError(f"missing machine name; expected: {usage(step.verb)}")
        return _with_subject(step, next(iter(context.machines)), context), words
    if "slot" in kind and SLOT.fullmatch(first_word):
        return _with_subject(step, first_word, context), words[1:]
    if (kind == "user" and NAME.fullmatch(first_word)) or ("job" in kind and JOB.fullmatch(first_word)):
        return evolve(step, thing=first_word), words[1:]
    lack_text = f"{first_word!r} is not a {kind}" if first_word else f"no {kind} is named"
    raise ValueError(f"{lack_text}; expected: {usage(step.verb)}")


def usage(verb: str) -> str:
    """Return the syntax of a line with this verb."""
    if verb in OTHERS:
        return OTHERS[verb]
    row = VERBS[verb]
    parts = [verb, row.thing.replace(" or ", "|").upper(), *(f"[{flag}]" for flag in row.flags)]
    parts += [f"[{name}=...]" for name in row.options]
    if row.commands:
        parts.append("[SUBMIT_COMMAND=VALUE ...]")
    if row.attributes:
        parts.append("[+Attribute=VALUE ...]")
    return " ".join(filter(None, parts))


def _read_configuration(
    step: ScenarioStep, words: list[str], sources: tuple[ConfigurationSource, ...], context: StatementContext
) -> ScenarioStep:
    machine = words[0] if words and words[0] in context.machines else ""
    files = words[1:] if machine else words
    setting = _SETTING.fullmatch(step.text.removeprefix("set ").removeprefix(machine).strip())
    is_valid = setting is not None if step.verb == "set" else len(files) < 2 and bool(files) != bool(sources)
    if not is_valid:
        raise ValueError(f"expected: {OTHERS[step.verb]}")
    if step.verb == "set" and setting is not None:
        return evolve(step, machine=machine, attributes={setting[1]: setting[2].strip()})
    return evolve(step, machine=machine, sources=sources or (ConfigurationSource(step.line, file=files[0]),))


def _read_expect(step: ScenarioStep, words: list[str], context: StatementContext) -> ScenarioStep:
    kind = words[0] if words else ""
    if kind in MEASURES:
        return evolve(step, check=parse_measure(kind, words[1:]))
    if kind in WATCHES:
        return evolve(step, check=parse_watch(kind, words[1:], lambda slot: _full_slot_name(slot, context), _PAIRS))
    if not 1 < len(words) < 4:
        raise ValueError(f"expected: {OTHERS['expect']}")
    first_word, state, *row = words
    if JOB.fullmatch(first_word) and not row:
        _check_choice(state, {*STATUS_NUMBERS, GONE}, "status of a job")
        return evolve(step, thing=first_word, expected=(state,))
    if not SLOT.fullmatch(first_word):
        raise ValueError(f"{first_word!r} is neither a slot nor a job; expected: {OTHERS['expect']}")
    _check_choice(state, {*_PAIRS, GONE}, "state and activity")
    if row:
        _check_choice(row[0], _ROWS, "number of a transition")
    return evolve(_with_subject(step, first_word, context), expected=(state, *row))


def _check_choice(word: str, known_words: Collection[str], noun: str) -> None:
    if word not in known_words:
        hint = did_you_mean(word, known_words, f"use one of {', '.join(sorted(known_words))}", most=1)
        raise ValueError(f"{word!r} is not a {noun}; {hint}")
