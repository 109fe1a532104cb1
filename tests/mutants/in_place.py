"""Run tests on faults from one pytest process: collect the tests once, and fork a child for each fault, which replaces
the code of one function.

    python -m tests.mutants.in_place FAULTS WORKERS FOLDER...

Each line of FAULTS has a fault as JSON: its name, its fields, its tests and their time. The output has a line for each
fault: its name, and the test that detected it, or nothing, or "?" if the fault cannot be planted in this way.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import resource
import select
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import psutil
import pytest

from .faults import Fault
from .runs import EXTRA_CPU, IDLE_LIMIT, MAX_MEMORY, MIN_PROGRESS_CPU, become_subreaper, kill_descendants, used_cpu

NOT_IN_PLACE = "?"
ENDLESS = "the tests do not end"


def functions_of(module: ModuleType) -> Iterator[tuple[str, FunctionType, Any]]:
    """Yield name, function and containing object (such as a property) of each function and method of a module."""
    yield from _functions_in(vars(module), module.__name__, set())


def _functions_in(names: dict[str, Any], module: str, seen_ids: set[int]) -> Iterator[tuple[str, FunctionType, Any]]:
    for value in list(names.values()):
        if id(value) in seen_ids:
            continue
        seen_ids.add(id(value))
        if isinstance(value, type) and value.__module__ == module:
            yield from _functions_in(dict(vars(value)), module, seen_ids)
        for function in _unwrapped(value):
            if function.__module__ == module:
                yield function.__qualname__, function, value


def _unwrapped(value: Any) -> Iterator[FunctionType]:
    if isinstance(value, property):
        yield from (accessor for accessor in (value.fget, value.fset) if isinstance(accessor, FunctionType))
        return
    if isinstance(value, functools.cached_property):
        value = value.func
    value = getattr(value, "__func__", value)
    while hasattr(value, "__wrapped__"):
        value = value.__wrapped__
    if isinstance(value, FunctionType):
        yield value


def _nested_codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _nested_codes(constant)


def plant(fault: Fault, root: Path) -> bool:
    """Replace the code of the fault's function; return False if there is no such function or it cannot be replaced."""
    module_name = "poolbook." + fault.path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    if not fault.function or fault.path.endswith(".txt"):
        return False
    module = importlib.import_module(module_name)
    text = fault.planted((root / fault.path).read_bytes())
    new_codes = {code.co_qualname: code for code in _nested_codes(compile(text, module.__file__ or "", "exec"))}
    planted = False
    for name, function, container in functions_of(module):
        if name == fault.function or fault.function.startswith(name + "."):
            code = new_codes.get(name)
            if code is None or code.co_freevars != function.__code__.co_freevars:
                return False
            function.__code__ = code
            with suppress(AttributeError):
                container.cache_clear()
            planted = True
    return planted


class Server:
    """A pytest plugin that forks children, each of which runs some of the collected tests."""

    def __init__(self, faults: list[dict[str, Any]], workers: int, root: Path, output: int) -> None:
        self.pending = list(reversed(faults))
        self.workers, self.root, self.output = workers, root, output
        self.items: defaultdict[str, list[pytest.Item]] = defaultdict(list)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for item in session.items:
            self.items[item.nodeid.partition("[")[0]].append(item)
        running: dict[int, _Child] = {}
        while self.pending or running:
            while self.pending and len(running) < self.workers:
                child = self._fork(self.pending.pop(), session)
                running[child.pid] = child
            ready = select.select([child.pipe for child in running.values()], [], [], 1.0)[0]
            for child in list(running.values()):
                if child.pipe in ready or child.is_endless():
                    os.write(self.output, f"{child.name}\t{child.end()}\n".encode())
                    del running[child.pid]
        return True

    def _fork(self, entry: dict[str, Any], session: pytest.Session) -> _Child:
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(read_end)
                os.write(write_end, self._run(entry, session).encode())
            finally:
                os._exit(0)
        os.close(write_end)
        return _Child(pid, read_end, entry["name"], EXTRA_CPU + entry["seconds"])

    def _run(self, entry: dict[str, Any], session: pytest.Session) -> str:
        """Run the fault's tests in the child; return the test that detects the fault."""
        os.setsid()
        memory = psutil.Process().memory_info().vms
        resource.setrlimit(resource.RLIMIT_AS, (memory + MAX_MEMORY, memory + MAX_MEMORY))
        if not plant(Fault(*entry["fault"]), self.root):
            return NOT_IN_PLACE
        items = [item for name in entry["tests"] for item in self.items[name]]
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.testsfailed:
                return item.nodeid
        return ""


class _Child:
    """A running child process, which writes its result to a pipe."""

    def __init__(self, pid: int, pipe: int, name: str, max_cpu: float) -> None:
        self.pid, self.pipe, self.name, self.max_cpu = pid, pipe, name, max_cpu
        self.last_cpu, self.last_progress = 0.0, time.monotonic()

    def is_endless(self) -> bool:
        cpu = used_cpu(self.pid)
        if cpu > self.last_cpu + MIN_PROGRESS_CPU:
            self.last_cpu, self.last_progress = cpu, time.monotonic()
        return cpu > self.max_cpu or time.monotonic() > self.last_progress + IDLE_LIMIT

    def end(self) -> str:
        """Kill the child and its descendants, and return its result."""
        result = os.read(self.pipe, 1 << 16).decode() if select.select([self.pipe], [], [], 0)[0] else ENDLESS
        os.close(self.pipe)
        descendants = psutil.Process(self.pid).children(recursive=True)
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        for process in descendants:
            with suppress(psutil.Error):
                process.kill()
        return result


def main(arguments: list[str]) -> int:
    faults = [json.loads(line) for line in Path(arguments[0]).read_text().splitlines()]
    output = os.dup(1)
    become_subreaper()
    plugin = Server(faults, int(arguments[1]), Path.cwd(), output)
    options = ["-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=1"]
    pytest.main([*options, "-p", "tests.mutants.without_shrinking", *arguments[2:]], plugins=[plugin])
    kill_descendants()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
