"""Compute attributes from submit commands: once for all jobs, and again for values that differ between jobs.

A section is computed for several jobs only if it reads a command or attribute that depends on a variable of the queue
statement, and then once per distinct input. If the value of a section's ``verbatim`` command is *plain* (words of
ordinary characters, separated by single blanks), the section need not be computed, because the attribute is the value
in quotes.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial

from msgspec import Struct

from ..classad import ClassAdSyntaxError
from ..classad.old_form import expression_text, quote_string
from ..macros.macro_errors import MacroError
from ..macros.macros import Macros
from ..state.pool_settings import SUBMIT_ATTRIBUTE, USE_JOBSETS
from .container_commands import service_sections
from .eviction import evict_check_sections
from .job_sections import Section, SubmitJob, strip_quotes
from .queue_statements import QueueItems
from .requirements import REQUIREMENTS
from .resources import TRANSFER, request_sections
from .sections import FIRST, LAST, MIDDLE, forced_section
from .submit_commands import BASE_AD
from .submit_context import STANDARD_INPUT, SubmitError, SubmitFacts, SubmitFiles

_SPECIAL_CHARACTER = r"[^A-Za-z0-9_./:=+,@%^~\-\n ]"
_IRREGULAR_BLANKS = ("  ", " \n", "\n ", "\n\n")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPELLINGS = {
    name.lower(): name
    for name in (
        *(
            name
            for section in (*FIRST, *request_sections(()), *MIDDLE, TRANSFER, *LAST, REQUIREMENTS)
            for name in section.sets
        ),
        *BASE_AD,
    )
}
ATTRIBUTES = frozenset(_SPELLINGS.values())  #: the attributes that a submission sets in a job's ad
_AUTOMATIC = ("process", "procid", "step", "row", "itemindex")

Column = list[str]


class JobBatch(Struct, frozen=True):
    """The jobs of one queue statement: the shared attributes, and for each other attribute one text per job."""

    ad: dict[str, str]
    columns: dict[str, Column]
    count: int


class Builder:
    """A builder of the jobs of one queue statement."""

    def __init__(
        self,
        macros: Macros,
        facts: SubmitFacts,
        files: SubmitFiles,
        items: QueueItems,
        first: int,
        warn: Callable[[str], None],
    ) -> None:
        self.macros = macros
        self.items = items
        self.count = items.jobs
        self.first = first
        self.open_variables = (*(name.lower() for name in items.variables), *_AUTOMATIC)
        self.sections = _sections_for(macros, items, _submit_attributes(facts, is_forced=True))
        self.submit_attributes = _submit_attributes(facts, warn=warn)
        self.varying_commands: dict[str, Column] = {}
        self._variables: dict[int, Sequence[str]] = {}
        self._spellings: dict[str, str] = {}
        self._new_job = partial(SubmitJob, facts, files, macros.definitions, warn, used=macros.names_used)
        self.facts = facts

    def build(self) -> JobBatch:
        first_job = self._new_job({})
        self._expand_commands(first_job.values)
        ad: dict[str, str] = {**BASE_AD, **self.submit_attributes, **_fact_attributes(self.facts)}
        self._spellings = {name.lower(): name for name in ad}
        columns: dict[str, Column] = {}
        recomputed: set[str] = set()
        sections_run: list[Section] = []
        for section in self.sections:
            attributes = _run_section(section, first_job, ad)
            if self.submit_attributes and not self._has_command(section, first_job):
                kept = self.submit_attributes.keys() - _ALWAYS_SET
                attributes = {name: text for name, text in attributes.items() if name not in kept}
            if self.varying_commands and (
                not self.varying_commands.keys().isdisjoint(section.commands) or section.reads_any(recomputed)
            ):
                previous_ad = dict(ad)
                sections_run.append(section)
                recomputed.update(section.sets)
                self._compute_columns(section, sections_run, attributes, previous_ad, first_job.values, ad, columns)
            else:
                for attribute in attributes:
                    columns.pop(self._spelling(attribute), None)
                self._update(ad, attributes)
        for attribute in columns:
            ad.pop(attribute, None)
        return JobBatch(ad, columns, self.count)

    def _has_command(self, section: Section, job: SubmitJob) -> bool:
        return any(command in job.values or command in self.varying_commands for command in section.commands)

    def _expand_commands(self, values: dict[str, str]) -> None:
        """Expand each command for the first job; store all jobs' values of varying commands in ``varying_commands``."""
        commands = {command for section in self.sections for command in section.commands}
        defined = {*self.macros.definitions, *self.open_variables[: len(self.items.variables)]}
        for command in sorted(commands & defined):
            try:
                text = f"$({command})" if command in self.open_variables else self.macros.definitions[command].value
                self._expand_command(command, text, values)
            except MacroError as error:
                definition = self.macros.definitions.get(command)
                if error.line is None and definition is not None:
                    excerpt = f"{definition.name} = {definition.value}"
                    raise SubmitError(
                        f"{excerpt if len(excerpt) < 120 else excerpt[:117] + '...'}: {error.message}", definition.line
                    ) from None
                raise

    def _expand_command(self, command: str, text: str, values: dict[str, str]) -> None:
        pieces: list[str | int] | None = [text]
        if "$" in text:
            pieces = self.macros.template(text, self.open_variables)
        if pieces is not None and len(pieces) == 1:
            if pieces[0]:
                values[command] = str(pieces[0])
            return
        column = self._fill_template(pieces) if pieces is not None else None
        if column is None:
            column = self._expand_each(text)
        if column.count(column[0]) < len(column):
            self.varying_commands[command] = column
        if column[0]:
            values[command] = column[0]

    def _fill_template(self, pieces: list[str | int]) -> Column | None:
        indexes = [piece for piece in pieces if isinstance(piece, int)]
        columns = [self._variable(index) for index in indexes]
        for index, column in zip(indexes, columns, strict=True):
            if index < len(self.items.variables) and "$" in "".join(column):
                return None
        if len(columns) == 1:
            prefix, suffix = str(pieces[0]), str(pieces[2])
            if not prefix and not suffix:
                return list(columns[0])
            return [f"{prefix}{value}{suffix}" for value in columns[0]]
        pattern = "".join("%s" if isinstance(piece, int) else piece.replace("%", "%%") for piece in pieces)
        return [pattern % values for values in zip(*columns, strict=True)]

    def _expand_each(self, text: str) -> Column:
        columns = [self._variable(index) for index in range(len(self.open_variables))]
        expanded = []
        try:
            for values in zip(*columns, strict=True):
                self.macros.set_variables(dict(zip(self.open_variables, values, strict=True)))
                expanded.append(self.macros.expand(text))
        finally:
            self.macros.set_variables({})
        return expanded

    def _variable(self, index: int) -> Sequence[str]:
        values = self._variables.get(index)
        if values is None:
            items, name = self.items, self.open_variables[index]
            if index < len(items.variables):
                values = items.column(index)
            elif name in ("process", "procid"):
                values = [str(number) for number in range(self.first, self.first + self.count)]
            elif name == "step":
                values = [str(step) for step in range(items.count)] * len(items.indexes)
            else:
                values = items.spread([str(index_in_items) for index_in_items in items.indexes])
            self._variables[index] = values
        return values

    def _spelling(self, attribute: str) -> str:
        return self._spellings.setdefault(attribute.lower(), attribute)

    def _update(self, ad: dict[str, str], attributes: Mapping[str, str]) -> None:
        for attribute, text in attributes.items():
            ad[self._spelling(attribute)] = text

    def _compute_columns(
        self,
        section: Section,
        sections_run: list[Section],
        attributes: dict[str, str],
        previous_ad: dict[str, str],
        values: dict[str, str],
        ad: dict[str, str],
        columns: dict[str, Column],
    ) -> None:
        sections = _sections_needed(section, sections_run)
        names = sorted({command for each in sections for command in each.commands if command in self.varying_commands})
        if sections == [section] and section.verbatim is not None and section.verbatim.decides(names):
            attribute = section.verbatim.attribute
            column = self.varying_commands[section.verbatim.command]
            if attributes.get(attribute) == quote_string(column[0]) and _is_plain(column):
                columns[attribute] = [f'"{value}"' for value in column]
                for other in attributes.keys() - {attribute}:
                    columns.pop(other, None)
                self._update(ad, attributes)
                return
        results = self._compute_results(sections, names, previous_ad, values)
        for attribute in sorted({name for result in results for name in result}):
            spelling = self._spelling(attribute)
            default = columns.get(spelling) or [ad.get(spelling, "undefined")] * self.count
            column = [result.get(attribute) or default[job_number] for job_number, result in enumerate(results)]
            if column.count(column[0]) == len(column):
                columns.pop(spelling, None)
                ad[spelling] = column[0]
            else:
                columns[spelling] = column
                ad[spelling] = column[0]

    def _compute_results(
        self, sections: list[Section], names: list[str], previous_ad: dict[str, str], values: Mapping[str, str]
    ) -> list[dict[str, str]]:
        results_by_input: dict[tuple[str, ...], dict[str, str]] = {}
        results = []
        job = self._new_job(previous_ad)
        for inputs in zip(*(self.varying_commands[name] for name in names), strict=True):
            result = results_by_input.get(inputs)
            if result is None:
                job.values = {**values, **dict(zip(names, inputs, strict=True))}
                for name, value in zip(names, inputs, strict=True):
                    if not value:
                        del job.values[name]
                ad: Mapping[str, str] = previous_ad
                for section in sections:
                    result = _run_section(section, job, ad)
                    if len(sections) > 1:
                        ad = ChainMap(result, dict(ad))
                assert result is not None
                results_by_input[inputs] = result
            results.append(result)
        return results


