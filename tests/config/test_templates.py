"""golden: the defaults, and 12 templates, as a real pool's condor_config_val dumped them."""

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

# What the dumps say of the machine and the process.
DETECTED = (
    "ARCH CondorIsAdmin CONFIG_ROOT DETECTED_CORES DETECTED_CPUS DETECTED_MEMORY DETECTED_PHYSICAL_CPUS FULL_HOSTNAME "
    "HOSTNAME IP_ADDRESS IP_ADDRESS_IS_IPV6 IPV4_ADDRESS IPV6_ADDRESS OPSYS OPSYSANDVER OPSYSLEGACY OPSYSLONGNAME "
    "OPSYSNAME OPSYSSHORTNAME PID PPID REAL_GID REAL_UID TILDE UNAME_ARCH UNAME_OPSYS USERNAME UTSNAME_MACHINE "
    "UTSNAME_NODENAME UTSNAME_RELEASE UTSNAME_SYSNAME UTSNAME_VERSION"
)


def settings(lines: list[str]) -> dict[str, str]:
    """Name and raw value of each setting of a dump."""
    found: dict[str, str] = {}
    at = iter(lines)
    for line in at:
        name, _, value = line.partition(" ")
        if value == "@=end":
            found[name] = "\n".join(inner.strip() for inner in iter(lambda: next(at), "@end"))
        elif value.startswith("=") and not line.startswith("#"):
            found[name] = value[2:]
    return found


def patched(lines: list[str], changes: str) -> list[str]:
    """Lines with the output of ``diff`` applied."""
    out, at = [], 0
    for hunk in re.split(r"^(?=[0-9])", changes, flags=re.MULTILINE)[1:]:
        head, *body = hunk.rstrip("\n").split("\n")
        first, last, kind = re.match(r"([0-9]+)(?:,([0-9]+))?([acd])", head).groups()  # type: ignore[union-attr]
        begin = int(first) if kind == "a" else int(first) - 1
        out += [*lines[at:begin], *(line[2:] for line in body if line.startswith("> "))]
        at = begin if kind == "a" else int(last or first)
    return out + lines[at:]


DEFAULTS = FILES["defaults.txt"].split("\n")
DUMPED = settings(DEFAULTS)
POOL = [("/etc/condor/condor_config", FILES["defaults-summary.txt"])]


def configured(text: str, dumped: dict[str, str], subsystem: str = "TOOL") -> Configuration:
    """What that pool has with one more file."""
    detected = {name: dumped[name] for name in DETECTED.split()}
    sources = [*POOL, ("/etc/condor/config.d/92-scenario.conf", text)]
    return read(sources, detected=detected, subsystem=subsystem)


def differences(found: Configuration, dumped: dict[str, str]) -> Iterator[tuple[str, str | None, str | None]]:
    ours = {name: found.raw(name) for name in found.all_names()}
    for name in sorted({*ours, *dumped}):
        mine, theirs = ours.get(name), dumped.get(name)
        if mine != theirs and (mine is None or theirs is None or mine.strip() != theirs.strip()):
            yield name, mine, theirs


def test_the_defaults_are_those_of_the_reference() -> None:
    assert len(DUMPED) > 1200
    assert list(differences(configured("", DUMPED), DUMPED)) == []


@pytest.mark.parametrize("daemon", DAEMONS)
def test_a_daemon_has_the_reference_s_defaults_of_its_own(daemon: str) -> None:
    dumped = settings(patched(DEFAULTS, FILES[f"dump-{daemon}.diff"]))
    assert list(differences(configured("", dumped, daemon), dumped)) == []


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_sets_what_it_sets_in_the_reference(name: str) -> None:
    dumped = settings(patched(DEFAULTS, FILES[f"{name}-dump.diff"]))
    assert list(differences(configured(FILES[f"conf-{name}.conf"], dumped), dumped)) == []


@together("name", TEMPLATES)
def test_a_template_s_policy_expands_as_in_the_reference(name: str) -> None:
    found = configured(FILES[f"conf-{name}.conf"], DUMPED)
    count = 0
    for block in FILES[f"{name}.txt"].strip().split("\n\n"):
        title, value, *details = block.split("\n")
        setting = title.removeprefix("## ")
        if value.startswith("Not defined"):
            assert not found.get(setting)
            continue
        if not details:  # an empty value
            assert not found.get(setting)
            continue
        count += 1
        assert f"{found.spelled(setting)} = {found.get(setting)}".strip() == value.strip()
        assert f" # raw: {found.spelled(setting)} = {found.raw(setting)}".strip() == details[1].strip()
        if "92-scenario" in details[0] or "<Default>" in details[0]:
            assert details[0] == f" # at: {found.source(setting)}"
    assert count > 10


def test_all_templates_of_the_reference_are_known() -> None:
    listed = {
        (listing.split("use ", 1)[1].split(" ", 1)[0], line.strip())
        for name, listing in FILES.items()
        if re.fullmatch(r"use-[A-Z]+\.txt", name)
        for line in listing.split(" accepts\n", 1)[1].split("\n")
        if line.startswith("  ")
    }
    assert len(listed) > 70
    assert listed <= {(template.category, template.name) for template in templates().values()}
