"""Golden and property: what a pool's files say alike is accused of nothing, and each lie of one file about one fact is
found when another one tells the truth.

``honest`` has the pool that tells the truth, and the ways in which it can lie. The recorded runs of a real pool
contradict themselves nowhere; where a figure in them is changed, that is found.
"""

from __future__ import annotations

import gzip
import os
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

from ..sampling import some, thorough
from ..together import together
from .honest import FILES, Examined, File, examine, file
from .rules_page import RULES, fill
from .truth import BEGIN, CHANGES, Truth, follows, lies

ROOT = Path(__file__).resolve().parent.parent.parent
TRACES = ROOT / "tests" / "data" / "traces"
PAGE = (ROOT / "docs" / "import.md").read_text(encoding="utf-8")
HONEST = [file(kind, Truth()) for kind in FILES]


SOAK_EXAMPLES = int(os.environ.get("POOLBOOK_SOAK_EXAMPLES", "20000"))


def accused(examined: Examined) -> list[tuple[str, str]]:
    assert not examined.refused
    assert not examined.left
    assert not examined.audit.violations
    return [(found.thing, found.fact) for found in examined.audit.contradictions]


# -- An honest pool, and one that lies ---------------------------------------------------------------------------------


def test_every_kind_of_source_is_rendered_and_every_fact_can_be_lied_about() -> None:
    assert FILES.keys() == KINDS.keys()
    assert CHANGES.keys() == FACTS.keys()


def test_an_honest_pool_is_accused_of_nothing() -> None:
    assert accused(examine(HONEST)) == []


def comparable(fact: Fact, one: str, other: str) -> bool:
    """Whether what two kinds say of a fact can contradict at all: two that say "at least" never do."""
    first, second = fact.sources[one], fact.sources[other]
    return not (first.above == second.above == ANY or first.below == second.below == ANY)


@pytest.mark.parametrize("of_a_liar", thorough(1))
@pytest.mark.parametrize("fact", FACTS)
def test_a_lie_of_any_source_against_any_other_is_found(fact: str, of_a_liar: int) -> None:
    """Each source lies, and so many others are honest: another one for each liar, as far as there are any."""
    sayings = [*FACTS[fact].sources]
    turned = {liar: sayings[place + 1 :] + sayings[:place] for place, liar in enumerate(sayings)}
    pairs = [(a, b) for a in turned for b in [b for b in turned[a] if comparable(FACTS[fact], a, b)][:of_a_liar]]
    assert pairs
    for liar, honest in pairs:
        found = set()
        for truth in lies(fact):
            files = [file(LETTERS[liar], truth), file(LETTERS[honest], Truth())]
            facts = {accusation[1] for accusation in accused(examine(files))}
            assert facts <= follows(fact), (liar, honest, truth)
            found |= facts
        assert fact in found, f"{liar} lies about it, {honest} does not"


@together("fact", FACTS)
def test_a_contradiction_names_who_says_what_and_where(fact: str) -> None:
    liar, honest = (LETTERS[letter] for letter in list(FACTS[fact].sources)[1::-1])
    files = [file(liar, lies(fact)[0]), file(honest, Truth())]
    told, *_ = (c for c in examine(files).audit.contradictions if c.fact == fact)
    letters = [KINDS[stated.kind].letter for stated in told.stated]
    assert letters == sorted(letters, key=list(FACTS[fact].sources).index)
    # An ad whose global id is of another number is no record of the same job: it contradicts itself.
    assert {stated.kind for stated in told.stated} == ({liar} if fact == "number" else {liar, honest})
    for stated in told.stated:
        (source,) = (one for one in files if one.path == stated.file)
        assert 1 <= stated.line <= source.data.count(b"\n")
        assert stated.value in told.words
    assert len({stated.value for stated in told.stated}) > 1


