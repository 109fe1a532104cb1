"""README and docs are correct: their examples run and print the output shown."""

from __future__ import annotations

import asyncio
import doctest
import inspect
import os
import re
import shlex
import shutil
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest

import poolbook

from . import forked

ROOT = Path(__file__).parent.parent
COMMAND = "import sys; from poolbook.adapters.cli.main import main; sys.exit(main(sys.argv[1:]))"


@pytest.mark.parametrize(("page", "least"), [("classads", 20), ("library", 12), ("testing", 12)])
def test_the_examples_of_a_page_print_the_output_shown(page: str, least: int) -> None:
    path = ROOT / "docs" / f"{page}.md"
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    failures, tried = doctest.testfile(str(path), module_relative=False, optionflags=flags, verbose=False)
    assert tried >= least
    assert failures == 0


@pytest.fixture(scope="module")
def finished_log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of a pool's log with two jobs that have completed."""
    path = str(tmp_path_factory.mktemp("log") / "pool.db")
    with poolbook.Pool.open(path, user="alice", uid_domain="example.org", behave=ten_minutes) as pool:
        pool.add_machine("node1", cpus=4, memory=8192)
        pool.submit({"executable": "/bin/work"}, count=2)
        pool.run()
    return path


def ten_minutes(launch: poolbook.Launch) -> poolbook.Behaviour:
    return poolbook.Behaviour(seconds=600)


RUN_JOBS = {"Executor", "JobFailed"}
"""The names whose examples run jobs."""


@contextmanager
def executing_pool(folder: Path) -> Iterator[dict[str, object]]:
    """Yield a pool that executes jobs, and an executor on it."""
    with poolbook.Pool.open(folder / "jobs.db", execute=True) as pool:
        pool.add_machine(cpus=4, memory="4 GB")
        with poolbook.Executor(pool) as executor:
            yield {"pool": pool, "executor": executor}


def documented_members(name: str) -> Iterator[tuple[str, object]]:
    """Yield an exported name and, for a class, its public methods; asyncio classes have the same docstrings."""
    exported = getattr(poolbook, name)
    yield name, exported
    if isinstance(exported, type) and not name.startswith("Async"):
        for member in dir(exported):
            if not member.startswith("_"):
                yield f"{name}.{member}", getattr(exported, member)


@pytest.mark.parametrize("name", ["poolbook", *sorted(set(poolbook.__all__) - {"__version__"})])
def test_examples_in_docstrings_of_exported_names_are_true(
    name: str, finished_log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "condor").mkdir()
    shutil.copy(finished_log, "pool.db")
    members = [(name, poolbook)] if name == "poolbook" else list(documented_members(name))
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
    names = {public: getattr(poolbook, public) for public in poolbook.__all__}
    executing: AbstractContextManager[dict[str, object]] = (
        executing_pool(tmp_path) if name in RUN_JOBS else nullcontext({})
    )
    with executing as things_of_jobs:
        run_examples(members, names, things_of_jobs, runner)
    assert runner.failures == 0


def run_examples(
    members: Iterable[tuple[str, object]],
    names: dict[str, object],
    things_of_jobs: dict[str, object],
    runner: doctest.DocTestRunner,
) -> None:
    """Run the examples of an exported name and its members, each with a new pool, log and client."""
    for title, member in members:
        examples = doctest.DocTestParser().get_doctest(inspect.getdoc(member) or "", names, title, None, None)
        assert examples.examples or "." in title, "its docstring shows no call"
        if not examples.examples:
            continue
        with (
            poolbook.Pool.open(user="alice", uid_domain="example.org", behave=ten_minutes) as pool,
            poolbook.Log.open("pool.db") as log,
            poolbook.Client("pool.db") as client,
            warnings.catch_warnings(),
        ):
            pool.add_machine("node1", cpus=4, memory=8192)
            pool.submit({"executable": "/bin/work", "request_memory": "2 GB"}, count=6)
            things = {"pool": pool, "log": log, "client": client, **things_of_jobs}
            examples.globs |= {"asyncio": asyncio, "os": os, "warnings": warnings, "url": "memory:", **things}
            runner.run(examples)


def example(*arguments: str) -> str:
    return forked.run(arguments, env={**os.environ, "PYTHONPATH": str(ROOT / ".path")}, cwd=ROOT, check=True).stdout


def test_the_example_that_embeds_a_pool_runs() -> None:
    assert example("docs/examples/embed.py").splitlines() == [
        "just submitted: [(0, 2), (1, 2), (2, 2), (3, 2), (4, 1), (5, 1)]",
        "after 11 minutes: [(4, 2), (5, 5)]",
        "at the end: [(0, 0), (1, 1), (2, 0), (3, 1), (4, 0), (5, 1)]",
        "alice used {'alice@example.org': 3600.0}",
    ]


