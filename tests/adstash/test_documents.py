"""golden: documents of recorded ads, and the files that set up an index, as condor_adstash wrote them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from poolbook.adapters.adstash.destinations import index_settings
from poolbook.adapters.adstash.documents import document
from poolbook.adapters.adstash.fields import EPOCHS, HISTORY, TRANSFERS, fields_of
from poolbook.adapters.adstash.index_files import index_files
from poolbook.domain.classad import ClassAd

from ..together import together

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


@together(("text", "expected"), json.loads((DATA / "fields.json").read_text()).items())
def test_fields_of_any_attribute_equal_those_of_condor_adstash(text: str, expected: dict[str, Any]) -> None:
    """The table is what condor_adstash 25.14.1 made of each ad, without what it adds to all documents of such an ad."""
    contents = document(ClassAd.from_old(f"{text}\n"), fields_of(HISTORY), 7)
    same = {"ScheddName": "UNKNOWN", "StartdSlot": "UNKNOWN", "StartdName": "UNKNOWN", "Status": "Unknown"}
    expected = {"Universe": "Unknown", **same, **expected}
    assert contents == expected
    assert {name: type(value) for name, value in contents.items()} == {k: type(v) for k, v in expected.items()}


@together(
    ("text", "name", "value"),
    [
        ("ClaimId", "claimid", None),
        ("CLAIMID", "CLAIMID", None),
        ("Mine", "mine", "x" * 32766),
        ("Mine = 5\nYours", "yours", f"{'x' * 32763}..."),
    ],
)
def test_secrets_are_ignored_and_long_texts_are_cut(text: str, name: str, value: str | None) -> None:
    length = 32766 if value is None or value.endswith("x") else 32767
    contents = document(ClassAd.from_old(f'{text} = "{"x" * length}"\n'), fields_of(HISTORY), 7)
    assert contents.get(name) == value


def test_undefined_members_of_a_list_are_null() -> None:
    """condor_adstash writes 2, the number of the value Undefined of its ClassAd library."""
    contents = document(ClassAd.from_old("MyOwn = { 1, undefined, 2 + x }\n"), fields_of(HISTORY), 7)
    assert contents["myown"] == '[1, null, "2 + x"]'


def test_the_files_for_an_index_equal_those_of_condor_adstash() -> None:
    files = dict(index_files("htcondor", fields_of(HISTORY)))
    names = [name for name in files if name.endswith(".json")]
    assert len(names) == 3
    assert [json.loads(files[name]) for name in names] == [json.loads((DATA / name).read_text()) for name in names]


def test_definitions_and_choices_of_the_administrator_apply_as_in_condor_adstash() -> None:
    """``custom.json`` has what condor_adstash 25.14.1 made of the definitions, and of an ad under each choice."""
    case = json.loads((DATA / "custom.json").read_text())
    fields = fields_of(HISTORY).customized(case["properties"], case["templates"], case["settings"])
    expected = case["expected"]
    assert fields.mappings() == expected["mappings"]
    assert index_settings(fields) == expected["settings"]
    ad = ClassAd.from_old(f"{case['ad']}\n")
    documents = [document(ad, fields.narrowed(*choice), 7) for choice in case["choices"]]
    assert documents == expected["documents"]


@together(
    ("options", "names"),
    [
        ({}, ["it-ilm.json", "it-template.json", "it-000001.json", "README"]),
        ({"has_policy": False}, ["it-template.json", "it-000001.json", "README"]),
        ({"has_template": False}, ["it-ilm.json", "it-000001.json", "README"]),
        ({"has_alias": False, "has_policy": False}, ["it-template.json", "it.json", "README"]),
        ({"has_alias": False, "has_policy": False, "has_template": False}, ["it.json", "README"]),
    ],
)
def test_an_index_has_an_alias_a_policy_and_a_template_unless_an_option_excludes_them(
    options: dict[str, bool], names: list[str]
) -> None:
    files = dict(index_files("it", fields_of(HISTORY), **options))
    assert list(files) == names
    first = json.loads(files[names[-2]])
    assert ("aliases" in first, "mappings" in first) == (
        options.get("has_alias", True), not options.get("has_template", True)
    )  # fmt: skip
    assert ("index.lifecycle.name" in "".join(files.values())) == options.get("has_policy", True)
    assert all(name in files["README"] for name in names[:-1])


def test_transfer_ads_have_other_fields() -> None:
    properties = fields_of(TRANSFERS).mappings()["properties"]
    assert properties["AttemptTime"] == {"type": "double"}
    assert "JobPrio" not in properties
