"""Golden and property: the audit finds nothing in a pool's agreeing files, and finds each lie of one file about one
fact that another file contradicts. ``honest`` has the pool that tells the truth, and its possible lies. The recorded
runs of a real pool contain no contradiction; a changed number in them is detected."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from poolbook.adapters.condor_files.importing.folders import kind_of
from poolbook.domain.imported.record_sources import KINDS
from poolbook.replay.forensics.audit.compared_facts import FACTS, LETTERS, Fact
from poolbook.replay.forensics.audit.tolerances import ANY

from ..sampling import soak_examples, some, thorough
from ..together import together
from .honest import FILES, Examination, File, examine_files, honest_file
from .rules_page import RULES, fill
from .truth import BEGIN, CHANGES, Truth, follows, lies

ROOT = Path(__file__).resolve().parent.parent.parent
TRACES = ROOT / "tests" / "data" / "traces"
PAGE = (ROOT / "docs" / "import.md").read_text(encoding="utf-8")
HONEST = [honest_file(kind, Truth()) for kind in FILES]


def contradicted_facts(examined: Examination) -> list[tuple[str, str]]:
    assert not examined.refused
    assert not examined.left
    assert not examined.audit.violations
    return [(contradiction.thing, contradiction.fact) for contradiction in examined.audit.contradictions]


# -- An honest pool, and one that lies ---------------------------------------------------------------------------------


def test_every_kind_of_source_and_every_fact_is_covered() -> None:
    assert FILES.keys() == KINDS.keys()
    assert CHANGES.keys() == FACTS.keys()


def test_an_honest_pool_is_sound() -> None:
    assert contradicted_facts(examine_files(HONEST)) == []


def can_contradict(fact: Fact, kind: str, other_kind: str) -> bool:
    """Return True if two kinds can contradict each other about a fact: two lower bounds never do."""
    first, second = fact.sources[kind], fact.sources[other_kind]
    return not (first.above == second.above == ANY or first.below == second.below == ANY)


@pytest.mark.parametrize("of_a_liar", thorough(1))
@pytest.mark.parametrize("fact", FACTS)
def test_a_lie_of_any_source_against_any_other_is_detected(fact: str, of_a_liar: int) -> None:
    """Each source lies, against so many honest ones: a different one for each liar, as far as there are any."""
    sayings = [*FACTS[fact].sources]
    others_by_liar = {liar: sayings[place + 1 :] + sayings[:place] for place, liar in enumerate(sayings)}
    pairs = [
        (kind, other_kind)
        for kind in others_by_liar
        for other_kind in [
            other_kind for other_kind in others_by_liar[kind] if can_contradict(FACTS[fact], kind, other_kind)
        ][:of_a_liar]
    ]
    assert pairs
    for liar, honest in pairs:
        detected = set()
        for truth in lies(fact):
            files = [honest_file(LETTERS[liar], truth), honest_file(LETTERS[honest], Truth())]
            facts = {accusation[1] for accusation in contradicted_facts(examine_files(files))}
            assert facts <= follows(fact), (liar, honest, truth)
            detected |= facts
        assert fact in detected, f"{liar} lies about it, {honest} does not"


@together("fact", FACTS)
def test_a_contradiction_names_each_source_with_its_value_and_place(fact: str) -> None:
    liar, honest = (LETTERS[letter] for letter in list(FACTS[fact].sources)[1::-1])
    files = [honest_file(liar, lies(fact)[0]), honest_file(honest, Truth())]
    contradiction, *_ = (candidate for candidate in examine_files(files).audit.contradictions if candidate.fact == fact)
    letters = [KINDS[stated.kind].letter for stated in contradiction.stated]
    assert letters == sorted(letters, key=list(FACTS[fact].sources).index)
    # An ad with the global id of another number is not a record of the same job: it contradicts itself.
    assert {stated.kind for stated in contradiction.stated} == ({liar} if fact == "number" else {liar, honest})
    for stated in contradiction.stated:
        (source,) = (file for file in files if file.path == stated.file)
        assert 1 <= stated.line <= source.data.count(b"\n")
        assert stated.value in contradiction.words
    assert len({stated.value for stated in contradiction.stated}) > 1


def test_one_lie_is_one_contradiction_with_all_contradicting_sources() -> None:
    files = [honest_file(kind, Truth(exit="code 1") if kind == "history" else Truth()) for kind in FILES]
    (contradiction,) = examine_files(files).audit.contradictions
    assert (contradiction.thing, contradiction.fact, contradiction.run) == ("7.0", "exit", 2)
    assert {statement.kind: statement.value for statement in contradiction.stated} == {
        "userlog": "code 0",
        "eventlog": "code 0",
        "shadowlog": "code 0",
        "starterlog": "code 0",
        "epochs": "code 0",
        "startd_history": "code 0",
        "history": "code 1",
        "queue": "code 0",
        "job_ads": "code 0",
    }
    assert contradiction.words.endswith("; code 1 in the job history")
    assert "code 0 in alice-job.log and the pool-wide EventLog and" in contradiction.words


# -- No contradiction -------------------------------------------------------------------------------------------------


def test_a_reused_number_is_another_job() -> None:
    second = Truth(user="bob@pool", group="physics.bob", matched="physics.bob@pool", exit="code 7", holds=0, starts=1)
    later = 100_000

    def both(kind: str) -> File:
        if kind in ("queue", "accountant", "startlog"):  # these would have to be one table, and one daemon's life
            return honest_file(kind, Truth())
        path, render = FILES[kind]
        later_truth = evolve(
            second, **{n: getattr(second, n) + later for n in ("born", "submitted", "placed1", "began1", "stopped1")}
        )
        later_truth = evolve(later_truth, **{n: getattr(second, n) + later for n in ("placed", "began", "ended")})
        text = render(Truth()) + re.sub(r"^008 .*\n\.\.\.\n", "", render(later_truth))
        return File(path, kind, text.encode())

    kinds = [kind for kind in FILES if kind not in ("machine_ads", "submitter_ads", "job_ads")]
    assert contradicted_facts(examine_files(both(kind) for kind in kinds)) == []


@pytest.mark.parametrize(("address", "expected"), [(b"10.0.0.2", []), (b"10.0.0.1", [("7.0", "submitter")])])
def test_two_access_points_may_request_the_same_number_from_one_negotiator(
    address: bytes, expected: list[tuple[str, str]]
) -> None:
    """Only the address of the access point distinguishes the jobs."""
    bob = Truth(group="physics.bob", matched="physics.bob@pool", submitted=3, placed1=160, placed=2300)
    files = []
    for kind in ("negotiatorlog", "matchlog"):
        other = honest_file(kind, bob)
        files += [honest_file(kind, Truth()), other._replace(data=other.data.replace(b"10.0.0.1", address))]
    assert contradicted_facts(examine_files(files)) == expected


def test_two_access_points_may_use_the_same_number_simultaneously() -> None:
    """Records that name their access point are compared with that access point's; a log that fits both is not."""
    files = []
    for kind in ("history", "epochs", "job_ads", "eventlog"):
        files.append(honest_file(kind, Truth()))
        other = honest_file(kind, Truth(user="bob@pool", exit="code 9", holds=0))
        files.append(other._replace(data=other.data.replace(b"submit#", b"second#").replace(b"10.0.0.1", b"10.0.0.2")))
    assert contradicted_facts(examine_files(files)) == []


