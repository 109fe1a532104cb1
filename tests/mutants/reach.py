"""Which tests reach a fault, and how long they take: measured once, folder by folder, and kept in build/mutants."""

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
"""The folders of tests that reach what faults are planted in."""
IN_PROCESSES: Mapping[str, tuple[str, ...]] = {
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
"""Tests that reach a file in processes of their own, where nothing measures them."""
OF_TABLES = (
    "tests/lifecycle", "tests/policy", "tests/domain", "tests/negotiation", "tests/schedd", "tests/groups",
    "tests/defrag",
)  # fmt: skip
"""The tests of what is read when a file is loaded."""

_SETTINGS = """[tool.coverage.run]
include = ["*/domain/*", "*/adapters/stores/*", "*/adapters/runtime/*", "*/adapters/machine/*"]
omit = ["*/domain/classad/*", "*/domain/config/*"]
dynamic_context = "test_function"
"""


class Reached(NamedTuple):
    """What was measured: per file and line the tests, per test its seconds and the lines that it reaches."""

    tests: Mapping[str, Mapping[int, frozenset[str]]]
    seconds: Mapping[str, float]
    lines: Mapping[str, int]

    def of(self, fault: Fault) -> list[str]:
        """Return the tests that reach a fault, as pytest names them: quick ones first, then such as reach little."""
        by_line = self.tests.get(fault.path, {})
        if not fault.function or fault.path.endswith(".txt"):
            return []
        begin = fault.line
        while begin > max(0, fault.line - 12) and begin not in by_line:  # a line within a statement
            begin -= 1
        names = by_line.get(begin, frozenset())
        return sorted(names, key=lambda name: (self.seconds.get(name, 0) > 0.3, self.lines[name], name))


def measure(folder: str) -> None:
    """Run a folder's tests under coverage, one context a test, and keep what they reach."""
    config = WORK / "coverage.toml"
    config.write_text(_SETTINGS)
    command = [
        sys.executable, "-m", "coverage", "run", f"--rcfile={config}", f"--data-file={_data(folder)}", "-m", "pytest",
        "-q", "-p", "no:xdist", "-p", "no:cacheprovider", f"--junitxml={_times(folder)}", f"tests/{folder}",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}/.path"}
    subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)


def is_measured(folder: str) -> bool:
    return _times(folder).exists()


def _data(folder: str) -> Path:
    return WORK / f"reached.{folder}"


def _times(folder: str) -> Path:
    return WORK / f"times.{folder}.xml"


def reached(folders: Iterable[str] = FOLDERS) -> Reached:
    """Read what was measured of these folders."""
    tests: defaultdict[str, defaultdict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    seconds: defaultdict[str, float] = defaultdict(float)
    lines = Counter[str]()
    for folder in filter(is_measured, folders):
        known = _seconds(folder)
        for name, count in known.items():
            seconds[name] += count
        with sqlite3.connect(_data(folder)) as database:
            rows = database.execute(
                "SELECT file.path, context.context, line_bits.numbits FROM line_bits"
                " JOIN file ON file.id = file_id JOIN context ON context.id = context_id"
            )
            for path, context, bits in rows:
                name = _node(context)
                if name not in known:  # a helper's name may begin as a test's
                    continue
                inner = path.partition("/.path/poolbook/")[2] or str(Path(path).relative_to(ROOT))
                for line in _numbers(bits):
                    tests[inner][line].add(name)
                    lines[name] += 1
    frozen = {path: {line: frozenset(names) for line, names in found.items()} for path, found in tests.items()}
    return Reached(frozen, seconds, lines)


def _numbers(bits: bytes) -> Iterable[int]:
    return (8 * at + bit for at, byte in enumerate(bits) for bit in range(8) if byte >> bit & 1)


def _seconds(folder: str) -> dict[str, float]:
    """The tests of a folder, without their parameters, and how long each took."""
    found: defaultdict[str, float] = defaultdict(float)
    for case in xml.etree.ElementTree.parse(_times(folder)).iter("testcase"):
        name = f"{case.get('classname')}.{(case.get('name') or '').partition('[')[0]}"
        found[_node(name)] += float(case.get("time") or 0)
    return found


def _node(context: str) -> str:
    """``tests.domain.test_names.test_x`` as ``tests/domain/test_names.py::test_x``; empty if it is no test's."""
    words = context.split(".")
    module = next((place for place, word in enumerate(words) if word.startswith("test_")), len(words))
    if module + 1 >= len(words):
        return ""
    return "/".join(words[: module + 1]) + ".py" + "".join(f"::{word}" for word in words[module + 1 :])


def beside(fault: Fault) -> tuple[str, ...]:
    """Return the tests that are to run besides those that were seen to reach the fault."""
    if not fault.function or fault.path.endswith(".txt"):
        return OF_TABLES
    return next((tests for place, tests in IN_PROCESSES.items() if fault.path.startswith(place)), ())
