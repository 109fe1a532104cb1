"""Golden: a job's inputs come from an access point on another machine, and its outputs return, byte for byte."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from poolbook.adapters.machine.execution.activation import SKIPPED, Chirp, Exited, Failed, Started, Transferring
from poolbook.adapters.machine.execution.supervisor import url_checkpoints
from poolbook.adapters.machine.transfer_plugins import plugins_by_method

from ..execution.bench import wait
from ..execution.test_chirp import Client
from .site import ACTIVATION, Site, tree

LARGE = 50 << 20


def make_inputs(folder: Path) -> None:
    """Create files of all kinds."""
    folder.mkdir()
    (folder / "empty").touch()
    (folder / "a name with blanks").write_bytes(b"blanks")
    (folder / "größe-日本").write_bytes(b"unicode")
    Path(os.fsdecode(os.fsencode(folder) + b"/latin-\xfc")).write_bytes(b"latin 1")
    (folder / "program").write_text("#!/bin/sh\nexit 0\n")
    (folder / "program").chmod(0o755)
    (folder / "deep/er").mkdir(parents=True)
    (folder / "deep/er/random").write_bytes(os.urandom((3 << 20) + 17))
    (folder / "deep").chmod(0o750)
    (folder / "empty folder").mkdir()
    with open(folder / "sparse", "wb") as file:
        file.truncate(LARGE)


def test_files_of_all_kinds_return_byte_for_byte_with_their_permissions(site: Site) -> None:
    make_inputs(site.iwd / "data")
    transfer = {"inputs": ("data",), "outputs": ("copy",)}
    site.start("cp -r --preserve=mode data copy; echo done", transfer=transfer)
    end = site.bench.end("1")
    assert (end.code, end.undelivered, end.failure) == (0, False, None)
    assert tree(site.iwd / "copy") == tree(site.iwd / "data")
    assert (site.iwd / "out").read_text() == "done\n"
    assert sorted(os.listdir(site.iwd)) == ["copy", "data", "out"]
    size = sum(path.stat().st_size for path in (site.iwd / "data").rglob("*") if path.is_file())
    moves = [(move.way, move.listed, move.size, move.failed) for move in end.moves]
    assert moves == [("input", 1, size, False), ("output", 1, size + len("done\n"), False)]


def test_transfers_are_reported_like_those_of_a_local_job(site: Site) -> None:
    (site.iwd / "a").write_text("alpha\n")
    site.start("cat a; echo new > made", transfer={"inputs": ("a",)})
    end = site.bench.end("1")
    (started,) = site.bench.of("1", Started)
    assert [(move.way, move.files, move.size) for move in started.moves] == [("input", 1, 6)]
    assert [(move.way, move.files, move.size) for move in end.moves] == [("input", 1, 6), ("output", 2, 10)]
    assert site.bench.of("1", Transferring)
    assert not (site.bench.folder / "execute/dir_1/scratch/.poolbook-incoming").exists()


OUTPUTS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "new and changed files": ({}, {"made": "new\n", "a": "alpha\nmore\n"}),
    "by name": ({"outputs": ("made",)}, {"made": "new\n"}),
    "a directory's contents": ({"outputs": ("d/",)}, {"in": "in\n", "e/deep": "deep\n"}),
    "with its path": ({"outputs": ("d/e/deep",), "preserve": True}, {"d/e/deep": "deep\n"}),
    "another name": ({"outputs": ("made",), "remaps": {"made": "x/y"}}, {"x/y": "new\n"}),
    "a directory's other name": (
        {"outputs": ("d",), "remaps": {"d": "x", "d/e": "y"}},
        {"x/in": "in\n", "y/deep": "deep\n"},
    ),
    "a device": ({"outputs": ("made",), "remaps": {"made": "/dev/null"}}, {}),
    "none": ({"outputs": ()}, {}),
}


@pytest.mark.parametrize("case", OUTPUTS)
def test_outputs_go_where_the_job_says(site: Site, case: str) -> None:
    fields, expected = OUTPUTS[case]
    (site.iwd / "a").write_text("alpha\n")
    script = "echo new > made; echo more >> a; mkdir -p d/e; echo in > d/in; echo deep > d/e/deep"
    site.start(script, transfer={"inputs": ("a",), **fields})
    assert site.bench.end("1").undelivered is False
    contents = {str(path.relative_to(site.iwd)): path.read_text() for path in site.iwd.rglob("*") if path.is_file()}
    assert contents == {"a": "alpha\n", "out": "", **expected}


def test_streams_return_even_if_the_job_streams_them(site: Site) -> None:
    (site.iwd / "in").write_text("from the access point\n")
    transfer = {"brought": ("stdin", "stdout"), "streamed": ("stderr",), "remaps": {"err": "x/wrong"}}
    site.start("cat; echo wrong >&2", stdin="in", stderr="err", transfer=transfer)
    assert site.bench.end("1").undelivered is False
    assert (site.iwd / "out").read_text() == "from the access point\n"
    assert (site.iwd / "x/wrong").read_text() == "wrong\n"


def test_files_of_an_evicted_job_are_kept_at_the_access_point_for_its_next_run(site: Site) -> None:
    spool = str(site.folder / "spool/1/0/cluster1.proc0.subproc0")
    script = (
        "n=$(cat state 2>/dev/null || echo 0); echo from $n; echo $((n+1)) > state; mkdir -p d; echo $n > d/n;"
        " test $n = 1 && exit 0; trap 'exit 9' TERM; touch ready; while :; do sleep 0.01; done"
    )
    transfer = {"spool": spool, "on_evict": True, "outputs": ("state", "d")}
    site.start(script, transfer=transfer)
    wait(lambda: (site.bench.folder / "execute/dir_1/scratch/ready").exists())
    site.bench.supervisor.signal("1", "soft")
    end: Exited = site.bench.end("1")
    assert (end.code, end.undelivered, end.failure, end.moves[-1].kept) == (9, False, None, True)
    assert sorted(os.listdir(spool)) == [".poolbook-kept", "_condor_stdout", "d", "state"]
    site.start(script, key="2", activation="8", transfer=transfer)
    assert site.bench.end("2").code == 0
    assert ((site.iwd / "out").read_text(), (site.iwd / "state").read_text()) == ("from 1\n", "2\n")


def test_checkpoints_are_kept_at_the_access_point_and_the_job_continues(site: Site) -> None:
    spool = str(site.folder / "spool/cluster1.proc0.subproc0")
    script = "echo >> steps; test $(wc -l < steps) -ge 3 || exit 85"
    transfer = {"spool": spool, "checkpoint": {"code": 85}, "checkpoint_files": ("steps",)}
    site.start(script, transfer=transfer)
    end = site.bench.end("1")
    assert [(move.way, move.number) for move in end.moves if move.way != "input"] == [("checkpoint", 2), ("output", 0)]
    assert ((Path(spool) / "steps").read_text(), (site.iwd / "steps").read_text()) == ("\n\n", "\n\n\n")


def test_missing_inputs_hold_the_job_with_the_access_points_message(site: Site) -> None:
    (site.iwd / "a").touch()
    site.start("true", transfer={"inputs": ("missing", "a", "gone")})
    end: Failed = site.bench.end("1")
    assert end.failure is not None
    assert (end.failure.code, end.failure.errno, end.failure.end) == (13, errno.ENOENT, "sending")
    reason = f"reading from file {site.iwd}/missing: (errno 2) No such file or directory"
    assert end.failure.words == f"2 total failures: first failure: {reason}"


@pytest.mark.parametrize("runs", [False, True])
def test_a_dataflow_job_is_skipped_if_its_outputs_at_the_access_point_are_newer(site: Site, runs: bool) -> None:
    for name, age in (("in", 3), ("made", 9 if runs else 1)):
        (site.iwd / name).write_text("old")
        os.utime(site.iwd / name, (os.stat("/bin/sh").st_mtime + 10 - age,) * 2)
    transfer = {"inputs": ("in",), "outputs": ("made",)}
    site.start("echo new > made", transfer=transfer, dataflow={"inputs": ("in",), "outputs": ("made",)})
    end = site.bench.end("1")
    assert (getattr(end, "part", None), (site.iwd / "made").read_text()) == (
        (None, "new\n") if runs else (SKIPPED, "old")
    )


def test_a_missing_directory_holds_the_job_as_such(site: Site) -> None:
    site.start("true", iwd=str(site.folder / "none"))
    end: Failed = site.bench.end("1")
    assert end.failure is not None and (end.failure.code, end.failure.errno) == (14, errno.ENOENT)


def test_a_missing_output_holds_the_job_and_the_others_return(site: Site) -> None:
    site.start("echo > made", transfer={"outputs": ("missing", "made")})
    end = site.bench.end("1")
    assert end.undelivered and end.failure is not None
    assert (end.failure.code, end.failure.errno, end.failure.end) == (12, errno.ENOENT, "sending")
    assert (site.iwd / "made").exists()


@pytest.mark.parametrize("way", ["input", "output"])
def test_limits_apply_to_the_files_of_a_remote_job(site: Site, way: str) -> None:
    for name in ("one", "two"):
        (site.iwd / name).write_bytes(b"x" * (700 << 10))
    limits = {"max_input_mb": 1} if way == "input" else {"max_output_mb": 1}
    script = "cp one three; cp two four"
    site.start(script, transfer={"inputs": ("one", "two"), "outputs": ("three", "four"), **limits})
    end = site.bench.end("1")
    assert end.failure is not None and end.failure.code == (32 if way == "input" else 33)
    assert "bytes exceeded (max=1 MB, this file=0 MB)" in end.failure.words
    if way == "output":
        assert (site.iwd / "three").exists() and not (site.iwd / "four").exists()


def test_a_remote_jobs_condor_chirp_reaches_no_files_of_this_machine(site: Site) -> None:
    (site.iwd / "a").write_text("alpha\n")
    site.start("touch ready; while test -e ready; do sleep 0.02; done", chirp=Chirp())
    scratch = site.bench.folder / "execute/dir_1/scratch"
    wait(lambda: (scratch / "ready").exists())
    client = Client(scratch / ".chirp.config")
    assert client.say(f"cookie {client.cookie}") == 0
    requests = ("getfile a", f"getfile {site.iwd}/a", "open b wct 384", "mkdir d 448")
    assert [client.say(request) < 0 for request in requests] == [True] * 4
    client.close()
    (scratch / "ready").unlink()
    assert site.bench.end("1").undelivered is False


def test_what_was_received_is_removed_when_the_activation_is_withdrawn(site: Site) -> None:
    site.start("echo > made", transfer={"outputs": ("made",)})
    site.bench.end("1")
    assert [path.name for path in (site.folder / "files/notes").iterdir()] == [ACTIVATION]
    site.offers.withdraw([ACTIVATION])
    wait(lambda: not list((site.folder / "files/notes").iterdir()))
    assert site.offers.find(ACTIVATION) is None


def test_checkpoints_at_a_url_have_their_manifests_at_the_access_point(site: Site) -> None:
    spool, url = site.folder / "spool/1/0/cluster1.proc0.subproc0", f"file://{site.folder}/store/ap_1.0_9"
    script = (
        "n=$(cat state 2>/dev/null || echo 0); echo from $n; echo $((n+1)) > state; mkdir -p d; echo $n > d/n;"
        " test $n = 2 && test ! -e FOLDER/go && { touch FOLDER/ready; sleep 1000; }; test $n -ge 4 || exit 85"
    ).replace("FOLDER", str(site.folder))
    transfer = {
        "spool": str(spool), "checkpoint": {"code": 85}, "checkpoint_files": ("state", "d"), "outputs": ("state",),
        "appends": True, "checkpoint_url": url, "plugins": plugins_by_method(), "plugin_seconds": 100,
    }  # fmt: skip
    site.start(script, transfer=transfer)
    wait(lambda: (site.folder / "ready").exists())
    site.bench.supervisor.signal("1", "hard")
    site.bench.end("1")
    checkpoint = site.folder / "store/ap_1.0_9/0001"
    assert sorted(tree(checkpoint)) == ["_condor_stdout", "d", "d/n", "state"]
    manifests = ["_condor_checkpoint_MANIFEST.0000", "_condor_checkpoint_MANIFEST.0001"]
    assert sorted(os.listdir(spool)) == [".poolbook-kept", *manifests]
    (checkpoint / "state").write_text("3\n")
    (site.folder / "go").touch()
    site.start(script, key="2", activation="8", transfer=transfer)
    end: Failed = site.bench.end("2")
    assert end.failure is not None and (end.failure.code, end.failure.errno) == (13, url_checkpoints.INVALID)
    assert os.listdir(f"{spool}.cleanup") == ["_condor_checkpoint_FAILURE.0001"]
    site.start(script, key="3", activation="9", transfer={**transfer, "checkpoint_number": 1})
    assert site.bench.end("3").code == 0
    assert (site.iwd / "out").read_text() == "".join(f"from {n}\n" for n in range(5))
    assert sorted(path.name for path in checkpoint.parent.iterdir()) == ["0000", "0001", "0002", "0003", "0004"]
    kept = ["_condor_checkpoint_MANIFEST.0003", "_condor_checkpoint_MANIFEST.0004"]
    assert sorted(os.listdir(spool)) == [".poolbook-kept", *kept]