@st.composite
def stories(draw: st.DrawFn) -> Truth:
    """Draw a possible story: all instants in order, from a second to minutes apart."""
    steps = [draw(st.integers(1, 400)) for _ in range(6)]
    placed1 = 90 + steps[0]
    began1, stopped1 = placed1 + steps[1] % 200, placed1 + steps[1] % 200 + steps[2]
    placed = max(stopped1 + steps[3], 1300)
    began = placed + steps[4] % 250
    ended = max(began + steps[5], 1301)
    run, other = draw(st.integers(0, 10_000)), draw(st.integers(0, 500))
    wall = (stopped1 - placed1) + (ended - placed)
    return Truth(
        submitted=draw(st.integers(-20, 20)),
        holds=draw(st.integers(0, 3)),
        hold_code=draw(st.integers(1, 46)),
        placed1=placed1,
        began1=began1,
        stopped1=stopped1 - (wall - 1400),  # ``evicted`` adds it again
        placed=placed,
        began=began,
        ended=ended,
        wall=wall,
        exit=draw(st.sampled_from(["code 0", "code 1", "code 255", "signal 9", "signal 11"])),
        became=draw(st.sampled_from(["completed", "removed"])),
        run_user_cpu=run,
        user_cpu=run + 50,
        busy=max(0, ended - placed - draw(st.integers(0, 9))),
        executed=draw(st.integers(0, 10_000)),
        memory=draw(st.integers(0, 10**6)),
        disk=draw(st.integers(0, 10**9)),
        sent=draw(st.integers(0, 10**12)),
        received=draw(st.integers(0, 10**12)),
        local=draw(st.integers(0, 100)),
        run_system_cpu=other,
        system_cpu=other + 5,
        usage=draw(st.integers(0, 10**9)) / 7,
        priority=draw(st.integers(500_000, 10**9)) / 1_000_000,
        factor=draw(st.sampled_from([1.0, 10.0, 1000.0, 12.5])),
    )


