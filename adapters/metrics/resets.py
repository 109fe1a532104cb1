"""Reset aggregate metrics to 0 that are no longer updated, since Ganglia would keep their last value.

The metrics are also written to a file, in HTCondor's format, so that a restart resets metrics that ended meanwhile.
Source: ``StatsD::publishAggregateMetrics``, ``Metric::serialize``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from attrs import define, evolve, field

from ..replaced_files import replace_file
from .evaluation import FLOATS, Metric

_NUMBERS = {
    "int8": 2, "uint8": 3, "int16": 4, "uint16": 5, "int32": 6, "uint32": 7, "float": 8, "double": 9,
}  # fmt: skip
"""HTCondor's numbers of the types that can be reset."""
_TYPES = {str(number): name for name, number in _NUMBERS.items()}
_VERSION, _FIELDS, _SLOT1 = "1", 17, "machine_slot1"


@define
class Resets:
    """The aggregate metrics of the last update, by the name of their group. ``path``: the file that contains them."""

    path: Path
    _last: dict[str, Metric] = field(init=False)
    _written: frozenset[str] = frozenset()

    def __attrs_post_init__(self) -> None:
        self._last = _read(self.path)

    def ended(self, metrics: Iterable[tuple[str, Metric]]) -> list[Metric]:
        """Return the metrics that were in the last update but not in this one, with the value 0."""
        current = {key: metric for key, metric in metrics if key and metric.type in _NUMBERS}
        ended = [metric for key, metric in self._last.items() if key not in current]
        self._last = current
        if self._written != current.keys():
            self._write()
        return [evolve(metric, value=0.0 if metric.type in FLOATS else 0) for metric in ended]

    def _write(self) -> None:
        lines = [f"{_serialize(metric, key)}\n" for key, metric in self._last.items()]
        replace_file(self.path, f"{len(lines)}~{''.join(lines)}")
        self._written = frozenset(self._last)


def _serialize(metric: Metric, key: str) -> str:
    targets = ",".join(metric.targets)
    fields = (
        _VERSION, metric.name, metric.title, metric.desc, metric.units, metric.group, metric.machine, metric.ip,
        metric.cluster, int(metric.derivative), metric.verbosity, metric.lifetime or 0, _NUMBERS[metric.type], 0, key,
        targets, int(_SLOT1 in metric.targets),
    )  # fmt: skip
    return "".join(f"{str(each).replace('~', ' ').replace(chr(10), ' ')}~" for each in fields)


def _read(path: Path) -> dict[str, Metric]:
    """Return the metrics in a file; none if it does not exist, and those before the first damaged one."""
    metrics = {}
    with contextlib.suppress(FileNotFoundError, ValueError, UnicodeDecodeError):
        for line in path.read_text().partition("~")[2].splitlines():
            fields = line.split("~")
            if len(fields) != _FIELDS + 1 or fields[0] != _VERSION or fields[12] not in _TYPES:
                break
            _, name, title, desc, units, group, machine, ip, cluster, derivative, verbosity, lifetime = fields[:12]
            metrics[fields[14]] = Metric(
                name=name, value=0, type=_TYPES[fields[12]], title=title, desc=desc, units=units, group=group,
                machine=machine, ip=ip, cluster=cluster, derivative=derivative == "1", verbosity=int(verbosity),
                lifetime=int(lifetime) or None, targets=tuple(fields[15].split(",")),
            )  # fmt: skip
    return metrics
