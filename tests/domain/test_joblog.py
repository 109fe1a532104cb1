"""Golden: the facts in an entry of a job event log, type by type, as HTCondor writes it. Property: the parser accepts
any text."""

from hypothesis import given
from hypothesis import strategies as st

from poolbook.domain.imported.job_event_log import ENTRIES, SHAPES, facts, words_of

from ..together import together

USAGE = (
    "\n\t\tUsr 1 02:03:04, Sys 0 00:00:05  -  Run Remote Usage\n\t\tUsr 0 00:00:00, Sys 0 00:00:00  -  Run Local Usage"
)
TOTAL = (
    "\n\t\tUsr 2 00:00:00, Sys 0 00:01:00  -  Total Remote Usage"
    "\n\t\tUsr 0 00:00:00, Sys 0 00:00:00  -  Total Local Usage"
)
RUN_BYTES = "\n\t5  -  Run Bytes Sent By Job\n\t6  -  Run Bytes Received By Job"
ALL_BYTES = RUN_BYTES + "\n\t7  -  Total Bytes Sent By Job\n\t8  -  Total Bytes Received By Job"
TABLE = (
    "\n\tPartitionable Resources :    Usage  Request Allocated  Assigned"
    "\n\t   Cpus                 :     0.25        1         1 "
    "\n\t   Disk (KB)            :      150  1048576  25404293 "
    '\n\t   GPUs                 :                           2  "GPU-1,GPU-2"'
    "\n\t   Gpus (Average)       :     0.50                     "
    "\n\t   TimeExecute (s)      :        6                    "
)
OF_USAGE = {
    "user_cpu": "93784000000",
    "system_cpu": "5000000",
    "local_user_cpu": "0",
    "local_system_cpu": "0",
    "sent": "5",
    "received": "6",
}
OF_TOTAL = {
    "total_user_cpu": "172800000000",
    "total_system_cpu": "60000000",
    "total_local_user_cpu": "0",
    "total_local_system_cpu": "0",
    "total_sent": "7",
    "total_received": "8",
}
OF_TABLE = {
    "cpus_used": "0.25",
    "cpus_requested": "1",
    "cpus_allocated": "1",
    "disk_used": "150",
    "disk_requested": "1048576",
    "disk_allocated": "25404293",
    "gpus_used": "0.50",
    "gpus_allocated": "2",
    "gpus_assigned": '"GPU-1,GPU-2"',
    "timeexecute_used": "6",
}

