"""Mail to a job's user: when to send it, to whom, and with which text (``mail_text``).

The submit command ``notification`` (JobNotification) selects the occasions: a job's end, its first start, or a hold or
removal by a policy or after a failure. A user's command causes no mail, because in HTCondor the shadow sends these
mails and does not see commands.

Source: Email::shouldSend (email_cpp.cpp) of HTCondor and the manual's ``notification``; mails sent by a pool of
HTCondor 25.14.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from ..classad import ClassAd
from ..classad.value_evidence import integer_of
from ..decision.draft import Draft
from ..events import Event, JobExecuting, JobExited, JobsTransitioned, MailDue, Mailed
from ..ports.stimuli import MailHandled
from ..state.caches import ad_from_attributes
from ..state.cluster import Cluster
from ..state.job_ad import unquoted
from ..state.records import NOTIFICATION, RUNS
from ..state.state import AccessPoint
from . import mail_text
from .job_policy import HELD_BY_POLICY

NEVER, ALWAYS, COMPLETE, ERROR, START = range(5)
EXIT, HOLD, REMOVE, BEGIN = "exit", "put on hold", "removed", "start"
_REQUESTED_HOLDS: Final = frozenset({1, HELD_BY_POLICY, 15})
"""HoldReasonCodes of holds that are not failures: holds by a user, by the job's policy, or at submission."""
NOT_EXPANDED: Final = "not_expanded"
"""The cause recorded when a job is held because its slot cannot expand the ``$$()`` macros in the job's ad."""
_BY_USERS: Final = frozenset({"user_hold", "user_remove"})


class _Occasion(Struct, frozen=True):
    """An occasion for mail to a job's user; ``reason`` is the reason for a hold or removal."""

    kind: str
    cluster: Cluster
    proc: int
    reason: str = ""


def notify(draft: Draft[AccessPoint]) -> None:
    """Log the mails to be sent after this decision."""
    for event in tuple(draft.events):
        for occasion in _occasions(draft, event):
            ad = ad_from_attributes(occasion.cluster.attributes(occasion.proc))
            if _is_wanted(draft, occasion, ad):
                _log_mail(draft, occasion, ad)


def mail_handled(draft: Draft[AccessPoint], stimulus: MailHandled) -> None:
    """Log that a mail was sent, or why it was not, to avoid sending it again."""
    mail = draft.state.mails.get(stimulus.mail)
    if mail is not None:
        draft.emit(Mailed(*draft.header("mailed"), mail.cluster, mail.proc, stimulus.mail, stimulus.failure))


def _occasions(draft: Draft[AccessPoint], event: Event) -> Iterator[_Occasion]:
    number = getattr(event, "cluster", 0)
    cluster = draft.state.clusters.get(number) if number in draft.state.notifying else None
    if cluster is None:
        return
    if isinstance(event, JobExited):
        kind = {"Completed": EXIT, "Held": HOLD, "Removed": REMOVE}.get(event.target, "")
        if event.row and kind:
            yield _Occasion(kind, cluster, event.proc, _reason(event.changes, kind))
    elif isinstance(event, JobsTransitioned):
        kind = {"Held": HOLD, "Removed": REMOVE}.get(event.target, "")
        counts = event.source in RUNS or event.cause == NOT_EXPANDED
        if kind and counts and event.cause not in _BY_USERS:
            for first, last in event.procs:
                yield from (
                    _Occasion(kind, cluster, proc, _reason(event.changes, kind)) for proc in range(first, last + 1)
                )
    elif isinstance(event, JobExecuting) and cluster.value(event.proc, "NumJobStarts") == "1":
        yield _Occasion(BEGIN, cluster, event.proc)


def _reason(changes: dict[str, str], kind: str) -> str:
    return unquoted(changes.get("HoldReason" if kind == HOLD else "RemoveReason", ""))


def _is_wanted(draft: Draft[AccessPoint], occasion: _Occasion, ad: ClassAd) -> bool:
    def number(name: str) -> int:
        parsed = ad.get(name)
        return (None if parsed is None else integer_of(parsed, ad, None, draft.context)) or 0

    setting, kind = number(NOTIFICATION), occasion.kind
    if setting == START or kind == BEGIN:
        return setting == START and kind == BEGIN
    if setting == ERROR:
        by_signal = kind == EXIT and bool(number("ExitBySignal"))
        is_failure = kind == HOLD and number("HoldReasonCode") not in _REQUESTED_HOLDS
        return by_signal or is_failure or number("ExitCode") != number("JobSuccessExitCode")
    return kind == EXIT if setting == COMPLETE else setting != NEVER


def _log_mail(draft: Draft[AccessPoint], occasion: _Occasion, ad: ClassAd) -> None:
    number, proc = occasion.cluster.id, occasion.proc
    subject = mail_text.subject_line(number, proc, "" if occasion.kind in (EXIT, BEGIN) else occasion.kind)
    lines = [*mail_text.heading_lines(draft.state.name), *mail_text.job_lines(number, proc, ad, draft.context)]
    if occasion.kind == EXIT:
        lines += mail_text.exit_lines(ad, draft.context)
    elif occasion.kind == BEGIN:
        lines += ["", f"has started on {ad.text('RemoteHost', draft.context)}", ""]
    else:
        lines += ["", f"is being {occasion.kind}.", "", occasion.reason]
    lines += mail_text.signature_lines(draft.state.settings, draft.state.name)
    recipients = tuple(_addresses(draft, ad))
    draft.emit(MailDue(*draft.header("notified"), number, proc, recipients, subject, "\n".join(lines) + "\n"))


def _addresses(draft: Draft[AccessPoint], ad: ClassAd) -> Iterator[str]:
    """Yield the recipients of a job's mail: NotifyUser, or else the owner. Add a domain to names without one."""
    names = ad.text("NotifyUser", draft.context) or ad.text("Owner", draft.context)
    settings = draft.state.settings
    if "@" not in names:
        names = (
            f"{names}@{settings.get('EMAIL_DOMAIN') or ad.text('UidDomain', draft.context) or draft.state.uid_domain}"
        )
    yield from filter(None, names.replace(",", " ").split())
