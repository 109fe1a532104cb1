"""Golden: `poolbook q` and condor_q print the same for the same jobs."""

from pathlib import Path

import pytest

from poolbook import Behaviour, Pool
from poolbook.adapters.cli.main import main
from poolbook.adapters.condor_tools import queue_table
from poolbook.adapters.condor_tools.batches import Census
from poolbook.adapters.condor_tools.options import UsageError
from poolbook.domain.classad import ClassAd

from ..together import together
from .captures import capture, captured_ads, changed, printed, surroundings_at

# The second at which each was captured. The queue was the same in all of them, and is known from q_long.
SAME_QUEUE = {
    "q_all": 25,
    "q_all_nobatch": 25,
    "q_allusers": 25,
    "q_nobatch": 25,
    "q_run": 25,
    "q_run_all_nobatch": 25,
    "q_idle": 25,
    "q_hold": 25,
    "q_hold_nobatch": 25,
    "q_totals": 26,
    "q_total_all": 26,
    "q_user": 26,
    "q_wide": 26,
    "q_autocluster": 26,
    "q_cpu": 26,
    "q_dag": 26,
    "q_constraint": 26,
    "q_global": 26,
    "q_grid": 26,
    "q_io": 26,
    "q_empty": 26,
    "q_af": 26,
    "q_af_comma": 26,
    "q_af_expr": 26,
    "q_af_jh": 26,
    "q_af_lrng": 26,
    "q_af_r": 26,
    "q_af_tn": 26,
    "q_format": 26,
    "q_long": 26,
    "q_long_attributes": 26,
    "q_json_attributes": 26,
    "q_xml_attributes": 26,
    "q_json_empty": 26,
}


@together("name", SAME_QUEUE)
def test_the_captured_queue_prints_as_by_condor_q(name: str) -> None:
    expected = capture(name)
    lines = queue_table.render(
        captured_ads("q_long"), queue_table.parse_arguments(expected.argv), surroundings_at(SAME_QUEUE[name])
    )
    assert printed(lines) == expected.out
    assert expected.exit_code == 0


def test_complete_ads_are_printed_as_json_a_second_before() -> None:
    expected = capture("q_json")
    ads = [changed(ad, ServerTime=1795214185) for ad in captured_ads("q_long")]
    # There was no negotiation cycle in between.
    ads = [changed(ad, LastRejMatchTime=1795214184) if ad.eval("LastRejMatchTime") == 1795214186 else ad for ad in ads]
    assert (
        printed(queue_table.render(ads, queue_table.parse_arguments(expected.argv), surroundings_at())) == expected.out
    )


def a_second_before() -> list[ClassAd]:
    """Return the queue of q_default: 53.0 was still running, 55.0 still idle."""
    jobs = {(int(ad.eval("ClusterId")), int(ad.eval("ProcId"))): ad for ad in captured_ads("q_long")}
    jobs[53, 0] = changed(jobs[53, 1], ProcId=0)
    jobs[55, 0] = changed(jobs[55, 0], JobStatus=1, ShadowBday=None)
    return [jobs[key] for key in sorted(jobs)]


def test_the_default_is_one_line_for_each_batch() -> None:
    expected = capture("q_default")
    assert (
        printed(queue_table.render(a_second_before(), queue_table.parse_arguments(expected.argv), surroundings_at(25)))
        == expected.out
    )


GROUPED = [
    ("-group-by -af RequestMemory JobCount", "128 12\n64 3\n"),
    ("-group-by -af RequestMemory JobCount JobIds -limit 1", "128 12 37.0 ... 55.0\n"),
    ("-group-by -constraint JobStatus==5 -af:h Owner JobCount", "Owner JobCount\nalice 3       \n"),
    ("-autocluster -constraint JobCount>3 -af AutoClusterId JobCount", "8 4\n10 6\n"),
]


@together(("arguments", "out"), GROUPED)
def test_equal_jobs_are_counted(arguments: str, out: str) -> None:
    assert (
        printed(
            queue_table.render(
                captured_ads("q_long"), queue_table.parse_arguments(arguments.split()), surroundings_at()
            )
        )
        == out
    )


