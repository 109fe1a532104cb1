"""The shell script of a PSI/J job: its directory and environment, its launcher, and the staging of its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from psij import JobSpec

_FUNCTIONS: Final = """\
set -e
fail() { echo "$1" >&2; exit 121; }
stage() {
    [ -e "$1" ] || fail "the file to stage does not exist: $1"
    if [ -d "$2" ] && [ ! -d "$1" ]; then fail "the target of staging is a directory: $2"; fi
    mkdir -p "$(dirname "$2")"
    case "$3" in
        COPY) cp -r -T "$1" "$2";;
        LINK) rm -f "$2"; ln -s "$(readlink -m "$1")" "$2";;
        MOVE) mv -T -f "$1" "$2";;
    esac || fail "$1 cannot be staged to $2"
}
"""
"""The exit code of failed staging is that of PSI/J's own executors."""
_IF_PRESENT: Final = "IF_PRESENT"


class NotStageable(ValueError):
    """A file to stage is on another host, or needs a protocol."""


def script_of(spec: JobSpec, command: Sequence[str], processes: int) -> str:
    """Return the script that runs a launcher's command. Raise `NotStageable`."""
    return "\n".join([_FUNCTIONS, *_lines(spec, command, processes)]) + "\n"


def _lines(spec: JobSpec, command: Sequence[str], processes: int) -> Iterator[str]:
    if spec.directory is not None:
        yield f"cd {quote(str(spec.directory))}"
    for stage_in in _each(spec, "stage_in"):
        yield _stage(_local_path(stage_in.source), str(stage_in.target), stage_in.mode.name)
    environment: Mapping[str, Any] = spec.environment or {}
    variables = [f"{name}={value}" for name, value in environment.items()]
    if processes > 1:
        yield "nodes=$(mktemp); trap 'rm -f \"$nodes\"' EXIT"
        yield f'for process in $(seq {processes}); do hostname; done > "$nodes"'
    yield "set +e"
    reset = [] if spec.inherit_environment else ["-i"]
    nodes = ' PSIJ_NODEFILE="$nodes"' if processes > 1 else ""
    yield f"{join(['env', *reset, *variables])}{nodes} {join(command)}"
    yield "code=$?"
    yield "set -e"
    for stage_out in _each(spec, "stage_out"):
        line = _stage(str(stage_out.source), _local_path(stage_out.target), stage_out.mode.name)
        if _IF_PRESENT in _names(stage_out.flags):
            line = f"[ ! -e {quote(str(stage_out.source))} ] || {line}"
        yield from _conditional(stage_out.flags, line)
    for path in _each(spec, "cleanup"):
        directory = Path(spec.directory or ".").resolve()
        if not (directory / path).resolve().is_relative_to(directory):
            raise NotStageable(f"{path} is outside the job's directory {directory}, so it cannot be cleaned up")
        yield from _conditional(getattr(spec, "cleanup_flags", None), f"rm -rf {quote(str(path))}")
    yield 'exit "$code"'


def _each(spec: JobSpec, name: str) -> Sequence[Any]:
    """Return what a specification lists under a name; versions of PSI/J before 0.10 stage no files."""
    return list(getattr(spec, name, None) or ())


def _stage(source: str, target: str, mode: str) -> str:
    return f"stage {quote(source)} {quote(target)} {mode}"


def _local_path(uri: Any) -> str:
    if uri.scheme not in ("", None, "file") or uri.hostname not in ("", None, "localhost"):
        raise NotStageable(f"{uri} cannot be staged: files are staged by path; use transfer_input_files for URLs")
    return str(uri.path)


def _conditional(flags: Any, line: str) -> Iterator[str]:
    """Yield a line that runs only after the ends of the job that the flags name."""
    names = _names(flags)
    tests = {"ON_SUCCESS": '[ "$code" = 0 ]', "ON_ERROR": '[ "$code" != 0 ]'}
    conditions = [test for name, test in tests.items() if name in names]
    if conditions:
        yield line if len(conditions) == 2 else f"if {conditions[0]}; then {line}; fi"


def _names(flags: Any) -> set[str]:
    return {flag.name for flag in type(flags) if flag.value and flag.value & flags.value == flag.value}