def _is_plain(column: Column) -> bool:
    text = "\n".join(["", *column, ""])
    blanks = any(blank in text for blank in _IRREGULAR_BLANKS)
    return not blanks and re.search(_SPECIAL_CHARACTER, text) is None and "/dev/null" not in column


def _run_section(section: Section, job: SubmitJob, previous_ad: Mapping[str, str]) -> dict[str, str]:
    job.earlier, job.result = previous_ad, {}
    section.action(job)
    return job.result


def _sections_needed(section: Section, sections_run: list[Section]) -> list[Section]:
    needed = [section]
    for earlier in reversed(sections_run[:-1]):
        if any(later.reads_any(set(earlier.sets)) for later in needed):
            needed.insert(0, earlier)
    return needed


def _fact_attributes(facts: SubmitFacts) -> dict[str, str]:
    ad = {
        "QDate": str(facts.now),
        "EnteredCurrentStatus": str(facts.now),
        "CondorVersion": quote_string(facts.version),
        "SubmitVersion": quote_string(facts.version),
        "CondorPlatform": quote_string(facts.platform),
    }
    if facts.submit_file not in ("", STANDARD_INPUT):
        ad["JobSubmitFile"] = quote_string(facts.submit_file)
    return ad


_ALWAYS_SET = frozenset(
    {
        *("JobUniverse", "Iwd", "JobStatus", "JobNotification", "Rank", "Requirements"),
        *("ExecutableSize", "DiskUsage", "TransferInputSizeMB"),
    }
)
"""The attributes that are computed even if SUBMIT_ATTRS contains them and no command sets them."""


