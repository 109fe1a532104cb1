"""Specification: the PSI/J executor behaves as PSI/J's own tests require. `psij_suite.sh` runs those tests."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from datetime import timedelta
from enum import Enum, Flag
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from psij import (
    InvalidJobException,
    Job,
    JobAttributes,
    JobExecutor,
    JobSpec,
    JobState,
    JobStatus,
    ResourceSpecV1,
    SubmitException,
)

from poolbook import Client, Pool
from poolbook.adapters.library.psij_script import NotStageable, script_of

from .real import PATIENCE, Folder

Wait = timedelta(seconds=PATIENCE)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = Folder(tmp_path_factory.mktemp("pool"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder.path))
        with folder.served("-cpus", "4", "-memory", "4096"):
            yield str(folder.path / "pool.db")
    folder.kill_everything()


@pytest.fixture
def executor(url: str) -> JobExecutor:
    return JobExecutor.get_instance("poolbook", url=url)


def run(executor: JobExecutor, executable: str, *arguments: str, **more: Any) -> tuple[Job, JobStatus]:
    """Run a job until its end."""
    job = Job(JobSpec(executable=executable, arguments=list(arguments), **more))
    executor.submit(job)
    status = job.wait(Wait)
    assert status is not None
    return job, status


def test_a_job_reads_and_writes_its_files_and_has_its_environment(executor: JobExecutor, tmp_path: Path) -> None:
    files = {f"{name}_path": tmp_path / name for name in ("stdin", "stdout", "stderr")}
    files["stdin_path"].write_text("input")
    command = "cat; echo -n $TEXT$NUMBER $PWD; echo -n bad >&2"
    environment = {"TEXT": "it's ", "NUMBER": 1}
    _, status = run(
        executor, "/bin/bash", "-c", command, environment=environment, directory=tmp_path, inherit_environment=False,
        **files,
    )  # fmt: skip
    assert (status.state, status.exit_code) == (JobState.COMPLETED, 0)
    assert files["stdout_path"].read_text() == f"inputit's 1 {tmp_path}"
    assert files["stderr_path"].read_text() == "bad"


@pytest.mark.parametrize(
    ("executable", "arguments", "code"),
    [("/bin/false", [], 1), ("/bin/sh", ["-c", "exit 7"], 7), ("/bin/no_such_file_or_directory", [], 127)],
)
def test_a_job_fails_with_the_exit_code_of_its_executable(
    executor: JobExecutor, executable: str, arguments: list[str], code: int
) -> None:
    _, status = run(executor, executable, *arguments)
    assert (status.state, status.exit_code) == (JobState.FAILED, code)
    assert (status.message or "").startswith(f"the job ended with code {code}")


def test_callbacks_see_the_states_in_order(executor: JobExecutor) -> None:
    states: list[JobState] = []
    executor.set_job_status_callback(lambda job, status: states.append(status.state))
    job, _ = run(executor, "/bin/true")
    names = ["QUEUED", "STAGE_IN", "ACTIVE", "STAGE_OUT", "CLEANUP", "COMPLETED"]
    assert states == [getattr(JobState, name) for name in names if hasattr(JobState, name)]
    assert (job.native_id or "").endswith(".0")


def test_a_running_job_and_a_waiting_job_can_be_canceled(executor: JobExecutor, url: str) -> None:
    running = Job(JobSpec(executable="/bin/sleep", arguments=["1000"]))
    waiting = Job(JobSpec(executable="/bin/sleep", attributes=JobAttributes(custom_attributes=NEVER)))
    for job in (running, waiting):
        executor.submit(job)
    assert running.wait(Wait, target_states=[JobState.ACTIVE]) is not None
    for job in (running, waiting):
        job.cancel()
        status = job.wait(Wait)
        assert status is not None and status.state == JobState.CANCELED
    running.cancel()
    executor.cancel(running)
    with Client(url) as client:
        assert client.wait(constraint="true", timeout=PATIENCE)


NEVER: dict[str, object] = {"poolbook.requirements": "false", "slurm.constraint": "ignored"}


def test_another_instance_attaches_to_jobs_that_wait_run_or_have_ended(executor: JobExecutor, url: str) -> None:
    running = Job(JobSpec(executable="/bin/sh", arguments=["-c", "while [ ! -e end ]; do sleep 0.05; done; exit 4"]))
    assert running.spec is not None
    running.spec.directory = Path(url).parent
    waiting = Job(JobSpec(executable="/bin/sleep", attributes=JobAttributes(custom_attributes=NEVER)))
    for job in (running, waiting):
        executor.submit(job)
    ended, _ = run(executor, "/bin/false")
    running.wait(Wait, target_states=[JobState.ACTIVE])
    other = JobExecutor.get_instance("poolbook", url=url)
    assert {running.native_id, waiting.native_id} == set(other.list())
    attached = [Job(), Job(), Job()]
    for job, native in zip(attached, (running, waiting, ended), strict=True):
        other.attach(job, native.native_id or "")
    assert [job.status.state for job in attached] == [JobState.ACTIVE, JobState.QUEUED, JobState.FAILED]
    (Path(url).parent / "end").touch()
    waiting.cancel()
    statuses = [job.wait(Wait) for job in attached]
    assert [status and status.state for status in statuses] == [JobState.FAILED, JobState.CANCELED, JobState.FAILED]
    assert [status and status.exit_code for status in statuses] == [4, None, 1]
    with pytest.raises(InvalidJobException, match=r"no job 99\.0"):
        other.attach(Job(), "99.0")
    with pytest.raises(InvalidJobException, match="NEW"):
        other.attach(attached[0], "1.0")


def test_resources_and_attributes_become_submit_commands(executor: JobExecutor, url: str, tmp_path: Path) -> None:
    output = tmp_path / "out"
    resources = ResourceSpecV1(process_count=2, cpu_cores_per_process=2)
    resources.memory = 100 * 1024**2
    attributes = JobAttributes(duration=timedelta(minutes=3), custom_attributes={"poolbook.priority": 4})
    command = "echo $(wc -l < $PSIJ_NODEFILE)"
    _, status = run(
        executor, "/bin/sh", "-c", command, resources=resources, attributes=attributes, launcher="multiple",
        stdout_path=output, name="a name",
    )  # fmt: skip
    assert status.state == JobState.COMPLETED and output.read_text() == "2\n2\n"
    with Client(url) as client:
        (ad,) = client.history('JobBatchName == "a name"')
    names = ("RequestCpus", "RequestMemory", "JobPrio", "AllowedExecuteDuration", "JobBatchName")
    assert [ad[name] for name in names] == [4, 100, 4, 180, "a name"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (JobSpec("/bin/date", resources=ResourceSpecV1(node_count=2)), "one slot"),
        (JobSpec("/bin/date", resources=ResourceSpecV1(exclusive_node_use=True)), "exclusive"),
        (JobSpec("/bin/date", attributes=JobAttributes(queue_name="long")), "queue_name"),
        (JobSpec("/bin/date", attributes=JobAttributes(reservation_id="r1")), "reservation_id"),
        (JobSpec(), "no executable"),
    ],
)
def test_what_a_pool_cannot_do_is_an_invalid_job(executor: JobExecutor, spec: JobSpec, message: str) -> None:
    with pytest.raises(InvalidJobException) as caught:
        executor.submit(Job(spec))
    assert message in caught.value.message
    assert executor.list() == []


def test_a_rejected_submission_is_a_submit_exception(executor: JobExecutor) -> None:
    attributes = JobAttributes(custom_attributes={"poolbook.request_memory": "plenty of"})
    with pytest.raises(SubmitException) as caught:
        executor.submit(Job(JobSpec("/bin/date", attributes=attributes)))
    assert "request_memory" in caught.value.message


def test_a_held_job_fails_and_is_removed(executor: JobExecutor, url: str) -> None:
    job = Job(JobSpec(executable="/bin/sleep", arguments=["1000"]))
    executor.submit(job)
    native_id = job.native_id or ""
    with Client(url) as client:
        client.hold(native_id, reason="wrong input")
        status = job.wait(Wait)
        assert status is not None and status.state == JobState.FAILED
        assert (status.message or "").startswith("the job was held: wrong input")
        assert client.wait(native_id, timeout=PATIENCE)


def test_jobs_fail_when_their_pool_cannot_be_read(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder.path))
    monkeypatch.setenv("POOLBOOK_LOG", str(folder.path / "pool.db"))
    Pool.open(folder.path / "pool.db").close()
    executor: Any = JobExecutor.get_instance("poolbook")
    job = Job(JobSpec("/bin/date"))
    executor.submit(job)
    executor._client.close()
    status = job.wait(Wait)
    assert status is not None and status.state == JobState.FAILED and "cannot be followed" in (status.message or "")


class Mode(Enum):
    COPY = 1
    LINK = 2
    MOVE = 3


class Flags(Flag):
    NONE = 0
    IF_PRESENT = 1
    ON_SUCCESS = 2
    ON_ERROR = 4
    ALWAYS = 6


def located(path: Path | str, scheme: str = "", hostname: str | None = None) -> SimpleNamespace:
    return SimpleNamespace(path=str(path), scheme=scheme, hostname=hostname)


def specification(directory: Path, **more: Any) -> Any:
    """Return a job specification as PSI/J 0.10 has it, with the files to stage."""
    return SimpleNamespace(directory=directory, environment={}, inherit_environment=True, **more)


@pytest.mark.parametrize("mode", Mode)
def test_files_and_directories_are_staged_in(mode: Mode, tmp_path: Path) -> None:
    (tmp_path / "in'put").write_text("A")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("B")
    job = tmp_path / "job"
    job.mkdir()
    spec = specification(job, stage_in=[
        SimpleNamespace(source=located(tmp_path / "in'put"), target="sub/a", mode=mode),
        SimpleNamespace(source=located(tmp_path / "folder", "file", "localhost"), target="b", mode=mode),
    ])  # fmt: skip
    result = subprocess.run(
        ["bash"], input=script_of(spec, ["cat", "sub/a", "b/file"], 1), text=True, capture_output=True
    )
    assert (result.returncode, result.stdout) == (0, "AB"), result.stderr
    assert (tmp_path / "in'put").exists() == (mode is not Mode.MOVE) and (job / "b").is_symlink() == (mode is Mode.LINK)


@pytest.mark.parametrize(
    ("flags", "code", "staged"),
    [
        (Flags.ALWAYS, 0, True), (Flags.ALWAYS, 3, True), (Flags.ON_SUCCESS, 0, True), (Flags.ON_SUCCESS, 3, False),
        (Flags.ON_ERROR, 0, False), (Flags.ON_ERROR, 3, True),
    ],
)  # fmt: skip
def test_files_are_staged_out_and_cleaned_up_after_the_ends_that_their_flags_name(
    flags: Flags, code: int, staged: bool, tmp_path: Path
) -> None:
    targets = [tmp_path / "copies" / "out", tmp_path / "copies" / "missing"]
    spec = specification(
        tmp_path, cleanup=["out"], cleanup_flags=flags,
        stage_out=[
            SimpleNamespace(source="out", target=located(targets[0]), mode=Mode.COPY, flags=flags),
            SimpleNamespace(
                source="missing", target=located(targets[1]), mode=Mode.COPY, flags=flags | Flags.IF_PRESENT
            ),
        ],
    )  # fmt: skip
    script = script_of(spec, ["sh", "-c", f"echo result > out; exit {code}"], 1)
    assert subprocess.run(["bash"], input=script, text=True).returncode == code
    assert (targets[0].exists(), targets[1].exists()) == (staged, False)
    assert (tmp_path / "out").exists() is not staged


def test_files_that_cannot_be_staged_are_errors(tmp_path: Path) -> None:
    missing = SimpleNamespace(source=located("/missing/file"), target="a", mode=Mode.COPY)
    script = script_of(specification(tmp_path, stage_in=[missing]), ["true"], 1)
    result = subprocess.run(["bash"], input=script, text=True, capture_output=True)
    assert (result.returncode, result.stderr) == (121, "the file to stage does not exist: /missing/file\n")
    remote = SimpleNamespace(source=located("/file", "https", "example.org"), target="a", mode=Mode.COPY)
    with pytest.raises(NotStageable, match="by path"):
        script_of(specification(tmp_path, stage_in=[remote]), ["true"], 1)
    with pytest.raises(NotStageable, match="outside"):
        script_of(specification(tmp_path, cleanup=["../other"], cleanup_flags=Flags.ALWAYS), ["true"], 1)
