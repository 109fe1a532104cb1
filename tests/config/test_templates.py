"""golden: the defaults, and 12 templates, compared with dumps of condor_config_val."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from poolbook.domain.config import Configuration, read
from poolbook.domain.config.tables import templates

from ..together import together

DATA = Path(__file__).parent.parent / "data" / "config"
FILES: dict[str, str] = json.loads(gzip.decompress((DATA / "desktop.json.gz").read_bytes()))
TEMPLATES = sorted(name[5:-5] for name in FILES if name.startswith("conf-"))
DAEMONS = sorted(name[5:-5] for name in FILES if name.startswith("dump-"))

# Settings in the dumps that depend on the machine and the process.
DETECTED = (
    "ARCH CondorIsAdmin CONFIG_ROOT DETECTED_CORES DETECTED_CPUS DETECTED_MEMORY DETECTED_PHYSICAL_CPUS FULL_HOSTNAME "
    "HOSTNAME IP_ADDRESS IP_ADDRESS_IS_IPV6 IPV4_ADDRESS IPV6_ADDRESS OPSYS OPSYSANDVER OPSYSLEGACY OPSYSLONGNAME "
    "OPSYSNAME OPSYSSHORTNAME PID PPID REAL_GID REAL_UID TILDE UNAME_ARCH UNAME_OPSYS USERNAME UTSNAME_MACHINE "
    "UTSNAME_NODENAME UTSNAME_RELEASE UTSNAME_SYSNAME UTSNAME_VERSION"
)


def settings(lines: list[str]) -> dict[str, str]:
    """Return the raw value of each setting in a dump."""
    values: dict[str, str] = {}
    remaining = iter(lines)
    for line in remaining:
        name, _, value = line.partition(" ")
        if value == "@=end":
            values[name] = "\n".join(inner.strip() for inner in iter(lambda: next(remaining), "@end"))
        elif value.startswith("=") and not line.startswith("#"):
            values[name] = value[2:]
    return values


def apply_diff(lines: list[str], changes: str) -> list[str]:
    """Apply the output of ``diff`` to lines."""
    result, position = [], 0
    for hunk in re.split(r"^(?=[0-9])", changes, flags=re.MULTILINE)[1:]:
        head, *body = hunk.rstrip("\n").split("\n")
        first, last, kind = re.match(r"([0-9]+)(?:,([0-9]+))?([acd])", head).groups()  # type: ignore[union-attr]
        start = int(first) if kind == "a" else int(first) - 1
        result += [*lines[position:start], *(line[2:] for line in body if line.startswith("> "))]
        position = start if kind == "a" else int(last or first)
    return result + lines[position:]


DEFAULTS = FILES["defaults.txt"].split("\n")
DUMPED = settings(DEFAULTS)
POOL = [("/etc/condor/condor_config", FILES["defaults-summary.txt"])]


def read_configuration(text: str, dumped: dict[str, str], subsystem: str = "TOOL") -> Configuration:
    """Read the recorded pool's configuration with one more file."""
    detected = {name: dumped[name] for name in DETECTED.split()}
    sources = [*POOL, ("/etc/condor/config.d/92-scenario.conf", text)]
    return read(sources, detected=detected, subsystem=subsystem)


def differences(configuration: Configuration, dumped: dict[str, str]) -> Iterator[tuple[str, str | None, str | None]]:
    raw_values = {name: configuration.raw_value(name) for name in configuration.all_names()}
    for name in sorted({*raw_values, *dumped}):
        value, expected = raw_values.get(name), dumped.get(name)
        if value != expected and (value is None or expected is None or value.strip() != expected.strip()):
            yield name, value, expected


def test_the_defaults_are_those_of_htcondor() -> None:
    assert len(DUMPED) > 1200
    assert list(differences(read_configuration("", DUMPED), DUMPED)) == []


@pytest.mark.parametrize("daemon", DAEMONS)
def test_a_daemon_has_the_same_defaults_as_in_htcondor(daemon: str) -> None:
    dumped = settings(apply_diff(DEFAULTS, FILES[f"dump-{daemon}.diff"]))
    assert list(differences(read_configuration("", dumped, daemon), dumped)) == []


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_sets_the_same_as_in_htcondor(name: str) -> None:
    dumped = settings(apply_diff(DEFAULTS, FILES[f"{name}-dump.diff"]))
    assert list(differences(read_configuration(FILES[f"conf-{name}.conf"], dumped), dumped)) == []


@together("name", TEMPLATES)
def test_a_template_s_policy_expands_as_in_htcondor(name: str) -> None:
    configuration = read_configuration(FILES[f"conf-{name}.conf"], DUMPED)
    count = 0
    for block in FILES[f"{name}.txt"].strip().split("\n\n"):
        title, value, *details = block.split("\n")
        setting = title.removeprefix("## ")
        if value.startswith("Not defined"):
            assert not configuration.get(setting)
            continue
        if not details:  # an empty value
            assert not configuration.get(setting)
            continue
        count += 1
        assert f"{configuration.original_name(setting)} = {configuration.get(setting)}".strip() == value.strip()
        assert (
            f" # raw: {configuration.original_name(setting)} = {configuration.raw_value(setting)}".strip()
            == details[1].strip()
        )
        if "92-scenario" in details[0] or "<Default>" in details[0]:
            assert details[0] == f" # at: {configuration.source(setting)}"
    assert count > 10


def test_all_templates_of_htcondor_are_known() -> None:
    listed = {
        (listing.split("use ", 1)[1].split(" ", 1)[0], line.strip())
        for name, listing in FILES.items()
        if re.fullmatch(r"use-[A-Z]+\.txt", name)
        for line in listing.split(" accepts\n", 1)[1].split("\n")
        if line.startswith("  ")
    }
    assert len(listed) > 70
    assert listed <= {(template.category, template.name) for template in templates().values()}
