"""condor_qsub: submit a script like qsub of SGE and PBS. Source of options and messages: HTCondor's script."""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from typing import Final, NamedTuple

from ..bounded_text import read_input, read_text
from ..condor_tools.options import data_text
from ..condor_tools.tool_options import ToolEnded, usage_of
from .submit import submitted_by_tool

_SHORT: Final = "A:a:b:c:d:e:f:hi:Ij:l:m:M:N:o:p:q:r:S:t:v:VW:z"
_LONG: Final = ("condor-keep-files", "cwd", "help", "hold_jid=", "print", "shell=", "test", "verbose", "version", "wd=")
_UNSUPPORTED: Final = {
    "I": "jobs have no terminal yet",
    "verbose": "-print -test shows the submit file",
    "c": "HTCondor no longer has the standard universe, so it cannot checkpoint jobs",
}
_IN_SCRIPT: Final = re.compile(r"#\$ (.*)")
_IN_FILE: Final = re.compile(r"#(?:PBS|\$) (.*)")
_WHOLE_JOB: Final = 3153600000  #: seconds of deferral_window, as in HTCondor's script: 100 years


class _QsubRequest(NamedTuple):
    """The parsed command line: the last value of each option, and the command."""

    options: dict[str, str]
    resources: tuple[str, ...]  #: the values of -l
    staged: tuple[str, ...]  #: the values of -W
    words: tuple[str, ...]

    def first_value(self, *names: str) -> str:
        return next((self.options[name] for name in names if name in self.options), "")

    def has_any_option(self, *names: str) -> bool:
        return any(name in self.options for name in names)


def qsub(argv: Sequence[str]) -> int:
    arguments = " ".join(argv).split()  # HTCondor's script also splits them
    if arguments[:1] == ["-f"]:
        arguments = [*arguments[1:], *_script_options(arguments[1] if arguments[1:] else "", _IN_FILE)]
    request = _parse_options(arguments)
    if request.has_any_option("help"):
        raise ToolEnded(0, out=usage_of("qsub"))
    if request.has_any_option("version"):
        raise ToolEnded(0, out=data_text("tools", "qsub_version"))
    for name, reason in _UNSUPPORTED.items():
        if request.has_any_option(name):
            raise ToolEnded(1, f"condor_qsub: -{name} is not supported: {reason}\n")
    request = _with_script_options(request if request.words else _save_input_as_script(request))
    name = request.first_value("N") or os.path.basename(request.words[0])
    held_jobs = _unfinished_dependencies(request.first_value("hold_jid"))
    text = "\n".join([f"# condor_qsub call: {' '.join(argv)}", *_description(request, name, held_jobs)]) + "\n"
    cluster = "0"
    if not request.has_any_option("test"):
        cluster = _submit_description(text)
        if held_jobs:
            _submit_description(_sentinel_description(held_jobs, cluster))
    elif request.has_any_option("print"):
        print(text)
    if not request.has_any_option("z"):
        print(f'Your job {cluster} ("{name}") has been submitted')
    return 0


def _parse_options(arguments: Sequence[str]) -> _QsubRequest:
    """Parse words like ``getopt -a``: long options may also start with a single dash. Raise ``ToolEnded`` on errors."""
    options, resources, staged_files, remaining = dict[str, str](), list[str](), list[str](), list(arguments)
    plain_words = list[str]()
    while remaining:
        word = remaining.pop(0)
        if word == "--":
            plain_words += remaining
            break
        if not word.startswith("-") or word == "-":
            plain_words.append(word)  # options may also follow the command, unless -- precedes it
            continue
        name, value = _option_and_value(word, remaining)
        if name == "l":
            resources += value.split(",")
        elif name == "W":
            staged_files.append(value)
        options[name] = value
    return _QsubRequest(options, tuple(resources), tuple(staged_files), tuple(plain_words))