@together(
    ("arguments", "out"),
    [
        ("-long:json -limit 1 -attributes ClusterId", '[\n{\n  "ClusterId": 37\n}\n]\n'),
        ("-long:long -limit 1 -attributes ClusterId", "ClusterId = 37\n\n"),
        ("-grid -af ClusterId", ""),
    ],
)
def test_forms_and_missing_jobs(arguments: str, out: str) -> None:
    assert (
        printed(
            queue_table.render(
                captured_ads("q_long"), queue_table.parse_arguments(arguments.split()), surroundings_at()
            )
        )
        == out
    )


def test_unmatchable_jobs_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = str(tmp_path / "pool.db")
    with Pool.open(url, user="alice", behave=lambda launch: Behaviour(600)) as pool:
        pool.add_machine("node1", cpus=4, memory=8192)
        pool.submit({"executable": "/bin/work"}, count=5)
        pool.submit({"executable": "/bin/work", "request_cpus": "5"}, count=2)
        pool.submit({"executable": "/bin/work", "requirements": 'Machine == "node2"'})
    assert main(["q", "-allusers", "-unmatchable", "-af:j", "RequestCpus", "-log", url]) == 0
    assert capsys.readouterr().out == "2.0 5\n2.1 5\n3.0 1\n"
    assert main(["q", "-allusers", "-unmatchable", "-totals", "-log", url]) == 0
    assert "Total for query: 3 jobs; 0 completed, 0 removed, 3 idle" in capsys.readouterr().out


# -- the queue half a minute later: cluster 65 ------------------------------------------------------------------------


def of_cluster_65(proc: int, status: int, **attributes: object) -> ClassAd:
    """Return a job of cluster 65, made from one of cluster 37, of which it is a copy."""
    base = captured_ads("q_long")[proc]
    changes = {"ClusterId": 65, "JobStatus": status, "QDate": 1795214208, "RemoteHost": f"slot1_{3 + proc}@localhost"}
    absent = {"MemoryUsage": None, "ImageSize": 47, "ShadowBday": 1795214210}
    return changed(base, **{**changes, **absent, **attributes})


LATER = {
    "q_job": (54, of_cluster_65(0, 2), {1: 1, 2: 4}),
    "q_job_nobatch": (54, of_cluster_65(0, 2), {1: 1, 2: 4}),
    "q_suspended": (71, of_cluster_65(0, 7, ShadowBday=1795214224, JobPrio=3, MemoryUsage=2), {1: 1, 2: 3, 7: 1}),
}


@pytest.mark.parametrize("name", LATER)
def test_one_job_is_shown_with_the_totals_of_all(name: str) -> None:
    second, job, all_jobs = LATER[name]
    expected = capture(name)
    census = Census({}, None, all_jobs)
    assert (
        printed(queue_table.render([job], queue_table.parse_arguments(expected.argv), surroundings_at(second), census))
        == expected.out
    )


def held_65() -> list[ClassAd]:
    common = {"EnteredCurrentStatus": 1795214223, "HoldReasonCode": 1, "ShadowBday": None}
    return [
        of_cluster_65(0, 5, HoldReason="via condor_hold (by user alice)", HoldReasonSubCode=0, **common),
        of_cluster_65(1, 5, HoldReason="my reason (by user alice)", HoldReasonSubCode=42, **common),
    ]


@pytest.mark.parametrize(("name", "second"), [("q_hold2", 64), ("q_hold_af", 64)])
def test_a_job_that_a_user_holds_shows_code_subcode_and_reason(name: str, second: int) -> None:
    expected = capture(name)
    counts = {1: 1, 2: 2, 5: 2}
    census = Census({}, counts, counts)
    assert (
        printed(
            queue_table.render(held_65(), queue_table.parse_arguments(expected.argv), surroundings_at(second), census)
        )
        == expected.out
    )


@pytest.mark.parametrize("name", ["q_af_jr", "q_af_jr_unknown", "q_af_lng_law", "q_af_j_blank"])
def test_queries_of_clients_for_single_jobs(name: str) -> None:
    expected = capture(name)
    jobs = [of_cluster_65(proc, 2, ExitCode=None) for proc in (0, 1)]
    assert (
        printed(queue_table.render(jobs, queue_table.parse_arguments(expected.argv), surroundings_at())) == expected.out
    )


