"""Unit and property: which lines a configuration writes, the rotation of logs, and that each line is written exactly
once however often the writer is killed. Real: a served pool writes its logs, and an import finds them sound."""

from __future__ import annotations

import os
import re
import signal
import sys
from datetime import UTC
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from poolbook.adapters.runtime.daemon_logs.fold import DAEMONS, LogName
from poolbook.adapters.runtime.daemon_logs.writer import DaemonLogError, DaemonLogWriter
from poolbook.domain.config import ConfigError
from poolbook.domain.events import Event

from ..play.test_transcripts import play_transcript
from ..pool.conftest import folder as folder
from ..pool.real import Folder
from ..together import together
from .written import configured

ROTATION = re.compile(r".* (?:MaxLog = \d+ (?:bytes|sec), length = \d+|Saving log file to .*|Now in new log file .*)\n")
STAMP = r"\.\d{8}T\d{6}$"
LINE = "slot1: Changing state: Owner -> Unclaimed"


@cache
def story() -> list[tuple[int, Event]]:
    """Return the log of a pool with drained and preempted jobs."""
    return list(play_transcript("drain", "htcondor-25")[0].log.read())


def writer_for(folder: Path, text: str, warnings: list[str] | None = None) -> DaemonLogWriter:
    log_settings = configured(f"LOG = {folder}/log\n{text}")
    assert log_settings is not None
    warn = warnings.append if warnings is not None else print
    return DaemonLogWriter(log_settings, folder / "checkpoint", warn, UTC)


def written(folder: Path, text: str) -> dict[str, str]:
    """Return the logs that this configuration writes of the story, by name."""
    writer_for(folder, text).start(story())
    return {path.name: path.read_text() for path in (folder / "log").rglob("*Log*")}


def startd_lines(folder: Path, text: str) -> list[str]:
    written(folder, text)
    (path,) = (folder / "log").rglob("StartLog")
    return path.read_text().splitlines()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", f"11/02/26 08:00:00 {LINE}"),
        ("STARTD_DEBUG = D_CAT", f"11/02/26 08:00:00 (D_ALWAYS) {LINE}"),
        ("DEFAULT_DEBUG = D_PID", f"11/02/26 08:00:00 (pid:1) {LINE}"),
        ("ALL_DEBUG = D_SUB_SECOND", f"11/02/26 08:00:00.000 {LINE}"),
        ("LOGS_USE_TIMESTAMP = True", f"1793606400 {LINE}"),
        ("DEBUG_TIME_FORMAT = %H.%M.%S", f"08.00.00 {LINE}"),
        ("SCHEDD_DEBUG = D_CAT", f"11/02/26 08:00:00 {LINE}"),
    ],
)
def test_the_flags_of_a_daemon_add_fields_to_its_lines(text: str, line: str, tmp_path: Path) -> None:
    assert line in startd_lines(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "policy", "verbose"),
    [
        ("", True, False),
        ("STARTD_DEBUG = D_FULLDEBUG", True, True),
        ("STARTD_DEBUG = D_ALWAYS:2", True, True),
        ("STARTD_DEBUG = D_FULLDEBUG -D_STATUS", True, True),
        ("STARTD_DEBUG = D_ALL", True, False),
        ("STARTD_DEBUG = D_ALL:2", True, True),
    ],
)
def test_categories_choose_lines(text: str, policy: bool, verbose: bool, tmp_path: Path) -> None:
    lines = "\n".join(startd_lines(tmp_path, text))
    assert ("eval_policy state" in lines, "Received ClaimId from schedd" in lines) == (policy, verbose)


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        ("", []),
        ("STARTD_DEBUG = D_FULLDEBUG D_CAT", []),
        ("STARTD_DEBUG = D_LOAD", ["STARTD_DEBUG: D_LOAD has no effect, because no line of the logs has it"]),
    ],
)
def test_categories_without_lines_are_reported(text: str, warnings: list[str]) -> None:
    log_settings = configured(f"LOG = /tmp/log\n{text}")
    assert log_settings is not None
    assert log_settings.warnings == warnings


