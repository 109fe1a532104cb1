"""golden: documents of recorded ads, and the files that set up an index, as condor_adstash wrote them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from poolbook.adapters.adstash.documents import document
from poolbook.adapters.adstash.fields import EPOCHS, HISTORY, TRANSFERS, fields_of
from poolbook.adapters.adstash.index_files import index_files
from poolbook.domain.classad import ClassAd

DATA = Path(__file__).parent.parent / "data/monitoring/adstash"


def ads(name: str, banner: str) -> list[ClassAd]:
    lines: list[str] = []
    found = []
    for line in gzip.decompress((DATA / name).read_bytes()).decode().splitlines(keepends=True):
        if not line.startswith("***"):
            lines.append(line)
            continue
        if line.startswith(banner):
            found.append(ClassAd.from_old("".join(lines)))
        lines = []
    return found


def recorded(name: str) -> dict[str, dict[str, Any]]:
    documents = json.loads(gzip.decompress((DATA / name).read_bytes()))
    return {each["GlobalJobId"]: each for each in documents}


@pytest.mark.parametrize(
    ("file", "banner", "kind", "documents"),
    [("history.gz", "***", HISTORY, "history.json.gz"), ("epoch_history.gz", "*** EPOCH", EPOCHS, "epochs.json.gz")],
)
def test_documents_of_recorded_ads_equal_those_of_condor_adstash(
    file: str, banner: str, kind: str, documents: str
) -> None:
    expected = recorded(documents)
    assert len(expected) == 19
    for ad in ads(file, banner):
        contents = document(ad, fields_of(kind), 0)
        wanted = {k: v for k, v in expected.pop(str(ad.eval("GlobalJobId"))).items() if k not in ("metadata", "_id")}
        assert contents == wanted
        assert {k: type(v) for k, v in contents.items()} == {k: type(v) for k, v in wanted.items()}
    assert not expected


@pytest.mark.parametrize(
    ("name", "text", "field"),
    [
        ("jobprio", "3", ("JobPrio", 3)),
        ("MyOwn", "3", ("myown", "3")),
        ("MyDate", "3", ("MyDate", 3)),
        ("NumThings", '"many"', ("NumThings_STRING", "many")),
        ("WantIt", "true", ("WantIt", True)),
        ("Mine", "NoSuch + 1", ("mine_EXPR", "NoSuch + 1")),
        ("ClaimId", '"secret"', None),
        ("Rank", "1/0", ("Rank_EXPR", "1 / 0")),
        ("TransferInputStats", "[a = 1; b = 2.5]", ("TransferInputStats.b", 2.5)),
    ],
)
def test_a_field_has_the_type_of_its_attribute(name: str, text: str, field: tuple[str, object] | None) -> None:
    contents = document(ClassAd.from_old(f"{name} = {text}\n"), fields_of(HISTORY), 7)
    known = {"RecordTime", "@timestamp", "ScheddName", "StartdSlot", "StartdName", "Status", "Universe"}
    others = {key: value for key, value in contents.items() if key not in known}
    assert contents["RecordTime"] == 7
    assert others == {} if field is None else others[field[0]] == field[1]


def test_the_files_for_an_index_equal_those_of_condor_adstash() -> None:
    files = dict(index_files("htcondor", HISTORY))
    names = [name for name in files if name.endswith(".json")]
    assert len(names) == 3
    assert [json.loads(files[name]) for name in names] == [json.loads((DATA / name).read_text()) for name in names]


def test_transfer_ads_have_other_fields() -> None:
    properties = fields_of(TRANSFERS).mappings()["properties"]
    assert properties["AttemptTime"] == {"type": "double"}
    assert "JobPrio" not in properties
