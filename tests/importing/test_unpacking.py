"""Property: no more of a compressed file is read than its size or the setting allows; progress counts the files' own
bytes, compressed or not."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from poolbook.adapters.condor_files.importing import content
from poolbook.adapters.condor_files.importing.content import (
    head_of,
    length_of,
    open_content,
    read_exactly,
    unpacked_limit,
)
from poolbook.adapters.condor_files.importing.driver import Importer
from poolbook.adapters.stores.opening import open_log

from ..together import together
from .folders import UTC, entry, imported

MB = 1 << 20
COMPRESSIONS = [gzip.compress, bz2.compress, lzma.compress]


@together(
    ("size", "setting", "most"),
    [
        (0, "", 256 * MB),
        (2 * MB, "", 256 * MB),
        (5 * MB, "", 500 * MB),
        (1 << 30, "", 8 << 30),
        (0, "7", 7 * MB),
        (1 << 30, "20000", 20000 * MB),
    ],
)
def test_the_limit_depends_on_the_size_unless_it_is_set(
    size: int, setting: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POOLBOOK_MAX_UNPACKED", setting)
    assert unpacked_limit(size) == most


@pytest.mark.parametrize("setting", ["x", "-1", "0", "1.5"])
def test_a_setting_that_is_not_a_number_is_refused(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POOLBOOK_MAX_UNPACKED", setting)
    with pytest.raises(ValueError, match="POOLBOOK_MAX_UNPACKED must be a number of MiB"):
        Importer(open_log("memory:", create=True), [], UTC)


@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_a_file_that_unpacks_to_too_much_is_read_up_to_the_limit(
    compress: Callable[[bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "".join(entry(0, f"{number}.0", number % 60) for number in range(1, 20_000))
    (tmp_path / "job.log.1").write_bytes(compress(lines.encode()))
    monkeypatch.setenv("POOLBOOK_MAX_UNPACKED", "1")
    log, result = imported(tmp_path)
    (refusal,) = result.refused
    assert refusal.words.startswith("the rest is not read: it unpacks to over 1 MiB")
    assert "POOLBOOK_MAX_UNPACKED" in refusal.words
    assert 0 < result.counts["userlog"].bytes <= MB
    assert length_of(str(tmp_path / "job.log.1")) <= MB
    before = result.counts["userlog"].events
    monkeypatch.setenv("POOLBOOK_MAX_UNPACKED", "100")
    _, second_result = imported(tmp_path, log=log)
    assert before + second_result.counts["userlog"].events >= 19_999


@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_a_file_of_exactly_the_limit_is_read_completely(
    compress: Callable[[bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POOLBOOK_MAX_UNPACKED", "1")
    (tmp_path / "a").write_bytes(compress(b"x" * MB))
    assert length_of(str(tmp_path / "a")) == MB
    (tmp_path / "a").write_bytes(compress(b"x" * (MB + 1)))
    assert length_of(str(tmp_path / "a")) < MB + 1
    assert head_of(str(tmp_path / "a"), 3) == b"xxx"


def test_a_decompression_bomb_is_not_unpacked_beyond_the_ratio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POOLBOOK_MAX_UNPACKED", raising=False)
    monkeypatch.setattr(content, "ALWAYS_ALLOWED", MB)
    bomb = tmp_path / "bomb"
    bomb.write_bytes(gzip.compress(b"x" * (40 * MB)))
    assert length_of(str(bomb)) <= max(MB, 100 * bomb.stat().st_size) < 5 * MB


def test_progress_counts_the_bytes_of_the_files_themselves(tmp_path: Path) -> None:
    import random

    generator = random.Random(1)
    text = "".join(
        entry(0, f"{n}.0", n % 60, f"Job submitted from host: <{generator.random()}>") for n in range(1, 45_000)
    )
    (tmp_path / "job.log.1").write_bytes(gzip.compress(text.encode()))
    progress: list[tuple[int, int]] = []
    log = open_log("memory:", create=True)
    Importer(log, [str(tmp_path)], UTC).run(lambda path, done, total, events: progress.append((done, total)))
    size = (tmp_path / "job.log.1").stat().st_size
    assert {total for _, total in progress} == {size}
    shares = [done / size for done, _ in progress]
    assert shares == sorted(shares) and len(progress) > 3
    assert shares[0] < 0.5 and shares[-1] > 0.9


def test_a_compressed_file_is_readable_from_a_position(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(gzip.compress(b"0123456789"))
    with open_content(str(tmp_path / "a")) as file:
        assert file.seek(4) == 4
        assert read_exactly(file, 99) == b"456789"
