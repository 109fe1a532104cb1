"""Write metrics in the text formats that Prometheus reads: its own, and OpenMetrics.

Source: Prometheus' "Exposition formats" (text format 0.0.4), and the OpenMetrics specification 1.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from attrs import define, field

TEXT: Final = "text/plain; version=0.0.4"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@define
class Family:
    """The samples of all metrics with one name.

    ``kind`` is gauge, counter (the name ends in _total) or info (it ends in _info). Each sample has labels, the value
    as text, and when it was measured in seconds since 1970, or 0.
    """

    name: str
    kind: str
    help: str
    samples: list[tuple[Mapping[str, str], str, int]] = field(factory=list)

    def add(self, value: float, time: int = 0, **labels: str) -> None:
        self.samples.append((labels, f"{value:.15g}", time))


_OPEN_METRICS_SUFFIX: Final = {"counter": "_total", "info": "_info"}


def text_format(families: Iterable[Family]) -> str:
    """Return Prometheus' text format, in which times are milliseconds."""
    return "".join(_lines(families, open_metrics=False))


def open_metrics_format(families: Iterable[Family]) -> str:
    """Return the OpenMetrics format, in which times are seconds."""
    return "".join((*_lines(families, open_metrics=True), "# EOF\n"))


def _lines(families: Iterable[Family], *, open_metrics: bool) -> Iterable[str]:
    for family in families:
        name, kind = family.name, family.kind
        if open_metrics:
            name = name.removesuffix(_OPEN_METRICS_SUFFIX.get(kind, ""))
        elif kind == "info":
            kind = "gauge"
        yield f"# HELP {name} {_escape(family.help, open_metrics)}\n# TYPE {name} {kind}\n"
        for labels, value, time in family.samples:
            shown = ",".join(f'{label}="{_escape(text, True)}"' for label, text in sorted(labels.items()))
            stamp = f" {time if open_metrics else time * 1000}" if time else ""
            yield f"{family.name}{f'{{{shown}}}' if shown else ''} {value}{stamp}\n"


def _escape(text: str, quotes: bool) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text
