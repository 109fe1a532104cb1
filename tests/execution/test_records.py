"""Property: a journal returns what was written, wherever it was cut off, and a claim is taken once."""

from __future__ import annotations

import errno
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.adapters.machine.execution.supervisor.records import (
    UNHELD,
    ActivationClaim,
    Claims,
    Journal,
    claimed_keys,
)
from poolbook.adapters.machine.execution.supervisor.scratch import Scratch

FIXED = settings(max_examples=25, derandomize=True, deadline=None, database=None)

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
BATCHES = st.lists(st.lists(st.tuples(st.integers(0, 20), TEXTS), max_size=4), max_size=6)


@FIXED
@given(BATCHES, st.integers(0, 400))
def test_a_journal_cut_anywhere_has_all_records_whose_lines_are_complete(
    batches: list[list[tuple[int, str]]], cut: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/exits"
        Path(path).touch()
        journal = Journal(path, set())
        for batch in batches:
            journal.append({"key": str(key), "why": why} for key, why in batch)
        data = Path(path).read_bytes()[:cut]
        Path(path).write_bytes(data)
        written_records = [(str(key), why) for batch in batches for key, why in batch]
        complete = dict(written_records[: data.count(b"\n")])
        reread_journal = Journal(path, {str(key) for key in range(21)})
        assert {key: record["why"] for key, record in reread_journal.records.items()} == complete


def test_a_last_line_without_its_newline_was_never_reported_and_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "exits"
    path.write_text('{"key":"1"}\n{"key":"2"}')
    journal = Journal(str(path), {"1", "2", "3"})
    assert journal.records.keys() == {"1"}
    journal.append([{"key": "3"}])
    assert path.read_text() == '{"key":"1"}\n{"key":"3"}\n'


@pytest.mark.parametrize("refuses", ["fdatasync", "fsync"])
def test_a_record_counts_only_when_it_is_on_the_disk_and_so_is_the_journals_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: str
) -> None:
    journal = Journal(str(tmp_path / "exits"), set())

    def failing(descriptor: int) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    with monkeypatch.context() as patched:
        patched.setattr(os, refuses, failing)
        with pytest.raises(OSError, match="the disk is gone"):
            journal.append([{"key": "1", "why": "x"}])
    assert journal.records == {}
    journal.append([{"key": "1", "why": "x"}])
    assert Journal(str(tmp_path / "exits"), {"1"}).records.keys() == {"1"}


def test_a_journal_forgets_what_is_acknowledged_and_shrinks(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "exits"), set())
    for number in range(6):
        journal.append([{"key": str(number), "why": "x" * 1_000_000}])
    journal.drop_records([str(number) for number in range(5)])
    assert (tmp_path / "exits").stat().st_size < 1_100_000
    journal.append([{"key": "new", "why": ""}])
    assert Journal(str(tmp_path / "exits"), {"5", "new", "gone"}).records.keys() == {"5", "new"}


def test_a_line_that_is_not_a_record_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "exits").write_text('{"key":"1"}\n\x00\x00\n[]\n{"key":2}\n{"key":"3"}\n')
    assert Journal(str(tmp_path / "exits"), {"1", "2", "3"}).records.keys() == {"1", "3"}


CLAIM = ActivationClaim(12, 3456, 78, "01234567-89ab-cdef-0123-456789abcdef", 1795259432648753)


