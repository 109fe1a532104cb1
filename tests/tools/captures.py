"""Recorded output of HTCondor 25.14's tools, from tests/data/outputs (see the README there), and the ads that they
showed."""

import gzip
import shlex
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from poolbook.adapters.condor_tools.cells import CellContext
from poolbook.domain.classad import ClassAd

DATA = Path(__file__).resolve().parent.parent / "data" / "outputs"

# All captures are of the same minute, except some that were recorded later.
MINUTE = 1795214160  # 2026-11-20 22:36:00 UTC
NOVEMBER_23 = 1795470600  # 2026-11-23 21:50:00 UTC


class Capture(NamedTuple):
    """A command, its output, and its exit code."""

    argv: list[str]
    out: str
    err: str
    exit_code: int


@cache
def index() -> list[str]:
    """Return the names of all captures of the commands that Poolbook has, including ones that are not copied here."""
    return (DATA / "INDEX").read_text(encoding="utf-8").split()


@cache
def capture(name: str) -> Capture:
    """Return a capture by name. If it has several commands, ``argv`` is the last one's, the output that of all."""
    path = DATA / f"{name}.txt"
    if path.exists():
        text = path.read_text(encoding="utf-8")
    else:
        text = gzip.decompress((DATA / f"{name}.txt.gz").read_bytes()).decode()
    command, _, remainder = text.partition("\n")
    recorded_output, _, code = remainder.rpartition("--- rc=")
    output, _, errors = recorded_output.partition("--- stderr ---\n")
    last = command.split("; ")[-1]
    if last.count("'") % 2:  # the semicolon is in a word
        last = command
    argv = shlex.split(last.removeprefix("$ "))
    return Capture(argv[1:], output, errors, int(code.split()[0]))


@cache
def captured_ads(name: str) -> tuple[ClassAd, ...]:
    """Return the ads that a capture of -long shows."""
    return tuple(ClassAd.from_old(text) for text in capture(name).out.split("\n\n") if text.strip())


def surroundings_at(second: int = 26, me: str = "alice@localhost", width: int | None = None) -> CellContext:
    """Return the surroundings of the captures, some seconds after 22:36:00."""
    return CellContext(MINUTE + second, schedd="localhost", address="<127.0.0.1:9618?addrs=x>", me=me, width=width)


def printed(lines: Iterable[str]) -> str:
    return "".join(lines)


def changed(ad: ClassAd, **attributes: object) -> ClassAd:
    """Return a copy of an ad with other values; None removes an attribute."""
    copy = ad.copy()
    for name, value in attributes.items():
        if value is None:
            copy.pop(name, None)
        else:
            copy[name] = value
    return copy
