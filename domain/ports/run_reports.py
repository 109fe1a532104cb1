"""The reports of a job's processes, which an execution point passes on to the job's external access point
(``RunReported``)."""

from __future__ import annotations

from typing import Final, TypeAlias, get_args

import msgspec
from msgspec.structs import asdict, fields, replace

from ..events import RunReported
from .stimuli import ActivationChirped, ActivationEnded, ActivationMeasured, ActivationStarted, Transferred

RunReport: TypeAlias = ActivationStarted | ActivationMeasured | ActivationChirped | Transferred | ActivationEnded
RUN_REPORTS: Final[dict[str, type[RunReport]]] = {kind.__name__: kind for kind in get_args(RunReport)}


def encode_report(report: RunReport, key: str) -> tuple[str, str]:
    """Return the kind and the fields of a report as in ``RunReported``, with the access point's key of the run."""
    defaults = {each.name: each.default for each in fields(report)}
    values = {name: value for name, value in asdict(replace(report, key=key)).items() if value != defaults[name]}
    return type(report).__name__, msgspec.json.encode(values).decode()


def decode_report(event: RunReported) -> RunReport:
    """Return the report as a stimulus, which the access point decides like a report of its own processes.

    :raises KeyError: if the kind of report is unknown
    :raises msgspec.ValidationError: if the fields do not belong to this kind
    """
    return msgspec.json.decode(event.fields, type=RUN_REPORTS[event.report])
