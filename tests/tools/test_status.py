"""Golden: `poolbook status` and condor_status print the same for the same ads."""

import pytest

from poolbook.adapters.condor_tools import status
from poolbook.adapters.condor_tools.options import ToolError, UsageError
from poolbook.domain.classad import ClassAd, parse

from ..together import together
from .captures import capture, captured_ads, changed, printed, surroundings_at

# The ads of each kind, as -long printed them in the same second.
ADS = {
    "Machine": "status_long",
    "Scheduler": "status_schedd_long",
    "Submitter": "status_submitters_long",
    "DaemonMaster": "status_master_long",
    "Collector": "status_collector_long",
    "Negotiator": "status_negotiator_long",
}

SAME_ADS = [
    "status_absent",
    "status_af",
    "status_af_ht",
    "status_avail",
    "status_claimed",
    "status_collector",
    "status_collector_long",
    "status_compact",
    "status_constraint",
    "status_default",
    "status_format",
    "status_gpus",
    "status_java",
    "status_json",
    "status_json_attr",
    "status_long",
    "status_master",
    "status_master_long",
    "status_name",
    "status_negotiator",
    "status_negotiator_long",
    "status_offline",
    "status_run",
    "status_schedd",
    "status_schedd_long",
    "status_server",
    "status_slots",
    "status_state",
    "status_submitters",
    "status_submitters_long",
    "status_total_schedd",
    "status_total_submitters",
    "status_totals",
    "status_vm",
    "status_wide",
    "status_xml",
]


@together("name", SAME_ADS)
def test_the_captured_pool_prints_as_by_condor_status(name: str) -> None:
    expected = capture(name)
    query = status.parse_arguments(expected.argv)
    assert printed(status.render(captured_ads(ADS[query.kind]), query, surroundings_at())) == expected.out
    assert (expected.err, expected.exit_code) == ("", 0)


def test_ads_with_equal_sort_keys_keep_their_order() -> None:
    expected = capture("status_sort")
    slots = captured_ads("status_long")
    in_order = [slots[number] for number in (7, 2, 0, 4, 6, 1, 8, 3, 5)]
    assert printed(status.render(in_order, status.parse_arguments(expected.argv), surroundings_at())) == expected.out


def test_totals_ignore_compact_with_a_warning() -> None:
    expected = capture("status_compact_total")
    query = status.parse_arguments(expected.argv)
    assert printed(status.render(captured_ads("status_long"), query, surroundings_at())) == expected.out
    assert query.warning == expected.err


def test_a_queue_is_printed_as_json() -> None:
    expected = capture("status_json_schedd")
    queue = ClassAd.from_json(expected.out.removeprefix("[\n").removesuffix("]\n"))
    assert printed(status.render([queue], status.parse_arguments(expected.argv), surroundings_at())) == expected.out


def test_a_slot_with_gpus_is_printed() -> None:
    expected = capture("status_gpus_two")
    changes = {"GPUs": 2, "AssignedGPUs": "GPU-aaaa,GPU-bbbb", "State": "Unclaimed", "Activity": "Idle"}
    slot = changed(captured_ads("status_long")[0], **changes)
    assert printed(status.render([slot], status.parse_arguments(expected.argv), surroundings_at())) == expected.out


def test_a_drained_machine_is_printed() -> None:
    expected = capture("status_draining")
    slot = changed(captured_ads("status_long")[0], State="Drained", Memory=8192, EnteredCurrentActivity=1795214182)
    assert printed(status.render([slot], status.parse_arguments(expected.argv), surroundings_at())) == expected.out


def test_the_machines_with_gpus_are_printed() -> None:
    gpus = '{[DeviceName="A100"; GlobalMemoryMB=40960], [DeviceName="A100"; GlobalMemoryMB=81920]}'
    totals = {"TotalSlots": 1, "TotalCpus": 2, "TotalMemory": 8, "DetectedCpus": 2, "DetectedMemory": 24105}
    startd = ClassAd({"MyType": "StartD", "Arch": "X86_64", "OpSys": "LINUX", "OpSysAndVer": "Debian0", **totals})
    with_gpus = changed(startd, Name="ep1", TotalGPUs=2, OfflineGPUs="GPU-b")
    with_gpus["DetectedGPUs"] = parse(gpus)
    ads = [changed(startd, Name="ep2", TotalGPUs=0), with_gpus]
    for argv in (["-gpus", "-startd"], ["-startd", "-gpus"]):
        lines = printed(status.render(ads, status.parse_arguments(argv), surroundings_at())).splitlines()
        assert lines[:4] == [
            "Name Cores   Memory   GPUs GPU-Memory   GPU-Name Offline-GPUs", "",
            "ep1  2        23.5 GB 2    40960, 81920 A100     GPU-b       ", "",
        ]  # fmt: skip
        assert lines[4].split()[:2] == ["Machines", "Slots"]
        assert [line.split()[:7] for line in lines if "Total " in line] == [["Total", "1", "1", "2", "0", "0", "2"]]


