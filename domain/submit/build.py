"""Turn commands into attributes: once for what all jobs share, and once for each value that differs.

A section is computed again only where a command or attribute that it reads depends on a variable of the queue
statement; and then once per distinct input. A *plain* value (words of unsuspicious characters with single blanks
between them) of a section's ``verbatim`` command needs no computing: the attribute is the value in quotes.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from msgspec import Struct

from ..classad.old_form import string_text
from ..macros.macro_errors import MacroError
from ..macros.macros import Macros
from .container_commands import services
from .eviction import checks
from .job_sections import Job, Section, stripped
from .queue_statements import Items
from .requirements import REQUIREMENTS
from .resources import TRANSFER, requests
from .sections import FIRST, LAST, MIDDLE, forced
from .submit_commands import BASE
from .submit_context import STANDARD_INPUT, SubmitError, SubmitFacts, SubmitFiles

_UNPLAIN = re.compile(r"[^A-Za-z0-9_./:=+,@%^~\-\n ]")
_UNPLAIN_BLANKS = ("  ", " \n", "\n ", "\n\n")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPELLINGS = {
    name.lower(): name
    for name in (
        *(name for section in (*FIRST, *requests(()), *MIDDLE, TRANSFER, *LAST, REQUIREMENTS) for name in section.sets),
        *BASE,
    )
}
ATTRIBUTES = frozenset(_SPELLINGS.values())  #: the attributes of a job's ad that a submission sets
_AUTOMATIC = ("process", "procid", "step", "row", "itemindex")

Column = list[str]


class Batch(Struct, frozen=True):
    """The jobs of one queue statement: shared attributes, and for the others one text per job."""

    ad: dict[str, str]
    columns: dict[str, Column]
    count: int


class Builder:
    """Builds the jobs of one queue statement."""

    def __init__(
        self,
        macros: Macros,
        facts: SubmitFacts,
        files: SubmitFiles,
        items: Items,
        first: int,
        warn: Callable[[str], None],
    ) -> None:
        self.macros = macros
        self.items = items
        self.count = items.jobs
        self.first = first
        self.open = (*(name.lower() for name in items.variables), *_AUTOMATIC)
        self.sections = _sections_for(macros, items)
        self.varying: dict[str, Column] = {}
        self._variables: dict[int, Sequence[str]] = {}
        self._spelled: dict[str, str] = {}
        self._new_job = partial(Job, facts, files, macros.definitions, warn, used=macros.used)
        self.facts = facts

    def build(self) -> Batch:
        first_job = self._new_job({})
        self._expand_commands(first_job.values)
        ad: dict[str, str] = {**BASE, **_facts(self.facts)}
        self._spelled = {name.lower(): name for name in ad}
        columns: dict[str, Column] = {}
        made_anew: set[str] = set()
        chain: list[Section] = []
        for section in self.sections:
            own = _run(section, first_job, ad)
            if self.varying and (not self.varying.keys().isdisjoint(section.commands) or section.reads_any(made_anew)):
                before = dict(ad)
                chain.append(section)
                made_anew.update(section.sets)
                self._columns_of(section, chain, own, before, first_job.values, ad, columns)
            else:
                for attribute in own:
                    columns.pop(self._spelling(attribute), None)
                self._update(ad, own)
        for attribute in columns:
            ad.pop(attribute, None)
        return Batch(ad, columns, self.count)

    # -- commands ----------------------------------------------------------------------------------------------------

    def _expand_commands(self, values: dict[str, str]) -> None:
        """Expand each command for the first job; put varying commands into ``varying`` with all their values."""
        commands = {command for section in self.sections for command in section.commands}
        defined = {*self.macros.definitions, *self.open[: len(self.items.variables)]}
        for command in sorted(commands & defined):
            try:
                text = f"$({command})" if command in self.open else self.macros.definitions[command].value
                self._expand_command(command, text, values)
            except MacroError as problem:
                definition = self.macros.definitions.get(command)
                if problem.line is None and definition is not None:
                    shown = f"{definition.name} = {definition.value}"
                    raise SubmitError(
                        f"{shown if len(shown) < 120 else shown[:117] + '...'}: {problem.message}", definition.line
                    ) from None
                raise

    def _expand_command(self, command: str, text: str, values: dict[str, str]) -> None:
        pieces: list[str | int] | None = [text]
        if "$" in text:
            pieces = self.macros.template(text, self.open)
        if pieces is not None and len(pieces) == 1:
            if pieces[0]:
                values[command] = str(pieces[0])
            return
        column = self._formatted(pieces) if pieces is not None else None
        if column is None:
            column = self._expanded_one_by_one(text)
        if column.count(column[0]) < len(column):
            self.varying[command] = column
        if column[0]:
            values[command] = column[0]

    def _formatted(self, pieces: list[str | int]) -> Column | None:
        """Fill in a template for all jobs; None if a value contains macros."""
        indexes = [piece for piece in pieces if isinstance(piece, int)]
        columns = [self._variable(index) for index in indexes]
        for index, column in zip(indexes, columns, strict=True):
            if index < len(self.items.variables) and "$" in "".join(column):
                return None
        if len(columns) == 1:
            before, after = str(pieces[0]), str(pieces[2])
            if not before and not after:
                return list(columns[0])
            return [f"{before}{value}{after}" for value in columns[0]]
        form = "".join("%s" if isinstance(piece, int) else piece.replace("%", "%%") for piece in pieces)
        return [form % values for values in zip(*columns, strict=True)]

    def _expanded_one_by_one(self, text: str) -> Column:
        columns = [self._variable(index) for index in range(len(self.open))]
        expanded = []
        try:
            for values in zip(*columns, strict=True):
                self.macros.set_variables(dict(zip(self.open, values, strict=True)))
                expanded.append(self.macros.expand(text))
        finally:
            self.macros.set_variables({})
        return expanded

    def _variable(self, index: int) -> Sequence[str]:
        known = self._variables.get(index)
        if known is None:
            items, name = self.items, self.open[index]
            if index < len(items.variables):
                known = items.column(index)
            elif name in ("process", "procid"):
                known = [str(number) for number in range(self.first, self.first + self.count)]
            elif name == "step":
                known = [str(step) for step in range(items.count)] * len(items.indexes)
            else:
                known = items.spread([str(place) for place in items.indexes])
            self._variables[index] = known
        return known

    # -- attributes --------------------------------------------------------------------------------------------------

    def _spelling(self, attribute: str) -> str:
        """Return the name under which an attribute stands from its first mention on: names are compared without
        case."""
        return self._spelled.setdefault(attribute.lower(), attribute)

    def _update(self, ad: dict[str, str], made: Mapping[str, str]) -> None:
        for attribute, text in made.items():
            ad[self._spelling(attribute)] = text

    def _columns_of(
        self,
        section: Section,
        chain: list[Section],
        own: dict[str, str],
        before: dict[str, str],
        values: dict[str, str],
        ad: dict[str, str],
        columns: dict[str, Column],
    ) -> None:
        """Compute a section for all jobs; attributes that are the same for all go to ``ad``."""
        needed = _needed(section, chain)
        names = sorted({command for need in needed for command in need.commands if command in self.varying})
        if needed == [section] and section.verbatim is not None and section.verbatim.decides(names):
            attribute = section.verbatim.attribute
            column = self.varying[section.verbatim.command]
            if own.get(attribute) == string_text(column[0]) and _is_plain(column):
                columns[attribute] = [f'"{value}"' for value in column]
                for other in own.keys() - {attribute}:
                    columns.pop(other, None)
                self._update(ad, own)
                return
        results = self._worked_out(needed, names, before, values)
        for attribute in sorted({name for made in results for name in made}):
            spelling = self._spelling(attribute)
            default = columns.get(spelling) or [ad.get(spelling, "undefined")] * self.count
            column = [made.get(attribute) or default[n] for n, made in enumerate(results)]
            if column.count(column[0]) == len(column):
                columns.pop(spelling, None)
                ad[spelling] = column[0]
            else:
                columns[spelling] = column
                ad[spelling] = column[0]

    def _worked_out(
        self, needed: list[Section], names: list[str], before: dict[str, str], values: Mapping[str, str]
    ) -> list[dict[str, str]]:
        known: dict[tuple[str, ...], dict[str, str]] = {}
        results = []
        job = self._new_job(before)
        for inputs in zip(*(self.varying[name] for name in names), strict=True):
            made = known.get(inputs)
            if made is None:
                job.values = {**values, **dict(zip(names, inputs, strict=True))}
                for name, value in zip(names, inputs, strict=True):
                    if not value:
                        del job.values[name]
                layer: Mapping[str, str] = before
                for section in needed:
                    made = _run(section, job, layer)
                    if len(needed) > 1:
                        layer = ChainMap(made, dict(layer))
                assert made is not None
                known[inputs] = made
            results.append(made)
        return results


def _is_plain(column: Column) -> bool:
    """Return whether each value is words of unsuspicious characters with single blanks between them; no null file."""
    text = "\n".join(["", *column, ""])
    blanks = any(blank in text for blank in _UNPLAIN_BLANKS)
    return not blanks and _UNPLAIN.search(text) is None and "/dev/null" not in column


def _run(section: Section, job: Job, before: Mapping[str, str]) -> dict[str, str]:
    job.before, job.made = before, {}
    section.action(job)
    return job.made


def _needed(section: Section, chain: list[Section]) -> list[Section]:
    """Return, in order, the sections whose attributes this one reads, directly or through others; itself the last."""
    needed = [section]
    for earlier in reversed(chain[:-1]):
        if any(later.reads_any(set(earlier.sets)) for later in needed):
            needed.insert(0, earlier)
    return needed


def _facts(facts: SubmitFacts) -> dict[str, str]:
    ad = {
        "QDate": str(facts.now),
        "EnteredCurrentStatus": str(facts.now),
        "CondorVersion": string_text(facts.version),
        "SubmitVersion": string_text(facts.version),
        "CondorPlatform": string_text(facts.platform),
    }
    if facts.submit_file not in ("", STANDARD_INPUT):
        ad["JobSubmitFile"] = string_text(facts.submit_file)
    return ad


def _sections_for(macros: Macros, items: Items) -> list[Section]:
    """Return the sections of every job and of the commands present, in the order in which they take effect."""
    commands = {*macros.definitions, *(name.lower() for name in items.variables)}
    middle = [section for section in MIDDLE if not commands.isdisjoint(section.commands) or section.reads]
    own = [name for name in commands if name.startswith("my.")]
    attributes = [forced(name, _attribute_name(macros, name)) for name in sorted(own)]
    return [
        *FIRST,
        *checks(sorted(commands)),
        *services(sorted(commands)),
        *requests(sorted(commands)),
        *middle,
        *jobset(sorted(commands)),
        TRANSFER,
        *LAST,
        *attributes,
        REQUIREMENTS,
    ]


def _attribute_name(macros: Macros, command: str) -> str:
    """Return the attribute that ``MY.name`` sets, spelled as other commands that make it spell it."""
    definition = macros.definitions.get(command)
    name = (definition.name if definition is not None else command)[len("my.") :]
    if not _IDENTIFIER.fullmatch(name):
        line = definition.line if definition is not None else None
        raise SubmitError(
            f"'{name}' cannot name an attribute; names have letters, digits and _, and begin with no digit", line
        )
    return _SPELLINGS.get(name.lower(), name)


def known_commands() -> frozenset[str]:
    """Return all commands that have a meaning, in lower case."""
    sections = [*FIRST, *checks(()), *services(()), *requests(()), *MIDDLE, TRANSFER, *LAST, REQUIREMENTS]
    return frozenset(command for section in sections for command in section.commands)


# Name the set that a cluster's jobs are of, by ``jobset`` and ``JOBSET.*``.
#
# Source: the manual's page "Submit Description File Commands", jobset; HTCondor's ``ProcessJobsetAttributes``. The
# ads of the sets themselves are kept by a schedd with USE_JOBSETS alone, which is false by default.

PREFIX = "jobset."
NAME = "JobSetName"


def jobset(commands: Iterable[str]) -> list[Section]:
    """Return the section of the given commands that begin with ``JOBSET.``, if there are any."""
    names = tuple(name for name in commands if name.startswith(PREFIX))
    return [Section(_action(names), names, (NAME,), (NAME,))] if names else []


def _action(names: Sequence[str]) -> Callable[[Job], None]:
    def action(job: Job) -> None:
        given = [name for name in names if job.value(name) is not None]
        own = [name for name in given if name != f"{PREFIX}name"]
        for name in own:
            job.expression(name)
        if own:
            job.warn("schedd does not support jobsets.  Ignoring JOBSET.* attributes")
        if given and job.attribute(NAME) is None:
            named = job.value(f"{PREFIX}name")
            job.made[NAME] = string_text(str(job.facts.cluster) if named is None else stripped(named))

    return action