_LOGS = {"startlog", "schedlog", "negotiatorlog", "matchlog", "userlog", "eventlog", "starterlog", "shadowlog"}
_OF_ENTRIES = {"userlog", "eventlog"}
_ANY_PART = {"history", "epochs", "startd_history"}


@settings(max_examples=15, deadline=None)
@given(stories(), st.data())
def test_honest_files_are_sound_whatever_they_lack(truth: Truth, data: st.DataObject) -> None:
    check_no_accusation(truth, data)


@pytest.mark.soak
@settings(max_examples=soak_examples(), deadline=None, suppress_health_check=list(HealthCheck))
@given(stories(), st.data())
def test_many_honest_files_are_sound(truth: Truth, data: st.DataObject) -> None:
    check_no_accusation(truth, data)


def check_no_accusation(truth: Truth, data: st.DataObject) -> None:
    files = []
    for kind in data.draw(st.lists(st.sampled_from(sorted(FILES)), min_size=2, unique=True)):
        if kind in ("machine_ads", "job_ads") and truth.became == "removed":
            continue
        content = honest_file(kind, truth)
        if kind == "machine_ads" and not truth.placed + 5 < 2500 < truth.ended - 5:
            continue  # no job ran when it was recorded
        lines = content.data.splitlines(keepends=True)
        begin = data.draw(st.integers(0, len(lines) // 2)) if kind in _LOGS else 0
        end = data.draw(st.integers(begin, len(lines))) if kind in _LOGS | _ANY_PART else len(lines)
        kept_lines = lines[begin:end]
        if kind in _LOGS and data.draw(st.booleans()):
            boundaries = [
                0,
                *(n for n, line in enumerate(kept_lines, 1) if kind not in _OF_ENTRIES or line == b"...\n"),
            ]
            first, last = sorted(data.draw(st.tuples(st.sampled_from(boundaries), st.sampled_from(boundaries))))
            kept_lines = [*kept_lines[:first], b"## trimmed here\n", *kept_lines[last:]]
        files.append(content._replace(data=b"".join(kept_lines)))
    audit = examine_files(files).audit
    assert audit.contradictions == []
    assert audit.violations == []


def test_an_event_log_copied_before_a_users_log_is_not_missing_entries() -> None:
    truth = Truth(holds=2, placed1=91, began1=92)
    files = {kind: honest_file(kind, truth) for kind in ("eventlog", "userlog", "startlog", "accountant")}
    until_evicted = {kind: files[kind].data.partition(b"004 (007")[0] for kind in ("eventlog", "userlog")}
    eviction = files["userlog"].data[len(until_evicted["userlog"]) :].partition(b"...\n")[0] + b"...\n"
    files["eventlog"] = files["eventlog"]._replace(data=until_evicted["eventlog"])
    files["userlog"] = files["userlog"]._replace(data=until_evicted["userlog"] + eviction)
    assert examine_files([*files.values()]).audit.violations == []


_ODD = st.one_of(
    st.binary(max_size=30),
    st.sampled_from([b"99999999999999999999", b"-1", b"nan", b"1e999", b"undefined", b'"', b"\n", b"7.0", b"\x00"]),
)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(HONEST), st.floats(0, 1), st.integers(0, 12), _ODD), max_size=12))
def test_rubbish_in_the_files_does_not_stop_the_audit(edits: list[tuple[File, float, int, bytes]]) -> None:
    files = {kind.kind: kind for kind in HONEST}
    for kind, position, length, rubbish in edits:
        data = files[kind.kind].data
        begin = int(position * len(data))
        files[kind.kind] = kind._replace(data=data[:begin] + rubbish + data[begin + length :])
    for contradiction in examine_files(files.values()).audit.contradictions:
        assert contradiction.fact in FACTS
        assert len(contradiction.stated) > 1


