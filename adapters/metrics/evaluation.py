"""Evaluate metric definitions in the ads of daemons.

Source: HTCondor's ``StatsD`` and ``Metric`` (src/gangliad/statsd.cpp), the manual's page of condor_gangliad.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from attrs import define, evolve, field, frozen

from ...domain.classad import DEFAULT, ERROR, UNDEFINED, ClassAd, Context, parse, unparse
from ...domain.classad.functions_patterns import first_match
from ...domain.config import ConfigError
from .definitions import integer

TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str, "int8": int, "uint8": int, "int16": int, "uint16": int, "int32": int, "uint32": int,
    "float": (int, float), "double": (int, float), "boolean": bool,
}  # fmt: skip
"""The types of a definition, and the Python types of their values."""
FLOATS = ("float", "double")
_GROUPS = {"scheduler": "HTCondor Schedd", "machine": "HTCondor Startd", "daemonmaster": "HTCondor Master"}
_NAMED_BY = {"collector": "Machine", "submitter": "ScheddName", "accounting": "NegotiatorName"}
"""The attribute that names the machine of a metric, by the type of the ad; of other ads, Name."""
_AGGREGATES: dict[str, Callable[[list[float]], float]] = {
    "sum": sum, "avg": lambda values: sum(values) / len(values), "min": min, "max": max,
}  # fmt: skip
COLLECTOR_NAME = "_condorColName"
"""The attribute with the name of one of several pools. Its aggregates belong to this name instead of a host."""
_SLOT1 = "machine_slot1"
_ADDRESS = re.compile(r"<\[?([0-9a-fA-F.:]+?)\]?:\d+")


@frozen(kw_only=True)
class Metric:
    """The value of a metric at one instant.

    ``type`` is one of `TYPES`. ``derivative``: the value is a counter, and its change per second is of interest.
    ``lifetime``: seconds after which a monitoring system forgets the metric if it is not updated; None: the system's
    default. ``systems``: the only monitoring systems that receive the metric (empty: all). ``ad``: the ad in which it
    was evaluated; of an aggregate, the last one. ``labels``: the definition's PrometheusLabels. ``heard``: when the ad
    was updated, in seconds since 1970, or 0.
    """

    name: str
    value: Any
    type: str
    title: str = ""
    desc: str = ""
    units: str = ""
    group: str = ""
    machine: str = ""
    ip: str = ""
    cluster: str = ""
    derivative: bool = False
    lifetime: int | None = None
    scale: float = 1.0
    verbosity: int = 0
    targets: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    ad: ClassAd = field(factory=ClassAd, eq=False)
    labels: ClassAd = field(factory=ClassAd, eq=False)
    heard: int = 0
    aggregate: str = ""  #: the function that combines the metrics of its group; empty: it is not combined
    aggregate_group: str = ""

    def text(self) -> str:
        """Return the value, multiplied by the scale; an empty text if the value does not have the metric's type."""
        value = self.value
        if self.type in FLOATS and isinstance(value, int | float):
            return f"{value * self.scale:.15g}"
        if self.type == "string" and isinstance(value, str):
            return value
        if self.type == "boolean" and isinstance(value, bool):
            return str(int(value))
        is_integer = type(value) is int and self.type not in ("string", "boolean")
        return str(int(value * self.scale)) if is_integer else ""


@define
class _Aggregate:
    """The values of one aggregate metric in a cycle, and the metric of the last ad."""

    metric: Metric
    values: list[float] = field(factory=list)

    def result(self, totals: dict[str, float], key: str) -> Metric:
        value = _AGGREGATES[self.metric.aggregate](self.values)
        is_counter = self.metric.derivative and self.metric.aggregate == "sum"
        if is_counter:  # the values are changes since the last cycle
            value = totals[key] = totals.get(key, 0) + value
        is_float = self.metric.type in FLOATS
        return evolve(self.metric, value=float(value) if is_float else int(value), derivative=is_counter)


