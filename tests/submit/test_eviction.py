"""golden: what a job requests after it exceeded its request; the ads are from condor_submit 25.14."""

from __future__ import annotations

import pytest

from poolbook.domain.classad import parse
from poolbook.domain.submit import SubmitError

from ..together import together
from .fakes import submit

MEMORY = "REQUIREMENTS (VacateReasonCode==21 || VacateReasonCode == 34) && VacateReasonSubCode == 102"
DISK = MEMORY.replace("102", "104")
NEXT = "EVALSET RequestMemory RetryRequestMemory[RetryRequestMemoryIndex?:0]"
INDEX = "EVALSET RetryRequestMemoryIndex MIN({size(RetryRequestMemory)-1, (RetryRequestMemoryIndex?:0)+1})"
AT_MOST = "EVALSET RequestMemory MIN({NextRequestMemory, MaxRequestMemory})"


@together(
    ("lines", "body", "more"),
    [
        ("request_memory = 1G, 2G", [MEMORY, "SET RequestMemory 2048"], {}),
        ("request_memory = 1G, 2G, 4G", [MEMORY, NEXT, INDEX], {"RetryRequestMemory": "{ 2048,4096 }"}),
        (
            "request_memory = 1G, 2G, MemoryUsage * 2",
            [MEMORY, NEXT, INDEX],
            {"RetryRequestMemory": "{ 2048,MemoryUsage * 2 }"},
        ),
        ("request_memory = 1G, MemoryUsage * 2", [MEMORY, "EVALSET RequestMemory MemoryUsage * 2"], {}),
        ("request_memory = 1G, 500M", [MEMORY, "SET RequestMemory 500"], {}),
        ("request_memory = 1024, 2000", [MEMORY, "SET RequestMemory 2000"], {}),
        ("request_memory = 1G,", None, {}),
        ("request_memory = 1G\nretry_request_memory = 2G", [MEMORY, "SET RequestMemory 2048"], {}),
        (
            "request_memory = 1G\nretry_request_memory = 2G, 4G",
            [MEMORY, NEXT, INDEX],
            {"RetryRequestMemory": "{ 2048,4096 }"},
        ),
        ("retry_request_memory = 2G", [MEMORY, "SET RequestMemory 2048"], {"RequestMemory": "128"}),
        ("request_memory = 1G\nretry_request_memory_max = 8G", [MEMORY, "SET RequestMemory 8192"], {}),
        ("request_memory = 1G\nretry_request_memory_increase = 1G", [MEMORY, "SET RequestMemory 2048"], {}),
        (
            "request_memory = 1G\nretry_request_memory_increase = RequestMemory * 3",
            [MEMORY, "SET RequestMemory 3072"],
            {},
        ),
        (
            "request_memory = 1G\nretry_request_memory_max = 8G\nretry_request_memory_increase = 1G",
            [MEMORY, AT_MOST],
            {"MaxRequestMemory": "8192", "NextRequestMemory": "RequestMemory + 1024"},
        ),
        (
            "request_memory = 1G\nretry_request_memory_max = 8G\nretry_request_memory_increase = RequestMemory * 2",
            [MEMORY, AT_MOST],
            {"MaxRequestMemory": "8192", "NextRequestMemory": "RequestMemory * 2"},
        ),
        ("request_memory = 2*x\nretry_request_memory = 2G", None, {"RequestMemory": "2 * x"}),
        ("request_memory = 1G, 2G\nretry_request_memory = 3G", [MEMORY, "SET RequestMemory 2048"], {}),
    ],
)
def test_an_evicted_job_requests_more_memory(lines: str, body: list[str] | None, more: dict[str, str]) -> None:
    ad = submit(f"{lines}\nqueue").ad
    text = parse(ad.get("TransformBody_RequestMemory", "undefined")).evaluate()
    assert (text if body is None else str(text).split("\x1e")) == (text if body is None else body)
    assert ("TransformOnEvict" in ad, "TransformBody_RequestMemory" in ad) == (body is not None, body is not None)
    expected = {"RequestMemory": "1024"} | more
    requests = {
        name: ad[name] for name in ad if name.endswith("RequestMemory") and not name.startswith("TransformBody")
    }
    assert requests == expected


def test_retries_work_for_disk_too_and_custom_checks_come_first() -> None:
    lines = "request_disk = 1G, 2G\nrequest_memory = 1G, 2G\non_evict_checks = mine, none\n"
    submission = submit(f"{lines}transform_body_mine @=end\nREQUIREMENTS true\n# no\nSET Foo 1\n@end\nqueue")
    ad = submission.ad
    assert ad["TransformOnEvict"] == '"mine RequestDisk RequestMemory"'
    assert parse(ad["TransformBody_mine"]).evaluate() == "REQUIREMENTS true\x1eSET Foo 1"
    assert parse(ad["TransformBody_RequestDisk"]).evaluate() == f"{DISK}\x1eSET RequestDisk 2097152"
    assert any("on_evict_checks: none is ignored" in warning for warning in submission.warnings)


@together(
    ("lines", "message"),
    [
        ("request_memory = 1G, 4G, 2G", "2048 is not greater than 4096"),
        ("request_memory = 1G, x y", "'x y' is neither a number nor an expression"),
        ("request_memory = 2*3, 4G", "this must be an expression"),
        ("request_cpus = 1, 2", "this must be an expression"),
        (
            "request_memory = 1G\nretry_request_memory_increase = 2*3",
            "a positive number, or an expression that references",
        ),
        ("request_memory = 1G\nretry_request_memory_increase = -1", "a positive number"),
        ("request_memory = 1G\nretry_request_memory_increase = RequestMemory * x", "this must evaluate to an integer"),
    ],
)
def test_an_invalid_retry_is_rejected(lines: str, message: str) -> None:
    with pytest.raises(SubmitError) as caught:
        submit(f"{lines}\nqueue")
    assert message in str(caught.value)


def test_each_item_has_its_own_retries() -> None:
    submission = submit("request_memory = $(m)\nqueue m from (\n1G, 2G\n1G\n)")
    assert [submission.ad_of(proc).get("TransformOnEvict") for proc in (0, 1)] == ['"RequestMemory"', "undefined"]