def test_the_machines_are_printed() -> None:
    expected = capture("status_startd")
    machine = ClassAd(
        {
            "Name": "localhost",
            "Arch": "X86_64",
            "OpSys": "LINUX",
            "OpSysAndVer": "Debian0",
            "CondorVersion": "$CondorVersion: 25.14.1 2026-10-16 PackageID: 25.14.1+dfsg-1 $",
            "DetectedCpus": 2,
            "DetectedMemory": 24105,
            "DaemonStartTime": 1795213510,
            "LastHeardFrom": 1795214183,
            "TotalSlots": 9,
            "TotalCpus": 8,
            "TotalGPUs": 0,
            "TotalMemory": 8192,
            "TotalInUseCpus": 8,
            "TotalInUseMemory": 1024,
        }
    )
    assert printed(status.render([machine], status.parse_arguments(expected.argv), surroundings_at())) == expected.out


@pytest.mark.parametrize("name", ["status_any", "status_any_af"])
def test_all_ads_of_a_pool_are_printed(name: str) -> None:
    names = {
        "Collector": ["My Pool - 127.0.0.1@localhost"],
        "Submitter": ["alice@localhost"],
        "StartD": ["localhost"],
        "Scheduler": ["localhost"],
        "DaemonMaster": ["localhost"],
        "Negotiator": ["localhost"],
        "Machine": ["slot1@localhost", *(f"slot1_{number}@localhost" for number in range(1, 9))],
        "Accounting": ["<none>", "alice@localhost"],
    }
    ads = [ClassAd({"MyType": kind, "Name": name}) for kind, of_kind in names.items() for name in of_kind]
    ads = [changed(ad, TargetType="Job") if ad.eval("MyType") == "Machine" else ad for ad in ads]
    expected = capture(name)
    query = status.parse_arguments([*expected.argv, "-sort", "no"])
    assert printed(status.render(ads, query, surroundings_at())) == expected.out


# -- where Poolbook differs -------------------------------------------------------------------------------------------


def test_an_unknown_name_is_refused() -> None:
    expected = capture("status_name_unknown")
    assert expected.exit_code == ToolError.exit_code
    with pytest.raises(ToolError, match="the pool has no slot or machine nosuch"):
        printed(status.render(captured_ads("status_long"), status.parse_arguments(expected.argv), surroundings_at()))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("status_available", r"unknown option -available \(near: -avail"),
        ("status_xx", "unknown option -xx"),
        ("status_nobatch", "unknown option -nobatch"),
        ("status_subsystem", "-subsystem is not supported: use -schedd"),
        ("status_compact_run", "-compact shows slots and cannot be combined with -run"),
    ],
)
def test_wrong_usage_is_refused(name: str, message: str) -> None:
    expected = capture(name)
    assert expected.exit_code == 1
    with pytest.raises(UsageError, match=message):
        status.parse_arguments(expected.argv)


# -- beyond the captures ----------------------------------------------------------------------------------------------


def shown(argv: list[str], *ads: ClassAd, width: int | None = None) -> list[str]:
    return printed(status.render(ads, status.parse_arguments(argv), surroundings_at(width=width))).splitlines()


def slot(name: str, **attributes: object) -> ClassAd:
    machine = name.partition("@")[2]
    plain = {"MyType": "Machine", "Name": name, "Machine": machine, "State": "Unclaimed", "Activity": "Idle"}
    platform = {"Arch": "X86_64", "OpSys": "LINUX", "OpSysAndVer": "Debian13"}
    return ClassAd({**plain, **platform, "Cpus": 1, "Memory": 1024, "EnteredCurrentActivity": 1795214126, **attributes})


def test_no_ads_give_no_output() -> None:
    assert shown([]) == []
    assert shown(["-compact"]) == []
    assert shown(["-totals"]) == []
    assert shown(["--json"]) == ["[", "]"]


def test_an_ad_without_times_counts_until_now() -> None:
    assert shown([], slot("slot1@a"))[2].endswith("0+00:01:00")


