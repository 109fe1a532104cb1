"""Measure once, folder by folder, which tests reach each line and how long they take; build/mutants stores this."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import xml.etree.ElementTree
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from .faults import ROOT, Fault

WORK = ROOT / "build" / "mutants"
FOLDERS = (
    "domain", "stores", "execution", "simulation", "negotiation", "policy", "slots", "lifecycle", "accounting", "pool",
    "replay", "projections", "play", "userlog", "runs", "submit", "beside", "golden", "tools",
    "schedd", "groups", "defrag",
)  # fmt: skip
"""The test folders that reach the files with faults."""
PROCESS_TESTS: Mapping[str, tuple[str, ...]] = {
    "adapters/stores/": (
        "tests/stores/test_processes.py", "tests/stores/test_writer_lock.py", "tests/stores/test_readers.py",
    ),
    "adapters/runtime/": (
        "tests/pool/test_commands.py", "tests/pool/test_connections.py", "tests/pool/test_strangers.py",
        "tests/pool/test_full_disks.py", "tests/pool/test_crashes.py", "tests/pool/test_silent_servers.py",
    ),
    "adapters/machine/": (
        "tests/execution", "tests/containers", "tests/pool/test_strangers.py", "tests/pool/test_full_disks.py",
    ),
    "adapters/sockets.py": ("tests/pool/test_strangers.py", "tests/pool/test_silent_servers.py"),
}  # fmt: skip
"""Tests that reach a file in other processes, which coverage does not measure."""
TABLE_TESTS = (
    "tests/lifecycle", "tests/policy", "tests/domain", "tests/negotiation", "tests/schedd", "tests/groups",
    "tests/defrag",
)  # fmt: skip
"""The tests of code and tables that run when a module is imported."""

_SETTINGS = """[tool.coverage.run]
include = ["*/domain/*", "*/adapters/stores/*", "*/adapters/runtime/*", "*/adapters/machine/*"]
omit = ["*/domain/classad/*", "*/domain/config/*"]
dynamic_context = "test_function"
"""


class Coverage(NamedTuple):
    """The tests by file and line, and for each test its seconds and the number of lines that it reaches."""

    tests: Mapping[str, Mapping[int, frozenset[str]]]
    seconds: Mapping[str, float]
    lines: Mapping[str, int]

    def tests_of(self, fault: Fault) -> list[str]:
        """Return the node ids of the tests that reach a fault: fast tests first, then tests that reach few lines."""
        by_line = self.tests.get(fault.path, {})
        if not fault.function or fault.path.endswith(".txt"):
            return []
        first_line = fault.line
        while first_line > max(0, fault.line - 12) and first_line not in by_line:  # a line within a statement
            first_line -= 1
        names = by_line.get(first_line, frozenset())
        return sorted(names, key=lambda name: (self.seconds.get(name, 0) > 0.3, self.lines[name], name))


def measure(folder: str) -> None:
    """Run a folder's tests under coverage, with one context per test, and store the result."""
    config = WORK / "coverage.toml"
    config.write_text(_SETTINGS)
    command = [
        sys.executable, "-m", "coverage", "run", f"--rcfile={config}", f"--data-file={_coverage_path(folder)}",
        "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", f"--junitxml={_junit_path(folder)}",
        f"tests/{folder}",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}/.path"}
    subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)


def is_measured(folder: str) -> bool:
    return _junit_path(folder).exists()


def _coverage_path(folder: str) -> Path:
    return WORK / f"reached.{folder}"


def _junit_path(folder: str) -> Path:
    return WORK / f"times.{folder}.xml"


def read_coverage(folders: Iterable[str] = FOLDERS) -> Coverage:
    """Read the stored coverage of these folders."""
    tests: defaultdict[str, defaultdict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    seconds: defaultdict[str, float] = defaultdict(float)
    lines = Counter[str]()
    for folder in filter(is_measured, folders):
        known = _seconds(folder)
        for name, count in known.items():
            seconds[name] += count
        with sqlite3.connect(_coverage_path(folder)) as database:
            rows = database.execute(
                "SELECT file.path, context.context, line_bits.numbits FROM line_bits"
                " JOIN file ON file.id = file_id JOIN context ON context.id = context_id"
            )
            for path, context, bits in rows:
                name = _node_id(context)
                if name not in known:  # a helper whose name starts like a test's
                    continue
                source = path.partition("/.path/poolbook/")[2] or str(Path(path).relative_to(ROOT))
                for line in _line_numbers(bits):
                    tests[source][line].add(name)
                    lines[name] += 1
    frozen = {path: {line: frozenset(names) for line, names in by_line.items()} for path, by_line in tests.items()}
    return Coverage(frozen, seconds, lines)


def _line_numbers(bits: bytes) -> Iterable[int]:
    return (8 * index + bit for index, byte in enumerate(bits) for bit in range(8) if byte >> bit & 1)


def _seconds(folder: str) -> dict[str, float]:
    """Return the seconds of each test in a folder, summed over its parameters."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for case in xml.etree.ElementTree.parse(_junit_path(folder)).iter("testcase"):
        name = f"{case.get('classname')}.{(case.get('name') or '').partition('[')[0]}"
        seconds[_node_id(name)] += float(case.get("time") or 0)
    return seconds


def _node_id(context: str) -> str:
    """Convert ``tests.domain.test_names.test_x`` to ``tests/domain/test_names.py::test_x``; "" if it is not a test."""
    parts = context.split(".")
    module = next((index for index, part in enumerate(parts) if part.startswith("test_")), len(parts))
    if module + 1 >= len(parts):
        return ""
    return "/".join(parts[: module + 1]) + ".py" + "".join(f"::{part}" for part in parts[module + 1 :])


def unmeasured_tests(fault: Fault) -> tuple[str, ...]:
    """Return the tests that may reach the fault where coverage does not measure."""
    if not fault.function or fault.path.endswith(".txt"):
        return TABLE_TESTS
    return next((tests for prefix, tests in PROCESS_TESTS.items() if fault.path.startswith(prefix)), ())