# -- Repetitions in one source ----------------------------------------------------------------------------------------


def test_a_job_twice_in_a_history_is_detected() -> None:
    history = honest_file("history", Truth())
    doubled = history._replace(data=history.data * 2)
    (violation,) = examine_files([doubled]).audit.violations
    assert (violation.thing, violation.rule) == ("7.0", "history_twice")
    assert (violation.file, violation.line) == ("history", history.data.count(b"\n") + 1)
    assert len(violation.story) == 2
    assert violation.rule in RULES
    assert contradicted_facts(examine_files([history, history._replace(path="history.ads")])) == []


@pytest.mark.parametrize("kind", ["epochs", "startd_history"])
def test_a_run_that_ends_twice_is_detected(kind: str) -> None:
    epochs = honest_file(kind, Truth())
    ads = re.findall(r"(?:.*\n)*?\*\*\*.*\n", epochs.data.decode())
    for repeated in (
        ads[-1],
        ads[-1].replace("slot2@", "slot3@"),
        ads[-1].replace(f"{BEGIN + 3000}", f"{BEGIN + 3500}"),
    ):
        (violation,) = examine_files([epochs._replace(data=epochs.data + repeated.encode())]).audit.violations
        assert (violation.thing, violation.rule) == ("7.0", "run_twice")
        assert (violation.file, violation.line) == (epochs.path, epochs.data.count(b"\n") + 1)
        assert len(violation.story) == 2
        assert violation.rule in RULES
    assert contradicted_facts(examine_files([epochs, epochs._replace(path="copy")])) == []


def test_an_end_repeated_by_an_orphaned_shadow_is_reported_but_not_a_violation() -> None:
    epochs = honest_file("epochs", Truth())
    last = re.findall(r"(?:.*\n)*?\*\*\*.*\n", epochs.data.decode())[-1]
    repeated = re.sub(r"(?m)^(EpochWriteDate = \d+)$", r"\1\nTerminationPending = true", last)
    audit = examine_files([epochs._replace(data=epochs.data + repeated.encode())]).audit
    assert audit.violations == []
    assert [(finding.thing, finding.rule) for finding in audit.repeated] == [("7.0", "repeated")]


def test_a_job_that_leaves_the_queue_twice_is_detected() -> None:
    queue = honest_file("queue", Truth())
    removal = b"102 7.0\n"
    (violation,) = examine_files([queue._replace(data=queue.data.replace(removal, removal * 2))]).audit.violations
    assert (violation.thing, violation.rule, len(violation.story)) == ("7.0", "gone_twice", 1)
    (violation,) = examine_files([queue._replace(data=queue.data + removal)]).audit.violations
    assert (violation.thing, violation.rule, violation.line) == ("7.0", "gone_twice", queue.data.count(b"\n") + 1)
    assert violation.rule in RULES
    assert len(violation.story) == 2


@pytest.mark.parametrize("kind", ["epochs", "startd_history"])
def test_two_simultaneous_jobs_under_one_claim_are_detected(kind: str) -> None:
    records = honest_file(kind, Truth())
    other = records.data.replace(b"ClusterId = 7", b"ClusterId = 8").replace(b"#7.0#", b"#8.0#")
    (first, second) = examine_files([records._replace(data=records.data + other)]).audit.violations
    assert first.rule == second.rule == "claim_twice"
    assert first.rule in RULES
    assert "jobs 7.0 and 8.0" in first.words
    later_file = honest_file(
        kind, evolve(Truth(), placed1=501, began1=502, stopped1=600, placed=3001, began=3002, ended=3100)
    )
    other_job = later_file.data.replace(b"ClusterId = 7", b"ClusterId = 8").replace(b"#7.0#", b"#8.0#")
    assert contradicted_facts(examine_files([records._replace(data=records.data + other_job)])) == []