CASES: list[tuple[int, str, dict[str, str]]] = [
    (0, "Job submitted from host: <1.2.3.4:5?a=b>", {"host": "<1.2.3.4:5?a=b>"}),
    (0, 'Job submitted from host: <h>\n    [ JobBatchName = "x" ]\n    DAG Node: A\n    WARNING: Committed job '
        "submission into the queue with the following warning(s): odd",
        {"host": "<h>", "notes": '[ JobBatchName = "x" ]\nDAG Node: A', "warnings": "odd"}),
    (1, "Job executing on host: <h>", {"host": "<h>"}),
    (1, 'Job executing on host: <h>\n\tSlotName: slot1_1@h\n\tCondorScratchDir = "/d"\n\tCpus = 2',
        {"host": "<h>", "slot": "slot1_1@h", "CondorScratchDir": '"/d"', "Cpus": "2"}),
    (2, "(1) Job file not executable.", {"code": "1", "reason": "Job file not executable."}),
    (3, "Job was checkpointed." + USAGE.replace("\t\t", "\t") + "\n\t9  -  Run Bytes Sent By Job For Checkpoint",
        {**OF_USAGE, "sent": "9"} | {"received": ""}),
    (4, "Job was evicted. Code 1 Subcode 2\n\t(0) CPU times" + USAGE + RUN_BYTES + "\n\tReason: please" + TABLE,
        {"reason_code": "1", "reason_subcode": "2", "checkpointed": "false", "requeued": "false", "reason": "please",
         **OF_USAGE, **OF_TABLE}),
    (4, "Job was evicted.\n\t(1) Job was checkpointed." + USAGE + RUN_BYTES,
        {"checkpointed": "true", "requeued": "false", **OF_USAGE}),
    (4, "Job was evicted.\n\t(0) Job terminated and was requeued" + USAGE + RUN_BYTES
        + "\n\t(1) Normal termination (return value 3)\n\tOnExitRemove is false" + TABLE,
        {"checkpointed": "false", "requeued": "true", "code": "3", "reason": "OnExitRemove is false",
         **OF_USAGE, **OF_TABLE}),
    (4, "Job was evicted.\n\t(0) Job terminated and was requeued" + USAGE + RUN_BYTES
        + "\n\t(0) Abnormal termination (signal 9)\n\t(1) Corefile in: /c/core",
        {"checkpointed": "false", "requeued": "true", "signal": "9", "core": "/c/core", **OF_USAGE}),
    (5, "Job terminated.\n\t(1) Normal termination (return value -1)" + USAGE + TOTAL + ALL_BYTES + TABLE,
        {"code": "-1", **OF_USAGE, **OF_TOTAL, **OF_TABLE}),
    (5, "Job terminated.\n\t(0) Abnormal termination (signal 11)\n\t(0) No core file" + USAGE,
        {"signal": "11", **{name: OF_USAGE[name] for name in list(OF_USAGE)[:4]}}),
    (5, "Job terminated.", {}),
    (6, "Image size of job updated: 27660\n\t2  -  MemoryUsage of job (MB)\n\t1628  -  ResidentSetSize of job (KB)\n"
        "\t9  -  ProportionalSetSize of job (KB)",
        {"image": "27660", "memory": "2", "resident": "1628", "proportional": "9"}),
    (7, "Shadow exception!\n\tgone" + RUN_BYTES, {"reason": "gone", "sent": "5", "received": "6"}),
    (8, "anything", {"remark": "anything"}),
    (9, "Job was aborted.\n\tvia condor_rm (by user alice)", {"reason": "via condor_rm (by user alice)"}),
    (9, "Job was aborted by the user.", {}),
    (10, "Job was suspended.\n\tNumber of processes actually suspended: 3", {"processes": "3"}),
    (11, "Job was unsuspended.", {}),
    (12, "Job was held.\n\tCode 1 Subcode 0 is my reason\n\tCode 1 Subcode 0",
        {"reason": "Code 1 Subcode 0 is my reason", "code": "1", "subcode": "0"}),
    (12, "Job was held.\n\tReason unspecified\n\tCode 0 Subcode 0", {"code": "0", "subcode": "0"}),
    (12, "Job was held.\n\tCode 3 Subcode 4", {"code": "3", "subcode": "4"}),
    (13, "Job was released.\n\tvia condor_release", {"reason": "via condor_release"}),
    (14, "Node 2 executing on host: <h>\n\tSlotName: s@h", {"node": "2", "host": "<h>", "slot": "s@h"}),
    (15, "Node 2 terminated.\n\t(1) Normal termination (return value 0)", {"node": "2", "code": "0"}),
    (16, "POST Script terminated.\n\t(1) Normal termination (return value 1)\n    DAG Node: B",
        {"code": "1", "node": "B"}),
    (21, "Error from starter on slot1@h:\n\tone\n\ttwo\n\tCode 8 Subcode 2",
        {"severity": "Error", "daemon": "starter", "slot": "slot1@h", "reason": "one\ntwo", "code": "8",
         "subcode": "2"}),
    (22, "Job disconnected, attempting to reconnect\n    closed\n    Trying to reconnect to slot1@h <1.2.3.4:5>",
        {"reason": "closed", "slot": "slot1@h", "host": "<1.2.3.4:5>"}),
    (23, "Job reconnected to slot1@h\n    startd address: <1>\n    starter address: <2>",
        {"slot": "slot1@h", "host": "<1>", "starter": "<2>"}),
    (24, "Job reconnection failed\n    not found\n    Can not reconnect to slot1@h, rescheduling job",
        {"reason": "not found", "slot": "slot1@h"}),
    (25, "Grid Resource Back Up\n    GridResource: batch", {"resource": "batch"}),
    (26, "Detected Down Grid Resource\n    GridResource: batch", {"resource": "batch"}),
    (27, "Job submitted to grid resource\n    GridResource: batch\n    GridJobId: x 1",
        {"resource": "batch", "grid_id": "x 1"}),
    (28, 'Job ad information event triggered.\nProc = 0\nA = "b = c"', {"Proc": "0", "A": '"b = c"'}),
    (33, "Changing job attribute JobPrio from 0 to 7", {"name": "JobPrio", "old": "0", "new": "7"}),
    (33, "Setting job attribute A to 1 to 2", {"name": "A", "new": "1 to 2"}),
    (34, "PRE script return value is PRE_SKIP value\n    DAG Node: C", {"notes": "DAG Node: C"}),
    (35, "Cluster submitted from host: <h>\n    a note", {"host": "<h>", "notes": "a note"}),
    (36, "Cluster removed\n\tMaterialized 2 jobs from 5 items.\tIncomplete\n\ta note",
        {"jobs": "2", "items": "5", "completion": "Incomplete", "notes": "a note"}),
    (37, "Job Materialization Paused\n\twhy\n\tPauseCode 3\n\tHoldCode 4",
        {"reason": "why", "code": "3", "hold_code": "4"}),
    (38, "Job Materialization Resumed\n\twhy", {"reason": "why"}),
    (40, "Started transferring input files\n\tSeconds spent in queue: 3\n\tTransferring to host: <h>",
        {"what": "Started transferring input files", "queued": "3", "host": "<h>"}),
    (41, "\n\tBytes reserved: 5\n\tReservation Expiration: 6\n\tReservation UUID: u\n\tTag: t",
        {"bytes": "5", "expires": "6", "uuid": "u", "tag": "t"}),
    (42, "\n\tReservation UUID: u", {"uuid": "u"}),
    (43, "\n\tBytes: 5\n\tChecksum Value: c\n\tChecksum Type: sha256\n\tUUID: u",
        {"bytes": "5", "checksum": "c", "checksum_type": "sha256", "uuid": "u"}),
    (44, "\n\tChecksum Value: c\n\tChecksum Type: sha256\n\tTag: t",
        {"checksum": "c", "checksum_type": "sha256", "tag": "t"}),
    (45, "\n\tBytes: 5\n\tChecksum Value: c\n\tChecksum Type: sha256\n\tTag: t",
        {"bytes": "5", "checksum": "c", "checksum_type": "sha256", "tag": "t"}),
    (46, "Dataflow job was skipped.\n\tnewer", {"reason": "newer"}),
    (47, "Common files event: TransferStart", {"what": "TransferStart"}),
    (104, 'Request claim\n  ClaimId = "x"', {"ClaimId": '"x"'}),
    (31, "Job is performing stage-in of input files", {}),
]  # fmt: skip


