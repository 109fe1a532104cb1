"""golden: jobs whose input exceeds their transfer limit are held at submission, as in HTCondor."""

from __future__ import annotations

from poolbook.adapters.runtime.activations import ReadAd, file_transfer
from poolbook.domain.events import Ad
from poolbook.replay.validation import examine

from ..together import together
from .policy_pool import PolicyPool

WORDS = '"TransferInputSizeMB ({size}) is greater than MAX_TRANSFER_INPUT_MB ({limit}) at submit time"'
CASES: list[tuple[str, Ad, int | None]] = [
    # the configuration, the job's ad, and the limit that it is held for
    ("", {}, None),
    ("MAX_TRANSFER_INPUT_MB = 4", {}, 4),
    ("MAX_TRANSFER_INPUT_MB = 5", {}, None),
    ("MAX_TRANSFER_INPUT_MB = -1", {}, None),
    ("MAX_TRANSFER_INPUT_MB = RequestCpus * 2", {"RequestCpus": "2"}, 4),
    ("MAX_TRANSFER_INPUT_MB = Unheard", {}, None),
    ("MAX_TRANSFER_INPUT_MB = 4", {"MaxTransferInputMB": "100"}, None),
    ("MAX_TRANSFER_INPUT_MB = 4", {"MaxTransferInputMB": "-1"}, None),
    ("MAX_TRANSFER_INPUT_MB = 100", {"MaxTransferInputMB": "3"}, 3),
    ("", {"MaxTransferInputMB": "1 + RequestCpus", "RequestCpus": "1"}, 2),
    ("MAX_TRANSFER_OUTPUT_MB = 1", {}, None),
]


@together(("config", "old_ad", "limit"), CASES)
def test_the_job_or_else_the_configuration_limits_its_input(config: str, old_ad: Ad, limit: int | None) -> None:
    pool = PolicyPool(config)
    pool.submit(count=3, columns={}, TransferInputSizeMB="5", **old_ad)
    hold_attributes = {name: text for name, text in pool.ad().items() if name.startswith("HoldReason")}
    reason = {"HoldReason": WORDS.format(size=5, limit=limit), "HoldReasonCode": "32", "HoldReasonSubCode": "0"}
    assert hold_attributes == ({} if limit is None else reason)
    assert [ad["JobStatus"] for ad in pool.ads()] == ["1" if limit is None else "5"] * 3
    assert examine(pool.log.read()).violations == []


def test_only_the_jobs_of_a_cluster_with_too_much_input_are_held() -> None:
    pool = PolicyPool("MAX_TRANSFER_INPUT_MB = 10")
    pool.submit(count=4, columns={"TransferInputSizeMB": ["10", "11", "1", "12"], "JobPrio": ["1", "2", "3", "4"]})
    assert [ad["JobStatus"] for ad in pool.ads()] == ["1", "5", "1", "5"]
    assert WORDS.format(size=12, limit=10) == pool.ads()[3]["HoldReason"]


@together(
    ("job", "settings", "limits"),
    [
        ({}, {}, (None, None)),
        ({}, {"MAX_TRANSFER_INPUT_MB": "RequestCpus * 2", "MAX_TRANSFER_OUTPUT_MB": "-1"}, (6, -1)),
        ({"MaxTransferInputMB": "7"}, {"MAX_TRANSFER_INPUT_MB": "1", "MAX_TRANSFER_OUTPUT_MB": "2"}, (7, 2)),
        ({"MaxTransferOutputMB": "RequestCpus"}, {"MAX_TRANSFER_OUTPUT_MB": "Unheard"}, (None, 3)),
        ({}, {"MAX_TRANSFER_OUTPUT_MB": "Unheard"}, (None, None)),
    ],
)
def test_a_transfer_has_the_limits_of_the_job_or_else_of_the_pool(job: Ad, settings: Ad, limits: object) -> None:
    ad = {"ShouldTransferFiles": '"YES"', "RequestCpus": "3", **job}
    transfer = file_transfer(ReadAd(ad), ReadAd({}), limits=settings)
    assert transfer is not None and (transfer.max_input_mb, transfer.max_output_mb) == limits