def test_a_limit_counts_jobs_and_so_do_the_totals_of_the_query() -> None:
    # condor_q takes the first job of each cluster first; Poolbook takes jobs by id. So the two jobs are passed
    # directly.
    expected = capture("q_limit")
    jobs = [ad for ad in captured_ads("q_long") if ad.eval("ProcId") == 0]
    counts = {1: 4, 2: 8, 5: 3}
    census = Census({}, counts, counts)
    assert (
        printed(queue_table.render(jobs, queue_table.parse_arguments(expected.argv), surroundings_at(), census))
        == expected.out
    )


# -- where Poolbook differs -------------------------------------------------------------------------------------------


def test_an_invalid_constraint_is_wrong_usage_and_shown() -> None:
    expected = capture("q_bad_constraint")
    assert expected.exit_code == 1
    with pytest.raises(UsageError, match="-constraint: not a valid expression"):
        queue_table.parse_arguments(expected.argv)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("q_goodput", "unknown option -goodput"),
        ("q_groupby", r"unknown option -groupby \(near: -group-by\)"),
    ],
)
def test_an_unknown_or_meaningless_option_is_refused(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        queue_table.parse_arguments(capture(name).argv)


@pytest.mark.parametrize("name", ["q_noschedd", "q_badpool"])
def test_an_unknown_pool_is_reported_as_by_condor_q(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = capture(name)
    monkeypatch.setattr("sys.argv", ["/tools/condor_q", *expected.argv])
    code = main()
    out, err = capsys.readouterr()
    assert (out + err, code) == (expected.out + expected.err, expected.exit_code)


def test_json_lines_are_printed_although_condor_q_lacks_them() -> None:
    expected = capture("q_jsonl")
    assert "unrecognized argument -jsonl" in expected.err
    lines = printed(
        queue_table.render(captured_ads("q_long"), queue_table.parse_arguments(expected.argv), surroundings_at())
    ).splitlines()
    assert len(lines) == 15
    assert lines[0] == '{"ClusterId": 37,"JobStatus": 2,"ProcId": 0}'


@pytest.mark.parametrize(
    "argv",
    [["-run", "-hold"], ["-idle", "-held"], ["-currentrun", "-cumulative-time"], ["-batch", "-af", "ClusterId"]],
)
def test_options_that_exclude_each_other_are_wrong_usage(argv: list[str]) -> None:
    with pytest.raises(UsageError):
        queue_table.parse_arguments(argv)


# -- beyond the captures ----------------------------------------------------------------------------------------------


def shown(argv: list[str], *ads: ClassAd, me: str = "", width: int | None = None) -> list[str]:
    return printed(
        queue_table.render(ads, queue_table.parse_arguments(argv), surroundings_at(me=me, width=width))
    ).splitlines()


def job(cluster: int, proc: int = 0, **attributes: object) -> ClassAd:
    plain = {"ClusterId": cluster, "ProcId": proc, "Owner": "alice", "JobStatus": 1, "QDate": 1795214171}
    return ClassAd({**plain, "RemoteUserCpu": 0.0, "JobPrio": 0, "Cmd": "/bin/true", **attributes})


def test_ids_of_five_digits_move_the_columns() -> None:
    lines = shown(["-nobatch"], job(12345, 1234), job(7))
    assert lines[3:6] == [
        " ID        OWNER            SUBMITTED     RUN_TIME ST PRI SIZE CMD",
        "    7.0    alice          11/20 22:36   0+00:00:00 I  0        true",
        "12345.1234 alice          11/20 22:36   0+00:00:00 I  0        true",
    ]


def test_jobs_of_others_are_shown_on_request() -> None:
    both_jobs = [job(1), job(2, Owner="bob")]
    assert shown(["-af", "Owner"], *both_jobs, me="bob@here") == ["bob"]
    assert shown(["-all", "-af", "Owner"], *both_jobs, me="bob@here") == ["alice", "bob"]
    assert shown(["alice", "-af", "Owner"], *both_jobs, me="bob@here") == ["alice"]
    assert shown(["1", "-af", "Owner"], *both_jobs, me="bob@here") == ["alice"]


def test_jobs_with_one_of_the_owners_or_ids_are_shown() -> None:
    both_jobs = [job(1), job(2, Owner="bob")]
    assert shown(["bob", "1", "-af:j", "Owner"], *both_jobs) == ["1.0 alice", "2.0 bob"]
    assert shown(["bob", "2", "-af:j", "Owner"], *both_jobs) == ["2.0 bob"]


def test_clusters_with_the_same_name_and_owner_are_one_batch() -> None:
    jobs = [
        job(1, 0, JobBatchName="night", TotalSubmitProcs=3),
        job(1, 2, JobBatchName="night", TotalSubmitProcs=3, JobStatus=2),
        job(4, 0, JobBatchName="night", TotalSubmitProcs=1, JobStatus=5),
        job(5, 0, JobBatchName="night", TotalSubmitProcs=1, Owner="bob"),
        job(6, 0),
    ]
    assert shown([], *jobs)[3:7] == [
        "OWNER BATCH_NAME    SUBMITTED   DONE   RUN    IDLE   HOLD  TOTAL JOB_IDS",
        "alice night       11/20 22:36      1      1      1      1      4 1.0 ... 4.0",
        "bob   night       11/20 22:36      _      _      1      _      1 5.0",
        "alice ID: 6       11/20 22:36      _      _      1      _      _ 6.0",
    ]


def test_names_are_shortened_on_a_narrow_terminal_but_not_with_wide() -> None:
    long_name = job(1, JobBatchName="a name of more than forty letters, and then some")
    assert max(map(len, shown([], long_name, width=80)[3:5])) <= 79
    assert "and then some" not in shown([], long_name, width=80)[4]
    assert "and then some" in shown(["-wide"], long_name, width=80)[4]
    assert len(shown(["-nobatch", "-wide:40"], long_name)[4]) == 39


def test_cpu_time_replaces_run_time() -> None:
    lines = shown(["-nobatch", "-cputime"], job(1, RemoteUserCpu=3661.0, RemoteWallClockTime=9.0))
    assert "CPU_TIME" in lines[3]
    assert "0+01:01:01" in lines[4]


@together(
    ("attributes", "letters"),
    [
        ({"JobStatus": 1}, "I"),
        ({"JobStatus": 2}, "R"),
        ({"JobStatus": 3}, "X"),
        ({"JobStatus": 4}, "C"),
        ({"JobStatus": 5}, "H"),
        ({"JobStatus": 6}, " >"),
        ({"JobStatus": 7}, "S"),
        ({"JobStatus": 2, "TransferringInput": True}, "<"),
        ({"JobStatus": 2, "TransferringInput": True, "TransferQueued": True}, "<q"),
        ({"JobStatus": 2, "TransferringOutput": True, "TransferQueued": True}, "q>"),
    ],
)
def test_a_status_has_its_letters(attributes: dict[str, object], letters: str) -> None:
    heading, line = shown(["-nobatch"], job(1, 0, **attributes))[3:5]
    place = heading.index(" ST ") + 1
    assert line[place : place + 2].rstrip() == letters


def test_json_with_two_dashes_is_always_valid() -> None:
    assert shown(["--json", "99"], job(1)) == ["[", "]"]
    assert shown(["-json", "99"], job(1)) == []


def test_totals_as_json_are_an_ad() -> None:
    lines = shown(["-totals", "--json", "-attributes", "Jobs,AllusersIdle"], job(1), job(2))
    assert lines == ["[", "{", '  "AllusersIdle": 2,', '  "Jobs": 2', "}", "]"]


def test_an_expression_that_cannot_be_evaluated_is_an_error_in_its_place() -> None:
    deep = ClassAd.from_old("A0 = 1\n" + "".join(f"A{n} = A{n - 1} + 1\n" for n in range(1, 2000)))
    deep.update(ClusterId=1, ProcId=0, JobStatus=1)
    assert shown(["-af", "ClusterId", "A1999"], deep) == ["1 error"]
