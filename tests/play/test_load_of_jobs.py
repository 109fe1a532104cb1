"""The load of a job ends with the job, also on a machine without any other readings."""

from poolbook.testing import play


def test_a_slot_publishes_that_the_load_of_an_evicted_job_has_ended_so_that_the_job_is_matched_again() -> None:
    report = play("""
        until 12min
        machine node
        config
            use FEATURE : StaticSlots
            RUNBENCHMARKS = False
            START = LoadAvg < 0.3
            WANT_SUSPEND = False
            PREEMPT = LoadAvg > 0.8
        end
        at 0:10 submit alice run=30:00 load=1.0
    """)
    starts = [event for _, event in report.events if type(event).__name__ == "JobActivated"]
    assert len(starts) > 2