def _option_and_value(word: str, remaining: list[str]) -> tuple[str, str]:
    option_name, equals, value = word.lstrip("-").partition("=")
    long_names = [name for name in _LONG if name.rstrip("=").startswith(option_name)]
    exact_names = [name for name in long_names if name.rstrip("=") == option_name]
    is_short = not word.startswith("--") and word[1] in _SHORT.replace(":", "")
    if exact_names or (long_names and len(word) > 2) or not is_short:
        if len(exact_names or long_names) != 1:
            raise ToolEnded(1, f"condor_qsub: unrecognized option '{word}'\n")
        (name,) = exact_names or long_names
        if name.endswith("=") and not equals:
            if not remaining:
                raise ToolEnded(1, f"condor_qsub: option '{word}' requires an argument\n")
            value = remaining.pop(0)
        return name.rstrip("="), value
    name, value = word[1], word[2:]
    if f"{name}:" not in _SHORT:
        if value:
            remaining.insert(0, f"-{value}")
        return name, ""
    if not value and not remaining:
        raise ToolEnded(1, f"condor_qsub: option requires an argument -- '{name}'\n")
    return name, value or remaining.pop(0)


def _script_options(path: str, form: re.Pattern[str]) -> list[str]:
    try:
        lines = read_text(path).splitlines()
    except OSError as problem:
        print(f"condor_qsub: {path}: {problem.strerror}", file=sys.stderr)
        return []
    return [word for line in lines if (match := form.match(line)) for word in match[1].split()]


def _with_script_options(request: _QsubRequest) -> _QsubRequest:
    """Return the request with the options in the script, which override those on the command line."""
    if request.first_value("b") == "y":
        return request
    script_request = _parse_options(_script_options(request.words[0], _IN_SCRIPT))
    resources, staged_files = (*request.resources, *script_request.resources), (*request.staged, *script_request.staged)
    return _QsubRequest({**request.options, **script_request.options}, resources, staged_files, request.words)


def _save_input_as_script(request: _QsubRequest) -> _QsubRequest:
    name = request.first_value("N")
    number, path = tempfile.mkstemp(prefix=f"{name or 'STDIN'}_qsub.", dir=os.getcwd())
    with os.fdopen(number, "w", errors="surrogateescape") as script:
        script.write(read_input())
    os.chmod(path, 0o700)
    return request._replace(words=(path,), options={"N": "STDIN", **request.options})


def _description(request: _QsubRequest, name: str, held_jobs: Sequence[str]) -> Iterator[str]:
    yield "universe = vanilla"
    yield "should_transfer_files = IF_NEEDED"
    shell = request.first_value("S") or os.environ.get("SHELL") or "/bin/sh"
    command = " ".join(request.words)
    yield f"executable = {shell}"
    yield f"arguments = \"-c '{command}'\"" if request.first_value("b") == "y" else f"arguments = {command}"
    if request.has_any_option("cwd"):
        yield f"initialdir = {os.getcwd()}"
    if folder := request.first_value("d", "wd"):
        yield f"initialdir = {folder}"
    output, error = (_stream_path(request.first_value(letter), name, letter) for letter in "oe")
    if {"o", "e"} <= set(request.first_value("j")):
        error = output = f"{name}.o$(Cluster)"
    yield f"error = {error}"
    yield f"output = {output}"
    for letter, form in _SIMPLE_OPTIONS:
        if request.first_value(letter):
            yield form.format(request.first_value(letter))
    if request.has_any_option("V"):
        yield "getenv = True"
    yield f"notification = {_notification(request.first_value('m'))}"
    yield f"priority = {request.first_value('p') or 0}"
    if held_jobs or request.has_any_option("h"):
        yield "hold = True"
    if request.first_value("a"):
        yield from _deferral_commands(request.first_value("a"))
    environment = list(_environment_pairs(request.first_value("v")))
    if environment:
        yield f'environment = "{" ".join(environment)}"'
    requirements = []
    if request.first_value("r")[:1].upper() == "N":
        yield "periodic_remove = ( JobStatus == 1 && NumJobStarts > 0)"
        requirements.append("( NumJobStarts == 0 )")
    for resource in request.resources:
        yield from _resource_commands(resource, requirements)
    if requirements:
        yield f"requirements = {' && '.join(requirements)}"
    yield from _staging_commands(request.staged)
    yield from _queue_lines(request, environment, output, error)


