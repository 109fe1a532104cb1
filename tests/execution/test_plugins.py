"""golden: files that file transfer plugins move: the requests to a plugin, and the state of a job whose plugin fails.
The codes and messages of failures are the same as in HTCondor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from poolbook.adapters.machine.execution.activation import Exited, Failed, FileTransfer, Lost, Transferring
from poolbook.adapters.machine.execution.client import Supervisor

from .bench import Bench, runs, wait

PLUGIN = """#!/bin/sh
# Moves own://... as its path says: fail, silent, mute, killed, hang, waits. What it was asked comes into "asked".
while test $# -gt 0; do
  case $1 in -infile) in=$2; shift;; -outfile) out=$2; shift;; -upload) up=-upload;; esac; shift
done
echo "$(cat $in) $up" >> HOME/asked
answer=
for url in $(grep -o '[a-z+]*own://[^"]*' $in); do
  file=$(grep -o "$url\\"; LocalFileName = \\"[^\\"]*" $in | sed 's/.*"//')
  good=true
  case $url in
    *fail*) good=false;;
    *killed*) kill -9 $$;;
    *mute*) exit 3;;
    *hang*) sleep 600 & echo $! > HOME/hangs; wait;;
    *waits*) touch HOME/waits; while ! test -e HOME/go; do sleep 0.01; done; echo "of $url" > $file;;
    *silent*) continue;;
    *) test "$up" && cp $file HOME/uploaded-$(basename $url) || echo "of $url" > $file;;
  esac
  answer="$answer[ TransferSuccess = $good; TransferUrl = \\"$url\\"; TransferFileName = \\"$file\\";
    TransferError = \\"none of \\\\\\"these\\\\\\"\\"; TransferProtocol = \\"own\\"; DeveloperData = [ a = {1; 2} ];
    TransferTotalBytes = 17 ] "
done
printf '%s' "$answer" > $out
case $answer in *'= false'*) exit 7;; *) exit CODE;; esac
"""


@pytest.fixture
def iwd(bench: Bench) -> Path:
    """Return a submission's directory, with a plugin that the job transfers."""
    folder = bench.home / "iwd"
    folder.mkdir()
    for name, code in (("plugin.sh", "0"), ("unhappy.sh", "5")):
        (folder / name).write_text(PLUGIN.replace("HOME", str(bench.home)).replace("CODE", code))
        (folder / name).chmod(0o700)
    (folder / "none.sh").write_text("no program\n")
    return folder


def failure_of(end: Exited | Failed) -> tuple[int, int, str, str, str]:
    """Return code and subcode of a failure, the protocol, the end and the message."""
    assert end.failure is not None
    return end.failure.code, end.failure.errno, end.failure.protocol, end.failure.end, end.failure.words


def start(bench: Bench, iwd: Path, script: str, *inputs: str, plugin: str = "plugin.sh", **fields: Any) -> None:
    """Start a shell script as a job that transfers a plugin for own: URLs."""
    transfer_fields = {"executable": False, "brought": ("stdout",), "plugin_seconds": 60, "plugins": {"own": (plugin,)}}
    transfer = FileTransfer(inputs=(plugin, *inputs), **{**transfer_fields, **fields})
    bench.sh("1", script, iwd=str(iwd), stdout="out", transfer=transfer)


def test_a_plugin_is_called_once_for_all_inputs_of_its_schemes(bench: Bench, iwd: Path) -> None:
    (iwd / "a").write_text("alpha\n")
    start(bench, iwd, "cat x y; ls -A | grep plugin", "own://a/b/x", "a", "chtc+own://c/y?with=/query")
    end = bench.end("1")
    scratch = bench.folder / "execute/dir_1/scratch"
    assert (iwd / "out").read_text() == "of own://a/b/x\nof chtc+own://c/y?with=/query\nplugin.sh\n"
    assert (bench.home / "asked").read_text() == (
        f'[ Url = "own://a/b/x"; LocalFileName = "{scratch}/x" ]'
        f'[ Url = "chtc+own://c/y?with=/query"; LocalFileName = "{scratch}/y" ] \n'
    )
    assert end.moves[0].urls == (("own", 2, 2, 34),) and (end.moves[0].listed, end.moves[0].files) == (2, 2)


