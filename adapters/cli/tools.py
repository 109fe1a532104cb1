"""``poolbook tools-path, shell``: HTCondor's tool names for programs that call its tools; condor_version for programs
that check the version.

A tool is a symbolic link to the ``poolbook`` command, which checks the name under which it was called (``main``).
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from ..condor_tools.options import Arguments, ToolError, command_table, parse
from ..condor_tools.tool_options import usage_of
from .common import log_option, poolbook_command, selected_log
from .main import ALTERNATIVES, COMMANDS, PREFIX, RENAMED_TOOLS, TOOLS, UNSUPPORTED, tool_name

TOOLS_PATH = command_table("tools-path")
SHELL = command_table("shell")
NO_TOOLS: Final = frozenset({
    "run", "resume", "serve", "usage", "why", "log", "audit", "import", "follow", "verify", "play", "views", "doctor",
    "doc", "diff", "completion", "man", "tools-path", "shell", "config", "analyze",
    "token",
})  # fmt: skip
"""Commands for which HTCondor has no tool, or one that differs: condor_run is not `poolbook run`."""
PATIENCE: Final = 30.0  #: seconds to wait for a pool to answer first, or to stop
_PAUSE: Final = 0.01


def tools() -> Iterator[str]:
    """Yield the names of HTCondor tools: the implemented ones, and the others, which print what to use instead."""
    for name in (*COMMANDS, *RENAMED_TOOLS):
        if name not in NO_TOOLS and name not in ALTERNATIVES and name not in TOOLS:
            yield PREFIX + name
    yield from map(tool_name, (*TOOLS, *UNSUPPORTED))


def tools_path(argv: Sequence[str]) -> int:
    parse(TOOLS_PATH, argv)
    print(tools_folder())
    return 0


def tools_folder() -> Path:
    """Return the tools' directory, created if necessary: in the installation or, if another user owns it, at home."""
    command = Path(sys.executable).with_name("poolbook")
    if not command.exists():
        command = Path(sys.argv[0]).resolve()
    if command.name != "poolbook" or not os.access(command, os.X_OK):
        raise ToolError(f"poolbook: the command `poolbook` is not next to {sys.executable}: install Poolbook with pip")
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    problems = []
    for share in (Path(sys.prefix) / "share", data):
        try:
            return _link_tool(share / "poolbook" / "tools", command)
        except OSError as problem:
            problems.append(str(problem))
    raise ToolError(f"poolbook: the folder for the HTCondor tool names cannot be created: {'; '.join(problems)}")


def _link_tool(folder: Path, command: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in tools():
        link = folder / name
        with suppress(OSError):
            if os.readlink(link) == str(command):
                continue
        new = link.with_name(f".{name}.{os.getpid()}")
        os.symlink(command, new)
        os.replace(new, link)
    return folder


def shell(argv: Sequence[str]) -> int:
    arguments = parse(SHELL, argv)
    url = selected_log(arguments)
    if arguments.has("stop"):
        return _stop(url)
    from ..runtime.pool_client import is_served

    pool = None if is_served(url) else _start_server(url, arguments)
    folder = tools_folder()  # while the pool starts
    if pool is not None:
        _wait_for_answer(url, pool)
    log = os.path.abspath(url) if "://" not in url else url
    print(f'export PATH={shlex.quote(str(folder))}:"$PATH"')
    print(f"export POOLBOOK_LOG={shlex.quote(log)}")
    return 0


def _pool_output_file(url: str) -> Path:
    from ..stores.log_paths import log_paths

    base = log_paths(url).base
    return base.with_name(base.name + ".serve.out")


def _start_server(url: str, arguments: Arguments) -> subprocess.Popen[bytes]:
    file = _pool_output_file(url)
    options = [word for given in arguments.options for word in (given.spelling, *given.values) if given.name != "log"]
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "wb") as out:
        command = [sys.executable, "-c", "from poolbook.adapters.cli.main import entry; entry()", "serve", "-log", url]
        return subprocess.Popen(
            [*command, *options], stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )


def _wait_for_answer(url: str, pool: subprocess.Popen[bytes]) -> None:
    """Wait until the pool answers. Raise ``ToolError`` with the pool's output if the pool stops."""
    from ..runtime.pool_client import is_served

    until = time.monotonic() + PATIENCE
    while not is_served(url):
        if pool.poll() is not None:
            output = _pool_output_file(url).read_text(errors="replace").strip()
            raise ToolError(
                output or f"poolbook: {poolbook_command()} serve ended immediately; run it yourself to see why"
            )
        if time.monotonic() > until:
            pool.terminate()
            raise ToolError(
                f"poolbook: no answer within {PATIENCE:.0f} s; see the pool's output in {_pool_output_file(url)}"
            )
        time.sleep(_PAUSE)


def _stop(url: str) -> int:
    from ..runtime.pool_client import is_written
    from ..sockets import connect, process_of
    from ..stores.log_paths import log_paths

    place = log_paths(url)
    try:
        with connect(place.socket_path, place.trusted_users(), timeout=PATIENCE) as connection:
            server = process_of(connection)
    except OSError:
        raise ToolError(
            f"poolbook: this log is not being served; run `poolbook serve{log_option(url)}` to serve it"
        ) from None
    try:
        os.kill(server, signal.SIGTERM)
    except PermissionError:
        raise ToolError(f"poolbook: only the user of process {server}, which serves this log, can stop it") from None
    until = time.monotonic() + PATIENCE
    while is_written(url):
        if time.monotonic() > until:
            raise ToolError(f"poolbook: process {server} did not stop within {PATIENCE:.0f} s; try `kill {server}`")
        time.sleep(_PAUSE)
    return 0


def condor_version(argv: Sequence[str]) -> int:
    """Print the output of condor_version, for programs that check the version."""
    from ..machine.host import CONDOR_VERSION, architecture, condor_platform, operating_system

    if argv[:1] == ["-help"]:
        sys.stderr.write(usage_of("version"))
        return 0
    read_values = {"-arch": architecture, "-opsys": operating_system}
    unknown = [word for word in argv if word not in read_values]
    if unknown:
        sys.stderr.write(f"ERROR: unrecognized argument: '{unknown[0]}'\n{usage_of('version')}")
        return 1
    lines = [read_values[word]() for word in argv] or [CONDOR_VERSION, condor_platform()]
    print("\n".join(lines))
    return 0