_SIMPLE_OPTIONS: Final = (("i", "input = {}"), ("M", "notify_user = {}"), ("A", '+AccountingGroup = "{}"'))
"""Options that correspond to one submit command, and the format of that command."""


def _stream_path(file: str, name: str, letter: str) -> str:
    default_path = f"{name}.{letter}$(Cluster)"
    return f"{file}/{default_path}" if file and os.path.isdir(file) else file or default_path


def _notification(letters: str) -> str:
    kinds = (("n", "Never"), ("e", "Complete"), ("a", "Error"))
    return next((kind for letter, kind in kinds if letter in letters), "Never")


def _environment_pairs(listed_variables: str) -> Iterator[str]:
    for variable in filter(None, listed_variables.split(",")):
        name, equals, value = variable.replace('"', '""').partition("=")
        value = value.replace("'", "''") if equals else "True"
        yield f"{name}='{value}'" if "'" in value else f"{name}={value}"


def _resource_commands(text: str, requirements: list[str]) -> Iterator[str]:
    """Yield the submit command for a resource of -l, or add its condition to the ``requirements``."""
    name, _, value = text.partition("=")
    attribute = {"arch": "Arch", "host": "Machine", "opsys": "OpSys"}.get(name)
    if attribute:
        requirements.append(f'{attribute} == "{value}"')
    elif name in ("file", "mem"):
        yield f"{'request_disk' if name == 'file' else 'request_memory'} = {value.upper()}"
    elif name == "procs":
        yield f"request_cpus = {value}"
    elif name == "nodes":
        yield from _node_commands(value)


def _node_commands(value: str) -> Iterator[str]:
    nodes, *properties = value.split(":")
    if "+" in value or not nodes.isdigit():
        fix = "use a single number of nodes, with or without ppn"
        raise ToolEnded(1, f"condor_qsub: -l nodes={value} is not supported: {fix}\n")
    cpus_per_node = next((int(item[4:]) for item in properties if re.fullmatch(r"ppn=[0-9]+", item)), 1)
    print(f"PPN Array: {cpus_per_node}")
    if int(nodes) * cpus_per_node > 1:
        yield f"request_cpus = {int(nodes) * cpus_per_node}"