def test_standard_input_may_be_a_url(bench: Bench, iwd: Path) -> None:
    transfer = FileTransfer(
        executable=False, brought=("stdin", "stdout"), inputs=("plugin.sh",), plugins={"own": ("plugin.sh",)},
        plugin_seconds=60,
    )  # fmt: skip
    bench.sh("1", "cat", iwd=str(iwd), stdin="own://a/b", stdout="out", transfer=transfer)
    assert bench.end("1").code == 0
    assert (iwd / "out").read_text() == "of own://a/b\n"


GARBAGE = r"""#!/usr/bin/python3
import re, sys
requests = open(sys.argv[sys.argv.index("-infile") + 1])
results = open(sys.argv[sys.argv.index("-outfile") + 1], "wb")
urls = re.findall(r'Url = "([^"]*)"; LocalFileName = "([^"]*)"', requests.read())
for number, (url, path) in enumerate(urls):
    open(path, "w").close()
    protocol = ["x" * 1000, "\\xff", "a b = 1; c", f"p{number}"][min(number, 3)]
    size = ["1e999", "9" * 4000, "-5", "nan", "true", "{1"][number % 6]
    ad = f'[ TransferSuccess = true; TransferUrl = "{url}"; TransferProtocol = "{protocol}";'
    results.write(f"{ad} TransferTotalBytes = {size} ]".encode("latin-1", "replace"))
"""


def test_a_plugins_output_affects_only_its_job(bench: Bench, iwd: Path) -> None:
    """An unreadable result must not delay the ends of the supervisor's other jobs."""
    (iwd / "garbage").write_text(GARBAGE)
    (iwd / "garbage").chmod(0o755)
    urls = [f"own://{number}" for number in range(2000)]
    start(bench, iwd, "ls | wc -l", *urls, plugin="garbage")
    bench.sh("2", "exit 3")
    assert bench.end("2").code == 3
    end = bench.end("1")
    sizes = [size for _, _, _, size in end.moves[0].urls]
    assert len(sizes) <= 51 and min(sizes) >= 0 and max(sizes) < 1 << 63


def test_the_first_of_many_schemes_without_a_plugin_is_reported(bench: Bench, iwd: Path) -> None:
    start(bench, iwd, "true", *(f"own.a{number}{'x' * 200}://x" for number in range(3000)))
    assert bench.end("1").failure.errno == -1001


MAKES = "echo said; echo made > a; mkdir d; echo deep > d/b"
DESTINATIONS: dict[str, tuple[dict[str, Any], list[str], set[str]]] = {
    # how outputs are named, the URLs that the plugin is asked for, and the files in the job's directory
    "below a URL": (
        {"outputs": ("a", "d"), "destination": "own://host/dest"},
        ["own://host/dest/a", "own://host/dest/d/b"],
        set(),
    ),
    "by name": ({"outputs": ("a", "d/b"), "remaps": {"a": "own://host/x"}}, ["own://host/x"], {"b"}),
    "a directory": ({"outputs": ("a", "d"), "remaps": {"d": "own://host/y"}}, ["own://host/y/b"], {"a"}),
}


@pytest.mark.parametrize("case", DESTINATIONS)
def test_outputs_go_to_urls(bench: Bench, iwd: Path, case: str) -> None:
    fields, urls, expected_files = DESTINATIONS[case]
    before = {path.name for path in iwd.iterdir()}
    start(bench, iwd, MAKES, **fields)
    end = bench.end("1")
    requests = (bench.home / "asked").read_text()
    assert [url for url in urls if f'Url = "{url}"' not in requests] == [] and requests.count("Url") == len(urls)
    assert "-upload" in requests and end.moves[-1].urls == (("own", len(urls), len(urls), 17 * len(urls)),)
    assert {path.name for path in iwd.iterdir()} == before | expected_files | {"out"}
    assert all((bench.home / f"uploaded-{Path(url).name}").exists() for url in urls)


