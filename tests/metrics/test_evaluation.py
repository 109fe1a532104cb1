"""property: aggregates, counters and resets over several updates."""

from __future__ import annotations

from pathlib import Path

from poolbook.adapters.metrics.evaluation import Evaluator, Metric
from poolbook.adapters.metrics.resets import Resets
from poolbook.domain.classad import ClassAd

from ..together import together

FINISHED = ClassAd.from_new(
    '[ Name = "Finished"; Value = JobsCompleted; Aggregate = "SUM"; Counter = true; TargetType = "Scheduler" ]'
)


def schedd(name: str, completed: int, started: int = 1) -> ClassAd:
    return ClassAd({"MyType": "Scheduler", "Name": name, "JobsCompleted": completed, "DaemonStartTime": started})


def published(evaluator: Evaluator, *ads: ClassAd) -> list[tuple[object, bool]]:
    return [(metric.value, metric.derivative) for _, metric in evaluator.evaluate(ads, "cm")]


def test_the_sum_of_counters_grows_by_what_each_daemon_adds_after_the_first_update() -> None:
    evaluator = Evaluator("ganglia", [FINISHED])
    assert published(evaluator, schedd("a", 100), schedd("b", 50)) == []
    assert published(evaluator, schedd("a", 107), schedd("b", 51)) == [(8, True)]
    assert published(evaluator, schedd("a", 2, started=2), schedd("b", 54)) == [(11, True)]  # a was restarted
    assert published(evaluator, schedd("a", 3, started=2), schedd("b", 54)) == [(12, True)]


def test_the_maximum_of_counters_is_a_gauge() -> None:
    evaluator = Evaluator("ganglia", [ClassAd({**dict(FINISHED.items()), "Aggregate": "MAX"})])
    published(evaluator, schedd("a", 100), schedd("b", 50))
    assert published(evaluator, schedd("a", 103), schedd("b", 60)) == [(10, False)]


@together(
    ("function", "values", "texts"),
    [
        ("AVG", ("4", '"text"', "2"), ["3"]),
        ("MIN", ('"text"', "4"), ["4"]),
        ("SUM", ('"text"', '"other"'), []),
        ("SUM", ("true", "true"), [""]),
        ("MAX", ("1.5", "2"), ["2"]),
    ],
)
def test_an_aggregate_has_only_numbers_and_no_text_for_other_types(
    function: str, values: tuple[str, ...], texts: list[str]
) -> None:
    definition = ClassAd({"Name": "Load", "TargetType": "Any", "Aggregate": function})
    ads = [ClassAd.from_new(f'[ MyType = "Scheduler"; Load = {value} ]') for value in values]
    assert [metric.text() for _, metric in Evaluator("ganglia", [definition]).evaluate(ads, "cm")] == texts


def test_an_attribute_for_one_system_overrides_the_general_one() -> None:
    definition = ClassAd({**dict(FINISHED.items()), "Aggregate": "MAX", "Counter": False, "Ganglia_Name": "Done"})
    names = [
        [metric.name for _, metric in Evaluator(system, [definition]).evaluate([schedd("a", 1)], "cm")]
        for system in ("ganglia", "prometheus")
    ]
    assert names == [["Done"], ["Finished"]]


def test_a_metric_can_be_exported_to_one_system_only() -> None:
    definition = ClassAd({"Name": "JobsCompleted", "TargetType": "Scheduler", "ExportMetric": "prometheus"})
    counts = [
        len(list(Evaluator(system, [definition]).evaluate([schedd("a", 1)], "cm")))
        for system in ("ganglia", "prometheus")
    ]
    assert counts == [0, 1]


def test_an_aggregate_that_ends_is_reset_to_0_even_by_another_process(tmp_path: Path) -> None:
    path = tmp_path / "metricsToReset.ganglia_metrics"
    metric = Metric(name="Jobs ~ of\nalice", value=3, type="int32", targets=("submitter",), desc="jobs")
    resets = Resets(path)
    assert resets.ended([("a", metric), ("", metric)]) == []
    assert path.read_text().startswith("1~1~Jobs   of alice~~jobs~")
    restarted = Resets(path)
    (ended,) = restarted.ended([])
    assert (ended.name, ended.text(), ended.desc) == ("Jobs   of alice", "0", "jobs")
    assert restarted.ended([]) == []
    path.write_text("2~1~damaged")
    assert Resets(path).ended([]) == []
