"""Run tests on faults without starting anew for each: the tests are collected once, and for each fault a child of that
process takes the place of one function by the same with the fault.

    python -m tests.mutants.in_place FAULTS WORKERS FOLDER...

FAULTS has one fault a line, as JSON: its name, what it is, the tests and how long they take. For each a line is
printed: its name and the test that noticed it, empty if none did, or "?" if it cannot be planted in this way.
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
from .runs import LEAST_CPU, MOST_CPU, MOST_MEMORY, WITHOUT_PROGRESS, adopt, end_all, used_cpu

CANNOT = "?"
ENDLESS = "the tests do not end"


def functions_of(module: ModuleType) -> Iterator[tuple[str, FunctionType, Any]]:
    """Yield a module's own functions and methods by their names, each with what it is reached by."""
    yield from _inside(vars(module), module.__name__, set())


def _inside(names: dict[str, Any], module: str, seen: set[int]) -> Iterator[tuple[str, FunctionType, Any]]:
    for one in list(names.values()):
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, type) and one.__module__ == module:
            yield from _inside(dict(vars(one)), module, seen)
        for function in _unwrapped(one):
            if function.__module__ == module:
                yield function.__qualname__, function, one


def _unwrapped(one: Any) -> Iterator[FunctionType]:
    if isinstance(one, property):
        yield from (each for each in (one.fget, one.fset) if isinstance(each, FunctionType))
        return
    if isinstance(one, functools.cached_property):
        one = one.func
    one = getattr(one, "__func__", one)
    while hasattr(one, "__wrapped__"):
        one = one.__wrapped__
    if isinstance(one, FunctionType):
        yield one


def _codes(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from _codes(one)


def plant(fault: Fault, root: Path) -> bool:
    """Take the place of the fault's function; False where there is none of that name, or it cannot be replaced."""
    dotted = "poolbook." + fault.path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    if not fault.function or fault.path.endswith(".txt"):
        return False
    module = importlib.import_module(dotted)
    text = fault.planted((root / fault.path).read_bytes())
    new = {code.co_qualname: code for code in _codes(compile(text, module.__file__ or "", "exec"))}
    planted = False
    for name, function, reached_by in functions_of(module):
        if name == fault.function or fault.function.startswith(name + "."):
            code = new.get(name)
            if code is None or code.co_freevars != function.__code__.co_freevars:
                return False
            function.__code__ = code
            with suppress(AttributeError):
                reached_by.cache_clear()
            planted = True
    return planted


class Server:
    """A plugin of pytest: instead of running what was collected, it has children run parts of it."""

    def __init__(self, faults: list[dict[str, Any]], workers: int, root: Path, output: int) -> None:
        self.waiting = list(reversed(faults))
        self.workers, self.root, self.output = workers, root, output
        self.items: defaultdict[str, list[pytest.Item]] = defaultdict(list)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for item in session.items:
            self.items[item.nodeid.partition("[")[0]].append(item)
        running: dict[int, _Child] = {}
        while self.waiting or running:
            while self.waiting and len(running) < self.workers:
                child = self._begin(self.waiting.pop(), session)
                running[child.pid] = child
            ready = select.select([child.said for child in running.values()], [], [], 1.0)[0]
            for child in list(running.values()):
                if child.said in ready or child.is_endless():
                    os.write(self.output, f"{child.name}\t{child.end()}\n".encode())
                    del running[child.pid]
        return True

    def _begin(self, told: dict[str, Any], session: pytest.Session) -> _Child:
        said, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(said)
                os.write(tell, self._run(told, session).encode())
            finally:
                os._exit(0)
        os.close(tell)
        return _Child(pid, said, told["name"], MOST_CPU + told["seconds"])

    def _run(self, told: dict[str, Any], session: pytest.Session) -> str:
        """In the child: which test notices the fault."""
        os.setsid()
        used = psutil.Process().memory_info().vms
        resource.setrlimit(resource.RLIMIT_AS, (used + MOST_MEMORY, used + MOST_MEMORY))
        if not plant(Fault(*told["fault"]), self.root):
            return CANNOT
        items = [item for name in told["tests"] for item in self.items[name]]
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.testsfailed:
                return item.nodeid
        return ""


class _Child:
    """A child at work."""

    def __init__(self, pid: int, said: int, name: str, most: float) -> None:
        self.pid, self.said, self.name, self.most = pid, said, name, most
        self.used, self.since = 0.0, time.monotonic()

    def is_endless(self) -> bool:
        now = used_cpu(self.pid)
        if now > self.used + LEAST_CPU:
            self.used, self.since = now, time.monotonic()
        return now > self.most or time.monotonic() > self.since + WITHOUT_PROGRESS

    def end(self) -> str:
        """What it has found; all that it has started is ended."""
        heard = os.read(self.said, 1 << 16).decode() if select.select([self.said], [], [], 0)[0] else ENDLESS
        os.close(self.said)
        family = psutil.Process(self.pid).children(recursive=True)
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        for one in family:
            with suppress(psutil.Error):
                one.kill()
        return heard


def main(words: list[str]) -> int:
    faults = [json.loads(line) for line in Path(words[0]).read_text().splitlines()]
    output = os.dup(1)
    adopt()
    plugin = Server(faults, int(words[1]), Path.cwd(), output)
    chosen = ["-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=1"]
    pytest.main([*chosen, "-p", "tests.mutants.without_shrinking", *words[2:]], plugins=[plugin])
    end_all()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
