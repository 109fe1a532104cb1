"""Turn a description into the ads of its jobs, as condor_submit would send them to the schedd."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from attrs import evolve, field, frozen

from ..classad.old_form import printed
from ..macros.functions import FUNCTIONS, drawing, in_turn
from ..macros.lines import Lines
from ..macros.macro_errors import MacroError
from ..macros.macros import Definition, Macros
from ..state.job_ad import quoted
from ..suggestions import close_names
from .build import NAME as JOB_SET
from .build import Batch, Builder, known_commands
from .queue_statements import Items, arguments_of
from .submit_context import STANDARD_INPUT, SubmitError, SubmitFacts, SubmitFiles
from .submit_reader import SubmitReader
from .unsupported_commands import EXPRESSIONS, is_read, message


@frozen
class Submission:
    """The jobs of one cluster."""

    ad: dict[str, str]  #: attribute to expression text, where it is the same in every job
    columns: dict[str, list[str]]  #: attribute to one text per job for all others; ``undefined`` where a job lacks it
    count: int
    warnings: list[str] = field(factory=list)  #: for the user, in the order in which they arose

    def ad_of(self, proc: int) -> dict[str, str]:
        """Return the whole ad of one job, ClusterId and ProcId included."""
        if not 0 <= proc < self.count:
            raise IndexError(f"there is no job {proc}: this submission has jobs 0 to {self.count - 1}")
        own = {name: column[proc] for name, column in self.columns.items()}
        return {**self.ad, **own, "ProcId": str(proc)}


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
    """Return the jobs that a submit description asks for.

    :param macros: ``name=value`` arguments of the command line: known before the first line is read
    :param append: lines to be read after the description's own, before its queue statement takes effect
    :param queue: the arguments of the queue statement, where the description has none
    :param toggle_unused: whether to warn of what nothing reads is the opposite of what the configuration says
    :raises SubmitError: where the description cannot be submitted; it names the line
    """
    with _refusing():
        return _SubmittedCluster(facts, files, macros or {}, append, toggle_unused).read(text, queue)


def from_mapping(
    description: Mapping[str, object],
    facts: SubmitFacts,
    files: SubmitFiles,
    *,
    count: int = 1,
    items: Sequence[Mapping[str, object]] | None = None,
) -> Submission:
    """Return the jobs that a mapping of submit commands asks for; its values stand right of the equals sign.

    :param count: jobs for each item
    :param items: for each item the values of the queue statement's variables; the first item names them
    :raises SubmitError: as ``parse_submit``; also for a value with a line feed or NUL in it
    """
    if count < 1:
        raise SubmitError(f"count = {count}: there must be at least one job")
    with _refusing():
        cluster = _SubmittedCluster(facts, files, {}, ())
        for name, value in description.items():
            cluster.define(name, _as_text(name, value))
        cluster.queue(_items_of(items, count), None)
        return cluster.result()


def _items_of(items: Sequence[Mapping[str, object]] | None, count: int) -> Items:
    names = tuple(items[0]) if items else ()
    if items is not None and not items:
        raise SubmitError("items is empty, so there is no job")
    try:
        rows = tuple([_as_text(name, item[name]) for item in items or ()] for name in names)
    except KeyError as missing:
        raise SubmitError(f"an item has no value for {missing}, which the first item has") from None
    return Items(count, names, rows, range(len(items)) if items else (0,))


@contextmanager
def _refusing() -> Iterator[None]:
    """Convert errors of the description's macros to SubmitErrors."""
    try:
        yield
    except MacroError as problem:
        raise problem if isinstance(problem, SubmitError) else SubmitError(problem.message, problem.line) from None
    except RecursionError:
        raise SubmitError("a value of this description nests too deeply; write it in a simpler way") from None


def _as_text(name: str, value: object) -> str:
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    if "\0" in text or "\n" in text:
        raise SubmitError(f"{name}: a value can hold neither a line feed nor a NUL character")
    return text.strip()