@FIXED
@given(st.lists(st.tuples(st.sampled_from(["take", "hold", "release", "open"]), st.sampled_from("abc")), max_size=20))
def test_a_claim_is_taken_once_until_it_is_released(steps: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        claims = Claims(folder)
        expected: dict[str, ActivationClaim] = {}
        for step, key in steps:
            if step == "open":
                claims = Claims(folder)
            elif step == "release":
                claims.release_claim(key)
                expected.pop(key, None)
            elif step == "hold":
                claims.write_holder(key, CLAIM)
                expected.update({key: CLAIM} if key in expected else {})
            elif key in expected:
                with pytest.raises(FileExistsError):
                    claims.claim_activation(key)
            else:
                claims.claim_activation(key)
                expected[key] = UNHELD
            assert claims.by_key == expected == Claims(folder).by_key
            assert claimed_keys(folder) == expected.keys()


@pytest.mark.parametrize("written", [0, 1, 100, 200, 511, 512])
def test_a_claim_whose_write_failed_leaves_nothing_after_its_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    """A full disk can take any part of a line, or all of it, before the write fails."""
    claims, write = Claims(str(tmp_path)), os.pwrite
    claims.claim_activation("old")
    claims.release_claim("old")

    def write_a_part(descriptor: int, data: bytes, place: int) -> int:
        write(descriptor, data[:written], place)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", write_a_part)
        with pytest.raises(OSError):
            claims.claim_activation("new")
    assert claims.by_key == {} and "old" not in claimed_keys(str(tmp_path))
    claims.claim_activation("new")
    assert claimed_keys(str(tmp_path)) == {"new"}
    claims.release_claim("new")
    assert claimed_keys(str(tmp_path)) == set()


@pytest.mark.parametrize("written", [0, 512])
def test_a_claim_whose_write_failed_is_released_without_another_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    claims, write = Claims(str(tmp_path)), os.pwrite

    def write_a_part(descriptor: int, data: bytes, place: int) -> int:
        write(descriptor, data[:written], place)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", write_a_part)
        with pytest.raises(OSError):
            claims.claim_activation("new")
    claims.release_claim("new")
    assert claimed_keys(str(tmp_path)) == set()
    claims.claim_activation("next")
    assert (tmp_path / "claims.table").stat().st_size == 512  # the place is used again


def test_a_claim_that_a_power_cut_brought_back_is_released_once(tmp_path: Path) -> None:
    claims = Claims(str(tmp_path))
    claims.claim_activation("a")
    line = (tmp_path / "claims.table").read_bytes()
    (tmp_path / "claims.table").write_bytes(line + line)
    claims = Claims(str(tmp_path))
    claims.release_claim("a")
    assert claimed_keys(str(tmp_path)) == set()


@pytest.mark.parametrize("longest_key", ["a" * 200])
def test_the_files_of_claims_of_an_earlier_version_are_read_until_they_are_released(
    tmp_path: Path, longest_key: str
) -> None:
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims/1").write_text("12,3456,78,01234567-89ab-cdef-0123-456789abcdef,1795259432648753\n")
    (tmp_path / "claims/2").write_text("of another version\n")
    claims = Claims(str(tmp_path))
    assert claims.by_key == {"1": CLAIM, "2": UNHELD}
    with pytest.raises(FileExistsError):
        claims.claim_activation("1")
    claims.claim_activation(longest_key)
    assert claimed_keys(str(tmp_path)) == {"1", "2", longest_key}
    claims.release_claim("1")
    assert Claims(str(tmp_path)).by_key == {"2": UNHELD, longest_key: UNHELD}


def test_a_claim_whose_line_is_incomplete_was_never_taken(tmp_path: Path) -> None:
    claims = Claims(str(tmp_path))
    for key in "ab":
        claims.claim_activation(key)
    os.truncate(tmp_path / "claims.table", (tmp_path / "claims.table").stat().st_size - 1)
    claims = Claims(str(tmp_path))
    assert claims.by_key == {"a": UNHELD}
    for key in "bc":
        claims.claim_activation(key)
    assert Claims(str(tmp_path)).by_key == dict.fromkeys("abc", UNHELD)


OPEN_TO_ALL = """
import os, struct
entries = [(1, 7, -1), (4, 7, -1), (32, 7, -1)]  # its user, group and all others: acl(5)
data = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
os.setxattr(".", "system.posix_acl_default", data)
"""
"""Have what is made in a directory from now on be anybody's to change."""


@pytest.mark.parametrize(
    ("change", "is_recorded"),
    [
        ("true", True),
        ("touch left; touch -d @1 left .", True),
        ("chmod 600 .job.ad", False),
        ("chmod 755 .", False),
        ("rm .job.ad", False),
        ("rm .job.ad; ln -s /etc/passwd .job.ad", False),
        ("ln .job.ad ../../hard", False),
        ("touch left .hidden; mkfifo fifo; ln -s / link; mkdir -p d/e; touch d/e/f; chmod 0 d/e", True),
        ("mkdir ../other; touch ../catalog", True),
        (f"{sys.executable} -c {shlex.quote(OPEN_TO_ALL)}", False),
        ("for i in $(seq 200); do touch a-file-with-a-name-that-is-rather-long-$i; done", False),
        ("cd ..; rm -r scratch; ln -s ../../theirs scratch", False),
        ("cd ..; rm -r scratch; mkdir -m 700 scratch", False),
    ],
)
def test_only_an_unchanged_scratch_directory_is_used_again(tmp_path: Path, change: str, is_recorded: bool) -> None:
    target = tmp_path / "theirs/dear"
    target.mkdir(parents=True)
    scratch = Scratch(str(tmp_path / "execute"), str(tmp_path / "elsewhere"))
    scratch_folder = scratch.make("1", "an ad that is long", "")
    inode = Path(scratch_folder).stat().st_ino
    subprocess.run(["/bin/sh", "-c", change], cwd=scratch_folder, check=True)
    for _ in scratch.discard("1"):
        pass
    assert (tmp_path / "execute" / "dir_1").exists() == is_recorded
    second = Path(scratch.make("2", "ad", "machine"))
    assert {path.name: path.read_text() for path in second.iterdir()} == {".job.ad": "ad", ".machine.ad": "machine"}
    assert [path.name for path in second.parent.iterdir()] == ["scratch"] and target.exists()
    if is_recorded:
        assert second.stat().st_ino == inode


def test_scratch_directories_are_spread_on_a_disk_that_supports_it(tmp_path: Path) -> None:
    """A directory has the flag T of chattr(1) if it was set by hand, on any file system."""
    by_hand = tmp_path / "by-hand"
    by_hand.mkdir()
    subprocess.run(["chattr", "+T", str(by_hand)], capture_output=True, check=False)
    Scratch(f"{tmp_path}/execute", f"{tmp_path}/elsewhere")
    attributes = [subprocess.run(["lsattr", "-d", str(path)], capture_output=True, text=True).stdout.partition(" ")[0]
            for path in (by_hand, tmp_path / "execute")]  # fmt: skip
    assert attributes[0] == attributes[1]
