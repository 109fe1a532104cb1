"""Split a golden trace's StartLog into the runs of its startds, each from its first line to its last."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from poolbook.adapters.condor_files.daemon_log_lines import GAP, LogLines
from poolbook.domain.events import Ad

from .trace_files import SECOND, ended, source
from .trace_startd import MACHINE, StimulusExtraction
from .trace_steps import StartdRun

_SENSOR_ENDS: Final = b") exit_status="
"""The text of a log that records the ends of sensors' runs."""
_FIELD: Final = re.compile(r"\s*(\w+) = (.*)")


def startd_runs(data: bytes, jobs: Mapping[str, Ad], owner: list[tuple[int, Ad]]) -> list[StartdRun]:
    """Return the runs of a StartLog's startds, each with its stimuli."""
    runs: list[StartdRun] = []
    extraction: StimulusExtraction | None = None
    request_attributes, ends_told = _rest(data), _SENSOR_ENDS in data
    for line, instant, text in LogLines(source("StartLog", "startlog", MACHINE), None, 0).split(ended(data), []):
        at = instant - instant % SECOND
        if text.startswith("** ") and text.endswith("STARTING UP"):
            configured = 0 if extraction is None else extraction.reconfigured
            runs.append(StartdRun(line, line, MACHINE, at, at, configured))
            extraction = StimulusExtraction(runs[-1], jobs, owner, request_attributes, ends_told)
        if extraction is None or text == GAP:
            continue
        run = extraction.run
        run.last, run.ended = line, at
        if "command socket at" in text and (alias := _ALIAS.search(text)):
            run.machine = alias[1]
        extraction.take(line, instant, text)
    return runs


_ALIAS: Final = re.compile(r"[?&]alias=([^&>\s]+)")


def _rest(data: bytes) -> dict[int, Ad]:
    """Return the attributes in the lines after a drain request, by the request's line."""
    lines = data.decode("utf-8", "replace").split("\n")
    attributes: dict[int, Ad] = {}
    for number, line in enumerate(lines, start=1):
        if "Processing drain request from " in line:
            ad = attributes[number] = {}
            for next_line in lines[number : number + 20]:
                field = _FIELD.fullmatch(next_line)
                if field is None:
                    break
                ad[field[1]] = field[2]
    return attributes