def test_names_sort_by_the_numbers_in_them() -> None:
    slots = [slot(f"slot{number}@a") for number in (10, 9, 1)]
    assert shown(["-af", "Name"], *slots) == ["slot1@a", "slot9@a", "slot10@a"]
    assert shown(["-af", "Name", "-natural:off"], *slots) == ["slot10@a", "slot1@a", "slot9@a"]
    assert shown(["-af", "Name", "-sort", "none"], *slots) == ["slot10@a", "slot9@a", "slot1@a"]
    assert shown(["-af", "Name", "-sort", "Memory", "-limit", "1"], *slots) == ["slot10@a"]


def test_the_name_of_a_machine_selects_all_its_slots() -> None:
    slots = [slot("slot1@a"), slot("slot2@a"), slot("slot1@b")]
    assert shown(["a", "-af", "Name"], *slots) == ["slot1@a", "slot2@a"]
    assert shown(["slot1@b", "-af", "Name"], *slots) == ["slot1@b"]


def test_a_long_name_is_shown_completely_if_the_terminal_is_wide_enough() -> None:
    long_name = slot("slot1@" + "a" * 60)
    assert "a" * 60 in shown([], long_name)[2]
    assert all(len(line) <= 79 for line in shown([], long_name, width=80)[:3])
    assert "a" * 60 in shown(["-wide"], long_name, width=80)[2]


@together(
    ("own", "children", "activities", "cpus", "letters"),
    [
        ("Unclaimed", [], [], 4, "Ui"),
        ("Unclaimed", ["Claimed", "Claimed"], ["Busy", "Busy"], 0, "Cb"),
        ("Unclaimed", ["Claimed", "Claimed"], ["Busy", "Busy"], 4, "**"),
        ("Unclaimed", ["Claimed", "Claimed"], ["Busy", "Retiring"], 0, "C*"),
        ("Unclaimed", ["Claimed", "Preempting"], ["Busy", "Vacating"], 0, "Pv"),
        ("Drained", ["Claimed"], ["Retiring"], 0, "C*"),
        ("Drained", [], [], 4, "Di"),
    ],
)
def test_a_machine_has_the_letters_of_its_slots(
    own: str, children: list[str], activities: list[str], cpus: int, letters: str
) -> None:
    machine = slot("slot1@a", State=own, PartitionableSlot=True, Cpus=cpus, SlotType="Partitionable")
    machine.update(ChildState=children, ChildActivity=activities, NumDynamicSlots=len(children))
    heading, _, line = shown(["-compact"], machine)[:3]
    place = heading.index(" ST ") + 1
    assert line[place : place + 2] == letters


def test_static_slots_of_a_machine_share_a_line() -> None:
    slots = [
        slot("slot1@a", SlotType="Static", State="Claimed", Activity="Busy", Memory=2048, TotalSlotCpus=1),
        slot("slot2@a", SlotType="Static"),
        slot("slot3@a", SlotType="Static"),
        slot("slot1@b", SlotType="Static"),
    ]
    lines = shown(["-compact"], *slots)
    assert [line.split()[:3] for line in lines[2:4]] == [["a", "x64/Debian13", "3S"], ["b", "x64/Debian13", "1S"]]
    heading, first = lines[0], lines[2]
    assert first[heading.index("FreCpu") :].split()[:2] == ["2", "2.00"]
    assert first[heading.index("MaxSlotGb") :].split() == ["2.00"]
    assert " ** " in first


def test_slots_of_another_type_have_a_line_below_their_machine() -> None:
    slots = [
        slot("slot1@a", SlotType="Partitionable", PartitionableSlot=True, SlotTypeId=1, NumDynamicSlots=0),
        slot("slot2@a", SlotType="Static", SlotTypeId=2),
    ]
    assert [line.split()[0] for line in shown(["-compact"], *slots)[2:4]] == ["a", "slot2"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["-schedd", "-master"], "are different tables"),
        (["-compact", "-state"], "no columns for -state"),
        (["-sort", "1 +"], "-sort: not a valid expression"),
        (["-constraint", "("], "-constraint: not a valid expression"),
        (["-limit", "0"], "must be a whole number, at least 1"),
    ],
)
def test_meaningless_arguments_are_wrong_usage(argv: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        status.parse_arguments(argv)


def test_run_after_slots_means_claimed_slots() -> None:
    assert status.parse_arguments(["-slots", "-run"]).view == "claimed"
    assert status.parse_arguments(["-schedd", "-run"]).view == "run"
    assert status.parse_arguments(["-run"]).view == "run"