@together("number, text, facts_found", CASES)
def test_an_entry_is_parsed_into_its_facts(number: int, text: str, facts_found: dict[str, str]) -> None:
    expected = {name: value for name, value in facts_found.items() if value} | {"words": text.split("\n")[0]}
    assert facts(number, text) == expected


def test_every_type_with_a_known_form_is_in_the_table_and_among_the_cases() -> None:
    assert set(SHAPES) <= set(ENTRIES)
    assert set(SHAPES) == {number for number, *_ in CASES if number in SHAPES}
    assert set(range(48)) | set(range(100, 112)) == set(ENTRIES)
    assert words_of(0) == "it was submitted"
    assert "099" in words_of(99)


LINES = st.lists(
    st.sampled_from([line for _, text, _ in CASES for line in text.split("\n")])
    | st.text(max_size=30)
    | st.text("\t :=()0", max_size=20),
    max_size=9,
).map("\n".join)


@given(st.sampled_from(sorted(ENTRIES)) | st.integers(0, 999), LINES)
def test_no_text_makes_the_parser_fail(number: int, text: str) -> None:
    found_facts = facts(number, text)
    assert found_facts["words"] == text.split("\n")[0].rstrip(" \t")
    assert all(isinstance(value, str) for value in found_facts.values())


@together("number", sorted(ENTRIES))
def test_a_text_of_any_length_is_parsed_quickly(number: int) -> None:
    for part in (
        "x",
        "\t",
        " ",
        "\n",
        "\n    a",
        "\n\t",
        " to ",
        " on ",
        " on :",
        "\n\tUsr 0 ",
        "\n\t0  -  ",
        "\n\t a:",
        ": ",
    ):
        for begin in (
            "",
            "Error from starter on ",
            "Changing job attribute A from ",
            "Job was held.",
            "\n\tResources :",
        ):
            facts(number, begin + part * 5_000)
