"""The work of `poolbook verify` and `poolbook audit`: recompute the seal, and check every event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, closing

from attrs import Factory, define

from ...domain.ports.log import EventStore, LogError
from ...replay.audit_result import Audit
from ...replay.forensics.audit.examine import examine
from ...replay.forensics.imported_log import is_imported
from ...replay.recheck_cycles import RecheckedCycles, recheck
from ...replay.validation import ValidationResult, Violation, validate
from ...replay.validation.quotes import compare_logs
from ...replay.validation.validator import audit_native_log
from ..stores.location import safe_url
from ..stores.opening import open_log, verify_seal
from ..stores.verification import Problem
from .damage import ERRORS_FROM_ALTERED_DATA


def _open_unchecked(url: str) -> EventStore:
    """Open a log without checking its seal again, so that events after a damaged one are also checked."""
    return open_log(url, create=False, read_only=True, checked=False)


@define
class Verification:
    """The result of verifying a log: is it unaltered, and is every transition legal?

    >>> result = log.verify()
    >>> result.sound, result.violations
    (True, [])
    """

    imported: bool = False  #: True for an imported log, whose events only the audit checks
    seal: list[Problem] = Factory(list)  #: the seal's problems, each with its position (None: the whole log) and a text
    verdict: ValidationResult = Factory(ValidationResult)  #: counts of events, and the violations of rules
    decisions: RecheckedCycles | None = None  #: the repeated cycles, or None if that was not requested
    unreadable: str = ""  #: why the events could not be read; ``seal`` then shows where the log is damaged
    id: str = ""  #: the log's id, or empty if the log is empty, or its first event cannot be read

    @property
    def violations(self) -> list[Violation]:
        """The events that violate a rule."""
        return self.verdict.violations

    @property
    def sound(self) -> bool:
        """True if the verification found no problem."""
        return not self.seal and self.verdict.sound and (self.decisions is None or self.decisions.sound)


def verify_log(
    url: str,
    decisions: bool = False,
    tell: Callable[[int, int, int], None] | None = None,
    executor: Executor | None = None,
) -> Verification:
    """Recompute the seal of the log at `url`, and check its events if they are a pool's own; with `decisions`, also
    repeat every negotiation cycle. `tell` is called after each cycle with its position, the number of cycles, and the
    log's end. With an executor (`segments.executor_of`), its workers repeat the cycles of the log's segments, and one
    of them checks the events meanwhile; the result is the same. Raise `LogError` if the log does not exist, or cannot
    be read although its seal is intact."""
    verification = Verification(seal=verify_seal(url))
    try:
        with closing(_open_unchecked(url)) as log:
            verification.id = log.id
            verification.imported = is_imported(log)
            if verification.imported:
                verification.verdict.events = log.head.position
                return verification
            last = log.head.position
            tell_position = None if tell is None else lambda position, taken: tell(position, taken, last)
            if executor is None:
                verification.verdict = _checked_events(url, last)
                if decisions:
                    verification.decisions = recheck(log.read(), tell_position)
            else:
                verdict = executor.submit(_checked_events, url, last)
                if decisions:
                    from .segments import recheck_in_parallel

                    verification.decisions = recheck_in_parallel(log, url, executor, tell_position)
                verification.verdict = verdict.result()
    except (LogError, *ERRORS_FROM_ALTERED_DATA) as error:
        if not verification.seal:
            raise
        verification.unreadable = str(error) if isinstance(error, LogError) else "no rule can judge its altered events"
    return verification


def _checked_events(url: str, last: int) -> ValidationResult:
    verdict = ValidationResult()
    with closing(_open_unchecked(url)) as log:
        verdict.violations = list(validate(log.read(limit=last), verdict))
    return verdict


def audit_logs(urls: Sequence[str]) -> list[Audit]:
    """Audit the logs of one pool's roles, and compare what they read from each other."""
    audits = [audit_log(url) for url in urls]
    with ExitStack() as stack:
        logs = [stack.enter_context(closing(_open_unchecked(url))) for url in urls]
        compared = [
            (safe_url(url), log, audit)
            for url, log, audit in zip(urls, logs, audits, strict=True)
            if audit.judged and not audit.seal and not audit.imported
        ]
        compare_logs(compared)
    return audits


def audit_log(url: str) -> Audit:
    """Audit the log at `url`, imported or a pool's own: check its events, compare its sources, and check its seal.
    Raise `LogError` if the log does not exist, or cannot be read although its seal is intact."""
    problems = [(problem.position, problem.text) for problem in verify_seal(url)]
    try:
        with closing(_open_unchecked(url)) as log:
            audit = examine(log) if is_imported(log) else audit_native_log(log)
            audit.id = log.id
    except (LogError, *ERRORS_FROM_ALTERED_DATA):
        if not problems:
            raise
        audit = Audit()  # the problems of the seal explain why the log cannot be read
    audit.seal, audit.seal_checked = problems, True
    return audit