FAILURES: dict[str, tuple[str, str, int, str, str]] = {
    # the URL, the plugin, the subcode, the protocol, and the message
    "that it tells": ("own://fail", "plugin.sh", 7 << 8, "own", 'none of "these" ( URL file = own://fail )'),
    "killed": (
        "own://killed",
        "plugin.sh",
        9,
        "",
        "plugin plugin.sh exited (signal 9), no valid classads in",
    ),
    "without a word": ("own://mute", "plugin.sh", -1004, "", "plugin.sh exited (exit code 3), no valid classads in"),
    "in the end": ("own://good", "unhappy.sh", 5 << 8, "", "unhappy.sh failed unexpectedly with exit code 5, did not"),
    "of one of two": (
        "own://x,own://silent",
        "plugin.sh",
        0,
        "own",
        "without producing a TransferSuccess result (own://s",
    ),
    "no program": ("own://x", "none.sh", -1003, "", "FILETRANSFER: Failed to execute none.sh: Permission denied"),
    "no plugin": ("else://x", "plugin.sh", -1001, "else", "FILETRANSFER: plugin for type else not found!"),
    "a hang": ("own://hang", "plugin.sh", 62, "", "plugin.sh exited (exit code 62), no valid classads in output"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_failing_plugin_is_reported_and_the_job_does_not_start(bench: Bench, iwd: Path, case: str) -> None:
    urls, plugin, subcode, protocol, message = FAILURES[case]
    seconds = 3 if case == "a hang" else 60
    start(bench, iwd, "echo ran > made", *urls.split(","), plugin=plugin, plugin_seconds=seconds)
    end = bench.end("1")
    assert isinstance(end, Failed) and not (iwd / "made").exists()
    *which, problem = failure_of(end)
    assert which == [13, subcode, protocol, "receiving"] and message in problem
    if case == "a hang":
        wait(lambda: not runs(int((bench.home / "hangs").read_text())))


def test_no_plugin_is_called_if_an_input_is_missing(bench: Bench, iwd: Path) -> None:
    start(bench, iwd, "true", "own://x", "gone")
    end = bench.end("1")
    assert failure_of(end)[:4] == (13, 2, "", "sending") and not (bench.home / "asked").exists()


def test_outputs_without_a_url_come_back_to_the_directory(bench: Bench, iwd: Path) -> None:
    remaps = {"a": "own://host/fail", "b": "own://host/b"}
    start(bench, iwd, "echo 1 > a; echo 2 > b; echo 3 > c", remaps=remaps)
    end = bench.end("1")
    assert isinstance(end, Exited) and end.undelivered is True and end.code == 0
    assert failure_of(end)[:4] == (12, 7 << 8, "own", "sending")
    assert (iwd / "c").read_text() == "3\n" and (bench.home / "uploaded-b").exists() and not (iwd / "a").exists()
    assert not list(iwd.glob(".poolbook-*"))


@pytest.mark.parametrize("how", ["hold", "remove", "hard", "supervisor"])
@pytest.mark.parametrize("way", ["input", "output"])
def test_a_job_that_is_ended_while_a_plugin_runs_ends_immediately_with_the_plugin(
    bench: Bench, iwd: Path, how: Any, way: str
) -> None:
    before = {path.name for path in iwd.iterdir()}
    if way == "input":
        start(bench, iwd, "echo ran > made", "own://hang")
    else:
        start(bench, iwd, "echo 1 > a; echo 2 > c", remaps={"a": "own://hang"})
    hangs = int(bench.file("hangs"))
    if how == "supervisor":
        bench.kill_supervisor()
    else:
        bench.supervisor.signal("1", how)
    end = bench.end("1")
    assert isinstance(end, Lost if how == "supervisor" else Exited) and not runs(hangs)
    bench.supervisor.acknowledge(["1"])
    bench.until(lambda: not list(iwd.glob(".poolbook-*")))
    assert {path.name for path in iwd.iterdir()} == before
    assert isinstance(end, Lost) or (end.moves[-1].way, end.moves[-1].ended) == (way, 0)


def test_a_plugin_continues_when_the_pool_is_killed_and_the_next_pool_gets_its_report(bench: Bench, iwd: Path) -> None:
    start(bench, iwd, "cat waits", "own://waits")
    wait(lambda: (bench.home / "waits").exists())
    with Supervisor(bench.folder) as later:  # the next pool's handle: the first one's is useless now
        assert isinstance(later.recover(["1"])["1"], Transferring)
        (bench.home / "go").touch()
        ends: list[Exited] = []
        while not ends:
            ends = [report for report in later.poll(10) if isinstance(report, Exited)]
    (end,) = ends
    assert (end.code, end.failure, end.undelivered) == (0, None, False)
    assert (iwd / "out").read_text() == "of own://waits\n"