def test_no_logs_are_written_without_a_path() -> None:
    assert configured("MAX_SCHEDD_LOG = 1 Mb") is None


def test_the_path_of_one_log_writes_only_this_log(tmp_path: Path) -> None:
    log_settings = configured(f"SCHEDD_LOG = {tmp_path}/of-the-schedd")
    assert log_settings is not None
    DaemonLogWriter(log_settings, zone=UTC).write(story())
    assert os.listdir(tmp_path) == ["of-the-schedd"]


@together(
    ("text", "paths"),
    [
        ("LOG = /log", {"DEFRAG2": ["/log/Defrag2Log"], "DEFRAG_GPU": ["/log/DefragGpuLog"]}),
        (
            "LOG = /log\nDEFRAG_LOG = /a\nDEFRAG2.DEFRAG_LOG = /b",
            {"": ["/a"], "DEFRAG2": ["/b"], "DEFRAG_GPU": ["/log/DefragGpuLog"]},
        ),
        ("LOG = /log\nDEFRAG2_ARGS = -local-name gpus", {"DEFRAG2": ["/log/GpusLog"]}),
        ("LOG = /log\nDEFRAG2_ARGS = -local-name gpus\ngpus.DEFRAG_LOG = /b", {"DEFRAG2": ["/b"]}),
        ("DEFRAG2.DEFRAG_LOG = /b", {"": [], "DEFRAG2": ["/b"], "DEFRAG_GPU": []}),
        ("LOG = /log", {"DEFRAG_REMOVED": ["/log/DefragRemovedLog"]}),
    ],
)
def test_each_policy_of_the_defragmentation_has_its_own_log(text: str, paths: dict[str, list[str]]) -> None:
    log_settings = configured(f"DAEMON_LIST = $(DAEMON_LIST) DEFRAG DEFRAG2 DEFRAG_GPU\n{text}")
    assert log_settings is not None
    logs = {daemon: log_settings.files_of(LogName("DEFRAG", local=daemon)) for daemon in paths}
    assert {daemon: [file.path for file in files] for daemon, files in logs.items()} == paths


def test_a_further_negotiator_has_its_own_log_flags_and_size_and_shares_the_match_log() -> None:
    log_settings = configured(
        "LOG = /log\nDAEMON_LIST = $(DAEMON_LIST) NEGOTIATOR_GPU\nNEGOTIATOR_GPU.NEGOTIATOR_LOG = /gpu\n"
        "NEGOTIATOR_GPU.NEGOTIATOR_DEBUG = D_PID\nNEGOTIATOR_GPU.MAX_NEGOTIATOR_LOG = 7 B"
    )
    assert log_settings is not None
    own, matches = log_settings.files_of(LogName("NEGOTIATOR", local="NEGOTIATOR_GPU"))
    assert (own.path, own.largest, own.flags.headers) == ("/gpu", 7, frozenset({"D_PID"}))
    assert matches.path == "/log/MatchLog"


@pytest.mark.parametrize("value", ["-1", "10 parsecs", "much"])
def test_sizes_that_are_none_are_rejected(value: str) -> None:
    with pytest.raises(ConfigError, match=f"MAX_SCHEDD_LOG: {value} is not a size or duration"):
        configured(f"LOG = /tmp/log\nMAX_SCHEDD_LOG = {value}")


@pytest.mark.parametrize("limit", ["100 B", "1 Kb", "10 min"])
def test_rotated_logs_have_the_lines_of_one_log(limit: str, tmp_path: Path) -> None:
    whole = written(tmp_path / "whole", "MAX_DEFAULT_LOG = 0")
    parts = written(tmp_path / "parts", f"MAX_SCHEDD_LOG = {limit}\nMAX_NUM_SCHEDD_LOG = 1000")
    assert lines_of(parts) == lines_of(whole)
    assert len(parts) > len(whole) + 1


@pytest.mark.parametrize(("number", "files"), [(1, 2), (2, 3), (3, 4)])
def test_the_oldest_logs_are_deleted(number: int, files: int, tmp_path: Path) -> None:
    logs = written(tmp_path, f"MAX_SCHEDD_LOG = 1 Kb\nMAX_NUM_SCHEDD_LOG = {number}")
    names = [name for name in logs if name.startswith("SchedLog")]
    assert (len(names), "SchedLog.old" in names) == (files, number == 1)