@define
class Evaluator:
    """Evaluates definitions for one monitoring system, again and again.

    ``system``: ganglia or prometheus. A definition can contain attributes for one of them, such as ``Ganglia_Name``.
    ``per_node``: also evaluate metrics of execution points, not only aggregates. ``problems`` contains each message
    once.
    """

    system: str
    definitions: Sequence[ClassAd]
    max_verbosity: int = 0
    per_node: bool = True
    default_systems: str = ""
    problems: dict[str, None] = field(factory=dict)
    totals: dict[str, float] = field(factory=dict)
    _previous: dict[tuple[str, ...], float] = field(factory=dict)

    def evaluate(
        self, ads: Sequence[ClassAd], aggregate_host: str, context: Context = DEFAULT
    ) -> Iterator[tuple[str, Metric]]:
        """Yield the metrics of a pool's ads, and then the aggregates, which belong to the collector's host.

        Each metric comes with a key: for aggregates, the name of their group; for others, an empty text.
        """
        addresses = _addresses(ads)
        only_execute = set() if self.per_node else _execute_only(ads)
        aggregates: dict[str, _Aggregate] = {}
        current: dict[tuple[str, ...], float] = {}
        for ad in ads:
            host = ad.text(COLLECTOR_NAME) or aggregate_host
            for definition in self.definitions:
                in_ad = _InAd(self, definition, ad, context, host, addresses, only_execute)
                for metric in in_ad.metrics():
                    if metric.systems and self.system not in metric.systems:
                        continue
                    if metric.aggregate:
                        self._add(metric, aggregates, current, host)
                    else:
                        yield "", metric
        for key in sorted(aggregates):
            yield key, aggregates[key].result(self.totals, key)
        self._previous = current

    def _add(
        self, metric: Metric, aggregates: dict[str, _Aggregate], current: dict[tuple[str, ...], float], host: str
    ) -> None:
        if not isinstance(metric.value, int | float):
            return
        value: float = metric.value
        if metric.derivative and type(metric.value) is not bool:
            source = (metric.name, *(str(metric.ad.eval(name)) for name in ("Name", "MyType", "DaemonStartTime")), host)
            current[source] = value
            if source not in self._previous or value < self._previous[source]:  # unknown, or the daemon restarted
                return
            value -= self._previous[source]
        aggregates.setdefault(metric.aggregate_group, _Aggregate(metric)).values.append(value)


def _addresses(ads: Iterable[ClassAd]) -> dict[str, str]:
    """Return the IP addresses of machines and daemons by name."""
    addresses: dict[str, str] = {}
    for ad in ads:
        match = _ADDRESS.match(ad.text("MyAddress"))
        if match:
            for name in ("Machine", "Name"):
                addresses.setdefault(ad.text(name), match[1])
    return addresses


def _execute_only(ads: Iterable[ClassAd]) -> set[str]:
    """Return the machines that only run jobs."""
    machines: dict[str, set[str]] = {}
    for ad in ads:
        machines.setdefault(ad.text("MyType").lower(), set()).add(ad.text("Machine"))
    others = (machines.get(kind, set()) for kind in ("scheduler", "negotiator", "collector"))
    return machines.get("machine", set()).difference(*others)


class _Skip(Exception):
    """The definition has no metric for the ad."""