def _deferral_commands(text: str) -> Iterator[str]:
    """Yield the commands that defer the job to the next such time, written as [[[[CC]YY]MM]DD]hhmm[.SS]."""
    from datetime import datetime, timedelta

    digits, _, seconds = text.partition(".")
    if not digits.isdigit() or len(digits) % 2 or not 4 <= len(digits) <= 12:
        print("Invalid Deferral Date. Incorrect lengths. Ignoring...")
        return
    now = datetime.now()
    date_prefix = f"{now:%Y%m%d}"[: 12 - len(digits)]
    try:
        then = datetime.strptime(date_prefix + digits + (seconds if len(seconds) == 2 else "00"), "%Y%m%d%H%M%S")
    except ValueError:
        print("Invalid Deferral Date. Incorrect values for date and/or time. Ignoring...")
        return
    if then < now and len(digits) == 4:
        then += timedelta(days=1)
    elif then < now and len(digits) == 6:
        then = then.replace(year=then.year + then.month // 12, month=then.month % 12 + 1)
    yield f"deferral_time = {int(then.timestamp())}"
    yield f"deferral_window = {_WHOLE_JOB}"
    yield "deferral_prep_time = 0"


def _staging_commands(staged_files: Sequence[str]) -> Iterator[str]:
    for text in staged_files:
        name, _, paths_text = text.partition("=")
        files = ",".join(file.partition(":")[2] or file for file in paths_text.replace("'", "").split(","))
        if name == "stagein":
            yield f"transfer_input_files = {files}"
        elif name == "stageout":
            yield from ("when_to_transfer_output = ON_EXIT", f"transfer_output_files = {files}")


def _queue_lines(request: _QsubRequest, environment: Sequence[str], output: str, error: str) -> Iterator[str]:
    if not request.first_value("t"):
        yield "Queue"
        return
    match = re.fullmatch(r"([0-9]+)(?:-([0-9]+)(?::([0-9]+))?)?", request.first_value("t"))
    if match is None:
        raise ToolEnded(1, f"condor_qsub: -t {request.first_value('t')}: use first-last:step\n")
    first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
    for task in range(first, last + 1, step):
        variables = (("ID", task), ("FIRST", first), ("STEPSIZE", step), ("LAST", last))
        yield f'environment = "{" ".join([*environment, *(f"SGE_TASK_{name}={value}" for name, value in variables)])}"'
        yield f"error = {error}.{task}"
        yield f"output = {output}.{task}"
        yield "Queue"


def _submit_description(text: str) -> str:
    """Submit a description and return the cluster's number. Raise ``ToolEnded`` if it is rejected."""

    with tempfile.NamedTemporaryFile("w", errors="surrogateescape", prefix="condor_qsub.") as file:
        file.write(text)
        file.flush()
        cluster = submitted_by_tool(file.name)
    if not cluster:
        raise ToolEnded(1, out="Job submission failed.\n")
    print(f"To monitor your job(s), run: condor_watch_q -clusters {cluster}", file=sys.stderr)
    return cluster


def _unfinished_dependencies(listed_jobs: str) -> list[str]:
    """Return the unfinished jobs of -hold_jid. Raise ``ToolEnded`` if a job failed, was removed, or is unknown."""
    held_jobs = []
    for job in filter(None, listed_jobs.split(",")):
        if _output_of("condor_q", job, "-af", "JobStatus"):
            held_jobs.append(job)
            continue
        statuses = _output_of("condor_history", job, "-af", "JobStatus", "ExitCode").splitlines()
        if not statuses:
            raise ToolEnded(1, out=f"Error: Job dependency {job} doesn't exist\n")
        if any(status.split()[0] == "3" for status in statuses):
            raise ToolEnded(1, out=f"Error: Job dependency {job} has been removed from the queue\n")
        if any(status.split()[1:] == ["100"] for status in statuses):
            raise ToolEnded(100, out=f"Error: Job dependency {job} completed but exited with code 100.\n")
    return held_jobs


def _output_of(*arguments: str) -> str:
    from .main import main

    output = io.StringIO()
    with redirect_stdout(output):
        main(arguments)
    return output.getvalue().strip()


def _sentinel_description(jobs: Sequence[str], held_job: str) -> str:
    """Return the submit description of the sentinel, a local universe job. It waits for the jobs and then releases the
    held job, or removes the held job if one of them failed (SGE: exit code 100) or was removed."""
    from .common import default_log
    from .tools import tools_folder

    log = default_log()
    log_path = log if "://" in log else os.path.abspath(log)
    path = f"{tools_folder()}:{os.environ.get('PATH', os.defpath)}"
    script = data_text("tools", "qsub_sentinel").format(jobs=" ".join(jobs), held=held_job)
    number, file = tempfile.mkstemp(prefix=f"cluster{held_job}_sentinel_description.")
    with os.fdopen(number, "w", errors="surrogateescape") as out:
        out.write(f'#!/bin/sh\nexport PATH={shlex.quote(path)} POOLBOOK_LOG={shlex.quote(log_path)}\nrm "$0"\n{script}')
    os.chmod(file, 0o700)
    return f"universe = local\nexecutable = {file}\nqueue\n"