def _submit_attributes(
    facts: SubmitFacts, warn: Callable[[str], None] = lambda warning: None, is_forced: bool = False
) -> dict[str, str]:
    """Return the attributes of SUBMIT_ATTRS and similar settings. Commands override them, unless they are forced.

    :raises SubmitError: if a forced attribute is not an expression; others are only reported
    """
    attributes = {}
    for setting, text in facts.settings.items():
        name = setting.removeprefix(SUBMIT_ATTRIBUTE)
        if name == setting or name.startswith("+") is not is_forced:
            continue
        name = name.removeprefix("+")
        try:
            attributes[_SPELLINGS.get(name.lower(), name)] = expression_text(text)
        except ClassAdSyntaxError:
            if is_forced:
                raise SubmitError(f"{name} = {text}: Parse error in SUBMIT_ATTRS or SUBMIT_EXPRS value") from None
            warn(f"could not insert SUBMIT_ATTR {name}. did you forget to quote a string value?")
    return attributes


def _sections_for(macros: Macros, items: QueueItems, forced: Mapping[str, str]) -> list[Section]:
    commands = {*macros.definitions, *(name.lower() for name in items.variables)}
    middle = [section for section in MIDDLE if not commands.isdisjoint(section.commands) or section.reads]
    attribute_commands = [name for name in commands if name.startswith("my.")]
    attributes = [forced_section(name, _attribute_name(macros, name)) for name in sorted(attribute_commands)]
    return [
        *FIRST,
        *evict_check_sections(sorted(commands)),
        *service_sections(sorted(commands)),
        *request_sections(sorted(commands)),
        *middle,
        *jobset_sections(sorted(commands)),
        TRANSFER,
        *LAST,
        *([Section(lambda job: job.result.update(forced), (), tuple(forced))] if forced else []),
        *attributes,
        REQUIREMENTS,
    ]


