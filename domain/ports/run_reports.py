"""The reports of a job's processes, which an execution point passes on to the job's external access point
(``RunReported``)."""

from __future__ import annotations

from typing import Any, Final, TypeAlias, get_args

import msgspec
from msgspec.structs import asdict, fields

from ..events import RunReported
from .stimuli import (
    ActivationChirped,
    ActivationDue,
    ActivationEnded,
    ActivationMeasured,
    ActivationStarted,
    Transferred,
)

RunReport: TypeAlias = (
    ActivationDue | ActivationStarted | ActivationMeasured | ActivationChirped | Transferred | ActivationEnded
)
RUN_REPORTS: Final[dict[str, type[RunReport]]] = {kind.__name__: kind for kind in get_args(RunReport)}


def encode_report(report: RunReport) -> tuple[str, str]:
    """Return the kind and the fields of a report as in ``RunReported``."""
    defaults = {"key": report.key, **{each.name: each.default for each in fields(report) if each.name != "key"}}
    values = {name: value for name, value in asdict(report).items() if value != defaults[name]}
    return type(report).__name__, msgspec.json.encode(values).decode()


def decode_report(event: RunReported) -> RunReport:
    """Return the report as a stimulus, which the access point decides like a report about its processes. It is about
    the run that the event names, whatever its fields contain.

    :raises msgspec.DecodeError: if the kind is unknown, or the fields do not belong to it
    """
    kind = RUN_REPORTS.get(event.report)
    if kind is None:
        raise msgspec.DecodeError(f"{event.report} is not a kind of report")
    values = msgspec.json.decode(event.fields, type=dict[str, Any])
    return msgspec.convert(values | {"key": event.key}, kind, strict=True)


def ends_run(report: RunReport) -> bool:
    """Return True if the run is over with a report."""
    return isinstance(report, ActivationEnded) or (isinstance(report, ActivationDue) and report.missed)