def test_the_example_that_audits_a_log_runs() -> None:
    lines = example("docs/examples/audit.py").splitlines()
    assert lines[0] == "jobs ended: 3 slot transitions: 19"
    assert lines[1] == "events that no rule allowed: []"
    assert any("root asked for slot1_1@node1 to be vacated" in line for line in lines)


def test_the_example_that_follows_a_log_runs() -> None:
    assert example("docs/examples/follow.py").splitlines() == [
        "1.0 starts on slot1_1@node1",
        "1.0 is evicted",
        "1.0 starts on slot1_1@node1",
        "1.0 ends with code 0",
        "1.1 starts on slot1_1@node1",
        "1.1 ends with code 0",
    ]


def test_the_example_of_a_property_test_passes() -> None:
    assert "1 passed" in example("-m", "pytest", "-q", "-p", "no:cacheprovider", "docs/examples/test_policy.py")


def test_the_example_that_matches_a_job_runs() -> None:
    assert "slots match; the best is" in example("docs/examples/match.py")


def test_make_run_prints_the_output_in_the_readme(tmp_path: Path) -> None:
    log = str(tmp_path / "pool.db")
    output = example(
        *("-c", COMMAND, "run", "docs/examples/pi.sub", "here=docs/examples", f"results={tmp_path}"),
        *("darts=10000", "-log", log, "-quiet"),
    )
    readme = (ROOT / "README.md").read_text()
    (head,) = [line for line in output.splitlines() if line.startswith("ID ")]
    assert head in readme
    assert len([line for line in output.splitlines() if line.startswith("1.") and " completed " in line]) == 24
    for purpose in ("explain what happened to this job", "list the jobs that have left the queue"):
        assert purpose in output and purpose in readme
    files = [str(path) for path in sorted(tmp_path.glob("pi.*.out"))]
    result = example("docs/examples/pi.py", "--sum", *files)
    assert re.fullmatch(r"pi is about 3\.1\d{4}, by 24 jobs of 10,000 darts each\n", result)
    assert "sound" in example("-c", COMMAND, "verify", "-log", log)


def test_the_readmes_program_prints_the_output_in_its_comment() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (comment,) = re.findall(r"#\s*(\[.*)", program)
    assert example("-c", program).strip() == comment.strip()


def test_the_scenario_on_the_pages_is_the_example_and_has_the_described_result() -> None:
    name = "docs/examples/desktop.play"
    assert "`poolbook play desktop.play`" in (ROOT / "README.md").read_text()
    assert f"```\n{(ROOT / name).read_text()}```\n" in (ROOT / "docs" / "play.md").read_text()
    output = example("-c", COMMAND, "play", name)
    assert "14       Claimed/Busy -> Claimed/Suspended" in output
    assert output.splitlines()[-1] == "jobs: 1 submitted, 2 started, 1 evicted"


def test_the_commands_on_the_pages_show_the_described_configuration(tmp_path: Path) -> None:
    file = tmp_path / "desktop.conf"
    file.write_text("use POLICY : Desktop\n")
    page = (ROOT / "docs" / "configuration.md").read_text()
    shown_settings = [re.split(r"\s{2,}", line)[0] for line in page.splitlines() if line.startswith("poolbook config")]
    assert len(shown_settings) == 8
    assert "`poolbook config -verbose START`" in (ROOT / "README.md").read_text()
    for line in shown_settings:
        output = example("-c", COMMAND, *shlex.split(line)[1:], "-config", str(file))
        assert output, line
        assert "-verbose" not in line or "use POLICY:DESKTOP+" in output
        assert not line.endswith(" START") or "KeyboardIdle" in output or "-raw" in line


def test_links_between_the_pages_have_targets() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


NAMED = re.compile(r"`{1,2}((?:domain|projections|replay|adapters|tests|docs)/[\w./-]*\w)`{1,2}")
TEXTS = [
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *(path for room in ("domain", "projections", "replay", "adapters") for path in (ROOT / room).rglob("*.py")),
]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("`domain/events/` is a folder", "domain/events"),
        ("see ``replay/listing``", "replay/listing"),
        ("`tests/golden/make.py`", "tests/golden/make.py"),
        ("`machine/NAME`", None),
    ],
)
def test_paths_in_a_text_are_recognized(text: str, named: str | None) -> None:
    assert [name.rstrip("/") for name in NAMED.findall(text.replace("/`", "`"))] == ([named] if named else [])


def test_files_and_folders_that_pages_and_code_name_exist() -> None:
    missing = [
        f"{text.relative_to(ROOT)}: {name}"
        for text in TEXTS
        for name in NAMED.findall(text.read_text(encoding="utf-8").replace("/`", "`"))
        if not (ROOT / name).exists() and not (ROOT / f"{name}.py").exists()
    ]
    assert missing == []