def test_one_lie_among_all_files_is_one_contradiction_with_all_that_contradict_it() -> None:
    files = [file(kind, Truth(exit="code 1") if kind == "history" else Truth()) for kind in FILES]
    (found,) = examine(files).audit.contradictions
    assert (found.thing, found.fact, found.run) == ("7.0", "exit", 2)
    assert {s.kind: s.value for s in found.stated} == {
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
    assert found.words.endswith("; code 1 in the job history")
    assert "code 0 in alice-job.log and the pool-wide EventLog and" in found.words


# -- What is no contradiction ------------------------------------------------------------------------------------------


def test_a_number_that_is_used_again_is_another_job() -> None:
    second = Truth(user="bob@pool", group="physics.bob", matched="physics.bob@pool", exit="code 7", holds=0, starts=1)
    later = 100_000

    def both(kind: str) -> File:
        if kind in ("queue", "accountant", "startlog"):  # these would have to be one table, and one daemon's life
            return file(kind, Truth())
        path, write = FILES[kind]
        moved = evolve(
            second, **{n: getattr(second, n) + later for n in ("born", "submitted", "placed1", "began1", "stopped1")}
        )
        moved = evolve(moved, **{n: getattr(second, n) + later for n in ("placed", "began", "ended")})
        text = write(Truth()) + re.sub(r"^008 .*\n\.\.\.\n", "", write(moved))
        return File(path, kind, text.encode())

    kinds = [kind for kind in FILES if kind not in ("machine_ads", "submitter_ads", "job_ads")]
    assert accused(examine(both(kind) for kind in kinds)) == []


@pytest.mark.parametrize(("address", "found"), [(b"10.0.0.2", []), (b"10.0.0.1", [("7.0", "submitter")])])
def test_two_access_points_may_ask_one_negotiator_for_the_same_number(
    address: bytes, found: list[tuple[str, str]]
) -> None:
    """Only the address of the access point tells the jobs apart."""
    bob = Truth(group="physics.bob", matched="physics.bob@pool", submitted=3, placed1=160, placed=2300)
    files = []
    for kind in ("negotiatorlog", "matchlog"):
        other = file(kind, bob)
        files += [file(kind, Truth()), other._replace(data=other.data.replace(b"10.0.0.1", address))]
    assert accused(examine(files)) == found


def test_two_access_points_may_use_the_same_number_at_one_time() -> None:
    """What names its access point is compared with its like; a log that fits both is not."""
    files = []
    for kind in ("history", "epochs", "job_ads", "eventlog"):
        files.append(file(kind, Truth()))
        other = file(kind, Truth(user="bob@pool", exit="code 9", holds=0))
        files.append(other._replace(data=other.data.replace(b"submit#", b"second#").replace(b"10.0.0.1", b"10.0.0.2")))
    assert accused(examine(files)) == []


@st.composite
def truths(draw: st.DrawFn) -> Truth:
    """What may have happened: all instants in order, from a second to minutes apart."""
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
@given(truths(), st.data())
def test_honest_files_are_never_accused_whatever_they_lack(truth: Truth, data: st.DataObject) -> None:
    accuse_nobody(truth, data)


@pytest.mark.soak
@settings(max_examples=SOAK_EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(truths(), st.data())
def test_many_honest_files_are_never_accused(truth: Truth, data: st.DataObject) -> None:
    accuse_nobody(truth, data)


def accuse_nobody(truth: Truth, data: st.DataObject) -> None:
    files = []
    for kind in data.draw(st.lists(st.sampled_from(sorted(FILES)), min_size=2, unique=True)):
        if kind in ("machine_ads", "job_ads") and truth.became == "removed":
            continue
        whole = file(kind, truth)
        if kind == "machine_ads" and not truth.placed + 5 < 2500 < truth.ended - 5:
            continue  # nothing ran when it was asked
        lines = whole.data.splitlines(keepends=True)
        begin = data.draw(st.integers(0, len(lines) // 2)) if kind in _LOGS else 0
        end = data.draw(st.integers(begin, len(lines))) if kind in _LOGS | _ANY_PART else len(lines)
        kept = lines[begin:end]
        if kind in _LOGS and data.draw(st.booleans()):
            between = [0, *(n for n, line in enumerate(kept, 1) if kind not in _OF_ENTRIES or line == b"...\n")]
            first, last = sorted(data.draw(st.tuples(st.sampled_from(between), st.sampled_from(between))))
            kept = [*kept[:first], b"## trimmed here\n", *kept[last:]]
        files.append(whole._replace(data=b"".join(kept)))
    found = examine(files).audit
    assert found.contradictions == []
    assert found.violations == []


def test_an_event_log_that_was_copied_before_a_user_s_log_lacks_nothing() -> None:
    truth = Truth(holds=2, placed1=91, began1=92)
    files = {kind: file(kind, truth) for kind in ("eventlog", "userlog", "startlog", "accountant")}
    until_evicted = {kind: files[kind].data.partition(b"004 (007")[0] for kind in ("eventlog", "userlog")}
    evicted = files["userlog"].data[len(until_evicted["userlog"]) :].partition(b"...\n")[0] + b"...\n"
    files["eventlog"] = files["eventlog"]._replace(data=until_evicted["eventlog"])
    files["userlog"] = files["userlog"]._replace(data=until_evicted["userlog"] + evicted)
    assert examine([*files.values()]).audit.violations == []


_ODD = st.one_of(
    st.binary(max_size=30),
    st.sampled_from([b"99999999999999999999", b"-1", b"nan", b"1e999", b"undefined", b'"', b"\n", b"7.0", b"\x00"]),
)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(HONEST), st.floats(0, 1), st.integers(0, 12), _ODD), max_size=12))
def test_no_rubbish_in_the_files_stops_the_judge(edits: list[tuple[File, float, int, bytes]]) -> None:
    files = {one.kind: one for one in HONEST}
    for one, where, gone, odd in edits:
        data = files[one.kind].data
        begin = int(where * len(data))
        files[one.kind] = one._replace(data=data[:begin] + odd + data[begin + gone :])
    for found in examine(files.values()).audit.contradictions:
        assert found.fact in FACTS
        assert len(found.stated) > 1


# -- What one source says twice ----------------------------------------------------------------------------------------


def test_a_job_that_stands_in_a_history_twice_is_found() -> None:
    one = file("history", Truth())
    again = one._replace(data=one.data * 2)
    (found,) = examine([again]).audit.violations
    assert (found.thing, found.rule) == ("7.0", "history_twice")
    assert (found.file, found.line) == ("history", one.data.count(b"\n") + 1)
    assert len(found.story) == 2
    assert found.rule in RULES
    assert accused(examine([one, one._replace(path="history.ads")])) == []


@pytest.mark.parametrize("kind", ["epochs", "startd_history"])
def test_the_end_of_a_run_that_is_told_twice_is_found(kind: str) -> None:
    one = file(kind, Truth())
    whole = re.findall(r"(?:.*\n)*?\*\*\*.*\n", one.data.decode())
    for again in (
        whole[-1],
        whole[-1].replace("slot2@", "slot3@"),
        whole[-1].replace(f"{BEGIN + 3000}", f"{BEGIN + 3500}"),
    ):
        (found,) = examine([one._replace(data=one.data + again.encode())]).audit.violations
        assert (found.thing, found.rule) == ("7.0", "run_twice")
        assert (found.file, found.line) == (one.path, one.data.count(b"\n") + 1)
        assert len(found.story) == 2
        assert found.rule in RULES
    assert accused(examine([one, one._replace(path="copy")])) == []


def test_an_end_that_an_orphaned_shadow_writes_again_is_reported_and_no_violation() -> None:
    one = file("epochs", Truth())
    last = re.findall(r"(?:.*\n)*?\*\*\*.*\n", one.data.decode())[-1]
    again = re.sub(r"(?m)^(EpochWriteDate = \d+)$", r"\1\nTerminationPending = true", last)
    audit = examine([one._replace(data=one.data + again.encode())]).audit
    assert audit.violations == []
    assert [(found.thing, found.rule) for found in audit.repeated] == [("7.0", "repeated")]


def test_a_job_that_leaves_the_queue_twice_is_found() -> None:
    one = file("queue", Truth())
    gone = b"102 7.0\n"
    (found,) = examine([one._replace(data=one.data.replace(gone, gone * 2))]).audit.violations
    assert (found.thing, found.rule, len(found.story)) == ("7.0", "gone_twice", 1)
    (found,) = examine([one._replace(data=one.data + gone)]).audit.violations
    assert (found.thing, found.rule, found.line) == ("7.0", "gone_twice", one.data.count(b"\n") + 1)
    assert found.rule in RULES
    assert len(found.story) == 2


@pytest.mark.parametrize("kind", ["epochs", "startd_history"])
def test_two_jobs_at_once_under_one_claim_are_found(kind: str) -> None:
    one = file(kind, Truth())
    other = one.data.replace(b"ClusterId = 7", b"ClusterId = 8").replace(b"#7.0#", b"#8.0#")
    (first, second) = examine([one._replace(data=one.data + other)]).audit.violations
    assert first.rule == second.rule == "claim_twice"
    assert first.rule in RULES
    assert "jobs 7.0 and 8.0" in first.words
    later = file(kind, evolve(Truth(), placed1=501, began1=502, stopped1=600, placed=3001, began=3002, ended=3100))
    moved = later.data.replace(b"ClusterId = 7", b"ClusterId = 8").replace(b"#7.0#", b"#8.0#")
    assert accused(examine([one._replace(data=one.data + moved)])) == []


# -- Recorded runs -----------------------------------------------------------------------------------------------------


@cache
def recorded(run: str) -> tuple[File, ...]:
    found = []
    for path in sorted(filter(Path.is_file, (TRACES / run).iterdir())):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        name = path.name.removesuffix(".gz")
        kind = kind_of(name, data[: 1 << 16])
        if kind is not None:
            found.append(File(name, kind, data))
    return tuple(found)


RUNS = sorted(path.name for path in TRACES.iterdir() if path.is_dir())


@pytest.mark.parametrize("run", some(RUNS, 8))
def test_a_recorded_run_contradicts_itself_nowhere(run: str) -> None:
    found = examine(recorded(run)).audit
    assert found.contradictions == []
    assert found.violations == []


# An attribute of the history's ads, what stands there instead, and the fact of which that is a lie.
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
def test_a_figure_that_is_changed_in_a_recorded_history_is_found_for_every_job(
    run: str, pattern: str, edit: Callable[[str], object], fact: str
) -> None:
    jobs: set[str] = set()

    def changed(ad: str) -> str:
        found = re.search(pattern, ad, re.MULTILINE)
        completed = re.search(r"^JobStatus = 4$", ad, re.MULTILINE)
        if found is None or completed is None:
            return ad
        cluster, proc = (re.search(rf"^{name} = (\d+)$", ad, re.MULTILINE) for name in ("ClusterId", "ProcId"))
        assert cluster is not None
        assert proc is not None
        jobs.add(f"{cluster[1]}.{proc[1]}")
        line = f"{found[0].partition(' = ')[0]} = {edit(found[1])}"
        return ad[: found.start()] + line + ad[found.end() :]

    files = []
    for one in recorded(run):
        if one.kind == "history":
            text = "\n\n".join(changed(ad) for ad in one.data.decode().split("\n\n"))
            one = one._replace(data=text.encode())
        if one.kind in ("history", "eventlog"):
            files.append(one)
    found = examine(files).audit.contradictions
    assert len(jobs) >= 5
    assert {told.thing for told in found if told.fact == fact} == jobs


# -- The page ----------------------------------------------------------------------------------------------------------


def test_the_page_shows_the_facts_as_they_are_compared() -> None:
    assert fill(PAGE) == PAGE, "docs/import.md is out of date: run python docs/generate.py"
    assert fill(PAGE.replace("NumJobStarts", "NumShadowStarts")) == PAGE
    with pytest.raises(ValueError, match="each section once: see fact, facts"):
        fill(PAGE.replace("drawn: facts", "drawn: fact"))