def write_until_killed(folder: Path, text: str, calls: int) -> None:
    """Write the logs in a child process, which is killed at its call number `calls` that opens, renames, deletes or
    cuts a file of the folder."""
    events = story()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    calls_left = count(calls, -1)

    def kill_at_last_call(event: str, arguments: tuple[object, ...]) -> None:
        is_change = event in ("open", "os.rename", "os.remove", "os.truncate") and str(folder) in str(arguments[0])
        if is_change and next(calls_left) == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(kill_at_last_call)
    writer_for(folder, text).start(events)
    os._exit(0)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=5), st.sampled_from(["0", "300 B", "1 Kb"]))
@example([14, 3, 1], "300 B")
def test_a_writer_that_is_killed_at_any_call_writes_each_line_once(kills: list[int], limit: str) -> None:
    text = f"MAX_DEFAULT_LOG = {limit}\n" + "".join(f"MAX_NUM_{daemon}_LOG = 1000\n" for daemon in DAEMONS)
    with TemporaryDirectory() as whole, TemporaryDirectory() as killed:
        for kill in kills:
            write_until_killed(Path(killed), text, kill)
        assert lines_of(written(Path(killed), text)) == lines_of(written(Path(whole), text))


def lines_of(logs: dict[str, str]) -> dict[str, str]:
    """Return the lines of each log, in the order of their writing, without those about rotation."""
    lines: dict[str, list[str]] = {}
    for name in sorted(logs, key=lambda name: (re.sub(STAMP, "", name), not re.search(STAMP, name), name)):
        lines.setdefault(re.sub(STAMP, "", name), []).extend(logs[name].splitlines(keepends=True))
    return {name: "".join(line for line in of_log if not ROTATION.fullmatch(line)) for name, of_log in lines.items()}


def test_a_file_of_another_program_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    other = tmp_path / "log" / "SchedLog"
    other.write_text("of HTCondor\n")
    warnings: list[str] = []
    writer_for(tmp_path, "", warnings).start(story())
    assert other.read_text() == "of HTCondor\n"
    assert warnings == [
        f"{other} is not written: another program wrote it, and a log has the lines of one pool; move it, or set LOG "
        "to another directory"
    ]


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a file")
    with pytest.raises(DaemonLogError, match=r"Log cannot be written: .*; make LOG a directory that this"):
        writer_for(tmp_path, "").start(story())


def test_a_log_is_emptied_when_the_pool_starts_if_configured(tmp_path: Path) -> None:
    writer_for(tmp_path, "TRUNC_SCHEDD_LOG_ON_OPEN = True").start(story()[:-200])
    first = (tmp_path / "log" / "SchedLog").read_text()
    logs = written(tmp_path, "TRUNC_SCHEDD_LOG_ON_OPEN = True")
    assert first and not logs["SchedLog"].startswith(first[:100])


def test_a_served_pool_writes_its_logs_and_the_audit_finds_them_sound(folder: Folder) -> None:
    folder.write("pool.conf", f"LOG = {folder.path}/logs\nNUM_CPUS = 1\n")
    folder.write("job.sub", "executable = /bin/sh\narguments = -c 'exit 3'\nqueue 2\n")
    with folder.served("-config", "pool.conf"):
        folder.call("submit", "job.sub")
        sched_log = folder.path / "logs" / "SchedLog"
        folder.wait_for(lambda: sched_log.exists() and sched_log.read_text().count("exited with status 100") == 2)
    folder.call("export", "daemon-logs", "exported")
    written_names = {path.name for path in (folder.path / "logs").iterdir()}
    assert written_names == {path.name for path in (folder.path / "exported").iterdir()}
    for name in written_names:
        assert (folder.path / "logs" / name).read_text() == (folder.path / "exported" / name).read_text()
    folder.call("import", "logs", "-log", "imported.db")
    folder.call("audit", "-log", "imported.db")