class _SubmittedCluster:
    """The queue statements read so far, and the jobs that they made."""

    def __init__(
        self,
        facts: SubmitFacts,
        files: SubmitFiles,
        macros: Mapping[str, str],
        append: Sequence[str],
        toggle_unused: bool = False,
    ) -> None:
        self.told = (facts.setting("WARN_ON_UNUSED_SUBMIT_FILE_MACROS").lower() != "false") is not toggle_unused
        self.facts = facts
        self.files = files
        self.append = append
        self.batches: list[Batch] = []
        self.warned: dict[str, None] = {}
        self.variables: dict[str, str] = {}
        functions = {**FUNCTIONS, **drawing(in_turn(facts.seed))}
        self.macros = Macros(_automatic(facts), functions, facts.environment)
        for name, value in macros.items():
            self.define(name, value)

    def define(self, name: str, value: str) -> None:
        if "\0" in name + value or "\n" in name:
            raise SubmitError(f"{name!r}: a name or value holds a NUL character or a line feed")
        self.macros.define(Definition(f"MY.{name[1:]}" if name.startswith("+") else name, value))

    def warn(self, message: str) -> None:
        self.warned[message] = None

    def read(self, text: str, queue: str | None) -> Submission:
        reader = SubmitReader(self.macros, self.facts, self.files, self.queue, self.append, self.warn)
        reader.read(Lines(text))
        if reader.statements and queue is not None:
            raise SubmitError("-queue argument conflicts with queue statement in submit file; use one of them")
        if not reader.statements:
            arguments = arguments_of(queue or "queue")
            reader.queue(queue or "" if arguments is None else arguments, None, None)
        return self.result()

    def queue(self, items: Items, line: int | None) -> None:
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
            raise SubmitError("all jobs of a cluster have one universe; submit them separately")
        sets = {batch.ad.get(JOB_SET) for batch in self.batches}
        if len(sets) > 1 or any(JOB_SET in batch.columns for batch in self.batches):
            raise SubmitError("All jobs from a single submission must be in the same JOBSET; submit them separately")
        if len(self.batches) > 1:
            self.warn("Use of multiple queue statements in a single submit file is deprecated; one with a list does it")
        if self.told:
            self._warn_of_the_unused()
        batch = _merged(self.batches)
        self._warn_of_the_unsupported(batch)
        ad = {**batch.ad, "ClusterId": str(self.facts.cluster)}
        return Submission(ad, batch.columns, batch.count, list(self.warned))

    def _warn_of_the_unsupported(self, batch: Batch) -> None:
        definitions = self.macros.definitions
        written = {key: definition.name for key, definition in definitions.items()} | self.variables
        spelled = {key: f"+{name[3:]}" if key.startswith("my.") else name for key, name in written.items()}
        expressions = {name: self.macros.value(name) or "" for name in EXPRESSIONS if name in definitions}
        if warning := message(batch, spelled, expressions):
            self.warn(warning)

    def _warn_of_the_unused(self) -> None:
        known, used = known_commands(), self.macros.used
        for key, name in self.variables.items():
            if key not in used:
                self.warn(f"the Queue variable '{name}' was unused by condor_submit. Is it a typo?")
        compared = 0
        for key, definition in self.macros.definitions.items():
            if key in used or "." in key or is_read(key):
                continue
            compared += 1
            where = "" if definition.line is None else f", line {definition.line}"
            # Leave out an attribute's name, which is a command too, where the command itself is near.
            likeliest = close_names(key[:60], known, 4, 0.75) if compared <= _COMPARED and key not in known else []
            near: dict[str, str] = {}
            for name in likeliest:
                bare = name.replace("_", "")
                near[bare] = min(name, near.get(bare, name))
            hint = f" Did you mean {' or '.join(near.values())}?" if near else ""
            value = definition.value if len(definition.value) <= 60 else f"{definition.value[:57]}..."
            self.warn(f"the line '{definition.name} = {value}' was unused by condor_submit{where}. Is it a typo?{hint}")


