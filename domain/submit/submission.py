"""Convert a submit description to the ads of its jobs, as condor_submit would send them to the schedd."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from ..classad.old_form import printed_form
from ..macros.functions import FUNCTIONS, draw_in_sequence, random_functions
from ..macros.lines import Lines
from ..macros.macro_errors import MacroError
from ..macros.macros import Definition, Macros
from ..state.job_ad import quoted
from ..suggestions import close_names
from .build import JOBSET_NAME as JOB_SET
from .build import JOBSET_PREFIX, Builder, JobBatch, known_commands
from .queue_statements import QueueItems, queue_arguments
from .submit_context import STANDARD_INPUT, SubmitError, SubmitFacts, SubmitFiles
from .submit_reader import SubmitReader
from .unsupported_commands import EXPRESSIONS, is_read_by_htcondor, unsupported_message


class Submission(Struct, frozen=True):
    """The jobs of one cluster, ready to be submitted."""

    ad: dict[str, str]  #: the attributes that are the same in every job
    columns: dict[str, list[str]]  #: the other attributes, with one text per job (``undefined`` if the job has none)
    count: int
    job_set: dict[str, str] = field(default_factory=dict)  #: the attributes of its job set (JOBSET.Name)
    warnings: list[str] = field(default_factory=list)  #: the warnings for the user, in the order of their occurrence

    def ad_of(self, proc: int) -> dict[str, str]:
        """Return the complete ad of a job, with ClusterId and ProcId."""
        if not 0 <= proc < self.count:
            raise IndexError(f"job {proc} does not exist: this submission has jobs 0 to {self.count - 1}")
        varying = {name: column[proc] for name, column in self.columns.items()}
        return {**self.ad, **varying, "ProcId": str(proc)}


def parse_submit(
    text: str,
    facts: SubmitFacts,
    files: SubmitFiles,
    *,
    macros: Mapping[str, str] | None = None,
    append: Sequence[str] = (),
    queue: str | None = None,
    toggle_unused: bool = False,
) -> Submission:
    """Return the jobs of a submit description.

    :param macros: ``name=value`` arguments of the command line, defined before the first line
    :param append: lines to read before each queue statement
    :param queue: the arguments of a queue statement, for a description that contains none
    :param toggle_unused: whether to invert the setting that enables warnings about unused commands
    :raises SubmitError: if the description is invalid; the message contains the line
    """
    with _convert_errors():
        return _ClusterBuilder(facts, files, macros or {}, append, toggle_unused).parse_description(text, queue)


def from_mapping(
    description: Mapping[str, object],
    facts: SubmitFacts,
    files: SubmitFiles,
    *,
    count: int = 1,
    items: Sequence[Mapping[str, object]] | None = None,
) -> Submission:
    """Return the jobs of a mapping of submit commands to their values.

    :param count: the number of jobs per item
    :param items: for each item, the values of the queue statement's variables; the first item determines the variables
    :raises SubmitError: like ``parse_submit``; also for a value with a line feed or NUL character
    """
    if count < 1:
        raise SubmitError(f"count = {count}: there must be at least one job")
    with _convert_errors():
        cluster = _ClusterBuilder(facts, files, {}, ())
        for name, value in description.items():
            cluster.define(name, value_text(name, value))
        cluster.queue(_items_from_mappings(items, count), None)
        return cluster.result()


def _items_from_mappings(items: Sequence[Mapping[str, object]] | None, count: int) -> QueueItems:
    names = tuple(items[0]) if items else ()
    if items is not None and not items:
        raise SubmitError("items is empty, so there is no job")
    try:
        rows = tuple([value_text(name, item[name]) for item in items or ()] for name in names)
    except KeyError as missing_name:
        raise SubmitError(f"an item has no value for {missing_name}, which the first item has") from None
    return QueueItems(count, names, rows, range(len(items)) if items else (0,))


@contextmanager
def _convert_errors() -> Iterator[None]:
    try:
        yield
    except MacroError as error:
        raise error if isinstance(error, SubmitError) else SubmitError(error.message, error.line) from None
    except RecursionError:
        raise SubmitError("a value of this description nests too deeply; simplify it") from None


def value_text(name: str, value: object) -> str:
    """Return the text of a command with this value. Raise `SubmitError` if it contains a line feed or NUL character."""
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    if "\0" in text or "\n" in text:
        raise SubmitError(f"{name}: a value must not contain a line feed or NUL character")
    return text.strip()


class _ClusterBuilder:
    def __init__(
        self,
        facts: SubmitFacts,
        files: SubmitFiles,
        macros: Mapping[str, str],
        append: Sequence[str],
        toggle_unused: bool = False,
    ) -> None:
        self.warns_of_unused = (
            facts.setting("WARN_ON_UNUSED_SUBMIT_FILE_MACROS").lower() != "false"
        ) is not toggle_unused
        self.facts = facts
        self.files = files
        self.append = append
        self.batches: list[JobBatch] = []
        self.warnings: dict[str, None] = {}
        self.variables: dict[str, str] = {}
        functions = {**FUNCTIONS, **random_functions(draw_in_sequence(facts.seed))}
        self.macros = Macros(_automatic_variables(facts), functions, facts.environment)
        for name, value in macros.items():
            self.define(name, value)

    def define(self, name: str, value: str) -> None:
        if "\0" in name + value or "\n" in name:
            raise SubmitError(f"{name!r}: names and values must not contain a NUL character or a line feed")
        self.macros.define(Definition(f"MY.{name[1:]}" if name.startswith("+") else name, value))

    def warn(self, unsupported_message: str) -> None:
        self.warnings[unsupported_message] = None

    def parse_description(self, text: str, queue: str | None) -> Submission:
        reader = SubmitReader(self.macros, self.facts, self.files, self.queue, self.append, self.warn)
        reader.parse_lines(Lines(text))
        if reader.statements and queue is not None:
            raise SubmitError("-queue argument conflicts with queue statement in submit file; use one of them")
        if not reader.statements:
            arguments = queue_arguments(queue or "queue")
            reader.queue(queue or "" if arguments is None else arguments, None, None)
        return self.result()

    def queue(self, items: QueueItems, line: int | None) -> None:
        for name in items.variables:
            self.variables[name.lower()] = name
        if items.jobs:
            first = sum(batch.count for batch in self.batches)
            self.batches.append(Builder(self.macros, self.facts, self.files, items, first, self.warn).build())

    def result(self) -> Submission:
        if not self.batches:
            name = self.facts.submit_file
            raise SubmitError(f'"{"(stdin)" if name == STANDARD_INPUT else name}" {NOTHING_QUEUED}', code="no jobs")
        universes = {batch.columns.get("JobUniverse", [batch.ad.get("JobUniverse")])[0] for batch in self.batches}
        if len(universes) > 1 or any("JobUniverse" in batch.columns for batch in self.batches):
            raise SubmitError("all jobs of a cluster must have the same universe; submit them separately")
        sets = {batch.ad.get(JOB_SET) for batch in self.batches}
        if len(sets) > 1 or any(JOB_SET in batch.columns for batch in self.batches):
            raise SubmitError("All jobs from a single submission must be in the same JOBSET; submit them separately")
        if len(self.batches) > 1:
            self.warn("Use of multiple queue statements in a single submit file is deprecated; one with a list does it")
        if self.warns_of_unused:
            self._warn_of_the_unused()
        batch, job_set = _take_job_set(self.batches)
        self._warn_of_the_unsupported(batch)
        ad = {**batch.ad, "ClusterId": str(self.facts.cluster)}
        return Submission(ad, batch.columns, batch.count, job_set, list(self.warnings))

    def _warn_of_the_unsupported(self, batch: JobBatch) -> None:
        definitions = self.macros.definitions
        spellings = {key: definition.name for key, definition in definitions.items()} | self.variables
        shown_names = {key: f"+{name[3:]}" if key.startswith("my.") else name for key, name in spellings.items()}
        expressions = {name: self.macros.value(name) or "" for name in EXPRESSIONS if name in definitions}
        if warning := unsupported_message(batch, shown_names, expressions):
            self.warn(warning)

    def _warn_of_the_unused(self) -> None:
        commands, names_used = known_commands(), self.macros.names_used
        for key, name in self.variables.items():
            if key not in names_used:
                self.warn(f"the Queue variable '{name}' was unused by condor_submit. Is it a typo?")
        compared = 0
        for key, definition in self.macros.definitions.items():
            if key in names_used or "." in key or is_read_by_htcondor(key):
                continue
            compared += 1
            place = "" if definition.line is None else f", line {definition.line}"
            # An attribute's name is also a command. If both match, suggest only the usual command.
            close = (
                close_names(key[:60], commands, 4, 0.75) if compared <= _MAX_COMPARED and key not in commands else []
            )
            suggestions: dict[str, str] = {}
            for name in close:
                without_underscores = name.replace("_", "")
                suggestions[without_underscores] = min(name, suggestions.get(without_underscores, name))
            hint = f" Did you mean {' or '.join(suggestions.values())}?" if suggestions else ""
            value = definition.value if len(definition.value) <= 60 else f"{definition.value[:57]}..."
            self.warn(f"the line '{definition.name} = {value}' was unused by condor_submit{place}. Is it a typo?{hint}")


def is_command(name: str) -> bool:
    """Check whether condor_submit reads a command of this name."""
    key = name.lower()
    is_pattern = key.startswith("transform_body_") or key.endswith("_container_port")
    return key in known_commands() or key.startswith("request_") or is_read_by_htcondor(key) or is_pattern


NOTHING_QUEUED: Final = 'has only empty "queue" commands -- no jobs queued'
"""The end of the error message if no queue statement has an item. (condor_submit only prints a warning.)"""
_MAX_COMPARED = 20
"""The maximum number of unknown names for which similar commands are searched, because each search takes 2 ms."""


def _take_job_set(batches: list[JobBatch]) -> tuple[JobBatch, dict[str, str]]:
    """Return the merged batches without the attributes of the job set, and these attributes of the first job."""
    batch = _merge_batches(batches)
    names = [name for name in (*batch.ad, *batch.columns) if name.startswith(JOBSET_PREFIX)]
    texts = {name: batch.ad.pop(name, "") or batch.columns.pop(name)[0] for name in names}
    return batch, {name[len(JOBSET_PREFIX) :]: text for name, text in texts.items() if text != "undefined"}


def _merge_batches(batches: list[JobBatch]) -> JobBatch:
    if len(batches) == 1:
        return batches[0]
    names = dict.fromkeys(name for batch in batches for name in (*batch.ad, *batch.columns))
    ad: dict[str, str] = {}
    columns: dict[str, list[str]] = {}
    for name in names:
        column: list[str] = []
        for batch in batches:
            column += batch.columns.get(name) or [batch.ad.get(name, "undefined")] * batch.count
        if column.count(column[0]) == len(column):
            ad[name] = column[0]
        else:
            columns[name] = column
    return JobBatch(ad, columns, sum(batch.count for batch in batches))


def _automatic_variables(facts: SubmitFacts) -> dict[str, str]:
    day = datetime.fromtimestamp(facts.now, UTC)
    cluster = str(facts.cluster)
    return {
        **dict.fromkeys(("opsysver", "opsysandver", "opsysmajorver", "node", "spool"), ""),
        **dict.fromkeys(("process", "procid", "step", "row", "itemindex", "taskid"), "0"),
        **dict.fromkeys(("cluster", "clusterid", "joblistid"), cluster),
        "jobid": f"{cluster}.$(ProcId)",
        "arch": facts.arch,
        "opsys": facts.opsys,
        "islinux": "1",
        "iswindows": "0",
        "request_cpus": "$(RequestCPUs)",
        "request_memory": "$(RequestMemory)",
        "submit_file": "" if facts.submit_file == STANDARD_INPUT else facts.submit_file,
        "submit_time": str(facts.now),
        "year": f"{day:%Y}",
        "month": f"{day:%m}",
        "day": f"{day:%d}",
        "factory.iwd": facts.iwd,
    }


# Print the jobs of a submission like condor_submit: complete ads, or only the attributes to send to the schedd.


def dry_run(submission: Submission, *, verbose: bool = False) -> Iterator[str]:
    """Yield, for each job, the text that ``condor_submit -dry-run:full`` or ``-verbose`` prints."""
    for proc in range(submission.count):
        ad = submission.ad_of(proc)
        lines = [f"{name} = {printed_form(ad[name])}\n" for name in sorted(ad, key=str.lower)]
        header = f"\n** Proc {ad['ClusterId']}.{proc}:\n" if verbose else "\n"
        yield header + "".join(lines)


def format_sent_ads(submission: Submission) -> Iterator[str]:
    """Yield, for each job, the text of ``condor_submit -dry-run`` and ``-dump``: the attributes sent to the schedd.

    The cluster's attributes come before the first job's; for the other jobs, only differences are sent. The
    attributes are sorted by the length of their names.
    """
    cluster = submission.ad_of(0)
    shared = {name: text for name, text in cluster.items() if name not in _JOB_ATTRIBUTES and name != "ClusterId"}
    for proc in range(submission.count):
        ad = submission.ad_of(proc)
        lines_before = [f"ClusterId={ad['ClusterId']}", *_format_lines(shared)] if proc == 0 else []
        varying = {name: text for name, text in ad.items() if name in submission.columns and text != cluster[name]}
        varying = {name: text for name, text in varying.items() if name not in _JOB_ATTRIBUTES}
        lines = [*lines_before, f"ProcId={proc}", f"JobStatus={ad['JobStatus']}", *_format_lines(varying)]
        yield "\n" + "".join(f"{line}\n" for line in lines)


_JOB_ATTRIBUTES = ("ProcId", "JobStatus")


def _format_lines(ad: dict[str, str]) -> Iterator[str]:
    for name in sorted(ad, key=lambda name: (len(name), name.lower())):
        yield f"{name}={printed_form(ad[name])}"


SPOOLING_HOLD_CODE: Final = 16  #: HoldReasonCode SpoolingInput
LEAVE_AFTER_TEN_DAYS: Final = (
    "JobStatus == 4 && (time() - (CompletionDate ?: time())) < 864000 && (StageOutFinish ?: 0) < EnteredCurrentStatus"
)
"""The default LeaveJobInQueue: completed jobs stay in the queue for ten days, or until their output is fetched."""


def hold_for_spooling(parsed: Submission) -> Submission:
    """Return the submission with its jobs held until their input is spooled; raise SubmitError if it sets ``hold``."""
    if parsed.ad.get("JobStatus") == "5":
        raise SubmitError("Cannot set hold to 'true' when using -remote or -spool")
    hold_attributes = {
        "JobStatus": "5",
        "HoldReason": quoted("Spooling input data files"),
        "HoldReasonCode": str(SPOOLING_HOLD_CODE),
    }
    leave_attributes = {"LeaveJobInQueue": LEAVE_AFTER_TEN_DAYS} if parsed.ad.get("LeaveJobInQueue") == "false" else {}
    return replace(parsed, ad={**parsed.ad, **hold_attributes, **leave_attributes})