def _attribute_name(macros: Macros, command: str) -> str:
    definition = macros.definitions.get(command)
    name = (definition.name if definition is not None else command)[len("my.") :]
    if not _IDENTIFIER.fullmatch(name):
        line = definition.line if definition is not None else None
        raise SubmitError(
            f"'{name}' is not a valid attribute name; use letters, digits and _, and do not begin with a digit", line
        )
    return _SPELLINGS.get(name.lower(), name)


@cache
def known_commands() -> frozenset[str]:
    """Return all commands that Poolbook implements, in lower case."""
    sections = [
        *FIRST,
        *evict_check_sections(()),
        *service_sections(()),
        *request_sections(()),
        *MIDDLE,
        TRANSFER,
        *LAST,
        REQUIREMENTS,
    ]
    return frozenset(command for section in sections for command in section.commands)


# The commands ``jobset`` and ``JOBSET.*``, which put a cluster into a job set.
#
# Source: the manual's page "Submit Description File Commands", jobset; HTCondor's ``ProcessJobsetAttributes``. A batch
# contains the attributes of the job set under their commands' names (JOBSET.Color), as the first job defines them.

JOBSET_PREFIX = "JOBSET."
JOBSET_NAME = "JobSetName"


def jobset_sections(commands: Iterable[str]) -> list[Section]:
    """Return the section of those given commands that begin with ``JOBSET.``; empty if none does."""
    names = tuple(name for name in commands if name.startswith(JOBSET_PREFIX.lower()))
    return [Section(_jobset_action(names), names, (JOBSET_NAME,), (JOBSET_NAME,))] if names else []


def _jobset_action(names: Sequence[str]) -> Callable[[SubmitJob], None]:
    def action(job: SubmitJob) -> None:
        present = [name for name in names if job.value(name) is not None]
        attributes = {
            job.definitions[name].name[len(JOBSET_PREFIX) :]: job.expression(name)
            for name in present
            if name != "jobset.name"
        }
        if attributes and job.facts.settings.get(USE_JOBSETS, "").lower() != "true":
            job.warn("schedd does not support jobsets.  Ignoring JOBSET.* attributes")
        if present and job.attribute(JOBSET_NAME) is None:
            set_name = strip_quotes(job.value("jobset.name", f"jobset.{JOBSET_NAME.lower()}") or "")
            job.result[JOBSET_NAME] = quote_string(set_name or str(job.facts.cluster))
        job.result.update({f"{JOBSET_PREFIX}{name}": text for name, text in attributes.items()})

    return action
