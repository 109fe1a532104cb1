"""What `poolbook verify` and `poolbook audit` find of a log, for them and for `Log`: the seal is computed again, and
every event is judged."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import closing

from attrs import Factory, define

from ...domain.ports.log import LogError
from ...replay.audit_result import Audit
from ...replay.forensics.audit.examine import examine
from ...replay.forensics.imported_log import is_imported
from ...replay.recheck_cycles import RecheckedCycles, recheck
from ...replay.validation import Verdict, Violation, validate
from ...replay.validation.native_audit import audit_native_log
from ..stores import Problem, open_log, verify_seal


@define
class Verification:
    """Whether a log is as it was written, and every transition in it is legal."""

    imported: bool = False
    """Whether it is of an import, whose events are judged by the audit alone."""
    seal: list[Problem] = Factory(list)
    """Where the log is not what was written to it, each with its position (None: the log as a whole) and words."""
    verdict: Verdict = Factory(Verdict)
    """What the judge counted, and the events that no rule allows."""
    decisions: RecheckedCycles | None = None
    """What came of taking the negotiation cycles again; None: they were not, since nobody asked."""
    unreadable: str = ""
    """Why the events could not be read; the seal then says where it is broken."""

    @property
    def violations(self) -> list[Violation]:
        """The events that no rule allows, each with its position, thing, rule, words, and story."""
        return self.verdict.violations

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        return not self.seal and self.verdict.sound and (self.decisions is None or self.decisions.sound)


def verified(url: str, decisions: bool = False, tell: Callable[[int, int, int], None] | None = None) -> Verification:
    """Compute the seal of the log at `url` again, and judge its events if they are a pool's own.

    :param decisions: take every negotiation cycle again, too
    :param tell: told after each cycle where in the log it stands, how many were taken, and where the log ends
    :raises LogError: there is no log, or it cannot be read though its seal holds
    """
    found = Verification(seal=verify_seal(url))
    try:
        with closing(open_log(url, create=False, read_only=True)) as log:
            found.imported = is_imported(log)
            if found.imported:
                found.verdict.events = log.head.position
                return found
            found.verdict.violations = list(validate(log.read(), found.verdict))
            if decisions:
                last = log.head.position
                found.decisions = recheck(
                    log.read(), None if tell is None else lambda position, taken: tell(position, taken, last)
                )
    except LogError as error:
        if not found.seal:
            raise
        found.unreadable = str(error)
    return found


def audited(url: str) -> Audit:
    """Audit the log at `url`, imported or a pool's own: what it tells of, whether that was allowed, where its sources
    disagree, and whether its seal holds.

    :raises LogError: there is no log, or it cannot be read though its seal holds
    """
    problems = [(problem.position, problem.text) for problem in verify_seal(url)]
    try:
        with closing(open_log(url, create=False, read_only=True)) as log:
            found = examine(log) if is_imported(log) else audit_native_log(log)
    except Exception as error:
        if not problems or not isinstance(error, LogError | ValueError | TypeError | LookupError | zlib.error):
            raise
        found = Audit()  # the seal says why it cannot be read
    found.seal, found.seal_checked = problems, True
    return found