@define
class _InAd:
    """A definition that is evaluated in an ad.

    ``attribute``: the attribute of the ad that matched the definition's Regex, with the ``parts`` of the match.
    """

    evaluator: Evaluator
    definition: ClassAd
    ad: ClassAd
    context: Context
    aggregate_host: str
    addresses: dict[str, str]
    only_execute: set[str]
    attribute: str = ""
    parts: list[str] = field(factory=list)

    def metrics(self) -> Iterator[Metric]:
        try:
            targets = tuple(re.split(r"[\s,]+", self._string("TargetType").lower()))
            self._check_target(targets)
            if self._value("Requirements", bool) is False:
                return
            pattern = "" if self.attribute else self._string("Regex")
            if pattern:
                yield from self._matching(pattern)
            else:
                yield self._metric(targets)
        except _Skip:
            return

    def _matching(self, pattern: str) -> Iterator[Metric]:
        for attribute in self.ad:
            parts = first_match(f"^(?:{pattern})", attribute)
            if parts is not None:
                scope = ClassAd({"Regex": parse(attribute)}, chained=self.ad)
                yield from evolve(self, ad=scope, attribute=attribute, parts=parts).metrics()

    def _check_target(self, targets: Sequence[str]) -> None:
        if "any" in targets:
            return
        kind = self.ad.text("MyType").lower()
        if _SLOT1 in targets and kind == "machine":
            if self.ad.eval("SlotID") not in (UNDEFINED, 1) or self.ad.eval("DynamicSlot") is True:
                raise _Skip
        elif kind not in targets:
            raise _Skip

    def _metric(self, targets: tuple[str, ...]) -> Metric:
        name = self._string("Name") or self.attribute
        function = self._string("Aggregate").lower()
        if function and function not in _AGGREGATES:
            raise ConfigError(f"metric {name}: invalid Aggregate {function}; use {', '.join(_AGGREGATES).upper()}")
        kind = self.ad.text("MyType").lower()
        group = "HTCondor Pool" if function else self._group(kind)
        value, of_type = self._typed_value(name)
        machine = self._string("Machine") or (self.aggregate_host if function else self._machine(kind, targets))
        lifetime, labels, scale = map(self._look_up, ("Lifetime", "PrometheusLabels", "Scale"))
        aggregate_group = f"{name}/{self.aggregate_host}" if COLLECTOR_NAME in self.ad else name
        return Metric(
            name=name, value=value, type=of_type, title=self._string("Title"), desc=self._string("Desc"),
            units=self._string("Units"), group=self._string("Group") or group, machine=machine,
            ip=self._string("IP") or ("" if "@" in machine else self.addresses.get(machine, "")),
            cluster=self._string("Cluster"), lifetime=lifetime if type(lifetime) is int else None,
            derivative=True in (self._look_up("Derivative"), self._look_up("Counter")),
            scale=scale if type(scale) in (int, float) else 1.0, verbosity=integer(self.definition, "Verbosity"),
            targets=targets, heard=integer(self.ad, "LastHeardFrom"),
            systems=_words(self._string("ExportMetric") or self.evaluator.default_systems),
            ad=self.ad, labels=labels if isinstance(labels, ClassAd) else ClassAd(), aggregate=function,
            aggregate_group=(self._string("AggregateGroup") or aggregate_group) if function else "",
        )  # fmt: skip

    def _group(self, kind: str) -> str:
        if not self.evaluator.per_node and (
            kind == "machine" or (kind == "daemonmaster" and self.ad.text("Machine") in self.only_execute)
        ):
            raise _Skip
        return _GROUPS.get(kind, f"HTCondor {self.ad.text('MyType')}")

    def _machine(self, kind: str, targets: Sequence[str]) -> str:
        of_machine = kind == "machine" and _SLOT1 in targets
        return self.ad.text("Machine" if of_machine else _NAMED_BY.get(kind, "Name"))

    def _typed_value(self, name: str) -> tuple[Any, str]:
        of_type = self._string("Type").lower()
        if of_type and of_type not in TYPES:
            raise ConfigError(f"metric {name}: invalid Type {of_type}; use {', '.join(TYPES)}")
        value = self._value("Value", TYPES.get(of_type, object))
        if value is UNDEFINED:
            value = self.ad.eval(self.attribute or name)
        if not of_type:
            of_type = {bool: "boolean", int: "int32", float: "float", str: "string"}.get(type(value), "")
        if value is UNDEFINED or not of_type:
            raise _Skip
        return value, of_type

    def _string(self, name: str) -> str:
        value = self._value(name, str)
        return "" if value is UNDEFINED else str(value)

    def _look_up(self, name: str) -> Any:
        """Return the value of an attribute that HTCondor evaluates in the definition itself."""
        return self.definition.eval(self._decorated(name))

    def _decorated(self, name: str) -> str:
        decorated = f"{self.evaluator.system}_{name}"
        return decorated if decorated in self.definition else name

    def _value(self, name: str, expected: type | tuple[type, ...]) -> Any:
        """Evaluate an attribute of the definition in the ad; UNDEFINED if the definition lacks it."""
        name = self._decorated(name)
        expression = self.definition.get(name)
        if expression is None:
            return UNDEFINED
        value = expression.evaluate(self.ad, None, self.context)
        is_expected = isinstance(value, expected) and (type(value) is not bool or expected in (bool, object))
        if not is_expected or value is ERROR:
            of_metric = f" of metric {unparse(self.definition['Name'])}" if "Name" in self.definition else ""
            self.evaluator.problems[f"cannot evaluate {name}{of_metric}: {unparse(expression)}"] = None
            raise _Skip
        return _insert_parts(value, self.parts) if isinstance(value, str) else value


def _insert_parts(text: str, parts: Sequence[str]) -> str:
    """Replace \\1 and so on by the groups of the definition's regular expression."""
    if not parts or "\\" not in text:
        return text

    def part(match: re.Match[str]) -> str:
        if not match[1].isdigit():
            return match[1]
        number = int(match[1])
        return parts[number] if number < len(parts) else ""

    return re.sub(r"\\(\d+|.)", part, text, flags=re.DOTALL)


def _words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[^\s,]+", text.lower()))
