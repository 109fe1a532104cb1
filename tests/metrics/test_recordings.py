"""golden: metrics of a recorded pool, as HTCondor's gangliad and metricd published them."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from poolbook.adapters.metrics.definitions import read_definitions
from poolbook.adapters.metrics.evaluation import Evaluator, Metric
from poolbook.adapters.metrics.exposition import text_format
from poolbook.adapters.metrics.ganglia import GangliaSender, spoofed_host
from poolbook.adapters.metrics.prometheus import FamilyBuilder, read_labels
from poolbook.domain.classad import ClassAd
from poolbook.domain.config import ConfigError

from .recorded import DATA, HOST, NOW, ads, ganglia_lines, libganglia_packets

CHANGING = re.compile(r"UpdatesTotal|Expected|TotalLoadAvg|RecentDaemonCoreDutyCycle|StatsLifetime")
"""The metrics whose values changed between the recorded update and the recorded ads."""


@pytest.fixture
def definitions(tmp_path: Path) -> Path:
    (tmp_path / "00_default_metrics").write_bytes((DATA / "ganglia/00_default_metrics").read_bytes())
    return tmp_path


def metrics_of(folder: Path, verbosity: int = 2, system: str = "ganglia") -> list[Metric]:
    evaluator = Evaluator(system, read_definitions(str(folder), verbosity, {}), verbosity)
    return [metric for _, metric in evaluator.evaluate(ads(), HOST, NOW)]


def test_the_default_definitions_give_the_metrics_that_gangliad_sent(definitions: Path) -> None:
    expected = {}
    for kind, host, name, _, of_type, units, slope, *_, extra in ganglia_lines():
        if kind == "metadata" and name != "heartbeat":
            about = dict(part.partition("=")[::2] for part in extra.split("; "))
            expected[host, name] = (of_type, units, slope, about["GROUP"], about["DESC"], about["TITLE"])
    metrics = {
        (spoofed_host(metric), metric.name): (
            metric.type.replace("boolean", "int8"), metric.units, "derivative" if metric.derivative else "both",
            metric.group.replace(" ", "."), metric.desc, metric.title,
        )
        for metric in metrics_of(definitions)
    }  # fmt: skip
    assert len(expected) == 150
    assert metrics == expected


def test_the_values_are_those_that_gangliad_sent(definitions: Path) -> None:
    lines = (line for line in ganglia_lines() if line[0] == "value" and line[2] != "heartbeat")
    expected = {(line[1], line[2]): line[-1].partition("'")[2].rpartition("'")[0] for line in lines}
    values = {(spoofed_host(metric), metric.name): metric.text() for metric in metrics_of(definitions)}
    assert {key: text for key, text in values.items() if not CHANGING.search(key[1])} == {
        key: text for key, text in expected.items() if not CHANGING.search(key[1])
    }


def test_a_packet_has_the_bytes_that_libganglia_sends() -> None:
    packets = libganglia_packets()
    metadata = [packet for packet in packets if struct.unpack(">I", packet[:4]) == (128,)]
    values = [packet for packet in packets if struct.unpack(">I", packet[:4]) == (133,)]
    assert len(metadata) == len(values) > 100
    for described, valued in zip(metadata, values, strict=True):
        metric, text = decode(described, valued)
        sender = GangliaSender([], interval=10, hosts=frozenset())
        assert list(sender.packets(metric, text)) == [described, valued]


class Reader:
    """Reads XDR, apart from the code that is tested."""

    def __init__(self, packet: bytes) -> None:
        self.packet, self.position = packet, 4

    def number(self) -> int:
        self.position += 4
        value: int = struct.unpack_from(">I", self.packet, self.position - 4)[0]
        return value

    def text(self) -> str:
        length = self.number()
        start = self.position
        self.position += (length + 3) // 4 * 4
        return self.packet[start : start + length].decode()


def decode(described: bytes, valued: bytes) -> tuple[Metric, str]:
    packet = Reader(described)
    host, name, _, of_type, _, units, slope, _, lifetime = (
        packet.text(), packet.text(), packet.number(), packet.text(), packet.text(), packet.text(), packet.number(),
        packet.number(), packet.number(),
    )  # fmt: skip
    extra = {packet.text(): packet.text() for _ in range(packet.number())}
    packet = Reader(valued)
    packet.text(), packet.text(), packet.number(), packet.text()
    value = packet.text()
    ip, _, machine = host.partition(":")
    metric = Metric(
        name=name, value=value, type=of_type, units=units, derivative=slope == 5, lifetime=lifetime, ip=ip,
        machine=machine, group=extra["GROUP"], title=extra.get("TITLE", ""), desc=extra.get("DESC", ""),
        cluster=extra.get("CLUSTER", ""),
    )  # fmt: skip
    return metric, value


def test_a_definition_can_aggregate_match_attributes_and_name_another_machine(tmp_path: Path) -> None:
    (tmp_path / "10_mine").write_bytes((DATA / "ganglia/10_mine").read_bytes())
    metrics = metrics_of(tmp_path, verbosity=0)
    recorded = {decode(*pair)[0].name for pair in zip(*[iter(libganglia_packets())] * 2, strict=True)}
    assert {metric.name for metric in metrics} == {name for name in recorded if name.startswith("My")}
    values = [
        (spoofed_host(metric), metric.name, metric.type, metric.text())
        for metric in metrics
        if metric.name not in ("MyMaxLoad", "MyAvgLoad")
    ]
    assert sorted(values) == [
        ("10.77.0.11:ap1.poola.example", "MyCompletedRate", "int32", "6"),
        ("10.77.0.11:ap1.poola.example", "MyStarted", "int32", "10"),
        ("10.77.0.11:ap1.poola.example", "MySubmitted", "int32", "16"),
        ("10.77.0.1:cm1.poola.example", "MyMinMemory", "int32", "2048"),
        ("10.77.0.1:cm1.poola.example", "MySlotsBusy", "int32", "4"),
        ("10.77.0.99:virtual.poola.example", "MyScaled", "float", "2147483648"),
        ("10.77.0.99:virtual.poola.example", "MyScaled", "float", "2147483648"),
        ("slot1@ep1.poola.example:slot1.ep1.poola.example", "MySlotState_", "string", "Claimed"),
        ("slot1@ep2.poola.example:slot1.ep2.poola.example", "MySlotState_", "string", "Claimed"),
        ("slot2@ep1.poola.example:slot2.ep1.poola.example", "MySlotState_", "string", "Claimed"),
        ("slot2@ep2.poola.example:slot2.ep2.poola.example", "MySlotState_", "string", "Claimed"),
    ]


def test_an_invalid_definition_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "10_mine").write_bytes((DATA / "ganglia/10_bad").read_bytes())
    with pytest.raises(ConfigError, match=r"10_mine: error in a metric definition: expected an operand.*line 23"):
        read_definitions(str(tmp_path), 0, {})


def test_the_default_definitions_give_the_lines_that_metricd_wrote(definitions: Path) -> None:
    builder = FamilyBuilder(read_labels("[machine=MetricMachine; pool=MetricPool]"), HOST, True, {})
    # The negotiator's ad had expired when the recorded lines were written.
    metrics = [metric for metric in metrics_of(definitions, 1, "prometheus") if "Negotiat" not in metric.name]
    written = without_values(text_format(builder.families(metrics, NOW)))
    assert written == without_values((DATA / "metrics.prom").read_text())
    assert next(iter(builder.problems)) == (
        "invalid Prometheus metric name 'htcondor_AutoClusters in Pool': the metric is not published"
    )


def without_values(text: str) -> list[str]:
    """Return the lines, without values and times, sorted: the collector lists ads in no particular order."""
    return sorted(re.sub(r" [-0-9.e+]+ [0-9]+$", "", line) for line in text.splitlines())


def test_a_metric_of_an_ad_without_the_attribute_is_not_published() -> None:
    definition = ClassAd({"Name": "Absent", "TargetType": "Any"})
    assert list(Evaluator("ganglia", [definition]).evaluate(ads(), HOST, NOW)) == []
