"""The text of mails to a job's user. The subject and fields match HTCondor's mails, because users filter by them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from ..classad import ClassAd, Context, EvaluationError
from ..classad.unparse import unparse_old

_UNITS: Final = ("B ", "KB", "MB", "GB", "TB")
_LAST_RUN: Final = re.compile(r"SizeBytesLastRun = (\d{1,18})")


def subject_line(cluster: int, proc: int, what: str) -> str:
    return f"[Condor] Condor Job {cluster}.{proc} {what}".rstrip()


def heading_lines(pool: str) -> Iterator[str]:
    yield f'This mail was written by the pool "{pool}".'
    yield "Nobody reads answers to it."
    yield ""


def job_lines(cluster: int, proc: int, ad: ClassAd, context: Context) -> Iterator[str]:
    """Yield lines that identify the job."""
    yield f"Condor job {cluster}.{proc}"
    command = " ".join(
        filter(None, (ad.text("Cmd", context), ad.text("Arguments", context) or ad.text("Args", context)))
    )
    if command:
        yield f"\t{command}"
    for name, label in (("JobBatchName", "from batch"), ("Iwd", "submitted from directory")):
        if text := ad.text(name, context):
            yield f"\t{label} {text}"


def exit_lines(ad: ClassAd, context: Context) -> Iterator[str]:
    """Yield lines with the job's exit status, its resource usage, and the attributes listed in its EmailAttributes."""
    yield _exit_text(ad, context)
    now, began, queued = context.now or 0, _number(ad, "JobCurrentStartDate", context), _number(ad, "QDate", context)
    yield from ("", "")
    yield f"Submitted at:        {_instant(queued, context)}"
    yield f"Completed at:        {_instant(now, context)}"
    yield f"Real Time:           {_interval(now - queued)}"
    yield ""
    yield f"Virtual Image Size:  {_number(ad, 'ImageSize', context):.0f} Kilobytes"
    yield ""
    user, system = (_number(ad, name, context) for name in ("RemoteUserCpu", "RemoteSysCpu"))
    yield "Statistics from last run:"
    yield f"Allocation/Run time:     {_interval(now - began if began else 0)}"
    yield f"Remote User CPU Time:    {_interval(user)}"
    yield f"Remote System CPU Time:  {_interval(system)}"
    yield f"Total Remote CPU Time:   {_interval(user + system)}"
    yield ""
    yield "Statistics totaled from all runs:"
    yield f"Allocation/Run time:     {_interval(_number(ad, 'RemoteWallClockTime', context))}"
    yield ""
    yield "Network:"
    for label, bytes_of in (("Run", _last_run), ("Total", _total)):
        for direction, name in (("Received", "Input"), ("Sent", "Output")):
            yield f"{_size(bytes_of(ad, name, context)):>10} {label} Bytes {direction} By Job"
    yield from _requested_attributes(ad, context)


def signature_lines(settings: Mapping[str, str], pool: str) -> Iterator[str]:
    yield from ("", "")
    if settings.get("EMAIL_SIGNATURE"):
        yield settings["EMAIL_SIGNATURE"]
        return
    yield "-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=-="
    address = settings.get("CONDOR_SUPPORT_EMAIL") or settings.get("CONDOR_ADMIN") or f"root@{pool}"
    yield f"The administrator of this pool answers questions: {address}"


def _exit_text(ad: ClassAd, context: Context) -> str:
    if _value(ad, "ExitBySignal", context) is True:
        return ad.text("ExitReason", context) or f"died on signal {_number(ad, 'ExitSignal', context):.0f}"
    return f"exited normally with status {_number(ad, 'ExitCode', context):.0f}"


def _requested_attributes(ad: ClassAd, context: Context) -> Iterator[str]:
    names = [name for name in re.split(r"[,\s]+", ad.text("EmailAttributes", context)) if name and name in ad]
    if names:
        yield from ("", "")
        yield from (f"{name} = {unparse_old(ad[name])}" for name in names)


def _last_run(ad: ClassAd, direction: str, context: Context) -> float:
    match = _LAST_RUN.search(str(ad.get(f"Transfer{direction}Stats", "")))
    return float(match[1]) if match else 0.0


def _total(ad: ClassAd, direction: str, context: Context) -> float:
    return _number(ad, "BytesRecvd" if direction == "Input" else "BytesSent", context)


def _value(ad: ClassAd, name: str, context: Context) -> object:
    try:
        return ad.eval(name, None, context) if name in ad else None
    except EvaluationError:
        return None


def _number(ad: ClassAd, name: str, context: Context) -> float:
    value = _value(ad, name, context)
    return float(value) if isinstance(value, int | float) else 0.0


def _instant(seconds: float, context: Context) -> str:
    return datetime.fromtimestamp(seconds, context.timezone).ctime()


def _interval(seconds: float) -> str:
    """Format an interval like HTCondor's format_time: days+hours:minutes:seconds."""
    days, remaining = divmod(max(0, int(seconds)), 86400)
    return f"{days:3}+{remaining // 3600:02}:{remaining % 3600 // 60:02}:{remaining % 60:02}"


def _size(size: float) -> str:
    power = 0
    while size > 1024 and power < len(_UNITS) - 1:
        size, power = size / 1024, power + 1
    return f"{size:.1f} {_UNITS[power]}"
