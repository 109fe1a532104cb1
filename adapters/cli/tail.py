"""condor_tail: the end of what a job at work has written."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..condor_tools.options import Arguments
from ..condor_tools.tool_options import Tool, ToolEnded, read
from ..machine.execution.supervisor.sandbox import STREAMS
from .common import job_id, looked_up, pool_log

if TYPE_CHECKING:
    from ...domain.classad import ClassAd
    from ..runtime.queries import RunningProcess

TOOL = Tool(
    "tail",
    lacking="{option} requires an argument.\n\n{usage}",
)
_BYTES: Final = 1024  #: of all files together, unless -maxbytes says otherwise
_PAUSE: Final = 2.0  #: seconds between two looks, as condor_tail takes them
_STREAMS: Final = {"Out": STREAMS["stdout"], "Err": STREAMS["stderr"]}
"""The attributes that name a job's streams, and the files in its scratch directory that a transfer takes them from."""


def tail(argv: Sequence[str]) -> int:
    arguments = read(TOOL, argv)
    at_most, follows = _at_most(arguments), arguments.has("f", "follow")
    streams = ["Err"] if arguments.has("stderr") else [] if arguments.has("no-stdout") else ["Out"]
    if not (streams or arguments.words[1:]):
        raise TOOL.ended("No file transfer specified.\n\n{usage}")
    if not arguments.words:
        raise TOOL.ended("Job ID not specified.\n{usage}")
    job = job_id(arguments.words[0])
    if job is None:
        raise TOOL.ended("Invalid Job ID: {word}\n{usage}", word=arguments.words[0])
    url = pool_log(arguments, "No such schedd named {name} in local pool\n")
    files, shown = dict[str, Path](), dict[str, int]()
    while True:
        ad, run = looked_up(url, job)
        if files and run is None:  # it has ended while it was followed
            _show({name: path for name, path in files.items() if path.exists()}, shown, at_most)
            return 0
        if ad is None:
            raise ToolEnded(1, f"No such job: {job[0]}.{job[1]}\n")
        if run is not None and run.scratch:
            try:
                files = dict(_files(ad, run, streams, arguments.words[1:]))
                _show(files, shown, at_most)
            except OSError as error:  # the scratch directory of another user's job, or one that is being removed
                _failed(f"Cannot open file {error.filename or run.scratch} ({error.strerror})")
            if not follows:
                return 0
        time.sleep(_PAUSE)  # condor_tail waits for a job that does not run yet, with -auto-retry and without


def _at_most(arguments: Arguments) -> int:
    value = arguments.value("maxbytes", str(_BYTES))
    if value.startswith("-"):
        raise TOOL.ended("-maxbytes requires an argument.\n\n{usage}")
    try:
        return int(value)
    except ValueError:
        raise TOOL.ended("Error: maxbytes ({value}) is not valid\n\n{usage}", value=value) from None


def _files(
    ad: ClassAd, run: RunningProcess, streams: Sequence[str], names: Sequence[str]
) -> Iterator[tuple[str, Path]]:
    """Yield the files that are asked for: a job's streams, and what it will have transferred."""
    scratch = Path(run.scratch)
    listed = str(ad.eval("TransferOutput") or "").replace(",", " ").split() if "TransferOutput" in ad else []
    of_streams = {str(ad.eval(name)): name for name in _STREAMS if name in ad}
    for name in [*streams, *names]:
        if name in streams or name in of_streams:
            stream = name if name in streams else of_streams[name]
            path = scratch / _STREAMS[stream]
            if not path.exists():
                path = Path(str(ad.eval("Iwd") or "")) / str(ad.eval(stream))
            if not path.is_file():
                _failed(f"Invalid symlink or filename ({path}) outside sandbox ({scratch})")
        elif name in listed:
            path = scratch / name
            if not path.exists():
                path = Path(str(ad.eval("Iwd") or "")) / name
            if not path.resolve().is_relative_to(scratch.resolve()) and not path.is_file():
                _failed(f"Invalid symlink or filename ({path}) outside sandbox ({scratch})")
        else:
            _failed(f"File {name} requested but not authorized to be sent.")
        yield name, path


def _failed(why: str) -> None:
    raise ToolEnded(1, f"Failed to peek at file from starter: {why}\n")


def _show(files: dict[str, Path], shown: dict[str, int], at_most: int) -> None:
    """Write the end of each file, or what it has gained since it was ``shown``; all together ``at_most`` bytes."""
    left = at_most
    for name, path in files.items():
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            begin = max(shown.get(name, 0), size - left)
            file.seek(begin)
            data = file.read(max(0, size - begin))
        left -= len(data)
        shown[name] = begin + len(data)
        sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
