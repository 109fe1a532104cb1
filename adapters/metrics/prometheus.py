"""Turn metrics into the families that condor_metricd publishes for Prometheus.

Source: condor_metricd's output; the manual's "Metricd Configuration Options".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from attrs import frozen

from ...domain.classad import ERROR, UNDEFINED, ClassAd, ClassAdSyntaxError, Context, parse
from ...domain.config import ConfigError
from .evaluation import COLLECTOR_NAME, Metric
from .exposition import Family

_PREFIX = "htcondor_"
_UNITS = {
    "bytes": "bytes", "seconds": "seconds", "milliseconds": "milliseconds", "microseconds": "microseconds",
    "jobs": "jobs", "percent": "percent", "%": "percent",
}  # fmt: skip
"""The units that become part of a metric's name."""
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")


@frozen
class FamilyBuilder:
    """Builds families.

    ``labels``: the expressions in PROMETHEUS_DEFAULT_LABELS, to which a definition's PrometheusLabels are added. Labels
    are evaluated in the ad of the metric, with its machine and the pool as MetricMachine and MetricPool. ``problems``
    contains each message once.
    """

    labels: ClassAd
    pool: str
    with_time: bool
    problems: dict[str, None]

    def families(self, metrics: Iterable[Metric], context: Context) -> list[Family]:
        """Return the families in the order of their first metrics."""
        families: dict[str, Family] = {}
        for metric in metrics:
            name, text = _full_name(metric), metric.text()
            if not _NAME.fullmatch(name):
                self.problems[f"invalid Prometheus metric name {name!r}: the metric is not published"] = None
            elif text:
                labels = self._labels(metric, context)
                kind = "counter" if metric.derivative else "gauge"
                if metric.type == "string":  # Prometheus has only numbers, so the text is a label
                    labels[metric.name], text, kind = text, "1", "info"
                units = f" ({metric.units})" if metric.units else ""
                family = families.setdefault(name, Family(name, kind, metric.desc + units))
                family.samples.append((labels, text, metric.heard if self.with_time else 0))
        return list(families.values())

    def _labels(self, metric: Metric, context: Context) -> dict[str, str]:
        name = metric.ad.eval(COLLECTOR_NAME)
        pool = name if isinstance(name, str) else self.pool
        scope = ClassAd({"MetricMachine": metric.machine, "MetricPool": pool}, chained=metric.ad)
        labels = {}
        for source in (self.labels, metric.labels):
            for name, expression in source.items():
                if not _LABEL.fullmatch(name):
                    self.problems[f"{name!r} is not a valid name for a label: the label is not published"] = None
                    continue
                value = expression.evaluate(scope, None, context)
                if value is not UNDEFINED and value is not ERROR:
                    labels[name] = _label_text(value)
        return labels


def read_labels(text: str) -> ClassAd:
    """Return the expressions of PROMETHEUS_DEFAULT_LABELS: an ad in square brackets, or ``name = expression`` lines.

    :raises ConfigError: if the text is neither
    """
    try:
        if text.lstrip().startswith("["):
            return ClassAd.from_new(text)
        lines = [line.partition("=") for line in text.splitlines() if line.strip()]
        return ClassAd({name.strip(): parse(value) for name, _, value in lines})
    except ClassAdSyntaxError as error:
        example = "[machine = MetricMachine; pool = MetricPool]"
        raise ConfigError(
            f"PROMETHEUS_DEFAULT_LABELS must be a ClassAd of label expressions, such as {example}: {error}"
        ) from None


def _full_name(metric: Metric) -> str:
    name = _PREFIX + metric.name
    if metric.type == "string":
        return f"{name}_info"
    unit = _UNITS.get(metric.units.lower(), "")
    if unit and not name.endswith(f"_{unit}"):
        name += f"_{unit}"
    return f"{name}_total" if metric.derivative and not name.endswith("_total") else name


def _label_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)