def is_command(name: str) -> bool:
    """Return True if condor_submit reads a line of this name."""
    key = name.lower()
    of_a_name = key.startswith("transform_body_") or key.endswith("_container_port")
    return key in known_commands() or key.startswith("request_") or is_read(key) or of_a_name


NOTHING_QUEUED: Final = 'has only empty "queue" commands -- no jobs queued'
"""How the error ends that no queue statement has an item: condor_submit warns of it."""
_COMPARED = 20
"""Unknown names that are compared with all commands: it takes 2 ms each, and who has more of them has no typos."""


def _merged(batches: list[Batch]) -> Batch:
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
    return Batch(ad, columns, sum(batch.count for batch in batches))


def _automatic(facts: SubmitFacts) -> dict[str, str]:
    """Return the variables that every description has (the manual's page "Submitting a Job")."""
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


# Print the jobs of a submission as condor_submit does: whole ads, or what it would send to the schedd.


def dry_run(submission: Submission, *, verbose: bool = False) -> Iterator[str]:
    """Yield for each job the text that ``condor_submit -dry-run:full`` writes of it, or ``-verbose``."""
    for proc in range(submission.count):
        ad = submission.ad_of(proc)
        lines = [f"{name} = {printed(ad[name])}\n" for name in sorted(ad, key=str.lower)]
        head = f"\n** Proc {ad['ClusterId']}.{proc}:\n" if verbose else "\n"
        yield head + "".join(lines)


def sent_ads(submission: Submission) -> Iterator[str]:
    """Yield for each job what ``condor_submit -dry-run`` and ``-dump`` write of it: what it would send to the schedd.

    The cluster's attributes are sent before the first job's own; of another job only what differs from them is. Short
    names go before long ones.
    """
    cluster = submission.ad_of(0)
    shared = {name: text for name, text in cluster.items() if name not in _OF_EACH_JOB and name != "ClusterId"}
    for proc in range(submission.count):
        ad = submission.ad_of(proc)
        head = [f"ClusterId={ad['ClusterId']}", *_lines(shared)] if proc == 0 else []
        own = {name: text for name, text in ad.items() if name in submission.columns and text != cluster[name]}
        own = {name: text for name, text in own.items() if name not in _OF_EACH_JOB}
        lines = [*head, f"ProcId={proc}", f"JobStatus={ad['JobStatus']}", *_lines(own)]
        yield "\n" + "".join(f"{line}\n" for line in lines)


_OF_EACH_JOB = ("ProcId", "JobStatus")


def _lines(ad: dict[str, str]) -> Iterator[str]:
    for name in sorted(ad, key=lambda name: (len(name), name.lower())):
        yield f"{name}={printed(ad[name])}"


SPOOLING: Final = 16  #: HoldReasonCode SpoolingInput
LEAVE: Final = (
    "JobStatus == 4 && (time() - (CompletionDate ?: time())) < 864000 && (StageOutFinish ?: 0) < EnteredCurrentStatus"
)
"""The default LeaveJobInQueue: jobs stay for ten days, or until their output was fetched."""


def held_for_spooling(parsed: Submission) -> Submission:
    """Return the submission as its jobs wait for their files. Raise `SubmitError` if they are to be held anyway."""
    if parsed.ad.get("JobStatus") == "5":
        raise SubmitError("Cannot set hold to 'true' when using -remote or -spool")
    held = {
        "JobStatus": "5",
        "HoldReason": quoted("Spooling input data files"),
        "HoldReasonCode": str(SPOOLING),
    }
    leaves = {"LeaveJobInQueue": LEAVE} if parsed.ad.get("LeaveJobInQueue") == "false" else {}
    return evolve(parsed, ad={**parsed.ad, **held, **leaves})