# -- Recorded runs -----------------------------------------------------------------------------------------------------


@cache
def recorded(run: str) -> tuple[File, ...]:
    files = []
    for path in sorted(filter(Path.is_file, (TRACES / run).iterdir())):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        name = path.name.removesuffix(".gz")
        kind = kind_of(name, data[: 1 << 16])
        if kind is not None:
            files.append(File(name, kind, data))
    return tuple(files)


RUNS = sorted(path.name for path in TRACES.iterdir() if path.is_dir())


@pytest.mark.parametrize("run", some(RUNS, 8))
def test_a_recorded_run_has_no_contradiction(run: str) -> None:
    audit = examine_files(recorded(run)).audit
    assert audit.contradictions == []
    assert audit.violations == []


# An attribute of the history's ads, its replacement, and the fact that this falsifies.
EDITS: tuple[tuple[str, Callable[[str], object], str], ...] = (
    (r"^ExitCode = (\d+)$", lambda value: int(value) + 1, "exit"),
    (r"^RemoteUserCpu = ([\d.]+)$", lambda value: float(value) + 10, "run_user_cpu"),
    (r"^CumulativeRemoteSysCpu = ([\d.]+)$", lambda value: float(value) + 10, "system_cpu"),
    (r"^CompletionDate = (\d+)$", lambda value: int(value) + 30, "ended"),
    (r"^NumJobStarts = (\d+)$", lambda value: int(value) + 1, "starts"),
    (r"^QDate = (\d+)$", lambda value: int(value) - 1000, "submitted"),
    (r'^LastRemoteHost = "slot(\d+.*)"$', lambda value: f'"slot77{value}"', "slot"),
    (r"^JobCurrentStartExecutingDate = (\d+)$", lambda value: int(value) + 7, "began"),
)


@pytest.mark.parametrize(("pattern", "edit", "fact"), EDITS, ids=[fact for *_, fact in EDITS])
@pytest.mark.parametrize("run", ["01-plain", "07-drain", "11-concurrency"])
def test_a_changed_number_in_a_recorded_history_is_detected_for_every_job(
    run: str, pattern: str, edit: Callable[[str], object], fact: str
) -> None:
    jobs: set[str] = set()

    def changed(ad: str) -> str:
        match = re.search(pattern, ad, re.MULTILINE)
        completed = re.search(r"^JobStatus = 4$", ad, re.MULTILINE)
        if match is None or completed is None:
            return ad
        cluster, proc = (re.search(rf"^{name} = (\d+)$", ad, re.MULTILINE) for name in ("ClusterId", "ProcId"))
        assert cluster is not None
        assert proc is not None
        jobs.add(f"{cluster[1]}.{proc[1]}")
        line = f"{match[0].partition(' = ')[0]} = {edit(match[1])}"
        return ad[: match.start()] + line + ad[match.end() :]

    files = []
    for recording in recorded(run):
        if recording.kind == "history":
            text = "\n\n".join(changed(ad) for ad in recording.data.decode().split("\n\n"))
            recording = recording._replace(data=text.encode())
        if recording.kind in ("history", "eventlog"):
            files.append(recording)
    contradictions = examine_files(files).audit.contradictions
    assert len(jobs) >= 5
    assert {contradiction.thing for contradiction in contradictions if contradiction.fact == fact} == jobs


# -- The page ----------------------------------------------------------------------------------------------------------


def test_the_page_shows_the_compared_facts() -> None:
    assert fill(PAGE) == PAGE, "docs/import.md is out of date: run python docs/generate.py"
    assert fill(PAGE.replace("NumJobStarts", "NumShadowStarts")) == PAGE
    with pytest.raises(ValueError, match="each section once: see fact, facts"):
        fill(PAGE.replace("drawn: facts", "drawn: fact"))
